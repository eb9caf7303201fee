"""Values of rows as texts: an instant says that it is in UTC, wherever it is from, and is found again by that text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from pyspark.sql.types import StringType, StructField, StructType, TimestampNTZType, TimestampType

from backfill_assets.core.identity import DataFile, FileSet
from backfill_assets.core.settings import Settings
from backfill_assets.lake.errors import NoValueOfKey
from backfill_assets.lake.row_values import count_rows, few_by_reason, instants_in, rows_of_arrow, rows_with_key, texts
from backfill_assets.lake.tables import Lake

SCHEMA = StructType(
    [StructField("at", TimestampType()), StructField("local", TimestampNTZType()), StructField("text", StringType())]
)
NOON = datetime(2026, 1, 3, 12, tzinfo=UTC).replace(tzinfo=None)


def test_an_instant_says_that_it_is_in_utc_and_a_local_time_has_no_zone() -> None:
    assert instants_in(SCHEMA) == {"at"}
    row = {"at": NOON, "local": NOON, "text": "2026-01-03 12:00:00"}
    said = {"at": "2026-01-03 12:00:00 UTC", "local": "2026-01-03 12:00:00", "text": "2026-01-03 12:00:00"}
    assert texts(row, SCHEMA.fieldNames(), instants_in(SCHEMA)) == said
    assert texts({**row, "at": None}, ["at"], instants_in(SCHEMA)) == {"at": None}
    for zone in (UTC, timezone(timedelta(hours=2))):
        aware = NOON.replace(tzinfo=UTC).astimezone(zone)
        assert texts({"at": aware}, ["at"]) == {"at": "2026-01-03 12:00:00 UTC"}


@pytest.mark.parametrize(
    "typed",
    [
        "2026-01-03 12:00:00 UTC",
        "2026-01-03 12:00:00",
        "2026-01-03T12:00:00Z",
        "2026-01-03 12:00:00.000000+00:00",
        "2026-01-03T14:00+02:00",
    ],
)
def test_a_row_is_found_by_an_instant_as_it_is_shown_and_as_a_person_types_it(
    settings: Settings, tmp_path: Path, typed: str
) -> None:
    lake = Lake(root=tmp_path, access=settings.access)
    path = tmp_path / "silver" / "moves" / "part-0.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(pa.table({"at": pa.array([NOON], pa.timestamp("us", "UTC"))}), path)
    files = FileSet.of([DataFile(path="part-0.parquet", size_bytes=path.stat().st_size, rows=1)])
    found = rows_with_key(lake, "silver.moves", files, {"at": typed}, most=1)
    assert found == [{"at": "2026-01-03 12:00:00 UTC"}]
    with pytest.raises(NoValueOfKey):
        rows_with_key(lake, "silver.moves", files, {"at": "noon"}, most=1)


def test_rows_with_years_that_python_does_not_have_and_bytes_that_are_no_text_can_be_shown(
    settings: Settings, tmp_path: Path
) -> None:
    """A function that takes milliseconds for seconds returns the first."""
    lake = Lake(root=tmp_path, access=settings.access)
    path = tmp_path / "silver" / "moves" / "part-0.parquet"
    path.parent.mkdir(parents=True)
    at = pa.array([253_402_300_800_000_000], pa.timestamp("us", "UTC"))
    text = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"]).buffers())
    rows = pa.table({"number": [1], "at": at, "day": pa.array([3_000_000], pa.date32()), "text": text})
    pq.write_table(rows, path)
    files = FileSet.of([DataFile(path="part-0.parquet", size_bytes=path.stat().st_size, rows=1)])
    shown = {"number": "1", "at": "10000-01-01 00:00:00.000000Z", "day": "10183-09-21", "text": "\ufffd"}
    assert rows_with_key(lake, "silver.moves", files, {"number": "1"}, most=1) == [shown]
    assert rows_of_arrow(rows) == [{**shown, "number": 1, "at": "10000-01-01 00:00:00.000000"}]


def test_rows_of_files_without_a_column_have_none_of_its_values(settings: Settings, tmp_path: Path) -> None:
    """Files from before a column was declared are beside later ones."""
    lake, folder = Lake(root=tmp_path, access=settings.access), tmp_path / "silver" / "moves"
    folder.mkdir(parents=True)
    for name, columns in (("a", {"number": [1, 2]}), ("b", {"number": [3, 4], "region": ["EU", None]})):
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    files = FileSet.of([DataFile(path=each.name, size_bytes=each.stat().st_size, rows=2) for each in folder.iterdir()])
    found = [count_rows(lake, "silver.moves", files, {"region": region}) for region in ("EU", "", "US")]
    assert found == [1, 0, 0]


def test_of_rejected_rows_the_first_of_each_reason_come_first_and_all_are_counted_by_reason(
    settings: Settings, tmp_path: Path
) -> None:
    said = ["at is not a date: '1'", "at is not a date: '2'", "at is not a date: '3'", "n is null", "m is null: 'a: '"]
    rows = {"file": ["x"] * 5 + ["y"], "row": [1, 2, 3, 4, 5, 1], "reason": [*said, "other"]}
    write_deltalake(str(tmp_path / "bronze" / "rejected"), pa.table(rows))
    lake = Lake(root=tmp_path, access=settings.access)
    some, counts = few_by_reason(lake, "bronze.rejected", ("row", "reason"), where=("file", "x"))
    assert [each["row"] for each in some] == ["1", "4", "5"]
    assert [*counts.items()] == [("at is not a date", 3), ("n is null", 1), ("m is null", 1)]
    assert len(few_by_reason(lake, "bronze.rejected", ("row", "reason"), where=("file", "y"))[0]) == 1
    assert few_by_reason(lake, "bronze.none", ("row", "reason"), where=("file", "y")) == ([], {})
