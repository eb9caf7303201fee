"""A shop whose sales are captured from a topic of a real broker."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from io import StringIO
from itertools import count
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from rich.console import Console

from backfill_assets.application.capture import CaptureRange, capture, plan_capture
from backfill_assets.application.recorder import Acting, Recorder, Unrecorded
from backfill_assets.capture.landed_files import LandedFile
from backfill_assets.capture.streams import Pace
from backfill_assets.cli.terminal import show
from backfill_assets.core.clock import Clock
from backfill_assets.core.settings import PROJECT_ROOT, Settings
from backfill_assets.domain import Domain, KafkaReplay, KafkaTopic, SourceTable
from backfill_assets.ledger.captures import CapturedFile
from backfill_assets.ledger.imports import ImportCounts, KeyCounts
from backfill_assets.planning.safeguards import SOURCE_POLICY, Policy
from backfill_assets.report.captured import CapturePlan, CaptureReport
from backfill_assets.report.page import Page
from backfill_assets.workspace import Workspace
from backfill_assets_tests.conftest import NOON, SPARK_ENVIRONMENT
from backfill_assets_tests.domains import captured
from backfill_assets_tests.support.kafka_broker import Broker
from backfill_assets_tests.support.ledgers import home_environment
from backfill_assets_tests.support.shop import ticking_clock

SALES = "bronze.sales"
FIRST = date(2026, 1, 1)
Record = tuple[str | None, str | bytes | None, int]


def at_noon(day: date) -> int:
    """Noon of a day, in milliseconds."""
    return int(datetime.combine(day, time(12), tzinfo=UTC).timestamp() * 1000)


def sale_record(number: int, *, day: date = FIRST, amount: int = 10, padding: str = "") -> Record:
    """A sale of a day as a record of the topic, with a member that its contract does not know."""
    at = datetime.combine(day, time(12), tzinfo=UTC).isoformat()
    value = {
        "sale_id": f"s{number:06}",
        "sold_at": at,
        "amount": amount,
        "op": "u",
        **({"padding": padding} if padding else {}),
    }
    return value["sale_id"], json.dumps(value), at_noon(day) + number  # type: ignore[return-value]


def sale_records(count: int, *, start: int = 0, days: int = 4) -> list[Record]:
    """So many sales, evenly over some days, in their order."""
    return [sale_record(start + number, day=FIRST + timedelta(days=number * days // count)) for number in range(count)]


@cache
def clock_of(home: Path) -> Clock:
    """The clock of a home, which goes on however often it is opened."""
    return ticking_clock(NOON)


@dataclass(frozen=True, kw_only=True)
class StreamShop:
    """A shop of a home of its own whose sales are captured."""

    home: Path  #: Its home.
    spark: SparkSession | None = None  #: The session of the test.
    #: What the declaration of the stream has that is not usual.
    declared: Mapping[str, Any] = field(default_factory=dict)
    policy: Policy = SOURCE_POLICY  #: The policy of the source.

    def environment(self) -> Mapping[str, str]:
        """Of a process that works in the shop."""
        return {
            "BACKFILL_HOME": str(self.home),
            "BACKFILL_FIRST_DAY": "2026-01-01",
            **home_environment(self.home),
            **SPARK_ENVIRONMENT,
        }

    def source(self) -> SourceTable:
        raise NotImplementedError

    def open(self) -> Workspace:
        settings = Settings.from_environment(self.environment())
        spark = self.spark
        opened = Workspace.open(
            settings, clock=clock_of(self.home), open_session=(lambda: spark) if spark is not None else None
        )
        domain = Domain(name="captured", package=captured.DOMAIN.package, sources=(self.source(),), derived=())
        return replace(opened, domain=domain)

    def plan(self, first: date | None = FIRST, last: date | None = None) -> CapturePlan:
        ws = self.open()
        try:
            return plan_capture(ws, SALES, CaptureRange(first=first, last=last))
        finally:
            ws.close()

    def capture(
        self,
        first: date | None = FIRST,
        last: date | None = None,
        *,
        builds: bool = False,
        pace: Pace | None = None,
        recorder: Recorder | None = None,
        **asked: Any,
    ) -> CaptureReport:
        ws = self.open()
        try:
            acting = Acting(by="ana", recorder=recorder or Unrecorded())
            wanted = CaptureRange(first=first, last=last, **asked)
            return capture(ws, SALES, wanted, acting, reason="a test", pace=pace or Pace(), builds=builds)
        finally:
            ws.close()

    def lands_by_hand(self) -> None:
        """What was captured counts as landed, by the ledger alone: no Spark is needed."""
        ws = self.open()
        try:
            with ws.ledger.write() as tx:
                families = {each.capture_id: each.family for each in tx.captures.records(SALES)}
                landed = {each.stored_path for each in tx.imports.records(SALES)}
                for each in tx.captures.files(SALES):
                    if each.stored_path in landed:
                        continue
                    file = LandedFile(
                        source=SALES,
                        family=families[each.capture_id],
                        range_from=each.range_from,
                        range_to=each.range_to,
                        sha256=each.sha256,
                        original_path=each.stored_path,
                        stored_path=each.stored_path,
                        size_bytes=each.size_bytes,
                        format=each.format,
                        compression=each.compression,
                    )
                    begun = tx.imports.begin(file, actor="ana")
                    tx.imports.finish(
                        begun.import_id,
                        counts=ImportCounts(landed=each.records, accepted=each.records),
                        keys=KeyCounts(current=each.records),
                        days=[],
                        schema_versions=[],
                        ignored_columns=[],
                        actor="ana",
                    )
        finally:
            ws.close()

    def files(self) -> tuple[CapturedFile, ...]:
        """What the ledger has of captured files."""
        ws = self.open()
        try:
            with ws.ledger.read() as tx:
                return tx.captures.files(SALES)
        finally:
            ws.close()

    def rows(self) -> list[dict[str, Any]]:
        """What bronze has."""
        ws = self.open()
        try:
            found: list[dict[str, Any]] = ws.lake.open(SALES).to_pyarrow_table().to_pylist()
            return found
        finally:
            ws.close()

    def bytes(self, pattern: str = "*.jsonl.gz") -> dict[str, bytes]:
        """The landed files by name."""
        return {each.name: each.read_bytes() for each in (self.home / "landing").rglob(pattern)}

    def command(self, *words: str, more: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """A command of the shop in a process of its own."""
        return subprocess.Popen(
            [str(Path(sys.executable).with_name("backfill")), *words],
            cwd=PROJECT_ROOT,
            env={**os.environ, **self.environment(), **(more or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@dataclass(frozen=True, kw_only=True)
class CapturedShop(StreamShop):
    """A shop over a topic."""

    broker: Broker  #: Where the topic is.
    topic: str  #: Its name.
    live_topics: tuple[str, ...] = ()  #: The topics that were there before and may be replayed to.

    def environment(self) -> Mapping[str, str]:
        return {
            **super().environment(),
            "BACKFILL_DOMAIN": "backfill_assets_tests.domains.captured",
            "TEST_KAFKA_SERVERS": self.broker.servers,
            "TEST_KAFKA_TOPIC": self.topic,
            "TEST_KAFKA_LIVE": " ".join(self.live_topics),
            "TEST_KAFKA_CHUNK": str(self.declared.get("chunk", 1000)),
        }

    def source(self) -> SourceTable:
        usual = {"topic": self.topic, "servers": self.broker.servers, "chunk": 1000}
        topic = KafkaTopic(**{**usual, "answers_within": timedelta(seconds=10), **self.declared})
        allowed = KafkaReplay(servers=self.broker.servers, key_format="text", live_topics=self.live_topics)
        return replace(captured.sales, capture=topic, policy=self.policy, replay=allowed)


def finished(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit code of a command, and what it said on one line."""
    out, err = process.communicate(timeout=600)
    return process.returncode, " ".join(f"{out} {err}".split())


def lines_of(files: Mapping[str, bytes]) -> Iterator[dict[str, Any]]:
    """The records of landed files."""
    for _, content in sorted(files.items()):
        for line in gzip.decompress(content).splitlines():
            yield json.loads(line)


def spans_are_complete(files: Sequence[CapturedFile], ends: Mapping[str, int]) -> bool:
    """Whether files cover the positions of every partition up to its end, each once."""
    for partition, end in ends.items():
        at = 0
        for each in sorted((f for f in files if f.partition == partition), key=lambda f: int(f.range_from)):
            if int(each.range_from) != at:
                return False
            at = int(each.range_to)
        if at != end:
            return False
    return True


def plain_text(page: Page) -> str:
    """A page as a terminal shows it."""
    out = StringIO()
    show(Console(file=out, width=200), page)
    return out.getvalue()


def stopped(*_: object, **__: object) -> None:
    """Takes the place of a step in which a process ends."""
    raise RuntimeError("the process ends here")


class Died(Exception):
    """Stands for the end of a process between two batches."""


def dying_after(batches: int, *, records_per_minute: int) -> Pace:
    """A pace at which a process ends behind so many batches."""
    seen = count(1)

    def wait(_: float) -> None:
        if next(seen) >= batches:
            raise Died

    return Pace(records_per_minute=records_per_minute, wait=wait, now=lambda: 0.0)
