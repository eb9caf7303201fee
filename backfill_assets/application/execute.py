"""Executor: the one loop that executes the stages of every run, single or in a set, with or without Dagster.

The list is the one that `plan` prints (`planning.stages`). The context of a part (the state of the run, its lease, the
record when it ends or fails) is opened when the loop reaches the first stage of the part and closed after its last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from datetime import date
from types import TracebackType
from typing import TypeVar, assert_never

from backfill_assets.application.parts import Part, part_of, stages
from backfill_assets.application.sensor_work import is_approved_by_a_person
from backfill_assets.application.work_log import WorkLog
from backfill_assets.candidates.evaluate import Evaluated, Gating, gating, measure_candidate, prove_window
from backfill_assets.candidates.stage import Staging, stage_chunk, stage_expiry, staging
from backfill_assets.core.people import LIVE, PUBLISHER, require_person
from backfill_assets.core.progress import Listener, no_listener
from backfill_assets.ledger.findings import GateResult
from backfill_assets.ledger.records import CandidatePartition, PublicationRecord
from backfill_assets.planning.manifest_parts import CauseKind
from backfill_assets.planning.stages import Agree, Compute, Expire, Hold, Measure, Notify, Prove, Swap
from backfill_assets.publication.authority import demand_of, require_agreed
from backfill_assets.publication.publish import publish_run
from backfill_assets.publication.verdict import require_publishable
from backfill_assets.publication.waiting import require_its_turn
from backfill_assets.restatements.verify import verify_if_equal
from backfill_assets.workspace import Workspace

W = TypeVar("W", Staging, Gating)


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
    with log.run(chosen), _Opened(ws, run_id, done, actor=actor, listener=listener) as opened:
        for stage in stages(ws, run_id):
            if part_of(stage) not in chosen:
                continue
            opened.turn_to(part_of(stage))
            if done.is_blocked:
                break
            with log.stage(stage):
                match stage:
                    case Compute():
                        stage_chunk(opened.work(Staging), stage)
                    case Expire():
                        stage_expiry(opened.work(Staging))
                    case Measure():
                        measure_candidate(opened.work(Gating), stage)
                    case Prove():
                        prove_window(opened.work(Gating), stage)
                    case Hold():
                        # Whether the time is over was asked of the ledger when the phase began, in its transaction.
                        pass
                    case Agree():
                        # Who has agreed is asked of the ledger: what a plan printed grants nothing.
                        require_ready(ws, run_id)
                    case Swap():
                        done.publication = _swap(ws, stage.run_id, by=actor)
                    case Notify():
                        # The transaction that acknowledged the swap has put the publication into the outbox, so that a
                        # process that stops in between does not lose it. `follow` and the sensor read it from there.
                        pass
                    case _:
                        assert_never(stage)
    if Part.PUBLISH not in chosen:
        # Also of one that was gated before, whose process was killed then. The part that publishes does as much.
        verify_if_equal(ws, run_id, by=actor)
    if Part.PUBLISH in chosen and done.publication is None and not done.is_blocked:
        # A run whose mode is never published has no stages of this part: that is a refusal, not an empty success.
        require_ready(ws, run_id)
    return done


class _Opened:
    """The part of a run that is being executed, with its open context."""

    def __init__(self, ws: Workspace, run_id: str, done: Executed, *, actor: str, listener: Listener) -> None:
        self._ws, self._run_id, self._done = ws, run_id, done
        self._actor, self._listener = actor, listener
        self._stack = ExitStack()
        self._part: Part | None = None
        self._work: Staging | Gating | None = None

    def __enter__(self) -> _Opened:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)
        if error is None:
            self._note()

    def turn_to(self, part: Part) -> None:
        """Ends the previous part and begins this one, unless they are the same."""
        if part is self._part:
            return
        self._stack.close()
        self._note()
        self._part = part
        match part:
            case Part.STAGE:
                self._begin(staging(self._ws, self._run_id, actor=self._actor, listener=self._listener))
            case Part.GATE:
                self._begin(gating(self._ws, self._run_id, actor=self._actor, listener=self._listener))
            case Part.PUBLISH:
                self._work = None
            case _:
                assert_never(part)

    def _begin(self, part: AbstractContextManager[Staging | Gating]) -> None:
        self._work = self._stack.enter_context(part)

    def work(self, kind: type[W]) -> W:
        """The context of the stages of this part."""
        assert isinstance(self._work, kind)
        return self._work

    def _note(self) -> None:
        """Records the results of the part that has ended."""
        if isinstance(self._work, Staging):
            with self._ws.ledger.read() as tx:
                self._done.staged = tx.candidates.of_run(self._run_id)
        elif isinstance(self._work, Gating):
            self._done.evaluated = self._work.evaluated


def require_ready(ws: Workspace, run_id: str) -> None:
    """Refuses early what the swap would refuse; the swap itself reads the ledger again."""
    with ws.ledger.read() as tx:
        run = tx.runs.get(run_id)
        tx.outbox.require_still_asked(run)
        asked = demand_of(ws, tx, run)
        require_publishable(tx, run)
        require_its_turn(tx, run, at=ws.clock())
    require_agreed(ws, run, asked)


def _swap(ws: Workspace, run_id: str, *, by: str) -> PublicationRecord:
    """Publishes a run in the name of a person; the system publishes follow-ups, LIVE runs, and what is approved."""
    with ws.ledger.read() as tx:
        run = tx.runs.get(run_id)
    is_of_system = (
        run.manifest.cause.kind is CauseKind.FOLLOW_UP
        or (by == PUBLISHER and is_approved_by_a_person(run))
        or (by == run.manifest.requested_by == LIVE)
    )
    if not is_of_system:
        require_person("the one who publishes", by)
    return publish_run(ws, run_id, by=by)
