"""A mistake in a declaration fails when the domain loads, naming the table and the mistake."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from datetime import date
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    DateType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from backfill_assets.domain import (
    Breakdown,
    DerivedTable,
    Domain,
    Gate,
    Months,
    Operations,
    SourceTable,
    TransformContext,
    WarmUpProof,
    Window,
    accepted,
    daily,
    days,
    derived_table,
    expression,
    monthly,
    moved,
    not_null,
    reads,
    unique_key,
    warm_up_proof,
)
from backfill_assets.domain.breakdown import check_measures
from backfill_assets.domain.load import load_domain
from backfill_assets.domain.mistakes import check_conditions
from backfill_assets.errors import InvalidDeclaration, UnknownName
from backfill_assets.planning.partitions import DayRange
from backfill_assets_tests.advice import advised

EVENTS = StructType(
    [StructField("event_id", StringType(), nullable=False), StructField("at", TimestampType(), nullable=False)]
)
DAILY = StructType(
    [
        StructField("day", DateType(), nullable=False),
        StructField("state", StringType()),
        StructField("count", IntegerType()),
    ]
)


def source(**changed: Any) -> SourceTable:
    declared: dict[str, Any] = {
        "name": "bronze.events",
        "key": ("event_id",),
        "event_time": "at",
        "partition": daily("event_date"),
        "schema": EVENTS,
    }
    return SourceTable(**{**declared, **changed})


FEED = StructType(
    [
        *EVENTS.fields,
        StructField("lsn", LongType(), nullable=False),
        StructField("op", StringType(), nullable=False),
        StructField("tags", ArrayType(StringType())),
    ]
)


def feed(**operations: Any) -> SourceTable:
    """A source whose operations are declared in a way of their own."""
    return source(schema=FEED, order=("lsn",), operation=Operations(**{"column": "op", "create": "c", **operations}))


def derived(events: SourceTable, **changed: Any) -> DerivedTable:
    declared: dict[str, Any] = {
        "name": "silver.daily",
        "inputs": {"events": events},
        "key": ("day",),
        "partition": daily("day"),
        "schema": DAILY,
        "version": "1.0.0",
    }

    def function(events: DataFrame, ctx: TransformContext) -> DataFrame:
        return events

    return derived_table(**{**declared, **changed})(function)


def domain(*tables: DerivedTable, sources: tuple[SourceTable, ...]) -> Domain:
    return Domain(name="example", package="backfill_assets_tests", sources=sources, derived=tables)


def other_arguments(rows: DataFrame, ctx: TransformContext) -> DataFrame:
    return rows


def same_arguments(events: DataFrame, ctx: TransformContext) -> DataFrame:
    return events


MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
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
        "silver.daily: its breakdown is {'by': ('state',)} (dict), and has to be a Breakdown",
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
        "silver.daily: gate moved_rows allows -1 % from 0, which cannot be",
    ),
    "a measure that is not SQL": (
        lambda: check_measures(derived(source()), Breakdown(measures={"many": "count >"})),
        "measure many is not SQL: 'count >'",
    ),
    "a measure of a column that is not there": (
        lambda: check_measures(derived(source()), Breakdown(measures={"many": "number > 3"})),
        "silver.daily: measure many: column 'number' is not a column of its schema",
    ),
    "a key column that is not in the schema": (
        lambda: derived(source(), key=("nobody",)),
        "silver.daily: key column 'nobody' is not a column of its schema",
    ),
    "a window on a monthly table": (
        lambda: derived(source(), partition=monthly("day"), window=Window(days_back=1)),
        "silver.daily: it is a monthly table and reads 'events' with 1 day back and 0 ahead, counted in days; a "
        "monthly table reads whole months, such as Months(back=1)",
    ),
    "days for an input of a monthly table": (
        lambda: derived(source(), partition=monthly("day"), inputs={"events": reads(source(), days_ahead=2)}),
        "silver.daily: it is a monthly table and reads 'events' with 0 days back and 2 ahead, counted in days",
    ),
    "months for an input of a daily table": (
        lambda: derived(source(), inputs={"events": reads(source(), window=Months(back=2))}),
        "silver.daily: it is a daily table and reads 'events' with 2 months back and 0 ahead, counted in months; a "
        "daily table counts days, such as Window(days_back=31), and reads every month of a monthly input that they "
        "touch",
    ),
    "months for a daily table": (
        lambda: derived(source(), window=Months(ahead=1)),
        "silver.daily: it is a daily table and reads 'events' with 0 months back and 1 ahead",
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
    "an input that is no table": (
        lambda: derived(source(), inputs={"events": reads("bronze.events")}),  # type: ignore[arg-type]
        "silver.daily: its input 'events' is 'bronze.events' and not a table",
    ),
    "a function that gives a daily table months": (
        lambda: domain(derived(events := source(), window=lambda _: Months(back=1)), sources=(events,)).graph(
            {}, first_day=date(2024, 1, 1)
        ),
        "silver.daily: it is a daily table and reads 'events' with 1 month back",
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
    "a gate on a missing column": (
        lambda: derived(source(), gates=(not_null("nobody"),)),
        "silver.daily: gate not_null_nobody: column 'nobody' is not a column",
    ),
    "an expression over a missing column": (
        lambda: check_conditions(derived(source(), gates=(expression("positive", "nobody > 0"),))),
        "silver.daily: gate positive: column 'nobody' is not a column",
    ),
    "an expression that is not SQL": (
        lambda: check_conditions(derived(source(), gates=(expression("positive", "count > > ("),))),
        "the condition of gate positive is not SQL",
    ),
    "accepted values of a number": (
        lambda: derived(source(), gates=(accepted("count", ["1"]),)),
        "silver.daily: gate accepted_count lists strings, but 'count' is int",
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
    "two gates of one name": (
        lambda: derived(source(), gates=(not_null("state"), not_null("state"))),
        "silver.daily: two gates are named 'not_null_state'",
    ),
    "a function with other arguments": (
        lambda: derived(source(), earlier={"0.9.0": other_arguments}),
        "silver.daily: the function of version 0.9.0 takes (rows, ctx) where its inputs ask for (events, ctx)",
    ),
    "a version that is registered twice": (
        lambda: derived(source(), earlier={"1.0.0": same_arguments}),
        "silver.daily: a version is registered twice",
    ),
    "a partition column that is no date": (
        lambda: derived(source(), partition=daily("state")),
        "silver.daily: its partition column 'state' is not a date",
    ),
    "a name without a layer": (lambda: source(name="events"), "layer.table"),
    "a name that leaves the lake": (lambda: source(name="../x.events"), "layer.table"),
    "an event time that is no timestamp": (
        lambda: source(event_time="event_id"),
        "bronze.events: its event time 'event_id' is not a timestamp",
    ),
    "a column kept for lineage": (
        lambda: source(schema=StructType([*EVENTS.fields, StructField("_run_id", StringType())])),
        "bronze.events: columns that begin with _ are kept for lineage: _run_id",
    ),
    "two tables of one name": (
        lambda: domain(*[derived(events) for events in [source()] * 2], sources=(source(),)),
        "silver.daily",
    ),
    "an input that is not declared": (
        lambda: domain(derived(source()), sources=()),
        "silver.daily: it reads bronze.events as 'events', which the domain does not declare",
    ),
    "a version that is a number": (
        lambda: derived(source(), version=1),
        "silver.daily: 1 is not a version: write it as a text, such as '1.0.0'",
    ),
    "an earlier version that is a number": (
        lambda: derived(source(), earlier={1: same_arguments}),
        "silver.daily: 1 is not a version",
    ),
    "a window that is a text": (
        lambda: derived(source(), window="x"),
        "silver.daily: its window is 'x' (str), and has to be a Window, Months, or a function of the references",
    ),
    "a window of half days": (lambda: Window(days_back="7"), "days_back='7', days_ahead=0 are not two numbers"),  # type: ignore[arg-type]
    "a reach that is a number": (
        lambda: derived(source(), reference_window=7, references=("calendar",)),
        "silver.daily: its reference_window is 7 (int), and has to be a Window",
    ),
    "a key that is a text": (
        lambda: derived(source(), key="day"),
        "silver.daily: its key is 'day' (str), and has to be a tuple of column names",
    ),
    "a key of numbers": (lambda: source(key=(1,)), "bronze.events: its key is (1,) (tuple), and has to be a tuple of"),
    "a schema that is a text": (
        lambda: derived(source(), schema="day date"),
        "silver.daily: its schema is 'day date' (str), and has to be a StructType",
    ),
    "gates without a tuple": (
        lambda: derived(source(), gates=not_null("state")),
        "and has to be a tuple of gates, such as (unique_key(),)",
    ),
    "gates by name": (lambda: derived(source(), gates=("unique",)), "and has to be a tuple of gates"),
    "inputs that are no mapping": (
        lambda: derived(source(), inputs=(source(),)),
        "silver.daily: its inputs are (SourceTable(",
    ),
    "an input that is a name": (
        lambda: derived(source(), inputs={"events": "bronze.events"}),
        "silver.daily: its input 'events' is 'bronze.events' and not a table",
    ),
    "a partition that is a column": (
        lambda: derived(source(), partition="day"),
        "silver.daily: its partition is 'day' (str), and has to be daily(COLUMN) or monthly(COLUMN)",
    ),
    "references that are a text": (
        lambda: derived(source(), references="calendar"),
        "silver.daily: its references is 'calendar' (str), and has to be a tuple of names",
    ),
    "a name that is a number": (lambda: source(name=1), "a table is named layer.table"),
    "a gap that is a text": (
        lambda: source(plausible_gap_days="31"),
        "bronze.events: its plausible_gap_days is '31' (str), and has to be a number of days",
    ),
    "a lateness that is a number": (
        lambda: source(lateness=3),
        "bronze.events: its lateness is 3 (int), and has to be days(N)",
    ),
    "a lateness of less than no days": (lambda: source(lateness=days(-1)), "days(-1) is no lateness"),
    "a gap of less than nothing": (lambda: source(plausible_gap_days=-1), "bronze.events: plausible_gap_days is -1"),
    "one name in two layers": (
        lambda: domain(sources=(source(), source(name="raw.events"))),
        "raw.events: bronze.events has the same name in another layer",
    ),
    "an order that is a text": (
        lambda: source(schema=FEED, order="lsn"),
        "bronze.events: its order is 'lsn' (str), and has to be a tuple of column names, such as ('lsn',)",
    ),
    "an order by a column that is not there": (
        lambda: source(order=("lsn",)),
        "bronze.events: an order column 'lsn' is not a column of its schema",
    ),
    "an order by one column twice": (
        lambda: source(schema=FEED, order=("lsn", "lsn")),
        "bronze.events: its order names a column twice, or one of its key",
    ),
    "an order by the key": (
        lambda: source(schema=FEED, order=("event_id",)),
        "bronze.events: its order names a column twice, or one of its key",
    ),
    "an order by values that are no single values": (
        lambda: source(schema=FEED, order=("tags",)),
        "bronze.events: values of its order column 'tags' cannot be ordered",
    ),
    "ties that are broken by chance": (
        lambda: source(schema=FEED, order=("lsn",), ties="any"),
        "bronze.events: its ties is 'any' (str), and has to be 'refuse' or 'arrival'",
    ),
    "ties without an order": (
        lambda: source(ties="arrival"),
        "bronze.events: it says what breaks ties, and has no order in which there could be any",
    ),
    "operations that are a mapping": (
        lambda: source(schema=FEED, operation={"column": "op"}),
        "bronze.events: its operation is {'column': 'op'} (dict), and has to be Operations(...)",
    ),
    "operations in a column that is not there": (
        lambda: feed(column="operation"),
        "bronze.events: the operation 'operation' is not a column of its schema",
    ),
    "operations in a column that is no string": (
        lambda: feed(column="lsn"),
        "bronze.events: its operation 'lsn' is not a string",
    ),
    "operations in a column of the key": (
        lambda: source(schema=FEED, key=("event_id", "op"), operation=Operations(column="op", create="c")),
        "bronze.events: its operation 'op' is of its key, so that a delete would be of another key than what it "
        "deletes",
    ),
    "a time of operations that is not there": (
        lambda: feed(at="changed_at"),
        "bronze.events: the time of the operation 'changed_at' is not a column of its schema",
    ),
    "a time of operations that is no timestamp": (
        lambda: feed(at="lsn"),
        "bronze.events: the time of its operation, 'lsn', is not a timestamp",
    ),
    "operations without a column": (
        lambda: feed(column=None),
        "an operation's column is None, and has to be a text",
    ),
    "an operation that is a number": (
        lambda: feed(delete=3),
        "an operation's delete is 3, and has to be a text",
    ),
    "two operations of one value": (
        lambda: feed(delete="c"),
        "two operations are named 'c' in 'op': create and delete",
    ),
    "operations of which none makes anything": (
        lambda: feed(create=None, delete="d"),
        "operations need a value for create, update or snapshot: nothing could exist",
    ),
    "a share of keys that is a text": (
        lambda: source(most_withdrawn_percent="20"),
        "bronze.events: its most_withdrawn_percent is '20' (str), and has to be a number from 0 to 100",
    ),
    "a share of keys above all": (
        lambda: source(most_withdrawn_percent=100.5),
        "bronze.events: its most_withdrawn_percent is 100.5 (float), and has to be a number from 0 to 100",
    ),
    "a share of keys below none": (
        lambda: source(most_withdrawn_percent=-1),
        "bronze.events: its most_withdrawn_percent is -1 (int), and has to be a number from 0 to 100",
    ),
    "a share of keys that is no number": (
        lambda: source(most_withdrawn_percent=float("nan")),
        "bronze.events: its most_withdrawn_percent is nan (float), and has to be a number from 0 to 100",
    ),
    "a share of keys that is yes": (
        lambda: source(most_withdrawn_percent=True),
        "bronze.events: its most_withdrawn_percent is True (bool), and has to be a number from 0 to 100",
    ),
    "changes of a source that keeps none": (
        lambda: derived(source(), inputs={"events": reads(source(), changes=True)}),
        "silver.daily: it reads the changes of bronze.events as 'events', and only a source table that declares its "
        "operation=Operations(...) keeps them",
    ),
    "changes of a derived table": (
        lambda: derived(source(), inputs={"events": reads(derived(source(), name="silver.other"), changes=True)}),
        "silver.daily: it reads the changes of silver.other as 'events', and only a source table",
    ),
    "changes of what is no table": (
        lambda: derived(source(), inputs={"events": reads("bronze.events", changes=True)}),  # type: ignore[arg-type]
        "silver.daily: its input 'events' is 'bronze.events' and not a table",
    ),
    "changes that are neither read nor not": (
        lambda: reads(feed(), changes="all"),  # type: ignore[arg-type]
        "bronze.events is read with changes='all', which is neither True nor False",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_with_its_table(mistake: str) -> None:
    declare, sentence = MISTAKES[mistake]
    with pytest.raises(InvalidDeclaration) as refusal:
        declare()
    assert sentence in refusal.value.message


def test_an_undeclared_reference_is_named() -> None:
    events = source()
    with pytest.raises(InvalidDeclaration, match=r"silver\.daily: it uses reference 'calendar'"):
        domain(derived(events, references=("calendar",)), sources=(events,))


def test_how_far_references_count_is_unknown_a_window_or_a_function_of_them() -> None:
    events = source()
    assert derived(events).reference_window_for({}) is None
    fixed = derived(events, references=("calendar",), reference_window=Window(days_back=3))
    assert fixed.reference_window_for({}) == Window(days_back=3)
    asked = derived(events, references=("days",), reference_window=lambda known: Window(days_ahead=known["days"]))
    assert asked.reference_window_for({"days": 4}) == Window(days_ahead=4)


def test_two_tables_of_the_same_name_are_refused() -> None:
    events = source()
    with pytest.raises(InvalidDeclaration, match=r"two tables are named silver\.daily"):
        domain(derived(events), derived(events), sources=(events,))


def test_every_table_has_the_gates_that_make_a_publication_safe() -> None:
    names = [gate.name for gate in derived(source()).gates]
    assert names == ["schema", "unique_key", "compared_with_accepted", "warm_up"]
    assert [gate.name for gate in source().gates] == ["schema", "unique_key", "compared_with_accepted"]


def test_declared_gates_keep_their_order_and_the_key_is_filled_in() -> None:
    gates: tuple[Gate, ...] = (not_null("state"), unique_key(blocking=False))
    declared = derived(source(), gates=gates).gates
    names = [gate.name for gate in declared]
    assert names == ["schema", "not_null_state", "unique_key", "compared_with_accepted", "warm_up"]
    unique = declared[2]
    assert (unique.columns, unique.blocking) == (("day",), False)


def test_a_window_is_proven_on_three_days_or_one_month_unless_the_author_says_otherwise() -> None:
    def proof(**changed: Any) -> list[tuple[int, int | None]]:
        gates = derived(source(), **changed).gates
        return [(gate.asked, gate.extra_days) for gate in gates if isinstance(gate, WarmUpProof)]

    assert proof() == [(3, None)]
    assert proof(partition=monthly("day")) == [(1, None)]
    assert proof(gates=(warm_up_proof(partitions=5, extra_days=30),)) == [(5, 30)]
    assert proof(gates=(warm_up_proof(partitions=0),)) == []


def test_a_table_is_found_with_and_without_its_layer() -> None:
    events = source()
    declared = domain(derived(events), sources=(events,))
    assert declared.table("daily") is declared.table("silver.daily")
    with pytest.raises(UnknownName, match=r"there is no table 'nobody'; the tables are bronze\.events, silver\.daily"):
        declared.table("nobody")
    with pytest.raises(UnknownName, match="built from landed files"):
        declared.derived_table("events")
    with pytest.raises(UnknownName) as refusal:
        declared.derived_table("events", days=DayRange.inclusive(date(2026, 1, 3), date(2026, 1, 4)))
    assert advised(refusal.value) == "backfill load events --from 2026-01-03 --to 2026-01-04 --by NAME"


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


def test_conditions_are_checked_when_a_domain_is_loaded_but_not_to_look(monkeypatch: pytest.MonkeyPatch) -> None:
    events = source()
    module = ModuleType("mistaken_domain")
    module.__dict__["DOMAIN"] = domain(
        derived(events, gates=(expression("positive", "nobody > 0"),)), sources=(events,)
    )
    monkeypatch.setitem(sys.modules, module.__name__, module)
    with pytest.raises(InvalidDeclaration, match="gate positive: column 'nobody' is not a column"):
        load_domain(module.__name__)
    assert load_domain(module.__name__, conditions=False) is module.__dict__["DOMAIN"]
