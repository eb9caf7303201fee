"""Operations that are killed while records come in from streams, or go out to topics and streams again.

What the other side has is looked at too: a capture that goes on reads nothing twice, a topic has every record once, a
stream every record at least once with its number, and no topic or stream that was created stays behind.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from hashlib import sha256

from confluent_kafka import Consumer, TopicPartition

from backfill_assets.application.capture import CaptureRange, capture
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.application.replay import ReplayAsked, close_replay, replay
from backfill_assets.capture.landed_files import STATEMENT, landing_place
from backfill_assets.capture.streams import Pace
from backfill_assets.domain import KafkaReplay, KafkaTopic, KinesisReplay, KinesisStream
from backfill_assets.ledger.states import COUNTING, ReplayState
from backfill_assets.workspace import Workspace
from backfill_assets_tests.domains import captured_api, streamed
from backfill_assets_tests.faults.outside import servers
from backfill_assets_tests.faults.scenario import Notes, Scenario
from backfill_assets_tests.support.captured_shop import FIRST, sale_records
from backfill_assets_tests.support.declaring import declaring
from backfill_assets_tests.support.kinesis_shop import SECRETS
from backfill_assets_tests.support.shop import RECENT, SALES, Shop

LAST = FIRST + timedelta(days=3)
SOLD = 12
TOPIC = "sold"
A_MOMENT = timedelta(seconds=20)
_ACTING = Acting(by="ana", recorder=Unrecorded())


# ------------------------------------------------------------------------------------------------------------ captures


def _an_api(_: Shop) -> Notes:
    """Twelve sales of four days, eight at once."""
    api = servers().api
    if not api.sales:
        api.sell(SOLD)
    return {"api": api.url}


def _of_the_api(ws: Workspace, notes: Notes) -> Workspace:
    return declaring(ws, capture=replace(captured_api.API, url=f"{notes['api']}/v1/sales", parameters={"limit": "8"}))


def _a_topic(_: Shop) -> Notes:
    """Twelve sales in two partitions, eight at once."""
    broker = servers().broker
    if TOPIC not in broker.admin().list_topics(timeout=30).topics:
        broker.create(TOPIC, partitions=2)
        broker.write(TOPIC, sale_records(SOLD))
    return {"broker": broker.servers}


def _of_the_topic(ws: Workspace, notes: Notes) -> Workspace:
    return declaring(ws, capture=KafkaTopic(topic=TOPIC, servers=notes["broker"], chunk=8, answers_within=A_MOMENT))


def _a_stream(_: Shop) -> Notes:
    """Twelve sales in three shards."""
    kinesis = servers().kinesis
    if TOPIC not in kinesis.streams:
        kinesis.create(TOPIC, shards=3)
        kinesis.write(TOPIC, [(str(key), str(value).encode()) for key, value, _ in sale_records(SOLD)])
    return {"kinesis": kinesis.endpoint}


def _of_the_stream(ws: Workspace, notes: Notes) -> Workspace:
    os.environ.update(SECRETS)
    stream = KinesisStream(stream=TOPIC, region=streamed.REGION, endpoint=notes["kinesis"], secrets=streamed.NAMES)
    return declaring(ws, capture=replace(stream, answers_within=A_MOMENT))


def _declared(ws: Workspace, notes: Notes) -> Workspace:
    if "api" in notes:
        return _of_the_api(ws, notes)
    return _of_the_stream(ws, notes) if "kinesis" in notes else _of_the_topic(ws, notes)


def _captured(ws: Workspace, notes: Notes) -> None:
    # Records of a stream are of the time at which they arrived.
    asked = CaptureRange(first=FIRST, last=None if "kinesis" in notes else LAST)
    capture(_declared(ws, notes), SALES, asked, _ACTING, reason="why not", pace=Pace(), builds=False)


def _reconciled(ws: Workspace, notes: Notes) -> None:
    """Everything that the API has of the days, once: what the home has besides is withdrawn."""
    with ws.ledger.read() as tx:
        if any(each.format == STATEMENT for each in tx.imports.records(SALES, COUNTING)):
            return
    asked = CaptureRange(first=FIRST, last=LAST, is_whole=True, confirmed_by="ben")
    capture(_declared(ws, notes), SALES, asked, _ACTING, reason="why not", pace=Pace(), builds=False)


def _capture_finished(
    shop: Shop, notes: Notes, *, act: Callable[[Workspace, Notes], None], built: Callable[[Shop], None]
) -> None:
    """The same capture goes on; given once more it has nothing left to do. The days are built of what landed."""
    act(shop.ws, notes)
    with shop.ws.ledger.read() as tx:
        files = tx.captures.files(SALES)
    act(shop.ws, notes)
    with shop.ws.ledger.read() as tx:
        assert tx.captures.files(SALES) == files, "what was captured is captured again"
    assert sum(each.records for each in files) == SOLD, f"{[(f.range_from, f.range_to, f.records) for f in files]}"
    folders = {each.stored_path.rpartition("/")[0] for each in files}
    there = {path for folder in folders for path in _files_in(shop, folder)}
    assert there == {each.stored_path for each in files}, f"files of no capture are left: {sorted(there)}"
    built(shop)


def _files_in(shop: Shop, folder: str) -> Iterator[str]:
    place = landing_place(shop.ws.settings, SALES)
    yield from (each.path for each in place.files.listed(folder))


# ------------------------------------------------------------------------------------------------------------- replays


def _a_broker(_: Shop) -> Notes:
    return {"broker": servers().broker.servers}


def _a_kinesis(_: Shop) -> Notes:
    return {"kinesis": servers().kinesis.endpoint}


def _target(ws: Workspace) -> str:
    """A name that no other home has."""
    return f"again-{sha256(str(ws.settings.home).encode()).hexdigest()[:12]}"


def _outgoing(ws: Workspace, notes: Notes) -> Workspace:
    if "broker" in notes:
        return declaring(ws, replay=KafkaReplay(servers=notes["broker"], partitions=2, answers_within=A_MOMENT))
    os.environ.update(SECRETS)
    to = KinesisReplay(region=streamed.REGION, endpoint=notes["kinesis"], secrets=streamed.NAMES, shards=2)
    return declaring(ws, replay=replace(to, answers_within=A_MOMENT))


def _sent(ws: Workspace, notes: Notes, *, of: str) -> None:
    """Three records at once, without waiting between them."""
    pace = Pace(records_per_minute=180, wait=lambda _: None)
    asked = ReplayAsked(subject=of, into=_target(ws))
    replay(_outgoing(ws, notes), asked, _ACTING, reason="why not", pace=pace, planned=lambda _: None)


def _send_finished(shop: Shop, notes: Notes, *, of: str) -> None:
    """The same replay goes on, and the target has each of its records."""
    _sent(shop.ws, notes, of=of)
    with shop.ws.ledger.read() as tx:
        (record,) = tx.replays.records()
    expected = sum(each.records for each in record.parts)
    assert (record.state, record.sent) == (ReplayState.SENT, expected)
    found = list(_in_the_target(shop.ws, notes))
    keys = [key for key, _ in found]
    if "broker" in notes:
        assert len(keys) == len(set(keys)) == expected, f"{len(keys)} records of {len(set(keys))} keys"
        return
    last: dict[str, int] = {}
    for key, number in found:
        last[key] = max(number, last.get(key, 0))
    # Every key has one record, so that a consumer keeps each number once.
    assert sorted(last.values()) == list(range(1, expected + 1)), f"a consumer keeps {sorted(last.values())}"


def _in_the_target(ws: Workspace, notes: Notes) -> Iterator[tuple[str, int]]:
    """The key of every record that a consumer sees, with its number in a stream."""
    if "kinesis" in notes:
        for records in servers().kinesis.records(_target(ws)).values():
            for each in records:
                yield each["PartitionKey"], json.loads(each["Data"])["sequence"]
        return
    consumer = Consumer(
        {
            "bootstrap.servers": notes["broker"],
            "group.id": "who-looks",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition(_target(ws), each, 0) for each in range(2)])
        ended = 0
        while ended < 2:
            for message in consumer.consume(1_000, timeout=1):
                if message.error() is not None:
                    ended += 1
                else:
                    yield (message.key() or b"").decode(), 0
    finally:
        consumer.close()


def _closed(ws: Workspace, notes: Notes) -> None:
    """All is sent, and then the replay is ended; what is done of it is not done again."""
    with ws.ledger.read() as tx:
        before = tx.replays.records()
    if not before or before[0].state in (ReplayState.ASKED, ReplayState.SENDING):
        _sent(ws, notes, of=RECENT)
    with ws.ledger.read() as tx:
        (record,) = tx.replays.records()
    if record.state is ReplayState.SENT:
        close_replay(_outgoing(ws, notes), record.replay_id, by="ana", reason="it is done")


def _close_finished(shop: Shop, notes: Notes) -> None:
    """It is ended by the same commands, whatever was there of it, and nothing is left on the other side."""
    _closed(shop.ws, notes)
    with shop.ws.ledger.read() as tx:
        (record,) = tx.replays.records()
        (closed,) = tx.events.entries(entity_id=record.replay_id, actions=["replay_closed"])
    assert closed.payload["deleted"], "the ledger does not know that the target is deleted"
    assert _target(shop.ws) not in _all_targets(notes), "the target is left behind"


def _all_targets(notes: Notes) -> Sequence[str]:
    if "kinesis" in notes:
        return servers().kinesis.streams
    return list(servers().broker.admin().list_topics(timeout=30).topics)


def moving(built: Callable[[Shop], None]) -> Iterator[Scenario]:
    """The operations, given what builds the days of landed files."""
    for name, prepare, act in (
        ("capture an api", _an_api, _captured),
        ("reconcile an api", _an_api, _reconciled),
        ("capture a topic", _a_topic, _captured),
        ("capture a stream", _a_stream, _captured),
    ):
        finish = partial(_capture_finished, act=act, built=built)
        yield Scenario(name=name, home="published", prepare=prepare, act=act, finish=finish, needs_spark=True)
    for kind, prepare in (("topic", _a_broker), ("stream", _a_kinesis)):
        for of, words in ((SALES, "a source"), (RECENT, "a table")):
            yield Scenario(
                name=f"replay {words} to a {kind}",
                home="published",
                prepare=prepare,
                act=partial(_sent, of=of),
                finish=partial(_send_finished, of=of),
                needs_spark=True,
            )
        yield Scenario(
            name=f"close a replay to a {kind}",
            home="published",
            prepare=prepare,
            act=_closed,
            finish=_close_finished,
            needs_spark=True,
        )
