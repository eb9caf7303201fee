"""Computation of rows from pinned inputs, shared by staging, the warm-up proof and reproduction.

A merge takes changes that are computed from the inputs as they are now, so that an accepted row whose key no change of
its partition names has no input any more. It is removed, or kept and counted where the table declares
`keeps_withdrawn`. A key that can move to another partition is looked for in every partition of the table, which are all
pinned for that.

In a pilot, a key whose accepted or computed row is in the scope gets its computed row, so that no key is lost and none
is there twice where the two rows differ in whether they are in it. Then rows outside of the scope differ, which a gate
finds.

What is accepted is read from the files that the manifest pins, so that the same manifest gives the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial, reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from backfill_assets.calendar.partitions import partition_of
from backfill_assets.candidates.inputs import PinnedFiles, files_read, pinned_files
from backfill_assets.candidates.rows import require_columns_of_files, rows_of, stored_rows_of
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.identity import FileSet
from backfill_assets.core.session_settings import session_digest
from backfill_assets.domain import DerivedTable, SourceTable, Table, TransformContext
from backfill_assets.domain.errors import PlannedOtherwise
from backfill_assets.gates.measured import MergedPartition, PilotedPartition
from backfill_assets.lake.checksums import NO_ROWS, partition_checksums
from backfill_assets.landing.bronze import bronze_rows
from backfill_assets.landing.imports import FIRST
from backfill_assets.ledger.imports import ImportRecord
from backfill_assets.planning.kinds.change import Scope
from backfill_assets.planning.kinds.merge import Merge, Older
from backfill_assets.planning.manifest import MERGED_WITH, Manifest, node_of
from backfill_assets.planning.manifest_parts import Mode, PinnedInput, RunPurpose
from backfill_assets.planning.stages import Reads, continuing, output_days, reads_of
from backfill_assets.transforms.apply import CHECK, apply_transform, called_transform, calls_python, with_lineage
from backfill_assets.transforms.code import archived, what_changed
from backfill_assets.transforms.references import load_pinned
from backfill_assets.transforms.schemas import business_schema, current_rows, other_columns, stored_schema
from backfill_assets.transforms.statements import Sources
from backfill_assets.transforms.workers import require_same_in_workers
from backfill_assets.workspace import Workspace

_ACCEPTED_VERSION, _CHANGED_VERSION = "_accepted_version", "_changed_version"
_RANK, _TIMES, _ELSEWHERE = "_rank", "_times", "_elsewhere"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedRows:
    """The merge of the changes of some partitions."""

    ws: Workspace
    manifest: Manifest  #: The run's contract.
    change: Merge
    table: DerivedTable
    partitions: Sequence[date]  #: The partitions that are computed.
    files: PinnedFiles  #: The pinned files, those of the table itself among them.
    changes: DataFrame  #: What the transform returns for these partitions.

    def rows(self) -> DataFrame:
        """The new content, with lineage: the changes that are no deletes, and where the table keeps them, the accepted
        rows of keys that no change names."""
        columns = business_schema(self.table).fieldNames()
        named = self.named()
        changed = with_lineage(named.where(~self._is_delete()).select(*columns), self.table, self.manifest)
        if not self.change.keeps_withdrawn:
            return changed
        kept = self._accepted(inside=True).join(named.select(*self._on), self._on, "left_anti")
        return kept.unionByName(changed)

    def named(self) -> DataFrame:
        """The changes that count: where older ones are ignored, the latest of every key, if it is not older than the
        accepted row of a partition outside of the run. The rows of the run's partitions follow from its changes alone,
        unless the table keeps those that do not."""
        mode = self.change
        if mode.version is None or mode.older is Older.REFUSE:
            return self.changes
        latest = Window.partitionBy(*self._on).orderBy(F.col(mode.version).desc())
        ranked = self.changes.withColumn(_RANK, F.rank().over(latest)).where(F.col(_RANK) == 1).drop(_RANK)
        if not (mode.keeps_withdrawn or self._lacks):
            return ranked
        return self._with_accepted_version(ranked).where(~self._is_older()).drop(_ACCEPTED_VERSION)

    def measured(self, staged: DataFrame) -> Mapping[date, MergedPartition]:
        """Measures, by partition, what the changes are, which accepted rows none of them names, and whether the other
        staged rows are exactly those that stay.

        Args:
            staged: The staged rows of these partitions.
        """
        column, mode = self.table.partition.column, self.change
        of_key = Window.partitionBy(*self._on)
        decisive = [name for name in (column, *mode.on, mode.deletes, mode.version) if name]
        named = self.named()
        refuses = mode.version is not None and mode.older is Older.REFUSE
        every = self._with_accepted_version(named) if refuses else named
        counts = (
            every.withColumn(_TIMES, F.count(F.lit(1)).over(of_key))
            # What has no partition counts in the first one.
            .groupBy(F.coalesce(column, F.lit(self.partitions[0])).alias(column))
            .agg(
                F.count_if(~self._is_delete()).alias("changes"),
                F.count_if(self._is_delete()).alias("deletes"),
                F.count_if(reduce(Column.__or__, map(Column.isNull, map(F.col, decisive)))).alias("undecided"),
                F.count_if(F.col(_TIMES) > 1).alias("twice"),
                F.count_if(self._is_older() if refuses else F.lit(False)).alias("older"),
            )
        )
        found = {row[column]: row.asDict() for row in counts.collect()}
        taken_back = self._taken_back(named)
        elsewhere = self._elsewhere(named) if self._lacks else {}
        differing = self._differing(staged, named)
        every_day = sorted({*self.partitions, *found})
        return {
            partition: MergedPartition(
                **{name: found[partition][name] for name in _COUNTS if partition in found},
                taken_back=taken_back.get(partition, 0),
                are_kept=mode.keeps_withdrawn,
                elsewhere=elsewhere.get(partition, ()),
                others_differ=partition in differing,
            )
            for partition in every_day
        }

    @property
    def _on(self) -> list[str]:
        return list(self.change.on)

    @property
    def _lacks(self) -> tuple[date, ...]:
        """The partitions of the table that this does not compute, where keys can move between them."""
        held = sorted(self.files[MERGED_WITH])
        reached = {day for partition in self.partitions for day in self.change.merges_with(partition, held)}
        return tuple(sorted(reached - set(self.partitions)))

    def _is_delete(self) -> Column:
        deletes = self.change.deletes
        return F.coalesce(F.col(deletes), F.lit(False)) if deletes else F.lit(False)

    def _is_older(self) -> Column:
        version = self.change.version
        return F.coalesce(F.col(version) < F.col(_ACCEPTED_VERSION), F.lit(False)) if version else F.lit(False)

    def _accepted(self, *, inside: bool) -> DataFrame:
        """The pinned rows of the table: those of the partitions that are computed, or those of all others of it."""
        own, pinned = set(self.partitions), self.files[MERGED_WITH]
        return stored_rows_of(self.ws, self.table, (files for p, files in pinned.items() if (p in own) is inside))

    def _with_accepted_version(self, changes: DataFrame) -> DataFrame:
        """Changes with the version of the accepted row that an older one may not replace."""
        mode = self.change
        assert mode.version is not None
        counting = [self._accepted(inside=True)] if mode.keeps_withdrawn or mode.older is Older.REFUSE else []
        counting += [self._accepted(inside=False)] if self._lacks else []
        known = reduce(DataFrame.unionByName, counting).groupBy(*self._on)
        return changes.join(known.agg(F.max(mode.version).alias(_ACCEPTED_VERSION)), self._on, "left")

    def _taken_back(self, named: DataFrame) -> Mapping[date, int]:
        """The number of accepted rows of these partitions whose key no change names, by partition."""
        column = self.table.partition.column
        lost = self._accepted(inside=True).join(named.select(*self._on), self._on, "left_anti")
        return {row[column]: row["count"] for row in lost.groupBy(column).count().collect()}

    def _elsewhere(self, named: DataFrame) -> Mapping[date, tuple[date, ...]]:
        """The partitions outside the run that must be in it, by partition of the run.

        Those with accepted rows of changed keys; and unless rows stay that were taken back, all of them for a key whose
        row is not there any more or is an older one, and for one that a delete there may name: an earlier change of it
        can be in any partition.
        """
        column, mode = self.table.partition.column, self.change
        others = self._accepted(inside=False).select(*self._on, F.col(column).alias(_ELSEWHERE))
        found = named.select(column, *self._on).join(others, self._on).select(column, _ELSEWHERE).distinct().collect()
        by_partition: dict[date, set[date]] = {}
        for row in found:
            by_partition.setdefault(row[column], set()).add(row[_ELSEWHERE])
        if not mode.keeps_withdrawn:
            for partition in self._unsettled(named):
                by_partition.setdefault(partition, set()).update(self._lacks)
        return {partition: tuple(sorted(days)) for partition, days in by_partition.items()}

    def _unsettled(self, named: DataFrame) -> set[date]:
        """The partitions with keys whose row depends on changes outside of the run."""
        column, mode = self.table.partition.column, self.change
        version = F.col(mode.version) if mode.version else F.lit(0)
        changed = named.groupBy(*self._on).agg(F.max(version).alias(_CHANGED_VERSION))
        before = self._accepted(inside=True).join(changed, self._on, "left")
        is_lost = F.col(_CHANGED_VERSION).isNull() | (F.col(_CHANGED_VERSION) < version)
        unsettled = before.where(is_lost).select(column)
        again = [p for p in self.partitions if p in self.files[MERGED_WITH]]
        if mode.deletes and again:
            known = self._accepted(inside=True).unionByName(self._accepted(inside=False)).select(*self._on)
            added = named.where(~self._is_delete() & F.col(column).isin(again)).join(known, self._on, "left_anti")
            unsettled = unsettled.unionByName(added.select(column))
        return {row[column] for row in unsettled.distinct().collect()}

    def _differing(self, staged: DataFrame, named: DataFrame) -> set[date]:
        """The partitions in which rows of keys that no change names are not exactly those that stay."""
        keys, schema = named.select(*self._on), business_schema(self.table)
        column, keeps = self.table.partition.column, self.change.keeps_withdrawn
        after, before = (
            partition_checksums(rows.join(keys, self._on, "left_anti"), column, schema) if is_there else {}
            for rows, is_there in ((staged, True), (self._accepted(inside=True), keeps))
        )
        return {p for p in {*after, *before} if after.get(p, NO_ROWS) != before.get(p, NO_ROWS)}


_COUNTS = ("changes", "deletes", "undecided", "twice", "older")


_IS_COMPUTED, _IS_TAKEN = "__is_computed", "__is_taken"


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotedRows:
    """The pilot of some partitions."""

    ws: Workspace
    scope: Scope  #: The rows that change.
    table: DerivedTable
    partitions: Sequence[date]  #: The partitions that are computed.
    files: PinnedFiles  #: The pinned files, those of the table itself among them.

    def rows(self, computed: DataFrame) -> DataFrame:
        """The new content, with lineage: computed rows of keys in the scope, and the accepted rows of the others."""
        inside, of_key = is_inside(self.scope), {self.table.partition.column, *self.table.key}
        accepted = self._accepted()
        if of_key.issuperset(column for column, _ in self.scope.where):
            # Both rows of a key are inside, or neither is.
            return accepted.where(~inside).unionByName(computed.where(inside))
        both = accepted.withColumn(_IS_COMPUTED, F.lit(False)).unionByName(
            computed.withColumn(_IS_COMPUTED, F.lit(True))
        )
        is_taken = F.max(inside).over(Window.partitionBy(*sorted(of_key)))
        taken = both.withColumn(_IS_TAKEN, is_taken).where(F.col(_IS_TAKEN) == F.col(_IS_COMPUTED))
        return taken.drop(_IS_TAKEN, _IS_COMPUTED)

    def measured(self, staged: DataFrame) -> Mapping[date, PilotedPartition]:
        """Measures, by partition, how many rows the scope has, and whether the rows outside it are the accepted ones.

        Args:
            staged: The staged rows of these partitions.
        """
        column, schema, outside = self.table.partition.column, business_schema(self.table), ~is_inside(self.scope)
        after, before = (
            partition_checksums(rows.where(outside), column, schema) for rows in (staged, self._accepted())
        )
        counted = staged.where(is_inside(self.scope)).groupBy(column).count().collect()
        rows = {row[column]: row["count"] for row in counted}
        return {
            partition: PilotedPartition(
                scope=str(self.scope),
                rows=rows.get(partition, 0),
                others_differ=after.get(partition, NO_ROWS) != before.get(partition, NO_ROWS),
            )
            for partition in self.partitions
        }

    def _accepted(self) -> DataFrame:
        pinned = self.files[MERGED_WITH]
        return stored_rows_of(self.ws, self.table, (pinned[partition] for partition in self.partitions))


def is_inside(scope: Scope) -> Column:
    """True if a row is in a scope; a row without a value in a named column is outside."""
    named = [F.coalesce(F.col(column).cast("string") == F.lit(value), F.lit(False)) for column, value in scope.where]
    found = reduce(Column.__and__, named)
    return ~found if scope.is_rest else found


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
    state: ContinuedSnapshot | None = None,
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
class ContinuedSnapshot:
    """The snapshot that a call continues, with its files; None for a cold start."""

    snapshot: date | None
    files: FileSet | None


def pinned_snapshot(manifest: Manifest, files: PinnedFiles, *, earlier: bool = False) -> ContinuedSnapshot:
    """The accepted snapshot that a run begins with, or the one before it."""
    pins = manifest.base.partitions if manifest.base else ()
    chosen = pins[:-1] if earlier else pins
    if not chosen:
        return ContinuedSnapshot(snapshot=None, files=None)
    snapshot = chosen[-1].partition
    return ContinuedSnapshot(snapshot=snapshot, files=files[MERGED_WITH][snapshot])


def returned_rows(
    ws: Workspace,
    manifest: Manifest,
    table: DerivedTable,
    partitions: Sequence[date],
    reads: Sequence[Reads],
    files: PinnedFiles,
    state: ContinuedSnapshot | None = None,
) -> DataFrame:
    """The rows or changes that the transform of a run returns for some output partitions; see `derived_rows`."""
    references = load_pinned(ws.domain, manifest.references, ws.reference_archive)
    spark = ws.spark()
    own: dict[str, DataFrame] = {}
    if table.state is not None:
        found = state or pinned_snapshot(manifest, files)
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
        kind=RunPurpose.BACKFILL,
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
