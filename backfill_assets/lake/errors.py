"""Errors of the lake: which table, files or commit is not as expected."""

from __future__ import annotations

from backfill_assets.core import errors
from backfill_assets.core.about import Because, OfPublication, OfRun, OfTable
from backfill_assets.core.errors import sentence

WAY_OUT_OF_SOURCE = (
    "if its files have changed since then, declare the contract from before in `earlier`, and what becomes of its "
    "records in `lift`; where that is not possible, declare the source under a new name"
)
"""What to do about a source whose columns do not follow, and whose files have changed."""


@sentence
class DamagedTable(OfTable, Because, errors.UnreadableTable):
    """the table {table} cannot be read: {why}."""

    place: str


@sentence
class NoTable(OfTable, errors.MissingInput):
    """the table {table} does not exist, or its log is missing."""

    place: str


@sentence
class OtherColumns(OfTable, errors.Refused):
    """{table} was created with other columns than it declares now: {differing}."""

    differing: str
    is_source: bool = False
    open_runs: tuple[str, ...] = ()


@sentence
class PartitionUnreadable(OfTable, Because, errors.MissingInput):
    """{table} {partition} cannot be read: its file {why}."""

    partition: str
    place: str


@sentence
class RowsUnreadable(OfTable, Because, errors.MissingInput):
    """the rows cannot be read: the file {why}."""


@sentence
class NoValueOfKey(errors.InvalidRange):
    """{value!r} is not a value of the key column {column}, which has the type {type_}."""

    value: str
    column: str
    type_: str


@sentence
class StagedFilesChanged(OfRun, OfTable, Because, errors.MissingInput):
    """the staged files of {table} are not as they were gated: {why}."""


@sentence
class ChangedByAnotherWriter(OfRun, OfTable, errors.TargetChanged):
    """{table} is not what the candidate was compared with, and the ledger has no change, so another writer changed it:
    {many} of {declared} partitions changed, the first is {first}, where {expected} files were expected and {found} were
    found that differ."""

    partitions: tuple[str, ...]
    declared: int
    expected: int
    found: int

    @property
    def many(self) -> int:
        return len(self.partitions)

    @property
    def first(self) -> str:
        return self.partitions[0]


@sentence
class OthersCommittedFirst(OfPublication, OfTable, errors.LostRace):
    """other writers committed to {table} first, {attempts} times in a row; nothing was changed."""

    attempts: int
    is_recovery: bool


@sentence
class Abandoned(OfRun, OfPublication, OfTable, errors.Refused):
    """publication {publication_id} of {table} was abandoned by a recovery while it was in progress."""


@sentence
class CommitUnknown(OfPublication, OfTable, Because, errors.OutcomeUnknown):
    """the commit to {table} failed in a way that does not show whether it landed: {why}."""


@sentence
class NotAppended(OfTable, Because, errors.Retryable):
    """rows could not be appended to {table}: {why}."""


@sentence
class LineageNotWritten(OfRun, OfTable, Because, errors.Retryable):
    """the lineage of run {run_id} could not be written to {table}, so nothing was published: {why}."""


@sentence
class NotFencedOff(OfPublication, OfTable, Because, errors.OutcomeUnknown):
    """publication {publication_id} could not be fenced off in the log of {table}: {why}."""


@sentence
class NoCommitOfPublication(OfPublication, OfTable):
    """{table} has publication {publication_id}, but no commit in its log contains it."""


@sentence
class LakeAway(OfTable, errors.MissingInput):
    """{place} is not there, and the ledger holds published rows of {table}; nothing was created in its place."""

    place: str
