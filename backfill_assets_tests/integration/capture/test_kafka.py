"""Captures of a topic of a real broker: what is landed is what was written, once, whatever happens on the way."""

from __future__ import annotations

import base64
import gzip
import json
import re
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from importlib import import_module
from itertools import count
from pathlib import Path
from secrets import token_hex

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession

from backfill_assets.application import capture as capturing
from backfill_assets.application import look
from backfill_assets.application.live import live
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.application.requests import request_of
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.capture.errors import CreatedAgain, OtherTopic, RangeExpired, RecordsMissing, StreamFailed
from backfill_assets.capture.landed_files import LandedFile
from backfill_assets.capture.stream_files import StreamCapture
from backfill_assets.capture.streams import Pace
from backfill_assets.core.errors import Refused
from backfill_assets.core.settings import PROJECT_ROOT
from backfill_assets.desk.app import create_app
from backfill_assets.ledger.errors import Ended, NeedsAnother
from backfill_assets.planning.safeguards import Policy
from backfill_assets.report.command_line import words_of
from backfill_assets.report.locate import locate
from backfill_assets.report.pages import page_of
from backfill_assets.report.status import StatusDocument
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.support.advice import has_code
from backfill_assets_tests.support.captured_shop import (
    FIRST,
    CapturedShop,
    at_noon,
    finished,
    lines_of,
    plain_text,
    sale_record,
    sale_records,
    spans_are_complete,
    stopped,
)
from backfill_assets_tests.support.desk_reader import get
from backfill_assets_tests.support.kafka_broker import PASSWORD, Broker, running_broker

ShopOf = Callable[..., CapturedShop]
_numbers = count(1)


@pytest.fixture
def shop_of(broker: Broker, spark: SparkSession, tmp_path: Path) -> ShopOf:
    """A shop over a new topic, or over one that there is."""

    def opened(topic: str = "", *, partitions: int = 1, home: str = "home", **declared: object) -> CapturedShop:
        name = topic or f"sales-{next(_numbers)}"
        if not topic:
            broker.create(name, partitions=partitions)
        return CapturedShop(home=tmp_path / home, broker=broker, topic=name, spark=spark, declared=declared)

    return opened


def test_what_was_written_is_landed_and_built_once_and_the_same_again(shop_of: ShopOf, broker: Broker) -> None:
    shop = shop_of(partitions=2, chunk=700)
    broker.write(shop.topic, sale_records(2_000))
    broker.write(shop.topic, [sale_record(number, amount=99) for number in range(5)])
    broker.write(shop.topic, [("s000007", None, at_noon(FIRST + timedelta(days=1)))])

    planned = shop.plan()
    assert (planned.records, planned.files > 2, planned.resolution.is_compacted) == (2_006, True, False)
    assert not shop.files()

    report = shop.capture(builds=True)
    assert (report.captured, report.landed is not None) == (2_006, True)
    assert report.per_second is not None and report.came_per_second is not None
    assert report.per_second >= 10 * report.came_per_second
    assert re.search(
        r"captured at .* a second; they came at .* a day: [0-9,]+ times as fast", plain_text(page_of(report))
    )
    files = shop.files()
    ends = {each.span.partition: int(each.span.range_to) for each in report.plan.partitions}
    assert spans_are_complete(files, ends)
    rows = {row["sale_id"]: row for row in shop.rows() if row["_ended_by"] is None and row["_operation"] != "delete"}
    assert len(rows) == 1_999
    assert "s000007" not in rows
    assert [rows[f"s{number:06}"]["amount"] for number in (0, 4, 5)] == [99, 99, 10]

    again = shop.capture()
    assert (again.capture_id, again.captured, again.landed) == (None, 0, None)
    elsewhere = shop_of(shop.topic, home="elsewhere", chunk=700)
    elsewhere.capture()
    assert elsewhere.bytes() == shop.bytes()


@pytest.mark.long
def test_a_file_of_which_not_every_record_is_read_does_not_land(
    shop_of: ShopOf, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = shop_of()
    broker.write(shop.topic, sale_records(20))
    with monkeypatch.context() as patched:

        def one_more(*, file: LandedFile, record_count: int) -> StreamCapture:
            return StreamCapture(file=file, record_count=record_count + 1)

        patched.setattr(capturing, "StreamCapture", one_more)
        with pytest.raises(RecordsMissing, match=r"of the 21 records that were captured in .*, 20 landed"):
            shop.capture(builds=True)
    report = shop.capture(builds=True)
    assert report.captured == 0
    assert len(shop.rows()) == 20


@pytest.mark.long
def test_a_period_is_its_offsets_widened_by_the_lateness(shop_of: ShopOf, broker: Broker) -> None:
    days = [FIRST + timedelta(days=number) for number in range(6)]
    in_order = [sale_record(number, day=day) for number, day in enumerate(day for day in days for _ in range(10))]
    # The last sale of the second day comes in after the third day has begun: it is of the second day all the same.
    late = in_order.pop(19)
    in_order.insert(24, late)
    shop = shop_of(lateness=timedelta(hours=0))
    broker.write(shop.topic, in_order)
    (strict,) = shop.plan(days[1], days[1]).partitions
    assert (strict.span.range_from, strict.span.range_to) == ("10", "25")
    widened = shop_of(shop.topic, home="widened", lateness=timedelta(days=1))
    report = widened.capture(days[1], days[1])
    (span,) = report.plan.partitions
    assert (span.span.range_from, span.span.range_to) == ("10", "30")
    assert late[0] in {line["sale_id"] for line in lines_of(widened.bytes())}
    # What two periods have in common is read once.
    then = widened.capture(days[2], days[2])
    assert (then.captured, len(widened.files())) == (10, 2)
    assert spans_are_complete(widened.files(), {"0": 40}) is False  # nothing of the first day was asked for
    assert [(each.range_from, each.range_to) for each in widened.files()] == [("10", "30"), ("30", "40")]


@pytest.mark.long
def test_keys_headers_times_and_values_that_are_no_records_are_kept(shop_of: ShopOf, broker: Broker) -> None:
    shop = shop_of()
    producer = broker.producer()
    at = at_noon(FIRST)
    written = '{"sale_id": "s1",\n "sold_at": "2026-01-01T12:00:00Z", "amount": 10, "op": "u", "note": 1.50}'
    headers: list[tuple[str, str | bytes | None]] = [("trace", b"abc"), ("raw", b"\xff\x00"), ("empty", None)]
    producer.produce(shop.topic, value=written, key=b"\xfe", headers=headers, timestamp=at)
    for value in (b"no json", b'{"broken": ', b"[1]", b"\xff\xfe", b'{"kafka_offset": 1}', b"{}", b'{"a": 1}, "b": {}'):
        producer.produce(shop.topic, value=value, key="k", timestamp=at)
    producer.produce(shop.topic, value=None, key=None, timestamp=at)
    assert producer.flush(30) == 0

    report = shop.capture()
    assert report.captured == 9
    assert report.landed is not None
    (landed,) = report.landed.imports
    assert (landed.record.counts.landed, landed.record.counts.accepted, landed.record.counts.rejected) == (9, 1, 8)
    (content,) = shop.bytes().values()
    text = gzip.decompress(content).decode("utf-8").splitlines()
    assert '"note": 1.50' in text[0]
    kept = json.loads(text[0])
    assert (kept["kafka_key_base64"], kept["kafka_timestamp"]) == ("/g==", "2026-01-01T12:00:00.000Z")
    assert json.loads(kept["kafka_headers"]) == [
        {"name": "trace", "value": "abc"},
        {"name": "raw", "value_base64": "/wA="},
        {"name": "empty", "value": None},
    ]
    raw = [json.loads(line).get("kafka_value") for line in text[1:6]]
    assert [base64.b64decode(each or "") for each in raw] == [
        b"no json",
        b'{"broken": ',
        b"[1]",
        b"\xff\xfe",
        b'{"kafka_offset": 1}',
    ]


@pytest.mark.long
def test_aborted_records_are_absent_and_open_ones_come_later(shop_of: ShopOf, broker: Broker) -> None:
    shop = shop_of()
    producer = broker.producer(transactional_id=shop.topic)
    producer.init_transactions(30)

    def transaction(numbers: range) -> None:
        producer.begin_transaction()
        for number in numbers:
            key, value, at = sale_record(number)
            producer.produce(shop.topic, value=value, key=key, timestamp=at)
        producer.flush(30)

    transaction(range(10))
    producer.commit_transaction(30)
    transaction(range(10, 20))
    producer.abort_transaction(30)
    transaction(range(20, 30))
    producer.commit_transaction(30)
    transaction(range(30, 35))

    report = shop.capture()
    assert report.captured == 20
    assert {line["sale_id"] for line in lines_of(shop.bytes())} == {f"s{n:06}" for n in [*range(10), *range(20, 30)]}
    producer.commit_transaction(30)
    broker.wait_for_markers(shop.topic)
    assert shop.capture(first=None).captured == 5


@pytest.mark.long
def test_a_live_consumer_group_is_not_disturbed(shop_of: ShopOf, broker: Broker) -> None:
    shop = shop_of()
    broker.write(shop.topic, sale_records(100))
    live = Consumer({"bootstrap.servers": broker.servers, "group.id": "live", "auto.offset.reset": "earliest"})
    live.subscribe([shop.topic])
    try:
        taken = live.consume(40, timeout=30)
        live.commit(offsets=[TopicPartition(shop.topic, 0, len(taken))], asynchronous=False)
        groups = broker.groups()
        assert shop.capture().captured == 100
        assert broker.committed(shop.topic, "live") == [len(taken)]
        assert broker.groups() == groups
        rest = live.consume(100 - len(taken), timeout=30)
        assert [each.offset() for each in rest] == list(range(len(taken), 100))
    finally:
        live.close()


@pytest.mark.long
def test_what_has_expired_is_refused_before_anything_is_read(shop_of: ShopOf, broker: Broker) -> None:
    shop = shop_of()
    broker.write(shop.topic, sale_records(400))
    shop.capture(FIRST, FIRST)
    broker.write(shop.topic, sale_records(400, start=400))
    broker.delete_before(shop.topic, 50)
    # What was captured makes up for what has expired.
    assert shop.capture(FIRST, FIRST + timedelta(days=1)).captured > 0
    broker.delete_before(shop.topic, 700)
    before = shop.files()
    with pytest.raises(RangeExpired, match=r"begins at 700 .*the captures end at"):
        shop.capture(first=None)
    elsewhere = shop_of(shop.topic, home="elsewhere")
    with pytest.raises(RangeExpired, match="begins at 700"):
        elsewhere.capture()
    assert (shop.files(), elsewhere.files()) == (before, ())


@pytest.mark.long
def test_a_topic_that_was_created_again_is_refused_until_that_is_declared(shop_of: ShopOf, broker: Broker) -> None:
    shop = shop_of()
    broker.write(shop.topic, sale_records(20))
    shop.capture()
    broker.delete(shop.topic)
    broker.create(shop.topic)
    broker.write(shop.topic, sale_records(30, start=100))
    with pytest.raises(CreatedAgain) as refused:
        shop.capture()
    new = refused.value.found.rpartition("/")[2]
    declared = shop_of(shop.topic, topic_id=new)
    assert declared.capture().captured == 30
    with pytest.raises(OtherTopic):
        shop_of(shop.topic, home="elsewhere", topic_id="another").capture()


@pytest.mark.long
def test_a_compacted_topic_is_named_as_such(shop_of: ShopOf, broker: Broker) -> None:
    broker.create("compacted", cleanup_policy="compact")
    broker.write("compacted", sale_records(10))
    shop = shop_of("compacted")
    assert shop.plan().resolution.is_compacted
    assert "it is compacted" in plain_text(page_of(shop.plan()))


@pytest.mark.long
def test_without_the_right_secret_nothing_is_captured_and_it_is_shown_nowhere(shop_of: ShopOf, broker: Broker) -> None:
    shop = shop_of()
    broker.write(shop.topic, sale_records(10))
    secured = {"TEST_KAFKA_SECURED": "yes", "TEST_KAFKA_SERVERS": broker.secured_servers}
    ask = ("capture", "sales", "--from", "2026-01-01", "--to", "now", "--by", "ana", "--reason", "why not", "--no-load")

    code, said = finished(shop.command(*ask, more=secured))
    assert (code, "the secret TEST_KAFKA_PASSWORD is not there" in said) == (1, True)
    code, said = finished(shop.command(*ask, more={**secured, "TEST_KAFKA_PASSWORD": "wrong-password"}))
    assert (code, "does not accept the credentials" in said, "wrong-password" in said) == (1, True, False), said
    held = shop.home / "password"
    held.parent.mkdir(parents=True, exist_ok=True)  # with the ledger elsewhere, nothing has made it yet
    held.write_text(PASSWORD)
    code, said = finished(shop.command(*ask, more={**secured, "TEST_KAFKA_PASSWORD_FILE": str(held)}))
    assert (code, "no secret is read from the home" in said) == (1, True), said
    outside = shop.home.parent / "password"
    held.rename(outside)
    code, said = finished(shop.command(*ask, more={**secured, "TEST_KAFKA_PASSWORD_FILE": str(outside)}))
    assert (code, "10 records captured" in said) == (0, True), said
    kept = b"".join(path.read_bytes() for path in shop.home.rglob("*") if path.is_file())
    assert PASSWORD.encode() not in kept
    assert PASSWORD not in said


@pytest.mark.long
def test_a_capture_that_was_killed_goes_on_without_loss_or_duplicate(shop_of: ShopOf, broker: Broker) -> None:
    shop = shop_of(partitions=3, chunk=250)
    broker.write(shop.topic, sale_records(6_000))
    ask = ("capture", "sales", "--from", "2026-01-01", "--to", "now", "--by", "ana", "--reason", "why not", "--no-load")
    for _ in range(2):
        have = len(shop.files())
        process = shop.command(*ask, "--records-per-minute", "30000")
        until = time.monotonic() + 300
        while len(shop.files()) < have + 4:
            assert process.poll() is None and time.monotonic() < until, process.communicate()
            time.sleep(0.2)
        process.kill()
        process.communicate()
    killed_at = sum(each.records for each in shop.files())
    assert 0 < killed_at < 6_000
    report = shop.capture(builds=True)
    assert killed_at + report.captured == 6_000
    ends = {each.span.partition: int(each.span.range_to) for each in report.plan.partitions}
    assert spans_are_complete(shop.files(), ends)
    assert len({row["sale_id"] for row in shop.rows()}) == len(shop.rows()) == 6_000
    whole = shop_of(shop.topic, home="whole", chunk=250)
    whole.capture()
    assert whole.bytes() == shop.bytes()


@pytest.mark.long
def test_files_that_were_captured_land_although_the_topic_is_gone(shop_of: ShopOf, broker: Broker) -> None:
    shop = shop_of(chunk=50)
    broker.write(shop.topic, sale_records(200))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("backfill_assets.application.capture._land", stopped)
        with pytest.raises(RuntimeError):
            shop.capture()
    assert len(shop.files()) == 4
    broker.write(shop.topic, sale_records(10, start=500))
    report = shop.capture(first=None)
    assert report.landed is not None
    assert (report.captured, sum(each.record.counts.landed for each in report.landed.imports)) == (10, 210)


@pytest.mark.long
def test_a_capture_waits_while_a_consumer_group_is_behind_and_changes_nothing_of_it(
    shop_of: ShopOf, broker: Broker
) -> None:
    shop = shop_of(chunk=100)
    broker.write(shop.topic, sale_records(300))
    group = f"alerts-{shop.topic}"
    with pytest.raises(
        Refused,
        check=has_code("no_offset_of_group"),
        match=f"the consumer group {group} has committed no offset of the topic {shop.topic}",
    ):
        shop.capture(pace=Pace(group=group))
    assert shop.files() == ()
    consumer = Consumer({"bootstrap.servers": broker.servers, "group.id": group, "enable.auto.commit": False})
    offsets = iter((100, 249, 250))

    def read_on(_: float = 0) -> None:
        consumer.commit(offsets=[TopicPartition(shop.topic, 0, next(offsets))], asynchronous=False)

    read_on()
    report = shop.capture(pace=Pace(group=group, most_behind=50, wait=read_on))
    consumer.close()
    assert (report.captured, list(offsets)) == (300, [])
    assert broker.committed(shop.topic, group) == [250]


@pytest.mark.long
def test_a_broker_that_goes_away_stops_the_capture_in_one_sentence_and_it_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    with running_broker() as own:
        own.create("sales", partitions=1)
        # Larger than what the client reads ahead, which it has although the broker is gone.
        own.write("sales", [sale_record(number, padding=token_hex(5_000)) for number in range(5_000)])
        declared = {"chunk": 500, "answers_within": timedelta(seconds=3)}
        shop = CapturedShop(home=tmp_path / "home", broker=own, topic="sales", spark=spark, declared=declared)
        read = count(1)

        def wait(_: float) -> None:
            if next(read) == 30:
                own.stop()

        with pytest.raises(StreamFailed, match="the topic sales stopped: it did not answer within 3 s"):
            shop.capture(pace=Pace(records_per_minute=6_000, wait=wait))
        files = shop.files()
        assert 0 < len(files) < 10
        assert sum(each.records for each in files) == int(files[-1].range_to)


@pytest.mark.long
def test_where_the_policy_asks_another_person_approves_exactly_the_positions_before_they_are_read(
    shop_of: ShopOf, broker: Broker
) -> None:
    shop = replace(shop_of(), policy=Policy(backfill="approve"))
    broker.write(shop.topic, sale_records(10))
    asked = shop.capture()
    assert (asked.waits, asked.captured, shop.files()) == (True, 0, ())
    assert "waits for the approval of another person" in plain_text(page_of(asked))
    broker.write(shop.topic, sale_records(5, start=10))
    assert (shop.capture().waits, shop.capture().capture_id) == (True, asked.capture_id)
    ws = shop.open()
    try:
        assert asked.capture_id is not None
        assert f"backfill approve {asked.capture_id}" in plain_text(page_of(look.status(ws, asked.capture_id)))
        with pytest.raises(NeedsAnother, match="was requested by ana"):
            request_of(ws, asked.capture_id).approve(by="Ana", note="")
        approved = request_of(ws, asked.capture_id).approve(by="ben", note="as agreed")
        assert "ben" in plain_text(page_of(approved))
        with pytest.raises(Ended):
            request_of(ws, asked.capture_id).approve(by="cem", note="")
    finally:
        ws.close()
    report = shop.capture()
    assert (report.waits, report.captured) == (False, 10)
    then = shop.capture()
    assert (then.waits, then.capture_id != asked.capture_id, then.plan.records) == (True, True, 5)
    # What is new is another rule of the policy.
    assert shop.capture(first=None).captured == 5


@pytest.mark.long
def test_locate_status_and_metrics_know_what_was_captured(shop_of: ShopOf, broker: Broker) -> None:
    kept = timedelta(days=36_500)
    shop = shop_of()
    broker.create(f"{shop.topic}-kept", retention_ms=str(kept // timedelta(milliseconds=1)))
    shop = shop_of(f"{shop.topic}-kept")
    broker.write(shop.topic, sale_records(40, days=4))
    shop.capture()
    ws = shop.open()
    try:
        day = FIRST + timedelta(days=1)
        found = locate(ws, "sales", DayRange.inclusive(day, day))
        assert [(each.range_from, each.range_to) for each in found.captured] == [("0", "40")]
        assert found.ask_the_stream is not None
        assert "--dry-run" in words_of(found.ask_the_stream)
        status = look.status(ws, None)
        assert isinstance(status, StatusDocument)
        (so_far,) = status.captured
        assert (so_far.positions, so_far.records) == ({"0": "40"}, 40)
        assert "Captures" in plain_text(page_of(status))
        assert f"Captures source captured from capture records until lag expires bronze.sales {shop.topic}" in (
            get(create_app(ws), "/").words
        )
        metrics = {each.name: each.samples for each in look.metrics(ws, None, None).metrics}
        (lag,), (expires,) = metrics["backfill_capture_lag_seconds"], metrics["backfill_capture_expires_seconds"]
        last = at_noon(FIRST + timedelta(days=3)) / 1000 + 0.039
        assert abs(lag.value + last - ws.clock().timestamp()) < 30
        assert abs(lag.value + expires.value - kept.total_seconds()) < 1
        assert audit(ws).problems == ()
        next(iter((shop.home / "landing").rglob("*.jsonl.gz"))).unlink()
        assert any("is gone" in each for each in audit(ws).problems)
    finally:
        ws.close()


@pytest.mark.long
def test_the_live_path_captures_what_is_new_and_builds_it(shop_of: ShopOf, broker: Broker) -> None:
    shop = shop_of()
    broker.write(shop.topic, sale_records(10))
    shop.capture(builds=True)
    broker.write(shop.topic, sale_records(10, start=10))
    ws = shop.open()
    try:
        found = live(ws, Acting(by="live", recorder=Unrecorded()))
        assert [each.failed for each in found] == [False] * len(found)
        assert found[0].sentence == "bronze.sales: 10 records captured."
        with ws.ledger.read() as tx:
            assert [each.is_live for each in tx.captures.records()] == [False, True]
    finally:
        ws.close()
    assert len(shop.rows()) == 20


@pytest.mark.long
def test_a_capture_is_about_as_fast_as_a_plain_client_and_holds_no_topic_in_memory(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(PROJECT_ROOT / "benchmarks"))
    measured = import_module("captures")
    measured.fill(broker, "measured.large", 400_000)
    measured.fill(broker, "measured.small", 40_000)
    bare, ours = (measured.in_a_process(each, broker.servers, "measured.large") for each in ("plain", "captured"))
    little = measured.in_a_process("captured", broker.servers, "measured.small")
    print(f"{bare.seconds / ours.seconds:.2f} of the plain client; {bare}, {ours}, {little}")  # noqa: T201
    assert ours.records == bare.records == 10 * little.records
    assert bare.seconds / ours.seconds > 0.4  # the goal is 0.8; noise of a busy machine included
    # What the client reads ahead is bounded; ten times the records as objects would be hundreds of megabytes.
    assert ours.peak_mib - little.peak_mib < 40
