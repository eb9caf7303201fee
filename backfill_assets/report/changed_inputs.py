"""Inputs that readers see otherwise than a run has read them, for reports of what is not published."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from backfill_assets.ledger.records import RunRecord
from backfill_assets.ledger.states import RunState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.graph import Graph
from backfill_assets.planning.partitions import describe

UNDECIDED = frozenset(RunState) - {
    RunState.PUBLISHING,
    RunState.PUBLISHED,
    RunState.SUPERSEDED,
    RunState.CANCELLED,
}
"""The states of a run that may yet be published, be it after it has run again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputMovedOn:
    """An input of a run of which other files are accepted now than the run pins.

    Attributes:
        table: The input.
        partitions: In how many of the partitions that the run reads.
        described: The same partitions in words.
        sentence: All of it in words.
    """

    table: str
    partitions: int
    described: str
    sentence: str


def inputs_moved_on(graph: Graph, tx: ReadTransaction, run: RunRecord) -> tuple[InputMovedOn, ...]:
    """The inputs that have been published or rolled back since a run that can still be published was planned."""
    return tuple(_moved_on(graph, tx, run)) if run.state in UNDECIDED else ()


def _moved_on(graph: Graph, tx: ReadTransaction, run: RunRecord) -> Iterator[InputMovedOn]:
    for pinned in run.manifest.inputs:
        # What another run of the same set stages is compared with that run's candidate when it is published.
        pins = {pin.partition: pin.digest for pin in pinned.partitions if pin.from_run is None}
        now = tx.versions.claims(pinned.table, list(pins))
        moved = [day for day, digest in pins.items() if day not in now or now[day].digest != digest]
        if not moved:
            continue
        described = describe(graph.table(pinned.table).grain, moved)
        yield InputMovedOn(
            table=pinned.table,
            partitions=len(moved),
            described=described,
            sentence=f"the input {pinned.table} has changed since this run was planned ({described}), and the run has "
            f"not read that: plan it again to read it",
        )
