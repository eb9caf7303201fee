"""Rows of many imports that were written together are, import by import, in folders of their own."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from backfill_assets.files.local import LocalFiles
from backfill_assets.landing.attempt import split_by


def written(folder: Path, name: str, ids: list[str]) -> pa.Table:
    table = pa.table({"id": ids, "n": list(range(len(ids))), "names": [["a", None]] * len(ids)})
    folder.mkdir(exist_ok=True)
    pq.write_table(table, folder / name, row_group_size=1000)
    return table


def split(folder: Path, *ids: str) -> Path:
    folders = {each: f"made/{each}" for each in ids}
    schema = pa.schema({"id": pa.string(), "n": pa.int64()})
    split_by("id", LocalFiles(folder), "whole", folders, name="part", schema=schema)
    return folder / "made"


def test_every_row_is_in_the_folder_of_its_import_and_in_no_other(tmp_path: Path) -> None:
    ids = [f"i{number // 700}" for number in range(20_000)]
    written(tmp_path / "whole", "a.parquet", ids)
    made = split(tmp_path, *dict.fromkeys(ids))
    assert {folder.name for folder in made.iterdir()} == set(ids)
    for folder in made.iterdir():
        rows = pq.read_table(folder).to_pylist()
        assert [row["n"] for row in rows] == [n for n, each in enumerate(ids) if each == folder.name]
        assert all(row["id"] == folder.name and row["names"] == ["a", None] for row in rows)


def test_rows_of_an_import_that_are_not_beside_each_other_are_all_there(tmp_path: Path) -> None:
    written(tmp_path / "whole", "a.parquet", ["x", "y", "x"])
    written(tmp_path / "whole", "b.parquet", ["x"])
    made = split(tmp_path, "x", "y")
    assert len(list((made / "x").iterdir())) == 3
    assert pq.read_table(made / "x").num_rows == 3


def test_an_import_without_rows_has_a_file_without_rows(tmp_path: Path) -> None:
    written(tmp_path / "whole", "a.parquet", ["x"])
    made = split(tmp_path, "x", "y", "z")
    assert [pq.read_table(made / name).num_rows for name in ("x", "y", "z")] == [1, 0, 0]


def test_without_any_row_every_import_has_a_file(tmp_path: Path) -> None:
    assert pq.read_table(split(tmp_path, "x") / "x").schema.names == ["id", "n"]
