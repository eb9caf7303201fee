"""Hostile records of a change feed, with what each of them does or that it has to be rejected."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from backfill_assets_tests.faults.corpus_values import BAD_TIMES, BAD_WHOLE, ODD_TEXTS

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
FIRST = NOON.date()
DAYS = tuple(FIRST + timedelta(days=n) for n in range(4))
KEYS = 60
FILES = 1_000
"""No two files of a seed have a position in common, up to so many files."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a valid record says; two that are equal say the same."""

    op: str
    lsn: int
    key: str | None
    ordered_at: datetime | None
    changed_at: datetime | None
    place: str | None

    @property
    def on(self) -> date:
        """Its day: that of the change where nothing else is known."""
        at = self.ordered_at or self.changed_at
        assert at is not None
        return at.date()


@dataclass(frozen=True, slots=True)
class Rejected:
    """What can be read of a record that has to be rejected: its key, its place, and where they are what they have to
    be, its position and its day."""

    key: str
    lsn: int | None
    is_snapshot: bool
    on: date | None = None
    place: str | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a file: what it says, or None when it has to be rejected and its key cannot be read."""

    content: bytes
    said: Change | Rejected | None


def feed_lines(seed: int, number: int, count: int, *, operations: str = "ccuuuudrt") -> list[Line]:
    """A file of a seed: hostile records among others, some delivered twice, some known from the file before it."""
    chance = random.Random(f"{seed}/changes/{number}")
    lines = _own(chance, number, count, operations)
    lines += chance.sample(lines, len(lines) // 10)
    if number:
        before = _own(random.Random(f"{seed}/changes/{number - 1}"), number - 1, count, operations)
        lines += chance.sample(before, len(before) // 10)
    chance.shuffle(lines)
    return lines


def tied_lines(seed: int, number: int, count: int) -> list[Line]:
    """A file in which nothing decides between two records, so that it has to be refused as a whole."""
    lines = feed_lines(seed, number, count)
    lsn = FILES * 10**9 + number
    return [*lines, _good("u", "tied", lsn, 0, "one"), _good("u", "tied", lsn, 1, "other")]


def written(lines: list[Line]) -> bytes:
    """The file."""
    return b"".join(line.content + b"\n" for line in lines)


def _own(chance: random.Random, number: int, count: int, operations: str) -> list[Line]:
    found = []
    for place in chance.sample(range(50 * count), count):
        lsn = place * FILES + number
        op = chance.choice(operations if chance.random() < 0.2 else operations.replace("t", ""))
        if chance.random() < 0.4:
            found.append(_hostile(chance, op, lsn))
            continue
        key = f"k{chance.randrange(KEYS)}"
        found.append(_good(op, key, lsn, chance.randrange(len(DAYS)), f"p{chance.randrange(3)}"))
        if op == "u" and chance.random() < 0.3:  # a snapshot of the same position: the change wins
            found.append(_good("r", key, lsn, chance.randrange(len(DAYS)), "seen"))
    return found


def _values(op: str, key: str | None, lsn: Any, day: int, place: str | None) -> dict[str, Any]:
    at = NOON + timedelta(days=day)
    return {
        "op": op,
        "lsn": lsn,
        "order_id": key,
        "ordered_at": at.isoformat(),
        "changed_at": (at + timedelta(minutes=5)).isoformat(),
        "place": place,
    }


def _good(op: str, key: str, lsn: int, day: int, place: str) -> Line:
    if op == "t":
        return _valid(_values(op, None, lsn, day, None))
    return _valid(_values(op, key, lsn, day, place))


def state_line(key: str, lsn: int, day: int, place: str) -> Line:
    """A record of a key that is there."""
    return _good("u", key, lsn, day, place)


def rejected_line(key: str, lsn: int) -> Line:
    """A record of a key that is there, as far as can be read, and whose time is none."""
    return _rejected({**_values("u", key, lsn, 0, "p0"), "ordered_at": "never"})


def _hostile(chance: random.Random, op: str, lsn: int) -> Line:
    key, day = f"k{chance.randrange(KEYS)}", chance.randrange(len(DAYS))
    values = _values(op, None if op == "t" else key, lsn, day, "p1")
    match chance.randrange(12):
        case 0:
            odd: list[Any] = [
                "x",
                "C",
                " c",
                "c ",
                "",
                "  ",
                None,
                5,
                True,
                [],
                {},
                "delete",
                "cc",
                "\u0441",
                "c\x00",
                "x" * 500,
            ]
            return _rejected({**values, "op": chance.choice(odd)})
        case 1:
            odd = [*BAD_WHOLE[2:], None, "", " ", 1.5, 2**63, -(2**63) - 1, True, [lsn]]
            return _rejected({**values, "lsn": chance.choice(odd)})
        case 2:
            del values[chance.choice(["op", "lsn"])]
            return _rejected(values)
        case 3:
            return _rejected({**values, "ordered_at": chance.choice(BAD_TIMES)})
        case 4:
            return _rejected({**values, "changed_at": chance.choice([*BAD_TIMES[16:], "never", 5, []])})
        case 5 if op == "t":  # rubbish where a truncate says nothing
            return _valid({**values, "order_id": key, "place": chance.choice([*ODD_TEXTS, ""])})
        case 5:
            return _rejected({**values, "order_id": chance.choice([None, "", "  "])})
        case 6 if op in "dt":  # one time of two is enough, and no values are needed
            del values[chance.choice(["ordered_at", "changed_at"])]
            return _valid({**values, "place": None})
        case 6:
            return _rejected({**values, chance.choice(["ordered_at", "changed_at", "place"]): None})
        case 7:
            return _rejected({**values, "ordered_at": None, "changed_at": None})
        case 8:
            edge = chance.choice([2**63 - 1, -(2**63), 0, -lsn - 1])
            text: Any = chance.choice([edge, str(edge), f"{edge:+}"])
            own = {**values, "op": "c", "order_id": f"edge-{lsn}", "place": "p1"}
            return _valid({**own, "lsn": text}, lsn=edge)
        case 9:
            return _valid({**values, "place": chance.choice(ODD_TEXTS)}) if op != "t" else _valid(values)
        case 10:
            whole = json.dumps(values).encode()
            content = chance.choice([whole[:-1], whole + b"}", b"[" + whole + b"]", b"null", b"\xff" + whole])
            return Line(content, None)
        case _:
            return _valid({**values, "extra": {"op": "d"}, "OP": "d"})


def _rejected(values: dict[str, Any]) -> Line:
    key, lsn = values.get("order_id"), values.get("lsn")
    is_whole = isinstance(lsn, int) and not isinstance(lsn, bool) and -(2**63) <= lsn < 2**63
    said = None
    if key and key.strip():
        position = lsn if is_whole else None
        said = Rejected(key, position, values.get("op") == "r", _day(values["ordered_at"]), values["place"])
    return Line(json.dumps(values).encode(), said)


def _day(at: Any) -> date | None:
    """The day of a time as `_values` writes it; None of any other, also of one that is no time of these days."""
    return next((day for day in DAYS if at == datetime.combine(day, NOON.timetz()).isoformat()), None)


def _valid(values: dict[str, Any], lsn: int | None = None) -> Line:
    def instant(name: str) -> datetime | None:
        text = values.get(name)
        return datetime.fromisoformat(text) if text else None

    change = Change(
        op=values["op"],
        lsn=values["lsn"] if lsn is None else lsn,
        key=None if values["op"] == "t" else values["order_id"],
        ordered_at=instant("ordered_at"),
        changed_at=instant("changed_at"),
        place=values["place"],
    )
    return Line(json.dumps(values).encode(), change)
