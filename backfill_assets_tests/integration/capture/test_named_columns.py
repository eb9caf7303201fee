"""What is captured lands under the names of its contract, also where its event time is a date: changes and deletes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from backfill_assets.domain import POSTGRES_COLUMNS, Epoch, HttpApi, LakeTable, SourceTable
from backfill_assets.domain.source_files import FileName
from backfill_assets_tests.domains import captured_lake, database
from backfill_assets_tests.support.api_server import LAST, Api, ApiShop
from backfill_assets_tests.support.captured_shop import FIRST, CapturedShop, StreamShop, at_noon
from backfill_assets_tests.support.database_shop import NEW, TABLE, DatabaseShop
from backfill_assets_tests.support.kafka_broker import Broker
from backfill_assets_tests.support.postgres_server import NoPostgres
from backfill_assets_tests.support.source_database import PASSWORD, SourceDatabase, running_source

pytestmark = pytest.mark.long
DAYS = [FIRST + timedelta(days=number) for number in range(4)]


def renamed(
    source: SourceTable, names: Mapping[FileName, str], columns: Sequence[tuple[str, T.DataType]], **declared: Any
) -> SourceTable:
    """A source whose key and event time are its first two columns, and the other columns of its stream behind them."""
    own = [T.StructField(name, kind, nullable=False) for name, kind in columns]
    usual = {"sale_id", "sold_at", "amount", "paid", "note", "seal"}
    rest = [field for field in source.schema if field.name not in usual]
    of: dict[str, Any] = {"key": (columns[0][0],), "event_time": columns[1][0], "schema": T.StructType([*own, *rest])}
    return replace(source, **of, columns=names, gates=(), replay=None, **declared)


def current(shop: StreamShop, *names: str) -> list[tuple[Any, ...]]:
    """What bronze says exists now."""
    return sorted(
        tuple(row[name] for name in names)
        for row in shop.rows()
        if row.get("_operation") != "delete" and row.get("_ended_by") is None
    )


# -------------------------------------------------------------------------------------------------------------- Kafka


@dataclass(frozen=True, kw_only=True)
class NamedTopic(CapturedShop):
    """A shop over a topic whose members have other names, and dates for times."""

    forms: Mapping[str, Any]

    def source(self) -> SourceTable:
        columns = [("number", T.StringType()), ("on", T.DateType()), ("amount", T.LongType())]
        names: Mapping[FileName, str] = {"sale id": "number", "when.day": "on", "op": "op"}
        source = super().source()
        return renamed(source, names, columns, formats=self.forms)


@pytest.mark.parametrize(
    ("forms", "text"),
    [({}, "{:%Y-%m-%d}"), ({"on": "d.M.yyyy"}, "{0.day}.{0.month}.{0.year}"), ({"on": Epoch("d")}, "")],
    ids=["ISO", "form", "epoch"],
)
def test_records_of_a_topic_and_its_deletes_have_the_names_and_the_form_that_are_declared(
    broker: Broker, spark: SparkSession, tmp_path: Path, forms: Mapping[str, Any], text: str
) -> None:
    def value(number: int, day: date, amount: int) -> tuple[str, str, int]:
        said = text.format(day) if text else (day - date(1970, 1, 1)).days
        record = {"sale id": f"s{number}", "when": {"day": said, "zone": "none"}, "amount": amount, "op": "u"}
        return f"s{number}", json.dumps(record), at_noon(day) + number

    topic = f"named-{'epoch' if not text else len(forms)}"
    broker.create(topic)
    shop = NamedTopic(home=tmp_path / "home", broker=broker, topic=topic, spark=spark, forms=forms)
    broker.write(topic, [value(number, DAYS[number % 4], 10) for number in range(8)])
    assert shop.capture(builds=True).captured == 8
    broker.write(topic, [value(1, DAYS[1], 99), ("s2", None, at_noon(DAYS[3]))])
    report = shop.capture(builds=True)
    assert report.landed is not None
    assert current(shop, "number", "sold_on", "amount") == [
        (f"s{number}", DAYS[number % 4], 99 if number == 1 else 10) for number in range(8) if number != 2
    ]
    assert {row["number"] for row in shop.rows() if row["_operation"] == "delete"} == {"s2"}


# --------------------------------------------------------------------------------------------------------- lake tables


@dataclass(frozen=True, kw_only=True)
class NamedTable(StreamShop):
    """A shop over a Delta table with other names, a date, and an object."""

    table: Path

    def source(self) -> SourceTable:
        names: Mapping[FileName, str] = {"saleId": "number", "Sold": "on", "info.amount": "amount"}
        columns = [("number", T.StringType()), ("on", T.DateType()), ("amount", T.LongType())]
        operation = captured_lake.with_changes.operation
        assert operation is not None
        capture = LakeTable(url=str(self.table), chunk=100)
        return renamed(
            captured_lake.with_changes, names, columns, capture=capture, operation=replace(operation, at=None)
        )


def test_rows_of_a_lake_table_and_its_changes_have_the_names_that_are_declared(
    spark: SparkSession, tmp_path: Path
) -> None:
    shop = NamedTable(home=tmp_path / "home", table=tmp_path / "table", spark=spark)

    def write(numbers: Sequence[int]) -> None:
        rows = {
            "saleId": [f"s{number}" for number in numbers],
            "Sold": pa.array([DAYS[number % 4] for number in numbers], pa.date32()),
            "info": [{"amount": number, "more": "x"} for number in numbers],
        }
        configuration = {"delta.enableChangeDataFeed": "true"}
        write_deltalake(str(shop.table), pa.table(rows), mode="append", configuration=configuration)

    write(range(8))
    assert shop.capture(None, builds=True).captured == 8
    write([8, 9])
    DeltaTable(str(shop.table)).delete("saleId = 's3'")
    shop.capture(None, builds=True)
    assert current(shop, "number", "sold_on", "amount") == sorted(
        (f"s{number}", DAYS[number % 4], number) for number in range(10) if number != 3
    )


# ---------------------------------------------------------------------------------------------------------------- APIs


@dataclass(frozen=True, kw_only=True)
class NamedApi(ApiShop):
    """A shop over an API whose records are features."""

    def source(self) -> SourceTable:
        names: Mapping[FileName, str] = {"id": "number", "properties.time": "at", "properties.amount": "amount"}
        columns = [("number", T.StringType()), ("at", T.TimestampType()), ("amount", T.LongType())]
        source = super().source()
        assert isinstance(source.capture, HttpApi) and source.capture.window is not None
        window = replace(source.capture.window, of="properties.time")
        return renamed(replace(source, capture=replace(source.capture, window=window)), names, columns)


def test_records_of_an_api_have_members_of_members_as_their_time(
    api: Api, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = Api.answer

    def as_features(self: Api, path: str, parameters: dict[str, str]) -> Any:
        status, headers, body = answer(self, path, parameters)
        document = json.loads(body)
        document["data"]["items"] = [
            {"id": each["sale_id"], "properties": {"time": each["sold_at"], "amount": each["amount"], "url": None}}
            for each in document["data"]["items"]
        ]
        return status, headers, json.dumps(document).encode()

    monkeypatch.setattr(Api, "answer", as_features)
    api.sell(24, days=4)
    shop = NamedApi(home=tmp_path / "home", spark=spark, api=api)
    report = shop.capture(FIRST, LAST, builds=True)
    assert report.captured == 24
    expected = sorted((sale_id, sale["amount"]) for sale_id, sale in api.sales.items())
    assert current(shop, "number", "amount") == expected
    # What the API has no more is withdrawn by the days of the members of members.
    gone = api.sales.pop(expected[0][0])
    api.sales[expected[1][0]]["amount"] = 77
    assert gone is not None
    shop.capture(FIRST, LAST, builds=True, is_whole=True, confirmed_by="ben")
    assert dict(current(shop, "number", "amount")) == {**dict(expected[1:]), expected[1][0]: 77}


# ---------------------------------------------------------------------------------------------------------- PostgreSQL


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[SourceDatabase]:
    monkeypatch.setenv("TEST_SHOP_PASSWORD", PASSWORD)
    try:
        with running_source() as started:
            yield started
    except NoPostgres as reason:
        pytest.skip(f"CAPTURES FROM POSTGRESQL ARE NOT TESTED: {reason}")


@dataclass(frozen=True, kw_only=True)
class NamedDatabase(DatabaseShop):
    """A shop over a table with other names."""

    def source(self) -> SourceTable:
        names: Mapping[FileName, str] = {"sale_id": "number", "sold_at": "at", "note": "remark"}
        own = {field.name: field for field in database.SALES}
        schema = T.StructType(
            [
                T.StructField("number", own["sale_id"].dataType, nullable=False),
                T.StructField("at", own["sold_at"].dataType, nullable=False),
                own["amount"],
                T.StructField("remark", T.StringType()),
                *POSTGRES_COLUMNS,
            ]
        )
        return replace(super().source(), key=("number",), event_time="at", schema=schema, columns=names, gates=())


def test_rows_of_a_table_of_postgresql_and_its_changes_have_the_names_that_are_declared(
    server: SourceDatabase, spark: SparkSession, tmp_path: Path
) -> None:
    shop = NamedDatabase(home=tmp_path / "home", server=server, database=server.create_database(), spark=spark)
    shop.run(TABLE, f"{NEW} FROM generate_series(1, 8) i")
    shop.capture(whole=True, builds=True)
    shop.run(
        "UPDATE sales SET note = 'late' WHERE sale_id = 1",
        "DELETE FROM sales WHERE sale_id = 2",
        "UPDATE sales SET sale_id = 100 WHERE sale_id = 3",
    )
    shop.capture(builds=True)
    with shop.connect() as connection:
        selected = connection.execute(b"SELECT sale_id, sold_at, amount, note FROM sales").fetchall()
    found = [(*row[:1], row[1].astimezone(UTC), *row[2:]) for row in current(shop, "number", "at", "amount", "remark")]
    assert found == sorted((*row[:1], row[1].astimezone(UTC), *row[2:]) for row in selected)
    assert all(isinstance(row[1], datetime) for row in found)
