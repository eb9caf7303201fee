"""SLA breaches: the number of cases that missed their deadlines in a month."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DateType, DecimalType, LongType, StringType, StructField, StructType

from backfill_assets.domain import Breakdown, TransformContext, derived_table, expression, monthly

from .sla_clocks import case_sla_daily

SLA_BREACH_MONTHLY = StructType(
    [
        StructField("month", DateType(), nullable=False, metadata={"comment": "The first day of the month."}),
        StructField("jurisdiction", StringType(), nullable=False, metadata={"comment": "Whose cases these are."}),
        StructField("clock", StringType(), nullable=False, metadata={"comment": "The deadline that is counted."}),
        StructField(
            "tracked_cases",
            LongType(),
            nullable=False,
            metadata={"comment": "Cases with this clock on any day of the month."},
        ),
        StructField(
            "breached_cases", LongType(), nullable=False, metadata={"comment": "Of these, past the limit on any day."}
        ),
        StructField(
            "newly_breached_cases",
            LongType(),
            nullable=False,
            metadata={"comment": "Of these, first past it in this month."},
        ),
        StructField(
            "met_cases", LongType(), nullable=False, metadata={"comment": "Cases that were stopped within the limit."}
        ),
        StructField(
            "breach_rate", DecimalType(9, 6), nullable=False, metadata={"comment": "breached_cases / tracked_cases."}
        ),
    ]
)


@derived_table(
    name="gold.sla_breach_monthly",
    transform="sla-breach",
    inputs={"case_sla": case_sla_daily},
    key=("month", "jurisdiction", "clock"),
    partition=monthly("month"),
    schema=SLA_BREACH_MONTHLY,
    gates=(
        expression("tracks_cases", "tracked_cases >= 1"),
        expression("breached_cases_are_tracked", "breached_cases between 0 and tracked_cases"),
        expression("newly_breached_cases_are_breached", "newly_breached_cases between 0 and breached_cases"),
        expression("met_cases_are_tracked", "met_cases between 0 and tracked_cases"),
        expression("rate_is_a_share", "breach_rate between 0 and 1"),
    ),
    breakdown=Breakdown(
        by=("jurisdiction", "clock"),
        measures={name: name for name in ("tracked_cases", "breached_cases", "newly_breached_cases", "met_cases")},
        rank_rows_by="breached_cases",
    ),
    version="1.0.0",
)
def sla_breach_monthly(case_sla: DataFrame, ctx: TransformContext) -> DataFrame:  # noqa: ARG001 - the seam's signature
    """The number of cases that were tracked, breached and met in a month, by jurisdiction and clock.

    Grain: one row per month, jurisdiction and clock that any case was tracked under.
    Key: month, jurisdiction, clock.
    Window: every day of the month.
    Source: spec "SLA clocks of enforcement cases", `gold.sla_breach_monthly`.

    A case counts once, however many days or starts it had: as breached on any breached day of the month, and as newly
    breached when the breach itself fell in the month. `breach_rate` is rounded half up to six places, as Spark divides
    decimals.

    Args:
        ctx: Unused; a transform always takes it.

    Returns:
        Rows in the columns of `SLA_BREACH_MONTHLY`.
    """
    month = sf.trunc("business_date", "month")
    is_breached = sf.col("sla_state") == "BREACHED"
    broke_now = is_breached & (sf.trunc("breached_on", "month") == sf.col("month"))
    # Per case first: three conditional distinct counts in one aggregation would make four copies of every row.
    cases = (
        case_sla.withColumn("month", month)
        .groupBy("month", "jurisdiction", "clock", "case_id")
        .agg(
            sf.max(is_breached).alias("breached"),
            sf.max(sf.coalesce(broke_now, sf.lit(False))).alias("newly_breached"),
            sf.max(sf.col("sla_state") == "MET").alias("met"),
        )
    )
    counts = cases.groupBy("month", "jurisdiction", "clock").agg(
        sf.count("*").alias("tracked_cases"),
        sf.count_if("breached").alias("breached_cases"),
        sf.count_if("newly_breached").alias("newly_breached_cases"),
        sf.count_if("met").alias("met_cases"),
    )
    # Divided with 19 places, so that rounding to six afterwards cannot meet a half that is not one.
    rate = sf.col("breached_cases").cast("decimal(19,0)") / sf.col("tracked_cases").cast("decimal(19,0)")
    return counts.select(
        "month",
        "jurisdiction",
        "clock",
        "tracked_cases",
        "breached_cases",
        "newly_breached_cases",
        "met_cases",
        rate.cast("decimal(9,6)").alias("breach_rate"),
    )
