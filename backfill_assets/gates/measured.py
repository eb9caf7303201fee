"""The measures of staged partitions, and the findings of a proof: values that reports read without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date

from backfill_assets.calendar.partitions import DayRange, Grain, compress
from backfill_assets.calendar.windows import AnyWindow
from backfill_assets.gates.moves import StateMove
from backfill_assets.ledger.findings import PartitionCell, SampledRow
from backfill_assets.planning.reads import MoreDays


@dataclass(frozen=True, slots=True, kw_only=True)
class ByKey:
    """The keys of one partition."""

    accepted_rows: int = 0  #: Rows in the accepted files.
    surplus: int = 0  #: Staged rows beyond the first of their key.
    #: Keys that only the candidate has, only the accepted rows have, both have with different values, both have with
    #: the same.
    added: int = 0
    #: Keys that only the candidate has, only the accepted rows have, both have with different values, both have with
    #: the same.
    removed: int = 0
    #: Keys that only the candidate has, only the accepted rows have, both have with different values, both have with
    #: the same.
    changed: int = 0
    #: Keys that only the candidate has, only the accepted rows have, both have with different values, both have with
    #: the same.
    unchanged: int = 0
    #: Keys whose value in a column differs, by column; only columns that differ somewhere.
    changed_columns: Mapping[str, int] = field(default_factory=dict)
    #: From which listed value to which the keys that differ have moved; empty where nothing is accepted.
    state_moves: tuple[StateMove, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured(ByKey):
    """The measurements of one staged partition. Grain: one per partition."""

    partition: date
    rows: int = 0  #: Rows in the staged files.
    checksum: str = ""  #: Order-independent content checksum of the staged business columns, including the row count.
    accepted_checksum: str = ""  #: The same of the accepted files, as they are now.
    violations: Mapping[str, int] = field(default_factory=dict)  #: Violating rows by gate.
    cells: tuple[PartitionCell, ...] = ()  #: The breakdown of the staged rows, where it was measured.


@dataclass(frozen=True, slots=True, kw_only=True)
class Proven:
    """The result of recomputing some partitions of a run with another window."""

    partitions: tuple[date, ...]  #: Those that were recomputed.
    windows: Mapping[str, AnyWindow]  #: The declared window of each input, by argument.
    #: At the ends of the run, how many more days of each input were read, limited to accepted partitions; empty for
    #: what chunks computed of their neighbours, by the declared windows of both.
    more: tuple[MoreDays, ...] = ()
    #: The measurements, with the recomputed rows as the new side and the staged ones as the old; `surplus` counts rows
    #: that share their key on either side. If rows were not compared it has no differences.
    again: Mapping[date, Measured] = field(default_factory=dict)
    differing: tuple[date, ...] = ()  #: The partitions whose content differs.
    #: Some of the rows that differ in the first such partition: `before` as staged, `after` as recomputed.
    examples: tuple[SampledRow, ...] = ()

    @property
    def is_compared(self) -> bool:
        """True if there was something to compare with."""
        return not self.more or any(each.back or each.ahead for each in self.more)


def equal_partitions(found: Mapping[date, Measured], before: Mapping[date, str]) -> frozenset[date]:
    """The partitions whose staged rows have the checksum of the accepted ones."""
    return frozenset(partition for partition, each in found.items() if before.get(partition) == each.checksum)


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotedPartition:
    """One partition of a run over a scope."""

    scope: str  #: The scope, as a person named it.
    rows: int  #: How many staged rows are in it.
    others_differ: bool  #: Whether the rows outside of it are not exactly the accepted ones.

    @property
    def observed(self) -> Mapping[str, str | int | bool]:
        """The numbers that a verdict keeps."""
        return asdict(self)


_MOST_NAMED = 20
_MOST_RANGES = 200
"""Of the partitions that a run lacks; of more, the one from the first to the last is kept."""


def _ranges(days: Sequence[date]) -> list[str]:
    """Partitions as the ranges of days that name them."""
    found = compress(Grain.DAILY, days)
    if len(found) > _MOST_RANGES:
        found = (DayRange(found[0].start, found[-1].end),)
    return [str(each.start) if len(each) == 1 else str(each) for each in found]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiringPartition:
    """One snapshot that is to expire."""

    #: The snapshots, this one or others, that were planned to expire and would not now, or the reverse.
    others: tuple[date, ...] = ()
    read_by: str = ""  #: An open run that reads it; empty where there is none.

    @property
    def holds(self) -> bool:
        """True if exactly the planned snapshot expires, and nothing reads it."""
        return not (self.others or self.read_by)

    @property
    def observed(self) -> Mapping[str, str | int | list[str]]:
        """The numbers that a verdict keeps."""
        return {
            "others": [day.isoformat() for day in self.others[:_MOST_NAMED]],
            "other_partitions": len(self.others),
            "read_by": self.read_by,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedPartition:
    """The changes whose rows belong to one partition."""

    changes: int = 0  #: How many add or replace a row.
    deletes: int = 0  #: How many delete one.
    undecided: int = 0  #: How many lack a partition, a key, a version, or whether they delete.
    twice: int = 0  #: How many share their key with another change.
    older: int = 0  #: How many are older than the accepted row of their key.
    taken_back: int = 0  #: How many accepted rows have a key that no change names: what they came from was taken back.
    are_kept: bool = False  #: Whether the table keeps these.
    #: Partitions that the run does not compute, and on which the rows of these keys depend.
    elsewhere: tuple[date, ...] = ()
    others_differ: bool = False  #: Whether rows of keys that no change names are not exactly those that stay.

    @property
    def holds(self) -> bool:
        """True if the staged rows are exactly these changes, with the accepted rows that stay."""
        return not (self.undecided or self.twice or self.older or self.elsewhere or self.others_differ)

    @property
    def observed(self) -> Mapping[str, int | bool | list[str]]:
        """The numbers that a verdict keeps."""
        return {
            "changes": self.changes,
            "deletes": self.deletes,
            "undecided": self.undecided,
            "twice": self.twice,
            "older": self.older,
            "taken_back": self.taken_back,
            "are_kept": self.are_kept,
            "elsewhere": _ranges(self.elsewhere),
            "elsewhere_partitions": len(self.elsewhere),
            "others_differ": self.others_differ,
        }
