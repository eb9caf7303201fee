"""Is every record of every hostile file accounted for, and is what cannot be read refused with one sentence?

`python -m backfill_assets_tests.faults.fuzz --records 100000 [--seed N]` lands files made from a seed until so many
records were landed. After each file its counts, and after each room those of all its files, have to be what a plain
reading of the rules says. Prints a table of kinds of files and what became of them; exit code 1 when a promise broke.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from pyspark.sql import SparkSession

from backfill_assets.core.errors import Refused
from backfill_assets.core.settings import Settings
from backfill_assets.files.local import LocalFiles
from backfill_assets.ledger.imports import ImportCounts
from backfill_assets.ledger.states import COUNTING
from backfill_assets_tests.faults.corpus import KINDS, hostile_file
from backfill_assets_tests.faults.corpus_values import Fate, Hostile
from backfill_assets_tests.faults.findings import COUNTED, Findings, Tally
from backfill_assets_tests.faults.fuzz_changes import fuzz_changes
from backfill_assets_tests.faults.fuzzed import fuzzed
from backfill_assets_tests.faults.refused import files_without_records, refused_files
from backfill_assets_tests.support.landing_examples import LANDED_AT, LandingRoom, landing_room

FILES_IN_A_ROOM = 16
"""A file is compared with every file before it, so a room is left after some."""


def expected_counts(files: Sequence[Sequence[Fate]]) -> list[ImportCounts]:
    """What the rules say of files that arrived in this order: of each key the last news is accepted."""
    fates = [Counter({"landed": len(file), "rejected": sum(fate is None for fate in file)}) for file in files]
    standing: dict[str, tuple[int, str]] = {}
    latest: dict[str, str] = {}
    for arrival, file in enumerate(files):
        for fate in file:
            if fate is None:
                continue
            if latest.get(fate.key) == fate.content:
                fates[arrival]["duplicate"] += 1
                continue
            if fate.key in standing:
                fates[standing[fate.key][0]]["superseded"] += 1
            standing[fate.key] = (arrival, fate.content)
            latest[fate.key] = fate.content
    for arrival, _ in standing.values():
        fates[arrival]["accepted"] += 1
    return [ImportCounts(**{name: counts[name] for name in COUNTED}) for counts in fates]


class Room:
    """One landing room, the files that it took in, and what they have come to."""

    def __init__(self, room: LandingRoom, findings: Findings) -> None:
        self._room = room
        self._findings = findings
        self._landed: list[Hostile] = []

    def offer(self, file: Hostile, number: int) -> None:
        """Lands a file, and holds what became of it against what had to."""
        tally = self._findings.tallies[file.kind]
        tally.files += 1
        before = self._room.imports()
        try:
            landed = self._room.land(file.content, f"{number}-{file.name}")
        except Refused as refusal:
            tally.refused += 1
            if file.records is not None:
                self._findings.blame(file.kind, f"file {number} was refused: {refusal}")
            self._check_refusal(file, refusal, nothing_changed=self._room.imports() == before)
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, a person would have seen it
            self._findings.blame(file.kind, f"file {number}: {type(error).__name__}: {str(error)[:300]}")
            return
        if file.records is None:
            self._findings.blame(file.kind, f"file {number} was taken in: {landed.record.counts}")
            return
        if not landed.is_new:
            if all(file.content != earlier.content for earlier in self._landed):
                self._findings.blame(file.kind, f"file {number} was taken for {landed.record.import_id}")
            return
        self._landed.append(file)
        counts = landed.record.counts
        (expected,) = expected_counts([f.records or () for f in self._landed])[-1:]
        if counts != expected or not counts.reconciles:
            self._findings.blame(file.kind, f"file {number}: expected {expected}, found {counts}{self._why(file)}")

    def _why(self, file: Hostile) -> str:
        """The first records that were judged otherwise than expected."""
        last = self._room.imports()[-1]
        reasons = {row["row_number"]: row["reason"] for row in self._room.quarantined.get(last.import_id, [])}
        if "JSON" in file.kind and "blank" not in file.kind:
            lines = file.content.splitlines()
            wrong = [n for n, fate in enumerate(file.records or (), 1) if (fate is None) != (n in reasons)]
            return "".join(
                f"\n      {n}: {reasons.get(n)}: {lines[n - 1][:200]!r}" for n in wrong[:3] if n <= len(lines)
            )
        wrong = [n for n, fate in enumerate(file.records or (), 1) if (fate is None) != (n in reasons)]
        return "".join(f"\n      {n}: {reasons.get(n)}: {(file.records or ())[n - 1]}" for n in wrong[:3])

    def _check_refusal(self, file: Hostile, refusal: Refused, *, nothing_changed: bool) -> None:
        said = refusal.message
        if "\n" in said or not said.endswith(".") or len(said) > 1_000:
            self._findings.blame(file.kind, f"is not refused with one sentence: {said[:300]!r}")
        if not nothing_changed:
            self._findings.blame(file.kind, "changed the ledger although it was refused")
        if list(LocalFiles(self._room.work().place.incoming).listed()):
            self._findings.blame(file.kind, "left a temporary copy although it was refused")

    def close(self) -> None:
        """Holds the counts of all files against what they have to be now, and adds them up."""
        found = [record.counts for record in self._room.imports() if record.state in COUNTING]
        expected = expected_counts([file.records or () for file in self._landed])
        for file, has, should in zip(self._landed, found, expected, strict=True):
            if has != should:
                self._findings.blame(file.kind, f"in the end: expected {should}, found {has}")
            for name in COUNTED:
                self._findings.tallies[file.kind].counts[name] += getattr(has, name)


def fuzz(
    spark: SparkSession,
    folder: Path,
    *,
    seed: int,
    records: int,
    records_in_a_file: int,
    kinds: Sequence[int] | None = None,
    files_in_a_room: int = FILES_IN_A_ROOM,
    empty_files: int | None = None,
) -> Findings:
    """Lands files until so many records were landed.

    Args:
        spark: The session.
        folder: Where to.
        seed: Which files.
        records: How many records to land at least.
        records_in_a_file: About how many records a file has.
        kinds: Only these kinds, by their number in `corpus.KINDS`; every kind by default.
        files_in_a_room: A file is compared with every file before it in its room.
        empty_files: How many of the files without records; all of them by default.
    """
    findings = Findings()
    numbers = _numbers(kinds)
    rooms = 0
    while findings.records < records:
        with _room(spark, folder / f"room{rooms}", findings) as room:
            if not rooms:
                for offset, file in enumerate([*refused_files(seed), *islice(files_without_records(), empty_files)]):
                    room.offer(file, offset)
            for _ in range(files_in_a_room):
                number = next(numbers)
                room.offer(hostile_file(seed, number, records_in_a_file), number)
        rooms += 1
    return findings


def _numbers(kinds: Sequence[int] | None) -> Iterator[int]:
    turn = 0
    while True:
        yield from (turn * len(KINDS) + kind for kind in kinds or range(len(KINDS)))
        turn += 1


class _room:  # noqa: N801 - a context manager
    def __init__(self, spark: SparkSession, home: Path, findings: Findings) -> None:
        settings = Settings.from_environment({"BACKFILL_HOME": str(home)})
        self._opened = landing_room(spark, settings, lambda: LANDED_AT)
        self._findings = findings

    def __enter__(self) -> Room:
        self._room = Room(self._opened.__enter__(), self._findings)
        return self._room

    def __exit__(self, *raised: object) -> None:
        try:
            if raised[0] is None:
                self._room.close()
        finally:
            self._opened.__exit__(None, None, None)


def table(findings: Findings) -> str:
    """What became of every kind of file."""
    width = max(len(kind) for kind in findings.tallies) + 2
    heads = ("files", "refused", "records", *COUNTED[1:], "violations")
    lines = [f"{'files of the kind':{width}}" + "".join(f"{head:>11}" for head in heads)]

    def line(name: str, tallies: Iterable[Tally]) -> str:
        each = list(tallies)
        numbers = [sum(t.files for t in each), sum(t.refused for t in each)]
        numbers += [sum(t.counts[counted] for t in each) for counted in COUNTED]
        numbers += [sum(t.violations for t in each)]
        return f"{name:{width}}" + "".join(f"{number:>11,}" for number in numbers)

    lines += [line(kind, [tally]) for kind, tally in findings.tallies.items()]
    lines.append(line("all", findings.tallies.values()))
    return "\n".join(lines)


def main() -> int:
    """Fuzzes and prints the table; 1 when a promise was broken."""

    def act(spark: SparkSession, folder: Path, given: argparse.Namespace) -> tuple[str, bool]:
        findings = fuzz(
            spark, folder, seed=given.seed, records=given.records, records_in_a_file=given.records_in_a_file
        )
        fuzz_changes(spark, folder, seed=given.seed, rooms=given.changes, acts=16, count=300, findings=findings)
        lines = [table(findings), *(f"  {violation}" for violation in findings.violations[:50])]
        lines.append(f"{findings.records:,} records, {len(findings.violations):,} violations")
        return "\n".join(lines), bool(findings.violations)

    changes = {"type": int, "default": 8, "help": "rooms in which a source changes its mind"}
    return fuzzed(__doc__, act, options={"--changes": changes})


if __name__ == "__main__":
    sys.exit(main())
