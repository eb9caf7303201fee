"""Descriptions and metadata of tables and runs for Dagster's pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from dagster import MetadataValue, TableColumn, TableColumnConstraints, TableRecord, TableSchema

from backfill_assets.domain import DerivedTable, SourceTable, Table
from backfill_assets.evidence.measured import Moves, partition_moves
from backfill_assets.evidence.references import references_described
from backfill_assets.ledger.records import CandidatePartition, GateResult, PublicationRecord
from backfill_assets.planning.graph import TableNode
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.windows import AnyWindow

GATES = TableSchema(
    columns=[TableColumn("gate", "string"), TableColumn("demands", "string"), TableColumn("blocks", "string")]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The metadata of a materialization: of the whole run, and of each partition."""

    of_run: Mapping[str, Any]
    by_partition: Mapping[date, Mapping[str, Any]]


# ---------------------------------------------------------------------------------------------------- definitions


def source(table: SourceTable) -> str:
    """The description of a bronze asset."""
    return (
        f"{table.description}\n\nBuilt from the files that have landed: the latest arrival of a key wins. "
        f"Materializing a day rebuilds it, measures its gates and publishes it."
    ).strip()


def candidate(table: DerivedTable) -> str:
    """The description of a candidate asset."""
    return (
        f"Staged rows of `{table.name}`, not visible to readers. Its partition mapping is the window of days that "
        f"the transform reads, warm-up included.\n\nLaunch a range to stage an ad-hoc run; the tag "
        f"`backfill/by` names who asks and is required, `backfill/reason` states why, and `backfill/transform_version` "
        f"asks for another release.\n\n"
        f"{table.description}"
    )


def validation(table: DerivedTable) -> str:
    """The description of a validation asset."""
    return (
        f"What the gates of `{table.name}` found in the staged rows, and how these differ from the accepted ones. "
        f"Materialized whether the gates pass or fail; a blocking gate that fails keeps `{table.name}` as it is."
    )


def published_table(table: DerivedTable) -> str:
    """The description of the asset that readers know."""
    return (
        f"Materializing a range publishes the staged run over exactly that range, in one commit. It is refused "
        f"unless every blocking gate has passed and the run is approved.\n\n{table.description}"
    )


def table_metadata(table: Table) -> Mapping[str, Any]:
    """What a published table promises its readers."""
    return {"dagster/table_name": table.name, **row_metadata(table), **gate_metadata(table)}


def row_metadata(table: Table) -> Mapping[str, Any]:
    """What a row of a table is, staged or published."""
    return {
        "dagster/column_schema": TableSchema(
            columns=[
                TableColumn(
                    column.name,
                    column.dataType.simpleString(),
                    constraints=TableColumnConstraints(nullable=column.nullable),
                )
                for column in table.schema.fields
            ]
        ),
        "key": ", ".join(table.key),
        "partitioned by": f"{table.partition.column}, {table.partition.grain}",
    }


def gate_metadata(table: Table) -> Mapping[str, Any]:
    """The gates of a table and what they demand."""
    rows = [
        TableRecord({"gate": gate.name, "demands": gate.demands, "blocks": "yes" if gate.blocking else "no"})
        for gate in table.gates
    ]
    return {"gates": MetadataValue.table(rows, schema=GATES)}


def transform_metadata(table: DerivedTable, node: TableNode) -> Mapping[str, Any]:
    """How a derived table is computed."""
    return {
        "transform": table.transform,
        "transform versions": ", ".join(release.version for release in table.releases),
        **{f"window of {edge.argument}": _window(edge.window) for edge in node.inputs},
        **({"references": ", ".join(table.references)} if table.references else {}),
    }


def _window(window: AnyWindow) -> str:
    return str(window) if any(window.counts) else "the same days"


# ----------------------------------------------------------------------------------------------------------- runs


def staged(found: Mapping[date, CandidatePartition], manifest: Manifest) -> Numbers:
    """What staging wrote."""
    return Numbers(
        of_run={**_run_id(found.values()), **_references(manifest)},
        by_partition={
            day: {"rows": partition.rows, "files": len(partition.files.files)} for day, partition in found.items()
        },
    )


def measured(found: Mapping[date, CandidatePartition], results: Iterable[GateResult]) -> Numbers:
    """What the gates measured."""
    differences = {part.partition: _differences(part.moves) for part in partition_moves(results, found)}
    return Numbers(
        of_run=_run_id(found.values()),
        by_partition={day: {"rows": partition.rows, **differences.get(day, {})} for day, partition in found.items()},
    )


def _differences(moves: Moves) -> Mapping[str, int]:
    return {
        "added": moves.added,
        "changed": moves.changed,
        "removed": moves.removed,
        "unchanged": moves.unchanged,
    }


def published(
    record: PublicationRecord, staged_partitions: Mapping[date, CandidatePartition], manifest: Manifest, url: str
) -> Numbers:
    """What a publication changed; a partition it left alone already held the same rows."""
    changed = {change.partition: change for change in record.intent.changes}
    return Numbers(
        of_run={
            "run_id": record.intent.run_id,
            "publication_id": record.intent.publication_id,
            "table version": record.delta_version,
            "dagster/uri": url,
            **_references(manifest),
        },
        by_partition={
            day: {"rows": partition.rows, "swapped": day in changed} for day, partition in staged_partitions.items()
        },
    )


def _references(manifest: Manifest) -> Mapping[str, str]:
    """With which versions of its references a run was computed, and which truth these give."""
    described = references_described(manifest.references)
    return {"references": described} if described else {}


def _run_id(partitions: Iterable[CandidatePartition]) -> Mapping[str, Any]:
    return {"run_id": ", ".join(sorted({partition.run_id for partition in partitions}))}
