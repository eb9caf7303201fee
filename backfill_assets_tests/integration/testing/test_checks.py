"""The checks of the test kit: a table without a mistake passes all of them, and each mistake is found by one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

import pytest
from pyspark.sql import SparkSession

from backfill_assets.core.errors import Refused
from backfill_assets.testing import (
    CHECKS,
    Check,
    DomainKit,
    check_deterministic,
    check_no_outside_effects,
    check_resumes_after_death,
    check_rows,
    check_staging_twice,
    check_totals,
    check_warm_up,
)
from backfill_assets.transforms.errors import NotDetermined
from backfill_assets_tests.domains.mistakes import DOMAIN
from backfill_assets_tests.support.shop import DAYS, sale

TRIED = "2026-01-05..2026-01-08"
SOUND = "sums"
FOUND: tuple[tuple[Check, str, str], ...] = (
    (check_deterministic, "first_read", "first_read computed from input in .* order.* has other rows on 2026-01-0"),
    (check_deterministic, "of_the_call", "of_the_call computed without the other days has other rows on 2026-01-05"),
    (check_staging_twice, "of_the_run", "of_the_run staged by a second run has other rows on 2026-01-05"),
    (check_warm_up, "short_window", "its window is too short: has other rows on 2026-01-05.$"),
    (check_warm_up, "first_read", "the same rows without its input before 2026-01-05"),
    (check_no_outside_effects, "writes", r"acts outside: opens .*a_mistake\.txt for writing"),
    (check_no_outside_effects, "starts", "acts outside: subprocess.Popen .*python"),
)


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[DomainKit]:
    """Two sales on each of ten days, of which those tried are in the middle."""
    opened = DomainKit.open(DOMAIN, tmp_path_factory.mktemp("kit"), first_day=DAYS.start)
    opened.land("sales", [sale(day, sale_id=f"{day}-{n}", amount=n) for day in DAYS for n in (1, 2)])
    yield opened
    opened.close()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_table_without_a_mistake_passes(kit: DomainKit, check: Check) -> None:
    check(kit, SOUND, TRIED)


@pytest.mark.parametrize(("check", "table", "said"), FOUND, ids=[f"{c.__name__}-{t}" for c, t, _ in FOUND])
def test_a_mistake_is_found_and_named(kit: DomainKit, check: Check, table: str, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        check(kit, table, TRIED)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_chance_is_refused_by_every_check_as_by_a_plan(kit: DomainKit, check: Check) -> None:
    with pytest.raises(NotDetermined, match=r"silver\.random uses sf\.rand in .*mistakes.*, line \d+"):
        check(kit, "random", TRIED)


@pytest.mark.long
def test_a_row_that_depends_on_the_chunk_it_was_computed_in_is_found(kit: DomainKit) -> None:
    """In eight days: of four, both chunks would be computed with all of the others as their neighbours."""
    with pytest.raises(AssertionError, match="staged by a run that died and was resumed has other rows on 2026-01-03"):
        check_resumes_after_death(kit, "of_the_call", "2026-01-03..2026-01-10")


def test_given_rows_have_expected_rows_in_the_window_of_the_days(kit: DomainKit) -> None:
    given = {
        "sales": [
            {"sale_id": "too early", "sold_at": "2026-01-01T23:59:59Z", "amount": 100},
            {"sale_id": "warm-up", "sold_at": "2026-01-02T00:00:00Z", "amount": 1},
            {"sale_id": "inside", "sold_at": "2026-01-04T12:00:00+02:00", "amount": 2},
        ]
    }
    expected = [{"day": "2026-01-05", "amount": 2}, {"day": date(2026, 1, 4), "amount": 3}]
    check_rows(kit, SOUND, "2026-01-04..2026-01-05", given=given, expected=expected)
    with pytest.raises(AssertionError) as found:
        check_rows(kit, SOUND, "2026-01-04", given=given, expected=[{"amount": 4}])
    assert str(found.value).splitlines() == [
        "sums has other rows than expected:",
        "  missing:    amount=4",
        "  unexpected: amount=3",
    ]


@pytest.mark.long
def test_totals_are_those_that_readers_see(kit: DomainKit) -> None:
    kit.published(SOUND, TRIED)
    check_totals(kit, SOUND, rows=4, totals={"amount": 36})
    with pytest.raises(AssertionError, match="sums has 4 rows, and not 5; 36 in amount, and not 35"):
        check_totals(kit, SOUND, rows=5, totals={"amount": 35})


def test_a_total_of_a_column_that_the_table_lacks_is_refused_in_a_sentence(kit: DomainKit) -> None:
    with pytest.raises(ValueError, match=r"^cents is expected, which sums has not; it has .*amount"):
        check_totals(kit, SOUND, rows=20, totals={"cents": 1})


def test_what_the_landed_rows_cannot_show_is_not_passed(kit: DomainKit) -> None:
    with pytest.raises(AssertionError, match="two are needed for a run of two chunks"):
        check_resumes_after_death(kit, SOUND, "2026-01-05")
    with pytest.raises(AssertionError, match="so that nothing can be compared"):
        check_deterministic(kit, SOUND, "2027-01")


def test_a_kit_begins_in_an_empty_folder(kit: DomainKit) -> None:
    with pytest.raises(Refused, match="is not empty, and tests publish in it"):
        DomainKit.open(DOMAIN, kit.ws.settings.home, first_day=DAYS.start)
