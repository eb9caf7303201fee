"""Gates on the usual: the accepted partitions before a run, as the ledger knows them.

Rows are counted by the ledger, and it keeps the breakdown of what was measured. Only what it does not keep is read, of
all partitions in one pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType

from backfill_assets.candidates.rows import lost_partitions, rows_of
from backfill_assets.domain import Breakdown, Gate, Table, Usual
from backfill_assets.domain.breakdown import ROWS
from backfill_assets.gates.judge import Verdict
from backfill_assets.gates.measure import Cells, breakdown_of, contents, declared_by
from backfill_assets.gates.measured import Measured
from backfill_assets.gates.usual import Amounts, History, amounts_of, compared_with, judged
from backfill_assets.ledger.findings import GateReads, PartitionCell, UsualPoint
from backfill_assets.ledger.records import PartitionVersion
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import PinnedInput, PinnedPartition
from backfill_assets.planning.state import AcceptedPartition
from backfill_assets.transforms.schemas import business_schema, former_columns_of, stored_schema
from backfill_assets.workspace import Workspace

BEFORE = "accepted before"
"""What stands for the argument of a gate that reads the accepted partitions before those of its run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsualMeasures:
    """The results of the gates on the usual."""

    verdicts: Mapping[str, Mapping[date, Verdict]]  #: By gate and partition.
    points: tuple[UsualPoint, ...]  #: The numbers behind them.
    reads: tuple[GateReads, ...]  #: The accepted versions that were compared with, by gate.


NOT_ASKED = UsualMeasures(verdicts={}, points=(), reads=())


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSides:
    """The measures of a run's partitions and of the accepted ones."""

    staged: Mapping[date, Measured]  #: The staged rows; partitions without rows are absent.
    accepted: Mapping[date, PartitionVersion]  #: The accepted versions of the same partitions.
    cells: Cells  #: The breakdown of these, where it is known.


def as_usual(
    ws: Workspace, manifest: Manifest, table: Table, asked: Sequence[Gate], sides: MeasuredSides
) -> UsualMeasures:
    """Holds the partitions of a run against the accepted ones before them.

    Args:
        asked: The gates that are measured, of any kind.
        sides: The staged rows, and the accepted ones that they would replace.
    """
    gates = [gate for gate in asked if isinstance(gate, Usual)]
    if not gates:
        return NOT_ASKED
    breakdown = breakdown_of(table)
    with ws.ledger.read() as tx:
        tested = restated(tx, manifest)
        claims = tx.versions.claims(table.name)
        before = {gate.name: compared_with(gate, manifest.grain, tested, claims) for gate in gates}
        wanted = {each for gate in gates for p in manifest.partitions for each in before[gate.name][p]} & claims.keys()
        kept = _kept_cells(tx, {p: claims[p] for p in wanted}, breakdown) if any(map(_needs_cells, gates)) else {}
        far = {gate.name: tx.candidates.far_from_usual(table.name, gate.name, wanted) for gate in gates}
        groups = {gate.name: _far_groups(tx, gate, far[gate.name], claims) for gate in gates if gate.by}
        missing = wanted - kept.keys() if any(map(_needs_cells, gates)) else set()
        versions = tx.versions.accepted(table.name, sorted(missing)) if missing else {}
    cells = {**kept, **_read_cells(ws, table, versions, breakdown)}
    verdicts: dict[str, Mapping[date, Verdict]] = {}
    points: list[UsualPoint] = []
    for gate in gates:
        known_groups = groups.get(gate.name, {})
        # Which groups were far can have been erased: then none of this partition is compared with.
        erased = far[gate.name].keys() - {p for p, _ in known_groups} if gate.by else set()
        is_count = _is_count(ws, table, gate, breakdown)
        history = History(
            before=before[gate.name],
            amounts=_known(
                (p, amounts_of(gate, claims[p].rows, cells.get(p, ())))
                for p in wanted - erased
                if not _needs_cells(gate) or p in cells
            ),
            far=groups.get(gate.name, {(p, ()): side for p, (side, _) in far[gate.name].items()}),
            by_person={p for p, (_, by_person) in far[gate.name].items() if by_person},
        )
        found = judged(gate, _staged(gate, manifest, sides), _accepted(gate, sides), history, is_count=is_count)
        verdicts[gate.name] = found.verdicts
        points += found.points
    reads = tuple(_reads(manifest, gate, before[gate.name], claims) for gate in gates)
    return UsualMeasures(verdicts=verdicts, points=tuple(points), reads=reads)


def _reads(
    manifest: Manifest, gate: Usual, before: Mapping[date, Sequence[date]], claims: Mapping[date, AcceptedPartition]
) -> GateReads:
    """The partitions with which a gate compared, as they are recorded; one that was not accepted has version 0."""
    pins = tuple(
        PinnedPartition(
            partition=each,
            version=claims[each].version if each in claims else 0,
            digest=claims[each].digest if each in claims else "",
        )
        for each in sorted({each for p in manifest.partitions for each in before[p]})
    )
    compared = PinnedInput(argument=BEFORE, table=manifest.table, partitions=pins)
    return GateReads(run_id=manifest.run_id, gate=gate.name, inputs=(compared,))


def restated(tx: ReadTransaction, manifest: Manifest) -> frozenset[date]:
    """The partitions of a table that a run restates, or another run of its restatement."""
    others = [other.manifest for other in tx.runs.of_request(manifest.request_id)]
    same = (p for other in others if other.table == manifest.table for p in other.partitions)
    return frozenset((*manifest.partitions, *same))


def _needs_cells(gate: Usual) -> bool:
    return gate.measure != ROWS or bool(gate.by)


def _is_count(ws: Workspace, table: Table, gate: Usual, breakdown: Breakdown | None) -> bool:
    """True if a measure counts rows: all of them, or those that meet a condition."""
    if gate.measure == ROWS or breakdown is None:
        return True
    # Of no rows: only the type of the expression is asked for.
    rows = ws.spark().createDataFrame([], stored_schema(table))
    return isinstance(rows.select(F.expr(breakdown.measures[gate.measure])).schema.fields[0].dataType, BooleanType)


def _kept_cells(
    tx: ReadTransaction, claims: Mapping[date, AcceptedPartition], breakdown: Breakdown | None
) -> Mapping[date, Sequence[PartitionCell]]:
    """The breakdown of accepted partitions as far as the ledger keeps it, of exactly their files."""
    if breakdown is None:
        return {}
    declared = declared_by(breakdown)
    found = tx.samples.partition_cells(claim.run_id for claim in claims.values())
    cells = {(each.partition, each.files): each.cells for each in found if each.declared == declared}
    kept: dict[date, Sequence[PartitionCell]] = {p: () for p, claim in claims.items() if not claim.rows}
    return kept | {p: cells[p, claim.digest] for p, claim in claims.items() if (p, claim.digest) in cells}


def _read_cells(
    ws: Workspace, table: Table, versions: Mapping[date, PartitionVersion], breakdown: Breakdown | None
) -> Cells:
    """The breakdown of accepted partitions from their rows. Those whose files are lost, or have columns of before, are
    not known."""
    if not versions or breakdown is None or former_columns_of(ws.lake, table) is not None:
        return {}
    lost = lost_partitions(ws, table, versions, repairs=False)
    files = [version.files for p, version in versions.items() if p not in lost]
    if not files:
        return {}
    rows = rows_of(ws, table, files, as_readers_see=True)
    found = contents(rows, table, schema=business_schema(table), breakdown=breakdown)
    return {p: found[p].cells if p in found else () for p in versions if p not in lost}


def _far_groups(
    tx: ReadTransaction, gate: Usual, far: Mapping[date, tuple[str, bool]], claims: Mapping[date, AcceptedPartition]
) -> Mapping[tuple[date, tuple[str | None, ...]], str]:
    """The groups of accepted partitions that were far from the usual, and on which side."""
    found: dict[tuple[date, tuple[str | None, ...]], str] = {}
    for run_id in sorted({claims[p].run_id for p in far}):
        for point in tx.samples.latest(run_id, UsualPoint):
            if point.gate == gate.name and point.is_tested and point.far and point.by.keys() == set(gate.by):
                claim = claims.get(point.partition)
                if claim is not None and claim.run_id == run_id:
                    found[point.partition, tuple(point.by[name] for name in gate.by)] = point.far
    return found


def _staged(gate: Usual, manifest: Manifest, sides: MeasuredSides) -> Mapping[date, Amounts | None]:
    nothing = Measured(partition=date.min)
    measured = {p: sides.staged.get(p, nothing) for p in manifest.partitions}
    return {p: amounts_of(gate, each.rows, each.cells) for p, each in measured.items()}


def _accepted(gate: Usual, sides: MeasuredSides) -> Mapping[date, Amounts]:
    without_rows = {p: () for p, version in sides.accepted.items() if not version.rows}
    cells = {**sides.cells, **without_rows}
    return _known(
        (p, amounts_of(gate, version.rows, cells.get(p, ())))
        for p, version in sides.accepted.items()
        if not _needs_cells(gate) or p in cells
    )


def _known(found: Iterable[tuple[date, Amounts | None]]) -> Mapping[date, Amounts]:
    return {p: amounts for p, amounts in found if amounts is not None}
