"""A complete extract withdraws keys that only rejected records have, so that these stay away when they can be read."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from pyspark.sql import SparkSession

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.capture.files.file_capture import FileCapture
from backfill_assets.core.settings import Settings
from backfill_assets.domain.operations import UnknownKeys
from backfill_assets.landing.errors import NotCurrent
from backfill_assets.landing.extract import Effect, Extract, LandedExtract, Withdrawn, land_extract
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.landing.statements import restore, withdraw
from backfill_assets.ledger.imports import KeyCounts
from backfill_assets.ledger.states import COUNTING
from backfill_assets_tests.domains.orders import orders
from backfill_assets_tests.support.landing_examples import (
    EVENTS,
    LANDED_AT,
    LandingRoom,
    event,
    json_lines,
    land_foreseen,
    landing_room,
)
from backfill_assets_tests.support.searches import examples

FIRST, SECOND = date(2024, 5, 1), date(2024, 5, 2)
ON_SECOND = "2024-05-02T10:00:00Z"
LAST = LANDED_AT.date()


@pytest.fixture
def room(spark: SparkSession, settings: Settings) -> Iterator[LandingRoom]:
    with landing_room(spark, settings, lambda: LANDED_AT, EVENTS) as opened:
        yield opened


def no_object(event_id: str, event_time: str = "2024-05-01T10:00:00Z", **more: Any) -> dict[str, Any]:
    return event(event_id, event_time, attributes="no object", **more)


def corrected(room: LandingRoom) -> LandingRoom:
    """The room with a contract that holds these records."""
    return replace(room, source=replace(room.source, json_columns=(), gates=()))


def extract(
    room: LandingRoom, *rows: Mapping[str, Any], first: date = FIRST, last: date = FIRST, **where: str
) -> LandedExtract:
    """Lands an extract of some days, of which a preview says the same."""
    path = room.write(json_lines(*rows), f"extract-{len(room.imports())}.jsonl")
    stated = Extract(days=DayRange.inclusive(first, last), where=where, reason="all of it", confirmed_by="bea")
    return land_foreseen(room, [path], stated)[1]


def counted(found: Withdrawn) -> tuple[int, int, int]:
    """The keys withdrawn, the keys that there were, and the keys of rejected records withdrawn beside them."""
    return found.keys, found.current, found.rejected


def ids(room: LandingRoom) -> list[str]:
    return sorted(row["event_id"] for row in room.bronze([FIRST, SECOND]))


def keys(room: LandingRoom) -> KeyCounts:
    """The keys, by the accounts, which have to close."""
    live = [record for record in room.imports() if record.state in COUNTING]
    assert all(record.counts.reconciles for record in live)
    found = sum((record.keys for record in live), KeyCounts())
    assert sum(record.counts.accepted for record in live) == found.ever
    return found


@pytest.mark.long
def test_a_key_that_was_never_accepted_is_withdrawn_by_an_extract_that_lacks_it(room: LandingRoom) -> None:
    content = json_lines(event("e1"), no_object("e2"))
    room.land(content, "1.jsonl")
    found = extract(room, event("e1"))
    assert (counted(found.withdrawn), keys(room)) == ((0, 1, 1), KeyCounts(current=1, withdrawn=1))
    corrected(room).land(content, "1.jsonl", on_duplicate=OnDuplicate.REPROCESS)
    assert (ids(corrected(room)), keys(room)) == (["e1"], KeyCounts(current=1, withdrawn=1))
    restore(corrected(room).work(), found.statement.record.import_id, {}, reason="the wrong file")
    assert (ids(corrected(room)), keys(room)) == (["e1", "e2"], KeyCounts(current=2))


@pytest.mark.long
def test_a_key_is_withdrawn_once_and_again_when_another_record_of_it_is_rejected(room: LandingRoom) -> None:
    content = json_lines(no_object("e2"))
    room.land(json_lines(event("e1"), event("e2")), "1.jsonl")
    assert counted(extract(room, event("e1")).withdrawn) == (1, 2, 0)
    room.land(content, "2.jsonl")
    assert counted(extract(room, event("e1", place="a")).withdrawn) == (0, 1, 1)
    assert counted(extract(room, event("e1", place="b")).withdrawn) == (0, 1, 0)
    corrected(room).land(content, "2.jsonl", on_duplicate=OnDuplicate.REPROCESS)
    assert (ids(corrected(room)), keys(room)) == (["e1"], KeyCounts(current=1, withdrawn=1))


@pytest.mark.long
def test_keys_of_rejected_records_are_not_among_those_of_which_a_source_limits_the_share(room: LandingRoom) -> None:
    room.land(json_lines(event("e1"), no_object("e2"), no_object("e3")), "1.jsonl")
    path = room.write(json_lines(event("e1")), "extract.jsonl")
    stated = Extract(days=DayRange.inclusive(FIRST, FIRST), where={}, reason="all of it")
    assert counted(land_extract(room.work(), [FileCapture(path)], stated).withdrawn) == (0, 1, 2)


@pytest.mark.long
def test_an_extract_of_some_days_and_rows_says_nothing_of_rejected_records_of_others(room: LandingRoom) -> None:
    rejected = json_lines(
        no_object("of it", place="p"),
        no_object("of another day", ON_SECOND, place="p"),
        no_object("of another place", place="q"),
        no_object("of no day", "soon", place="p"),
    )
    room.land(json_lines(event("e1", place="p")), "1.jsonl")
    room.land(rejected, "2.jsonl")
    assert counted(extract(room, event("e1", place="p"), place="p").withdrawn) == (0, 1, 1)
    corrected(room).land(rejected, "2.jsonl", on_duplicate=OnDuplicate.REPROCESS)
    assert ids(corrected(room)) == ["e1", "of another day", "of another place"]


@pytest.mark.long
def test_only_an_extract_of_all_days_that_there_can_be_withdraws_a_key_of_no_day(room: LandingRoom) -> None:
    no_day = {"event_id": "e2", "event_time": "soon"}
    room.land(json_lines(event("e1"), no_day, event("e3", "1066-10-14T10:00:00Z")), "1.jsonl")
    assert counted(extract(room, event("e1"), last=LAST).withdrawn) == (0, 1, 0)
    everything = extract(room, event("e1", place="a"), first=room.settings.first_day, last=LAST)
    assert counted(everything.withdrawn) == (0, 1, 2)


@pytest.mark.long
def test_a_person_withdraws_a_key_that_only_rejected_records_have(room: LandingRoom) -> None:
    content = json_lines(event("e1"), no_object("e2"))
    room.land(content, "1.jsonl")
    withdraw(room.work(), {"event_id": "e2"}, reason="issued in error")
    with pytest.raises(NotCurrent, match="is withdrawn already"):
        withdraw(room.work(), {"event_id": "e2"}, reason="issued in error")
    corrected(room).land(content, "1.jsonl", on_duplicate=OnDuplicate.REPROCESS)
    assert (ids(corrected(room)), keys(room)) == (["e1"], KeyCounts(current=1, withdrawn=1))


@pytest.mark.long
def test_a_key_of_which_a_newer_record_of_the_days_was_rejected_is_of_these_days(room: LandingRoom) -> None:
    """As it would have been with a contract that had read the record at once: it had moved there."""
    moved = json_lines(no_object("e2"))
    room.land(json_lines(event("e1"), event("e2", ON_SECOND), event("e3", ON_SECOND)), "1.jsonl")
    room.land(moved, "2.jsonl")
    assert counted(extract(room, event("e1")).withdrawn) == (1, 2, 0)
    assert ids(room) == ["e1", "e3"]
    corrected(room).land(moved, "2.jsonl", on_duplicate=OnDuplicate.REPROCESS)
    assert ids(corrected(room)) == ["e1", "e3"]


@pytest.mark.long
def test_the_days_of_rejected_records_are_those_of_the_zone_of_their_source(room: LandingRoom) -> None:
    room = replace(room, source=replace(EVENTS, timezone="America/New_York"))
    late = "2024-05-02T02:00:00Z"  # of the first of May in New York
    room.land(json_lines(event("e1"), no_object("e2", late), no_object("e3", ON_SECOND)), "1.jsonl")
    assert counted(extract(room, event("e1")).withdrawn) == (0, 1, 1)


@pytest.mark.long
def test_files_that_land_together_bring_back_what_an_extract_withdrew_each_its_own(room: LandingRoom) -> None:
    room.land(json_lines(event("e1"), no_object("e2")), "1.jsonl")
    extract(room, event("e1"))
    paths = [room.write(json_lines(event(key)), f"{key}.jsonl") for key in ("e2", "e3")]
    assert [each.record.keys for each in room.land_paths(paths)] == [
        KeyCounts(current=1, withdrawn=-1),
        KeyCounts(current=1),
    ]
    assert keys(room) == KeyCounts(current=3)


@pytest.mark.long
@pytest.mark.parametrize("lsn", [1, 9])
def test_a_deleted_key_is_withdrawn_where_a_rejected_record_is_newer_than_its_delete(
    spark: SparkSession, settings: Settings, lsn: int
) -> None:
    with landing_room(spark, settings, lambda: LANDED_AT, replace(orders, gates=())) as room:

        def record(op: str, order_id: str, lsn: int, place: str | None = "p") -> dict[str, Any]:
            times = {"ordered_at": "2024-05-01T09:00:00Z", "changed_at": "2024-05-01T10:00:00Z"}
            return {"op": op, "order_id": order_id, "lsn": lsn, "place": place, **times}

        room.land(json_lines(record("c", "there", 2), record("c", "gone", 3), record("d", "gone", 4)), "1.jsonl")
        room.land(json_lines(record("u", "gone", lsn, place=None)), "2.jsonl")
        found = extract(room, record("r", "there", 20))
        assert found.withdrawn.rejected == (1 if lsn > 4 else 0)
        assert keys(room) == KeyCounts(current=1, **{"withdrawn" if lsn > 4 else "deleted": 1})


@pytest.mark.long
@pytest.mark.parametrize("seed", range(examples(3)))
def test_after_an_extract_and_a_correction_bronze_is_what_it_is_with_the_contract_that_was_right_at_once(
    spark: SparkSession, settings: Settings, seed: int
) -> None:
    chance = random.Random(seed)
    day_of = [chance.choice([FIRST, SECOND]) for _ in range(30)]

    def some(most: int) -> dict[int, dict[str, Any]]:
        """Records of keys, each on the day of its key, of which some are rejected."""
        chosen = chance.sample(range(30), chance.randint(1, most))
        found = {}
        for n in chosen:
            make = chance.choice([event, no_object])
            found[n] = make(f"k{n}", f"{day_of[n]}T10:00:00Z", place=f"{n} {chance.random()}")
        return found

    files = [some(20), some(20)]
    kept = {n: event(f"k{n}", f"{FIRST}T10:00:00Z") for n in range(30) if day_of[n] == FIRST and chance.random() < 0.4}
    kept = kept or {30: event("k30", f"{FIRST}T10:00:00Z")}
    expected = {f"k{n}" for file in files for n in file if day_of[n] == SECOND} | {f"k{n}" for n in kept}
    source = replace(EVENTS, unknown=chance.choice([*UnknownKeys]), gates=())
    with landing_room(spark, settings, lambda: LANDED_AT, source) as room:
        for number, file in enumerate(files):
            room.land(json_lines(*file.values()), f"{number}.jsonl")
        extract(room, *kept.values())
        for number, file in enumerate(files):
            corrected(room).land(json_lines(*file.values()), f"{number}.jsonl", on_duplicate=OnDuplicate.REPROCESS)
        assert ids(corrected(room)) == sorted(expected)
        assert keys(room).current == len(expected)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(examples(4)))
def test_a_preview_of_changes_says_what_landing_does_to_older_deleted_repeated_and_rejected_ones(
    spark: SparkSession, settings: Settings, seed: int
) -> None:
    chance = random.Random(seed)
    positions = iter(chance.sample(range(1, 10_000), 400))

    def some(ops: str, most: int) -> list[dict[str, Any]]:
        return [
            {
                "op": chance.choice(ops),
                "order_id": f"o{chance.randrange(12)}",
                "lsn": next(positions),
                "place": chance.choice(["a", "b", None]) if chance.random() < 0.4 else "c",
                "ordered_at": f"{chance.choice([FIRST, SECOND])}T09:00:00Z",
                "changed_at": f"{chance.choice([FIRST, SECOND])}T10:00:00Z",
            }
            for _ in range(chance.randint(1, most))
        ]

    timezone = chance.choice(["", "Europe/Amsterdam"])
    source = replace(orders, gates=(), unknown=chance.choice([*UnknownKeys]), timezone=timezone)
    with landing_room(spark, settings, lambda: LANDED_AT, source) as room:
        earlier = some("cud", 20)
        room.land(json_lines(*earlier), "1.jsonl")
        room.land(json_lines(*some("cudt", 8)), "2.jsonl")
        again = chance.sample(earlier, min(3, len(earlier)))
        paths = [
            room.write(json_lines(*some("cur", 8), *again), "3.jsonl"),
            room.write(json_lines(*some("rd", 4)), "4.jsonl"),
        ]
        stated = Extract(
            days=DayRange.inclusive(FIRST, chance.choice([FIRST, SECOND])), where={}, reason="r", confirmed_by="bea"
        )
        expected, _ = land_foreseen(room, paths, stated)
        assert expected.effect is not None


@pytest.mark.long
def test_a_record_that_is_older_than_what_is_there_is_not_called_unchanged(
    spark: SparkSession, settings: Settings
) -> None:
    def record(order_id: str, lsn: int, place: str = "p") -> dict[str, Any]:
        times = {"ordered_at": "2024-05-01T09:00:00Z", "changed_at": "2024-05-01T10:00:00Z"}
        return {"op": "r", "order_id": order_id, "lsn": lsn, "place": place, **times}

    with landing_room(spark, settings, lambda: LANDED_AT, replace(orders, gates=())) as room:
        room.land(json_lines(record("old", 9), record("same", 9), record("new", 9)), "1.jsonl")
        path = room.write(json_lines(record("old", 3, "q"), record("same", 9), record("new", 12, "q")), "2.jsonl")
        stated = Extract(days=DayRange.inclusive(FIRST, FIRST), where={}, reason="r")
        expected, _ = land_foreseen(room, [path], stated)
        assert expected.effect == Effect(changed=1, unchanged=1, older=1)
