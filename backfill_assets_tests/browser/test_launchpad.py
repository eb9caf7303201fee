"""What is next is a link to a launchpad that is filled in, in which a person's name is all that is missing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

import pytest
from playwright.sync_api import BrowserContext

from backfill_assets.core.spark_server import free_port
from backfill_assets.ledger.states import RunState
from backfill_assets_tests.browser.dagster_pages import DagsterPages
from backfill_assets_tests.support.by_hand import Hand, open_by_hand
from backfill_assets_tests.support.hand_made import SILVER
from backfill_assets_tests.support.servers import dagster
from backfill_assets_tests.support.shop import shop_environment

pytestmark = pytest.mark.long


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """Dagster over a home in which a run waits for an approval."""

    hand: Hand
    run_id: str
    pages: DagsterPages

    @property
    def state(self) -> tuple[RunState, str | None]:
        """The state of the run, and who approved it."""
        with self.hand.ws.ledger.read() as tx:
            run = tx.runs.get(self.run_id)
        return run.state, run.approved_by


@pytest.fixture(scope="module")
def waiting(browsing: BrowserContext, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Waiting]:
    home = tmp_path_factory.mktemp("launchpad") / "home"
    hand = open_by_hand(home)
    run_id = hand.silver({date(2026, 1, 6): 30})
    with hand.ws.ledger.write() as tx:
        tx.requests.withdraw_approval(run_id, by="ben", reason="not yet")
    program, folder = (sys.executable, "-m", "dagster", "dev"), tmp_path_factory.mktemp("dagster")
    with dagster(*program, port=free_port(), environment=shop_environment(home), folder=folder) as address:
        yield Waiting(hand=hand, run_id=run_id, pages=DagsterPages(page=browsing.new_page(), address=address))
    hand.ws.close()


def test_a_refusal_links_to_the_approval_and_that_to_the_publication_each_without_a_name(waiting: Waiting) -> None:
    pages, run_id = waiting.pages, waiting.run_id
    assert not pages.launch("decide", "publish", id=run_id, publisher="ben")
    pages.says(f"the job backfill_decide (approve {run_id})")

    shown = pages.follow_next("approve:")
    assert shown == f'approve:\n  id: "{run_id}"\n  approver:\n'
    assert pages.complete(shown, approver="ben")
    pages.says(f"ben approved {run_id}.")
    assert waiting.state == (RunState.PASSED, "ben")

    shown = pages.follow_next("publish:")
    assert shown == f'publish:\n  id: "{run_id}"\n  publisher:\n'
    assert pages.complete(shown, publisher="ben")
    assert waiting.state == (RunState.PUBLISHED, "ben")


def test_a_day_and_a_release_that_do_not_exist_are_refused_before_launch(waiting: Waiting) -> None:
    pages = waiting.pages
    pages.page.goto(f"{pages.address}/locations/backfill_assets/jobs/backfill_plan/playground")
    asked = '{table}:\n  first_day: "2026-01-05"\n  last_day: "{last}"\n  reason: "why"\n  requester: "ann"\n{more}'
    pages.refuses(
        asked.format(table=SILVER, last="2026-05-40", more=""), "last_day not in enum type day from 2026-01-01"
    )
    pages.refuses(
        asked.format(table=SILVER, last="2026-01-06", more='  transform_version: "7"\n'),
        "transform_version not in enum type release 1.0.0 or 0.9.0",
    )
