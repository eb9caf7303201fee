"""What is expected to cost more than its requester allows is not planned."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from backfill_assets.core.errors import Refused
from backfill_assets.planning.estimates import Basis, Estimate, Pace, estimate, require_affordable

DAY = date(2026, 1, 1)


def of_seconds(seconds: float | None) -> Estimate:
    return Estimate(rows={DAY: 10}, size_bytes=None, seconds=seconds, based_on=Basis.EARLIER_RUNS)


def test_what_costs_more_core_seconds_than_allowed_is_refused() -> None:
    expected = {"silver.a": of_seconds(30), "silver.b": of_seconds(21)}
    require_affordable(expected, Decimal(102), cores=2, price=None)
    with pytest.raises(Refused, match=r"expected to cost 102 core seconds, .* at most 101 core seconds are allowed"):
        require_affordable(expected, Decimal(101), cores=2, price=None)


def test_with_a_price_the_limit_is_money() -> None:
    expected = {"silver.a": of_seconds(1_800)}
    require_affordable(expected, Decimal("0.5"), cores=2, price=Decimal("0.5"))
    with pytest.raises(Refused, match=r"expected to cost 0\.50 \(at 0\.5 per core hour\)"):
        require_affordable(expected, Decimal("0.4999"), cores=2, price=Decimal("0.5"))


def test_a_limit_on_what_nothing_is_known_of_is_refused() -> None:
    with pytest.raises(Refused, match=r"no run of silver\.b was ever staged, so whether it costs at most 5 core"):
        require_affordable({"silver.a": of_seconds(1), "silver.b": of_seconds(None)}, Decimal(5), cores=2, price=None)


def test_without_a_limit_nothing_is_refused() -> None:
    require_affordable({"silver.a": of_seconds(None)}, None, cores=2, price=None)


@pytest.mark.parametrize(("runs", "between"), [(1, None), (3, (10.0, 40.0))])
def test_an_estimate_says_how_far_the_latest_runs_are_apart(runs: int, between: tuple[float, float] | None) -> None:
    pace = Pace(runs=runs, partitions=runs, rows=100, seconds=20.0, fastest=0.1, slowest=0.4)
    found = estimate((DAY,), {DAY: 100}, accepted_bytes=1, own_rows={DAY: 1}, pace=pace)
    assert (found.seconds, found.between) == (20.0, between)
