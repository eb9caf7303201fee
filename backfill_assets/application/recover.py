"""Recovery: ends what was in progress when a process stopped, each piece of work in its own room."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from backfill_assets.application.recorder import Acting
from backfill_assets.calendar.partitions import count_of
from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import AtWork, BackfillError, HalfWay, IllegalTransition, Problem, Refused
from backfill_assets.core.lease import this_process
from backfill_assets.core.next_steps import NAME, WHY, Command, do, step, wait_or_take_over
from backfill_assets.landing.attempt import clean_up_landing
from backfill_assets.ledger.errors import TableBusy, UnderWay
from backfill_assets.ledger.leases import whole_of
from backfill_assets.ledger.records import PublicationRecord, RollbackOrder, SetRecord
from backfill_assets.ledger.states import ImportState, PublicationState, RunState, SetState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.sets import is_set
from backfill_assets.report.errors import NotGiven
from backfill_assets.report.follow import RecoveredWork, RecoveryReport
from backfill_assets.report.words.recovery import (
    FETCH_LANDED,
    LAND_AGAIN,
    lost_files_words,
    outcome_words,
    set_words,
    set_words_next,
    unknown_files_words,
    way_out_words,
)
from backfill_assets.requests.errors import NotEnded
from backfill_assets.requests.publish import publish_run
from backfill_assets.requests.recover import RecoveryEnd, RecoveryOutcome, end_publication
from backfill_assets.requests.rollout import complete_rollback, recover_set
from backfill_assets.upkeep.alignment import (
    Behind,
    is_evidence,
    set_to_ledger,
    tables_out_of_step,
    words_of,
    write_evidence_again,
)
from backfill_assets.upkeep.audit_checks import landed_apart
from backfill_assets.workspace import Workspace


def recover(
    ws: Workspace, *, by: str, only: str | None = None, now: bool = False, reason: str = ""
) -> tuple[RecoveredWork, ...]:
    """Ends everything that a stopped process left unfinished: publications, sets, runs and landings.

    Safe to call at any time and repeatedly. A process that holds a lease is left alone. One that has lost it loses its
    turn: its next step is refused by the ledger or by the table, and nothing of it becomes visible.

    Args:
        only: The one run, landed file, publication or set to end, with what is published or rolled back with it;
            everything by default. Or a table, which is set to what the ledger holds.
        now: Take it over even if its lease has not ended. The process that held it cannot add anything afterwards.

    Raises:
        Refused: `now` without `only`.
    """
    if now and only is None:
        raise NotGiven(
            why="work whose lease has not ended is taken over one by one",
            add="the id of a run, a landed file or a set; without any, recovery lists what it leaves alone",
        )
    if only is not None and (table := _table_of(ws, only)):
        return (_set_to_ledger(ws, table, by=by, reason=reason),)
    if only is not None and is_evidence(ws, only):
        return (_written_again(ws, only),)
    unreadable: list[RecoveredWork] = []
    with ws.ledger.read() as tx:
        if only is not None:
            _require_known(tx, only)
        under_way = tx.publications.records(states=[PublicationState.PUBLISHING])
        # Without their manifests: a run whose manifest cannot be read is ended like any other.
        computing = reversed(tx.runs.headers(states=[RunState.STAGING, RunState.GATING]))
        landing = tx.imports.records(states=[ImportState.LANDING])
        orders = tx.publications.rollbacks_under_way()
        runs = () if only is None else _runs_of(tx, only, orders)
    found: list[RecoveredWork] = []
    held: set[str] = set()
    for record in under_way:
        if only in (None, record.publication_id) or record.run_id in runs:
            if not now and (left := _at_work(ws, "publication", record.publication_id, record.publication_id)):
                found.append(left)
                held |= {record.run_id}
            else:
                end = partial(end_publication, ws, record, by=by)
                found.append(_ended("publication", record.publication_id, record.table, end))
    for run in computing:
        if only in (None, run.run_id):
            found.append(_computation(ws, run.run_id, run.state, by=by, now=now))
    # After the publications: how far a set or a rollback is can only be determined when none of them is open.
    for order in orders:
        if only in (None, order.of) and not held & {order.of, *order.dependents}:
            left = None if now else _at_work(ws, "rollback", order.of, whole_of(order.of))
            found.append(left or _ended("rollback", order.of, order.of, partial(_rollback, ws, order)))
    with ws.ledger.read() as tx:
        sets = tx.sets.records(
            states=[SetState.PUBLISHING, SetState.ROLLING_BACK],
            unreadable=lambda set_id, error: unreadable.append(_not_ended("set", set_id, set_id, error)),
        )
    for each in sets:
        if only in (None, each.set_id) and not held & {member.run_id for member in each.manifest.members}:
            left = None if now else _at_work(ws, "set", each.set_id, whole_of(each.set_id))
            found.append(left or _ended("set", each.set_id, each.set_id, partial(_set, ws, each, by=by)))
    found += unreadable if only is None else ()
    if any(only in (None, record.import_id) for record in landing):
        found += _landings(ws, by=by, only=only, now=now)
    if only is None:
        found += _out_of_step(ws, without={each.problem.table for each in found if each.problem})
    return tuple(found)


def _table_of(ws: Workspace, name: str) -> str | None:
    """The whole name of a table, which may be given without its layer; None of anything else."""
    with ws.ledger.read() as tx:
        known = (*ws.domain.tables, *tx.versions.tables())
    return next((table for table in known if name in (table, table.partition(".")[2])), None)


def recover_document(ws: Workspace, acting: Acting, *, only: str | None, now: bool, reason: str = "") -> RecoveryReport:
    """Recovers and has it recorded: what was recovered, and what could not be recovered, as a document."""
    found = recover(ws, by=acting.by, only=only, now=now, reason=reason)
    for each in found:
        for record in each.landed:
            acting.recorder.landed(ws, record)
    acting.recorder.catch_up(ws)
    return RecoveryReport(
        recovered=found,
        problems=tuple(each.problem for each in found if each.problem),
    )


def _require_known(tx: ReadTransaction, name: str) -> None:
    if is_set(name):
        tx.sets.get(name)
    elif name.startswith("imp-"):
        tx.imports.get(name)
    elif name.startswith("pub-"):
        tx.publications.get(name)
    else:
        tx.runs.get(name)


def _runs_of(tx: ReadTransaction, name: str, orders: Iterable[RollbackOrder]) -> Collection[str]:
    """The runs that are published, or rolled back, with a run or a set."""
    with_it = {run_id for order in orders if order.of == name for run_id in order.dependents}
    return {name, *with_it, *(tx.sets.get(name).run_ids if is_set(name) else ())}


def _landings(ws: Workspace, *, by: str, only: str | None, now: bool) -> Iterator[RecoveredWork]:
    for record in clean_up_landing(
        ws.ledger, ws.settings, ws.domain.sources, by=by, now=only if now else None, reached=ws.reached
    ):
        yield RecoveredWork(what="landing", id=record.import_id, outcome="abandoned; land the file again")
    with ws.ledger.read() as tx:
        at = tx.now
        for record in tx.imports.records(states=[ImportState.LANDING]):
            yield RecoveredWork(what="landing", id=record.import_id, outcome=_left_alone(tx, record.import_id, at))


def _left_alone(tx: ReadTransaction, work_id: str, at: datetime) -> str:
    held = tx.leases.get(work_id)
    who = UnderWay(work_id=work_id, held=held, found_at=at).who if held else None
    return f"is left alone: {who or 'another process of this machine is working on it'}"


def _out_of_step(ws: Workspace, *, without: Collection[str]) -> Iterator[RecoveredWork]:
    """The tables whose log is not of the time of the ledger, and the sources whose landed files are not: one of them
    was restored from an older backup; and the tables that cannot be compared, but `without` what was named before."""
    for name, found in tables_out_of_step(ws):
        if name in without:
            continue
        if isinstance(found, BackfillError):
            yield _not_ended("table", name, name, found)
        elif found.behind is not Behind.OTHERS:
            ways = step(way_out_words(found), do(Command.RECOVER, name, by=NAME, reason=WHY))
            unknown = () if found.behind is Behind.LAKE else _unknown_files(ws, name)
            also = f"; {unknown_files_words(unknown)}" if unknown else ""
            yield RecoveredWork(what="table", id=name, outcome=f"{words_of(found)}{also}", next_step=ways)
    for source in ws.domain.sources:
        try:
            with ws.ledger.read() as tx:
                _, lost = landed_apart(ws, tx, source)
        except BackfillError as error:
            yield _not_ended("source", source.name, source.name, error)
            continue
        if lost:
            ways = step(FETCH_LANDED, do(Command.AUDIT), " names each")
            yield RecoveredWork(what="source", id=source.name, outcome=lost_files_words(lost), next_step=ways)


def _set_to_ledger(ws: Workspace, table: str, *, by: str, reason: str) -> RecoveredWork:
    done = set_to_ledger(ws, table, by=by, reason=reason)
    outcome, following = set_words(done), step(set_words_next(done), do(Command.AUDIT))
    if unknown := _unknown_files(ws, table):
        outcome += f"; {unknown_files_words(unknown)}"
        again = do(Command.LAND, table.partition(".")[2], *unknown, by=NAME)
        following = step(LAND_AGAIN, again, "; then ", following)
    return RecoveredWork(what="table", id=table, outcome=outcome, next_step=following)


def _written_again(ws: Workspace, evidence: str) -> RecoveredWork:
    held = count_of(write_evidence_again(ws, evidence), "row")
    outcome = f"was written again from the ledger, with {held}"
    return RecoveredWork(what="table", id=evidence, outcome=outcome, next_step=step(do(Command.AUDIT)))


def _unknown_files(ws: Workspace, table: str) -> Sequence[str]:
    """The landed files of a source that a ledger of an earlier time does not know; none of another table."""
    with ws.ledger.read() as tx:
        return [place for each in ws.domain.sources if each.name == table for place in landed_apart(ws, tx, each)[0]]


def _at_work(ws: Workspace, what: str, name: str, work_id: str) -> RecoveredWork | None:
    """The work, if another process publishes or rolls back just now, as far as it can be seen from here; else None."""
    with ws.ledger.read() as tx:
        lease, at = tx.leases.get(work_id), tx.now
        if lease is None or lease.machine == this_process() or not lease.is_alive(at):
            return None
        outcome = _left_alone(tx, work_id, at)
    return RecoveredWork(what=what, id=name, outcome=outcome, next_step=wait_or_take_over(name))


def _ended(what: str, name: str, table: str, end: Callable[[], RecoveryOutcome]) -> RecoveredWork:
    """One piece of work that was in progress; if it cannot be ended now, the others still are."""
    try:
        outcome = end()
    except BackfillError as error:
        return _not_ended(what, name, table, error)
    following = outcome.error.next_step if outcome.error else None
    return RecoveredWork(what=what, id=name, outcome=outcome_words(outcome), next_step=following, landed=outcome.landed)


def _not_ended(what: str, name: str, table: str, error: BackfillError) -> RecoveredWork:
    following = error.next_step or step(do(Command.RECOVER))
    outcome = f"could not be ended: {error.message}"
    problem = Problem(table=table, error=NotEnded(what=what, id=name, cause=error))
    return RecoveredWork(what=what, id=name, outcome=outcome, next_step=following, problem=problem)


def _set(ws: Workspace, record: SetRecord, *, by: str) -> RecoveryOutcome:
    published: list[PublicationRecord] = []

    def continue_with(run_id: str) -> None:
        # A person began to publish the set. Whether it is agreed is asked again; who continues it may be the system.
        published.append(publish_run(ws, run_id, by=by))

    outcome = recover_set(ws, record, by=by, publish=continue_with)
    return replace(outcome, landed=(*published, *outcome.landed))


def _rollback(ws: Workspace, order: RollbackOrder) -> RecoveryOutcome:
    try:
        undone = complete_rollback(ws, order)
    except TableBusy:
        raise  # it is not given up
    except (Refused, HalfWay) as error:
        return RecoveryOutcome(ended=RecoveryEnd.ABANDONED, error=error)
    return RecoveryOutcome(ended=RecoveryEnd.ROLLED_BACK_TOGETHER, landed=tuple(undone))


def _computation(ws: Workspace, run_id: str, state: RunState, *, by: str, now: bool) -> RecoveredWork:
    note = f"taken over by {by} while it was {state}" if now else f"recovered: its process stopped while it was {state}"
    try:
        with ws.ledger.write() as tx:
            tx.runs.give_up(run_id, actor=by, note=note, now=now)
    except AtWork as alive:
        with ws.ledger.read() as tx:
            outcome = _left_alone(tx, run_id, tx.now)
        return RecoveredWork(what="run", id=run_id, outcome=outcome, next_step=alive.next_step)
    except IllegalTransition:
        # It continued meanwhile, so its process has not stopped.
        return RecoveredWork(what="run", id=run_id, outcome="is still under way")
    ws.reached(Point.RECOVER_CLOSED)
    again = step("run it again: ", do(Command.RUN, run_id))
    return RecoveredWork(what="run", id=run_id, outcome=f"had stopped while {state}", next_step=again)
