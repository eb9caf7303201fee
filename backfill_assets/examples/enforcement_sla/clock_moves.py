"""Clock moves: what every event does to the clocks of its case, on its local date, and days by how many count.

Shared by the tables of clocks. A move starts a clock, stops it, or pauses or resumes it. How many days count between
two dates is the difference of two numbers of a calendar that numbers its countable days.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from backfill_assets.domain import TransformContext

from .references import DeadlineRules

LocalDate = Callable[[Column, Column], Column]
"""From an instant and a time zone to the date that an event belongs to."""

CASE_CLOCK = ("case_id", "jurisdiction", "clock")
EVENT_ORDER = ("event_time", "event_id")


def date_in_the_jurisdiction(event_time: Column, timezone: Column) -> Column:
    """The date on the wall of the authority: what the law means."""
    return sf.to_date(sf.from_utc_timestamp(event_time, timezone))


def clock_moves(events: DataFrame, rules: DeadlineRules, ctx: TransformContext, local_date: LocalDate) -> DataFrame:
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


def _roles(ctx: TransformContext, rules: DeadlineRules) -> DataFrame:
    """What each event type does to each clock. `pauses` is false for an event that resumes, and null for neither."""
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
