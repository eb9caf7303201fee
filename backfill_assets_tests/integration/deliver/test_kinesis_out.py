"""Replays to streams of a server of Kinesis: every record is there, the records of a key in order, whatever happens."""

from __future__ import annotations

import base64
import json
import random
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, timedelta
from itertools import count
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.application.replay import ReplayAsked, close_replay, plan_replay, replay
from backfill_assets.capture.errors import StreamFailed
from backfill_assets.capture.kinesis.replay import LARGEST, MOST_RECORDS
from backfill_assets.capture.streams import Pace
from backfill_assets.core.errors import Refused
from backfill_assets.deliver.errors import LiveTarget, TargetGone
from backfill_assets.domain import KafkaReplay, KinesisReplay
from backfill_assets.ledger.errors import CannotBecome, LostWork
from backfill_assets.ledger.records import ReplayRecord
from backfill_assets.ledger.states import ReplayState
from backfill_assets.report.command_line import explained
from backfill_assets.report.pages import page_of
from backfill_assets.report.replayed import ReplayClosed, ReplayPlan, ReplayReport
from backfill_assets.upkeep.audit import audit
from backfill_assets.workspace import Workspace
from backfill_assets_tests.domains.streamed import NAMES, REGION
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import has_code
from backfill_assets_tests.support.captured_shop import FIRST, SALES, Died, dying_after, finished, plain_text, stopped
from backfill_assets_tests.support.declaring import declaring
from backfill_assets_tests.support.kinesis_faults import Faults, Limits, faulty
from backfill_assets_tests.support.kinesis_server import KinesisServer
from backfill_assets_tests.support.kinesis_shop import KinesisShop, sales, versions
from backfill_assets_tests.support.shop import Shop, sale

ShopOf = Callable[..., KinesisShop]
_numbers = count(1)


@pytest.fixture
def shop_of(kinesis: KinesisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ShopOf:
    """A shop whose sales were captured, and landed by the ledger alone: no Spark is needed."""
    monkeypatch.setattr("backfill_assets.application.capture._land", lambda *_, **__: None)

    def captured(records: Sequence[tuple[str, bytes]], *, of: int = 1, home: str = "home", **more: Any) -> KinesisShop:
        stream = f"replayed-{next(_numbers)}"
        kinesis.create(stream, shards=of)
        kinesis.write(stream, records)
        shop = KinesisShop(home=tmp_path / home, topic=stream, endpoint=kinesis.endpoint, **more)
        assert shop.capture().captured == len(records)
        shop.lands_by_hand()
        return shop

    return captured


def send(shop: KinesisShop, into: str, *, pace: Pace | None = None) -> ReplayReport:
    with closing(shop.open()) as ws:
        return sent_by(ws, "sales", into, pace=pace)


def sent_by(ws: Workspace, subject: str, into: str, *, pace: Pace | None = None) -> ReplayReport:
    plans: list[ReplayPlan] = []
    acting = Acting(by="ana", recorder=Unrecorded())
    asked = ReplayAsked(subject=subject, into=into, as_captured=subject == "sales")
    return replay(ws, asked, acting, reason="a test", pace=pace or Pace(), planned=plans.append)


def close(shop: KinesisShop, replay_id: str = "rep-000001") -> ReplayClosed:
    with closing(shop.open()) as ws:
        return close_replay(ws, replay_id, by="ana", reason="it is done")


def recorded(shop: KinesisShop) -> ReplayRecord:
    with closing(shop.open()) as ws, ws.ledger.read() as tx:
        return tx.replays.records(limit=1)[0]


Envelope = Mapping[str, Any]


def arrived(server: KinesisServer, stream: str) -> list[tuple[str, Envelope]]:
    """The partition key and the envelope of everything in a stream, shard by shard."""
    found = server.records(stream)
    return [(each["PartitionKey"], json.loads(each["Data"])) for shard in found.values() for each in shard]


def consumed(server: KinesisServer, stream: str) -> list[tuple[str, Envelope]]:
    """What a consumer sees that drops what it has seen, as docs/replay.md says; the numbers of a key are in order."""
    last: dict[str, int] = defaultdict(int)
    kept: list[tuple[str, Envelope]] = []
    seen: set[int] = set()
    for key, envelope in arrived(server, stream):
        if envelope["sequence"] > last[key]:
            last[key] = envelope["sequence"]
            kept.append((key, envelope))
        else:
            assert envelope["sequence"] in seen, "a record came behind a later one of its key, and not before it"
        seen.add(envelope["sequence"])
    return kept


def by_key(found: Sequence[tuple[str, Envelope]]) -> Mapping[str, list[Any]]:
    """The values of each key, in the order in which they came."""
    values: dict[str, list[Any]] = defaultdict(list)
    for key, envelope in found:
        values[key].append(envelope["value"])
    return values


def as_written(records: Sequence[tuple[str, bytes]]) -> Mapping[str, list[Any]]:
    values: dict[str, list[Any]] = defaultdict(list)
    for key, value in records:
        values[key].append(json.loads(value))
    return values


@pytest.mark.long
def test_what_was_captured_is_sent_again_in_the_order_of_each_key_while_records_are_refused_and_processes_die(
    shop_of: ShopOf, kinesis: KinesisServer
) -> None:
    written = [*versions(40, 6), ("binary", b"no json \xff")]
    chance = random.Random(33)
    with faulty(kinesis.port, Faults(refuses=lambda *_: chance.random() < 0.15)) as faults:
        shop = shop_of(written, of=2, replays=faults.endpoint)
        with closing(shop.open()) as ws:
            plan = plan_replay(ws, ReplayAsked(subject="sales", into="backfill-1", as_captured=True))
        assert (plan.record.family, plan.delivery, plan.record.stream_partitions) == ("kinesis", "at least once", 2)
        assert not plan.record.is_live
        assert "delivered at least once" in " ".join(plain_text(page_of(plan)).split())
        assert "backfill-1" not in kinesis.streams
        for _ in range(2):
            with pytest.raises(Died):
                send(shop, "backfill-1", pace=dying_after(2, records_per_minute=2_400))
        report = send(shop, "backfill-1")
        assert (report.sent, report.sent_now, report.state) == (241, 81, ReplayState.SENT)
        assert faults.refused > 20
        # Otherwise a record that is refused would come behind a later one of its key.
        assert all(len({each["PartitionKey"] for each in asked}) == len(asked) for asked in faults.requests)
    shop = replace(shop, replays="")

    found = consumed(kinesis, "backfill-1")
    assert sorted(envelope["sequence"] for _, envelope in found) == list(range(1, 242))
    envelopes = [envelope for key, envelope in found if key != "binary"]
    assert by_key([each for each in found if each[0] != "binary"]) == as_written(written[:-1])
    (binary,) = (envelope for key, envelope in found if key == "binary")
    assert base64.b64decode(binary["value_base64"]) == b"no json \xff"
    headers = dict(envelopes[0]["headers"])
    assert (headers["x-processing-mode"], headers["x-delivery"]) == ("REPLAY", "at-least-once")
    assert (headers["x-replay-id"], headers["x-run-id"]) == ("rep-000001", "rep-000001")
    assert headers["x-source"].startswith(f"{shop.topic}/shardId-000000000000@")
    assert headers["x-input-snapshot"].startswith("sha256:")
    assert len({dict(each["headers"])["x-source"] for each in envelopes}) == 240
    arrivals = [each["ApproximateArrivalTimestamp"] for shard in kinesis.records(shop.topic).values() for each in shard]
    iso = {at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") for at in arrivals}
    assert {each["at"].removesuffix("Z") for each in envelopes} <= iso

    assert send(shop, "backfill-1").sent_now == 0
    summary = kinesis.client.describe_stream_summary(StreamName="backfill-1")["StreamDescriptionSummary"]
    assert summary["RetentionPeriodHours"] == 7 * 24
    for live in (shop.topic, "another"):
        if live == "another":
            kinesis.create(live)
        with pytest.raises(LiveTarget, match="was not created by a replay") as refused:
            send(shop, live)
        assert "live_topics" not in explained(refused.value)
    closed = close(shop)
    assert (closed.deleted, closed.record.sent, "backfill-1" in kinesis.streams) == (True, 241, False)
    kept = recorded(shop)
    assert (kept.state, kept.target, kept.identity) == (ReplayState.CLOSED, "backfill-1", report.identity)
    assert sorted(kept.ends) == ["shardId-000000000000", "shardId-000000000001"]
    with closing(shop.open()) as ws:
        assert not audit(ws).problems


@pytest.mark.long
def test_a_process_that_is_killed_five_times_goes_on_without_loss_and_its_zombie_is_refused(
    shop_of: ShopOf, kinesis: KinesisServer
) -> None:
    written = list(versions(2_000, 8))
    killed: list[int] = []
    process: Popen[str] | None = None

    def kill(number: int) -> bool:
        """When what it asks for is written, before it has the answer."""
        if process is None or number < killed[-1] + 8:
            return False
        process.kill()
        return True

    with faulty(kinesis.port, Faults(loses=kill)) as faults:
        shop = shop_of(written, of=2, replays=faults.endpoint, shards=4)
        into = "backfill-killed"
        ask = ("replay", "sales", "--as-captured", "--into", into, "--by", "ana", "--reason", "why not")
        slow = (*ask, "--records-per-minute", "60000")
        for _ in range(5):
            killed.append(len(faults.requests))
            process = shop.command(*slow)
            process.communicate(timeout=300)
            assert process.returncode == -signal.SIGKILL
        process = None
        have = progress(shop)
        assert 2_000 <= have < 14_000
        zombie = shop.command(*slow)
        while progress(shop) < have + 1_000:
            assert zombie.poll() is None
            time.sleep(0.02)
        zombie.send_signal(signal.SIGSTOP)
        code, out = finished(shop.command(*ask))
        assert (code, "16,000 records in the stream" in out, "at least once" in out) == (0, True, True), out
        zombie.send_signal(signal.SIGCONT)
        code, out = finished(zombie)
        assert (code, "no longer belongs to this process" in out) == (1, True), out
    found = consumed(kinesis, into)
    assert {envelope["sequence"] for _, envelope in found} == set(range(1, 16_001))
    assert by_key(found) == as_written(written)
    assert len(arrived(kinesis, into)) > 16_000  # what was in flight came again
    assert close(replace(shop, replays="")).deleted


def progress(shop: KinesisShop) -> int:
    with closing(shop.open()) as ws, ws.ledger.read() as tx:
        return max((each.progress or 0 for each in tx.replays.records()), default=0)


@pytest.mark.long
def test_no_second_has_more_than_a_shard_takes_and_what_others_take_of_it_is_sent_later(
    shop_of: ShopOf, kinesis: KinesisServer
) -> None:
    written = list(versions(1_200, 2))
    limits = Limits(shards=1)
    with faulty(kinesis.port, Faults(refuses=limits.refuse)) as faults:
        shop = shop_of(written, replays=faults.endpoint, shards=1)
        assert send(shop, "backfill-limits").sent == 2_400
        assert faults.refused == 0
        assert max(map(len, faults.requests)) <= MOST_RECORDS
    assert by_key(consumed(kinesis, "backfill-limits")) == as_written(written)
    busy = Limits(shards=2, records=150)
    with faulty(kinesis.port, Faults(refuses=busy.refuse)) as faults:
        throttled = replace(shop, replays=faults.endpoint, shards=2)
        assert send(throttled, "backfill-busy").sent == 2_400
        assert faults.refused > 100
    found = arrived(kinesis, "backfill-busy")
    assert len(found) == 2_400  # what was refused was sent again, and nothing else
    assert by_key(found) == as_written(written)
    large = [(f"large-{number}", json.dumps({"text": "x" * 300_000}).encode()) for number in range(24)]
    limits = Limits(shards=1)
    with faulty(kinesis.port, Faults(refuses=limits.refuse)) as faults:
        shop = shop_of(large, home="large", replays=faults.endpoint, shards=1)
        assert send(shop, "backfill-large").sent == 24
        assert faults.refused <= 2  # three of them are a second; the clock of the other side is its own
        sizes = [sum(len(each["Data"]) for each in asked) * 3 // 4 for asked in faults.requests]
        assert max(sizes) <= 5 * 2**20


@pytest.mark.long
def test_what_was_written_and_not_answered_is_sent_again_with_the_same_number(
    shop_of: ShopOf, kinesis: KinesisServer
) -> None:
    written = list(versions(300, 4))
    with faulty(kinesis.port, Faults(loses=lambda number: number % 3 == 1)) as faults:
        shop = shop_of(written, replays=faults.endpoint)
        assert send(shop, "backfill-lost").sent == 1_200
    found = arrived(kinesis, "backfill-lost")
    assert len(found) > 1_200
    kept = consumed(kinesis, "backfill-lost")
    assert len(kept) == 1_200
    assert by_key(kept) == as_written(written)


@pytest.mark.long
def test_a_server_that_goes_away_stops_the_replay_in_one_sentence_and_it_goes_on(
    shop_of: ShopOf, kinesis: KinesisServer
) -> None:
    shop = shop_of(sales(300))
    faults = Faults(refuses=lambda *_: True)
    with faulty(kinesis.port, faults):
        away = replace(shop, replays=faults.endpoint)
        with pytest.raises(StreamFailed, match="the stream backfill-away stopped: it did not answer within 5 s"):
            send(away, "backfill-away")
        assert recorded(shop).progress == 0
        faults.refuses = lambda *_: False
        assert send(away, "backfill-away").sent == 300


@pytest.mark.long
def test_a_stream_that_is_gone_or_another_one_and_another_kind_of_sink_are_refused(
    shop_of: ShopOf, kinesis: KinesisServer
) -> None:
    shop = shop_of(sales(300))
    with pytest.raises(Died):
        send(shop, "backfill-gone", pace=dying_after(2, records_per_minute=6_000))
    with closing(shop.open()) as ws:
        kafka = KafkaReplay(servers="127.0.0.1:9", answers_within=timedelta(seconds=1))
        other = replace(ws, domain=replace(ws.domain, sources=(replace(shop.source(), replay=kafka),)))
        with pytest.raises(
            Refused, check=has_code("other_sink_declared"), match="sends to a stream, and the replay that"
        ):
            close_replay(other, "rep-000001", by="ana", reason="another")
        with pytest.raises(Refused, check=has_code("bad_target_name"), match="'a stream' is not the name of a stream"):
            sent_by(ws, "sales", "a stream")
    kinesis.delete("backfill-gone")
    with pytest.raises(TargetGone, match=r"the stream backfill-gone of replay rep-000001 is gone\.$"):
        send(shop, "backfill-gone")
    time.sleep(1.1)  # a stream is known by the second in which it was created
    kinesis.create("backfill-gone")
    with pytest.raises(TargetGone, match="another one has its name"):
        send(shop, "backfill-gone")
    assert close(shop).deleted is False
    assert "backfill-gone" in kinesis.streams
    with pytest.raises(LiveTarget):
        send(shop, "backfill-gone")
    assert send(shop, "backfill-gone.2").sent == 300


@pytest.mark.long
def test_a_process_that_died_between_the_stream_and_the_ledger_goes_on_with_its_stream(
    shop_of: ShopOf, kinesis: KinesisServer
) -> None:
    shop = shop_of(sales(30))
    for step in ("identify", "take", "progressed", "sending", "sent"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(f"backfill_assets.ledger.replays.ReplayWrites.{step}", stopped)
            with pytest.raises(RuntimeError):
                send(shop, "backfill-steps")
    report = send(shop, "backfill-steps")
    assert (report.sent, report.sent_now, len(arrived(kinesis, "backfill-steps"))) == (30, 0, 30)


@pytest.mark.long
def test_a_replay_that_is_closed_while_it_is_sent_sends_nothing_more(shop_of: ShopOf, kinesis: KinesisServer) -> None:
    shop = shop_of(sales(500))
    seen = count(1)

    def wait(_: float) -> None:
        if next(seen) == 2:
            assert close(shop).deleted

    with pytest.raises(LostWork, match="or closed it"):
        send(shop, "backfill-closed", pace=Pace(records_per_minute=6_000, wait=wait, now=lambda: 0.0))
    assert (recorded(shop).state, recorded(shop).sent) == (ReplayState.CLOSED, None)
    assert "backfill-closed" not in kinesis.streams
    with pytest.raises(CannotBecome):
        close(shop)
    assert send(shop, "backfill-closed").replay_id == "rep-000002"


@pytest.mark.long
def test_a_record_that_no_shard_takes_is_refused(shop_of: ShopOf) -> None:
    shop = shop_of([("k", json.dumps({"text": "x" * (LARGEST - 200)}).encode())])
    with pytest.raises(Refused, check=has_code("too_large_for_stream"), match="has at most 1,048,576") as refused:
        send(shop, "backfill-large-one")
    assert "replay to a topic" in explained(refused.value)
    assert close(shop).deleted


@pytest.mark.long
def test_rows_of_runs_are_sent_with_deletes_of_the_keys_that_a_run_took_away(
    published_shop: Shop, kinesis: KinesisServer
) -> None:
    shop = published_shop
    allowed = KinesisReplay(region=REGION, endpoint=kinesis.endpoint, secrets=NAMES)
    ws = declaring(shop.ws, replay=allowed)
    for day in range(1, 5):
        key = {"sale_id": f"sale-2026-01-0{day}"}
        operations.withdraw(shop.ws, SALES, key, by="ana", reason="never sold")
    shop.land("more.jsonl", [sale(FIRST.replace(day=10), sale_id="another")])
    run_id = shop.published(version="1.0.0")
    assert sent_by(ws, run_id, "backfill-run").sent == 7
    found = dict(arrived(kinesis, "backfill-run"))
    gone = '{"day": "2026-01-03", "shop": "only"}'
    assert [key for key, envelope in found.items() if envelope["value"] is None] == [gone]
    assert found[gone]["key"] == gone
    assert {dict(each["headers"])["x-run-id"] for each in found.values()} == {run_id}
    assert {each["at"] for each in found.values()} <= {f"2026-01-{day:02}T00:00:00.000Z" for day in range(1, 32)}
