"""Executor: the one loop that executes the stages of every run, single or in a set, with or without Dagster.

The list is the one that `plan` prints (`planning.stages`). The context of a part (the state of the run, its lease, the
record when it ends or fails) is opened when the loop reaches the first stage of the part and closed after its last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from itertools import groupby
from typing import assert_never

from backfill_assets.application.parts import Part, part_of, stages
from backfill_assets.application.sensor_work import is_approved_by_a_person
from backfill_assets.application.work_log import WorkLog
from backfill_assets.candidates.evaluate import (
    Evaluated,
    GateEvaluation,
    gate_evaluation,
    measure_candidate,
    prove_window,
)
from backfill_assets.candidates.stage import StagingSession, stage_chunk, stage_expiry, staging
from backfill_assets.core.people import LIVE, PUBLISHER, require_person
from backfill_assets.core.progress import Listener, Progress, no_listener
from backfill_assets.ledger.findings import GateResult
from backfill_assets.ledger.records import Action, CandidatePartition, PublicationRecord
from backfill_assets.planning.manifest_parts import CauseKind
from backfill_assets.planning.stages import Agree, Compute, Expire, Hold, Measure, Notify, Prove, Stage, Swap
from backfill_assets.report.words.stages import published_words
from backfill_assets.requests.authority import reads_approvers
from backfill_assets.requests.obstacles import READY, Publishing, obstacles, require_none
from backfill_assets.requests.publish import publish_run
from backfill_assets.requests.rollout import verify_if_equal
from backfill_assets.workspace import Workspace


@dataclass(kw_only=True)
class Executed:
    """The results of the loop."""

    staged: Mapping[date, CandidatePartition] = field(default_factory=dict)
    evaluated: Evaluated | None = None
    publication: PublicationRecord | None = None

    @property
    def results(self) -> tuple[GateResult, ...]:
        """The gate results; the gates have been evaluated."""
        assert self.evaluated is not None
        return self.evaluated.results

    @property
    def published(self) -> PublicationRecord:
        assert self.publication is not None
        return self.publication

    @property
    def is_blocked(self) -> bool:
        return self.evaluated is not None and not self.evaluated.passed


def execute(
    ws: Workspace, run_id: str, parts: Iterable[Part], *, actor: str, listener: Listener = no_listener
) -> Executed:
    """Executes parts of a run. If a gate blocks the run, no later stage is executed.

    A run that is measured and would change nothing is verified: it needs no approval.

    Args:
        parts: Which parts of its stages; they are executed in the order of the plan.
    """
    chosen = frozenset(parts)
    done = Executed()
    log = WorkLog.of(ws, run_id, by=actor)
    with log.run(chosen):
        for part, some in groupby(stages(ws, run_id), part_of):
            if part not in chosen:
                continue
            if done.is_blocked:
                break
            with _opened(ws, run_id, part, done, actor=actor, listener=listener) as work:
                for stage in some:
                    with log.stage(stage):
                        _execute(ws, run_id, stage, work, done, actor=actor, listener=listener)
    if Part.PUBLISH not in chosen:
        # Also of one that was gated before, whose process was killed then. The part that publishes does as much.
        verify_if_equal(ws, run_id, by=actor)
    if Part.PUBLISH in chosen and done.publication is None and not done.is_blocked:
        # A run whose mode is never published has no stages of this part: that is a refusal, not an empty success.
        require_ready(ws, run_id)
    return done


def executed(ws: Workspace, run_id: str, parts: Iterable[Part]) -> Executed:
    """The ledger's records of the executed parts of a run."""
    done, chosen = Executed(), frozenset(parts)
    with ws.ledger.read() as tx:
        if Part.STAGE in chosen:
            done.staged = tx.candidates.of_run(run_id)
        if Part.GATE in chosen:
            results = tx.candidates.gate_results(run_id)
            passed = all(result.passed or not result.blocking for result in results)
            done.evaluated = Evaluated(run_id=run_id, results=results, sample=(), failing=(), passed=passed)
        if Part.PUBLISH in chosen:
            made = tx.publications.records(run_id=run_id)
            done.publication = next((each for each in made if each.action is Action.PUBLISH), None)
    return done


def _execute(
    ws: Workspace,
    run_id: str,
    stage: Stage,
    work: StagingSession | GateEvaluation | None,
    done: Executed,
    *,
    actor: str,
    listener: Listener,
) -> None:
    match stage:
        case Compute():
            assert isinstance(work, StagingSession)
            stage_chunk(work, stage)
        case Expire():
            assert isinstance(work, StagingSession)
            stage_expiry(work)
        case Measure():
            assert isinstance(work, GateEvaluation)
            measure_candidate(work, stage)
        case Prove():
            assert isinstance(work, GateEvaluation)
            prove_window(work, stage)
        case Hold():
            # Whether the time is over was asked of the ledger when the phase began, in its transaction.
            pass
        case Agree():
            # Who has agreed is asked of the ledger: what a plan printed grants nothing.
            require_ready(ws, run_id)
        case Swap():
            done.publication = _swap(ws, stage.run_id, by=actor, listener=listener)
        case Notify():
            # The transaction that acknowledged the swap has put the publication into the outbox, so that a process
            # that stops in between does not lose it. `follow` and the sensor read it from there.
            pass
        case _:
            assert_never(stage)


@contextmanager
def _opened(
    ws: Workspace, run_id: str, part: Part, done: Executed, *, actor: str, listener: Listener
) -> Iterator[StagingSession | GateEvaluation | None]:
    """The context of a part while it is executed; its results are recorded when it ends without an error."""
    match part:
        case Part.STAGE:
            with staging(ws, run_id, actor=actor, listener=listener) as chunks:
                yield chunks
            with ws.ledger.read() as tx:
                done.staged = tx.candidates.of_run(run_id)
        case Part.GATE:
            with gate_evaluation(ws, run_id, actor=actor, listener=listener) as gates:
                yield gates
            done.evaluated = gates.evaluated
        case Part.PUBLISH:
            yield None
        case _:
            assert_never(part)


@reads_approvers
def require_ready(ws: Workspace, run_id: str) -> None:
    """Refuses early what the swap would refuse; the swap itself reads the ledger again."""
    with ws.ledger.read() as tx:
        require_none(obstacles(Publishing(ws=ws, tx=tx, run=tx.runs.get(run_id)), READY))


def _swap(ws: Workspace, run_id: str, *, by: str, listener: Listener) -> PublicationRecord:
    """Publishes a run in the name of a person; the system publishes follow-ups, LIVE runs, and what is approved.

    From then on the listener hears that readers see it: what is left is to record it elsewhere.
    """
    with ws.ledger.read() as tx:
        run = tx.runs.get(run_id)
    is_of_system = (
        run.manifest.cause.kind is CauseKind.FOLLOW_UP
        or (by == PUBLISHER and is_approved_by_a_person(run))
        or (by == run.manifest.requested_by == LIVE)
    )
    if not is_of_system:
        require_person("the one who publishes", by)
    published = publish_run(ws, run_id, by=by)
    manifest = run.manifest
    line = published_words(manifest, (each.partition for each in published.changes))
    total = len(manifest.partitions)
    listener(Progress(step="publish", done=total, total=total, line=line, table=manifest.table))
    return published
