"""Changed rows: how many rows of each table differ, and the first of them, each with its values before and after."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from backfill_assets.candidates.compared_sides import WhyNotCompared
from backfill_assets.core.next_steps import Act, Invocation, do
from backfill_assets.gates.by_values import ADDED, DIFFERENT, EQUAL, REMOVED
from backfill_assets.ledger.findings import Values
from backfill_assets.planning.partitions import count_of
from backfill_assets.planning.sets import is_set
from backfill_assets.report.changed_rows import (
    AskedPage,
    ChangedRow,
    ChangedRowsPage,
    DiffDocument,
    NotCompared,
    TableDiff,
)
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
from backfill_assets.report.screens.desk import changes_address, refused_page
from backfill_assets.report.values import key_text

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
    counts = do(Act.DIFF, found.of).also(*((name, value) for name, value in given.items() if value))
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
    return do(Act.DIFF, found.of).also(*asked, ("to", "changed.parquet"))


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
