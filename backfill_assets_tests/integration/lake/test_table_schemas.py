"""The schema of a Delta table follows its declaration in the commit that first publishes files of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import DateType, IntegerType, LongType, StringType, StructField, StructType

from backfill_assets.core.errors import Refused, TargetChanged
from backfill_assets.core.identity import EMPTY_FILE_SET, DataFile, FileSet, attempt_of, contract_of
from backfill_assets.lake.staging import footer_columns
from backfill_assets.lake.swap import Exchange, SwapOrder, exchanged, fence, swap
from backfill_assets.lake.tables import Lake, schema_of
from backfill_assets_tests.support.lakes import folder_of

TABLE = "bronze.numbers"
DAY = StructField("day", DateType(), nullable=False)
FIRST = StructType([StructField("number", IntegerType(), nullable=False), StructField("place", StringType()), DAY])
SECOND = StructType([StructField("number", LongType(), nullable=False), StructField("where", StringType()), DAY])
DAYS = ("2026-01-01", "2026-01-02")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake(root=tmp_path / "lake")
    made.ensure(TABLE, FIRST, "day")
    return made


def staged(lake: Lake, run_id: str, day: str, schema: StructType, columns: Mapping[str, pa.Array]) -> FileSet:
    """A file as Spark writes it, with its columns in the footer."""
    in_files = StructType([field for field in schema.fields if field.name != "day"])
    path = folder_of(lake, TABLE) / "_runs" / run_id / "0001-ab" / f"day={day}" / "part-0.parquet"
    path.parent.mkdir(parents=True)
    said = {"org.apache.spark.sql.parquet.row.metadata": in_files.json()}
    pq.write_table(pa.table(dict(columns)).replace_schema_metadata(said), path)
    relative = path.relative_to(folder_of(lake, TABLE)).as_posix()
    return FileSet.of([DataFile(path=relative, size_bytes=path.stat().st_size, rows=1)])


def first(lake: Lake, day: str) -> FileSet:
    return staged(lake, "first", day, FIRST, {"number": pa.array([1], pa.int32()), "place": pa.array(["a"])})


def second(lake: Lake, day: str) -> FileSet:
    return staged(lake, "second", day, SECOND, {"number": pa.array([2**40], pa.int64()), "where": pa.array(["b"])})


def order(publication_id: str, *exchanges: Exchange, schema: StructType | None) -> SwapOrder:
    return SwapOrder(
        table=TABLE,
        partition_column="day",
        publication_id=publication_id,
        run_id="run",
        exchanges=exchanges,
        committed_at_ms=1,
        schema=schema,
        former=frozenset(FIRST.fieldNames()),
    )


def seen(lake: Lake) -> list[dict[str, Any]]:
    rows = lake.open(TABLE).to_pyarrow_table().sort_by("number").to_pylist()
    return [{name: value for name, value in row.items() if name != "day"} for row in rows]


def test_one_commit_exchanges_the_files_and_changes_the_schema(lake: Lake) -> None:
    old = {day: first(lake, day) for day in DAYS}
    swap(lake, order("one", *(Exchange(value=day, new=old[day]) for day in DAYS), schema=FIRST))
    before = lake.open(TABLE)
    lake.ensure(TABLE, SECOND, "day", former=("place",))
    assert lake.open(TABLE).version() == before.version(), "nothing changes before rows are published"
    new = second(lake, DAYS[1])
    version = swap(lake, order("two", Exchange(value=DAYS[1], expected=old[DAYS[1]], new=new), schema=SECOND))
    assert version == before.version() + 1
    assert seen(lake) == [
        {"number": 1, "place": "a", "where": None},
        {"number": 2**40, "place": None, "where": "b"},
    ]
    found = next(found for number, _, found in exchanged(lake, TABLE) if number == version)
    assert (found.added, found.removed) == (frozenset(new.paths), frozenset(old[DAYS[1]].paths))
    assert [(field.name, field.nullable) for field in schema_of(lake.open(TABLE)).fields] == [
        ("number", False),
        ("place", True),
        ("day", False),
        ("where", True),
    ]


def test_a_schema_is_only_written_when_it_changes(lake: Lake) -> None:
    lake.ensure(TABLE, SECOND, "day", former=("place",))
    for name, day in zip(("one", "two"), DAYS, strict=True):
        swap(lake, order(name, Exchange(value=day, new=second(lake, day)), schema=SECOND))
    log = sorted((folder_of(lake, TABLE) / "_delta_log").glob("*.json"))
    changed = [any("metaData" in json.loads(line) for line in path.read_text().splitlines()) for path in log]
    assert changed == [True, True, False]


def test_swapping_back_leaves_the_wider_schema_and_restores_the_rows(lake: Lake) -> None:
    old, new = first(lake, DAYS[0]), second(lake, DAYS[0])
    swap(lake, order("one", Exchange(value=DAYS[0], new=old), schema=FIRST))
    swap(lake, order("two", Exchange(value=DAYS[0], expected=old, new=new), schema=SECOND))
    swap(lake, order("three", Exchange(value=DAYS[0], expected=new, new=old), schema=SECOND))
    assert seen(lake) == [{"number": 1, "place": "a", "where": None}]


def test_a_publication_that_is_refused_changes_no_schema(lake: Lake) -> None:
    new = second(lake, DAYS[0])
    with pytest.raises(TargetChanged):
        swap(lake, order("one", Exchange(value=DAYS[0], expected=first(lake, DAYS[0]), new=new), schema=SECOND))
    fence(lake, TABLE, "one")
    with pytest.raises(Refused, match="was abandoned by a recovery"):
        swap(lake, order("one", Exchange(value=DAYS[0], new=new), schema=SECOND))
    assert schema_of(lake.open(TABLE)) == FIRST


@pytest.mark.parametrize(
    ("wanted", "former", "sentence"),
    [
        (SECOND, None, "where is missing, place is not declared, number is int where bigint"),
        ([StructField("number", StringType()), DAY], ("place",), "number is int where string is declared"),
        ([*FIRST.fields, StructField("added", StringType(), nullable=False)], None, "added is missing"),
        ([FIRST["number"], DAY], (), "place is not declared"),
    ],
)
def test_a_table_that_cannot_follow_is_refused_with_the_columns(
    lake: Lake, wanted: StructType | list[StructField], former: tuple[str, ...] | None, sentence: str
) -> None:
    declared = wanted if isinstance(wanted, StructType) else StructType(wanted)
    differing = sentence.split(", ")
    with pytest.raises(Refused) as refused:
        lake.ensure(TABLE, declared, "day", former=former)
    assert all(part in str(refused.value) for part in differing)
    assert schema_of(lake.open(TABLE)) == FIRST


def test_the_path_of_a_file_names_the_version_of_its_contract() -> None:
    def of(attempt: str) -> int:
        path = f"_runs/run/{attempt}/day=2026-01-01/part-0.parquet"
        return contract_of(FileSet.of([DataFile(path=path, size_bytes=1, rows=1)]))

    assert of(attempt_of("0001-ab12cd34", 1)) == of("0001-ab12cd34") == 1
    assert of(attempt_of("0001-ab12cd34", 12)) == 12
    assert contract_of(EMPTY_FILE_SET) == 1


def test_a_string_recorded_with_the_collation_of_every_string_is_a_string_and_its_name_stays(lake: Lake) -> None:
    usual, other = "string collate UTF8_BINARY", "string collate UNICODE"
    parts = {"type": "struct", "fields": [{"name": usual, "type": {"type": "array", "elementType": usual}}]}
    fields = [{"name": "number", "type": "integer"}, {"name": "place", "type": usual}, {"name": "parts", "type": parts}]
    declared = json.loads(json.dumps(fields).replace(f'"type": "{usual}"', '"type": "string"'))
    declared[2]["type"]["fields"][0]["type"]["elementType"] = "string"
    path = folder_of(lake, TABLE) / "_runs" / "part-0.parquet"
    path.parent.mkdir()
    for recorded, expected in ((fields, declared), ([{"name": "place", "type": other}],) * 2):
        written = {"org.apache.spark.sql.parquet.row.metadata": json.dumps({"type": "struct", "fields": recorded})}
        pq.write_table(pa.table({"number": [1]}).replace_schema_metadata(written), path)
        file = DataFile(path="_runs/part-0.parquet", size_bytes=path.stat().st_size, rows=1)
        (columns,) = footer_columns(lake, TABLE, [FileSet.of([file])])
        assert columns == tuple((each["name"], json.dumps(each["type"])) for each in expected)
