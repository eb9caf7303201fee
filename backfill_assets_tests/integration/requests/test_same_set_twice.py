"""A set that is planned a second time names the open one that does the same."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from backfill_assets.application.plan import described_set_plan
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.cli.terminal import show
from backfill_assets.planning.restatement import PlannedSet, SetRequest
from backfill_assets.report.documents import as_json
from backfill_assets.report.planned import SetPlan, set_plan_page
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.by_hand import JANUARY, Hand
from backfill_assets_tests.support.hand_made import SILVER


def planned(hand: Hand, days: DayRange, reason: str) -> SetPlan:
    found = operations.plan_set(hand.ws, SetRequest(reason=reason, by="ana", because=((SILVER, days),)))
    assert isinstance(found, PlannedSet)
    return described_set_plan(hand.ws, found)


def test_the_second_of_two_equal_sets_names_the_open_one_and_how_to_give_itself_up(hand: Hand) -> None:
    first = planned(hand, JANUARY, "late")
    second = planned(hand, JANUARY, "late, again")
    of_first, of_second = (each.planned.manifest.set_id for each in (first, second))
    assert (first.same_as, second.same_as) == (None, of_first)
    assert as_json(second)["same_as"] == of_first
    shown = StringIO()
    show(Console(file=shown, width=240), set_plan_page(second))
    said = " ".join(shown.getvalue().split())
    assert f"The open set {of_first} does the same, from the same inputs, code and references" in said
    assert f"backfill status {of_first}; and give this one up: backfill cancel {of_second}" in said


def test_a_set_whose_inputs_have_changed_since_and_one_that_is_cancelled_do_not_do_the_same(hand: Hand) -> None:
    first = planned(hand, JANUARY, "late")
    hand.published({JANUARY.start: 15})
    second = planned(hand, JANUARY, "late, again")
    assert second.same_as is None, "it reads what was published since"
    for each in (first, second):
        operations.cancel(hand.ws, each.planned.manifest.set_id, by="ana", reason="done")
    assert planned(hand, JANUARY, "late").same_as is None
