"""Which guards does the publication protocol have, and how is each removed to see what it is for?

Some stand in two layers: what the ledger's own check would refuse, the verdict before it refuses as well, or a unique
index behind it. A guard with two layers is removed in both, because either alone still holds. So it is with the
ledger's comparison of accepted versions: `publish_run` and `rollback_run` make an intent in the transaction that begins
it, so no race can show an intent that is out of date to it. The tests of the ledger do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from deltalake import CommitProperties

from backfill_assets.core.errors import NotApproved, OutcomeUnknown
from backfill_assets.lake import swap as swapping
from backfill_assets.lake.swap import SwapOrder
from backfill_assets.lake.tables import Lake
from backfill_assets.ledger.runs import RunWrites
from backfill_assets.ledger.states import RunState, State, may_follow
from backfill_assets.ledger.write_publications import PublicationWrites
from backfill_assets.report.errors import CannotUse
from backfill_assets.upkeep.vacuum import Why
from backfill_assets_tests.support.seams import Seam

Replacing = Callable[[Any], Any]
"""From what is at a seam to what replaces it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """A guard of the protocol."""

    without: str  #: What happens without it.
    removed: Mapping[Seam, Replacing]  #: What replaces what at which seams.
    #: A seed, or a pair one of whose orders shows what the guard is for; `--sweep` finds others.
    seen_by: tuple[str, str] | int


def _always(result: object = None) -> Replacing:
    """In the place of a check, or of a question whose answer stops something."""
    return lambda _present: lambda *_, **__: result


def _commit_properties(**changed: object) -> Replacing:
    """Other options for every commit."""
    return lambda _present: lambda **given: CommitProperties(**{**given, **changed})


def _look_only(_present: object) -> Callable[..., int | None]:
    def look(lake: Lake, table: str, publication_id: str, **_: object) -> int | None:
        if swapping.is_landed(lake, table, publication_id):
            return swapping.landed_version(lake, table, publication_id)
        return None

    return look


def _certain(swap: Callable[[Lake, SwapOrder], int]) -> Callable[[Lake, SwapOrder], int]:
    def certain(lake: Lake, order: SwapOrder) -> int:
        try:
            return swap(lake, order)
        except OutcomeUnknown as error:
            raise CannotUse(what="the swap", why=error.message, instead="another moment") from error

    return certain


def _unapproved(may_publish: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    def unapproved(self: Any, intent: Any) -> None:
        try:
            may_publish(self, intent)
        except NotApproved:
            return

    return unapproved


def _take_without_checks(_present: object) -> Callable[..., None]:
    def take(
        self: RunWrites, run_id: str, to: RunState, *, actor: str, attempt: str, lease: object, payload: object = None
    ) -> None:
        del lease, payload
        found = self.state(run_id)
        self._steps.move(run_id, found, to, actor=actor, note="", payload={"attempt": attempt}, attempt=attempt)

    return take


def _from_publishing(_present: object) -> Callable[[State, State], bool]:
    return lambda present, following: present is RunState.PUBLISHING or may_follow(present, following)


def _to_cancelled(_present: object) -> Callable[[State, State], bool]:
    return lambda present, following: following is RunState.CANCELLED or may_follow(present, following)


def _insist(finish: Callable[..., Any]) -> Callable[..., Any]:
    def insist(self: PublicationWrites, publication_id: str, *, delta_version: int, actor: str) -> Any:
        record = self.get(publication_id)
        if record.state is record.state.PUBLISHED:
            raise KeyError(publication_id)
        return finish(self, publication_id, delta_version=delta_version, actor=actor)

    return insist


def _without_what_is_live(holdings: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    return lambda *given: (held for held in holdings(*given) if held[0] not in (Why.LIVE, Why.ACCEPTED))


def _add_unasked(_present: object) -> Callable[..., Any]:
    def add(self: Any, manifest: Any, *, actor: str) -> Any:
        self._run_steps.insert(manifest, actor=actor)
        return self._runs.get(manifest.run_id)

    return add


GUARDS: Mapping[str, Guard] = {
    "compare": Guard(
        without="The swap commits whatever the table holds by now.",
        removed={Seam.COMPARE: _always()},
        seen_by=("backfill", "foreign append"),
    ),
    "one-handle": Guard(
        without="The library may try again by itself, over what others have committed since the comparison.",
        removed={Seam.COMMIT_PROPERTIES: _commit_properties(max_commit_retries=15)},
        seen_by=("other", "foreign append to an empty day"),
    ),
    "application-transaction": Guard(
        without="A commit does not say which publication it is, so its outcome cannot be looked up.",
        removed={Seam.COMMIT_PROPERTIES: _commit_properties(app_transactions=None)},
        seen_by=11,
    ),
    "fence": Guard(
        without="A recovery only looks whether a swap landed, and does not make sure that it never will.",
        removed={Seam.FENCE_OF_RECOVERY: _look_only},
        seen_by=("recover", "backfill"),
    ),
    "unknown-is-not-refused": Guard(
        without="A commit that may have landed is taken for one that did not.",
        removed={Seam.SWAP_OF_PUBLICATIONS: _certain},
        seen_by=87,
    ),
    "staged-files": Guard(
        without="Files may be missing, both before the intent and before the commit.",
        removed={Seam.REQUIRE_FILES: _always(), Seam.MUST_BE_THERE: _always()},
        seen_by=("vacuum", "rollback"),
    ),
    "one-open-publication": Guard(
        without="Two publications of a table may be under way; the unique index behind it is left in place.",
        removed={Seam.MUST_BE_FREE: _always()},
        seen_by=("backfill", "live"),
    ),
    "same-target": Guard(
        without="A candidate is published over what is accepted by now, not what it was compared with; both layers.",
        removed={Seam.REQUIRE_SAME_TARGET: _always(), Seam.MUST_EXPECT_ACCEPTED: _always()},
        seen_by=("backfill", "live"),
    ),
    "approval": Guard(
        without="At the moment of the intent it is not checked again that the run is approved; both layers.",
        removed={Seam.REQUIRE_AGREED: _always(), Seam.MAY_PUBLISH: _unapproved},
        seen_by=("backfill", "withdraw"),
    ),
    "sets-turn": Guard(
        without="A run of a set is published, or goes on being published, whatever has become of the set; both layers.",
        removed={Seam.MUST_BE_ITS_SETS_TURN: _always(), Seam.MUST_FOLLOW_ITS_SET: _always()},
        seen_by=("one of a set", "withdraw"),
    ),
    "run-under-publication": Guard(
        without="A run may be staged or gated again while it is being published.",
        removed={Seam.MAY_FOLLOW_IN_EVENTS: _from_publishing, Seam.TAKE_RUN: _take_without_checks},
        seen_by=("backfill", "restage"),
    ),
    "leases": Guard(
        without="Any process takes a run from the one that works on it.",
        removed={Seam.REQUIRE_FREE: _always()},
        seen_by=("restage", "recover"),
    ),
    "cancelled-before-publication": Guard(
        without="A run may be cancelled while it is being published; both layers.",
        removed={Seam.MAY_FOLLOW_IN_EVENTS: _to_cancelled, Seam.MAY_FOLLOW_IN_CANCELLATIONS: _to_cancelled},
        seen_by=("backfill", "cancel"),
    ),
    "acknowledged-once": Guard(
        without="The second to acknowledge a landed swap is refused, though it is done.",
        removed={Seam.FINISH_PUBLICATION: _insist},
        seen_by=("backfill", "recover"),
    ),
    "vacuum-candidates": Guard(
        without="Vacuum takes the files of runs that can still be published.",
        removed={Seam.CANDIDATE_IS_NEEDED: _always()},
        seen_by=("other", "vacuum"),
    ),
    "vacuum-open-publications": Guard(
        without="Vacuum takes files of tables that are being published, such as those that a rollback brings back.",
        removed={Seam.BEING_PUBLISHED: _always({})},
        seen_by=("rollback", "vacuum"),
    ),
    "vacuum-what-moved": Guard(
        without="Vacuum takes what it found superfluous, whatever was begun since.",
        removed={Seam.MOVED: _always(())},
        seen_by=("vacuum", "rollback"),
    ),
    "vacuum-live-files": Guard(
        without="Vacuum takes what readers see, unless the ledger speaks for it; in all layers.",
        removed={Seam.HOLDINGS: _without_what_is_live},
        seen_by=("other", "vacuum"),
    ),
    "asked-once": Guard(
        without="A follow-up is recorded although another process has planned it since, or it is no longer asked for.",
        removed={Seam.ADD_FOLLOW_UP: _add_unasked},
        seen_by=113,
    ),
    "withdrawn": Guard(
        without="What was undone goes on asking its dependents to follow it.",
        removed={Seam.WITHDRAW: _always()},
        seen_by=("follower", "correction back"),
    ),
    "no-orphans": Guard(
        without="What was computed from a publication is left behind when that is undone.",
        removed={Seam.REQUIRE_NO_ORPHANS: _always()},
        seen_by=("days back", "recover"),
    ),
    "inputs-are-accepted": Guard(
        without="A run is published although what it was computed from was undone, or is being undone.",
        removed={Seam.REQUIRE_INPUTS: _always()},
        seen_by=("with dependents", "follower"),
    ),
}


@contextmanager
def without(name: str | None) -> Iterator[None]:
    """The code without one of its guards."""
    with pytest.MonkeyPatch.context() as patch:
        if name is not None:
            for seam, replacing in GUARDS[name].removed.items():
                seam.put(patch, replacing(seam.present))
        yield
