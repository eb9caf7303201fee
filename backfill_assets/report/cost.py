"""Cost of a run: what it has read and written so far, how fast, and what its time went to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from backfill_assets.core.tariff import Cost, Tariff
from backfill_assets.ledger.events import (
    ALL_GATES,
    CORE_MS,
    EXPECTED_CORE_MS,
    GATES_RECORDED,
    core_seconds_of_chunks,
    seconds_of_gates,
)
from backfill_assets.ledger.records import (
    Action,
    CandidatePartition,
    ChunkRecord,
    EventRecord,
    PublicationHeader,
    RunRecord,
)
from backfill_assets.ledger.transactions import ReadTransaction


@dataclass(frozen=True, slots=True, kw_only=True)
class CostDocument:
    """The cost of a run so far."""

    chunks: int  #: In how many chunks it was computed.
    input_rows: int  #: How many rows these read.
    output_rows: int  #: How many rows they wrote.
    read_bytes: int  #: Of the input files that it names, each counted once.
    files: int  #: How many files are staged.
    size_bytes: int  #: Of these files.
    rows_per_second: int | None  #: How many rows its chunks wrote in a second; null before one is done.
    staging_seconds: float  #: How long the chunks took together.
    gating_seconds: float | None  #: How long the last gating took; null before it ended.
    #: Of these, how long measuring and comparing with accepted rows took; null where that is not recorded.
    comparing_seconds: float | None
    proving_seconds: float | None  #: Of these, how long the proof of the window took, or null.
    publishing_seconds: float | None  #: How long its last publication took; null before it.
    #: What computing and gates have cost: processor time. Of chunks of earlier releases, which did not measure it, the
    #: time that they took on all cores.
    spent: Cost
    #: What they were expected to cost when it was planned; null where no earlier run of the table has been measured.
    expected: Cost | None


def cost_of(
    chunks: Sequence[ChunkRecord],
    candidates: Iterable[CandidatePartition],
    events: Sequence[EventRecord],
    publications: Iterable[PublicationHeader],
    *,
    read_bytes: int,
    tariff: Tariff,
) -> CostDocument:
    """The cost of a run so far, as far as the ledger knows.

    Args:
        tariff: What computing costs.
    """
    files = [file for candidate in candidates for file in candidate.files.files]
    rows, staging = sum(chunk.output_rows or 0 for chunk in chunks), sum(chunk.seconds for chunk in chunks)
    planned, gated = _last(events, "planned"), _last(events, GATES_RECORDED)
    of_gates = {} if gated is None else {name: round(took, 1) for name, took in seconds_of_gates(gated).items()}
    expected_ms = planned.payload.get(EXPECTED_CORE_MS) if planned else None
    measured = core_seconds_of_chunks(events)
    spent = sum(measured.get(chunk.number, chunk.seconds * tariff.cores) for chunk in chunks)
    if gated is not None:
        gating_ms = gated.payload.get(CORE_MS)
        spent += of_gates.get(ALL_GATES, 0.0) * tariff.cores if gating_ms is None else gating_ms / 1000
    return CostDocument(
        chunks=len(chunks),
        input_rows=sum(chunk.input_rows or 0 for chunk in chunks),
        output_rows=rows,
        read_bytes=read_bytes,
        files=len(files),
        size_bytes=sum(file.size_bytes for file in files),
        rows_per_second=round(rows / staging) if staging else None,
        staging_seconds=round(staging, 1),
        gating_seconds=of_gates.get(ALL_GATES),
        comparing_seconds=of_gates.get("measure"),
        proving_seconds=of_gates.get("prove"),
        publishing_seconds=_publishing(publications),
        spent=tariff.spent(spent),
        expected=None if expected_ms is None else tariff.spent(expected_ms / 1000),
    )


def bytes_read(tx: ReadTransaction, run: RunRecord) -> int:
    """The size of the input files that a run names: accepted versions, and the landed files of a source table.

    Cost: one lookup per pinned partition, and per landed file.
    """
    manifest = run.manifest
    found = sum(tx.imports.get(import_id).size_bytes for import_id in manifest.change.imports)
    for pinned in manifest.pinned:
        pins = [(pin.partition, pin.version) for pin in pinned.partitions if pin.from_run is None]
        versions = tx.versions.pinned(pinned.table, pins)
        found += sum(file.size_bytes for version in versions.values() for file in version.files.files)
    return found


def _last(events: Sequence[EventRecord], action: str) -> EventRecord | None:
    """The last event of an action."""
    return next((event for event in reversed(events) if event.action == action), None)


def _publishing(publications: Iterable[PublicationHeader]) -> float | None:
    ended = [
        (each.finished_at - each.started_at).total_seconds()
        for each in publications
        if each.action is Action.PUBLISH and each.finished_at is not None and each.delta_version is not None
    ]
    return round(ended[-1], 1) if ended else None
