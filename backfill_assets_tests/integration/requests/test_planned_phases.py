"""A plan in phases by the commands: what it prints, what its runs compute, and what readers see in between."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from backfill_assets.application.plan import plan_phases, plan_table
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.application.requests import Restatement
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.errors import InvalidDeclaration, Refused
from backfill_assets.domain import phases
from backfill_assets.ledger.states import RunState, SetState
from backfill_assets.main import app
from backfill_assets.planning.impact import WhyLeftOut
from backfill_assets.planning.manifest_parts import Mode
from backfill_assets.planning.request import Plan, PlanRequest
from backfill_assets.planning.restatement import PlannedSet
from backfill_assets.planning.sets import AskedPhases, Phases
from backfill_assets.report.runs import set_document
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.domains import example, states
from backfill_assets_tests.integration.conftest import ONE_HOUR
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import worded
from backfill_assets_tests.support.ledgers import copy_home
from backfill_assets_tests.support.shop import OUTPUT, RECENT, Shop, open_shop, shop_environment, ticking_clock

ASKED = AskedPhases(count=2, terms=Phases())
REQUEST = PlanRequest(table=RECENT, days=OUTPUT, reason="the new release", by="ana")


@pytest.fixture
def shop(tmp_path: Path, published_home: Path, spark: SparkSession) -> Iterator[Shop]:
    """Sales of ten days, and silver by the earlier release."""
    copy_home(published_home, tmp_path / "home")
    opened = open_shop(tmp_path / "home", clock=ticking_clock(NOON + 3 * ONE_HOUR), spark=spark)
    yield opened
    opened.ws.close()


def days_of(shop: Shop, set_id: str) -> list[tuple[date, ...]]:
    return [member.manifest.partitions for member in Restatement(shop.ws, set_id).runs]


def test_a_table_that_declares_phases_is_planned_in_them_unless_one_is_asked_for_or_too_little_is(shop: Shop) -> None:
    recent = replace(example.recent_sales, phases=phases(2, hold_hours=24, each=True))
    monthly = replace(example.sales_monthly, inputs=dict.fromkeys(example.sales_monthly.inputs, recent))
    ws = replace(shop.ws, domain=replace(example.DOMAIN, derived=(recent, monthly)))
    planned = plan_table(ws, REQUEST)
    assert isinstance(planned, PlannedSet)
    assert (len(planned.plans), planned.manifest.phases) == (2, Phases(hold_s=24 * 3600, each=True))
    first = DayRange.inclusive(OUTPUT.start, OUTPUT.start)
    for request, asked in (
        (REQUEST, AskedPhases(count=1, terms=Phases())),
        (replace(REQUEST, days=first), None),
        (replace(REQUEST, mode=Mode.DRY_RUN), None),
    ):
        assert isinstance(plan_table(ws, request, asked), Plan)
    other = plan_table(ws, REQUEST, AskedPhases(count=3, terms=Phases()))
    assert isinstance(other, PlannedSet) and len(other.plans) == 3


@pytest.mark.long
def test_a_plan_in_phases_of_a_part_of_the_days_names_the_rest(shop: Shop) -> None:
    more = DayRange(OUTPUT.start, OUTPUT.end + timedelta(days=2))
    planned = plan_phases(shop.ws, replace(REQUEST, days=more, partial=True), ASKED)
    built = [day for each in planned.plans for day in each.manifest.partitions]
    (left,) = planned.left_out
    assert (left.table, left.why, {*left.partitions}) == (RECENT, WhyLeftOut.INCOMPLETE, {*more} - {*built})
    assert (planned.planned, planned.asked_for) == (len(OUTPUT), len(more))
    assert [each.table for each in left.missing] == ["bronze.sales"]


@pytest.mark.parametrize(("count", "hours"), [(1, 0), (None, -1)])
def test_declared_phases_are_at_least_two_and_wait_no_negative_time(count: int | None, hours: int) -> None:
    with pytest.raises(InvalidDeclaration, match="at least 2, and at least 0 hours"):
        phases(count, hold_hours=hours)


def test_a_table_whose_runs_read_each_other_declares_no_phases() -> None:
    with pytest.raises(InvalidDeclaration, match="so that it has no phases"):
        replace(states.open_cases, phases=phases())


@pytest.mark.long
def test_phases_are_computed_together_and_published_one_by_one_and_the_days_between_stay_in_every_byte(
    shop: Shop,
) -> None:
    before, files = shop.amounts(), shop.files()
    planned = plan_phases(shop.ws, REQUEST, ASKED)
    set_id = planned.manifest.set_id
    first, second = days_of(shop, set_id)
    assert (*first, *second) == tuple(OUTPUT)
    acting, subject = Acting(by="ana", recorder=Unrecorded()), Restatement(shop.ws, set_id)
    subject.stage(acting)
    staged = set_document(shop.ws, set_id)
    assert {each.run.record.state for each in staged.runs} == {RunState.PASSED}
    assert worded(staged.next_step) == f"backfill approve {set_id} --by ANOTHER_PERSON"
    operations.approve(shop.ws, set_id, by="ben")
    subject.publish(replace(acting, by="ben"))
    assert subject.document().record.state is SetState.PARTLY_PUBLISHED
    after = shop.amounts()
    assert {day for day in OUTPUT if after[day] != before[day]} == set(first)
    assert files.items() <= shop.files().items()
    subject.publish(replace(acting, by="ben"))
    assert subject.document().record.state is SetState.PUBLISHED
    assert all(shop.amounts()[day] != before[day] for day in OUTPUT)
    subject.rollback(replace(acting, by="ben"), reason="was right before", with_dependents=False)
    assert (shop.amounts(), subject.document().record.state) == (before, SetState.ROLLED_BACK)
    assert audit(shop.ws).problems == ()


def test_the_commands_print_phases_and_refuse_what_is_none(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in shop_environment(shop.ws.settings.home).items():
        monkeypatch.setenv(name, value)
    plan = [
        "plan",
        "table",
        RECENT,
        "--from",
        str(OUTPUT.start),
        "--to",
        str(OUTPUT.last),
        "--reason",
        "why",
        "--by",
        "ana",
    ]
    runner = CliRunner()
    shown = runner.invoke(app, [*plan, "--phases", "2", "--hold", "24", "--approve-each"])
    assert shown.exit_code == 0, shown.output
    said = " ".join(shown.output.split())
    assert "one after the other, each 24 hours after the one before it; approved one by one" in said
    assert f"wait 24 hours after the phase before it of {RECENT} has landed" in said
    next_step = said.rpartition("next: ")[2]
    assert next_step.startswith("backfill run set.") and "approve" not in next_step, (
        "the set is not approved as a whole"
    )
    document = json.loads(runner.invoke(app, [*plan, "--phases", "2", "--json"]).output)
    assert (document["phases"], len(document["runs"])) == ({"hold_s": 0, "each": False}, 2)
    assert [each["stage"] for each in document["stages"]].count("agree") == 1
    for wrong, sentence in (
        (["--phases", "99"], "cannot be changed in these phases"),
        (["--phases", "2.5"], "is not a whole number of phases"),
        (["--hold", "2"], "--name, --hold and --approve-each are about phases"),
    ):
        refused = runner.invoke(app, [*plan, *wrong])
        assert (refused.exit_code, sentence in " ".join(refused.stderr.split())) == (1, True), refused.output
    with pytest.raises(Refused, match="a run of mode DRY_RUN is not published"):
        plan_phases(shop.ws, replace(REQUEST, mode=Mode.DRY_RUN), ASKED)
