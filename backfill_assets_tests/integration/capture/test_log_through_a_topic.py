"""A log of real events through a topic: captured, landed, restated as expected, and reproduced without the topic.

A quick run takes a twentieth of the cases of nine months; a thorough one, `make test-sources SIZE=full`, everything.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from datetime import time as time_of_day
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from backfill_assets.application.capture import CaptureRange, capture, plan_capture
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.capture.streams import Pace
from backfill_assets.core.settings import Settings
from backfill_assets.domain import Domain, KafkaTopic
from backfill_assets.examples.enforcement_sla import DOMAIN as ENFORCEMENT
from backfill_assets.examples.enforcement_sla.sla_clocks import case_sla_daily
from backfill_assets.examples.enforcement_sla.sources import case_events
from backfill_assets.upkeep.audit import audit
from backfill_assets.workspace import Workspace
from backfill_assets_tests.acceptance import test_traffic_fines as fines
from backfill_assets_tests.conftest import NOON, SPARK_ENVIRONMENT
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.kafka_broker import Broker
from backfill_assets_tests.support.searches import is_thorough
from backfill_assets_tests.support.shop import ticking_clock

TOPIC, PARTITIONS, LATENESS = "case-events", 6, timedelta(days=3)
DUPLICATED_PERCENT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What is in the topic."""

    events: int  #: How many events.
    messages: int  #: How many messages: some events were sent twice.
    days: DayRange  #: The days of the events.


@pytest.fixture(scope="module")
def part() -> fines.Part:
    return fines.QUARTER if is_thorough() else fines.SHORT


@pytest.fixture(scope="module")
def written(broker: Broker, traffic_fines: Path, part: fines.Part) -> Written:
    """The topic with the events of the part, out of order within the lateness, some of them twice."""
    filters = None
    if part.landed is not None:
        ends = (datetime.combine(day, time_of_day(), tzinfo=UTC) for day in (part.landed.start, part.landed.end))
        first, end = ends
        filters = [("event_time", ">=", first), ("event_time", "<", end)]
    columns = case_events.file_columns[:-1]
    frame = part.of(pq.read_table(traffic_fines / "events.parquet", columns=columns, filters=filters).to_pandas())
    events: list[dict[Any, Any]] = frame.to_dict("records")
    chance = random.Random(7)  # the same topic in every run
    sent = [(each["event_time"].timestamp() + chance.uniform(0, LATENESS.total_seconds()), each) for each in events]
    again = chance.sample(events, len(events) * DUPLICATED_PERCENT // 100)
    sent += [(each["event_time"].timestamp() + chance.uniform(0, LATENESS.total_seconds()), each) for each in again]
    sent.sort(key=lambda each: each[0])
    broker.create(TOPIC, partitions=PARTITIONS)
    broker.write(TOPIC, [_message(event) for _, event in sent])
    days = [each["event_time"].date() for each in events]
    return Written(events=len(events), messages=len(sent), days=DayRange.inclusive(min(days), max(days)))


def _message(event: dict[Any, Any]) -> tuple[str, str, int]:
    at = event["event_time"]
    value = {**event, "event_time": at.isoformat(), "schema_version": 1}
    return event["case_id"], json.dumps(value), int(at.timestamp() * 1000)


@pytest.fixture(scope="module")
def ws(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, fines_reference: Path, broker: Broker
) -> Iterator[Workspace]:
    environment = {
        "BACKFILL_HOME": str(tmp_path_factory.mktemp("fines")),
        "BACKFILL_REFERENCE": str(fines_reference),
        **SPARK_ENVIRONMENT,
    }
    opened = Workspace.open(
        Settings.from_environment(environment), clock=ticking_clock(NOON), open_session=lambda: spark
    )
    captured = replace(case_events, capture=KafkaTopic(topic=TOPIC, servers=broker.servers, lateness=LATENESS))
    domain = Domain(
        name=ENFORCEMENT.name,
        package=ENFORCEMENT.package,
        sources=(captured,),
        derived=(replace(case_sla_daily, inputs={"events": captured}),),
        references=ENFORCEMENT.references,
    )
    yield replace(opened, domain=domain)
    opened.close()


@pytest.mark.long
def test_a_log_is_captured_restated_as_expected_and_reproduced_after_its_topic_is_gone(
    ws: Workspace, written: Written, part: fines.Part, traffic_fines: Path, broker: Broker
) -> None:
    asked = CaptureRange(first=written.days.start, last=written.days.last)
    planned = plan_capture(ws, fines.BRONZE, asked)
    assert (len(planned.partitions), planned.records) == (PARTITIONS, written.messages)

    acting = Acting(by="ana", recorder=Unrecorded())
    began = time.monotonic()
    report = capture(ws, fines.BRONZE, asked, acting, reason="the log", pace=Pace(), builds=False)
    print(f"{report.captured:,} messages captured and landed in {time.monotonic() - began:.1f} s")  # noqa: T201
    assert report.captured == written.messages == part.events + part.events * DUPLICATED_PERCENT // 100
    with ws.ledger.read() as tx:
        counts = [each.counts for each in tx.imports.records(fines.BRONZE)]
    assert sum(each.accepted for each in counts) == written.events == part.events
    assert sum(each.duplicate for each in counts) == written.messages - written.events
    assert sum(each.rejected + each.superseded for each in counts) == 0

    load = operations.plan_load(ws, fines.BRONZE, partitions=None, by="ana", reason="the log")
    assert load is not None
    fines.published(ws, load.run_id)
    run_id = fines.restated(ws, fines.SILVER, "3.1.0", part.restated)
    fines.equals_expected(ws, part, traffic_fines / "expected", "3.1.0")

    broker.delete(TOPIC)
    outcome = operations.reproduce(ws, run_id, by="ana")
    assert outcome.identical
    assert (len(outcome.partitions), outcome.rows) == (len(part.restated), part.rows)
    assert operations.reproduce(ws, load.run_id, by="ana").identical
    assert audit(ws).problems == ()
