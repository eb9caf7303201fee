"""Candidates of the example domain made by hand: real files, and records as staging and gating leave them; no Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import StructType

from backfill_assets.candidates.evaluate import validation_rows
from backfill_assets.core.identity import EMPTY_FILE_SET, DataFile, FileSet
from backfill_assets.lake.append import append_validation
from backfill_assets.lake.checksums import FORM
from backfill_assets.lake.tables import Lake
from backfill_assets.ledger.findings import Finding, GateResult
from backfill_assets.ledger.records import CandidatePartition, PartitionVersion
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import GateTerm
from backfill_assets.transforms.schemas import RUN_LINEAGE
from backfill_assets_tests.domains import example as example_domain
from backfill_assets_tests.support.lakes import folder_of

SILVER, GOLD = "silver.recent_sales", "gold.sales_monthly"
COLUMN = {SILVER: "day", GOLD: "month"}
SCHEMA = {SILVER: example_domain.RECENT_SALES, GOLD: example_domain.SALES_MONTHLY}

BESIDES: dict[str, Mapping[str, list[str]]] = {SILVER: {"shop": ["only"]}}
"""Further columns of a row, by table."""

RowsOf = Mapping[date, tuple[int, ...]]
"""The amount in each file of a partition; none for a partition without rows."""


def make_tables(lake: Lake) -> None:
    """Makes both tables, empty, with their columns of lineage: otherwise every swap would change the schema."""
    for table, schema in SCHEMA.items():
        lake.ensure(table, StructType([*schema.fields, *RUN_LINEAGE.fields]), COLUMN[table])


def written(lake: Lake, table: str, run_id: str, attempt: str, rows: RowsOf) -> dict[date, CandidatePartition]:
    """The candidate of a run, with one file per amount below `_runs/`."""
    return {
        day: CandidatePartition(
            run_id=run_id,
            partition=day,
            files=FileSet.of(
                _write(lake, table, f"_runs/{run_id}/{attempt}/{COLUMN[table]}={day}/part-{number}.parquet", amount)
                for number, amount in enumerate(amounts)
            ),
            rows=len(amounts),
            checksum=checksum_of(amounts),
        )
        for day, amounts in rows.items()
    }


def _write(lake: Lake, table: str, relative: str, amount: int) -> DataFile:
    path = folder_of(lake, table) / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({**BESIDES.get(table, {}), "amount": pa.array([amount], pa.int64())}), path)
    return DataFile(path=relative, size_bytes=path.stat().st_size, rows=1)


def checksum_of(amounts: Iterable[int]) -> str:
    """Stands for the content checksum of a partition, which begins with its form and the number of rows."""
    held = sorted(amounts)
    return f"{FORM}:{len(held)}:{held}"


def compared(
    staged: Mapping[date, CandidatePartition], accepted: Mapping[date, PartitionVersion]
) -> list[CandidatePartition]:
    """A candidate after its gates: what it was compared with."""
    return [
        replace(
            candidate,
            compared_version=accepted[day].version if day in accepted else 0,
            compared_digest=(accepted[day].files if day in accepted else EMPTY_FILE_SET).digest,
            compared_checksum=accepted[day].checksum if day in accepted else "",
        )
        for day, candidate in staged.items()
    ]


def append_results(lake: Lake, manifest: Manifest, results: Sequence[GateResult], attempt: str) -> None:
    """Appends results of gates to the table that people query, as gating does before the ledger has them."""
    name = f"validation:{manifest.run_id}:{attempt}"
    append_validation(lake, manifest.table, validation_rows(manifest, results), app_id=name)


def all_passed(staged: Mapping[date, CandidatePartition], gates: Iterable[GateTerm]) -> list[GateResult]:
    """Every gate has passed for every partition."""
    return [
        GateResult(
            run_id=candidate.run_id,
            partition=day,
            gate=gate.name,
            blocking=gate.blocking,
            passed=True,
            digest=candidate.files.digest,
            finding=Finding.COLUMNS,
        )
        for gate in gates
        for day, candidate in staged.items()
    ]
