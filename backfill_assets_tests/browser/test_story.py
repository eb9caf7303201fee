"""A wrong month is restated by people who only use a browser, and by people who only type commands."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest
from playwright.sync_api import BrowserContext, Page, expect
from pyspark.sql import SparkSession

from backfill_assets.core.settings import Settings
from backfill_assets.core.spark_server import free_port
from backfill_assets.workspace import Workspace
from backfill_assets_tests.browser import told
from backfill_assets_tests.browser.conftest import SIZE
from backfill_assets_tests.browser.dagster_pages import DagsterPages
from backfill_assets_tests.browser.desk_pages import DeskPages
from backfill_assets_tests.browser.pictures import Pictures
from backfill_assets_tests.browser.readable import NARROW, WIDE, cut_off, unreadable
from backfill_assets_tests.browser.seeded import (
    BACKFILL,
    FIRST_DAY,
    GOLD,
    LAST_DAY,
    SILVER,
    Terminal,
    environment,
    seed,
    spark_that_stays,
)
from backfill_assets_tests.support.servers import dagster, served

pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]

REASON, NOTE, REGRET = "deadlines were computed in UTC", "as counsel asked", "the press office needs a day"
FOLLOW = "backfill_monthly_tables"


@dataclass(frozen=True, kw_only=True)
class Homes:
    """Two homes that began as one."""

    browser: Terminal  #: Where the story is told in the browser.
    commands: Terminal  #: Where it has been told by commands.
    sequence: int  #: The last event that both share.


@dataclass(frozen=True, kw_only=True)
class Told:
    """The story, as the browser has told it."""

    home: Terminal  #: Where it happened.
    run_id: str  #: The run that was planned in the launchpad.
    desk: DeskPages  #: The desk's pages.
    elsewhere: list[str]  #: Addresses that the desk's pages asked for outside of the desk.


def workspace(home: Path) -> Workspace:
    return Workspace.open(Settings.from_environment(environment(home)))


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Homes:
    """A home with a published month, twice; in the second the story is told by commands, before there is a browser."""
    folder = tmp_path_factory.mktemp("homes")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("DAGSTER_HOME", raising=False)
        begin(patch, folder / "browser")
        browser = seed(folder / "browser")
        shutil.copytree(folder / "browser", folder / "commands")
        begin(patch, folder / "commands")
        commands = Terminal(home=folder / "commands")
        seeded = workspace(folder / "commands")
        sequence = told.last_sequence(seeded)
        seeded.close()
        type_it(commands)
    return Homes(browser=browser, commands=commands, sequence=sequence)


def begin(patch: pytest.MonkeyPatch, home: Path) -> None:
    """Makes this process one of the home: its commands use the session of this process."""
    for name, value in environment(home).items():
        patch.setenv(name, value)


def type_it(person: Terminal) -> None:
    """The story as it is told by commands."""
    days = ("--from", FIRST_DAY, "--to", LAST_DAY)
    run_id = person.does("plan", "table", SILVER, *days, "--reason", REASON, "--by", "ana")["run_id"]
    person.does("run", run_id, "--by", "ana")
    refused = person.types("approve", run_id, "--by", "ana", "--note", NOTE)
    assert (refused.exit_code, "was requested by ana" in " ".join(refused.stderr.split())) == (1, True)
    person.does("approve", run_id, "--by", "ben", "--note", NOTE)
    person.does("publish", run_id, "--by", "ben")
    person.does("follow")
    person.does("rollback", run_id, "--by", "ben", "--reason", REGRET)
    person.does("follow")


@pytest.fixture(scope="module")
def story(
    homes: Homes,
    browsing: BrowserContext,
    pictures: Pictures,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Told]:
    """The story as it is told in the browser, before Dagster and a desk over the first home."""
    home, port, desk_port = homes.browser.home, free_port(), free_port()
    at_desk = f"http://127.0.0.1:{desk_port}"
    given = {**environment(home), "BACKFILL_DESK_URL": at_desk}
    logs = tmp_path_factory.mktemp("servers")
    with ExitStack() as opened:
        serving = (BACKFILL, "desk", "--port", str(desk_port))
        opened.enter_context(served(serving, environment=given, answers=f"{at_desk}/", log=logs / "desk.log"))
        program = (sys.executable, "-m", "dagster", "dev")
        address = opened.enter_context(dagster(*program, port=port, environment=given, folder=logs / "dagster"))
        pages = DagsterPages(page=browsing.new_page(), address=address)
        desk = DeskPages(page=browsing.new_page(), address=at_desk)
        elsewhere: list[str] = []
        desk.page.on("request", lambda asked: elsewhere.append(asked.url) if is_elsewhere(asked.url, at_desk) else None)
        with spark_that_stays(home):
            run_id = tell(pages, desk, pictures, homes.browser)
        yield Told(home=homes.browser, run_id=run_id, desk=desk, elsewhere=elsewhere)


def is_elsewhere(url: str, desk: str) -> bool:
    return urlsplit(url).scheme not in ("data", "about") and not url.startswith(desk)


def tell(pages: DagsterPages, desk: DeskPages, pictures: Pictures, home: Terminal) -> str:
    """Plans, reads, approves, publishes, lets gold follow, and rolls back; the run's id."""
    pages.switch("follow", on=False)
    planned = pages.launch(
        "plan",
        SILVER,
        ready=lambda page: pictures.take(page, "launchpad"),
        first_day=FIRST_DAY,
        last_day=LAST_DAY,
        reason=REASON,
        requester="ana",
    )
    assert planned
    report = pages.link_to_the_report()
    run_id = report.rpartition("/")[2]
    pages.says(f"Next: the job backfill_decide (approve {run_id})")
    reads(desk.page, report, pictures)
    pages.open_asset("validation/case_sla_daily", "worst partitions")
    pictures.take(pages.page, "validation")

    assert not pages.launch("decide", "approve", id=run_id, approver="ana", note=NOTE)
    pages.says("was requested by ana, who cannot approve it as well")
    assert pages.launch("decide", "approve", id=run_id, approver="ben", note=NOTE)
    assert pages.launch("decide", "publish", id=run_id, publisher="ben")
    pages.says(f"{run_id} is PUBLISHED.")

    pages.switch("follow", on=True)
    pages.wait_for_runs(FOLLOW, succeeded=3)  # two by commands, which built the home, and the one of the sensor
    # The command `follow` says that nothing is left when it ends; the sensor says so at its next tick.
    followed = workspace(home.home)
    told.wait_until_followed(followed)
    followed.close()
    assert pages.launch("decide", "roll_back", id=run_id, by="ben", reason=REGRET)
    with pages.as_wide_as(NARROW):
        pages.wait_for_runs(FOLLOW, succeeded=4)
    return run_id


def reads(page: Page, report: str, pictures: Pictures) -> None:
    """A reviewer finds the verdict, the five answers and the charts in the report alone."""
    page.goto(report)
    expect(page.locator(".note p").first).to_contain_text("Every blocking gate passed: waits for an approval")
    questions = page.locator("dl").first.locator("dt").all_inner_texts()
    assert [each for each in questions if each] == [
        "What changes?",
        "Changed since",
        "Why?",
        "By how much?",
        "Is it right?",
        "What happens on yes?",
    ]
    expect(page.locator("dl").first).to_contain_text(f"requested by ana: {REASON}")
    expect(page.locator("dl").first).to_contain_text("replace rows from release 2.4.1")
    expect(page.get_by_role("heading", name="Before and after, by jurisdiction, clock")).to_be_visible()
    assert page.locator(".plots figure").count() >= 2
    pictures.take(page, "report")


def test_the_report_was_read_approved_by_another_person_and_rolled_back_in_the_browser(story: Told) -> None:
    status = story.home.does("status", story.run_id)
    assert (status["state"], status["requested_by"]) == ("ROLLED_BACK", "ana")
    shown = story.home.does("status")["tables"]
    assert [table["accepted"]["count"] for table in shown] == [121, 28, 0, 1]


def test_a_number_is_followed_to_every_run_that_ever_computed_it(story: Told, pictures: Pictures) -> None:
    desk = story.desk
    changed = story.home.does("report", story.run_id)["sample"]
    row = next(each for each in changed if each["before"] and each["after"])
    key = {name: value for name, value in row["key"].items() if name != "business_date"}
    desk.find_number(SILVER, row["key"]["business_date"], key)
    pictures.take(desk.page, "number")
    assert desk.row("state") == ["ROLLED_BACK", "ACCEPTED"]
    assert desk.row("release") == ["case-sla 3.1.0", "case-sla 2.4.1"]
    assert desk.row("reason") == [REASON, "first time"]
    assert desk.row("requested by") == ["ana", "ana"]
    undone, shown = desk.row("readers saw it")
    assert REGRET in undone
    assert (shown.count("from "), shown.endswith("until now")) == (2, True)
    column = next(
        n for n, value in row["after"].items() if None not in (value, was := row["before"][n]) and value != was
    )
    after, before = desk.row(column)
    assert (after, before) == (f"≠ {row['after'][column]}", row["before"][column])


def test_a_month_is_called_a_month(story: Told) -> None:
    page = story.desk.page
    page.goto(f"{story.desk.address}/rows?table={GOLD}&partition=2025-02")
    expect(page.get_by_role("heading", level=1)).to_have_text(f"{GOLD} 2025-02")


def test_the_calendar_has_a_year_of_every_table(story: Told, pictures: Pictures) -> None:
    page = story.desk.page
    page.goto(f"{story.desk.address}/calendar?year=2025")
    expect(page.get_by_text(SILVER).first).to_be_visible()
    assert page.locator("svg").count() >= 3
    pictures.take(page, "calendar")


def test_no_page_of_the_desk_asks_the_network(story: Told) -> None:
    for path in ("/", "/runs", "/sets", "/publications", "/audit", f"/runs/{story.run_id}", f"/reports/{story.run_id}"):
        answer = story.desk.page.goto(f"{story.desk.address}{path}")
        assert answer is not None
        assert answer.ok, path
    assert story.elsewhere == []


def test_every_page_of_the_desk_can_be_read_at_a_desk_and_on_a_phone(story: Told) -> None:
    page, at = story.desk.page, story.desk.address
    changed = story.home.does("report", story.run_id)["sample"][0]
    row = urlencode({f"key.{name}": value for name, value in changed["key"].items() if name != "business_date"})
    number = f"/rows?table={SILVER}&partition={changed['key']['business_date']}"
    paths = (
        "/",
        "/runs",
        "/sets",
        "/calendar?year=2025",
        "/publications",
        "/audit",
        "/rows",
        number,
        f"{number}&{row}",
    )
    for path in (*paths, f"/runs/{story.run_id}", f"/reports/{story.run_id}", "/runs/nobody"):
        page.goto(f"{at}{path}")
        assert (path, cut_off(page, WIDE)) == (path, [])
        assert (path, unreadable(page)) == (path, [])
        assert (path, cut_off(page, NARROW)) == (path, [])
    page.set_viewport_size(SIZE)


def test_the_same_story_by_commands_leaves_the_same_ledger_and_the_same_runs_in_dagster(
    homes: Homes, story: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    browser, commands = workspace(homes.browser.home), workspace(homes.commands.home)
    told.wait_until_followed(browser)
    found = told.events_after(browser, homes.sequence)
    assert len(found) > 40
    assert found == told.events_after(commands, homes.sequence)
    assert told.approvals(browser) == told.approvals(commands)
    assert told.publications(browser) == told.publications(commands)
    assert told.runs_in_dagster(browser) == told.runs_in_dagster(commands)
    for each in (browser, commands):
        each.close()
    assert homes.browser.does("audit")["agrees"]
    assert homes.commands.does("audit")["agrees"]
