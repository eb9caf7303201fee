"""Active cases: the clocks that every day has to report, told from the events alone.

What a gate expects may not be computed as the rows are that it judges. Nothing here counts days, pauses or deadlines.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as sf

from backfill_assets.domain import GateContext

from .clock_moves import CASE_CLOCK, EVENT_ORDER, clock_moves, date_in_the_jurisdiction
from .references import DeadlineRules


def active_cases(events: DataFrame, ctx: GateContext) -> DataFrame:
    """The days between the start of a clock and its end: its stop, its next start, or the last day that is tracked.

    Grain: one row per case, clock and business date.
    Key: case_id, clock, business_date.
    Source: spec "SLA clocks of enforcement cases", rules 1, 2 and 5. The first and the last day are left out, so that a
        time zone decides nothing: which days these are is what releases differ in.

    Args:
        events: `bronze.case_events` in the window of the table.
        ctx: The days that are measured, calendar and policy.
    """
    moves = clock_moves(events, DeadlineRules.from_references(ctx.references), ctx, date_in_the_jurisdiction)
    in_order = Over.partitionBy(*CASE_CLOCK).orderBy(*EVENT_ORDER)
    starts = (
        moves.where("starts or stops")
        .withColumn("ended_on", sf.lead("local_on").over(in_order))
        .where("starts")
        .withColumn("first_on", sf.greatest(sf.date_add("local_on", 1), sf.lit(ctx.output.start)))
        .withColumn(
            "last_on",
            # Passes over nulls: a start that nothing has ended.
            sf.least(
                sf.date_sub("ended_on", 1),
                sf.date_add("local_on", sf.col("tracked_days") - 1),
                sf.lit(ctx.output.last),
            ),
        )
        .where("first_on <= last_on")
    )
    return starts.select(
        "case_id", "clock", sf.explode(sf.sequence("first_on", "last_on")).alias("business_date"), "jurisdiction"
    )
