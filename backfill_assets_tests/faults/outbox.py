"""What must be true of what follows publications, when a race is over? A sentence for everything that is not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from backfill_assets.core.errors import BackfillError
from backfill_assets.ledger.states import PublicationState, RunState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets_tests.faults.scene import DECEMBER, DECEMBERS, Scene
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.hand_made import COLUMN, GOLD, SILVER, checksum_of


def nothing_lacks_its_input(reader: ReadTransaction) -> Iterator[str]:
    """Whatever is accepted was computed from partitions that have an accepted version still, if another one."""
    accepted = {table: reader.versions.accepted(table) for table in COLUMN}
    for table, versions in accepted.items():
        for partition, version in versions.items():
            for pinned in reader.runs.get(version.run_id).manifest.inputs:
                if lacking := [
                    pin.partition for pin in pinned.partitions if pin.partition not in accepted[pinned.table]
                ]:
                    yield f"{table} {partition} is accepted without its input {pinned.table} {lacking[0]}"


def is_followed_once(reader: ReadTransaction) -> Iterator[str]:
    """No two runs follow the same publications, and nothing is asked for a publication that does not stand."""
    followers: Counter[tuple[str, str]] = Counter()
    for run in reader.runs.records():
        followed = run.manifest.cause.publications
        if run.state is not RunState.CANCELLED and not reader.outbox.no_longer_asked(followed):
            followers.update((run.manifest.table, publication_id) for publication_id in followed)
    for (table, publication_id), runs in followers.items():
        if runs > 1:
            yield f"{runs} runs of {table} follow {publication_id}"
    for publication_id in reader.outbox.unwithdrawn():
        yield f"{publication_id} does not stand, and asks to be followed"
    cancelled = {run.run_id for run in reader.runs.records(states=[RunState.CANCELLED])}
    for record in reader.publications.records(states=[PublicationState.PUBLISHED]):
        if record.run_id in cancelled:
            yield f"{record.run_id} is cancelled and published"


def gold_catches_up(scene: Scene) -> Iterator[str]:
    """Who follows once more ends with what silver holds; nothing waits that could be done."""
    refused = ""
    try:
        scene.follow()
        scene.follow()
    except BackfillError as error:
        refused = str(error)
    with scene.ws.ledger.read() as reader:
        days, gold = reader.versions.accepted(SILVER, DECEMBERS), reader.versions.accepted(GOLD, [DECEMBER])
        cancelled = [entry for entry in reader.outbox.entries() if "cancelled by cleo" in entry.note]
        yield from is_followed_once(reader)
        yield from nothing_lacks_its_input(reader)
    if asked := [each for each in operations.asked_follow_ups(scene.ws) if not each.is_followed]:
        yield f"gold is still asked to follow {[each.entry.publication_id for each in asked]}: {refused}"
    if gold and not cancelled and gold[DECEMBER].checksum != checksum_of([scene.total(v.files for v in days.values())]):
        yield f"gold of December is not the sum of its days: {refused}"
