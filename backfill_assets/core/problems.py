"""Problems: why one table could not be processed while the others were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from backfill_assets.core.errors import BackfillError


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One table, or set, that could not be processed.

    Attributes:
        table: The table, or the set.
        error: Why it could not.
    """

    table: str
    error: BackfillError

    def __str__(self) -> str:
        return f"{self.table}: {self.error.message}"


@dataclass(slots=True)
class Problems:
    """The problems of an operation, in order, each once."""

    found: list[Problem] = field(default_factory=list)

    def refused(self, table: str, error: BackfillError) -> None:
        """Adds an error that concerns a table."""
        problem = Problem(table=table, error=error)
        if str(problem) not in map(str, self.found):
            self.found.append(problem)

    @contextmanager
    def noted(self, table: str) -> Iterator[None]:
        """Adds an error inside the block as a problem of this table, and continues after it."""
        try:
            yield
        except BackfillError as error:
            self.refused(table, error)
