"""Do the demo's files hold what they claim, and the same on every machine?"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from backfill_assets.core.settings import PROJECT_ROOT
from backfill_assets.examples.enforcement_sla.case_histories import AUTHORITIES, generate_events
from backfill_assets.examples.enforcement_sla.generator import (
    COLUMNS,
    DEFAULT_CASES,
    DEFAULT_SEED,
    Delivery,
    deliveries,
    write_demo_files,
)

ZONES = {authority.jurisdiction: ZoneInfo(authority.timezone) for authority in AUTHORITIES}


@pytest.fixture(scope="module")
def made() -> tuple[Delivery, ...]:
    return deliveries()


def records_of(delivery: Delivery) -> list[dict[str, Any] | None]:
    """The records of a file; None for a line that is not JSON."""
    content = gzip.decompress(delivery.content) if delivery.name.endswith(".gz") else delivery.content
    if delivery.name.endswith(".csv"):
        return [
            {key: value or None for key, value in row.items()} for row in csv.DictReader(io.StringIO(content.decode()))
        ]
    return [parsed(line) for line in content.decode().splitlines()]


def parsed(line: str) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except json.JSONDecodeError:
        return None
    assert isinstance(record, dict)
    return record


def is_whole(record: dict[str, Any] | None) -> bool:
    if record is None or not record.get("event_id"):
        return False
    try:
        datetime.strptime(record["event_time"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
        return isinstance(json.loads(record["attributes"] or "{}"), dict)
    except ValueError:
        return False


def whole_records(made: tuple[Delivery, ...]) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, delivery in enumerate(made):
        for record in records_of(delivery):
            if record is not None and is_whole(record):
                yield number, record


def test_the_same_seed_gives_the_same_bytes_and_another_seed_does_not(tmp_path: Path) -> None:
    def digests(folder: Path, seed: int) -> list[tuple[str, str]]:
        paths = write_demo_files(folder, cases=40, seed=seed)
        return [(path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in paths]

    assert digests(tmp_path / "a", 1) == digests(tmp_path / "b", 1) != digests(tmp_path / "c", 2)


def test_files_are_written_in_the_order_of_arrival_in_three_formats(tmp_path: Path) -> None:
    names = [path.name for path in write_demo_files(tmp_path, cases=10, seed=1)]
    assert names == sorted(names)
    assert {name.partition(".")[2] for name in names} == {"jsonl", "jsonl.gz", "csv"}


def test_every_fourth_file_has_broken_records_and_some_of_them_are_no_json(made: tuple[Delivery, ...]) -> None:
    broken = [sum(not is_whole(record) for record in records_of(delivery)) for delivery in made]
    assert broken == [0, 3, 0, 0, 0, 4, 0, 0, 0, 4]
    assert sum(None in records_of(delivery) for delivery in made) == 2


def test_files_repeat_records_correct_earlier_ones_and_bring_events_late(made: tuple[Delivery, ...]) -> None:
    months = [delivery.name.removeprefix("case_events_")[:7] for delivery in made]
    seen: dict[str, set[str]] = {}
    found: Counter[str] = Counter()
    for number, record in whole_records(made):
        content = json.dumps({key: str(record[key]) for key in COLUMNS}, sort_keys=True)
        earlier = seen.setdefault(record["event_id"], set())
        if content in earlier:
            found["duplicates"] += 1
        elif earlier:
            found["corrections"] += 1
        elif record["event_time"][:7] < months[number]:
            found["late"] += 1
        earlier.add(content)
    assert found["duplicates"] > 100 and found["corrections"] > 100 and found["late"] > 300


def test_every_utc_day_from_october_to_the_first_of_july_has_events(made: tuple[Delivery, ...]) -> None:
    days = {date.fromisoformat(record["event_time"][:10]) for _, record in whole_records(made)}
    assert (min(days), max(days)) == (date(2024, 10, 1), date(2025, 7, 1))
    assert len(days) == (max(days) - min(days) + timedelta(days=1)).days


def test_the_utc_date_differs_from_the_local_date_for_some_events_of_every_jurisdiction() -> None:
    events = list(generate_events(cases=DEFAULT_CASES, seed=DEFAULT_SEED))
    assert 15_000 < len(events) < 20_000
    differing = Counter(
        event.jurisdiction
        for event in events
        if event.happened_at.date() != event.happened_at.astimezone(ZONES[event.jurisdiction]).date()
    )
    total = Counter(event.jurisdiction for event in events)
    assert set(differing) == set(ZONES)
    assert all(0.01 < differing[name] / total[name] < 0.2 for name in ZONES)


def test_the_events_of_a_case_follow_each_other_in_time_and_have_ids_of_their_own() -> None:
    last: dict[str, datetime] = {}
    ids = set()
    for event in generate_events(cases=300, seed=5):
        assert event.happened_at > last.get(event.case_id, datetime(2024, 1, 1, tzinfo=UTC))
        last[event.case_id] = event.happened_at
        assert event.event_id not in ids
        ids.add(event.event_id)
    assert len(last) <= 300


def test_the_sample_holds_nineteen_whole_records_and_a_broken_one() -> None:
    sample = PROJECT_ROOT / "backfill_assets_tests" / "support" / "case_events.jsonl"
    lines = sample.read_text().splitlines()
    assert [is_whole(parsed(line)) for line in lines] == [True] * 19 + [False]
    assert all({*COLUMNS} == {*json.loads(line)} for line in lines[:19])
