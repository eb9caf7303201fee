"""Facts and lists on a terminal: the elements of every view."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from backfill_assets.core.problems import Problem
from backfill_assets.core.wording import visible
from backfill_assets.report.advice import next_step_of
from backfill_assets.report.command_line import words_of
from backfill_assets.report.requests import Invocation, NextStep, step

_STATE_STYLE = {
    "PUBLISHED": "green",
    "PASSED": "green",
    "ACCEPTED": "green",
    "LOADED": "green",
    "BLOCKED": "red",
    "FAILED": "red",
    "ROLLED_BACK": "yellow",
    "PUBLISHING": "yellow",
}
_NEVER_BROKEN = ("run", "set", "import", "gate", "partition", "state", "action", "at")


def show(console: Console, *parts: RenderableType | NextStep) -> None:
    """Prints the parts, one below the other."""
    for part in parts:
        # A line of text may hold a command: it is never broken, so that it can be copied.
        if isinstance(part, str | NextStep):
            console.print(visible(words_of(part)), highlight=False, soft_wrap=True, markup=False)
        else:
            console.print(part, highlight=False, markup=False, crop=False)


def state_text(state: str) -> Text:
    """A state in the colour of what it means for readers."""
    return Text(state, style=_STATE_STYLE.get(state, ""))


def state_and_meaning(state: str, meaning: str) -> Text:
    """The same, with what it means in words."""
    return Text.assemble(state_text(state), f": {meaning}")


def in_words(value: object) -> str:
    """A value as it is shown; a next step as the command to type."""
    return words_of(value) if isinstance(value, NextStep | Invocation) else str(value)


def next_line(following: NextStep | None) -> Sequence[NextStep]:
    """A last line that says what is left to do; none when nothing is."""
    return [step("next: ", following)] if following else []


def following(advice: NextStep | None) -> str:
    """The continuation of a sentence with a next step."""
    return f" Next: {words_of(advice)}" if advice else ""


def facts(pairs: Sequence[tuple[str, object]]) -> Table:
    """Names and values in two columns; pairs without a value are left out."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in pairs:
        if value not in (None, "", [], {}):
            grid.add_row(name, value if isinstance(value, Text) else Text(visible(in_words(value))))
    return grid


def listing(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, numbers: Sequence[str] = ()
) -> RenderableType:
    """A titled table; the named columns are right-aligned numbers. Names that people copy are never broken."""
    table = Table(header_style="dim", box=None, pad_edge=False)
    for column in columns:
        table.add_column(
            column,
            justify="right" if column in numbers else "left",
            overflow="fold",
            no_wrap=column in numbers or column in _NEVER_BROKEN,
        )
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    return Group(Text(title, style="bold"), table)


def _cell(value: object) -> RenderableType:
    match value:
        case Text():
            return value
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case _:
            return Text(visible(in_words(value)))


def problems_view(problems: Sequence[Problem]) -> Sequence[RenderableType]:
    """What could not be processed, why, and what to do about it."""
    return [Text(visible(f"{problem}{following(next_step_of(problem.error))}"), style="red") for problem in problems]


def mebibytes(size_bytes: int) -> str:
    """A size for a column of sizes."""
    return f"{size_bytes / 2**20:.1f}"
