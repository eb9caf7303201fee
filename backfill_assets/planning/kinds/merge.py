"""Merge: the transform returns changes by key, which are merged with the accepted rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

from backfill_assets.core.errors import InvalidDeclaration
from backfill_assets.planning.kinds.change import CHANGE, Change, ReadClaims, Scope, T, chunk_sizes

if TYPE_CHECKING:
    from backfill_assets.planning.manifest_parts import Limits
    from backfill_assets.planning.state import AcceptedPartition


class Older(StrEnum):
    """The treatment of a change that is older than the accepted row of its key."""

    REFUSE = "refuse"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge(Change):
    """Changes are merged by key.

    Where keys can move between partitions, the content of each follows from the changes and the accepted rows of all.
    """

    kind: ClassVar[str] = "MERGE"

    on: tuple[str, ...]  #: Columns that identify a row in the table.
    deletes: str | None = None  #: Column of changes that is true for a delete; it is no column of the table.
    version: str | None = None  #: Column that orders the versions of a key.
    older: Older = Older.REFUSE  #: With a version: what becomes of older changes.
    keys_move: bool = False  #: True if a key can move to another partition, because `on` has no partition column.
    keeps_withdrawn: bool = False  #: True if accepted rows stay whose key no change names any more.

    @property
    def document(self) -> Mapping[str, Any]:
        return {
            "kind": self.kind,
            "on": list(self.on),
            "deletes": self.deletes,
            "version": self.version,
            "older": str(self.older),
            "keys_move": self.keys_move,
            "keeps_withdrawn": self.keeps_withdrawn,
        }

    @property
    def configuration(self) -> Mapping[str, Any]:
        """The same changes give other rows when they are merged otherwise."""
        return {CHANGE: self.document}

    @property
    def is_divisible(self) -> bool:
        """A call has to see all changes of keys that can move."""
        return not self.keys_move

    @property
    def keeps_rows(self) -> bool:
        """Withdrawn rows stay where the table declares so."""
        return self.keeps_withdrawn

    @property
    def covers_table(self) -> bool:
        """True if its runs are over all partitions of the table: which of them the row of a key belongs to follows
        from the changes of all, as soon as the change is taken back that it came from."""
        return self.keys_move and not self.keeps_withdrawn

    def completed(self, chosen: set[date], rest: Callable[[], AbstractSet[date]]) -> set[date]:
        """With all other partitions, if its runs are over the table as a whole."""
        return {*chosen, *rest()} if chosen and self.covers_table else chosen

    def chunks(self, partitions: Sequence[date], rows: Mapping[date, int], limits: Limits) -> tuple[int, ...]:
        """One chunk where keys move."""
        return (len(partitions),) if self.keys_move else chunk_sizes(partitions, rows, limits)

    def proven(self, at_each_end: int, partitions: Sequence[date]) -> int:
        """All where keys move: a change of any partition can take a row from any other."""
        return len(partitions) if self.keys_move else at_each_end

    def claims_merged(self, claims: ReadClaims, partitions: Sequence[date]) -> Mapping[date, AcceptedPartition]:
        """Those of its partitions; where keys move, of the whole table."""
        return claims(None if self.keys_move else partitions)

    def merges_with(self, partition: date, accepted: Sequence[date]) -> Sequence[date]:
        """The partition itself; where keys move, every accepted one."""
        return accepted if self.keys_move else (partition,)

    def content(self, *, computed: Callable[[], T], merged: Callable[[Merge], T], piloted: Callable[[Scope], T]) -> T:
        """Changes merged by key."""
        return merged(self)

    def constant_columns(self, lineage: Mapping[str, str]) -> Mapping[str, str]:
        """None: accepted rows that stay go on naming the runs that computed them."""
        return {}

    def is_repaired(self, lost: AbstractSet[date], partitions: AbstractSet[date]) -> bool:
        """Where keys move, all partitions are computed together with one that is lost."""
        return bool(lost) if self.keys_move else lost >= partitions


def merge(
    *,
    on: tuple[str, ...],
    deletes: str | None = None,
    version: str | None = None,
    older: str = "refuse",
    keeps_withdrawn: bool = False,
) -> Merge:
    """The transform returns changes by key, computed from the inputs as they are now: they are the new content.

    An accepted row whose key no change of its partition names has no input any more, because its source took it back,
    or a reference or another release no longer gives it. It is removed, unless the table keeps such rows.

    Args:
        on: What identifies a row: the key of the table. With the partition column a key stays in its partition. Without
            it a row can move to another partition, and a plan is one over every partition that the table has.
        deletes: A column that the transform returns besides those of the table, true for a key that is deleted.
        version: The column of the table that orders the versions of a key. Equal versions replace.
        older: `refuse` blocks a run with a change that is older than the accepted row, or with two changes of a key;
            `ignore` takes the latest of several changes, and leaves one out that is older than the row of a partition
            outside of the run.
        keeps_withdrawn: Accepted rows stay whose key no change names. Reports and `backfill stale` count them. With
            `older="ignore"` also rows that are newer than the change that is left. Where keys move, a run is over the
            partitions that it is planned for.

    Raises:
        InvalidDeclaration: `older` is neither, or is given without a version, or `keeps_withdrawn` is no truth value.
    """
    if older not in [*Older] or (version is None and older != Older.REFUSE):
        raise InvalidDeclaration(f"a merge with version={version!r:.60} cannot treat older ones with {older!r:.60}.")
    if not isinstance(keeps_withdrawn, bool):
        why = f"a merge with keeps_withdrawn={keeps_withdrawn!r:.60}, which is neither True nor False"
        raise InvalidDeclaration(f"{why}.")
    return Merge(
        on=on,
        deletes=deletes,
        version=version,
        older=Older(older),
        keeps_withdrawn=keeps_withdrawn,
    )
