"""SLA clocks: the state of every clock of every case on a given day.

Events become *moves* of a clock, moves become *segments* (stretches of days in which the clock runs, or is paused), and
segments become rows, one per day. Days are never walked: how many count between two dates is the difference of two
numbers in a calendar that numbers its countable days.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as sf
from pyspark.sql.types import BooleanType, DateType, StringType, StructField, StructType

from backfill_assets.domain import (
    Policy,
    TransformContext,
    Window,
    complete,
    daily,
    derived_table,
    expression,
    moved,
    rows,
    usual,
    weeks,
)

from .active_cases import active_cases
from .clock_moves import (
    BREACHED_ON,
    CASE_CLOCK,
    EVENT_ORDER,
    HOW_FAR,
    SINCE_WHEN,
    WHICH_CLOCK,
    LocalDate,
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

SLA_STATES = ("BREACHED", "MET", "PAUSED", "RUNNING")

CASE_SLA_DAILY = StructType(
    [
        *WHICH_CLOCK,
        StructField("business_date", DateType(), nullable=False, metadata={"comment": "The day, where the case is."}),
        *SINCE_WHEN,
        StructField("stopped_on", DateType(), metadata={"comment": "The day that stopped it; null before."}),
        StructField(
            "paused", BooleanType(), nullable=False, metadata={"comment": "Whether the clock is paused on this day."}
        ),
        *HOW_FAR,
        StructField(
            "sla_state", StringType(), nullable=False, metadata={"comment": "BREACHED, MET, PAUSED or RUNNING."}
        ),
        BREACHED_ON,
    ]
)


def days_that_a_row_needs(references: Mapping[str, Any]) -> Window:
    """The window: as far back as the longest clock is tracked, and a day more on both sides for time zones.

    The row of day d depends on events with a local date in `[d - tracked_days, d]`. A local date is at most one day
    away from the UTC date by which events are partitioned.
    """
    rules = DeadlineRules.from_references(references)
    return Window(days_back=rules.policy.tracked_days + 1, days_ahead=1)


def date_in_utc(event_time: Column, _timezone: Column) -> Column:
    """The date in Greenwich: the defect of release 2.4.1, a day off for events near a local midnight."""
    return sf.to_date(event_time)


def case_sla_2_4_1(events: DataFrame, ctx: TransformContext) -> DataFrame:
    """The defective release, kept so that history can be explained: it takes the UTC date; nothing else differs."""
    return _case_sla(events, ctx, date_in_utc)


def case_sla_3_0_0(events: DataFrame, ctx: TransformContext) -> DataFrame:
    """The first repair, which its gates have stopped: it takes the local date, and leaves out what is paused."""
    return _case_sla(events, ctx, date_in_the_jurisdiction).where(~sf.col("paused"))


@derived_table(
    name="silver.case_sla_daily",
    transform="case-sla",
    inputs={"events": case_events},
    window=days_that_a_row_needs,
    key=("case_id", "clock", "business_date"),
    partition=daily("business_date"),
    schema=CASE_SLA_DAILY,
    references=("jurisdiction_calendar", "sla_policy"),
    reference_window=days_whose_facts_count,
    gates=(
        complete(
            of=active_cases,
            key=("case_id", "clock"),
            references=("jurisdiction_calendar", "sla_policy"),
            name="active_cases",
        ),
        moved("breached", by=("jurisdiction", "clock"), percent=10, at_least=20),
        usual(rows(), against=weeks(8), same=None, at_least=50, then="warn"),
        # That columns declared not null hold no nulls is part of the schema gate.
        *clock_gates(SLA_STATES, "business_date"),
        expression("counts_no_more_days_than_passed", "elapsed_days between 0 and datediff(business_date, started_on)"),
        expression("begins_at_the_start", "business_date >= started_on"),
        expression("ends_at_the_stop", "stopped_on is null or stopped_on = business_date"),
        expression("met_when_stopped", "sla_state <> 'MET' or stopped_on is not null"),
    ),
    breakdown=clock_breakdown(SLA_STATES),
    policy=Policy(approvers=("sla_owners",)),
    version="3.1.0",
    notes="An event near a local midnight counts on its date where the case is, and not on its date in UTC.",
    earlier={"3.0.0": case_sla_3_0_0, "2.4.1": case_sla_2_4_1},
)
def case_sla_daily(events: DataFrame, ctx: TransformContext) -> DataFrame:
    """The state of every clock of every case at the end of each local day.

    Grain: one row per case, clock and business date, from the start of the clock until it is stopped, replaced by a
        later start, or no longer tracked.
    Key: case_id, clock, business_date.
    Window: events from `max(tracked_days) + 1` days before to 1 day after the business date.
    Source: spec "SLA clocks of enforcement cases", rules 1 to 8; the number of a rule stands beside the code for it.

    An event of a jurisdiction that has no clocks makes no rows. One whose jurisdiction the calendar does not even list
    has no local date: the run fails and names the event, for leaving it out would hide its case. A `case_id` that two
    jurisdictions use at once makes two rows of one key, which the unique-key gate refuses.

    Args:
        events: `bronze.case_events`; days beyond the window change nothing.
        ctx: Output days, calendar and policy.

    Returns:
        Rows for the output days, in the columns of `CASE_SLA_DAILY`.
    """
    return _case_sla(events, ctx, date_in_the_jurisdiction)


def _case_sla(events: DataFrame, ctx: TransformContext, local_date: LocalDate) -> DataFrame:
    rules = DeadlineRules.from_references(ctx.references)
    days = _calendar(rules, ctx)
    moves = _moves(events, rules, ctx, local_date)
    segments = _segments(moves, days)
    return _rows(_with_deadlines(segments, days, ctx), days, ctx)


# -------------------------------------------------------------------------------------------------------- events


def _moves(events: DataFrame, rules: DeadlineRules, ctx: TransformContext, local_date: LocalDate) -> DataFrame:
    """One row per event and clock that it moves, with its local date.

    An event before `output - tracked_days` belongs to clocks that are no longer tracked, and one after the output to
    its future. Leaving both out here is what makes the result independent of any extra input days.
    """
    last_tracked = sf.date_sub(sf.lit(ctx.output.start), sf.col("tracked_days"))
    within = sf.col("local_on").between(last_tracked, sf.lit(ctx.output.last))
    return clock_moves(events, rules, ctx, local_date).where(within)


# ------------------------------------------------------------------------------------------------------ calendar


def _calendar(rules: DeadlineRules, ctx: TransformContext) -> DataFrame:
    """Every day that can matter, numbered by how many days counted up to it, per jurisdiction and kind of day."""
    first = days_that_a_row_needs(ctx.references).around(ctx.output).start
    return numbered_days(rules, ctx, first)


# ------------------------------------------------------------------------------------------------------ segments


def _segments(moves: DataFrame, days: DataFrame) -> DataFrame:
    """From each move to the next, the clock runs or is paused: the stretches of days of which rows are made.

    Every start, pause and resumption opens a segment. Two passes over the moves of a case and clock, in one shuffle:
    backwards in time for what ends a segment, forwards for what has been lost to pauses since the start.
    """
    opens = sf.col("starts") | sf.col("pauses").isNotNull()
    # Starts that follow tell the moves of one start from those of the next.
    of_case = Over.partitionBy(*CASE_CLOCK).orderBy(*(sf.desc(column) for column in EVENT_ORDER))
    later = of_case.rowsBetween(Over.unboundedPreceding, -1)
    ended = (
        with_number_of(moves, days, "local_on")
        .withColumn("counted_before", sf.col("days_counted") - sf.col("is_countable").cast("int"))
        .withColumns(
            {
                "later_starts": sf.count(sf.when(sf.col("starts"), True)).over(later),
                "next_stop_on": sf.last(sf.when(sf.col("stops"), sf.col("local_on")), ignorenulls=True).over(later),
                "until": sf.min(sf.when(opens, sf.col("local_on"))).over(later),
                "counted_until": sf.min(sf.when(opens, sf.col("counted_before"))).over(later),
            }
        )
        .where(opens)
    )
    of_start = Over.partitionBy(*CASE_CLOCK, "later_starts").orderBy(*EVENT_ORDER)
    so_far = of_start.rowsBetween(Over.unboundedPreceding, Over.currentRow)
    before = of_start.rowsBetween(Over.unboundedPreceding, -1)

    def of_the_start(column: str) -> Column:
        # The first move after which no further start follows is the start itself, or there was none.
        return sf.first(sf.when(sf.col("starts"), sf.col(column))).over(so_far)

    # Rule 5, but for the day before the next start: a start opens a segment of its own, so it ends this one.
    last_on = sf.least("stopped_on", sf.date_add("started_on", sf.col("tracked_days")))  # passes over nulls
    lost = sf.when(sf.col("paused"), sf.greatest(sf.col("counted_until") - sf.col("counted_from"), sf.lit(0)))
    return (
        ended.withColumns(
            {
                "started_on": of_the_start("local_on"),  # rule 1
                "stopped_on": of_the_start("next_stop_on"),  # rule 2
                "counted_at_start": of_the_start("days_counted"),
                "paused": ~sf.col("starts") & sf.col("pauses"),  # rule 3
            }
        )
        .where(sf.col("started_on").isNotNull())
        .withColumn("last_on", last_on)
        # Rule 4: the day of the start does not count, even when the clock is paused on it.
        .withColumn("counted_from", sf.greatest("counted_before", "counted_at_start"))
        .withColumn("lost_to_pauses", sf.coalesce(sf.sum(lost).over(before), sf.lit(0)).cast("int"))
        .withColumn("uncounted", sf.col("counted_at_start") + sf.col("lost_to_pauses"))
        .select(
            *CASE_CLOCK,
            *EVENT_ORDER,
            "later_starts",
            "day_kind",
            "limit_days",
            "started_on",
            "stopped_on",
            "paused",
            "uncounted",
            (sf.col("counted_from") - sf.col("uncounted")).alias("elapsed_before"),
            # Where clocks go back across midnight, a later event may have an earlier date than the start.
            sf.greatest("local_on", "started_on").alias("first_on"),
            sf.least("last_on", sf.date_sub("until", 1)).alias("last_on"),
        )
    )


def _with_deadlines(segments: DataFrame, days: DataFrame, ctx: TransformContext) -> DataFrame:
    """Adds the days on which the limit was reached and exceeded, and keeps the segments that touch the output.

    While a clock runs, `elapsed_days` of a day is the day's number less what does not count, so both days can be looked
    up by number: `due_if_running` is right for a segment whether or not the limit is reached within it. What an
    earlier segment of the same start has reached stays reached.
    """
    of_start = Over.partitionBy(*CASE_CLOCK, "later_starts").orderBy(*EVENT_ORDER)
    so_far = of_start.rowsBetween(Over.unboundedPreceding, Over.currentRow)
    runs = ~sf.col("paused")
    at_limit = sf.when(runs, sf.col("limit_days") + sf.col("uncounted"))
    due = with_day_of(segments, days, number=at_limit, name="limit_on")
    both = with_day_of(due, days, number=at_limit + 1, name="exceeded_on")
    # A limit of no days is reached on the day of the start, whatever its number and whether or not it is paused.
    due_if_running = sf.when(runs, sf.greatest("limit_on", "started_on"))
    is_reached = sf.col("due_if_running") <= sf.greatest("last_on", "started_on")
    is_exceeded = sf.col("exceeded_on") <= sf.col("last_on")
    touches_output = (sf.col("last_on") >= sf.lit(ctx.output.start)) & (sf.col("first_on") <= sf.col("last_on"))
    return (
        both.withColumn("due_if_running", due_if_running)
        .withColumns(
            {
                "reached_on": sf.first(sf.when(is_reached, sf.col("due_if_running")), ignorenulls=True).over(so_far),
                "breached_on": sf.first(sf.when(is_exceeded, sf.col("exceeded_on")), ignorenulls=True).over(so_far),
            }
        )
        .withColumn("last_on", sf.least("last_on", sf.lit(ctx.output.last)))
        .where(touches_output)
    )


# ---------------------------------------------------------------------------------------------------------- rows


def _rows(segments: DataFrame, days: DataFrame, ctx: TransformContext) -> DataFrame:
    """One row per segment and day of the output."""
    first_of_output = sf.greatest("first_on", sf.lit(ctx.output.start))
    daily_rows = segments.withColumn("business_date", sf.explode(sf.sequence(first_of_output, "last_on")))
    elapsed = sf.when(sf.col("paused"), sf.col("elapsed_before")).otherwise(
        sf.col("days_counted") - sf.col("uncounted")
    )
    counted = with_number_of(daily_rows, days, "business_date").withColumn("elapsed_days", elapsed)
    # Rule 8, while paused: the day on which the limit would be reached if every countable day from tomorrow counted.
    is_projected = sf.col("paused") & sf.col("reached_on").isNull()
    number = sf.when(is_projected, sf.col("days_counted") + sf.col("limit_days") - sf.col("elapsed_days"))
    projected = with_day_of(counted, days, number=number, name="due_if_resumed")
    is_breached = sf.col("elapsed_days") > sf.col("limit_days")
    is_stopped = sf.col("stopped_on") <= sf.col("business_date")
    # Rule 7.
    sla_state = (
        sf.when(is_breached, "BREACHED").when(is_stopped, "MET").when(sf.col("paused"), "PAUSED").otherwise("RUNNING")
    )
    return projected.select(
        "case_id",
        "clock",
        "business_date",
        "jurisdiction",
        "started_on",
        sf.when(is_stopped, sf.col("stopped_on")).alias("stopped_on"),
        "paused",
        "elapsed_days",
        "limit_days",
        sf.coalesce("reached_on", "due_if_running", "due_if_resumed").alias("due_on"),
        sla_state.alias("sla_state"),
        sf.when(is_breached, sf.col("breached_on")).alias("breached_on"),  # rule 6
    )
