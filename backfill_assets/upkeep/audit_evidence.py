"""Audit of the tables that people query about runs: their lineage, and the results of their gates.

Both are copies of what the ledger has, in the lake. What was appended is compared row by row.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date

from backfill_assets.core.columns import EVIDENCE_OF_RUN, LINEAGE, LINEAGE_OF_RUN, PUBLISHED_AT, RUN_ID
from backfill_assets.core.grouped import grouped
from backfill_assets.core.identity import canonical_json
from backfill_assets.lake.append import VALIDATION_COLUMNS, lineage_rows, validation_table
from backfill_assets.lake.log_evidence import misleading_statistics
from backfill_assets.ledger.findings import GateResult
from backfill_assets.ledger.records import PublicationRecord
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest import lineage_digest
from backfill_assets.upkeep.audit_tables import LANDED
from backfill_assets.workspace import Workspace


def statistics_problems(ws: Workspace, table: str) -> Iterator[tuple[str, str]]:
    """The files of which the log of a table makes readers skip rows that are there, with a sentence about each."""
    if ws.lake.exists(table):
        for path in misleading_statistics(ws.lake, table):
            yield path, f"{table}: its log says of {path} what is not true of its rows, so that readers skip some."


def lineage_problems(ws: Workspace, records: Sequence[PublicationRecord], lost: Collection[str]) -> Iterator[str]:
    """Where the lineage of runs is not what the publications of these runs recorded.

    Args:
        lost: Runs that only the lake knows, as a person has accepted.
    """
    recorded = grouped((record.run_id, record) for record in records if record.lineage_digest)
    landed = {record.run_id for record in records if record.lineage_digest and record.state in LANDED}
    seen: Counter[str] = Counter()
    for row in lineage_rows(ws.lake):
        if not {RUN_ID, *LINEAGE_OF_RUN} <= row.keys() <= {RUN_ID, *LINEAGE_OF_RUN, *EVIDENCE_OF_RUN}:
            yield f"{LINEAGE}: its columns were changed: they are {', '.join(row)}."
            return
        run_id = str(row[RUN_ID])
        seen[run_id] += 1
        if run_id not in recorded:
            if run_id in lost:
                continue
            yield f"{LINEAGE}: a row of run {run_id} that no publication explains."
        elif not is_recorded(row, recorded[run_id]):
            yield f"{LINEAGE}: the row of run {run_id} is not what its publication recorded."
    for run_id, count in seen.items():
        if count > 1:
            yield f"{LINEAGE}: run {run_id} has {count} rows."
    for run_id in sorted(landed - seen.keys()):
        yield f"{LINEAGE}: the row of run {run_id}, which was published, is gone."


def is_recorded(row: Mapping[str, str], publications: Iterable[PublicationRecord]) -> bool:
    """True if a row is what a publication of the run recorded: one that was rolled back, and published again by a
    later release, keeps the row of its first publication."""
    at = row.get(PUBLISHED_AT)
    found = [each for each in publications if each.lineage_digest == lineage_digest(row)]
    return bool(found) and (at is None or any(at == each.started_at.isoformat() for each in publications))


def validation_problems(ws: Workspace, tx: ReadTransaction, validation: str, tables: Collection[str]) -> Iterator[str]:
    """Where the table behind `validation/<name>` lacks gate results that the ledger has, or has some of no run.

    Results of earlier attempts of a run stay in the table, and the ledger has the last ones.

    Args:
        validation: The table with the results.
        tables: The tables whose results it holds.

    Cost: one pass over the results in the ledger and in the table; memory grows with their number.
    """
    if not any(True for _ in recorded_results(tx, tables)):
        return
    if not ws.lake.exists(validation):
        yield f"{validation}: the table with the results of gates is gone."
        return
    if gone := _gone(ws.lake.open(validation).to_pyarrow_dataset().schema.names):
        yield f"{validation}: its columns were changed: {gone} are not there."
        return
    lacking, others = _lacking(ws, tx, validation, tables)
    for name in sorted(f"{each.gate} on {each.partition} of run {each.run_id}" for _, each in lacking):
        yield f"{validation}: the result of {name} is gone, or is not the one in the ledger."
    for run_id in sorted(others - tx.runs.existing(others) - tx.publications.lost_runs()):
        yield f"{validation}: results of run {run_id}, which the ledger does not know."


Recorded = tuple[int | None, GateResult]
"""A gate result, with the accepted version that a later check measured; None for what a run measured."""


def recorded_results(tx: ReadTransaction, tables: Iterable[str]) -> Iterator[Recorded]:
    """Everything that gates found in the runs of some tables, and in later checks of their rows.

    Cost: every gate result of these tables, a page at a time.
    """
    named = tuple(tables)
    yield from ((None, each) for each in tx.candidates.every_gate_result(named))
    yield from tx.checks.every_result(named)


def lacking_results(ws: Workspace, tx: ReadTransaction, table: str) -> Sequence[Recorded]:
    """The gate results of a table that the ledger has, and the table behind `validation/<name>` lacks."""
    return _lacking(ws, tx, validation_table(table), [table])[0]


def runs_of_results(ws: Workspace, table: str) -> frozenset[str]:
    """The runs of which the table behind `validation/<name>` has results."""
    return frozenset(str(values[VALIDATION_COLUMNS.index("run_id")]) for values in _held(ws, validation_table(table)))


def _lacking(
    ws: Workspace, tx: ReadTransaction, validation: str, tables: Collection[str]
) -> tuple[Sequence[Recorded], frozenset[str]]:
    """The results that the ledger has and the table lacks; and the runs of the results that only the table has."""
    lacking = {_of_result(result): (version, result) for version, result in recorded_results(tx, tables)}
    known = {result.run_id for _, result in lacking.values()}
    seen: set[str] = set()
    for values in _held(ws, validation):
        lacking.pop(_digest(values), None)
        seen.add(str(values[VALIDATION_COLUMNS.index("run_id")]))
    return tuple(lacking.values()), frozenset(seen - known)


def held_results(ws: Workspace, validation: str) -> Iterator[Mapping[str, object]]:
    """The rows of a table with gate results, by column; none where its columns were changed."""
    if ws.lake.exists(validation):
        with ws.lake.reading(validation):
            held = ws.lake.open(validation).to_pyarrow_dataset()
            if not _gone(held.schema.names):
                for batch in held.to_batches():
                    yield from batch.to_pylist()


def _held(ws: Workspace, validation: str) -> Iterator[Sequence[object]]:
    """The rows of a table with gate results, in the columns that the ledger has too; none when there is no table."""
    if not ws.lake.exists(validation):
        return
    with ws.lake.reading(validation):
        held = ws.lake.open(validation).to_pyarrow_dataset()
        if _gone(held.schema.names):
            return
        for batch in held.to_batches(columns=list(VALIDATION_COLUMNS)):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _gone(names: Collection[str]) -> str:
    return ", ".join(name for name in VALIDATION_COLUMNS if name not in names)


def _of_result(result: GateResult) -> bytes:
    observed = canonical_json(dict(result.observed))
    values = (result.partition, result.run_id, result.gate, result.blocking, result.passed, str(result.finding))
    return _digest((*values, observed, result.digest))


def _digest(values: Sequence[object]) -> bytes:
    plain = [value.isoformat() if isinstance(value, date) else value for value in values]
    return hashlib.sha256(json.dumps(plain).encode()).digest()
