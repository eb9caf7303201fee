"""A compacted topic of a real broker as a snapshot: bronze is its last value of every key, whatever was dropped."""

from __future__ import annotations

import time
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from backfill_assets.application.capture import CaptureRange, plan_capture
from backfill_assets.capture.errors import NotOffered
from backfill_assets.capture.stream_files import capture_piece
from backfill_assets.report.pages import page_of
from backfill_assets_tests.support.captured_shop import FIRST, SALES, CapturedShop, at_noon, sale_record, sale_records
from backfill_assets_tests.support.kafka_broker import Broker

_numbers = count(1)


def compacted(broker: Broker, spark: SparkSession, tmp_path: Path, **declared: Any) -> CapturedShop:
    """A shop over a new topic that is cleaned as soon as it can be."""
    topic = f"compacted-{next(_numbers)}"
    at_once = {"segment_ms": "200", "min_cleanable_dirty_ratio": "0.001", "delete_retention_ms": "0"}
    broker.create(topic, cleanup_policy="compact", partitions=2, **at_once)
    return CapturedShop(home=tmp_path / "home", broker=broker, topic=topic, spark=spark, declared=declared)


def ended(key: str) -> tuple[str, None, int]:
    return key, None, at_noon(FIRST)


def clean(broker: Broker, topic: str, *gone: str) -> None:
    """Waits until the topic has no record of these keys; new segments let the cleaner reach the earlier ones.

    A segment is as old as the times of its records say, so that these are later than all before.
    """
    until = time.monotonic() + 240
    for number in count():
        if not set(gone) & set(broker.keys(topic, partitions=2)):
            return
        assert time.monotonic() < until, "the topic was not cleaned within 240 s"
        for partition in (0, 1):
            key, value, _ = sale_record(900_000 + partition, amount=number)
            later = at_noon(FIRST + timedelta(days=10)) + 1_000 * number
            broker.write(topic, [(key, value, later)], partition=partition)
        time.sleep(1)


def amounts(shop: CapturedShop) -> dict[str, int]:
    """The current sales, without those that were only written to have the topic cleaned."""
    rows = (row for row in shop.rows() if row["_ended_by"] is None and row["_operation"] != "delete")
    return {row["sale_id"]: row["amount"] for row in rows if row["sale_id"] < "s900000"}


@pytest.mark.long
def test_a_snapshot_is_the_last_value_of_every_key_and_changes_go_on_behind_it(
    broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    shop = compacted(broker, spark, tmp_path, chunk=7)
    broker.write(shop.topic, sale_records(20))
    broker.write(shop.topic, [sale_record(number, amount=99) for number in range(5)])
    broker.write(shop.topic, [ended("s000007")])
    first = shop.capture(first=None, is_whole=True, builds=True)
    assert first.plan.resolution.is_whole and 20 <= first.captured <= 26  # it may have been cleaned meanwhile
    expected = {f"s{number:06}": 99 if number < 5 else 10 for number in range(20) if number != 7}
    assert first.landed is not None and first.landed.load is not None, repr(first)
    assert amounts(shop) == expected

    # What is new goes on where the snapshot ends.
    broker.write(shop.topic, [sale_record(30), ended("s000008")])
    assert shop.capture(first=None, builds=True).captured == 2
    expected = {**expected, "s000030": 10}
    del expected["s000008"]
    assert amounts(shop) == expected

    # A key whose tombstone is gone as well is only missing.
    broker.write(shop.topic, [ended("s000009")])
    clean(broker, shop.topic, "s000007", "s000008", "s000009")
    again = shop.capture(first=None, is_whole=True, builds=True)
    assert again.landed is not None and again.landed.extract is not None
    assert again.landed.extract.withdrawn.keys == 1
    del expected["s000009"]
    assert amounts(shop) == expected


@pytest.mark.long
def test_the_plan_says_what_a_snapshot_cannot_tell(broker: Broker, spark: SparkSession, tmp_path: Path) -> None:
    shop = compacted(broker, spark, tmp_path)
    broker.write(shop.topic, sale_records(10))
    ws = shop.open()
    try:
        plan = plan_capture(ws, SALES, CaptureRange(first=None, last=None, is_whole=True))
    finally:
        ws.close()
    assert (plan.records, plan.resolution.pinned["delete.retention.ms"]) == (10, "0")
    with pytest.raises(NotOffered):
        shop.capture(FIRST, FIRST, is_whole=True)
    said = " ".join(str(block) for block in page_of(plan).blocks)
    assert "the values between them are lost" in said
    assert "everything that the source holds now" in said


@pytest.mark.long
def test_a_topic_that_is_not_compacted_has_no_snapshot(broker: Broker, spark: SparkSession, tmp_path: Path) -> None:
    topic = f"not-compacted-{next(_numbers)}"
    broker.create(topic)
    shop = CapturedShop(home=tmp_path / "home", broker=broker, topic=topic, spark=spark)
    with pytest.raises(NotOffered, match="holds changes, and no present state"):
        shop.capture(first=None, is_whole=True)


@pytest.mark.long
def test_a_snapshot_that_was_stopped_withdraws_nothing_and_goes_on(
    broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    shop = compacted(broker, spark, tmp_path, chunk=5)
    broker.write(shop.topic, sale_records(40))
    shop.capture(first=None, is_whole=True)
    broker.write(shop.topic, [sale_record(number, amount=5) for number in range(40)])
    with pytest.MonkeyPatch.context() as patch:
        written = count(1)

        def stops(*arguments: Any, **named: Any) -> Any:
            if next(written) > 3:
                raise RuntimeError("the process ends here")
            return capture_piece(*arguments, **named)

        patch.setattr("backfill_assets.application.capture.capture_piece", stops)
        with pytest.raises(RuntimeError):
            shop.capture(first=None, is_whole=True)
    report = shop.capture(first=None, is_whole=True, builds=True)
    # It is the second snapshot that goes on, and no third one that begins.
    assert {each.partition.split("-")[1] for each in shop.files()} == {"1", "2"}
    assert report.landed is not None and report.landed.extract is not None
    assert report.landed.extract.withdrawn.keys == 0
    assert set(amounts(shop).values()) == {5}
