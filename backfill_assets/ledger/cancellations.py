"""Cancellations of runs and sets that are not visible to readers. A cancellation is final."""

from __future__ import annotations

from dataclasses import dataclass

from backfill_assets.errors import IllegalTransition
from backfill_assets.ledger.recorded_text import one_line
from backfill_assets.ledger.run_steps import RunSteps
from backfill_assets.ledger.states import MEANING, RunState, SetState, may_follow
from backfill_assets.next_steps import WAIT_OR_RECOVER, Act, Advice, do, step, undo
from backfill_assets.people import require_person


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancellation:
    """A person's decision against a run or a set."""

    by: str
    reason: str

    @staticmethod
    def of(by: str, reason: str) -> Cancellation:
        """The decision, checked.

        Raises:
            Refused: The name is missing or no person's, or there is no reason.
        """
        who = one_line("the name", by)
        require_person("the one who cancels", who)
        return Cancellation(by=who, reason=one_line("the reason", reason))

    @property
    def note(self) -> str:
        """What the run or the set says about its state from then on."""
        return f"cancelled by {self.by}: {self.reason}"


def cancel_run(steps: RunSteps, run_id: str, state: RunState, decision: Cancellation) -> None:
    """Cancels a run that is not visible to readers. Its process is refused its next step.

    Raises:
        IllegalTransition: Readers see it, or it is being published.
    """
    if not may_follow(state, RunState.CANCELLED):
        raise IllegalTransition(
            f"run {run_id} cannot be cancelled: it is {state} ({MEANING[state]}).",
            next_step=_after_refusal(run_id, state),
            run_id=run_id,
            state=str(state),
        )
    payload = {"reason": decision.reason}
    steps.move(run_id, state, RunState.CANCELLED, actor=decision.by, note=decision.note, payload=payload)


def require_set_can_be_cancelled(set_id: str, state: SetState) -> None:
    """Refuses to cancel a set of which readers see something.

    Raises:
        IllegalTransition: Some of it is published or being published, or it is cancelled already.
    """
    if not may_follow(state, SetState.CANCELLED):
        raise IllegalTransition(
            f"set {set_id} cannot be cancelled: it is {state} ({MEANING[state]}).",
            next_step=_after_refusal(set_id, state),
            set_id=set_id,
        )


def _after_refusal(name: str, state: RunState | SetState) -> Advice:
    if state in (RunState.PUBLISHED, RunState.SUPERSEDED, RunState.CANCELLED, SetState.PUBLISHED, SetState.CANCELLED):
        # It says how to undo it, which later publications decide as well.
        return do(Act.STATUS, name)
    if state in (SetState.PUBLISHING, SetState.ROLLING_BACK):
        return step(do(Act.RECOVER), ", which completes or reverses it; or ", undo(name))
    return WAIT_OR_RECOVER
