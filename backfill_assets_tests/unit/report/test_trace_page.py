"""What a terminal shows of a trace: the first of many rows, with the commands that lead on."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from io import StringIO

from rich.console import Console

from backfill_assets.calendar.partitions import Grain, Partitions
from backfill_assets.cli.terminal import show
from backfill_assets.core.next_steps import Command, do, step, to_undo
from backfill_assets.ledger.records import Period
from backfill_assets.report.trace import ContributingRows, Trace, TracedRow, trace_page
from backfill_assets.report.trace_causes import CauseOfNumber, TracedCause

NOW = datetime(2026, 1, 2, tzinfo=UTC)
SEEN = Period(version=3, publication_id="pub-1", since=NOW, until=None)
RELEASED = TracedCause(
    cause=CauseOfNumber.RELEASE,
    table="silver.orders",
    partition="2026-01-01",
    key={},
    subject="orders",
    earlier="1.0.0",
    later="2.0.0",
    by="ana",
    at=NOW,
    why="it changed",
    code=do(Command.CODE, "a" * 12, "b" * 12),
)


def traced(count: int) -> Trace:
    """A trace of a number behind which so many rows of a source are; the last of them is not there any more."""
    every = [
        TracedRow(
            partition="2026-01-01",
            values={"sale_id": f"sale-{n}"},
            is_changed=True,
            import_id="imp-000002",
            file="sales.csv",
            record=n,
        )
        for n in range(count)
    ]
    rows = ContributingRows(
        table="bronze.sales",
        of="silver.orders",
        by=("day",),
        partitions=Partitions.of(Grain.DAILY, [date(2026, 1, 1)]),
        count=count - 1,
        changed=count - 1,
        rows=tuple(every[:-1]),
        replaced=tuple(every[-1:]),
        problem=None,
    )
    return Trace(
        table="silver.orders",
        partition="2026-01-01",
        key={},
        at=None,
        seen=SEEN,
        name=None,
        shown=(),
        undo=step(to_undo("a-run")),
        stale=(),
        values={"amount": "7"},
        problem=None,
        causes=(RELEASED,),
        periods=(SEEN,),
        publications=(),
        inputs=(rows,),
        records=(),
    )


def printed(found: Trace) -> str:
    console = Console(file=StringIO(), width=160)
    show(console, trace_page(found))
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_a_terminal_shows_the_first_of_many_rows_and_says_how_to_see_all() -> None:
    text = printed(traced(600))
    assert len(text.splitlines()) < 60
    assert "sale-19 " in text and "sale-20 " not in text
    assert "Every row of the tables: --json" in text
    assert "--json" not in printed(traced(20))


def test_a_row_that_was_there_before_has_the_name_of_its_file_too() -> None:
    text = printed(traced(2))
    assert text.count("sales.csv") == 2 and "imp-000002" not in text


def test_the_commands_that_undo_a_number_and_compare_the_code_of_two_releases_are_printed() -> None:
    text = printed(traced(2))
    assert "to undo it" in text and "backfill rollback a-run" in text
    assert f"backfill code {'a' * 12} {'b' * 12}" in text
    assert "backfill code" not in printed(replace(traced(2), causes=(replace(RELEASED, code=None),)))
