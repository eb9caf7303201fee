"""Captures of a stream of a server of Kinesis: every record once, parents before children."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from backfill_assets.application import look
from backfill_assets.capture.errors import (
    CreatedAgain,
    NoSecret,
    NoStream,
    OtherTopic,
    RangeExpired,
    StreamDenied,
    StreamFailed,
)
from backfill_assets.capture.kinesis.client import KinesisClient, order_of
from backfill_assets.capture.kinesis.stream import KinesisCapture
from backfill_assets.capture.streams import CapturePeriod, Pace, Span
from backfill_assets.domain import KinesisStream
from backfill_assets.report.command_line import explained
from backfill_assets.report.pages import page_of
from backfill_assets.report.status import StatusDocument
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.domains.streamed import NAMES
from backfill_assets_tests.support.captured_shop import FIRST, StreamShop, lines_of, plain_text
from backfill_assets_tests.support.kinesis_server import CREDENTIALS, KinesisServer, running_kinesis
from backfill_assets_tests.support.kinesis_shop import SECRETS, KinesisShop, sales

_numbers = count(1)


@pytest.fixture(name="server")
def server_of_kinesis(kinesis: KinesisServer) -> KinesisServer:
    """The running server."""
    return kinesis


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the variables that the declaration names, also where no server is asked for."""
    for variable, value in SECRETS.items():
        monkeypatch.setenv(variable, value)


ShopOf = Callable[..., KinesisShop]


@pytest.fixture
def nothing_lands(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is captured does not land: no Spark is needed."""
    monkeypatch.setattr("backfill_assets.application.capture._land", lambda *_, **__: None)


@pytest.fixture
def shop_of(server: KinesisServer, tmp_path: Path) -> ShopOf:
    """A shop over a new stream, or over one that there is."""

    def opened(stream: str = "", *, shards: int = 1, home: str = "home", **declared: object) -> KinesisShop:
        name = stream or f"sales-{next(_numbers)}"
        if not stream:
            server.create(name, shards=shards)
        endpoint = server.endpoint
        return KinesisShop(home=tmp_path / home, topic=name, endpoint=endpoint, declared=declared)

    return opened


def ids_of(shop: StreamShop) -> list[str]:
    return [line["sale_id"] for line in lines_of(shop.bytes())]


@pytest.mark.long
def test_what_was_written_is_landed_and_built_once_and_the_same_again(
    shop_of: ShopOf, server: KinesisServer, spark: SparkSession
) -> None:
    shop = replace(shop_of(shards=2), spark=spark)
    server.write(shop.topic, [*sales(1_200), ("k", b"no json \xff"), ("k", b'{"kinesis_shard": 1}')])
    plan = shop.plan()
    assert (plan.records, plan.size_bytes, plan.files) == (None, None, 2)
    assert plan.resolution.pinned["retention"] == "usual"
    assert "records that can only be counted as they are read" in plain_text(page_of(plan))
    report = shop.capture(builds=True)
    assert (report.captured, report.landed is not None) == (1_202, True)
    assert {row["sale_id"] for row in shop.rows()} == {f"s{number:06}" for number in range(1_200)}
    again = shop.capture()
    assert (again.capture_id, again.captured) == (None, 0)
    elsewhere = replace(shop_of(shop.topic, home="elsewhere"), spark=spark)
    elsewhere.capture()
    assert elsewhere.bytes() == shop.bytes()
    server.write(shop.topic, sales(10, start=1_200))
    assert shop.capture(first=None).captured == 10
    with closing(shop.open()) as ws:
        assert not audit(ws).problems
        status = look.status(ws, None)
        assert isinstance(status, StatusDocument)
        (so_far,) = status.captured
        assert so_far.records == 1_212
        assert {name: order_of(each) for name, each in so_far.positions.items()} == {
            name: max(order_of(each.range_to) for each in shop.files() if each.partition == name)
            for name in so_far.positions
        }


@pytest.mark.long
@pytest.mark.usefixtures("nothing_lands")
def test_shards_that_are_split_and_merged_are_read_after_their_parents(shop_of: ShopOf, server: KinesisServer) -> None:
    shop = shop_of(shards=2)
    server.write(shop.topic, sales(600))
    shop.capture()
    one, two = (each["ShardId"] for each in server.shards(shop.topic))
    server.write(shop.topic, sales(200, start=600))
    server.split(shop.topic, one)
    server.write(shop.topic, sales(600, start=800))
    upper = server.shards(shop.topic)[-1]["ShardId"]
    server.merge(shop.topic, upper, two)
    server.write(shop.topic, sales(600, start=1_400))
    report = shop.capture(first=None)
    assert report.captured == 1_400
    assert sorted(ids_of(shop)) == [f"s{number:06}" for number in range(2_000)]
    order = [each.partition for each in shop.files()]
    for shard in server.shards(shop.topic):
        for parent in (shard[each] for each in ("ParentShardId", "AdjacentParentShardId") if each in shard):
            assert max(i for i, each in enumerate(order) if each == parent) < order.index(shard["ShardId"])
    whole = shop_of(shop.topic, home="whole")
    assert whole.capture().captured == 2_000
    assert " of shardId-" in whole.plan().resolution.pinned["shards"]
    server.client.increase_stream_retention_period(StreamName=shop.topic, RetentionPeriodHours=48)
    server.await_active(shop.topic)
    assert whole.plan().resolution.pinned["retention"] == "enhanced"


@pytest.mark.long
@pytest.mark.usefixtures("nothing_lands")
def test_a_shard_that_is_split_while_it_is_captured_loses_nothing(shop_of: ShopOf, server: KinesisServer) -> None:
    shop = shop_of()
    server.write(shop.topic, sales(900))
    read = count(1)

    def wait(_: float) -> None:
        if next(read) == 3:
            server.split(shop.topic, server.shards(shop.topic)[0]["ShardId"])
            server.write(shop.topic, sales(300, start=900))

    assert shop.capture(pace=Pace(records_per_minute=6_000, wait=wait)).captured == 900
    assert shop.capture(first=None).captured == 300
    assert sorted(ids_of(shop)) == [f"s{number:06}" for number in range(1_200)]


@pytest.mark.long
@pytest.mark.usefixtures("nothing_lands")
def test_a_period_is_the_time_of_arrival_and_files_are_cut_at_its_chunks(
    shop_of: ShopOf, server: KinesisServer
) -> None:
    shop = shop_of(chunk=timedelta(seconds=1))
    begun = datetime.now(UTC)
    for number in range(4):
        server.write(shop.topic, sales(20, start=20 * number))
        time.sleep(1.1)
    assert shop.capture().captured == 80
    files = shop.files()
    assert 3 <= len(files) <= 5
    assert [each.range_to for each in files[:-1]] == [each.range_from for each in files[1:]]
    declared = shop.source().capture
    assert isinstance(declared, KinesisStream)
    with closing(KinesisCapture(declared, secret=CREDENTIALS)) as stream:
        later = stream.resolve(
            CapturePeriod(start=begun + timedelta(seconds=1.5), end=begun + timedelta(seconds=2.8)), ()
        )
        (span,) = later.spans
        assert order_of(files[0].range_from) < order_of(span.range_from) < order_of(span.range_to)
        assert order_of(span.range_to) < order_of(files[-1].range_to)
        # What is left of a span of which a part is captured is cut as before.
        done = [Span(partition=f.partition, range_from=f.range_from, range_to=f.range_to) for f in files[1:]]
        (piece, *_) = stream.pieces(replace(span, range_from=files[0].range_from), done)
        assert (piece.range_from, piece.range_to) == (files[0].range_from, files[0].range_to)


@pytest.mark.long
@pytest.mark.usefixtures("nothing_lands")
def test_iterators_that_expire_are_renewed_behind_the_last_record(
    shop_of: ShopOf, server: KinesisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = shop_of()
    server.write(shop.topic, sales(500))
    asked, ask = count(1), KinesisClient.ask
    expired = []

    def expiring(self: KinesisClient, what: str, *, expires: bool = False, **more: Any) -> Any:
        if what == "get_records" and next(asked) % 3 == 0:
            expired.append(more)
            return None
        return ask(self, what, expires=expires, **more)

    monkeypatch.setattr(KinesisClient, "ask", expiring)
    assert shop.capture(pace=Pace(records_per_minute=6_000, wait=lambda _: None)).captured == 500
    assert len(expired) > 2
    assert sorted(ids_of(shop)) == [f"s{number:06}" for number in range(500)]


@pytest.mark.long
@pytest.mark.usefixtures("nothing_lands")
def test_what_has_expired_is_refused_before_anything_is_read(
    shop_of: ShopOf, server: KinesisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = shop_of()
    server.write(shop.topic, sales(50))
    summary = KinesisCapture._summary
    monkeypatch.setattr(
        KinesisCapture,
        "_summary",
        lambda self: replace(summary(self), created_at=datetime(2020, 1, 1, tzinfo=UTC)),
    )
    with pytest.raises(RangeExpired, match="what was before it has expired"):
        shop.capture(FIRST)
    assert shop.files() == ()
    today = datetime.now(UTC).date()
    assert shop.capture(today).captured == 50

    # Behind the last capture: the first record that the stream still has is a later one.
    server.write(shop.topic, sales(10, start=50))
    first = KinesisClient.first

    def trimmed(self: KinesisClient, shard: str, **begins: Any) -> Any:
        found = first(self, shard, **begins)
        if found is None or begins["ShardIteratorType"] != "TRIM_HORIZON":
            return found
        return replace(found, sequence=found.sequence + 10**40)

    monkeypatch.setattr(KinesisClient, "first", trimmed)
    with pytest.raises(RangeExpired, match="the captures end at"):
        shop.capture(first=None)


@pytest.mark.long
@pytest.mark.usefixtures("nothing_lands")
def test_a_stream_that_was_created_again_is_refused_and_one_that_is_gone_is_one_sentence(
    shop_of: ShopOf, server: KinesisServer
) -> None:
    shop = shop_of()
    server.write(shop.topic, sales(20))
    shop.capture()
    server.delete(shop.topic)
    with pytest.raises(NoStream, match=f"has no stream {shop.topic}"):
        shop.capture(first=None)
    time.sleep(1.1)  # it is known by the second in which it was created
    server.create(shop.topic)
    with pytest.raises(CreatedAgain) as refused:
        shop.capture(first=None)
    new = refused.value.found.rpartition("/")[2]
    assert f"declare creation='{new}'" in explained(refused.value)
    server.write(shop.topic, sales(30, start=100))
    assert shop_of(shop.topic, creation=new).capture().captured == 30
    with pytest.raises(OtherTopic):
        shop_of(shop.topic, home="elsewhere", creation="another").capture()


@pytest.mark.long
@pytest.mark.usefixtures("nothing_lands")
def test_a_server_that_goes_away_stops_the_capture_in_one_sentence_and_it_goes_on(
    tmp_path: Path,
) -> None:
    with running_kinesis() as own:
        own.create("sales", shards=3)
        own.write("sales", sales(3_000))
        declared = {"answers_within": timedelta(seconds=2)}
        shop = KinesisShop(home=tmp_path / "home", topic="sales", endpoint=own.endpoint, declared=declared)
        read = count(1)

        def wait(_: float) -> None:
            if next(read) == 15:
                own.stop()

        with pytest.raises(StreamFailed, match="the stream sales stopped: it did not answer within 2 s"):
            shop.capture(pace=Pace(records_per_minute=6_000, wait=wait))
        files = shop.files()
        assert 0 < len(files) < 3
        assert all(each.records for each in files)


@pytest.mark.long
@pytest.mark.usefixtures("nothing_lands")
def test_a_capture_that_was_killed_goes_on_without_loss_or_duplicate(shop_of: ShopOf, server: KinesisServer) -> None:
    shop = shop_of(shards=4)
    server.write(shop.topic, sales(3_000))
    ask = ("capture", "sales", "--from", "2026-01-01", "--to", "now", "--by", "ana", "--reason", "why not", "--no-load")
    for files in (1, 2):
        process = shop.command(*ask, "--records-per-minute", "30000")
        until = time.monotonic() + 300
        while len(shop.files()) < files:
            assert process.poll() is None and time.monotonic() < until, process.communicate()
            time.sleep(0.05)
        process.kill()
        process.communicate()
    killed_at = sum(each.records for each in shop.files())
    assert 0 < killed_at < 3_000
    assert killed_at + shop.capture().captured == 3_000
    assert sorted(ids_of(shop)) == [f"s{number:06}" for number in range(3_000)]
    whole = shop_of(shop.topic, home="whole")
    whole.capture()
    assert whole.bytes() == shop.bytes()


@pytest.mark.long
def test_the_server_of_these_tests_outlives_a_client_that_is_killed_before_it_is_answered(
    server: KinesisServer,
) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{")
        time.sleep(0.1)
    time.sleep(0.3)
    assert server.process.poll() is None


@contextmanager
def refusing(code: str) -> Iterator[str]:
    """A server that refuses everything, as the service words it; kinesalite looks at no credentials."""

    class Refusing(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            said = json.dumps({"__type": code, "message": "The security token is invalid."}).encode()
            self.send_response(400)
            self.send_header("Content-Type", "application/x-amz-json-1.1")
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as http:
        thread = threading.Thread(target=http.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{http.server_address[1]}"
        http.shutdown()
        thread.join()


@pytest.mark.long
@pytest.mark.usefixtures("nothing_lands")
def test_credentials_that_are_refused_or_missing_are_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with refusing("UnrecognizedClientException") as endpoint:
        shop = KinesisShop(home=tmp_path / "home", topic="sales", endpoint=endpoint)
        with pytest.raises(StreamDenied, match=r"the stream sales does not accept the credentials: Unrec") as refused:
            shop.capture()
        assert CREDENTIALS["aws_secret_access_key"] not in str(refused.value)
        monkeypatch.delenv(NAMES["aws_secret_access_key"])
        with pytest.raises(NoSecret, match="TEST_KINESIS_SECRET is not there"):
            shop.capture()
    with refusing("ProvisionedThroughputExceededException") as endpoint:
        monkeypatch.setenv(NAMES["aws_secret_access_key"], "anything")
        busy = {"answers_within": timedelta(seconds=1)}
        shop = KinesisShop(home=tmp_path / "home", topic="sales", endpoint=endpoint, declared=busy)
        with pytest.raises(StreamFailed, match="ProvisionedThroughputExceeded"):
            shop.capture()
