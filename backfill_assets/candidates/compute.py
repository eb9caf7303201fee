"""Computation of rows from pinned inputs, shared by staging, the warm-up proof and reproduction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill_assets.calendar.partitions import partition_of
from backfill_assets.candidates.inputs import PinnedFiles, files_read, pinned_files
from backfill_assets.candidates.merging import MergedRows
from backfill_assets.candidates.piloting import PilotedRows
from backfill_assets.candidates.rows import require_columns_of_files, rows_of
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.identity import FileSet
from backfill_assets.core.session_settings import session_digest
from backfill_assets.domain import DerivedTable, SourceTable, Table, TransformContext
from backfill_assets.domain.errors import PlannedOtherwise
from backfill_assets.landing.bronze import bronze_rows
from backfill_assets.landing.imports import FIRST
from backfill_assets.ledger.imports import ImportRecord
from backfill_assets.planning.manifest import MERGED_WITH, Manifest, node_of
from backfill_assets.planning.manifest_parts import Kind, Mode, PinnedInput
from backfill_assets.planning.reads import Reads, output_days, reads_of
from backfill_assets.planning.stages import continuing
from backfill_assets.transforms.apply import CHECK, apply_transform, called_transform, calls_python, with_lineage
from backfill_assets.transforms.code import archived, what_changed
from backfill_assets.transforms.definitions import Sources
from backfill_assets.transforms.references import load_pinned
from backfill_assets.transforms.schemas import current_rows, other_columns, stored_schema
from backfill_assets.transforms.workers import require_same_in_workers
from backfill_assets.workspace import Workspace


def require_same_code(ws: Workspace, manifest: Manifest) -> None:
    """Refuses to compute for a manifest with other code, or by other session settings, than it names.

    Raises:
        ContractBroken: The modules of the domain, or the settings fixed in this project, are not the ones the run was
            planned with.
    """
    if manifest.session_digest != session_digest():
        difference = (
            f"was planned with other session settings: its manifest has {manifest.session_digest[:12]}, those of this "
            f"release are {session_digest()[:12]}"
        )
        raise PlannedOtherwise(run_id=manifest.run_id, difference=difference, manifest=manifest)
    require_same_contracts(ws, manifest)
    require_same_beginning(ws, manifest)
    code = ws.code.of(ws.domain.table(manifest.table), manifest.transform_version)
    if code.digest != manifest.code_digest:
        files = ws.reference_archive
        changed = what_changed(archived(manifest.code_digest, files), code, files)
        difference = (
            f"was planned with other code: its manifest has {manifest.code_digest[:12]}, the modules of "
            f"{manifest.transform} {manifest.transform_version} ({', '.join(code.modules)}), with the values of their "
            f"names, are {code.digest[:12]}{f'; changed: {changed}' if changed else ''}"
        )
        raise PlannedOtherwise(run_id=manifest.run_id, difference=difference, manifest=manifest)


def derived_rows(
    ws: Workspace,
    manifest: Manifest,
    table: DerivedTable,
    partitions: Sequence[date],
    reads: Sequence[Reads],
    files: PinnedFiles,
    state: State | None = None,
) -> DataFrame:
    """The rows of some output partitions, lineage included, from exactly these input files.

    Where the transform returns changes, these are merged with the accepted rows that the manifest pins; those stay
    outside of the scope of a pilot. Accepted rows that stay go on naming the runs that computed them.

    Args:
        ws: The workspace.
        manifest: The run's contract.
        partitions: What this call of the transform computes.
        reads: What it reads.
        files: The files of at least the pinned input partitions.
        state: The snapshot that is continued; None for the one that the run begins with.

    Raises:
        MissingInput: An input file or a pinned reference does not exist any more.
        ContractBroken: The transform failed, or returned other columns than it declares.
    """
    rows = returned_rows(ws, manifest, table, partitions, reads, files, state)
    return manifest.change.content(
        computed=lambda: with_lineage(rows, table, manifest),
        merged=lambda merge: MergedRows(
            ws=ws, manifest=manifest, change=merge, table=table, partitions=partitions, files=files, changes=rows
        ).rows(),
        piloted=lambda scope: PilotedRows(ws=ws, scope=scope, table=table, partitions=partitions, files=files).rows(
            with_lineage(rows, table, manifest)
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The snapshot that a call continues, with its files; None for a cold start."""

    snapshot: date | None
    files: FileSet | None


def pinned_state(manifest: Manifest, files: PinnedFiles, *, earlier: bool = False) -> State:
    """The accepted snapshot that a run begins with, or the one before it."""
    pins = manifest.base.partitions if manifest.base else ()
    chosen = pins[:-1] if earlier else pins
    if not chosen:
        return State(snapshot=None, files=None)
    snapshot = chosen[-1].partition
    return State(snapshot=snapshot, files=files[MERGED_WITH][snapshot])


def returned_rows(
    ws: Workspace,
    manifest: Manifest,
    table: DerivedTable,
    partitions: Sequence[date],
    reads: Sequence[Reads],
    files: PinnedFiles,
    state: State | None = None,
) -> DataFrame:
    """The rows or changes that the transform of a run returns for some output partitions; see `derived_rows`."""
    references = load_pinned(ws.domain, manifest.references, ws.reference_archive)
    spark = ws.spark()
    own: dict[str, DataFrame] = {}
    if table.state is not None:
        found = state or pinned_state(manifest, files)
        reads = continuing(manifest, ws.graph, partitions, found.snapshot)
        own = {table.state: rows_of(ws, table, [found.files] if found.files else [])}
    frames = own | {
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
    release = table.release(manifest.transform_version)
    rows = apply_transform(table, release, frames, ctx, Sources.of(ws.domain))
    # A function can assign names of its module, or change what they hold.
    require_same_code(ws, manifest)
    if calls_python(table, release, manifest.run_id):
        require_same_in_workers(
            rows.sparkSession,
            ws.domain,
            ws.settings.domain,
            table.name,
            release.version,
            planned=manifest.code_digest,
            named=f"the transform {table.transform} {release.version} of {table.name}",
        )
    return rows


def pinned_inputs(ws: Workspace, manifest: Manifest, table: DerivedTable) -> Mapping[str, Callable[[], DataFrame]]:
    """The inputs of a run as its transform reads them, by argument: the rows of every file that it pins. None is read
    before it is asked for."""

    def rows(pinned: PinnedInput) -> DataFrame:
        with ws.ledger.read() as tx:
            files = pinned_files(tx, manifest.run_id, [pinned])[pinned.argument]
        return _rows_of_input(ws, manifest, pinned.table, files.values(), changes=pinned.argument in table.changes)

    return {pinned.argument: partial(rows, pinned) for pinned in manifest.inputs}


def _input_rows(ws: Workspace, manifest: Manifest, read: Reads, files: PinnedFiles, *, changes: bool) -> DataFrame:
    return _rows_of_input(ws, manifest, read.table, files_read(read, files), changes=changes)


def _rows_of_input(
    ws: Workspace, manifest: Manifest, name: str, files: Iterable[FileSet], *, changes: bool
) -> DataFrame:
    source, wanted = table_read(ws, manifest, name), tuple(files)
    rows = rows_of(ws, source, wanted)
    if isinstance(source, SourceTable) and other_columns(ws.lake, source):
        require_columns_of_files(ws, source, wanted)
    return rows if changes else current_rows(rows, source)


def source_rows(
    ws: Workspace,
    manifest: Manifest,
    table: SourceTable,
    partitions: Sequence[date],
    imports: Sequence[ImportRecord],
    *,
    raw_owner: str = "",
) -> DataFrame:
    """The rows of some days of a source table, lineage included, from the landed files that the manifest names.

    Args:
        raw_owner: As for `bronze_rows`.
    """
    rows = bronze_rows(ws.spark(), ws.settings, table, imports=imports, days=partitions, raw_owner=raw_owner)
    return rows.withColumn("_run_id", F.lit(manifest.run_id)).select(*stored_schema(table).fieldNames())


def table_built(ws: Workspace, manifest: Manifest) -> Table:
    """The table of a run; a source in the version of its contract that the run builds."""
    table = ws.domain.table(manifest.table)
    if not isinstance(table, SourceTable):
        return table
    return table.at(ws.contracts[table.name].version_built(manifest.configuration) or table.contract_version)


def table_read(ws: Workspace, manifest: Manifest, name: str) -> Table:
    """An input of a run; a source in the version of its contract that the run reads.

    Raises:
        ContractBroken: The domain has no such version any more, or its lifts are other code.
    """
    table = ws.domain.table(name)
    if not isinstance(table, SourceTable):
        return table
    recorded = manifest.configuration.get("contracts", {}).get(name, FIRST)
    version = ws.contracts[table.name].version_read(recorded)
    if version is None:
        difference = (
            f"reads {name} in version {recorded} of its contract, with the code of the lifts before it, and the domain "
            f"has {ws.contracts[table.name].named()}"
        )
        raise PlannedOtherwise(run_id=manifest.run_id, difference=difference, manifest=manifest)
    return table.at(version)


def require_same_contracts(ws: Workspace, manifest: Manifest) -> None:
    """Refuses to compute for a manifest by contracts that the domain does not have any more.

    Raises:
        ContractBroken: A contract version that the run builds or reads is not among those of the domain.
    """
    table = ws.domain.table(manifest.table)
    if not isinstance(table, SourceTable):
        for pinned in manifest.inputs:
            table_read(ws, manifest, pinned.table)
    elif table.earlier and ws.contracts[table.name].version_built(manifest.configuration) is None:
        difference = (
            f"builds {table.name} by a contract that is not one of the {table.contract_version} versions that the "
            "domain declares, or with other code of their lifts"
        )
        raise PlannedOtherwise(run_id=manifest.run_id, difference=difference, manifest=manifest)


def require_same_beginning(ws: Workspace, manifest: Manifest) -> None:
    """Refuses to compute a state that begins on another day than it was planned with: it pins the days from there on.

    Raises:
        ContractBroken: `BACKFILL_FIRST_DAY` has changed since the run was planned.
    """
    node = node_of(manifest)
    for edge, pinned in zip(node.inputs, manifest.inputs, strict=True):
        planned = [pin.partition for pin in pinned.partitions]
        if edge.window.is_unbounded and set(planned) != set(ws.graph.needed(edge, node, manifest.partitions)):
            difference = (
                f"was planned with days of {pinned.table} since {min(planned, default=None)}, and by "
                f"BACKFILL_FIRST_DAY the state of {manifest.table} begins on {ws.graph.begins(node)} now"
            )
            raise PlannedOtherwise(run_id=manifest.run_id, difference=difference, manifest=manifest)


def require_present_contract(ws: Workspace, manifest: Manifest) -> None:
    """Refuses to stage rows of a source by an earlier contract than the present one.

    Raises:
        ContractBroken: The contract has changed since the run was planned.
    """
    table = table_built(ws, manifest)
    present = ws.domain.table(manifest.table)
    if isinstance(table, SourceTable) and isinstance(present, SourceTable) and table is not present:
        difference = (
            f"was planned with version {table.contract_version} of the contract of {manifest.table}, and the domain "
            f"declares version {present.contract_version} now"
        )
        raise PlannedOtherwise(run_id=manifest.run_id, difference=difference, manifest=manifest)


def cannot_compute(ws: Workspace, table: DerivedTable) -> str | None:
    """Why the present release of a table cannot be computed from inputs as they are declared; None if it can."""
    node = ws.graph.table(table.name)
    partition = partition_of(table.partition.grain, ws.graph.begins(node))
    reads = reads_of(node, ws.graph, (partition,))
    ctx = TransformContext(
        run_id=CHECK,
        kind=Kind.BACKFILL,
        mode=Mode.DRY_RUN,
        transform_version=table.version,
        output=output_days(table.partition.grain, (partition,)),
        output_partitions=(partition,),
        input_days={read.argument: read.days for read in reads},
        references={name: ws.references[name].value for name in table.references},
        spark=ws.spark(),
    )
    frames = inputs_without_rows(ws, table)
    if table.state is not None:
        frames[table.state] = rows_of(ws, table, ())
    try:
        called_transform(table, table.release(None), frames, ctx, Sources.of(ws.domain))
    except BackfillError as error:
        return error.message.rstrip(".")
    return None


def inputs_without_rows(ws: Workspace, table: DerivedTable) -> dict[str, DataFrame]:
    """The inputs of a table as its functions read them, by argument, without any rows."""
    return {
        argument: no_rows if argument in table.changes else current_rows(no_rows, source)
        for argument, source in table.inputs.items()
        for no_rows in [rows_of(ws, source, ())]
    }


def unreadable_by(ws: Workspace, table: str) -> Mapping[str, str]:
    """The declared readers of a table that cannot read its declared columns, with the reason."""
    readers = [reader for reader in ws.domain.derived if table in {each.name for each in reader.inputs.values()}]
    found = {reader.name: cannot_compute(ws, reader) for reader in readers}
    return {reader: reason for reader, reason in found.items() if reason is not None}
