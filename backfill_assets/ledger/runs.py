"""Runs: planned, taken by a process, moved on and cancelled, and the steps on them that several aggregates share.

Approval is in `approvals`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cache
from typing import Any, TypedDict, Unpack

from sqlalchemy import ColumnElement, Row, Select, and_, exists, func, insert, or_, select, true

from backfill_assets.core.identity import plain
from backfill_assets.core.lease import LeaseTerms
from backfill_assets.core.people import require_person
from backfill_assets.ledger import errors, queries
from backfill_assets.ledger.approvals import ApprovalSteps
from backfill_assets.ledger.bases import without_pins
from backfill_assets.ledger.events import EXPECTED_CORE_MS, Event, EventLog, Step, Writes
from backfill_assets.ledger.leases import LeaseSteps
from backfill_assets.ledger.queries import PAGE, OnUnreadable, Queries, batches, readable
from backfill_assets.ledger.recorded_text import first_few, one_line, required_text, storable_text
from backfill_assets.ledger.records import ApprovalGrounds, RunHeader, RunRecord
from backfill_assets.ledger.schema import (
    approvals,
    candidate_partitions,
    chunk_runs,
    events,
    leases,
    manifests,
    publications,
    restatement_sets,
    run_follows,
    runs,
)
from backfill_assets.ledger.states import ChunkState, RunState, may_follow
from backfill_assets.planning.manifest import Manifest, chunks_of
from backfill_assets.planning.manifest_parts import CauseKind, Mode, PinnedReference, RunPurpose


class RunFilter(TypedDict, total=False):
    """A filter of runs; without any field, all."""

    table: str
    states: Collection[RunState]
    modes: Collection[Mode]
    because: CauseKind
    after: int  #: Only those that were planned after the event of this sequence.
    before: int  #: Only those that were planned before the event of this sequence.
    #: Only those on which this person acted, whether by an event of the run, of its set, or of a publication of it.
    #: Upper and lower case make no difference.
    person: str
    above: int  #: Only those of a higher priority than this.
    over: Sequence[date]  #: Only those whose first and last partition leave room for one of these.
    request: str  #: Only those of this restatement.
    follows: str  #: Only those whose manifest names this publication as one that they follow.
    limit: int  #: At most this many, the last planned ones.


class RunReads(Queries):
    """Runs: headers by default, and their manifests where they are asked for."""

    def header(self, run_id: str) -> RunHeader:
        """One run without its manifest.

        Cost: one primary key lookup.

        Raises:
            UnknownName: There is no such run.
        """
        return queries.run_header(self._run(_headers(), run_id))

    def headers(self, **chosen: Unpack[RunFilter]) -> tuple[RunHeader, ...]:
        """Runs without their manifests, the last planned first. Cost: one index range: one short row per chosen run."""
        return tuple(queries.run_header(row) for row in self._rows(_chosen(_headers(), chosen)))

    def existing(self, run_ids: Iterable[str]) -> frozenset[str]:
        """The given ids that runs have. Cost: one primary key lookup per id."""
        return frozenset(row.run_id for row in self._rows_with(select(runs.c.run_id), runs.c.run_id, run_ids))

    def expiries(self, run_ids: Iterable[str]) -> frozenset[str]:
        """Those of the runs that let snapshots expire. Cost: one primary key lookup per run."""
        chosen = select(runs.c.run_id).where(runs.c.kind == RunPurpose.EXPIRY)
        return frozenset(row.run_id for row in self._rows_with(chosen, runs.c.run_id, run_ids))

    def get(self, run_id: str) -> RunRecord:
        """One run with its manifest.

        Cost: one primary key lookup; the manifest is parsed.

        Raises:
            UnknownName: There is no such run.
            Refused: Its manifest was edited in the database.
        """
        return queries.run_record(self._run(_records(), run_id))

    def records(self, *, unreadable: OnUnreadable | None = None, **chosen: Unpack[RunFilter]) -> tuple[RunRecord, ...]:
        """Runs with their manifests, the last planned first.

        Cost: one index range; the manifest of every chosen run is parsed.

        Args:
            unreadable: Called with the table of every run whose manifest cannot be read, which is then left out.
        """
        found = self._rows(_chosen(_records(), chosen))
        return tuple(readable(found, queries.run_record, name="table_name", unreadable=unreadable))

    def named(self, run_ids: Iterable[str]) -> tuple[RunRecord, ...]:
        """These runs with their manifests, in the order in which they are named.

        Cost: one primary key lookup per run; every manifest is parsed.

        Raises:
            UnknownName: There is no such run.
            Refused: A manifest was edited in the database.
        """
        chosen = list(run_ids)
        read = self._rows_with(_records(), runs.c.run_id, chosen)
        found = {row.run_id: queries.run_record(row) for row in read}
        if unknown := [run_id for run_id in chosen if run_id not in found]:
            raise errors.NotInLedger(kind="run", name=unknown[0])
        return tuple(found[run_id] for run_id in chosen)

    def of_request(self, request_id: str) -> tuple[RunRecord, ...]:
        """The runs of a restatement in the order of publication, which is that in which they were planned.

        Cost: one index lookup; the manifest of every run is parsed.
        """
        chosen = _records().where(runs.c.request_id == request_id).order_by(runs.c.added_sequence)
        return tuple(queries.run_record(row) for row in self._rows(chosen))

    def request_of(self, run_id: str) -> str:
        """What is approved, published and undone with a run: a restatement of several runs, or the run itself.

        Cost: one primary key lookup.

        Raises:
            UnknownName: There is no such run.
        """
        return str(self._run(select(runs.c.request_id), run_id).request_id)

    def references(self) -> tuple[PinnedReference, ...]:
        """Every reference that a manifest pins, each document once, by name and version.

        Cost: the JSON of every manifest is read, and nothing is made of what it pins.
        """
        found: dict[tuple[str, str], PinnedReference] = {}
        for body in self._bodies():
            with suppress(ValueError, KeyError, TypeError):  # edited in the database, which an audit finds
                for document in body["references"]:
                    pinned = PinnedReference.parse(document)
                    found[pinned.name, pinned.sha256] = pinned
        return tuple(sorted(found.values(), key=lambda each: (each.name, each.version, each.sha256)))

    def archived_code(self) -> frozenset[tuple[str, str]]:
        """The code digests of manifests whose code was archived, each with the sha256 of its list. Cost: the same."""
        found = set()
        for body in self._bodies():
            with suppress(ValueError, KeyError, TypeError):
                found.add((str(body["transform"]["code_digest"]), str(body["code_archive"])))
        return frozenset(found)

    def _bodies(self) -> Iterator[Mapping[str, Any]]:
        for batch in batches(self._values(select(manifests.c.run_id)), PAGE):
            for body in self._values(select(manifests.c.body).where(manifests.c.run_id.in_(batch))):
                with suppress(ValueError, KeyError, TypeError):
                    yield without_pins(body)[0]

    def tables_of(self, run_ids: Iterable[str]) -> Mapping[str, str]:
        """The tables that those of these ids that are runs target. Cost: one primary key lookup per id."""
        found = self._rows_with(select(runs.c.run_id, runs.c.table_name), runs.c.run_id, run_ids)
        return {row.run_id: row.table_name for row in found}

    def counts(self) -> Mapping[tuple[str, RunState], int]:
        """The number of runs, by table and state. Cost: one index scan over all runs, counted in the database."""
        counted = select(runs.c.table_name, runs.c.state, func.count().label("found"))
        grouped = counted.group_by(runs.c.table_name, runs.c.state)
        return {(row.table_name, row.state): row.found for row in self._rows(grouped)}

    def state(self, run_id: str) -> RunState:
        """The state of a run.

        Cost: one primary key lookup.

        Raises:
            UnknownName: There is no such run.
        """
        row = self._run(select(runs.c.state), run_id)
        state: RunState = row.state
        return state

    def states(self, run_ids: Iterable[str]) -> Mapping[str, RunState]:
        """The states of those of these ids that are runs. Cost: one primary key lookup per id."""
        found = self._rows_with(select(runs.c.run_id, runs.c.state), runs.c.run_id, run_ids)
        return {row.run_id: row.state for row in found}

    def _run(self, statement: Select[*tuple[Any, ...]], run_id: str) -> Row[Any]:
        """The row of a run. Raises: UnknownName: There is no such run; a set whose id has these characters is named."""
        return self._named(statement, runs.c.run_id, kind="run", name=run_id, also=restatement_sets.c.set_id)

    def require_holder(self, run_id: str, attempt: str) -> None:
        """Refuses a process that does not have the run any more.

        Cost: one primary key lookup.

        Raises:
            TakenOver: Another process has it by now, or it was given up.
        """
        chosen = select(runs.c.attempt, runs.c.state, runs.c.note)
        row = self._run(chosen, run_id)
        if row.attempt != attempt:
            what = "another process took it over, or a recovery gave it up"
            because = f"it was {row.note}" if row.state is RunState.CANCELLED else what
            why = f"{because}; it is {row.state}"
            raise errors.LostWork(name=f"run {run_id}", why=why, of={"run_id": run_id, "state": str(row.state)})


_NOT_IN_HEADERS = ("attempt", "gates", "left_sequence", "priority", "terms")


@cache
def _headers() -> Select[*tuple[object, ...]]:
    return (
        select(
            *(column for column in runs.c if column.name not in _NOT_IN_HEADERS),
            manifests.c.digest,
            approvals.c.state.label("approval_state"),
            approvals.c.manifest_digest.label("approved_digest"),
            approvals.c.approved_by,
            approvals.c.approved_at,
            *(column.label(f"lease_{column.name}") for column in leases.c if column.name != "work_id"),
        )
        .join_from(runs, manifests, runs.c.run_id == manifests.c.run_id)
        .join(approvals, approvals.c.request_id == runs.c.run_id)
        .outerjoin(leases, leases.c.work_id == runs.c.run_id)
    )


@cache
def _records() -> Select[*tuple[object, ...]]:
    return _headers().add_columns(manifests.c.body)


_CONDITIONS: Mapping[str, Callable[[Any], ColumnElement[bool]]] = {
    "table": lambda table: runs.c.table_name == table,
    "states": lambda states: runs.c.state.in_(tuple(states)),
    "modes": lambda modes: runs.c.mode.in_(modes),
    "because": lambda because: runs.c.because == because,
    "after": lambda sequence: runs.c.added_sequence > sequence,
    "before": lambda sequence: runs.c.added_sequence < sequence,
    "above": lambda priority: runs.c.priority > priority,
    "person": lambda person: _acted(person),
    "request": lambda request_id: runs.c.request_id == request_id,
    "follows": lambda publication_id: runs.c.run_id.in_(
        select(run_follows.c.run_id).where(run_follows.c.publication_id == publication_id)
    ),
    "over": lambda days: (
        and_(runs.c.first_partition <= max(days), runs.c.last_partition >= min(days)) if days else true()
    ),
}
"""The condition of each part of a `RunFilter`."""


def _chosen(statement: Select[*tuple[object, ...]], chosen: RunFilter) -> Select[*tuple[object, ...]]:
    wanted = (_CONDITIONS[name](value) for name, value in chosen.items() if name in _CONDITIONS)
    return statement.where(*wanted).order_by(runs.c.added_sequence.desc()).limit(chosen.get("limit"))


def _acted(person: str) -> ColumnElement[bool]:
    """True if a person acted on a run: by index, run by run."""
    name = func.lower(person)
    on_run = exists().where(events.c.entity_id == runs.c.run_id, func.lower(events.c.actor) == name)
    on_request = exists().where(events.c.entity_id == runs.c.request_id, func.lower(events.c.actor) == name)
    published = exists().where(publications.c.run_id == runs.c.run_id, func.lower(publications.c.asked_by) == name)
    return or_(on_run, on_request, published)


NO_ATTEMPT = ""
"""The attempt of a run on which no process works."""


class RunSteps(Writes):
    """Inserts runs and takes their steps, whatever asks for them."""

    def __init__(self, log: EventLog) -> None:
        super().__init__(log)
        self._leases = LeaseSteps(log)

    def insert(self, manifest: Manifest, *, actor: str, expected_core_seconds: float | None = None) -> None:
        """Writes a manifest down, with how long it is expected to take. Its run is PLANNED and its approval a DRAFT.

        Raises:
            Refused: It has no reason or no requester, or its run exists.
        """
        one_line("the reason", manifest.reason)
        one_line("the requester", manifest.requested_by)
        run_id = one_line("the run id", manifest.run_id)
        if self._row(select(manifests.c.run_id).where(manifests.c.run_id == run_id)):
            raise errors.AlreadyRecorded(kind="run", name=run_id)
        request_id = manifest.request_id
        if request_id != run_id and self._row(select(manifests.c.run_id).where(manifests.c.run_id == request_id)):
            # What was agreed to names its runs: a later one would be published without having been agreed to.
            raise errors.AlreadyRecorded(kind="set", name=request_id)
        document = {"run_id": run_id, "digest": manifest.digest, "body": manifest.text}
        self._log.write(insert(manifests).values(document), of=[run_id])
        self._log.write(
            insert(runs).values(
                run_id=run_id,
                request_id=manifest.request_id,
                table_name=manifest.table,
                state=RunState.PLANNED,
                note="",
                added_sequence=self._log.next_sequence,
                updated_at=self._log.now,
                kind=manifest.kind,
                mode=manifest.mode,
                because=manifest.cause.kind,
                first_partition=min(manifest.partitions),
                last_partition=max(manifest.partitions),
                priority=manifest.limits.priority,
                terms=manifest.terms.document,
                gates=dict(manifest.gate_digests),
            ),
            of=[run_id],
        )
        follows = [{"run_id": run_id, "publication_id": each} for each in dict.fromkeys(manifest.cause.publications)]
        if follows:
            self._log.write(insert(run_follows), follows, of=[run_id])
        ApprovalSteps(self._log).begin(run_id)
        planned = {
            "manifest_digest": manifest.digest,
            "table": manifest.table,
            "kind": str(manifest.kind),
            "reason": manifest.reason,
            "requested_by": manifest.requested_by,
            **({} if expected_core_seconds is None else {EXPECTED_CORE_MS: round(expected_core_seconds * 1000)}),
        }
        state = str(RunState.PLANNED)
        self._log.append(Event("run", run_id, "planned", actor=actor, to_state=state, payload=planned))

    def move(
        self,
        run_id: str,
        begins: RunState,
        ends: RunState,
        *,
        actor: str,
        note: str,
        payload: Mapping[str, Any],
        attempt: str = NO_ATTEMPT,
        leaves: bool = False,
    ) -> None:
        """Takes a step of a run; without an attempt, its lease ends with it.

        Args:
            leaves: Its owner leaves the accepted rows as they are.
        """
        left = {"left_sequence": self._log.next_sequence} if leaves else {}
        self._log.change(
            Step(table=runs, key={"run_id": run_id}, name=f"run {run_id}", begins=begins, ends=ends),
            Event("run", run_id, "moved", actor=actor, payload={**payload, "note": note} if note else payload),
            also={"note": storable_text("the note", note), "updated_at": self._log.now, "attempt": attempt, **left},
        )
        if attempt == NO_ATTEMPT:
            self._leases.drop(run_id)


Leaves = Mapping[str, ApprovalGrounds]
"""Why a person may leave the accepted rows as they are, by the run that found others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancellation:
    """A person's decision against a run or a set."""

    by: str
    reason: str
    #: By run, on which grounds the person may leave the accepted rows as they are, although it found others.
    leaves: Leaves = field(default_factory=dict)

    @staticmethod
    def of(by: str, reason: str, leaves: Leaves | None = None) -> Cancellation:
        """The decision, checked."""
        who = one_line("the name", by)
        require_person("the one who cancels", who)
        return Cancellation(by=who, reason=one_line("the reason", reason), leaves=leaves or {})

    @property
    def note(self) -> str:
        """The note about the state of the run or set from then on."""
        what = "the difference was accepted" if self.leaves else "cancelled"
        return f"{what} by {self.by}: {self.reason}"


def end_run(steps: RunSteps, run_id: str, state: RunState, decision: Cancellation) -> None:
    """Cancels a run that is not visible to readers. Its process is refused its next step.

    Raises:
        IllegalTransition: Readers see it, or it is being published.
    """
    if not may_follow(state, RunState.CANCELLED):
        raise errors.NotCancellable(name=run_id, state=state)
    grounds = decision.leaves.get(run_id)
    payload = {"reason": decision.reason, **({} if grounds is None else plain(grounds))}
    steps.move(
        run_id,
        state,
        RunState.CANCELLED,
        actor=decision.by,
        note=decision.note,
        payload=payload,
        leaves=grounds is not None,
    )


MOVED_BY_ITS_PROCESS = frozenset({RunState.STAGED, RunState.PASSED, RunState.BLOCKED, RunState.FAILED})
"""Where the process that has a run may move it; only a publication moves it into or out of the other states."""


class RunWrites(RunReads, Writes):
    """Runs: planned, taken, moved on and given up."""

    def __init__(self, log: EventLog) -> None:
        super().__init__(log)
        self._leases, self._steps = LeaseSteps(log), RunSteps(log)

    def add(self, manifest: Manifest, *, actor: str, expected_core_seconds: float | None = None) -> RunRecord:
        """Writes a manifest down, with how long it is expected to take. Its run is PLANNED and its approval a DRAFT.

        Cost: two primary key lookups; one row of the manifest, the run and its approval, one per publication that it
        follows, and one event.

        Raises:
            Refused: It has no reason or no requester, its run exists, or it claims to be a follow-up.
        """
        if manifest.cause.kind is CauseKind.FOLLOW_UP:
            # Policy may publish a follow-up, so only the outbox brings one about (`outbox`).
            why = "is not planned as a follow-up: only what the outbox asks for is"
            raise errors.NotAFollowUp(run_id=manifest.run_id, why=why)
        self._steps.insert(manifest, actor=actor, expected_core_seconds=expected_core_seconds)
        return self.get(manifest.run_id)

    def take(
        self,
        run_id: str,
        to: RunState,
        *,
        actor: str,
        attempt: str,
        lease: timedelta | None = None,
        payload: Mapping[str, Any] | None = None,
    ) -> None:
        """A process begins to stage a run, or to gate what is staged, and has it from then on.

        Cost: a few primary key lookups, the rows of the run and its lease, and one event.

        Args:
            to: STAGING or GATING.
            attempt: Names the process; it has to come with every further step.
            lease: How long others leave it the run when it does not renew its lease; not at all by default.
            payload: What the event keeps besides.
        """
        found = self.state(run_id)
        name = required_text("the attempt", attempt)
        self._leases.require_free(run_id, at=self._log.now)
        recorded = {**(payload or {}), "attempt": name}
        self._steps.move(run_id, found, to, actor=actor, note="", payload=recorded, attempt=name)
        self._leases.take(run_id, LeaseTerms(attempt=name, length=lease) if lease else None, holder=actor)

    def give_up(self, run_id: str, *, actor: str, note: str, now: bool = False) -> None:
        """Fails a run whose process is gone, so that it can be run again.

        Cost: as `take`.

        Args:
            run_id: A run that is being staged or gated.
            now: Even while its lease has not ended. Its process can add nothing any more.
        """
        found, held = self.state(run_id), self._leases.get(run_id)
        is_alive = held is not None and held.is_alive(self._log.now)
        if not now:
            self._leases.require_free(run_id, at=self._log.now)
        taken = {"taken_from": f"{held.holder} ({held.machine})"} if held is not None and is_alive else {}
        self._steps.move(run_id, found, RunState.FAILED, actor=actor, note=note, payload=taken)

    def move(
        self,
        run_id: str,
        to: RunState,
        *,
        actor: str,
        attempt: str = NO_ATTEMPT,
        note: str = "",
        payload: Mapping[str, Any] | None = None,
    ) -> None:
        """Moves a run on to STAGED, PASSED, BLOCKED or FAILED, and keeps the note with it.

        Cost: two primary key lookups, the rows of the run and its lease, and one event; for STAGED the manifest is
        parsed, and one row is read per chunk and per partition of the run.

        Args:
            to: Its next state; STAGED ends its staging.
            payload: What the event keeps besides.

        Raises:
            IllegalTransition: The step is not in the table, or only `take` or a publication takes it; or not every
                chunk and partition is staged.
        """
        found = self.state(run_id)
        self.require_holder(run_id, attempt)
        if to not in MOVED_BY_ITS_PROCESS or found is RunState.PUBLISHING:
            raise errors.CannotBecome(name=f"run {run_id}", found=found, wanted=to, of={"run_id": run_id})
        if to is RunState.STAGED and found is RunState.STAGING:
            self._require_staged(run_id)
        self._steps.move(run_id, found, to, actor=actor, note=note, payload=payload or {})

    def give_way(self, run_id: str, *, actor: str, why: str) -> None:
        """Cancels a run that a part of the system has planned, and will plan again.

        Cost: two index lookups, the rows of the run and its lease, and one event.
        """
        end_run(self._steps, run_id, self.state(run_id), Cancellation(by=actor, reason=why))

    def _require_staged(self, run_id: str) -> None:
        """Refuses to end a staging before every chunk of the manifest is done and every partition has a candidate."""
        manifest = self.get(run_id).manifest
        chosen = select(chunk_runs.c.number, chunk_runs.c.partitions).where(
            chunk_runs.c.run_id == run_id, chunk_runs.c.state == ChunkState.DONE
        )
        done = {row.number: queries.dates_of(row.partitions) for row in self._rows(chosen)}
        planned = chunks_of(manifest)
        lacking = [chunk.number for chunk in planned if done.get(chunk.number) != chunk.partitions]
        held = candidate_partitions
        staged = set(self._values(select(held.c.partition_date).where(held.c.run_id == run_id)))
        empty = [partition for partition in manifest.partitions if partition not in staged]
        if lacking:
            verb = "chunk {} of {} is not finished" if len(lacking) == 1 else "chunks {} of {} are not finished"
            what = verb.format(first_few(lacking), len(planned))
        elif empty:
            what = f"nothing is staged for {first_few(empty)}"
        else:
            return
        raise errors.NotStaged(run_id=run_id, lacking=what)
