"""Do the transforms reproduce independently computed figures for half a million real events?

A quick run computes July 2006, a thorough one the quarter that begins with it.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.domain import TransformContext, Window
from backfill_assets.examples.enforcement_sla import DOMAIN
from backfill_assets.examples.enforcement_sla.sla_breaches import sla_breach_monthly
from backfill_assets.examples.enforcement_sla.sla_clocks import case_sla_daily
from backfill_assets.planning.manifest_parts import Mode, RunPurpose
from backfill_assets_tests.support.searches import is_thorough

QUARTER = DayRange.inclusive(date(2006, 7, 1), date(2006, 9, 30))
JULY = DayRange.inclusive(date(2006, 7, 1), date(2006, 7, 31))
COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
"""What tests do without, and what pays for itself with so many rows."""
VERSIONS = ("2.4.1", "3.1.0")


@pytest.fixture(scope="module")
def references(traffic_fines: Path) -> Mapping[str, Any]:
    folder = traffic_fines / "reference"
    return {r.name: r.parse(yaml.safe_load((folder / f"{r.name}.yaml").read_text())) for r in DOMAIN.references}


@pytest.fixture(scope="module")
def days() -> DayRange:
    return QUARTER if is_thorough() else JULY


@pytest.fixture(scope="module", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def ctx(spark: SparkSession, references: Mapping[str, Any], days: DayRange, version: str) -> TransformContext:
    return TransformContext(
        run_id="run",
        kind=RunPurpose.RESTATEMENT,
        mode=Mode.BACKFILL,
        transform_version=version,
        output=days,
        output_partitions=tuple(days),
        input_days={},
        references=references,
        spark=spark,
    )


@pytest.fixture(scope="module")
def silver(spark: SparkSession, traffic_fines: Path, ctx: TransformContext) -> Iterator[DataFrame]:
    window = case_sla_daily.window_of("events", ctx.references)
    assert window == Window(days_back=251, days_ahead=1)
    around = window.around(ctx.output)
    event_date = sf.to_date("event_time")
    events = spark.read.parquet(str(traffic_fines / "events.parquet")).where(
        event_date.between(sf.lit(around.start), sf.lit(around.last))
    )
    with settings_of(spark, COMPILED):
        rows = case_sla_daily.release(ctx.transform_version).function(events, ctx).cache()
        yield rows
        rows.unpersist()


@contextmanager
def settings_of(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """The session with these settings, and afterwards with those that it had."""
    had = {name: str(spark.conf.get(name)) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    yield
    for name, value in had.items():
        spark.conf.set(name, value)


@pytest.mark.long
def test_a_week_of_rows_is_equal_in_every_column(
    spark: SparkSession, traffic_fines: Path, silver: DataFrame, version: str
) -> None:
    name = f"case_sla_daily_2006-07-10_2006-07-16_{version}.parquet"
    expected = spark.read.parquet(str(traffic_fines / "expected" / name)).select(
        *(sf.col(field.name).cast(field.dataType) for field in case_sla_daily.schema)
    )
    found = silver.where(sf.col("business_date").between(date(2006, 7, 10), date(2006, 7, 16)))
    assert found.count() == expected.count() > 40_000
    assert found.exceptAll(expected).count() == 0


@pytest.mark.long
def test_the_rows_of_every_day_clock_and_state_are_equal_in_number(
    traffic_fines: Path, silver: DataFrame, days: DayRange, version: str
) -> None:
    counted = silver.groupBy("business_date", "clock", "sla_state").count().collect()
    found = {(str(row[0]), row[1], row[2]): row[3] for row in counted}
    with (traffic_fines / "expected" / f"case_sla_daily_counts_2006Q3_{version}.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["business_date"] <= str(days.last)]
    assert found == {(row["business_date"], row["clock"], row["sla_state"]): int(row["rows"]) for row in rows}


@pytest.mark.long
def test_the_monthly_figures_are_equal_and_the_rate_is_their_quotient(
    traffic_fines: Path, silver: DataFrame, ctx: TransformContext, days: DayRange, version: str
) -> None:
    found = sla_breach_monthly.release(None).function(silver, ctx).collect()
    with (traffic_fines / "expected" / f"sla_breach_monthly_2006Q3_{version}.csv").open() as file:
        expected = {tuple(row.values()) for row in csv.DictReader(file) if row["month"] <= str(days.last)}
    assert {tuple(str(value) for value in tuple(row)[:7]) for row in found} == expected
    for row in found:
        exact = Decimal(row["breached_cases"]) / Decimal(row["tracked_cases"])
        assert row["breach_rate"] == exact.quantize(Decimal("0.000001"), rounding=ROUND_HALF_UP)
