"""Folding: what a decision does not need is there, behind a line that opens."""

from __future__ import annotations

import re
from dataclasses import replace
from io import StringIO

from rich.console import Console

from backfill_assets.calendar.partitions import Grain, Partitions
from backfill_assets.cli.terminal import show
from backfill_assets.ledger.findings import SampledRow
from backfill_assets.report.html import glossary, html_file
from backfill_assets.report.markdown import markdown_page
from backfill_assets.report.measured import (
    GateSummary,
)
from backfill_assets.report.page import page as table_page
from backfill_assets.report.shown_rows import sample_table
from backfill_assets_tests.support.report_examples import (
    FIRST,
    gate,
    report,
)
from backfill_assets_tests.support.report_page import page


def test_gates_that_passed_are_one_line_that_opens_and_those_that_failed_stand_open() -> None:
    passed = replace(report(), gates=(gate("unique_key", 3), gate("schema", 3)))
    line = "<details><summary><h3>{}</h3></summary>"
    text, _ = page(passed)
    assert line.format("All 2 gates passed in each of 3 days") in text
    assert text.index(line.format("All 2 gates passed in each of 3 days")) < text.index(">unique_key<")
    text, _ = page(report())
    assert text.index(">wary<") < text.index(line.format("1 gate passed")) < text.index(">unique_key<")
    not_yet = GateSummary(
        gate="schema",
        demands="no",
        blocking=True,
        passed_partitions=0,
        outcome="not measured yet",
        first_failure=None,
        failed=Partitions.of(Grain.DAILY, ()),
    )
    assert "passed</h3>" not in page(replace(report(), gates=(not_yet,)))[0], "what is not measured has not passed"


def test_a_page_folds_the_rows_that_a_terminal_leaves_out_and_leaves_out_none() -> None:
    rows = [
        SampledRow(partition=FIRST, key={"id": f"row-{n}"}, before=None, after={"a": "1", "b": "2"}) for n in range(20)
    ]
    text = html_file(table_page("Rows", sample_table(rows)))
    shown, more, folded = text.partition("<details><summary>8 more</summary>")
    assert more
    assert [part.count("row-") for part in (shown, folded)] == [12, 8]
    assert [part.count('<tr class="part">') for part in (shown, folded)] == [12, 8]
    assert "</details>" in folded


def test_the_contents_have_no_two_entries_for_moves_between_states() -> None:
    text, _ = page(report())
    entries = re.findall(r'<a href="#part-\d+">([^<]*)</a>', text)
    assert [entry for entry in entries if "state" in entry.casefold()] == ["From which state to which"]
    assert "<summary>Every move of state</summary>" in text


def test_what_is_left_out_of_rows_is_counted_in_rows_and_no_row_is_cut() -> None:
    values = dict.fromkeys("abcde", "1")
    rows = [SampledRow(partition=FIRST, key={"id": f"row-{place}"}, before=None, after=values) for place in range(10)]
    console = Console(record=True, width=200, file=StringIO())
    show(console, table_page("Rows", sample_table(rows)))
    shown = console.export_text()
    assert "5 of 10 shown; all of them: the same command with --json" in shown
    assert shown.count("row-") == 5, "of five lines each: the fifth begins in the 21st line of 24 and is whole"
    assert "5 of 10 shown" in markdown_page(table_page("Rows", sample_table(rows)))


def test_the_glossary_explains_the_words_of_the_page_and_no_others() -> None:
    text, found = page(report())
    assert text.count('<details class="glossary">') == 1
    words = list(glossary(text.partition('<details class="glossary">')[0]))
    assert {"accepted", "gate", "restated"} <= set(words)
    assert not {"warm-up", "withdrawn"} & set(words)
    assert list(glossary("It reads the <b>chunks</b>, swapped.")) == ["chunk", "swap"]
    assert glossary('<p class="candidate">nothing</p>') == {}
    assert "rows that readers of the published table see now" in found.text
