"""Pages: what a person is shown, as blocks. A screen is built once, and each renderer shows the same page.

`cli.terminal` renders a page as text, `report.html` as HTML, `report.markdown` as Markdown. JSON is the record that the
page was built from, and knows nothing of pages. The builder of a page stands beside its document; values in cells stay
values (numbers, dates, requests, ids), so that a renderer can align, link and word them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import StrEnum

from markupsafe import Markup

from backfill_assets.calendar.partitions import Partitions
from backfill_assets.core.next_steps import Invocation, NextStep
from backfill_assets.core.wording import visible
from backfill_assets.report.charts import Plot


class Tone(StrEnum):
    """The tone of a text: each renderer has one colour for each."""

    PLAIN = "plain"
    GOOD = "good"
    ATTENTION = "attention"
    BAD = "bad"
    SOFT = "soft"
    STRONG = "strong"


class Place(StrEnum):
    """The kind of object that an id names; the desk makes a link of it. OTHER is an address of the desk itself."""

    RUN = "run"
    SET = "set"
    TABLE = "table"
    PARTITION = "partition"
    PUBLICATION = "publication"
    REPORT = "report"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ref:
    """An id that a reader copies or follows; it is never broken into two lines."""

    place: Place  #: What it names.
    id: str  #: The id; of a partition, its first day; of another place, its address in the desk.
    table: str = ""
    text: str = ""  #: What is shown in its place; the id itself where it is empty.


@dataclass(frozen=True, slots=True, kw_only=True)
class Toned:
    """A value in a tone."""

    value: Value
    tone: Tone  #: How it should be taken.
    hint: str = ""  #: What it means, shown where there is room for it.


@dataclass(frozen=True, slots=True)
class Words:
    """Several values in a line, without anything between them."""

    parts: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Code:
    """A text in the font of code: a digest, a path."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A number before and after, sorted by what it is now."""

    before: int | float | Decimal  #: What it was.
    after: int | float | Decimal
    how_far: str  #: How far it moved, in words.


Value = (
    str
    | int
    | float
    | Decimal
    | date
    | bool
    | None
    | Partitions
    | NextStep
    | Invocation
    | Ref
    | Toned
    | Words
    | Code
    | Moved
)
"""What stands in a cell or in a line. None is shown as nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Names and values; see `facts`."""

    pairs: tuple[tuple[str, Value], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table."""

    name: str
    number: bool = False  #: True if its values are numbers: aligned to the right, and never cut.
    whole: bool = False  #: True if its values are never broken into lines, such as ids that a reader copies.


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of values; see `table`."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]  #: As many values each as there are columns.
    total: tuple[Value, ...] = ()  #: A last row that sums up the others; empty without one.
    most: int | None = None  #: How many rows a renderer without room for more shows; None for all of them.
    changed: frozenset[tuple[int, int]] = frozenset()  #: Cells to be marked, by row and column.
    headed: bool = False  #: True if the first value of a row says what the others are.
    #: Rows that go on with the row above them: they are shown with it, and not counted.
    continued: frozenset[int] = frozenset()

    @property
    def first(self) -> tuple[tuple[Value, ...], ...]:
        """The rows that a renderer without room for more shows; none without those that go on with it."""
        end = len(self.rows) if self.most is None else min(self.most, len(self.rows))
        while end in self.continued:
            end += 1
        return self.rows[:end]

    @property
    def count(self) -> int:
        """The number of rows; a row that continues another is part of it."""
        return len(self.rows) - len(self.continued)

    @property
    def left_out(self) -> int:
        """The number of rows that the renderer leaves out; HTML folds them."""
        return sum(place not in self.continued for place in range(len(self.first), len(self.rows)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A paragraph, on its own lines."""

    text: Value
    tone: Tone = Tone.PLAIN  #: How it should be taken.
    items: tuple[Value, ...] = ()  #: What it lists below.


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """Lines of one list, numbered or not; `most` as for a table."""

    items: tuple[Value, ...]
    numbered: bool = False
    most: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The next steps of a reader, request by request."""

    steps: tuple[NextStep | Invocation, ...]
    #: What declines it instead, where that is a decision; HTML shows both beside each other.
    otherwise: Invocation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Lines of code, or of a difference between two, which stay as they are."""

    lines: tuple[str, ...]
    differs: bool = False  #: True if a line says by its first character whether it was added or removed.

    @property
    def shown(self) -> tuple[str, ...]:
        """The lines with spaces for tabs, and what controls a terminal as an escape."""
        return tuple(visible(line.expandtabs(4)) for line in self.lines)

    def tone(self, line: str) -> Tone:
        """The tone of a line."""
        marks = {"+": Tone.GOOD, "-": Tone.BAD, "@": Tone.SOFT}
        return marks.get(line[:1], Tone.PLAIN) if self.differs else Tone.PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Drawings of what the tables beside them say in numbers; only HTML shows them."""

    plots: tuple[Plot, ...] = ()  #: What is drawn when the page is written.
    drawn: Markup | None = None  #: A drawing that leads somewhere, made by its screen.
    legend: tuple[tuple[str, str], ...] = ()  #: Pairs of a class of the style sheet and what it stands for.


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Blocks under a title."""

    title: str
    blocks: tuple[Block, ...]
    #: True if it is a detail: HTML shows it when it is opened, a terminal and Markdown leave it out.
    folded: bool = False
    #: True if HTML shows it when it is opened, and Markdown, which is shown beside other things, leaves it out.
    long: bool = False
    #: True if it has values of rows, which can be erased here: Markdown, which others keep, leaves it out.
    of_rows: bool = False


Block = Facts | Table | Note | Items | Steps | Listing | Chart | Section


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A screen."""

    title: Value
    blocks: tuple[Block, ...]  #: From top to bottom.
    below: Value = None  #: A line below the title: the id of what it shows, and as of when.


def facts(*pairs: tuple[str, Value]) -> Facts:
    """Names and values; those without a value are left out."""
    return Facts(pairs=tuple((name, value) for name, value in pairs if value is not None and value != ""))


def next_steps(*steps: NextStep | Invocation | None) -> Steps:
    """The next steps of a reader, from those that exist."""
    return Steps(steps=tuple(each for each in steps if each))


def several(name: str, values: Iterable[Value]) -> Iterator[tuple[str, Value]]:
    """Values of one name for `facts`, each in a row of its own."""
    return (("" if place else name, value) for place, value in enumerate(values))


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Value]],
    *,
    numbers: Iterable[str] = (),
    whole: Iterable[str] = (),
    total: Sequence[Value] = (),
    most: int | None = None,
    changed: Iterable[tuple[int, int]] = (),
    headed: bool = False,
    continued: Iterable[int] = (),
) -> Table:
    """A table; see `Table` for what is not described here.

    Args:
        columns: The heads of its columns.
        numbers: The heads of columns of numbers.
        whole: The heads of columns whose values are never broken, such as ids.
    """
    numeric, kept = set(numbers), set(whole)
    return Table(
        columns=tuple(Column(name=each, number=each in numeric, whole=each in kept) for each in columns),
        rows=tuple(tuple(row) for row in rows),
        total=tuple(total),
        most=most,
        changed=frozenset(changed),
        headed=headed,
        continued=frozenset(continued),
    )


def section(
    title: str, *blocks: Block | None, folded: bool = False, long: bool = False, of_rows: bool = False
) -> Section | None:
    """Blocks under a title; None without any."""
    there = present(blocks)
    return Section(title=title, blocks=there, folded=folded, long=long, of_rows=of_rows) if there else None


def present(blocks: Iterable[Block | None]) -> tuple[Block, ...]:
    """The blocks that say something: no empty tables, lists, facts and charts."""
    return tuple(each for each in blocks if each is not None and not _says_nothing(each))


def page(title: Value, *blocks: Block | None, below: Value = None) -> Page:
    """A page of the blocks that say something."""
    return Page(title=title, blocks=present(blocks), below=below)


def _says_nothing(block: Block) -> bool:
    match block:
        case Facts(pairs=found) | Steps(steps=found) | Items(items=found):
            return not found
        case Table(rows=rows):
            return not rows
        case Listing(lines=lines):
            return not lines
        case Chart(plots=plots, drawn=drawn):
            return not plots and not drawn
        case Section(blocks=blocks):
            return not blocks
        case Note(text=text):
            return text is None or text == ""


def run_ref(run_id: str) -> Ref:
    """The id of a run."""
    return Ref(place=Place.RUN, id=run_id)


def set_ref(set_id: str, name: str = "") -> Ref:
    """The id of a set, with what it was called."""
    text = f"{set_id} ({name})" if name and name != set_id else ""
    return Ref(place=Place.SET, id=set_id, text=text)


def table_ref(name: str) -> Ref:
    """The name of a table."""
    return Ref(place=Place.TABLE, id=name)


def partition_ref(table: str, partition: date, text: str = "") -> Ref:
    """A partition of a table."""
    return Ref(place=Place.PARTITION, id=str(partition), table=table, text=text)


def publication_ref(publication_id: str) -> Ref:
    """The id of a publication or a rollback."""
    return Ref(place=Place.PUBLICATION, id=publication_id)


def place_ref(address: str, text: str) -> Ref:
    """A text that leads to an address of the desk."""
    return Ref(place=Place.OTHER, id=address, text=text)


def words(*parts: Value) -> Words:
    """Several values in a line."""
    return Words(parts)


def joined(values: Iterable[Value], between: str = ", ") -> Words:
    """Several values in a line, with something between them."""
    found = [part for value in values for part in (between, value)]
    return Words(tuple(found[1:]))
