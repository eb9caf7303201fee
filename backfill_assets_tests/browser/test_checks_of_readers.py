"""What Dagster's pages show of a table after a publication, a rollback and launches that were refused."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

import pytest
from playwright.sync_api import BrowserContext, expect

from backfill_assets.core.spark_server import free_port
from backfill_assets.orchestration.recorder import DagsterRecorder
from backfill_assets.planning.manifest_parts import GateTerm
from backfill_assets_tests.browser.dagster_pages import PAGE_MS, DagsterPages
from backfill_assets_tests.browser.readable import NARROW, WIDE
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.by_hand import JANUARY, open_by_hand
from backfill_assets_tests.support.dagster_record import open_record
from backfill_assets_tests.support.hand_made import SILVER
from backfill_assets_tests.support.servers import dagster
from backfill_assets_tests.support.shop import shop_environment

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

DAY = date(2026, 1, 6)


@dataclass(frozen=True, kw_only=True)
class Seen:
    """Dagster over a home in which a month is published, one run is approved and another one is not."""

    pages: DagsterPages
    gates: int
    approved: str
    not_approved: str

    def checks(self, width: int) -> None:
        """Every gate of the table shows that it has passed, in a window of this width."""
        page = self.pages.page
        with self.pages.as_wide_as(width):
            page.goto(f"{self.pages.address}/assets/silver/recent_sales?view=checks")
            succeeded = page.get_by_text("Succeeded", exact=True)
            expect(succeeded).to_have_count(self.gates, timeout=PAGE_MS)
            expect(page.get_by_text("Not Evaluated", exact=True)).to_have_count(0)
            self.pages.shows(succeeded)


@pytest.fixture(scope="module")
def seen(browsing: BrowserContext, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    home = tmp_path_factory.mktemp("seen") / "home"
    hand = open_by_hand(home)
    declared = hand.ws.domain.table(SILVER).gates
    gates = tuple(GateTerm(name=each.name, demands=each.demands, blocking=each.blocking) for each in declared)
    operations.publish(hand.ws, hand.silver(dict.fromkeys(JANUARY, 11), gates=gates), by="ben")
    with open_record(hand.ws.settings) as instance:
        DagsterRecorder(hand.ws.settings, lambda: instance).catch_up(hand.ws)
    approved, other = (hand.silver({DAY: amount}, gates=gates) for amount in (30, 40))
    with hand.ws.ledger.write() as tx:
        tx.requests.withdraw_approval(other, by="ben", reason="not yet")
    program, folder = (sys.executable, "-m", "dagster", "dev"), tmp_path_factory.mktemp("dagster")
    with dagster(*program, port=free_port(), environment=shop_environment(home), folder=folder) as address:
        pages = DagsterPages(page=browsing.new_page(), address=address)
        yield Seen(pages=pages, gates=len(declared), approved=approved, not_approved=other)
    hand.ws.close()


def test_checks_are_the_gates_of_what_readers_see_after_a_refusal_a_publication_and_a_rollback(seen: Seen) -> None:
    pages = seen.pages
    seen.checks(WIDE)
    with pages.as_wide_as(NARROW):
        assert not pages.launch("decide", "publish", id=seen.not_approved, publisher="ben")
        pages.says("is not approved")
    for width in (WIDE, NARROW):
        seen.checks(width)
    with pages.as_wide_as(NARROW):
        assert pages.launch("decide", "publish", id=seen.approved, publisher="ben")
        pages.says(f"{seen.approved} is PUBLISHED.")
    for width in (WIDE, NARROW):
        seen.checks(width)
    assert pages.launch("decide", "roll_back", id=seen.approved, by="ben", reason="second thoughts")
    for width in (WIDE, NARROW):
        seen.checks(width)
    pages.page.goto(f"{pages.address}/assets/silver/recent_sales?view=partitions&partition={DAY}")
    expect(pages.page.get_by_text("Rolled back by ben: second thoughts").first).to_be_visible(timeout=PAGE_MS)


def test_why_a_launch_was_refused_stands_in_the_list_of_runs(seen: Seen) -> None:
    pages = seen.pages
    assert not pages.launch("decide", "publish", id=seen.not_approved, publisher="ben")
    for width in (WIDE, NARROW):
        with pages.as_wide_as(width):
            pages.page.goto(f"{pages.address}/runs?q[0]=status%3AFAILURE")
            pages.shows(pages.page.get_by_text(f"backfill/why: run {seen.not_approved} is not approved"))


def test_days_that_are_reversed_are_refused_in_one_sentence_without_a_run(seen: Seen) -> None:
    pages = seen.pages
    pages.page.goto(f"{pages.address}/locations/backfill_assets/jobs/backfill_plan/playground")
    given = {"first_day": "2026-01-09", "last_day": "2026-01-06", "reason": "why", "requester": "ann"}
    pages._type("\n".join([f"{SILVER}:", *(f'  {name}: "{value}"' for name, value in given.items())]))
    expect(pages._button()).to_be_enabled(timeout=PAGE_MS)
    pages._button().click()
    said = "the range is reversed: it starts on 2026-01-09 and ends on 2026-01-06. Type a last_day"
    expect(pages.page.get_by_text(said).first).to_be_visible(timeout=PAGE_MS)
