"""A mistake in a breakdown, or in an expectation of how its measures move, fails when the table is declared."""

from __future__ import annotations

import pytest

from backfill_assets.domain import (
    Breakdown,
    merge,
    monthly,
    moved,
    rows,
    tolerance,
    usual,
    weeks,
)
from backfill_assets.domain.breakdown import check_measures
from backfill_assets_tests.support.declared import (
    Mistakes,
    check_named,
    derived,
    source,
)

MISTAKES: Mistakes = {
    "a breakdown by a column that is not there": (
        lambda: derived(source(), breakdown=Breakdown(by=("nobody",))),
        "silver.daily: a dimension of its breakdown 'nobody' is not a column of its schema",
    ),
    "a breakdown by the partition column": (
        lambda: derived(source(), breakdown=Breakdown(by=("day",))),
        "silver.daily: its breakdown is by month in any case, so not by its partition column 'day'",
    ),
    "a breakdown by one dimension twice": (
        lambda: derived(source(), breakdown=Breakdown(by=("state", "state"))),
        "silver.daily: its breakdown has more than 4 dimensions, or one twice",
    ),
    "a breakdown that is a mapping": (
        lambda: derived(source(), breakdown={"by": ("state",)}),
        "silver.daily: breakdown must be a Breakdown, such as Breakdown(by=('country',)), not {'by': ('state',)}",
    ),
    "a measure that is named as what every breakdown has": (
        lambda: derived(source(), breakdown=Breakdown(measures={"rows": "count"})),
        "silver.daily: a measure is named with lower-case letters, digits and _, and not 'rows': 'rows'",
    ),
    "a measure that is no text": (
        lambda: derived(source(), breakdown=Breakdown(measures={"many": 3})),  # type: ignore[dict-item]
        "silver.daily: the measure many is 3, which is not an SQL expression",
    ),
    "rows that are ranked by no measure": (
        lambda: derived(source(), breakdown=Breakdown(rank_rows_by="many")),
        "silver.daily: rows are ranked by 'many', which is not a measure of its breakdown",
    ),
    "an expectation without a breakdown": (
        lambda: derived(source(), gates=(moved("rows", percent=5),)),
        "silver.daily: gate moved_rows needs a breakdown, which only a derived table can declare",
    ),
    "an expectation of a source table": (
        lambda: source(gates=(moved("rows", percent=5),)),
        "bronze.events: gate moved_rows needs a breakdown, which only a derived table can declare",
    ),
    "an expectation on no measure": (
        lambda: derived(source(), breakdown=Breakdown(), gates=(moved("many", percent=5),)),
        "silver.daily: gate moved_many is on 'many', and the measures are rows",
    ),
    "an expectation by no dimension": (
        lambda: derived(source(), breakdown=Breakdown(), gates=(moved("rows", by=("state",), percent=5),)),
        "silver.daily: gate moved_rows_by_state is by 'state', which is not a dimension of its breakdown",
    ),
    "an expectation below nothing": (
        lambda: derived(source(), breakdown=Breakdown(), gates=(moved("rows", percent=-1),)),
        "silver.daily: gate moved_rows has percent=-1, and can have 0 to 1,000,000",
    ),
    "the usual of no measure": (
        lambda: derived(source(), breakdown=Breakdown(), gates=(usual("many"),)),
        "silver.daily: gate usual_many is on 'many', and the measures are rows",
    ),
    "the usual by no dimension": (
        lambda: derived(source(), gates=(usual(rows(), by=("state",)),)),
        "silver.daily: gate usual_rows_by_state needs a breakdown, which only a derived table can declare",
    ),
    "the usual of less than nothing": (
        lambda: source(gates=(usual(rows(), most=0),)),
        "bronze.events: gate usual_rows has most=0, and can have more than 0 and at most 1,000",
    ),
    "the usual of months by weekday": (
        lambda: derived(source(), partition=monthly("day"), gates=(usual(rows()),)),
        "silver.daily: gate usual_rows compares months: write against=months(12), same=None",
    ),
    "the usual of too few": (
        lambda: source(gates=(usual(rows(), against=weeks(3)),)),
        "bronze.events: gate usual_rows compares with at most 3 partitions, and 4 are the fewest: compare further "
        "back, with against=",
    ),
    "the usual of fewer than are needed": (
        lambda: source(gates=(usual(rows(), fewest=9),)),
        "bronze.events: gate usual_rows compares with at most 8 partitions, and only from 9 on: compare further back, "
        "with against=, or declare fewest= between 4 and 8",
    ),
    "a tolerance without a breakdown": (
        lambda: derived(source(), tolerance=tolerance("rows", percent=5, owner="finance")),
        "silver.daily: its tolerance needs a breakdown, which only a derived table can declare",
    ),
    "a tolerance of nobody": (
        lambda: derived(source(), breakdown=Breakdown(), tolerance=tolerance("rows", percent=5, owner=" ")),
        "silver.daily: its tolerance is owned by ' ', which is not a group of approvers",
    ),
    "a tolerance of no difference": (
        lambda: derived(source(), breakdown=Breakdown(), tolerance=tolerance("rows", owner="finance")),
        "silver.daily: it tolerates 0 % from 0, which allows no difference",
    ),
    "a tolerance of no number": (
        lambda: tolerance("rows", percent="half", owner="finance"),
        "a tolerance of 'half' percent has to be a number, such as 1 or '0.5%'.",
    ),
    "a tolerance of less than nothing": (
        lambda: derived(source(), breakdown=Breakdown(), tolerance=tolerance("rows", percent=-0.5, owner="finance")),
        "silver.daily: its tolerance has percent=-0.5, and can have 0 to 1,000,000",
    ),
    "a tolerance of a table that adds changes": (
        lambda: derived(
            source(),
            breakdown=Breakdown(),
            tolerance=tolerance("rows", percent=5, owner="finance"),
            publish=merge(on=("day",)),
        ),
        "silver.daily: it reads its own accepted rows: a tolerated difference would stay in later ones",
    ),
    "a measure that is not SQL": (
        lambda: check_measures(derived(source()), Breakdown(measures={"many": "count >"})),
        "measure many is not SQL: 'count >'",
    ),
    "a measure of a column that is not there": (
        lambda: check_measures(derived(source()), Breakdown(measures={"many": "number > 3"})),
        "silver.daily: measure many: column 'number' is not a column of its schema",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_with_its_table(mistake: str) -> None:
    check_named(MISTAKES[mistake])
