"""Measures of staged partitions, and the findings of a proof: values that reports read without Spark.

How staged rows differ from the accepted ones is recorded by the gate that compares them: counts, and which states rows
moved between. What that gate observes is written and read here alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import date
from typing import Any

from backfill_assets.calendar.partitions import DayRange, Grain, compress
from backfill_assets.calendar.windows import AnyWindow
from backfill_assets.core.identity import fields_of
from backfill_assets.domain import AcceptedValues, ComparedWithAccepted, Table
from backfill_assets.ledger.findings import GateResult, PartitionCell, SampledRow
from backfill_assets.planning.manifest_parts import MoreDays

COMPARISON = ComparedWithAccepted().name


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDiff:
    """The differences between new rows and the accepted rows that they were compared with, in rows."""

    rows: int  #: New rows.
    accepted_rows: int  #: Accepted rows.
    added: int  #: New rows whose key is not accepted.
    removed: int  #: Accepted rows whose key is not among the new ones.
    changed: int  #: Rows of the same key with another value in some column.
    unchanged: int  #: Rows that are equal.

    @property
    def differing(self) -> int:
        return self.added + self.removed + self.changed


def observed(
    moves: RowDiff, changed_columns: Mapping[str, int], state_moves: Iterable[StateMove] = (), **limits: int | None
) -> Mapping[str, Any]:
    """The comparison's observations in one partition, and its limits, as they are recorded."""
    states = [fields_of(each) for each in state_moves]
    return {
        **fields_of(moves),
        "changed_columns": dict(changed_columns),
        **{name: limit for name, limit in limits.items() if limit is not None},
        **({"state_moves": states} if states else {}),
    }


def moves_in(result: GateResult) -> RowDiff | None:
    """The moves that the comparison found in one partition; None for the result of another gate."""
    if result.gate != COMPARISON:
        return None
    return RowDiff(**{each.name: int(result.observed.get(each.name, 0)) for each in fields(RowDiff)})


def state_moves_in(result: GateResult) -> tuple[StateMove, ...]:
    """From which listed value to which rows have moved in one partition; none for the result of another gate."""
    found = result.observed.get("state_moves", ()) if result.gate == COMPARISON else ()
    return tuple(StateMove(**each) for each in found)


def changed_columns_in(result: GateResult) -> Mapping[str, int]:
    """By column, how many keys have another value than the accepted one; empty for the result of another gate."""
    found: Mapping[str, int] = result.observed.get("changed_columns", {}) if result.gate == COMPARISON else {}
    return found


NONE_OF_THESE = "(no accepted value)"
"""Stands for null and for every value that is not listed."""

MOST_PAIRS = 100
"""Columns whose values have more pairs than these, together with the columns before them, are not counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateMove:
    """The number of differing rows that had one value and have another, or still have the same."""

    column: str  #: The column.
    before: str | None  #: Its accepted value; null for rows that are added.
    after: str | None  #: Its new value; null for rows that are removed.
    rows: int  #: How many rows.

    @property
    def is_another_state(self) -> bool:
        """True if the row is on both sides, with another value."""
        return self.before is not None and self.after is not None and self.before != self.after


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedColumn:
    """A column whose values are listed, so that moves between them are counted."""

    column: str
    values: tuple[str, ...]


def coded_columns(table: Table, compared: Sequence[str]) -> tuple[ListedColumn, ...]:
    """The columns of a table whose values its gates list, in the order of the gates, up to MOST_PAIRS.

    Args:
        table: The declaration.
        compared: The columns that are compared, without those of the key.
    """
    listed = {gate.column: gate.values for gate in table.gates if isinstance(gate, AcceptedValues)}
    found: list[ListedColumn] = []
    pairs = 0
    for column, values in listed.items():
        pairs += (len(values) + 2) ** 2
        if column in compared and pairs <= MOST_PAIRS:
            found.append(ListedColumn(column=column, values=values))
    return tuple(found)


def added_up(moves: Iterable[StateMove]) -> tuple[StateMove, ...]:
    """The pairs of values of several partitions added up, those with the most rows first within each column."""
    total: dict[tuple[str, str | None, str | None], int] = {}
    for each in moves:
        pair = (each.column, each.before, each.after)
        total[pair] = total.get(pair, 0) + each.rows
    order = {column: place for place, column in enumerate(dict.fromkeys(column for column, _, _ in total))}
    ranked = sorted(total.items(), key=lambda item: (order[item[0][0]], -item[1], str(item[0])))
    return tuple(StateMove(column=c, before=b, after=a, rows=rows) for (c, b, a), rows in ranked)


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
    others_differ: bool  #: True if the rows outside of it are not exactly the accepted ones.

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
    deletes: int = 0
    undecided: int = 0  #: How many lack a partition, a key, a version, or whether they delete.
    twice: int = 0  #: How many share their key with another change.
    older: int = 0  #: How many are older than the accepted row of their key.
    taken_back: int = 0  #: How many accepted rows have a key that no change names: what they came from was taken back.
    are_kept: bool = False  #: True if the table keeps these.
    #: Partitions that the run does not compute, and on which the rows of these keys depend.
    elsewhere: tuple[date, ...] = ()
    others_differ: bool = False  #: True if rows of keys that no change names are not exactly those that stay.

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
