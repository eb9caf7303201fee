"""Errors of candidates: inputs that are not there as they were pinned, and runs that cannot be staged."""

from __future__ import annotations

from backfill_assets.calendar.partitions import OfPartitions
from backfill_assets.core.about import Because, OfRun, OfTable
from backfill_assets.core.errors import (
    ContractBroken,
    IllegalTransition,
    InputsMovedOn,
    MissingInput,
    Refused,
    sentence,
)
from backfill_assets.core.next_steps import Advice
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.manifest import OfManifest
from backfill_assets.planning.next_steps import fix_and_plan_again


@sentence
class StagedAgain(OfRun, OfTable, OfPartitions, InputsMovedOn):
    """run {run_id} was computed from candidates of its set that have been staged again since: {partitions} of {table}.

    Next: stage it again: [run {request_id}]
    """

    request_id: str


@sentence
class MergedWithEarlier(OfRun, OfTable, OfPartitions, OfManifest, InputsMovedOn):
    """run {run_id} merged its changes with earlier rows of {table} than are accepted now: {partitions}.

    Next: plan it again, so that it is merged with them: {planned_again}
    """


@sentence
class SparkStopped(OfRun, OfManifest, ContractBroken):
    """Spark stopped while it {doing}: {reason}{place}"""

    doing: str
    reason: str
    place: str = ""
    is_final: bool

    @property
    def advice(self) -> Advice:
        return fix_and_plan_again(self.manifest) if self.is_final else "fix the cause, then [run {run_id}]"


@sentence
class NotStageable(OfRun, IllegalTransition):
    """run {run_id} cannot be staged: it is {state}.

    Next: [report {run_id}]
    """

    state: RunState


@sentence
class OverLimit(OfRun, OfManifest, ContractBroken):
    """run {run_id} {found} where its manifest allows {most}."""

    found: str
    most: str

    @property
    def advice(self) -> Advice:
        return fix_and_plan_again(self.manifest, needs_more=True)


@sentence
class NoCondition(OfTable, Because, Refused):
    """{where!r} cannot be asked of a row of {table}: {why}.

    Next: write a condition in DuckDB's SQL, such as "amount > 100 AND state = 'OPEN'", on the columns {named}
    """

    where: str
    columns: tuple[str, ...]

    @property
    def named(self) -> str:
        return ", ".join(self.columns)


@sentence
class RowsRemoved(OfTable, OfPartitions, MissingInput):
    """the rows of {what} cannot be compared: the files of {table} {partitions} were removed by retention{when}."""

    what: str
    at: str = ""
    run_id: str | None = None

    @property
    def when(self) -> str:
        return f" at {self.at}" if self.at else ""

    @property
    def advice(self) -> str:
        if self.run_id is not None:
            return "[report {run_id}] still has the counts, and the rows that were kept for its reviewers"
        return "choose later states, or other days; [history {table}] lists its publications"
