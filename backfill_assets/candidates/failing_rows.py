"""Gates on rows that fail: what each is given, from exactly which files, and what it finds there.

Gates are given the accepted rows of other tables, and references, besides what their run pins. These are pinned when
the gates are measured, and recorded with the results. A publication asks again for a measurement if one of them is not
what readers see any more. Accepted rows are measured in the same way as a candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill_assets.candidates.compute import inputs_without_rows, pinned_inputs
from backfill_assets.candidates.inputs import pinned_files
from backfill_assets.candidates.rows import rows_of
from backfill_assets.core.grouped import grouped
from backfill_assets.core.spark_causes import spark_reason
from backfill_assets.core.wording import visible
from backfill_assets.domain import DerivedTable, Failing, GateContext, Table
from backfill_assets.domain.errors import CodeBroken
from backfill_assets.domain.failing_rows import ACCEPTED, AROUND, CANDIDATE, Frames
from backfill_assets.gates.agreed import tables_read
from backfill_assets.gates.judge import FailingRows, count_failing, failing_examples
from backfill_assets.ledger.findings import FailingKey, GateReads
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.graph import TableInput
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import GateInput, PinnedInput, PinnedPartition, PinnedReference
from backfill_assets.planning.stages import output_days
from backfill_assets.transforms.apply import Called, FailingFrame, called_gate, failed_in_worker, gate_of
from backfill_assets.transforms.references import LoadedReference, load_pinned, require_entries
from backfill_assets.transforms.schemas import current_rows
from backfill_assets.transforms.statements import Sources
from backfill_assets.transforms.workers import require_same_in_workers
from backfill_assets.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedGateReads:
    """The pinned inputs of a gate, and those that are missing."""

    reads: GateReads  #: What it reads, as it is recorded.
    #: By partition that is measured, a table and its partitions that are not there and have to be.
    lacking: Mapping[date, tuple[str, tuple[date, ...]]] = field(default_factory=dict)


def pinned_by_gate(
    ws: Workspace,
    tx: ReadTransaction,
    table: Table,
    gate: Failing,
    partitions: Sequence[date],
    *,
    run_id: str = "",
    before: Mapping[str, Collection[str]] | None = None,
    references: Sequence[PinnedReference] = (),
) -> PinnedGateReads:
    """Pins what a gate reads of other tables, and of its own around the partitions that are measured.

    Args:
        partitions: What is measured.
        run_id: The run; empty for accepted rows.
        before: By table, the runs of the same set that come before this one, whose candidates are read.
        references: The references that the run pins.
    """
    inputs, lacking = [], dict[date, tuple[str, tuple[date, ...]]]()
    for read in tables_read(gate, table):
        edge, node = (
            TableInput(argument=read.argument, table=read.table, window=read.window),
            ws.graph.table(table.name),
        )
        needed = ws.graph.needed(edge, node, partitions)
        if read.argument == AROUND:
            needed = tuple(sorted(set(needed) - set(partitions)))
        pins = _pins(tx, read, needed, (before or {}).get(read.table, ()))
        inputs.append(PinnedInput(argument=read.argument, table=read.table, partitions=pins))
        there = {pin.partition for pin in pins if pin.version or pin.from_run}
        for partition in () if read.is_optional or there >= set(needed) else partitions:
            if missing := tuple(p for p in ws.graph.needed(edge, node, (partition,)) if p not in there):
                lacking.setdefault(partition, (read.table, missing))
    known = {each.name for each in references}
    others = tuple(ws.references[name].pinned for name in gate.references if name not in known)
    reads = GateReads(run_id=run_id, gate=gate.name, inputs=tuple(inputs), references=others)
    return PinnedGateReads(reads=reads, lacking=lacking)


def _pins(
    tx: ReadTransaction, read: GateInput, needed: Sequence[date], before: Collection[str]
) -> tuple[PinnedPartition, ...]:
    accepted = tx.versions.claims(read.table, needed)
    pins = {
        partition: PinnedPartition(
            partition=partition,
            version=accepted[partition].version if partition in accepted else 0,
            digest=accepted[partition].digest if partition in accepted else "",
        )
        for partition in needed
    }
    for other in before:
        for partition, digest in tx.candidates.digests(other).items():
            if partition in pins:
                version = pins[partition].version
                pins[partition] = PinnedPartition(partition=partition, version=version, digest=digest, from_run=other)
    return tuple(pins.values())


def runs_before(tx: ReadTransaction, manifest: Manifest) -> Mapping[str, Collection[str]]:
    """By table, the runs of the restatement of a run that are published before it."""
    found: dict[str, list[str]] = {}
    for other in reversed(tx.runs.headers(request=manifest.request_id)):
        if other.run_id == manifest.run_id:
            break
        found.setdefault(other.table, []).append(other.run_id)
    return found


def rows_read(ws: Workspace, reads: GateReads, declared: Sequence[GateInput]) -> Mapping[str, DataFrame]:
    """The rows that a gate is given besides those of its own run, by argument.

    Raises:
        MissingInput: A file does not exist any more.
    """
    there = [
        PinnedInput(
            argument=each.argument,
            table=each.table,
            partitions=tuple(pin for pin in each.partitions if pin.version or pin.from_run),
        )
        for each in reads.inputs
    ]
    with ws.ledger.read() as tx:
        files = pinned_files(tx, reads.run_id, there)
    changes = {each.argument for each in declared if each.changes}
    frames = {}
    for each in there:
        table = ws.domain.table(each.table)
        rows = rows_of(ws, table, files[each.argument].values())
        frames[each.argument] = rows if each.argument in changes else current_rows(rows, table)
    return frames


@dataclass(frozen=True, kw_only=True)
class GateQueries:
    """The rows that a table's gates on failing rows examine."""

    ws: Workspace
    table: Table
    gates: Sequence[Failing]
    partitions: tuple[date, ...]
    candidate: Callable[[], DataFrame]  #: The rows that are measured.
    accepted: Callable[[], DataFrame]  #: The rows of the same partitions that readers see.
    inputs: Mapping[str, Callable[[], DataFrame]]  #: The inputs of the table, by argument, as its transform reads them.
    references: Sequence[PinnedReference] = ()  #: The versions of references that the rows were computed with.
    code: Mapping[str, str]  #: The digests of the code of gates that was agreed to.
    pinned: Mapping[str, PinnedGateReads]  #: What each gate reads besides, by its name.
    unread: Sequence[date] = ()  #: The partitions whose accepted rows are there and cannot be read.

    def lacking(self, gate: Failing) -> Mapping[date, tuple[str, tuple[date, ...]]]:
        """By partition that a gate cannot measure, a table and its partitions that it cannot read."""
        unread = self.unread if ACCEPTED in gate.named else ()
        return {**self.pinned[gate.name].lacking, **{p: (self.table.name, (p,)) for p in unread}}

    def unknown(self, gate: Failing) -> Collection[date]:
        """The partitions of which the reference of a gate has no entry, so that it asks nothing there."""
        if not gate.entries:
            return ()
        known = require_entries(self.loaded[gate.references[0]], gate, self.table)
        return {*self.partitions} - known.days(self.table.partition.column, self.table.partition.grain)

    @cached_property
    def loaded(self) -> Mapping[str, LoadedReference]:
        """The references that gates find in their contexts, by name; a present one with the place of its file."""
        names = {name for gate in self.gates for name in gate.references}
        pins = [*self.references, *(each for gate in self.gates for each in self.pinned[gate.name].reads.references)]
        ws, used = self.ws, {each.name: each for each in pins if each.name in names}
        found = load_pinned(ws.domain, used.values(), ws.reference_archive)
        present = ws.references if found else {}
        return {name: present[name] if present[name].sha256 == each.sha256 else each for name, each in found.items()}

    @property
    def reads(self) -> tuple[GateReads, ...]:
        """The other inputs that gates read, as they are recorded."""
        return tuple(each.reads for each in self.pinned.values())

    @cached_property
    def called(self) -> Called:
        """The failing rows as each gate describes them; computes nothing."""
        return {gate.name: self._called(gate) for gate in self.gates}

    def _called(self, gate: Failing) -> FailingFrame:
        others = rows_read(self.ws, self.pinned[gate.name].reads, tables_read(gate, self.table))
        frames = {**self._frames, **others}
        ctx = _context(self.ws, self.table, gate, self.partitions, references=self._references_of(gate))
        found = called_gate(gate, self.table, frames, ctx, Sources.of(self.ws.domain))
        if found.calls_python:
            require_same_in_workers(
                found.rows.sparkSession,
                self.ws.domain,
                self.ws.settings.domain,
                self.table.name,
                gate=gate.name,
                planned=self.code[gate.name],
                named=gate_of(gate, self.table),
            )
        return found

    def _references_of(self, gate: Failing) -> Mapping[str, Any]:
        if gate.entries:
            require_entries(self.loaded[gate.references[0]], gate, self.table)
        return {name: self.loaded[name].value for name in gate.references}

    @cached_property
    def _frames(self) -> Frames:
        """The frames that some gate names, each once."""
        named = {name for gate in self.gates for name in gate.named}
        own = {CANDIDATE: self.candidate, ACCEPTED: self.accepted}
        frames = {name: current_rows(rows(), self.table) for name, rows in own.items() if name in named}
        return frames | {name: rows() for name, rows in self.inputs.items() if name in named}


def measuring_run(
    ws: Workspace,
    manifest: Manifest,
    table: Table,
    gates: Sequence[Failing],
    *,
    candidate: Callable[[], DataFrame],
    accepted: Callable[[], DataFrame],
    unread: Sequence[date],
) -> GateQueries | None:
    """The rows that the gates of a run examine; None without gates. Their other inputs are pinned now."""
    if not gates:
        return None
    references = manifest.references
    with ws.ledger.read() as tx:
        before = runs_before(tx, manifest)
        pinned = [
            pinned_by_gate(
                ws,
                tx,
                table,
                gate,
                manifest.partitions,
                run_id=manifest.run_id,
                before=before,
                references=references,
            )
            for gate in gates
        ]
    return GateQueries(
        ws=ws,
        table=table,
        gates=gates,
        partitions=manifest.partitions,
        candidate=candidate,
        accepted=accepted,
        inputs=pinned_inputs(ws, manifest, table) if isinstance(table, DerivedTable) else {},
        references=references,
        code={term.name: term.code for term in manifest.gates},
        pinned={each.reads.gate: each for each in pinned},
        unread=unread,
    )


def require_determined_gates(ws: Workspace, table: Table, partitions: Sequence[date]) -> None:
    """Calls the gates of an author with frames without rows, and holds the expressions of others against the types of
    theirs, so that what they describe is looked at before any row is computed.

    Args:
        partitions: What will be measured.

    Raises:
        ContractBroken: A gate failed, its rows depend on what nothing decides, or it is over values of another type.
    """
    gates = [gate for gate in table.gates if isinstance(gate, Failing) and (gate.over or not gate.release)]
    if not gates:
        return
    inputs = inputs_without_rows(ws, table) if isinstance(table, DerivedTable) else {}
    for gate in gates:
        # Each a frame of its own: Spark takes the columns of one frame that is joined with itself as ambiguous.
        frames = {**inputs, **{name: current_rows(rows_of(ws, table, ()), table) for name in (CANDIDATE, ACCEPTED)}}
        for read in tables_read(gate, table):
            other = ws.domain.table(read.table)
            no_rows = rows_of(ws, other, ())
            frames[read.argument] = no_rows if read.changes else current_rows(no_rows, other)
        _require_types(gate, table, frames)
        if gate.release:
            continue
        references = {name: ws.references[name].value for name in gate.references}
        ctx = _context(ws, table, gate, partitions, references=references)
        called_gate(gate, table, frames, ctx, Sources.of(ws.domain))


def _require_types(gate: Failing, table: Table, frames: Frames) -> None:
    """Refuses expressions of a gate that Spark cannot compute, or whose values are of another type than it needs."""
    wrong = f"is wrong{visible(f', in {gate.place}') if gate.place else ''}"
    for frame, each_over in grouped((over.frame, over) for over in gate.over).items():
        asked = [F.expr(over.sql).alias(f"_{n}") for n, over in enumerate(each_over)]
        try:
            found = frames[frame].select(*asked).schema
        except PySparkException as error:
            raise CodeBroken(
                code=gate_of(gate, table), problem=f"{wrong}: {spark_reason(error).removesuffix('.')}"
            ) from error
        for over, column in zip(each_over, found, strict=True):
            if mistake := over.mistake(column.dataType):
                raise CodeBroken(code=gate_of(gate, table), problem=f"{wrong}: {mistake}")


def counted(work: GateQueries) -> Mapping[str, FailingRows]:
    """The number of rows that fail each gate, by partition.

    Raises:
        ContractBroken: A gate failed, its code in Spark's Python processes is not the code that was agreed to, or a row
            has no partition.
        MissingInput: A file that it reads does not exist any more.
        InvalidReference: An entry of a reference that it asks says nothing clear.
    """
    with _named_errors(work):
        found = count_failing(work.called, work.table, work.partitions)
    return {
        gate.name: replace(found[gate.name], lacking=work.lacking(gate), unknown=work.unknown(gate))
        for gate in work.gates
    }


def examples(work: GateQueries, failed: Mapping[str, Iterable[date]]) -> tuple[FailingKey, ...]:
    """Some rows of each gate that failed, by gate and partition.

    Args:
        failed: The partitions in which gates failed, by gate.
    """
    with _named_errors(work):
        return tuple(
            key
            for name, each in work.called.items()
            if failed.get(name)
            for key in failing_examples(name, each, work.table, sorted(failed[name]))
        )


@contextmanager
def _named_errors(work: GateQueries) -> Iterator[None]:
    """Errors of functions that Spark calls with rows, as those of the gates that call functions of Python."""
    try:
        yield
    except PySparkException as error:
        calling = [each.gate for each in work.called.values() if each.calls_python]
        named = " or ".join(gate_of(gate, work.table) for gate in calling)
        for function in (gate.rows for gate in calling if gate.rows is not None):
            if broken := failed_in_worker(error, named, function):
                raise broken from error
        raise _of_its_gate(work, error) from error


def _of_its_gate(work: GateQueries, error: PySparkException) -> Exception:
    """An error of Spark as that of the gate that fails by itself, without the value that it names; else as it is.

    Of several gates in one query Spark does not say which has failed, so that each is asked alone.
    """
    for name, each in work.called.items():
        try:
            count_failing({name: each}, work.table, work.partitions)
        except PySparkException as alone:
            problem = (
                f"stopped with {alone.getCondition() or type(alone).__name__} while Spark computed its rows{each.place}"
            )
            return CodeBroken(code=gate_of(each.gate, work.table), problem=problem)
        except CodeBroken as broken:
            return broken
    return error


def _partition_columns(table: Table, gate: Failing) -> Mapping[str, str]:
    inputs = table.inputs if isinstance(table, DerivedTable) else {}
    tables = {**inputs, **{each.argument: each.table for each in gate.reads}}
    own = dict.fromkeys((CANDIDATE, ACCEPTED, AROUND), table.partition.column)
    return {**own, **{argument: read.partition.column for argument, read in tables.items()}}


def _context(
    ws: Workspace, table: Table, gate: Failing, partitions: Sequence[date], *, references: Mapping[str, Any]
) -> GateContext:
    return GateContext(
        output=output_days(table.partition.grain, partitions),
        output_partitions=tuple(partitions),
        grain=table.partition.grain,
        partition=table.partition.column,
        partition_columns=_partition_columns(table, gate),
        key=table.row_key,
        references=references,
        spark=ws.spark(),
    )
