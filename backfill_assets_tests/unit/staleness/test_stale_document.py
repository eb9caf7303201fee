"""What is stale, said to a person: every cause in words, and the command that mends it."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import date

import pytest
from rich.console import Console

from backfill_assets.calendar.partitions import DayRange, Grain
from backfill_assets.cli.terminal import view
from backfill_assets.planning.manifest_parts import Cause, Reason
from backfill_assets.report.command_line import words_of
from backfill_assets.report.stale import stale_document, stale_page
from backfill_assets.report.words.states import stale_words
from backfill_assets.staleness.decide import Staleness, StaleRange

DAYS = (DayRange.inclusive(date(2006, 3, 15), date(2006, 3, 16)),)
SILVER, BRONZE = "silver.daily", "bronze.events"


def stale(*ranges: tuple[int, int, Cause], table: str = SILVER) -> Staleness:
    return Staleness(
        table=table,
        grain=Grain.DAILY,
        accepted=31,
        ranges=tuple(
            StaleRange(
                grain=Grain.DAILY,
                partitions=tuple(DayRange.inclusive(date(2024, 3, first), date(2024, 3, last))),
                reasons=(Reason(cause=cause, name=table),),
            )
            for first, last, cause in ranges
        ),
    )


def steps(*found: Staleness, table: str | None = None, days: DayRange | None = None) -> list[str]:
    document = stale_document(found, table=table, days=days, sources=[BRONZE])
    return [words_of(step).removeprefix("backfill ").removesuffix(" --by NAME") for step in document.next_steps]


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (
            Reason(cause=Cause.CODE_CHANGED, name="sla 3.1.0", was="aaa", now="bbb"),
            "the code changed and sla 3.1.0 is still its version (sha256 aaa, now bbb): give the transform a new "
            "version, so that a number names its code",
        ),
        (
            Reason(cause=Cause.VERSION_CHANGED, was="sla 2.4.1", now="sla 3.1.0"),
            "computed by sla 2.4.1; now it is sla 3.1.0",
        ),
        (
            Reason(cause=Cause.CONFIGURATION_CHANGED, was="6 days", now="7 days"),
            "configured otherwise: 6 days; now 7 days",
        ),
        (
            Reason(cause=Cause.PILOTED, name="tenant=acme", run_id="usage-1"),
            "pilot usage-1 computed tenant=acme alone, and kept all other rows: "
            "it is stale until a plan of whole partitions finds or makes all of them equal",
        ),
        (
            Reason(cause=Cause.REFERENCE_CHANGED, name="calendar", was="1", now="2"),
            "calendar was 1, now 2: it could be any day",
        ),
        (
            Reason(cause=Cause.REFERENCE_CHANGED, name="calendar", was="1", now="2", days=DAYS),
            "calendar was 1, now 2: facts of 2006-03-15..2006-03-16, 2 days",
        ),
        (
            Reason(cause=Cause.INPUT_CHANGED, name=BRONZE, days=DAYS),
            "bronze.events changed: 2006-03-15..2006-03-16, 2 days",
        ),
        (
            Reason(cause=Cause.INPUT_CHANGED, name=SILVER, files=("imp-1", "imp-2", "imp-3", "imp-4")),
            "has yet to be built from imp-1, imp-2, imp-3 and 1 more file",
        ),
        (
            Reason(cause=Cause.INPUT_CHANGED, name=SILVER),
            "has yet to be built as an empty day: files have landed for days before and after it",
        ),
        (Reason(cause=Cause.NEVER_BUILT), "never built, and everything it needs is there"),
    ],
)
def test_every_reason_is_said_in_words(reason: Reason, words: str) -> None:
    assert stale_words(SILVER, reason) == words


def test_what_is_stale_is_planned_as_a_set_and_a_source_is_loaded() -> None:
    assert steps(stale(), stale(table=BRONZE)) == []
    both = stale((1, 3, Cause.INPUT_CHANGED), table=BRONZE), stale((2, 9, Cause.INPUT_CHANGED))
    assert steps(*both) == ["load events --from 2024-03-01 --to 2024-03-03", "plan stale --reason WHY"]
    days = DayRange.inclusive(date(2024, 3, 1), date(2024, 3, 5))
    assert steps(both[1], table=SILVER, days=days) == [
        f"plan stale {SILVER} --from 2024-03-01 --to 2024-03-05 --reason WHY"
    ]


def test_a_source_is_loaded_in_separate_ranges_because_what_lies_between_may_never_have_landed() -> None:
    scattered = stale((1, 3, Cause.INPUT_CHANGED), (4, 4, Cause.NEVER_BUILT), (9, 9, Cause.INPUT_CHANGED), table=BRONZE)
    assert steps(scattered) == ["load events --from 2024-03-01 --to 2024-03-04 --from 2024-03-09 --to 2024-03-09"]


def test_building_again_for_changed_code_alone_has_to_be_asked_for() -> None:
    assert steps(stale((1, 3, Cause.CODE_CHANGED))) == ["plan stale --changed-code --reason WHY"]
    mixed = stale((1, 3, Cause.CODE_CHANGED), (4, 9, Cause.VERSION_CHANGED))
    assert steps(mixed) == ["plan stale --reason WHY"]


def test_building_again_for_changed_code_is_not_advised_where_a_plan_would_build_nothing() -> None:
    only_adds = stale((1, 3, Cause.CODE_CHANGED), table="silver.added")
    document = stale_document([only_adds], table=None, days=None, sources=[BRONZE], kept=["silver.added"])
    assert document.next_steps == ()
    others = [only_adds, stale((4, 9, Cause.INPUT_CHANGED))]
    document = stale_document(others, table=None, days=None, sources=[BRONZE], kept=["silver.added"])
    assert [words_of(step) for step in document.next_steps] == ["backfill plan stale --reason WHY --by NAME"]


def test_a_table_of_which_nothing_was_ever_built_is_named_as_that_and_not_as_fresh() -> None:
    never = replace(stale(table="gold.monthly"), accepted=0)
    for others in ([stale()], [stale((1, 2, Cause.VERSION_CHANGED))]):
        out = io.StringIO()
        document = stale_document([*others, never], table=None, days=None, sources=[])
        Console(file=out, width=200).print(view(stale_page(document)))
        named = [line for line in out.getvalue().splitlines() if "gold.monthly" in line]
        assert named == ["never built: gold.monthly"]


def test_what_was_never_built_is_planned_by_its_days() -> None:
    gaps = stale((5, 5, Cause.NEVER_BUILT), (9, 9, Cause.NEVER_BUILT))
    by_days = f"plan stale {SILVER} --from 2024-03-05 --to 2024-03-09 --reason WHY"
    assert steps(gaps) == [by_days]
    assert steps(stale((1, 3, Cause.INPUT_CHANGED), (5, 9, Cause.NEVER_BUILT))) == [
        "plan stale --reason WHY",
        by_days,
    ]


def test_the_view_lists_what_is_stale_and_names_what_is_not() -> None:
    found = [stale(table=BRONZE), stale((1, 3, Cause.NEVER_BUILT))]
    text = io.StringIO()
    Console(file=text, width=120).print(
        view(stale_page(stale_document(found, table=None, days=None, sources=[BRONZE])))
    )
    said = text.getvalue()
    assert "silver.daily: 3 stale, 31 accepted" in said
    assert "2024-03-01..2024-03-03, 3 days" in said
    assert "not stale: bronze.events" in said
