"""A source whose records are changed, deleted, taken back and restored, and a plain consumer of its replays.

The consumer knows nothing of the project: it keeps a dictionary by the bytes of keys, and a record without a value
deletes its key. What it should hold is computed here by a plain model of the story, not read from bronze.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType, TimestampType

from backfill_assets.application.execute import execute
from backfill_assets.application.parts import Part
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.application.replay import ReplayAsked, replay
from backfill_assets.capture.streams import Pace
from backfill_assets.core.clock import Clock
from backfill_assets.domain import DayRange, Domain, KafkaReplay, Operations, SourceTable, daily, lifts
from backfill_assets.landing.extract import Extract
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.report.replayed import ReplayPlan, ReplayReport
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support import operations

SALES = "bronze.sales"
FIRST = date(2026, 1, 1)
_DAYS = 4
_numbers = count(1)

_OPERATION = (StructField("op", StringType()), StructField("number", LongType()))
_TIMES = (StructField("sold_at", TimestampType()), StructField("changed_at", TimestampType()))
_PLACE = StructField("place", StringType())
VERSIONS = {
    1: StructType([StructField("id", IntegerType(), False), *_TIMES, StructField("amount", IntegerType()), _PLACE]),
    2: StructType([StructField("sale_no", IntegerType(), False), *_TIMES, StructField("cents", LongType()), _PLACE]),
    3: StructType(
        [
            StructField("sale_no", LongType(), False),
            *_TIMES,
            StructField("cents", LongType()),
            _PLACE,
            StructField("channel", StringType()),
        ]
    ),
}
"""The key and the place are renamed or widened, the amount is computed anew, and a column is added."""

LIFTS = {
    1: lifts(lambda sale: {"cents": sale["amount"].cast("long") * 100}, renamed={"id": "sale_no"}, dropped=("amount",)),
    2: lifts(defaults={"channel": "shop"}),
}


def domain_of(version: int, *, is_feed: bool, replays: KafkaReplay | None) -> Domain:
    """The domain as its author has it while a version of the contract is the present one."""
    versions = {n: StructType([*each.fields, *_OPERATION]) if is_feed else each for n, each in VERSIONS.items()}
    changes: Mapping[str, Any] = {
        "order": ("number",),
        "operation": Operations(column="op", create="c", update="u", delete="d", truncate="t", at="changed_at"),
    }
    sales = SourceTable(
        name=SALES,
        key=("id" if version == 1 else "sale_no",),
        event_time="sold_at",
        partition=daily("sold_on"),
        schema=versions[version],
        earlier={each: known for each, known in versions.items() if each < version},
        lift={each: known for each, known in LIFTS.items() if each < version},
        plausible_gap_days=400,
        most_withdrawn_percent=100,
        replay=replays,
        **(changes if is_feed else {}),
    )
    return Domain(name="replayed", package="backfill_assets_tests.domains.contract", sources=(sales,), derived=())


@dataclass(frozen=True, kw_only=True)
class Version:
    """A version of a key, as the story has it."""

    arrival: int
    number: int
    op: str
    at: datetime | None
    changed_at: datetime
    amount: int
    place: str
    contract: int

    def shown(self, key: int, contract: int, *, is_feed: bool) -> dict[str, Any]:
        """What a consumer is to hold of it."""
        cents = self.amount * 100 if self.contract == 1 else self.amount
        found: dict[str, Any] = {"id": key} if contract == 1 else {"sale_no": key}
        found |= {"sold_at": _text(self.at), "changed_at": _text(self.changed_at)}
        found |= {"amount": self.amount} if contract == 1 else {"cents": cents}
        found |= {"place": self.place}
        if contract == 3:
            found |= {"channel": "shop" if self.contract < 3 else "web"}
        return found | ({"op": self.op, "number": self.number} if is_feed else {})


def _text(at: datetime | None) -> str | None:
    return None if at is None else f"{at.replace(tzinfo=None).isoformat()}Z"


@dataclass(kw_only=True)
class Story:
    """A home in which the source lives, and what is known of it without asking the home."""

    ws: Workspace
    folder: Path
    chance: Random
    is_feed: bool
    replays: KafkaReplay
    contract: int = 1
    versions: dict[int, list[Version]] = field(default_factory=dict)
    truncates: list[tuple[int, int]] = field(default_factory=list)
    withdrawn: list[tuple[int, int, str]] = field(default_factory=list)
    arrivals: Iterator[int] = field(default_factory=lambda: count(1))
    numbers: Iterator[int] = field(default_factory=lambda: count(1))
    told: list[str] = field(default_factory=list)
    into: str = ""

    # ---------------------------------------------------------------------------------------------- what happens

    def declares(self, source: SourceTable, *, clock: Clock | None = None) -> None:
        """The home is that of another source, of whose story nothing is known here."""
        self.ws = Workspace(
            settings=self.ws.settings,
            domain=Domain(
                name="replayed", package="backfill_assets_tests.domains.contract", sources=(source,), derived=()
            ),
            clock=clock or self.ws.clock,
            open_session=self.ws.open_session,
        )

    def has_landed(self, name: str, content: bytes) -> None:
        """A file of the source as it is written here."""
        path = self.folder / name
        path.write_bytes(content)
        (source,) = self.ws.domain.sources
        operations.land(self.ws, source.name, path, on_duplicate=OnDuplicate.IGNORE, by="ana")

    def becomes(self, version: int) -> None:
        """The author edits the contract."""
        self.contract = version
        self.declares(*domain_of(version, is_feed=self.is_feed, replays=self.replays).sources)
        self.told.append(f"contract {version}")

    def lands(self, *changes: tuple[int, str] | tuple[int, str, int], timeless: bool | None = None) -> None:
        """A file with changes of keys: `c`, `u`, `d` or, of every key, `t`; of a day, or of any."""
        arrival, records = next(self.arrivals), []
        for key, op, *day in changes:
            records.append(self._record(key, op, day[0] if day else self.chance.randrange(_DAYS), arrival, timeless))
        path = self.folder / f"sales-{next(_numbers)}.jsonl"
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        operations.land(self.ws, SALES, path, on_duplicate=OnDuplicate.IGNORE, by="ana")
        self.told.append(f"lands {changes}")

    def _record(self, key: int, op: str, day: int, arrival: int, timeless: bool | None) -> dict[str, Any]:
        number = next(self.numbers)
        on = datetime.combine(FIRST + timedelta(days=day), time(), tzinfo=UTC) + timedelta(minutes=number)
        lacks = op in "dt" and (self.chance.random() < 0.6 if timeless is None else timeless)
        version = Version(
            arrival=arrival,
            number=number,
            op=op,
            at=None if lacks else on,
            changed_at=on,
            amount=self.chance.randrange(100),
            place=self.chance.choice(["here", "zuß", "日本"]),
            contract=self.contract,
        )
        if op == "t":
            self.truncates.append((arrival, number))
        else:
            self.versions.setdefault(key, []).append(version)
        record = version.shown(key, self.contract, is_feed=self.is_feed)
        return record | {self.key: None} if op == "t" else record

    def withdraws(self, key: int) -> None:
        """A person takes a key back."""
        landed = operations.withdraw(self.ws, SALES, {self.key: str(key)}, by="ana", reason="never sold")
        self.withdrawn.append((next(self.arrivals), key, landed.record.import_id))
        self.told.append(f"withdraws {key}")

    def restores(self, import_id: str) -> None:
        """A person undoes a withdrawal or an extract."""
        operations.restore(self.ws, SALES, import_id, by="ana", reason="sold after all")
        next(self.arrivals)
        self.withdrawn = [each for each in self.withdrawn if each[2] != import_id]
        self.told.append(f"restores {import_id}")

    def extracts(self, day: int, *kept: int) -> None:
        """A complete extract of a day has these keys alone."""
        arrival = next(self.arrivals)
        before = [key for key, found in self.current().items() if self._day(found) == day]
        records = [self._record(key, "u", day, arrival, False) for key in kept]
        path = self.folder / f"extract-{next(_numbers)}.jsonl"
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        on = FIRST + timedelta(days=day)
        days = DayRange.inclusive(on, on)
        stated = Extract(days=days, where={}, reason="the whole day", confirmed_by="ben")
        found = operations.land_extract(self.ws, SALES, [path], stated, by="ana")
        last = next(self.arrivals)
        self.withdrawn += [(last, key, found.statement.record.import_id) for key in before if key not in kept]
        self.told.append(f"extracts {day} {kept}")

    def builds(self) -> None:
        """Every day that waits is built and published; ben agrees, as a contract that renames a key asks for."""
        (source,) = self.ws.domain.sources
        run = operations.plan_load(self.ws, source.name, partitions=None, by="ana", reason="landed")
        if run is not None:
            operations.approve(self.ws, run.run_id, by="ben")
            execute(self.ws, run.run_id, [Part.STAGE, Part.GATE, Part.PUBLISH], actor="ana")

    def goes_on(self) -> None:
        """Something happens."""
        keys, current = range(1, 8), list(self.current())
        acts = ["lands", "lands", "lands", "extracts"]
        acts += ["withdraws"] * bool(current) + ["restores"] * bool(self.withdrawn) + ["becomes"] * (self.contract < 3)
        match self.chance.choice(acts):
            case "lands":
                ops = "cuuddt" if self.is_feed and self.versions else "u"
                self.lands(
                    *((self.chance.choice(keys), self.chance.choice(ops)) for _ in range(self.chance.randint(1, 6)))
                )
            case "extracts":
                self.extracts(self.chance.randrange(_DAYS), *self.chance.sample(keys, self.chance.randint(1, 3)))
            case "withdraws":
                self.withdraws(self.chance.choice(current))
            case "restores":
                self.restores(self.chance.choice(self.withdrawn)[2])
            case "becomes":
                self.becomes(self.contract + 1)

    # --------------------------------------------------------------------------------------------- what is known

    @property
    def key(self) -> str:
        return "id" if self.contract == 1 else "sale_no"

    def current(self) -> dict[int, Version]:
        """The version of each key that exists."""
        found: dict[int, Version] = {}
        for key, versions in self.versions.items():
            void = max((arrival for arrival, of, _ in self.withdrawn if of == key), default=0)
            standing = [each for each in versions if each.arrival > void]
            last = max(
                standing, key=lambda each: each.number if self.is_feed else (each.arrival, each.number), default=None
            )
            is_ended = last is not None and any(number > last.number for _, number in self.truncates)
            if last is not None and last.op != "d" and not is_ended:
                found[key] = last
        return found

    @staticmethod
    def _day(version: Version) -> int:
        return ((version.at or version.changed_at).date() - FIRST).days

    def expected(self, days: Sequence[int] = range(_DAYS)) -> dict[bytes, dict[str, Any]]:
        """What a consumer of everything holds, by the text of the key."""
        return {
            str(key).encode(): version.shown(key, self.contract, is_feed=self.is_feed)
            for key, version in self.current().items()
            if self._day(version) in days
        }

    def replayed(
        self,
        *,
        again: bool = False,
        pace: Pace | None = None,
        days: DayRange | None = None,
        planned: Callable[[ReplayPlan], None] = lambda _: None,
    ) -> ReplayReport:
        """Sends the source to a topic of its own, or goes on with the last one."""
        if not again:
            self.into = f"state-{next(_numbers)}"
        acting = Acting(by="ana", recorder=Unrecorded())
        (source,) = self.ws.domain.sources
        asked = ReplayAsked(subject=source.short_name, into=self.into, days=days)
        return replay(self.ws, asked, acting, reason="a test", pace=pace or Pace(), planned=planned)


def consume(servers: str, topic: str, held: MutableMapping[bytes | None, Any]) -> int:
    """Reads a topic to its end into a dictionary by key, as any consumer does; how many records there were."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"plain-{next(_numbers)}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        consumer.assign([TopicPartition(topic, each, 0) for each in partitions])
        seen, ended = 0, 0
        while ended < len(partitions):
            message = consumer.poll(10)
            assert message is not None, "the broker does not answer"
            error, value = message.error(), message.value()
            if error is not None:
                assert error.name() == "_PARTITION_EOF", error
                ended += 1
                continue
            seen += 1
            if value is None:
                held.pop(message.key(), None)
            else:
                held[message.key()] = json.loads(value)
        return seen
    finally:
        consumer.close()
