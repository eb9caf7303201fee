"""Lines and tables on a terminal that is narrower than they are."""

from __future__ import annotations

import shlex
from io import StringIO
from typing import TextIO

import pytest

from backfill_assets.cli.console import PlainConsole, terminal
from backfill_assets.cli.terminal import show
from backfill_assets.core.next_steps import Command, do, step
from backfill_assets.report.page import Block as Shown
from backfill_assets.report.page import Items, Moved, Note, Steps, Tone, facts, page, table, words

RUN = "revenue_per_customer_segment_and_country-20261122-883bd301"
WHY = "the provider's discounts were booked twice, and nobody had noticed it until the auditors asked"


def lines(*blocks: Shown, width: int = 80) -> list[str]:
    out = StringIO()
    show(PlainConsole(file=out, width=width), page("Title", *blocks))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_a_command_goes_on_behind_a_backslash_and_is_the_same_for_a_shell() -> None:
    asked = do(Command.ROLLBACK, RUN, by="ana", reason=WHY, with_dependents=True)
    shown = lines(Steps(steps=(step("undo it: ", asked, ", or leave it"),)), width=110)
    assert all(len(line) <= 110 for line in shown)
    assert shown[0].startswith("next: undo it:")
    command = "\n".join(shown).partition("backfill")[2].rpartition(", or leave it")[0]
    # As a shell reads it: a backslash at the end of a line joins it with the next one.
    assert shlex.split(command.replace("\\\n", "")) == [
        "rollback",
        RUN,
        "--by",
        "ana",
        "--reason",
        WHY,
        "--with-dependents",
    ]
    assert sum(line.endswith(" \\") for line in shown) >= 1


def test_text_goes_on_in_the_next_line_and_its_words_stay_whole() -> None:
    said = f"{WHY}: {WHY}"
    for block in (Note(text=said, tone=Tone.BAD), Items(items=(said,), numbered=True), facts(("why", said))):
        shown = lines(block)
        assert len(shown) > 1 and all(len(line) <= 80 for line in shown)
        assert " ".join(" ".join(shown).split()).endswith(said)
    whole = lines(Note(text=said), width=120)
    assert whole == [said]


def test_the_space_before_a_command_stays_where_a_line_is_folded() -> None:
    until = step(f"{WHY}; commands use it until ", do(Command.DOWN), "; ", do(Command.UP), " starts it")
    for block in (Note(text=until), Steps(steps=(until,))):
        assert "it until backfill down; backfill up starts it" in " ".join(" ".join(lines(block)).split())


def test_a_word_that_is_longer_than_a_line_is_broken_and_complete() -> None:
    path = "/srv/" + "a_long_folder/" * 12
    shown = lines(Note(text=words("it is in ", path)))
    assert all(len(line) <= 80 for line in shown)
    assert "".join("".join(shown).split()) == f"itisin{path}"


def test_a_table_whose_ids_find_no_room_is_its_rows_below_each_other() -> None:
    heads = ["run", "kind", "partitions", "state", "rows"]
    rows = [(RUN, "REPROCESSING", "2025-02-01..2025-04-30, 89 days", "PASSED", 1_234_567), (RUN, None, "", "FAILED", 0)]
    shown = lines(table(heads, rows, numbers=["rows"], whole=["run", "state"]))
    assert shown == [
        f"run {RUN}",
        "  kind REPROCESSING  partitions 2025-02-01..2025-04-30, 89 days  state PASSED",
        "  rows 1,234,567",
        f"run {RUN}",
        "  state FAILED  rows 0",
    ]
    beside = lines(table(heads, [(RUN[-17:], *rows[0][1:])], numbers=["rows"], whole=["run", "state"]))
    assert beside[0].split() == heads


def test_a_value_of_a_row_that_goes_on_in_the_next_line_is_indented_more_than_the_next_value() -> None:
    rows = [("2026-11-27 23:06:57 UTC", WHY, "x" * 50)]
    assert lines(table(["at", "why", "run"], rows, whole=["at", "why", "run"]), width=60) == [
        "at 2026-11-27 23:06:57 UTC",
        "  why the provider's discounts were booked twice, and nobody",
        "    had noticed it until the auditors asked",
        f"  run {'x' * 50}",
    ]


@pytest.mark.parametrize("width", [80, 160])
def test_no_name_of_a_column_and_no_value_is_cut_however_many_columns_there_are(width: int) -> None:
    names = [f"name_of_the_column_{number}" for number in range(14)]
    shown = "\n".join(lines(table(names, [[f"value-{name}" for name in names]]), width=width))
    for name in names:
        assert name in shown and f"value-{name}" in shown


def test_a_number_before_and_after_stays_on_its_line_and_other_columns_follow_in_a_table_of_their_own() -> None:
    moved = Moved(before=14_708, after=14_707, how_far="-1, under 0.1%")
    heads = ["jurisdiction", "clock", "rows", "breached", "met"]
    shown = lines(table(heads, [("IN", "decision", moved, moved, moved)], numbers=heads[2:]))
    assert [line.split()[0] for line in shown if line] == ["jurisdiction", "IN"] * 3
    assert sum("14,708 \u2192 14,707 (-1, under 0.1%)" in line for line in shown) == 3


def test_numbers_beside_long_labels_stand_below_them_instead_of_in_a_table_each() -> None:
    heads = ["table", "input range", "of these warm-up", "rows", "files", "size"]
    days = "2025-03-01..2025-06-01, 93 days"
    shown = lines(table(heads, [("bronze.case_events", days, days, 6_078, 93, "0.5 MiB")], numbers=heads[3:]))
    assert (shown[0], shown[-1]) == ("table bronze.case_events", "  size 0.5 MiB")


@pytest.mark.parametrize(("columns", "width"), [("80", 80), ("200", 200), ("20", 60)])
def test_a_terminal_is_as_wide_as_it_is(monkeypatch: pytest.MonkeyPatch, columns: str, width: int) -> None:
    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("COLUMNS", columns)
    stream: TextIO = Terminal()
    assert terminal(stream).width == width
    monkeypatch.delenv("COLUMNS")
    assert terminal(StringIO()).width == 160
