"""Pages on a terminal: every block as text, in the order of the page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

from rich.console import Console, Group, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from backfill_assets.report.page import (
    Block,
    Chart,
    Facts,
    Items,
    Note,
    Page,
    Section,
    Steps,
    Table,
    Tone,
    Toned,
    Value,
    Words,
)
from backfill_assets.report.requests import Invocation, NextStep
from backfill_assets.report.values import text_of

_STYLES = {
    Tone.PLAIN: "",
    Tone.GOOD: "green",
    Tone.ATTENTION: "yellow",
    Tone.BAD: "red",
    Tone.SOFT: "dim",
    Tone.STRONG: "bold",
}


_HEAD = 16
"""So many characters of a head are never broken, however long the values beside it are."""


def show(console: Console, *parts: Page | Value) -> None:
    """Prints pages, and lines that are none: what is left to do, or that nothing was."""
    for part in parts:
        # What holds a command is never broken or cut, so that it can be copied.
        shown = view(part) if isinstance(part, Page) else _line(text(part))
        console.print(shown, highlight=False, markup=False, crop=False)


def view(page: Page) -> RenderableType:
    """The blocks of a page, a blank line between them; its title is what was typed."""
    parts = [part for found in _printed(page.blocks) for part in (found, "")]
    return Group(*parts[:-1])


def text(value: Value) -> Text:
    """A value in the style of its tone."""
    match value:
        case Toned(value=inner, tone=tone, hint=hint):
            return Text.assemble(Text(text_of(inner), style=_STYLES[tone]), f": {hint}" if hint else "")
        case Words(parts):
            return Text.assemble(*map(text, parts))
        case _:
            return Text(text_of(value))


def _printed(blocks: Iterable[Block]) -> Iterator[RenderableType]:
    for block in blocks:
        match block:
            case Facts():
                yield _facts(block)
            case Table():
                yield _table(block)
            case Note():
                yield _note(block)
            case Items():
                yield Group(*map(_line, _items(block)))
            case Steps(steps=steps):
                yield Group(*(_line(_next(each)) for each in steps))
            case Chart():
                pass
            case Section():
                yield from _section(block)
            case _:
                assert_never(block)


def _section(section: Section) -> Iterator[RenderableType]:
    if section.folded:
        return
    parts = [*_printed(section.blocks)]
    if parts:
        yield Group(Text(section.title, style="bold"), parts[0])
        yield from parts[1:]


def _facts(facts: Facts) -> RenderableType:
    grid = Grid.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in facts.pairs:
        grid.add_row(name, text(value))
    return grid


def _table(table: Table) -> RenderableType:
    grid = Grid(header_style="dim", box=None, pad_edge=False)
    for column in table.columns:
        grid.add_column(
            column.name,
            justify="right" if column.number else "left",
            overflow="fold",
            no_wrap=column.number or column.whole,
            min_width=min(len(column.name), _HEAD),
        )
    for row in [*table.rows[: table.most], *([table.total] if table.total else [])]:
        grid.add_row(*map(text, row))
    return Group(grid, more) if (more := _more(len(table.rows), table.most)) else grid


def _note(note: Note) -> RenderableType:
    said = text(note.text)
    said.stylize(_STYLES[note.tone])
    return Group(_line(said), *(_line(Text.assemble("  - ", text(item))) for item in note.items))


def _items(items: Items) -> list[Text]:
    shown, most = items.items, items.most
    lines = [Text.assemble(f"{n:>3}. " if items.numbered else "", text(each)) for n, each in enumerate(shown, start=1)]
    if most is None or len(lines) <= most:
        return lines
    half = most // 2
    left_out = Text(f"     ... {len(lines) - 2 * half:,} more; --json has all")
    return [*lines[:half], left_out, *lines[-half:]]


def _more(there: int, most: int | None) -> Text | None:
    return None if most is None or there <= most else Text(f"... {there - most:,} more; --json has all", style="dim")


def _next(each: NextStep | Invocation) -> Text:
    return Text.assemble(("next: ", "dim"), text_of(each))


def _line(line: Text) -> Text:
    """A line that goes on beyond the edge, as a terminal shows it."""
    line.no_wrap, line.overflow = True, "ignore"
    return line
