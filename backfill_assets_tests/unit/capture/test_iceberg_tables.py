"""Iceberg tables of others, whatever their history: the state that is captured last is the state of the table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table
from pyiceberg.types import LongType

from backfill_assets.capture.errors import CannotBeCaptured, VersionGone
from backfill_assets.capture.lake_tables.declaration import IcebergTable
from backfill_assets.capture.lake_tables.iceberg import IcebergStream
from backfill_assets.capture.streams import SCAN, Captured, CapturePeriod, Pace
from backfill_assets_tests.support.iceberg_by_hand import POSITIONS, with_deletes

NOW = CapturePeriod(start=None, end=None)
COLUMNS = pa.schema([("id", pa.int64()), ("n", pa.int64())])
Rows = list[dict[str, Any]]


class Reader:
    """Whoever captures a table again and again."""

    def __init__(self, folder: Path, table: str = "shop.sales", **catalog: str) -> None:
        self._declared = IcebergTable(table=table, catalog=catalog)
        self._copy = folder / "copy.parquet"
        self.captured: list[Captured] = []
        self.rows: Rows = []
        self.versions: list[int] = []
        self.is_whole = False

    def capture(self, **declared: Any) -> int:
        """Captures what is new, and returns how many files that is."""
        made = IcebergTable(**{"table": self._declared.table, "catalog": self._declared.catalog, **declared})
        stream = IcebergStream(made, secret={}, event_time="at", operated=None)
        (span,) = stream.resolve(NOW, self.captured).spans
        pieces = list(stream.pieces(span, self.captured))
        found: Rows = []
        for piece in pieces:
            self._copy.unlink(missing_ok=True)
            stream.write(piece, self._copy, Pace())
            found += pq.read_table(self._copy).to_pylist()
            self.captured.append(
                Captured(partition=piece.partition, range_from=piece.range_from, range_to=piece.range_to)
            )
        if pieces:
            self.is_whole = span.partition.startswith(SCAN)
            self.versions.append(found[0]["lake_version"] if found else int(span.range_to) - 1)
            added = ("lake_version", "lake_committed_at")
            self.rows = [{name: value for name, value in row.items() if name not in added} for row in found]
        return len(pieces)


def made_in(folder: Path) -> tuple[Catalog, dict[str, str]]:
    where = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "name": "theirs"}
    catalog = load_catalog("theirs", type="sql", uri=where["uri"], warehouse=f"file://{folder}/lake")
    catalog.create_namespace("shop")
    return catalog, where


def some(*numbers: int, n: int = 1) -> pa.Table:
    return pa.table({"id": numbers, "n": [n] * len(numbers)}, schema=COLUMNS)


def in_order(rows: Sequence[dict[str, Any]]) -> list[str]:
    return sorted(repr(sorted(each.items())) for each in rows)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    catalog, _ = made_in(tmp_path)
    return catalog.create_table("shop.sales", schema=COLUMNS)


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    return Reader(tmp_path, type="sql", uri=f"sqlite:///{tmp_path}/catalog.db", name="theirs")


def test_a_table_that_was_rolled_back_is_read_once_more_and_its_records_are_the_newest(
    reader: Reader, table: Table
) -> None:
    table.append(some(1, 2))
    table.append(some(3))
    table.overwrite(some(1, n=7), overwrite_filter="id = 1")
    reader.capture()
    first = table.metadata.snapshots[0].snapshot_id
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    assert reader.capture() == 1
    assert reader.is_whole
    assert in_order(reader.rows) == in_order(some(1, 2).to_pylist())
    assert reader.versions[1] > reader.versions[0], "a source that is ordered by it takes them for newer"
    assert reader.capture() == 0
    table.refresh()
    table.append(some(9))
    assert reader.capture() == 1
    assert in_order(reader.rows) == in_order(some(1, 2, 9).to_pylist())
    assert reader.versions[2] > reader.versions[1]


def test_a_snapshot_that_was_undone_and_expired_is_not_missed(reader: Reader, table: Table) -> None:
    table.append(some(1, 2))
    table.append(some(3))
    reader.capture()
    first, second = (each.snapshot_id for each in table.metadata.snapshots)
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    table.refresh()
    table.maintenance.expire_snapshots().by_id(second).commit()
    assert reader.capture() == 1
    assert in_order(reader.rows) == in_order(some(1, 2).to_pylist())


def test_another_snapshot_that_is_declared_later_is_captured_also_an_older_one(reader: Reader, table: Table) -> None:
    table.append(some(1, 2))
    table.append(some(3))
    first, second = (each.snapshot_id for each in table.metadata.snapshots)
    for chosen, rows in ((second, some(1, 2, 3)), (first, some(1, 2)), (second, some(1, 2, 3))):
        assert reader.capture(snapshot=chosen) == 1
        assert in_order(reader.rows) == in_order(rows.to_pylist())
        assert reader.capture(snapshot=chosen) == 0


def test_rows_that_were_deleted_by_their_places_are_not_captured(reader: Reader, table: Table, tmp_path: Path) -> None:
    table.append(some(1, 2, 3))
    (task,) = table.scan().plan_files()
    places = pa.table({"file_path": [str(task.file.file_path)] * 2, "pos": [0, 2]}, schema=POSITIONS)
    address = with_deletes(table, tmp_path / "deletes", places)
    reader.capture(table=address, catalog={})
    assert reader.rows == some(2).to_pylist()
    for each in (tmp_path / "deletes").glob("*.parquet"):
        each.unlink()
    with pytest.raises(VersionGone):
        Reader(tmp_path, table=address).capture()


def test_rows_that_were_deleted_by_their_values_are_refused_with_the_reason(
    reader: Reader, table: Table, tmp_path: Path
) -> None:
    table.append(some(1, 2, 3))
    values = pa.table({"id": [2]}, schema=pa.schema([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})]))
    address = with_deletes(table, tmp_path / "deletes", values, equality_ids=[1])
    with pytest.raises(CannotBeCaptured, match="it has equality deletes") as refused:
        reader.capture(table=address, catalog={})
    assert len(refused.value.message.splitlines()) == 1


def test_a_file_that_is_gone_does_not_pass_a_plan(reader: Reader, table: Table, tmp_path: Path) -> None:
    table.append(some(1, 2, 3))
    for each in tmp_path.rglob("*.parquet"):
        each.unlink()
    with pytest.raises(VersionGone):
        reader.capture()


def test_a_data_file_with_a_page_that_does_not_match_its_checksum_is_refused(
    reader: Reader, table: Table, tmp_path: Path
) -> None:
    table.append(some(1, 2, 3))
    (path,) = (tmp_path / "lake").rglob("*.parquet")
    pq.write_table(pq.read_table(path), path, write_page_checksum=True, compression="NONE", use_dictionary=False)
    content = path.read_bytes()
    at = content.index((2).to_bytes(8, "little"))
    path.write_bytes(content[:at] + b"\x04" + content[at + 1 :])
    with pytest.raises(CannotBeCaptured, match="a page of one of its files does not match its checksum"):
        reader.capture()


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["append", "overwrite", "delete", "back", "branch", "rename", "drop and add", "partition", "capture"]
        ),
        st.integers(0, 5),
    ),
    max_size=6,
)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Delete operation did not match")
@given(steps=STEPS)
def test_whatever_happened_to_a_table_its_last_capture_is_its_state(
    steps: list[tuple[str, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("history")
    catalog, where = made_in(folder)
    table = catalog.create_table("shop.sales", schema=COLUMNS)
    table.append(some(0, 1))
    reader, last = Reader(folder, **where), None
    for step, number in [*steps, ("capture", 0)]:
        table.refresh()
        own = table.schema().column_names[1]
        match step:
            case "append":
                table.append(some(number, number + 10).rename_columns(["id", own]))
            case "overwrite":
                table.overwrite(some(number, n=number).rename_columns(["id", own]))
            case "delete":
                table.delete(f"id = {number}")
            case "back":
                history = [each.snapshot_id for each in table.metadata.snapshots]
                chosen = history[number % len(history)]
                table.manage_snapshots().set_current_snapshot(snapshot_id=chosen).commit()
            case "branch":
                current = table.metadata.current_snapshot_id
                assert current is not None
                table.manage_snapshots().create_branch(current, f"b{len(table.metadata.refs)}").commit()
            case "rename":
                with table.update_schema() as change:
                    change.rename_column(own, f"n{number}{len(table.metadata.schemas)}")
            case "drop and add":
                with table.update_schema() as change:
                    change.delete_column(own)
                with table.update_schema() as change:
                    change.add_column(own, LongType())
            case "partition" if not table.spec().fields:
                with table.update_spec() as spec:
                    spec.add_identity("id")
            case "capture":
                reader.capture()
                state = catalog.load_table("shop.sales")
                current = state.metadata.current_snapshot_id
                expected = state.scan(snapshot_id=current).to_arrow().to_pylist()
                assert in_order(reader.rows) == in_order(expected)
                assert (last is None) != reader.is_whole or last == current
                last = current
    assert reader.versions == sorted(set(reader.versions)), "each state is newer than the ones before"
