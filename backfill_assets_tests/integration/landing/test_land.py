"""How files come in: what is recorded, what is counted, what happens to the same content again, and after a crash."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime
from hashlib import sha256
from pathlib import Path
from textwrap import dedent

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import DecimalType, IntegerType, StructField, StructType

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.capture.files.file_capture import FileCapture
from backfill_assets.capture.landed_files import Checked, FileKind, Format, LandedFile, LandingPlace, landing_files
from backfill_assets.core.clock import Clock
from backfill_assets.core.errors import MissingInput, Refused, UnreadableFile
from backfill_assets.core.settings import PROJECT_ROOT, Settings
from backfill_assets.domain import SourceTable
from backfill_assets.landing.attempt import Landed, clean_up_landing, landing_turn, new_lease
from backfill_assets.landing.conformed import conformed_folder, has_present_hashes
from backfill_assets.landing.days import pending_days
from backfill_assets.landing.extract import Extract, land_extract
from backfill_assets.landing.imports import OnDuplicate, imports_for_days
from backfill_assets.landing.land import land_files
from backfill_assets.ledger.imports import ImportCounts, ImportRecord
from backfill_assets.ledger.states import ImportState
from backfill_assets.report.landed import LandedImport, LandReport, landed_page
from backfill_assets.report.page import Note
from backfill_assets_tests.conftest import SPARK_ENVIRONMENT
from backfill_assets_tests.support.landing_examples import EVENTS, LandingRoom, event, json_lines, landing_room
from backfill_assets_tests.support.ledgers import home_environment

MAY_1, MAY_2, MAY_3 = date(2024, 5, 1), date(2024, 5, 2), date(2024, 5, 3)


def on(day: int, event_id: str, place: str = "x") -> dict[str, object]:
    return event(event_id, f"2024-05-{day:02}T10:00:00Z", place=place)


def counts(record: ImportRecord) -> tuple[int, int, int, int, int]:
    c = record.counts
    return c.landed, c.accepted, c.duplicate, c.superseded, c.rejected


@pytest.mark.long
@pytest.mark.parametrize("how", ["reprocess", "correct", "extract"])
def test_a_landed_file_that_has_other_bytes_by_now_is_put_back_and_never_read(room: LandingRoom, how: str) -> None:
    content = json_lines(on(1, "a", "right"))
    first = room.land(content).record
    stored = Path(str(room.settings.landing), first.stored_path)
    stored.chmod(0o644)
    stored.write_bytes(content.replace(b"right", b"wrong"))
    if how == "extract":
        stated = Extract(days=DayRange.inclusive(MAY_1, MAY_1), where={}, reason="all")
        land_extract(room.work(), [FileCapture(room.inbox / "events.jsonl")], stated)
    else:
        room.land(content, on_duplicate=OnDuplicate(how))
    assert stored.read_bytes() == content
    assert [row["place"] for row in room.bronze([MAY_1])] == ["right"]
    assert ImportState.LANDED in {each.state for each in room.imports()}


def days(room: LandingRoom, record: ImportRecord) -> list[tuple[date, int, int]]:
    with room.ledger.read() as reader:
        return [(d.event_date, d.events, d.displaced) for d in reader.imports.days([record.import_id])]


@pytest.mark.long
def test_columns_of_the_contract_that_a_file_does_not_have_are_named(room: LandingRoom) -> None:
    csv = b"event_id,event_time,lieu\na,2024-05-01T10:00:00Z,x\n"
    landed = room.land(csv, "renamed.csv")
    assert (landed.record.ignored_columns, landed.missing_columns) == (
        ("lieu",),
        ("attributes", "place", "schema_version"),
    )
    (row,) = room.bronze([MAY_1])
    assert (row["place"], row["attributes"], row["schema_version"]) == (None, None, None)
    assert room.land(json_lines(on(1, "b")), "whole.jsonl").missing_columns == ()
    told = LandedImport(record=landed.record, is_new=True, rejected=(), missing_columns=landed.missing_columns)
    report = LandReport(
        source="bronze.events",
        imports=(told,),
        extract=None,
        quarantine="q",
        load=None,
        without_events=None,
        mostly_rejected=(),
        next_steps=(),
    )
    said = f"{landed.record.import_id} has no attributes, place, schema_version: null in all of its records"
    assert Note(text=said) in landed_page(report).blocks


@pytest.mark.long
def test_a_landed_file_is_recorded_counted_and_its_bad_records_are_quarantined(room: LandingRoom) -> None:
    content = json_lines(
        on(1, "a") | {"schema_version": 2, "zeal": 1},
        on(1, "a") | {"schema_version": 2},
        on(3, "a", "y") | {"schema_version": 1, "extra": 1},
        on(3, "b"),
        {"event_id": "c"},
    )
    landed = room.land(content + b"x" * 70_000 + b"\n")
    record = landed.record
    assert landed.is_new
    assert landed.days == (MAY_1, MAY_3)
    assert (record.state, record.arrival, record.format, record.compression) == (ImportState.LANDED, 1, "jsonl", "")
    assert counts(record) == (6, 2, 1, 1, 2)
    assert (record.schema_versions, record.ignored_columns) == ((1, 2), ("extra", "zeal"))
    assert days(room, record) == [(MAY_1, 2, 0), (MAY_3, 2, 0)]
    missing, broken = room.quarantined[record.import_id]
    assert missing == {
        "source": "bronze.events",
        "import_id": record.import_id,
        "file_name": "events.jsonl",
        "row_number": 5,
        "reason": "event_time is missing",
        "raw_record": '{"event_id": "c"}',
        "raw_truncated": False,
        "landed_at": datetime(2026, 1, 15, 12, 0),  # noqa: DTZ001  (Spark hands out UTC without a zone)
    }
    assert (broken["row_number"], broken["raw_truncated"], broken["raw_record"]) == (6, True, "x" * 65_536)
    assert [(row["event_id"], row["place"], row["_import_id"], row["_row"]) for row in room.bronze([MAY_1, MAY_3])] == [
        ("a", "y", record.import_id, 3),
        ("b", "x", record.import_id, 4),
    ]


@pytest.mark.long
def test_a_later_file_supersedes_records_where_they_were_accepted(room: LandingRoom) -> None:
    first = room.land(json_lines(on(1, "a"), on(1, "b"), on(1, "c"))).record
    second = room.land(json_lines(on(1, "a"), on(1, "b", "y"))).record
    third = room.land(json_lines(on(1, "a", "z"), on(2, "b", "y"), on(2, "d"))).record
    assert [counts(record) for record in room.imports()] == [(3, 1, 0, 2, 0), (2, 0, 1, 1, 0), (3, 3, 0, 0, 0)]
    assert days(room, third) == [(MAY_1, 1, 1), (MAY_2, 2, 0)]
    assert {(row["event_id"], row["_import_id"]) for row in room.bronze([MAY_1])} == {
        ("a", third.import_id),
        ("c", first.import_id),
    }
    assert [row["event_id"] for row in room.bronze([MAY_2])] == ["b", "d"]
    with room.ledger.read() as reader:
        assert [r.import_id for r in imports_for_days(reader, EVENTS, [MAY_1])] == [
            record.import_id for record in (first, second, third)
        ]
        assert [r.import_id for r in imports_for_days(reader, EVENTS, [MAY_2])] == [third.import_id]


@pytest.mark.long
def test_columns_that_change_places_and_decimals_with_more_digits_make_no_correction_a_repetition(
    spark: SparkSession, settings: Settings, clock: Clock
) -> None:
    def declared(*columns: str, price: DecimalType) -> SourceTable:
        of_columns = [StructField(name, IntegerType()) for name in columns]
        own = [field for field in EVENTS.schema if field.name in ("event_id", "event_time")]
        schema = StructType([*own, *of_columns, StructField("price", price)])
        return replace(EVENTS, schema=schema, json_columns=())

    def record(event_id: str, net: int, gross: int, price: str) -> dict[str, object]:
        return event(event_id, net=net, gross=gross, price=price)

    same = record("same", 1, 2, "12.50")
    with landing_room(spark, settings, clock, declared("net", "gross", price=DecimalType(10, 2))) as before:
        before.land(json_lines(same, record("exchanged", 1, 2, "0"), record("price", 1, 1, "12.50")), "a.jsonl")
        after = replace(before, source=declared("gross", "net", price=DecimalType(12, 4)))
        landing = landing_files(before.settings)
        (file,) = [each.path for each in landing.listed(conformed_folder(EVENTS)) if each.path.endswith(".parquet")]
        trusted = [has_present_hashes(file, landing, each.source) for each in (before, after)]
        assert trusted == [True, False]
        later = json_lines(same, record("exchanged", 2, 1, "0"), record("price", 1, 1, "0.1250"))
        after.land(later, "b.jsonl")
        assert [counts(each) for each in after.imports()] == [(3, 1, 0, 2, 0), (3, 2, 1, 0, 0)]
        assert [(row["event_id"], row["net"], str(row["price"])) for row in after.bronze([MAY_1])] == [
            ("exchanged", 2, "0.0000"),
            ("price", 1, "0.1250"),
            ("same", 1, "12.5000"),
        ]


@pytest.mark.long
def test_a_key_that_left_a_day_is_gone_from_it_even_when_no_other_record_of_the_file_has_that_day(
    room: LandingRoom,
) -> None:
    room.land(json_lines(on(1, "a")))
    moved = room.land(json_lines(on(2, "a"))).record
    assert days(room, moved) == [(MAY_1, 0, 1), (MAY_2, 1, 0)]
    assert room.bronze([MAY_1]) == []
    assert [row["event_id"] for row in room.bronze([MAY_2])] == ["a"]


@pytest.mark.long
def test_the_same_content_again_is_ignored_and_remembered(room: LandingRoom) -> None:
    first = room.land(json_lines(on(1, "a")), "a.jsonl")
    again = room.land(json_lines(on(1, "a")), "b.jsonl")
    assert (again.is_new, again.days, again.record) == (False, (), first.record)
    with room.ledger.read() as reader:
        assert [e.action for e in reader.events.entries()][-1] == "duplicate_ignored"
    assert len(room.imports()) == 1


@pytest.mark.long
def test_the_same_content_again_is_refused_when_that_was_asked_for(room: LandingRoom) -> None:
    first = room.land(json_lines(on(1, "a")))
    with pytest.raises(Refused, match=f"has the content of {first.record.import_id}"):
        room.land(json_lines(on(1, "a")), on_duplicate=OnDuplicate.REJECT)
    assert room.imports() == (first.record,)


@pytest.mark.long
def test_a_correction_lands_old_content_again_and_its_records_win(room: LandingRoom) -> None:
    old, new = json_lines(on(1, "a", "old")), json_lines(on(2, "a", "new"))
    room.land(old)
    room.land(new)
    corrected = room.land(old, on_duplicate=OnDuplicate.CORRECT)
    assert (corrected.is_new, corrected.record.arrival, corrected.days) == (True, 3, (MAY_1, MAY_2))
    assert [counts(record) for record in room.imports()] == [(1, 0, 0, 1, 0), (1, 0, 0, 1, 0), (1, 1, 0, 0, 0)]
    assert [row["place"] for row in room.bronze([MAY_1])] == ["old"]
    assert room.bronze([MAY_2]) == []


@pytest.mark.long
def test_reprocessing_counts_an_import_again_in_its_place(room: LandingRoom) -> None:
    first = room.land(json_lines(on(1, "a"), on(1, "b"))).record
    room.land(json_lines(on(2, "a", "new")))
    before = [(record.import_id, record.counts) for record in room.imports()]
    again = room.land(json_lines(on(1, "a"), on(1, "b")), on_duplicate=OnDuplicate.REPROCESS)
    assert (again.is_new, again.record.arrival, again.record.import_id) == (True, first.arrival, first.import_id)
    assert [(record.import_id, record.counts) for record in room.imports()] == before
    assert [row["event_id"] for row in room.bronze([MAY_1])] == ["b"]
    assert [row["place"] for row in room.bronze([MAY_2])] == ["new"]


@pytest.mark.long
def test_reprocessing_under_another_first_day_counts_every_import_that_it_changes(
    spark: SparkSession, settings: Settings, clock: Clock
) -> None:
    def with_first_day(day: str) -> Settings:
        environment = {"BACKFILL_HOME": str(settings.home), "BACKFILL_FIRST_DAY": day}
        return Settings.from_environment({**environment, **home_environment(settings.home)})

    first_file, second_file = json_lines(on(1, "a"), on(1, "b")), json_lines(on(1, "a"), on(3, "b"))
    with landing_room(spark, with_first_day("2024-05-02"), clock) as room:
        room.land(first_file)
    with landing_room(spark, with_first_day("2024-05-01"), clock) as room:
        room.land(second_file)
        assert [counts(record) for record in room.imports()] == [(2, 0, 0, 0, 2), (2, 2, 0, 0, 0)]
        room.land(first_file, on_duplicate=OnDuplicate.REPROCESS)
        assert [counts(record) for record in room.imports()] == [(2, 1, 0, 1, 0), (2, 1, 1, 0, 0)]
        assert [row["event_id"] for row in room.bronze([MAY_1])] == ["a"]
        assert [row["event_id"] for row in room.bronze([MAY_3])] == ["b"]
    with landing_room(spark, with_first_day("2024-05-02"), clock) as room:
        again = room.land(second_file, on_duplicate=OnDuplicate.REPROCESS)
        assert again.days == (MAY_1, MAY_3)
        assert [counts(record) for record in room.imports()] == [(2, 1, 0, 1, 0), (2, 1, 0, 0, 1)]


@pytest.mark.long
def test_a_file_without_records_lands(room: LandingRoom) -> None:
    for content, name in ((b"", "a.jsonl"), (b"event_id,event_time\n", "b.csv")):
        landed = room.land(content, name)
        assert (landed.is_new, landed.days, landed.record.counts) == (True, (), ImportCounts())


def test_a_refused_file_leaves_no_trace_in_the_ledger(room: LandingRoom) -> None:
    with pytest.raises(UnreadableFile):
        room.land(b"place\nx\n", "a.csv")
    with pytest.raises(MissingInput):
        room.land_path(room.inbox / "nothing.csv")
    assert room.imports() == ()


@pytest.mark.long
def test_an_import_that_stops_with_an_error_is_failed_and_lands_when_it_is_tried_again(room: LandingRoom) -> None:
    def full_disk(*_: object) -> None:
        raise OSError("no space left on device")

    content = json_lines(on(1, "a"), {"event_id": "b"})
    path = room.write(content, "a.jsonl")
    with pytest.raises(OSError, match="no space left"):
        work = replace(room.work(), quarantine=full_disk)
        land_files(work, [FileCapture(path)], OnDuplicate.IGNORE, lambda landed: None)
    (failed,) = room.imports()
    assert (failed.state, failed.note, failed.landed_at) == (ImportState.FAILED, "landing stopped: OSError", None)
    landed = room.land_path(path)
    assert (landed.is_new, landed.record.arrival, counts(landed.record)) == (True, 2, (2, 1, 0, 0, 1))


def begin(room: LandingRoom) -> ImportRecord:
    offered = LandedFile(
        source=EVENTS.name,
        family="file",
        range_from="0",
        range_to="1",
        sha256="0" * 64,
        original_path="a.jsonl",
        stored_path="events/00/a.jsonl",
        size_bytes=1,
        format="jsonl",
        compression="",
    )
    with room.ledger.write() as writer:
        return writer.imports.begin(offered, actor="ada")


def test_clean_up_fails_what_a_dead_process_left_and_nothing_that_is_under_way(room: LandingRoom) -> None:
    record = begin(room)
    landing, left = landing_files(room.settings), f"{conformed_folder(EVENTS, record.import_id)}/half.parquet"
    landing.put_if_absent(left, b"half")
    with landing_turn(room.ledger, EVENTS, new_lease(room.settings), by="ada"):
        assert clean_up_landing(room.ledger, room.settings, [EVENTS], by="recover") == ()
    (failed,) = clean_up_landing(room.ledger, room.settings, [EVENTS], by="recover")
    assert (failed.import_id, failed.state) == (record.import_id, ImportState.FAILED)
    assert landing.stat(left) is None
    assert clean_up_landing(room.ledger, room.settings, [EVENTS], by="recover") == ()


@pytest.mark.long
def test_days_of_an_import_whose_reprocessing_stopped_cannot_be_built(room: LandingRoom) -> None:
    landed = room.land(json_lines(on(1, "a")))
    with room.ledger.write() as writer:
        writer.imports.reopen(landed.record.import_id, "reprocess", "ada")
    clean_up_landing(room.ledger, room.settings, [EVENTS], by="recover")
    with room.ledger.read() as reader, pytest.raises(MissingInput, match="was being reprocessed"):
        imports_for_days(reader, EVENTS, [MAY_1])
    again = room.land(json_lines(on(1, "a")))
    assert (again.is_new, again.record.arrival, counts(again.record)) == (True, 1, (1, 1, 0, 0, 0))
    assert [row["event_id"] for row in room.bronze([MAY_1])] == ["a"]


@pytest.mark.long
def test_a_long_gap_of_a_file_is_asked_about_though_another_file_has_most_of_its_days(room: LandingRoom) -> None:
    source = replace(room.source, plausible_gap_days=5)
    room.land(json_lines(*(on(day, f"e{day}") for day in range(1, 8))))
    room.land(json_lines(on(1, "e1", "corrected"), on(9, "e9"), on(12, "e12")))
    with room.ledger.read() as reader:
        pending = pending_days(reader, source)
    assert pending.days == tuple(date(2024, 5, day) for day in (*range(1, 8), 9, 10, 11, 12))
    assert [str(gap) for gap in pending.asked] == ["2024-05-08..2024-05-08"]


@pytest.mark.long
def test_pending_days_are_those_that_landed_files_touch_and_the_gaps_between(room: LandingRoom) -> None:
    def pending(source: SourceTable = EVENTS) -> tuple[date, ...]:
        with room.ledger.read() as reader:
            return pending_days(reader, source).days

    def load() -> None:
        with room.ledger.write() as writer:
            writer.imports.mark_loaded(
                [record.import_id for record in writer.imports.records(EVENTS.name)], actor="ada"
            )

    assert pending() == ()
    room.land(json_lines(on(1, "a"), on(4, "b")))
    assert pending() == (MAY_1, MAY_2, MAY_3, date(2024, 5, 4))
    load()
    assert pending() == ()
    room.land(json_lines(on(2, "a"), on(6, "b")))
    assert pending() == (MAY_1, MAY_2, MAY_3, *(date(2024, 5, day) for day in (4, 5, 6)))


@dataclass(frozen=True)
class Positions:
    """A made-up family with positions: each two of its records are a file, whose name is their range."""

    name = "topic-3"
    size_bytes = 0
    record_count = 2
    is_offered = False
    records: tuple[bytes, ...]

    def require(self) -> None:
        assert self.records

    def read(
        self, place: LandingPlace, check: Callable[[Path, FileKind], Checked]
    ) -> Iterator[tuple[LandedFile, Checked]]:
        kind = FileKind(format=Format.JSONL, compression="")
        for first in range(0, len(self.records), 2):
            content = b"".join(self.records[first : first + 2])
            with place.scratch() as copy:
                copy.write_bytes(content)
                checked = check(copy, kind)
                stored = place.keep(copy, f"{self.name}/{first}{kind.suffix}")
            landed = LandedFile(
                source=place.source,
                family="topic",
                range_from=f"3:{first}",
                range_to=f"3:{first + 2}",
                sha256=sha256(content).hexdigest(),
                original_path=f"{self.name}/{first}",
                stored_path=stored,
                size_bytes=len(content),
                format=kind.format,
                compression=kind.compression,
            )
            yield landed, checked


@pytest.mark.long
def test_a_capture_of_positions_lands_a_file_for_each_part_and_the_same_range_again_changes_nothing(
    room: LandingRoom,
) -> None:
    capture = Positions(tuple(json_lines(on(1, key)) for key in "abcd"))
    for is_new in (True, False):
        landed: list[Landed] = []
        land_files(room.work(), [capture], OnDuplicate.IGNORE, landed.append)
        assert [(each.is_new, each.record.range_from, each.record.range_to) for each in landed] == [
            (is_new, "3:0", "3:2"),
            (is_new, "3:2", "3:4"),
        ]
        assert {each.record.family for each in landed} == {"topic"}
    assert [row["event_id"] for row in room.bronze([MAY_1])] == ["a", "b", "c", "d"]


KILLED = """
    import os, signal, sys
    from dataclasses import replace
    from datetime import UTC, datetime
    from pathlib import Path
    from backfill_assets.capture.files.file_capture import FileCapture
    from backfill_assets.landing.imports import OnDuplicate
    from backfill_assets.landing.attempt import Landed
    from backfill_assets.landing.land import land_files
    from backfill_assets.ledger.store import Ledger
    from backfill_assets.core.settings import Settings
    from backfill_assets.core.spark import give_access, open_spark
    from backfill_assets_tests.support.landing_examples import LandingRoom

    settings = Settings.from_environment()
    ledger = Ledger.open(settings.ledger_url, clock=lambda: datetime(2026, 1, 15, 12, tzinfo=UTC))

    def die(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    spark = open_spark(settings)
    give_access(spark, settings)
    room = LandingRoom(spark=spark, settings=settings, ledger=ledger, inbox=settings.home)
    work = replace(room.work(), quarantine=die)
    land_files(work, [FileCapture(Path(sys.argv[1]))], OnDuplicate.IGNORE, lambda landed: None)
"""


def test_a_killed_landing_loses_nothing_and_the_file_lands_afterwards(room: LandingRoom) -> None:
    path = room.write(json_lines(on(1, "a"), {"event_id": "b"}), "a.jsonl")
    killed = subprocess.run(
        [sys.executable, "-c", dedent(KILLED), str(path)],
        env={
            **os.environ,
            "PYTHONPATH": str(PROJECT_ROOT),
            "BACKFILL_HOME": str(room.settings.home),
            **home_environment(room.settings.home),
            **SPARK_ENVIRONMENT,
        },
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    (left,) = room.imports()
    assert left.state is ImportState.LANDING
    assert landing_files(room.settings).read(left.stored_path) == path.read_bytes()
    (failed,) = clean_up_landing(room.ledger, room.settings, [EVENTS], by="recover")
    assert failed.state is ImportState.FAILED
    landed = room.land_path(path)
    assert counts(landed.record) == (2, 1, 0, 0, 1)
    assert [row["event_id"] for row in room.bronze([MAY_1])] == ["a"]
