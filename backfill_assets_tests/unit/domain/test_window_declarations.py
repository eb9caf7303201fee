"""What a table reads around its days: windows, months, references and the proof of a warm-up."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

import pytest
from pyspark.sql import DataFrame

from backfill_assets.domain import (
    Months,
    TransformContext,
    WarmUpProof,
    Window,
    daily,
    derived_table,
    monthly,
    reads,
    warm_up_proof,
)
from backfill_assets_tests.support.declared import (
    DAILY,
    Mistakes,
    check_named,
    derived,
    domain,
    source,
)

MISTAKES: Mistakes = {
    "a window on a monthly table": (
        lambda: derived(source(), partition=monthly("day"), window=Window(days_back=1)),
        "silver.daily: it is a monthly table and reads 'events' with Window(days_back=1, days_ahead=0), "
        "counted in days; a "
        "monthly table reads whole months, such as Months(back=1)",
    ),
    "days for an input of a monthly table": (
        lambda: derived(source(), partition=monthly("day"), inputs={"events": reads(source(), days_ahead=2)}),
        "silver.daily: it is a monthly table and reads 'events' with Window(days_back=0, days_ahead=2), "
        "counted in days",
    ),
    "months for an input of a daily table": (
        lambda: derived(source(), inputs={"events": reads(source(), window=Months(back=2))}),
        "silver.daily: it is a daily table and reads 'events' with Months(back=2, ahead=0), counted in months; a "
        "daily table counts days, such as Window(days_back=31), and reads every month of a monthly input that they "
        "touch",
    ),
    "months for a daily table": (
        lambda: derived(source(), window=Months(ahead=1)),
        "silver.daily: it is a daily table and reads 'events' with Months(back=0, ahead=1)",
    ),
    "a window that counts for no input": (
        lambda: derived(source(), inputs={"events": reads(source(), days_back=1)}, window=Window(days_back=3)),
        "silver.daily: its window counts for none of its inputs, which have their own",
    ),
    "an input with a window and with days": (
        lambda: reads(source(), window=Window(days_back=2), days_back=1),
        "bronze.events is read with a window and with days back or ahead; give one of the two",
    ),
    "an input whose window is a text": (
        lambda: derived(source(), inputs={"events": reads(source(), window="x")}),  # type: ignore[arg-type]
        "silver.daily: the window of its input 'events' is 'x' and has to be a Window, Months, or a function",
    ),
    "a function that gives a daily table months": (
        lambda: domain(derived(events := source(), window=lambda _: Months(back=1)), sources=(events,)).graph(
            {}, first_day=date(2024, 1, 1)
        ),
        "silver.daily: it is a daily table and reads 'events' with Months(back=1,",
    ),
    "a function that gives no window": (
        lambda: derived(source(), inputs={"events": reads(source(), window=lambda _: 7)}).window_of("events", {}),  # type: ignore
        "silver.daily: the window of its input 'events' is 7 and has to be a Window",
    ),
    "months that go forward": (lambda: Months(back=-1), "back=-1, ahead=0"),
    "a reach of references on a table without any": (
        lambda: derived(source(), reference_window=Window(days_back=1)),
        "silver.daily: it declares how far references count, and uses none",
    ),
    "a proof of a window that there is not": (
        lambda: source(gates=(warm_up_proof(),)),
        "bronze.events: a source table has no window, so there is no warm-up to prove",
    ),
    "a proof of less than nothing": (
        lambda: derived(source(), gates=(warm_up_proof(partitions=-1),)),
        "silver.daily: a warm-up proof computes 0 or more partitions again",
    ),
    "a proof without a longer window": (
        lambda: derived(source(), gates=(warm_up_proof(extra_days=0),)),
        "silver.daily: a warm-up proof computes 0 or more partitions again, with 1 or more extra days",
    ),
    "a window that is a text": (
        lambda: derived(source(), window="x"),
        "silver.daily: window must be a Window, Months, or a function of the references",
    ),
    "a window of half days": (lambda: Window(days_back="7"), "days_back='7', days_ahead=0 are not two numbers"),  # type: ignore[arg-type]
    "a reach that is a number": (
        lambda: derived(source(), reference_window=7, references=("calendar",)),
        "silver.daily: reference_window must be a Window",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_with_its_table(mistake: str) -> None:
    check_named(MISTAKES[mistake])


def test_how_far_references_count_is_unknown_a_window_or_a_function_of_them() -> None:
    events = source()
    assert derived(events).reference_window_for({}) is None
    fixed = derived(events, references=("calendar",), reference_window=Window(days_back=3))
    assert fixed.reference_window_for({}) == Window(days_back=3)
    asked = derived(events, references=("days",), reference_window=lambda known: Window(days_ahead=known["days"]))
    assert asked.reference_window_for({"days": 4}) == Window(days_ahead=4)


def test_a_window_is_proven_on_three_days_or_one_month_unless_the_author_says_otherwise() -> None:
    def proof(**changed: Any) -> list[tuple[int, int | None]]:
        gates = derived(source(), **changed).gates
        return [(gate.asked, gate.extra_days) for gate in gates if isinstance(gate, WarmUpProof)]

    assert proof() == [(5, None)]
    assert proof(partition=monthly("day")) == [(1, None)]
    assert proof(gates=(warm_up_proof(partitions=5, extra_days=30),)) == [(5, 30)]
    assert proof(gates=(warm_up_proof(partitions=0),)) == []


def test_an_input_has_its_own_window_and_the_others_share_one() -> None:
    events, rates, days = source(), source(name="bronze.rates"), source(name="bronze.days")

    def function(events: DataFrame, rates: DataFrame, days: DataFrame, ctx: TransformContext) -> DataFrame:
        return events

    table = derived_table(
        name="silver.daily",
        key=("day",),
        partition=daily("day"),
        schema=DAILY,
        version="1.0.0",
        inputs={"events": events, "rates": reads(rates, days_back=0), "days": reads(days, window=_as_long_as_known)},
        window=Window(days_back=251, days_ahead=1),
    )(function)
    assert table.inputs == {"events": events, "rates": rates, "days": days}
    graph = domain(table, sources=(events, rates, days)).graph({"known": 9}, first_day=date(2024, 1, 1))
    assert {edge.argument: edge.window for edge in graph.table("silver.daily").inputs} == {
        "events": Window(days_back=251, days_ahead=1),
        "rates": Window(),
        "days": Window(days_ahead=9),
    }


def _as_long_as_known(references: Mapping[str, Any]) -> Window:
    return Window(days_ahead=references["known"])
