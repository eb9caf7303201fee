"""Errors of the lake: which table, files or commit is not as expected."""

from __future__ import annotations

from backfill_assets.core import errors
from backfill_assets.core.errors import sentence

WAY_OUT_OF_SOURCE = (
    "declare the contract from before in `earlier`, and what becomes of its records in `lift`; where that is not "
    "possible, declare the source under a new name"
)
"""What to do about a source whose columns do not follow, and whose contract has one version so far."""


@sentence
class DamagedTable(errors.UnreadableTable):
    """the table {table} cannot be read: {why}."""

    table: str
    place: str
    why: str


@sentence
class NoTable(errors.MissingInput):
    """the table {table} does not exist, or its log is missing."""

    table: str
    place: str


@sentence
class OtherColumns(errors.Refused):
    """{table} was created with other columns than it declares now: {differing}."""

    table: str
    differing: str
    has_no_versions: bool


@sentence
class PartitionUnreadable(errors.MissingInput):
    """{table} {partition} cannot be read: its file {why}."""

    table: str
    partition: str
    place: str
    why: str


@sentence
class RowsUnreadable(errors.MissingInput):
    """the rows cannot be read: the file {why}."""

    table: str
    why: str


@sentence
class NoValueOfKey(errors.InvalidRange):
    """{value!r} is no value of the key column {column}, which holds {type_}."""

    value: str
    column: str
    type_: str


@sentence
class StagedFilesChanged(errors.MissingInput):
    """the staged files of {table} are not as they were gated: {why}."""

    table: str
    run_id: str
    why: str


@sentence
class ChangedByAnotherWriter(errors.TargetChanged):
    """{table} is not what the candidate was compared with, and the ledger has no change, so another writer changed it:
    {many} of {declared} partitions changed, the first is {first}, where {expected} files were expected and {found} were
    found that differ."""

    table: str
    run_id: str
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
class OthersCommittedFirst(errors.LostRace):
    """other writers committed to {table} first, {attempts} times in a row; nothing was changed."""

    table: str
    publication_id: str
    attempts: int
    is_recovery: bool


@sentence
class Abandoned(errors.Refused):
    """publication {publication_id} of {table} was abandoned by a recovery while it was in progress."""

    table: str
    publication_id: str
    run_id: str


@sentence
class CommitUnknown(errors.OutcomeUnknown):
    """the commit to {table} failed in a way that does not show whether it landed: {why}."""

    table: str
    publication_id: str
    why: str


@sentence
class NotAppended(errors.Retryable):
    """rows could not be appended to {table}: {why}."""

    table: str
    why: str


@sentence
class LineageNotWritten(errors.Retryable):
    """the lineage of run {run_id} could not be written to {table}, so nothing was published: {why}."""

    table: str
    run_id: str
    why: str


@sentence
class NotFencedOff(errors.OutcomeUnknown):
    """publication {publication_id} could not be fenced off in the log of {table}: {why}."""

    table: str
    publication_id: str
    why: str


@sentence
class NoCommitOfPublication(errors.BackfillError):
    """{table} has publication {publication_id}, but no commit in its log contains it."""

    table: str
    publication_id: str


@sentence
class LakeAway(errors.MissingInput):
    """{place} is not there, and the ledger holds published rows of {table}; nothing was created in its place."""

    place: str
    table: str
