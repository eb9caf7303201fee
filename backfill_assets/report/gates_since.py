"""Gates that accepted rows were not measured with, because they were added or changed since, and those that rows fail.

Nothing is stale for either. What measures the rows is a check, and what replaces rows that fail is a restatement.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from backfill_assets.calendar.partitions import DayRange, Days, Partitions, count_of, days_of
from backfill_assets.core.grouped import grouped
from backfill_assets.core.next_steps import Command, Invocation, NextStep, do
from backfill_assets.domain import Failing, Table
from backfill_assets.gates.agreed import asked_of_accepted
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.next_steps import restated
from backfill_assets.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class NotMeasured:
    """Accepted rows of a table that were not measured with some of its present gates."""

    table: str  #: The table.
    gates: tuple[str, ...]  #: The names of the gates, as they are declared.
    partitions: Partitions  #: The accepted partitions that were not measured with one of them at least.
    check: Invocation  #: What measures them.


@dataclass(frozen=True, slots=True, kw_only=True)
class FailsGate:
    """Accepted rows of a table that fail one of its present gates, as a check has found."""

    table: str  #: The table.
    gate: str  #: The name of the gate.
    blocking: bool  #: True if its failure would block a run.
    partitions: Partitions  #: The accepted partitions that fail it.
    next_step: NextStep  #: What replaces their rows.


def _present(ws: Workspace, table: Table) -> Mapping[str, str]:
    """The digests of the gates that are asked of accepted rows now; code is only read where a gate is a function."""
    has_code = any(isinstance(gate, Failing) for gate in table.gates)
    return asked_of_accepted(table, ws.code.gate_digests(table) if has_code else {})


def not_measured(
    ws: Workspace, tx: ReadTransaction, tables: Iterable[Table], days: Days | None = None
) -> tuple[NotMeasured, ...]:
    """The accepted rows that were not measured with every present gate, by table.

    Args:
        days: Only the partitions of these days.
    """
    found = []
    for table in tables:
        grain = table.partition.grain
        asked = {
            gate: [p for p in partitions if days is None or _is_among(days_of(grain, p), days)]
            for gate, partitions in tx.checks.not_measured(table.name, _present(ws, table)).items()
        }
        lacking = {gate: partitions for gate, partitions in asked.items() if partitions}
        if lacking:
            gates = tuple(gate.name for gate in table.gates if gate.name in lacking)
            partitions = Partitions.of(grain, (p for some in lacking.values() for p in some))
            check = check_of(table, partitions, gates)
            found.append(NotMeasured(table=table.name, gates=gates, partitions=partitions, check=check))
    return tuple(found)


def _is_among(partition: DayRange, days: Days) -> bool:
    return any(each.start < partition.end and partition.start < each.end for each in days.ranges)


def check_of(table: Table, partitions: Partitions, gates: Sequence[str]) -> Invocation:
    """The command that measures accepted rows with some gates, from the first of these partitions to the last."""
    first, last = partitions.days[0], days_of(partitions.grain, partitions.days[-1]).last
    return do(Command.CHECK, table.name, first=first, last=last).also(*(("gate", gate) for gate in gates))


def fails_gates(ws: Workspace, tx: ReadTransaction, tables: Iterable[Table]) -> tuple[FailsGate, ...]:
    """The accepted rows that fail a present gate, by table and gate."""
    found = []
    for table in tables:
        failing = tx.checks.failing(table.name, _present(ws, table))
        for gate, some in grouped((each.gate, each) for each in failing).items():
            partitions = Partitions.of(table.partition.grain, (each.partition for each in some))
            found.append(
                FailsGate(
                    table=table.name,
                    gate=gate,
                    blocking=some[0].blocking,
                    partitions=partitions,
                    next_step=restated(table.name, partitions),
                )
            )
    return tuple(found)


# Words of gates that accepted rows were not measured with, or that they fail.


def not_measured_words(found: NotMeasured) -> str:
    """The sentence that accepted rows were not measured with present gates."""
    gates = f"{count_of(len(found.gates), 'gate')} ({', '.join(found.gates)})"
    return f"{found.table} {found.partitions}: not measured with {gates}"


def fails_words(found: FailsGate) -> str:
    """The sentence that accepted rows fail a present gate."""
    only = "" if found.blocking else ", which does not block"
    return f"{found.table} {found.partitions}: accepted rows fail {found.gate}{only}"
