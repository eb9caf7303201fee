"""What fails in the function of a table is one sentence that says what, in which line, and what to do."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import date
from importlib import import_module

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import pandas_udf

from backfill_assets.application.requests import Restatement
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.errors import (
    BackfillError,
    ContractBroken,
    IllegalTransition,
)
from backfill_assets.domain import Release, TransformContext
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.next_steps import plan_again
from backfill_assets.planning.restatement import PlannedSet, SetRequest
from backfill_assets.report.command_line import words_of
from backfill_assets.report.report import run_report, set_report
from backfill_assets.report.review import review_of, review_of_set
from backfill_assets.report.runs import RunSummary, SetDocument, run_document, set_document
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import advised, worded
from backfill_assets_tests.support.edited import keep_code
from backfill_assets_tests.support.shop import RECENT, Shop

MIDDLE = DayRange.inclusive(date(2026, 1, 5), date(2026, 1, 6))
FIFTH = date(2026, 1, 5)


def test_a_transform_that_breaks_its_contract_fails_with_a_sentence_and_nothing_is_staged(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = shop.planned(MIDDLE)
    table = shop.ws.domain.derived_table(RECENT)

    def surplus(sales: DataFrame, ctx: TransformContext) -> DataFrame:
        return table.releases[1].function(sales=sales, ctx=ctx).withColumn("more", F.lit(1))

    keep_code(shop.ws)
    monkeypatch.setattr(type(table), "release", lambda self, version: Release(version="1.0.0", function=surplus))
    with pytest.raises(ContractBroken, match="more is not declared"):
        operations.stage(shop.ws, run_id, actor="ana")
    assert operations.state_of(shop.ws, run_id) is RunState.FAILED


def test_rows_without_a_day_are_refused_and_not_left_out(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = shop.planned(MIDDLE)
    table = shop.ws.domain.derived_table(RECENT)

    def forgetful(sales: DataFrame, ctx: TransformContext) -> DataFrame:
        rows = table.releases[0].function(sales=sales, ctx=ctx)
        return rows.withColumn("day", F.when(F.col("day") != F.lit(FIFTH), F.col("day")))

    keep_code(shop.ws)
    monkeypatch.setattr(type(table), "release", lambda self, version: Release(version="1.0.0", function=forgetful))
    with pytest.raises(ContractBroken, match=f"returned rows without day, which belong to no partition of {RECENT}"):
        operations.stage(shop.ws, run_id, actor="ana")


@pytest.mark.parametrize(
    ("name", "act"),
    [
        ("count", lambda rows: rows.count()),
        ("collect", lambda rows: rows.distinct().collect()),
        ("show", lambda rows: rows.show()),
        ("toPandas", lambda rows: rows.toPandas()),
        ("write", lambda rows: rows.write.parquet("/nowhere/at/all")),
        ("first", lambda rows: rows.first()),
        ("isEmpty", lambda rows: rows.isEmpty()),
        ("persist", lambda rows: rows.persist()),
        ("transpose", lambda rows: rows.transpose()),
    ],
)
def test_a_transform_with_an_action_is_refused_with_its_name_and_the_action(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, name: str, act: Callable[[DataFrame], object]
) -> None:
    run_id = shop.planned(MIDDLE)
    table = shop.ws.domain.derived_table(RECENT)

    def acting(sales: DataFrame, ctx: TransformContext) -> DataFrame:
        with suppress(Exception):
            act(sales)
        return table.releases[0].function(sales=sales, ctx=ctx)

    keep_code(shop.ws)
    monkeypatch.setattr(type(table), "release", lambda self, version: Release(version="1.0.0", function=acting))
    with pytest.raises(
        ContractBroken, match=rf"the transform recent-sales 1\.0\.0 of {RECENT} runs the action {name} on"
    ):
        operations.stage(shop.ws, run_id, actor="ana")
    assert shop.ws.spark().range(3).count() == 3, "actions elsewhere are not affected"


def test_what_a_transform_raises_itself_is_the_reason_a_person_reads(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = shop.planned(MIDDLE)
    table = shop.ws.domain.derived_table(RECENT)

    def complain(sales: DataFrame, ctx: TransformContext) -> DataFrame:
        rows = table.releases[0].function(sales=sales, ctx=ctx)
        return rows.withColumn("shop", F.coalesce(F.lit(None).cast("string"), F.raise_error(F.lit("no such shop"))))

    keep_code(shop.ws)
    monkeypatch.setattr(type(table), "release", lambda self, version: Release(version="1.0.0", function=complain))
    with pytest.raises(ContractBroken) as refusal:
        operations.stage(shop.ws, run_id, actor="ana")
    assert refusal.value.message == "Spark stopped while it computed silver.recent_sales: no such shop"
    with shop.ws.ledger.read() as reader:
        assert "USER_RAISED_EXCEPTION" in reader.runs.get(run_id).note
        # It may be the value of a row, and events can never be erased.
        assert "no such shop" not in str([reader.runs.get(run_id), *reader.events.entries(entity_id=run_id)])


def no_such_shop(sales: DataFrame, ctx: TransformContext) -> DataFrame:
    return sales.where(F.col("shop") == {"Rome": 1}["Turin"])


def no_such_name(sales: DataFrame, ctx: TransformContext) -> DataFrame:
    return no_such_function(sales)  # type: ignore[name-defined,no-any-return] # noqa: F821


def nothing(sales: DataFrame, ctx: TransformContext) -> None:
    sales.select("amount")


def looked_up(sales: DataFrame, ctx: TransformContext) -> DataFrame:
    return no_such_shop(sales, ctx)


LINE_OF_SHOP = no_such_shop.__code__.co_firstlineno + 1


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (no_such_shop, f"failed: KeyError: 'Turin', in {__file__}, line {LINE_OF_SHOP}"),
        (looked_up, f"failed: KeyError: 'Turin', in {__file__}, line {LINE_OF_SHOP}"),
        (
            no_such_name,
            f"failed: NameError: name 'no_such_function' is not defined, in {__file__}, line "
            f"{no_such_name.__code__.co_firstlineno + 1}",
        ),
        (nothing, "returned NoneType where a DataFrame is declared"),
    ],
)
def test_an_error_of_python_in_a_transform_says_what_failed_in_which_line_and_that_it_is_planned_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, function: Callable[..., DataFrame], problem: str
) -> None:
    run_id = shop.planned(MIDDLE)
    table = shop.ws.domain.derived_table(RECENT)
    keep_code(shop.ws)
    monkeypatch.setattr(type(table), "release", lambda self, version: Release(version="1.0.0", function=function))
    with pytest.raises(ContractBroken) as refusal:
        operations.stage(shop.ws, run_id, actor="ana")
    assert refusal.value.message == f"the transform recent-sales 1.0.0 of {RECENT} {problem}."
    run = run_document(shop.ws, run_id)
    assert (run.record.state, run.record.note) == (RunState.FAILED, refusal.value.message)
    again = (
        f"backfill report {run_id}; then fix the cause and plan again: {worded(plan_again(run.record.manifest))}; "
        f"or give it up: backfill cancel {run_id} --by NAME --reason WHY"
    )
    assert following(run) == advised(refusal.value) == again
    for act in (
        lambda: Restatement(shop.ws, run_id).approve(by="ben", note=""),
        lambda: operations.require_ready(shop.ws, run_id),
        lambda: operations.publish(shop.ws, run_id, by="ben"),
    ):
        with pytest.raises(IllegalTransition, match=f"run {run_id} is FAILED because of its code") as stopped:
            act()
        assert advised(stopped.value) == again
    assert review_of(run_report(shop.ws, run_id)).on_yes == f"It cannot be published: {run.record.note} Next: {again}"


def misspelt(sales: DataFrame, ctx: TransformContext) -> DataFrame:
    return sales.select("amont")


def test_a_column_that_is_not_there_is_refused_with_the_line_of_the_function(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = shop.planned(MIDDLE)
    table = shop.ws.domain.derived_table(RECENT)
    keep_code(shop.ws)
    monkeypatch.setattr(type(table), "release", lambda self, version: Release(version="1.0.0", function=misspelt))
    with pytest.raises(ContractBroken, match="amont") as refusal:
        operations.stage(shop.ws, run_id, actor="ana")
    place = f", in {__file__}, line {misspelt.__code__.co_firstlineno + 1}"
    assert refusal.value.message.endswith(f"{place}.")
    assert operations.run_named(shop.ws, run_id).note.endswith(place)


def test_a_set_with_a_run_that_its_own_code_stopped_is_not_run_again_and_one_without_is(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = operations.plan_set(
        shop.ws, SetRequest(reason="why not", by="ana", table=RECENT, days=MIDDLE, with_dependents=True)
    )
    assert isinstance(planned, PlannedSet)
    table, set_id = shop.ws.domain.derived_table(RECENT), planned.manifest.set_id
    (run_id, *_) = [each.run_id for each in planned.manifest.members]
    for error, said in ((ConnectionError, f"backfill run {set_id}"), (ValueError, f"backfill report {run_id}; then ")):

        def failing(sales: DataFrame, ctx: TransformContext, error: type[Exception] = error) -> DataFrame:
            raise error("no more")

        keep_code(shop.ws)
        monkeypatch.setattr(type(table), "release", lambda self, version, f=failing: Release(version="1", function=f))
        with pytest.raises((ConnectionError, ContractBroken), match="no more"):
            operations.stage(shop.ws, run_id, actor="ana")
        assert following(set_document(shop.ws, set_id)).startswith(said)
        assert following(run_document(shop.ws, run_id)).startswith(said)
        reviewed = review_of_set(set_report(shop.ws, set_id)).on_yes
        assert reviewed.startswith("It cannot be published: run ") and f" Next: {said}" in reviewed
    for act in (
        lambda: Restatement(shop.ws, set_id).approve(by="ben", note=""),
        lambda: operations.publish_set(shop.ws, set_id, by="ben"),
    ):
        with pytest.raises(IllegalTransition, match="is FAILED because of its code or its rows") as stopped:
            act()
        assert advised(stopped.value).startswith(said)


def price_of(shop: str) -> str:
    return {"Rome": "1"}[shop]


def read_as_json(shop: str) -> str:
    return str(json.loads(f"{shop}: no JSON"))


def is_killed(_shop: str) -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return ""


def has_no_memory(_shop: str) -> str:
    raise MemoryError


def lacks_a_package(_shop: str) -> str:
    return import_module("no_such_package").__name__


def no_such_column(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for batch in batches:
        yield batch[["no_such_column"]]


def no_such_field(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        batch["no_such_field"]
        yield batch


def no_frame(batches: Iterator[pd.DataFrame]) -> Iterator[int]:
    yield sum(len(batch) for batch in batches)


def too_short(shops: pd.Series) -> pd.Series:
    return shops.head(0)


Rows = Callable[[DataFrame], DataFrame]


def by_udf(function: Callable[[str], str]) -> Rows:
    return lambda rows: rows.withColumn("shop", F.udf(function, "string", useArrow=False)("shop"))


def computed_by(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, computed: Rows, *, read: Rows = lambda rows: rows
) -> tuple[str, BackfillError]:
    """A run whose rows are computed so, and why it stopped."""
    run_id = shop.planned(MIDDLE)
    table = shop.ws.domain.derived_table(RECENT)
    declared = table.releases[0].function

    def computing(sales: DataFrame, ctx: TransformContext) -> DataFrame:
        return computed(declared(sales=read(sales), ctx=ctx))

    release = Release(version="1.0.0", function=computing)
    keep_code(shop.ws)
    monkeypatch.setattr(type(table), "release", lambda self, version: release)
    with pytest.raises(ContractBroken) as refusal:
        operations.stage(shop.ws, run_id, actor="ana")
    return run_id, refusal.value


def line_in(function: Callable[..., object], line: int) -> str:
    return f", in {__file__}, line {function.__code__.co_firstlineno + line}"


@pytest.mark.parametrize(
    ("computed", "kind", "said", "place"),
    [
        (by_udf(price_of), "KeyError", ": 'only'", line_in(price_of, 1)),
        (by_udf(read_as_json), "json.decoder.JSONDecodeError", ": Expecting value: ", line_in(read_as_json, 1)),
        (lambda rows: rows.mapInPandas(no_such_column, rows.schema), "KeyError", ": ", line_in(no_such_column, 2)),
        (lambda rows: rows.mapInArrow(no_such_field, rows.schema), "KeyError", ": ", line_in(no_such_field, 2)),
        (
            lambda rows: rows.withColumn("shop", pandas_udf(too_short, "string")("shop")),  # type: ignore[call-overload]
            "pyspark.errors.exceptions.base.PySparkRuntimeError",
            ": [RESULT_ROWS_MISMATCH]",
            "",
        ),
        (
            lambda rows: rows.mapInPandas(no_frame, rows.schema),
            "pyspark.errors.exceptions.base.PySparkTypeError",
            ": [UDF_RETURN_TYPE]",
            "",
        ),
    ],
    ids=["udf", "udf of a library", "pandas", "arrow", "too few values", "no frame"],
)
def test_an_error_of_python_in_a_worker_is_one_of_the_function_whose_message_the_ledger_does_not_keep(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, computed: Rows, kind: str, said: str, place: str
) -> None:
    run_id, refused = computed_by(shop, monkeypatch, computed)
    named = f"the transform recent-sales 1.0.0 of {RECENT}"
    assert refused.message.startswith(f"{named} failed: {kind}{said}")
    assert refused.message.endswith(f"{place}.")
    run = run_document(shop.ws, run_id)
    assert advised(refused) == following(run)
    assert run.record.note == f"{named} failed: {kind} (its message is shown where the run was started){place}"
    assert following(run).startswith(f"backfill report {run_id}; then fix the cause and plan again: backfill plan ")
    with shop.ws.ledger.read() as reader:
        assert "'only'" not in str(list(reader.events.entries(entity_id=run_id)))


@pytest.mark.long
@pytest.mark.parametrize(
    ("function", "said"),
    [
        (is_killed, "An error occurred while calling"),
        (has_no_memory, "MemoryError"),
        (lacks_a_package, "ModuleNotFoundError: No module named 'no_such_package'"),
    ],
)
def test_a_worker_that_is_lost_or_lacks_something_is_no_mistake_in_a_function(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, function: Callable[[str], str], said: str
) -> None:
    run_id, refused = computed_by(shop, monkeypatch, by_udf(function))
    assert refused.message.startswith(f"Spark stopped while it computed {RECENT}: ")
    assert said in refused.message
    assert advised(refused) == f"fix the cause, then backfill run {run_id}"
    assert following(run_document(shop.ws, run_id)) == f"backfill run {run_id}"


def as_a_number(rows: DataFrame) -> DataFrame:
    return rows.withColumn("amount", F.col("sale_id").cast("long"))


def by_nothing(rows: DataFrame) -> DataFrame:
    return rows.withColumn("amount", (F.lit(1) / (F.col("amount") - F.col("amount"))).cast("long"))


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (as_a_number, "The value is in sale_id of bronze.sales: sale_id="),
        (by_nothing, "Division by zero. Use `try_divide`"),
    ],
)
def test_a_value_that_stops_spark_is_named_with_its_column_and_never_asks_to_run_again_or_to_change_a_setting(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, read: Rows, said: str
) -> None:
    run_id, refused = computed_by(shop, monkeypatch, lambda rows: rows, read=read)
    assert said in refused.message
    assert "spark.sql" not in refused.message
    run = run_document(shop.ws, run_id)
    again = worded(plan_again(run.record.manifest))
    assert advised(refused).startswith(f"backfill report {run_id}; then fix the cause and plan again: {again}; or ")
    assert following(run) == advised(refused)
    with pytest.raises(IllegalTransition, match="because of its code or its rows") as stopped:
        operations.publish(shop.ws, run_id, by="ben")
    assert advised(stopped.value) == advised(refused)
    with shop.ws.ledger.read() as reader:
        assert "sale_id=" not in str(list(reader.events.entries(entity_id=run_id)))


def following(found: RunSummary | SetDocument) -> str:
    assert found.next_step is not None
    return words_of(found.next_step)
