"""The usual subjects of errors, which their sentences name: a run, a table, a set or a publication, and why."""

from __future__ import annotations

from backfill_assets.core.errors import BackfillError, sentence


@sentence
class OfTable(BackfillError):
    """{table}"""

    table: str

    @property
    def short(self) -> str:
        """The table as most commands name it."""
        return self.table.partition(".")[2]


@sentence
class OfRun(BackfillError):
    """{run_id}"""

    run_id: str


@sentence
class OfSet(BackfillError):
    """{set_id}"""

    set_id: str


@sentence
class OfPublication(BackfillError):
    """{publication_id}"""

    publication_id: str


@sentence
class Because(BackfillError):
    """{why}"""

    why: str
