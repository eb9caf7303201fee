"""Which guards does the publication protocol have, and how is each taken away to see what it is for?

Some stand in two layers: what the ledger's own check would refuse, the verdict before it refuses as well, or a unique
index behind it. A guard with two layers is taken away in both, because either alone still holds. So it is with the
ledger's comparison of accepted versions: `publish_run` and `rollback_run` make an intent in the transaction that begins
it, so no race can show an intent that is out of date to it. The tests of the ledger do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from deltalake import CommitProperties

from backfill_assets.application import recover as recovering
from backfill_assets.errors import NotApproved, OutcomeUnknown, Refused
from backfill_assets.lake import swap as swapping
from backfill_assets.lake.swap import SwapOrder
from backfill_assets.lake.tables import Lake
from backfill_assets.ledger import cancellations, event_log
from backfill_assets.ledger.leases import LeaseReads
from backfill_assets.ledger.publication_checks import PublicationChecks
from backfill_assets.ledger.states import RunState, State, may_follow
from backfill_assets.ledger.write_outbox import OutboxSteps, OutboxWrites
from backfill_assets.ledger.write_publications import PublicationWrites
from backfill_assets.ledger.write_runs import RunWrites
from backfill_assets.publication import publish as publishing
from backfill_assets.publication import verdict
from backfill_assets.upkeep import retention, vacuum

Remove = Callable[[pytest.MonkeyPatch], None]


def _nothing(*_: object, **__: object) -> None:
    """In the place of a check."""


def _compare(patch: pytest.MonkeyPatch) -> None:
    """The swap commits whatever the table holds by now."""
    patch.setattr(swapping, "_compare", _nothing)


def _one_handle(patch: pytest.MonkeyPatch) -> None:
    """The library may try again by itself, over what others have committed since the comparison."""

    def patient(**given: Any) -> CommitProperties:
        return CommitProperties(**{**given, "max_commit_retries": 15})

    patch.setattr(swapping, "CommitProperties", patient)


def _application_transaction(patch: pytest.MonkeyPatch) -> None:
    """A commit does not say which publication it is, so nobody can ask whether it landed."""

    def anonymous(**given: Any) -> CommitProperties:
        return CommitProperties(**{**given, "app_transactions": None})

    patch.setattr(swapping, "CommitProperties", anonymous)


def _fence(patch: pytest.MonkeyPatch) -> None:
    """A recovery only looks whether a swap landed, and does not make sure that it never will."""
    patch.setattr(recovering, "fence", _look_only)


def _look_only(lake: Lake, table: str, publication_id: str, **_: object) -> int | None:
    if swapping.is_landed(lake, table, publication_id):
        return swapping.landed_version(lake, table, publication_id)
    return None


def _unknown_is_not_refused(patch: pytest.MonkeyPatch) -> None:
    """A commit that may have landed is taken for one that did not."""
    paced: Callable[[Lake, SwapOrder], int] = vars(publishing)["swap"]

    def certain(lake: Lake, order: SwapOrder) -> int:
        try:
            return paced(lake, order)
        except OutcomeUnknown as error:
            raise Refused(error.message, next_step=error.next_step) from error

    patch.setattr(publishing, "swap", certain)


def _staged_files(patch: pytest.MonkeyPatch) -> None:
    """Nobody looks whether the files are there, neither before the intent nor before the commit."""
    patch.setattr(swapping, "_require_files", _nothing)
    patch.setattr(PublicationChecks, "_must_be_there", _nothing)


def _one_open_publication(patch: pytest.MonkeyPatch) -> None:
    """Two publications of a table may be under way; the unique index behind it is left in place."""
    patch.setattr(PublicationChecks, "_must_be_free", _nothing)


def _same_target(patch: pytest.MonkeyPatch) -> None:
    """A candidate is published over whatever is accepted by now, instead of what it was compared with; both layers."""
    patch.setattr(verdict, "_require_same_target", _nothing)
    patch.setattr(PublicationChecks, "_must_expect_what_is_accepted", _nothing)


def _approval(patch: pytest.MonkeyPatch) -> None:
    """Nobody asks again at the moment of the intent whether the run is approved; both layers."""
    may_publish = PublicationChecks._may_publish

    def unasked(self: Any, intent: Any) -> None:
        try:
            may_publish(self, intent)
        except NotApproved:
            return

    patch.setattr(publishing, "require_agreed", _nothing)
    patch.setattr(PublicationChecks, "_may_publish", unasked)


def _sets_turn(patch: pytest.MonkeyPatch) -> None:
    """A run of a set is published, or goes on being published, whatever has become of the set; both layers."""
    patch.setattr(PublicationChecks, "_must_be_its_sets_turn", _nothing)
    patch.setattr(PublicationChecks, "_must_follow_its_set", _nothing)


def _run_under_publication(patch: pytest.MonkeyPatch) -> None:
    """A run may be staged or gated again while it is being published."""

    def may(present: State, following: State) -> bool:
        return present is RunState.PUBLISHING or may_follow(present, following)

    def take(
        self: RunWrites, run_id: str, to: RunState, *, actor: str, attempt: str, lease: object, payload: object = None
    ) -> None:
        del lease, payload
        found = self.state(run_id)
        self._steps.move(run_id, found, to, actor=actor, note="", payload={"attempt": attempt}, attempt=attempt)

    patch.setattr(event_log, "may_follow", may)
    patch.setattr(RunWrites, "take", take)


def _leases(patch: pytest.MonkeyPatch) -> None:
    """Whoever comes takes a run from the process that is at work on it."""
    patch.setattr(LeaseReads, "require_free", _nothing)


def _cancelled_before_publication(patch: pytest.MonkeyPatch) -> None:
    """A run may be cancelled while it is being published; both layers."""

    def may(present: State, following: State) -> bool:
        return following is RunState.CANCELLED or may_follow(present, following)

    patch.setattr(event_log, "may_follow", may)
    patch.setattr(cancellations, "may_follow", may)


def _acknowledged_once(patch: pytest.MonkeyPatch) -> None:
    """Whoever is second to acknowledge a landed swap is refused, though it is done."""
    finish = PublicationWrites.finish

    def insist(self: PublicationWrites, publication_id: str, *, delta_version: int, actor: str) -> Any:
        record = self.get(publication_id)
        if record.state is record.state.PUBLISHED:
            raise KeyError(publication_id)
        return finish(self, publication_id, delta_version=delta_version, actor=actor)

    patch.setattr(PublicationWrites, "finish", insist)


def _candidates_are_needed(patch: pytest.MonkeyPatch) -> None:
    """Vacuum takes the files of runs that can still be published."""
    patch.setattr(retention, "_candidate_is_needed", _nothing)


def _open_publications_are_needed(patch: pytest.MonkeyPatch) -> None:
    """Vacuum takes files of tables that are being published, such as those that a rollback is bringing back."""
    patch.setattr(vacuum, "_being_published", lambda _publications: {})


def _what_moved_is_seen(patch: pytest.MonkeyPatch) -> None:
    """Vacuum takes what it found superfluous, whatever was begun since."""
    patch.setattr(vacuum, "_moved", lambda *_: ())


def _live_files_are_needed(patch: pytest.MonkeyPatch) -> None:
    """Vacuum takes what readers see, unless the ledger speaks for it; in all layers."""
    holdings = retention._holdings

    def fewer(*given: Any) -> Iterator[Any]:
        return (held for held in holdings(*given) if held[0] not in (retention.Why.LIVE, retention.Why.ACCEPTED))

    patch.setattr(retention, "_holdings", fewer)


def _asked_once(patch: pytest.MonkeyPatch) -> None:
    """A follow-up is written down although another process has planned it since, or nothing asks for it any more."""

    def add(self: OutboxWrites, manifest: Any, *, actor: str) -> Any:
        self._run_steps.insert(manifest, actor=actor)
        return self._runs.get(manifest.run_id)

    patch.setattr(OutboxWrites, "add_follow_up", add)


def _withdrawn(patch: pytest.MonkeyPatch) -> None:
    """What was undone goes on asking its dependents to follow it."""
    patch.setattr(OutboxSteps, "withdraw", _nothing)


def _no_orphans(patch: pytest.MonkeyPatch) -> None:
    """What was computed from a publication is left behind when that is undone."""
    patch.setattr(publishing, "require_no_orphans", _nothing)


def _inputs_are_accepted(patch: pytest.MonkeyPatch) -> None:
    """A run is published although what it was computed from was undone, or is being undone."""
    patch.setattr(publishing, "_require_inputs", _nothing)


GUARDS: Mapping[str, Remove] = {
    "compare": _compare,
    "one-handle": _one_handle,
    "application-transaction": _application_transaction,
    "fence": _fence,
    "unknown-is-not-refused": _unknown_is_not_refused,
    "staged-files": _staged_files,
    "one-open-publication": _one_open_publication,
    "same-target": _same_target,
    "approval": _approval,
    "sets-turn": _sets_turn,
    "run-under-publication": _run_under_publication,
    "leases": _leases,
    "cancelled-before-publication": _cancelled_before_publication,
    "acknowledged-once": _acknowledged_once,
    "vacuum-candidates": _candidates_are_needed,
    "vacuum-open-publications": _open_publications_are_needed,
    "vacuum-what-moved": _what_moved_is_seen,
    "vacuum-live-files": _live_files_are_needed,
    "asked-once": _asked_once,
    "withdrawn": _withdrawn,
    "no-orphans": _no_orphans,
    "inputs-are-accepted": _inputs_are_accepted,
}
"""Every guard by name; what goes wrong without it is in the function that takes it away."""


SEEN_BY: Mapping[str, tuple[str, str] | int] = {
    "compare": ("backfill", "foreign append"),
    "one-handle": ("other", "foreign append to an empty day"),
    "application-transaction": 39,
    "fence": ("backfill", "recover"),
    "unknown-is-not-refused": 41,
    "staged-files": ("rollback", "vacuum"),
    "one-open-publication": ("backfill", "live"),
    "same-target": ("backfill", "live"),
    "approval": ("backfill", "withdraw"),
    "sets-turn": ("one of a set", "withdraw"),
    "run-under-publication": ("backfill", "restage"),
    "leases": ("restage", "recover"),
    "cancelled-before-publication": ("backfill", "cancel"),
    "acknowledged-once": ("backfill", "recover"),
    "vacuum-candidates": ("other", "vacuum"),
    "vacuum-open-publications": ("rollback", "vacuum"),
    "vacuum-what-moved": ("rollback", "vacuum"),
    "vacuum-live-files": ("other", "vacuum"),
    "asked-once": 113,
    "withdrawn": ("follower", "correction back"),
    "no-orphans": ("days back", "recover"),
    "inputs-are-accepted": ("with dependents", "follower"),
}
"""For every guard a seed, or a pair one of whose orders shows what the guard is for. `--sweep` finds others."""


@contextmanager
def without(name: str | None) -> Iterator[None]:
    """The code without one of its guards."""
    with pytest.MonkeyPatch.context() as patch:
        if name is not None:
            GUARDS[name](patch)
        yield
