"""Who decided against a run or a set that readers do not see? A cancellation is final."""

from __future__ import annotations

from backfill_assets.errors import IllegalTransition
from backfill_assets.ledger.records import RunRecord
from backfill_assets.ledger.states import MEANING, RunState, SetState, may_follow
from backfill_assets.ledger.write_runs import VISIBLE
from backfill_assets.ledger.write_sets import SetWriter
from backfill_assets.ledger.writing import typed
from backfill_assets.people import require_person


class CancellationWriter(SetWriter):
    """Cancels runs, and sets with all of their runs."""

    def cancel_run(self, run_id: str, *, by: str, reason: str) -> None:
        """Ends a run that readers do not see. Whoever is at work on it is refused its next step.

        Raises:
            UnknownName: There is no such run.
            Refused: Nobody cancels it, or for no reason.
            IllegalTransition: Readers see it, it is being published, or it is one of a set.
        """
        found, set_ = self.run(run_id), self.set_of(run_id)
        if set_ is not None:
            raise IllegalTransition(
                f"run {run_id} is one of the set {set_.set_id}, whose runs are cancelled together.",
                next_step=f"backfill cancel {set_.set_id} --by WHO --reason WHY",
                run_id=run_id,
                set_id=set_.set_id,
            )
        self._cancel(found, *_words(by, reason))

    def cancel_set(self, set_id: str, *, by: str, reason: str) -> None:
        """Ends a set of which readers see nothing, and every run of it.

        Raises:
            UnknownName: There is no such set.
            Refused: Nobody cancels it, or for no reason.
            IllegalTransition: Some of it is published or being published.
        """
        found = self.restatement_set(set_id)
        who, why = _words(by, reason)
        if not may_follow(found.state, SetState.CANCELLED):
            raise IllegalTransition(
                f"set {set_id} cannot be cancelled: it is {found.state} ({MEANING[found.state]}).",
                next_step=_after_refusal(set_id, found.state),
                set_id=set_id,
            )
        for member in found.manifest.members:
            self._cancel(self.run(member.run_id), who, why)
        self.move_set(set_id, SetState.CANCELLED, actor=who, note=_note(who, why))

    def _cancel(self, found: RunRecord, by: str, reason: str) -> None:
        run_id = found.run_id
        if not may_follow(found.state, RunState.CANCELLED):
            raise IllegalTransition(
                f"run {run_id} cannot be cancelled: it is {found.state} ({MEANING[found.state]}).",
                next_step=_after_refusal(run_id, found.state),
                run_id=run_id,
                state=str(found.state),
            )
        self._move_run(
            run_id, found.state, RunState.CANCELLED, actor=by, note=_note(by, reason), payload={"reason": reason}
        )


def _words(by: str, reason: str) -> tuple[str, str]:
    who = typed("the name", by)
    require_person("the one who cancels", who)
    return who, typed("the reason", reason)


def _note(by: str, reason: str) -> str:
    return f"cancelled by {by}: {reason}"


def _after_refusal(name: str, state: RunState | SetState) -> str:
    if state in VISIBLE - {RunState.PUBLISHING} or state is SetState.PUBLISHED:
        return f"to undo it: backfill rollback {name} --by WHO --reason WHY"
    if state in (RunState.CANCELLED, SetState.CANCELLED):
        return f"backfill status {name}"
    if state in (SetState.PUBLISHING, SetState.ROLLING_BACK):
        return f"backfill recover, which completes or reverses it; or backfill rollback {name} --by WHO --reason WHY"
    return "wait for it; if its process is gone: backfill recover"
