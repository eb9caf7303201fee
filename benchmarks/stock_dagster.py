"""Stock Dagster: an asset whose runs compute one day each, with the transform of the made-up domain and no governance.

`per_partition` names the home whose bronze files it reads, by `BENCH_HOME`; its days go to the folder `bare` there.
"""

import os
from datetime import date
from pathlib import Path

import dagster as dg
from figures import Watch
from restatements import bare
from small_world import FIRST_DAY, SILVER, workspace

from backfill_assets.calendar.partitions import DayRange


@dg.asset(partitions_def=dg.DailyPartitionsDefinition(start_date=FIRST_DAY.isoformat(), end_date="2026-01-01"))
def items(context: dg.AssetExecutionContext) -> None:
    """The items of one day, read, computed and written as a script would."""
    day = date.fromisoformat(context.partition_key)
    ws = workspace(Path(os.environ["BENCH_HOME"]))
    bare(ws, Watch(), SILVER, DayRange.inclusive(day, day), "3.0.0", f"{day}", others_stay=True)


defs = dg.Definitions(assets=[items])
