"""Replace: each partition is replaced as a whole by the rows that the transform returns for it. The usual change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import replace as with_fields
from typing import Any, ClassVar, Self

from backfill_assets.core.declaring import declared
from backfill_assets.core.errors import InvalidDeclaration
from backfill_assets.planning.kinds.change import Change


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionOf:
    """The table that a table is a version of, and how the two are compared."""

    table: str  #: The table whose readers may be cut over.
    differs: tuple[str, ...] = ()  #: Columns whose values are expected to differ.
    explained: str = ""  #: Condition in SQL; rows that fulfil it on both sides are expected to differ.
    clean_days: int = 0  #: On how many days in a row both have to agree before readers are cut over.


@dataclass(frozen=True, slots=True, kw_only=True)
class Replace(Change):
    """Whole partitions are replaced."""

    kind: ClassVar[str] = "REPLACE"

    #: The table that it is a version of, beside that one; None for any other table.
    version_of: VersionOf | None = None

    @property
    def document(self) -> Mapping[str, Any]:
        """Its canonical form: how versions are compared decides nothing about its rows, and is left out."""
        return {"kind": self.kind, **({"version_of": self.version_of.table} if self.version_of else {})}

    @property
    def pinned(self) -> Self:
        """Without how versions are compared."""
        return with_fields(self, version_of=VersionOf(table=self.version_of.table)) if self.version_of else self


REPLACE = Replace()


def replace() -> Replace:
    """A partition is replaced as a whole by what the transform returns for it. The usual mode."""
    return REPLACE


@declared
def versioned(*, of: str, differs: tuple[str, ...] = (), explained: str = "", clean_days: int = 0) -> Replace:
    """The table is a version of another one, beside it: readers of that one see it once they are cut over to it.

    Its runs replace partitions of the table itself, which has files, runs and history of its own.

    Args:
        of: The table whose readers may be cut over: of the same key and partitions.
        differs: Columns whose values are expected to differ. Such differences are counted as explained.
        explained: A condition in SQL over the columns; rows that fulfil it are expected to differ, or to be missing on
            one side. Where only one of two rows of a key fulfils it, their difference is not explained.
        clean_days: On how many days in a row the daily comparison has to find no unexplained difference before readers
            can be cut over; 0 asks for no comparison.

    Raises:
        InvalidDeclaration: The number of days is negative, or no table is named.
    """
    if not of or clean_days < 0:
        raise InvalidDeclaration(f"a version of {of!r:.60} cannot be compared for {clean_days} days.")
    return Replace(version_of=VersionOf(table=of, differs=differs, explained=explained, clean_days=clean_days))
