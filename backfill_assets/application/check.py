"""Check of rows: measures accepted rows with the present gates of their table. It approves and publishes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from backfill_assets.application.recorder import Acting
from backfill_assets.calendar.partitions import Days
from backfill_assets.report.errors import NotOneOf
from backfill_assets.upkeep.check import RowsCheck, check_rows
from backfill_assets.workspace import Workspace


def check(
    ws: Workspace, acting: Acting, table: str, days: Days | None = None, *, gates: Sequence[str] = ()
) -> RowsCheck:
    """Measures the accepted rows of a table, records the results, and changes nothing that readers see.

    Args:
        acting: Who checks, which can be anybody.
        table: A source or a derived table.
        days: The days of the partitions; None for all accepted ones.
        gates: The names of gates; none for all that can be asked of accepted rows.

    Raises:
        UnknownName: There is no such table.
        Refused: A gate is not declared or needs a candidate, or nothing is accepted there.
    """
    declared = ws.domain.table(table)
    names = [gate.name for gate in declared.gates]
    for gate in gates:
        if gate not in names:
            raise NotOneOf(what=f"the gate of {declared.name}", value=gate, known=names)
    today = ws.clock().date()
    asked = None if days is None else ws.graph.partitions_in(declared.name, days, as_of=today)
    found = check_rows(ws, declared, asked, gates=gates, by=acting.by, listener=acting.listener)
    acting.recorder.checked(ws, declared)
    return found
