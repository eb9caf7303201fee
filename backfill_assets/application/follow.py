"""Follow-ups: planned from the ledger's outbox, and executed as far as policy allows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from backfill_assets.application.parts import Part, parts_left
from backfill_assets.application.recorder import Acting
from backfill_assets.application.terms import present_terms
from backfill_assets.core.errors import BackfillError, NotApproved, Refused
from backfill_assets.core.next_steps import Command, NextStep, do, step
from backfill_assets.ledger.recorded_text import one_line
from backfill_assets.ledger.records import RunRecord
from backfill_assets.ledger.states import UNFINISHED, VISIBLE, RunState
from backfill_assets.planning.manifest_parts import CauseKind
from backfill_assets.report.follow import (
    FollowCancellation,
    FollowedRun,
    FollowReport,
    followed_run,
    unplanned_run,
    waiting_publication,
)
from backfill_assets.report.what_next import next_step
from backfill_assets.requests import follow as outbox
from backfill_assets.requests.authority import demands_of, open_comments
from backfill_assets.requests.errors import Frozen
from backfill_assets.requests.follow import Asking, PlannedFollowUps, Tries, always
from backfill_assets.requests.obstacles import IN_ITS_TURN, Publishing, is_met
from backfill_assets.workspace import Workspace


def is_taken_on(run: RunRecord) -> bool:
    """True if another process has already taken on a follow-up, so that nothing is left to do."""
    return run.manifest.cause.kind is CauseKind.FOLLOW_UP and run.state not in UNFINISHED


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """A planned follow-up that is not finished."""

    run: RunRecord
    parts: tuple[Part, ...]  #: The parts still to be executed.


def follow(ws: Workspace, acting: Acting) -> FollowReport:
    """Follows every publication in the outbox, and the publications that result."""
    waiting = tuple(map(waiting_publication, asked_follow_ups(ws)))
    done: dict[str, FollowedRun] = {}
    elsewhere: dict[str, FollowedRun] = {}
    failed: list[FollowedRun] = []
    tried: set[str] = set()
    while True:
        planned = plan_follow_ups(ws, by=acting.by, tries=lambda entry: entry.publication_id not in tried)
        failed += map(unplanned_run, planned.failed)
        tried.update(name for each in planned.failed for name in each.follow_up.publications)
        left = [each for each in unfinished(ws) if each.run.run_id not in done.keys() | elsewhere.keys()]
        if not left:
            break
        for each in left:
            run_id = each.run.run_id
            if acting.recorder.is_elsewhere(run_id):
                elsewhere[run_id] = followed_run(each.run)
            else:
                done[run_id] = _executed(ws, each, acting)
    followed = (*done.values(), *failed)
    return FollowReport(
        followed=followed,
        elsewhere=tuple(elsewhere.values()),
        waiting=waiting,
        failed=any(each.failed for each in followed),
    )


def _executed(ws: Workspace, each: Unfinished, acting: Acting) -> FollowedRun:
    run_id, error = each.run.run_id, None
    try:
        acting.recorder.execute(ws, run_id, each.parts, by=acting.by, listener=acting.listener)
    except BackfillError as stopped:
        error = stopped
    with ws.ledger.read() as tx:
        run = tx.runs.get(run_id)
        # What its gates demand a comment on was not known before: it waits for a person now, as far as it may go.
        waits = isinstance(error, NotApproved) and run.state is RunState.PASSED and open_comments(tx, run)
        following = None if run.state in VISIBLE or error is not None else next_step(ws, tx, run)
        return followed_run(run, None if waits or isinstance(error, Frozen) else error, following=following)


def plan_follow_ups(ws: Workspace, *, by: str, tries: Tries = always) -> PlannedFollowUps:
    """Plans every run that the ledger's outbox asks for; see `requests.follow.plan_follow_ups`.

    The caller cannot choose anything about such a run, because policy may publish it without a person.
    """
    one_line("the one who follows", by)
    return outbox.plan_follow_ups(ws, by=by, terms_of=lambda name: present_terms(ws, name), tries=tries)


def unfinished(ws: Workspace) -> Iterator[Unfinished]:
    """Follow-ups that are planned, not executed to their end, and wait for no freeze and no run with priority."""
    with ws.ledger.read() as tx:
        runs = tx.outbox.unfinished_follow_ups((*UNFINISHED, RunState.PASSED))
        demands = demands_of(ws, tx, runs)
        waiting = {run.run_id for run in runs if not is_met(Publishing(ws=ws, tx=tx, run=run), *IN_ITS_TURN)}
    for run in runs:
        parts = parts_left(run.state, is_automatic=demands[run.run_id].policy is not None)
        if parts and run.run_id not in waiting:
            yield Unfinished(run=run, parts=parts)


def asked_follow_ups(ws: Workspace) -> tuple[Asking, ...]:
    """The follow-ups that publications ask of their dependents, now or once the inputs exist."""
    with ws.ledger.read() as tx:
        return outbox.what_waits(ws, tx)


def step_after_change(ws: Workspace) -> NextStep | None:
    """The next step after accepted rows changed: follow them, where a dependent can be computed again now."""
    try:
        waits = any(wanted.partitions for asking in asked_follow_ups(ws) for wanted in asking.wanted)
    except Refused:
        # Its dependents cannot be determined, for example because a reference is unreadable; `follow` reports why.
        waits = True
    if not waits:
        return None
    return step("what depends on it is computed again by the sensor of a running Dagster, or by: ", do(Command.FOLLOW))


def dismiss_follow_ups(ws: Workspace, publication_id: str, *, by: str, reason: str) -> FollowCancellation:
    """Decides that dependents do not follow a publication; runs that followed it already are kept."""
    with ws.ledger.write() as tx:
        tx.outbox.dismiss(publication_id, by=by, reason=reason)
    return FollowCancellation(publication_id=publication_id, cancelled_by=by, reason=reason)
