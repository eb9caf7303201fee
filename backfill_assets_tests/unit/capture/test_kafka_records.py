"""What a record of a topic becomes, without a broker."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message
from pyspark.sql import types as T

from backfill_assets.capture.errors import WentBack
from backfill_assets.capture.json_members import members_of
from backfill_assets.capture.kafka.client import KafkaClient, TopicIdentity
from backfill_assets.capture.kafka.declaration import KafkaTopic
from backfill_assets.capture.kafka.stream import _PINNED, KafkaStream
from backfill_assets.capture.schemas.declaration import SchemaFolder
from backfill_assets.capture.schemas.registry import value_reader
from backfill_assets.capture.streams import Captured, CapturePeriod, Operated
from backfill_assets.domain import Epoch, Operations, SourceTable, daily
from backfill_assets.domain.source_files import FileName
from backfill_assets.report.command_line import explained
from backfill_assets_tests.support.wire_format import avro

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

OPERATED = Operated(
    key=("id",),
    column="op",
    create="c",
    update="u",
    snapshot="r",
    delete="d",
    at="at",
    version=1,
    in_events=False,
)


def deleted(key: bytes) -> bytes:
    """The landed line of a record without a value."""
    topic = KafkaTopic(topic="orders", servers="broker-1:9092", key_format="json")
    record = Message(topic="orders", partition=0, offset=5, key=key, timestamp=(1, 1_700_000_000_000))
    (line,) = KafkaStream(topic, secret={}, operated=OPERATED)._lines([record])
    return line


@pytest.mark.parametrize("number", ["12345678901234567.1234567890", "1E5", "0.10", "-0", "123456789012345678901"])
def test_a_record_without_a_value_deletes_the_key_that_it_has_digit_by_digit(number: str) -> None:
    assert f'"kafka_tombstone": true, "id": {number}, "op": "d"'.encode() in deleted(f'{{"id": {number}}}'.encode())


def test_half_a_surrogate_pair_in_a_key_stays_as_it_was_written() -> None:
    assert b'"id": "\\ud800", "op": "d"' in deleted(b'{"id": "\\ud800"}')


@pytest.mark.parametrize("key", [b"[" * 100_000, b'{"id": NaN}', b'{"id": 1, "id": 2}', b'{"id": \xff}'])
def test_a_key_that_is_no_json_is_of_a_record_that_deletes_nothing(key: bytes) -> None:
    line = deleted(key)
    assert json.loads(line)["kafka_tombstone"] is True
    assert "op" not in json.loads(line)


@pytest.mark.parametrize(
    "name", ["kafka_tombstone", "\\u006bafka_tombstone", "k\\u0061fka_tombstone", "kafka\\u005Ftombstone"]
)
def test_a_value_does_not_say_what_kafka_says_however_its_names_are_written(name: str) -> None:
    assert members_of(f'{{"a": 1, "{name}": true}}'.encode(), "kafka_") is None
    assert members_of(f'{{"a": "{name}"}}'.encode(), "kafka_") == f'"a": "{name}"'.encode()


@pytest.mark.parametrize("separator", ["", "\n", ", "])
def test_a_value_of_several_objects_counts_as_so_many_records_that_are_rejected(separator: str) -> None:
    texts = ['{"id": 1, "tags": [{"a": 1}, {"b": 2}]}', '{"id": 2}', '{"id": 3}']
    record = Message(topic="orders", partition=0, offset=5, value=separator.join(texts).encode(), timestamp=(1, 0))
    whole = Message(topic="orders", partition=0, offset=6, value=texts[0].encode(), timestamp=(1, 0))
    stream = KafkaStream(KafkaTopic(topic="orders", servers="broker-1:9092"), secret={})
    found = [json.loads(line) for line in stream._lines([record, whole])]
    kept = [base64.b64decode(each["kafka_value"]).decode() for each in found[:-1]]
    assert kept == [separator.join(texts), *texts[1:]]
    assert {each["kafka_problem"] for each in found[:-1]} == {
        "it is one of 3 JSON objects of one value, and each has to be a value of its own"
    }
    assert [each["kafka_offset"] for each in found] == [5, 5, 5, 6]
    assert found[-1]["tags"] == [{"a": 1}, {"b": 2}]


@pytest.mark.parametrize(
    "period", [CapturePeriod(start=None, end=None), CapturePeriod(start=NOON, end=NOON + timedelta(days=1))]
)
@pytest.mark.parametrize(("captured", "high"), [("0", 50), ("scan-1-0", 50), ("1", 60)])
def test_a_partition_that_ends_before_what_was_captured_of_it_has_given_its_offsets_to_other_records(
    monkeypatch: pytest.MonkeyPatch, period: CapturePeriod, captured: str, high: int
) -> None:
    topic = KafkaTopic(topic="orders", servers="broker-1:9092")
    settings = {"cleanup.policy": "delete", "retention.ms": "-1", "message.timestamp.type": "CreateTime"}
    monkeypatch.setattr(KafkaStream, "_identity", lambda _: TopicIdentity(cluster="c", topic_id="t", partitions=(0,)))
    monkeypatch.setattr(KafkaClient, "configuration", lambda _: dict.fromkeys(_PINNED, "") | settings)
    monkeypatch.setattr(KafkaStream, "_watermarks", lambda *_: (0, high))
    monkeypatch.setattr(KafkaStream, "_sample", lambda *_, **__: [])
    monkeypatch.setattr(KafkaStream, "_offset_at", lambda *_: 10)
    monkeypatch.setattr(KafkaStream, "_end", lambda *_, **__: 20)
    stream = KafkaStream(topic, secret={})
    known = [Captured(partition=captured, range_from="40", range_to="60", is_complete=True)]
    if captured == "1":  # of another partition
        assert stream.resolve(period, known).spans[0].range_to in ("20", "60")
        return
    with pytest.raises(WentBack) as refused:
        stream.resolve(period, known)
    said = "partition 0 of the topic orders ends at offset 50 now, and its captures end at offset 59"
    assert said in refused.value.message
    assert "declare another source" in explained(refused.value)


def event_of(offset: int, key: bytes, value: dict[str, object] | None) -> Message:
    held = None if value is None else json.dumps(value).encode()
    return Message(topic="orders", partition=0, offset=offset, key=key, value=held, timestamp=(1, 1_700_000_000_000))


def test_a_heartbeat_between_a_delete_and_its_tombstone_says_nothing_of_where_they_are() -> None:
    topic = KafkaTopic(topic="orders", servers="broker-1:9092")
    source = {"connector": "mysql", "file": "b.000001", "pos": 4}
    changed: dict[str, object] = {"op": "d", "before": {"id": 1}, "after": None, "source": source}
    records = [
        event_of(1, b'{"id": 1}', changed),
        event_of(2, b'{"serverName": "shop"}', {"ts_ms": 1}),
        event_of(3, b'{"id": 1}', None),
        event_of(4, b'{"serverName": "shop"}', {"ts_ms": 2}),
        event_of(5, b'{"id": 2}', None),
        event_of(6, b'{"id": 3}', {**changed, "op": "c", "source": {**source, "pos": 9}}),
    ]
    stream = KafkaStream(topic, secret={}, operated=replace(OPERATED, in_events=True))
    found = {each["kafka_offset"]: each for each in map(json.loads, stream._lines(records))}
    assert [*found] == [1, 2, 4, 3, 5, 6]
    assert found[3]["source"] == source
    assert found[5]["source"] == {**source, "pos": 9, "ended_before": True}


def test_the_key_of_an_event_that_names_its_schema_is_read(tmp_path: Path) -> None:
    schema = json.dumps({"type": "record", "name": "Key", "fields": [{"name": "id", "type": "int"}]})
    (tmp_path / "7.avsc").write_text(schema)
    folder = SchemaFolder(path=tmp_path)
    topic = KafkaTopic(topic="orders", servers="broker-1:9092", key_format="schema", values=folder)
    operated = replace(OPERATED, in_events=True)
    stream = KafkaStream(topic, secret={}, operated=operated, values=value_reader(folder, {}))
    found = [json.loads(stream._line(event_of(1, key, {}))) for key in (avro(7, schema, {"id": 7}), b"no key")]
    assert [each.get("kafka_key_json") for each in found] == ['{"id": 7}', None]


TYPES: Mapping[str, T.DataType] = {"at": T.TimestampType(), "on": T.DateType()}


@pytest.mark.parametrize(
    ("event_time", "declared", "found"),
    [
        ("at", {}, "2023-11-14T22:13:20.250Z"),
        ("on", {}, "2023-11-14"),
        ("on", {"formats": {"on": ("d.M.yyyy", "yyyyMMdd")}}, "14.11.2023"),
        ("on", {"formats": {"on": Epoch("d")}}, "19675"),
        ("on", {"formats": {"on": "yyyy-MM-dd HH:mm"}}, "2023-11-14 00:00"),
        ("at", {"formats": {"at": Epoch("ms")}}, "1700000000250"),
        ("at", {"formats": {"at": Epoch("s")}}, "1700000000"),
        ("at", {"formats": {"at": "M/d/yyyy HH:mm"}, "timezone": "Asia/Tokyo"}, "11/15/2023 07:13"),
        ("at", {"formats": {"at": "yyyy-MM-dd HH:mm:ss.SSSXXX"}}, "2023-11-14 22:13:20.250Z"),
    ],
)
def test_the_time_of_a_delete_is_written_as_its_column_is_read(
    event_time: str, declared: Mapping[str, Any], found: str
) -> None:
    """A record without a value gets the names and the form of the members that records of its source have."""
    topic = KafkaTopic(topic="orders", servers="broker-1:9092", key_format="json")
    columns: Mapping[FileName, str] = {"order id": "id", "meta.what": "op", "meta.when": event_time}
    source = SourceTable(
        name="bronze.orders",
        key=("id",),
        event_time=event_time,
        partition=daily("day"),
        schema=T.StructType(
            [
                T.StructField("id", T.StringType(), nullable=False),
                T.StructField(event_time, TYPES[event_time], nullable=False),
                T.StructField("op", T.StringType(), nullable=False),
            ]
        ),
        operation=Operations(column="op", update="u", delete="d"),
        columns=columns,
        capture=topic,
        **declared,
    )
    record = Message(topic="orders", partition=0, offset=5, key=b'{"order id": "a"}', timestamp=(1, 1_700_000_000_250))
    (line,) = KafkaStream(topic, secret={}, operated=source.operated)._lines([record])
    document = json.loads(line)
    assert (document["order id"], document["meta.what"], document["meta.when"]) == ("a", "d", found)
