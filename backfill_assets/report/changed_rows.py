"""Changed rows as a document: how many rows of each table are added, removed and changed, and the first of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

from backfill_assets.calendar.partitions import DayRange, Grain, Partitions, count_of
from backfill_assets.candidates.compare import (
    EVERY,
    ComparedGroup,
    ComparedSides,
    RowSelection,
    WhyNotCompared,
    compared_groups,
    shape_of_rows,
)
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.next_steps import Command, Invocation, do
from backfill_assets.gates.by_values import ADDED, CHANGED, DIFFERENT, EQUAL, REMOVED
from backfill_assets.lake.row_values import text_rows_of
from backfill_assets.ledger.findings import Values
from backfill_assets.planning.sets import is_set
from backfill_assets.report.errors import NotOneOf
from backfill_assets.report.page import (
    Block,
    Note,
    Page,
    Table,
    Tone,
    Toned,
    Value,
    joined,
    next_steps,
    page,
    place_ref,
    run_ref,
    section,
    set_ref,
    table,
    words,
)
from backfill_assets.report.run_list import changes_address, refused_page
from backfill_assets.report.values import key_text

FIRST_ROWS = 20
"""How many rows of a table are shown where all of them are counted."""

PAGE_ROWS = 50
"""How many rows a page of the desk has."""

MOST_GROUPS = 8
"""So many groups of partitions are compared for one page of the desk at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedRow:
    """A row that differs, before and after."""

    partition: date  #: The partition it is in.
    kind: str  #: How its key differs: `added`, `removed` or `changed`; `equal` where equal rows are asked for.
    changed: tuple[str, ...]  #: The columns that differ, of a row that is on both sides.
    key: Values  #: The columns that identify it, the partition first, as text.
    before: Values | None  #: Its other columns as text; null where it is not on this side.
    after: Values | None  #: The same afterwards.


@dataclass(frozen=True, slots=True, kw_only=True)
class NotCompared:
    """Partitions whose rows are not compared."""

    why: WhyNotCompared  #: NOT_STAGED, LOST or OTHER_COLUMNS.
    partitions: Partitions  #: The partitions.


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDiff:
    """The differences between the rows of a table."""

    table: str  #: The table.
    partitions: Partitions  #: The partitions that are compared.
    not_compared: tuple[NotCompared, ...]  #: Those that are not, with the reasons.
    added: int  #: How many keys are on the later side only, of those that are asked for.
    removed: int  #: How many are on the earlier side only.
    changed: int  #: How many are on both sides with other values.
    rows: tuple[ChangedRow, ...] = ()  #: The first rows, in the order of keys; empty where they are written to a file.
    file: str | None = None  #: The file with all of them, or null.
    #: How many rows it has, which is more than keys where several rows share one; null without a file.
    file_rows: int | None = None

    @property
    def differing(self) -> int:
        return self.added + self.removed + self.changed


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffDocument:
    """Every row that differs between a run, or the runs of a set, and what they were compared with, or between two
    states of a table.
    """

    of: str  #: The run, the set or the table.
    before: str | None = None  #: Of a table, its earlier state as it was asked for; else null.
    after: str | None = None  #: The later one.
    days: DayRange | None = None  #: Of a table, the days of the partitions that are asked for; null for all.
    kinds: tuple[str, ...]  #: The kinds that are asked for.
    columns: tuple[str, ...]  #: The columns that are compared; empty for all.
    where: str  #: The condition that a row fulfils before or after; empty for none.
    tables: tuple[TableDiff, ...] = ()  #: Table by table.


@dataclass(kw_only=True, slots=True)
class KeyCount:
    """Counts of keys by the way in which they differ, added up."""

    by_kind: dict[str, int] = field(default_factory=dict)

    def add(self, found: Mapping[str, int]) -> None:
        for kind, count in found.items():
            self.by_kind[kind] = self.by_kind.get(kind, 0) + count


def require_columns(table: str, known: Sequence[str], columns: Sequence[str]) -> None:
    """Refuses columns that cannot be compared.

    Raises:
        NotOneOf: The table has no such column, or it is of the key.
    """
    for name in columns:
        if name not in known:
            raise NotOneOf(what=f"the column of {table} to compare", value=name[:100], known=known)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedPage:
    """The requested page of changed rows."""

    table: str = ""  #: The table; empty for the first one.
    kind: str = ""  #: Only rows of this kind; empty for all.
    column: str = ""  #: Only rows that differ in this column, and rows on one side; empty for all.
    begin: date | None = None  #: The partition of the first row; null for the first partition.
    skip: int = 0  #: How many rows of this partition are on earlier pages.


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCounts:
    """Counts of a table's differing keys."""

    table: str
    added: int  #: How many are on the later side only.
    removed: int  #: How many are on the earlier side only.
    changed: int  #: How many are on both sides with other values.


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedRowsPage:
    """A page of changed rows."""

    of: str  #: The run or the set.
    asked: AskedPage  #: What was asked for.
    tables: tuple[str, ...]  #: The tables that can be chosen.
    #: How many keys of each table differ: as its gates counted them, or where they are few enough to be compared for
    #: the page. Of other tables nothing is known yet.
    counts: tuple[KeyCounts, ...] = ()
    #: How many of them are asked for by kind and column; null where nothing is left out, or too many keys would have to
    #: be compared.
    chosen: KeyCounts | None = None
    columns: tuple[str, ...] = ()  #: The columns that can be chosen.
    kinds: tuple[str, ...] = DIFFERENT  #: The kinds that can be chosen.
    rows: tuple[ChangedRow, ...] = ()  #: The rows, in the order of keys.
    not_compared: tuple[NotCompared, ...] = ()  #: Partitions that are not compared.
    next: AskedPage | None = None  #: Where the next page begins; null on the last one.
    problem: BackfillError | None = None  #: Why there are no rows to show, or null.


def page_of_rows(
    compared: ComparedSides,
    asked: AskedPage,
    *,
    name: str,
    tables: tuple[str, ...],
    measured: Mapping[str, KeyCounts],
    most: int = PAGE_ROWS,
) -> ChangedRowsPage:
    """A page of changed rows. It ends early where many partitions have none that are asked for.

    Args:
        name: The run or the set.
        tables: Those that can be chosen.
        measured: How many keys differ, by table, as far as gates have counted them.
    """
    table = compared.sides.table
    columns = shape_of_rows(table).values
    require_columns(table.name, columns, [asked.column] if asked.column else [])
    if asked.kind and asked.kind not in DIFFERENT:
        raise NotOneOf(what="the kind of row", value=asked.kind[:100], known=DIFFERENT)
    wanted = RowSelection(
        kinds=(asked.kind,) if asked.kind else DIFFERENT, columns=(asked.column,) if asked.column else ()
    )
    rows: list[ChangedRow] = []
    follows: AskedPage | None = None
    skip, begin = asked.skip, asked.begin or date.min
    for place, group in enumerate(compared_groups(compared, wanted, begin=begin)):
        if place == MOST_GROUPS:
            follows = replace(asked, begin=group.partitions[0], skip=0)
            break
        rows += changed_rows(group, skip=skip, most=most + 1 - len(rows))
        skip = 0
        if len(rows) > most:
            rows.pop()
            last = rows[-1].partition
            shown = sum(row.partition == last for row in rows) + (asked.skip if last == asked.begin else 0)
            follows = replace(asked, begin=last, skip=shown)
            break
    counts = {**measured}
    if table.name not in counts and (found := _counted(compared, EVERY)):
        counts[table.name] = found
    return ChangedRowsPage(
        of=name,
        asked=asked,
        tables=tables,
        counts=tuple(counts[each] for each in tables if each in counts),
        chosen=_chosen(compared, asked, wanted, counts.get(table.name)),
        columns=columns,
        rows=tuple(rows),
        not_compared=not_compared(table.partition.grain, compared.not_compared),
        next=follows,
    )


def _chosen(
    compared: ComparedSides, asked: AskedPage, wanted: RowSelection, counts: KeyCounts | None
) -> KeyCounts | None:
    """The number of keys that are asked for, by kind and column."""
    if asked.column:
        return _counted(compared, wanted)
    if not asked.kind or counts is None:
        return None
    of_kind = {asked.kind: getattr(counts, asked.kind)}
    return KeyCounts(table=counts.table, **{kind: of_kind.get(kind, 0) for kind in DIFFERENT})


def _counted(compared: ComparedSides, wanted: RowSelection) -> KeyCounts | None:
    """The number of differing keys; None where more groups of partitions would be compared than a page may take."""
    total = KeyCount()
    for place, group in enumerate(compared_groups(compared, wanted)):
        if place == MOST_GROUPS:
            return None
        total.add(group.keys())
    return KeyCounts(table=compared.sides.table.name, **{kind: total.by_kind.get(kind, 0) for kind in DIFFERENT})


def table_diff(
    compared: ComparedSides,
    counted: Mapping[str, int],
    *,
    rows: Sequence[ChangedRow] = (),
    file: str | None = None,
    file_rows: int | None = None,
) -> TableDiff:
    """The document of one table."""
    table = compared.sides.table
    return TableDiff(
        table=table.name,
        partitions=Partitions.of(table.partition.grain, compared.partitions),
        not_compared=not_compared(table.partition.grain, compared.not_compared),
        added=counted.get(ADDED, 0),
        removed=counted.get(REMOVED, 0),
        changed=counted.get(CHANGED, 0),
        rows=tuple(rows),
        file=file,
        file_rows=file_rows,
    )


def not_compared(grain: Grain, found: Mapping[date, WhyNotCompared]) -> tuple[NotCompared, ...]:
    """Partitions that are not compared, by reason."""
    reasons = [why for why in WhyNotCompared if why in found.values()]
    return tuple(
        NotCompared(why=why, partitions=Partitions.of(grain, (p for p, each in found.items() if each is why)))
        for why in reasons
    )


def first_rows(compared: ComparedSides, wanted: RowSelection = EVERY, *, most: int = FIRST_ROWS) -> TableDiff:
    """The number of differing rows of a table, and the first of them."""
    total, rows = KeyCount(), list[ChangedRow]()
    for group in compared_groups(compared, wanted):
        total.add(group.keys())
        if len(rows) < most:
            rows += changed_rows(group, most=most - len(rows))
    return table_diff(compared, total.by_kind, rows=rows)


def changed_rows(group: ComparedGroup, *, skip: int = 0, most: int | None = None) -> Iterator[ChangedRow]:
    """Rows of a group of partitions as texts."""
    key, values = group.shape.key, group.shape.values
    for batch in group.rows(skip=skip, most=most):
        facts = batch.select(["kind", "differ", "on_staged", "on_accepted", "k_0"]).to_pylist()
        for row, fact in zip(text_rows_of(batch.drop_columns(["differ"])), facts, strict=True):
            before, after = ({name: row[f"{side}_{n}"] for n, name in enumerate(values)} for side in _SIDES)
            yield ChangedRow(
                partition=fact["k_0"],
                kind=fact["kind"],
                changed=tuple(fact["differ"]),
                key={name: row[f"k_{n}"] for n, name in enumerate(key)},
                before=before if fact["on_accepted"] else None,
                after=after if fact["on_staged"] else None,
            )


_SIDES = ("before", "after")


# Changed rows: how many rows of each table differ, and the first of them, each with its values before and after.

_WHY = {
    WhyNotCompared.NOT_STAGED: "not staged yet",
    WhyNotCompared.LOST: "the files of the accepted rows are gone or damaged, so that their rows cannot be read",
    WhyNotCompared.OTHER_COLUMNS: "the accepted rows have other columns than are declared now",
}
_TONES = {ADDED: Tone.GOOD, REMOVED: Tone.BAD, EQUAL: Tone.SOFT}
_HEADS = ("row", "column", "before", "after")


def diff_page(found: DiffDocument) -> Page:
    """Every row that differs, or the first of them and how all are had."""
    between = f": {found.before} and {found.after}" if found.before else ""
    is_first_part = any(len(each.rows) < each.differing for each in found.tables if each.file is None)
    return page(
        f"Changed rows of {found.of}{between}",
        _asked_for(found),
        *(
            section(each.table, *_of_table(each, said="such row" if _chooses(found) else "row"))
            for each in found.tables
        ),
        next_steps(_all_of(found)) if is_first_part else None,
    )


def _chooses(found: DiffDocument) -> bool:
    """True if only some of the differing rows are asked for."""
    return bool(found.columns or found.where or set(found.kinds) != set(DIFFERENT))


def _asked_for(found: DiffDocument) -> Note | None:
    """The differing rows that are asked for, where others are not counted."""
    kinds = f"rows that are {found.kinds[0]}" if len(found.kinds) == 1 else "rows"
    differ = f"that differ in {' or '.join(found.columns)}" if found.columns else ""
    fulfil = f"where {found.where}" if found.where else ""
    asked = " ".join(filter(None, (kinds, differ, fulfil)))
    return Note(text=f"Asked for: {asked}. Other rows are not counted.") if _chooses(found) else None


def _of_table(found: TableDiff, *, said: str) -> Iterable[Block | None]:
    counts = f"{found.changed:,} changed, {found.added:,} added, {found.removed:,} removed"
    is_any = found.differing > 0
    yield Note(text=f"{counts}, in {found.partitions}." if is_any else f"No {said} differs in {found.partitions}.")
    yield from map(not_compared_note, found.not_compared)
    if found.file is not None:
        yield Note(text=f"{count_of(found.file_rows or 0, 'row')} written to {found.file}.")
    yield rows_table(found.rows)
    if found.rows and len(found.rows) < found.differing:
        yield Note(text=f"These are the first {len(found.rows)} of {found.differing:,} rows, by key.", tone=Tone.SOFT)


def changes_page(found: ChangedRowsPage) -> Page:
    """A page of the desk with rows that a run or a set changes."""
    of, asked = found.of, found.asked
    named = set_ref(of) if is_set(of) else run_ref(of)
    if found.problem:
        return page(
            words("Changed rows of ", named), *refused_page(found.problem.message, found.problem.next_step).blocks
        )
    row = "such row" if asked.kind or asked.column else "row"
    nothing = f"No more {row} differs." if asked.begin else f"No {row} differs."
    if found.next and not found.rows:
        nothing = f"No {row} differs in the partitions that were compared for this page."
    links = {
        "first": replace(asked, begin=None, skip=0) if asked.begin else None,
        "next": found.next,
    }
    to = [place_ref(_address(of, each), f"{text} page") for text, each in links.items() if each]
    return page(
        words("Changed rows of ", named),
        _counts_table(found),
        _not_counted(found),
        *map(not_compared_note, found.not_compared),
        section(asked.table, rows_table(found.rows), of_rows=True),
        None if found.rows else Note(text=nothing),
        Note(text=joined(to, " ")) if to else None,
        below="Before: as accepted when the run was measured, or last seen by readers. After: as the run computed it.",
    )


def _counts_table(found: ChangedRowsPage) -> Table:
    """A table of the number of differing keys by table and, below, of how many of them are asked for."""
    rows = [(each.table, each) for each in found.counts]
    if found.chosen:
        rows.append((f"shown below: {', '.join(filter(None, (found.asked.kind, found.asked.column)))}", found.chosen))
    counts = [(name, each.added, each.removed, each.changed) for name, each in rows]
    return table(("table", *DIFFERENT), counts, numbers=DIFFERENT)


def _not_counted(found: ChangedRowsPage) -> Note | None:
    """The way to count keys where there are too many for a page."""
    asked = found.asked
    if asked.table in {each.table for each in found.counts} and (found.chosen or not (asked.kind or asked.column)):
        return None
    given = {"table": asked.table if len(found.tables) > 1 else "", "kind": asked.kind, "columns": asked.column}
    counts = do(Command.DIFF, found.of).also(*((name, value) for name, value in given.items() if value))
    return Note(text=words("There are too many rows to count those that are asked for here: ", counts), tone=Tone.SOFT)


def _address(name: str, asked: AskedPage) -> str:
    return changes_address(
        name, table=asked.table, kind=asked.kind, column=asked.column, begin=asked.begin, skip=asked.skip or None
    )


def not_compared_note(found: NotCompared) -> Note:
    """Partitions that are not compared, and why."""
    return Note(text=f"Not compared: {found.partitions}: {_WHY[found.why]}.", tone=Tone.ATTENTION)


def _all_of(found: DiffDocument) -> Invocation:
    """The command that writes all rows to a file."""
    asked: list[tuple[str, str]] = [("as-of", each) for each in (found.before, found.after) if each]
    if found.days:
        asked += [("first", str(found.days.start)), ("last", str(found.days.last))]
    asked += [("kind", each) for each in found.kinds] if set(found.kinds) != set(DIFFERENT) else []
    asked += [("columns", ",".join(found.columns))] if found.columns else []
    asked += [("where", found.where)] if found.where else []
    return do(Command.DIFF, found.of).also(*asked, ("to", "changed.parquet"))


def rows_table(rows: Sequence[ChangedRow]) -> Table:
    """Rows before and after, a line for every value that differs."""
    lines = [(place, line) for row in rows for place, line in enumerate(row_lines(row))]
    return table(_HEADS, [line for _, line in lines], continued=(at for at, (place, _) in enumerate(lines) if place))


def row_lines(row: ChangedRow) -> Iterable[Sequence[Value]]:
    """The lines of a row: its values where they differ, all of them where it is on one side or equal."""
    before, after, key = row.before or {}, row.after or {}, key_text(row.key)
    # A column that differs can have the same text on both sides, such as the text `null` and no value.
    names = row.changed or [name for name in {**before, **after} if before.get(name) != after.get(name)]
    if row.kind == EQUAL:
        names = list(after)
    tone = _TONES.get(row.kind)
    named: Value = words(key, Toned(value=f" {row.kind}", tone=tone)) if tone else key
    for place, name in enumerate(names):
        yield (named if place == 0 else "", name, *(_text(side, name) for side in (row.before, row.after)))
    if not names:
        yield (named, "", "", "")


def _text(values: Values | None, name: str) -> str:
    if values is None:
        return ""
    value = values.get(name)
    return "null" if value is None else value
