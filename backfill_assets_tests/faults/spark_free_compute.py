"""The story domain computed without Spark: real files, real staging and gating, and a sum where Spark would be asked.

What is replaced is the edge to Spark alone: reading landed and pinned files, the transform, writing Parquet, and the
measurements of the gates. Everything that decides, records or publishes is the product's own code.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backfill_assets.candidates import evaluate, stage
from backfill_assets.candidates.inputs import PinnedFiles, files_read
from backfill_assets.capture.landed_files import LandedFile, landing_files
from backfill_assets.core.identity import DataFile, FileSet
from backfill_assets.domain import Table
from backfill_assets.files.local import sha256_of_file
from backfill_assets.gates.measured import Measured
from backfill_assets.lake.checksums import checksum_text
from backfill_assets.lake.tables import Lake
from backfill_assets.ledger.imports import ImportCounts, ImportDay, ImportRecord, KeyCounts
from backfill_assets.planning.manifest import Chunk, Manifest
from backfill_assets.planning.stages import Reads
from backfill_assets.requests import propose
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support.lakes import folder_of

Row = tuple[int, ...]
"""The values of a partition's one row, without its key."""

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "bronze.orders": ("amount", "colour"),
    "silver.turnover": ("amount",),
    "silver.colours": ("colours",),
    "silver.colours_v2": ("colours",),
    "gold.palette": ("amount", "colours"),
}


@dataclass(frozen=True, kw_only=True)
class Frame:
    """What a transform returns: at most one row per partition."""

    rows: Mapping[date, Row]
    table: str

    def observe(self, *_: object) -> Frame:
        """Nothing is observed: the checksum of a chunk stays empty."""
        return self


@dataclass(kw_only=True)
class SparkFreeCompute:
    """What has landed, by import: the order of each day."""

    files: dict[str, Mapping[date, Row]] = field(default_factory=dict)

    def land(self, ws: Workspace, orders: Mapping[date, Row], *, by: str) -> str:
        """Takes a file of orders in, one a day; the latest arrival of a day wins."""
        text = json.dumps({day.isoformat(): row for day, row in orders.items()} | {"number": len(self.files)})
        digest = hashlib.sha256(text.encode()).hexdigest()
        stored = f"orders/{digest}.jsonl"
        landing_files(ws.settings).put_if_absent(stored, text.encode())
        offered = LandedFile(
            source="bronze.orders",
            family="file",
            range_from="0",
            range_to=str(len(text)),
            sha256=digest,
            original_path=f"{len(self.files)}.jsonl",
            stored_path=stored,
            size_bytes=len(text),
            format="jsonl",
            compression="",
        )
        with ws.ledger.write() as writer:
            import_id = writer.imports.begin(offered, actor=by).import_id
            writer.imports.finish(
                import_id,
                counts=ImportCounts(landed=len(orders), accepted=len(orders)),
                days=[ImportDay(import_id=import_id, event_date=day, events=1, displaced=0) for day in orders],
                schema_versions=[1],
                ignored_columns=[],
                keys=KeyCounts(current=len(orders)),
                actor=by,
            )
        self.files[import_id] = dict(orders)
        return import_id

    def source_rows(
        self,
        _ws: Workspace,
        _manifest: Manifest,
        table: Table,
        partitions: Sequence[date],
        imports: Sequence[ImportRecord],
    ) -> Frame:
        """What bronze has of some days."""
        return Frame(rows=self.rows_of(imports, partitions), table=table.name)

    def rows_of(self, imports: Sequence[ImportRecord], days: Sequence[date]) -> Mapping[date, Row]:
        """The latest order of each day."""
        rows: dict[date, Row] = {}
        for record in sorted(imports, key=lambda record: record.arrival):
            rows |= {day: row for day, row in self.files[record.import_id].items() if day in set(days)}
        return rows


def derived_rows(
    ws: Workspace,
    _manifest: Manifest,
    table: Table,
    partitions: Sequence[date],
    reads: Sequence[Reads],
    files: PinnedFiles,
    _state: object = None,
) -> Frame:
    """The rows of some partitions, from exactly the files that the real code has chosen to read."""
    read = {each.argument: _read(ws.lake, each.table, files_read(each, files)) for each in reads}
    return Frame(rows={p: row for p in partitions if (row := _computed(table.name, p, read))}, table=table.name)


def staged_rows(frame: Frame, _table: Table, chunk: Chunk) -> Frame:
    """The rows of a chunk without those of its neighbours."""
    return Frame(rows={day: row for day, row in frame.rows.items() if day in chunk.partitions}, table=frame.table)


def _computed(table: str, partition: date, read: Mapping[str, Mapping[date, Row]]) -> Row | None:
    if table == "silver.turnover":
        days = [row for day in (partition, partition + timedelta(1)) if (row := read["orders"].get(day))]
        return (sum(row[0] for row in days),) if days else None
    if table.startswith("silver.colours"):
        return (read["orders"][partition][1],) if partition in read["orders"] else None
    both = read["turnover"].keys() & read["colours"].keys() & {partition - timedelta(1), partition}
    if not both:
        return None
    return sum(read["turnover"][day][0] for day in both), sum(read["colours"][day][0] for day in both)


def _read(lake: Lake, table: str, file_sets: Iterable[FileSet]) -> dict[date, Row]:
    """The rows of some files, by the partition that their path names."""
    found: dict[date, Row] = {}
    for file in (file for file_set in file_sets for file in file_set.files):
        partition = date.fromisoformat(Path(file.path).parent.name.partition("=")[2])
        (row,) = pq.read_table(folder_of(lake, table) / file.path, columns=list(COLUMNS[table])).to_pylist()
        found[partition] = tuple(row[name] for name in COLUMNS[table])
    return found


def write_staged(
    lake: Lake,
    table: str,
    frame: Frame,
    *,
    run_id: str,
    attempt: str,
    partition_column: str,
    **_options: Any,
) -> Mapping[str, FileSet]:
    """One file per row, below `_runs/`."""
    written: dict[str, FileSet] = {}
    root = folder_of(lake, table)
    for partition, row in frame.rows.items():
        path = root / "_runs" / run_id / attempt / f"{partition_column}={partition}" / "part-0.parquet"
        path.parent.mkdir(parents=True)
        columns = {name: pa.array([value], pa.int64()) for name, value in zip(COLUMNS[table], row, strict=True)}
        pq.write_table(pa.table(columns), path)
        written[partition.isoformat()] = FileSet.of(
            [
                DataFile(
                    path=path.relative_to(root).as_posix(),
                    size_bytes=path.stat().st_size,
                    rows=1,
                    sha256=sha256_of_file(path),
                )
            ]
        )
    return written


def measure(staged: dict[date, Row], accepted: dict[date, Row] | None, table: Table, **_: Any) -> dict[date, Measured]:
    """What the gates would find, one row a partition."""
    before = accepted or {}
    return {
        partition: Measured(
            partition=partition,
            rows=int(partition in staged),
            accepted_rows=int(partition in before),
            checksum=checksum(staged.get(partition)),
            accepted_checksum=checksum(before.get(partition)),
            violations=_violations(table, staged.get(partition)),
            added=int(partition not in before),
            removed=int(partition not in staged),
            changed=int(staged.get(partition) != before.get(partition) and partition in staged.keys() & before.keys()),
            unchanged=int(staged.get(partition) == before.get(partition)),
        )
        for partition in staged.keys() | before.keys()
    }


def _violations(table: Table, row: Row | None) -> Mapping[str, int]:
    return {"plausible": 1} if table.name == "silver.turnover" and row and row[0] > 1000 else {}


def checksum(row: Row | None) -> str:
    """Stands for the content checksum of a partition."""
    if row is None:
        return checksum_text(0, 0, 0, 0, 0)
    return checksum_text(1, int(hashlib.sha256(repr(row).encode()).hexdigest()[:8], 16), 0, 0, 0)


@contextmanager
def without_spark(compute: SparkFreeCompute) -> Iterator[None]:
    """Computes in Python what Spark computes otherwise."""

    def read(ws: Workspace, table: Table, file_sets: Iterable[FileSet]) -> dict[date, Row]:
        return _read(ws.lake, table.name, file_sets)

    replaced: list[tuple[object, Mapping[str, Any]]] = [
        (
            stage,
            {
                "source_rows": compute.source_rows,
                "derived_rows": derived_rows,
                "write_staged": write_staged,
                "_staged_only": staged_rows,
                "_content_of": lambda *_: (),
                "checksum_of": lambda _found, **_prefix: "",
                "Observation": lambda: SimpleNamespace(get={}),
            },
        ),
        (
            evaluate,
            {
                "rows_of": read,
                "contents": lambda *_, **_of: {},
                "accepted_checksums": lambda *_: {},
                "compare_partitions": lambda sides: sides,
                "compare": lambda _found, _before, sides, table: measure(
                    read(sides.ws, table, sides.staged.values()), read(sides.ws, table, sides.accepted.values()), table
                ),
                "breakdown_of": lambda _table: None,
                "_sample": lambda *_: (),
                "failing_keys": lambda *_: (),
                "_wrong_columns": lambda *_: {},
                # Nothing is computed twice.
                "prove": lambda *_: (),
            },
        ),
        # Files computed here do not say which import a row is of.
        (propose, {"rows_by_import": lambda *_: {}}),
        (
            Workspace,
            {"spark": lambda _ws: SimpleNamespace(interruptAll=lambda: None), "versions": lambda _ws, _spark=None: {}},
        ),
    ]
    with pytest.MonkeyPatch.context() as patch:
        for module, names in replaced:
            for name, replacement in names.items():
                patch.setattr(module, name, replacement)
        yield
