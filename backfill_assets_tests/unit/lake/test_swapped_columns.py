"""A table whose columns were declared wrongly gets others in the commit that replaces all its files, and back again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import DataType, DateType, DoubleType, StringType, StructField, StructType

from backfill_assets.core.identity import EMPTY_FILE_SET, DataFile, FileSet, sha256_bytes
from backfill_assets.lake.errors import OtherColumns
from backfill_assets.lake.swap import Exchange, SwapOrder, swap
from backfill_assets.lake.tables import Lake

TABLE, DAYS = "bronze.sales", ("2026-01-01", "2026-01-02")


def columns(name: str, kind: DataType) -> StructType:
    return StructType([StructField("id", StringType()), StructField(name, kind), StructField("day", DateType())])


MISSPELT, RIGHT = columns("amuont", StringType()), columns("amount", DoubleType())


def staged(lake: Lake, run: str, schema: StructType, value: object) -> Mapping[str, FileSet]:
    """A file of each day, as Spark writes it."""
    found = {}
    for day in DAYS:
        path = f"_runs/{run}/day={day}/part.parquet"
        (root := Path(str(lake.place(TABLE))) / path).parent.mkdir(parents=True)
        own = StructType([field for field in schema.fields if field.name != "day"])
        rows = pa.table({"id": ["a"], own.fields[1].name: [value]})
        pq.write_table(rows.replace_schema_metadata({"org.apache.spark.sql.parquet.row.metadata": own.json()}), root)
        content = root.read_bytes()
        file = DataFile(path=path, size_bytes=len(content), rows=1, sha256=sha256_bytes(content))
        found[day] = FileSet.of([file])
    return found


def test_columns_are_replaced_with_all_files_of_a_table_or_not_at_all(tmp_path: Path) -> None:
    lake = Lake(root=tmp_path)
    lake.ensure(TABLE, MISSPELT, "day")
    before, after = staged(lake, "wrong", MISSPELT, "1"), staged(lake, "right", RIGHT, 1.5)

    def exchange(
        was: Mapping[str, FileSet], becomes: Mapping[str, FileSet], schema: StructType, *, puts_back: bool = False
    ) -> None:
        order = SwapOrder(
            table=TABLE,
            partition_column="day",
            publication_id=f"pub-{lake.open(TABLE).version()}",
            run_id="run",
            exchanges=tuple(
                Exchange(value=day, expected=was.get(day, EMPTY_FILE_SET), new=files) for day, files in becomes.items()
            ),
            committed_at_ms=0,
            schema=schema,
            puts_back=puts_back,
        )
        swap(lake, order)

    def seen() -> list[Mapping[str, object]]:
        rows = lake.open(TABLE).to_pyarrow_table().to_pylist()
        return [{name: value for name, value in row.items() if name not in ("id", "day")} for row in rows]

    exchange({}, before, MISSPELT)
    first = {DAYS[0]: after[DAYS[0]]}
    with pytest.raises(OtherColumns, match="amount is not declared"):
        exchange(before, first, RIGHT)
    assert seen() == [{"amuont": "1"}] * 2
    exchange(before, after, RIGHT)
    assert seen() == [{"amount": 1.5}] * 2
    with pytest.raises(OtherColumns):
        exchange(after, {DAYS[0]: before[DAYS[0]]}, RIGHT, puts_back=True)
    exchange(after, before, RIGHT, puts_back=True)
    assert seen() == [{"amuont": "1"}] * 2
    exchange(before, after, RIGHT)
    assert seen() == [{"amount": 1.5}] * 2
