"""Do the accounts close when a source changes its mind, whatever it and its keepers say?

Rooms of a change feed: hostile files of it, complete extracts, withdrawals and restorations in random order. After each
act the counts of every import and the keys have to be what `changes_by_hand` says, or it is refused with one sentence
and nothing of it counts; in the end bronze, built day by day, has to be what is left.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.capture.files.file_capture import FileCapture
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.settings import Settings
from backfill_assets.domain.operations import ENDED_BY, OPERATION, UnknownKeys
from backfill_assets.landing.extract import Extract, land_extract
from backfill_assets.landing.formats import ROW
from backfill_assets.landing.statements import restore, withdraw
from backfill_assets.ledger.imports import ImportRecord, KeyCounts
from backfill_assets.ledger.states import COUNTING
from backfill_assets_tests.domains.orders import orders
from backfill_assets_tests.faults.changes_by_hand import Book, Taken, on_days
from backfill_assets_tests.faults.corpus_changes import (
    DAYS,
    FILES,
    Line,
    feed_lines,
    rejected_line,
    state_line,
    tied_lines,
    written,
)
from backfill_assets_tests.faults.corpus_values import ODD_TEXTS
from backfill_assets_tests.faults.findings import COUNTED, Findings
from backfill_assets_tests.support.landing_examples import LANDED_AT, LandingRoom, landing_room

ACTS = ("file",) * 4 + ("extract", "withdraw", "restore") * 2 + ("tied", "bad extract", "odd key")


class ChangesRoom:
    """One room, what it took in, and what it has come to."""

    def __init__(self, room: LandingRoom, findings: Findings, *, seed: int, number: int, count: int) -> None:
        self._room, self._findings = room, findings
        self._seed, self._count = seed, count
        self._chance = random.Random(f"{seed}/acts/{number}")
        self._book = Book()
        self._files = 0

    def act(self, kind: str) -> None:
        """Does one thing, and holds everything against the book."""
        name = f"changes, {kind}"
        self._findings.tallies[name].files += 1
        match kind:
            case "file":
                self._land(name, feed_lines(self._seed, self._next(), self._count))
            case "tied":
                self._land(name, tied_lines(self._seed, self._next(), self._count))
            case "extract" | "bad extract":
                self._extract(name, has_unknown_keys=kind == "bad extract")
            case "withdraw":
                self._withdraw(name, self._chance.choice(sorted(self._book.standing()) or ["nothing"]))
            case "odd key":
                self._withdraw(name, self._chance.choice([*ODD_TEXTS, "", " ", "a\x00b", "K1", "x" * 5_000]))
            case "restore":
                self._restore(name)
            case _:
                raise AssertionError(kind)

    def _next(self) -> int:
        self._files += 1
        return self._files - 1

    def _land(self, name: str, lines: list[Line]) -> None:
        taken = Taken(records=tuple(line.said for line in lines))
        is_refused = self._book.having(taken).is_tied(len(self._book.taken))
        file = f"changes-{len(self._book.taken)}.jsonl"
        self._try(name, [taken], is_refused, lambda: self._room.land(written(lines), file))

    def _extract(self, name: str, *, has_unknown_keys: bool) -> None:
        """Most of what is there on some days, some of it changed or rejected, and something new."""
        chance = self._chance
        days = DAYS[chance.randrange(len(DAYS)) :]
        place = chance.choice([None, "p0"])
        current, opened = self._book.current(), self._book.opened()
        named = {key for key, some in opened.items() if any(r.on in days and place in (None, r.place) for r in some)}
        there = {key for key, change in on_days(current, days).items() if place in (None, change.place)}
        there |= named & current.keys()
        lsn = FILES * 10**6 + len(self._book.taken) * 1_000 + self._count * FILES
        files: list[list[Line]] = [[], []]
        kept = {key for key in sorted(there | named) if chance.random() < chance.choice([0.5, 0.9, 1.0])}
        for n, key in enumerate(sorted(kept)):
            line = rejected_line(key, lsn + n) if chance.random() < 0.1 else state_line(key, lsn + n, 3, "p0")
            chance.choice(files).append(line)
        files[0].append(state_line(f"new{lsn}", lsn + 999, chance.randrange(len(DAYS)), "p0"))
        if has_unknown_keys:
            key = chance.choice(["", "  "])
            files[1].append(rejected_line(key, lsn + 998) if chance.random() < 0.5 else Line(b"{", None))
        lacking = frozenset((there | named) - kept)
        confirmed_by = chance.choice([None, "bea"])
        percent = 100 * len(there - kept) / len(there) if there else 0
        is_refused = has_unknown_keys or (percent > orders.most_withdrawn_percent and confirmed_by is None)
        stated = Extract(
            days=DayRange.inclusive(days[0], days[-1]),
            where={"place": place} if place else {},
            reason="why not",
            confirmed_by=confirmed_by,
        )
        number = len(self._book.taken)
        captures = [
            FileCapture(self._room.write(written(lines), f"extract-{number}-{n}.jsonl"))
            for n, lines in enumerate(files)
        ]
        taken = [Taken(records=tuple(line.said for line in lines)) for lines in files]
        work = self._room.work
        self._try(name, [*taken, Taken(withdraws=lacking)], is_refused, lambda: land_extract(work(), captures, stated))

    def _withdraw(self, name: str, key: str) -> None:
        is_refused = key not in self._book.current() and key not in self._book.opened()
        taken = Taken(withdraws=frozenset([key]))
        work = self._room.work
        self._try(name, [taken], is_refused, lambda: withdraw(work(), {"order_id": key}, reason="why not"))

    def _restore(self, name: str) -> None:
        live = self._live()
        standing = [arrival for arrival in range(len(live)) if self._book.left_of(arrival)]
        is_meant = standing and self._chance.random() < 0.75  # otherwise of anything, which is mostly refused
        arrival = self._chance.choice(standing if is_meant else [*range(len(live))] or [0])
        of = live[arrival].import_id if live else "imp-000001"
        left = sorted(self._book.left_of(arrival)) if live else []
        chosen = {"order_id": self._chance.choice(left)} if left and self._chance.random() < 0.5 else {}
        taken = Taken(restores=frozenset(chosen.values() or left), of=arrival)
        work = self._room.work
        self._try(name, [taken], not left, lambda: restore(work(), of, chosen, reason="why not"))

    def _try(self, name: str, taken: Sequence[Taken], is_refused: bool, act: Callable[[], object]) -> None:
        try:
            act()
        except BackfillError as refusal:
            self._findings.tallies[name].refused += 1
            said = refusal.message
            if not is_refused:
                self._findings.blame(name, f"was refused: {said}")
            if "\n" in said or not said.endswith(".") or len(said) > 1_000:
                self._findings.blame(name, f"is not refused with one sentence: {said[:300]!r}")
        except Exception as error:  # noqa: BLE001 - whatever it is, a person would have seen it
            self._findings.blame(name, f"{type(error).__name__}: {str(error)[:300]}")
        else:
            if is_refused:
                self._findings.blame(name, "was done, and had to be refused")
            self._book = self._book.having(*taken)
        self._check(name)

    def _live(self) -> list[ImportRecord]:
        return [record for record in self._room.imports() if record.state in COUNTING]

    def _check(self, name: str) -> None:
        live, expected = self._live(), self._book.counts()
        for record, counts in zip(live, expected, strict=False):
            if record.counts != counts:
                self._findings.blame(name, f"{record.import_id}: expected {counts}, found {record.counts}")
        if len(live) != len(expected):
            self._findings.blame(name, f"{len(live)} imports count, expected {len(expected)}")
        keys = sum((record.keys for record in live), KeyCounts())
        if keys != self._book.keys() or keys.ever != sum(record.counts.accepted for record in live):
            self._findings.blame(name, f"expected the keys {self._book.keys()}, found {keys}")
        keyless = [record.keyless for record in live]
        if keyless != self._book.keyless():
            self._findings.blame(name, f"expected {self._book.keyless()} records without a key, found {keyless}")
        self._check_unknown(name, live)

    def _check_unknown(self, name: str, live: Sequence[ImportRecord]) -> None:
        """Which keys are not known, by the ledger and by name."""
        unknown = self._book.unknown()
        with self._room.ledger.read() as tx:
            days = tx.imports.unknown_days(orders.name)
        counted = Counter((live[arrival].import_id, change.on) for change, arrival, _ in unknown.values())
        if counted != {(day.import_id, day.event_date): day.unknown for day in days}:
            self._findings.blame(name, f"expected {counted} keys that are not known, found {days}")

    def close(self) -> None:
        """Holds bronze and the ledger against the book, and adds the counts up."""
        found = [row for day in DAYS for row in self._room.bronze([day])]
        current = self._book.current()
        if self._room.source.unknown == UnknownKeys.DROP:
            current = {key: change for key, change in current.items() if key not in self._book.unknown()}
        there = sorted(
            (row["order_id"], row["order_date"], row["lsn"], row["place"])
            for row in found
            if row[OPERATION] != "delete" and row[ENDED_BY] is None
        )
        expected = sorted((key, c.on, c.lsn, c.place) for key, c in on_days(current, DAYS).items())
        if there != expected:
            self._findings.blame("changes, file", f"bronze: {set(there) ^ set(expected)}")
        listed = {(row["order_id"], row[ROW], row["order_date"]) for day in DAYS for row in self._room.unknown([day])}
        unknown = self._book.unknown()
        named = {(key, row + 1, change.on) for key, (change, _, row) in unknown.items() if change.on in DAYS}
        if listed != named:
            self._findings.blame("changes, file", f"keys that are not known: {listed ^ named}")
        with self._room.ledger.read() as reader:
            for violation in [*reader.events.violations(), *reader.row_checks.violations()]:
                self._findings.blame("changes, file", violation)
        for record in self._live():
            kind = "withdraw" if record.format == "statement" else "file"
            for counted in COUNTED:
                self._findings.tallies[f"changes, {kind}"].counts[counted] += getattr(record.counts, counted)


def fuzz_changes(
    spark: SparkSession, folder: Path, *, seed: int, rooms: int, acts: int, count: int, findings: Findings | None = None
) -> Findings:
    """Acts in some rooms.

    Args:
        spark: The session.
        folder: Where to.
        seed: Which acts and files.
        rooms: How many rooms.
        acts: How many acts in each.
        count: About how many records a file has.
        findings: Where what is found is added.
    """
    findings = Findings() if findings is None else findings
    for number in range(rooms):
        settings = Settings.from_environment({"BACKFILL_HOME": str(folder / f"changes{number}")})
        source = replace(orders, unknown=list(UnknownKeys)[(seed + number) % 3], gates=())
        with landing_room(spark, settings, lambda: LANDED_AT, source) as opened:
            room = ChangesRoom(opened, findings, seed=seed + number, number=number, count=count)
            chance = random.Random(f"{seed}/kinds/{number}")
            for kind in ["file", "file", *(chance.choice(ACTS) for _ in range(acts - 2))]:
                room.act(kind)
            room.close()
    return findings
