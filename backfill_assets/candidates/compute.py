"""Computation of rows from pinned inputs, shared by staging, the warm-up proof and reproduction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill_assets.candidates.contracts import require_same_contracts, table_read
from backfill_assets.candidates.inputs import PinnedFiles, files_read
from backfill_assets.candidates.rows import rows_of
from backfill_assets.domain import DerivedTable, SourceTable, TransformContext
from backfill_assets.errors import ContractBroken
from backfill_assets.landing.bronze import bronze_rows
from backfill_assets.ledger.import_records import ImportRecord
from backfill_assets.next_steps import Advice, step
from backfill_assets.planning.filling import plan_again
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.reads import Reads, output_days
from backfill_assets.session_settings import session_digest
from backfill_assets.transforms.apply import apply_transform
from backfill_assets.transforms.references import load_pinned
from backfill_assets.transforms.schemas import current_rows, stored_schema
from backfill_assets.workspace import Workspace


def require_same_code(ws: Workspace, manifest: Manifest, *, next_step: Advice | None = None) -> None:
    """Refuses to compute for a manifest with other code, or by other session settings, than it names.

    Raises:
        ContractBroken: The modules of the domain, or the settings fixed in this project, are not the ones the run was
            planned with.
    """
    # Manifests of earlier formats do not record the settings.
    if manifest.session_digest not in ("", session_digest()):
        raise ContractBroken(
            f"run {manifest.run_id} was planned with other session settings: its manifest has "
            f"{manifest.session_digest[:12]}, those of this release are {session_digest()[:12]}.",
            next_step=next_step
            or step("run it with the release it was planned with, or plan it again: ", plan_again(manifest)),
            run_id=manifest.run_id,
        )
    require_same_contracts(ws, manifest, next_step=next_step)
    table = ws.domain.table(manifest.table)
    if not ws.code.is_present(table, manifest.transform_version, manifest.code_digest):
        code = ws.code.of(table, manifest.transform_version)
        raise ContractBroken(
            f"run {manifest.run_id} was planned with other code: its manifest has {manifest.code_digest[:12]}, "
            f"the modules of {manifest.transform} {manifest.transform_version} ({', '.join(code.modules)}) are "
            f"{code.digest[:12]}.",
            next_step=next_step
            or step("run it with the code of its manifest, or plan it again: ", plan_again(manifest)),
            run_id=manifest.run_id,
        )


def derived_rows(
    ws: Workspace,
    manifest: Manifest,
    table: DerivedTable,
    partitions: Sequence[date],
    reads: Sequence[Reads],
    files: PinnedFiles,
) -> DataFrame:
    """The rows of some output partitions, lineage included, from exactly these input files.

    Args:
        ws: The workspace.
        manifest: The run's contract.
        table: Its table.
        partitions: What this call of the transform computes.
        reads: What it reads.
        files: The files of at least the pinned input partitions.

    Raises:
        MissingInput: An input file or a pinned reference does not exist any more.
        ContractBroken: The transform failed, or returned other columns than it declares.
    """
    references = load_pinned(ws.domain, manifest.references, ws.reference_archive)
    spark = ws.spark()
    frames = {
        read.argument: _input_rows(ws, manifest, read, files, changes=read.argument in table.changes) for read in reads
    }
    ctx = TransformContext(
        run_id=manifest.run_id,
        kind=manifest.kind,
        mode=manifest.mode,
        transform_version=manifest.transform_version,
        output=output_days(manifest.grain, partitions),
        output_partitions=tuple(partitions),
        input_days={read.argument: read.days for read in reads},
        references={name: loaded.value for name, loaded in references.items()},
        spark=spark,
    )
    return apply_transform(table, table.release(manifest.transform_version), frames, ctx, manifest)


def _input_rows(ws: Workspace, manifest: Manifest, read: Reads, files: PinnedFiles, *, changes: bool) -> DataFrame:
    source = table_read(ws, manifest, read.table)
    rows = rows_of(ws, source, files_read(read, files))
    return rows if changes else current_rows(rows, source)


def source_rows(
    ws: Workspace, manifest: Manifest, table: SourceTable, partitions: Sequence[date], imports: Sequence[ImportRecord]
) -> DataFrame:
    """The rows of some days of a source table, lineage included, from the landed files that the manifest names."""
    rows = bronze_rows(ws.spark(), ws.settings, table, imports=imports, days=partitions)
    return rows.withColumn("_run_id", F.lit(manifest.run_id)).select(*stored_schema(table).fieldNames())
