"""Open cases: where every clock stands that is still open at the end of a day, however long ago it was started.

A table that keeps state: the snapshot of a day follows from any earlier one and the events after that. It knows clocks
that `silver.case_sla_daily` has stopped tracking, and a day of it reads a day of events and no window of months.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    BooleanType,
    DateType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from backfill_assets.domain import (
    RetentionRule,
    TransformContext,
    Window,
    daily,
    derived_table,
    expression,
    reads_self,
)

from .clock_moves import (
    BREACHED_ON,
    CASE_CLOCK,
    EVENT_ORDER,
    HOW_FAR,
    SINCE_WHEN,
    WHICH_CLOCK,
    clock_breakdown,
    clock_gates,
    clock_moves,
    date_in_the_jurisdiction,
    numbered_days,
    with_day_of,
    with_number_of,
)
from .reference_changes import days_whose_facts_count
from .references import DeadlineRules
from .sources import case_events

OPEN_STATES = ("BREACHED", "PAUSED", "RUNNING")
A_HUNDRED_YEARS = 36_525
"""In days: longer than any log."""

OPEN_CASES = StructType(
    [
        StructField(
            "as_of_date", DateType(), nullable=False, metadata={"comment": "The UTC day at whose end it is so."}
        ),
        *WHICH_CLOCK,
        *SINCE_WHEN,
        StructField(
            "last_event_id", StringType(), nullable=False, metadata={"comment": "The last event that moved the clock."}
        ),
        StructField("last_event_type", StringType(), nullable=False, metadata={"comment": "The kind of that event."}),
        StructField("last_event_at", TimestampType(), nullable=False, metadata={"comment": "When it was, in UTC."}),
        StructField(
            "paused", BooleanType(), nullable=False, metadata={"comment": "Whether that event has left it paused."}
        ),
        StructField(
            "counted_on",
            DateType(),
            nullable=False,
            metadata={"comment": "The last day that was over where the case is: days are counted until then."},
        ),
        *HOW_FAR,
        StructField("sla_state", StringType(), nullable=False, metadata={"comment": "BREACHED, PAUSED or RUNNING."}),
        BREACHED_ON,
    ]
)


def days_whose_facts_last(references: Mapping[str, Any]) -> Window:
    """The reach around a day in which its rows ask if days count: back to the start of a clock that was never
    stopped."""
    return Window(days_back=A_HUNDRED_YEARS, days_ahead=days_whose_facts_count(references).days_ahead)


@derived_table(
    name="silver.open_cases",
    inputs={
        "state": reads_self(since=date(2024, 10, 1), keep=RetentionRule(days=90, then="month")),
        "events": case_events,
    },
    key=("case_id", "clock", "as_of_date"),
    partition=daily("as_of_date"),
    schema=OPEN_CASES,
    references=("jurisdiction_calendar", "sla_policy"),
    reference_window=days_whose_facts_last,
    gates=(
        *clock_gates(OPEN_STATES, "counted_on"),
        expression("counted_until_the_day", "counted_on between date_sub(as_of_date, 1) and as_of_date"),
        expression("started_by_the_end_of_the_day", "started_on <= date_add(counted_on, 1)"),
        expression(
            "counts_no_more_days_than_passed",
            "elapsed_days between 0 and greatest(datediff(counted_on, started_on), 0)",
        ),
        expression("paused_by_an_event", "not paused or sla_state <> 'RUNNING'"),
    ),
    breakdown=clock_breakdown(OPEN_STATES),
    version="1.0.0",
)
def open_cases(state: DataFrame, events: DataFrame, ctx: TransformContext) -> DataFrame:
    """The clocks that are open when a UTC day ends: started, and not stopped since.

    Grain: one row per case, clock and day at whose end the clock is open.
    Key: case_id, clock, as_of_date.
    Window: every event until the end of the day; read are those after the snapshot that a run begins with.
    Source: spec "SLA clocks of enforcement cases", rules 1 to 4 and 6 to 8; the number of a rule stands beside the
        code for it. Rule 5 does not hold here: a clock is open until it is stopped, also after `tracked_days`.

    Events count by instant: what happened before the UTC day ended is known. Days count where the case is, and only
    those that are over there: in New York, at the end of a UTC day, that is the day before. So a count that was
    published is never taken back by an event of the next day, and a snapshot holds all that the next one needs.

    An event of a jurisdiction that the calendar does not list fails the run, as it does for `silver.case_sla_daily`.

    Args:
        state: The rows of an earlier snapshot; none from a cold start.
        events: `bronze.case_events` after it, until the end of the day.
        ctx: The day, calendar and policy.

    Returns:
        Rows for the day, in the columns of `OPEN_CASES`.
    """
    rules = DeadlineRules.from_references(ctx.references)
    # The state was counted until the day before the first event day, or in the west until the one before that.
    days = numbered_days(rules, ctx, ctx.input_days["events"].start - timedelta(days=3))
    clocks = _clocks(rules, ctx)
    moves = clock_moves(events, rules, ctx, date_in_the_jurisdiction)
    segments = _segments(_carried(state).unionByName(_moved(moves)), clocks, days)
    return _rows(_counted(segments), days, ctx)


def _clocks(rules: DeadlineRules, ctx: TransformContext) -> DataFrame:
    """Every clock of the policy, with the last day that is over in its jurisdiction when the output ends."""
    zones = {entry.name: entry.timezone for entry in rules.calendar.jurisdictions}
    clocks = [
        (clock.jurisdiction, clock.name, clock.day_kind.value, clock.limit_days, zones[clock.jurisdiction])
        for clock in rules.policy.clocks
    ]
    columns = "jurisdiction string, clock string, day_kind string, limit_days int, timezone string"
    ends_at = sf.to_timestamp(sf.lit(f"{ctx.output.end} 00:00:00"))
    counted_on = sf.date_sub(date_in_the_jurisdiction(ends_at, sf.col("timezone")), 1)
    return ctx.frame(clocks, columns).withColumn("counted_on", counted_on).drop("timezone")


def _carried(state: DataFrame) -> DataFrame:
    """The clocks of the snapshot, each as a move that begins where the snapshot has counted to."""
    return state.select(
        *CASE_CLOCK,
        sf.col("last_event_at").alias("event_time"),
        sf.col("last_event_id").alias("event_id"),
        sf.col("last_event_type").alias("event_type"),
        sf.lit(True).alias("begins"),
        sf.lit(False).alias("stops"),
        "paused",
        "started_on",
        # Every later event has a later local date than the last day that was over.
        sf.date_add("counted_on", 1).alias("from_on"),
        sf.col("elapsed_days").alias("elapsed_before"),
        sf.when(sf.col("elapsed_days") >= sf.col("limit_days"), sf.col("due_on")).alias("reached_before"),
        sf.col("breached_on").alias("breached_before"),
    )


def _moved(moves: DataFrame) -> DataFrame:
    """The moves of the events, in the columns of `_carried`."""
    started_on = sf.when(sf.col("starts"), sf.col("local_on"))
    return moves.select(
        *CASE_CLOCK,
        *EVENT_ORDER,
        "event_type",
        sf.col("starts").alias("begins"),
        (sf.col("stops") & ~sf.col("starts")).alias("stops"),
        (sf.coalesce("pauses", sf.lit(False)) & ~sf.col("starts")).alias("paused"),
        started_on.alias("started_on"),  # rule 1
        sf.col("local_on").alias("from_on"),
        sf.when(sf.col("starts"), 0).alias("elapsed_before"),
        sf.lit(None).cast("date").alias("reached_before"),
        sf.lit(None).cast("date").alias("breached_before"),
    )


def _segments(moves: DataFrame, clocks: DataFrame, days: DataFrame) -> DataFrame:
    """From each move of an open clock to the next, the stretch of days in which it runs or is paused, with the number
    of days that count in it."""
    backwards = Over.partitionBy(*CASE_CLOCK).orderBy(*(sf.desc(column) for column in EVENT_ORDER))
    later = backwards.rowsBetween(Over.unboundedPreceding, -1)
    of_clock = Over.partitionBy(*CASE_CLOCK)
    until_on = sf.least("counted_on", sf.date_sub("next_from_on", 1))  # passes over nulls
    found = (
        moves.withColumn("later_begins", sf.count_if("begins").over(later))
        # Rule 1: what was before the last start is replaced by it.
        .where(sf.col("later_begins") == 0)
        .withColumns(
            {
                "is_open": sf.max("begins").over(of_clock) & ~sf.max("stops").over(of_clock),  # rule 2
                "started_on": sf.max("started_on").over(of_clock),
                # Rule 3: of the moves until a day the last one counts, also where clocks go back across midnight.
                "next_from_on": sf.min("from_on").over(later),
            }
        )
        .where("is_open")
        .join(sf.broadcast(clocks), ["jurisdiction", "clock"])
        # Rule 4: the day of the start does not count.
        .withColumn("day_before", sf.greatest(sf.date_sub("from_on", 1), "started_on"))
        .withColumn("until_on", sf.greatest(until_on, "day_before"))
    )
    numbered = with_number_of(found, days, "day_before").withColumnsRenamed({"days_counted": "number_before"})
    numbered = with_number_of(numbered.drop("is_countable"), days, "until_on")
    return numbered.withColumn(
        "gained",
        sf.when(sf.col("paused"), 0).otherwise(sf.col("days_counted") - sf.col("number_before")),  # rule 4
    ).drop("is_countable")


def _counted(segments: DataFrame) -> DataFrame:
    """One row per open clock: the days that have counted, and the numbers of the days on which the limit was reached
    and exceeded, or would be (rules 6 and 8)."""
    so_far = Over.partitionBy(*CASE_CLOCK).orderBy(*EVENT_ORDER).rowsBetween(Over.unboundedPreceding, -1)
    carried = sf.first("elapsed_before").over(Over.partitionBy(*CASE_CLOCK).orderBy(*EVENT_ORDER))
    counted = segments.withColumn("elapsed", carried + sf.coalesce(sf.sum("gained").over(so_far), sf.lit(0)))

    def number_of(day: Column) -> Column:
        """The number of the so many'th day that counts, where it lies in the segment."""
        reached = (sf.col("elapsed") < day) & (sf.col("elapsed") + sf.col("gained") >= day)
        return sf.when(reached, sf.col("number_before") + day - sf.col("elapsed"))

    last = sf.struct(*EVENT_ORDER, "event_type", "paused", "days_counted", "until_on")
    return (
        counted.groupBy(*CASE_CLOCK, "day_kind", "limit_days", "counted_on", "started_on")
        .agg(
            sf.max(last).alias("last"),
            sf.max(sf.col("elapsed") + sf.col("gained")).cast("int").alias("elapsed_days"),
            sf.max("reached_before").alias("reached_before"),
            sf.max("breached_before").alias("breached_before"),
            sf.max(number_of(sf.col("limit_days"))).alias("reached"),
            sf.max(number_of(sf.col("limit_days") + 1)).alias("exceeded"),
        )
        .withColumn("would_reach", sf.col("last.days_counted") + sf.col("limit_days") - sf.col("elapsed_days"))
    )


def _rows(clocks: DataFrame, days: DataFrame, ctx: TransformContext) -> DataFrame:
    """One row per open clock, with its deadline."""
    is_within = sf.col("elapsed_days") < sf.col("limit_days")
    due = with_day_of(
        clocks, days, number=sf.coalesce("reached", sf.when(is_within, sf.col("would_reach"))), name="due_by_number"
    )
    both = with_day_of(due, days, number=sf.col("exceeded"), name="exceeded_on")
    is_breached = sf.col("elapsed_days") > sf.col("limit_days")
    return both.select(
        sf.lit(ctx.output_partitions[-1]).alias("as_of_date"),
        "case_id",
        "clock",
        "jurisdiction",
        "started_on",
        sf.col("last.event_id").alias("last_event_id"),
        sf.col("last.event_type").alias("last_event_type"),
        sf.col("last.event_time").alias("last_event_at"),
        sf.col("last.paused").alias("paused"),
        "counted_on",
        "elapsed_days",
        "limit_days",
        # A limit of no days is reached on the day of the start.
        sf.coalesce("reached_before", "due_by_number", "started_on").alias("due_on"),
        sf.when(is_breached, "BREACHED").when(sf.col("last.paused"), "PAUSED").otherwise("RUNNING").alias("sla_state"),
        sf.coalesce("breached_before", "exceeded_on").alias("breached_on"),
    )
