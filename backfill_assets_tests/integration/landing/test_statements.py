"""Complete extracts, withdrawals and restorations: bronze is what it is where only the extract ever landed."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta

import pytest
from pyspark.sql import SparkSession

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.capture.files.file_capture import FileCapture
from backfill_assets.capture.landed_files import landing_files
from backfill_assets.core.clock import Clock
from backfill_assets.core.errors import Refused, UnknownName
from backfill_assets.core.settings import Settings
from backfill_assets.landing import statements
from backfill_assets.landing.attempt import Landed
from backfill_assets.landing.days import pending_days, unexplained_days
from backfill_assets.landing.extract import Effect, Extract, LandedExtract, preview
from backfill_assets.landing.statements import restore, withdraw
from backfill_assets.ledger.imports import KeyCounts
from backfill_assets.ledger.states import ImportState
from backfill_assets_tests.support.advice import advised
from backfill_assets_tests.support.landing_examples import (
    LANDED_AT,
    LandingRoom,
    event,
    json_lines,
    land_foreseen,
    landing_room,
)
from backfill_assets_tests.support.searches import examples

FIRST = date(2024, 5, 1)
DAYS = tuple(FIRST + timedelta(days=n) for n in range(4))
ALL = DayRange(DAYS[0], DAYS[-1] + timedelta(days=1))

Event = tuple[int, int, int]
"""A key, its day and its place."""


def content(*events: Event) -> bytes:
    return json_lines(*(event(f"k{key}", f"{DAYS[day]}T10:00:00Z", place=f"p{place}") for key, day, place in events))


def on(key: int, day: int = 0, place: int = 0) -> Event:
    return key, day, place


def extract(
    room: LandingRoom,
    *files: bytes,
    days: DayRange = ALL,
    where: Mapping[str, str] | None = None,
    confirmed_by: str | None = "bea",
) -> LandedExtract:
    paths = [room.write(file, f"extract-{number}.jsonl") for number, file in enumerate(files)]
    stated = Extract(days=days, where=where or {}, reason="new extract", confirmed_by=confirmed_by)
    return land_foreseen(room, paths, stated)[1]


def rows(room: LandingRoom) -> list[tuple[str, date, str]]:
    """Bronze, built one day at a time."""
    found = [row for day in DAYS for row in room.bronze([day])]
    return sorted((row["event_id"], row["event_date"], row["place"]) for row in found)


def keys(room: LandingRoom) -> KeyCounts:
    live = [record for record in room.imports() if record.state is ImportState.LANDED]
    assert all(record.counts.reconciles for record in live)
    found = sum((record.keys for record in live), KeyCounts())
    assert sum(record.counts.accepted for record in live) == found.ever
    with room.ledger.read() as tx:
        assert not [*tx.events.violations(), *tx.row_checks.violations()]
    return found


@pytest.mark.long
def test_what_an_extract_lacks_is_withdrawn_with_its_reason(room: LandingRoom) -> None:
    room.land(content(on(1), on(2), on(3, 1), on(4, 3)))
    found = extract(room, content(on(1), on(5)), content(on(3, 2)), days=DayRange(DAYS[0], DAYS[2]))
    assert (found.withdrawn.keys, found.withdrawn.current, found.statement.days) == (1, 3, DAYS[:3])
    assert rows(room) == [("k1", DAYS[0], "p0"), ("k3", DAYS[2], "p0"), ("k4", DAYS[3], "p0"), ("k5", DAYS[0], "p0")]
    assert keys(room) == KeyCounts(current=4, withdrawn=1)
    stated = found.statement.record
    assert (stated.note, stated.format, stated.counts.accepted) == ("new extract; confirmed by bea", "statement", 1)
    with room.ledger.read() as tx:
        (event_of,) = [e for e in tx.events.entries() if e.action == "keys_withdrawn"]
        touched = {day.event_date: day.withdrawn for day in tx.imports.days([stated.import_id])}
    assert (event_of.payload["keys"], event_of.payload["reason"]) == (1, "new extract")
    assert touched == {DAYS[0]: 1}


@pytest.mark.parametrize(("where", "unexplained"), [({}, ()), ({"place": "p0"}, (DAYS[0], DAYS[3]))])
def test_days_that_a_complete_extract_lacks_are_empty_unless_it_is_of_some_rows(
    room: LandingRoom, where: Mapping[str, str], unexplained: Sequence[date]
) -> None:
    found = extract(room, content(on(1, 1), on(2, 2)), where=where)
    with room.ledger.read() as tx:
        assert unexplained_days(tx, room.source, DAYS) == unexplained
        built = pending_days(tx, room.source).days
    assert built == found.statement.days == tuple(day for day in DAYS if day not in unexplained)
    assert rows(room) == [("k1", DAYS[1], "p0"), ("k2", DAYS[2], "p0")]


@pytest.mark.long
def test_the_same_extract_again_changes_nothing_until_something_else_lands(room: LandingRoom) -> None:
    room.land(content(on(1), on(2)))
    extract(room, content(on(1)))
    again = extract(room, content(on(1)))
    assert (again.statement.is_new, again.statement.days) == (False, ())
    room.land(content(on(1, 0, 7), on(9)))
    assert extract(room, content(on(1))).statement.is_new
    assert rows(room) == [("k1", DAYS[0], "p0")]


@pytest.mark.long
def test_an_extract_of_a_part_leaves_the_rest_alone(room: LandingRoom) -> None:
    room.land(content(on(1), on(2, 0, 1), on(3, 1, 1)))
    extract(room, content(on(4, 0, 1)), days=DayRange(DAYS[0], DAYS[1]), where={"place": "p1"})
    assert [key for key, *_ in rows(room)] == ["k1", "k3", "k4"]


@pytest.mark.long
def test_too_much_is_refused_unless_a_person_confirms_it(room: LandingRoom) -> None:
    room.land(content(*(on(key) for key in range(10))))
    with pytest.raises(Refused, match=r"lacks 3 of 10 keys of .* \(30.0 %\).* without confirmation\.$"):
        extract(room, content(*(on(key) for key in range(7))), confirmed_by=None)
    with pytest.raises(
        Refused, match=r"lacks 10 of 10 keys .* without confirmation; its files hold no valid record\.$"
    ):
        extract(room, b"", confirmed_by=None)
    with pytest.raises(Refused, match=rf"; 2 of its 3 records are not of {DAYS[0]}\.\.{DAYS[1]}\.$"):
        extract(room, content(on(1), on(2, 2), on(3, 3)), days=DayRange(DAYS[0], DAYS[2]), confirmed_by=None)
    assert len(rows(room)) == 10
    assert {record.state for record in room.imports()[1:]} == {ImportState.FAILED}
    assert room.imports()[1].note == "landing stopped: the extract lacks 3 of 10 keys (30.0 %)"
    assert extract(room, content(*(on(key) for key in range(8))), confirmed_by=None).withdrawn.keys == 2


@pytest.mark.long
def test_a_preview_counts_what_the_files_bring_as_landing_them_does(room: LandingRoom) -> None:
    chance = random.Random(8)
    room.land(content(*(on(key, chance.randrange(3), chance.randrange(2)) for key in range(40))))
    withdraw(room.work(), {"event_id": "k7"}, reason="r")
    before = {key: (day, place) for key, day, place in rows(room)}
    offered = [on(key, chance.randrange(3), chance.randrange(2)) for key in (*range(5, 50), 5, 6)]
    path = room.write(content(*offered), "new.jsonl")
    found = preview(room.work(), [FileCapture(path)], Extract(days=ALL, where={}, reason="r"), now=LANDED_AT).effect
    landed = extract(room, content(*offered))
    after = {key: (day, place) for key, day, place in rows(room)}
    kept = [(before.get(key), now) for key, now in after.items()]
    assert found == Effect(
        new=sum(was is None for was, _ in kept),
        moved=sum(was is not None and was[0] != now[0] for was, now in kept),
        changed=sum(was is not None and was != now and was[0] == now[0] for was, now in kept),
        unchanged=sum(was == now for was, now in kept),
    )
    assert min(found.new, found.moved, found.changed, found.unchanged) > 0
    assert (landed.withdrawn.keys, len(after)) == (5, 45)


@pytest.mark.long
def test_a_preview_reads_the_file_of_this_name_and_none_that_is_called_like_it(room: LandingRoom) -> None:
    room.land(content(on(1), on(2)))
    room.write(content(on(1), on(2)), "new1.jsonl")
    path = room.write(content(on(1)), "new[1].jsonl")
    found = preview(room.work(), [FileCapture(path)], Extract(days=ALL, where={}, reason="r"), now=LANDED_AT)
    assert (found.records, found.keys) == (1, 1)


@pytest.mark.long
def test_a_preview_says_what_would_be_withdrawn_and_keeps_nothing(room: LandingRoom) -> None:
    room.land(content(on(1), on(2), on(3, 1)))
    before = list(landing_files(room.settings).listed())
    path = room.write(content(on(1)), "new.jsonl")
    found = preview(room.work(), [FileCapture(path)], Extract(days=ALL, where={}, reason="r"), now=LANDED_AT)
    assert (found.keys, found.current, found.by_day) == (2, 3, {DAYS[0]: 1, DAYS[1]: 1})
    assert (found.records, found.outside, found.is_elsewhere) == (1, 0, False)
    elsewhere = Extract(days=DayRange(DAYS[1], DAYS[2]), where={}, reason="r")
    moved = preview(room.work(), [FileCapture(path)], elsewhere, now=LANDED_AT)
    assert (moved.outside, moved.is_elsewhere) == (1, True)
    others = Extract(days=ALL, where={"place": "p1"}, reason="r")
    assert preview(room.work(), [FileCapture(path)], others, now=LANDED_AT).outside == 1
    assert found.sample == ({"event_id": "k2"}, {"event_id": "k3"})
    assert list(landing_files(room.settings).listed()) == before
    assert len(room.imports()) == 1


@pytest.mark.long
def test_a_rejected_record_withdraws_nothing_and_one_without_key_refuses_the_extract(room: LandingRoom) -> None:
    room.land(content(on(1), on(2)))
    bad = json_lines(event("k1", "never"), event("k2", f"{DAYS[0]}T10:00:00Z", place="p0"))
    assert extract(room, bad).withdrawn.keys == 0
    assert [key for key, *_ in rows(room)] == ["k1", "k2"]
    for nameless in ({}, {"event_id": ""}, {"event_id": " "}):
        with pytest.raises(Refused, match="no readable key"):
            extract(room, json_lines({**nameless, "event_time": "2024-05-01T10:00:00Z"}))
    assert [key for key, *_ in rows(room)] == ["k1", "k2"]


@pytest.mark.long
def test_one_key_is_withdrawn_restored_and_lands_again(room: LandingRoom) -> None:
    room.land(content(on(1), on(2)))
    taken = withdraw(room.work(), {"event_id": "k1"}, reason="reported in error")
    assert (taken.days, [key for key, *_ in rows(room)]) == ((DAYS[0],), ["k2"])
    assert keys(room) == KeyCounts(current=1, withdrawn=1)
    with pytest.raises(Refused, match=r"k1 of bronze\.events is withdrawn already, and days are yet") as refused:
        withdraw(room.work(), {"event_id": "k1"}, reason="again")
    assert advised(refused.value) == "backfill load events --from 2024-05-01 --to 2024-05-01 --by NAME"
    restore(room.work(), taken.record.import_id, {}, reason="it was right")
    assert [key for key, *_ in rows(room)] == ["k1", "k2"]
    assert keys(room) == KeyCounts(current=2)
    with pytest.raises(Refused, match="restored already"):
        restore(room.work(), taken.record.import_id, {}, reason="again")
    withdraw(room.work(), {"event_id": "k1"}, reason="after all")
    room.land(content(on(1, 2)))
    assert rows(room) == [("k1", DAYS[2], "p0"), ("k2", DAYS[0], "p0")]
    assert keys(room) == KeyCounts(current=2)


@pytest.mark.long
def test_a_key_with_several_versions_is_withdrawn_once_and_touches_all_their_days(room: LandingRoom) -> None:
    room.land(content(on(1), on(2)))
    room.land(content(on(1, 1), on(1, 3)))
    taken = withdraw(room.work(), {"event_id": "k1"}, reason="reported in error")
    assert touched(room, taken) == [(DAYS[0], 0, 0), (DAYS[1], 0, 0), (DAYS[3], 1, 0)]
    back = restore(room.work(), taken.record.import_id, {}, reason="it was right")
    assert touched(room, back) == [(DAYS[0], 0, 0), (DAYS[1], 0, 0), (DAYS[3], 0, 1)]
    assert touched(room, taken) == [(DAYS[0], 0, 0), (DAYS[1], 0, 0), (DAYS[3], 0, 0)]


def touched(room: LandingRoom, landed: Landed) -> list[tuple[date, int, int]]:
    """The days of an import, with the keys that it withdraws and restores there as things are now."""
    with room.ledger.read() as tx:
        return [(d.event_date, d.withdrawn, d.restored) for d in tx.imports.days([landed.record.import_id])]


@pytest.mark.long
def test_a_key_that_is_none_is_refused(room: LandingRoom, monkeypatch: pytest.MonkeyPatch) -> None:
    room.land(content(on(1)))
    with monkeypatch.context() as patch:
        patch.delattr(statements, "standing")
        with pytest.raises(Refused, match=r"k9 of bronze\.events never landed") as unknown:
            withdraw(room.work(), {"event_id": "k9"}, reason="r")
    assert advised(unknown.value) == "look for its landed file: backfill status"
    with pytest.raises(Refused, match="no value of event_id"):
        withdraw(room.work(), {}, reason="r")
    with pytest.raises(Refused, match="place is not of the key"):
        withdraw(room.work(), {"event_id": "k1", "place": "p0"}, reason="r")
    with pytest.raises(UnknownName, match="no column 'town'"):
        extract(room, content(on(1)), where={"town": "x"})
    with pytest.raises(Refused, match="'two' is not a value of schema_version"):
        extract(room, content(on(1)), where={"schema_version": "two"})
    for refused in (
        lambda: withdraw(room.work(), {"event_id": "x" * 5_000}, reason="r"),
        lambda: extract(room, content(on(1)), where={"schema_version": "x" * 5_000}),
        lambda: extract(room, content(on(1)), where={"x" * 5_000: "two"}),
    ):
        with pytest.raises((Refused, UnknownName), match=r"x{50}") as told:
            refused()
        assert len(told.value.message) < 1_000
    assert len(room.imports()) == 1


@pytest.mark.parametrize("seed", range(examples(20)))
def test_after_an_extract_bronze_is_what_it_is_where_only_the_extract_landed(
    spark: SparkSession, settings: Settings, clock: Clock, seed: int
) -> None:
    """Any A, any B; then the withdrawal is undone, and what A had and B lacks is there again."""
    chance = random.Random(seed)

    def some(events: int) -> list[Event]:
        return [
            (chance.randrange(60), chance.randrange(len(DAYS)), chance.randrange(2))
            for _ in range(chance.randint(1, events))
        ]

    earlier, later = [some(60), some(60)], [some(50), some(20)]
    latest = {key: (key, day, place) for file in earlier for key, day, place in file}
    stated = {key: (key, day, place) for file in later for key, day, place in file}
    with landing_room(spark, settings, clock) as room:
        for file in earlier:
            room.land(content(*file))
        found = extract(room, *(content(*file) for file in later))
        assert rows(room) == as_rows(stated.values())
        assert keys(room) == KeyCounts(current=len(stated), withdrawn=len(latest.keys() - stated.keys()))
        assert found.withdrawn.keys == len(latest.keys() - stated.keys())
        if found.withdrawn.keys:
            restore(room.work(), found.statement.record.import_id, {}, reason="undo")
        assert rows(room) == as_rows((latest | stated).values())
        assert keys(room) == KeyCounts(current=len(latest | stated))


def as_rows(events: Iterable[Event]) -> list[tuple[str, date, str]]:
    return sorted((f"k{key}", DAYS[day], f"p{place}") for key, day, place in events)
