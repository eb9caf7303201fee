"""Pages on a terminal: every block as text, in the order of the page.

On fewer than 120 columns nothing is longer than a line, but for a long value in a command: texts go on in the next one,
commands with a backslash, so that they can still be copied, and a table that finds no room is its rows, one below the
other.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table as Grid
from rich.text import Text

from backfill_assets.cli.console import terminal
from backfill_assets.core.errors import BackfillError, Refused
from backfill_assets.core.next_steps import Invocation, NextStep, step
from backfill_assets.core.wording import visible
from backfill_assets.report.command_line import words_of
from backfill_assets.report.page import (
    Block,
    Chart,
    Column,
    Facts,
    Items,
    Listing,
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
from backfill_assets.report.values import text_of

_STYLES = {
    Tone.PLAIN: "",
    Tone.GOOD: "green",
    Tone.ATTENTION: "yellow",
    Tone.BAD: "red",
    Tone.SOFT: "dim",
    Tone.STRONG: "bold",
}


_WORD = 36
"""So many characters of a word are never broken, however long the values beside it are: dates, ids, names of tables."""

_LEAST = 12
"""Less room than this no column has, however many there are beside it."""

_GAP = 2
"""Spaces between two columns."""

_WHOLE_LINES = 120
"""From so many columns on a line is left as long as it is: few are longer, and a terminal shows these in two."""

_INDENT = 4
"""By so much what a line goes on with is indented; the names and values of a row by half of it."""

_WORD_OF_A_COMMAND = re.compile(r"""(?:'[^']*'|"[^"]*"|\\.|[^\s'"\\])+""")


def show(console: Console, *parts: Page | Value) -> None:
    """Prints pages, and lines that are none: what is left to do, or that nothing was."""
    for part in parts:
        # What holds a command is never cut, and broken only so that it can be copied.
        shown = view(part) if isinstance(part, Page) else _Line(part)
        console.print(shown, highlight=False, markup=False, crop=False)


def print_error(error: BackfillError) -> None:
    """The sentence on standard error, and below it the next step."""
    outcome = "refused" if issubclass(error.category, Refused) else "stopped"
    console = terminal(sys.stderr)
    console.print(Text(f"{outcome}: ", style="bold red") + Text(visible(error.message)), highlight=False)
    if advised := error.next_step:
        show(console, step("next: ", advised))


def view(page: Page) -> RenderableType:
    """The blocks of a page, a blank line between them; its title is what was typed.

    What a section far above says to do next is said again at the end, where a reader of a terminal looks.
    """
    above = (block for block in page.blocks[:-1] if isinstance(block, Section) and not block.folded)
    again = [Steps(steps=each.steps) for block in above for each in block.blocks if isinstance(each, Steps)]
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
                yield Group(*_items(block))
            case Steps(steps=steps, otherwise=otherwise):
                lines = [_Line(each, before=Text("next: ", style="dim")) for each in steps]
                lines += [_Line(otherwise, before=Text("to refuse: ", style="dim"))] if otherwise else []
                yield Group(*lines)
            case Listing(shown=lines):
                yield Group(*(Text(line, style=_STYLES[block.tone(line)]) for line in lines))
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
        grid.add_row(name, _Line(value, is_cell=True))
    return grid


def _table(table: Table) -> RenderableType:
    shown = [*table.first, *([table.total] if table.total else [])]
    grid = _Grid(columns=table.columns, rows=tuple(tuple(map(text, row)) for row in shown))
    more = Text(_shown_of(table.count - table.left_out, table.count), style="dim")
    return Group(grid, more) if table.left_out else grid


def _shown_of(shown: int, count: int) -> str:
    """A note on how many entries are shown, and how a reader gets all of them."""
    return f"{shown:,} of {count:,} shown; all of them: the same command with --json"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grid:
    """A table in the room that there is: long texts go on in the next line, and columns of numbers that find no room
    beside the others follow in a table of their own, with the same labels. A number is never cut."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Text, ...], ...]

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        if not self._fits(options.max_width):
            yield from self._listed(options.max_width)
            return
        for place, widths in enumerate(self._tables(options.max_width)):
            if place:
                yield ""
            yield self._drawn(widths)

    def _fits(self, room: int) -> bool:
        """True if its labels fit beside the first of its numbers without a broken word."""
        least = self._least_widths(room)
        numbers = [width for width, column in zip(least, self.columns, strict=True) if column.number]
        labels = [width for width, column in zip(least, self.columns, strict=True) if not column.number]
        # Every other number may begin a table of its own, beside the same labels; not each of them beside long ones.
        is_long = _together(labels) > room // 2
        beside = numbers if is_long else [max(numbers)] if numbers else []
        return _together([*labels, *beside]) <= room

    def _listed(self, room: int) -> Iterator[Text]:
        """Every row as its first value and, below it, the names and values of the others."""
        for row in self.rows:
            first, *others = row
            if first.plain:
                name = self.columns[0].name
                yield from _folded(Text(f"{name} " if name else "", style="dim"), [(first, False)], room)
            pairs = [
                Text.assemble((f"{column.name} ", "dim"), value)
                for column, value in zip(self.columns[1:], others, strict=True)
                if value.plain
            ]
            yield from _packed(pairs, room)

    def _tables(self, room: int) -> Iterator[Mapping[int, int]]:
        """The columns of each table, with their widths."""
        whole = [min(max(map(cell_len, texts)), room) for texts in self._texts()]
        least = self._least_widths(room)
        folded = [
            each if column.number or column.whole or room < _WHOLE_LINES else min(each, _LEAST)
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

    def _least_widths(self, room: int) -> Sequence[int]:
        word = _WORD if room >= _WHOLE_LINES else room
        return [self._least(column, texts, word) for column, texts in zip(self.columns, self._texts(), strict=True)]

    def _texts(self) -> Sequence[Sequence[str]]:
        return [[column.name, *(row[at].plain for row in self.rows)] for at, column in enumerate(self.columns)]

    def _least(self, column: Column, texts: Sequence[str], word: int) -> int:
        whole = max(map(cell_len, texts))
        if column.whole:
            return whole
        head, *values = texts
        if column.number:
            # A number before and after has several words, and is read as one.
            return max([*map(cell_len, head.split()), *map(cell_len, values)], default=0)
        longest = max((cell_len(word) for text in texts for word in text.split()), default=0)
        return max(min(longest, word), min(whole, _LEAST))

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
    style = _STYLES[note.tone]
    return Group(_Line(note.text, style=style), *(_Line(item, before=Text("  - ")) for item in note.items))


def _items(items: Items) -> list[_Line]:
    shown, most = items.items, items.most
    lines = [_Line(each, before=Text(f"{n:>3}. " if items.numbered else "")) for n, each in enumerate(shown, start=1)]
    if most is None or len(lines) <= most:
        return lines
    half = most // 2
    left_out = _Line(f"     ... {_shown_of(2 * half, len(lines))} ...")
    return [*lines[:half], left_out, *lines[-half:]]


@dataclass(frozen=True)
class _Line:
    """A value in a line or, where it is narrow, in as many as it needs."""

    value: Value
    before: Text = field(default_factory=Text)  #: What stands before it.
    style: str = ""  #: Of all of it.
    is_cell: bool = False  #: True if it is broken into lines wherever there is no room: the value of a fact.

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        said = Text.assemble(self.before, text(self.value))
        said.stylize(self.style)
        if console.width >= _WHOLE_LINES:
            if self.is_cell:
                said.overflow = "fold"
            else:
                # It goes on beyond the edge, as a terminal shows it.
                said.no_wrap, said.overflow = True, "ignore"
            yield said
        elif said.cell_len <= options.max_width:
            yield said
        elif not (self.before or any(is_command for _, is_command in _parts(self.value))):
            said.overflow = "fold"
            yield said
        else:
            for line in _folded(self.before, list(_parts(self.value)), options.max_width):
                line.stylize(self.style)
                yield line

    def __rich_measure__(self, _console: Console, options: ConsoleOptions) -> Measurement:
        whole = self.before.cell_len + text(self.value).cell_len
        return Measurement(min(whole, _LEAST), whole).with_maximum(options.max_width)


_Part = tuple[Text, bool]
"""A part of a value, and whether it is a command."""


def _parts(value: Value) -> Iterator[_Part]:
    match value:
        case Words(parts):
            for part in parts:
                yield from _parts(part)
        case NextStep(parts):
            for each in parts:
                yield Text(visible(words_of(each))), isinstance(each, Invocation)
        case Invocation():
            yield Text(text_of(value)), True
        case _:
            yield text(value), False


def _folded(before: Text, parts: Sequence[_Part], room: int) -> Iterator[Text]:
    """Parts in lines of at most so many columns, broken at spaces; only a word that is longer than a line is broken."""
    is_mark = before.plain.strip() and before.cell_len <= _INDENT + 1
    line, indent = before.copy(), " " * (before.cell_len if is_mark else _INDENT)
    is_new, is_apart = True, False
    for part, is_command in parts:
        words = [part] if is_command else list(part.split(" ", allow_blank=True))
        for place, word in enumerate(words):
            is_apart = is_apart or place > 0
            if not word.cell_len:
                continue
            gap = " " if is_apart and not is_new else ""
            if not is_new and line.cell_len + len(gap) + word.cell_len > room:
                yield line
                line, gap = Text(indent), ""
            if line.cell_len + word.cell_len <= room:
                line = Text.assemble(line, gap, word)
            else:
                *whole, line = _broken(line, word, room, is_command=is_command)
                yield from whole
            is_new, is_apart = False, False
    yield line


def _broken(line: Text, word: Text, room: int, *, is_command: bool) -> list[Text]:
    """Breaks text that is longer than a line: a command at its spaces, as a shell reads it, and anything else
    anywhere."""
    if not is_command:
        step = room - _INDENT
        cuts = [room - line.cell_len, *range(room - line.cell_len + step, len(word), step)]
        first, *others = word.divide(cuts)
        return [Text.assemble(line, first), *(Text.assemble(" " * _INDENT, each) for each in others)]
    lines, indent = [], " " * (line.cell_len + _INDENT if not line.plain.strip() else 2 * _INDENT)
    is_new = True
    for each in _WORD_OF_A_COMMAND.findall(word.plain):
        # Two columns are left for the backslash.
        if not is_new and line.cell_len + 1 + cell_len(each) > room - 2:
            lines.append(Text.assemble(line, " \\"))
            line, is_new = Text(indent), True
        line = Text.assemble(line, "" if is_new else " ", each)
        is_new = False
    # A word that is longer than a line goes on beyond the edge: broken, it would be another value.
    for each in (*lines, line):
        each.no_wrap, each.overflow = True, "ignore"
    return [*lines, line]


def _packed(pairs: Sequence[Text], room: int) -> Iterator[Text]:
    """Names and values beside each other as far as there is room, indented."""
    line = Text(" " * (_INDENT // 2))
    begins = line.cell_len
    for pair in pairs:
        if line.cell_len > begins and line.cell_len + _GAP + pair.cell_len > room:
            yield line
            line = Text(" " * begins)
        if begins + pair.cell_len <= room:
            line = Text.assemble(line, " " * _GAP if line.cell_len > begins else "", pair)
        else:
            yield from _folded(line, [(pair, False)], room)
            line = Text(" " * begins)
    if line.cell_len > begins:
        yield line
