"""Obstacles: what stands in the way of publishing a restatement. The one answer to "may it be published?".

`REQUIREMENTS` is what publication requires of a run, in the order in which it asks. It is required of each run of a
restatement, after what is required of all together, before the first of them is published: what would stop a later
table stops all of it while nothing has changed. A requirement that is not met is an obstacle: the error that
publication raises, and what ends it. `publish` raises the first one in the transaction that writes the intent, so that
it still holds when the swap begins. Sensors wait for what ends without a change of the run, reviews warn of the rest,
and what a person is advised to do next follows from the same list.

Nothing is overwritten for a priority: when the other run is published, this one was compared with rows that are no
longer accepted, and is planned again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from functools import cached_property
from typing import Generic, TypeVar

from backfill_assets.calendar.partitions import Partitions
from backfill_assets.candidates.errors import StagedAgain
from backfill_assets.candidates.inputs import require_merged_with_present, require_read_as_staged
from backfill_assets.core.errors import BackfillError, Refused
from backfill_assets.core.identity import EMPTY_FILE_SET
from backfill_assets.domain import SourceTable
from backfill_assets.domain.operations import UnknownKeys
from backfill_assets.gates.agreed import gates_since
from backfill_assets.landing.days import pending_days
from backfill_assets.landing.imports import KnownSince, NotKnown, as_present_build, not_known
from backfill_assets.ledger.imports import ImportDay
from backfill_assets.ledger.records import Action, PublicationRecord, RunRecord, SetRecord
from backfill_assets.ledger.sets import held_until, next_phase
from backfill_assets.ledger.states import FINISHED, GATED, UNBLOCKED, VISIBLE, PublicationState, RunState, SetState
from backfill_assets.ledger.store import EVER_PUBLISHED
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import NEVER_PUBLISHED, KeysUnknown, Mode, PinnedInput, RunPurpose
from backfill_assets.planning.safeguards import Demand
from backfill_assets.requests.authority import demand_of, require_agreed
from backfill_assets.requests.errors import (
    AnotherPhaseFirst,
    AnotherUnderWay,
    ComesAfter,
    DeclaredSince,
    ExpiresOthers,
    Frozen,
    GatesNotPassed,
    InputsRolledBack,
    KeysNotKnown,
    NeverPublished,
    NoCandidate,
    NotPublishable,
    OlderInputs,
    OnlyAdds,
    PhaseHeld,
    ReadBeforeKnown,
    ReadByGateSince,
    ReadByOpenRun,
    SetIs,
    StoppedForGood,
    TableChanged,
)
from backfill_assets.requests.verdict import brings_back_what_was_recorded, has_recorded_rows, is_verified
from backfill_assets.workspace import Workspace


class Ends(StrEnum):
    """The event that ends an obstacle."""

    #: Time, or work that other runs have begun.
    WAITING = "waiting"
    #: The approval of a person who may give it.
    APPROVAL = "approval"
    #: The run is computed or measured again.
    RUN_AGAIN = "run again"
    #: The run is planned again: what is in its way is pinned in its manifest.
    PLAN_AGAIN = "plan again"
    #: Nothing.
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """A requirement that is not met."""

    #: What publication raises.
    error: BackfillError
    ends: Ends
    #: None for what stands in the way of all runs of a restatement together.
    run: RunRecord | None


@dataclass(frozen=True, kw_only=True)
class Publishing:
    """A run that somebody wants to publish, and the transaction in which that is decided."""

    ws: Workspace
    tx: ReadTransaction
    run: RunRecord

    @property
    def manifest(self) -> Manifest:
        return self.run.manifest

    @cached_property
    def demand(self) -> Demand:
        """The approval that the publication requires."""
        return demand_of(self.ws, self.tx, self.run)

    @cached_property
    def whole(self) -> SetRecord:
        """The restatement that the run is part of."""
        return self.tx.sets.of(self.run)

    @cached_property
    def under_way(self) -> Sequence[PublicationRecord]:
        """The publications that have begun and are not recorded yet."""
        return self.tx.publications.records(states=[PublicationState.PUBLISHING])

    @cached_property
    def staged(self) -> Mapping[date, str]:
        """The digests of what is staged, by partition."""
        return self.tx.candidates.digests(self.run.run_id)

    def partitions(self, some: Iterable[date]) -> Partitions:
        return Partitions.of(self.manifest.grain, some)


@dataclass(frozen=True, kw_only=True)
class PublishingRestatement:
    """A restatement to be published, and the transaction in which that is decided."""

    ws: Workspace
    tx: ReadTransaction
    record: SetRecord
    #: The phase that is meant; None for the next one.
    phase: str | None = None

    @cached_property
    def members(self) -> Sequence[RunRecord]:
        return self.tx.runs.of_request(self.record.set_id)

    @cached_property
    def due(self) -> Sequence[RunRecord]:
        """The runs that would be published now: all that are not yet, or of phases the next one."""
        if self.record.is_alone:
            return self.members
        if self.record.state in _OVER:
            return ()
        if self.record.manifest.phases is None:
            return [each for each in self.members if each.state is not RunState.PUBLISHED]
        following = next_phase(self.members)
        return [following] if following else []


_OVER = (SetState.PUBLISHED, SetState.VERIFIED, SetState.CANCELLED)

Asked = TypeVar("Asked", Publishing, PublishingRestatement)

Find = Callable[[Asked], BackfillError | None]
"""What is found in the way of a publication; an error that is raised is found as well."""


@dataclass(slots=True, kw_only=True)
class Requirement(Generic[Asked]):
    """Something that publication requires of a run, or of a set."""

    find: Find[Asked]
    ends: Ends
    #: It is only asked of runs that have passed their gates: others have another obstacle.
    of_gated: bool = False
    #: It reads much: it is asked before the transaction that writes, and in no list of many runs.
    is_slow: bool = False


def requirement(
    ends: Ends, *, of_gated: bool = False, is_slow: bool = False
) -> Callable[[Find[Asked]], Requirement[Asked]]:
    """Makes a requirement of the function that finds out whether it is met."""
    return lambda find: Requirement(find=find, ends=ends, of_gated=of_gated, is_slow=is_slow)


# ------------------------------------------------------------------------------------------------- what the run is


@requirement(Ends.PLAN_AGAIN)
def still_asked(asked: Publishing) -> None:
    """No publication that a follow-up follows was undone or withdrawn since."""
    asked.tx.outbox.require_still_asked(asked.run)


@requirement(Ends.NOTHING)
def of_published_mode(asked: Publishing) -> NeverPublished | None:
    """Its mode is one that is published."""
    if asked.manifest.mode in NEVER_PUBLISHED:
        return NeverPublished(run_id=asked.run.run_id, manifest=asked.manifest)
    return None


@requirement(Ends.PLAN_AGAIN)
def not_stopped(asked: Publishing) -> StoppedForGood | None:
    """Neither its code nor its limit stopped it, and would stop it again, whoever approves it."""
    run = asked.run
    if by := asked.tx.events.stopped_by(run):
        return StoppedForGood(run_id=run.run_id, state=run.state, by=by, why=run.note, manifest=run.manifest)
    return None


@requirement(Ends.NOTHING)
def not_ended(asked: Publishing) -> NotPublishable | None:
    """It is not published, and may still be."""
    return _not_publishable(asked.run) if asked.run.state in FINISHED else None


@requirement(Ends.WAITING)
def not_begun(asked: Publishing) -> NotPublishable | None:
    """Its publication has not begun."""
    return _not_publishable(asked.run) if asked.run.state is RunState.PUBLISHING else None


@requirement(Ends.RUN_AGAIN)
def gated(asked: Publishing) -> NotPublishable | None:
    """It has passed its gates."""
    is_open = asked.run.state not in (*GATED, *FINISHED, RunState.PUBLISHING)
    return _not_publishable(asked.run) if is_open else None


def _not_publishable(run: RunRecord) -> NotPublishable:
    is_leased = run.lease is not None
    return NotPublishable(run_id=run.run_id, state=run.state, is_leased=is_leased, manifest=run.manifest)


# ------------------------------------------------------------------------------------------------ whether it waits


def _has_begun(asked: Publishing) -> bool:
    """True if the publication of several runs has begun: it waits for nothing, as readers would see half of them
    meanwhile."""
    return not asked.run.is_alone and asked.whole.state is SetState.PUBLISHING


@requirement(Ends.WAITING)
def not_frozen(asked: Publishing) -> Frozen | None:
    """None of its partitions is frozen."""
    if _has_begun(asked) or not (freeze := asked.tx.freezes.stopping(asked.manifest, at=asked.tx.now)):
        return None
    kept = asked.partitions(freeze.keeps(asked.manifest.partitions))
    return Frozen(run_id=asked.run.run_id, freeze=freeze, partitions=kept)


@requirement(Ends.WAITING)
def keys_known(asked: Publishing) -> KeysNotKnown | None:
    """The keys of the days that it reads are known."""
    found = None if _has_begun(asked) else _unknown(asked.ws, asked.tx, asked.manifest)
    return KeysNotKnown(run_id=asked.run.run_id, found=found) if found else None


@requirement(Ends.PLAN_AGAIN)
def read_known_keys(asked: Publishing) -> ReadBeforeKnown | None:
    """It has not read what was there before keys were known."""
    known = None if _has_begun(asked) else _known_since(asked.ws, asked.tx, asked.run)
    return ReadBeforeKnown(run_id=asked.run.run_id, known=known) if known else None


@requirement(Ends.WAITING)
def first_in_priority(asked: Publishing) -> ComesAfter | None:
    """No open run of a higher priority is over some of the same partitions."""
    if _has_begun(asked):
        return None
    manifest = asked.manifest
    others = asked.tx.runs.records(
        table=manifest.table,
        states=UNBLOCKED,
        modes=EVER_PUBLISHED,
        above=manifest.limits.priority,
        over=manifest.partitions,
        # A run whose manifest cannot be read cannot be published either, so nothing waits for it.
        unreadable=lambda _table, _error: None,
    )
    higher = [each for each in others if not set(manifest.partitions).isdisjoint(each.manifest.partitions)]
    if not higher:
        return None
    first = max(higher, key=lambda other: (other.manifest.limits.priority, -other.sequence))
    return ComesAfter(
        run_id=asked.run.run_id,
        first=first.request_id,
        state=first.state,
        priority=first.manifest.limits.priority,
        partitions=asked.partitions(set(manifest.partitions).intersection(first.manifest.partitions)),
    )


def _unknown(ws: Workspace, tx: ReadTransaction, manifest: Manifest) -> NotKnown | None:
    """Keys that are not known, of days that a run reads; where its source drops them, of days that it has read with
    them."""
    for pinned in manifest.inputs:
        source = ws.domain.tables.get(pinned.table)
        if not isinstance(source, SourceTable) or source.unknown == UnknownKeys.KEEP:
            continue
        days = {each.partition: each.version for each in pinned.partitions}
        if source.unknown == UnknownKeys.DROP:
            unknown = (each for each in tx.imports.unknown_days(source.name) if each.event_date in days)
            days = {each.event_date: 0 for each in unknown if not _is_left_out(ws, tx, source, each, days)}
        if found := not_known(tx, source, days):
            return found
    return None


def _known_since(ws: Workspace, tx: ReadTransaction, run: RunRecord) -> KnownSince | None:
    """Keys that were not known when a run was planned, or since, and are now, where their days are not what it has
    read; none of a replay, which is meant to read what was there."""
    manifest = run.manifest
    if manifest.mode is Mode.REPLAY:
        return None
    for name in dict.fromkeys(each.table for each in manifest.inputs):
        source = ws.domain.tables.get(name)
        if not isinstance(source, SourceTable) or source.unknown != UnknownKeys.BLOCK:
            continue
        pins = (pin for each in manifest.inputs if each.table == name for pin in each.partitions)
        read = {pin.partition: pin.digest for pin in pins}
        planned = [each for each in manifest.unknown if each.table == name]
        since = tx.imports.became_unknown(name, read, after=run.sequence)
        days = sorted(since.keys() | {day for each in planned for day in each.days})
        if not days:
            continue
        present = {day: claim.digest for day, claim in tx.versions.claims(name, days).items()}
        unbuilt = set(pending_days(tx, source).days).intersection(days)
        if changed := tuple(day for day in days if day in unbuilt or present.get(day) != read[day]):
            keys = sum(each.keys for each in planned[:1]) + sum(since.get(day, 0) for day in changed)
            of = KeysUnknown(table=name, keys=keys, days=changed)
            return KnownSince(of=of, unbuilt=tuple(sorted(unbuilt)), manifest=manifest)
    return None


def _is_left_out(
    ws: Workspace, tx: ReadTransaction, source: SourceTable, unknown: ImportDay, read: Mapping[date, int]
) -> bool:
    """True if the version of a day that a run has read was built from the file since which keys of it are not known,
    by a contract that drops them."""
    day, contracts = unknown.event_date, ws.contracts[source.name]
    claim = tx.versions.claims(source.name, (day,)).get(day)
    if claim is None or claim.version != read[day]:
        return False
    bases = tx.bases.of_accepted([source.name], partitions={day}).bases[source.name]
    return any(
        unknown.import_id in basis.imports
        and as_present_build(contracts, basis.configuration) == contracts.configuration()
        for basis in bases
    )


# -------------------------------------------------------------------------------------------- who has agreed to it


@requirement(Ends.APPROVAL)
def agreed(asked: Publishing) -> None:
    """A policy lets it be published, or a person has agreed who may; see `requests.authority`."""
    phases = asked.whole.manifest.phases
    require_agreed(asked.ws, asked.run, asked.demand, alone=bool(phases and phases.each))


# --------------------------------------------------------------------------------- whether what it has read is present


@requirement(Ends.PLAN_AGAIN, of_gated=True, is_slow=True)
def newest_inputs(asked: Publishing) -> OlderInputs | None:
    """Its rows are not from older inputs than those that readers see.

    That is asked of no replay, which is meant to; of no expiry, which has no rows; and of no run of a set before its
    turn, which the ledger refuses with a better reason.
    """
    manifest = asked.manifest
    if not manifest.computed or manifest.mode is Mode.REPLAY:
        return None
    upstream = {pin.from_run for pinned in manifest.inputs for pin in pinned.partitions if pin.from_run}
    if any(found.state is not RunState.PUBLISHED for found in asked.tx.runs.named(sorted(upstream))):
        return None
    # It reads much, and most of what is shown cannot be published now.
    from backfill_assets.staleness.find import regressed_partitions

    older = regressed_partitions(asked.ws, asked.tx, manifest)
    return (
        OlderInputs(run_id=asked.run.run_id, partitions=asked.partitions(older), manifest=manifest) if older else None
    )


@requirement(Ends.RUN_AGAIN)
def read_as_staged(asked: Publishing) -> None:
    """It was computed from the candidates of its set that are staged now."""
    require_read_as_staged(asked.tx, asked.ws.graph, asked.manifest)


@requirement(Ends.PLAN_AGAIN)
def merged_with_present(asked: Publishing) -> None:
    """The rows that it keeps, or has merged its changes with, are the accepted ones."""
    require_merged_with_present(asked.tx, asked.manifest)


@requirement(Ends.PLAN_AGAIN)
def present_gates(asked: Publishing) -> DeclaredSince | None:
    """It was planned with the gates that its table declares now; see `gates.agreed.gates_since`.

    That is not asked of a repair that brings back rows which were accepted before: gates block nothing of it.
    """
    ws, manifest = asked.ws, asked.manifest
    table = ws.domain.tables.get(manifest.table)
    if table is None or not (found := gates_since(manifest, table, ws.code.gate_digests(table))):
        return None
    if manifest.kind is RunPurpose.REPAIR and brings_back_what_was_recorded(asked.tx, asked.run):
        return None
    return DeclaredSince(run_id=asked.run.run_id, table=manifest.table, gates=found, manifest=manifest)


@requirement(Ends.RUN_AGAIN, of_gated=True)
def read_as_measured(asked: Publishing) -> ReadByGateSince | None:
    """The first input that gates have read besides the rows and that is no longer accepted, or no longer the present
    version of a reference.

    Cost: the claims of the partitions that its gates have read, and the publications that are under way.
    """
    run_id = asked.run.run_id
    for reads in asked.tx.candidates.read_by_gates(run_id):
        for pinned in reads.inputs:
            if moved := _moved(asked, pinned):
                partitions = Partitions.of(asked.ws.graph.table(pinned.table).grain, moved)
                return ReadByGateSince(run_id=run_id, gate=reads.gate, name=pinned.table, partitions=partitions)
        for reference in reads.references:
            present = asked.ws.references.get(reference.name)
            if present is None or present.sha256 != reference.sha256:
                return ReadByGateSince(run_id=run_id, gate=reads.gate, name=reference.name, partitions=None)
    return None


def _moved(asked: Publishing, pinned: PinnedInput) -> Sequence[date]:
    """The partitions of which readers see another version, or the same run of a set has staged another candidate.

    Of a publication that is not recorded yet, readers may see the rows already.
    """
    tx = asked.tx
    taken = {
        change.partition: record.run_id
        for record in asked.under_way
        if record.table == pinned.table
        for change in record.changes
    }
    claims = tx.versions.claims(pinned.table, [pin.partition for pin in pinned.partitions])
    staged = {run: tx.candidates.digests(run) for run in {pin.from_run for pin in pinned.partitions} if run}
    moved = []
    for pin in pinned.partitions:
        claim = claims.get(pin.partition)
        is_same = (claim.version if claim else 0) == pin.version
        if pin.from_run is not None:
            is_published = claim is not None and claim.run_id == pin.from_run
            is_same = is_published or (is_same and staged[pin.from_run].get(pin.partition) == pin.digest)
        if not is_same or taken.get(pin.partition, pin.from_run) != pin.from_run:
            moved.append(pin.partition)
    return moved


@requirement(Ends.WAITING)
def no_other_under_way(asked: Publishing) -> AnotherUnderWay | None:
    """Where keys can move, no other publication of the table has begun and is not recorded yet: it may bring keys into
    partitions, or count on keys in partitions, that the swap of this one does not compare."""
    if asked.manifest.change.is_divisible:
        return None
    table = asked.manifest.table
    other = next((each.publication_id for each in asked.under_way if each.table == table), None)
    return AnotherUnderWay(table=table, publication_id=other) if other else None


@requirement(Ends.PLAN_AGAIN)
def inputs_accepted(asked: Publishing) -> InputsRolledBack | None:
    """Every partition that it was computed from has an accepted version."""
    taken = {
        (record.table, change.partition)
        for record in asked.under_way
        for change in record.changes
        if change.restores == 0
    }
    for pinned in asked.manifest.inputs:
        # What another run of the set stages is published first, or the ledger refuses with a better reason.
        read = [pin.partition for pin in pinned.partitions if pin.from_run is None]
        there = asked.tx.versions.claims(pinned.table, read).keys()
        if lacking := [p for p in read if p not in there or (pinned.table, p) in taken]:
            partitions = Partitions.of(asked.ws.graph.table(pinned.table).grain, lacking)
            return InputsRolledBack(run_id=asked.run.run_id, table=pinned.table, partitions=partitions)
    return None


@requirement(Ends.PLAN_AGAIN)
def still_expires(asked: Publishing) -> ExpiresOthers | None:
    """An expiry is of exactly what its table no longer keeps."""
    if asked.manifest.computed:
        return None
    # Most of what is published lets nothing expire.
    from backfill_assets.candidates.expiring import expiring

    found = expiring(asked.ws, asked.tx, asked.manifest).values()
    others = next((each.others for each in found if each.others), ())
    if not others:
        return None
    return ExpiresOthers(run_id=asked.run.run_id, table=asked.manifest.table, partitions=asked.partitions(others))


@requirement(Ends.WAITING)
def read_by_no_open_run(asked: Publishing) -> ReadByOpenRun | None:
    """No open run reads snapshots that would expire."""
    if asked.manifest.computed:
        return None
    from backfill_assets.candidates.expiring import expiring

    found = expiring(asked.ws, asked.tx, asked.manifest)
    reader = next((each.read_by for each in found.values() if each.read_by), "")
    if not reader:
        return None
    read = asked.partitions(p for p, each in found.items() if each.read_by == reader)
    return ReadByOpenRun(run_id=asked.run.run_id, table=asked.manifest.table, partitions=read, reader=reader)


# ------------------------------------------------------------- whether what would be published is what was measured


@requirement(Ends.RUN_AGAIN, of_gated=True)
def whole_candidate(asked: Publishing) -> NoCandidate | None:
    """Every partition is staged."""
    lacking = set(asked.manifest.partitions) - asked.staged.keys()
    return NoCandidate(run_id=asked.run.run_id, partitions=asked.partitions(lacking)) if lacking else None


@requirement(Ends.RUN_AGAIN, of_gated=True)
def passed_gates(asked: Publishing) -> GatesNotPassed | None:
    """Every blocking gate has passed for exactly the staged files."""
    run_id, passed = asked.run.run_id, asked.tx.candidates.passed_gates(asked.run.run_id)
    blocking = [gate.name for gate in asked.manifest.gates if gate.blocking]
    lacking = [(p, gate) for p, digest in asked.staged.items() for gate in blocking if (p, gate, digest) not in passed]
    if not lacking:
        return None
    gates = tuple(sorted({gate for _, gate in lacking}))
    return GatesNotPassed(run_id=run_id, gates=gates, partitions=asked.partitions(p for p, _ in lacking))


@requirement(Ends.RUN_AGAIN, of_gated=True)
def same_target(asked: Publishing) -> TableChanged | None:
    """The accepted versions are those that the candidate was compared with."""
    run_id, table, nothing = asked.run.run_id, asked.manifest.table, (0, EMPTY_FILE_SET.digest)
    claims = asked.tx.versions.claims(table, asked.manifest.partitions)
    present = {partition: (claim.version, claim.digest) for partition, claim in claims.items()}
    compared = asked.tx.candidates.compared(run_id)
    changed = [partition for partition, then in compared.items() if present.get(partition, nothing) != then]
    return TableChanged(run_id=run_id, table=table, partitions=asked.partitions(changed)) if changed else None


@requirement(Ends.PLAN_AGAIN, of_gated=True)
def only_adds(asked: Publishing) -> OnlyAdds | None:
    """Where its manifest or the present declaration forbids other changes, it only adds partitions."""
    run_id, manifest, declared = asked.run.run_id, asked.manifest, asked.ws.graph.table(asked.manifest.table).change
    claimed = asked.tx.versions.claims(manifest.table, manifest.partitions).keys()
    fixed = manifest.change.fixed(claimed) | declared.fixed(claimed)
    if not fixed:
        return None
    accepted = asked.tx.versions.accepted(manifest.table, fixed)
    staged = asked.tx.candidates.of_run(run_id)
    for partition, present in accepted.items():
        candidate = staged.get(partition)
        if candidate is None or is_verified(manifest.kind, candidate, present):
            continue
        if not has_recorded_rows(candidate, present):
            return OnlyAdds(run_id=run_id, table=manifest.table, partitions=asked.partitions((partition,)))
    return None


# ------------------------------------------------------------ what the ledger requires again when a publication begins


@requirement(Ends.WAITING)
def table_free(asked: Publishing) -> None:
    """No publication of the table is under way."""
    asked.tx.publications.require_none_open(asked.manifest.table)


@requirement(Ends.WAITING)
def published_with_its_set(asked: Publishing) -> None:
    """It belongs to no set, or its set is being published and it is the next of its phases."""
    asked.tx.publications.require_turn_of_set(asked.run.run_id, Action.PUBLISH, SetState.PUBLISHING)


@requirement(Ends.WAITING)
def after_what_it_read(asked: Publishing) -> None:
    """The runs of its set are published whose candidates it was computed from."""
    asked.tx.publications.require_after_what_it_read(asked.run)


@requirement(Ends.PLAN_AGAIN)
def read_what_landed(asked: Publishing) -> None:
    """No day that it builds without events has any by now."""
    asked.tx.publications.require_read_what_landed(asked.run)


# ----------------------------------------------------------------------------------- what a restatement is, as a whole


@requirement(Ends.WAITING)
def named_phase_is_next(asked: PublishingRestatement) -> AnotherPhaseFirst | None:
    """The phase that is meant is the next one."""
    if asked.phase is None or not asked.due or asked.due[0].run_id == asked.phase:
        return None
    return AnotherPhaseFirst(set_id=asked.record.set_id, run_id=asked.phase, due=asked.due[0].run_id)


@requirement(Ends.WAITING)
def phase_not_held(asked: PublishingRestatement) -> PhaseHeld | None:
    """The time after the phase before it is over, unless its publication has begun."""
    until = held_until(asked.tx.publications, asked.record, asked.members)
    if not asked.due or until is None or asked.tx.now >= until or asked.record.state is SetState.PUBLISHING:
        return None
    run_id = asked.due[0].run_id
    number = [member.run_id for member in asked.members].index(run_id) + 1
    return PhaseHeld(set_id=asked.record.set_id, run_id=run_id, number=number, count=len(asked.members), until=until)


@requirement(Ends.NOTHING)
def has_due_runs(asked: PublishingRestatement) -> SetIs | None:
    """It is not published, and may still be.

    Of runs that are published together and have landed all, what is left is to record that: the process may have died
    after the last swap, or a rollback may be given up before its first.
    """
    record = asked.record
    is_under_way = record.state in (SetState.PUBLISHING, SetState.ROLLING_BACK) and record.manifest.phases is None
    return None if asked.due or is_under_way else SetIs(set_id=record.set_id, state=record.state)


# ------------------------------------------------------------------------------------------------------------ the lists

Requirements = tuple[Requirement[Publishing], ...]

FOR_GOOD: Requirements = (still_asked, of_published_mode, not_stopped)
"""What no computation ends: of several runs it is asked of each before the state of the first."""

OF_ITS_STATE: Requirements = (*FOR_GOOD, not_ended, not_begun, gated)

IN_ITS_TURN: Requirements = (not_frozen, keys_known, read_known_keys, first_in_priority)
"""What automatic work waits for before a run is computed as well."""

READY: Requirements = (*OF_ITS_STATE, *IN_ITS_TURN, agreed)
"""What is asked first, without looking at partitions."""

FOLLOWS_FROM_PRESENT: Requirements = (
    read_as_staged,
    merged_with_present,
    present_gates,
    read_as_measured,
    no_other_under_way,
    inputs_accepted,
    still_expires,
    read_by_no_open_run,
    whole_candidate,
    passed_gates,
    same_target,
    only_adds,
)

AWAITED: Requirements = (
    of_published_mode,
    *IN_ITS_TURN,
    agreed,
    read_as_staged,
    no_other_under_way,
    read_by_no_open_run,
    table_free,
)
"""What sensors wait for. They try approved runs that something else stands in the way of, and give them up with the
reason, so that `status` and alerts show that a person has to act."""

OF_EQUAL_ROWS: Requirements = (still_asked, *FOLLOWS_FROM_PRESENT)
"""What is required of rows that are equal to the accepted ones: nothing is swapped, so that nobody has to agree."""

REQUIREMENTS: Requirements = (
    *READY,
    newest_inputs,
    *FOLLOWS_FROM_PRESENT,
    table_free,
    published_with_its_set,
    after_what_it_read,
    read_what_landed,
)
"""What publication requires of a run, in the order in which it asks."""

SLOW: Requirements = tuple(each for each in REQUIREMENTS if each.is_slow)
"""What is asked before the ledger's transaction, which nothing slow may hold."""

OF_RUNS_OF_SETS: Requirements = tuple(
    each for each in REQUIREMENTS if each not in (published_with_its_set, after_what_it_read)
)
"""What is required of each run of a set before the first of them is published."""


FOR_ADVICE: Requirements = tuple(
    each for each in OF_RUNS_OF_SETS if each not in (whole_candidate, passed_gates, only_adds)
)
"""What is asked of runs that have passed wherever they are listed: without what was so when they passed, which takes
reading every gate result and every file to find out."""

OF_ALL_RUNS: tuple[Requirement[PublishingRestatement], ...] = (named_phase_is_next, phase_not_held, has_due_runs)
"""What is required of the runs of a restatement together."""


def obstacles(asked: Publishing, requirements: Requirements | None = None, *, slow: bool = True) -> Iterator[Obstacle]:
    """The obstacles to publishing a run, found one by one in the order of the requirements.

    Args:
        requirements: Only these; all by default.
        slow: Also what takes long to find out.
    """
    is_gated = asked.run.state in GATED
    for each in REQUIREMENTS if requirements is None else requirements:
        if (slow or not each.is_slow) and (is_gated or not each.of_gated):
            yield from _obstacle(each, asked, asked.run)


def obstacles_of(asked: PublishingRestatement, *, slow: bool = True) -> Iterator[Obstacle]:
    """The obstacles to publishing a restatement, or its next phase: of all its runs together, then of each.

    What stops one of them for good, and the states of all, come before what takes looking at partitions of the first.
    """
    for each in OF_ALL_RUNS:
        yield from _obstacle(each, asked, None)
    runs = [Publishing(ws=asked.ws, tx=asked.tx, run=run) for run in asked.due]
    states = tuple(each for each in OF_ITS_STATE if each not in FOR_GOOD)
    rest = tuple(each for each in OF_RUNS_OF_SETS if each not in OF_ITS_STATE)
    for requirements in (FOR_GOOD, states, rest):
        for run in runs:
            yield from obstacles(run, requirements, slow=slow)


def _obstacle(requirement: Requirement[Asked], asked: Asked, run: RunRecord | None) -> Iterator[Obstacle]:
    """The obstacle, where a requirement is not met."""
    try:
        error = requirement.find(asked)
    except Refused as refused:
        error = refused
    if error is not None:
        yield Obstacle(error=error, ends=requirement.ends, run=run)


def require_none(found: Iterable[Obstacle]) -> None:
    """Refuses what something stands in the way of: raises the error of the first obstacle."""
    for each in found:
        raise each.error


def is_met(asked: Publishing, *requirements: Requirement[Publishing]) -> bool:
    """True if a run meets these requirements."""
    return not any(obstacles(asked, requirements))


def outdated(asked: Publishing) -> Partitions | None:
    """The partitions that a run of a set has staged from candidates of it that have been staged again since."""
    if asked.run.state in (*VISIBLE, RunState.CANCELLED):
        return None
    found = next(obstacles(asked, (read_as_staged,)), None)
    # A reference that cannot be read is shown by `status` as a problem, and publication is refused for it.
    return found.error.partitions if found and isinstance(found.error, StagedAgain) else None
