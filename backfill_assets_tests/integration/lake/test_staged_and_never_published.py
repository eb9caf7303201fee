"""A table that was staged and never published takes other columns; one that was published takes none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType

from backfill_assets.core.clock import system_clock
from backfill_assets.core.errors import ContractBroken
from backfill_assets.core.settings import Settings
from backfill_assets.domain import Domain, Release, TransformContext, daily, versioned
from backfill_assets.lake.errors import OtherColumns
from backfill_assets.testing import DomainKit
from backfill_assets.upkeep.audit import audit
from backfill_assets.upkeep.check import check
from backfill_assets.workspace import Workspace
from backfill_assets_tests.domains import by_worker
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import advised
from backfill_assets_tests.support.shop import shop_environment

DAYS = "2026-01-02..2026-01-05"
SALES = [{"sale_id": str(n), "sold_at": f"2026-01-0{2 + n % 4}T10:00:00Z"} for n in range(12)]


def as_text(sales: DataFrame, ctx: TransformContext) -> DataFrame:
    return sales.groupBy("sold_on").agg(sf.count("*").cast("string").alias("n"))


def by_day(sales: DataFrame, ctx: TransformContext) -> DataFrame:
    return sales.groupBy(sf.col("sold_on").alias("day")).agg(sf.count("*").alias("n"))


def fails(sales: DataFrame, ctx: TransformContext) -> DataFrame:
    raise ValueError("a mistake")


def columns(day: str, kind: LongType | StringType) -> StructType:
    return StructType([StructField(day, DateType(), nullable=False), StructField("n", kind, nullable=False)])


NUMBERS = by_worker.days
AS_TEXT = (Release(version="2.0.0", function=as_text),)
TEXTS = replace(NUMBERS, schema=columns("sold_on", StringType()), releases=AS_TEXT)
OF_ANOTHER_DAY = replace(
    NUMBERS,
    schema=columns("day", LongType()),
    key=("day",),
    gates=(),
    partition=daily("day"),
    releases=(Release(version="2.0.0", function=by_day),),
)


def with_table(table: object) -> Domain:
    return replace(by_worker.DOMAIN, derived=(table,))  # type: ignore[arg-type]


Declares = Callable[[object], DomainKit]


@pytest.fixture
def declares(tmp_path: Path, spark: SparkSession) -> Iterator[Declares]:
    """The same home after its domain was edited."""
    home = tmp_path / "home"
    settings = Settings.from_environment({**shop_environment(home), "BACKFILL_DOMAIN": by_worker.__name__})
    opened: list[Workspace] = []

    def declared(table: object) -> DomainKit:
        given = Workspace(settings=settings, domain=with_table(table), clock=system_clock, open_session=lambda: spark)
        opened.append(given)
        kit = DomainKit(ws=given, folder=home / "incoming")
        if len(opened) == 1:
            kit.land("sales", SALES)
        return kit

    yield declared
    for ws in opened:
        ws.close()


def staged(kit: DomainKit) -> str:
    run_id = kit.planned("days", DAYS)
    kit.stage(run_id)
    return run_id


@pytest.mark.parametrize("table", [TEXTS, OF_ANOTHER_DAY], ids=["another type", "another partition column"])
def test_a_cancelled_first_try_leaves_no_columns_behind(declares: Declares, table: object) -> None:
    first = declares(NUMBERS)
    operations.cancel(first.ws, staged(first), by="ana", reason="a first try")
    edited = declares(table)
    assert not check(edited.ws).tables[-1].problems
    edited.published("days", DAYS)
    assert {str(row["n"]) for row in edited.rows("days")} == {"3"}
    assert audit(edited.ws).problems == ()


@pytest.mark.long
def test_an_open_run_that_was_staged_keeps_its_columns_and_is_named(declares: Declares) -> None:
    held = staged(declares(NUMBERS))
    edited = declares(TEXTS)
    with pytest.raises(OtherColumns, match="was created with other columns") as refused:
        edited.planned("days", DAYS)
    assert f"backfill cancel {held}" in advised(refused.value)
    assert held in check(edited.ws).tables[-1].problems[0]
    operations.cancel(edited.ws, held, by="ana", reason="a first try")
    edited.published("days", DAYS)


@pytest.mark.long
def test_only_runs_that_have_staged_rows_keep_their_columns_and_all_of_them_are_named(declares: Declares) -> None:
    first = declares(NUMBERS)
    held = [staged(first), staged(first)]
    broken = declares(replace(NUMBERS, releases=(Release(version="2.0.0", function=fails),)))
    for _ in range(3):
        with pytest.raises(ContractBroken):
            staged(broken)
    edited = declares(TEXTS)
    with pytest.raises(OtherColumns) as refused:
        edited.planned("days", DAYS)
    assert set(refused.value.open_runs) == set(held)
    assert all(f"backfill cancel {run_id}" in advised(refused.value) for run_id in held)
    for run_id in held:
        operations.cancel(edited.ws, run_id, by="ana", reason="a first try")
    planned = edited.planned("days", DAYS)
    with edited.ws.ledger.read() as tx:
        assert tx.runs.get(planned).manifest.columns == (), "no reader ever saw others"
    edited.stage(planned)


@pytest.mark.long
def test_a_run_that_was_staged_after_the_plan_is_found_when_the_table_would_be_created_again(
    declares: Declares,
) -> None:
    first = declares(NUMBERS)
    operations.cancel(first.ws, staged(first), by="ana", reason="a first try")
    planned_first = first.planned("days", DAYS)
    edited = declares(TEXTS)
    late = edited.planned("days", DAYS)
    first.stage(planned_first)
    with pytest.raises(OtherColumns) as refused:
        edited.stage(late)
    assert refused.value.open_runs == (planned_first,)
    first.gate(planned_first)
    first.approve(planned_first)
    first.publish(planned_first)
    assert {row["n"] for row in first.rows("days")} == {3}
    assert audit(first.ws).problems == ()


@pytest.mark.long
def test_a_process_that_dies_between_the_two_steps_is_made_up_for(
    declares: Declares, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = declares(NUMBERS)
    operations.cancel(first.ws, staged(first), by="ana", reason="a first try")
    edited = declares(TEXTS)
    run_id = edited.planned("days", DAYS)
    create, asked = DeltaTable.create, []

    def dies_the_second_time(*args: object, **named: object) -> DeltaTable:
        asked.append(args)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return create(*args, **named)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(DeltaTable, "create", dies_the_second_time)
        with pytest.raises(KeyboardInterrupt):
            edited.stage(run_id)
    assert not edited.ws.lake.exists("silver.days")
    edited.stage(run_id)
    edited.gate(run_id)
    edited.approve(run_id)
    edited.publish(run_id)
    assert {row["n"] for row in edited.rows("days")} == {"3"}
    assert audit(edited.ws).problems == ()


@pytest.mark.long
def test_a_published_table_keeps_its_columns_also_after_a_rollback(declares: Declares) -> None:
    first = declares(NUMBERS)
    run_id = first.published("days", DAYS)
    edited = declares(TEXTS)
    with pytest.raises(OtherColumns):
        edited.planned("days", DAYS)
    operations.rollback(first.ws, run_id, by="ben", reason="a mistake")
    with pytest.raises(OtherColumns):
        edited.planned("days", DAYS)


@pytest.mark.long
def test_a_version_beside_a_table_is_created_again_while_the_table_is_left_alone(declares: Declares) -> None:
    beside = replace(
        NUMBERS, name="silver.days_next", publish=versioned(of="silver.days"), gates=(), releases=NUMBERS.releases
    )
    domain = replace(by_worker.DOMAIN, derived=(NUMBERS, beside))
    first = declares(NUMBERS)
    both = replace(first, ws=replace(first.ws, domain=domain))
    both.published("days", DAYS)
    run_id = both.planned("days_next", DAYS)
    both.stage(run_id)
    operations.cancel(both.ws, run_id, by="ana", reason="a first try")
    texts = replace(beside, schema=TEXTS.schema, releases=TEXTS.releases)
    edited = replace(first, ws=replace(first.ws, domain=replace(domain, derived=(NUMBERS, texts))))
    edited.published("days_next", DAYS)
    assert {row["n"] for row in edited.rows("days_next")} == {"3"}
    assert {row["n"] for row in edited.rows("days")} == {3}


@pytest.mark.long
def test_a_source_changes_its_contract_by_a_version(declares: Declares) -> None:
    kit = declares(NUMBERS)
    sales = replace(
        by_worker.sales,
        schema=StructType([*by_worker.sales.schema.fields, StructField("n", LongType(), nullable=False)]),
    )
    edited = replace(kit, ws=replace(kit.ws, domain=replace(by_worker.DOMAIN, sources=(sales,), derived=())))
    with pytest.raises(OtherColumns) as refused:
        edited.land("sales", [{**SALES[0], "n": 1}])
    assert "earlier" in advised(refused.value)
