"""What was found of everything that was landed?"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field

COUNTED = ("landed", "accepted", "duplicate", "superseded", "rejected")


@dataclass
class Tally:
    """What became of the files of one kind."""

    files: int = 0
    refused: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    violations: int = 0


@dataclass
class Findings:
    """What became of everything, and every promise that was broken."""

    tallies: dict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))
    violations: list[str] = field(default_factory=list)

    @property
    def records(self) -> int:
        """How many records were landed."""
        return sum(tally.counts["landed"] for tally in self.tallies.values())

    def blame(self, kind: str, sentence: str) -> None:
        """Notes a broken promise."""
        self.tallies[kind].violations += 1
        self.violations.append(f"{kind}: {sentence}")
        sys.stderr.write(f"VIOLATION {kind}: {sentence}\n")
