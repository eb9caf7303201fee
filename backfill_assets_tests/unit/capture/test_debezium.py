"""What can be said of Debezium's events without a topic: declarations, and what a record without a value states."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql.types import StructType

from backfill_assets.capture.debezium import Debezium, Keyed, as_delete, has_place
from backfill_assets.core.errors import InvalidDeclaration
from backfill_assets.domain import HttpApi, KafkaTopic, Operations
from backfill_assets_tests.support.debezium import orders, recording
from backfill_assets_tests.support.debezium.connectors import FEEDS, Feed


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"envelope": Debezium(table="orders")}, "have to be of a table such as 'public.orders'"),
        ({"envelope": Debezium()}, "either table, such as 'public.orders', or tables"),
        ({"envelope": Debezium(table="a.b", tables="a.*")}, "either table, such as 'public.orders', or tables"),
        ({"envelope": Debezium(table="public.orders_*")}, "have to be of a table such as 'public.orders'"),
        ({"envelope": Debezium(tables="orders")}, r"have to be of tables such as 'public.orders_\*'"),
        ({"envelope": Debezium(table="a.b", connector="db2")}, "those that are known are postgresql, mysql"),
        ({"envelope": Debezium(table="a.b", connector="mysql")}, "its schema lacks debezium_position:string"),
        ({"envelope": Debezium(table="public.orders", unavailable="")}, "by no text"),
        ({"envelope": "debezium"}, r"Debezium\(\.\.\.\)"),
        ({"schema": StructType(orders.schema.fields[:-1])}, "its schema lacks debezium_at:timestamp"),
        ({"order": ("debezium_lsn",)}, r"its order is \('debezium_commit', 'debezium_lsn'\)"),
        ({"ties": "arrival"}, "without ties"),
        ({"operation": Operations(column="debezium_operation", update="u")}, "its operation is DEBEZIUM_OPERATIONS"),
        ({"capture": HttpApi(url="https://example.org/orders", records="")}, "they are in topics and files"),
    ],
)
def test_a_contract_that_would_lose_changes_is_refused_when_it_is_declared(changed: dict[str, Any], said: str) -> None:
    if "schema" in changed:
        assert orders.operation is not None
        changed = {**changed, "operation": replace(orders.operation, at=None)}
    with pytest.raises(InvalidDeclaration, match=said):
        replace(orders, **changed)


def test_the_key_of_a_topic_of_events_needs_no_format() -> None:
    topic = KafkaTopic(topic="shop.public.orders", servers="broker-1:9092")
    of_two = replace(orders, key=("order_id", "paid"), capture=topic)
    assert of_two.operated is not None and of_two.operated.in_events


@pytest.mark.parametrize("form", ["plain", "wrapped"])
def test_a_record_without_a_value_states_the_delete_before_it_once_more(form: str) -> None:
    records = recording(form)
    at = next(number for number, (_, value) in enumerate(records) if value is None)
    (key, written), (same, _) = records[at - 1], records[at]
    assert written is not None and key == same
    stating = as_delete(same.encode(), Keyed(key=key.encode(), value=written.encode()), None)
    assert stating is not None
    found, event = json.loads(stating), json.loads(written)
    change, stated = (each.get("payload", each) for each in (event, found))
    assert (stated["op"], stated["source"]) == ("d", change["source"])
    assert stated["before"] == {"order_id": change["before"]["order_id"]}
    if form == "wrapped":
        (side,) = found["schema"]["fields"]
        assert (side["field"], side["fields"]) == ("before", json.loads(key)["schema"]["fields"])


@pytest.mark.parametrize("form", ["plain", "wrapped"])
def test_a_delete_that_is_gone_from_the_feed_ended_its_key_before_the_next_event(form: str) -> None:
    records = recording(form)
    before, after = (Keyed(key=key.encode(), value=(value or "").encode()) for key, value in (records[0], records[3]))
    key, _ = records[1]
    found = json.loads(as_delete(key.encode(), before, after) or "{}")
    stated, following = (each.get("payload", each) for each in (found, json.loads(after.value)))
    keyed = json.loads(key)
    assert (stated["op"], stated["before"]) == ("d", keyed.get("payload", keyed))
    assert stated["source"] == {**following["source"], "lsn": following["source"]["lsn"] - 1}


@pytest.mark.parametrize("feed", FEEDS, ids=lambda feed: feed.connector)
def test_a_delete_that_is_gone_ended_its_key_directly_before_the_next_position(feed: Feed) -> None:
    key, event = b'{"order_id": 1}', feed.event(2, "c", 2)
    heartbeat = Keyed(key=key, value=b'{"ts_ms": 1}')
    assert not has_place(heartbeat)
    found = json.loads(as_delete(key, heartbeat, Keyed(key=b"{}", value=json.dumps(event).encode())) or "{}")
    assert found["source"] == {**event["source"], "ended_before": True}
    assert found["before"] == (None if feed.connector == "mongodb" else {"order_id": 1})


@pytest.mark.parametrize(
    ("key", "after"),
    [
        (None, b'{"op": "c", "source": {"lsn": 1}}'),
        (b'{"order_id": 1}', None),
        (b"1", b'{"op": "c", "source": {"lsn": 1}}'),
        (b"no json", b'{"op": "c", "source": {"lsn": 1}}'),
        (b'{"order_id": 1}', b"no json"),
        (b'{"order_id": 1}', b'{"op": "c", "source": {"lsn": null}}'),
        (b'{"order_id": 1}', b'{"op": "c", "source": {}}'),
        (b'{"order_id": 1}', b"[1]"),
    ],
)
def test_without_a_key_or_a_place_in_the_feed_nothing_is_stated(key: bytes | None, after: bytes | None) -> None:
    other = Keyed(key=b'{"order_id": 2}', value=b'{"op": "d", "source": {"lsn": 1}}')
    assert as_delete(key, other, None if after is None else Keyed(key=b"k", value=after)) is None


def test_the_delete_that_a_record_without_a_value_states_has_the_digits_of_its_key() -> None:
    after = Keyed(key=b"k", value=b'{"op": "c", "source": {"lsn": 12}}')
    stating = as_delete(b'{"order_id": 12345678901234567.10, "rate": 1E5}', None, after)
    row = '{"order_id": 12345678901234567.10, "rate": 1E5}'
    assert stating == f'{{"op": "d", "before": {row}, "after": null, "source": {{"lsn": 11}}}}'
