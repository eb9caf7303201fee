"""Change: what a run does to the accepted partitions of its table.

A table declares the change that its runs make, and a manifest pins it. Each kind is a class in a module of its own.
What differs by kind is a method of `Change`, so that no caller asks for the kind. The defaults are those of a run that
replaces whole partitions by the rows that it computes.

What differs by kind and needs Spark or gates is handed to a method that chooses one of what it is given (`content`,
`gates`). The words of a kind are a `match` over `AnyChange` in `report/words/`.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from backfill_assets.calendar.partitions import Grain
from backfill_assets.core.next_steps import Invocation
from backfill_assets.planning.next_steps import plans

if TYPE_CHECKING:
    from backfill_assets.planning.kinds.merge import Merge
    from backfill_assets.planning.manifest_parts import Limits
    from backfill_assets.planning.state import AcceptedPartition

CHANGE = "change"
"""The part of a configuration that holds the change of a run, where its rows follow from it."""

ReadClaims = Callable[[Sequence[date] | None], "Mapping[date, AcceptedPartition]"]
"""Reads the accepted versions of some partitions of a table; of all for None."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The rows that a pilot changes."""

    where: tuple[tuple[str, str], ...]  #: Columns with the value that a row has in each of them, as text.
    is_rest: bool = False  #: True if it is all other rows instead.

    @property
    def outside(self) -> Scope:
        """All other rows."""
        return Scope(where=self.where, is_rest=not self.is_rest)

    @property
    def options(self) -> Sequence[tuple[str, str]]:
        """The options of a plan that name these rows."""
        return [("but" if self.is_rest else "where", f"{column}={value}") for column, value in self.where]

    def __str__(self) -> str:
        named = " and ".join(f"{column}={value}" for column, value in self.where)
        return f"all but {named}" if self.is_rest else named


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(ABC):
    """What a run does to the accepted partitions of its table."""

    kind: ClassVar[str]  #: Tag of the kind in documents.

    @property
    def document(self) -> Mapping[str, Any]:
        """Its canonical form, tagged with the kind."""
        return {"kind": self.kind}

    @property
    def pinned(self) -> Self:
        """What manifests pin of a declaration."""
        return self

    @property
    def configuration(self) -> Mapping[str, Any]:
        """Its part of the configuration of a run: empty where the rows of a key do not follow from it."""
        return {}

    @property
    def imports(self) -> tuple[str, ...]:
        """The ids of the landed files that its rows are built from; none for rows that are computed from tables."""
        return ()

    @property
    def declared_empty(self) -> tuple[date, ...]:
        """The days on which nothing happened, as the requester states."""
        return ()

    @property
    def scope(self) -> Scope | None:
        """The rows that it changes; None for all rows of its partitions."""
        return None

    @property
    def is_divisible(self) -> bool:
        """True if its partitions can be computed in several runs or calls, each without the others."""
        return True

    @property
    def keeps_rows(self) -> bool:
        """True if accepted rows stay that it does not compute."""
        return False

    @property
    def permits(self) -> AbstractSet[str]:
        """The safeguards that permit one act and count for this one."""
        return frozenset()

    def fixed(self, accepted: AbstractSet[date]) -> AbstractSet[date]:
        """Those of some accepted partitions that it never changes."""
        return frozenset()

    def computed(self, partitions: tuple[date, ...]) -> tuple[date, ...]:
        """Those of its partitions whose rows it computes."""
        return partitions

    def completed(self, chosen: set[date], rest: Callable[[], AbstractSet[date]]) -> set[date]:
        """The partitions of a run over some chosen ones.

        Args:
            rest: Reads the other partitions of the table that can be computed.
        """
        return chosen

    def planned_again(self, table: str, grain: Grain, partitions: Sequence[date]) -> Sequence[Invocation]:
        """The commands that plan the same change of these partitions once more."""
        return plans(table, grain, partitions)

    def content(self, *, computed: Callable[[], T], merged: Callable[[Merge], T], piloted: Callable[[Scope], T]) -> T:
        """Chooses what makes the content of its partitions, or what measures it.

        Args:
            computed: For the computed rows as they are.
            merged: For computed changes that are merged by key with accepted rows.
            piloted: For the computed rows of a scope beside the accepted rows outside of it.
        """
        return computed()

    def gates(self, declared: tuple[T, ...], own: Mapping[str, T]) -> tuple[T, ...]:
        """The gates of its runs.

        Args:
            declared: Those that its table declares.
            own: Those of kinds of change, by name.
        """
        return declared

    def chunks(self, partitions: Sequence[date], rows: Mapping[date, int], limits: Limits) -> tuple[int, ...]:
        """How many partitions each call of the transform computes; see `chunk_sizes`."""
        return chunk_sizes(partitions, rows, limits)

    def proven(self, at_each_end: int, partitions: Sequence[date]) -> int:
        """How many partitions at each end of a run are computed once more to prove the window.

        Args:
            at_each_end: How many the table declares.
        """
        return at_each_end

    def claims_merged(self, claims: ReadClaims, partitions: Sequence[date]) -> Mapping[date, AcceptedPartition] | None:
        """The accepted versions of its own table that it merges its rows with; None where it merges with none."""
        return None

    def merges_with(self, partition: date, accepted: Sequence[date]) -> Sequence[date] | None:
        """The partitions of its own table that the content of a partition follows from; None where it merges with none.

        Args:
            accepted: The accepted partitions that the run pins, in order.
        """
        return None

    def constant_columns(self, lineage: Mapping[str, str]) -> Mapping[str, str]:
        """The columns that have one value in all rows that it stages.

        Args:
            lineage: The lineage columns of the table, with the values of the run.
        """
        return lineage

    def is_repaired(self, lost: AbstractSet[date], partitions: AbstractSet[date]) -> bool:
        """True if a run over these partitions replaces nothing but lost files, and what has to be computed with them.

        Args:
            lost: The partitions whose files are lost.
        """
        return lost >= partitions


def chunk_sizes(partitions: Sequence[date], rows: Mapping[date, int], limits: Limits) -> tuple[int, ...]:
    """The number of partitions of each chunk, so that neither limit is exceeded by more than one partition alone.

    Args:
        partitions: The output partitions in order.
        rows: The rows that are expected of each.
        limits: The most partitions and the most expected rows of a chunk.
    """
    sizes: list[int] = []
    expected = 0
    for partition in partitions:
        more = rows.get(partition, 0)
        full = limits.chunk_rows is not None and expected + more > limits.chunk_rows
        if not sizes or sizes[-1] >= limits.chunk_partitions or full:
            sizes.append(0)
            expected = 0
        sizes[-1] += 1
        expected += more
    return tuple(sizes)
