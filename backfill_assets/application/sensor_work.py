"""Work of sensors: what is approved or was left unfinished, as the ledger says, and what sensors have given up.

No name that anybody types makes something approved, and what a stopped process left counts only as far as it is known
for certain; `recover` ends it. What a sensor gives up is shown by `status` until a person lets it try again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime

from backfill_assets.core.people import Sensor, is_policy, require_person
from backfill_assets.ledger.leases import whole_of
from backfill_assets.ledger.outbox import GivenUp
from backfill_assets.ledger.records import RunRecord
from backfill_assets.ledger.states import ApprovalState, ImportState, PublicationState, RunState, SetState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest_parts import NEVER_PUBLISHED
from backfill_assets.report.command_line import words_of
from backfill_assets.report.follow import ClearedDocument, stuck_document, stuck_words
from backfill_assets.requests.obstacles import AWAITED, Publishing, PublishingRestatement, is_met, phase_not_held
from backfill_assets.requests.stuck import still_stuck
from backfill_assets.workspace import Workspace


def approved(ws: Workspace) -> tuple[str, ...]:
    """The runs and sets that a person has approved, validly now, and of which readers see nothing yet.

    What a policy publishes without a person is not among them: the follow sensor and the LIVE path publish that.
    """
    with ws.ledger.read() as tx:
        return (*_runs(ws, tx), *_sets(ws, tx))


def is_approved_by_a_person(run: RunRecord) -> bool:
    """True if a person has approved exactly this manifest; that person's authority is checked at the swap."""
    return run.approval is ApprovalState.APPROVED and run.approved_by is not None and not is_policy(run.approved_by)


def _runs(ws: Workspace, tx: ReadTransaction) -> list[str]:
    waiting = [
        header.run_id
        for header in reversed(tx.runs.headers(states=[RunState.PASSED]))
        if header.is_alone and header.approval is ApprovalState.APPROVED and header.mode not in NEVER_PUBLISHED
    ]
    found = tx.runs.named(waiting)
    return [run.run_id for run in found if is_approved_by_a_person(run) and _is_ready(ws, tx, run)]


def _sets(ws: Workspace, tx: ReadTransaction) -> list[str]:
    states = (SetState.PENDING, SetState.PARTLY_PUBLISHED)
    found = []
    for each in reversed(tx.sets.records(states=states, unreadable=lambda _set_id, _error: None)):
        asked = PublishingRestatement(ws=ws, tx=tx, record=each)
        passed = all(run.state is RunState.PASSED and is_approved_by_a_person(run) for run in asked.due)
        is_held = phase_not_held.find(asked) is not None
        if asked.due and passed and not is_held and all(_is_ready(ws, tx, run) for run in asked.due):
            found.append(asked.due[0].run_id if each.manifest.phases else each.set_id)
    return found


def _is_ready(ws: Workspace, tx: ReadTransaction, run: RunRecord) -> bool:
    return is_met(Publishing(ws=ws, tx=tx, run=run), *AWAITED)


LEASES = 2
"""How many lengths of a lease a publication, a set or a rollback is left alone after its last step."""


def stopped(ws: Workspace) -> tuple[str, ...]:
    """The publications, runs, landed files, sets and rollbacks whose process lost its lease or shows no sign of life.

    A publication that is only slow is not among them while its process renews its lease.
    """
    with ws.ledger.read() as tx:
        at = tx.now
        quiet_since = at - LEASES * ws.settings.lease
        publishing = tx.publications.records(states=[PublicationState.PUBLISHING])
        begun = [each.publication_id for each in publishing if each.started_at < quiet_since]
        found = [each for each in begun if not tx.leases.is_held(each, at=at)]
        found += _without_lease(tx, at)
        if publishing:
            # How far a set or a rollback is can only be determined when no publication is open.
            return tuple(found)
        found += (each for each in _quiet(tx, quiet_since) if not tx.leases.is_held(whole_of(each), at=at))
    return tuple(dict.fromkeys(found))


def _without_lease(tx: ReadTransaction, at: datetime) -> Iterator[str]:
    for run in reversed(tx.runs.headers(states=[RunState.STAGING, RunState.GATING])):
        if run.lease is None or not run.lease.is_alive(at):
            yield run.run_id
    for record in tx.imports.records(states=[ImportState.LANDING]):
        held = tx.leases.get(record.import_id)
        if held is None or not held.is_alive(at):
            yield record.import_id


def _quiet(tx: ReadTransaction, since: datetime) -> Iterator[str]:
    """Sets and rollbacks of which nothing has moved since then."""
    for order in tx.publications.rollbacks_under_way():
        begun = max(event.at for event in tx.events.entries(entity_id=order.of))
        moved = [tx.runs.header(run_id).updated_at for run_id in order.dependents]
        if max([begun, *moved]) < since:
            yield order.of
    half_way = (SetState.PUBLISHING, SetState.ROLLING_BACK)
    for record in tx.sets.records(states=half_way, unreadable=lambda _set_id, _error: None):
        moved = [tx.runs.header(member.run_id).updated_at for member in record.manifest.members]
        if max([record.updated_at, *moved]) < since:
            yield record.set_id


def remember(ws: Workspace, sensor: Sensor, given_up: Collection[GivenUp]) -> None:
    """Records what a sensor gives up; nothing is written when all of it is known."""
    if not given_up:
        return
    with ws.ledger.read() as tx:
        known = {(work.subject, work.mark) for work in tx.stuck.work(sensor)}
    new = [each for each in given_up if (each.subject, each.mark) not in known]
    if not new:
        return
    with ws.ledger.write() as tx:
        for each in new:
            tx.stuck.give_up(sensor, each)


def stuck_text(ws: Workspace, sensor: Sensor) -> str:
    """The work that a sensor abandoned and how it is cleared, as the text of a tick; empty when there is none."""
    with ws.ledger.read() as tx:
        stuck = still_stuck(ws, tx, sensor)
    return "\n".join(words_of(stuck_words(stuck_document(work))) for work in stuck)


def clear(ws: Workspace, subject: str, *, by: str) -> ClearedDocument:
    """Lets the sensors that have given something up try it again."""
    require_person("the one who clears", by)
    with ws.ledger.write() as tx:
        cleared = tx.stuck.clear(subject, by=by)
    return ClearedDocument(subject=subject, sensors=tuple(work.sensor for work in cleared), cleared_by=by)
