"""What a run costs is expected from earlier runs; what would cost more than its requester allows is refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.core.errors import Refused
from backfill_assets.core.tariff import Cost, Tariff
from backfill_assets.planning.state import (
    AcceptedPartition,
    EarlierRun,
    Estimate,
    EstimateBasis,
    Pace,
    estimate,
    require_affordable,
)
from backfill_assets.report.values import cost_words

DAY = date(2026, 1, 1)
TWO_CORES = Tariff(cores=2)


def of_seconds(seconds: float | None) -> Estimate:
    """What two cores are busy with for so long."""
    core_seconds = None if seconds is None else 2 * seconds
    return Estimate(
        rows={DAY: 10}, size_bytes=None, seconds=seconds, core_seconds=core_seconds, based_on=EstimateBasis.EARLIER_RUNS
    )


def pace(*runs: tuple[int, float]) -> Pace:
    """Of runs in one chunk, by their rows and how long these took; gates take no time."""
    return Pace(runs=tuple(earlier(rows, 1, seconds) for rows, seconds in runs))


def earlier(rows: int, chunks: int, staging: float, gating: float = 0.0) -> EarlierRun:
    return EarlierRun(rows=rows, partitions=1, chunks=chunks, staging_seconds=staging, gating_seconds=gating)


def test_what_costs_more_core_seconds_than_allowed_is_refused() -> None:
    expected = [("silver.a", of_seconds(30)), ("silver.a", of_seconds(21))]
    require_affordable(expected, Decimal(102), TWO_CORES)
    with pytest.raises(Refused, match=r"expected to cost 102 core seconds, .* and 101 core seconds at most is allowed"):
        require_affordable(expected, Decimal(101), TWO_CORES)


def test_with_a_price_the_limit_is_money() -> None:
    expected, tariff = [("silver.a", of_seconds(1_800))], Tariff(cores=2, price=Decimal("0.5"), currency="EUR")
    require_affordable(expected, Decimal("0.5"), tariff)
    with pytest.raises(Refused, match=r"expected to cost 0\.50 EUR \(at 0\.5 EUR per core hour\), .* and 0\.40 EUR"):
        require_affordable(expected, Decimal("0.4"), tariff)


@pytest.mark.parametrize(
    ("most", "says"),
    [
        ("0.4999", r"cost 0\.5000 EUR .* and 0\.4999 EUR .* at most"),
        ("0.0004", r"cost 0\.50 EUR .* and 0\.00040 EUR .* at most"),
    ],
)
def test_a_cost_has_the_digits_that_tell_it_from_the_limit_and_from_nothing(most: str, says: str) -> None:
    expected, tariff = [("silver.a", of_seconds(1_800))], Tariff(cores=2, price=Decimal("0.5"), currency="EUR")
    with pytest.raises(Refused, match=says):
        require_affordable(expected, Decimal(most), tariff)
    assert cost_words(tariff.spent(1)) == "1 core second, 0.00014 EUR"
    assert TWO_CORES.text(Decimal("0.4")) == "0.40 core seconds"
    assert (TWO_CORES.text(Decimal(1)), TWO_CORES.text(Decimal(2))) == ("1 core second", "2 core seconds")


def test_what_was_spent_is_said_in_core_seconds_and_in_money() -> None:
    tariff = Tariff(cores=4, price=Decimal("0.36"), currency="EUR")
    assert tariff.spent(1_000) == Cost(core_seconds=1_000.0, amount=0.1, currency="EUR")
    assert TWO_CORES.spent(500) == Cost(core_seconds=500.0, amount=None, currency="")


def test_each_run_may_take_what_is_expected_of_it_and_as_much_of_the_rest_as_the_others() -> None:
    expected = [("silver.a", of_seconds(30)), ("silver.b", of_seconds(0))]
    assert require_affordable(expected, Decimal(160), TWO_CORES) == [TWO_CORES.spent(110), TWO_CORES.spent(50)]


def test_a_limit_on_what_nothing_is_known_of_is_refused() -> None:
    with pytest.raises(Refused, match=r"no run of silver\.b whose processor time was measured .* at most 5 core"):
        require_affordable([("silver.a", of_seconds(1)), ("silver.b", of_seconds(None))], Decimal(5), TWO_CORES)


@pytest.mark.parametrize(("most", "price"), [(None, None), (Decimal(1), Decimal(0))])
def test_without_a_limit_and_where_cores_are_free_nothing_is_refused(
    most: Decimal | None, price: Decimal | None
) -> None:
    found = require_affordable([("silver.a", of_seconds(None))], most, Tariff(cores=2, price=price))
    assert found == [None]


def test_runs_of_one_size_tell_what_a_row_takes() -> None:
    accepted = {DAY: AcceptedPartition(version=1, run_id="run", digest="", rows=200, file_count=1, size_bytes=1)}
    found = estimate((DAY,), accepted, own_rows={DAY: 1}, pace=pace((100, 20.0), (100, 30.0)), chunks=len)
    assert found.seconds == 50.0


def test_runs_that_paid_for_waiting_tell_how_long_a_run_takes_and_not_what_it_costs() -> None:
    """Those of earlier releases have no processor time: 20 s on four cores beside others were 80 core seconds."""
    of_before = earlier(100, 1, 200.0)
    measured = replace(earlier(100, 1, 20.0), staging_core_seconds=15.0, gating_core_seconds=1.0)
    assert Pace(runs=(of_before,)).core_seconds(100, 1) is None
    assert Pace(runs=(of_before, of_before, measured)).core_seconds(200, 1) == pytest.approx(32.0)
    assert Pace(runs=(of_before, measured)).seconds(100, 1) == pytest.approx(110.0)


def test_runs_that_wrote_nothing_tell_nothing() -> None:
    assert pace((0, 3.0)).seconds(10, 1) is None


@given(st.floats(0, 100), st.floats(0.0001, 0.1), st.integers(1, 1_000), st.integers(1, 10**7))
def test_what_every_run_takes_and_what_a_row_takes_are_told_apart(
    fixed: float, a_row: float, smallest: int, rows: int
) -> None:
    runs = [(size, fixed + a_row * size) for size in (smallest, 3 * smallest, 9 * smallest)]
    assert pace(*runs).seconds(rows, 1) == pytest.approx(fixed + a_row * rows, abs=1e-6)


def test_a_slow_run_among_five_moves_the_estimate_by_less_than_a_third() -> None:
    runs = [(rows, 4.0 + rows / 100_000) for rows in (10_000, 50_000, 250_000, 700_000, 2_500_000)]
    runs[2] = (250_000, 60.0)
    for rows in (10_000, 100_000, 1_000_000, 5_000_000):
        assert pace(*runs).seconds(rows, 1) == pytest.approx(4.0 + rows / 100_000, rel=0.3)


@given(st.floats(0, 100), st.floats(0.0001, 0.1), st.floats(0, 100), st.integers(1, 50), st.integers(1, 10**7))
def test_what_every_chunk_takes_is_expected_of_each_and_what_gates_take_once(
    a_chunk: float, a_row: float, gates: float, chunks: int, rows: int
) -> None:
    sizes = ((10, 1), (3_000, 3), (400_000, 40))
    runs = tuple(earlier(size, many, many * a_chunk + a_row * size, gates) for size, many in sizes)
    expected = chunks * a_chunk + a_row * rows + gates
    assert Pace(runs=runs).seconds(rows, chunks) == pytest.approx(expected, rel=1e-6, abs=1e-6)
