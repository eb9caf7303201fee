"""What can be said of captures without a server: declarations, secrets, the pieces of a range, and the pace."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.capture.declared import secrets_named
from backfill_assets.capture.errors import NoSecret
from backfill_assets.capture.kafka.declaration import KafkaReplay, KafkaTopic
from backfill_assets.capture.kafka.stream import KafkaStream
from backfill_assets.capture.kinesis.client import Shard, order_of
from backfill_assets.capture.kinesis.declaration import KinesisReplay, KinesisStream
from backfill_assets.capture.kinesis.stream import in_order
from backfill_assets.capture.landed_files import LandingPlace
from backfill_assets.capture.streams import Captured, Pace, Resolution, Span, covers
from backfill_assets.core.errors import InvalidDeclaration, PackageMissing, Refused
from backfill_assets.domain import Operations, SourceTable
from backfill_assets.files.local import LocalFiles
from backfill_assets.report.command_line import explained
from backfill_assets_tests.domains import captured
from backfill_assets_tests.support.advice import has_code

TOPIC = KafkaTopic(topic="sales", servers="broker:9092")


def declared(**changed: Any) -> SourceTable:
    return replace(captured.sales, capture=replace(TOPIC, **changed))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"topic": "a topic"}, "is not the name of a topic"),
        ({"servers": "broker"}, "have to be like 'broker-1:9092,broker-2:9092'"),
        ({"servers": "user:password@broker:9092"}, "have to be like"),
        ({"chunk": 0}, "has to be a number of offsets"),
        ({"lateness": 3}, "has to be a timedelta"),
        ({"key_format": "avro"}, "has to be 'text', 'json' or 'schema'"),
        ({"settings": {"isolation.level": "read_uncommitted"}}, "which a capture sets itself"),
        ({"settings": {"enable.auto.commit": "true"}}, "which a capture sets itself"),
        ({"settings": {"sasl.password": "hidden-word"}}, "name it among its secrets"),
        ({"secrets": {"sasl.password": "hidden-word"}}, "is named by an environment variable"),
    ],
)
def test_a_topic_that_cannot_be_captured_is_refused_when_it_is_declared(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidDeclaration, match=r"bronze\.sales: ") as refused:
        declared(**changed)
    assert said in refused.value.message
    assert "hidden-word" not in refused.value.message


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"stream": "a stream"}, "is not the name of a stream"),
        ({"region": "here"}, "has to be like 'eu-central-1'"),
        ({"endpoint": "http://user:hidden-word@here"}, "the endpoint of its capture"),
        ({"lateness": 3}, "has to be a timedelta"),
        ({"chunk": timedelta(0)}, "at least a second"),
        ({"secrets": {"profile": "NAME"}}, "which is not one of aws_access_key_id"),
        ({"secrets": {"aws_secret_access_key": "hidden-word"}}, "is named by an environment variable"),
    ],
)
def test_a_stream_that_cannot_be_captured_is_refused_when_it_is_declared(changed: dict[str, Any], said: str) -> None:
    stream = KinesisStream(stream="sales", region="eu-central-1")
    with pytest.raises(InvalidDeclaration, match=r"bronze\.sales: ") as refused:
        replace(captured.sales, capture=replace(stream, **changed))
    assert said in refused.value.message
    assert changed.get("secrets") is None or "hidden-word" not in refused.value.message


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"partitions": 0}, "needs a number of partitions"),
        ({"key_format": "avro"}, "has to be 'text' or 'json'"),
        ({"live_topics": ("a topic",)}, "not a tuple of topic names"),
        ({"settings": {"transactional.id": "mine"}}, "which a replay sets itself"),
        ({"secrets": {"sasl.password": "hidden-word"}}, "is named by an environment variable"),
    ],
)
def test_a_replay_that_cannot_be_carried_out_is_refused_when_it_is_declared(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidDeclaration, match=r"bronze\.sales: ") as refused:
        replace(captured.sales, replay=replace(KafkaReplay(servers="broker:9092"), **changed))
    assert said in refused.value.message
    assert "hidden-word" not in refused.value.message


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"shards": 0}, "needs a number of shards"),
        ({"key_format": "schema"}, "has to be 'text' or 'json'"),
        ({"retention": timedelta(hours=1)}, "whole hours, a day to a year"),
        ({"retention": timedelta(hours=25.5)}, "whole hours, a day to a year"),
        ({"region": "here"}, "the region of its replay"),
        ({"secrets": {"aws_secret_access_key": "hidden-word"}}, "is named by an environment variable"),
    ],
)
def test_a_replay_to_a_stream_that_cannot_be_carried_out_is_refused_when_it_is_declared(
    changed: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidDeclaration, match=r"bronze\.sales: ") as refused:
        replace(captured.sales, replay=replace(KinesisReplay(region="eu-central-1"), **changed))
    assert said in refused.value.message
    assert "hidden-word" not in refused.value.message


def test_shards_come_after_their_parents_and_positions_in_the_order_of_their_numbers() -> None:
    shards = [
        Shard(name="shardId-4", parents=("shardId-2", "shardId-9")),
        Shard(name="shardId-2", parents=("shardId-expired",)),
        Shard(name="shardId-9"),
    ]
    order = [each.name for each in in_order(shards)]
    assert order.index("shardId-4") > max(order.index("shardId-2"), order.index("shardId-9"))
    assert sorted(["100+", "99+", "100", "101"], key=order_of) == ["99+", "100", "100+", "101"]


def test_captures_make_up_for_what_has_expired_only_where_positions_prove_that_nothing_is_between_them() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    first = Captured(partition="s", range_from="10", range_to="20+", since=start)
    following = Captured(partition="s", range_from="20+", range_to="30+")
    later = Captured(partition="s", range_from="21", range_to="30+", since=start + timedelta(days=1))
    assert covers([following, first], (25, 0), start, order_of)
    assert not covers([first], (25, 0), start, order_of)
    assert not covers([first, later], (25, 0), start, order_of)
    assert not covers([first, following], (25, 0), start - timedelta(days=1), order_of)


def test_a_text_is_no_key_of_several_columns() -> None:
    two: Any = {"key": ("sale_id", "sold_at"), "replay": None}
    operation = Operations(column="op", update="u", delete="d")
    with pytest.raises(InvalidDeclaration, match="use key_format='json'"):
        replace(captured.sales, capture=TOPIC, operation=operation, **two)
    assert replace(captured.sales, capture=replace(TOPIC, key_format="json"), operation=operation, **two)


def test_a_secret_is_read_by_its_name_from_the_environment_or_from_a_file_outside_of_the_home(tmp_path: Path) -> None:
    home, outside = tmp_path / "home", tmp_path / "secret"
    home.mkdir()
    (home / "secret").write_text("word")
    outside.write_text("word\n")
    names = {"sasl.password": "PASSWORD"}
    assert secrets_named(names, home=home, environment={"PASSWORD": "word"}) == {"sasl.password": "word"}
    assert secrets_named(names, home=home, environment={"PASSWORD_FILE": str(outside)}) == {"sasl.password": "word"}
    with pytest.raises(NoSecret, match="the secret PASSWORD is not there"):
        secrets_named(names, home=home, environment={})
    with pytest.raises(NoSecret, match="no such file"):
        secrets_named(names, home=home, environment={"PASSWORD_FILE": str(tmp_path / "none")})
    link = tmp_path / "link"
    link.symlink_to(home / "secret")
    for path in (home / "secret", link):
        with pytest.raises(Refused, check=has_code("secret_in_home"), match="no secret is read from the home"):
            secrets_named(names, home=home, environment={"PASSWORD_FILE": str(path)})


offsets = st.integers(0, 60)


def span(start: int, end: int) -> Span:
    return Span(partition="0", range_from=str(start), range_to=str(end))


@given(
    wanted=st.tuples(offsets, offsets).map(sorted),
    done=st.lists(st.tuples(offsets, offsets).map(sorted), max_size=4),
    chunk=st.integers(1, 20),
)
def test_pieces_are_what_is_not_captured_in_order_each_once_and_cut_where_every_capture_cuts(
    wanted: list[int], done: list[list[int]], chunk: int
) -> None:
    stream = KafkaStream(replace(TOPIC, chunk=chunk), secret={})
    held = {offset for start, end in done for offset in range(start, end)}
    pieces = list(stream.pieces(span(*wanted), [span(*each) for each in done]))
    read = [offset for each in pieces for offset in range(int(each.range_from), int(each.range_to))]
    assert read == [offset for offset in range(*wanted) if offset not in held]
    assert all(int(each.range_from) // chunk == (int(each.range_to) - 1) // chunk for each in pieces)


def test_no_landed_file_is_hidden_from_spark_whatever_the_identity_of_a_topic_is(tmp_path: Path) -> None:
    resolution = Resolution(
        family="kafka", name="sales", stream="cluster/_wGINzRvyQ", pinned={}, is_compacted=False, spans=()
    )
    name = KafkaStream(TOPIC, secret={}).file_name(resolution, span(0, 7))
    place = LandingPlace(source="bronze.sales", files=LocalFiles(tmp_path), incoming=tmp_path / "incoming")
    with place.scratch() as copy:
        copy.write_bytes(b"records")
        assert (tmp_path / place.keep(copy, name)).read_bytes() == b"records"
    for hidden in ("_wGINzRvyQ.jsonl", "folder/.records"):
        with place.scratch() as copy, pytest.raises(ValueError, match="hidden"):
            copy.write_bytes(b"records")
            place.keep(copy, hidden)


@pytest.mark.parametrize(
    ("pace", "waited"),
    [
        (Pace(records_per_minute=600), 30),
        (Pace(bytes_per_minute=6_000), 60),
        (Pace(records_per_minute=600, bytes_per_minute=6_000), 60),
        (Pace(), 0),
    ],
)
def test_a_pace_holds_a_capture_to_its_slowest_limit(pace: Pace, waited: float) -> None:
    now = 0.0

    def wait(seconds: float) -> None:
        nonlocal now
        now += seconds

    held = replace(pace, wait=wait, now=lambda: now)
    for _ in range(30):
        held.took(10, 200)
    assert now == pytest.approx(waited)


def test_a_pace_waits_while_others_are_behind_and_asks_once_a_second() -> None:
    now, left = 0.0, iter([5, 2_000, 1_500, 900, 0, 0])

    def wait(seconds: float) -> None:
        nonlocal now
        now += seconds

    held = Pace(records_per_minute=60, behind=lambda: next(left), most_behind=1_000, wait=wait, now=lambda: now)
    held.took(0, 0)
    assert now == 0
    # It has taken a second, so that others are asked: two seconds later they are near enough.
    held.took(1, 0)
    assert (now, next(left)) == (3, 0)
    held.took(0, 0)
    assert next(left) == 0


def test_a_capture_that_is_no_stream_is_refused() -> None:
    with pytest.raises(InvalidDeclaration, match=r"capture must be .*KafkaTopic.*not 'sales'"):
        replace(captured.sales, capture="sales")  # type: ignore[arg-type]


def test_without_the_client_the_refusal_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(PackageMissing, match="needs the package confluent-kafka") as refused:
        KafkaStream(TOPIC, secret={})
    assert explained(refused.value).endswith("Next: pip install 'backfill-assets[kafka]'")
