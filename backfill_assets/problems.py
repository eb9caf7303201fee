"""Problems: why one table could not be processed while the others were."""

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
        """The problem of an error."""
        return Problem(table=table, why=error.message, next_step=error.next_step)

    @property
    def sentence(self) -> str:
        """For a list of findings."""
        return f"{self.table}: {self.why}"


@dataclass(slots=True)
class Problems:
    """The problems of an operation, in order, each once."""

    found: list[Problem] = field(default_factory=list)

    def add(self, problem: Problem) -> None:
        """Adds a problem."""
        if problem not in self.found:
            self.found.append(problem)

    def refused(self, table: str, error: BackfillError) -> None:
        """Adds an error that concerns a table."""
        self.add(Problem.of(table, error))

    @contextmanager
    def noted(self, table: str) -> Iterator[None]:
        """Adds an error inside the block as a problem of this table, and continues after it."""
        try:
            yield
        except BackfillError as error:
            self.refused(table, error)
