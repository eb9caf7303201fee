"""The same manifest gives the same rows, whatever machine, settings and surroundings it runs in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.settings import EXAMPLE_REFERENCE, PROJECT_ROOT, Settings
from backfill_assets.core.spark import open_spark
from backfill_assets.domain import TransformContext
from backfill_assets.examples.enforcement_sla import DOMAIN
from backfill_assets.examples.enforcement_sla.case_histories import generate_events
from backfill_assets.examples.enforcement_sla.sla_clocks import case_sla_daily
from backfill_assets.files.local import LocalFiles
from backfill_assets.lake.checksums import partition_checksums
from backfill_assets.planning.manifest_parts import Mode, RunPurpose
from backfill_assets.planning.request import AskedLimits, PlanRequest
from backfill_assets.testing.kit import SHORT_LIVED
from backfill_assets.transforms.references import load_references
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.ledgers import copy_home
from backfill_assets_tests.support.searches import is_thorough
from backfill_assets_tests.support.shop import OUTPUT, RECENT, Shop, open_shop, shop_environment, ticking_clock

EVENTS = "event_id string, case_id string, jurisdiction string, event_type string, event_time timestamp"
A_MONTH = DayRange.inclusive(date(2025, 3, 15), date(2025, 4, 14))
"""A change of clocks, Easter holidays, and thousands of running deadlines."""
A_WEEK = DayRange.inclusive(date(2025, 3, 27), date(2025, 4, 2))
"""The change of clocks alone, for a quick run."""
LATER = datetime(2026, 1, 15, 18, tzinfo=UTC)

SURROUNDINGS: Mapping[str, Mapping[str, str]] = {
    "four cores, eleven shuffle partitions, adaptive plans, compiled, three days per chunk, the far east, Turkish": {
        "BACKFILL_SPARK_CONF": ";".join(
            (
                f"spark.driver.extraJavaOptions={SHORT_LIVED}",
                "spark.sql.codegen.wholeStage=true",
                "spark.sql.adaptive.enabled=true",
            )
        ),
        "BACKFILL_SPARK_MASTER": "local[4]",
        "BACKFILL_SPARK_SHUFFLE_PARTITIONS": "11",
        "CHUNK": "3",
        "TZ": "Pacific/Kiritimati",
        "JAVA_TOOL_OPTIONS": "-Duser.language=tr -Duser.country=TR -Duser.timezone=Pacific/Kiritimati",
        "PYTHONHASHSEED": "1",
        "LC_ALL": "C",
    },
    "one core, one shuffle partition, one day per chunk, the far west, Arabic": {
        "BACKFILL_SPARK_MASTER": "local[1]",
        "BACKFILL_SPARK_SHUFFLE_PARTITIONS": "1",
        "CHUNK": "1",
        "TZ": "America/Los_Angeles",
        "JAVA_TOOL_OPTIONS": "-Duser.language=ar -Duser.country=EG -Duser.timezone=America/Los_Angeles",
        "PYTHONHASHSEED": "2",
    },
}
"""The first differs in everything from the session of the tests; a quick run tries no other."""


def deadlines(spark: SparkSession, days: DayRange) -> Mapping[str, str]:
    """The content checksum of some days of the reference domain's table, as this session computes it."""
    loaded = load_references(DOMAIN, LocalFiles(EXAMPLE_REFERENCE))
    references = {name: reference.value for name, reference in loaded.items()}
    ctx = TransformContext(
        run_id="run",
        kind=RunPurpose.BOOTSTRAP,
        mode=Mode.BACKFILL,
        transform_version="3.1.0",
        output=days,
        output_partitions=tuple(days),
        input_days={},
        references=references,
        spark=spark,
    )
    made = [
        (e.event_id, e.case_id, e.jurisdiction, e.event_type, e.happened_at)
        for e in generate_events(cases=400, seed=7)
        if e.happened_at.date() < days.end
    ]
    frame: DataFrame = case_sla_daily.release("3.1.0").function(spark.createDataFrame(made, EVENTS), ctx)
    return {str(day): checksum for day, checksum in partition_checksums(frame, "business_date", frame.schema).items()}


def shop_sums(shop: Shop, chunk: int) -> Mapping[str, str]:
    """The content checksums of a run of the shop, computed so many days at a time."""
    request = PlanRequest(
        table=RECENT, days=OUTPUT, reason=f"by {chunk}", by="ana", limits=AskedLimits(chunk_partitions=chunk)
    )
    run_id = operations.plan(shop.ws, request).manifest.run_id
    operations.stage(shop.ws, run_id, actor="ana")
    with shop.ws.ledger.read() as reader:
        return {str(day): candidate.checksum for day, candidate in reader.candidates.of_run(run_id).items()}


@pytest.fixture(scope="module")
def here(spark: SparkSession) -> Mapping[str, str]:
    return deadlines(spark, days_tried())


def days_tried() -> DayRange:
    return A_MONTH if is_thorough() else A_WEEK


@pytest.fixture
def home(tmp_path: Path, stocked_home: Path) -> Path:
    return copy_home(stocked_home, tmp_path / "home")


@pytest.mark.long
@pytest.mark.parametrize("surroundings", SURROUNDINGS if is_thorough() else list(SURROUNDINGS)[:1])
def test_other_surroundings_give_the_same_rows(
    home: Path, here: Mapping[str, str], spark: SparkSession, surroundings: str
) -> None:
    shop = open_shop(home, clock=ticking_clock(LATER), spark=spark)
    expected = {"deadlines": dict(here), "shop": dict(shop_sums(shop, len(OUTPUT)))}
    shop.ws.close()
    assert len(expected["deadlines"]) == len(days_tried())
    which = {"FIRST": days_tried().start.isoformat(), "LAST": days_tried().last.isoformat()}
    environment = {**os.environ, **shop_environment(home), **SURROUNDINGS[surroundings], **which}
    ended = subprocess.run(
        [sys.executable, "-m", __name__], env=environment, capture_output=True, text=True, timeout=300, cwd=PROJECT_ROOT
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout.splitlines()[-1]) == expected


def main() -> None:
    """What the process with other surroundings does: the same, and prints its checksums."""
    settings = Settings.from_environment()
    session = open_spark(settings)
    shop = open_shop(settings.home, clock=ticking_clock(LATER + timedelta(hours=1)), spark=session)
    days = DayRange.inclusive(date.fromisoformat(os.environ["FIRST"]), date.fromisoformat(os.environ["LAST"]))
    sums = {"deadlines": dict(deadlines(session, days)), "shop": dict(shop_sums(shop, int(os.environ["CHUNK"])))}
    sys.stdout.write("\n" + json.dumps(sums) + "\n")
    session.stop()


if __name__ == "__main__":
    main()
