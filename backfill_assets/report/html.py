"""Pages as HTML: a self-contained file for a report, and the content of the desk's pages.

Every value is escaped, and no page refers to anything on the network: style, script and charts are inside, and the
content security policy of a file allows nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import assert_never

from markupsafe import Markup, escape

from backfill_assets.core.next_steps import Invocation, NextStep
from backfill_assets.core.wording import visible
from backfill_assets.report.charts import drawings
from backfill_assets.report.command_line import words_of
from backfill_assets.report.page import (
    Block,
    Chart,
    Code,
    Facts,
    Items,
    Listing,
    Moved,
    Note,
    Page,
    Place,
    Ref,
    Section,
    Steps,
    Table,
    Toned,
    Value,
    Words,
)
from backfill_assets.report.values import text_of

_DATES = re.compile(r"\b(\d{4}-\d\d(?:-\d\d)?(?:\.\.\d{4}-\d\d(?:-\d\d)?)?)\b")
"""A date, a month or a range of them."""

_OF_A_COMMAND = re.compile(r"(\S*-\S*)")
"""A word with a dash, such as an option or an id, which a browser would break there."""

_IDS = (Place.RUN, Place.SET, Place.PUBLICATION)

Linked = Callable[[Ref], str | None]
"""The address of what an id names; None where there is no page of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Html:
    """Renders blocks as HTML."""

    linked: Linked = lambda _ref: None  #: Gives addresses of ids; a page that is a file has nothing to lead to.

    def blocks(self, blocks: Iterable[Block], *, level: int = 2) -> Markup:
        """The blocks one below the other.

        Args:
            level: The level of the headings of sections.
        """
        return Markup("\n").join(self._block(block, level) for block in blocks)

    def heading(self, page: Page) -> Markup:
        """The title of a page, and the line below it."""
        below = Markup('\n<p class="soft">{}</p>').format(self.value(page.below)) if page.below else ""
        return Markup("<h1>{}</h1>{}").format(self.value(page.title), below)

    def value(self, value: Value) -> Markup:
        match value:
            case Ref():
                shown = _text(value)
                if value.place in _IDS or not value.text:
                    shown = Markup('<code class="whole">{}</code>').format(text_of(value))
                address = self.linked(value)
                if address is not None:
                    shown = Markup('<a href="{}">{}</a>').format(address, shown)
                return shown
            case Toned(value=inner, tone=tone, hint=hint):
                title = Markup(' title="{}"').format(visible(hint)) if hint else ""
                return Markup('<span class="{}"{}>{}</span>').format(tone, title, self.value(inner))
            case Words(parts):
                return Markup().join(map(self.value, parts))
            case NextStep(parts):
                return Markup().join(_text(part) if isinstance(part, str) else _code(words_of(part)) for part in parts)
            case Code() | Invocation():
                return _code(text_of(value))
            case Moved(before=before, after=after, how_far=how_far):
                shape = Markup('<span class="whole">{} \u2192 {}</span><br><span class="soft">{}</span>')
                return shape.format(self.value(before), self.value(after), how_far)
            case datetime():
                return Markup('<span class="whole">{}</span>').format(text_of(value))
            case _:
                return _text(value)

    def _block(self, block: Block, level: int) -> Markup:
        match block:
            case Facts(pairs=pairs):
                shown = (
                    Markup("<dt>{}</dt><dd>{}</dd>").format(self.value(name), self.value(value))
                    for name, value in pairs
                )
                return Markup("<dl>{}</dl>").format(Markup("\n").join(shown))
            case Table():
                return self._table(block)
            case Note():
                items = self._items(block.items, "ul") if block.items else ""
                return Markup('<div class="note {}"><p>{}</p>{}</div>').format(
                    block.tone, self.value(block.text), items
                )
            case Items(items=items, numbered=numbered):
                return self._items(items, "ol" if numbered else "ul")
            case Steps():
                return self._steps(block)
            case Listing(shown=lines):
                shown = (Markup('<span class="{}">{}</span>').format(block.tone(line), line) for line in lines)
                return Markup('<pre class="scroll" tabindex="0"><code>{}</code></pre>').format(Markup("\n").join(shown))
            case Chart():
                marks = (
                    Markup('<span class="{}">{}</span>').format(style, self.value(means))
                    for style, means in block.legend
                )
                legend = Markup('<p class="legend soft">{}</p>').format(Markup().join(marks)) if block.legend else ""
                return Markup("{}{}{}").format(drawings(block.plots) if block.plots else "", block.drawn or "", legend)
            case Section():
                return self._section(block, level)
        assert_never(block)

    def _steps(self, block: Steps) -> Markup:
        """Each request on its own lines; a decision with its yes and its no beside each other."""
        named: list[tuple[str, Value]] = [("Yes:" if block.otherwise else "Next:", each) for each in block.steps]
        named += [("No:", block.otherwise)] if block.otherwise else []
        shown = (
            Markup('<p><span class="soft">{}</span> {}</p>').format(name, self.value(each)) for name, each in named
        )
        shape = Markup('<div class="choice">{}</div>') if block.otherwise else Markup("{}")
        return shape.format(Markup("\n").join(shown))

    def _section(self, section: Section, level: int) -> Markup:
        if section.folded:
            shape = Markup("<details><summary>{}</summary>\n{}</details>")
            return shape.format(self.value(section.title), self.blocks(section.blocks, level=level))
        shape = Markup("<h{level}>{title}</h{level}>\n{blocks}")
        if section.long:
            shape = Markup("<details><summary><h{level}>{title}</h{level}></summary>\n{blocks}</details>")
        return shape.format(
            level=level, title=self.value(section.title), blocks=self.blocks(section.blocks, level=level + 1)
        )

    def _items(self, items: Iterable[Value], kind: str) -> Markup:
        lines = Markup("\n").join(Markup("<li>{}</li>").format(self.value(each)) for each in items)
        return Markup("<{kind}>{lines}</{kind}>").format(kind=kind, lines=lines)

    def _table(self, table: Table) -> Markup:
        styles = ["n" if column.number else "whole" if column.whole else "" for column in table.columns]
        heads = Markup().join(
            Markup('<th scope="col" class="{}">{}</th>').format(style, self.value(column.name))
            for column, style in zip(table.columns, styles, strict=True)
        )
        rows = [self._row(table, styles, row, place) for place, row in enumerate(table.rows)]
        total = Markup("<tfoot>{}</tfoot>").format(self._row(table, styles, table.total, -1)) if table.total else ""
        shape = Markup(
            '<div class="scroll"><table class="{}"><thead><tr>{}</tr></thead>\n<tbody>{}</tbody>{}</table></div>'
        )
        kind, shown = "grouped" if table.continued else "", len(table.first)
        first = shape.format(kind, heads, Markup("\n").join(rows[:shown]), total)
        if not table.left_out:
            return first
        rest = shape.format(kind, heads, Markup("\n").join(rows[shown:]), "")
        return first + Markup("<details><summary>{:,} more</summary>{}</details>").format(table.left_out, rest)

    def _row(self, table: Table, styles: list[str], row: tuple[Value, ...], place: int) -> Markup:
        cells = (
            Markup('<td class="{}"{}{}>{}</td>').format(
                f"changed-value {style}" if (place, number) in table.changed else style,
                _named(table, number),
                _sorted_by(value),
                self.value(value),
            )
            if number or not table.headed
            else Markup('<th scope="row">{}</th>').format(self.value(value))
            for number, (value, style) in enumerate(zip(row, styles, strict=True))
        )
        goes_on = Markup(' class="part"') if place in table.continued else ""
        return Markup("<tr{}>{}</tr>").format(goes_on, Markup().join(cells))


def _text(value: Value) -> Markup:
    """A value as text, whose dates, and ranges of them, are not broken at their dashes."""
    return _kept(_DATES, '<span class="whole">{}</span>', text_of(value))


def _code(text: str) -> Markup:
    """A text to copy, whose words are not broken at their dashes while they are shorter than a line."""
    return Markup("<code>{}</code>").format(_kept(_OF_A_COMMAND, '<span class="word">{}</span>', visible(text)))


def _kept(pattern: re.Pattern[str], shape: str, text: str) -> Markup:
    """A text whose parts of a pattern stand in a shape."""
    parts = enumerate(pattern.split(text))
    return Markup().join(Markup(shape).format(part) if place % 2 else escape(part) for place, part in parts)  # noqa: S704 - a shape of this module


def _named(table: Table, number: int) -> Markup:
    """The name of its column, which a narrow screen shows beside the cell."""
    name = text_of(table.columns[number].name)
    return Markup(' data-column="{}"').format(visible(name)) if name else Markup()


def _sorted_by(value: Value) -> Markup:
    """The sort key of a column, where it is not the text of a cell."""
    return Markup(' data-value="{}"').format(value.after) if isinstance(value, Moved) else Markup()


def html_file(page: Page) -> str:
    """A page as one self-contained HTML file, whose tables can be sorted."""
    html = Html()
    body = Markup("{}\n{}\n{}").format(html.heading(page), _contents(html, page), _parts(html, page))
    allowed = Markup('<meta http-equiv="Content-Security-Policy" content="{}">\n').format(policy())
    return whole(browser_title(page), Markup("<main>\n{}\n{}\n</main>").format(body, _terms(body)), head=allowed)


def whole(title: str, body: Markup, *, head: Markup) -> Markup:
    """A document with its style and its script inside."""
    shape = Markup(
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n{head}<title>{title}</title>\n'
        '<link rel="icon" href="data:,">\n<style>{style}</style>\n</head>\n<body>\n{body}\n'
        "<script>{script}</script>\n</body>\n</html>\n"
    )
    return shape.format(head=head, title=title, style=source("page.css"), body=body, script=source("page.js"))


def browser_title(page: Page) -> str:
    """The title of a tab, a bookmark and a printed sheet."""
    return " \u00b7 ".join(filter(None, map(text_of, (page.title, page.below))))


def _parts(html: Html, page: Page) -> Markup:
    """The blocks of a page, its sections with the ids that the contents name."""
    shape = Markup('<section id="part-{}">\n{}\n</section>')
    shown = (html.blocks([block]) for block in page.blocks)
    return Markup("\n").join(
        shape.format(place, drawn) if isinstance(block, Section) else drawn
        for place, (block, drawn) in enumerate(zip(page.blocks, shown, strict=True))
    )


def _contents(html: Html, page: Page) -> Markup:
    """Links to the sections of a page."""
    lines = (
        Markup('<li><a href="#part-{}">{}</a></li>').format(place, html.value(block.title))
        for place, block in enumerate(page.blocks)
        if isinstance(block, Section)
    )
    shown = Markup("\n").join(lines)
    return Markup('<nav class="contents" aria-label="Contents"><ul>{}</ul></nav>').format(shown) if shown else shown


@cache
def source(name: str) -> Markup:
    """A file of this package: its style sheet or its script."""
    text = (files("backfill_assets.report") / "templates" / name).read_text(encoding="utf-8")
    return Markup(text)  # noqa: S704 - a file of this package


def _terms(body: str) -> Markup:
    """The explanations of those words of a page that have one."""
    terms = Markup("\n").join(Markup("<dt>{}</dt><dd>{}</dd>").format(*each) for each in glossary(body).items())
    shape = Markup('<details class="glossary"><summary>What the words mean</summary><dl>{}</dl></details>')
    return shape.format(terms) if terms else Markup()


def policy() -> str:
    """The permissions of a page: it may show its own style and its empty icon, and run exactly its own script."""
    digest = base64.b64encode(hashlib.sha256(source("page.js").encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:; base-uri 'none'"
    )


MEANINGS = {
    "accepted": "rows that readers of the published table see now",
    "candidate": "rows that a run has computed and written aside, where no reader sees them",
    "chunk": "days that are computed in one go; a long run has several",
    "dependent": "a table that is computed from this one, directly or through others",
    "gate": "a check of what a run has computed; if a blocking one fails, the run cannot be published",
    "manifest": "the contract of a run, fixed when it is planned: what is computed, from what, and why",
    "mode": "what a run is for: LIVE and BACKFILL are published; DRY_RUN, REPLAY and RECONCILIATION only measure",
    "partition": "the rows of one day, or of one month: the smallest part that is published or undone",
    "reference": "facts beside the events that the rules use, such as calendars and deadlines, each with a version",
    "release": "a version of the code that computes the rows",
    "restated": "days that had rows before, which this run replaces",
    "restatement": "a run that replaces rows that were believed to be right",
    "rolled back": "undone: the rows from before are what readers see again",
    "staged": "computed and written aside, not visible to readers",
    "superseded": "replaced by a later publication",
    "swap": "one commit that exchanges files of the table for others: readers see the whole change or nothing",
    "verified": "computed again, found equal to what readers see, and left as it is",
    "warm-up": "earlier days that are read because rows depend on them, and that are not written",
    "window": "the days of input that one day of output needs",
    "withdrawn": "revoked: an approval that no longer counts, or a record that its source no longer has",
}


def glossary(text: str) -> Mapping[str, str]:
    """The words that a text uses, also in the plural, in alphabetical order, each with its meaning."""
    plain = re.sub(r"<[^>]*>", " ", text).replace("warm_up", "warm-up").casefold()
    return {word: means for word, means in MEANINGS.items() if re.search(rf"\b{re.escape(word)}(?:s|ped)?\b", plain)}
