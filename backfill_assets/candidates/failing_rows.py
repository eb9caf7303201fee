"""Gates on rows that fail: what each is given, from exactly which files, and what it finds there.

Nothing here asks whether the rows are a candidate: accepted rows are measured in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from backfill_assets.domain import DerivedTable, Failing, GateContext, Table
from backfill_assets.domain.failing_rows import ACCEPTED, CANDIDATE, Frames
from backfill_assets.gates.failing_rows import FailingRows, count_failing, failing_examples
from backfill_assets.ledger.findings import FailingKey
from backfill_assets.planning.manifest_parts import PinnedReference
from backfill_assets.planning.reads import output_days
from backfill_assets.transforms.apply import failed_in_worker
from backfill_assets.transforms.called_gates import Called, called_gate, gate_of
from backfill_assets.transforms.definitions import Sources
from backfill_assets.transforms.references import load_pinned
from backfill_assets.transforms.schemas import current_rows
from backfill_assets.transforms.workers import require_same_in_workers
from backfill_assets.workspace import Workspace


@dataclass(frozen=True, kw_only=True)
class Measuring:
    """What the gates of a table that are about rows which fail are asked of.

    Attributes:
        gates: The gates.
        partitions: What is measured.
        candidate: The rows that are measured.
        accepted: The rows of the same partitions that readers see.
        inputs: The inputs of the table, by argument, as its transform reads them.
        references: The versions of references that the rows were computed with; of others the present one counts.
        code: The digests of the code of gates that was agreed to.
    """

    ws: Workspace
    table: Table
    gates: Sequence[Failing]
    partitions: tuple[date, ...]
    candidate: Callable[[], DataFrame]
    accepted: Callable[[], DataFrame]
    inputs: Mapping[str, Callable[[], DataFrame]]
    references: Sequence[PinnedReference] = ()
    code: Mapping[str, str]


def called_gates(work: Measuring) -> Called:
    """What each gate describes as the rows that fail it; nothing is computed.

    Raises:
        ContractBroken: A gate failed, or its code in Spark's Python processes is not the code that was agreed to.
        MissingInput: A file that it reads does not exist any more.
    """
    frames = _frames(work)
    found = {}
    for gate in work.gates:
        each = called_gate(gate, work.table, frames, _context(work, gate), Sources.of(work.ws.domain))
        if each.calls_python:
            require_same_in_workers(
                each.rows.sparkSession,
                work.ws.domain,
                work.ws.settings.domain,
                work.table.name,
                gate=gate.name,
                planned=work.code[gate.name],
                named=gate_of(gate, work.table),
            )
        found[gate.name] = each
    return found


def counted(work: Measuring, called: Called) -> Mapping[str, FailingRows]:
    """How many rows fail each gate, by partition.

    Raises:
        ContractBroken: A function of a gate failed that Spark called with rows, or a row has no partition.
    """
    with _named_errors(work, called):
        return count_failing(called, work.table, work.partitions)


def examples(work: Measuring, called: Called, failed: Mapping[str, Sequence[date]]) -> tuple[FailingKey, ...]:
    """Some rows of each gate that failed, by gate and partition.

    Args:
        failed: The partitions in which gates failed, by gate.
    """
    with _named_errors(work, called):
        return tuple(
            key
            for name, each in called.items()
            if failed.get(name)
            for key in failing_examples(name, each, work.table, failed[name])
        )


@contextmanager
def _named_errors(work: Measuring, called: Called) -> Iterator[None]:
    """Errors of functions that Spark calls with rows, as those of the gates that call functions of Python."""
    try:
        yield
    except PySparkException as error:
        calling = [each.gate for each in called.values() if each.calls_python]
        named = " or ".join(gate_of(gate, work.table) for gate in calling)
        for function in (gate.rows for gate in calling if gate.rows is not None):
            if broken := failed_in_worker(error, named, function):
                raise broken from error
        raise


def _frames(work: Measuring) -> Frames:
    """The frames that some gate names, each once."""
    named = {name for gate in work.gates for name in gate.named}
    own = {CANDIDATE: work.candidate, ACCEPTED: work.accepted}
    frames = {name: current_rows(rows(), work.table) for name, rows in own.items() if name in named}
    return frames | {name: rows() for name, rows in work.inputs.items() if name in named}


def _partition_columns(table: Table) -> Mapping[str, str]:
    inputs = table.inputs if isinstance(table, DerivedTable) else {}
    of_inputs = {argument: read.partition.column for argument, read in inputs.items()}
    return {**dict.fromkeys((CANDIDATE, ACCEPTED), table.partition.column), **of_inputs}


def _context(work: Measuring, gate: Failing) -> GateContext:
    ws = work.ws
    chosen = [each for each in work.references if each.name in gate.references]
    pinned = load_pinned(ws.domain, chosen, ws.reference_archive)
    values = {name: (pinned.get(name) or ws.references[name]).value for name in gate.references}
    return GateContext(
        output=output_days(work.table.partition.grain, work.partitions),
        output_partitions=work.partitions,
        grain=work.table.partition.grain,
        partition=work.table.partition.column,
        partition_columns=_partition_columns(work.table),
        key=work.table.row_key,
        references=values,
        spark=ws.spark(),
    )
