"""How do dependents follow a publication, exactly once, whatever dies in between?

The ledger's outbox holds what was published and not yet followed. A request leaves it when a manifest exists for it:
from then on the ledger knows the run, and its failure is the run's own matter. Until then it is asked for again, and a
run that is asked for twice does nothing the second time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from dagster import (
    DagsterInstance,
    DefaultSensorStatus,
    RunRequest,
    RunsFilter,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    sensor,
)

from backfill_assets.operations import FollowUp, follow_ups
from backfill_assets.orchestration import tags
from backfill_assets.orchestration.jobs import AssetJob, Steps, job_name
from backfill_assets.orchestration.resources import SESSION, Session
from backfill_assets.orchestration.runs import runs_because
from backfill_assets.planning.partitions import compress, describe, partitions_over
from backfill_assets.workspace import Workspace

NAME = "follow"
MOST_ATTEMPTS = 3
SENSOR = "sensor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A range of partitions of a dependent that nobody has planned yet.

    Attributes:
        publication_id: What it follows.
        partitions: Without a gap, because a Dagster run names a range.
    """

    publication_id: str
    source: str
    table: str
    partitions: tuple[date, ...]
    steps: Steps
    reason: str

    @property
    def key(self) -> str:
        return f"{self.publication_id}:{self.table}:{self.partitions[0]}"

    def tags(self, by: str) -> Mapping[str, str]:
        """What the run of this request carries."""
        return {
            **tags.partition_range(self.partitions),
            tags.BECAUSE: self.publication_id,
            tags.TABLE: self.table,
            tags.REASON: self.reason,
            tags.BY: by,
        }


def open_requests(workspace: Workspace) -> Sequence[Request]:
    """What undelivered publications still ask for; entries that ask for nothing more are marked as delivered."""
    asked: dict[int, list[Request]] = {}
    with workspace.ledger.read() as reader:
        for entry in reader.outbox(undelivered_only=True):
            asked[entry.sequence] = []
    for follow_up in follow_ups(workspace):
        asked.setdefault(follow_up.sequence, []).extend(_requests(workspace, follow_up))
    followed = [sequence for sequence, requests in asked.items() if not requests]
    if followed:
        with workspace.ledger.write() as writer:
            for sequence in followed:
                writer.mark_delivered(sequence, actor=SENSOR)
    return [request for requests in asked.values() for request in requests]


def _requests(workspace: Workspace, follow_up: FollowUp) -> Iterator[Request]:
    planned = {
        partition
        for run in runs_because(workspace, follow_up.publication_id, follow_up.table)
        for partition in run.manifest.partitions
    }
    table = workspace.domain.derived_table(follow_up.table)
    for days in compress(follow_up.grain, set(follow_up.partitions) - planned):
        partitions = partitions_over(follow_up.grain, days)
        yield Request(
            publication_id=follow_up.publication_id,
            source=follow_up.source,
            table=follow_up.table,
            partitions=partitions,
            # A run that a person has to approve ends with its gates.
            steps="all" if table.policy.rule("follow") == "auto" else "candidate+validation",
            reason=f"follows {follow_up.publication_id} of {follow_up.source}: {describe(follow_up.grain, partitions)}",
        )


def follow_sensor(jobs: Sequence[AssetJob]) -> SensorDefinition:
    """Re-materializes what depends on a publication."""

    @sensor(
        name=NAME,
        jobs=jobs,
        required_resource_keys={SESSION},
        minimum_interval_seconds=30,
        default_status=DefaultSensorStatus.RUNNING,
        description="Stages, gates and publishes the tables that depend on what was published, once per publication.",
    )
    def follow(context: SensorEvaluationContext) -> SensorResult:
        session: Session = context.resources.session
        found, stuck = [], []
        for request in open_requests(session.workspace):
            attempts = _attempts(context.instance, request)
            if attempts is None:
                continue
            if attempts >= MOST_ATTEMPTS:
                stuck.append(request.key)
            else:
                found.append(_run_request(session.workspace, request, attempts))
        if found:
            return SensorResult(run_requests=found)
        if stuck:
            return SensorResult(
                skip_reason=f"Gave up after {MOST_ATTEMPTS} attempts: {', '.join(sorted(stuck))}. "
                "Mend what their runs complain of and re-execute one of them."
            )
        return SensorResult(skip_reason="Every publication has been followed.")

    return follow


def _attempts(instance: DagsterInstance, request: Request) -> int | None:
    """How many runs ended before they planned anything for a request; None while one is under way."""
    runs = instance.get_runs(
        filters=RunsFilter(
            tags={
                tags.BECAUSE: request.publication_id,
                tags.TABLE: request.table,
                tags.RANGE_START: request.partitions[0].isoformat(),
            }
        )
    )
    return len(runs) if all(run.is_finished for run in runs) else None


def _run_request(workspace: Workspace, request: Request, attempts: int) -> RunRequest:
    return RunRequest(
        run_key=request.key if not attempts else f"{request.key}:{attempts + 1}",
        job_name=job_name(workspace.domain.table(request.table), request.steps),
        tags=dict(request.tags(SENSOR)),
    )
