"""The rules of a change feed, its extracts, withdrawals and restorations, read plainly: without windows, key by key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from backfill_assets.ledger.imports import ImportCounts, KeyCounts
from backfill_assets_tests.faults.corpus_changes import Change, Rejected

Place = tuple[int, int, int, int]
"""The position, whether it is more than a snapshot, the arrival and the row."""


@dataclass(frozen=True)
class Taken:
    """What was taken in: the records of a file, the keys that a statement withdraws, or those that it restores."""

    records: tuple[Change | Rejected | None, ...] = ()
    withdraws: frozenset[str] = frozenset()
    restores: frozenset[str] = frozenset()
    of: int = -1
    """Of a restoration: the arrival of what withdrew them."""


@dataclass(frozen=True)
class Standing:
    """What a key is, and the record that says it."""

    state: str
    change: Change | None
    unknown_since: tuple[int, int] | None = None
    """Of a key that is current by what was accepted: the arrival and the row of the first rejected record after it."""


@dataclass(frozen=True)
class _Read:
    """Of every import what became of its records, of every key what it is and its rejected records that are newer, and
    whether nothing decides between two records."""

    fates: list[Counter[str]]
    standing: dict[str, Standing]
    opened: dict[str, list[tuple[Rejected, int, int]]]
    is_tied: bool


@dataclass
class Book:
    """Everything that counts, in the order of arrival."""

    taken: list[Taken] = field(default_factory=list)

    def having(self, *more: Taken) -> Book:
        """The book as it would be."""
        return Book([*self.taken, *more])

    def counts(self) -> list[ImportCounts]:
        """Of every import, what became of its records."""
        return [ImportCounts(**each) for each in self._read().fates]

    def keys(self) -> KeyCounts:
        """How many keys are what."""
        return KeyCounts(**Counter(each.state for each in self.standing().values()))

    def standing(self) -> Mapping[str, Standing]:
        """Every key that was ever accepted, or withdrawn."""
        return self._read().standing

    def opened(self) -> Mapping[str, Sequence[Rejected]]:
        """The rejected records that are newer than all that counts of their keys, by key."""
        return {key: [rejected for rejected, _, _ in some] for key, some in self._read().opened.items() if some}

    def current(self) -> Mapping[str, Change]:
        """The keys that are there."""
        return {key: each.change for key, each in self.standing().items() if each.state == "current" and each.change}

    def unknown(self) -> Mapping[str, tuple[Change, int, int]]:
        """The keys that are not known: what they were last, and the arrival and the row since which they are not."""
        return {
            key: (each.change, *each.unknown_since)
            for key, each in self.standing().items()
            if each.change is not None and each.unknown_since is not None
        }

    def keyless(self) -> list[int]:
        """Of every import, how many rejected records have no key that can be read."""
        return [taken.records.count(None) for taken in self.taken]

    def left_of(self, arrival: int) -> frozenset[str]:
        """The keys that an import withdrew and that were not restored."""
        return self.taken[arrival].withdraws - {
            key for each in self.taken if each.of == arrival for key in each.restores
        }

    def is_tied(self, last: int) -> bool:
        """Whether nothing decides between a record of the last imports and one before it."""
        return self._read(last).is_tied

    def _read(self, last: int = 0) -> _Read:
        fates = [Counter({"landed": len(t.records) or len(t.withdraws) or len(t.restores)}) for t in self.taken]
        versions: dict[str, list[tuple[Place, Change]]] = {}
        truncates: list[Place] = []
        rejected: dict[str, list[tuple[Rejected, int, int]]] = {}
        for arrival, taken in enumerate(self.taken):
            fates[arrival]["superseded"] += len(taken.restores)
            for row, change in enumerate(taken.records):
                if not isinstance(change, Change):
                    fates[arrival]["rejected"] += 1
                    if change is not None:
                        rejected.setdefault(change.key, []).append((change, arrival, row))
                    continue
                place = (change.lsn, int(change.op != "r"), arrival, row)
                if change.op == "t":
                    fates[arrival]["superseded"] += 1
                    truncates.append(place)
                else:
                    assert change.key is not None
                    versions.setdefault(change.key, []).append((place, change))
        standing: dict[str, Standing] = {}
        opened: dict[str, list[tuple[Rejected, int, int]]] = {}
        is_tied = False
        for key in {*versions, *rejected, *(key for taken in self.taken for key in taken.withdraws)}:
            every = versions.get(key, [])
            withdrawals = [n for n, taken in enumerate(self.taken) if key in taken.withdraws]
            held = [n for n in withdrawals if key in self.left_of(n)]
            void = max(held, default=-1)
            news: list[tuple[Place, Change]] = []
            before: tuple[Place, Change | None] | None = None
            for place, change in sorted([*((p, c) for p, c in every), *((p, None) for p in truncates)], key=_place):
                if change is not None and place[2] < void:
                    fates[place[2]]["superseded"] += 1
                    continue
                # A truncate of the position of a record contradicts it, as another record would.
                is_other = before is None or before[1] != change
                is_tied |= before is not None and is_other and before[0][:2] == place[:2] and place[2] >= last
                if change is not None and is_other:
                    news.append((place, change))
                elif change is not None:
                    fates[place[2]]["duplicate"] += 1
                before = (place, change)
            for place, _ in news[:-1]:
                fates[place[2]]["superseded"] += 1
            for each in withdrawals:
                fates[each]["accepted" if not news and each == void else "superseded"] += 1
            newest = max([*(p for p, _ in every if p[2] >= void), *truncates], default=None)
            opened[key] = [
                (each, arrival, row)
                for each, arrival, row in rejected.get(key, ())
                if arrival > void and (newest is None or _is_after(each, arrival, row, newest))
            ]
            if not news:
                if void >= 0:
                    standing[key] = Standing("withdrawn", None)
                continue
            place, change = news[-1]
            fates[place[2]]["accepted"] += 1
            if change.op == "d" or any(truncate > place for truncate in truncates):
                standing[key] = Standing("deleted", change)
                continue
            since = min((each[1:] for each in opened[key]), default=None)
            standing[key] = Standing("current", change, since)
        return _Read(fates, standing, opened, is_tied)


def _is_after(rejected: Rejected, arrival: int, row: int, newest: Place) -> bool:
    if rejected.lsn is None:
        return (arrival, row) > newest[2:]
    return (rejected.lsn, int(not rejected.is_snapshot), arrival, row) > newest


def _place(each: tuple[Place, Change | None]) -> Place:
    return each[0]


def on_days(current: Mapping[str, Change], days: Sequence[date]) -> Mapping[str, Change]:
    """The keys of some days."""
    return {key: change for key, change in current.items() if change.on in days}
