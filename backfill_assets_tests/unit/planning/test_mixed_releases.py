"""Days on the borders of a restatement that keep another release are a warning, with what reads both sides of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import date

from backfill_assets.calendar.partitions import DayRange, Grain
from backfill_assets.calendar.windows import SAME_DAYS, AnyWindow, SinceFirstDay, Window
from backfill_assets.planning.graph import Graph, TableInput, TableNode, topological
from backfill_assets.planning.manifest import Manifest, configuration_of
from backfill_assets.planning.manifest_parts import PinnedInput
from backfill_assets.report.command_line import words_of
from backfill_assets.report.html import html_file
from backfill_assets.report.releases import beside
from backfill_assets.report.report import Level, level_of
from backfill_assets.report.review import review_of
from backfill_assets.report.run_report import run_page
from backfill_assets.report.words.plans import left_behind_words
from backfill_assets_tests.support.report_examples import FIRST, days, parts, report, reviewed
from backfill_assets_tests.unit.planning.test_manifest import MANIFEST

ORDERS = "silver.orders"


def reader(name: str, grain: Grain, window: AnyWindow, of: str = ORDERS) -> TableNode:
    return TableNode(name=name, grain=grain, inputs=(TableInput(argument="orders", table=of, window=window),))


def graph(*readers: TableNode) -> Graph:
    source = TableNode(name="bronze.orders", grain=Grain.DAILY)
    orders = reader(ORDERS, Grain.DAILY, SAME_DAYS, of="bronze.orders")
    return Graph(tables=topological([source, orders, *readers]), first_day=date(2006, 1, 1))


def all_accepted(_table: str, some: Sequence[date]) -> Collection[date]:
    return some


def contract(*partitions: date) -> Manifest:
    return replace(MANIFEST, table="silver.orders", transform_version="2.0.0", partitions=partitions)


def test_days_on_the_borders_of_a_restatement_that_keep_another_release_are_named_with_the_command() -> None:
    every = days(9)
    others = {day: "1.0.0" if day < every[3] else "1.1.0" for day in every if day not in every[3:5]}
    before, after = beside(graph(), contract(*every[3:5]), others.items(), all_accepted)
    assert (before.releases, str(before.partitions)) == (("1.0.0",), "2006-07-01..2006-07-03, 3 days")
    assert (after.releases, len(after.partitions)) == (("1.1.0",), 4)
    assert words_of(after.next_step) == (
        "backfill plan table silver.orders --from 2006-07-06 --to 2006-07-09 --transform-version 2.0.0 --reason WHY "
        "--by NAME"
    )


def test_the_snapshots_before_and_after_those_of_a_restatement_are_on_its_borders() -> None:
    since = date(2006, 7, 1)
    read = TableInput(argument="orders", table="bronze.orders", window=SinceFirstDay(since, 7))
    node = TableNode(name=ORDERS, grain=Grain.DAILY, inputs=(read,))
    ends = node.partitions_over(DayRange(since, date(2006, 8, 26)))
    pinned = PinnedInput(argument="orders", table="bronze.orders", partitions=())
    restated = replace(contract(*ends[2:4]), inputs=(pinned,), configuration=configuration_of(node))
    before, after = beside(graph(), restated, [(day, "1.0.0") for day in ends if day not in ends[2:4]], all_accepted)
    assert (before.partitions.days, after.partitions.days) == (ends[:2], ends[4:])


def test_days_away_from_a_restatement_are_not_named() -> None:
    every = days(9)
    assert beside(graph(), contract(*every[3:5]), [(every[0], "1.0.0"), (every[8], "1.0.0")], all_accepted) == ()


def test_a_review_warns_of_what_is_left_behind_and_the_page_names_the_command() -> None:
    found = beside(graph(), contract(FIRST), [(days(2)[1], "1.0.0")], all_accepted)
    left = replace(reviewed(parts(3)), left_behind=found)
    review = review_of(left)
    (warning,) = review.warnings
    assert warning.startswith(
        "2006-07-02, 1 day of silver.orders next to this run keep the rows of release 1.0.0: a jump"
    )
    assert level_of(left) is Level.ATTENTION
    text = re.sub(r"<[^>]+>", "", html_file(run_page(replace(report(), left_behind=found))))
    shown = " ".join(text.split())
    assert "To restate 2006-07-02, 1 day too: backfill plan table silver.orders --from 2006-07-02" in shown


def test_what_reads_both_sides_of_a_border_is_named_as_far_as_it_was_published() -> None:
    every = days(9)
    others = {day: "1.0.0" for day in every if day not in every[3:5]}
    tables = graph(
        reader("gold.daily", Grain.DAILY, SAME_DAYS),
        reader("gold.lately", Grain.DAILY, Window(days_back=1)),
        reader("gold.later", Grain.DAILY, Window(days_ahead=2), of="gold.lately"),
        reader("gold.monthly", Grain.MONTHLY, SAME_DAYS),
    )
    before, after = beside(tables, contract(*every[3:5]), others.items(), all_accepted)
    mixed = "can come from the change of release alone, and what reads days of both mixes the releases: "
    # The 4th reads the 3rd, and what reads two days ahead of that reads both sides from the 2nd to the 4th.
    assert left_behind_words(before).endswith(
        f"{mixed}gold.lately 2006-07-04, 1 day; gold.monthly 2006-07, 1 month; "
        "gold.later 2006-07-02..2006-07-04, 3 days"
    )
    assert left_behind_words(after).endswith("gold.later 2006-07-04..2006-07-06, 3 days")
    of_month = beside(tables, contract(*every[3:5]), others.items(), monthly)
    assert [left_behind_words(each).partition(mixed)[2] for each in of_month] == ["gold.monthly 2006-07, 1 month"] * 2
    nothing = beside(tables, contract(*every[3:5]), others.items(), lambda _table, _some: ())
    assert all(left_behind_words(each).endswith("can come from the change of release alone") for each in nothing)


def monthly(table: str, some: Sequence[date]) -> Collection[date]:
    return some if table == "gold.monthly" else ()


def test_a_table_that_is_no_longer_declared_has_no_dependents() -> None:
    other = replace(contract(FIRST), table="silver.gone")
    (found,) = beside(graph(), other, [(days(2)[1], "1.0.0")], all_accepted)
    assert left_behind_words(found).endswith("can come from the change of release alone")
