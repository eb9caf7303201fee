"""Errors of candidates: inputs that are not there as they were pinned, and runs that cannot be staged."""

from __future__ import annotations

from datetime import date

from backfill_assets.core.about import Because, OfRun, OfTable
from backfill_assets.core.errors import (
    BackfillError,
    ContractBroken,
    IllegalTransition,
    InputsMovedOn,
    MissingInput,
    Refused,
    TakenOver,
    sentence,
)
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.partitions import OfPartitions


@sentence
class InputChanged(OfRun, OfTable, MissingInput):
    """run {run_id} was planned with version {version} of {table} {partition}, which the ledger does not hold as it
    was."""

    partition: date
    version: int


@sentence
class InputRemoved(OfRun, OfTable, MissingInput):
    """run {run_id} reads version {version} of {table} {partition}, which retention removed at {removed_at}."""

    partition: date
    version: int
    removed_at: str
    manifest: Manifest


@sentence
class InputNotStaged(OfRun, OfTable, MissingInput):
    """run {run_id} reads what run {other} stages of {table}, and that has not staged {partition}."""

    other: str
    partition: date


@sentence
class StagedAgain(OfRun, OfTable, OfPartitions, InputsMovedOn):
    """run {run_id} was computed from candidates of its set that have been staged again since: {partitions} of
    {table}."""

    set_id: str | None


@sentence
class MergedWithEarlier(OfRun, OfTable, OfPartitions, InputsMovedOn):
    """run {run_id} merged its changes with earlier rows of {table} than are accepted now: {partitions}."""

    manifest: Manifest


@sentence
class LaterContract(OfTable, ContractBroken):
    """{table} has files of version {found} of its contract, and is read as version {version}."""

    found: int
    version: int


@sentence
class SparkStopped(OfRun, ContractBroken):
    """Spark stopped while it {doing}: {reason}{place}"""

    doing: str
    reason: str
    place: str = ""
    manifest: Manifest
    is_final: bool


@sentence
class LostWhenStopped(OfRun, TakenOver):
    """{cause.message} This one had stopped: {stopped}"""

    cause: BackfillError
    stopped: str


@sentence
class NotStageable(OfRun, IllegalTransition):
    """run {run_id} cannot be staged: it is {state}."""

    state: RunState


@sentence
class CostsMore(OfRun, ContractBroken):
    """run {run_id} has cost {core_seconds:,.1f} core seconds where its manifest allows {most:,.1f}."""

    core_seconds: float
    most: float
    manifest: Manifest


@sentence
class TooManyRows(OfRun, ContractBroken):
    """run {run_id} staged {rows:,} rows where its manifest allows {most:,}."""

    rows: int
    most: int
    manifest: Manifest


@sentence
class NoCondition(OfTable, Because, Refused):
    """{where!r} cannot be asked of a row of {table}: {why}."""

    where: str
    columns: tuple[str, ...]


@sentence
class RowsRemoved(OfTable, OfPartitions, MissingInput):
    """the rows of {what} cannot be compared: the files of {table} {partitions} were removed by retention{when}."""

    what: str
    at: str = ""
    run_id: str | None = None

    @property
    def when(self) -> str:
        return f" at {self.at}" if self.at else ""
