"""What gates have read since they were measured: it has to be what readers see when their run is published. And gates
that were declared since: a run is measured with them before it is published.

The rule is that of the table itself: a run that was compared with other rows than the accepted ones is measured again.
What measures a run is pinned in its manifest, so that one that lacks a gate is planned again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from backfill_assets.gates.agreed import gates_since
from backfill_assets.ledger.records import PublicationRecord
from backfill_assets.ledger.states import PublicationState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import Kind, PinnedInput
from backfill_assets.planning.partitions import Partitions
from backfill_assets.publication.errors import DeclaredSince, ReadByGateSince
from backfill_assets.publication.verdict import brings_back_what_was_recorded
from backfill_assets.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedSince:
    """What a gate has read that has changed since."""

    gate: str  #: The name of the gate.
    name: str  #: The table, or the reference.
    partitions: Partitions | None = None  #: The partitions of the table; None for a reference.


def changed_since_measured(ws: Workspace, tx: ReadTransaction, run_id: str) -> ChangedSince | None:
    """What a gate of a run has read that is not what it was when it was measured; None where all of it is.

    Cost: the claims of the partitions that its gates have read, and the publications that are under way.
    """
    return next(_changed(ws, tx, run_id), None)


def require_read_as_measured(ws: Workspace, tx: ReadTransaction, run_id: str) -> None:
    """Refuses a run whose gates have read other rows, or another version of a reference, than there are now.

    Raises:
        ReadByGateSince: It has to be measured again.
    """
    if changed := changed_since_measured(ws, tx, run_id):
        raise ReadByGateSince(run_id=run_id, gate=changed.gate, name=changed.name, partitions=changed.partitions)


def declared_since_planned(ws: Workspace, tx: ReadTransaction, manifest: Manifest) -> tuple[str, ...]:
    """The present gates of a table that a run of it was not planned with; see `gates.agreed.gates_since`.

    None of a repair that brings rows back which were accepted before: gates block nothing of it.
    """
    table = ws.domain.tables.get(manifest.table)
    if table is None or not (found := gates_since(manifest, table, ws.code.gate_digests(table))):
        return ()
    is_repair = manifest.kind is Kind.REPAIR
    return () if is_repair and brings_back_what_was_recorded(tx, tx.runs.get(manifest.run_id)) else found


def require_present_gates(ws: Workspace, tx: ReadTransaction, manifest: Manifest) -> None:
    """Refuses a run that was not measured with the gates that its table declares now.

    Raises:
        DeclaredSince: It has to be planned again.
    """
    if gates := declared_since_planned(ws, tx, manifest):
        raise DeclaredSince(run_id=manifest.run_id, table=manifest.table, gates=gates, manifest=manifest)


def _changed(ws: Workspace, tx: ReadTransaction, run_id: str) -> Iterator[ChangedSince]:
    read = tx.candidates.read_by_gates(run_id)
    reads_tables = any(reads.inputs for reads in read)
    under_way = tx.publications.records(states=[PublicationState.PUBLISHING]) if reads_tables else ()
    for reads in read:
        for pinned in reads.inputs:
            if moved := _moved(tx, pinned, under_way):
                grain = ws.graph.table(pinned.table).grain
                yield ChangedSince(gate=reads.gate, name=pinned.table, partitions=Partitions.of(grain, moved))
        for reference in reads.references:
            present = ws.references.get(reference.name)
            if present is None or present.sha256 != reference.sha256:
                yield ChangedSince(gate=reads.gate, name=reference.name)


def _moved(tx: ReadTransaction, pinned: PinnedInput, under_way: Iterable[PublicationRecord]) -> Sequence[date]:
    """The partitions of which readers see another version, or the same run of a set has staged another candidate.

    Of a publication that is not recorded yet, readers may see the rows already.
    """
    taken = {
        change.partition: record.run_id
        for record in under_way
        if record.table == pinned.table
        for change in record.changes
    }
    claims = tx.versions.claims(pinned.table, [pin.partition for pin in pinned.partitions])
    staged = {run: tx.candidates.digests(run) for run in {pin.from_run for pin in pinned.partitions} if run}
    moved = []
    for pin in pinned.partitions:
        claim = claims.get(pin.partition)
        is_same = (claim.version if claim else 0) == pin.version
        if pin.from_run is not None:
            is_published = claim is not None and claim.run_id == pin.from_run
            is_same = is_published or (is_same and staged[pin.from_run].get(pin.partition) == pin.digest)
        if not is_same or taken.get(pin.partition, pin.from_run) != pin.from_run:
            moved.append(pin.partition)
    return moved
