"""Values and records of hostile files, with what has to become of them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

Text = Callable[[random.Random], str]
COLUMNS = ("event_id", "event_time", "place", "attributes", "schema_version")
SHARED_KEYS = 150
"""So many keys occur in many files, so that files duplicate and supersede each other's records."""


@dataclass(frozen=True, slots=True)
class Valid:
    """A record that has to count under its key; two with equal content say the same."""

    key: str
    content: str


REJECTED = None
"""What a record is that breaks the contract."""

Fate = Valid | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hostile:
    """A file and what has to become of it."""

    kind: str  #: How it was made, as the table of results names it.
    name: str  #: Its name.
    content: bytes  #: Its bytes.
    records: tuple[Fate, ...] | None  #: Its records in order, or None when it has to be refused as a whole.


# ------------------------------------------------------------------------------------------------ values

GOOD_TIMES: Sequence[str] = (
    "2024-05-01T10:00:00Z",
    "2024-05-01 10:00:00+02:00",
    "2024-05-01T10:00-11:30",
    "2024-05-01T23:59:59.999999000+14:00",
    "2024-05-01T10:00:00+0530",
    "2024-05-01T10:00:00-03",
    "2024-03-31T02:30:00+01:00",  # in Rome's gap, and an instant all the same
    "2024-10-27T02:30:00+02:00",  # the first and the second half past two of Rome's fold
    "2024-10-27T02:30:00+01:00",
    "2024-02-29T00:00:00.1Z",
    "1999-01-01T00:00:00Z",
    "2026-01-15T11:59:59Z",
)
BAD_TIMES: Sequence[str] = (
    "0000-01-01T00:00:00Z",
    "0001-01-01T00:00:00Z",
    "-001-01-01T00:00:00Z",
    "-0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59-14:00",
    "10000-01-01T00:00:00Z",
    "+294247-01-10T04:00:54Z",
    "1998-12-31T23:59:59Z",
    "2026-01-15T12:00:01Z",
    "2024-05-01T10:00:00",
    "2024-03-31T02:30:00 Europe/Rome",
    "2024-10-27T02:30:00[Europe/Rome]",
    "2024-05-01",
    "2016-12-31T23:59:60Z",
    "2023-02-29T00:00:00Z",
    "2024-04-31T00:00:00Z",
    "2024-13-01T00:00:00Z",
    "2024-05-01T24:00:01Z",
    "2024-05-01T10:60:00Z",
    "2024-05-01T10:00:00+25:00",
    "2024-05-01T10:00:00+02:75",
    "2024-05-01T10:00:00.1234567890Z",
    "2024-05-01T10:00:00.123456001Z",
    "2024-05-01T10:00:00Z\n",
    "1714557600",
    "1e400",
    "NaN",
    "\u0662\u0660\u0662\u0664-\u0660\u0665-\u0660\u0661T\u0661\u0660:\u0660\u0660:\u0660\u0660Z",
    "2024-05-01T10:00:00Z; DROP TABLE runs",
    "tomorrow",
)
ODD_TEXTS: Sequence[str] = (
    "Forlì",
    "🚓 \U0001f1ee\U0001f1f9",
    "\u202egnp.exe",
    "\x1b[31mred\x1b[0m",
    "[red]markup[/red] <script>alert(1)</script>",
    "'; DROP TABLE runs;--",
    "NaN",
    "null",
    "-",
    "\u2028\u0085\ufeff",
    "e\u0301" * 20,
    "\\N",
    "=cmd()",
)
GOOD_WHOLE: Sequence[str] = ("0", "7", "+7", "-3", "2147483647", "-2147483648", "0000000000000000042")
BAD_WHOLE: Sequence[str] = (
    "2147483648",
    "-2147483649",
    str(2**63),
    str(10**40),
    "1" * 400,
    "1e400",
    "1.0",
    "1.5",
    "NaN",
    "Infinity",
    "0x10",
    "1_000",
    "\u0661",
    "two",
    "1 2",
    "5\n",
)
EXACT_NUMBERS: Sequence[str] = (
    "20260102.10",
    "0.0005",
    "-0",
    "-0.0",
    "1E5",
    "1e400",
    "12345678901234567.5",
    "9" * 1200,
)
"""JSON numbers that are something else after they were a double."""


@dataclass
class Author:
    """Makes records with known fates."""

    random: random.Random  #: Everything that varies comes from it.
    prefix: str  #: Of the keys that occur in no other file.
    made: int = 0

    def key(self) -> str:
        """A key: mostly one of its own, sometimes one that other files have too."""
        self.made += 1
        if self.random.random() < 0.15:
            return f"shared{self.random.randrange(SHARED_KEYS)}"
        return f"{self.prefix}{self.made}"

    def values(self) -> dict[str, Any]:
        """A valid record as plain values; few different contents, so that repetitions say the same."""
        at = datetime(2024, 5, 1, 10, tzinfo=UTC) + timedelta(days=self.random.randrange(4))
        return {"event_id": self.key(), "event_time": at.isoformat(), "place": f"p{self.random.randrange(2)}"}


def valid(values: dict[str, Any]) -> Valid:
    """The fate of a record whose contract values are these; what is not among them is null."""
    known = {name: values[name] for name in COLUMNS if values.get(name) is not None}
    known["event_time"] = datetime.fromisoformat(known["event_time"]).astimezone(UTC).isoformat()
    return Valid(str(values["event_id"]), json.dumps(known, sort_keys=True))
