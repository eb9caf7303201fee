"""What a record of a topic becomes, without a broker."""

from __future__ import annotations

import base64
import json

import pytest
from confluent_kafka import Message

from backfill_assets.capture.json_members import members_of
from backfill_assets.capture.kafka import KafkaStream
from backfill_assets.capture.kafka_topic import KafkaTopic
from backfill_assets.capture.streams import Operated

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
