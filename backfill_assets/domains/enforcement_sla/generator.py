"""Generator of the demo's files, in the order of their arrival.

One export a month, as authorities really send them: in three formats, with events reported too late for their month,
records sent twice, corrections of earlier records, and a few that are broken.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path

from .case_histories import (
    REPORTED_FROM,
    REPORTED_UNTIL,
    CaseEvent,
    generate_events,
)

DEFAULT_CASES = 4_000
DEFAULT_SEED = 20_241_001

LATE_SHARE = 0.03
DUPLICATE_SHARE = 0.01
CORRECTED_SHARE = 0.012
BROKEN_EVERY = 4
"""One export in so many has broken records."""

COLUMNS = ("event_id", "case_id", "jurisdiction", "event_type", "event_time", "attributes", "schema_version")
SUFFIXES = (".jsonl.gz", ".csv", ".jsonl")

Record = dict[str, str | int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One file as it came in, and what was put into it.

    Attributes:
        name: Its file name; the suffix is its format.
        content: Its bytes.
        records: All records, those below included.
        late: Events of an earlier month.
        duplicates: Exact copies of a record that came before, in this file or an earlier one.
        corrections: Records with the id of one in an earlier file, and other attributes or another time.
        broken: Records that break the contract: no JSON, no `event_id`, or no time.
    """

    name: str
    content: bytes
    records: int
    late: int
    duplicates: int
    corrections: int
    broken: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    """A record on its way into an export, and why it is there."""

    record: Record
    why: str


def write_demo_files(folder: Path, *, cases: int = DEFAULT_CASES, seed: int = DEFAULT_SEED) -> tuple[Path, ...]:
    """Writes the demo's files into a folder, which is made if there is none.

    Args:
        folder: Where to; files of the same names are replaced.
        cases: How many cases the files tell about.
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
    chance = random.Random(f"deliveries {seed}")  # noqa: S311 - reproducible, not secret
    exports: dict[date, list[_Sent]] = {}
    month = REPORTED_FROM.date()
    while month < REPORTED_UNTIL.date():
        exports[month] = []
        month = _next_month(month)
    last = max(exports)
    for event in generate_events(cases=cases, seed=seed):
        _send(event, exports, last, chance)
    made = []
    for number, (month, sent) in enumerate(exports.items()):
        # Not in the order of time, nor of cases: nothing may depend on it.
        chance.shuffle(sent)
        made.append(_delivery(number, month, sent))
    return tuple(made)


def _send(event: CaseEvent, exports: Mapping[date, list[_Sent]], last: date, chance: random.Random) -> None:
    """Puts an event into the export of its month or, late, of the next; and perhaps once more into a later one."""
    month = event.happened_at.date().replace(day=1)
    is_late = month < last and chance.random() < LATE_SHARE
    arrived = _next_month(month) if is_late else month
    record = _record(event, event.happened_at, dict(event.attributes))
    exports[arrived].append(_Sent(record=record, why="late" if is_late else "new"))
    if chance.random() < DUPLICATE_SHARE:
        exports[arrived].append(_Sent(record=record, why="duplicate"))
    if arrived < last and chance.random() < CORRECTED_SHARE:
        exports[_next_month(arrived)].append(_Sent(record=_corrected(event, chance), why="correction"))


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


def _delivery(number: int, month: date, sent: Sequence[_Sent]) -> Delivery:
    suffix = SUFFIXES[number % len(SUFFIXES)]
    records = [item.record for item in sent]
    broken = _broken_records(month) if number % BROKEN_EVERY == 1 else []
    is_csv = suffix == ".csv"
    text = _as_csv([*records, *broken]) if is_csv else _as_jsonl([*records, *broken])
    if broken and not is_csv:
        text += '{"event_id": "torn off in the mid\n'
    content = text.encode()
    why = Counter(item.why for item in sent)
    return Delivery(
        name=f"case_events_{month:%Y-%m}{suffix}",
        # Without a time in its header, the same records give the same bytes.
        content=gzip.compress(content, mtime=0) if suffix.endswith(".gz") else content,
        records=len(records) + len(broken) + (1 if broken and not is_csv else 0),
        late=why["late"],
        duplicates=why["duplicate"],
        corrections=why["correction"],
        broken=len(broken) + (1 if broken and not is_csv else 0),
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


def _as_jsonl(records: Sequence[Record]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def _as_csv(records: Sequence[Record]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def _next_month(month: date) -> date:
    return (month.replace(day=1) + timedelta(days=32)).replace(day=1)
