"""Files that land in one call are, one by one, what they are when each lands alone in the same order."""

from __future__ import annotations

import gzip
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from backfill_assets.capture.files.file_capture import FileCapture
from backfill_assets.capture.landed_files import landing_files
from backfill_assets.core.clock import Clock
from backfill_assets.core.errors import AmbiguousOrder, BackfillError, UnreadableFile
from backfill_assets.core.settings import Settings
from backfill_assets.domain import SourceTable
from backfill_assets.landing import attempt, conformed
from backfill_assets.landing.days import pending_days
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.ledger.states import COUNTING, ImportState
from backfill_assets_tests.domains.orders import orders
from backfill_assets_tests.support.landing_examples import EVENTS, LandingRoom, event, json_lines, landing_room
from backfill_assets_tests.support.searches import examples, is_thorough

FIRST = date(2024, 5, 1)
DAYS = tuple(FIRST + timedelta(days=n) for n in range(5))

Record = Mapping[str, object]


def some_event(chance: random.Random) -> Record:
    record = event(
        f"k{chance.randrange(12)}",
        chance.choice([*(f"{day}T10:00:00Z" for day in DAYS), "never"]),
        place=f"p{chance.randrange(2)}",
        schema_version=chance.randrange(1, 3),
    )
    return record | ({f"extra{chance.randrange(3)}": "x"} if chance.random() < 0.2 else {})


def some_change(chance: random.Random) -> Record:
    """A change of an order; what has its position has its values, so that nothing is ambiguous."""
    lsn = chance.randrange(60)
    of_it = random.Random(lsn)
    op = of_it.choice("ccuuudrt") if lsn else "c"
    record: dict[str, object] = {"op": op, "lsn": lsn, "changed_at": f"2024-06-01T00:00:{lsn:02}Z"}
    if op != "t":
        record["order_id"] = f"k{of_it.randrange(6)}"
    if op not in "dt":
        record |= {"ordered_at": f"{of_it.choice(DAYS)}T09:00:00Z", "place": f"p{of_it.randrange(9)}"}
    return record


def written(room: LandingRoom, name: str, records: Sequence[Record], kind: str) -> Path:
    lines = json_lines(*records)
    match kind:
        case "jsonl.gz":
            return room.write(gzip.compress(lines, mtime=0), f"{name}.jsonl.gz")
        case "csv":
            columns = room.source.schema.fieldNames()
            rows = [",".join(columns), *(",".join(str(r.get(c) or "") for c in columns) for r in records)]
            return room.write(("\n".join(rows) + "\n").encode(), f"{name}.csv")
        case "parquet":
            columns = room.source.schema.fieldNames()
            texts = {
                c: pa.array([None if r.get(c) is None else str(r[c]) for r in records], pa.string()) for c in columns
            }
            path = room.inbox / f"{name}.parquet"
            room.inbox.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table(texts), path)
            return path
        case _:
            return room.write(lines, f"{name}.jsonl")


def everything(room: LandingRoom) -> dict[str, object]:
    """What is known of imports that count, of their days, and of bronze."""
    with room.ledger.read() as reader:
        assert not [*reader.events.violations(), *reader.row_checks.violations()]
        live = reader.imports.records(room.source.name, COUNTING)
        days = [asdict(day) for day in reader.imports.days([record.import_id for record in live])]
        pending = set(pending_days(reader, room.source).days)
    ids = {record.import_id: number for number, record in enumerate(live)}
    assert all(record.counts.reconciles for record in live)
    return {
        "imports": [
            (r.original_path.rpartition("/")[2], r.counts, r.keys, r.schema_versions, r.ignored_columns) for r in live
        ],
        "days": sorted(
            (ids[day.pop("import_id")], day.pop("event_date"), sorted(day.items())) for day in days if any_of(day)
        ),
        "pending": pending,
        "bronze": [{**row, "_import_id": ids[row["_import_id"]]} for row in room.bronze(DAYS)],
        "quarantined": {
            ids[import_id]: [{**row, "import_id": ""} for row in rows]
            for import_id, rows in room.quarantined.items()
            if rows
        },
    }


def any_of(day: Mapping[str, object]) -> bool:
    """Days that earlier files of the same call touch only until a later one has come are not compared."""
    return any(value for name, value in day.items() if name not in ("import_id", "event_date"))


def another(settings: Settings) -> Settings:
    home = settings.home.parent / "alone"
    return replace(settings, home=home, landing=home / "landing", ledger_url=f"sqlite:///{home}/ledger.db")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(examples(4)))
@pytest.mark.parametrize("source", [EVENTS, orders], ids=["events", "orders"])
def test_files_of_one_call_are_what_they_are_one_after_the_other(
    spark: SparkSession,
    settings: Settings,
    clock: Clock,
    source: SourceTable,
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chance = random.Random(seed)
    some = some_event if source is EVENTS else some_change
    count = 7 if is_thorough() else 4
    files = [[some(chance) for _ in range(chance.randrange(0, 25))] for _ in range(count)]
    kinds = [chance.choice(["jsonl", "jsonl", "jsonl.gz", "csv", "parquet"]) for _ in files]
    order = [0, 1, *chance.sample(range(2, count), count - 2), chance.randrange(count)]  # one of them comes twice
    monkeypatch.setattr(attempt, "MOST_FILES", chance.choice([3, 100]))
    last = [some(chance) for _ in range(10)]
    found = []
    for alone in (True, False):
        with landing_room(spark, another(settings) if alone else settings, clock, source) as room:
            paths = [written(room, f"f{n}", files[n], kinds[n]) for n in range(count)]
            calls = [[n] for n in order] if alone else [order[:1], order[1:]]
            for call in calls:
                room.land_paths([paths[n] for n in call])
            # What one reads from the folder of each import, the other reads from compacted versions.
            monkeypatch.setattr(conformed, "MOST_FOLDERS", 32 if alone else 2)
            room.land_paths([paths[1], paths[3]], on_duplicate=OnDuplicate.CORRECT)
            room.land_paths([paths[order[2]]], on_duplicate=OnDuplicate.REPROCESS)
            room.land_paths([written(room, "last", last, "jsonl")])
            segments = [each for each in landing_files(settings).listed() if each.path.endswith("_stands_for.json")]
            assert bool(segments) is not alone
            found.append(everything(room))
    one_by_one, in_one_call = found
    assert in_one_call.pop("pending") <= one_by_one.pop("pending")  # type: ignore[operator]
    assert in_one_call == one_by_one


@pytest.mark.long
def test_a_file_that_cannot_be_read_stops_those_after_it_and_none_before_it(
    spark: SparkSession, settings: Settings, clock: Clock
) -> None:
    with landing_room(spark, settings, clock) as room:
        good = [room.write(json_lines(event(f"e{n}")), f"good{n}.jsonl") for n in range(3)]
        bad = room.write(b"\x00\x01\x02", "bad.jsonl")
        with pytest.raises(UnreadableFile, match=r"bad\.jsonl"):
            room.land_paths([*good[:2], bad, good[2]])
        assert [(r.original_path, r.state) for r in room.imports()] == [
            (str(path), ImportState.LANDED) for path in good[:2]
        ]


@pytest.mark.long
def test_a_file_that_is_found_bad_while_all_are_counted_stops_those_after_it_and_none_before_it(
    spark: SparkSession, settings: Settings, clock: Clock
) -> None:
    def change(lsn: int, place: str) -> Record:
        at = "2024-05-01T09:00:00Z"
        return {"op": "u", "lsn": lsn, "changed_at": at, "order_id": "a", "ordered_at": at, "place": place}

    with landing_room(spark, settings, clock, orders) as room:
        contents = ([change(1, "x")], [change(2, "y")], [change(2, "other")], [change(3, "z")])
        paths = [room.write(json_lines(*content), f"f{n}.jsonl") for n, content in enumerate(contents)]
        landed: list[str] = []
        with pytest.raises(AmbiguousOrder) as refused:
            together_into(room, paths, landed)
        assert isinstance(refused.value, BackfillError)
        assert landed == [str(path) for path in paths[:2]]
        states = [record.state for record in room.imports()]
        assert states == [ImportState.LANDED, ImportState.LANDED, ImportState.FAILED, ImportState.FAILED]
        assert room.imports()[2].note.startswith("landing stopped: ")
        assert room.imports()[3].note == "not tried, because f2.jsonl before it was refused"
        assert [row["place"] for row in room.bronze(DAYS) if row["_ended_by"] is None] == ["y"]
        assert [outcome.is_new for outcome in room.land_paths([paths[0], paths[3]])] == [False, True]


@pytest.mark.long
@pytest.mark.parametrize("first", ["t", "c"])
def test_a_record_and_a_truncate_of_one_position_are_refused_in_either_order(
    spark: SparkSession, settings: Settings, clock: Clock, first: str
) -> None:
    at = "2024-05-01T09:00:00Z"
    truncate: Record = {"op": "t", "lsn": 0, "changed_at": at}
    create: Record = {"op": "c", "lsn": "+0", "changed_at": at, "order_id": "a", "ordered_at": at, "place": "x"}
    with landing_room(spark, settings, clock, orders) as room:
        lines = sorted([truncate, create], key=lambda each: each["op"] != first)
        with pytest.raises(AmbiguousOrder, match="order_id a have the same lsn 0 and different values"):
            room.land(json_lines(*lines), "changes.jsonl")
        assert [record.state for record in room.imports()] == [ImportState.FAILED]


def together_into(room: LandingRoom, paths: Sequence[Path], landed: list[str]) -> None:
    from backfill_assets.landing.land import land_files

    land_files(
        room.work(),
        [FileCapture(path) for path in paths],
        OnDuplicate.IGNORE,
        lambda outcome: landed.append(outcome.record.original_path),
    )


def test_batches_hold_files_in_their_order_up_to_a_number_and_a_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt, "MOST_FILES", 3)
    monkeypatch.setattr(attempt, "MOST_BYTES", 100)
    sizes = [10, 20, 30, 40, 150, 60, 60]
    paths = [tmp_path / f"{n}.jsonl" for n in range(len(sizes))]
    for path, size in zip(paths, sizes, strict=True):
        path.write_bytes(b"x" * size)
    captures = [FileCapture(path) for path in [*paths, tmp_path / "there is none.jsonl"]]
    found = [[[c.name for c in captures].index(each.name) for each in batch] for batch in attempt.batches(captures)]
    assert found == [[0, 1, 2], [3], [4], [5], [6, 7]]


@pytest.mark.long
def test_files_whose_rows_end_in_different_ways_land_in_one_batch(
    spark: SparkSession, settings: Settings, clock: Clock
) -> None:
    content = b"event_time,event_id\n2024-05-01T10:00:00Z,%s\n"
    ends = {"a": b"\n", "b": b"\r\n", "c": b"\r"}
    with landing_room(spark, settings, clock) as room:
        paths = [room.write((content % k.encode()).replace(b"\n", end), f"{k}.csv") for k, end in ends.items()]
        assert [landed.record.counts.accepted for landed in room.land_paths(paths)] == [1, 1, 1]
        assert [row["event_id"] for row in room.bronze([FIRST])] == ["a", "b", "c"]
