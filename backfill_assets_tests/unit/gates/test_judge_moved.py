"""When has a measure moved too far? Percentages of what readers see, by group and month; never of new days."""

from __future__ import annotations

from datetime import date

import pytest

from backfill_assets.domain import Moved, moved, tolerance
from backfill_assets.gates.judge import is_tolerated, moved_verdict
from backfill_assets.ledger.findings import NEEDS_COMMENT, BreakdownCell, Finding, RowChanges
from backfill_assets.report.words.verdicts import verdict_words

JULY, AUGUST = date(2006, 7, 1), date(2006, 8, 1)


def cell(before: str, after: str, *, month: date = JULY, is_new: bool = False, **by: str) -> BreakdownCell:
    return BreakdownCell(
        month=month, is_new=is_new, by=by, before={"amount": before}, after={"amount": after}, differs=before != after
    )


def passes(gate: Moved, *cells: BreakdownCell, day: date = JULY, is_new: bool = False) -> bool:
    verdict = moved_verdict(gate, day, cells, is_new=is_new)
    assert verdict.passed is (NEEDS_COMMENT not in verdict.observed)
    assert verdict.passed is (verdict.finding in (Finding.WITHIN_LIMIT, Finding.NOTHING_ACCEPTED))
    return verdict.passed


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("100", "105", True),
        ("100", "105.01", False),
        ("100", "94.99", False),
        ("-100", "-105", True),
        ("-100", "-106", False),
        ("0", "0", True),
        ("0", "1", False),
        ("1", "0", False),
    ],
)
def test_a_move_is_measured_against_what_readers_see(before: str, after: str, *, expected: bool) -> None:
    assert passes(moved("amount", percent=5), cell(before, after)) is expected


def test_groups_that_cancel_each_other_out_are_seen_one_by_one() -> None:
    cells = [cell("100", "50", shop="a", kind="x"), cell("100", "150", shop="b", kind="x")]
    assert passes(moved("amount", percent=5), *cells)
    assert not passes(moved("amount", by=("shop",), percent=5), *cells)
    assert passes(moved("amount", by=("kind",), percent=5), *cells)
    verdict = moved_verdict(moved("amount", by=("shop",), percent=5), JULY, cells, is_new=False)
    assert verdict_words(verdict) == "amount moved by more than 5 % in 2 of 2 groups of 2006-07"
    assert (verdict.observed["groups"], verdict.observed["moved_groups"]) == (2, 2)
    assert "shop" not in str(verdict.observed), "values of dimensions can be erased"


def test_small_moves_do_not_count_where_an_amount_is_given() -> None:
    assert passes(moved("amount", percent=5, at_least=10), cell("10", "19"))
    assert not passes(moved("amount", percent=5, at_least=10), cell("10", "20"))


def test_only_restated_days_of_the_own_month_count() -> None:
    gate = moved("amount", percent=5)
    cells = [cell("100", "100"), cell("100", "200", month=AUGUST), cell("0", "500", is_new=True)]
    assert passes(gate, *cells)
    assert not passes(gate, *cells, day=date(2006, 8, 17))
    assert passes(gate, *cells, day=date(2006, 8, 17), is_new=True)


def test_what_could_not_be_compared_by_group_needs_a_comment_as_well() -> None:
    assert not passes(moved("amount", by=("shop",), percent=5), cell("100", "100"))


@pytest.mark.parametrize(
    ("before", "after"),
    [("100", "NaN"), ("NaN", "NaN"), ("100", "Infinity"), ("-Infinity", "100"), ("Infinity", "-Infinity")],
)
def test_a_sum_that_is_not_finite_needs_a_comment(before: str, after: str) -> None:
    gate = moved("amount", by=("shop",), percent=5)
    cells = [cell(before, after, shop="a"), cell("100", "200", shop="b"), cell("100", "100", shop="c")]
    assert not passes(gate, *cells)
    verdict = moved_verdict(gate, JULY, cells, is_new=False)
    assert verdict_words(verdict) == (
        "amount moved by more than 5 % in 1 of 3 groups of 2006-07, and cannot be compared in 1, "
        "where a sum is not a finite number"
    )
    assert (verdict.observed["moved_groups"], verdict.observed["incomparable_groups"]) == (1, 1)
    alone = moved_verdict(gate, JULY, cells[:1], is_new=False)
    assert (
        verdict_words(alone)
        == "amount cannot be compared in 1 of 1 group of 2006-07, where a sum is not a finite number"
    )


def test_sums_of_opposite_infinities_need_a_comment() -> None:
    cells = [cell("Infinity", "1", shop="a"), cell("-Infinity", "1", shop="b")]
    assert not passes(moved("amount", percent=5), *cells)


def changed(amount: str, *, month: date = JULY, measure: str = "amount", **by: str) -> RowChanges:
    return RowChanges(month=month, measure=measure, by=by, amount=amount)


@pytest.mark.parametrize("percent", [0.5, "0.5", "0.5%", " 0.5 % "])
def test_a_tolerance_counts_tenths_of_percents_and_what_rows_change_without_its_sign(percent: float | str) -> None:
    allowed = tolerance("amount", percent=percent, owner="finance")
    moved_to = cell("1000", "1005")
    assert is_tolerated(allowed, [moved_to], [changed("5")])
    assert not is_tolerated(allowed, [moved_to], [changed("5.01")])
    # Five more in one row and five less in another: the sum of the month has not moved.
    stayed = BreakdownCell(
        month=JULY, is_new=False, by={}, before={"amount": "1000"}, after={"amount": "1000"}, differs=True
    )
    assert is_tolerated(allowed, [stayed], [changed("5")])
    assert not is_tolerated(allowed, [stayed], [changed("10")])
    assert not is_tolerated(allowed, [stayed, cell("1000", "1000", month=AUGUST)], [changed("10")])
    assert is_tolerated(tolerance("amount", at_least=11, owner="finance"), [stayed], [changed("10")])


def test_what_was_not_measured_or_is_no_number_is_not_tolerated() -> None:
    allowed = tolerance("amount", percent=50, owner="finance")
    other = cell("1000", "1001")
    assert is_tolerated(allowed, [other], [changed("1")])
    assert not is_tolerated(allowed, [other], [])
    assert not is_tolerated(allowed, [other], [changed("1", measure="rows")])
    assert not is_tolerated(allowed, [other], [changed("1", month=AUGUST)])
    assert not is_tolerated(allowed, [other], [changed("NaN")])
    assert not is_tolerated(allowed, [], [])
    assert not is_tolerated(allowed, [other, cell("0", "1", month=AUGUST, is_new=True)], [changed("1")])
    by_shop = tolerance("amount", by=("shop",), percent=1, owner="finance")
    two = [cell("10", "11", shop="a"), cell("1000", "1000", shop="b")]
    assert not is_tolerated(by_shop, two, [changed("1", shop="a")])
    assert is_tolerated(by_shop, [cell("1000", "1001", shop="a"), two[1]], [changed("1", shop="a")])
    assert not is_tolerated(by_shop, [other], [changed("1")])
