"""Terminal view of the domain, compared with what is published."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from backfill_assets.cli.show import facts, listing, next_line, problems_view
from backfill_assets.planning.partitions import count_of
from backfill_assets.report.requests import NextStep

if TYPE_CHECKING:
    from backfill_assets.upkeep.check import CheckedTable, CheckReport

_READ = {True: "as they are", False: "have to be built again"}


def check_view(report: CheckReport) -> Sequence[RenderableType | NextStep]:
    """Every table with what it was built in, what is missing, and what would have to be restated."""
    parts: list[RenderableType | NextStep] = []
    for table in report.tables:
        parts += [*_table(table), ""]
    if report.agrees:
        parts.append(Text("every table can follow its declaration, and every reader its inputs", style="green"))
    return [*parts, *problems_view(report.problems)]


def _table(table: CheckedTable) -> Iterator[RenderableType | NextStep]:
    version = f", version {table.contract_version} of its contract" if table.contract_version else ""
    title = f"{table.table}: {count_of(table.accepted_partitions, 'accepted partition')}{version}"
    if table.built:
        rows = [[each.version, each.partitions, each.described, _READ[each.gives_same_rows]] for each in table.built]
        yield listing(title, ["built in version", "partitions", "which", "are read"], rows, numbers=["partitions"])
    else:
        yield Text(title, style="bold")
    if table.empty_partitions:
        yield Text(f"{count_of(table.empty_partitions, 'partition')} without rows, for any version")
    for problem in table.problems:
        yield Text(problem, style="red")
    for column in table.lacked:
        yield Text(f"{column.column} is null in {count_of(column.partitions, 'partition')}: {column.described}")
    if table.restate:
        # It knows the rooms of upkeep, which no other view needs.
        from backfill_assets.report.advice.upkeep import after_check

        yield facts([("would have to be restated", str(table.restate))])
        yield from next_line(after_check(table))
