"""What keeps one table from being looked after, while the others are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from backfill_assets.errors import BackfillError
from backfill_assets.next_steps import NextStep


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One table, or set, that could not be looked after.

    Attributes:
        table: The table, or the set.
        why: Why it could not, in a sentence.
        next_step: What to do about it, or null.
    """

    table: str
    why: str
    next_step: NextStep | None = None

    @staticmethod
    def of(table: str, error: BackfillError) -> Problem:
        """The problem that an error tells."""
        return Problem(table=table, why=error.message, next_step=error.next_step)

    @property
    def sentence(self) -> str:
        """For a list of findings."""
        return f"{self.table}: {self.why}"


@dataclass(slots=True)
class Problems:
    """The problems that were met on the way, in order, each once."""

    found: list[Problem] = field(default_factory=list)

    def add(self, problem: Problem) -> None:
        """Remembers a problem."""
        if problem not in self.found:
            self.found.append(problem)

    def refused(self, table: str, error: BackfillError) -> None:
        """Remembers what was refused about a table."""
        self.add(Problem.of(table, error))

    @contextmanager
    def noted(self, table: str) -> Iterator[None]:
        """What is refused inside is a problem of this table, and no reason to stop."""
        try:
            yield
        except BackfillError as error:
            self.refused(table, error)
