"""B12: what a capture of a topic costs, against the dump of a plain client, in turns, and its memory as a topic grows.

A real broker gets a topic of six partitions, and one of a tenth of its records. The plain client reads every partition
to its end and writes the values alone, a line each, packed with gzip at the same level: the least that a dump is,
without keys, offsets, times and headers. The capture is that of the package, from the positions to the files in their
place, without the landing that follows. Each has a process of its own, so that its peak is its own.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from figures import Figure, peak_mib

from backfill_assets.capture.kafka.declaration import KafkaTopic
from backfill_assets.capture.kafka.stream import KafkaStream
from backfill_assets.capture.landed_files import LandingPlace, landing_place
from backfill_assets.capture.stream_files import capture_piece
from backfill_assets.capture.streams import CapturePeriod, Pace
from backfill_assets.core.settings import Settings
from backfill_assets_tests.support.kafka_broker import Broker, running_broker

PARTITIONS, LEVEL, AT_ONCE = 6, 3, 5_000
SINCE = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """What a process took."""

    seconds: float  #: From its first request to its last byte.
    records: int  #: How many records it wrote.
    peak_mib: int  #: The most memory it had.


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
    resolution = stream.resolve(CapturePeriod(start=SINCE, end=None), ())
    records = 0
    for span in resolution.spans:
        for piece in stream.pieces(span, ()):
            _, written = capture_piece(stream, resolution, piece, place, Pace(), lambda _: None)
            records += written.records
    stream.close()
    return records


def in_a_process(work: str, servers: str, topic: str) -> Took:
    """Carries work out in a new process, which imports nothing else."""
    asked = [sys.executable, str(Path(__file__)), work, servers, topic]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return Took(**json.loads(done.stdout))


def main(work: str, servers: str, topic: str) -> None:
    """What the new process does: prints what it took."""
    folder = Path(tempfile.mkdtemp(prefix="backfill-capture-"))
    try:
        begun = time.monotonic()
        records = WORK[work](servers, topic, folder)
        seconds = time.monotonic() - begun
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps({"seconds": seconds, "records": records, "peak_mib": peak_mib(os.getpid())}))


WORK: Mapping[str, Callable[[str, str, Path], int]] = {"plain": plain, "captured": captured}


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


def measure(*, records: int, rounds: int) -> Sequence[Figure]:
    """The figures of a topic with so many records, and of one with a tenth of them."""
    with running_broker() as broker:
        large, small = "events.large", "events.small"
        fill(broker, large, records)
        fill(broker, small, records // 10)
        found: dict[str, list[Took]] = {}
        for _ in range(rounds):
            for name, work, topic in (
                ("plain", "plain", large),
                ("ours", "captured", large),
                ("little", "captured", small),
            ):
                found.setdefault(name, []).append(took := in_a_process(work, broker.servers, topic))
                print(f"{took.records / took.seconds:12,.0f} records/s, peak {took.peak_mib:,} MiB  {name}", flush=True)
    assert {took.records for name in ("plain", "ours") for took in found[name]} == {records}, found
    pace = {name: [took.records / took.seconds for took in each] for name, each in found.items()}
    peak = {name: [took.peak_mib for took in each] for name, each in found.items()}
    of = f"{records:,} records of 200 bytes"
    return [
        Figure(
            name="B12",
            what=f"records a second, a capture of {of}",
            against="a plain client's dump of the values",
            measured=pace["ours"],
            base=pace["plain"],
            goal=0.8,
            at_least=True,
        ),
        Figure(name="B12", what=f"a capture of {of}", measured=pace["ours"], unit="records/s"),
        Figure(name="B12", what="its peak of memory", measured=peak["ours"], unit="MiB"),
        Figure(
            name="B12",
            what="its peak of memory",
            against="with a tenth of the records",
            measured=peak["ours"],
            base=peak["little"],
            goal=1.3,
        ),
    ]


if __name__ == "__main__":
    main(*sys.argv[1:])
