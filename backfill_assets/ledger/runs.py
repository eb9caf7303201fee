"""Runs: what was agreed and how far it is, and the steps on runs that several aggregates share.

Whether a manifest pins exactly what is accepted now is compared as text, without parsing the pins: ten years of days
over 30 tables with windows of 90 days are a million pins in a hundred runs per table, and hardly any differs from what
is accepted. The text of a manifest is canonical, so equal pins are equal texts.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from itertools import accumulate, islice
from typing import Any, TypedDict, Unpack

from sqlalchemy import ColumnElement, Select, exists, func, insert, or_, select

from backfill_assets.core.people import require_person
from backfill_assets.ledger import rows
from backfill_assets.ledger.errors import AlreadyRecorded, NotCancellable, NotInLedger
from backfill_assets.ledger.events import Event, EventLog, Step
from backfill_assets.ledger.leases import LeaseSteps
from backfill_assets.ledger.queries import PAGE, Queries, Unreadable, batches, readable
from backfill_assets.ledger.recorded_text import one_line, storable_text
from backfill_assets.ledger.records import RunHeader, RunRecord
from backfill_assets.ledger.schema import (
    approvals,
    events,
    leases,
    manifests,
    publications,
    run_follows,
    runs,
    set_members,
)
from backfill_assets.ledger.states import ApprovalState, RunState, may_follow
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import CauseKind, Mode, PinnedReference

_INPUTS = '"inputs":[{"argument":'
_PINS, _END = '"partitions":[[', ']],"table":'
"""What stands before and behind the pins of an input. In a text of JSON both have a backslash before their quotes."""


class Stretch(Mapping[date, str]):
    """The partitions of a mapping from one place to another, computed on first use, which is rare."""

    def __init__(self, whole: Mapping[date, str], start: int, end: int) -> None:
        self._whole, self._start, self._end = whole, start, end

    @cached_property
    def _part(self) -> Mapping[date, str]:
        return dict(islice(self._whole.items(), self._start, self._end))

    def __getitem__(self, partition: date) -> str:
        return self._part[partition]

    def __iter__(self) -> Iterator[date]:
        return iter(self._part)

    def __len__(self) -> int:
        return self._end - self._start


@dataclass(slots=True)
class Accepted:
    """What is accepted of a table, and how a manifest that is planned now would write it down.

    Attributes:
        digests: By partition, in order.
        made_by: The runs that made the versions, by partition.
    """

    digests: dict[date, str] = field(default_factory=dict)
    made_by: dict[date, str] = field(default_factory=dict)
    _pins: list[str] = field(default_factory=list)
    _text: str = ""
    _places: dict[str, int] = field(default_factory=dict)
    _starts: list[int] = field(default_factory=list)

    def add(self, partition: date, version: int, digest: str, run_id: str) -> None:
        """The next accepted version, in the order of partitions."""
        self.digests[partition] = digest
        self.made_by[partition] = run_id
        self._pins.append(f'["{partition.isoformat()}",{version},"{digest}"]')

    def same(self, pins: str) -> Mapping[date, str] | None:
        """What pins say, if the very same would be pinned now; None when anything differs, or days are left out.

        Args:
            pins: The text between the brackets of an input's partitions.
        """
        if not self._text:
            self._set_out()
        first, last = (self._places.get(pins[at + 2 : at + 12]) for at in (0, pins.rfind('["')))
        if first is None or last is None or not self._text.startswith(pins, self._starts[first]):
            return None
        return Stretch(self.digests, first, last + 1)

    def _set_out(self) -> None:
        self._text = ",".join(self._pins)
        self._places = {pin[2:12]: place for place, pin in enumerate(self._pins)}
        self._starts = [0, *accumulate(len(pin) + 1 for pin in self._pins)]


def without_pins(body: str) -> tuple[Mapping[str, Any], list[str]]:
    """A manifest's document in which numbers stand for the pins of its inputs, and the texts that they stand for."""
    parts: list[str] = []
    pins: list[str] = []
    done, start = 0, body.find(_INPUTS)
    while start >= 0 and (start := body.find(_PINS, start)) >= 0:
        begin = start + len(_PINS) - 1
        start = body.index(_END, begin) + 1
        parts.append(f"{body[done : begin - 1]}{len(pins)}")
        pins.append(body[begin:start])
        done = start + 1
    return json.loads("".join([*parts, body[done:]])), pins


class RunFilter(TypedDict, total=False):
    """Which runs are meant; without any of these, all.

    Attributes:
        table: Only those that target this table.
        states: Only those in one of these states.
        modes: Only those of one of these modes.
        because: Only those of this cause.
        after: Only those that were planned after the event of this sequence.
        before: Only those that were planned before the event of this sequence.
        person: Only those on which this person acted, whether by an event of the run, of its set, or of a publication
            of it. Upper and lower case make no difference.
        over: Only those whose first and last partition leave room for one of these.
        follows: Only those whose manifest names this publication as one that they follow.
        limit: At most this many, the last planned ones.
    """

    table: str
    states: Collection[RunState]
    modes: Collection[Mode]
    because: CauseKind
    after: int
    before: int
    person: str
    over: Sequence[date]
    follows: str
    limit: int


class RunReads(Queries):
    """Runs: headers by default, and their manifests where they are asked for."""

    def header(self, run_id: str) -> RunHeader:
        """One run without its manifest.

        Cost: one primary key lookup.

        Raises:
            UnknownName: There is no such run.
        """
        row = self._row(_headers().where(runs.c.run_id == run_id))
        if row is None:
            raise NotInLedger(kind="run", name=run_id)
        return rows.run_header(row)

    def headers(self, **chosen: Unpack[RunFilter]) -> tuple[RunHeader, ...]:
        """Runs without their manifests, the last planned first.

        Cost: one index range: one short row per chosen run.
        """
        return tuple(rows.run_header(row) for row in self._rows(_chosen(_headers(), chosen)))

    def get(self, run_id: str) -> RunRecord:
        """One run with its manifest.

        Cost: one primary key lookup; the manifest is parsed.

        Raises:
            UnknownName: There is no such run.
            Refused: Its manifest was edited in the database.
        """
        row = self._row(_records().where(runs.c.run_id == run_id))
        if row is None:
            raise NotInLedger(kind="run", name=run_id)
        return rows.run_record(row)

    def records(self, *, unreadable: Unreadable | None = None, **chosen: Unpack[RunFilter]) -> tuple[RunRecord, ...]:
        """Runs with their manifests, the last planned first.

        Cost: one index range; the manifest of every chosen run is parsed.

        Args:
            unreadable: Called with the table of every run whose manifest cannot be read, which is then left out.
            **chosen: Which runs.

        Raises:
            Refused: A manifest cannot be read, and `unreadable` is not given.
        """
        found = self._rows(_chosen(_records(), chosen))
        return tuple(readable(found, rows.run_record, name="table_name", unreadable=unreadable))

    def named(self, run_ids: Iterable[str]) -> tuple[RunRecord, ...]:
        """These runs with their manifests, in the order in which they are named.

        Cost: one primary key lookup per run; every manifest is parsed.

        Raises:
            UnknownName: There is no such run.
            Refused: A manifest was edited in the database.
        """
        chosen = list(run_ids)
        found = {
            row.run_id: rows.run_record(row)
            for batch in batches(chosen)
            for row in self._rows(_records().where(runs.c.run_id.in_(batch)))
        }
        unknown = [run_id for run_id in chosen if run_id not in found]
        if unknown:
            raise NotInLedger(kind="run", name=unknown[0])
        return tuple(found[run_id] for run_id in chosen)

    def references(self) -> tuple[PinnedReference, ...]:
        """Every reference that a manifest pins, each document once, by name and version.

        Cost: the JSON of every manifest is read, and nothing is made of what it pins.
        """
        found: dict[tuple[str, str], PinnedReference] = {}
        for batch in batches(self._values(select(manifests.c.run_id)), PAGE):
            for body in self._values(select(manifests.c.body).where(manifests.c.run_id.in_(batch))):
                with suppress(ValueError, KeyError, TypeError):  # edited in the database, which an audit finds
                    for document in without_pins(body)[0]["references"]:
                        pinned = PinnedReference.parse(document)
                        found[pinned.name, pinned.sha256] = pinned
        return tuple(sorted(found.values(), key=lambda each: (each.name, each.version, each.sha256)))

    def tables_of(self, run_ids: Iterable[str]) -> Mapping[str, str]:
        """The tables that those of these ids that are runs target.

        Cost: one primary key lookup per id.
        """
        held = select(runs.c.run_id, runs.c.table_name)
        chosen = (held.where(runs.c.run_id.in_(batch)) for batch in batches(run_ids))
        return {row.run_id: row.table_name for statement in chosen for row in self._rows(statement)}

    def counts(self) -> Mapping[tuple[str, RunState], int]:
        """How many runs there are, by table and state.

        Cost: one index scan over all runs, counted in the database.
        """
        counted = select(runs.c.table_name, runs.c.state, func.count().label("found"))
        grouped = counted.group_by(runs.c.table_name, runs.c.state)
        return {(row.table_name, row.state): row.found for row in self._rows(grouped)}

    def state(self, run_id: str) -> RunState:
        """How far a run is.

        Cost: one primary key lookup.

        Raises:
            UnknownName: There is no such run.
        """
        row = self._row(select(runs.c.state).where(runs.c.run_id == run_id))
        if row is None:
            raise NotInLedger(kind="run", name=run_id)
        state: RunState = row.state
        return state

    def states(self, run_ids: Iterable[str]) -> Mapping[str, RunState]:
        """The states of those of these ids that are runs.

        Cost: one primary key lookup per id.
        """
        chosen = (select(runs.c.run_id, runs.c.state).where(runs.c.run_id.in_(batch)) for batch in batches(run_ids))
        return {row.run_id: row.state for statement in chosen for row in self._rows(statement)}


_NOT_IN_HEADERS = ("attempt",)


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
        .join(approvals, approvals.c.run_id == runs.c.run_id)
        .outerjoin(leases, leases.c.work_id == runs.c.run_id)
    )


def _records() -> Select[*tuple[object, ...]]:
    return _headers().add_columns(manifests.c.body)


def _chosen(statement: Select[*tuple[object, ...]], chosen: RunFilter) -> Select[*tuple[object, ...]]:
    if "table" in chosen:
        statement = statement.where(runs.c.table_name == chosen["table"])
    if "states" in chosen:
        statement = statement.where(runs.c.state.in_(tuple(chosen["states"])))
    if "modes" in chosen:
        statement = statement.where(runs.c.mode.in_(chosen["modes"]))
    if "because" in chosen:
        statement = statement.where(runs.c.because == chosen["because"])
    if "after" in chosen:
        statement = statement.where(runs.c.added_sequence > chosen["after"])
    if "before" in chosen:
        statement = statement.where(runs.c.added_sequence < chosen["before"])
    if "person" in chosen:
        statement = statement.where(_acted(chosen["person"]))
    if "follows" in chosen:
        followers = select(run_follows.c.run_id).where(run_follows.c.publication_id == chosen["follows"])
        statement = statement.where(runs.c.run_id.in_(followers))
    if chosen.get("over"):
        statement = statement.where(
            runs.c.first_partition <= max(chosen["over"]), runs.c.last_partition >= min(chosen["over"])
        )
    return statement.order_by(runs.c.added_sequence.desc()).limit(chosen.get("limit"))


def _acted(person: str) -> ColumnElement[bool]:
    """Whether a person acted on a run: by index, run by run."""
    name = person.lower()
    of_set = select(set_members.c.set_id).where(set_members.c.run_id == runs.c.run_id).scalar_subquery()
    on_run = exists().where(events.c.entity_id == runs.c.run_id, func.lower(events.c.actor) == name)
    on_set = exists().where(events.c.entity_id == of_set, func.lower(events.c.actor) == name)
    published = exists().where(publications.c.run_id == runs.c.run_id, func.lower(publications.c.asked_by) == name)
    return or_(on_run, on_set, published)


NO_ATTEMPT = ""
"""The attempt of a run on which no process works."""


class RunSteps(Queries):
    """Inserts runs and takes their steps, whatever asks for them."""

    def __init__(self, log: EventLog, leases: LeaseSteps) -> None:
        super().__init__(log.connection)
        self._log, self._leases = log, leases

    def insert(self, manifest: Manifest, *, actor: str) -> None:
        """Writes a manifest down. Its run is PLANNED and its approval a DRAFT.

        Raises:
            Refused: It has no reason or no requester, or its run exists.
        """
        one_line("the reason", manifest.reason)
        one_line("the requester", manifest.requested_by)
        run_id = one_line("the run id", manifest.run_id)
        if self._row(select(manifests.c.run_id).where(manifests.c.run_id == run_id)):
            raise AlreadyRecorded(kind="run", name=run_id)
        document = {"run_id": run_id, "digest": manifest.digest, "body": manifest.text}
        self._log.write(insert(manifests).values(document), of=[run_id])
        self._log.write(
            insert(runs).values(
                run_id=run_id,
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
            ),
            of=[run_id],
        )
        follows = [{"run_id": run_id, "publication_id": each} for each in dict.fromkeys(manifest.cause.publications)]
        if follows:
            self._log.write(insert(run_follows), follows, of=[run_id])
        self._log.write(insert(approvals).values(run_id=run_id, state=ApprovalState.DRAFT, note=""), of=[run_id])
        self._log.append(
            Event(
                actor=actor,
                entity="run",
                entity_id=run_id,
                action="planned",
                to_state=str(RunState.PLANNED),
                payload={
                    "manifest_digest": manifest.digest,
                    "table": manifest.table,
                    "kind": str(manifest.kind),
                    "reason": manifest.reason,
                    "requested_by": manifest.requested_by,
                },
            )
        )

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
    ) -> None:
        """Takes a step of a run; without an attempt, its lease ends with it.

        Raises:
            IllegalTransition: The table does not allow the step, or the run is not where the step begins.
        """
        self._log.change(
            Step(
                table=runs,
                key={"run_id": run_id},
                name=f"run {run_id}",
                begins=begins,
                ends=ends,
            ),
            Event(
                actor=actor,
                entity="run",
                entity_id=run_id,
                action="moved",
                payload={**payload, "note": note} if note else payload,
            ),
            also={"note": storable_text("the note", note), "updated_at": self._log.now, "attempt": attempt},
        )
        if attempt == NO_ATTEMPT:
            self._leases.drop(run_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancellation:
    """A person's decision against a run or a set."""

    by: str
    reason: str

    @staticmethod
    def of(by: str, reason: str) -> Cancellation:
        """The decision, checked.

        Raises:
            Refused: The name is missing or no person's, or there is no reason.
        """
        who = one_line("the name", by)
        require_person("the one who cancels", who)
        return Cancellation(by=who, reason=one_line("the reason", reason))

    @property
    def note(self) -> str:
        """What the run or the set says about its state from then on."""
        return f"cancelled by {self.by}: {self.reason}"


def cancel_run(steps: RunSteps, run_id: str, state: RunState, decision: Cancellation) -> None:
    """Cancels a run that is not visible to readers. Its process is refused its next step.

    Raises:
        IllegalTransition: Readers see it, or it is being published.
    """
    if not may_follow(state, RunState.CANCELLED):
        raise NotCancellable(name=run_id, state=state)
    payload = {"reason": decision.reason}
    steps.move(run_id, state, RunState.CANCELLED, actor=decision.by, note=decision.note, payload=payload)
