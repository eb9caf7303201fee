"""Errors of candidates: inputs that are not there as they were pinned, and runs that cannot be staged."""

from __future__ import annotations

from datetime import date

from backfill_assets.core.errors import (
    BackfillError,
    ContractBroken,
    IllegalTransition,
    InputsMovedOn,
    MissingInput,
    TakenOver,
    sentence,
)
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.partitions import Partitions


@sentence
class InputChanged(MissingInput):
    """run {run_id} was planned with version {version} of {table} {partition}, which the ledger does not hold as it
    was."""

    run_id: str
    table: str
    partition: date
    version: int


@sentence
class InputRemoved(MissingInput):
    """run {run_id} reads version {version} of {table} {partition}, which retention removed at {removed_at}."""

    run_id: str
    table: str
    partition: date
    version: int
    removed_at: str


@sentence
class InputNotStaged(MissingInput):
    """run {run_id} reads what run {other} stages of {table}, and that has not staged {partition}."""

    run_id: str
    other: str
    table: str
    partition: date


@sentence
class StagedAgain(InputsMovedOn):
    """run {run_id} was computed from candidates of its set that have been staged again since: {partitions} of
    {table}."""

    run_id: str
    set_id: str | None
    table: str
    partitions: Partitions


@sentence
class MergedWithEarlier(InputsMovedOn):
    """run {run_id} merged its changes with earlier rows of {table} than are accepted now: {partitions}."""

    run_id: str
    table: str
    partitions: Partitions
    manifest: Manifest


@sentence
class LaterContract(ContractBroken):
    """{table} has files of version {found} of its contract, and is read as version {version}."""

    table: str
    found: int
    version: int


@sentence
class SparkStopped(ContractBroken):
    """Spark stopped while it {doing}: {reason}"""

    run_id: str
    doing: str
    reason: str


@sentence
class LostWhenStopped(TakenOver):
    """{cause.message} This one had stopped: {stopped}"""

    run_id: str
    cause: BackfillError
    stopped: str


@sentence
class NotStageable(IllegalTransition):
    """run {run_id} cannot be staged: it is {state}."""

    run_id: str
    state: RunState


@sentence
class CostsMore(ContractBroken):
    """run {run_id} has cost {core_seconds:,.1f} core seconds where its manifest allows {most:,.1f}."""

    run_id: str
    core_seconds: float
    most: float


@sentence
class TooManyRows(ContractBroken):
    """run {run_id} staged {rows:,} rows where its manifest allows {most:,}."""

    run_id: str
    rows: int
    most: int
