"""Change events of other connectors than PostgreSQL's: ordered by their positions, of the tables that are declared,
with deletes by the key of the record; what is no change is passed over and counted."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from backfill_assets.capture.errors import BadFile
from backfill_assets.core.errors import AmbiguousOrder
from backfill_assets.core.settings import Settings
from backfill_assets.domain import Canal, Maxwell
from backfill_assets.domain.operations import Ties
from backfill_assets.landing.land import land_again
from backfill_assets_tests.support.debezium.connectors import FEEDS, MONGODB, MYSQL, Feed, source_of
from backfill_assets_tests.support.landing_examples import LandingRoom, landing_room, reasons
from backfill_assets_tests.support.shop import ticking_clock

AFTERWARDS = datetime(2027, 1, 15, 12, tzinfo=UTC)
DAY = date(2025, 7, 1)
DECIMAL = "org.apache.kafka.connect.data.Decimal"


def lines_of(*events: Mapping[str, Any]) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def keyed(feed: Feed, event: Mapping[str, Any], key: int | str) -> dict[str, Any]:
    """An event as a capture from Kafka has it, with the key of its record."""
    said = {"id": f'{{"$numberLong": "{key}"}}'} if feed is MONGODB else {feed.key: key}
    return {"kafka_partition": 0, "kafka_key": json.dumps(said), **event}


def story(feed: Feed) -> Sequence[dict[str, Any]]:
    """A key that ends, one that comes back, and one that is changed within a transaction."""
    return [
        feed.event(0, "r", 1, note="read"),
        keyed(feed, feed.event(1, "u", 1, note="changed"), 1),
        feed.event(2, "c", 2, note="new"),
        feed.event(3, "u", 2, note="changed at once"),
        keyed(feed, feed.event(4, "d", 1), 1),
        feed.event(5, "c", 1, note="again"),
        keyed(feed, feed.event(6, "d", 2), 2),
    ]


@pytest.fixture
def rooms(spark: SparkSession, settings: Settings) -> Iterator[LandingRoom]:
    with landing_room(spark, settings, ticking_clock(AFTERWARDS), source_of(MYSQL)) as room:
        yield room


@pytest.mark.long
@pytest.mark.parametrize("feed", FEEDS, ids=lambda feed: feed.connector)
def test_changes_are_ordered_by_the_positions_of_their_connector(rooms: LandingRoom, feed: Feed) -> None:
    room = replace(rooms, source=source_of(feed))
    events = [*story(feed)]
    random.Random(feed.connector).shuffle(events)
    record = room.land(lines_of(*events, feed.event(0, "r", 1, note="read")), "1.jsonl").record
    assert (record.counts.landed, record.counts.rejected, record.counts.duplicate) == (8, 0, 1)
    rows = {row[feed.key]: row for row in room.bronze([DAY]) if row["_ended_by"] is None}
    assert {key: (row["note"], row["_operation"]) for key, row in rows.items() if row["_operation"] != "delete"} == {
        1: ("again", "create")
    }


@pytest.mark.long
def test_positions_are_texts_in_the_order_of_the_log(rooms: LandingRoom) -> None:
    for feed in FEEDS:
        room = replace(rooms, source=source_of(feed))
        events = [feed.event(place, "r" if place == 0 else "u", place) for place in range(len(feed.positions))]
        judged = room.judge(lines_of(*events), f"{feed.connector}.jsonl")
        assert reasons(judged) == [None] * len(events), feed.connector
        found = [each["debezium_position"] for each in judged]
        assert (found, len({*map(len, found[1:])})) == (sorted({*found}), 1), feed.connector


@pytest.mark.long
def test_what_is_no_change_of_the_table_is_passed_over_and_counted_or_rejected_with_the_reason(
    rooms: LandingRoom,
) -> None:
    change = MYSQL.event(1, "u", 1)
    heartbeat = {"ts_ms": 1_751_358_600_123, "ts_us": 1_751_358_600_123_456}
    beside: list[Mapping[str, Any]] = [
        heartbeat,
        {"schema": {"type": "struct"}, "payload": heartbeat},
        {"kafka_partition": 0, "kafka_key": '{"serverName": "shop"}', **heartbeat},
        {
            "source": change["source"],
            "ts_ms": 1,
            "databaseName": "shop",
            "ddl": 'ALTER TABLE orders ADD "op" text',
            "tableChanges": [{"type": "ALTER", "table": {"columns": [{"name": "op"}, {"name": "id"}]}}],
        },
        {"status": "BEGIN", "id": "571", "event_count": None, "data_collections": None, "ts_ms": 1},
        {
            "status": "END",
            "id": "571",
            "event_count": 2,
            "data_collections": [{"data_collection": "a", "event_count": 1}, {"data_collection": "b"}],
        },
        {"op": "m", "ts_ms": 1, "source": change["source"], "message": {"prefix": "p", "content": "aGk="}},
        {"id": "1", "aggregate_type": "Initial Snapshot", "type": "COMPLETED", "additional_data": {}, "timestamp": 1},
    ]
    others = [
        MYSQL.event(2, "u", 2) | {"source": {**change["source"], "table": "customers"}},
        MYSQL.event(2, "d", 3) | {"before": None},
        MYSQL.event(2, "u", 4) | {"source": {**change["source"], "file": "binlog", "pos": None}},
    ]
    # Kept as they were written: only what has the shape of such a message is one.
    no_messages: list[Mapping[str, Any]] = [
        {**heartbeat, "name": "row"},
        {"status": "BEGIN"},
        {"ddl": 1, "after": None},
    ]
    lines = [*beside[:1], change, *beside[1:], *others, *no_messages]
    record = rooms.land(lines_of(*lines), "feed.jsonl").record
    assert record.counts.landed == len(lines) - len(beside)
    assert (record.counts.accepted, record.counts.rejected) == (1, 6)
    assert record.note == (
        "passed over: 3 heartbeats, 1 logical message, 1 notification, 1 schema change, 2 transaction markers"
    )
    found = [each["reason"] for each in rooms.quarantined[record.import_id]]
    assert found[:3] == [
        "the event is of the table shop.customers",
        "the delete does not have order_id, neither before it nor in the key of its record: capture the topic with its "
        "keys as JSON, or set REPLICA IDENTITY FULL, or before-images of documents",
        "the event does not say where in the log it is: it needs file and pos of the binary log",
    ]
    again = land_again(rooms.work(), [replace(record, family="kafka")])
    assert [(each.record.counts, each.record.note) for each in again] == [(record.counts, record.note)]


@pytest.mark.long
def test_partitions_of_a_table_are_one_table_and_a_truncate_of_one_is_rejected(rooms: LandingRoom) -> None:
    room = replace(rooms, source=source_of(MYSQL, table="", tables="shop.orders_20??_*"))
    of = {
        name: MYSQL.event(place, op, place) | {"source": {**MYSQL.event(place, op, 1)["source"], "table": name}}
        for place, (op, name) in enumerate(
            [("c", "orders_2024_01"), ("u", "orders_2024_02"), ("c", "orders"), ("c", "xorders_2024_01")], 1
        )
    }
    truncate = {**of["orders_2024_01"], "op": "t", "after": None}
    judged = room.judge(lines_of(*of.values(), truncate), "events.jsonl")
    assert reasons(judged) == [
        None,
        None,
        "the event is of the table shop.orders",
        "the event is of the table shop.xorders_2024_01",
        "the truncate is of shop.orders_2024_01 alone, and does not say which keys it had",
    ]


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ({"before": None, "after": {}, "op": "c", "source": {"connector": "db2"}}, "connector 'db2'"),
        ({"payload": {"op": "c", "source": {"connector": "postgresql"}}}, "connector 'postgresql'"),
        ({"database": "shop", "table": "orders", "type": "insert", "ts": 1, "data": {"id": 1}}, "Maxwell's records"),
        ({"data": [{"id": "1"}], "database": "shop", "isDdl": False, "table": "orders", "type": "INSERT"}, "Canal's"),
        ({"op": "c", "source": {"connector": "mysql", "scn": "7", "lcr_position": "00a1"}}, "of Oracle by XStream"),
        ({"data": {"id": 1}, "metadata": {"operation": "insert"}}, "records of AWS DMS"),
        ({"specversion": "1.0", "id": "1", "data": {}}, "CloudEvents"),
        ({"order_id": 1, "__deleted": "false"}, "ExtractNewRecordState"),
    ],
)
def test_events_that_are_none_of_the_source_are_refused_whole_with_their_name(
    rooms: LandingRoom, line: Mapping[str, Any], named: str
) -> None:
    with pytest.raises(BadFile, match=named):
        rooms.land(lines_of({"ts_ms": 1}, line, MYSQL.event(1, "u", 1)), "events.jsonl")
    assert rooms.imports() == ()


@pytest.mark.long
def test_a_document_has_the_values_that_its_types_say(rooms: LandingRoom) -> None:
    room = replace(rooms, source=source_of(MONGODB))
    values = {
        '{"$oid": "596e275826f08b2730779e1f"}': "596e275826f08b2730779e1f",
        '{"$numberDecimal": "1.50"}': "1.50",
        '{"$date": 1751356800001}': "2025-07-01T08:00:00.001000Z",
        '{"$date": {"$numberLong": "-1"}}': "1969-12-31T23:59:59.999000Z",
        '{"$date": "2025-07-01T08:00:00Z"}': "2025-07-01T08:00:00Z",
        '{"$binary": {"base64": "aGk=", "subType": "00"}}': "aGk=",
        '{"$binary": "aGk=", "$type": "00"}': "aGk=",
        '{"$regex": "a", "$options": ""}': '{"$regex":"a","$options":""}',
        '{"price": {"$numberLong": "5"}}': '{"price":{"$numberLong":"5"}}',
        "1.50": "1.50",
        "null": None,
    }
    event = MONGODB.event(1, "c", 1)
    lines = [{**event, "after": f'{event["after"][:-1]}, "note": {written}, "id": 7}}'} for written in values]
    no_document = {**MONGODB.event(2, "u", 2), "after": None}
    judged = room.judge(lines_of(*lines, no_document), "events.jsonl")
    assert [each["note"] for each in judged[:-1]] == [*values.values()]
    assert "change_streams_update_full" in (reasons(judged)[-1] or "")
    assert reasons(judged)[:-1] == [None] * len(lines)


@pytest.mark.long
def test_the_key_of_a_deleted_document_is_that_of_the_document(rooms: LandingRoom) -> None:
    schema = [
        StructField(each.name, StringType() if each.name == "order_id" else each.dataType, each.nullable)
        for each in source_of(MONGODB).schema
    ]
    room = replace(rooms, source=replace(source_of(MONGODB), schema=StructType(schema)))
    written = {"7": "7", '"7"': "7", '{"$oid": "59"}': "59", '{"a": 1.50, "b": "x"}': '{"a":1.50,"b":"x"}'}
    lines: list[Mapping[str, Any]] = []
    for text in written:
        document = f'{{"_id": {text}, "ordered_at": {{"$date": 1751356800000}}}}'
        lines.append({**MONGODB.event(1, "c", 1), "after": document})
        key = {"schema": {"type": "struct"}, "payload": {"id": text}}
        lines.append({**MONGODB.event(2, "d", 1), "kafka_key": json.dumps(key)})
    judged = room.judge(lines_of(*lines), "events.jsonl")
    assert reasons(judged) == [None] * len(lines)
    assert [each["order_id"] for each in judged] == [key for key in written.values() for _ in range(2)]


@pytest.mark.long
def test_a_key_is_read_by_its_own_schema(rooms: LandingRoom) -> None:
    """As the key of a row is, where the key of the record says with its schema what it is."""
    fields = [{"field": "order_id", "type": "bytes", "name": DECIMAL, "parameters": {"scale": "0"}}]
    lines = [
        {**MYSQL.event(1, "d", 1), "before": before, "kafka_key": json.dumps(key)}
        for before in (None, {"order_id": None, "note": "x"})
        for key in ({"order_id": 125}, {"schema": {"fields": fields}, "payload": {"order_id": "fQ=="}})
    ]
    judged = rooms.judge(lines_of(*lines), "events.jsonl")
    assert reasons(judged) == [None] * 4
    assert [each["order_id"] for each in judged] == [125] * 4


@pytest.mark.long
def test_records_of_maxwell_land_as_the_changes_that_they_are(rooms: LandingRoom) -> None:
    room = replace(rooms, source=replace(source_of(MYSQL), reads=Maxwell()))
    about = {"database": "shop", "table": "orders", "ts": 1_751_358_600}

    def record(kind: str, position: str, key: int, **more: Any) -> dict[str, Any]:
        row = {"order_id": key, "ordered_at": "2025-07-01T08:00:00Z", "note": f"{kind} at {position}"}
        return {**about, "type": kind, "position": position, "xoffset": 0, "data": row, **more}

    record_of = room.land(
        lines_of(
            record("update", "b.1000000:4", 3, old={"order_id": 2}),
            record("insert", "b.999999:154", 2),
            {**about, "type": "bootstrap-start", "data": {}},
            record("insert", "b.999999:900", 1),
            record("delete", "b.1000000:900", 1),
            {**record("insert", "b.999999:900", 4), "position": None},
        ),
        "maxwell.jsonl",
    ).record
    assert (record_of.counts.landed, record_of.counts.rejected) == (6, 1)
    assert record_of.note == "passed over: 1 notification; 1 message with 2 records"
    (reason,) = (each["reason"] for each in room.quarantined[record_of.import_id])
    assert "it needs file and pos of the binary log" in reason
    rows = {row["order_id"]: row for row in room.bronze([DAY]) if row["_ended_by"] is None}
    assert [key for key, row in rows.items() if row["_operation"] != "delete"] == [3]


@pytest.mark.long
def test_messages_of_canal_land_as_the_changes_of_their_rows(rooms: LandingRoom) -> None:
    room = replace(rooms, source=replace(source_of(MYSQL), reads=Canal(by="es")))

    def message(kind: str, second: int, *keys: int, old: Any = None, **more: Any) -> dict[str, Any]:
        rows = [{"order_id": str(key), "ordered_at": "2025-07-01T08:00:00Z", "note": f"at {second}"} for key in keys]
        es = 1_751_358_600_000 + second * 1_000
        return {"database": "shop", "table": "orders", "type": kind, "isDdl": False, "es": es, "data": rows, "old": old}

    content = lines_of(
        message("INSERT", 1, 1, 2, 3),
        {**message("ALTER", 1), "isDdl": True, "sql": "ALTER TABLE orders"},
        message("UPDATE", 2, 4, old=[{"order_id": "2"}]),
        message("DELETE", 3, 1),
        {**message("INSERT", 4, 5), "table": "customers"},
    )
    record = room.land(content, "canal.jsonl").record
    assert (record.counts.landed, record.counts.rejected) == (7, 1)
    assert record.note == "passed over: 1 schema change; 2 messages with 5 records"
    rows = [row for row in room.bronze([DAY]) if row["_ended_by"] is None and row["_operation"] != "delete"]
    assert sorted((row["order_id"], row["note"]) for row in rows) == [(3, "at 1"), (4, "at 2")]
    captured = land_again(room.work(), [replace(record, family="kafka")])
    assert [(each.record.counts, each.record.note) for each in captured] == [(record.counts, record.note)]
    first, second = (message("UPDATE", 5, 3, old=[{}]) for _ in range(2))
    second["data"][0]["note"] = "later"
    again = lines_of(first, second)
    with pytest.raises(AmbiguousOrder):
        room.land(again, "tied.jsonl")
    arrival = replace(room, source=replace(room.source, ties=Ties.ARRIVAL))
    assert arrival.land(again, "tied.jsonl").record.counts.landed == 2
