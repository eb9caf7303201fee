"""Do the demo's made-up cases show what the demo is about: a defect that moves some rows, but not all?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import date

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from backfill_assets.calendar.partitions import DayRange, Grain
from backfill_assets.core.settings import EXAMPLE_REFERENCE
from backfill_assets.domain import GateContext, TransformContext
from backfill_assets.examples.enforcement_sla import DOMAIN
from backfill_assets.examples.enforcement_sla.active_cases import active_cases
from backfill_assets.examples.enforcement_sla.case_histories import generate_events
from backfill_assets.examples.enforcement_sla.generator import DEFAULT_CASES, DEFAULT_SEED
from backfill_assets.examples.enforcement_sla.sla_breaches import sla_breach_monthly
from backfill_assets.examples.enforcement_sla.sla_clocks import SLA_STATES, case_sla_daily
from backfill_assets.files.local import LocalFiles
from backfill_assets.planning.manifest_parts import Mode, RunPurpose
from backfill_assets.transforms.references import load_references

PUBLISHED = DayRange.inclusive(date(2024, 12, 1), date(2025, 6, 30))
EVENT_COLUMNS = "event_id string, case_id string, jurisdiction string, event_type string, event_time timestamp"


@pytest.fixture(scope="module")
def ctx(spark: SparkSession) -> TransformContext:
    loaded = load_references(DOMAIN, LocalFiles(EXAMPLE_REFERENCE))
    references = {name: reference.value for name, reference in loaded.items()}
    return TransformContext(
        run_id="run",
        kind=RunPurpose.BOOTSTRAP,
        mode=Mode.BACKFILL,
        transform_version="",
        output=PUBLISHED,
        output_partitions=tuple(PUBLISHED),
        input_days={},
        references=references,
        spark=spark,
    )


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(
        [
            (e.event_id, e.case_id, e.jurisdiction, e.event_type, e.happened_at)
            for e in generate_events(cases=DEFAULT_CASES, seed=DEFAULT_SEED)
        ],
        EVENT_COLUMNS,
    )


@pytest.fixture(scope="module")
def releases(events: DataFrame, ctx: TransformContext) -> Iterator[dict[str, DataFrame]]:
    computed = {
        version: case_sla_daily.release(version).function(events, ctx).cache()
        for version in ("2.4.1", "3.0.0", "3.1.0")
    }
    yield computed
    for frame in computed.values():
        frame.unpersist()


@pytest.mark.long
def test_there_are_enough_rows_in_every_state_and_jurisdiction_but_few_enough_for_a_demo(
    releases: dict[str, DataFrame],
) -> None:
    counted = releases["3.1.0"].groupBy("jurisdiction", "clock", "sla_state").count().collect()
    assert len(counted) == 3 * 2 * len(SLA_STATES)
    assert min(row["count"] for row in counted) > 50
    assert 100_000 < sum(row["count"] for row in counted) < 400_000
    assert releases["3.1.0"].select("business_date").distinct().count() == len(PUBLISHED)


@pytest.mark.long
def test_the_defect_moves_some_rows_of_every_jurisdiction_and_leaves_most_alone(
    releases: dict[str, DataFrame],
) -> None:
    wrong = releases["2.4.1"].exceptAll(releases["3.1.0"]).groupBy("jurisdiction").count().collect()
    right = {row[0]: row[1] for row in releases["3.1.0"].groupBy("jurisdiction").count().collect()}
    shares = {row[0]: row[1] / right[row[0]] for row in wrong}
    assert set(shares) == set(right)
    assert all(0.01 < share < 0.4 for share in shares.values()), shares


@pytest.mark.long
def test_the_defect_moves_monthly_figures_that_a_regulator_would_read(
    releases: dict[str, DataFrame], ctx: TransformContext
) -> None:
    def by_key(version: str) -> dict[tuple[str, str, str], Row]:
        rows = sla_breach_monthly.release(None).function(releases[version], ctx).collect()
        return {(str(row["month"]), row["jurisdiction"], row["clock"]): row for row in rows}

    right, wrong = by_key("3.1.0"), by_key("2.4.1")
    assert len(right) == 7 * 3 * 2
    moved = Counter(key[0] for key in right if right[key] != wrong.get(key))
    assert all(moved[month] for month in ("2025-01-01", "2025-02-01", "2025-03-01"))
    assert all(0.02 < float(row["breach_rate"]) < 0.7 for row in right.values()), right


@pytest.mark.long
def test_the_first_repair_lacks_paused_cases_that_are_active_and_the_others_lack_none(
    releases: dict[str, DataFrame], events: DataFrame, ctx: TransformContext
) -> None:
    measured = GateContext(
        output=ctx.output,
        output_partitions=ctx.output_partitions,
        grain=Grain.DAILY,
        partition="business_date",
        partition_columns={},
        key=case_sla_daily.key,
        references=ctx.references,
        spark=ctx.spark,
    )
    key, active = list(case_sla_daily.key), active_cases(events, measured).cache()
    lacking = {version: active.join(rows, key, "left_anti").select(key) for version, rows in releases.items()}
    assert active.count() > 100_000
    assert not lacking["2.4.1"].head() and not lacking["3.1.0"].head()
    paused = releases["3.1.0"].where("paused").select(key).join(active, key, "left_semi")
    assert paused.count() == lacking["3.0.0"].count() > 1_000
    assert not paused.exceptAll(lacking["3.0.0"]).head()


def test_every_business_date_of_the_range_has_its_warm_up(ctx: TransformContext) -> None:
    needed = case_sla_daily.window_of("events", ctx.references).around(PUBLISHED)
    assert (needed.start, needed.last) == (date(2024, 10, 1), date(2025, 7, 1))
