"""A source changes its contract: what was built before is read with the schema of its time, and stays what it is."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DecimalType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
)
from rich.console import Console
from sqlalchemy import text

from backfill_assets.application.plan import described_plan
from backfill_assets.application.propose import propose
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.cli.terminal import show
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.settings import Settings
from backfill_assets.domain import DerivedTable, Domain, Release, TransformContext, lifts
from backfill_assets.ledger.connection import connect_engine
from backfill_assets.planning.manifest_parts import Cause
from backfill_assets.planning.request import PlanRequest
from backfill_assets.report.command_line import explained
from backfill_assets.report.documents import as_json
from backfill_assets.report.html import html_file
from backfill_assets.report.markdown import markdown_page
from backfill_assets.report.page import Page
from backfill_assets.report.planned import plan_page
from backfill_assets.report.report import run_report
from backfill_assets.report.run_report import run_page
from backfill_assets.report.words.verdicts import verdict_words
from backfill_assets.upkeep.audit import audit
from backfill_assets.upkeep.check import check
from backfill_assets.workspace import Workspace
from backfill_assets_tests.conftest import NOON, SPARK_ENVIRONMENT
from backfill_assets_tests.domains.contract import CHANNEL, contract, shop_of
from backfill_assets_tests.domains.contract import transforms as functions
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.contract_store import SALES, START, TOTALS, Store, Values, days_from, sale
from backfill_assets_tests.support.ledgers import home_environment
from backfill_assets_tests.support.shop import ticking_clock


@pytest.fixture
def store(tmp_path: Path, spark: SparkSession) -> Iterator[Store]:
    home = tmp_path / "home"
    settings = Settings.from_environment(
        {
            "BACKFILL_HOME": str(home),
            "BACKFILL_DOMAIN": "backfill_assets_tests.domains.contract",
            "BACKFILL_FIRST_DAY": str(START),
            **home_environment(home),
            **SPARK_ENVIRONMENT,
        }
    )
    (tmp_path / "incoming").mkdir()
    ws = Workspace.open(settings, clock=ticking_clock(NOON), open_session=lambda: spark)
    opened = Store(ws=ws, folder=tmp_path / "incoming")
    yield opened
    opened.ws.close()


def refused(act: Callable[[], object]) -> str:
    """The sentence with which something is refused, and what to do next."""
    with pytest.raises(BackfillError) as error:
        act()
    return explained(error.value)


def agrees(store: Store) -> bool:
    """Whether an audit finds nothing."""
    report = audit(store.ws)
    assert report.problems == ()
    return report.agrees


OF_VERSION: Mapping[int, Callable[[int], Values]] = {
    1: lambda number: {"amount": number},
    2: lambda number: {"amount": number, "channel": "web"},
    3: lambda number: {"net": number, "channel": "web"},
    4: lambda number: {"net": number + 2**40, "channel": "web"},
}


@pytest.mark.long
@pytest.mark.parametrize(("count", "files"), [(3, 1), (90, 3)], ids=["three days", "ninety days"])
def test_a_column_is_added_one_renamed_and_one_widened_with_days_before_each(
    store: Store, count: int, files: int
) -> None:
    """The history of a source over three changes: nothing is rewritten, nothing is stale, everything is reproduced."""
    sources: list[str] = []
    derived: list[str] = []
    for version, of_day in OF_VERSION.items():
        store.becomes(shop_of(version))
        assert store.stale(SALES) == {}
        assert store.stale(TOTALS) in ({}, {Cause.VERSION_CHANGED: 2 * count})
        days = list(days_from(count * (version - 1), count))
        before = store.versions()
        size = count // files
        for part in range(0, count, size):
            sold = [sale(day, **of_day(number)) for number, day in enumerate(days[part : part + size])]
            store.lands(f"{version}-{part}.jsonl", sold)
        sources.append(store.loads())
        derived.append(store.totals(DayRange.inclusive(days[0], days[-1])))
        assert {day: store.versions()[day] for day in before} == before
    rows = store.sold()
    assert len(rows) == 4 * count
    assert set(store.versions().values()) == {1}
    of_file = [*range(count // files)]
    assert [row["net"] for row in rows] == of_file * files * 3 + [number + 2**40 for number in of_file] * files
    assert [row["channel"] for row in rows] == ["shop"] * count + ["web"] * 3 * count
    by_others = store.ws.lake.open(SALES).to_pyarrow_table().sort_by("sold_on").to_pylist()
    assert [row["net"] for row in by_others[2 * count :]] == [row["net"] for row in rows[2 * count :]]
    assert [row["amount"] for row in by_others[: 2 * count]] == [row["net"] for row in rows[: 2 * count]]
    assert all(row["net"] is None for row in by_others[: 2 * count]), "old files hold the earlier name"
    for run_id in (*sources, *derived):
        assert store.is_identical(run_id)
    # The release that reads the present names computes the same over all of it: what is accepted is found equal.
    everything = days_from(0, 4 * count)
    before = store.versions(TOTALS)
    again = store.totals(everything)
    assert store.versions(TOTALS) == before
    assert store.is_identical(again)
    assert store.stale(TOTALS) == {}
    assert agrees(store)


@pytest.mark.long
def test_equal_rows_that_come_again_under_a_later_contract_swap_no_day_and_propose_nothing(store: Store) -> None:
    days = list(days_from(0, 3))
    store.lands("one.jsonl", [sale(day, amount=1) for day in days])
    store.loads()
    store.totals(days_from(0, 3))
    store.becomes(shop_of(2))
    again = store.lands("two.jsonl", [sale(day, amount=1, channel="shop") for day in days])
    assert again.counts.duplicate == 3
    run_id = store.loads()
    assert store.versions() == dict.fromkeys(days, 1)
    assert store.stale(TOTALS) == {}
    assert propose(store.ws, by="propose").proposed == ()
    assert store.is_identical(run_id)
    store.lands("three.jsonl", [sale(days[0], amount=1, channel="web")])
    store.loads()
    assert store.versions() == {days[0]: 2, days[1]: 1, days[2]: 1}
    assert store.stale(TOTALS) == {Cause.INPUT_CHANGED: 1}
    assert agrees(store)


@pytest.mark.long
def test_a_correction_of_an_old_day_is_built_in_the_present_contract_and_rolled_back(store: Store) -> None:
    days = list(days_from(0, 3))
    store.lands("one.jsonl", [sale(day, amount=1) for day in days])
    store.loads()
    published = store.totals(days_from(0, 3))
    store.becomes(shop_of(4))
    # The same content in the new form is a duplicate; another amount replaces the old one.
    record = store.lands("two.jsonl", [sale(days[0], net=1, channel="shop"), sale(days[1], net=5, channel="web")])
    assert (record.counts.duplicate, record.counts.accepted, record.contract) == (1, 1, 4)
    run_id = store.loads((days[1],))
    assert [(row["net"], row["channel"]) for row in store.sold()] == [(1, "shop"), (5, "web"), (1, "shop")]
    assert store.stale(TOTALS) == {Cause.VERSION_CHANGED: 3, Cause.INPUT_CHANGED: 1}
    store.totals(days_from(0, 3))
    assert [row["amount"] for row in store.sold(TOTALS)] == [1, 5, 1]
    assert store.is_identical(run_id)
    assert store.is_identical(published)
    operations.rollback_with_dependents(store.ws, run_id, by="ben", reason="second thoughts")
    assert [row["net"] for row in store.sold()] == [1, 1, 1]
    assert agrees(store)


@pytest.mark.long
def test_files_name_their_version_record_by_record_or_by_their_columns(store: Store) -> None:
    store.becomes(shop_of(4))
    days = list(days_from(0, 12))
    store.lands("first.csv", [sale(days[0], amount=1)])
    store.lands("second.csv", [sale(days[1], amount=2, channel="web")])
    store.lands("third.csv", [sale(days[2], net=3, channel="web", colour="red")])
    mixed = [
        sale(days[3], amount=4, schema_version=1),
        sale(days[4], amount=5, channel="post", schema_version=2),
        sale(days[5], net=6, channel="web", schema_version=4),
        sale(days[6], net=7, channel="web", schema_version=9),
        sale(days[7], net=8, channel="web"),
        sale(days[8], amount="many", schema_version=1),
    ]
    record = store.lands("mixed.jsonl", mixed)
    assert (record.counts.accepted, record.counts.rejected) == (3, 3)
    columns = ["sale_id", "sold_at", "place", "amount", "net", "channel", "schema_version"]
    wide = [dict.fromkeys(columns, "") | {k: str(v) for k, v in each.items()} for each in mixed[:3]]
    again = store.lands("mixed.csv", wide)
    assert again.counts.duplicate == 3
    assert store.rejected() == [
        "amount is not a whole number: 'many'",
        "schema_version is '9', and the contract has versions 1 to 4",
        "schema_version is missing, and the contract has versions 1 to 4",
    ]
    store.loads()
    assert [(row["net"], row["channel"]) for row in store.sold()] == [
        (1, "shop"),
        (2, "web"),
        (3, "web"),
        (4, "shop"),
        (5, "post"),
        (6, "web"),
    ]


@pytest.mark.long
def test_a_file_that_could_be_of_two_versions_is_refused_with_both(store: Store) -> None:
    twice = {1: contract("amount", IntegerType()), 2: contract("amount", LongType()), 3: contract("net", LongType())}
    cents = {2: lifts(lambda record: {"net": record["amount"] * 100})}
    store.becomes(shop_of(3, versions=twice, lift=cents))
    day = next(iter(days_from(0, 1)))
    bare = {name: value for name, value in sale(day).items() if name != "place"}
    for name in ("bare.csv", "bare.jsonl"):
        assert "bare" in (said := refused(lambda name=name: store.lands(name, [bare])))  # type: ignore[misc]
        assert "can be of versions 1 and 2 and 3 of bronze.sales, which would give other rows" in said
        said = refused(lambda name=name: store.lands(f"both-{name}", [sale(day, amount=1, net=2)]))  # type: ignore[misc]
        assert "has the columns of no version of bronze.sales: amount, net, place, sale_id, sold_at" in said
    assert store.lands("old.csv", [sale(day, amount=1)]).counts.accepted == 1
    store.loads()
    assert [row["net"] for row in store.sold()] == [100]


@pytest.mark.long
def test_a_lift_that_changes_values_makes_what_was_built_before_stale(store: Store) -> None:
    versions = {1: contract("amount", IntegerType()), 2: contract("net", IntegerType())}
    days = list(days_from(0, 3))
    store.lands("one.jsonl", [sale(day, amount=1) for day in days])
    bronze = store.loads()
    run_id = store.totals(days_from(0, 3))

    def lifted_by(lift: Any) -> Domain:
        return shop_of(2, versions=versions, lift={1: lift}, release=("2.0.0", functions.of_net))

    store.becomes(lifted_by(lifts(functions.doubled, dropped=("amount",), keeps_values=True)))
    assert store.stale(SALES) == {}
    store.becomes(lifted_by(functions.doubled))
    assert store.stale(SALES) == {Cause.CONFIGURATION_CHANGED: 3}
    assert store.stale(TOTALS)[Cause.CONFIGURATION_CHANGED] == 3
    assert [row["net"] for row in store.sold()] == [2, 2, 2]
    assert store.is_identical(bronze), "it is rebuilt in the version that it was built in"
    assert store.is_identical(run_id), "it reads the version that it read"
    store.loads(tuple(days))
    store.totals(days_from(0, 3))
    assert (store.stale(SALES), store.stale(TOTALS)) == ({}, {})
    assert [row["amount"] for row in store.sold(TOTALS)] == [2, 2, 2]
    assert agrees(store)


@pytest.mark.parametrize(
    ("lift", "sentence"),
    [
        (functions.of_another_type, "gives net as string where int is declared"),
        (functions.of_a_column_that_is_not_there, "computes gross, which is not a column of the later version"),
        (functions.of_the_key, "computes sale_id, which belongs to the key or is the event time"),
        (functions.failing, "its function failed: KeyError: 'nett'"),
    ],
)
def test_a_lift_that_breaks_its_contract_is_refused_before_anything_is_published(
    store: Store, lift: Any, sentence: str
) -> None:
    versions = {1: contract("amount", IntegerType()), 2: contract("net", IntegerType())}
    day = next(iter(days_from(0, 1)))
    store.lands("one.jsonl", [sale(day, amount=1)])
    store.loads()
    store.becomes(shop_of(2, versions=versions, lift={1: lift}))
    assert f"the lift of {SALES} from version 1 to 2 cannot be applied: " in (said := refused(store.sold))
    assert sentence in said
    assert store.versions() == {day: 1}


@pytest.mark.long
def test_a_lift_that_changes_a_setting_of_spark_is_refused(store: Store, spark: SparkSession) -> None:
    versions = {1: contract("amount", IntegerType()), 2: contract("net", IntegerType())}
    store.lands("one.jsonl", [sale(START, amount=1)])
    store.loads()
    own = spark.newSession()

    def sly(record: Mapping[str, Column]) -> Mapping[str, Column]:
        own.conf.set("spark.sql.session.timeZone", "Europe/Rome")
        return {"net": record["amount"]}

    store.ws = replace(store.ws, open_session=lambda: own)
    store.becomes(shop_of(2, versions=versions, lift={1: lifts(sly, dropped=("amount",))}))
    assert "gives rows another meaning: spark.sql.session.timeZone is 'Europe/Rome'" in refused(store.sold)


@pytest.mark.long
def test_a_contract_that_forgets_the_one_before_lands_nothing(store: Store) -> None:
    store.lands("one.jsonl", [sale(START, amount=1)])
    store.loads()
    store.becomes(shop_of(1, versions={1: contract("net", IntegerType())}))
    said = refused(lambda: store.lands("two.jsonl", [sale(START, net=2)]))
    assert "bronze.sales was created with other columns than it declares now" in said
    assert "declare the contract from before in `earlier`, and what becomes of its records in `lift`" in said
    assert "declare the contract from before in `earlier`" in check(store.ws).tables[0].problems[0]
    with store.ws.ledger.read() as tx:
        assert len(tx.imports.records(SALES)) == 1


@pytest.mark.long
def test_a_load_that_was_planned_before_the_contract_changed_is_planned_again(store: Store) -> None:
    store.lands("one.jsonl", [sale(START, amount=1)])
    run = operations.plan_load(store.ws, SALES, partitions=None, by="ana", reason="landed")
    assert run is not None
    store.becomes(shop_of(2))
    said = refused(lambda: operations.stage(store.ws, run.run_id, actor="ana"))
    assert "was planned with version 1 of the contract of bronze.sales, and the domain declares version 2" in said


@pytest.mark.long
def test_an_earlier_version_that_is_not_what_it_was_makes_old_runs_irreproducible_with_the_reason(
    store: Store,
) -> None:
    store.lands("one.jsonl", [sale(START, amount=1)])
    run_id = store.loads()
    could_be_null = StructField("channel", StringType())
    other = {1: contract("amount", IntegerType(), could_be_null), 2: contract("amount", IntegerType(), CHANNEL)}
    store.becomes(shop_of(2, versions=other, lift={1: lifts(lambda _: {})}))
    assert "by a contract that is not one of the 2 versions that the domain declares" in refused(
        lambda: store.is_identical(run_id)
    )


@pytest.mark.long
def test_a_reprocessed_file_is_kept_in_the_present_contract(store: Store) -> None:
    record = store.lands("one.jsonl", [sale(START, amount=1)])
    store.loads()
    store.becomes(shop_of(2))
    again = store.lands("one.jsonl", [sale(START, amount=1)], again=True)
    assert (record.contract, again.contract, again.import_id) == (1, 2, record.import_id)
    store.loads((START,))
    assert [(row["amount"], row["channel"]) for row in store.sold()] == [(1, "shop")]
    assert agrees(store)


@pytest.mark.long
def test_check_names_what_was_built_before_and_what_would_have_to_be_restated(store: Store) -> None:
    store.lands("one.jsonl", [sale(day, amount=1) for day in days_from(0, 3)])
    store.loads()
    store.totals(days_from(0, 3))
    assert check(store.ws).agrees
    versions = {1: contract("amount", IntegerType()), 2: contract("net", IntegerType())}
    store.becomes(shop_of(2, versions=versions, lift={1: functions.doubled}))
    store.lands("two.jsonl", [sale(day, net=1) for day in days_from(3, 1)])
    store.loads()
    (sales, totals), agrees = check(store.ws).tables, check(store.ws).agrees
    assert agrees
    assert [(each.version, len(each.partitions), each.gives_same_rows) for each in sales.built] == [
        (1, 3, False),
        (2, 1, True),
    ]
    assert (str(sales.restate), totals.restate) == ("2025-01-01..2025-01-03, 3 days", None)
    store.becomes(shop_of(2, versions=versions, lift={1: functions.doubled}, release=("3.0.0", functions.of_amount)))
    assert not (report := check(store.ws)).agrees
    assert "the transform totals 3.0.0 of silver.totals failed" in report.tables[1].problems[0]
    assert "amount" in report.tables[1].problems[0]


@pytest.mark.long
def test_rows_that_a_declared_reader_cannot_read_are_blocked_by_the_schema_gate(store: Store) -> None:
    store.lands("one.jsonl", [sale(START, amount=1)])
    store.loads()
    store.becomes(shop_of(3, release=("1.0.0", functions.of_amount)))
    store.lands("two.jsonl", [sale(START + timedelta(days=1), net=1, channel="web")])
    run = operations.plan_load(store.ws, SALES, partitions=None, by="ana", reason="landed")
    assert run is not None
    operations.stage(store.ws, run.run_id, actor="ana")
    evaluated = operations.gate(store.ws, run.run_id, actor="ana")
    failed = [result for result in evaluated.results if not result.passed]
    assert [result.gate for result in failed] == ["schema"]
    assert "silver.totals could not read it: the transform totals 1.0.0 of silver.totals failed" in verdict_words(
        failed[0]
    )
    assert store.versions() == {START: 1}
    # Once the reader reads the present column, the same run passes.
    store.becomes(shop_of(3))
    operations.stage(store.ws, run.run_id, actor="ana")
    assert operations.gate(store.ws, run.run_id, actor="ana").passed


def wider_release(totals: DerivedTable, column: str, value: int | str, of: str) -> Release:
    """The next release of totals: the only one before it, and a column that is the same in every row."""
    (release,) = totals.releases

    def wider(sales: DataFrame, ctx: TransformContext) -> DataFrame:
        return release.function(sales, ctx).select("*", sf.lit(value).cast(of).alias(column))

    return Release(version="1.1.0", function=wider)


@pytest.mark.long
def test_a_derived_table_takes_one_column_more_and_its_old_partitions_are_named(store: Store) -> None:
    store.lands("one.jsonl", [sale(day, amount=1) for day in days_from(0, 3)])
    store.loads()
    run_id = store.totals(days_from(0, 3))
    domain = shop_of(1)
    (totals,) = domain.derived
    wider = StructType([*totals.schema.fields, StructField("sales", LongType())])
    both = (wider_release(totals, "sales", 1, "long"),)
    store.becomes(replace(domain, derived=(replace(totals, schema=wider, releases=both),)))
    report = check(store.ws)
    assert report.agrees
    assert [(each.column, len(each.partitions)) for each in report.tables[1].lacked] == [("sales", 3)]
    store.totals(days_from(1, 1))
    assert [row["sales"] for row in store.sold(TOTALS)] == [None, 1, None]
    assert [row["sales"] for row in sorted_rows(store, TOTALS)] == [None, 1, None]
    assert store.stale(TOTALS)[Cause.VERSION_CHANGED] == 2
    assert "no transform version '1.0.0'" in refused(lambda: store.is_identical(run_id))
    narrower = StructType([totals.schema["day"], StructField("sales", LongType())])
    store.becomes(replace(domain, derived=(replace(totals, schema=narrower, releases=both, gates=()),)))
    (_, checked) = check(store.ws).tables
    assert "amount is not declared" in checked.problems[0]
    assert "else it needs a new name" in checked.problems[0]
    assert agrees(store)


def sorted_rows(store: Store, table: str) -> list[dict[str, Any]]:
    """What other readers see."""
    rows: list[dict[str, Any]] = store.ws.lake.open(table).to_pyarrow_table().sort_by("day").to_pylist()
    return rows


@pytest.mark.long
def test_an_edited_contract_version_of_a_landed_file_is_found(store: Store) -> None:
    store.becomes(shop_of(2))
    store.lands("one.jsonl", [sale(START, amount=1)])
    engine = connect_engine(store.ws.settings.ledger_url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE imports SET contract = 1"))
    engine.dispose()
    problems = audit(store.ws).problems
    assert any("imp-000001" in problem and "edited" in problem for problem in problems)


@pytest.mark.long
def test_nested_values_bytes_and_local_times_are_published_and_change_with_their_contract(store: Store) -> None:
    number = StructField("no", IntegerType(), nullable=False, metadata={"comment": "Counted from 1."})
    line = StructType([number, StructField("price", DecimalType(10, 2))])
    strict = [
        StructField("lines", ArrayType(line, containsNull=False)),
        StructField("seal", BinaryType()),
        StructField("at_till", TimestampNTZType()),
    ]
    loose = [StructField("lines", ArrayType(line, containsNull=True)), *strict[1:], StructField("till", StringType())]
    versions = {
        number: contract("amount", IntegerType(), *more) for number, more in enumerate([strict, loose], start=1)
    }
    first, second, third = days_from(0, 3)
    values = {"lines": [{"no": 1, "price": "2.50"}], "seal": "aGk=", "at_till": "2025-01-01T12:00"}
    store.becomes(shop_of(1, versions=versions, lift={}))
    store.lands("a.jsonl", [sale(first, amount=1, **values), sale(second, amount=2, lines=[None])])
    runs = [store.loads()]
    store.becomes(shop_of(2, versions=versions, lift={}))
    store.lands("b.jsonl", [sale(second, amount=2, lines=[None], till="x"), sale(third, amount=3, **values)])
    runs.append(store.loads())
    assert store.stale(SALES) == {}
    rows = store.sold()
    assert [row["lines"] for row in rows] == [[(1, Decimal("2.50"))], [None], [(1, Decimal("2.50"))]]
    assert [(row["seal"], row["till"]) for row in rows] == [(b"hi", None), (None, "x"), (b"hi", None)]
    assert rows[0]["at_till"] == datetime(2025, 1, 1, 12)  # noqa: DTZ001
    assert store.rejected() == ["lines does not fit array<struct<no:int,price:decimal(10,2)>>: '[null]'"]
    assert agrees(store)
    assert all(store.is_identical(run_id) for run_id in runs)


def columns_of(page: Page) -> str:
    """What a page says of columns, on a terminal, as HTML and as Markdown alike; empty where it says nothing."""
    terminal = io.StringIO()
    show(Console(file=terminal, width=200), page)
    written = html_file(page)
    found = {
        " ".join(re.findall(r"^ *[Cc]olumns  +(.*?) *$", terminal.getvalue(), re.MULTILINE)),
        " ".join(re.findall(r"<dt>[Cc]olumns</dt><dd>(.*?)</dd>", written)),
        " ".join(re.findall(r"^- \*\*[Cc]olumns\*\* (.*)$", markdown_page(page), re.MULTILINE)).replace("\\", ""),
    }
    assert len(found) == 1, found
    return found.pop()


def reported(store: Store, run_id: str) -> str:
    """What the report of a run says of columns; its JSON has the same ones."""
    report = run_report(store.ws, run_id)
    said = columns_of(run_page(report))
    assert [each["column"] in said for each in as_json(report)["columns"]] == [True] * len(report.run.manifest.columns)
    assert bool(said) is bool(report.run.manifest.columns)
    return said


@pytest.mark.long
def test_a_plan_and_every_report_name_a_column_that_a_release_adds_and_a_rollback_leaves(store: Store) -> None:
    store.lands("one.jsonl", [sale(day, amount=1) for day in days_from(0, 3)])
    store.loads()
    first = store.totals(days_from(0, 3))
    assert reported(store, first) == ""
    domain = shop_of(1)
    (totals,) = domain.derived
    wider = StructType([*totals.schema.fields, StructField("risk", StringType())])
    both = (wider_release(totals, "risk", "low", "string"),)
    store.becomes(replace(domain, derived=(replace(totals, schema=wider, releases=both),)))
    request = PlanRequest(table=TOTALS, days=days_from(0, 2), reason="a risk", by="ana")
    plan = described_plan(store.ws, operations.plan(store.ws, request))
    run_id, said = plan.plan.manifest.run_id, "adds risk (string)"
    assert columns_of(plan_page(plan)) == said
    risk = [{"column": "risk", "was": None, "becomes": "string", "loosens": False}]
    assert as_json(plan)["columns"] == risk
    assert reported(store, run_id) == said
    operations.approve(store.ws, run_id, by="ben")
    operations.stage(store.ws, run_id, actor="ana")
    assert operations.gate(store.ws, run_id, actor="ana").passed
    assert reported(store, run_id) == said
    operations.publish(store.ws, run_id, by="ben")
    assert reported(store, run_id) == said
    assert as_json(run_report(store.ws, run_id))["columns"] == risk
    assert reported(store, store.planned(days_from(2, 1))) == "", "readers have the column now"
    assert "columns" not in run_report(store.ws, first).manifest, "manifests without a change are as before"
    operations.rollback_with_dependents(store.ws, run_id, by="ben", reason="second thoughts")
    left = "the rollback left the columns so, with null for risk in the earlier rows"
    assert reported(store, run_id) == f"{said}; {left}"
    assert [row["risk"] for row in sorted_rows(store, TOTALS)] == [None] * 3


@pytest.mark.long
def test_the_report_of_a_load_names_columns_that_a_contract_adds_drops_and_widens_once(store: Store) -> None:
    store.lands("one.jsonl", [sale(day, amount=1) for day in days_from(0, 2)])
    assert reported(store, store.loads()) == ""
    store.becomes(shop_of(3))
    store.lands("two.jsonl", [sale(day, net=2, channel="web") for day in days_from(1, 2)])
    run = operations.plan_load(store.ws, SALES, partitions=None, by="ana", reason="landed")
    assert run is not None
    said = "adds net (int), channel (string); no longer has amount"
    assert reported(store, run.run_id) == said
    operations.stage(store.ws, run.run_id, actor="ana")
    assert operations.gate(store.ws, run.run_id, actor="ana").passed
    assert reported(store, run.run_id) == said
    operations.publish(store.ws, run.run_id, by="ben")
    assert reported(store, run.run_id) == said
    store.lands("three.jsonl", [sale(START, net=3, channel="web")])
    assert reported(store, store.loads()) == "", "the table keeps amount, which its latest rows did not have either"
    store.becomes(shop_of(4))
    store.lands("four.jsonl", [sale(START + timedelta(days=3), net=2**40, channel="web")])
    assert reported(store, store.loads()) == "net was int and is bigint"
