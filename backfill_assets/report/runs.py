"""Documents of runs and restatement sets: their state and next step."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from backfill_assets.calendar.partitions import Grain, Partitions, count_of
from backfill_assets.core.errors import Interrupted, Problem
from backfill_assets.core.next_steps import NAME, Command, NextStep, do, read_first, step
from backfill_assets.core.people import POLICY
from backfill_assets.ledger.publications import StandingPublication
from backfill_assets.ledger.records import ApprovalGrounds, PublicationHeader, RunHeader, RunRecord, SetRecord
from backfill_assets.ledger.sets import versions_of
from backfill_assets.ledger.states import (
    EVER_PUBLISHED,
    EVER_VISIBLE,
    NOT_MEASURED,
    NOT_STAGED,
    ApprovalState,
    RunState,
    SetState,
)
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import NEVER_PUBLISHED, ChangedReference, Mode
from backfill_assets.planning.sets import is_set
from backfill_assets.report.documents import INLINE
from backfill_assets.report.errors import RunInterrupted
from backfill_assets.report.measured import GateSummary, gate_summaries
from backfill_assets.report.page import (
    Facts,
    Note,
    Page,
    Section,
    Tone,
    Toned,
    Value,
    facts,
    page,
    run_ref,
    section,
    set_ref,
    several,
    table,
    words,
)
from backfill_assets.report.proposed import files_behind
from backfill_assets.report.releases import references_moved_on
from backfill_assets.report.values import as_sentence
from backfill_assets.report.what_next import next_step, next_step_of_set
from backfill_assets.report.words.plans import phase_words, references_described
from backfill_assets.report.words.states import changed_reference_words, meaning_of_run, meaning_of_set
from backfill_assets.requests.obstacles import FOR_ADVICE, Ends, Publishing, obstacles, outdated
from backfill_assets.requests.verdict import brings_back_what_was_recorded
from backfill_assets.staleness.landed_news import FileNews
from backfill_assets.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class WithdrawnApproval:
    """The approval of a run that a rollback withdrew, while no other has taken its place."""

    approved_by: str  #: Who had approved: a person, or a policy.
    rollback: PublicationHeader  #: The rollback.


@dataclass(frozen=True, slots=True, kw_only=True)
class InTheWay:
    """Something that stands in the way of publishing a run that has passed its gates, besides a missing approval."""

    why: str  #: What publication says.
    ends: Ends  #: What ends it.


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """One run, and where it stands."""

    record: RunRecord = field(metadata=INLINE)  #: The run.
    #: What a person can do next, by what publication would ask for now: an approval that is not valid any more needs a
    #: further one. Of a run of a set that has passed, what moves the set on. Null when there is nothing.
    next_step: NextStep | None
    ran_by: str | None = None  #: Who computed it last; null before it is staged.
    #: The approval that its last rollback withdrew, if it is not approved again; a run that is staged again after a
    #: rollback has a state that no longer shows it.
    withdrawn: WithdrawnApproval | None = None
    #: True if it is a repair whose rows are exactly those that were recorded, which needs no approval.
    brings_back: bool = False
    #: What the gates found that block it; empty for a run that is not blocked.
    blocked_by: tuple[GateSummary, ...] = ()
    #: What stands in the way of publishing it besides an approval; empty for a run that has not passed its gates.
    in_the_way: tuple[InTheWay, ...] = ()

    @property
    def manifest(self) -> Manifest:
        return self.record.manifest


def run_document(ws: Workspace, run_id: str) -> RunSummary:
    """Where a run stands."""
    with ws.ledger.read() as tx:
        return run_summary(ws, tx, tx.runs.get(run_id))


def run_summary(ws: Workspace, tx: ReadTransaction, run: RunRecord) -> RunSummary:
    """The summary of a run, inside an open transaction."""
    (summary,) = run_summaries(ws, tx, [run])
    return summary


def run_summaries(ws: Workspace, tx: ReadTransaction, runs: Sequence[RunRecord]) -> tuple[RunSummary, ...]:
    """Where runs stand."""
    ran_by = tx.events.ran_by(run.run_id for run in runs)
    withdrawn = withdrawn_approvals(tx, not_approved(runs))
    return tuple(
        RunSummary(
            record=run,
            next_step=next_step(ws, tx, run),
            ran_by=ran_by.get(run.run_id),
            withdrawn=withdrawn.get(run.run_id),
            brings_back=brings_back_what_was_recorded(tx, run),
            blocked_by=tuple(_blocking(tx, run)) if run.state is RunState.BLOCKED else (),
            in_the_way=tuple(_in_the_way(ws, tx, run)) if run.state is RunState.PASSED else (),
        )
        for run in runs
    )


def _blocking(tx: ReadTransaction, run: RunRecord) -> Iterator[GateSummary]:
    results = tx.candidates.gate_results(run.run_id)
    yield from (each for each in gate_summaries(run.manifest, results) if each.blocking and each.failed)


def _in_the_way(ws: Workspace, tx: ReadTransaction, run: RunRecord) -> Iterator[InTheWay]:
    if run.manifest.mode not in NEVER_PUBLISHED:
        for each in obstacles(Publishing(ws=ws, tx=tx, run=run), FOR_ADVICE, slow=False):
            if each.ends is not Ends.APPROVAL:
                yield InTheWay(why=each.error.message, ends=each.ends)


def not_approved(runs: Iterable[RunHeader]) -> Iterator[str]:
    """The runs that are not approved, by id."""
    yield from (run.run_id for run in runs if run.approval is not ApprovalState.APPROVED)


def withdrawn_approvals(tx: ReadTransaction, run_ids: Iterable[str]) -> Mapping[str, WithdrawnApproval]:
    """The approvals that the last rollbacks withdrew, for runs that are not approved."""
    found = tx.publications.rollbacks(run_ids)
    return {run_id: each for run_id, rollback in found.items() if (each := _withdrawn(tx, rollback)) is not None}


def _withdrawn(tx: ReadTransaction, rollback: PublicationHeader) -> WithdrawnApproval | None:
    events = tx.events.entries(entity_id=rollback.run_id, actions=["approved"])
    approvers = [event.actor for event in events if event.sequence < rollback.sequence]
    if not approvers:  # removed from the database, which an audit finds
        return None
    return WithdrawnApproval(approved_by=approvers[-1], rollback=rollback)


def interrupted(ws: Workspace, run_id: str) -> Interrupted:
    """The error of a command that was interrupted: staging and gating give their lease back, a swap may have landed."""
    with ws.ledger.read() as tx:
        run = tx.runs.get(run_id)
        following = next_step(ws, tx, run)
    if run.lease is not None:
        following = step(do(Command.RECOVER, run.run_id, now=True, by=NAME))
    elif run.state is RunState.PUBLISHING:
        following = step(do(Command.RECOVER, run.run_id))
    return RunInterrupted(run_id=run.run_id, state=run.state, following=following)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMember:
    """One run of a set."""

    run: RunSummary = field(metadata=INLINE)  #: The run.
    reached: RunState  #: Its state; of a cancelled run, that in which it was cancelled.
    changed_partitions: int | None  #: How many partitions its publication swapped; null before it.
    verified_partitions: int | None  #: How many it found equal and left as they are; null before it.
    #: What has to be staged again by `backfill run SET`, because what it was computed from was; null when nothing has
    #: to.
    outdated: Partitions | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDocument:
    """A restatement set, and how far it is."""

    record: SetRecord = field(metadata=INLINE)  #: The set.
    #: For a proposal, the landed files that decide rows of the changed days, in the order of arrival.
    changed_by: tuple[FileNews, ...]
    approved_by: str | None  #: Who approved it; null until every run is approved.
    versions: Mapping[str, int]  #: By table, the Delta version at which the set can be read as one.
    runs: tuple[SetMember, ...]  #: In the order of publication.
    next_step: NextStep | None  #: What moves it on; null when there is nothing to do.
    #: References that have changed since the runs were planned that can still be published; in the answer of `publish`,
    #: as it was before.
    changed_references: tuple[ChangedReference, ...] = ()

    @property
    def states(self) -> tuple[RunState, ...]:
        """The state of each of its runs."""
        return tuple(member.run.record.state for member in self.runs)

    @property
    def is_blocked(self) -> bool:
        """True if a blocking gate of one of its runs failed."""
        return RunState.BLOCKED in self.states


def restatement_document(ws: Workspace, name: str) -> RunSummary | SetDocument:
    """Where a restatement stands, or one of its runs."""
    return set_document(ws, name) if is_set(name) else run_document(ws, name)


def set_document(ws: Workspace, set_id: str) -> SetDocument:
    """Where a set stands."""
    with ws.ledger.read() as tx:
        return described_set(ws, tx, tx.sets.get(set_id))


def described_set(ws: Workspace, tx: ReadTransaction, record: SetRecord) -> SetDocument:
    """The description of a set, inside an open transaction."""
    members = tx.runs.of_request(record.set_id)
    landed = tx.publications.landed(member.run_id for member in members)
    return SetDocument(
        record=record,
        changed_by=files_behind(tx, record.manifest.proposed),
        approved_by=_approver(members),
        versions=versions_of(tx.publications, record),
        runs=tuple(_member(ws, tx, member, landed.get(member.run_id)) for member in members),
        next_step=next_step_of_set(ws, tx, record, members),
        changed_references=tuple(each for member in members for each in references_moved_on(ws, member)),
    )


def _approver(members: Sequence[RunRecord]) -> str | None:
    approved = [member.approved_by for member in members if member.approval is ApprovalState.APPROVED]
    return approved[0] if len(approved) == len(members) else None


def _member(ws: Workspace, tx: ReadTransaction, member: RunRecord, landing: StandingPublication | None) -> SetMember:
    return SetMember(
        run=run_summary(ws, tx, member),
        reached=tx.events.reached(member),
        changed_partitions=None if landing is None else landing.changed,
        verified_partitions=None if landing is None else landing.verified,
        outdated=outdated(Publishing(ws=ws, tx=tx, run=member)),
    )


# Runs and sets as facts: what they are, how far they are, who agreed, and what can be done next.

_TONES = {
    "PUBLISHED": Tone.GOOD,
    "PASSED": Tone.GOOD,
    "VERIFIED": Tone.GOOD,
    "ACCEPTED": Tone.GOOD,
    "APPROVED": Tone.GOOD,
    "LOADED": Tone.GOOD,
    "BLOCKED": Tone.BAD,
    "FAILED": Tone.BAD,
    "ROLLED_BACK": Tone.ATTENTION,
    "ROLLING_BACK": Tone.ATTENTION,
    "PUBLISHING": Tone.ATTENTION,
    "PARTLY_PUBLISHED": Tone.ATTENTION,
    "STAGING": Tone.ATTENTION,
    "GATING": Tone.ATTENTION,
}
_SPECIAL_MODES = {
    Mode.DRY_RUN: "DRY_RUN: staged and gated, never published",
    Mode.RECONCILIATION: "RECONCILIATION: recomputes published partitions, reports differences, publishes nothing",
}
_PASSED = (RunState.PASSED, RunState.PUBLISHING, *EVER_PUBLISHED, RunState.VERIFIED)
_OF_THE_PLAN = ": the plan, not its results, which are not measured yet; publication still waits for the gates"
_BEFORE_RESULTS = ": the plan, before its results were measured"
_NOT_NEEDED = "not needed: nothing changes"
_NOT_ASKED = "not needed: its rows are exactly those that were recorded"
_NOT_AGREED = "DRAFT: no other person has agreed yet"
_MOST_FILES = 40
_MOST_RUNS = 4


def state_of(name: str, meaning: str = "") -> Toned:
    """A state in the tone of what it means for readers."""
    return Toned(value=name, tone=_TONES.get(name, Tone.PLAIN), hint=meaning)


def run_facts(
    run: RunSummary, *, policy: str | None = None, grounds: ApprovalGrounds | None = None, following: bool = False
) -> Facts:
    """A run in a few lines.

    Args:
        following: Whether what can be done next is one of the lines.
    """
    at_work = run.record.lease
    return facts(
        ("run", run_ref(run.record.run_id)),
        ("state", state_of(run.record.state, meaning_of_run(run.record, brings_back=run.brings_back))),
        # The note of a blocked run names these gates, and no more.
        *([*several("blocked by", map(finding_text, run.blocked_by))] or [("note", run.record.note)]),
        *several("in the way", (each.why for each in run.in_the_way)),
        ("approval", _approval(run, grounds)),
        ("table", f"{run.record.table} by {run.manifest.transform} {run.manifest.transform_version}"),
        ("partitions", partitions_of(run)),
        ("no events", _declared_empty(run)),
        ("references", references_described(run.manifest.references)),
        ("kind", f"{run.record.kind}: {run.manifest.reason} (asked by {run.manifest.requested_by})"),
        ("run by", run.ran_by),
        ("mode", mode_text(run.record.mode)),
        ("policy", policy),
        ("set", None if run.record.is_alone else set_ref(run.record.request_id)),
        (
            "at work",
            words(f"{at_work.holder} ({at_work.machine}) since ", at_work.since_at, ", lease until ", at_work.until_at)
            if at_work
            else None,
        ),
        ("next", read_first(run.next_step) if following else None),
    )


def finding_text(gate: GateSummary) -> str:
    """The finding of a failed gate, in a line and without values of rows."""
    return f"{gate.gate}: {gate.outcome}, first {gate.first_failure}"


def approval(found: RunSummary | SetDocument) -> str:
    """The approval state of a run or a set in a list, in a word or two."""
    approved = found.record.approval is ApprovalState.APPROVED if isinstance(found, RunSummary) else found.approved_by
    if approved:
        return ApprovalState.APPROVED
    match found.record.state:
        case RunState.VERIFIED | SetState.VERIFIED:
            return "not needed"
        case RunState.ROLLED_BACK | SetState.ROLLED_BACK:
            return "withdrawn"
        case _:
            return "not needed" if isinstance(found, RunSummary) and found.brings_back else ApprovalState.DRAFT


def partitions_of(run: RunSummary) -> Value:
    """The partitions of a run; of a pilot with the rows that change in them."""
    scope = run.manifest.change.scope
    return run.manifest.output if scope is None else f"{run.manifest.output}, only rows of {scope}"


def _declared_empty(run: RunSummary) -> str | None:
    """The days on which nothing happened, and the person who says so."""
    days = run.manifest.change.declared_empty
    if not days:
        return None
    return f"{Partitions.of(Grain.DAILY, days)}: declared empty by {run.manifest.requested_by}"


def run_summary_page(run: RunSummary) -> Page:
    """The page of a command that acts on a run."""
    return page(words("Run ", run_ref(run.record.run_id)), run_facts(run, following=True))


def mode_text(mode: Mode) -> str | None:
    """A text on what a mode keeps a run from; None for those that are published."""
    return _SPECIAL_MODES.get(mode)


def run_ids(ids: Sequence[str]) -> str:
    """Some runs in a line."""
    more = len(ids) - _MOST_RUNS
    return ", ".join([*ids[:_MOST_RUNS], *([f"and {more:,} more, which the JSON has"] if more > 0 else [])])


def _approval(run: RunSummary, grounds: ApprovalGrounds | None) -> Value:
    """The approver, and the groups by which that person may approve."""
    if run.record.state is RunState.VERIFIED:
        return _NOT_NEEDED
    if run.withdrawn:
        undone, approved_by = run.withdrawn.rollback, run.withdrawn.approved_by
        withdrew = f" ({undone.reason}), which withdrew the approval by {approved_by}"
        return words(f"DRAFT: {undone.by} rolled the run back on ", undone.at, withdrew)
    if not run.record.approved_by:
        return _NOT_ASKED if run.brings_back else _NOT_AGREED
    groups = f", for {', '.join(grounds.groups)} (approvers.yaml {grounds.approvers_version})" if grounds else ""
    at = words(" on ", run.record.approved_at) if run.record.approved_at else ""
    return words(f"APPROVED by {run.record.approved_by}", at, groups, _of_the_plan([run.record]))


def _of_the_plan(runs: Collection[RunRecord]) -> str:
    """A note on the plan that was approved, where the approval is older than the results of a run."""
    if any(each.state in NOT_MEASURED for each in runs):
        return _OF_THE_PLAN
    return _BEFORE_RESULTS if any(map(_is_agreed_before_results, runs)) else ""


def _is_agreed_before_results(run: RunRecord) -> bool:
    """True if a person agreed before the gates measured what waits to be published; a policy agrees to no results."""
    if run.state not in (RunState.PASSED, RunState.BLOCKED) or run.approved_at is None:
        return False
    return run.approved_at < run.updated_at and not (run.approved_by or "").startswith(POLICY)


def set_facts(found: SetDocument, *, following: bool = False) -> Facts:
    """A set in a few lines, and the versions at which its tables can be read as one."""
    outdated = [f"{each.run.record.table} {each.outdated}" for each in found.runs if each.outdated]
    return facts(
        ("set", set_ref(found.record.set_id, found.record.manifest.name)),
        ("state", state_of(found.record.state, meaning_of_set(found.record.state, found.states))),
        *several(
            "blocked by",
            (f"{each.run.record.table}, {finding_text(gate)}" for each in found.runs for gate in each.run.blocked_by),
        ),
        ("note", found.record.note),
        ("because", found.record.manifest.because),
        ("reason", f"{found.record.manifest.reason} (asked by {found.record.manifest.requested_by})"),
        ("phases", phase_words(found.record.manifest.phases) if found.record.manifest.phases else None),
        ("approval", _approval_of_set(found)),
        ("done", progress_words(found)),
        ("outdated", f"{'; '.join(outdated)}: its inputs were staged again" if outdated else None),
        ("read it at", ", ".join(f"{name} version {version}" for name, version in found.versions.items())),
        ("next", read_first(found.next_step) if following else None),
    )


def _approval_of_set(found: SetDocument) -> str:
    if found.record.state is SetState.VERIFIED:
        return _NOT_NEEDED
    phases = found.record.manifest.phases
    if phases and phases.each and found.record.state is not SetState.ROLLED_BACK:
        agreed = sum(each.run.record.approval is ApprovalState.APPROVED for each in found.runs)
        are = "is" if agreed == 1 else "are"
        return f"{agreed} of {count_of(len(found.runs), 'phase')} {are} approved" if agreed else _NOT_AGREED
    if not found.approved_by:
        is_undone = found.record.state is SetState.ROLLED_BACK
        return "DRAFT: its rollback withdrew the approval" if is_undone else _NOT_AGREED
    return f"APPROVED by {found.approved_by}{_of_the_plan([each.run.record for each in found.runs])}"


def progress_words(found: SetDocument) -> str:
    """The number of runs of a set that are staged, have passed, are published, and were rolled back."""
    states, reached = found.states, [each.reached for each in found.runs]
    staged = sum(each not in NOT_STAGED for each in reached)
    passed = sum(each in _PASSED for each in reached)
    published = sum(each in EVER_VISIBLE for each in states)
    undone = states.count(RunState.ROLLED_BACK)
    back = f", {undone} rolled back" if undone else ""
    return f"{count_of(len(states), 'run')}: {staged} staged, {passed} passed, {published} published{back}"


def set_summary_page(found: SetDocument) -> Page:
    """The page of a command that acts on a set: its progress, run by run."""
    return page(
        words("Set ", set_ref(found.record.set_id, found.record.manifest.name)),
        *changed_reference_notes(found.changed_references),
        set_facts(found, following=True),
        set_files(found),
        set_runs(found),
    )


def changed_reference_notes(found: Iterable[ChangedReference]) -> Sequence[Note]:
    """Notes that references have changed since runs were planned with them."""
    return [Note(text=as_sentence(changed_reference_words(each)), tone=Tone.ATTENTION) for each in found]


def set_files(found: SetDocument) -> Section | None:
    """The landed files behind a proposed set."""
    counts = ["rows", "moved away", "withdrawn", "restored", "most days late"]
    rows = [
        (
            each.record.import_id,
            each.record.name,
            each.record.landed_by,
            f"{each.record.source} {each.days}",
            each.changed.rows,
            each.changed.moved_away,
            each.changed.taken_back,
            each.changed.restored,
            each.most_days_late,
        )
        for each in found.changed_by
    ]
    heads = ["import", "file", "landed by", "days", *counts]
    listed = table(heads, rows, numbers=counts, whole=["import"], most=_MOST_FILES)
    return section("Landed files that decide rows of the changed days", listed)


def set_runs(found: SetDocument) -> Section | None:
    """The runs of a set, in the order of publication."""
    rows = [
        (
            run_ref(each.run.record.run_id),
            each.run.record.table,
            partitions_of(each.run),
            state_of(each.run.record.state),
            each.changed_partitions,
            each.verified_partitions,
            each.outdated,
        )
        for each in found.runs
    ]
    heads = ["run", "table", "partitions", "state", "changed", "verified", "outdated"]
    return section(
        "Runs, in the order of publication",
        table(heads, rows, numbers=["changed", "verified"], whole=["run", "state"]),
    )


def problem_notes(problems: Sequence[Problem]) -> tuple[Note, ...]:
    """Notes on what could not be processed, why, and what to do about it."""
    found = ((str(each), each.error.next_step) for each in problems)
    return tuple(
        Note(text=words(what, " Next: ", following) if following else what, tone=Tone.BAD) for what, following in found
    )
