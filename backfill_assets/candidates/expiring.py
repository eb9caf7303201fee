"""Expiring snapshots: what a run stages and measures that computes nothing, and whether its snapshots may still go."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

from backfill_assets.core.identity import EMPTY_FILE_SET
from backfill_assets.domain import DerivedTable
from backfill_assets.gates.measured import ExpiringPartition, Measured
from backfill_assets.lake.checksums import NO_ROWS
from backfill_assets.ledger.provenance import NOTHING_RECORDED
from backfill_assets.ledger.records import CandidatePartition, PartitionVersion
from backfill_assets.ledger.states import OPEN_STATES
from backfill_assets.ledger.store import EVER_PUBLISHED
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.request import no_longer_expires
from backfill_assets.workspace import Workspace


def without_rows(manifest: Manifest) -> list[CandidatePartition]:
    """The candidates of an expiry: no snapshot has files."""
    return [
        CandidatePartition(
            run_id=manifest.run_id, partition=partition, files=EMPTY_FILE_SET, rows=0, provenance=NOTHING_RECORDED
        )
        for partition in manifest.partitions
    ]


def all_removed(partition: date, accepted: PartitionVersion | None) -> Measured:
    """The measurements of a snapshot that expires: every accepted row of it goes."""
    rows = accepted.rows if accepted else 0
    return Measured(
        partition=partition,
        checksum=NO_ROWS,
        accepted_rows=rows,
        accepted_checksum=accepted.checksum if accepted else NO_ROWS,
        removed=rows,
    )


def expiring(ws: Workspace, tx: ReadTransaction, manifest: Manifest) -> Mapping[date, ExpiringPartition]:
    """The objections to letting the snapshots of a run expire, by partition; reads the ledger alone."""
    table = ws.domain.tables.get(manifest.table)
    keep = table.keep if isinstance(table, DerivedTable) else None
    others = no_longer_expires(manifest, keep, tx.versions.claims(manifest.table))
    read_by = _read_by(ws, tx, manifest)
    return {p: ExpiringPartition(others=others, read_by=read_by.get(p, "")) for p in manifest.partitions}


def _read_by(ws: Workspace, tx: ReadTransaction, manifest: Manifest) -> Mapping[date, str]:
    """The open runs that read snapshots of a run: those that begin with one, and those of tables that read it."""
    readers = [node.name for node in ws.graph.tables.values() if manifest.table in {e.table for e in node.inputs}]
    return {
        pin.partition: run.run_id
        for name in (manifest.table, *readers)
        for run in tx.runs.records(table=name, states=OPEN_STATES, modes=EVER_PUBLISHED)
        if run.manifest.computed
        for pinned in run.manifest.pinned
        if pinned.table == manifest.table
        for pin in pinned.partitions
        if pin.from_run is None
    }
