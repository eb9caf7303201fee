"""Authority: who may approve a run, or what else is asked for, roll a run back, or leave accepted rows in place of one.

An approval is checked when it is given, and again in the transaction that publishes. The stricter of two policies
applies: the one that the manifest pinned and the one that is declared now. The groups of approvers are read from
`approvers.yaml` in the reference folder at that moment.

Besides runs and sets, acts on versions of a table are approved, captures where the policy of the source says so, and
replays to live topics. What is approved are the tables of an act, the positions of a capture, or the inputs and the
topic of a replay, in the ledger, which never change. That history is there does not say that it may be replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar, cast

from backfill_assets.core.errors import BackfillError, InvalidReference, MissingInput, NotApproved
from backfill_assets.core.people import ApproverNotAPerson, require_person, same_name
from backfill_assets.domain import DerivedTable, Table, Tolerance
from backfill_assets.domain.safeguards import safeguards_of
from backfill_assets.gates.judge import is_tolerated
from backfill_assets.ledger.approvals import another_person
from backfill_assets.ledger.candidates import gates_of
from backfill_assets.ledger.captures import CaptureRecord
from backfill_assets.ledger.errors import NeedsAnother
from backfill_assets.ledger.findings import BreakdownCell, GateResult, RowChanges
from backfill_assets.ledger.records import ApprovalGrounds, ReplayRecord, RunRecord
from backfill_assets.ledger.requests import AskedRecord
from backfill_assets.ledger.states import EVER_PUBLISHED, VISIBLE, ApprovalState, RequestKind, RunState
from backfill_assets.ledger.table_acts import ActRecord
from backfill_assets.ledger.transactions import ReadTransaction, WriteTransaction
from backfill_assets.planning.kinds.expire import EXPIRE
from backfill_assets.planning.manifest_parts import NEVER_PUBLISHED, CauseKind
from backfill_assets.planning.safeguards import (
    LEAVE,
    NO_PERMIT,
    Agreed,
    AgreedTerms,
    Cause,
    Demand,
    Policy,
    Safeguard,
    demand,
)
from backfill_assets.requests.approvers import WHO_APPROVES, Approvers
from backfill_assets.requests.errors import (
    Groups,
    NoListOfApprovers,
    NotAgreed,
    NotAmongApprovers,
    NotTolerated,
    ToApprove,
)
from backfill_assets.requests.verdict import brings_back_what_was_recorded
from backfill_assets.transforms.references import LoadedReference, archive, file_name, load_reference
from backfill_assets.workspace import Workspace

P = ParamSpec("P")
T = TypeVar("T")


_read: ContextVar[LoadedReference | BackfillError | None] = ContextVar("approvers_that_were_read", default=None)


@contextmanager
def approvers_read(ws: Workspace) -> Iterator[None]:
    """Reads the file of approvers before a block: a place that answers slowly keeps no transaction waiting.

    A file that cannot be read is an error where a person has to be in a group.
    """
    found: LoadedReference | BackfillError
    try:
        found = load_reference(WHO_APPROVES, ws.reference_files)
    except BackfillError as error:
        found = error
    token = _read.set(found)
    try:
        yield
    finally:
        _read.reset(token)


def reads_approvers(act: Callable[Concatenate[Workspace, P], T]) -> Callable[Concatenate[Workspace, P], T]:
    """The act, before which the file of approvers is read."""

    @wraps(act)
    def with_approvers(ws: Workspace, /, *given: P.args, **named: P.kwargs) -> T:
        with approvers_read(ws):
            return act(ws, *given, **named)

    return with_approvers


def demand_of(ws: Workspace, tx: ReadTransaction, run: RunRecord) -> Demand:
    """The approval that publication of a run requires: the strictest of the pinned, the declared and the last agreed
    policy.

    What was rolled back is not published again without a person, nor what its gates demand a comment on.
    """
    return demands_of(ws, tx, [run])[run.run_id]


def demands_of(ws: Workspace, tx: ReadTransaction, runs: Collection[RunRecord]) -> Mapping[str, Demand]:
    """The demands of several runs, by run; reads the terms last agreed to for a table once."""
    tables = {run.manifest.table: ws.domain.table(run.manifest.table) for run in runs}
    standing = {name: standing_of(ws, tx, name) for name in tables}
    found: dict[str, Demand] = {}
    for run in runs:
        manifest, table = run.manifest, tables[run.manifest.table]
        asked = standing[table.name].demand(_cause(ws, tx, run, table), manifest.terms, permit=manifest.change.permits)
        comment_on = gates_of(open_comments(tx, run))
        needs_a_person = bool(comment_on) or _needs_a_person(tx, run, table)
        found[run.run_id] = replace(asked, comment_on=comment_on, policy=None if needs_a_person else asked.policy)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The terms of a table that count besides what was pinned: the declared and the last agreed policies and
    safeguards."""

    #: The policy of the table, and of the name whose readers are shown it; none of what is not declared.
    declared: tuple[Policy, ...]
    agreed: tuple[Policy, ...]  #: The policies that were last agreed to, of both.
    safeguards: tuple[Safeguard, ...]  #: Of the table, as declared.
    last: Agreed  #: What was last agreed to for the table.
    #: True if it is a version that its readers were never shown: its author may change it until they are cut over to
    #: it, which takes the approval of what was loosened.
    is_unseen: bool

    def demand(self, cause: Cause, pinned: AgreedTerms, *, permit: AbstractSet[str] = NO_PERMIT) -> Demand:
        """The approval that a run requires which was planned under these terms.

        Args:
            permit: As of `Agreed.loosened_for_runs`.
        """
        declared = (self.safeguards, *([pinned.safeguards] if pinned.safeguards else []))
        return demand(
            cause,
            counting=(pinned.policy, *self.declared),
            agreed=self.agreed,
            loosened=() if self.is_unseen else self.last.loosened_for_runs(*declared, permit=permit),
            surely=self.last.surely_loosened_by(*declared),
        )

    @property
    def loosened(self) -> tuple[str, ...]:
        """The safeguards that are declared more loosely than was last agreed to."""
        return self.last.loosened_by(self.safeguards)


def standing_of(ws: Workspace, tx: ReadTransaction, name: str) -> Standing:
    """The terms that were last agreed to for a table: the only place that decides this.

    A table that is not declared any more, or again under another name, keeps what was agreed to for its rows.
    """
    table, shown_for = ws.domain.tables.get(name), tx.acts.names_shown(name)
    declared = [each.policy for each in map(ws.domain.tables.get, (name, *shown_for)) if each is not None]
    last = tx.agreements.of(name)
    of_names = [policy for each in shown_for for policy in tx.agreements.of(each).policies]
    of = table.version_of if isinstance(table, DerivedTable) else None
    return Standing(
        declared=tuple(declared),
        agreed=tuple(dict.fromkeys((*last.policies, *of_names))),
        safeguards=() if table is None else safeguards_of(table, ws.code.gate_digests(table), ws.known_now(table)),
        last=last,
        # A table that was published as something else has readers of its own.
        is_unseen=of is not None and name not in tx.acts.were_shown(of) and last.was_version_of(of),
    )


def _cause(ws: Workspace, tx: ReadTransaction, run: RunRecord, table: Table) -> Cause:
    """The rule that counts: that of LIVE only for days after every one that the table ever had, and that of follow-ups
    only where nothing but inputs differs from what accepted rows were computed with."""
    manifest = run.manifest
    match manifest.cause.kind:
        case CauseKind.FOLLOW_UP:
            is_open = run.state not in (*EVER_PUBLISHED, RunState.CANCELLED)
            return "backfill" if is_open and _brings_more_than_inputs(ws, tx, run, table) else "follow"
        case CauseKind.LIVE:
            if run.state in EVER_PUBLISHED:
                return "live"
            newest = tx.versions.newest(manifest.table)
            return "live" if newest is None or min(manifest.partitions) > newest else "backfill"
        case CauseKind.PERSON:
            return "repair" if brings_back_what_was_recorded(tx, run) else "backfill"


def _brings_more_than_inputs(ws: Workspace, tx: ReadTransaction, run: RunRecord, table: Table) -> bool:
    """True if accepted rows that a follow-up replaces were computed with other references, code or settings.

    The present ones are compared, and the run must have been planned with these. What cannot be read is not known.
    """
    if not isinstance(table, DerivedTable):
        return False
    # Only of open follow-ups: most of what is shown needs no rule of staleness.
    from backfill_assets.staleness.find import changed_otherwise, stale_partitions

    pinned = {each.name: each.sha256 for each in run.manifest.references}
    try:
        if pinned != {name: ws.references[name].pinned.sha256 for name in table.references}:
            return True
        # Rows that another release computes equally today, without an approval, are no approval of that release.
        return bool(changed_otherwise(stale_partitions(ws, tx, table, run.manifest.partitions, agreed=True)))
    except (MissingInput, InvalidReference):
        return True


def _needs_a_person(tx: ReadTransaction, run: RunRecord, table: Table) -> bool:
    """True if no policy can approve: one of several runs, one that was rolled back, or a follow-up by another release
    than the present one."""
    manifest = run.manifest
    if not run.is_alone or run.state is RunState.ROLLED_BACK:
        return True
    if manifest.cause.kind is CauseKind.LIVE:
        return bool(tx.versions.undone_last(table.name, manifest.partitions))
    return manifest.cause.kind is CauseKind.FOLLOW_UP and manifest.transform_version != _version(table)


def _version(table: Table) -> str | None:
    return table.version if isinstance(table, DerivedTable) else None


def _grounds(ws: Workspace, loaded: LoadedReference, groups: Groups, person: str) -> ApprovalGrounds:
    archive([loaded], ws.reference_archive)
    approvers = cast(Approvers, loaded.value)
    named = [group for some in groups for group in some]
    own = sorted(group for group in approvers.groups_of(person) if _is_among(group, named))
    return ApprovalGrounds(groups=tuple(own), approvers_version=approvers.version, approvers_sha256=loaded.sha256)


def _is_among(group: str, groups: Iterable[str]) -> bool:
    return any(same_name(group, each) for each in groups)


def rollback_grounds(ws: Workspace, tx: ReadTransaction, runs: Iterable[RunRecord], by: str) -> ApprovalGrounds | None:
    """Why a person may roll runs back: whoever may approve them, a requester too; None when anybody may.

    A rollback takes one person, because it brings back what was approved before and has to be quick.
    """
    found = [grounds for run in runs if (grounds := _rollback_grounds(ws, tx, run, by)) is not None]
    groups = {group for grounds in found for group in grounds.groups}
    return replace(found[0], groups=tuple(sorted(groups))) if found else None


def _rollback_grounds(ws: Workspace, tx: ReadTransaction, run: RunRecord, by: str) -> ApprovalGrounds | None:
    groups = standing_of(ws, tx, run.manifest.table).demand("backfill", run.manifest.terms).groups
    return _grounds(ws, _require_member_of(ws, run, groups, by, "roll back"), groups, by) if groups else None


def grounds_to_set(ws: Workspace, tx: ReadTransaction, table: str, by: str) -> ApprovalGrounds | None:
    """Why a person may set a table to what the ledger holds: whoever may approve its runs; None when anybody may."""
    groups, subject = demand_to_ask(ws, tx, table).groups, {"kind": "table", "name": table}
    return _grounds(ws, require_member(ws, subject, table, groups, by, "set"), groups, by) if groups else None


def tolerance_met(ws: Workspace, tx: ReadTransaction, run: RunRecord) -> Tolerance | None:
    """The tolerance of a table within which a gated run changes the accepted rows; None where it declares none, or the
    run changes more of them, or adds partitions."""
    table = ws.domain.tables.get(run.manifest.table)
    tolerance = table.tolerance if isinstance(table, DerivedTable) else None
    is_pilot = run.manifest.change.scope is not None
    if tolerance is None or is_pilot or run.state is not RunState.PASSED or run.manifest.mode in NEVER_PUBLISHED:
        return None
    cells, changes = tx.samples.latest(run.run_id, BreakdownCell), tx.samples.latest(run.run_id, RowChanges)
    return tolerance if is_tolerated(tolerance, cells, changes) else None


def grounds_to_leave(
    ws: Workspace, tx: ReadTransaction, runs: Iterable[RunRecord], by: str
) -> Mapping[str, ApprovalGrounds]:
    """Why a person may leave the accepted rows as they are, by the runs that found others.

    Raises:
        Refused: A run moves rows further than its table tolerates, or was compared with other rows.
        NotApproved: The person is no member of the group that owns a table.
    """
    require_person("the one who accepts the difference", by)
    found: dict[str, ApprovalGrounds] = {}
    for run in runs:
        staged = tx.candidates.of_run(run.run_id)
        if staged and all(each.compared_checksum == each.checksum for each in staged.values()):
            continue
        table, is_lost = run.manifest.table, any(each.replaces_lost for each in staged.values())
        tolerance = None if is_lost else tolerance_met(ws, tx, run)
        if tolerance is None:
            why = "it declares no tolerance, the run has not passed its gates, adds rows for lost ones, or changes more"
            raise NotTolerated(run_id=run.run_id, table=table, why=why)
        accepted = tx.versions.accepted(table, staged)
        if moved := [
            p for p, each in staged.items() if p not in accepted or accepted[p].version != each.compared_version
        ]:
            why = f"{moved[0]} was compared with rows that are no longer accepted"
            raise NotTolerated(run_id=run.run_id, table=table, why=why)
        groups = ((tolerance.owner,), *_to_loosen_tolerance(ws, tx, run, by))
        found[run.run_id] = _grounds(ws, _require_member_of(ws, run, groups, by, "leave"), groups, by)
    return found


def _to_loosen_tolerance(ws: Workspace, tx: ReadTransaction, run: RunRecord, by: str) -> Groups:
    """The groups of which a person has to be a member as well where the tolerance is looser than was last agreed to:
    then they need to be a person who could approve the run."""
    standing = standing_of(ws, tx, run.manifest.table)
    if LEAVE not in standing.loosened:
        return ()
    if same_name(by, run.manifest.requested_by):
        raise NeedsAnother(**_subject(run), why=f"requested by {run.manifest.requested_by}", as_well=" as well")
    return standing.demand("backfill", run.manifest.terms).groups


def _require_may_approve(ws: Workspace, run: RunRecord, asked: Demand, approver: str) -> LoadedReference | None:
    """Refuses an unauthorized approver; returns the file of approvers, or None if any person but the requester may."""
    require_person("the approver", approver, ApproverNotAPerson)
    if same_name(approver, run.manifest.requested_by):
        raise NeedsAnother(**_subject(run), why=f"requested by {run.manifest.requested_by}", as_well=" as well")
    return _require_member_of(ws, run, asked.groups, approver, "approve") if asked.groups else None


def _subject(run: RunRecord) -> Mapping[str, str]:
    """What is approved with a run."""
    return {"kind": RequestKind.of_id(run.request_id), "name": run.request_id}


def _require_member_of(ws: Workspace, run: RunRecord, groups: Groups, person: str, act: ToApprove) -> LoadedReference:
    return require_member(ws, _subject(run), run.manifest.table, groups, person, act)


def require_member(
    ws: Workspace,
    subject: Mapping[str, str],
    table: str,
    groups: Groups,
    person: str,
    act: ToApprove,
) -> LoadedReference:
    """Refuses a person who is not in one group of each of those that are asked for; returns the file of approvers."""
    file = str(ws.settings.reference / file_name(WHO_APPROVES))
    loaded = _read.get()
    try:
        if loaded is None:
            loaded = load_reference(WHO_APPROVES, ws.reference_files)
        elif isinstance(loaded, BackfillError):
            raise loaded
    except MissingInput as error:
        raise NoListOfApprovers(table=table, groups=groups, file=file) from error
    approvers = cast(Approvers, loaded.value)
    own = approvers.groups_of(person)
    if not all(any(_is_among(group, each) for group in own) for each in groups):
        raise NotAmongApprovers(
            **subject,
            act=act,
            table=table,
            groups=groups,
            people={name: approvers.members_of(name) for names in groups for name in names},
            person=person,
            file=file,
            version=approvers.version,
        )
    return loaded


def require_agreed(ws: Workspace, run: RunRecord, asked: Demand, *, alone: bool = False) -> None:
    """Refuses a run without an approval that is valid now.

    Args:
        alone: Whether a run of a set is approved by itself.

    Raises:
        NotApproved: There is no approval, or it was given by an unauthorized person.
    """
    if asked.policy is not None:
        return
    manifest, subject = run.manifest, {"kind": "run", "name": run.run_id} if alone else _subject(run)
    if run.approval is not ApprovalState.APPROVED or run.approved_by is None:
        raise NotAgreed(
            **subject,
            requester=manifest.requested_by,
            groups=asked.groups,
            loosened=asked.loosened,
            unsure=asked.unsure,
            comment_on=asked.comment_on,
        )
    of = {f"{subject['kind']}_id": subject["name"]}
    if asked.comment_on:
        raise NotApproved.coded(
            "comment_missing",
            "the approval of {kind} {name} by {approver} does not comment on what gates of {table} found since: "
            "{comment_on}.",
            then="[approve {name} by=ANOTHER_PERSON note=WHY]",
            approver=run.approved_by,
            table=manifest.table,
            comment_on=asked.comment_on,
            of=of,
            **subject,
        )
    try:
        _require_may_approve(ws, run, asked, run.approved_by)
    except NotApproved as error:
        raise NotApproved.coded(
            "approval_not_valid",
            "the approval of {kind} {name} by {approver} is not valid: {reason}",
            then="{following}",
            approver=run.approved_by,
            reason=error.message,
            following=error.next_step,
            of=of,
            **subject,
        ) from error


def has_valid_approval(ws: Workspace, run: RunRecord, asked: Demand) -> bool:
    """True if a run has an approval that is valid now."""
    try:
        require_agreed(ws, run, asked)
    except NotApproved:
        return False
    return run.approval is ApprovalState.APPROVED


def open_comments(tx: ReadTransaction, run: RunRecord) -> Sequence[GateResult]:
    """The gate results that a standing approval has not commented on; only gates that do not block ask for one."""
    if all(term.blocking for term in run.manifest.gates):
        return ()
    return (
        tx.candidates.unanswered(run.run_id)
        if run.approval is ApprovalState.APPROVED
        else tx.candidates.demanded(run.run_id)
    )


@reads_approvers
def approve(ws: Workspace, name: str, *, by: str, note: str, place: str = "") -> None:
    """Records that an authorized person agrees to exactly what was asked for; of a set, to every run of it.

    Args:
        ws: The workspace.
        name: The id of the run, set, act, capture or replay.
        by: The approver.
        note: The grounds of the approval, in their words.
        place: Where they agreed, when that is known.

    Raises:
        UnknownName: There is none of this id.
        NotApproved: The person is the requester, no person, or not in a group that the policy names.
        IllegalTransition: It is approved already, needs no approval, cannot be published any more, or has ended.
    """
    with ws.ledger.write() as tx:
        grounds: Mapping[str, ApprovalGrounds | None] = {}
        if RequestKind.of_id(name).has_runs:
            grounds = _grounds_to_approve(ws, tx, name, by)
        else:
            require_may_approve(ws, tx, tx.requests.asked(name), by)
        tx.requests.approve(name, by=by, note=note, place=place, grounds=grounds)


def _grounds_to_approve(
    ws: Workspace, tx: WriteTransaction, name: str, by: str
) -> Mapping[str, ApprovalGrounds | None]:
    """Why the person may approve the runs of a restatement, by run; those that readers see already are left out."""
    runs = tx.requests.agreed_with(name)
    return {run.run_id: renewed_grounds(ws, tx, run, by) for run in runs if run.state not in VISIBLE}


def renewed_grounds(ws: Workspace, tx: WriteTransaction, run: RunRecord, by: str) -> ApprovalGrounds | None:
    """Why the person may approve the run; one that is no longer valid is withdrawn to make room for theirs."""
    asked = demand_of(ws, tx, run)
    loaded = _require_may_approve(ws, run, asked, by)
    found = None if loaded is None else _grounds(ws, loaded, asked.groups, by)
    is_void = run.approval is ApprovalState.APPROVED and not has_valid_approval(ws, run, asked)
    if is_void and run.state not in VISIBLE:
        tx.requests.withdraw_approval(run.run_id, by=by, reason=f"the approval by {run.approved_by} is no longer valid")
    return found


def asked_demand(ws: Workspace, tx: ReadTransaction, record: AskedRecord) -> Demand:
    """The approval that an act, a capture or a replay requires now."""
    cause: Cause = "live" if isinstance(record, CaptureRecord) and record.is_live else "backfill"
    version, shown = (record.table, record.from_table) if isinstance(record, ActRecord) else (None, "")
    return demand_to_ask(ws, tx, _table_of(record), version=version, shown=shown, cause=cause, pinned=record.policy)


def demand_to_ask(
    ws: Workspace,
    tx: ReadTransaction,
    table: str,
    *,
    version: str | None = None,
    shown: str = "",
    cause: Cause = "backfill",
    pinned: Policy | None = None,
) -> Demand:
    """The approval that whatever concerns a table otherwise than by a run requires.

    Args:
        table: The table; of an act the name whose readers it concerns.
        version: Of an act, the version, whose safeguards count from when readers are cut over to it.
        shown: Of a cut-over, the table that readers are shown before it: what was agreed to for it counts for the
            version as well.
        cause: The rule that counts.
        pinned: The policy under which it was asked for; None before it is.
    """
    standing = [standing_of(ws, tx, each) for each in dict.fromkeys((table, version or table))]
    loosened: tuple[str, ...] = ()
    surely: frozenset[str] = frozenset()
    if version:
        now = standing[-1].safeguards
        own = standing[-1].last.loosened_by(now)
        loosened = tuple(name for name in own if name not in (EXPIRE, LEAVE))
        surely = standing[-1].last.surely_loosened_by(now)
        if shown:
            of_shown = tx.agreements.of(shown)
            loosened = tuple(dict.fromkeys((*loosened, *of_shown.loosened_by_version(now))))
            surely |= of_shown.surely_loosened_by(now)
    return demand(
        cause,
        counting=(*([pinned] if pinned else []), *(policy for each in standing for policy in each.declared)),
        agreed=tuple(policy for each in standing for policy in each.agreed),
        loosened=loosened,
        surely=surely,
    )


def require_may_approve(ws: Workspace, tx: ReadTransaction, record: AskedRecord, person: str) -> None:
    """Refuses a person who may not approve what was asked for.

    Raises:
        NotApproved: It is the requester, no person, or no member of the groups that the policies name.
    """
    match record:
        case ActRecord():
            kind, name = "act", record.act_id
        case CaptureRecord():
            kind, name = "capture", record.capture_id
        case ReplayRecord():
            kind, name = "replay", record.replay_id
    another_person(person, record.by, kind=kind, name=name)
    if groups := asked_demand(ws, tx, record).groups:
        require_member(ws, {"kind": kind, "name": name}, _table_of(record), groups, person, "approve what is asked for")


def _table_of(record: AskedRecord) -> str:
    """The table whose policy counts."""
    match record:
        case ActRecord():
            return record.name
        case CaptureRecord():
            return record.source
        case ReplayRecord():
            return record.table
