"""Trace of a number: its value, the publications behind it, and the rows and records that it was computed from."""

from __future__ import annotations

from collections.abc import Iterator

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
from backfill_assets.report.requests import Option, step
from backfill_assets.report.screens.shadow import times_shown
from backfill_assets.report.screens.staleness import stale_note
from backfill_assets.report.trace import ContributingRows, Trace, TracedPublication
from backfill_assets.report.values import key_text

_MORE = words("To follow more of them: ", step(Option("rows", "N")), ".")


def trace_page(found: Trace, *, more: Value = _MORE) -> Page:
    """A number with its causes and its sources.

    Args:
        more: How a reader follows more rows.
    """
    seen = found.seen
    periods = [
        (each.version or "none", each.since, each.until or "now", publication_ref(each.publication_id))
        for each in found.periods
    ]
    return page(
        f"{found.table} {found.partition}{f': {key_text(found.key)}' if found.key else ''}",
        stale_note(found.table, found.stale),
        facts(
            ("at", found.at),
            ("version", seen.version),
            (f"published in {found.table} from" if found.name else "readers saw it from", seen.since),
            ("until", seen.until or "now"),
            *found.values.items(),
        ),
        Note(text=f"Its values cannot be shown: {found.problem}", tone=Tone.ATTENTION) if found.problem else None,
        times_shown(found.table, found.name, found.shown),
        section("Publications, back to the request", _publications(found)),
        section(
            f"Every version in {found.table}" if found.name else "Every version that readers saw",
            table(["version", "from", "until", "by"], periods),
        ),
        *(_rows(each, more) for each in found.inputs),
        section("Landed records", _records(found)),
    )


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
    columns = list(dict.fromkeys(name for row in found.rows for name in row.values))
    marks = bool(found.changed)
    rows = [
        (
            Ref(place=Place.PARTITION, id=row.partition, table=found.table),
            *(["yes" if row.is_changed else ""] if marks else []),
            *(row.values.get(name) for name in columns),
        )
        for row in found.rows
    ]
    return section(
        f"{found.table}, from which {found.of} was computed",
        *(Note(text=text, tone=Tone.SOFT) for text in _said(found)),
        Note(text=more, tone=Tone.SOFT) if found.count and found.count > len(found.rows) else None,
        table(["partition", *(["changed"] if marks else []), *columns], rows),
    )


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
    # A record has the number of its line, as an editor writes it.
    rows = [
        (file.import_id, file.original_path, None if number is None else str(number), file.landed_by, file.landed_at)
        for file, number in ((each.landed, each.record) for each in found.records)
    ]
    return table(["import", "file", "record", "landed by", "landed"], rows, numbers=["record"])
