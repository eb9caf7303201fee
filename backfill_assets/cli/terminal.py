"""Pages on a terminal: every block as text, in the order of the page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table as Grid
from rich.text import Text

from backfill_assets.report.page import (
    Block,
    Chart,
    Column,
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


_WORD = 24
"""So many characters of a word are never broken, however long the values beside it are: dates, names of tables."""

_LEAST = 12
"""Less room than this no column has, however many there are beside it."""

_GAP = 2
"""Spaces between two columns."""


def show(console: Console, *parts: Page | Value) -> None:
    """Prints pages, and lines that are none: what is left to do, or that nothing was."""
    for part in parts:
        # What holds a command is never broken or cut, so that it can be copied.
        shown = view(part) if isinstance(part, Page) else _line(text(part))
        console.print(shown, highlight=False, markup=False, crop=False)


def view(page: Page) -> RenderableType:
    """The blocks of a page, a blank line between them; its title is what was typed.

    What a section far above says to do next is said again at the end, where a reader of a terminal looks.
    """
    above = (block for block in page.blocks[:-1] if isinstance(block, Section) and not block.folded)
    again = [each for block in above for each in block.blocks if isinstance(each, Steps)]
    parts = [part for found in _printed([*page.blocks, *again]) for part in (found, "")]
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
    shown = [*table.first, *([table.total] if table.total else [])]
    grid = _Grid(columns=table.columns, rows=tuple(tuple(map(text, row)) for row in shown))
    more = Text(f"... {table.left_out:,} more; --json has all", style="dim")
    return Group(grid, more) if table.left_out else grid


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grid:
    """A table in the room that there is: long texts go on in the next line, and columns of numbers that find no room
    beside the others follow in a table of their own, with the same labels. A number is never cut."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Text, ...], ...]

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        for place, widths in enumerate(self._tables(options.max_width)):
            if place:
                yield ""
            yield self._drawn(widths)

    def _tables(self, room: int) -> Iterator[Mapping[int, int]]:
        """The columns of each table, with their widths."""
        whole = [min(max(map(cell_len, texts)), room) for texts in self._texts()]
        least = [self._least(column, texts) for column, texts in zip(self.columns, self._texts(), strict=True)]
        folded = [
            each if column.number or column.whole else min(each, _LEAST)
            for column, each in zip(self.columns, least, strict=True)
        ]
        labels = [at for at, column in enumerate(self.columns) if not column.number]
        numbers = [at for at, column in enumerate(self.columns) if column.number]
        while True:
            taken, left = [*labels, *numbers[:1]], numbers[1:]
            while left and _together([folded[at] for at in [*taken, left[0]]]) <= room:
                taken.append(left.pop(0))
            taken.sort()
            widths: Sequence[int] = [max(whole[at], least[at]) for at in taken]
            # Words are kept as long as there is room for them, then ids and numbers, and at last nothing is.
            for lowest in (least, folded, [min(each, _LEAST) for each in least]):
                widths = _narrowed(widths, [lowest[at] for at in taken], room)
            yield dict(zip(taken, widths, strict=True))
            if not left:
                return
            numbers = left

    def _texts(self) -> Sequence[Sequence[str]]:
        return [[column.name, *(row[at].plain for row in self.rows)] for at, column in enumerate(self.columns)]

    def _least(self, column: Column, texts: Sequence[str]) -> int:
        whole = max(map(cell_len, texts))
        if column.whole:
            return whole
        longest = max((cell_len(word) for text in texts for word in text.split()), default=0)
        return longest if column.number else max(min(longest, _WORD), min(whole, _LEAST))

    def _drawn(self, widths: Mapping[int, int]) -> Grid:
        grid = Grid(header_style="dim", box=None, pad_edge=False)
        for at, width in widths.items():
            column = self.columns[at]
            grid.add_column(
                column.name, justify="right" if column.number else "left", overflow="fold", width=max(width, 1)
            )
        for row in self.rows:
            grid.add_row(*(row[at] for at in widths))
        return grid


def _together(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _narrowed(widths: Sequence[int], least: Sequence[int], room: int) -> Sequence[int]:
    """The widest made narrower, none narrower than its least, until they fit or cannot."""
    found = list(widths)
    while _together(found) > room:
        wide = [at for at, width in enumerate(found) if width > least[at]]
        if not wide:
            break
        found[max(wide, key=lambda at: found[at])] -= 1
    return found


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


def _next(each: NextStep | Invocation) -> Text:
    return Text.assemble(("next: ", "dim"), text_of(each))


def _line(line: Text) -> Text:
    """A line that goes on beyond the edge, as a terminal shows it."""
    line.no_wrap, line.overflow = True, "ignore"
    return line
