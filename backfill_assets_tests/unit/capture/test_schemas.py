"""Values that name their schema: each is exactly what was written, and what cannot be read says why."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.capture.errors import StreamDenied, StreamFailed
from backfill_assets.capture.schemas.declaration import BrokenValue, SchemaFolder, SchemaRegistry
from backfill_assets.capture.schemas.registry import ValueReader, value_reader
from backfill_assets.core.errors import InvalidDeclaration
from backfill_assets.core.spark_server import free_port
from backfill_assets.domain import KafkaTopic
from backfill_assets_tests.domains import captured
from backfill_assets_tests.support.schema_registry import Double, running_double
from backfill_assets_tests.support.wire_format import avro, message, of_schema, protobuf

TOPIC = KafkaTopic(topic="sales", servers="broker-1:9092")


@pytest.fixture
def registry() -> Iterator[Double]:
    with running_double() as double:
        yield double


def folder_of(path: Path, **files: str) -> ValueReader:
    """What reads by the schemas of a folder, such as `_7_avsc`."""
    for name, text in files.items():
        (path / name.strip("_").replace("_", ".")).write_text(text)
    return value_reader(SchemaFolder(path=path), {})


def members(reader: ValueReader, value: bytes) -> Any:
    """A value with its numbers as texts of their digits."""
    text = b"{%b}" % reader.read(value).members
    return json.loads(text, parse_float=str, parse_int=str)


def record(**fields: Any) -> str:
    return json.dumps(
        {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}
    )


def of(kind: str, logical: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical, **more}


# ----------------------------------------------------------------------------------------------------------------- Avro


@pytest.mark.parametrize(
    ("kind", "written", "found"),
    [
        ("long", 2**63 - 1, str(2**63 - 1)),
        ("double", 0.1, "0.1"),
        ("double", float("nan"), "NaN"),
        ("double", float("-inf"), "-Infinity"),
        ("float", 0.1, "0.10000000149011612"),
        ("boolean", True, True),
        ("string", 'a "text"\n\u2028 of é', 'a "text"\n\u2028 of é'),
        ("bytes", b"\x00\xff\x10", "AP8Q"),
        ({"type": "enum", "name": "E", "symbols": ["NEW", "OLD"]}, "OLD", "OLD"),
        ({"type": "fixed", "name": "F", "size": 2}, b"\x01\x02", "AQI="),
        ({"type": "array", "items": ["null", "int"]}, [1, None], ["1", None]),
        ({"type": "map", "values": "bytes"}, {"a": b"\xff"}, {"a": "/w=="}),
        (["null", "long", "string"], None, None),
        (["null", "long", "string"], "7", "7"),
        (["null", "long", "string"], 7, "7"),
        (of("string", "uuid"), "00000000-0000-0000-0000-00000000000a", "00000000-0000-0000-0000-00000000000a"),
        ({"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}, 1, "1970-01-01T00:00:00.000001"),
        ({"type": "int", "connect.name": "io.debezium.time.Date"}, -1, "1969-12-31"),
    ],
)
def test_a_value_of_avro_is_what_was_written(tmp_path: Path, kind: Any, written: Any, found: Any) -> None:
    schema = record(v=kind)
    reader = folder_of(tmp_path, _7_avsc=schema)
    assert members(reader, avro(7, schema, {"v": written})) == {"v": found}


@pytest.mark.parametrize(
    ("kind", "plain", "written", "found"),
    [
        (of("long", "timestamp-millis"), "long", 1_782_894_600_123, "2026-07-01T08:30:00.123Z"),
        (of("long", "timestamp-micros"), "long", -1, "1969-12-31T23:59:59.999999Z"),
        (of("long", "timestamp-nanos"), "long", 1_782_894_600_123_456_789, "2026-07-01T08:30:00.123456789Z"),
        (of("long", "local-timestamp-millis"), "long", 0, "1970-01-01T00:00:00.000"),
        (of("long", "local-timestamp-micros"), "long", 253_402_300_799_999_999, "9999-12-31T23:59:59.999999"),
        (of("int", "date"), "int", -719_162, "0001-01-01"),
        (of("int", "time-millis"), "int", 30_600_001, "08:30:00.001"),
        (of("long", "time-micros"), "long", 86_399_999_999, "23:59:59.999999"),
        # More digits than its schema says: they are the ones that were written.
        (of("bytes", "decimal", precision=4, scale=2), "bytes", (1_234_567).to_bytes(3, "big"), "12345.67"),
        (of("bytes", "decimal", precision=38, scale=0), "bytes", (10**38 - 1).to_bytes(16, "big"), "9" * 38),
        (of("bytes", "decimal", precision=4, scale=2), "bytes", b"\xff", "-0.01"),
        (["null", of("bytes", "decimal", precision=9, scale=3)], ["null", "bytes"], b"\x00", "0.000"),
    ],
)
def test_logical_types_keep_their_unit_and_their_digits(
    tmp_path: Path, kind: Any, plain: Any, written: Any, found: str
) -> None:
    reader = folder_of(tmp_path, _7_avsc=record(v=kind))
    # Written as the number or the bytes that it is on the wire, so that it is not rounded before.
    assert members(reader, avro(7, record(v=plain), {"v": written})) == {"v": found}


def test_a_time_that_no_text_of_four_digits_has_is_no_other_time(tmp_path: Path) -> None:
    reader = folder_of(tmp_path, _7_avsc=record(v=of("long", "timestamp-micros")))
    with pytest.raises(BrokenValue, match="not of the years 1 to 9999"):
        reader.read(avro(7, record(v="long"), {"v": 2**62}))


# ------------------------------------------------------------------------------------------------------------- Protobuf

PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
enum State { NEW = 0; OLD = 1; }
message Other { string name = 1; message Inner { int32 n = 1; } }
message Sale {
  int64 id = 1;
  optional string note = 2;
  bytes seal = 3;
  State state = 4;
  google.protobuf.Timestamp sold_at = 5;
  repeated int32 parts = 6;
  map<string, int64> counts = 7;
  oneof how { string card = 8; bool cash = 9; }
  google.protobuf.Int64Value paid = 10;
  Other other = 11;
  double price = 12;
  float rate = 13;
}
"""


def test_a_message_of_protobuf_is_what_was_written(tmp_path: Path) -> None:
    reader = folder_of(tmp_path, _8_proto=PROTO)
    written = message(
        {
            1: -5,
            3: b"\x00\xff",
            4: 1,
            5: message({1: 1_782_894_600, 2: 123_456_789}),
            6: [b"\x01\x02"],
            7: [message({1: "b", 2: 2**63 - 1}), message({1: "a", 2: 1})],
            9: 1,
            10: message({1: 7}),
            11: message({1: "x"}),
        }
    )
    written += bytes([12 << 3 | 1]) + struct.pack("<d", 0.1) + bytes([13 << 3 | 5]) + struct.pack("<f", 0.1)
    assert members(reader, protobuf(8, written, (1,))) == {
        "id": "-5",
        "note": None,
        "seal": "AP8=",
        "state": "OLD",
        "sold_at": "2026-07-01T08:30:00.123456789Z",
        "parts": ["1", "2"],
        "counts": {"a": "1", "b": str(2**63 - 1)},
        "card": None,
        "cash": True,
        "paid": "7",
        "other": {"name": "x"},
        "price": "0.1",
        "rate": "0.10000000149011612",
    }
    # What was not written is its default, or null where the message can tell.
    assert members(reader, protobuf(8, b"", (1,)))["state"] == "NEW"
    assert members(reader, protobuf(8, message({1: "y"}))) == {"name": "y"}
    assert members(reader, protobuf(8, message({1: 3}), (0, 0))) == {"n": "3"}


# ---------------------------------------------------------------------------------------------------- what is refused


def test_a_value_of_avro_that_is_too_deep_breaks_its_record_alone(tmp_path: Path) -> None:
    reader = folder_of(tmp_path, _7_avsc=record(inner=["null", "R"]))
    assert members(reader, of_schema(7, b"\x02" * 2 + b"\x00")) == {"inner": {"inner": {"inner": None}}}
    with pytest.raises(BrokenValue, match="the value is deeper than it can be read"):
        reader.read(of_schema(7, b"\x02" * 700 + b"\x00"))


def test_a_text_of_protobuf_that_is_no_utf8_breaks_its_record_alone(tmp_path: Path) -> None:
    schema = 'syntax = "proto2"; message M { optional string a = 1; repeated string b = 2; map<string, string> c = 3; }'
    reader = folder_of(tmp_path, _8_proto=schema)
    for number, written in ((1, b"\xff"), (2, b"\xff"), (3, message({1: "k", 2: b"\xff"}))):
        with pytest.raises(BrokenValue, match="it is not what schema 8 says: a text is not UTF-8"):
            reader.read(protobuf(8, message({number: written})))
    assert members(reader, protobuf(8, message({1: "é"})))["a"] == "é"


def test_json_is_as_it_was_written(tmp_path: Path) -> None:
    reader = folder_of(tmp_path, _9_json="{}")
    assert reader.read(of_schema(9, b'{"amount": 1.50}')).members == b'"amount": 1.50'


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"", "it does not begin with a zero"),
        (b'{"sale_id": 1}', "it does not begin with a zero"),
        (b"\0\0\0\0", "it does not begin with a zero"),
        (of_schema(70, b""), "schema 70 is not in the folder of schemas"),
        (of_schema(7, b""), "it is not what schema 7 says"),
        (of_schema(7, b"\x02\x02"), "it is longer than schema 7 says"),
        (of_schema(6, b"\x02"), "the value is not a record"),
        (of_schema(5, b"\x02"), "one of its names begins with kafka_"),
        (of_schema(8, b"\x00\x0a\x05"), "it is not what schema 8 says"),
        (protobuf(8, b"", (7,)), "it names a message that schema 8 does not have"),
        (of_schema(8, b"\xff" * 12), "it does not say which message it is"),
        (of_schema(9, b"[1]"), "the value is not a record"),
        (of_schema(9, b'{"kafka_offset": 1}'), "the value is not a record"),
        (of_schema(10, b""), "schema 10 is not an Avro schema"),
        (of_schema(11, b"\0"), "schema 11 is not a Protobuf schema: "),
        (of_schema(12, b"\0"), "is there several times"),
    ],
)
def test_what_cannot_be_read_says_why(tmp_path: Path, value: bytes, why: str) -> None:
    reader = folder_of(
        tmp_path,
        _5_avsc=record(kafka_offset="int"),
        _6_avsc='"int"',
        _7_avsc=record(v="int"),
        _8_proto=PROTO,
        _9_json="{}",
        _10_avsc='{"type": "no type"}',
        _11_proto="message {",
        _12_avsc='"int"',
        _12_json="{}",
    )
    with pytest.raises(BrokenValue, match=why):
        reader.read(value)


# ------------------------------------------------------------------------------------------------------------- registry


def test_a_registry_is_asked_once_for_a_schema_and_for_what_that_refers_to(registry: Double) -> None:
    inner = {"type": "record", "name": "shop.Amount", "fields": [{"name": "n", "type": "int"}]}
    reference = {"name": "shop.Amount", "subject": "amount value", "version": 3}
    registry.schemas[7] = {"schema": record(v="shop.Amount"), "references": [reference]}
    registry.subjects["amount%20value", 3] = {"schema": json.dumps(inner), "id": 3}
    registry.schemas[8] = {
        "schemaType": "PROTOBUF",
        "schema": 'syntax = "proto3"; import "a/b.proto"; message M { B b = 1; }',
        "references": [{"name": "a/b.proto", "subject": "b", "version": 1}],
    }
    registry.subjects["b", 1] = {"schemaType": "PROTOBUF", "schema": 'syntax = "proto3"; message B { int32 n = 1; }'}
    reader = value_reader(SchemaRegistry(url=registry.url), {})
    value = of_schema(7, b"\x02")
    assert [members(reader, each) for each in (value, value)] == [{"v": {"n": "1"}}] * 2
    assert members(reader, protobuf(8, message({1: message({1: 5})}))) == {"b": {"n": "5"}}
    asked = ["/schemas/ids/7", "/subjects/amount%20value/versions/3", "/schemas/ids/8", "/subjects/b/versions/1"]
    assert registry.asked == asked

    kept = reader.kept()
    lines = [json.loads(line) for line in gzip.decompress(kept).splitlines()]
    assert [line["id"] for line in lines] == [7, 8]
    assert lines[0]["references"]["shop.Amount"]["text"] == json.dumps(inner)
    assert reader.kept() == b""


def test_a_schema_that_a_registry_does_not_know_breaks_a_value_and_a_registry_that_fails_stops(
    registry: Double,
) -> None:
    value = of_schema(7, b"")

    def read(**secret: str) -> None:
        value_reader(SchemaRegistry(url=registry.url), secret).read(value)

    with pytest.raises(BrokenValue, match="schema 7 is not in the registry"):
        read()
    registry.schemas[7] = {"schema": "{}", "references": [{"name": 1}]}
    with pytest.raises(BrokenValue, match="answer for schema 7 is not a schema"):
        read()
    registry.schemas[7] = {"schemaType": "XML", "schema": "<a/>"}
    with pytest.raises(BrokenValue, match="schema 7 is XML"):
        read()
    registry.wants("ana", "hidden-word")
    with pytest.raises(StreamDenied, match="it answers 401"):
        read(user="ana", password="another")
    with pytest.raises(BrokenValue, match="schema 7 is XML"):
        read(user="ana", password="hidden-word")
    registry.wanted = "Bearer hidden-word"
    with pytest.raises(BrokenValue, match="schema 7 is XML"):
        read(token="hidden-word")
    registry.status = 503
    with pytest.raises(StreamFailed, match="it answers 503"):
        read()
    away = SchemaRegistry(url=f"http://127.0.0.1:{free_port()}", answers_within=timedelta(seconds=2))
    with pytest.raises(StreamFailed, match="did not answer within 2 s"):
        value_reader(away, {}).read(value)


def test_the_version_of_the_contract_is_that_of_the_schema(tmp_path: Path) -> None:
    folder_of(tmp_path, _7_avsc=record(v="int"), _8_avsc=record(v="int"), _9_avsc=record(schema_version="int"))
    reader = value_reader(SchemaFolder(path=tmp_path, versions={7: 1, 9: 2}), {})
    assert members(reader, of_schema(7, b"\x02")) == {"schema_version": "1", "v": "1"}
    assert members(reader, of_schema(8, b"\x02")) == {"v": "1"}
    assert members(reader, of_schema(9, b"\x06")) == {"schema_version": "3"}
    (tmp_path / "10.json").write_text("{}")
    reader = value_reader(SchemaFolder(path=tmp_path, versions={10: 2}), {})
    assert reader.read(of_schema(10, b'{"v": 1}')).members == b'"schema_version": 2, "v": 1'
    # Of itself, and then not twice, for which landing would reject the record.
    assert reader.read(of_schema(10, b'{"schema_version": 1}')).members == b'"schema_version": 1'


def test_a_decimal_of_more_places_than_any_column_breaks_its_record_alone(tmp_path: Path) -> None:
    schema = """
        syntax = "proto3";
        package confluent.type;
        message Sale { Decimal amount = 1; }
        message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
    """
    reader = folder_of(tmp_path, _8_proto=schema)
    amount: dict[int, int | bytes | str | list[bytes]] = {1: b"\x01", 3: 2}
    assert members(reader, protobuf(8, message({1: message(amount)}))) == {"amount": "0.01"}
    with pytest.raises(BrokenValue, match="more places than are read"):
        reader.read(protobuf(8, message({1: message({**amount, 3: 2**31 - 1})})))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (SchemaRegistry(url="https://ana:hidden-word@registry"), "without a user"),
        (SchemaRegistry(url="registry:8081"), "without a user"),
        (SchemaRegistry(url="https://r", secrets={"password": "hidden-word"}), "named by an environment variable"),
        (SchemaRegistry(url="https://r", secrets={"key": "KEY"}), "has user and password, or token"),
        (SchemaRegistry(url="https://r", answers_within=timedelta(0)), "has to be a timedelta"),
        (SchemaFolder(path=Path("schemas")), "has to be an absolute path"),
        (SchemaFolder(path=Path("/schemas"), versions={"7": 1}), "from ids to versions"),  # type: ignore[dict-item]
        (SchemaFolder(path=Path("/schemas"), versions={7: 1}), "its contract has one version"),
        ("https://registry", "have to be a SchemaRegistry"),
    ],
)
def test_schemas_that_cannot_be_had_are_refused_when_they_are_declared(values: Any, said: str) -> None:
    with pytest.raises(InvalidDeclaration, match=said) as refused:
        replace(captured.sales, capture=replace(TOPIC, values=values))
    assert "hidden-word" not in refused.value.message


def test_keys_have_a_schema_only_where_schemas_are() -> None:
    with pytest.raises(InvalidDeclaration, match="does not say where schemas are"):
        replace(captured.sales, capture=replace(TOPIC, key_format="schema"))


def test_an_event_of_debezium_in_avro_has_its_values_as_texts(tmp_path: Path) -> None:
    row = [
        {"name": "order_id", "type": "int"},
        {"name": "amount", "type": ["null", {**of("bytes", "decimal", precision=12, scale=2), "connect.version": 1}]},
        {"name": "placed", "type": [{"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}, "null"]},
    ]
    value = {"type": "record", "name": "Value", "namespace": "shop.public.orders", "fields": row}
    envelope = {
        "type": "record",
        "name": "Envelope",
        "namespace": "shop.public.orders",
        "fields": [
            {"name": "before", "type": ["null", value], "default": None},
            {"name": "after", "type": ["null", "Value"], "default": None},
            {"name": "op", "type": "string"},
        ],
        "connect.name": "shop.public.orders.Envelope",
    }
    reader = folder_of(tmp_path, _7_avsc=json.dumps(envelope))
    on_the_wire = json.loads(json.dumps(envelope).replace('"logicalType": "decimal", ', ""))
    written = {"after": {"order_id": 1, "amount": b"\x7d", "placed": 1_782_894_600_123_456}, "op": "c"}
    assert members(reader, avro(7, json.dumps(on_the_wire), written)) == {
        "before": None,
        "after": {"order_id": "1", "amount": "1.25", "placed": "2026-07-01T08:30:00.123456"},
        "op": "c",
    }


# ---------------------------------------------------------------------------------------------------------- JSON Schema

SOLD = {
    "type": "object",
    "properties": {
        "sale_id": {"type": "string", "pattern": "^s"},
        "amount": {"type": "number", "minimum": 0, "multipleOf": 0.01},
        "sold_on": {"type": "string", "format": "date"},
    },
    "required": ["sale_id"],
    "additionalProperties": False,
}


def test_a_value_that_its_json_schema_allows_is_read_digit_by_digit(tmp_path: Path) -> None:
    reader = folder_of(tmp_path, _9_json=json.dumps(SOLD))
    assert (
        reader.read(of_schema(9, b'{"sale_id": "s1",  "amount": 1.50}')).members == b'"sale_id": "s1",  "amount": 1.50'
    )
    assert members(reader, of_schema(9, b'{"sale_id": "s1", "sold_on": "never"}'))["sold_on"] == "never"


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b'{"sale_id": 7}', "properties/sale_id/type"),
        (b'{"sale_id": "hidden"}', "properties/sale_id/pattern"),
        (b'{"amount": 1}', "required"),
        (b'{"sale_id": "s1", "amount": -0.5}', "properties/amount/minimum"),
        (b'{"sale_id": "s1", "hidden": 1}', "additionalProperties"),
        (b'["hidden"]', "type"),
        (b'{"sale_id": "s1", "amount": NaN}', "ValueError"),
        (b'{"sale_id": "s1"', "JSONDecodeError"),
        (b"\xff", "UnicodeDecodeError"),
        (b"[" * 100_000, "RecursionError"),
    ],
)
def test_a_value_that_its_json_schema_does_not_allow_says_where_and_never_the_value(
    tmp_path: Path, value: bytes, why: str
) -> None:
    reader = folder_of(tmp_path, _9_json=json.dumps(SOLD))
    with pytest.raises(BrokenValue) as broken:
        reader.read(of_schema(9, value))
    assert str(broken.value) == f"it is not what schema 9 says: {why}"


def test_a_json_schema_is_of_its_draft_and_one_that_is_none_says_so(tmp_path: Path) -> None:
    later = {"$schema": "https://json-schema.org/draft/2020-12/schema", "prefixItems": [{"type": "string"}]}
    in_an_object = {**later, "type": "object", "properties": {"a": {"prefixItems": [{"type": "string"}]}}}
    del in_an_object["prefixItems"]
    drafts = {"_1_json": json.dumps(in_an_object), "_2_json": json.dumps({**in_an_object, "$schema": None})}
    reader = folder_of(tmp_path, **drafts, _3_json='{"type": "nothing"}', _4_json="no json", _5_json='{"pattern": "("}')
    with pytest.raises(BrokenValue, match="properties/a/prefixItems/0/type"):
        reader.read(of_schema(1, b'{"a": [1]}'))
    for number, why in ((3, "SchemaError"), (4, "JSONDecodeError"), (5, "SchemaError")):
        with pytest.raises(BrokenValue, match=f"schema {number} is not a JSON Schema: {why}"):
            reader.read(of_schema(number, b"{}"))


def test_a_json_schema_refers_to_what_the_registry_names_and_nothing_is_fetched(registry: Double) -> None:
    number, other = 1, 2
    registry.subjects["amount", 1] = {"schema": json.dumps({"type": "number"}), "schemaType": "JSON"}
    reference = {"name": "amount.json", "subject": "amount", "version": 1}
    for each, place in ((number, "amount.json"), (other, f"{registry.url}/subjects/amount/versions/1")):
        sold = json.dumps({"type": "object", "properties": {"amount": {"$ref": place}}})
        registry.schemas[each] = {"schema": sold, "schemaType": "JSON"}
    registry.schemas[number] = {**registry.schemas[number], "references": [reference]}
    reader = value_reader(SchemaRegistry(url=registry.url), {})
    assert reader.read(of_schema(number, b'{"amount": 1}')).members == b'"amount": 1'
    with pytest.raises(BrokenValue, match="says: properties/amount/type"):
        reader.read(of_schema(number, b'{"amount": "1"}'))
    asked = len(registry.asked)
    with pytest.raises(BrokenValue, match="it is not what schema 2 says: _WrappedReferencingError"):
        reader.read(of_schema(other, b'{"amount": 1}'))
    assert len(registry.asked) == asked + 1
