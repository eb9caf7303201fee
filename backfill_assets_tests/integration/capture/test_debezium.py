"""A topic that Debezium wrote, captured from a real broker: bronze is the table, tombstones state nothing twice."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from backfill_assets.application.capture import CaptureRange, capture
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.capture.streams import Pace
from backfill_assets.core.settings import Settings
from backfill_assets.domain import Domain, KafkaTopic
from backfill_assets.report.captured import CaptureReport
from backfill_assets.report.pages import page_of
from backfill_assets.workspace import Workspace
from backfill_assets_tests.domains import captured
from backfill_assets_tests.support.captured_shop import FIRST, StreamShop
from backfill_assets_tests.support.debezium import as_landed, held, orders, recording, states
from backfill_assets_tests.support.kafka_broker import Broker
from backfill_assets_tests.support.shop import ticking_clock

AFTERWARDS = datetime(2027, 1, 15, 12, tzinfo=UTC)
_numbers = count(1)


@dataclass(frozen=True, kw_only=True)
class Orders(StreamShop):
    """Orders that are captured from a topic of events."""

    topic: str
    broker: Broker
    chunk: int = 1_000

    def source(self) -> Any:
        topic = KafkaTopic(
            topic=self.topic, servers=self.broker.servers, chunk=self.chunk, answers_within=timedelta(seconds=10)
        )
        return replace(orders, capture=topic)

    def open(self) -> Workspace:
        settings = Settings.from_environment(self.environment())
        spark = self.spark
        assert spark is not None
        opened = Workspace.open(settings, clock=_clock, open_session=lambda: spark)
        domain = Domain(name="captured", package=captured.DOMAIN.package, sources=(self.source(),), derived=())
        return replace(opened, domain=domain)

    def take(self, *, is_whole: bool = False) -> CaptureReport:
        """Captures everything that is new, or everything that there is."""
        ws = self.open()
        try:
            first = None if self.orders_files() or is_whole else FIRST
            asked = CaptureRange(first=first, last=None, is_whole=is_whole, confirmed_by="ben" if is_whole else None)
            acting = Acting(by="ana", recorder=Unrecorded())
            return capture(ws, orders.name, asked, acting, reason="a test", pace=Pace(), builds=True)
        finally:
            ws.close()

    def orders_files(self) -> int:
        ws = self.open()
        try:
            with ws.ledger.read() as tx:
                return len(tx.captures.files(orders.name))
        finally:
            ws.close()

    def orders_rows(self) -> list[dict[str, Any]]:
        ws = self.open()
        try:
            found: list[dict[str, Any]] = ws.lake.open(orders.name).to_pyarrow_table().to_pylist()
            return found
        finally:
            ws.close()


_clock = ticking_clock(AFTERWARDS)


def write(broker: Broker, topic: str, records: Any, *, partition: int = -1, at: int = 1_782_900_000_000) -> None:
    broker.write(topic, [(None if key == "null" else key, value, at) for key, value in records], partition=partition)


@pytest.mark.long
@pytest.mark.parametrize("form", ["plain", "wrapped"])
def test_current_rows_are_those_of_the_table_and_tombstones_are_duplicates(
    broker: Broker, spark: SparkSession, tmp_path: Path, form: str
) -> None:
    topic = f"shop.public.orders-{next(_numbers)}"
    broker.create(topic)
    records = recording(form)
    shop = partial(Orders, home=tmp_path / "home", spark=spark, topic=topic, broker=broker)
    # Files of one record each: every tombstone is in another file than its delete.
    write(broker, topic, records[:10])
    report = shop(chunk=1).take()
    assert report.landed is not None
    by_offset = {each.record.original_path.split("-")[-2]: each.record.counts for each in report.landed.imports}
    tombstones = [number for number, (_, value) in enumerate(records[:10]) if value is None]
    assert tombstones
    assert {offset: by_offset[str(offset)].duplicate for offset in tombstones} == dict.fromkeys(tombstones, 1), (
        by_offset
    )
    write(broker, topic, records[10:])
    report = shop().take()
    assert report.landed is not None
    assert sum(each.record.counts.rejected for each in report.landed.imports) == 1  # a value that is not known
    assert held(shop().orders_rows()) == as_landed(list(states())[-1].rows)


@pytest.mark.long
def test_a_tombstone_whose_delete_was_compacted_away_still_deletes(
    broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    topic = f"shop.public.orders-{next(_numbers)}"
    broker.create(topic)
    records = recording("plain")
    deleted = next(number for number, (_, value) in enumerate(records) if value is None)
    shop = Orders(home=tmp_path / "home", spark=spark, topic=topic, broker=broker)
    write(broker, topic, [*records[: deleted - 1], *records[deleted : deleted + 2]])
    report = shop.take()
    assert report.landed is not None
    (landed,) = report.landed.imports
    assert not landed.rejected
    assert json.loads(records[deleted][0])["order_id"] not in held(shop.orders_rows())


@pytest.mark.long
@pytest.mark.parametrize(("form", "kept_ms", "withdrawn"), [("plain", 86_400_000, 0), ("wrapped", 0, 2)])
def test_the_last_event_of_every_key_of_a_compacted_topic_is_the_table(
    broker: Broker, spark: SparkSession, tmp_path: Path, form: str, kept_ms: int, withdrawn: int
) -> None:
    topic = f"shop.public.orders-{next(_numbers)}"
    at_once = {"segment_ms": "200", "min_cleanable_dirty_ratio": "0.001", "delete_retention_ms": str(kept_ms)}
    broker.create(topic, partitions=2, cleanup_policy="compact", **at_once)
    records, moved = recording(form), {"3", "4", "40"}
    shop = Orders(home=tmp_path / "home", spark=spark, topic=topic, broker=broker)

    def wrote(start: int, end: int) -> None:
        for key, value in records[start:end]:
            keyed = json.loads(key)
            partition = int(str(keyed.get("payload", keyed)["order_id"]) in moved)
            write(broker, topic, [(key, value)], partition=partition)

    # What was before is in bronze: the order 4 by an event that is later than all that the topic will have before its
    # tombstone.
    wrote(0, 5)
    shop.take()
    assert set(held(shop.orders_rows())) == {1, 2, 3, 4}
    wrote(5, 12)
    # The last events once more, as a connector sends them, until the earlier ones of every key are gone.
    ended = [records[8][0], records[10][0]]
    until = time.monotonic() + 240
    for number in count():
        keys = Counter(broker.keys(topic, partitions=2))
        if all(keys[key] == (kept_ms > 0) for key in ended) and keys[records[5][0]] == 1:
            break
        assert time.monotonic() < until, f"the topic was not cleaned within 240 s: {keys}"
        for partition, last in ((0, records[6]), (1, records[11])):
            write(broker, topic, [last], partition=partition, at=1_782_900_000_000 + 1_000 * (number + 1))
        time.sleep(1)
    report = shop.take(is_whole=True)
    assert report.plan.resolution.is_whole and report.plan.resolution.is_compacted
    assert "rows that were truncated stay" in " ".join(map(str, page_of(report.plan).blocks))
    assert report.landed is not None and report.landed.extract is not None
    assert report.landed.extract.withdrawn.keys == withdrawn
    assert held(shop.orders_rows()) == as_landed(_after(12))

    # Changes go on behind it.
    wrote(12, 16)
    shop.take()
    assert held(shop.orders_rows()) == as_landed(_after(16))
    # An update that left its long note as it was: the event does not have it, so that the key stays what it was.
    wrote(16, 17)
    report = shop.take(is_whole=True)
    assert report.landed is not None and report.landed.extract is not None
    reasons = [each["reason"] for one in report.landed.imports for each in one.rejected]
    assert reasons == ["note was left as it was, and the event does not have its value"]
    assert report.landed.extract.withdrawn.keys == 0
    assert held(shop.orders_rows()) == as_landed(_after(16))


def _after(records: int) -> Any:
    """The rows of the table after so many events."""
    (state,) = (each for each in states() if each.records == records)
    return state.rows
