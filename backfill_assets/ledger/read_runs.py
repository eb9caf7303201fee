"""Reads of runs: their manifests and states. What was staged and measured for a run is in `read_candidates`."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from typing import TypedDict, Unpack

from sqlalchemy import ColumnElement, Select, and_, exists, func, or_, select

from backfill_assets.errors import UnknownName
from backfill_assets.ledger import rows
from backfill_assets.ledger.pinned_text import without_pins
from backfill_assets.ledger.queries import PAGE, Queries, Unreadable, batches, readable
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
from backfill_assets.ledger.states import RunState
from backfill_assets.next_steps import Act, do
from backfill_assets.planning.manifest_parts import CauseKind, Mode, PinnedReference


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
            raise unknown_run(run_id)
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
            raise unknown_run(run_id)
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
            raise unknown_run(unknown[0])
        return tuple(found[run_id] for run_id in chosen)

    def releases(self, run_ids: Iterable[str]) -> Mapping[str, str]:
        """The transform version of those of these ids that are runs.

        Cost: one primary key lookup per id; the JSON of every manifest is read, and nothing is made of what it pins.
        """
        chosen = select(manifests.c.run_id, manifests.c.body)
        return {
            row.run_id: str(json.loads(row.body).get("transform_version", ""))
            for batch in batches(run_ids)
            for row in self._rows(chosen.where(manifests.c.run_id.in_(batch)))
        }

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
            raise unknown_run(run_id)
        state: RunState = row.state
        return state

    def states(self, run_ids: Iterable[str]) -> Mapping[str, RunState]:
        """The states of those of these ids that are runs.

        Cost: one primary key lookup per id.
        """
        chosen = (select(runs.c.run_id, runs.c.state).where(runs.c.run_id.in_(batch)) for batch in batches(run_ids))
        return {row.run_id: row.state for statement in chosen for row in self._rows(statement)}


def unknown_run(run_id: str) -> UnknownName:
    """The error for a run that was never planned."""
    return UnknownName(f"there is no run {run_id!r}.", next_step=do(Act.STATUS), run_id=run_id)


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
        statement = statement.where(runs.c.mode.in_([str(mode) for mode in chosen["modes"]]))
    if "because" in chosen:
        statement = statement.where(runs.c.because == str(chosen["because"]))
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
        reaches = and_(runs.c.first_partition <= max(chosen["over"]), runs.c.last_partition >= min(chosen["over"]))
        # An upgrade leaves the columns of a manifest empty that it cannot read.
        statement = statement.where(or_(reaches, runs.c.first_partition.is_(None)))
    return statement.order_by(runs.c.added_sequence.desc()).limit(chosen.get("limit"))


def _acted(person: str) -> ColumnElement[bool]:
    """Whether a person acted on a run: by index, run by run."""
    name = person.lower()
    of_set = select(set_members.c.set_id).where(set_members.c.run_id == runs.c.run_id).scalar_subquery()
    on_run = exists().where(events.c.entity_id == runs.c.run_id, func.lower(events.c.actor) == name)
    on_set = exists().where(events.c.entity_id == of_set, func.lower(events.c.actor) == name)
    published = exists().where(publications.c.run_id == runs.c.run_id, func.lower(publications.c.asked_by) == name)
    return or_(on_run, on_set, published)
