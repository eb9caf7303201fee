"""Values that name their schema, captured from a real broker by a real registry: each lands as it was written."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import DecimalType, LongType, StringType, StructField, StructType, TimestampType

from backfill_assets.capture.errors import StreamFailed
from backfill_assets.domain import KafkaTopic, SchemaRegistry, SourceTable, lifts
from backfill_assets.ledger.captures import CapturedFile
from backfill_assets_tests.support.captured_shop import SALES, CapturedShop, at_noon
from backfill_assets_tests.support.kafka_broker import Broker
from backfill_assets_tests.support.schema_registry import NoRegistry, Registry, running_registry
from backfill_assets_tests.support.wire_format import avro, message, of_schema, protobuf

DAY = date(2026, 1, 1)
_ID, _AT = StructField("sale_id", StringType(), nullable=False), StructField("sold_at", TimestampType(), nullable=False)
_OP, _OFFSET = StructField("op", StringType(), nullable=False), StructField("kafka_offset", LongType(), nullable=False)
FIRST = StructType([_ID, _AT, StructField("price", DecimalType(12, 2)), _OP, _OFFSET])
SECOND = StructType(
    [_ID, _AT, StructField("amount", DecimalType(12, 2)), StructField("channel", StringType()), _OP, _OFFSET]
)

MICROS = {"type": "long", "logicalType": "timestamp-micros"}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}


def avro_schema(*fields: tuple[str, Any]) -> str:
    found = [{"name": name, "type": kind} for name, kind in fields]
    return json.dumps({"type": "record", "name": "shop.Sale", "fields": found})


AVRO_1 = avro_schema(("sale_id", "string"), ("sold_at", MICROS), ("price", ["null", DECIMAL]), ("op", "string"))
AVRO_2 = avro_schema(
    ("sale_id", "string"), ("sold_at", MICROS), ("amount", DECIMAL), ("channel", ["null", "string"]), ("op", "string")
)
AMOUNT = 'syntax = "proto3"; package shop; message Amount { string value = 1; }'
PROTO = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "shop/amount.proto";
message Sale {
  string sale_id = 1;
  google.protobuf.Timestamp sold_at = 2;
  string amount = 3;
  optional string channel = 4;
  string op = 5;
  shop.Amount exactly = 6;
}
"""
JSON = json.dumps({"type": "object", "properties": {"sale_id": {"type": "string"}}})
KEY = '"string"'


@pytest.fixture
def registry() -> Iterator[Registry]:
    try:
        with running_registry() as started:
            yield started
    except NoRegistry as reason:
        pytest.skip(f"CAPTURES BY A SCHEMA REGISTRY ARE NOT TESTED: {reason}")


@dataclass(frozen=True, kw_only=True)
class SchemaShop(CapturedShop):
    """A shop whose sales name their schema."""

    versions: dict[int, int] = field(default_factory=dict)
    url: str

    def source(self) -> SourceTable:
        source = super().source()
        assert isinstance(source.capture, KafkaTopic)
        return replace(
            source,
            schema=SECOND,
            earlier={1: FIRST},
            lift={1: lifts(renamed={"price": "amount"})},
            capture=replace(
                source.capture,
                values=SchemaRegistry(url=self.url, versions=self.versions),
                key_format="schema",
            ),
        )


@pytest.mark.long
def test_values_land_as_they_were_written_and_without_the_registry(
    broker: Broker, spark: SparkSession, tmp_path: Path, registry: Registry
) -> None:
    first = registry.register("sales-value-1", "AVRO", AVRO_1)
    second = registry.register("sales-value-2", "AVRO", AVRO_2)
    registry.register("amount", "PROTOBUF", AMOUNT)
    reference = {"name": "shop/amount.proto", "subject": "amount", "version": 1}
    third = registry.register("sales-value-3", "PROTOBUF", PROTO, [reference])
    fourth = registry.register("sales-value-4", "JSON", JSON)
    key = registry.register("sales-key", "AVRO", KEY)
    shop = SchemaShop(
        home=tmp_path / "home",
        broker=broker,
        topic="sales-of-schemas",
        spark=spark,
        url=registry.url,
        versions={first: 1, second: 2, third: 2, fourth: 2},
    )
    broker.create(shop.topic)
    noon = datetime(2026, 1, 1, 12, 0, 0, 123_456, tzinfo=UTC)
    sold = message({1: int(noon.timestamp()), 2: 123_456_000})
    as_json = f'{{"sale_id": "s4", "sold_at": "{noon.isoformat()}", "amount": 0.10, "op": "u"}}'
    records: list[tuple[str, bytes | None]] = [
        ("s1", avro(first, AVRO_1, {"sale_id": "s1", "sold_at": noon, "price": Decimal("-0.01"), "op": "u"})),
        ("s1b", avro(first, AVRO_1, {"sale_id": "s1b", "sold_at": noon, "price": None, "op": "u"})),
        (
            "s2",
            avro(
                second,
                AVRO_2,
                {"sale_id": "s2", "sold_at": noon, "amount": Decimal("9999999999.99"), "channel": "web", "op": "u"},
            ),
        ),
        ("s3", protobuf(third, message({1: "s3", 2: sold, 3: "1.25", 5: "u", 6: message({1: "1.25"})}))),
        ("s4", of_schema(fourth, as_json.encode())),
        ("s5", of_schema(99_999, b"\x02")),
        ("s6", of_schema(second, b"\x02")),
        ("s7", b'{"sale_id": "s7"}'),
        ("s2", None),
    ]
    producer = broker.producer()
    for name, value in records:
        producer.produce(shop.topic, value=value, key=avro(key, KEY, name), timestamp=at_noon(DAY))
    assert producer.flush(30) == 0

    report = shop.capture(builds=True)
    assert report.landed is not None
    (landed,) = report.landed.imports
    assert (landed.record.counts.landed, landed.record.counts.rejected) == (9, 3)
    rows = {row["sale_id"]: row for row in shop.rows() if row["_ended_by"] is None}
    held = {name: (row["_operation"], row["amount"], row["channel"]) for name, row in rows.items()}
    assert held == {
        "s1": ("update", Decimal("-0.01"), None),
        "s1b": ("update", None, None),
        "s2": ("delete", None, None),
        "s3": ("update", Decimal("1.25"), None),
        "s4": ("update", Decimal("0.10"), None),
    }
    assert {rows[name]["sold_at"] for name in ("s1", "s3", "s4")} == {noon}
    assert sorted(reasons(shop)) == [
        "it does not begin with a zero and the id of a schema",
        f"it is not what schema {second} says: EOFError",
        "schema 99999 is not in the registry",
    ]

    files = files_of(shop)
    kept = next(each for each in files if each.format == "answer")
    content = gzip.decompress((shop.home / "landing" / kept.stored_path).read_bytes())
    schemas = {each["id"]: each for each in map(json.loads, content.splitlines())}
    assert set(schemas) == {first, second, third, fourth, key}
    assert schemas[third]["references"]["shop/amount.proto"]["text"].split() == AMOUNT.split()
    assert {first, key} <= set(schemas)

    # The registry is gone. What was captured lands without it; what is new waits until it answers again.
    registry.stop()
    producer.produce(shop.topic, value=records[0][1], key=avro(key, KEY, "s1"), timestamp=at_noon(DAY))
    assert producer.flush(30) == 0
    with pytest.raises(StreamFailed, match="the registry http"):
        shop.capture(first=None)
    assert files_of(shop) == files


def files_of(shop: CapturedShop) -> tuple[CapturedFile, ...]:
    return shop.files()


def reasons(shop: CapturedShop) -> list[str]:
    """Why records were rejected."""
    ws = shop.open()
    try:
        table = ws.lake.open(SALES.replace("bronze.", "quarantine.")).to_pyarrow_table().to_pylist()
        return [row["reason"] for row in table]
    finally:
        ws.close()
