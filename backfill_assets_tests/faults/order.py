"""Is a home in order: do readers see what the ledger says, and can everything that is open be ended?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from backfill_assets.calendar.partitions import describe
from backfill_assets.ledger.records import RunRecord, SetRecord
from backfill_assets.ledger.states import PublicationState, RunState, SetState
from backfill_assets.workspace import Workspace
from backfill_assets_tests.faults.log import digest_of, read_log
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.lakes import folder_of


def readers_see_what_the_ledger_says(ws: Workspace, *, is_half_done: bool) -> Iterator[str]:
    """Files of every partition, and that no partition is readable without what it was computed from.

    Args:
        ws: The workspace.
        is_half_done: Whether a process died: a table with an open publication may then show either.
    """
    with ws.ledger.read() as reader:
        accepted = {table: reader.versions.accepted(table) for table in ws.domain.tables}
        open_tables = {r.table for r in reader.publications.records(states=[PublicationState.PUBLISHING])}
    if open_tables and not is_half_done:
        yield f"publications of {sorted(open_tables)} are open, and no process died"
    for table, versions in accepted.items():
        if table in open_tables or not ws.lake.exists(table):
            continue
        shown = read_log(folder_of(ws.lake, table))[-1].after
        said = {partition.isoformat(): version.files for partition, version in versions.items()}
        for value in sorted(said.keys() | shown.keys()):
            expected = said[value].digest if value in said else digest_of({}, value)
            if digest_of(shown, value) != expected:
                yield f"readers of {table} {value} do not see what the ledger calls accepted"
    if is_half_done:
        return
    for declared in ws.domain.derived:
        node = ws.graph.table(declared.name)
        for partition in accepted[declared.name]:
            for edge in node.inputs:
                needed = ws.graph.needed(edge, node, (partition,))
                if lacking := [day for day in needed if day not in accepted[edge.table]]:
                    grain = ws.graph.table(edge.table).grain
                    yield f"{declared.name} {partition} is readable without {edge.table} {describe(grain, lacking)}"


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What is open."""

    runs: Sequence[RunRecord]
    sets: Sequence[SetRecord]

    @staticmethod
    def of(ws: Workspace) -> Standing:
        """As the ledger says now."""
        with ws.ledger.read() as reader:
            return Standing(runs=reader.runs.records(), sets=reader.sets.records())


def nothing_is_stuck(ws: Workspace, found: Standing) -> Iterator[str]:
    """Once `recover` and `follow` have been called, nothing is under way and nothing asks for what cannot be done."""
    under_way = (RunState.STAGING, RunState.GATING, RunState.PUBLISHING)
    for run in found.runs:
        if run.state in under_way:
            yield f"run {run.run_id} is still {run.state}"
    for each in found.sets:
        if each.state in (SetState.PUBLISHING, SetState.ROLLING_BACK):
            yield f"set {each.set_id} is still {each.state}"
    with ws.ledger.read() as reader:
        for sentence in reader.outbox.unwithdrawn():
            yield f"the outbox asks to follow what does not stand: {sentence}"
    for asking in operations.asked_follow_ups(ws):
        ready = [each.table for each in asking.wanted if each.partitions]
        if ready or asking.set_id:
            yield f"{ready} have not followed {asking.entry.publication_id}: {asking}"
