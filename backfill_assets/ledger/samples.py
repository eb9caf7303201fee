"""Samples: the values of rows that the ledger holds, and how they are erased.

Values of rows are in one table, `samples`, and never in an event. The event that recorded a sample has the digest of
its row, as of every row; the salt in the row, which is erased with it, keeps the digest from proving a guess.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Select, delete, func, insert, select

from backfill_assets.core.identity import canonical_json, plain
from backfill_assets.ledger import rows
from backfill_assets.ledger.errors import NoSamples
from backfill_assets.ledger.events import Event, EventLog, Writes
from backfill_assets.ledger.findings import SAMPLE_KINDS, PartitionCells, SampleKind, SampleRow, Shown, shown_row
from backfill_assets.ledger.queries import Queries
from backfill_assets.ledger.recorded_text import one_line
from backfill_assets.ledger.records import EventRecord
from backfill_assets.ledger.runs import RunReads
from backfill_assets.ledger.schema import events, samples
from backfill_assets.planning.asked_keys import AskedKeys

ERASED = "samples_erased"
ASKED = "keys_asked"
MEASURED = ("gates_recorded", "candidates_cleared")
"""What begins anew what a run's samples show."""

SALT_BYTES = 32


class SampleReads(Queries):
    """The samples of runs."""

    def latest(self, run_id: str, kind: type[Shown]) -> tuple[Shown, ...]:
        """The latest sample of a kind from the gating of a run; nothing where it found none, or they were erased.

        Cost: the events of the run, by index, and one row.
        """
        body = self._row(
            select(samples.c.body).where(
                samples.c.run_id == run_id,
                samples.c.kind == SAMPLE_KINDS[kind],
                # Exactly that event: later ones keep what checks of the published rows found.
                samples.c.sequence == self._measured_at(run_id),
            )
        )
        return () if body is None else tuple(shown_row(kind, each) for each in json.loads(body.body))

    def asked_keys(self, run_id: str) -> AskedKeys | None:
        """The keys that were asked for when a run was planned; None where none were, or they were erased.

        Cost: the events of the run, by index, and one row.
        """
        row = self._row(select(samples).where(samples.c.run_id == run_id, samples.c.sequence.in_(_asked_at(run_id))))
        if row is None:
            return None
        body = json.loads(row.body)
        return AskedKeys(columns=tuple(body["columns"]), keys=tuple(map(tuple, body["keys"])), salt=row.salt)

    def partition_cells(self, run_ids: Iterable[str]) -> tuple[PartitionCells, ...]:
        """The measures of each partition of runs; none where a table declares none, or they were erased.

        Each names the files that were measured, so that those of an earlier gating do no harm.

        Cost: one row per gating of these runs, by index.
        """
        kept = select(samples.c.body).where(samples.c.kind == SampleKind.PARTITION_CELLS)
        found = self._rows_with(kept, samples.c.run_id, sorted(set(run_ids)))
        return tuple(PartitionCells.parse(each) for row in found for each in json.loads(row.body))

    def erased(self, run_id: str) -> EventRecord | None:
        """The event that erased what the latest gating had kept of a run's rows; None while nothing was erased.

        Cost: the events of the run, by index, twice.
        """
        erased = select(events).where(
            events.c.entity_id == run_id, events.c.action == ERASED, events.c.sequence > self._measured_at(run_id)
        )
        row = self._row(erased.order_by(events.c.sequence.desc()).limit(1))
        return None if row is None else rows.event_record(row)

    def _measured_at(self, run_id: str) -> int:
        last = select(func.max(events.c.sequence)).where(events.c.entity_id == run_id, events.c.action.in_(MEASURED))
        return self._values(last)[0] or 0


class SampleWrites(SampleReads, Writes):
    """The samples of runs, and their erasure."""

    def ask(self, run_id: str, asked: AskedKeys, *, by: str) -> None:
        """Keeps the keys whose rows the report of a run that was just planned will show.

        Cost: one row and one event.
        """
        body = canonical_json({"columns": list(asked.columns), "keys": [list(key) for key in asked.keys]})
        kept = {"sequence": self._log.next_sequence, "run_id": run_id, "kind": SampleKind.CHANGED_ROWS}
        self._log.write(insert(samples), [{**kept, "salt": asked.salt, "body": body}], of=[run_id])
        self._log.append(Event("samples", run_id, ASKED, actor=by, payload={"keys": len(asked.keys)}))

    def erase(self, *run_ids: str, by: str, reason: str) -> int:
        """Deletes every value of rows that the ledger holds of these runs, and records of each who did and why.

        Cost: one row per sample of these runs, by index, and one event per run.

        Returns:
            How many samples were erased.

        Raises:
            Refused: A name or a reason is missing, or none of the runs has any.
        """
        eraser, why = one_line("the name", by), one_line("the reason", reason)
        erased = sum(self._erase_of(run_id, eraser, why) for run_id in run_ids)
        if not erased:
            raise NoSamples(run_ids=run_ids)
        return erased

    def _erase_of(self, run_id: str, eraser: str, why: str) -> int:
        RunReads(self._connection).state(run_id)
        of_run = samples.c.run_id == run_id
        found = self._rows(select(samples.c.sequence, samples.c.kind).where(of_run).order_by(samples.c.sequence))
        if not found:
            return 0
        self._log.write(delete(samples).where(of_run), of=[run_id])
        payload = {"reason": why, "erased": [[row.sequence, str(row.kind)] for row in found]}
        self._log.append(Event("samples", run_id, ERASED, actor=eraser, payload=payload))
        return len(found)


def _asked_at(run_id: str) -> Select[tuple[int]]:
    """The event that recorded which keys were asked for: its sample has keys and no rows."""
    return select(events.c.sequence).where(events.c.entity_id == run_id, events.c.action == ASKED)


def append_with_samples(log: EventLog, event: Event, run_id: str, kept: Iterable[Sequence[SampleRow]]) -> None:
    """Keeps samples and appends the event that recorded them; none of their values gets into it.

    Args:
        kept: Of each kind its rows, or none.
    """
    held = [_held(some, run_id) for some in kept if some]
    if held:
        log.write(insert(samples), [{**each, "sequence": log.next_sequence} for each in held], of=[run_id])
    log.append(event)


def _held(some: Sequence[SampleRow], run_id: str) -> Mapping[str, Any]:
    # There are as many cells as partitions, so these have a shorter form.
    kept = [row.document() if isinstance(row, PartitionCells) else plain(row) for row in some]
    kind, salt = SAMPLE_KINDS[type(some[0])], secrets.token_hex(SALT_BYTES)
    return {"run_id": run_id, "kind": kind, "salt": salt, "body": canonical_json(kept)}
