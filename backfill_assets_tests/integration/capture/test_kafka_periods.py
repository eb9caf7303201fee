"""A period of a topic is all of its records of that time, in whatever order they are, whoever wrote the timestamps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from backfill_assets.capture.errors import RangeExpired, StreamFailed
from backfill_assets.capture.kafka.stream import KafkaStream
from backfill_assets.capture.streams import CapturePeriod, Pace, Resolved
from backfill_assets.core.errors import Retryable
from backfill_assets.domain import KafkaTopic
from backfill_assets_tests.support.advice import has_code
from backfill_assets_tests.support.kafka_broker import Broker
from backfill_assets_tests.support.searches import examples

_BEGIN = datetime(2025, 7, 1, tzinfo=UTC)
_DAY = timedelta(days=1)
_numbers = count(1)

Script = Sequence[tuple[str, tuple[float, ...]]]
"""What happens to a partition: records with times in days since the first one, in a transaction or outside."""


def milliseconds(days: float) -> int:
    return int((_BEGIN + days * _DAY).timestamp() * 1000)


def new_topic(broker: Broker, **config: Any) -> str:
    topic = f"periods-{next(_numbers)}"
    broker.create(topic, message_timestamp_after_max_ms=str(2**63 - 1), **config)
    return topic


@cache
def producer_of(broker: Broker, name: str = "") -> Producer:
    """One producer of plain records, and one for each name of transactions."""
    if not name:
        return broker.producer()
    producer = broker.producer(transactional_id=name)
    producer.init_transactions(30)
    return producer


@pytest.fixture(scope="module", autouse=True)
def _no_producer_stays() -> Iterator[None]:
    yield
    producer_of.cache_clear()  # otherwise they look for their broker until the tests end


def write(broker: Broker, topic: str, script: Script, *, partition: int = 0) -> None:
    """Carries out what happens to a partition."""
    for how, times in script:
        producer = producer_of(broker, "" if how == "plain" else "periods")
        if how != "plain":
            producer.begin_transaction()
        for days in times:
            producer.produce(topic, value=b"{}", partition=partition, timestamp=milliseconds(days))
        assert producer.flush(30) == 0
        if how == "committed":
            producer.commit_transaction(30)
        elif how == "aborted":
            producer.abort_transaction(30)
        if how != "plain":
            broker.wait_for_markers(topic, partition)


def resolved(
    broker: Broker, topic: str, first: float, behind: float, *, lateness: timedelta = timedelta(0)
) -> tuple[Resolved, ...]:
    with closing(KafkaStream(KafkaTopic(topic=topic, servers=broker.servers, lateness=lateness), secret={})) as stream:
        return stream.resolve(CapturePeriod(start=_BEGIN + first * _DAY, end=_BEGIN + behind * _DAY), ()).spans


def span(found: Sequence[Resolved]) -> tuple[int, int]:
    (only,) = found
    return int(only.range_from), int(only.range_to)


def test_a_record_from_the_future_does_not_end_a_period(broker: Broker) -> None:
    topic = new_topic(broker)
    hours = (10 / 24, 123, 11 / 24, 1 + 9 / 24, 2 + 9 / 24, 7)
    write(broker, topic, [("plain", hours)])
    assert span(resolved(broker, topic, 0, 3, lateness=2 * _DAY)) == (0, 5)


def test_the_marker_of_a_transaction_does_not_end_a_period(broker: Broker) -> None:
    topic = new_topic(broker)
    write(broker, topic, [("committed", tuple(day + each / 100 for each in range(10))) for day in range(5)])
    # Behind each of the ten records is the marker of their transaction, which has the time of today.
    assert span(resolved(broker, topic, 0, 5)) == (0, 4 * 11 + 10)


def offsets_of(script: Script) -> Iterator[tuple[int, float, bool]]:
    """The offset of each record of a partition, its time, and whether it happened; a marker has an offset as well."""
    offset = 0
    for how, times in script:
        for days in times:
            yield offset, days, how != "aborted"
            offset += 1
        offset += how != "plain"


_DAYS = st.one_of(st.integers(0, 8).map(float), st.floats(0, 8, width=16), st.sampled_from([400.0, 40_000.0]))
_SCRIPT = st.lists(
    st.tuples(st.sampled_from(["plain", "plain", "committed", "aborted"]), st.lists(_DAYS, min_size=1).map(tuple)),
    min_size=1,
    max_size=4,
)


# Each example makes a topic, so that a failing one is not made smaller.
@pytest.mark.long
@settings(max_examples=examples(30), phases=[Phase.explicit, Phase.generate])
@given(scripts=st.lists(_SCRIPT, min_size=4, max_size=4), first=st.integers(0, 4), days=st.integers(1, 3), late=_DAYS)
def test_a_period_has_every_record_of_its_time_whatever_their_order(
    broker: Broker, scripts: Sequence[Script], first: int, days: int, late: float
) -> None:
    lateness = timedelta(days=min(late, 2.0))
    topic = new_topic(broker, partitions=len(scripts))
    for partition, script in enumerate(scripts):
        write(broker, topic, script, partition=partition)
    until = milliseconds(first + days) + lateness / timedelta(milliseconds=1)
    for script, found in zip(scripts, resolved(broker, topic, first, first + days, lateness=lateness), strict=True):
        known = list(offsets_of(script))
        wanted = {
            offset for offset, day, happened in known if happened and milliseconds(first) <= milliseconds(day) < until
        }
        start, end = int(found.range_from), int(found.range_to)
        assert wanted <= set(range(start, end)), (script, start, end)
        # Nothing is read behind the last one of them that need not be, but markers and aborted records.
        assert not [
            offset
            for offset, day, happened in known
            if happened
            and offset == end - 1
            and offset > max((each for each, other, so in known if so and milliseconds(other) < until), default=-1)
        ]


def test_timestamps_that_the_broker_wrote_end_a_period_where_they_are_read(broker: Broker) -> None:
    topic = new_topic(broker, message_timestamp_type="LogAppendTime")
    write(broker, topic, [("plain", (0.0, 1.0, 2.0)), ("committed", (1.0,))])
    assert span(resolved(broker, topic, 0, 5)) == (0, 0)  # they were written today
    now = (datetime.now(UTC) - _BEGIN) / _DAY
    assert span(resolved(broker, topic, 0, now + 0.01)) == (0, 5)


def test_a_period_of_which_something_waits_for_a_transaction_is_refused_with_its_count(broker: Broker) -> None:
    topic = new_topic(broker)
    write(broker, topic, [("plain", (0.0, 1.0))])
    producer = producer_of(broker, "open")
    producer.begin_transaction()
    for days in (1.5, 9.0):
        producer.produce(topic, value=b"{}", timestamp=milliseconds(days))
    producer.flush(30)
    write(broker, topic, [("plain", (1.75, 8.0))])
    assert span(resolved(broker, topic, 0, 1)) == (0, 1)
    with pytest.raises(
        Retryable,
        check=has_code("still_open"),
        match=r"2 records of the period may be behind a transaction of partition 0 .* at 2 ",
    ):
        resolved(broker, topic, 0, 2)
    producer.commit_transaction(30)
    broker.wait_for_markers(topic)
    assert span(resolved(broker, topic, 0, 2)) == (0, 5)


def test_what_expired_may_be_of_the_period_when_what_is_left_is_later_than_the_lateness(broker: Broker) -> None:
    topic = new_topic(broker)
    write(broker, topic, [("plain", (3.0, 1.5, 3.0, 4.0))])
    broker.delete_before(topic, 1)
    assert span(resolved(broker, topic, 2, 5)) == (2, 4)
    with pytest.raises(RangeExpired):
        resolved(broker, topic, 2, 5, lateness=_DAY)


def test_a_batch_of_records_whose_checksum_does_not_match_is_refused(broker: Broker, tmp_path: Path) -> None:
    topic = new_topic(broker, compression_type="producer")
    producer = broker.producer(compression_type="none")
    producer.produce(topic, value=b'{"amount": 200}', timestamp=milliseconds(0))
    assert producer.flush(30) == 0
    (log,) = Path(f"/proc/{broker.process.pid}/cwd/log/{topic}-0").glob("*.log")
    content = log.read_bytes()
    with log.open("r+b") as file:
        file.seek(content.index(b"200"))
        file.write(b"4")
    declared = KafkaTopic(topic=topic, servers=broker.servers)
    with closing(KafkaStream(declared, secret={})) as stream, pytest.raises(StreamFailed, match="CRC32C"):
        resolution = stream.resolve(CapturePeriod(start=_BEGIN, end=None), ())
        (piece,) = stream.pieces(resolution.spans[0], ())
        stream.write(piece, tmp_path / "copy", Pace())
