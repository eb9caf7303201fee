"""A consumer that has read a replay of a source holds what bronze holds, whatever happened to the source before."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DateType,
    DecimalType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from backfill_assets.application.replay import close_replay
from backfill_assets.core.settings import Settings
from backfill_assets.deliver.errors import ReplayFailed
from backfill_assets.domain import DayRange, KafkaReplay, KinesisReplay, SourceTable, daily
from backfill_assets.lake.row_values import json_of
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.ledger.states import ReplayState
from backfill_assets.report.pages import page_of
from backfill_assets.report.replayed import ReplayPlan
from backfill_assets.workspace import Workspace
from backfill_assets_tests.conftest import NOON, SPARK_ENVIRONMENT
from backfill_assets_tests.domains.streamed import NAMES, REGION
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import advised
from backfill_assets_tests.support.captured_shop import Died, dying_after, plain_text
from backfill_assets_tests.support.debezium import COLUMNS, as_landed, orders, recording, states
from backfill_assets_tests.support.kafka_broker import Broker
from backfill_assets_tests.support.kinesis_server import KinesisServer
from backfill_assets_tests.support.lakes import folder_of
from backfill_assets_tests.support.ledgers import home_environment
from backfill_assets_tests.support.replayed_stories import FIRST, SALES, Story, consume, domain_of
from backfill_assets_tests.support.searches import examples
from backfill_assets_tests.support.shop import ticking_clock

StoryOf = Callable[..., Story]


@pytest.fixture
def story_of(tmp_path: Path, spark: SparkSession, broker: Broker) -> Iterator[StoryOf]:
    opened: list[Story] = []

    def begun(seed: int = 0, *, is_feed: bool = True) -> Story:
        home = tmp_path / f"home-{len(opened)}"
        settings = Settings.from_environment(
            {
                "BACKFILL_HOME": str(home),
                "BACKFILL_DOMAIN": "backfill_assets_tests.domains.contract",
                "BACKFILL_FIRST_DAY": str(FIRST),
                **home_environment(home),
                **SPARK_ENVIRONMENT,
            }
        )
        replays = KafkaReplay(servers=broker.servers, key_format="text", partitions=2)
        ws = Workspace(
            settings=settings,
            domain=domain_of(1, is_feed=is_feed, replays=replays),
            clock=ticking_clock(NOON),
            open_session=lambda: spark,
        )
        folder = home / "incoming"
        folder.mkdir(parents=True)
        opened.append(Story(ws=ws, folder=folder, chance=Random(seed), is_feed=is_feed, replays=replays))
        return opened[-1]

    yield begun
    for each in opened:
        each.ws.close()


def read(story: Story, held: dict[bytes | None, object] | None = None) -> dict[bytes | None, object]:
    """What a consumer holds that has read a replay of everything; of which all is accounted for.

    The process dies once, if it sends that much, and another one goes on.
    """
    held = {} if held is None else held
    with suppress(Died):
        story.replayed(pace=dying_after(1, records_per_minute=120))
    report = story.replayed(again=True)
    seen = consume(story.replays.servers, report.plan.record.target, held)
    assert (report.state, report.left_out) == (ReplayState.SENT, 0)
    assert report.plan.record.records == report.sent == seen, "planned, sent and read are not the same number"
    return held


def test_a_delete_without_an_event_time_deletes_its_key(story_of: StoryOf) -> None:
    story = story_of()
    story.lands((1, "c", 0), (2, "c", 1), (3, "c", 1))
    story.builds()
    held = read(story)
    story.lands((1, "d", 2), (2, "d", 2), timeless=True)
    story.builds()
    assert read(story, held) == story.expected()
    assert held.keys() == {b"3"}


@pytest.mark.long
@pytest.mark.parametrize("is_feed", [True, False])
def test_a_withdrawn_key_is_deleted_and_comes_back_when_it_is_restored(story_of: StoryOf, is_feed: bool) -> None:
    story = story_of(is_feed=is_feed)
    story.lands((1, "u", 0), (2, "u", 1), (3, "u", 1))
    story.builds()
    held = read(story)
    story.withdraws(1)
    story.extracts(1, 3)
    story.builds()
    assert read(story, held) == story.expected()
    assert held.keys() == {b"3"}
    story.restores(story.withdrawn[0][2])
    story.builds()
    assert read(story, held) == story.expected()
    assert held.keys() == {b"1", b"3"}


@pytest.mark.long
def test_after_its_key_was_renamed_a_source_is_sent_in_the_present_contract(story_of: StoryOf) -> None:
    story = story_of(is_feed=False)
    story.lands((1, "u", 0), (2, "u", 1))
    story.builds()
    story.becomes(2)
    assert read(story) == story.expected()
    story.becomes(3)
    story.lands((3, "u", 1))
    story.builds()
    assert read(story) == story.expected()


@pytest.mark.long
def test_every_key_is_deleted_by_a_truncate(story_of: StoryOf) -> None:
    story = story_of()
    story.lands((1, "c", 0), (2, "c", 1))
    story.builds()
    held = read(story)
    story.lands((0, "t", 2), (3, "c", 2), timeless=True)
    story.builds()
    assert read(story, held) == story.expected()
    assert held.keys() == {b"3"}


@pytest.mark.long
def test_a_period_has_the_rows_of_its_days_and_deletes_keys_that_had_a_version_on_them(story_of: StoryOf) -> None:
    story = story_of()
    story.lands((1, "c", 0), (2, "c", 1), (3, "c", 1), (4, "c", 2), (5, "c", 1))
    story.builds()
    held = read(story)
    before = dict(held)
    story.lands((1, "d", 3), (2, "d", 3), timeless=True)
    story.lands((3, "u", 2), (5, "u", 1), (4, "d", 3))
    story.builds()
    second = FIRST + timedelta(days=1)
    report = story.replayed(days=DayRange.inclusive(second, second))
    consume(story.replays.servers, report.plan.record.target, held)
    # The first and the fourth had no version on the second day, and the third has a row on another one.
    assert held == {key: row for key, row in before.items() if key != b"2"} | story.expected([1])
    assert held.keys() == {b"1", b"3", b"4", b"5"}
    # A delete with the event time of its row is of the day of that, and of the one on which it happened.
    last = FIRST + timedelta(days=3)
    gone = {"op": "d", "id": 5, "sold_at": f"{second}T10:00:00Z", "changed_at": f"{last}T10:00:00Z", "number": 99}
    story.has_landed("gone.jsonl", json.dumps(gone).encode())
    story.builds()
    report = story.replayed(days=DayRange.inclusive(last, last))
    consume(story.replays.servers, report.plan.record.target, held)
    assert held.keys() == {b"3"}


@pytest.mark.long
def test_what_is_landed_and_not_built_is_neither_sent_nor_deleted(story_of: StoryOf) -> None:
    story = story_of()
    story.lands((1, "c", 0), (2, "c", 0))
    story.builds()
    built = story.expected()
    story.lands((1, "d", 1), (2, "u", 1), (3, "c", 1))
    held: dict[bytes | None, object] = {b"3": "from the live topic"}
    assert read(story, held) == {**built, b"3": "from the live topic"}


@pytest.mark.long
def test_a_replay_whose_inputs_changed_is_failed_with_the_reason_and_can_only_be_closed(story_of: StoryOf) -> None:
    story = story_of(is_feed=False)
    story.lands((1, "u", 0), (2, "u", 1), (3, "u", 2))
    story.builds()
    with pytest.raises(Died):
        story.replayed(pace=dying_after(1, records_per_minute=60))
    story.becomes(2)
    for _ in range(2):
        with pytest.raises(
            ReplayFailed, match=r"the columns of bronze\.sales changed after the replay was planned"
        ) as failed:
            story.replayed(again=True)
    assert advised(failed.value) == "end it, and replay again: backfill replay close rep-000001 --by NAME --reason WHY"
    with story.ws.ledger.read() as tx:
        (record,) = tx.replays.records()
    assert (record.state, record.sent) == (ReplayState.FAILED, None)
    assert close_replay(story.ws, record.replay_id, by="ana", reason="it failed").deleted
    assert read(story) == story.expected()


@pytest.mark.long
@pytest.mark.parametrize("is_feed", [True, False])
def test_a_key_that_is_dropped_as_its_newer_record_was_rejected_is_deleted(story_of: StoryOf, is_feed: bool) -> None:
    story = story_of(is_feed=is_feed)
    (source,) = story.ws.domain.sources
    story.declares(replace(source, unknown="drop"))
    story.lands((1, "u", 0), (2, "u", 0))
    story.builds()
    held = read(story)
    newer = {"id": 1, "sold_at": "2026-01-01T10:00:00Z", "changed_at": None, "amount": "many", "op": "u", "number": 9}
    story.has_landed("newer.jsonl", json.dumps({**newer, "place": "here"}).encode())
    story.builds()
    assert read(story, held).keys() == {b"2"}


@pytest.mark.long
@pytest.mark.parametrize("is_feed", [True, False])
@pytest.mark.parametrize("unknown", ["block", "keep", "drop"])
def test_a_key_whose_records_are_rejected_when_they_are_read_again_is_deleted(
    story_of: StoryOf, is_feed: bool, unknown: str
) -> None:
    """One with an accepted record keeps that where its source says so, and the plan says how many there are."""
    story = story_of(is_feed=is_feed)
    (source,) = story.ws.domain.sources
    story.declares(replace(source, unknown=unknown))
    story.lands((2, "u", 0), (3, "u", 0))
    first = {"sold_at": "2026-01-01T10:00:00Z", "changed_at": "2026-01-01T10:00:00Z", "amount": 1, "op": "u"}
    records = ({"id": key, **first, "number": 9, "place": None} for key in (1, 2))
    story.has_landed("first.jsonl", "".join(json.dumps(each) + "\n" for each in records).encode())
    story.builds()
    held = read(story)
    assert held.keys() == {b"1", b"2", b"3"}
    schema = StructType(
        [*source.schema.fields[:4], StructField("place", StringType(), False), *source.schema.fields[5:]]
    )
    story.declares(replace(source, unknown=unknown, schema=schema))
    path = story.folder / "first.jsonl"
    operations.land(story.ws, SALES, path, on_duplicate=OnDuplicate.REPROCESS, by="ana")
    story.builds()
    plans: list[ReplayPlan] = []
    report = story.replayed(planned=plans.append)
    consume(story.replays.servers, report.plan.record.target, held)
    assert held.keys() == ({b"3"} if unknown == "drop" else {b"2", b"3"})
    for plan in (*plans, report.plan):
        assert plan.not_known is not None
        assert (plan.not_known.found.keys, plan.not_known.found.policy) == (1, unknown)
        assert "of which newer records were rejected" in " ".join(plain_text(page_of(plan)).split())


@pytest.mark.long
def test_a_replay_whose_rows_are_gone_is_failed(story_of: StoryOf) -> None:
    story = story_of(is_feed=False)
    story.lands((1, "u", 0), (2, "u", 1))
    story.builds()

    def lost(_: object) -> None:
        for path in folder_of(story.ws.lake, SALES).rglob("*.parquet"):
            path.unlink()

    with pytest.raises(ReplayFailed, match="is gone"):
        story.replayed(planned=lost)
    with story.ws.ledger.read() as tx:
        assert [each.state for each in tx.replays.records()] == [ReplayState.FAILED]


@pytest.mark.long
def test_change_events_in_files_are_sent_as_the_rows_of_their_table_with_every_value(story_of: StoryOf) -> None:
    story = story_of()
    story.declares(replace(orders, replay=story.replays), clock=ticking_clock(datetime(2027, 1, 15, 12, tzinfo=UTC)))
    events = [value for _, value in recording("plain") if value is not None]
    story.has_landed("events.jsonl", "".join(f"{each}\n" for each in events).encode())
    story.builds()
    rows, columns = (
        as_landed(states()[-1].rows),
        [name for name in COLUMNS if name != "extra"],
    )  # which is a text of JSON
    found = read(story)
    assert found.keys() == {str(key).encode() for key in rows}
    for key, row in rows.items():
        sent: Any = found[str(key).encode()]
        assert {name: sent[name] for name in columns} == {name: json.loads(json_of(row[name])) for name in columns}


@pytest.mark.long
def test_a_key_has_one_form_in_the_types_of_the_contract_whatever_its_files_wrote(story_of: StoryOf) -> None:
    story = story_of()
    at, name, price = StructField("at", TimestampType(), False), StructField("name", StringType(), False), "price"
    visits = SourceTable(
        name=SALES,
        key=("name", "price", "at", "day", "number"),
        event_time="at",
        partition=daily("on"),
        schema=StructType(
            [
                *(at, name, StructField(price, DecimalType(20, 4), False), StructField("day", DateType(), False)),
                *(StructField("number", LongType(), False), StructField("times", ArrayType(StructType([at])))),
                *(StructField("local", TimestampNTZType()), StructField("bytes", BinaryType())),
            ]
        ),
        replay=replace(story.replays, key_format="json"),
    )
    story.declares(visits)
    story.has_landed(
        "visits.csv",
        "name,price,at,day,number,local\nzuß ☃,1.10,2026-01-02T01:00:00+01:00,2026-01-02,7,\n".encode(),
    )
    story.has_landed(
        "visits.jsonl",
        '{"name": "zuß ☃", "price": 1.1000, "at": "2026-01-02T00:00:00Z", "day": "2026-01-02", "number": "7", '
        '"times": [{"at": "2026-01-02T03:00:00+03:00"}], "local": "2026-01-02T03:00:00", "bytes": "AP8="}\n'.encode(),
    )
    story.builds()
    ((key, row),) = read(story).items()
    said = {"name": "zuß ☃", "price": 1.1, "at": "2026-01-02T00:00:00Z", "day": "2026-01-02", "number": 7}
    assert key == json.dumps(said, ensure_ascii=False).encode()
    more = {"times": [{"at": "2026-01-02T00:00:00Z"}], "local": "2026-01-02T03:00:00", "bytes": "AP8="}
    assert row == {**said, **more}


@pytest.mark.long
def test_a_consumer_of_a_stream_holds_what_bronze_holds(story_of: StoryOf, kinesis: KinesisServer) -> None:
    story = story_of()
    to_a_stream = KinesisReplay(region=REGION, endpoint=kinesis.endpoint, secrets=NAMES, key_format="text")
    story.declares(*(replace(each, replay=to_a_stream) for each in story.ws.domain.sources))
    held: dict[str, object] = {}
    for is_first in (True, False):
        if is_first:
            story.lands((1, "c", 0), (2, "c", 1), (3, "c", 1))
        else:
            story.withdraws(1)
        story.lands((2, "d", 2), (4, "c", 1), timeless=True)
        story.builds()
        story.replayed()
        for shard in kinesis.records(story.into).values():
            for each in (json.loads(record["Data"]) for record in shard):
                held[each["key"]] = each["value"]
        held = {key: value for key, value in held.items() if value is not None}
        assert held == {key.decode(): row for key, row in story.expected().items()}


@pytest.mark.long
@pytest.mark.parametrize("seed", range(examples(30)))
def test_a_consumer_holds_what_bronze_holds_whatever_happened(story_of: StoryOf, seed: int) -> None:
    story = story_of(seed, is_feed=seed % 3 != 0)
    held: dict[bytes | None, object] = {}
    for _ in range(2):
        for _ in range(story.chance.randint(2, 5)):
            story.goes_on()
        story.builds()
        assert read(story) == story.expected(), f"a consumer of nothing else: {story.told}"
        assert read(story, held) == story.expected(), f"a consumer of an earlier replay: {story.told}"
