"""Generator of the demo's files and messages, in the order of their arrival.

One export a month, as authorities really send them: in three formats, with events reported too late for their month,
records sent twice, corrections of earlier records, and a few that are broken. Messages are the same, one by one.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from .case_histories import REPORTED_FROM, REPORTED_UNTIL, CaseEvent, generate_events

DEFAULT_CASES = 4_000
DEFAULT_SEED = 20_241_001

LATE_SHARE = 0.03
DUPLICATE_SHARE = 0.01
CORRECTED_SHARE = 0.012
BROKEN_EVERY = 4
"""One export in so many has broken records."""

TOPIC = "case-events"
"""Where messages are sent to."""

SERVERS = "CASE_EVENTS_SERVERS"
"""The variable that says where the brokers of the topic are."""

COLUMNS = ("event_id", "case_id", "jurisdiction", "event_type", "event_time", "attributes", "schema_version")
SUFFIXES = (".jsonl.gz", ".csv", ".jsonl")

Record = dict[str, str | int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One file as it came in; the suffix of its name is its format."""

    name: str
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One record as it was sent to a topic."""

    month: date  #: The first day of the month in which it was sent.
    key: str  #: The case, so that what happened to a case is in one partition.
    value: bytes  #: A JSON object; what was torn off is none.
    sent_at: datetime  #: When it was sent: when it happened or, late, in a later month.


def write_demo_files(folder: Path, *, cases: int = DEFAULT_CASES, seed: int = DEFAULT_SEED) -> tuple[Path, ...]:
    """Writes the demo's files into a folder, which is made if there is none.

    Args:
        folder: Where to; files of the same names are replaced.
        seed: The same seed gives the same files.

    Returns:
        The files in the order in which they came in.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for delivery in deliveries(cases=cases, seed=seed):
        path = folder / delivery.name
        path.write_bytes(delivery.content)
        paths.append(path)
    return tuple(paths)


def deliveries(*, cases: int = DEFAULT_CASES, seed: int = DEFAULT_SEED) -> tuple[Delivery, ...]:
    """The demo's files in the order in which they came in: one a month, October 2024 to July 2025."""
    return tuple(
        _delivery(number, month, records) for number, (month, records) in enumerate(_exports(cases, seed).items())
    )


def messages(*, cases: int = DEFAULT_CASES, seed: int = DEFAULT_SEED) -> Iterator[Message]:
    """The records of the demo's files in the order in which they were sent."""
    chance = random.Random(f"messages {seed}")  # noqa: S311 - reproducible, not secret
    for number, (month, records) in enumerate(_exports(cases, seed).items()):
        sent = [(_sent_at(record, month, chance), record) for record in records]
        if number % BROKEN_EVERY == 1:
            at = datetime(month.year, month.month, 15, 9, tzinfo=UTC)
            sent += [(at, record) for record in _broken_records(month)]
        for sent_at, record in sorted(sent, key=lambda each: each[0]):
            yield Message(month=month, key=str(record["case_id"]), value=json.dumps(record).encode(), sent_at=sent_at)


def _sent_at(record: Record, month: date, chance: random.Random) -> datetime:
    happened_at = datetime.fromisoformat(str(record["event_time"]))
    began = datetime(month.year, month.month, 1, tzinfo=UTC)
    return happened_at if happened_at >= began else began + timedelta(minutes=chance.randrange(25 * 24 * 60))


def _exports(cases: int, seed: int) -> Mapping[date, list[Record]]:
    """The records of every month, by when they came in."""
    chance = random.Random(f"deliveries {seed}")  # noqa: S311 - reproducible, not secret
    exports: dict[date, list[Record]] = {}
    month = REPORTED_FROM.date()
    while month < REPORTED_UNTIL.date():
        exports[month] = []
        month = _next_month(month)
    last = max(exports)
    for event in generate_events(cases=cases, seed=seed):
        _send(event, exports, last, chance)
    for records in exports.values():
        # Not in the order of time, nor of cases: nothing may depend on it.
        chance.shuffle(records)
    return exports


def _send(event: CaseEvent, exports: Mapping[date, list[Record]], last: date, chance: random.Random) -> None:
    """Puts an event into the export of its month or, late, of the next; and perhaps once more into a later one."""
    month = event.happened_at.date().replace(day=1)
    arrived = _next_month(month) if month < last and chance.random() < LATE_SHARE else month
    record = _record(event, event.happened_at, dict(event.attributes))
    exports[arrived] += [record, record] if chance.random() < DUPLICATE_SHARE else [record]
    if arrived < last and chance.random() < CORRECTED_SHARE:
        exports[_next_month(arrived)].append(_corrected(event, chance))


def _corrected(event: CaseEvent, chance: random.Random) -> Record:
    attributes = {**dict(event.attributes), "corrected": "clerk"}
    if chance.random() < 0.5:
        return _record(event, event.happened_at, attributes)
    # Half a day to two days earlier: often another day, so the day that had the event has to lose it.
    earlier = event.happened_at - timedelta(hours=chance.randint(12, 48))
    return _record(event, max(earlier, REPORTED_FROM), attributes)


def _record(event: CaseEvent, at: datetime, attributes: Mapping[str, str]) -> Record:
    return {
        "event_id": event.event_id,
        "case_id": event.case_id,
        "jurisdiction": event.jurisdiction,
        "event_type": event.event_type,
        "event_time": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "attributes": json.dumps(attributes, sort_keys=True) if attributes else None,
        "schema_version": 1,
    }


def _delivery(number: int, month: date, records: Sequence[Record]) -> Delivery:
    suffix = SUFFIXES[number % len(SUFFIXES)]
    is_csv, is_broken = suffix == ".csv", number % BROKEN_EVERY == 1
    every = [*records, *(_broken_records(month) if is_broken else ())]
    text = _as_csv(every) if is_csv else "".join(json.dumps(record) + "\n" for record in every)
    if is_broken and not is_csv:
        text += '{"event_id": "torn off in the mid\n'
    content = text.encode()
    return Delivery(
        name=f"case_events_{month:%Y-%m}{suffix}",
        # Without a time in its header, the same records give the same bytes.
        content=gzip.compress(content, mtime=0) if suffix.endswith(".gz") else content,
    )


def _broken_records(month: date) -> list[Record]:
    whole: Record = {
        "event_id": f"BROKEN-{month:%Y-%m}",
        "case_id": "IT-0000-00000",
        "jurisdiction": "IT",
        "event_type": "CASE_OPENED",
        "event_time": f"{month:%Y-%m}-15T09:00:00Z",
        "attributes": None,
        "schema_version": 1,
    }
    return [
        {**whole, "event_id": None},
        {**whole, "event_time": f"{month:%Y-%m}-15 at nine"},
        {**whole, "attributes": "fined"},
    ]


def _as_csv(records: Sequence[Record]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def _next_month(month: date) -> date:
    return (month.replace(day=1) + timedelta(days=32)).replace(day=1)
