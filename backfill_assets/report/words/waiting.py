"""Words of what waits for a person: publications that are not followed, open proposals, what sensors have given up."""

from __future__ import annotations

from backfill_assets.core.next_steps import NextStep, step
from backfill_assets.core.people import Sensor
from backfill_assets.planning.partitions import Partitions, count_of
from backfill_assets.report.follow import WaitingPublication
from backfill_assets.report.proposed import OpenProposal
from backfill_assets.report.stuck import StuckDocument


def waiting_words(waiting: WaitingPublication) -> NextStep:
    """One line about a publication that is not followed."""
    what = f"{waiting.publication_id} of {waiting.table}"
    if waiting.set_id:
        return step(f"{what} is followed when set {waiting.set_id} is done")
    if waiting.failed_attempts:
        failed = f"it failed {count_of(waiting.failed_attempts, 'time')}: {waiting.last_failure}"
        return step(
            *(f"{what} was not followed, {failed} To try again: ", waiting.try_again),
            *(". To let dependents be as they are: ", waiting.cancel),
        )
    if ready := [
        f"{each.table} {Partitions(each.grain, each.partitions)}" for each in waiting.dependents if each.partitions
    ]:
        return step(f"{what} asks for {', '.join(ready)}: ", waiting.try_again)
    if frozen := [f"{each.table} {Partitions(each.grain, each.frozen)}" for each in waiting.dependents if each.frozen]:
        return step(f"{what}: {', '.join(frozen)} is frozen, and follows when it is so no longer")
    blocked = ", ".join(f"{each.table} {Partitions(each.grain, each.waiting)}" for each in waiting.dependents)
    return step(f"{what}: {blocked} wait for input partitions that have no accepted version")


def open_proposal_words(proposal: OpenProposal) -> NextStep:
    """One line about a proposal, and whether it waits for an approval."""
    record, waits = proposal.record, "approved" if proposal.approved else "not approved"
    about = f"{record.manifest.because} {record.manifest.reason}"
    return step(f"{record.set_id} is proposed and {waits}; {about}: ", proposal.next_step)


def stuck_words(stuck: StuckDocument) -> NextStep:
    """One line about it."""
    # The LIVE path does not try a blocked run again: its rows are what the gates have found them to be.
    work = stuck.work
    to_clear = "To list it no longer" if work.sensor is Sensor.LIVE else "To try again"
    again = step(f"{work.sensor} has given up {work.subject} ({work.why.rstrip('.')}). {to_clear}: ", stuck.clear)
    return step(again, ". ", stuck.leave)
