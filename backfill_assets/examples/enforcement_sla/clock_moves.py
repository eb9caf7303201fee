"""Shared parts of the tables of clocks: columns, gates, moves of clocks, and the days that count.

A move is what an event does to a clock of its case, on its local date: it starts the clock, stops it, or pauses or
resumes it. How many days count between two dates is the difference of two numbers of a calendar that numbers its
countable days.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, DateType, IntegerType, StringType, StructField

from backfill_assets.domain import Breakdown, Gate, GateContext, TransformContext, accepted, expression

from .references import DeadlineRules

LocalDate = Callable[[Column, Column], Column]
"""From an instant and a time zone to the date that an event belongs to."""

CASE_CLOCK = ("case_id", "jurisdiction", "clock")
EVENT_ORDER = ("event_time", "event_id")


def _column(name: str, comment: str, *, of: DataType | None = None, nullable: bool = False) -> StructField:
    return StructField(name, of or DateType(), nullable=nullable, metadata={"comment": comment})


WHICH_CLOCK = (
    _column("case_id", "The case.", of=StringType()),
    _column("clock", "The deadline that is counted, as the policy names it.", of=StringType()),
)
SINCE_WHEN = (
    _column("jurisdiction", "Whose time zone, holidays and deadlines apply.", of=StringType()),
    _column("started_on", "The day that started the clock."),
)
HOW_FAR = (
    _column("elapsed_days", "Days that count since the start.", of=IntegerType()),
    _column("limit_days", "Days that the law allows.", of=IntegerType()),
    _column("due_on", "The last day within the limit."),
)
BREACHED_ON = _column("breached_on", "The first day past the limit; null while within it.", nullable=True)


def clock_gates(states: Sequence[str], day: str) -> tuple[Gate, ...]:
    """The gates on every row of a clock whose days are counted until the day of a column."""
    return (
        accepted("sla_state", states),
        expression("breached_past_the_limit", "(sla_state = 'BREACHED') = (elapsed_days > limit_days)"),
        expression("breached_since_a_day", "(sla_state = 'BREACHED') = (breached_on is not null)"),
        expression("breached_after_due", f"breached_on is null or (breached_on > due_on and breached_on <= {day})"),
        expression("due_after_the_start", "due_on >= started_on"),
    )


def clock_breakdown(states: Sequence[str]) -> Breakdown:
    """Rows by jurisdiction and clock, counted by state; those that change to or from a breach first."""
    return Breakdown(
        by=("jurisdiction", "clock"),
        measures={state.lower(): f"sla_state = '{state}'" for state in states},
        rank_rows_by="breached",
    )


def date_in_the_jurisdiction(event_time: Column, timezone: Column) -> Column:
    """The date on the wall of the authority: what the law means."""
    return sf.to_date(sf.from_utc_timestamp(event_time, timezone))


def clock_moves(
    events: DataFrame, rules: DeadlineRules, ctx: TransformContext | GateContext, local_date: LocalDate
) -> DataFrame:
    """One row per event and clock that it moves, with its local date."""
    return (
        events.select("event_id", "case_id", "jurisdiction", "event_type", "event_time")
        .withColumn("timezone", _timezone(rules))
        # Asked for by 2.4.1 as well, which does not use it: an unknown jurisdiction is an error in any release.
        .where(sf.col("timezone").isNotNull())
        .withColumn("local_on", local_date(sf.col("event_time"), sf.col("timezone")))
        .join(sf.broadcast(_roles(ctx, rules)), ["jurisdiction", "event_type"])
    )


def _timezone(rules: DeadlineRules) -> Column:
    """The time zone of an event's jurisdiction; evaluating it fails for a jurisdiction that the calendar lacks.

    An expression and not a join: joined, the optimizer would be free to drop the events it should complain about.
    """
    zones = [sf.lit(text) for entry in rules.calendar.jurisdictions for text in (entry.name, entry.timezone)]
    unknown = sf.concat(
        sf.lit("event "),
        sf.col("event_id"),
        sf.lit(" is of jurisdiction "),
        sf.col("jurisdiction"),
        sf.lit(
            f", which jurisdiction_calendar {rules.calendar.version} does not list: add the jurisdiction there, or "
            "land a correction of the event"
        ),
    )
    return sf.coalesce(sf.create_map(*zones)[sf.col("jurisdiction")], sf.raise_error(unknown))


def _roles(ctx: TransformContext | GateContext, rules: DeadlineRules) -> DataFrame:
    """The effect of each event type on each clock. `pauses` is false for an event that resumes, and null for
    neither."""
    roles = [
        (
            clock.jurisdiction,
            event_type,
            clock.name,
            clock.day_kind.value,
            clock.limit_days,
            clock.tracked_days,
            event_type in clock.starts_on,
            event_type in clock.stops_on,
            event_type in clock.pauses_on if event_type in clock.pauses_on | clock.resumes_on else None,
        )
        for clock in rules.policy.clocks
        for event_type in sorted(clock.event_types)
    ]
    return ctx.frame(
        roles,
        "jurisdiction string, event_type string, clock string, day_kind string, limit_days int, tracked_days int, "
        "starts boolean, stops boolean, pauses boolean",
    )


def numbered_days(rules: DeadlineRules, ctx: TransformContext, first: date) -> DataFrame:
    """Every day from the first one that can matter, numbered by how many days counted up to it, per jurisdiction and
    kind of day; past the output by as many as the longest limit."""
    numbered = [
        (day.jurisdiction, day.day_kind.value, day.day, day.is_countable, day.days_counted)
        for day in rules.countable_days(first, ctx.output.last)
    ]
    return ctx.frame(numbered, "jurisdiction string, day_kind string, day date, is_countable boolean, days_counted int")


def with_number_of(rows: DataFrame, days: DataFrame, day: str) -> DataFrame:
    """Adds `days_counted` and `is_countable` of a day."""
    return rows.join(sf.broadcast(days.withColumnRenamed("day", day)), ["jurisdiction", "day_kind", day])


def with_day_of(rows: DataFrame, days: DataFrame, *, number: Column, name: str) -> DataFrame:
    """Adds the day on which a jurisdiction's countable days reach a number; null where the number is null."""
    countable = days.where("is_countable").select(
        "jurisdiction", "day_kind", sf.col("days_counted").alias("_number"), sf.col("day").alias(name)
    )
    numbered = rows.withColumn("_number", number)
    return numbered.join(sf.broadcast(countable), ["jurisdiction", "day_kind", "_number"], "left").drop("_number")
