"""What does a capture of a topic cost? Against the dump of a plain client, in turns, and its memory as a topic grows.

    .venv/bin/python -m benchmarks.captures [--records 3000000] [--rounds 3]

A real broker gets a topic of six partitions, and one of a tenth of its records. The plain client reads every partition
to its end and writes the values alone, a line each, packed with gzip at the same level: the least that a dump is,
without keys, offsets, times and headers. The capture is that of the package, from the positions to the files in their
place, without the landing that follows. Each has a process of its own, so that its peak is its own.
"""

from __future__ import annotations

import argparse
import gzip
import json
import multiprocessing
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from backfill_assets.capture.kafka import KafkaStream
from backfill_assets.capture.kafka_topic import KafkaTopic
from backfill_assets.capture.landed_files import LandingPlace, landing_place
from backfill_assets.capture.stream_files import capture_piece
from backfill_assets.capture.streams import Pace, Period
from backfill_assets.core.settings import Settings
from backfill_assets_tests.support.kafka_broker import Broker, running_broker

PARTITIONS, LEVEL, AT_ONCE = 6, 3, 5_000
SINCE = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """What a process took.

    Attributes:
        seconds: From its first request to its last byte.
        records: How many records it wrote.
        peak_mib: The most memory it had.
    """

    seconds: float
    records: int
    peak_mib: int


def plain(servers: str, topic: str, folder: Path) -> int:
    """The dump of a plain client."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": servers, "group.id": "dump", "enable.auto.commit": False})
    records = 0
    for partition in range(PARTITIONS):
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
        consumer.assign([TopicPartition(topic, partition, low)])
        at = low
        with gzip.open(folder / f"{partition}.jsonl.gz", "wb", LEVEL) as file:
            while at < high:
                for message in consumer.consume(AT_ONCE, timeout=0.1):
                    file.write(message.value() + b"\n")
                    at = message.offset() + 1
                    records += 1
    consumer.close()
    return records


def captured(servers: str, topic: str, folder: Path) -> int:
    """The capture of the package."""
    stream = KafkaStream(KafkaTopic(servers=servers, topic=topic), secret={})
    place: LandingPlace = landing_place(Settings.from_environment({"BACKFILL_HOME": str(folder)}), "bronze.events")
    resolution = stream.resolve(Period(start=SINCE, end=None), ())
    records = 0
    for span in resolution.spans:
        for piece in stream.pieces(span, ()):
            _, written = capture_piece(stream, resolution, piece, place, Pace())
            records += written.records
    stream.close()
    return records


def in_a_process(work: Callable[[str, str, Path], int], servers: str, topic: str) -> Took:
    """Carries work out in a new process."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(_measured, (work, servers, topic))


def _measured(work: Callable[[str, str, Path], int], servers: str, topic: str) -> Took:
    folder = Path(tempfile.mkdtemp(prefix="backfill-capture-"))
    try:
        begun = time.monotonic()
        records = work(servers, topic, folder)
        seconds = time.monotonic() - begun
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Took(seconds=seconds, records=records, peak_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)


def fill(broker: Broker, topic: str, records: int) -> None:
    """A topic with so many records of about 200 bytes."""
    broker.create(topic, partitions=PARTITIONS)
    producer = broker.producer(queue_buffering_max_messages=1_000_000)
    for number in range(records):
        value = {
            "event_id": f"E{number:09}",
            "case_id": f"C{number % 100_003:06}",
            "event_time": f"2006-07-{number % 28 + 1:02}T{number % 24:02}:{number % 60:02}:00Z",
            "event_type": ("CREATED", "SENT", "PAID", "APPEALED")[number % 4],
            "amount": f"{number % 10_000 / 100:.2f}",
            "attributes": json.dumps({"article": number % 200, "points": number % 7}),
        }
        producer.produce(topic, key=value["case_id"], value=json.dumps(value), partition=number % PARTITIONS)
        producer.poll(0)
    producer.flush(300)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args(arguments)
    with running_broker() as broker:
        large, small = "events.large", "events.small"
        fill(broker, large, given.records)
        fill(broker, small, given.records // 10)
        ratios, peaks = [], {}
        for _ in range(given.rounds):
            bare, ours = (in_a_process(each, broker.servers, large) for each in (plain, captured))
            little = in_a_process(captured, broker.servers, small)
            assert bare.records == ours.records == given.records, (bare, ours)
            ratios.append(bare.seconds / ours.seconds)
            peaks = {"plain client": bare.peak_mib, "capture": ours.peak_mib, "a tenth captured": little.peak_mib}
            pace = ", ".join(
                f"{name} {each.records / each.seconds:,.0f}/s" for name, each in (("plain", bare), ("capture", ours))
            )
            print(f"{pace}: {ratios[-1]:.2f} of the plain client; peaks in MiB: {peaks}", flush=True)
        print(
            f"throughput, median of {len(ratios)} pairs: {statistics.median(ratios):.2f} of the plain client (goal 0.8)"
        )
        print(f"memory at ten times the records: {peaks['capture'] / peaks['a tenth captured']:.2f} (goal 1.0)")


if __name__ == "__main__":
    main()
