"""Pages as short Markdown, for places that show them beside other things, such as Dagster's pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import assert_never

from backfill_assets.report.page import (
    Block,
    Chart,
    Facts,
    Items,
    Listing,
    Note,
    Page,
    Section,
    Steps,
    Table,
    Tone,
    Value,
)
from backfill_assets.report.values import text_of

_OF_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|~&@]|:(?=//)|(?<=www)\.)")
"""What Markdown reads as its own within a line: marks, cells of tables, entities, and what it makes links of."""


def markdown_page(page: Page) -> str:
    """A page as Markdown, without its title, its details and what is long."""
    return "\n\n".join(_written(page.blocks)) + "\n"


def _written(blocks: Iterable[Block]) -> Iterator[str]:
    for block in blocks:
        match block:
            case Facts(pairs=pairs):
                yield "\n".join(
                    f"- **{_plain(name)}** {_plain(value)}" if name else f"- {_plain(value)}" for name, value in pairs
                )
            case Table():
                yield _table(block)
            case Note():
                text = _plain(block.text)
                strong = f"**{text}**" if block.tone not in (Tone.PLAIN, Tone.SOFT) else text
                yield "\n".join([strong, *([""] if block.items else []), *_lines(block.items)])
            case Items():
                yield "\n".join(_items(block))
            case Steps(steps=steps, otherwise=otherwise):
                lines = [f"Next: {_plain(each)}" for each in steps]
                yield "\n\n".join([*lines, *([f"To refuse: {_plain(otherwise)}"] if otherwise else [])])
            case Listing(shown=lines, differs=differs):
                # A fence that no line of the code ends.
                ticks = max((len(found) for line in lines for found in re.findall("`+", line)), default=0)
                fence = "`" * max(3, ticks + 1)
                yield "\n".join([f"{fence}{'diff' if differs else 'python'}", *lines, fence])
            case Chart():
                pass
            case Section():
                below = [] if block.folded or block.long or block.of_rows else [*_written(block.blocks)]
                yield from [f"#### {_plain(block.title)}", *below] if below else []
            case _:
                assert_never(block)


def _table(table: Table) -> str:
    heads = [_plain(column.name) for column in table.columns]
    rows = [*table.first, *([table.total] if table.total else [])]
    lines = [heads, ["--:" if column.number else "---" for column in table.columns]]
    lines += [[_plain(value) for value in row] for row in rows]
    more = f"\n\n{table.count - table.left_out:,} of {table.count:,} shown" if table.left_out else ""
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + more


def _items(items: Items) -> Iterator[str]:
    """The lines of a list; of more than there is room for, the first and the last."""
    lines = [f"{n}. {_plain(each)}" if items.numbered else f"- {_plain(each)}" for n, each in enumerate(items.items, 1)]
    if items.most is None or len(lines) <= items.most:
        return iter(lines)
    half = items.most // 2
    return iter([*lines[:half], f"- ... {len(lines) - 2 * half:,} more ...", *lines[-half:]])


def _lines(values: Iterable[Value]) -> Iterator[str]:
    return (f"- {_plain(value)}" for value in values)


def _plain(value: Value) -> str:
    """The text of a value, with a backslash before what Markdown would read as its own."""
    return _OF_MARKDOWN.sub(r"\\\1", text_of(value))
