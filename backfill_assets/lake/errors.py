"""Errors of the lake: which table, files or commit is not as expected."""

from __future__ import annotations

from backfill_assets.core import errors
from backfill_assets.core.about import Because, OfPublication, OfRun, OfTable
from backfill_assets.core.errors import sentence
from backfill_assets.core.next_steps import Advice, step, to_cancel


@sentence
class NoTable(OfTable, errors.MissingInput):
    """the table {table} does not exist, or its log is missing.

    Next: if it was published, restore {place} from a backup; then [audit]
    """

    place: str


@sentence
class OtherColumns(OfTable, errors.Refused):
    """{table} was created with other columns than it declares now: {differing}."""

    differing: str
    is_source: bool = False
    open_runs: tuple[str, ...] = ()

    @property
    def with_other_files(self) -> str:
        """What to do about a source whose files have changed."""
        return (
            "if its files have changed since then, declare the contract from before in `earlier`, and what becomes of "
            "its records in `lift`; where that is not possible, declare the source under a new name"
        )

    @property
    def advice(self) -> Advice:
        if self.is_source:
            anew = "if its files were always as they are declared now: [land {short} again_as_declared=True by=NAME]"
            return f"{anew}; {self.with_other_files}"
        if self.open_runs:
            which = "the run that was" if len(self.open_runs) == 1 else "the runs that were"
            ends = [part for run_id in self.open_runs for part in (to_cancel(run_id), "; ")]
            return step(f"end {which} staged with them: ", *ends, "then plan again")
        return (
            "[audit] says whether the table is as it was published; if it is, only columns that can be null may be "
            "added and types widened, or the table gets a new name"
        )


@sentence
class PartitionUnreadable(OfTable, Because, errors.MissingInput):
    """{table} {partition} cannot be read: its file {why}."""

    partition: str
    place: str

    @property
    def advice(self) -> str:
        restore = "restore the file below {place} from a backup; without one, compute it again: "
        if self.table.startswith("bronze."):
            return restore + "[load {short} first={partition} last={partition} by=NAME]"
        return restore + "[plan table {short} kind=repair first={partition} last={partition} reason=WHY by=NAME]"


@sentence
class RowsUnreadable(OfTable, Because, errors.MissingInput):
    """the rows cannot be read: the file {why}.

    Next: [audit]
    """


@sentence
class NoValueOfKey(errors.InvalidRange):
    """{value!r} is not a value of the key column {column}, which has the type {type_}.

    Next: write it as the page shows the values of other keys
    """

    value: str
    column: str
    type_: str


@sentence
class ChangedByAnotherWriter(OfRun, OfTable, errors.TargetChanged):
    """{table} is not what the candidate was compared with, and the ledger has no change, so another writer changed it:
    {many} of {declared} partitions changed, the first is {first}, where {expected} files were expected and {found} were
    found that differ.

    Next: [audit] names the commit; [recover {table} reason=WHY by=NAME] undoes it; then publish again
    """

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

    @property
    def advice(self) -> str:
        return "[recover]" if self.is_recovery else "publish again when fewer writers commit to the table"


@sentence
class Abandoned(OfRun, OfPublication, OfTable, errors.Refused):
    """publication {publication_id} of {table} was abandoned by a recovery while it was in progress.

    Next: [publish {run_id} by=NAME]
    """


@sentence
class NotAppended(OfTable, Because, errors.Retryable):
    """rows could not be appended to {table}: {why}."""


@sentence
class NoCommitOfPublication(OfPublication, OfTable):
    """{table} has publication {publication_id}, but no commit in its log contains it.

    Next: [audit]
    """
