"""A table that a gate reads alone is read for the days of the run, whatever windows its own inputs have."""

from __future__ import annotations

from backfill_assets.calendar.windows import SAME_DAYS
from backfill_assets.domain import failing, reads
from backfill_assets_tests.domains.example import recent_sales

SQL = "SELECT * FROM candidate LEFT ANTI JOIN known USING (shop)"


def test_the_window_of_a_table_is_not_that_of_a_gate_that_reads_it() -> None:
    assert recent_sales.window != SAME_DAYS
    for given in (recent_sales, reads(recent_sales)):
        (read,) = failing("known_shops", sql=SQL, reads={"known": given}).reads
        assert (read.table, read.window, read.changes) == (recent_sales, SAME_DAYS, False)
