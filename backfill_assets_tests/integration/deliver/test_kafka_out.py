"""Replays to topics of a real broker: every record is there once, whatever happens on the way."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from pyspark.sql import SparkSession

from backfill_assets.application import look
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.application.replay import ReplayAsked, close_replay, plan_replay, replay
from backfill_assets.application.requests import request_of
from backfill_assets.capture.kafka.replay import ReplayTopic
from backfill_assets.capture.streams import Pace
from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import MissingInput, Refused
from backfill_assets.deliver.errors import LiveTarget, NotReplayable, TargetGone
from backfill_assets.deliver.sinks import Outgoing, Sender
from backfill_assets.domain import DayRange, KafkaReplay
from backfill_assets.examples.enforcement_sla.case_alerts import CaseAlerts
from backfill_assets.ledger.errors import CannotBecome, LostWork, NeedsAnother, TargetTaken
from backfill_assets.ledger.records import ReplayRecord
from backfill_assets.ledger.states import ReplayState
from backfill_assets.planning.errors import NoSuchName
from backfill_assets.report.pages import page_of
from backfill_assets.report.replayed import ReplayClosed, ReplayPlan, ReplayReport
from backfill_assets.report.status import StatusDocument
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import has_code
from backfill_assets_tests.support.captured_shop import (
    FIRST,
    SALES,
    CapturedShop,
    Died,
    Record,
    at_noon,
    dying_after,
    finished,
    plain_text,
    sale_record,
    sale_records,
    stopped,
)
from backfill_assets_tests.support.declaring import declaring
from backfill_assets_tests.support.kafka_broker import PASSWORD, Broker
from backfill_assets_tests.support.shop import Shop, sale

ShopOf = Callable[..., CapturedShop]
THIRD, LAST = FIRST.replace(day=3), FIRST.replace(day=4)
_numbers = count(1)


@pytest.fixture
def shop_of(broker: Broker, tmp_path: Path) -> ShopOf:
    """A shop whose sales were captured, and landed by the ledger alone: no Spark is needed."""

    def captured(records: Sequence[Record], *, partitions: int = 1, **more: object) -> CapturedShop:
        topic = f"replayed-{next(_numbers)}"
        broker.create(topic, partitions=partitions)
        broker.write(topic, records)
        shop = replace(CapturedShop(home=tmp_path / "home", broker=broker, topic=topic), **more)  # type: ignore[arg-type]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("backfill_assets.application.capture._land", lambda *_, **__: None)
            shop.capture()
        shop.lands_by_hand()
        return shop

    return captured


def send(shop: CapturedShop, into: str, *, pace: Pace | None = None, days: DayRange | None = None) -> ReplayReport:
    with closing(shop.open()) as ws:
        acting = Acting(by="ana", recorder=Unrecorded())
        asked = ReplayAsked(subject="sales", into=into, days=days, as_captured=True)
        plans: list[ReplayPlan] = []
        report = replay(ws, asked, acting, reason="a test", pace=pace or Pace(), planned=plans.append)
        assert len(plans) == 1
        return report


def close(shop: CapturedShop, replay_id: str) -> ReplayClosed:
    with closing(shop.open()) as ws:
        return close_replay(ws, replay_id, by="ana", reason="it is done")


def recorded(shop: CapturedShop) -> ReplayRecord:
    with closing(shop.open()) as ws, ws.ledger.read() as tx:
        return tx.replays.records(limit=1)[0]


def committed(broker: Broker, topic: str, *, isolation: str = "read_committed") -> list[Message]:
    """Every record that a consumer of the topic sees: the same code as of one that takes a live topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.servers,
            "group.id": f"seen-{next(_numbers)}",
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        partitions = sorted(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, each, 0) for each in partitions])
        found: list[Message] = []
        ended: set[int | None] = set()
        while len(ended) < len(partitions):
            for message in consumer.consume(10_000, timeout=1):
                error = message.error()
                if error is None:
                    found.append(message)
                else:
                    assert error.name() == "_PARTITION_EOF", error
                    ended.add(message.partition())
        return found
    finally:
        consumer.close()


def header(message: Message, name: str) -> str:
    headers = message.headers()
    assert isinstance(headers, list)
    (value,) = (value for key, value in headers if key == name)
    assert isinstance(value, bytes)
    return value.decode()


def said(message: Message) -> tuple[bytes | None, bytes | None, int | None, int]:
    return message.key(), message.value(), message.partition(), message.timestamp()[1]


def ends_of(broker: Broker, topic: str) -> list[int]:
    return [each.offset() or 0 for each in committed(broker, topic)]


def test_what_was_captured_is_sent_once_as_it_was_with_headers_and_the_topic_is_deleted_when_it_is_closed(
    shop_of: ShopOf, broker: Broker
) -> None:
    records = [*sale_records(1_500), ("s000007", None, at_noon(FIRST)), (None, b"no json \xff", at_noon(FIRST) + 1)]
    shop = shop_of(records, partitions=2)
    before = Counter(said(each) for each in committed(broker, shop.topic))
    into = f"{shop.topic}.backfill"
    with closing(shop.open()) as ws:
        plan = plan_replay(ws, ReplayAsked(subject="sales", into=into, as_captured=True))
    assert (plan.record.records, plan.record.stream_partitions, plan.record.is_live, plan.replay_id) == (
        1_502,
        2,
        False,
        None,
    )
    assert into not in broker.admin().list_topics(timeout=10).topics

    for _ in range(3):
        with pytest.raises(Died):
            send(shop, into, pace=dying_after(3, records_per_minute=6_000))
    seen = committed(broker, into)
    assert len(seen) < 1_502
    asked = recorded(shop)
    assert asked.state is ReplayState.SENDING
    (done,) = broker.committed(into, f"backfill-{asked.replay_id}-{asked.mark}")
    with open_sender(shop, asked) as zombie:
        report = send(shop, into)
        with pytest.raises(LostWork, match="no longer belongs to this process"):
            zombie.commit([Outgoing(key=b"k", value=b"v", headers=[], at=1)], 1)
    assert (report.sent, report.sent_now, report.state) == (1_502, 1_502 - done, ReplayState.SENT)
    assert 0 < len(seen) <= done < 1_502

    found = committed(broker, into)
    assert Counter(map(said, found)) == before
    first = next(each for each in found if each.key() == b"s000000")
    assert (header(first, "x-replay-id"), header(first, "x-run-id")) == ("rep-000001", "rep-000001")
    assert (header(first, "x-processing-mode"), header(first, "x-transform-version")) == ("REPLAY", "1")
    assert header(first, "x-input-snapshot").startswith("sha256:")
    sources = {header(each, "x-source") for each in found}
    assert len(sources) == 1_502
    assert all(each.startswith(f"{shop.topic}/") for each in sources)
    # Who reads the source's topic sees nothing of it.
    assert Counter(said(each) for each in committed(broker, shop.topic)) == before

    again = send(shop, into)
    assert (again.replay_id, again.sent, again.sent_now) == ("rep-000001", 1_502, 0)
    closed = close(shop, "rep-000001")
    assert (closed.deleted, closed.record.sent) == (True, 1_502)
    assert into not in broker.admin().list_topics(timeout=10).topics
    kept = recorded(shop)
    assert (kept.state, kept.target, kept.identity, sum(map(int, kept.ends.values())) > 1_502) == (
        ReplayState.CLOSED,
        into,
        report.identity,
        True,
    )


@contextmanager
def open_sender(shop: CapturedShop, record: ReplayRecord) -> Iterator[Sender]:
    declared = shop.source().replay
    assert isinstance(declared, KafkaReplay)
    with ReplayTopic(declared, record.target, secret={}).sender(record, by="ana") as sender:
        yield sender


@pytest.mark.long
def test_eighty_thousand_messages_of_a_process_that_is_killed_five_times_are_there_once_and_its_zombie_is_fenced(
    shop_of: ShopOf, broker: Broker
) -> None:
    shop = shop_of(sale_records(80_000), partitions=4, declared={"chunk": 20_000})
    before = broker.committed(shop.topic, "live", partitions=4), len(committed(broker, shop.topic))
    into = f"{shop.topic}.backfill"
    ask = ("replay", "sales", "--as-captured", "--into", into, "--by", "ana", "--reason", "why not")

    def progress() -> int:
        record = recorded(shop)
        group = f"backfill-{record.replay_id}-{record.mark}"
        return max(0, *broker.committed(into, group))

    have = 0
    for _ in range(5):
        process = shop.command(*ask, "--records-per-minute", "120000")
        until = time.monotonic() + 300
        while not has_begun(shop) or progress() < have + 8_000:
            assert process.poll() is None and time.monotonic() < until, process.communicate()
            time.sleep(0.05)
        process.kill()
        process.communicate()
        have = progress()
    assert 40_000 <= have < 80_000
    zombie = shop.command(*ask, "--records-per-minute", "120000")
    while progress() < have + 2_000:
        assert zombie.poll() is None
        time.sleep(0.05)
    zombie.send_signal(signal.SIGSTOP)
    code, out = finished(shop.command(*ask))
    assert (code, "80,000 records in the topic" in out) == (0, True), out
    zombie.send_signal(signal.SIGCONT)
    code, out = finished(zombie)
    assert (code, "no longer belongs to this process" in out, "rdkafka" in out) == (1, True, False), out

    found = committed(broker, into)
    assert len(found) == 80_000
    assert len({each.key() for each in found}) == len({header(each, "x-source") for each in found}) == 80_000
    assert {(header(each, "x-replay-id"), header(each, "x-processing-mode")) for each in found} == {
        ("rep-000001", "REPLAY")
    }
    assert len(committed(broker, into, isolation="read_uncommitted")) >= 80_000
    assert (broker.committed(shop.topic, "live", partitions=4), len(committed(broker, shop.topic))) == before


def has_begun(shop: CapturedShop) -> bool:
    with closing(shop.open()) as ws, ws.ledger.read() as tx:
        return any(each.state is not ReplayState.ASKED for each in tx.replays.records())


@pytest.mark.long
def test_an_application_takes_the_live_topic_and_a_replay_by_the_same_code_and_acts_on_what_is_live(
    shop_of: ShopOf, broker: Broker
) -> None:
    shop = shop_of([*sale_records(200), ("s000007", None, at_noon(LAST) + 1_000)], partitions=2)
    into = f"{shop.topic}.backfill"
    send(shop, into)
    broker.write(shop.topic, [sale_record(number, day=LAST, amount=99) for number in range(300, 310)])
    usual = {"bootstrap.servers": broker.servers, "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    consumer = Consumer({**usual, "group.id": f"alerts-{shop.topic}"})
    consumer.subscribe([shop.topic, into])
    both = CaseAlerts()
    taken: Counter[str | None] = Counter()
    try:
        until = time.monotonic() + 60
        while taken.total() < 412:
            assert time.monotonic() < until, taken
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                headers = message.headers() or []
                assert isinstance(headers, list)
                sent_at = message.timestamp()[1]
                both.take(message.key(), message.value(), sent_at=sent_at, headers=dict(headers))  # type: ignore[arg-type]
                taken[message.topic()] += 1
    finally:
        consumer.close()
    assert taken == {shop.topic: 211, into: 201}
    live = CaseAlerts()
    for message in sorted(committed(broker, shop.topic), key=lambda each: each.offset() or 0):
        live.take(message.key(), message.value(), sent_at=message.timestamp()[1], headers={})
    assert both.last == live.last
    assert live.last[b"s000007"][1] is None
    assert both.alerts == live.alerts == 211


@pytest.mark.long
def test_without_the_right_secret_nothing_is_sent_and_it_is_shown_nowhere(shop_of: ShopOf, broker: Broker) -> None:
    shop = shop_of(sale_records(20))
    into = f"{shop.topic}.backfill"
    secured = {"TEST_KAFKA_SECURED": "yes", "TEST_KAFKA_SERVERS": broker.secured_servers}
    ask = ("replay", "sales", "--as-captured", "--into", into, "--by", "ana", "--reason", "why not")
    code, said = finished(shop.command(*ask, more=secured))
    assert (code, "the secret TEST_KAFKA_PASSWORD is not there" in said) == (1, True), said
    code, said = finished(shop.command(*ask, more={**secured, "TEST_KAFKA_PASSWORD": "wrong-password"}))
    assert (code, "does not accept the credentials" in said, "wrong-password" in said) == (1, True, False), said
    assert into not in broker.admin().list_topics(timeout=10).topics
    code, said = finished(shop.command(*ask, more={**secured, "TEST_KAFKA_PASSWORD": PASSWORD}))
    assert (code, "20 records in the topic" in said, PASSWORD in said) == (0, True, False), said
    kept = b"".join(path.read_bytes() for path in shop.home.rglob("*") if path.is_file())
    assert PASSWORD.encode() not in kept
    assert b"wrong-password" not in kept


@pytest.mark.long
def test_a_topic_that_was_there_is_refused_unless_it_is_declared_and_another_person_agrees(
    shop_of: ShopOf, broker: Broker
) -> None:
    shop = shop_of(sale_records(20))
    live = f"{shop.topic}-live"
    broker.create(live)
    for topic in (live, shop.topic):
        with pytest.raises(LiveTarget, match="was not created by a replay"):
            send(shop, topic)
    allowed = replace(shop, live_topics=(live,))
    assert send(allowed, live).waits
    assert send(allowed, live).waits
    with closing(allowed.open()) as ws:
        status = look.status(ws, None)
        assert isinstance(status, StatusDocument)
        assert [(each.record.replay_id, each.record.waits) for each in status.replays] == [("rep-000001", True)]
        assert "Replays that are not closed" in plain_text(page_of(status))
    assert committed(broker, live) == []
    with closing(allowed.open()) as ws:
        with pytest.raises(NeedsAnother, match="was requested by ana"):
            request_of(ws, "rep-000001").approve(by="Ana", note="")
        approved = request_of(ws, "rep-000001").approve(by="ben", note="as agreed")
        assert isinstance(approved, ReplayRecord)
        assert approved.records == 20
    with pytest.raises(LiveTarget):  # what was approved is not what is declared any more
        send(shop, live)
    assert send(allowed, live).sent == 20
    assert len(committed(broker, live)) == 20
    assert close(allowed, "rep-000001").deleted is False
    assert len(committed(broker, live)) == 20


@pytest.mark.long
def test_a_topic_that_is_gone_or_another_one_and_a_forgotten_progress_are_refused(
    shop_of: ShopOf, broker: Broker
) -> None:
    shop = shop_of(sale_records(300))
    into = f"{shop.topic}.backfill"
    with pytest.raises(Died):
        send(shop, into, pace=dying_after(2, records_per_minute=6_000))
    with pytest.raises(TargetTaken, match="belongs to replay rep-000001"):
        send(shop, into, days=DayRange.inclusive(FIRST, FIRST))
    record = recorded(shop)
    group = f"backfill-{record.replay_id}-{record.mark}"
    admin = broker.admin()
    admin.delete_consumer_groups([group])[group].result(30)
    with pytest.raises(Refused, check=has_code("progress_lost")):
        send(shop, into)
    broker.delete(into)
    with pytest.raises(TargetGone, match=r"is gone\.$"):
        send(shop, into)
    broker.create(into)
    with pytest.raises(TargetGone, match="another one has its name"):
        send(shop, into)
    assert close(shop, "rep-000001").deleted is False
    assert into in broker.admin().list_topics(timeout=10).topics
    with pytest.raises(LiveTarget):
        send(shop, into)
    assert send(shop, f"{into}.2").sent == 300


@pytest.mark.long
def test_a_process_that_died_between_the_topic_and_the_ledger_goes_on_with_its_topic(
    shop_of: ShopOf, broker: Broker
) -> None:
    shop = shop_of(sale_records(30))
    into = f"{shop.topic}.backfill"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("backfill_assets.ledger.replays.ReplayWrites.identify", stopped)
        with pytest.raises(RuntimeError):
            send(shop, into)
    assert recorded(shop).identity is None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("backfill_assets.ledger.replays.ReplayWrites.sending", stopped)
        with pytest.raises(RuntimeError):
            send(shop, into)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("backfill_assets.ledger.replays.ReplayWrites.sent", stopped)
        with pytest.raises(RuntimeError):
            send(shop, into)
    report = send(shop, into)
    assert (report.sent, report.sent_now, len(committed(broker, into))) == (30, 0, 30)


@pytest.mark.long
def test_a_replay_that_is_closed_while_it_is_sent_sends_nothing_more(shop_of: ShopOf, broker: Broker) -> None:
    shop = shop_of(sale_records(500))
    into = f"{shop.topic}.backfill"
    seen = count(1)

    def wait(_: float) -> None:
        if next(seen) == 2:
            assert close(shop, "rep-000001").deleted

    with pytest.raises(LostWork, match="or closed it"):
        send(shop, into, pace=Pace(records_per_minute=6_000, wait=wait))
    assert (recorded(shop).state, recorded(shop).sent) == (ReplayState.CLOSED, None)
    assert into not in broker.admin().list_topics(timeout=10).topics
    with pytest.raises(CannotBecome):
        close(shop, "rep-000001")
    # The topic may be had again, by a new replay.
    assert send(shop, into).replay_id == "rep-000002"


@pytest.mark.long
def test_a_replay_that_was_closed_before_its_topic_was_there_leaves_none(shop_of: ShopOf, broker: Broker) -> None:
    shop = shop_of(sale_records(20))
    into = f"{shop.topic}.backfill"

    def closes(point: Point) -> None:
        if point is Point.REPLAY_ASKED:
            assert close(shop, "rep-000001").deleted is False

    with closing(shop.open()) as ws, pytest.raises(LostWork, match="or closed it"):
        asked, acting = (
            ReplayAsked(subject="sales", into=into, as_captured=True),
            Acting(by="ana", recorder=Unrecorded()),
        )
        replay(replace(ws, reached=closes), asked, acting, reason="a test", pace=Pace(), planned=lambda _: None)
    assert into not in broker.admin().list_topics(timeout=10).topics


@pytest.mark.long
def test_a_replay_to_a_live_topic_that_was_closed_before_it_goes_on_sends_nothing(
    shop_of: ShopOf, broker: Broker
) -> None:
    shop = shop_of(sale_records(20))
    live = f"{shop.topic}-live"
    broker.create(live)
    shop = replace(shop, live_topics=(live,))
    assert send(shop, live).waits
    with closing(shop.open()) as ws:
        request_of(ws, "rep-000001").approve(by="ben", note="")
    with pytest.raises(Died):
        send(shop, live, pace=dying_after(1, records_per_minute=300))
    before = len(committed(broker, live))
    assert 0 < before < 20

    def closes(_: ReplayPlan) -> None:
        close(shop, "rep-000001")

    with closing(shop.open()) as ws, pytest.raises(LostWork, match="or closed it"):
        asked, acting = (
            ReplayAsked(subject="sales", into=live, as_captured=True),
            Acting(by="ana", recorder=Unrecorded()),
        )
        replay(ws, asked, acting, reason="a test", pace=Pace(), planned=closes)
    assert len(committed(broker, live)) == before


@pytest.mark.long
def test_a_captured_file_that_was_refused_or_has_not_landed_is_not_sent(shop_of: ShopOf, broker: Broker) -> None:
    shop = shop_of(sale_records(20))
    broker.write(shop.topic, sale_records(5, start=20))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("backfill_assets.application.capture._land", lambda *_, **__: None)
        assert shop.capture().captured == 5
    report = send(shop, f"{shop.topic}.backfill")
    assert (report.sent, report.plan.record.records, report.plan.record.inputs) == (20, 20, 1)


@pytest.mark.long
def test_only_the_days_that_were_asked_for_are_sent(shop_of: ShopOf, broker: Broker) -> None:
    shop = shop_of(sale_records(40, days=4), declared={"chunk": 7})
    days = DayRange.inclusive(FIRST.replace(day=2), FIRST.replace(day=3))
    report = send(shop, f"{shop.topic}.backfill", days=days)
    assert report.sent == 20
    found = committed(broker, f"{shop.topic}.backfill")
    assert {json.loads(each.value() or b"")["sale_id"] for each in found} == {f"s{n:06}" for n in range(10, 30)}


@pytest.mark.long
def test_a_table_that_declares_no_replay_is_not_sent(shop_of: ShopOf) -> None:
    shop = shop_of([sale_record(1)])
    with closing(shop.open()) as ws:
        (table,) = ws.domain.sources
        kept = replace(ws, domain=replace(ws.domain, sources=(replace(table, replay=None),)))
        with pytest.raises(NotReplayable, match=f"{SALES} declares no replay"):
            plan_replay(kept, ReplayAsked(subject="sales", into="anywhere"))


@pytest.fixture
def outgoing(broker: Broker) -> Callable[[Workspace], Workspace]:
    """A workspace whose tables may be replayed to the broker."""
    allowed = KafkaReplay(servers=broker.servers, partitions=2)

    return lambda ws: declaring(ws, replay=allowed)


def out_of(ws: Workspace, subject: str, into: str) -> ReplayReport:
    acting = Acting(by="ana", recorder=Unrecorded())
    asked = ReplayAsked(subject=subject, into=into)
    return replay(ws, asked, acting, reason="a test", pace=Pace(), planned=lambda _: None)


@pytest.mark.long
def test_published_rows_are_sent_and_keys_that_a_run_took_away_are_deleted(
    published_shop: Shop, broker: Broker, outgoing: Callable[[Workspace], Workspace]
) -> None:
    shop, ws = published_shop, outgoing(published_shop.ws)
    report = out_of(ws, "recent_sales", "recent")
    found = {each.key(): each for each in committed(broker, "recent")}
    assert (report.sent, len(found), report.plan.record.stream_partitions) == (7, 7, 2)
    third = found[b'{"day": "2026-01-03", "shop": "only"}']
    assert json.loads(third.value() or b"") == {"day": "2026-01-03", "shop": "only", "amount": shop.amounts()[THIRD]}
    assert (third.timestamp()[1], header(third, "x-transform-version")) == (at_noon(THIRD) - 12 * 3_600_000, "0.9.0")
    (run_id,) = {header(each, "x-run-id") for each in found.values()}
    assert header(third, "x-input-snapshot") == "silver.recent_sales@1"

    # Of a source, the rows of bronze.
    sold = out_of(ws, "sales", "sold")
    rows = {f'{{"sale_id": "{each["sale_id"]}"}}'.encode(): each["amount"] for each in shop.kit.rows(SALES)}
    assert (sold.sent, sold.left_out, len(rows)) == (10, 0, 10)
    assert {each.key(): json.loads(each.value() or b"")["amount"] for each in committed(broker, "sold")} == rows

    # Without the sales of its window there is no row of the third: a run that replaces it deletes its key.
    for day in range(1, 5):
        key = {"sale_id": f"sale-2026-01-0{day}"}
        operations.withdraw(shop.ws, SALES, key, by="ana", reason="never sold")
    shop.land("more.jsonl", [sale(FIRST.replace(day=10), sale_id="another")])
    again = shop.published(version="1.0.0")
    assert out_of(ws, again, "again").sent == 7
    sent = {each.key(): each for each in committed(broker, "again")}
    assert {header(each, "x-run-id") for each in sent.values()} == {again} != {run_id}
    assert [key for key, each in sent.items() if each.value() is None] == [third.key()]
    with pytest.raises(MissingInput, check=has_code("nothing_to_replay")):
        plan_replay(ws, ReplayAsked(subject=again, into="none", days=DayRange.inclusive(FIRST, FIRST)))
    with pytest.raises(NoSuchName):
        plan_replay(ws, ReplayAsked(subject="nothing", into="none"))


@pytest.mark.long
def test_deleted_keys_of_a_changelog_have_no_value(broker: Broker, tmp_path: Path, spark: SparkSession) -> None:
    sales = [*sale_records(4, days=1), ("s000001", None, at_noon(FIRST) + 10), ("s000002", None, at_noon(FIRST) + 20)]
    broker.create("deleted")
    broker.write("deleted", sales)
    shop = CapturedShop(home=tmp_path / "home", broker=broker, topic="deleted", spark=spark)
    shop.capture(builds=True)
    with closing(shop.open()) as ws:
        with ws.ledger.read() as tx:
            last, *_ = tx.runs.headers(table=SALES)
        report = out_of(ws, last.run_id, "without")
    found = [(each.key(), each.value() is None) for each in committed(broker, "without")]
    assert sorted(found) == [(b"s000000", False), (b"s000001", True), (b"s000002", True), (b"s000003", False)]
    assert report.sent == 4
