"""Samples: the values of rows that the ledger holds, and how they are erased.

Values of rows are in one table, `samples`, and never in an event. The event that recorded a sample has the digest of
its row, as of every row; the salt in the row, which is erased with it, keeps the digest from proving a guess.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import delete, func, insert, select

from backfill_assets.core.identity import canonical_json, plain
from backfill_assets.ledger import rows
from backfill_assets.ledger.errors import NoSamples
from backfill_assets.ledger.events import Event, EventLog
from backfill_assets.ledger.findings import (
    BreakdownCell,
    FailingKey,
    PartitionCells,
    RowChanges,
    Sample,
    SampledRow,
    SampleKind,
)
from backfill_assets.ledger.queries import Queries
from backfill_assets.ledger.recorded_text import one_line
from backfill_assets.ledger.records import EventRecord
from backfill_assets.ledger.runs import RunReads
from backfill_assets.ledger.schema import events, samples

ERASED = "samples_erased"
MEASURED = ("gates_recorded", "candidates_cleared")
"""What begins anew what a run's samples show."""

SALT_BYTES = 32


class SampleReads(Queries):
    """The samples of runs."""

    def changed_rows(self, run_id: str) -> tuple[SampledRow, ...]:
        """Rows of a run that differ from the accepted ones; none where none did, or they were erased.

        Cost: the events of the run, by index, and one row.
        """
        return tuple(map(SampledRow.parse, self._latest(run_id, SampleKind.CHANGED_ROWS)))

    def failing_keys(self, run_id: str) -> tuple[FailingKey, ...]:
        """Keys of rows of a run that fail a gate; none where none did, or they were erased.

        Cost: the events of the run, by index, and one row.
        """
        return tuple(map(FailingKey.parse, self._latest(run_id, SampleKind.FAILING_KEYS)))

    def breakdown(self, run_id: str) -> tuple[BreakdownCell, ...]:
        """The measures of a run by business dimensions; none where its table declares none, or they were erased.

        Cost: the events of the run, by index, and one row.
        """
        return tuple(map(BreakdownCell.parse, self._latest(run_id, SampleKind.BREAKDOWN)))

    def row_changes(self, run_id: str) -> tuple[RowChanges, ...]:
        """How much of a tolerated measure a run changes; none where its table tolerates nothing, or they were erased.

        Cost: the events of the run, by index, and one row.
        """
        return tuple(map(RowChanges.parse, self._latest(run_id, SampleKind.ROW_CHANGES)))

    def partition_cells(self, run_ids: Iterable[str]) -> tuple[PartitionCells, ...]:
        """The measures of each partition of runs; none where a table declares none, or they were erased.

        Each names the files that were measured, so that those of an earlier gating do no harm.

        Cost: one row per gating of these runs, by index.
        """
        kept = select(samples.c.body).where(samples.c.kind == SampleKind.PARTITION_CELLS)
        found = self._rows_with(kept, samples.c.run_id, sorted(set(run_ids)))
        return tuple(PartitionCells.parse(each) for row in found for each in json.loads(row.body))

    def _latest(self, run_id: str, kind: SampleKind) -> Iterable[Mapping[str, Any]]:
        body = self._row(
            select(samples.c.body).where(
                samples.c.run_id == run_id, samples.c.kind == kind, samples.c.sequence >= self._measured_at(run_id)
            )
        )
        found: list[Mapping[str, Any]] = [] if body is None else json.loads(body.body)
        return found

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


class SampleWrites(SampleReads):
    """The samples of runs, and their erasure."""

    def __init__(self, log: EventLog) -> None:
        super().__init__(log.connection)
        self._log, self._runs = log, RunReads(log.connection)

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
        self._runs.state(run_id)
        of_run = samples.c.run_id == run_id
        found = self._rows(select(samples.c.sequence, samples.c.kind).where(of_run).order_by(samples.c.sequence))
        if not found:
            return 0
        self._log.write(delete(samples).where(of_run), of=[run_id])
        payload = {"reason": why, "erased": [[row.sequence, str(row.kind)] for row in found]}
        self._log.append(Event("samples", run_id, ERASED, actor=eraser, payload=payload))
        return len(found)


def append_with_samples(log: EventLog, event: Event, run_id: str, kept: Iterable[Sample]) -> int:
    """Keeps samples and appends the event that recorded them; none of their values gets into it."""
    held = [_held(sample, run_id) for sample in kept if sample.rows]
    if held:
        log.write(insert(samples), [{**each, "sequence": log.next_sequence} for each in held], of=[run_id])
    return log.append(event)


def _kept(row: SampledRow | FailingKey | BreakdownCell | PartitionCells | RowChanges) -> Mapping[str, Any]:
    # There are as many cells as partitions, so these have a shorter form.
    found: Mapping[str, Any] = row.document() if isinstance(row, PartitionCells) else plain(row)
    return found


def _held(sample: Sample, run_id: str) -> Mapping[str, Any]:
    return {
        "run_id": run_id,
        "kind": sample.kind,
        "salt": secrets.token_hex(SALT_BYTES),
        "body": canonical_json([_kept(row) for row in sample.rows]),
    }
