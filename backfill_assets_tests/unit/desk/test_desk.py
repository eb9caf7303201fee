"""The desk over a long history of small runs: every page answers in time, and none of them can change anything."""

from __future__ import annotations

import base64
import gc
import hashlib
import importlib.util
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import ModuleType

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine
from starlette.applications import Starlette

from backfill_assets.application import look
from backfill_assets.calendar.partitions import DayRange, Grain
from backfill_assets.core.settings import PROJECT_ROOT, Settings
from backfill_assets.desk.app import create_app
from backfill_assets.ledger.errors import Unavailable
from backfill_assets.ledger.states import RunState
from backfill_assets.ledger.store import Ledger
from backfill_assets.report.errors import Malformed
from backfill_assets.report.history import PartitionHistory
from backfill_assets.report.html import html_file
from backfill_assets.report.run_list import run_list, runs_page
from backfill_assets.report.words.states import stale_words
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support.desk_reader import PATIENCE_S, Answer, get, with_dates
from backfill_assets_tests.support.ledger_examples import dumped

MOST_SECONDS = 0.5
DAY = date(2024, 1, 14)
TURNOVER = "silver.turnover"
PAGES = (
    "/",
    "/runs",
    f"/runs?table={TURNOVER}&state=BLOCKED&person=ANA",
    "/runs?person=none+of+them",
    "/sets",
    "/calendar",
    "/calendar?year=2024&by=age",
    "/calendar?by=release",
    "/rows",
    f"/rows?table={TURNOVER}&partition={DAY}",
    "/publications",
    f"/publications?table={TURNOVER}",
    "/audit",
    "/search?q=turnover",
    "/search?q=nothing+has+this",
    "/runs/turnover-00003",
    "/reports/turnover-00003",
    "/reports/turnover-00003",
)


def history_module() -> ModuleType:
    name = "long_history"
    spec = importlib.util.spec_from_file_location(name, PROJECT_ROOT / "benchmarks" / "long_history.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module


def filled(home: Path, *, runs: int, publications: int, days: int = 40) -> Workspace:
    history = history_module()
    environment = {
        "BACKFILL_HOME": str(home),
        "BACKFILL_DOMAIN": "backfill_assets_tests.domains.story",
        "BACKFILL_FIRST_DAY": history.FIRST.isoformat(),
    }
    ws = Workspace.open(Settings.from_environment(environment), clock=lambda: history.NOW)
    history.fill(ws, history.Length(runs=runs, publications=publications, days=days))
    return Workspace.open(ws.settings, clock=lambda: history.NOW)


@pytest.fixture(scope="module")
def ws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """150 runs in each of four tables, and 400 publications."""
    found = filled(tmp_path_factory.mktemp("desk") / "home", runs=150, publications=400)
    yield found
    found.close()


@pytest.fixture(scope="module")
def app(ws: Workspace) -> Starlette:
    return create_app(ws, patience_s=PATIENCE_S)


def test_a_history_of_a_month_of_a_daily_table_is_refused_and_names_a_day(ws: Workspace) -> None:
    month = DayRange.inclusive(date(2024, 1, 1), date(2024, 1, 31))
    with pytest.raises(Malformed, match=r"'2024-01-01\.\.2024-01-31' is not one day of silver\.turnover") as refused:
        look.history(ws, TURNOVER, month)
    assert refused.value.example == "2024-01-01"
    found = look.history(ws, TURNOVER, DayRange.inclusive(DAY, DAY))
    assert isinstance(found, PartitionHistory) and found.partition == DAY


def test_runs_of_a_monthly_table_are_listed_by_their_months(ws: Workspace) -> None:
    found = run_list(ws)
    header = replace(found.runs[0].run, first=date(2024, 1, 1), last=date(2024, 3, 1))
    monthly = replace(found, runs=(replace(found.runs[0], run=header, grain=Grain.MONTHLY),))
    assert ">2024-01 to 2024-03<" in with_dates(html_file(runs_page(monthly, None, None)))


def crawled(app: Starlette) -> dict[str, Answer]:
    """Every kind of page that links lead to, three of each kind at most."""
    found: dict[str, Answer] = {}
    kinds: dict[str, int] = {}
    waiting = list(PAGES)
    while waiting:
        address = waiting.pop(0)
        kind = re.sub(r"\d{4}-\d\d-\d\d|\d+|[a-z]+-\d{5}", "*", address)
        if address in found or kinds.get(kind, 0) >= 3:
            continue
        kinds[kind] = kinds.get(kind, 0) + 1
        found[address] = get(app, address)
        waiting += [link for link in found[address].links if link.startswith("/")]
    return found


@pytest.mark.long
def test_every_link_leads_to_a_page_and_none_leaves_the_desk(app: Starlette) -> None:
    pages = crawled(app)
    assert len(pages) > 40
    assert {address: found.status for address, found in pages.items() if found.status != 200} == {}
    for address, found in pages.items():
        inside = [link for link in found.links if not link.startswith("#") and link != "data:,"]
        assert all(re.match("/(?!/)", link) for link in inside), address
        assert re.findall("<script", found.text) == ["<script"] and not re.search(r"<\w+ [^>]*\son\w+=", found.text)
        if address.startswith("/reports/"):
            continue  # with the policy in the page: unit/report/test_report_pages.py
        (script,) = re.findall(r"<script>(.*?)</script>", found.text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        rules = found.headers["content-security-policy"].split("; ")
        assert {"default-src 'none'", f"script-src 'sha256-{digest}'", "frame-ancestors 'none'"} <= set(rules)


@pytest.mark.long
def test_every_page_answers_within_half_a_second(app: Starlette) -> None:
    for address in PAGES:
        get(app, address)
    # No desk has the objects of other tests, and to walk through them takes the garbage collector longer than a page.
    gc.collect()
    gc.freeze()

    def took(address: str) -> float:
        began = time.process_time()
        assert get(app, address).status == 200, address
        return time.process_time() - began

    slow = [address for address in PAGES if took(address) >= MOST_SECONDS]
    # A core that is shared counts what the others of it do: what is slow is slow again.
    assert [address for address in slow if took(address) >= MOST_SECONDS] == []


@pytest.mark.parametrize("address", ["/runs", "/publications", "/sets", "/runs?state=BLOCKED"])
def test_a_list_asks_as_much_of_a_longer_history(tmp_path: Path, address: str) -> None:
    def statements(ws: Workspace) -> int:
        app = create_app(ws)
        counted: list[str] = []

        def count(_connection: object, _cursor: object, statement: str, *_: object) -> None:
            counted.append(statement)

        event.listen(Engine, "before_cursor_execute", count)
        try:
            assert get(app, address).status == 200
        finally:
            event.remove(Engine, "before_cursor_execute", count)
        ws.close()
        return len(counted)

    short = filled(tmp_path / "short", runs=60, publications=120)
    longer = filled(tmp_path / "longer", runs=120, publications=360)
    assert statements(short) == statements(longer) > 0


def test_no_page_opens_a_writing_transaction(app: Starlette, ws: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    before = dumped(ws.settings.ledger_url)

    def refuse(_ledger: Ledger) -> None:
        raise AssertionError("a page wants to write")

    monkeypatch.setattr(Ledger, "write", refuse)
    for address in PAGES:
        assert get(app, address).status == 200
    assert dumped(ws.settings.ledger_url) == before


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_only_get_is_answered(app: Starlette, method: str) -> None:
    for address in PAGES:
        assert get(app, address, method=method).status == 405


def test_a_page_of_another_site_that_names_this_machine_is_not_answered(app: Starlette) -> None:
    assert get(app, "/runs", host="evil.example").status == 400
    assert get(app, "/runs", host="localhost:3000").status == 200


@pytest.mark.parametrize(
    ("address", "status", "sentence"),
    [
        ("/runs/nothing", 404, "there is no run 'nothing'"),
        ("/sets/set.nothing", 404, "there is no restatement set"),
        ("/nowhere", 404, "There is no page /nowhere"),
        ("/runs?state=FANCY", 400, "is not one of PLANNED"),
        ("/runs?table=nope", 400, "the table is 'nope', which is not one of"),
        ("/sets?table=nope", 400, f"{TURNOVER}"),
        ("/publications?table=nope", 400, f"{TURNOVER}"),
        ("/runs?before=-1", 400, "is not a number"),
        ("/calendar?year=last", 400, "is neither a date"),
        ("/rows?table=gold.nothing&partition=2024-01-14", 404, "gold.nothing"),
        (f"/rows?table={TURNOVER}&partition=1999-01-14", 404, "has never been published"),
        (f"/rows?table={TURNOVER}&partition=soon", 400, "is neither a date"),
        (f"/trace?table={TURNOVER}&partition=2024-01-14&rows=501", 400, "the number of rows"),
    ],
)
def test_what_cannot_be_shown_is_a_page_with_a_sentence(
    app: Starlette, address: str, status: int, sentence: str
) -> None:
    found = get(app, address)
    assert found.status == status and sentence in found.words
    assert "Traceback" not in found.text


def test_files_that_are_gone_are_named_and_the_rest_is_shown(app: Starlette) -> None:
    """The history has no files at all, as after a disk was lost."""
    row = get(app, f"/rows?table={TURNOVER}&partition={DAY}")
    assert row.status == 200
    assert "the rows cannot be read: the file _runs/turnover-" in row.words and "is gone" in row.words
    assert "approved by ben" in row.words
    (link,) = (each for each in row.links if each.startswith("/trace?"))
    traced = get(app, link)
    assert traced.status == 200 and "Its values cannot be shown: " in traced.words
    assert "Publications, back to the request" in traced.words and " ben " in traced.words
    keys = get(app, f"/rows?table=bronze.orders&partition={DAY}")
    assert "No keys can be shown: the rows cannot be read: the file _runs/orders-" in keys.words
    assert "asked, agreed ran, published reason" in keys.words


def test_runs_are_found_by_table_state_and_person_and_pages_continue_each_other(ws: Workspace) -> None:
    def every(**choice: object) -> list[str]:
        found: list[str] = []
        page = run_list(ws, **choice)  # type: ignore[arg-type]
        found += [line.run.run_id for line in page.runs]
        while page.older is not None:
            page = run_list(ws, **choice, before=page.older)  # type: ignore[arg-type]
            found += [line.run.run_id for line in page.runs]
        return found

    with ws.ledger.read() as tx:
        headers = tx.runs.headers()
    assert every() == [run.run_id for run in headers]
    assert every(table=TURNOVER, state=RunState.BLOCKED) == [
        run.run_id for run in headers if run.table == TURNOVER and run.state is RunState.BLOCKED
    ]
    assert set(every(person="Ben")) == {
        run.run_id for run in headers if run.state in (RunState.PUBLISHED, RunState.SUPERSEDED)
    }
    assert every(person="nobody at all") == []


def test_the_calendar_says_what_is_stale_and_for_which_reason(app: Starlette, ws: Workspace) -> None:
    stale = look.stale(ws, None, None)
    assert stale.is_stale
    page = get(app, "/calendar?year=2024")
    assert "Staleness is being computed" not in page.words
    for table in stale.tables:
        assert f"{len(table.partitions)} stale" in page.words.partition(table.table)[2][:120]
        for found in table.ranges:
            for reason in found.reasons:
                assert stale_words(table.table, reason) in page.words


@pytest.mark.parametrize("address", ["/search?q=a%00b", "/runs/a%00b", "/runs?person=%00"])
def test_an_address_that_no_database_can_look_up_is_refused(app: Starlette, address: str) -> None:
    answer = get(app, address)
    assert (answer.status, "is not a text" in answer.words) == (400, True)


def test_what_passes_by_itself_is_no_problem_of_the_calendar_any_more_once_it_has_passed(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = create_app(ws, patience_s=PATIENCE_S)

    def away(*_: object) -> None:
        raise Unavailable(why="the server is being started.")

    with monkeypatch.context() as patch:
        patch.setattr(look, "staleness", away)
        assert "the server is being started" in get(app, "/calendar").words
    assert "the server is being started" not in get(app, "/calendar").words


def test_a_calendar_without_patience_says_that_staleness_comes_later(ws: Workspace) -> None:
    page = get(create_app(ws, patience_s=0), "/calendar")
    assert page.status == 200 and 'http-equiv="refresh"' in page.text
    assert "Staleness is being computed." in page.words
