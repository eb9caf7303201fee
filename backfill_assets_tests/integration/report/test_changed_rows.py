"""Every changed row of a run, of a set, and of two states: those that pandas finds, and as many as the gates count."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from backfill_assets.application.diff import diff_of, diff_of_states
from backfill_assets.application.plan import plan_phases
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.candidates import compare
from backfill_assets.candidates.compare import EVERY, ComparedFiles, RowSelection
from backfill_assets.candidates.errors import NoCondition, RowsRemoved
from backfill_assets.core.errors import BackfillError, Refused
from backfill_assets.desk.app import create_app
from backfill_assets.ledger.errors import NotStaged
from backfill_assets.ledger.states import RunState
from backfill_assets.main import app
from backfill_assets.planning.request import PlanRequest
from backfill_assets.planning.sets import AskedPhases, Phases
from backfill_assets.report.changed_rows import TableDiff, first_rows, page_of_rows
from backfill_assets.report.report import run_report
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.desk_reader import PATIENCE_S, get
from backfill_assets_tests.support.lakes import folder_of
from backfill_assets_tests.support.ledger_book import JOURNAL, entry, open_book
from backfill_assets_tests.support.shop import OUTPUT, RECENT, Shop, WorkIn, ticking_clock
from backfill_assets_tests.support.two_releases import FIRST, by_pandas, drawn, in_delta, opened, things

DAYS = replace(OUTPUT, start=FIRST, end=date(2026, 1, 4))


def counts(found: TableDiff) -> tuple[int, int, int]:
    return found.added, found.removed, found.changed


def in_file(path: Path) -> list[Mapping[str, Any]]:
    rows: list[Mapping[str, Any]] = pq.read_table(path).to_pylist()
    return rows


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.long)])
def test_the_rows_are_those_that_pandas_finds_and_as_many_as_the_gate_counts(
    tmp_path: Path, spark: SparkSession, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = opened(tmp_path / "home", spark, drawn(seed))
    try:
        shop.publish(_ready(shop, "0.9.0"))
        before = in_delta(shop)
        run_id = _ready(shop, "1.0.0")
        waiting = [diff_of(shop.ws, run_id, EVERY, to=tmp_path / f"waiting{each}") for each in SUFFIXES]
        # By Spark, which reads what is not read as it is written.
        monkeypatch.setattr(compare, "opened_sides", _nothing_is_read_here)
        diff_of(shop.ws, run_id, EVERY, to=tmp_path / "spark.parquet")
        monkeypatch.setattr(compare, "SHOWN_ROWS", 1)
        diff_of(shop.ws, run_id, EVERY, to=tmp_path / "streamed.parquet")
        monkeypatch.undo()
        shop.publish(run_id)
        expected = by_pandas(before, in_delta(shop))
        published = diff_of(shop.ws, run_id, EVERY, to=tmp_path / "published.parquet")
        states = diff_of_states(shop.ws, "things", "v1", "v2", EVERY, to=tmp_path / "states.parquet")
        operations.rollback(shop.ws, run_id, by="cem", reason="second thoughts")
        undone = diff_of(shop.ws, run_id, EVERY, to=tmp_path / "undone.parquet")
        totals = run_report(shop.ws, run_id).totals
        assert totals is not None
        for document in (*waiting, published, states, undone):
            (found,) = document.tables
            assert counts(found) == (totals.added, totals.removed, totals.changed)
            assert found.file_rows == len(expected)
    finally:
        shop.ws.close()
    rows = in_file(tmp_path / "waiting.parquet")
    assert {(r["day"], r["id"]): (r["kind"], frozenset(r["changed_columns"])) for r in rows} == expected
    assert [(r["day"], r["id"]) for r in rows] == sorted(expected)
    for name in ("spark", "streamed", "published", "states", "undone"):
        assert (tmp_path / f"{name}.parquet").read_bytes() and str(in_file(tmp_path / f"{name}.parquet")) == str(rows)
    lines = [json.loads(line) for line in (tmp_path / "waiting.jsonl").read_text().splitlines()]
    with (tmp_path / "waiting.csv").open(newline="", encoding="utf-8") as file:
        cells = list(csv.DictReader(file))
    assert [list(each) for each in (rows[0], lines[0], cells[0])] == [list(rows[0])] * 3
    for row, line, cell in zip(rows, lines, cells, strict=True):
        assert (line["day"], line["id"], line["kind"]) == (str(row["day"]), row["id"], row["kind"])
        assert json.loads(cell["changed_columns"]) == line["changed_columns"] == row["changed_columns"]
        for side in ("before", "after"):
            assert line[f"{side}_state"] == row[f"{side}_state"]
            assert cell[f"{side}_state"].removeprefix("'") == (row[f"{side}_state"] or "")
            assert cell[f"{side}_cost"] == str(row[f"{side}_cost"] if row[f"{side}_cost"] is not None else "")


SUFFIXES = (".parquet", ".csv", ".jsonl")


def _ready(shop: Shop, version: str) -> str:
    run_id = shop.planned(DAYS, table=things.name, version=version)
    operations.approve(shop.ws, run_id, by="ben")
    return shop.staged(run_id)


def _nothing_is_read_here(sides: ComparedFiles, _shape: object) -> Any:
    class Elsewhere:
        elsewhere = frozenset(sides.staged)

    return Elsewhere


@pytest.fixture
def gated(published_shop: Shop) -> tuple[Shop, str]:
    """A run that halves the amount of every day, and waits."""
    return published_shop, published_shop.ready(version="1.0.0", reason="sales were doubled")


@pytest.mark.long
def test_a_run_says_in_every_state_what_it_changes_or_in_one_sentence_why_not(published_shop: Shop) -> None:
    shop = published_shop
    run_id = shop.planned(version="1.0.0")
    with pytest.raises(NotStaged, match=f"run {run_id} is not wholly staged: nothing is staged yet"):
        diff_of(shop.ws, run_id, EVERY)
    shop.kit.stage(run_id)
    expected = (0, 0, len(OUTPUT))
    assert counts(diff_of(shop.ws, run_id, EVERY).tables[0]) == expected, "before its gates"
    shop.kit.gate(run_id)
    (found,) = diff_of(shop.ws, run_id, EVERY).tables
    assert counts(found) == expected
    assert [(row.kind, row.changed, row.before, row.after) for row in found.rows][:2] == [
        ("changed", ("amount",), {"amount": "80"}, {"amount": "40"})
    ] * 2
    assert [row.key["day"] for row in found.rows] == [str(day) for day in OUTPUT]
    operations.cancel(shop.ws, run_id, by="ana", reason="not needed")
    assert counts(diff_of(shop.ws, run_id, EVERY).tables[0]) == expected, "its files are still there"
    operations.vacuum(shop.ws, by="ana")
    with pytest.raises(RowsRemoved, match=r"the rows of run .* cannot be compared: the files of silver.recent_sales "):
        diff_of(shop.ws, run_id, EVERY)
    with pytest.raises(Refused, match="there is no run"):
        diff_of(shop.ws, "bf-none", EVERY)


@pytest.mark.long
def test_rows_are_chosen_by_kind_column_and_condition(gated: tuple[Shop, str]) -> None:
    shop, run_id = gated
    for wanted, expected in (
        (RowSelection(kinds=("added", "removed")), (0, 0, 0)),
        (RowSelection(columns=("amount",)), (0, 0, len(OUTPUT))),
        (RowSelection(where="amount > 79 AND day < '2026-01-05'"), (0, 0, 2)),
        (RowSelection(where="shop = 'other'"), (0, 0, 0)),
    ):
        assert counts(diff_of(shop.ws, run_id, wanted).tables[0]) == expected, wanted
    with pytest.raises(Refused, match=r"the column of silver.recent_sales to compare is 'shop', which is not one of"):
        diff_of(shop.ws, run_id, RowSelection(columns=("shop",)))
    of_a_value = "shop::INT = 7"
    for where in ("amount", "sum(amount) > 3", "amont > 3", "true) OR (true", "amount > (SELECT 1)", of_a_value):
        with pytest.raises(NoCondition, match=r"cannot be asked of a row of silver.recent_sales: .*[^.]\.$"):
            diff_of(shop.ws, run_id, RowSelection(where=where))


def test_a_file_is_written_whole_or_not_at_all(gated: tuple[Shop, str], tmp_path: Path) -> None:
    shop, run_id = gated
    file = tmp_path / "changed.parquet"
    file.write_text("mine")
    with pytest.raises(Refused, match=r"changed.parquet exists"):
        diff_of(shop.ws, run_id, EVERY, to=file)
    last = max(folder_of(shop.ws.lake, RECENT).glob(f"_runs/{run_id}/**/*.parquet"))
    held = last.read_bytes()
    last.write_bytes(held[:-20] + bytes(20))
    with pytest.raises(BackfillError, match="cannot be read"):
        diff_of(shop.ws, run_id, EVERY, to=file, replaces=True)
    assert (file.read_text(), [each.name for each in tmp_path.glob("*.part")]) == ("mine", [])
    last.write_bytes(held)
    (found,) = diff_of(shop.ws, run_id, EVERY, to=file, replaces=True).tables
    assert (found.file, found.file_rows, len(in_file(file))) == (str(file), len(OUTPUT), len(OUTPUT))
    for name, why in (("changed.txt", "is not a .parquet, .csv or .jsonl file"), ("none/a.csv", "does not exist")):
        with pytest.raises(Refused, match=why):
            diff_of(shop.ws, run_id, EVERY, to=tmp_path / name)


@pytest.mark.long
def test_the_command_shows_the_first_rows_and_names_the_one_for_all(
    gated: tuple[Shop, str], work_in: WorkIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, run_id = gated
    work_in(shop.ws.settings.home)
    monkeypatch.setattr(first_rows, "__kwdefaults__", {"most": 3})
    shown = CliRunner().invoke(app, ["diff", run_id], catch_exceptions=False)
    assert shown.exit_code == 0, shown.output
    text = " ".join(shown.stdout.split())
    assert "7 changed, 0 added, 0 removed, in 2026-01-03..2026-01-09, 7 days." in text
    assert "2026-01-03, only amount 80 40" in text
    assert "These are the first 3 of 7 rows, by key." in text
    assert text.endswith(f"backfill diff {run_id} --to changed.parquet")
    found = json.loads(CliRunner().invoke(app, ["diff", run_id, "--kind", "changed", "--json"]).stdout)
    assert (found["of"], found["tables"][0]["changed"], len(found["tables"][0]["rows"])) == (run_id, 7, 3)
    removed = CliRunner().invoke(app, ["diff", run_id, "--kind", "removed", "--where", "amount > 1"])
    said = "Asked for: rows that are removed where amount > 1. Other rows are not counted."
    assert said in " ".join(removed.stdout.split()), removed.output
    assert "No such row differs in 2026-01-03..2026-01-09, 7 days." in " ".join(removed.stdout.split())
    to = tmp_path / "changed.csv"
    done = CliRunner().invoke(app, ["diff", run_id, "--to", str(to)], catch_exceptions=False)
    assert f"7 rows written to {to}." in " ".join(done.stdout.split()), done.output
    assert to.read_text().splitlines()[:2] == [
        "kind,changed_columns,day,shop,before_amount,after_amount",
        'changed,"[""amount""]",2026-01-03,only,80,40',
    ]
    states = ["diff", "recent_sales", "--as-of", "v1", "--as-of", "v1", "--from", "2026-01-03", "--to", "2026-01"]
    same = CliRunner().invoke(app, [*states, "--to", str(tmp_path / "same.jsonl")], catch_exceptions=False)
    assert "No row differs in 2026-01-03..2026-01-09, 7 days." in same.stdout, same.output
    assert (tmp_path / "same.jsonl").read_text() == ""
    for words, why in (
        (["diff", run_id, "--to", "changed"], "the file 'changed' is not a .parquet, .csv or .jsonl file"),
        ([*states, "--to", "2026-02"], "--to names one file, and one last day"),
        ([*states[:-2], "--to", "out.csv"], "--to names a file, and the last day is not given"),
        (["diff", "recent_sales"], "which two states of recent_sales are compared is not given"),
        (["diff", "recent_sales", "--as-of", "v1", "--as-of", ""], "which two states of recent_sales are compared"),
        (["diff", run_id, "--from", "2026-01-03", "--to-day", "2026-01-03"], "no such option"),
        (["diff", "shadow-1"], "there is no run 'shadow-1'"),
    ):
        refused = CliRunner().invoke(app, words, catch_exceptions=False)
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert why in " ".join(refused.stderr.split()).lower(), refused.stderr


@pytest.mark.long
def test_two_states_are_named_by_versions_runs_and_times(published_shop: Shop) -> None:
    shop = published_shop
    first = shop.ws.clock()
    run_id = shop.published(version="1.0.0")
    later = shop.ws.clock()
    with shop.ws.ledger.read() as tx:
        (before,) = (each.run_id for each in tx.publications.headers(table=RECENT)[1:])
    for one, other in ((f"{first:%Y-%m-%dT%H:%M:%S}", f"{later:%Y-%m-%dT%H:%M:%S}"), (before, run_id), ("v1", "v2")):
        (found,) = diff_of_states(shop.ws, "recent_sales", one, other, EVERY).tables
        assert counts(found) == (0, 0, len(OUTPUT)), (one, other)
    (same,) = diff_of_states(shop.ws, RECENT, run_id, "v2", EVERY).tables
    assert (counts(same), len(same.partitions)) == ((0, 0, 0), len(OUTPUT))
    days = DayRange.inclusive(OUTPUT.start, OUTPUT.start)
    (some,) = diff_of_states(shop.ws, RECENT, "v1", "v2", EVERY, days=days).tables
    assert (counts(some), len(some.partitions)) == ((0, 0, 1), 1)
    with pytest.raises(Refused, match=f"v9 cannot be used: the newest version of {RECENT} is v2"):
        diff_of_states(shop.ws, RECENT, "v1", "v9", EVERY)


@pytest.mark.long
def test_a_set_is_compared_run_by_run(published_shop: Shop) -> None:
    shop = published_shop
    request = PlanRequest(table=RECENT, days=OUTPUT, reason="the new release", by="ana")
    planned = plan_phases(shop.ws, request, AskedPhases(count=2, terms=Phases()))
    first, second = (each.manifest.run_id for each in planned.plans)
    set_id = planned.manifest.set_id
    with pytest.raises(NotStaged, match=first):
        diff_of(shop.ws, set_id, EVERY)
    shop.staged(first)
    (found,) = diff_of(shop.ws, set_id, EVERY).tables
    (waiting,) = found.not_compared
    assert (len(found.partitions) + len(waiting.partitions), str(waiting.why)) == (len(OUTPUT), "NOT_STAGED")
    shop.staged(second)
    (found,) = diff_of(shop.ws, set_id, EVERY).tables
    assert counts(found) == (0, 0, len(OUTPUT))
    with pytest.raises(Refused, match=f"the table of {set_id} is 'sales_monthly', which is not one of {RECENT}"):
        diff_of(shop.ws, set_id, EVERY, table="sales_monthly")


@pytest.mark.long
def test_a_run_of_every_mode_changes_what_readers_see_by_the_rows_that_it_names(
    tmp_path: Path, spark: SparkSession
) -> None:
    book = open_book(tmp_path / "home", clock=ticking_clock(NOON), spark=spark)
    days = [date(2026, 1, 2), date(2026, 1, 3)]
    columns = {
        JOURNAL: ("day", "entry_id", "amount"),
        "silver.accounts": ("day", "account", "amount", "version"),
        "silver.balances": ("day", "account", "amount", "version"),
    }
    book.land("first", [entry(days[0], name) for name in "abc"])
    for table in columns:
        book.published(table, days[:1])
    moved = [
        entry(days[1], "a", 30, version=2),
        entry(days[0], "b", 20, version=3),
        entry(days[0], "c", gone=True, version=4),
        entry(days[1], "d"),
    ]
    book.land("later", moved)
    for table, names in columns.items():
        run_id = book.planned(table, days[1:] if table == JOURNAL else days)
        assert book.gated(run_id) is RunState.PASSED
        before = {row[:2]: row[2:] for row in book.rows(table, names)}
        (found,) = diff_of(book.ws, run_id, EVERY).tables
        operations.publish(book.ws, run_id, by="ben")
        after = {row[:2]: row[2:] for row in book.rows(table, names)}
        assert before != after
        expected = {
            key: "removed" if key not in after else "added" if key not in before else "changed"
            for key in before.keys() | after.keys()
            if before.get(key) != after.get(key)
        }
        assert {(row.partition, row.key[names[1]]): row.kind for row in found.rows} == expected, table
        assert diff_of(book.ws, run_id, EVERY).tables == (found,), "and once readers see them"


@pytest.mark.long
def test_the_desk_pages_through_changed_rows_and_filters_them(
    gated: tuple[Shop, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, run_id = gated
    desk = create_app(shop.ws, patience_s=PATIENCE_S)
    assert f"/changes/{run_id}" in get(desk, f"/runs/{run_id}").links
    monkeypatch.setattr(page_of_rows, "__kwdefaults__", {"most": 3})
    monkeypatch.setattr(compare, "SHOWN_ROWS", 4)
    address, days = f"/changes/{run_id}", list[str]()
    for _ in range(4):
        page = get(desk, address)
        assert page.status == 200
        days += re.findall(r"(2026-01-\d\d), only amount 80 40", page.words)
        following = [each for each in page.links if "begin=" in each]
        if not following:
            break
        (address,) = following
    assert days == [str(day) for day in OUTPUT]
    every = f"table added removed changed {RECENT} 0 0 {len(OUTPUT)}"
    assert every in get(desk, f"/changes/{run_id}").words
    assert f"{every} shown below: added 0 0 0" in get(desk, f"/changes/{run_id}?kind=added").words
    assert f"{every} shown below: amount 0 0 {len(OUTPUT)}" in get(desk, f"/changes/{run_id}?column=amount").words
    monkeypatch.setattr("backfill_assets.report.changed_rows.MOST_GROUPS", 1)
    said = f"too many rows to count those that are asked for here: backfill diff {run_id} --columns amount"
    assert said in get(desk, f"/changes/{run_id}?column=amount").words
    monkeypatch.setattr("backfill_assets.report.changed_rows.MOST_GROUPS", 8)
    assert "No such row differs." in get(desk, f"/changes/{run_id}?kind=added").words
    assert "40" in get(desk, f"/changes/{run_id}?column=amount&kind=changed").words
    assert get(desk, f"/changes/{run_id}?column=shop").status == 400
    assert get(desk, f"/changes/{run_id}?kind=other").status == 400
    assert get(desk, "/changes/bf-none").status == 404
