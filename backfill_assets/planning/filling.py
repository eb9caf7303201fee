"""Which commands build partitions that were never built?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date

from backfill_assets.planning.partitions import Grain, compress, count_of

_MOST_COMMANDS = 5


def how_to_fill(table: str, grain: Grain, partitions: Sequence[date]) -> str:
    """The next step for whoever lacks these partitions of an input."""
    if table.startswith("bronze."):
        commands = joined(load_commands(table, partitions, empty=True))
        return f"land the files that are missing; if nothing happened on these days, say so with {commands}"
    return joined(plan_commands(table, grain, partitions))


def plan_commands(table: str, grain: Grain, partitions: Iterable[date]) -> Sequence[str]:
    """The commands that plan these partitions of a derived table."""
    name = table.partition(".")[2]
    return [
        f"backfill plan {name} --reason REASON --from {days.start} --to {days.last} --by WHO"
        for days in compress(grain, partitions)
    ]


def load_commands(table: str, days: Iterable[date], *, empty: bool = False) -> Sequence[str]:
    """The commands that build these days of a source table and no others: what lies between may never have landed.

    Args:
        table: The source table.
        days: The days.
        empty: Whoever types the command says that nothing happened on days without landed events.
    """
    name = table.partition(".")[2]
    said = " --empty" if empty else ""
    return [
        f"backfill load {name} --from {some.start} --to {some.last}{said} --by WHO"
        for some in compress(Grain.DAILY, days)
    ]


def joined(commands: Sequence[str]) -> str:
    """Commands as one next step; many are shortened to the first of them."""
    more = len(commands) - _MOST_COMMANDS
    rest = [f"and {count_of(more, 'more range')} in the same way"] if more > 0 else []
    return "; ".join([*commands[:_MOST_COMMANDS], *rest])
