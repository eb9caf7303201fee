"""What is approved and only has to be published: what the ledger says, and no name that anybody types."""

from __future__ import annotations

from backfill_assets.core.people import is_policy
from backfill_assets.ledger.records import RunRecord
from backfill_assets.ledger.sets import members_of
from backfill_assets.ledger.states import ApprovalState, RunState, SetState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest_parts import NEVER_PUBLISHED
from backfill_assets.publication.authority import is_agreed
from backfill_assets.report.what_next import outdated_partitions
from backfill_assets.workspace import Workspace


def approved(ws: Workspace) -> tuple[str, ...]:
    """The runs and sets that a person has approved, validly now, and of which readers see nothing yet.

    What a policy publishes without a person is not among them: the follow sensor and the LIVE path publish that.
    """
    with ws.ledger.read() as tx:
        return (*_runs(ws, tx), *_sets(ws, tx))


def is_approved_by_a_person(run: RunRecord) -> bool:
    """Whether a person has approved exactly this manifest; the authority of that person is asked at the swap."""
    return run.approval is ApprovalState.APPROVED and run.approved_by is not None and not is_policy(run.approved_by)


def _runs(ws: Workspace, tx: ReadTransaction) -> list[str]:
    waiting = [
        header.run_id
        for header in reversed(tx.runs.headers(states=[RunState.PASSED]))
        if header.approval is ApprovalState.APPROVED and header.mode not in NEVER_PUBLISHED
    ]
    of_sets = tx.sets.ids_of_runs(waiting)
    found = tx.runs.named(run_id for run_id in waiting if run_id not in of_sets)
    return [run.run_id for run in found if is_approved_by_a_person(run) and is_agreed(ws, tx, run)]


def _sets(ws: Workspace, tx: ReadTransaction) -> list[str]:
    planned = reversed(tx.sets.records(states=[SetState.PLANNED], unreadable=lambda _set_id, _error: None))
    return [each.set_id for each in planned if all(_is_ready(ws, tx, member) for member in members_of(tx.runs, each))]


def _is_ready(ws: Workspace, tx: ReadTransaction, member: RunRecord) -> bool:
    return (
        member.state is RunState.PASSED
        and member.manifest.mode not in NEVER_PUBLISHED
        and is_approved_by_a_person(member)
        and is_agreed(ws, tx, member)
        and not outdated_partitions(ws, tx, member)
    )
