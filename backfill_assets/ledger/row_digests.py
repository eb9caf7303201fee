"""Row digests: every event records the digests of the rows that were changed, so that an edited row shows.

Every writing statement of the ledger names the entities whose rows it changes (`EventLog.write`). The next event has
the digest of these rows before and after, and the chain of hashes protects it. With the digest before, an edit is found
although a later change has recorded the edited row: it is not what the event before had left.

`PROTECTED` lists the tables, and `UNPROTECTED` those that have no digests, with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from sqlalchemy import Column, Connection, Select, String, Table, bindparam, select, tuple_, type_coerce

from backfill_assets.core.identity import sha256_text
from backfill_assets.ledger import schema
from backfill_assets.ledger.queries import Queries, batches

Entity = str | tuple[str | int, ...]
"""The value of the columns by which rows of a table are digested together; several columns make a tuple."""

Changed = Mapping[str, Mapping[str, tuple[str, str]]]
"""The digests that an event records: by table and entity, the digest of the rows before and after. Without rows it is
empty."""

PROTECTED: Final[Mapping[Table, tuple[str, ...]]] = {
    schema.manifests: ("run_id",),
    schema.runs: ("run_id",),
    schema.run_follows: ("run_id",),
    schema.approvals: ("request_id",),
    schema.samples: ("run_id",),
    schema.chunk_runs: ("run_id", "number"),
    schema.candidate_partitions: ("run_id", "chunk"),
    schema.gate_results: ("run_id",),
    schema.gate_reads: ("run_id",),
    schema.publications: ("publication_id",),
    schema.publication_changes: ("publication_id",),
    schema.partition_versions: ("publication_id", "month"),
    schema.verifications: ("publication_id",),
    schema.checked_gates: ("table_name", "month"),
    schema.restatement_sets: ("set_id",),
    schema.outbox: ("publication_id",),
    schema.freezes: ("freeze_id",),
    schema.captures: ("capture_id",),
    schema.captured_files: ("capture_id", "number"),
    schema.replays: ("replay_id",),
    schema.table_acts: ("act_id",),
    schema.compared_partitions: ("table_name",),
    schema.compared_days: ("table_name",),
    schema.imports: ("import_id",),
    schema.import_days: ("import_id",),
}
"""The columns that name the entity of a row, by table. All columns of these tables are in the digest."""

UNPROTECTED: Final[Mapping[Table, str]] = {
    schema.events: "the chain of hashes protects the events themselves",
    schema.chain_head: "the check of the chain compares it with the last event",
    schema.leases: "a renewal is not an event and waits for no lock; a run's attempt decides what a process may do",
}
"""The tables without digests, each with the reason."""

_NOTHING = ""
_ENTITIES = "entities"
_PAGE = 200


class RowDigests(Queries):
    """The digests of the rows that one transaction writes."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._recorded: dict[tuple[Table, Entity], str] = {}
        self._written: dict[Table, dict[Entity, None]] = {}

    @property
    def is_recorded(self) -> bool:
        """True if an event has the digests of everything that was written."""
        return not self._written

    def expect(self, table: Table, entities: Iterable[Entity]) -> None:
        """Notes the digests that the rows of these entities have before they are written."""
        named = dict.fromkeys(entities)
        unknown = [entity for entity in named if (table, entity) not in self._recorded]
        found = self._digests(table, unknown)
        self._recorded |= {(table, entity): found.get(entity, _NOTHING) for entity in unknown}
        self._written[table] = self._written.get(table, {}) | named

    def take(self) -> Changed:
        """Takes the writes since the event before, for the next event."""
        changed: dict[str, dict[str, tuple[str, str]]] = {}
        for table, entities in self._written.items():
            found = self._digests(table, entities)
            for entity in entities:
                before, after = self._recorded[table, entity], found.get(entity, _NOTHING)
                self._recorded[table, entity] = after
                if (before, after) != (_NOTHING, _NOTHING):
                    changed.setdefault(table.name, {})[_name_of(entity)] = (before, after)
        self._written = {}
        return changed

    def _digests(self, table: Table, entities: Iterable[Entity]) -> dict[Entity, str]:
        found: dict[Entity, str] = {}
        for batch in batches(entities):
            found |= dict(_grouped(table, self._connection.execute(_rows_named(table), {_ENTITIES: batch}).all()))
        return found


class RowChecks(Queries):
    """Compares rows with events."""

    def violations(self) -> tuple[str, ...]:
        """The changes made in the rows behind the ledger's back, one sentence each.

        Cost: one pass over all events and over all rows of the protected tables; memory grows with the number of runs,
        publications, sets and imports.
        """
        return tuple(self._violations())

    def _violations(self) -> Iterator[str]:
        recorded: dict[tuple[str, str], tuple[int, str]] = {}
        events = schema.events
        chosen = select(events.c.sequence, events.c.digests).where(events.c.digests != {})
        for row in self._paged(chosen, events.c.sequence, after=0):
            for table, entities in row.digests.items():
                for entity, (before, after) in entities.items():
                    event, expected = recorded.pop((table, entity), (0, _NOTHING))
                    if before != expected:
                        when = f"after event {event}, before event {row.sequence}"
                        yield f"{_words(table)} of {entity} were edited {when}."
                    if after:
                        recorded[table, entity] = (row.sequence, after)
        for table in PROTECTED:
            for found, digest in self._present(table):
                entity = _name_of(found)
                event, expected = recorded.pop((table.name, entity), (0, _NOTHING))
                if not expected:
                    yield f"{_words(table.name)} of {entity} were added: no event explains them."
                elif digest != expected:
                    yield f"{_words(table.name)} of {entity} were edited: they are not what event {event} recorded."
        for (name, entity), (event, _) in recorded.items():
            yield f"{_words(name)} of {entity} were removed: event {event} recorded them."

    def _present(self, table: Table) -> Iterator[tuple[Entity, str]]:
        # A few rows at a time: manifests and file sets of ten years do not fit into memory.
        return _grouped(table, self._streamed(_rows_of(table), _PAGE))


def _entity_columns(table: Table) -> tuple[Column[Any], ...]:
    return tuple(table.c[name] for name in PROTECTED[table])


def _rows_of(table: Table) -> Select[*tuple[Any, ...]]:
    """The rows by entity. Columns are read as the database keeps them: an edit may have left what cannot be read."""
    raw = (type_coerce(column, String).label(column.name) for column in table.c)
    return select(*raw).order_by(*_entity_columns(table))


@cache
def _rows_named(table: Table) -> Select[*tuple[Any, ...]]:
    """The rows of `_ENTITIES`. One statement of a table: to make it anew takes longer than to execute it."""
    columns = _entity_columns(table)
    entity = columns[0] if len(columns) == 1 else tuple_(*columns)
    return _rows_of(table).where(entity.in_(bindparam(_ENTITIES, expanding=True)))


def _grouped(table: Table, found: Iterable[Any]) -> Iterator[tuple[Entity, str]]:
    """The digest of the rows of each entity."""
    names = tuple(column.name for column in table.c)
    entity = itemgetter(*(names.index(name) for name in PROTECTED[table]))
    key = [names.index(column.name) for column in table.primary_key]
    for values, of_entity in groupby(found, entity):
        # Sorted here: the order of texts in a database depends on its collation.
        rows = sorted(of_entity, key=lambda row: [str(row[at]) for at in key])
        # A column that a later revision adds is NULL in earlier rows, so NULL is left out.
        documents = [{name: value for name, value in zip(names, row, strict=True) if value is not None} for row in rows]
        text = json.dumps(documents, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_plain)
        yield values, sha256_text(text)


def _plain(value: object) -> str:
    # The time zone of a session of PostgreSQL is a setting.
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else str(value)


def _words(table: str) -> str:
    return table.replace("_", " ")


def _name_of(entity: Entity) -> str:
    return entity if isinstance(entity, str) else "/".join(map(str, entity))
