"""A partition whose rows did not change stays where it is, and nothing downstream moves for it."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, DateType, LongType, StructField, StructType

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import IllegalTransition, TargetChanged
from backfill_assets.domain import DerivedTable, Domain, TransformContext, daily, derived_table
from backfill_assets.lake import checksums
from backfill_assets.ledger.records import PublicationRecord
from backfill_assets.ledger.states import PublicationState, RunState
from backfill_assets.planning.manifest_parts import Mode, RunPurpose
from backfill_assets.planning.request import PlanRequest
from backfill_assets.report.report import run_report
from backfill_assets.requests.recover import RecoveryEnd, end_publication
from backfill_assets.upkeep.audit import audit
from backfill_assets.workspace import Workspace
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.domains.example import sales
from backfill_assets_tests.integration.conftest import ONE_HOUR
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.lakes import folder_of, overwrite
from backfill_assets_tests.support.ledgers import copy_home
from backfill_assets_tests.support.shop import OUTPUT, RECENT, SALES, Shop, open_shop, sale, ticking_clock

FIFTH = date(2026, 1, 5)
MOVED = (date(2026, 1, 4), FIFTH, date(2026, 1, 6), date(2026, 1, 7))
"""The days whose window holds the fifth: one ahead, two back."""


@pytest.fixture(scope="module")
def corrected_home(tmp_path_factory: pytest.TempPathFactory, stocked_home: Path, spark: SparkSession) -> Path:
    """The stocked home with the present release published."""
    home = tmp_path_factory.mktemp("corrected") / "home"
    copy_home(stocked_home, home)
    shop = open_shop(home, clock=ticking_clock(NOON + ONE_HOUR), spark=spark)
    shop.published()
    shop.ws.close()
    return home


@pytest.fixture
def shop(tmp_path: Path, corrected_home: Path, spark: SparkSession) -> Iterator[Shop]:
    copy_home(corrected_home, tmp_path / "home")
    opened = open_shop(tmp_path / "home", clock=ticking_clock(NOON + 5 * ONE_HOUR), spark=spark)
    yield opened
    opened.ws.close()


def last_publication(shop: Shop) -> PublicationRecord:
    with shop.ws.ledger.read() as reader:
        return reader.publications.records(states=[PublicationState.PUBLISHED])[0]


def undelivered(shop: Shop, table: str) -> list[tuple[date, ...]]:
    with shop.ws.ledger.read() as reader:
        return [entry.partitions for entry in reader.outbox.entries() if entry.table == table]


@pytest.mark.long
def test_only_the_partitions_whose_rows_changed_are_swapped(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    before = shop.live_paths()
    shop.land("late.jsonl", [sale(FIFTH, amount=7, sale_id="late")])
    shop.published()
    record = last_publication(shop)
    assert tuple(change.partition for change in record.changes) == MOVED
    assert {found.partition for found in record.verified} == set(OUTPUT) - set(MOVED)
    assert {path for path in before if path.rpartition("day=")[2][:10] not in {str(day) for day in MOVED}} < (
        shop.live_paths()
    )
    assert undelivered(shop, RECENT)[-1] == MOVED
    assert shop.amounts() == {day: 47 if day in MOVED else 40 for day in OUTPUT}
    assert audit(shop.ws).problems == ()
    # Rows stay equal for a later release that writes checksums in another form.
    monkeypatch.setattr(checksums, "FORM", "c0")
    shop.published()
    again = last_publication(shop)
    assert (again.changes, {found.partition for found in again.verified}) == ((), set(OUTPUT))


@pytest.mark.long
def test_a_source_day_that_holds_the_same_rows_is_not_swapped(shop: Shop) -> None:
    before = shop.live_paths(SALES)
    shop.land("again.jsonl", [sale(FIFTH), sale(date(2026, 1, 6), amount=11)])
    record = last_publication(shop)
    assert [found.partition for found in record.verified] == [FIFTH]
    assert len(shop.live_paths(SALES) & before) == len(before) - 1


@pytest.mark.long
def test_a_run_that_changes_nothing_commits_nothing_notifies_no_dependent_and_cannot_be_undone(shop: Shop) -> None:
    version = shop.ws.lake.open(RECENT).version()
    told = len(undelivered(shop, RECENT))
    run_id = shop.published()
    assert operations.state_of(shop.ws, run_id) is RunState.PUBLISHED
    assert shop.ws.lake.open(RECENT).version() == version == last_publication(shop).delta_version
    assert len(undelivered(shop, RECENT)) == told
    with pytest.raises(IllegalTransition, match="changed nothing"):
        operations.rollback(shop.ws, run_id, by="ben", reason="was wrong")
    assert audit(shop.ws).problems == ()


@pytest.mark.long
def test_a_recovery_that_was_late_for_a_run_that_changes_nothing_writes_nothing_into_the_table(shop: Shop) -> None:
    """A publication without a swap has no mark in the table's log, so the ledger alone says how it ended."""
    seen: list[PublicationRecord] = []

    def reached(point: Point) -> None:
        if point is Point.SWAP_INTENDED:
            with shop.ws.ledger.read() as tx:
                seen.extend(tx.publications.records(states=[PublicationState.PUBLISHING]))

    version = shop.ws.lake.open(RECENT).version()
    operations.publish(replace(shop.ws, reached=reached), shop.ready(), by="ben")
    (late,) = seen
    found = end_publication(shop.ws, late, by="ops")
    assert (found.ended, found.by_others) == (RecoveryEnd.NOTHING_TO_SWAP, True)
    assert shop.ws.lake.open(RECENT).version() == version
    assert audit(shop.ws).problems == ()


@pytest.mark.long
def test_a_run_that_changes_nothing_and_was_given_up_meanwhile_can_be_published_again(shop: Shop) -> None:
    def reached(point: Point) -> None:
        if point is Point.SWAP_COMMITTED:
            (found,) = operations.recover(shop.ws, by="ops")
            assert found.outcome == "had nothing to swap; closed, nothing has changed"

    version = shop.ws.lake.open(RECENT).version()
    run_id = shop.ready()
    with pytest.raises(IllegalTransition, match="ABANDONED"):
        operations.publish(replace(shop.ws, reached=reached), run_id, by="ben")
    assert operations.publish(shop.ws, run_id, by="ben").delta_version == version
    assert audit(shop.ws).problems == ()


def declared_wider(shop: Shop) -> Workspace:
    """The workspace of a shop whose author has declared another column since."""
    table = shop.ws.domain.derived_table(RECENT)
    wider = replace(table, schema=StructType([*table.schema.fields, StructField("since", LongType())]))
    return replace(shop.ws, domain=replace(shop.ws.domain, derived=(wider,)))


@pytest.mark.long
def test_a_rollback_brings_back_only_what_was_swapped(shop: Shop) -> None:
    before, amounts = shop.live_paths(), shop.amounts()
    shop.land("late.jsonl", [sale(FIFTH, amount=7, sale_id="late")])
    run_id, columns = shop.published(), shop.ws.lake.columns(RECENT)
    operations.rollback(declared_wider(shop), run_id, by="ben", reason="was right before")
    assert (shop.live_paths(), shop.amounts()) == (before, amounts)
    assert shop.ws.lake.columns(RECENT) == columns, "what is declared since is not published"
    assert audit(shop.ws).problems == ()


@pytest.mark.long
def test_a_run_that_was_measured_before_a_column_was_declared_does_not_bring_it(shop: Shop) -> None:
    shop.land("late.jsonl", [sale(FIFTH, amount=7, sale_id="late")])
    run_id, columns = shop.ready(), shop.ws.lake.columns(RECENT)
    operations.publish(declared_wider(shop), run_id, by="ben")
    assert shop.ws.lake.columns(RECENT) == columns
    assert audit(shop.ws).problems == ()


@pytest.mark.long
def test_an_equal_partition_that_another_run_replaced_meanwhile_refuses_the_whole_publication(shop: Shop) -> None:
    """Invariant 3 holds for what is not swapped as well."""
    shop.land("late.jsonl", [sale(FIFTH, amount=7, sale_id="late")])
    first = shop.ready()
    shop.published(DayRange.inclusive(date(2026, 1, 9), date(2026, 1, 9)), version="0.9.0")
    before = shop.live_paths()
    with pytest.raises(TargetChanged, match="2026-01-09"):
        shop.publish(first)
    assert shop.live_paths() == before


@pytest.mark.parametrize("changed", [True, False])
def test_an_equal_partition_that_a_foreign_writer_touched_refuses_the_whole_publication(
    shop: Shop, changed: bool
) -> None:
    if changed:
        shop.land("late.jsonl", [sale(FIFTH, amount=7, sale_id="late")])
    run_id = shop.ready()
    shop.ws.lake.open(RECENT).delete("day = '2026-01-09'")
    before = shop.live_paths()
    with pytest.raises(TargetChanged, match="2026-01-09"):
        shop.publish(run_id)
    assert shop.live_paths() == before
    assert operations.state_of(shop.ws, run_id) is RunState.PASSED


def damaged(shop: Shop, day: date, amount: int) -> None:
    """Readers see another amount of a day, in a file of the same name and size: the ledger cannot know of it."""
    with shop.ws.ledger.read() as reader:
        (file,) = reader.versions.accepted(RECENT)[day].files.files
    path = folder_of(shop.ws.lake, RECENT) / file.path
    size = path.stat().st_size
    rows = pq.ParquetFile(path).read().replace_schema_metadata(None)
    place = rows.schema.get_field_index("amount")
    other = pa.array([amount] * rows.num_rows, rows.schema.field(place).type)
    rows = rows.set_column(place, rows.schema.field(place), other)

    def written(padding: int) -> bytes:
        buffer = io.BytesIO()
        with pq.ParquetWriter(buffer, rows.schema, store_schema=False, compression="zstd") as writer:
            writer.write_table(rows)
            writer.add_key_value_metadata({"padding": "x" * padding})
        return buffer.getvalue()

    padding = size - len(written(0))
    while len(written(padding)) > size:
        padding -= 1
    overwrite(shop.ws.lake, RECENT, file.path, written(padding))
    (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
    assert path.stat().st_size == size
    assert shop.amounts()[day] == amount


@pytest.mark.long
def test_a_damaged_partition_is_seen_as_drift_and_replaced(shop: Shop) -> None:
    one = DayRange.inclusive(FIFTH, FIFTH)
    damaged(shop, FIFTH, 41)
    drift = PlanRequest(table=RECENT, days=one, reason="drift?", by="ana", mode=Mode.RECONCILIATION)
    checked = shop.staged(operations.plan(shop.ws, drift).manifest.run_id)
    assert run_report(shop.ws, checked).equal_partitions == 0
    shop.published(one, reason="mend it")
    assert shop.amounts()[FIFTH] == 40
    assert [change.partition for change in last_publication(shop).changes] == [FIFTH]
    (left,) = audit(shop.ws).problems
    assert "not those that were recorded; its version cannot be restored" in left


@pytest.mark.long
def test_a_repair_replaces_files_even_when_their_rows_are_right(shop: Shop) -> None:
    one = DayRange.inclusive(FIFTH, FIFTH)
    request = PlanRequest(table=RECENT, days=one, reason="lost bits on this disk", by="ana", kind=RunPurpose.REPAIR)
    run_id = shop.staged(operations.plan(shop.ws, request).manifest.run_id)
    operations.approve(shop.ws, run_id, by="ben")
    before = shop.live_paths()
    shop.publish(run_id)
    assert len(shop.live_paths() - before) == 1


@pytest.mark.long
def test_a_run_that_only_verified_is_superseded_with_what_it_verified(shop: Shop) -> None:
    one = DayRange.inclusive(FIFTH, FIFTH)
    run_id = shop.published(one, reason="equal")
    assert operations.state_of(shop.ws, run_id) is RunState.PUBLISHED
    assert run_report(shop.ws, run_id).run.next_step is None, "nothing was changed, so there is nothing to undo"
    shop.land("late.jsonl", [sale(FIFTH, amount=7, sale_id="late")])
    later = shop.published(one, reason="the late sale")
    assert operations.state_of(shop.ws, run_id) is RunState.SUPERSEDED
    operations.rollback(shop.ws, later, by="ben", reason="try")
    assert operations.state_of(shop.ws, run_id) is RunState.PUBLISHED
    assert audit(shop.ws).problems == ()


RANGES = StructType(
    [
        StructField("day", DateType(), nullable=False),
        StructField("range", StructType([StructField("low", LongType()), StructField("high", LongType())])),
        StructField("amounts", ArrayType(LongType())),
    ]
)


def _ranges(sales: DataFrame, ctx: TransformContext) -> DataFrame:
    """The amount taken for the upper end, and no amount at all: both wrong."""
    of_day = sf.col("sold_on").alias("day")
    wrong = sf.struct(sf.lit(None).cast("long").alias("low"), sf.col("amount").alias("high"))
    return sales.select(of_day, wrong.alias("range"), sf.array().cast("array<bigint>").alias("amounts"))


def _corrected(sales: DataFrame, ctx: TransformContext) -> DataFrame:
    right = sf.struct(sf.col("amount").alias("low"), sf.lit(None).cast("long").alias("high"))
    amounts = sf.array(sf.lit(None).cast("long")).alias("amounts")
    return sales.select(sf.col("sold_on").alias("day"), right.alias("range"), amounts)


def ranges_of(version: str, function: object, schema: StructType = RANGES) -> DerivedTable:
    """The table of ranges, whose present release has this version and computes this."""
    declare = derived_table(
        name="silver.ranges",
        inputs={"sales": sales},
        key=("day",),
        partition=daily("day"),
        schema=schema,
        transform="ranges",
        version=version,
    )
    return declare(function)  # type: ignore[arg-type]


def test_a_value_that_moves_inside_a_nested_column_is_published(shop: Shop) -> None:
    """Spark's hash takes {null, 7} for {7, null}, and [] for [null]."""
    assert published_one_after_the_other(shop, ranges_of("1.0.0", _ranges), ranges_of("1.1.0", _corrected)) == [
        {"range": {"low": None, "high": 10}, "amounts": []},
        {"range": {"low": 10, "high": None}, "amounts": [None]},
    ]


def published_one_after_the_other(shop: Shop, *releases: DerivedTable) -> list[Mapping[str, object]]:
    """A row of each release of a table, every partition of which has other rows than before."""
    seen: list[Mapping[str, object]] = []
    for table in releases:
        domain = Domain(
            name="example", package="backfill_assets_tests.domains.example", sources=(sales,), derived=(table,)
        )
        changed = replace(shop, ws=replace(shop.ws, domain=domain))
        run_id = changed.staged(changed.planned(table=table.name, reason=table.version))
        operations.approve(changed.ws, run_id, by="ben")
        record = changed.publish(run_id)
        assert tuple(change.partition for change in record.changes) == tuple(OUTPUT), table.version
        row = changed.ws.lake.open(table.name).to_pyarrow_table().to_pylist()[0]
        seen.append({name: row[name] for name in table.schema.fieldNames() if name != "day"})
        with shop.ws.ledger.read() as tx:
            measured = tx.candidates.of_run(run_id)
        assert all(each.checksum != each.compared_checksum for each in measured.values())
    return seen


DAY, *ENDS = (
    StructField("day", DateType(), nullable=False),
    *(StructField(n, LongType()) for n in ("low", "high")),
)


def release(version: str, *names: str) -> DerivedTable:
    def ranges(sales: DataFrame, ctx: TransformContext) -> DataFrame:
        low, high = sf.col("amount").alias(names[0]), (2 * sf.col("amount")).cast("long").alias(names[1])
        return sales.select(sf.col("sold_on").alias("day"), low, high)

    named = {each.name: each for each in ENDS}
    return ranges_of(version, ranges, StructType([DAY, *(named[name] for name in names)]))


@pytest.mark.long
def test_columns_that_were_taken_for_each_other_are_published(shop: Shop) -> None:
    """Both are renamed in the declaration and in the function, so that the same values stand in the same places."""
    wrong, right = release("1.0.0", "high", "low"), release("1.1.0", "low", "high")
    assert published_one_after_the_other(shop, wrong, right) == [{"high": 10, "low": 20}, {"low": 10, "high": 20}]
