"""B14: every changed row of a run as a file, of 60,000 and of 600,000 rows.

A restatement changes every row of 30 days. A process of its own writes what it changes (`backfill diff RUN --to`), and
its peak resident memory is read: of ten times the rows it is to be about the same. The file is compared, row by row,
with what pandas finds between the Delta table before the restatement and after it.

    .venv/bin/python benchmarks/changed_rows.py [ROWS_OF_A_DAY] [TIMES]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd
from deltalake import DeltaTable
from figures import Watch, peak_mib
from restatements import governed, planned
from small_world import SILVER, opened, output, workspace

from backfill_assets.workspace import Workspace

DAYS = 30
KEY = ["day", "item"]
VALUES = ["shop", "state", "amount", "recent", "due_on"]
SUFFIXES = ("parquet", "csv", "jsonl")


def write_alone(home: Path, run_id: str, file: Path) -> None:
    """Writes the rows and prints the seconds that this took and the peak of this process."""
    from backfill_assets.application.diff import diff_of, wanted_rows

    ws = workspace(home)
    began = time.perf_counter()
    (found,) = diff_of(ws, run_id, wanted_rows(), to=file).tables
    print(f"{found.file_rows} {time.perf_counter() - began:.2f} {peak_mib(os.getpid())}")
    ws.close()


def in_delta(ws: Workspace) -> pd.DataFrame:
    """The published rows."""
    rows: pd.DataFrame = DeltaTable(str(ws.lake.place(SILVER))).to_pandas(columns=[*KEY, *VALUES])
    return rows.astype({"day": "object"})


def require_equal(file: Path, before: pd.DataFrame, after: pd.DataFrame) -> int:
    """Compares the file with what pandas finds, and says how many rows differ."""
    both = before.merge(after, on=KEY, how="outer", suffixes=("_0", "_1"), indicator=True)
    differs = both["_merge"] != "both"
    for name in VALUES:
        old, new = both[f"{name}_0"], both[f"{name}_1"]
        differs |= ~((old == new) | (old.isna() & new.isna()))
    expected = both[differs].sort_values(KEY).reset_index(drop=True)
    found = pd.read_parquet(file)
    assert found[KEY].astype(str).equals(expected[KEY].astype(str)), "the keys, in their order"
    kinds = expected["_merge"].map({"both": "changed", "left_only": "removed", "right_only": "added"})
    assert (found["kind"] == kinds.astype(str)).all()
    for name in VALUES:
        for side, column in (("before", f"{name}_0"), ("after", f"{name}_1")):
            assert found[f"{side}_{name}"].astype(str).equals(expected[column].astype(str)), (side, name)
    return len(found)


def main(rows_of_a_day: int, times: int) -> None:
    """Measures the smaller and the larger run."""
    with tempfile.TemporaryDirectory(prefix="backfill-changed-rows-") as name, opened(Path(name)) as world:
        for items in (rows_of_a_day, rows_of_a_day * times):
            home = f"of-{items}"
            with world.home(home, days=DAYS, items=lambda _, items=items: items) as ws:
                governed(ws, Watch(), planned(ws, SILVER, output(DAYS), "1.0.0"), "first")
                before, run_id = in_delta(ws), planned(ws, SILVER, output(DAYS), "3.0.0")
                governed(ws, Watch(), run_id, "restatement")
                after = in_delta(ws)
                for suffix in SUFFIXES:
                    file = Path(name) / f"{items}.{suffix}"
                    command = [sys.executable, __file__, "--alone", str(world.folder / home), run_id, str(file)]
                    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
                    rows, seconds, peak = done.stdout.split()[-3:]
                    print(
                        f"{suffix}: {int(rows):,} rows in {seconds} s, peak {peak} MiB, {file.stat().st_size >> 20} MiB"
                    )
                print(
                    f"equal to pandas: {require_equal(Path(name) / f'{items}.parquet', before, after):,} rows",
                    flush=True,
                )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--alone"]:
        write_alone(Path(sys.argv[2]), sys.argv[3], Path(sys.argv[4]))
    else:
        main(*(int(each) for each in [*sys.argv[1:3], *("2000", "10")[len(sys.argv) - 1 :]]))
