"""Records of what gates found: findings, and the values of rows that show them.

Values of rows are kept where they can be erased, and nowhere else in the ledger.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from typing import Any, TypeAlias, TypeVar

from backfill_assets.planning.manifest_parts import PinnedInput, PinnedReference

Values = Mapping[str, str | None]
"""Columns of a row as text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledRow:
    """A row that moves."""

    partition: date  #: The partition it is in.
    key: Values  #: The columns that identify it, the partition first, as text.
    before: Values | None  #: Its other columns as text in the accepted rows; null for an added row.
    after: Values | None  #: The same in the new rows; null for a removed row.
    #: True if it is shown because a person asked for its key when the run was planned; then it may be equal on both
    #: sides, or on none of them, and is counted in the first partition of the run.
    is_asked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingKey:
    """A row that fails a gate."""

    gate: str  #: The gate.
    partition: date  #: The partition it is in.
    key: Values  #: The columns that identify it, the partition first, as text.
    #: Its other columns as text, where the gate compares rows: as accepted, or as staged where the window is proven;
    #: null without such a row.
    before: Values | None = None
    after: Values | None = None  #: The same as staged, or as computed again with more input.
    expected: str | None = None  #: What the gate says that it expected, as text; null where it says nothing.
    found: str | None = None  #: What the gate says that it found instead.


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakdownCell:
    """The measures of one month and one combination of business dimensions, before and after."""

    month: date  #: Its first day.
    is_new: bool  #: True if it counts the partitions without accepted rows, or those with.
    by: Values  #: The dimensions as text; empty when there were too many combinations of them.
    before: Mapping[str, str]  #: The measures of the accepted rows by name, as text.
    after: Mapping[str, str]  #: The same of the new rows.
    differs: bool  #: True if any of these rows differ, even where the measures are the same.


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChanges:
    """The difference of a measure in the rows of a month, row by row: an increase in one row does not offset a
    decrease in another."""

    month: date  #: Its first day.
    measure: str
    by: Values  #: The dimensions by which its tolerance compares it, as text.
    amount: str  #: The sum of the changes without their signs, as text.


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCell:
    """The measures of one partition and one combination of business dimensions."""

    by: Values  #: The dimensions as text; empty when there were too many combinations of them.
    measures: Mapping[str, str]  #: The measures by name, as text.
    content: tuple[int, ...]  #: The sums of the hashes of its rows, which tell apart cells of the same measures.


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCells:
    """The breakdown of the staged files of one partition, kept for the comparison with what replaces them."""

    partition: date
    files: str  #: The digest of the files that were measured.
    declared: str  #: The digest of the dimensions and measures.
    cells: tuple[PartitionCell, ...]  #: The cells; none of a partition without rows.

    def document(self) -> Mapping[str, Any]:
        return {
            "partition": self.partition.isoformat(),
            "files": self.files,
            "declared": self.declared,
            "cells": [[dict(cell.by), dict(cell.measures), list(cell.content)] for cell in self.cells],
        }

    @staticmethod
    def parse(document: Mapping[str, Any]) -> PartitionCells:
        """The cells that the ledger kept; `parse(cells.document()) == cells`."""
        return PartitionCells(
            partition=date.fromisoformat(document["partition"]),
            files=document["files"],
            declared=document["declared"],
            cells=tuple(
                PartitionCell(by=by, measures=measures, content=tuple(content))
                for by, measures, content in document["cells"]
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UsualPoint:
    """A measure of one partition, or of one group in it, beside what is usual. Grain: gate, partition, group."""

    gate: str
    partition: date  #: A partition of the run, or an accepted one before it.
    by: Values  #: The dimensions of the group as text; empty for the whole partition.
    value: str  #: The measure, as text.
    #: The usual value; null of accepted partitions, and where too few are there to compare with.
    usual: str | None = None
    low: str | None = None  #: The least that is not far from it, or null.
    high: str | None = None  #: The most that is not far from it, or null.
    far: str = ""  #: `low` or `high` where it is far from the usual, or was accepted although it was; else empty.
    compared: int = 0  #: With how many accepted partitions it was compared.
    is_tested: bool = False  #: True if it is a partition of the run.
    stays: bool = False  #: True if the accepted rows that it would replace have the same measure.


class Finding(StrEnum):
    """A gate's finding in a partition. Only a failed gate finds something that names a mistake.

    `..._ELSEWHERE` is the verdict of a proof on a partition that was not computed again.
    """

    COLUMNS = "COLUMNS"
    OTHER_COLUMNS = "OTHER_COLUMNS"
    UNREADABLE = "UNREADABLE"
    REQUIRED = "REQUIRED"
    UNIQUE_KEYS = "UNIQUE_KEYS"
    SHARED_KEYS = "SHARED_KEYS"
    NO_NULLS = "NO_NULLS"
    NULLS = "NULLS"
    ACCEPTED_VALUES = "ACCEPTED_VALUES"
    NOT_ACCEPTED = "NOT_ACCEPTED"
    SATISFIED = "SATISFIED"
    UNSATISFIED = "UNSATISFIED"
    ROW_COUNT = "ROW_COUNT"
    COMPARED = "COMPARED"
    ADDS_ONLY = "ADDS_ONLY"
    MERGED = "MERGED"
    PILOTED = "PILOTED"
    STATE_AGAIN = "STATE_AGAIN"
    COLD_START = "COLD_START"
    EXPIRING = "EXPIRING"
    NOT_ASKED = "NOT_ASKED"
    NOTHING_TO_COMPARE = "NOTHING_TO_COMPARE"
    SAME = "SAME"
    DIFFERENT = "DIFFERENT"
    UNUSABLE = "UNUSABLE"
    SAME_ELSEWHERE = "SAME_ELSEWHERE"
    DIFFERENT_ELSEWHERE = "DIFFERENT_ELSEWHERE"
    UNUSABLE_ELSEWHERE = "UNUSABLE_ELSEWHERE"
    NOTHING_ACCEPTED = "NOTHING_ACCEPTED"
    TOO_MANY_GROUPS = "TOO_MANY_GROUPS"
    WITHIN_LIMIT = "WITHIN_LIMIT"
    MOVED = "MOVED"
    NO_ROWS_FAIL = "NO_ROWS_FAIL"
    NOTHING_KNOWN = "NOTHING_KNOWN"
    ROWS_FAIL = "ROWS_FAIL"
    NOT_MEASURED = "NOT_MEASURED"
    AS_USUAL = "AS_USUAL"
    LITTLE_HISTORY = "LITTLE_HISTORY"
    FAR_AS_ACCEPTED = "FAR_AS_ACCEPTED"
    FAR_FROM_USUAL = "FAR_FROM_USUAL"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """One gate's result in one staged partition. Key: run_id, partition, gate."""

    run_id: str  #: The run.
    partition: date  #: The partition.
    gate: str  #: The name of the gate.
    blocking: bool  #: True if its failure blocks.
    passed: bool  #: True if it passed.
    digest: str  #: The file set digest of exactly the files that were measured.
    finding: Finding  #: What it found; with the counts in `observed` it is the verdict.
    #: Counts, as canonical values for people and machines; never values of rows, which are samples.
    observed: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GateReads:
    """The inputs that a gate has read besides what its run pins. Key: run_id, gate."""

    run_id: str
    gate: str  #: The name of the gate.
    #: The partitions of other tables, and of its own around those of the run, as they were when it was measured:
    #: version 0 for one without an accepted version. One with a run is the candidate of that run of the same set, with
    #: the digest of its files and the version that was accepted then.
    inputs: tuple[PinnedInput, ...] = ()
    references: tuple[PinnedReference, ...] = ()  #: The references that the run does not pin.


PassedGate = tuple[date, str, str]
"""A gate that passed in a staged partition: the partition, the gate, and the digest of the files that were measured."""


NEEDS_COMMENT = "needs_comment"
"""The name under which a gate observes, beside its counts, that the approver of the run has to write a comment about
it."""


FAR, FAR_GROUPS = "far", "far_groups"
"""What a gate on the usual observes of a partition that is far from it: on which side, or in how many groups."""


class SampleKind(StrEnum):
    """The kind of the rows in a sample."""

    CHANGED_ROWS = "CHANGED_ROWS"
    FAILING_KEYS = "FAILING_KEYS"
    BREAKDOWN = "BREAKDOWN"
    PARTITION_CELLS = "PARTITION_CELLS"
    ROW_CHANGES = "ROW_CHANGES"
    USUAL = "USUAL"


ShownRow: TypeAlias = SampledRow | FailingKey | BreakdownCell | RowChanges | UsualPoint
SampleRow: TypeAlias = ShownRow | PartitionCells
"""Values of rows. They are kept where they can be erased, and nowhere else in the ledger."""

SAMPLE_KINDS: Mapping[type[object], SampleKind] = {
    SampledRow: SampleKind.CHANGED_ROWS,
    FailingKey: SampleKind.FAILING_KEYS,
    BreakdownCell: SampleKind.BREAKDOWN,
    PartitionCells: SampleKind.PARTITION_CELLS,
    RowChanges: SampleKind.ROW_CHANGES,
    UsualPoint: SampleKind.USUAL,
}

Shown = TypeVar("Shown", bound=ShownRow)


def shown_row(kind: type[Shown], document: Mapping[str, Any]) -> Shown:
    """Values that the ledger kept; `shown_row(type(row), plain(row)) == row`."""
    days = {name: date.fromisoformat(document[name]) for name in ("partition", "month") if name in document}
    return kind(**{**document, **days})
