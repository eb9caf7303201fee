"""When is a measure far from the usual? Against accepted partitions before it, and never against tested ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.domain import Grain, Usual, days, months, rows, usual, weeks
from backfill_assets.gates.judge import Verdict
from backfill_assets.gates.usual import SETTLED, Band, Group, History, Past, band, compared_with, judged, training
from backfill_assets.ledger.findings import FAR, FAR_GROUPS, NEEDS_COMMENT, Finding
from backfill_assets.report.words.verdicts import verdict_words

MONDAY = date(2026, 3, 2)
DAILY = usual(rows(), against=days(14), same=None)
A_DAY = timedelta(days=1)

counts = st.lists(st.integers(0, 10**6), min_size=5, max_size=40)
amounts = st.lists(st.floats(1, 10**6), min_size=5, max_size=40)


def past(*values: float, far: str = "", by_person: bool = False) -> tuple[Past, ...]:
    begin = MONDAY - len(values) * A_DAY
    days_ = (begin + place * A_DAY for place in range(len(values)))
    return tuple(Past(partition=d, value=v, far=far, by_person=by_person) for d, v in zip(days_, values, strict=True))


def around(*values: float, most: float = 4.0, is_count: bool = True) -> Band:
    return band(past(*values), most, is_count=is_count)


# ------------------------------------------------------------------------------------------------------ the band


def test_a_known_history_has_a_known_band() -> None:
    assert around(100, 104, 98, 102, 97, 103, 101, 99) == Band(usual=Decimal(101), low=Decimal(65), high=Decimal(145))
    assert around(1000, 1400, 700, 1200, 900, 1100, 800, 1000).low < 400


@given(amounts, st.integers(1, 1000))
def test_amounts_in_another_unit_have_the_same_band_in_that_unit(values: list[float], factor: int) -> None:
    before, after = around(*values, is_count=False), around(*(value * factor for value in values), is_count=False)
    for name in ("usual", "low", "high"):
        assert float(getattr(after, name)) == pytest.approx(float(getattr(before, name)) * factor, rel=1e-4)


@given(counts, st.randoms(use_true_random=False))
def test_the_order_in_which_the_history_is_read_makes_no_difference(values: list[int], chance: object) -> None:
    history = list(past(*values))
    shuffled = sorted(history, key=lambda _: chance.random())  # type: ignore[attr-defined]
    assert training(shuffled) == history == training(history)


@given(counts, st.booleans())
def test_the_usual_value_is_usual_and_a_wider_band_contains_a_narrower_one(values: list[int], is_count: bool) -> None:
    narrow, wide = (around(*values, most=most, is_count=is_count) for most in (2.0, 4.0))
    assert wide.low <= narrow.low <= narrow.usual <= narrow.high <= wide.high
    assert narrow.side(narrow.usual) == ""


@given(
    st.lists(st.integers(90, 110), min_size=8, max_size=30),
    st.integers(0, 29),
    st.sampled_from([0, 1, 50, 1_000, 10**9]),
)
def test_one_wrong_value_in_the_history_does_not_move_the_band_far(values: list[int], at: int, wrong: int) -> None:
    spoilt = [*values]
    spoilt[at % len(values)] = wrong
    found = around(*spoilt)
    assert 85 <= found.usual <= 115
    assert found.low >= 30
    assert found.high <= 260
    assert found.side(Decimal(5)) == "low"
    assert found.side(Decimal(500)) == "high"


@pytest.mark.parametrize(("count", "low", "high"), [(0, 0, 6), (1, 0, 9), (100, 64, 144), (10_000, 9_604, 10_404)])
def test_a_constant_count_may_move_by_chance_alone(count: int, low: int, high: int) -> None:
    assert around(*[count] * 8) == Band(usual=Decimal(count), low=Decimal(low), high=Decimal(high))


def test_a_constant_amount_may_move_by_a_part_of_itself() -> None:
    assert around(*[200.0] * 8, is_count=False) == Band(usual=Decimal(200), low=Decimal(192), high=Decimal(208))
    nothing = around(*[0.0] * 8, is_count=False)
    assert (nothing.side(Decimal(0)), nothing.side(Decimal("0.01")), nothing.side(Decimal(5), at_least=6)) == (
        "",
        "high",
        "",
    )
    debts = around(*[-200.0] * 8, is_count=False)
    assert debts == Band(usual=Decimal(-200), low=Decimal(-208), high=Decimal(-192))


def test_days_without_rows_are_zeros() -> None:
    weekends = around(*[40, 42, 0, 0, 41, 43, 39] * 3)
    assert weekends.side(Decimal(0)) == "", "they are usual here"
    assert around(40, 42, 41, 0, 43, 39, 40, 41).side(Decimal(0)) == "low", "one holiday makes no rows not usual"


def test_what_is_no_number_is_far_and_not_learnt_from() -> None:
    assert around(40, 42, 41).side(Decimal("NaN")) == "high"
    assert [each.value for each in training(past(1, float("nan"), 2))] == [1, 2]


@pytest.mark.parametrize("wrong", [5e-324, 1.7e308])
def test_the_least_and_the_largest_number_of_a_column_have_a_band(wrong: float) -> None:
    found = around(40, 42, wrong, 41, 43, is_count=False)
    assert found.side(found.usual) == ""


def test_small_distances_do_not_count_where_an_amount_is_given() -> None:
    found = around(*[10_000] * 8)
    assert (found.side(Decimal(9_500)), found.side(Decimal(9_500), at_least=501)) == ("low", "")


# -------------------------------------------------------------------------------------- what it is compared with


def compared(
    gate: Usual, tested: Sequence[date], accepted: Sequence[date], grain: Grain = Grain.DAILY
) -> Sequence[date]:
    return compared_with(gate, grain, tested, accepted)[max(tested)]


def test_a_day_is_compared_with_the_same_weekday_of_the_weeks_before() -> None:
    found = compared(usual(rows()), [MONDAY], [])
    assert found == tuple(MONDAY - timedelta(weeks=week) for week in range(8, 0, -1))
    assert len(compared(usual(rows(), against=weeks(4), same=None, fewest=4), [MONDAY], [])) == 28


def test_a_month_is_compared_with_the_months_before() -> None:
    gate = usual(rows(), against=months(12), same=None)
    found = compared(gate, [date(2026, 3, 1)], [], Grain.MONTHLY)
    assert (found[0], found[-1], len(found)) == (date(2025, 3, 1), date(2026, 2, 1), 12)


def test_a_day_in_the_middle_of_a_long_restatement_is_compared_with_the_days_before_all_of_it() -> None:
    long = [MONDAY + place * A_DAY for place in range(100)]
    accepted = [MONDAY + place * A_DAY for place in range(-40, 100)]
    assert compared(DAILY, long, accepted) == tuple(MONDAY - place * A_DAY for place in range(14, 0, -1))


def test_days_that_are_not_tested_between_tested_ones_are_compared_with() -> None:
    tested = [MONDAY, MONDAY + 10 * A_DAY]
    accepted = [MONDAY + place * A_DAY for place in range(-40, 10)]
    found = compared(DAILY, tested, accepted)
    assert MONDAY not in found, "a tested partition is never learnt from"
    assert found == tuple(MONDAY + place * A_DAY for place in range(-4, 10) if place)


@given(st.sets(st.integers(0, 60), min_size=1), st.sets(st.integers(0, 60)), st.booleans())
def test_nothing_that_is_tested_is_ever_compared_with(tested: set[int], accepted: set[int], same_weekday: bool) -> None:
    gate = usual(rows(), against=weeks(5), same="weekday" if same_weekday else None)
    days_tested = {MONDAY + place * A_DAY for place in tested}
    for partition, before in compared_with(
        gate, Grain.DAILY, days_tested, [MONDAY + place * A_DAY for place in accepted]
    ).items():
        assert days_tested.isdisjoint(before)
        assert all(each < partition for each in before)


def test_weekly_snapshots_of_one_run_are_compared_with_those_before_it() -> None:
    snapshots = [MONDAY + timedelta(weeks=week) for week in range(-12, 12)]
    found = compared(usual(rows()), snapshots[12:], snapshots)
    assert found == tuple(snapshots[4:12])


# ----------------------------------------------------------------------------------- what was far from the usual


FAR_BY_A_PERSON = {"far": "low", "by_person": True}


def test_what_was_accepted_although_it_was_far_is_not_learnt_from() -> None:
    ordinary = past(100, 101, 99, 100, 102, 98, 100, 101)
    gap = Past(partition=MONDAY, value=5, far="low", by_person=True)
    assert training([*ordinary, gap]) == list(ordinary)


def following(*given: Mapping[str, object]) -> list[Past]:
    return [Past(partition=MONDAY + place * A_DAY, value=5, **each) for place, each in enumerate(given)]  # type: ignore[arg-type]


def test_what_persons_approved_three_times_in_a_row_is_the_usual_from_then_on() -> None:
    ordinary = list(past(100, 101, 99, 100, 102, 98, 100, 101))
    aside = following(*[FAR_BY_A_PERSON] * SETTLED)
    assert training([*ordinary, *aside[:-1]]) == ordinary
    assert training([*ordinary, *aside]) == [*ordinary, *aside]
    more = following(*[FAR_BY_A_PERSON] * (SETTLED + 1))
    assert training([*ordinary, *more]) == [*ordinary, *more]
    assert band(training([*ordinary, *aside]), 4.0, is_count=True).side(Decimal(5)) == ""


@pytest.mark.parametrize(
    "other",
    [{"far": "low", "by_person": False}, {"far": "high", "by_person": True}, {"far": "", "by_person": True}],
    ids=["by-a-policy", "on-the-other-side", "an-ordinary-one"],
)
def test_what_no_person_approved_or_what_is_interrupted_is_no_new_usual(other: Mapping[str, object]) -> None:
    mixed = following(FAR_BY_A_PERSON, FAR_BY_A_PERSON, other, FAR_BY_A_PERSON, FAR_BY_A_PERSON)
    assert [each for each in training(mixed) if each.far] == []


# ------------------------------------------------------------------------------------------------------ verdicts


def history(*values: float, gate: Usual = DAILY, tested: Sequence[date] = (MONDAY,)) -> History:
    known = past(*values)
    before = compared_with(gate, Grain.DAILY, tested, [each.partition for each in known])
    return History(before=before, amounts={each.partition: {(): Decimal(each.value)} for each in known})


def verdict_of(
    value: int, known: History, gate: Usual = DAILY, accepted: Mapping[Group, Decimal] | None = None
) -> Verdict:
    replaced = {} if accepted is None else {MONDAY: accepted}
    return judged(gate, {MONDAY: {(): Decimal(value)}}, replaced, known, is_count=True).verdicts[MONDAY]


@pytest.mark.parametrize(
    ("then", "blocking", "comments"), [("block", True, False), ("comment", False, True), ("warn", False, False)]
)
def test_a_far_day_does_what_is_declared(then: str, *, blocking: bool, comments: bool) -> None:
    gate = replace(DAILY, then=then)  # type: ignore[arg-type]
    verdict = verdict_of(5, history(*[100] * 8), gate)
    assert (verdict.passed, verdict.finding, verdict.observed[FAR]) == (False, Finding.FAR_FROM_USUAL, "low")
    assert (gate.blocking, NEEDS_COMMENT in verdict.observed) == (blocking, comments)
    assert verdict_words(verdict) == "rows: 5 is far below the usual 100, which is between 64 and 144"


def test_a_usual_day_passes_with_its_numbers() -> None:
    verdict = verdict_of(90, history(*[100] * 8))
    assert (verdict.passed, verdict.finding) == (True, Finding.AS_USUAL)
    assert verdict_words(verdict) == "rows: 90, where 100 is usual, between 64 and 144"
    assert {name: verdict.observed[name] for name in ("value", "usual", "low", "high", "compared")} == {
        "value": "90",
        "usual": "100",
        "low": "64",
        "high": "144",
        "compared": 8,
    }


def test_little_history_passes_and_says_so() -> None:
    verdict = verdict_of(5, history(*[100] * 4))
    assert (verdict.passed, verdict.finding) == (True, Finding.LITTLE_HISTORY)
    assert verdict_words(verdict) == "little history: 4 of 5 accepted partitions are there to compare rows with"
    assert verdict_of(5, history(*[100] * 5)).passed is False


def test_partitions_that_are_not_accepted_are_not_zeros() -> None:
    known = history(*[100] * 8)
    fewer = replace(known, amounts=dict(list(known.amounts.items())[:4]))
    assert verdict_of(5, fewer).finding is Finding.LITTLE_HISTORY


def test_what_is_far_and_stays_as_it_is_accepted_passes_and_is_not_learnt_from_later() -> None:
    verdict = verdict_of(5, history(*[100] * 8), accepted={(): Decimal(5)})
    assert (verdict.passed, verdict.finding, verdict.observed[FAR]) == (True, Finding.FAR_AS_ACCEPTED, "low")
    assert verdict_words(verdict).endswith("between 64 and 144, as the accepted rows are that it would replace")
    assert not verdict_of(5, history(*[100] * 8), accepted={(): Decimal(6)}).passed


def test_groups_are_compared_one_by_one_and_their_names_are_in_no_verdict() -> None:
    gate = usual(rows(), by=("shop",), against=days(14), same=None)
    before = compared_with(gate, Grain.DAILY, [MONDAY], [])
    groups: dict[Group, Decimal] = {("north",): Decimal(100), ("south",): Decimal(100), (None,): Decimal(100)}
    known = History(before=before, amounts={MONDAY - place * A_DAY: groups for place in range(1, 9)})
    now: dict[Group, Decimal] = {("north",): Decimal(199), ("south",): Decimal(101)}
    found = judged(gate, {MONDAY: now}, {}, known, is_count=True)
    verdict = found.verdicts[MONDAY]
    assert (verdict.passed, verdict.observed["groups"], verdict.observed[FAR_GROUPS]) == (False, 3, 2)
    assert verdict_words(verdict) == "rows is far from the usual in 2 of 3 groups"
    assert "north" not in str(verdict.observed), "values of dimensions can be erased"
    far = {point.by["shop"]: point.far for point in found.points if point.is_tested}
    assert far == {"north": "high", "south": "", None: "low"}, "a group that is gone has no rows"
    flagged = replace(known, far={(MONDAY - A_DAY, ("north",)): "low"})
    compared_now = {
        p.by["shop"]: p.compared for p in judged(gate, {MONDAY: now}, {}, flagged, is_count=True).points if p.is_tested
    }
    assert compared_now == {"north": 7, "south": 8, None: 8}


@pytest.mark.parametrize(("days_known", "finding"), [(4, Finding.LITTLE_HISTORY), (5, Finding.AS_USUAL)])
def test_little_history_of_no_groups_is_said_as_well(days_known: int, finding: Finding) -> None:
    gate = usual(rows(), by=("shop",), against=days(14), same=None)
    before = compared_with(gate, Grain.DAILY, [MONDAY], [])
    known = History(before=before, amounts={MONDAY - place * A_DAY: {} for place in range(1, days_known + 1)})
    verdict = judged(gate, {MONDAY: {}}, {}, known, is_count=True).verdicts[MONDAY]
    assert (verdict.passed, verdict.finding, verdict.observed["compared"]) == (True, finding, days_known)


def test_what_was_not_measured_by_its_groups_does_not_pass() -> None:
    gate = usual(rows(), by=("shop",), against=days(14), same=None)
    verdict = judged(gate, {MONDAY: None}, {}, history(*[100] * 8, gate=gate), is_count=True).verdicts[MONDAY]
    assert (verdict.passed, verdict.finding, verdict.observed[NEEDS_COMMENT]) == (False, Finding.TOO_MANY_GROUPS, True)
