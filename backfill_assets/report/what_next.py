"""Next step of a run or a set: what moves it on, by what publication would require, and how a publication is undone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from itertools import chain

from backfill_assets.calendar.partitions import Partitions, days_between, days_in, days_of, partitions_over
from backfill_assets.candidates.errors import MergedWithEarlier
from backfill_assets.core.errors import BackfillError, Refused
from backfill_assets.core.next_steps import (
    NAME,
    WAIT_OR_RECOVER,
    WHY,
    Advice,
    Command,
    NextStep,
    compare_again,
    do,
    end_freeze,
    step,
    to_approve,
    to_cancel,
    to_comment,
    to_publish,
    to_undo,
    wait_or_take_over,
)
from backfill_assets.domain import DerivedTable
from backfill_assets.ledger.records import RunRecord, SetRecord
from backfill_assets.ledger.sets import held_until, is_replaceable, next_phase
from backfill_assets.ledger.states import (
    NOT_MEASURED,
    UNPUBLISHED,
    ApprovalState,
    PublicationState,
    RunState,
    SetState,
    StoppedBy,
)
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest_parts import NEVER_PUBLISHED, Mode, ReferenceSemantics
from backfill_assets.planning.next_steps import (
    fix_and_plan_again,
    measured_again,
    plan_again,
    plan_anew,
)
from backfill_assets.report.releases import references_moved_on
from backfill_assets.report.waiting import waits_for_words
from backfill_assets.report.words.states import changed_reference_words
from backfill_assets.requests.authority import open_comments
from backfill_assets.requests.covered import is_built_since, is_covered_since
from backfill_assets.requests.drafts import is_current
from backfill_assets.requests.errors import (
    ComesAfter,
    DeclaredSince,
    ExpiresOthers,
    Frozen,
    KeysNotKnown,
    OlderInputs,
    ReadBeforeKnown,
    ReadByGateSince,
    TableChanged,
)
from backfill_assets.requests.obstacles import (
    FOR_ADVICE,
    IN_ITS_TURN,
    Ends,
    Obstacle,
    Publishing,
    agreed,
    is_met,
    merged_with_present,
    newest_inputs,
    obstacles,
    outdated,
    read_by_no_open_run,
    still_expires,
)
from backfill_assets.workspace import Workspace

_OPEN = frozenset({RunState.PLANNED, RunState.STAGED, RunState.PASSED, RunState.FAILED})

_TO_PUBLISH_AGAIN = "plan a correction, or to publish the same rows again: "
"""A rollback is done and needs no approval: what can be approved after it is a new publication."""


def next_step(ws: Workspace, tx: ReadTransaction, run: RunRecord) -> NextStep | None:
    """The step that moves a run on; None when nothing is left to do."""
    named = run.request_id
    asked = Publishing(ws=ws, tx=tx, run=run)
    if is_built_since(ws, tx, run):
        return None
    if waits := _waits(ws, tx, [run]):
        return waits
    if not _is_held(ws, run) and run.state in NOT_MEASURED and not is_declared(ws, run):
        why = f"release {run.manifest.transform_version} is no longer declared, so it cannot be computed: "
        return step(why, to_cancel(named))
    if run.state in _OPEN and run.is_alone and not is_met(asked, merged_with_present):
        why = f"{run.manifest.table} changed since {run.run_id} was planned with its rows: "
        return step(why, plan_again(run.manifest), "; then ", to_cancel(named))
    match run.state:
        case RunState.FAILED if by := tx.events.stopped_by(run):
            return fix_and_plan_again(run.manifest, needs_more=by is StoppedBy.LIMIT)
        case RunState.PLANNED | RunState.STAGED | RunState.FAILED:
            return _of_whole_set(ws, tx, run) or step(do(Command.RUN, run.run_id))
        case RunState.STAGING | RunState.GATING if not _is_held(ws, run):
            return _of_whole_set(ws, tx, run) or step(do(Command.RUN, run.run_id))
        case RunState.STAGING | RunState.GATING:
            return wait_or_take_over(run.run_id)
        case RunState.PUBLISHING:
            return WAIT_OR_RECOVER
        case RunState.PASSED if run.manifest.mode in NEVER_PUBLISHED:
            return None
        case RunState.PASSED:
            return _of_whole_set(ws, tx, run) or _publish_or_approve(ws, tx, named, [run])
        case RunState.BLOCKED if _can_expire_now(ws, tx, run):
            return step("what blocked it has ended: ", do(Command.RUN, run.run_id))
        case RunState.BLOCKED if lacking := _lacks(tx, run):
            return _together(run, lacking)
        case RunState.BLOCKED:
            return None if is_covered_since(tx, run) else _unblocked(tx, run)
        case RunState.PUBLISHED:
            return _undoing(how_to_undo(ws, tx, named, published_together(tx, run)))
        case RunState.ROLLED_BACK:
            of_set = _of_whole_set(ws, tx, run)
            return of_set or step(_TO_PUBLISH_AGAIN, _publish_or_approve(ws, tx, named, [run]))
        case RunState.VERIFIED | RunState.SUPERSEDED | RunState.CANCELLED:
            return None


def _lacks(tx: ReadTransaction, run: RunRecord) -> Sequence[date]:
    """The partitions that a run lacks, on which the rows of keys that move depend; of all its partitions together."""
    if is_covered_since(tx, run):
        return ()
    found = [result.observed.get("elsewhere", ()) for result in tx.candidates.gate_results(run.run_id)]
    days = days_in(days_between(text) for texts in found for text in texts)
    return partitions_over(run.manifest.grain, days)


def _unblocked(tx: ReadTransaction, run: RunRecord) -> NextStep:
    """The next step of a run that gates block: what they read besides its rows can be the cause, and is read again
    each time. The references that the rows follow from are those of its plan."""
    failed = {each.gate for each in tx.candidates.gate_results(run.run_id) if each.blocking and not each.passed}
    pinned = {each.name for each in run.manifest.references}
    read = {
        term.name: [each for each in (*term.references, *(other.table for other in term.reads)) if each not in pinned]
        for term in run.manifest.gates
    }
    named = [read.get(gate, []) for gate in sorted(failed)]
    besides = dict.fromkeys(name for some in named for name in some) if all(named) else {}
    return fix_and_plan_again(run.manifest, read_by_gates=tuple(besides))


def _together(run: RunRecord, lacking: Sequence[date]) -> NextStep:
    """The plan of a run's partitions with those that it lacks, as the run was asked for."""
    manifest = run.manifest
    chosen = [each for each in manifest.references if each.is_chosen]
    truth = chosen[0].semantics if chosen else None
    named = [f"{each.name}={each.version}" for each in chosen if truth is ReferenceSemantics.CORRECTED]
    days = days_in(days_of(manifest.grain, each) for each in (*manifest.partitions, *lacking))
    again = do(
        Command.PLAN_TABLE if manifest.is_alone else Command.PLAN_WITH_DEPENDENTS,
        manifest.table.partition(".")[2],
        days=days,
        mode=None if manifest.mode in (Mode.BACKFILL, Mode.LIVE) else manifest.mode.lower().replace("_", "-"),
        references=truth.lower().replace("_", "-") if truth else None,
        reason=WHY,
        by=NAME,
    )
    lacks = f"its rows depend on {Partitions.of(manifest.grain, lacking)} that it lacks; plan all of them together: "
    again = again.also(*(("reference", each) for each in named))
    return step(lacks, again, "; then ", to_cancel(manifest.request_id))


def _can_expire_now(ws: Workspace, tx: ReadTransaction, run: RunRecord) -> bool:
    """True if nothing objects any more to letting the snapshots of a blocked expiry expire."""
    if run.manifest.computed or not run.is_alone:
        return False
    return is_met(Publishing(ws=ws, tx=tx, run=run), still_expires, read_by_no_open_run)


def _is_held(ws: Workspace, run: RunRecord) -> bool:
    """True if a process has a run that others cannot take over by the command that goes on with it."""
    return run.lease is not None and run.lease.is_alive(ws.now())


def is_declared(ws: Workspace, run: RunRecord) -> bool:
    """True unless the declared table lacks the release of the run; a source's loader and a table that is gone have
    no releases."""
    table = ws.domain.tables.get(run.manifest.table)
    releases = table.releases if isinstance(table, DerivedTable) and run.manifest.computed else ()
    return not releases or any(each.version == run.manifest.transform_version for each in releases)


def next_step_of_set(
    ws: Workspace, tx: ReadTransaction, record: SetRecord, members: Sequence[RunRecord]
) -> NextStep | None:
    """The step that moves a set on; None when nothing is left to do."""
    set_id = record.set_id
    match record.state:
        case SetState.VERIFIED | SetState.CANCELLED:
            return None
        case SetState.PUBLISHED:
            return _undoing(how_to_undo(ws, tx, set_id, [member.run_id for member in members]))
        case SetState.PUBLISHING | SetState.ROLLING_BACK:
            return WAIT_OR_RECOVER
        case _:
            pass
    if _is_obsolete(tx, record, members):
        return step("what it reads or replaces has changed since it was proposed: ", do(Command.PROPOSE))
    at_work = [member for member in members if _is_held(ws, member)]
    if at_work:
        return wait_or_take_over(at_work[0].run_id)
    phases = record.manifest.phases
    is_begun = record.state is not SetState.PENDING
    if phases and (phases.each or is_begun or all(is_met(Publishing(ws=ws, tx=tx, run=m), agreed) for m in members)):
        due = next_phase(members)
        members = [due] if due else []
    for member in members:
        if member.state is RunState.BLOCKED and (lacking := _lacks(tx, member)):
            return _together(member, lacking)
        if by := tx.events.stopped_by(member):
            return fix_and_plan_again(member.manifest, needs_more=by is StoppedBy.LIMIT)
        if member.state is RunState.BLOCKED:
            return _unblocked(tx, member)
    if gone := next((each for each in members if each.state in NOT_MEASURED and not is_declared(ws, each)), None):
        why = f"release {gone.manifest.transform_version} of {gone.manifest.table} is no longer declared: "
        return step(why, to_cancel(set_id))
    if waits := _waits(ws, tx, members):
        return waits
    ready = (RunState.PASSED, RunState.PUBLISHED, RunState.ROLLED_BACK)
    if any(member.state not in ready or outdated(Publishing(ws=ws, tx=tx, run=member)) for member in members):
        return step(do(Command.RUN, set_id))
    if all(member.manifest.mode in NEVER_PUBLISHED for member in members):
        return None
    waiting = [member for member in members if member.state is not RunState.PUBLISHED]
    named = waiting[0].run_id if phases and phases.each and waiting else set_id
    following = _publish_or_approve(ws, tx, named, waiting)
    until = held_until(tx.publications, record, tx.runs.of_request(set_id))
    if until is not None and tx.now < until:
        following = step(f"its next phase is held until {until:%Y-%m-%d %H:%M:%S} UTC; then: ", following)
    return step(_TO_PUBLISH_AGAIN, following) if record.state is SetState.ROLLED_BACK else following


def _is_obsolete(tx: ReadTransaction, record: SetRecord, members: Sequence[RunRecord]) -> bool:
    """True if a set is a draft that the next proposal replaces, by the rule of the proposal."""
    return is_replaceable(record, members) and not is_current(tx, record, members)


def _waits(ws: Workspace, tx: ReadTransaction, runs: Iterable[RunRecord]) -> NextStep | None:
    """A note that a run, or one of a set, waits for a freeze or for a run of a higher priority; None when none does."""
    waiting = [run for run in runs if run.state in UNPUBLISHED and run.lease is None]
    found = chain.from_iterable(obstacles(Publishing(ws=ws, tx=tx, run=run), IN_ITS_TURN) for run in waiting)
    return next((step(*_ended(each.error)) for each in found), None)


def _ended(error: BackfillError) -> Sequence[Advice]:
    """For what a run waits, and what ends that."""
    words = waits_for_words(error)
    match error:
        case Frozen():
            return f"{words}; ", end_freeze(error.freeze.freeze_id)
        case KeysNotKnown():
            return f"{words}; ", error.found.next_step
        case ReadBeforeKnown():
            return f"{words}; ", error.known.next_step
        case ComesAfter():
            return f"{words}; publish or cancel it first: ", do(Command.STATUS, error.first)
        case _:
            return (words,)


def _of_whole_set(ws: Workspace, tx: ReadTransaction, run: RunRecord) -> NextStep | None:
    """The step that moves on the set that a run belongs to; None for a run of its own."""
    if run.is_alone:
        return None
    try:
        return next_step_of_set(ws, tx, tx.sets.of(run), tx.runs.of_request(run.request_id))
    except Refused:
        # Another run of it cannot be read, and this command says which.
        return step(do(Command.STATUS, run.request_id))


_GRAVEST = (Ends.NOTHING, Ends.PLAN_AGAIN, Ends.RUN_AGAIN)
"""What is said before anything else: nobody should approve, or measure again, what has to be planned again."""


def _publish_or_approve(ws: Workspace, tx: ReadTransaction, named: str, runs: Sequence[RunRecord]) -> NextStep:
    """The next step of a run that has passed, or of the runs of a set, by what stands in the way of their publication:
    to publish where nothing does."""
    asked = [Publishing(ws=ws, tx=tx, run=run) for run in runs]
    found = [each for run in asked for each in obstacles(run, FOR_ADVICE, slow=False)]
    if not found or any(each.ends is Ends.RUN_AGAIN for each in found):
        # To compare rows again that are from older inputs leads to nothing.
        found += [each for run in asked for each in obstacles(run, (newest_inputs,))]
    lacking = [each.run for each in found if each.run and each.ends is Ends.APPROVAL]
    for ends in _GRAVEST if lacking else (*_GRAVEST, Ends.WAITING):
        steps = (_out_of_the_way(each) for each in found if each.ends is ends)
        if following := next(filter(None, steps), None):
            return following
    if not lacking:
        changed = [each for run in runs for each in references_moved_on(ws, run)]
        why = f"{changed_reference_words(changed[0])}; to publish them all the same: " if changed else ""
        return step(*([why] if why else []), to_publish(named))
    needs_comment = any(open_comments(tx, run) for run in lacking)
    approval = to_comment(named) if needs_comment else to_approve(named)
    if any(run.approval is ApprovalState.DRAFT for run in lacking):
        return step(approval)
    return step(f"the approval by {lacking[0].approved_by} is no longer valid: ", approval)


def _out_of_the_way(obstacle: Obstacle) -> NextStep | None:
    """Why a run that has passed cannot be published, and what is to be done about it; None where that is not known."""
    run = obstacle.run
    assert run is not None
    table = run.manifest.table
    match obstacle.error:
        case OlderInputs() as error:
            why = f"{run.run_id} was computed from older inputs than what readers see; "
            return step(why, plan_anew(run.manifest, error.partitions.days))
        case MergedWithEarlier():
            return step(f"{table} changed since {run.run_id} was planned with its rows: ", plan_again(run.manifest))
        case ExpiresOthers() | TableChanged() if not run.manifest.computed:
            return step(f"{table} changed since {run.run_id} was planned: ", plan_again(run.manifest))
        case TableChanged():
            return step(f"{table} changed since {run.run_id} was compared with it: ", compare_again(run.run_id))
        case DeclaredSince() as error:
            why = f"{run.run_id} was not measured with {error.named} of {table}; "
            return step(why, measured_again(run.manifest))
        case ReadByGateSince() as error:
            why = f"{error.name} changed since gate {error.gate} of {run.run_id} read it: "
            return step(why, compare_again(run.run_id))
        case error:
            following = error.next_step
            return step(f"{error.message.rstrip('.')}; ", following) if following else None


def _undoing(found: NextStep | None) -> NextStep | None:
    return step("to undo it: ", found) if found else None


def how_to_undo(ws: Workspace, tx: ReadTransaction, named: str, run_ids: Sequence[str]) -> NextStep | None:
    """The rollback that is not refused for a later publication of the same partitions, or for what would be left
    without its input; None where nothing was changed.

    Cost: for a first publication, the claims of what depends on its partitions.
    """
    later = next(filter(None, map(tx.versions.replaced_by, run_ids)), None)
    if later is not None:
        first = "first roll back the publication that replaced some of its partitions: "
        return step(first, to_undo(tx.runs.request_of(later)))
    standing = tx.publications.headers(run_id=named, states=[PublicationState.PUBLISHED])
    if standing and not any(tx.publications.changed_partitions(each.publication_id) for each in standing):
        return None
    dependents = _left_without_input(ws, tx, run_ids)
    # A table has one open publication at a time.
    tables = {run.manifest.table for run in tx.runs.named([*run_ids, *dependents])}
    if any(each.table in tables for each in tx.publications.headers(states=[PublicationState.PUBLISHING])):
        return WAIT_OR_RECOVER
    if its_set := next((whole for each in dependents if (whole := tx.runs.request_of(each)) != each), None):
        return step("first undo the set that was computed from it: ", to_undo(its_set))
    if dependents:
        return step(do(Command.ROLLBACK, named, with_dependents=True, by=NAME, reason=WHY))
    return step(to_undo(named))


def _left_without_input(ws: Workspace, tx: ReadTransaction, run_ids: Sequence[str]) -> Sequence[str]:
    """The runs that readers see rows of, which were computed from partitions that only these runs have ever built."""
    gone: dict[str, frozenset[date]] = {}
    for run in tx.runs.named(run_ids):
        gone[run.manifest.table] = gone.get(run.manifest.table, frozenset()) | tx.versions.only_made_by(run.run_id)
    found: dict[str, None] = {}
    try:
        nodes = [node for node in ws.graph.tables.values() if not node.is_beside]
    except Refused:
        # As for `outdated_partitions`.
        return ()
    for node in nodes if any(gone.values()) else ():
        reached = {day for edge in node.inputs for day in ws.graph.reached(edge, node, gone.get(edge.table, ()))}
        claims = tx.versions.claims(node.name, sorted(reached)) if reached else {}
        others = {day: claim.run_id for day, claim in claims.items() if claim.run_id not in run_ids}
        gone[node.name] = gone.get(node.name, frozenset()) | others.keys()
        found |= dict.fromkeys(others.values())
    return tuple(found)


def published_together(tx: ReadTransaction, run: RunRecord) -> Sequence[str]:
    """The runs of its restatement."""
    return tx.sets.of(run).run_ids
