"""What every error says, and what to do then, as recorded (`support/recorded.py`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import date, timedelta
from functools import cache
from itertools import groupby
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from backfill_assets.calendar.partitions import DayRange, Grain, Partitions
from backfill_assets.core.errors import BackfillError, InvalidDeclaration
from backfill_assets.landing.errors import NothingLanded, NotReadAnew, StoppedAmongFiles
from backfill_assets.planning.errors import IncompleteWindows, OutsideDays
from backfill_assets_tests.support.advice import advised
from backfill_assets_tests.support.messages_page import coded, errors, title_of
from backfill_assets_tests.support.recorded import left_over
from backfill_assets_tests.support.samples import CAUSE, DAY, every

SOME, MANY = ("one.csv", "two.csv"), tuple(f"{number}.csv" for number in range(30))
OF_A_CAUSE: tuple[BackfillError, ...] = (
    InvalidDeclaration("THE MISTAKE"),
    *(
        StoppedAmongFiles(cause=CAUSE, source="SOURCE", landed=landed, not_tried=not_tried, on_duplicate=how)
        for landed, not_tried, how in (
            (1, (), "ignore"),
            (2, SOME, "ignore"),
            (0, SOME, "correct"),
            (2, MANY, "ignore"),
        )
    ),
    *(
        NotReadAnew(cause=CAUSE, source="bronze.SOURCE", refused=SOME, others=others, is_whole=is_whole)
        for others, is_whole in ((SOME, False), (SOME, True), ((), False), (MANY, False))
    ),
)
"""Errors that the reference of messages does not list, since they have the words of others."""


def days(*numbers: int) -> Partitions:
    return Partitions.of(Grain.DAILY, (DAY + timedelta(days=number) for number in numbers))


def windows(missing: Partitions, first_day: date = DAY, *, table: str = "bronze.INPUT", **more: Any) -> BackfillError:
    return IncompleteWindows(
        **{"table": "silver.TABLE", "missing": {table: missing}, "held": {}, "first_day": first_day, **more}
    )


OF_DAYS: tuple[BackfillError, ...] = (
    windows(days(0, 1)),
    windows(days(0, 1), held={"bronze.INPUT": days(2)}),
    windows(days(0), held={"bronze.INPUT": days(400)}),
    windows(days(0), table="silver.INPUT", held={"silver.INPUT": days(400)}),
    windows(days(0), held={"bronze.INPUT": days(400)}, rejecting={"bronze.INPUT": ("IMPORT_ID",)}),
    windows(days(0), first_day=DAY + timedelta(days=5)),
    windows(days(0, 9), first_day=DAY + timedelta(days=5)),
    windows(days(0), table="silver.TABLE", held={"silver.TABLE": days(5)}, has_snapshots=True),
    windows(days(0), table="silver.INPUT", first={"bronze.FIRST": days(0)}),
    NothingLanded(table="bronze.TABLE", missing=days(0, 5), asked=days(0, 5).days, are_gaps=True),
    NothingLanded(table="bronze.TABLE", missing=days(0, 5), asked=days(0, 5).days, are_gaps=False),
    OutsideDays(table="silver.TABLE", earliest=DAY, latest=DAY, days=DayRange.inclusive(date(2025, 1, 1), DAY)),
    OutsideDays(table="silver.TABLE", earliest=DAY, latest=DAY, days=DayRange.inclusive(DAY, date(2027, 1, 1))),
)
"""Errors whose next steps follow from how their days lie to one another."""


@cache
def by_category() -> Mapping[str, tuple[type[BackfillError], ...]]:
    """The classes of errors by what a caller can do about them."""
    ordered = sorted(errors(), key=lambda kind: (category_of(kind), title_of(kind)))
    return {name: tuple(kinds) for name, kinds in groupby(ordered, key=category_of)}


def category_of(kind: type[BackfillError]) -> str:
    return next(each.__name__ for each in kind.__mro__ if each.__module__ == BackfillError.__module__)


CATEGORIES = tuple(sorted({*by_category(), *(each.kind.__name__ for each in coded())}))


def file_of(category: str) -> str:
    return f"advice/{category}.txt"


@pytest.mark.parametrize("category", CATEGORIES)
def test_errors_say_and_advise_what_is_recorded(category: str, recorded: SnapshotAssertion) -> None:
    of_classes = [f"## {heading(kind)}\n\n{entries(samples(kind))}\n" for kind in by_category().get(category, ())]
    without = [each for each in coded() if each.kind.__name__ == category]
    of_codes = [f"## {each.code}\n\n{entries(each.samples())}\n" for each in without]
    said = "".join([*of_classes, *of_codes])
    assert said == recorded(name=file_of(category))


def test_errors_with_the_words_of_their_cause_say_and_advise_what_is_recorded(recorded: SnapshotAssertion) -> None:
    assert entries(OF_A_CAUSE) == recorded(name=file_of("of_a_cause"))


def test_errors_of_days_say_and_advise_what_is_recorded(recorded: SnapshotAssertion) -> None:
    assert entries(OF_DAYS) == recorded(name=file_of("of_days"))


def test_no_advice_is_recorded_that_nothing_gives(pytestconfig: pytest.Config) -> None:
    names = {file_of(category) for category in (*CATEGORIES, "of_a_cause", "of_days")}
    assert left_over("advice", names, remove=pytestconfig.option.update_snapshots) == []


def heading(kind: type[BackfillError]) -> str:
    """The name of a class, and the names of its ids in JSON."""
    return f"{title_of(kind)} ({', '.join(next(samples(kind)).ids)})"


def samples(kind: type[BackfillError]) -> Iterator[BackfillError]:
    for named in every(kind):
        yield kind(**named)  # type: ignore[arg-type]


def entries(made: Iterable[BackfillError]) -> str:
    """Each different next step, with the first sentence that it follows."""
    found: dict[str, str] = {}
    for error in made:
        try:
            found.setdefault(advised(error), error.message)
        except Exception:  # noqa: BLE001 - these values do not occur together
            continue
    assert found, "no sample of this error can be explained"
    return "".join(f"{message}\n    Next: {following or '-'}\n" for following, message in found.items())
