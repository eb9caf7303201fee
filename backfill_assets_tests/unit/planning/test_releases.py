from __future__ import annotations

from datetime import date

from backfill_assets.calendar.partitions import Grain, Partitions
from backfill_assets.report.releases import LaterRelease, later_than

DAYS = [date(2026, 1, day) for day in range(1, 5)]


def later(own: str, *accepted: tuple[date, str]) -> tuple[LaterRelease, ...]:
    return later_than(own, Grain.DAILY, accepted)


def test_partitions_of_later_releases_are_found_the_latest_first() -> None:
    accepted = list(zip(DAYS, ("3.1.0", "2.4.1", "3.10.0", "2.4.0"), strict=True))
    assert [(each.accepted_version, each.partitions) for each in later("2.4.1", *accepted)] == [
        ("3.10.0", Partitions.of(Grain.DAILY, [DAYS[2]])),
        ("3.1.0", Partitions.of(Grain.DAILY, [DAYS[0]])),
    ]
    assert later("3.10.0", *accepted) == ()


def test_numbers_count_as_numbers_and_a_candidate_comes_before_its_release() -> None:
    assert later("3.9.0", (DAYS[0], "3.10.0"))
    assert later("3.0.0-rc1", (DAYS[0], "3.0.0"))
    assert not later("3.0.0", (DAYS[0], "3.0.0-rc1"))
    assert not later("3.0.0", (DAYS[0], "3.0.0"))
