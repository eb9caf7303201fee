"""Small files of published partitions are compacted by a governed run, and nothing of it moves downstream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.identity import FileSet
from backfill_assets.domain import TransformContext
from backfill_assets.planning.manifest_parts import RunPurpose
from backfill_assets.planning.request import PlanRequest
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.edited import drift
from backfill_assets_tests.support.month import FEBRUARY, TOTALS, total
from backfill_assets_tests.support.seams import Seam
from backfill_assets_tests.support.shop import RECENT, Shop

DAYS = DayRange.inclusive(date(2026, 2, 3), date(2026, 2, 5))
FILES = "spark.sql.files.maxRecordsPerFile"


@pytest.fixture
def shop(month: Shop) -> Shop:
    """The month's shop, which has three tills: three rows a day in silver."""
    domain = month.ws.domain
    silver, gold = domain.derived_table(RECENT), domain.derived_table(TOTALS)
    release = silver.releases[0]

    def of_three_tills(sales: DataFrame, ctx: TransformContext) -> DataFrame:
        tills = sf.explode(sf.array(*map(sf.lit, ("a", "b", "c"))))
        return release.function(sales=sales, ctx=ctx).withColumn("shop", tills)

    changed = replace(silver, releases=(replace(release, function=of_three_tills), *silver.releases[1:]))
    derived = (changed, replace(gold, inputs={"recent": changed}))
    return replace(month, ws=drift(month.ws, replace(domain, derived=derived)))


def a_file_for_every_row(spark: SparkSession) -> Callable[..., Mapping[str, FileSet]]:
    """Staging as by a cluster that splits partitions; a session that is set so is refused before."""
    write: Callable[..., Mapping[str, FileSet]] = Seam.WRITE_STAGED.present

    def write_small(*args: object, **named: object) -> Mapping[str, FileSet]:
        spark.conf.set(FILES, 1)
        try:
            return write(*args, **named)
        finally:
            spark.conf.unset(FILES)

    return write_small


def published(shop: Shop, table: str, days: DayRange, *, kind: RunPurpose | None = None) -> str:
    request = PlanRequest(table=table, days=days, reason="small files", by="ana", kind=kind)
    run_id = operations.plan(shop.ws, request).manifest.run_id
    # Approved before it is measured, it waits for its publication even where it would change nothing.
    operations.approve(shop.ws, run_id, by="ben")
    operations.stage(shop.ws, run_id, actor="ana")
    assert operations.gate(shop.ws, run_id, actor="ana").passed
    shop.publish(run_id)
    return run_id


def files_of_days(shop: Shop) -> Mapping[str, int]:
    """How many files readers see of each day."""
    days = Counter(path.rpartition("day=")[2][:10] for path in shop.live_paths())
    return {str(day): days[str(day)] for day in DAYS}


def checksums(shop: Shop) -> Mapping[date, tuple[int, str]]:
    with shop.ws.ledger.read() as tx:
        return {day: (found.rows, found.checksum) for day, found in tx.versions.accepted(RECENT).items()}


@pytest.mark.long
def test_a_repair_compacts_small_files_to_the_same_rows_and_nothing_downstream_moves(
    shop: Shop, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as small_files:
        Seam.WRITE_STAGED.put(small_files, a_file_for_every_row(spark))
        published(shop, RECENT, DAYS)
    published(shop, TOTALS, FEBRUARY)
    assert set(files_of_days(shop).values()) == {3}
    rows, small, gold, sum_before = checksums(shop), shop.live_paths(), shop.live_paths(TOTALS), total(shop)

    published(shop, RECENT, DAYS)
    assert shop.live_paths() == small, "a run that finds equal rows leaves the files"

    repair = published(shop, RECENT, DAYS, kind=RunPurpose.REPAIR)
    assert set(files_of_days(shop).values()) == {1}
    assert checksums(shop) == rows
    assert len(shop.live_paths() - small) == len(list(DAYS)), "other days are not written again"

    published(shop, TOTALS, FEBRUARY)
    assert (shop.live_paths(TOTALS), total(shop)) == (gold, sum_before)
    assert audit(shop.ws).problems == ()

    operations.rollback(shop.ws, repair, by="ben", reason="second thoughts")
    assert shop.live_paths() == small
    assert audit(shop.ws).problems == ()
