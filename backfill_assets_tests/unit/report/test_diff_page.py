"""The page of changed rows: what was asked for, and the command for all of it."""

from __future__ import annotations

import html
import re
from datetime import date

from backfill_assets.calendar.partitions import DayRange, Grain, Partitions
from backfill_assets.report.changed_rows import ChangedRow, DiffDocument, TableDiff, diff_page
from backfill_assets.report.html import html_file

DAY = date(2026, 1, 3)
ROW = ChangedRow(
    partition=DAY, kind="removed", changed=(), key={"day": "2026-01-03"}, before={"amount": "1"}, after=None
)


def test_the_command_for_all_rows_keeps_everything_that_was_asked_for() -> None:
    found = TableDiff(
        table="silver.sales",
        partitions=Partitions.of(Grain.DAILY, [DAY]),
        not_compared=(),
        added=0,
        removed=30,
        changed=0,
        rows=(ROW,),
    )
    asked = DiffDocument(
        of="silver.sales",
        before="v1",
        after="v2",
        days=DayRange.inclusive(DAY, DAY),
        kinds=("removed",),
        columns=("amount",),
        where="amount = 1",
        tables=(found,),
    )
    shown = html.unescape(re.sub("<[^>]+>", "", html_file(diff_page(asked))))
    assert (
        "backfill diff silver.sales --as-of v1 --as-of v2 --from 2026-01-03 --to 2026-01-03 --kind removed "
        "--columns amount --where 'amount = 1' --to changed.parquet"
    ) in shown
    assert "Asked for: rows that are removed that differ in amount where amount = 1." in shown
