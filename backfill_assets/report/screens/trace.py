"""Trace of a number: its value, the publications behind it, and the rows and records that it was computed from."""

from __future__ import annotations

from collections.abc import Iterator

from backfill_assets.core.next_steps import Option, step
from backfill_assets.planning.partitions import count_of
from backfill_assets.report.page import (
    Note,
    Page,
    Place,
    Ref,
    Section,
    Table,
    Tone,
    Value,
    facts,
    page,
    publication_ref,
    run_ref,
    section,
    table,
    words,
)
from backfill_assets.report.screens.shadow import times_shown
from backfill_assets.report.screens.staleness import stale_note
from backfill_assets.report.trace import ContributingRows, Trace
from backfill_assets.report.trace_causes import CauseOfNumber, TracedCause
from backfill_assets.report.trace_publications import TracedPublication
from backfill_assets.report.values import key_text

_MORE = words("To follow more of them: ", step(Option("rows", "N")), ".")


_EVERY = words("Every row of the tables: ", step(Option("json")), ".")
_MOST = 20
"""How many rows of a table a terminal shows."""


def trace_page(found: Trace, *, more: Value = _MORE, every: Value = _EVERY) -> Page:
    """A number with its causes and its sources.

    Args:
        more: How a reader follows more rows.
        every: How a reader of a terminal, which shows the first of many, sees every row.
    """
    seen = found.seen
    periods = [
        (each.version or "none", each.since, each.until or "now", publication_ref(each.publication_id))
        for each in found.periods
    ]
    lengths = [len(found.records), *(len(each.rows) + len(each.replaced) for each in found.inputs)]
    return page(
        f"{found.table} {found.partition}{f': {key_text(found.key)}' if found.key else ''}",
        stale_note(found.table, found.stale),
        Note(text=f"{found.asked_day} is a day of the partition {found.partition}: this is the number of all its days.")
        if found.asked_day
        else None,
        facts(
            ("at", found.at),
            ("version", seen.version),
            (f"published in {found.table} from" if found.name else "readers saw it from", seen.since),
            ("until", seen.until or "now"),
            *found.values.items(),
            ("to undo it", found.undo),
        ),
        Note(text=f"Its values cannot be shown: {found.problem}", tone=Tone.ATTENTION) if found.problem else None,
        times_shown(found.table, found.name, found.shown),
        section("Last change of the number", _causes(found), *_codes(found)),
        section("Publications, back to the request", _publications(found)),
        section(
            f"Every version in {found.table}" if found.name else "Every version that readers saw",
            table(["version", "from", "until", "by"], periods),
        ),
        *(_rows(each, more) for each in found.inputs),
        section("Landed records", _records(found)),
        Note(text=every, tone=Tone.SOFT) if every and max(lengths, default=0) > _MOST else None,
    )


_CAUSES = {
    CauseOfNumber.ROLLBACK: "rollback",
    CauseOfNumber.RELEASE: "release",
    CauseOfNumber.CONFIGURATION: "configuration",
    CauseOfNumber.REFERENCE: "reference",
    CauseOfNumber.RECORD: "landed record",
    CauseOfNumber.DELETE: "delete",
    CauseOfNumber.WITHDRAWAL: "withdrawal",
    CauseOfNumber.RESTORATION: "restoration",
}


def _causes(found: Trace) -> Table:
    rows = [
        (
            _CAUSES[each.cause],
            f"{each.table} {each.partition}{f', {key_text(each.key)}' if each.key else ''}",
            _subject(each),
            _number(each.record),
            each.by,
            each.at,
            each.why,
        )
        for each in found.causes
    ]
    heads = ["what", "of", "file or version", "record", "by", "at", "why"]
    return table(heads, rows, numbers=["record"])


def _codes(found: Trace) -> Iterator[Note]:
    for code in dict.fromkeys(each.code for each in found.causes if each.code):
        yield Note(text=words("How the code differs: ", code), tone=Tone.SOFT)


def _subject(cause: TracedCause) -> Value:
    if cause.cause is CauseOfNumber.ROLLBACK:
        return words("of ", publication_ref(cause.subject))
    if cause.later is None:
        return cause.subject
    earlier = "none" if cause.earlier is None else cause.earlier
    same = cause.earlier == cause.later
    return f"{cause.subject} {cause.later}, edited" if same else f"{cause.subject}: {earlier}, then {cause.later}"


def _publications(found: Trace) -> Table:
    rows = [
        (
            publication_ref(each.publication_id),
            each.table,
            each.at,
            run_ref(each.run_id),
            _released(each),
            each.requested_by,
            each.approved_by,
            each.ran_by,
            each.reason,
        )
        for each in found.publications
    ]
    heads = ["publication", "table", "at", "run", "release", "asked by", "approved by", "run by", "reason"]
    return table(heads, rows, whole=["publication", "run"])


def _released(found: TracedPublication) -> str:
    if found.undoes:
        return f"rolled {found.release} back"
    return f"{found.release}, which kept the row" if found.kept else found.release


def _rows(found: ContributingRows, more: Value) -> Section | None:
    """Rows of a table, and what those that changed were before; of a source each with its landed record."""
    every = (*found.rows, *found.replaced)
    columns = list(dict.fromkeys(name for row in every for name in row.values))
    marks, is_source = bool(found.changed or found.replaced), any(row.import_id for row in every)
    rows = [
        (
            Ref(place=Place.PARTITION, id=row.partition, table=found.table),
            *([mark if row.is_changed else ""] if marks else []),
            *(row.values.get(name) for name in columns),
            *((row.file, _number(row.record)) if is_source else ()),
        )
        for mark, listed in (("yes", found.rows), ("was", found.replaced))
        for row in listed
    ]
    heads = ["partition", *(["changed"] if marks else []), *columns, *(["file", "record"] if is_source else [])]
    return section(
        f"{found.table}, from which {found.of} was computed",
        *(Note(text=text, tone=Tone.SOFT) for text in _said(found)),
        Note(text=more, tone=Tone.SOFT) if found.count and found.count > len(found.rows) else None,
        table(heads, rows, most=_MOST),
    )


def _number(record: int | None) -> str | None:
    """The number of a record, as an editor writes that of its line."""
    return None if record is None else str(record)


def _said(found: ContributingRows) -> Iterator[str]:
    yield f"Read: {found.partitions}."
    if found.problem:
        yield f"Its rows cannot be named: {found.problem}."
    elif found.count is not None:
        more = f"; followed: the first {count_of(len(found.rows), 'row')}" if found.count > len(found.rows) else ""
        first = ", those that changed before the others" if more and found.changed else ""
        same = f" with the same {', '.join(found.by)}" if found.by else ", all that was read"
        yield f"{count_of(found.count, 'row')}{same}{more}{first}."
    if found.changed is not None:
        changed = f"{found.changed:,} of them" if found.changed else "None of them"
        is_or_are = "is" if found.changed == 1 else "are"
        yield f"{changed} {is_or_are} new or changed since the version of {found.of} that was replaced."


def _records(found: Trace) -> Table:
    rows = [
        (
            f"{each.table} {each.partition}",
            key_text(each.key),
            each.landed.import_id,
            each.landed.name,
            _number(each.record),
            "was" if each.is_replaced else "",
            each.landed.landed_by,
            each.landed.landed_at,
        )
        for each in found.records
    ]
    heads = ["row of", "key", "import", "file", "record", "", "landed by", "landed"]
    return table(heads, rows, numbers=["record"], whole=["import"], most=_MOST)
