"""A version of a table beside it: readers see it once they are cut over, in one step, and back in one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill_assets.application import look, shadow
from backfill_assets.application.freeze import freeze, unfreeze
from backfill_assets.application.plan import plan_phases
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.application.requests import request_of
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.errors import (
    GateFailed,
    IllegalTransition,
    InputsMovedOn,
    InvalidDeclaration,
    InvalidRange,
    MissingInput,
    NotApproved,
    Refused,
    TargetChanged,
    UnknownName,
)
from backfill_assets.domain import Domain, Policy, Table
from backfill_assets.ledger.errors import NeedsAnother
from backfill_assets.ledger.freezes import Freeze
from backfill_assets.ledger.states import ActState, RunState
from backfill_assets.ledger.table_acts import ComparedDay
from backfill_assets.planning.kinds.change import Scope
from backfill_assets.planning.request import PlanRequest
from backfill_assets.planning.restatement import PlannedSet, SetRequest
from backfill_assets.planning.sets import AskedPhases, Phases
from backfill_assets.report.command_line import explained, words_of
from backfill_assets.report.errors import NotDoneWith
from backfill_assets.report.history import TableHistory
from backfill_assets.report.markdown import markdown_page
from backfill_assets.report.pages import page_of
from backfill_assets.report.versions import ActDocument
from backfill_assets.requests import table_acts
from backfill_assets.requests.authority import approve
from backfill_assets.requests.errors import Frozen
from backfill_assets.transforms.code import Code, DomainCode
from backfill_assets.upkeep.audit import audit
from backfill_assets.workspace import Workspace
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.integration.conftest import ONE_HOUR
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.ledgers import copy_home
from backfill_assets_tests.support.shop import DAYS, OUTPUT, RECENT, SALES, open_shop, sale, ticking_clock
from backfill_assets_tests.support.version_shop import V2, VersionShop, rows_at, with_version, with_versions

FIFTH = date(2026, 1, 5)
ONE_DAY = timedelta(days=1)


@pytest.fixture
def shop(tmp_path: Path, published_home: Path, spark: SparkSession) -> Iterator[VersionShop]:
    """The shop with its recent sales published, and a version of them that holds nothing yet."""
    copy_home(published_home, tmp_path / "home")
    opened = open_shop(tmp_path / "home", clock=ticking_clock(NOON + 3 * ONE_HOUR), spark=spark)
    yield with_versions(opened, with_version(opened.ws.domain))
    opened.ws.close()


def test_readers_see_a_version_once_they_are_cut_over_and_the_earlier_table_again_after_a_rollback(
    shop: VersionShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = shop.read()
    assert set(before.values()) == {80}
    files = shop.files()
    run_id = shop.computed(V2, OUTPUT)
    # Published, and only who names the version sees it.
    dark = shadow.resolve(shop.ws, V2)
    assert (dark.table, shop.read(), shop.files() == files) == (V2, before, True)
    with monkeypatch.context() as edited:
        present = DomainCode.of

        def of(self: DomainCode, table: Table, version: str) -> Code:
            found = present(self, table, version)
            return replace(found, digest="f" * 64) if table.name == V2 else found

        edited.setattr(DomainCode, "of", of)
        with pytest.raises(InputsMovedOn) as changed:
            shop.asked()
        assert f"backfill plan stale {V2} --changed-code" in explained(changed.value)
    act_id = shop.asked()
    asked = look.status(shop.ws, act_id)
    assert isinstance(asked, ActDocument)
    assert (asked.act.table, asked.act.state) == (V2, ActState.ASKED)
    with pytest.raises(NotDoneWith, match=f"{act_id} is neither a run nor a set, and cannot be reproduced"):
        request_of(shop.ws, act_id).reproduce(Acting(by="ana", recorder=Unrecorded()), sample=None)
    for nobody in ("ana", "Ana"):
        with pytest.raises(NotApproved, match="requested by ana"):
            approve(shop.ws, act_id, by=nobody, note="")
    with pytest.raises(NotApproved, match=f"{act_id} is not approved; ana asked for it"):
        table_acts.carry_out(shop.ws, act_id, by="ana")
    assert shop.read() == before
    approve(shop.ws, act_id, by="ben", note="agreed")
    table_acts.carry_out(shop.ws, act_id, by="ana")
    assert set(shop.read().values()) == {40}
    assert shadow.resolve(shop.ws, RECENT, run_id).table == V2
    assert (look.shown(shop.ws, RECENT, None), look.shown(shop.ws, RECENT, NOON)) == (V2, RECENT)
    assert set(shop.read(shop_run(shop)).values()) == {80}
    with pytest.raises(IllegalTransition, match=f"{act_id} is DONE already"):
        table_acts.carry_out(shop.ws, act_id, by="ana")
    # The version was published before readers of the table were shown it, and a trace names both times.
    traced = look.trace(shop.ws, V2, FIFTH, {"shop": "only"}, None)
    (cut_over,) = traced.shown
    assert cut_over.since is not None and cut_over.since > traced.seen.since
    assert (traced.name, cut_over.until, cut_over.by and (cut_over.by.act_id, cut_over.by.approved_by)) == (
        RECENT,
        None,
        (act_id, "ben"),
    )
    history = look.history(shop.ws, V2, None)
    assert isinstance(history, TableHistory) and (history.name, history.shown) == (RECENT, traced.shown)
    assert f"When readers of {RECENT} were shown {V2}" in markdown_page(page_of(history)).replace("\\", "")
    said = markdown_page(page_of(traced)).replace("\\", "")
    assert "readers saw it from" not in said
    assert f"When readers of {RECENT} were shown {V2}" in said
    assert act_id in said
    resolved = markdown_page(page_of(shadow.resolve(shop.ws, RECENT)))
    assert "published" in resolved and "since" not in resolved, "its readers see it since the cut-over"
    stopping = shadow.stop(shop.ws, RECENT, by="ana", reason="the new one is here to stay").act.act_id
    approve(shop.ws, stopping, by="ben", note="agreed")
    table_acts.undo(shop.ws, act_id, by="cara", reason="second thoughts")
    assert shop.read() == before
    # What was asked for while readers were shown the version cannot be done any more, and nothing advises it.
    following = shadow.status(shop.ws, RECENT).next_step
    assert following is not None and f"backfill cancel {stopping}" in words_of(following)
    with pytest.raises(IllegalTransition, match=r"readers of silver\.recent_sales are shown it"):
        table_acts.carry_out(shop.ws, stopping, by="ana")
    request_of(shop.ws, stopping).cancel(by="ana", reason="not needed")
    assert [
        (each.since is None, each.by) for each in look.trace(shop.ws, RECENT, FIFTH, {"shop": "only"}, None).shown
    ] == [
        (True, None),
        (False, None),
    ]
    assert shop.files().keys() - files.keys() == set()
    with pytest.raises(IllegalTransition):
        table_acts.undo(shop.ws, act_id, by="cara", reason="again")
    assert audit(shop.ws).problems == ()


def shop_run(shop: VersionShop) -> str:
    """The run whose rows readers of the recent sales were shown first."""
    with shop.ws.ledger.read() as tx:
        return tx.runs.records(table=RECENT, states=[RunState.PUBLISHED])[0].run_id


@pytest.mark.long
def test_a_version_that_lacks_days_is_stale_or_was_asked_for_before_another_cut_over_is_refused(
    shop: VersionShop,
) -> None:
    first = DayRange.inclusive(OUTPUT.start, FIFTH)
    shop.computed(V2, first)
    with pytest.raises(
        TargetChanged, match=r"lacks 2026-01-06\.\.2026-01-09, 4 days, which silver\.recent_sales has"
    ) as lacks:
        shop.asked()
    assert "backfill shadow start silver.recent_sales_v2" in explained(lacks.value)
    shop.computed(V2, DayRange.inclusive(FIFTH + ONE_DAY, OUTPUT.last))
    first_act, second_act = shop.asked(), shop.asked()
    shop.land("late.jsonl", [sale(FIFTH, amount=5, sale_id="late")])
    shop.computed(RECENT, OUTPUT)
    for act_id in (first_act, second_act):
        approve(shop.ws, act_id, by="ben", note="agreed")
        with pytest.raises(InputsMovedOn, match=r"2026-01-04\.\.2026-01-07, 4 days of it no longer follow"):
            table_acts.carry_out(shop.ws, act_id, by="ben")
    shop.computed(V2, OUTPUT)
    table_acts.carry_out(shop.ws, second_act, by="ben")
    with pytest.raises(TargetChanged, match=f"{first_act} was asked for while readers .* were shown {RECENT}"):
        table_acts.carry_out(shop.ws, first_act, by="ben")
    request_of(shop.ws, first_act).cancel(by="ana", reason="not needed")
    with pytest.raises(IllegalTransition, match=r"readers of silver\.recent_sales are shown it"):
        shadow.stop(shop.ws, V2, by="ana", reason="why not")


@pytest.mark.long
def test_the_earlier_table_is_given_up_by_an_approved_act_and_readers_are_never_shown_it_again(
    shop: VersionShop,
) -> None:
    shop.computed(V2, OUTPUT)
    act_id = shop.cut_over()
    given_up = shadow.stop(shop.ws, RECENT, by="ana", reason="the new one is here to stay").act.act_id
    with pytest.raises(NotApproved):
        table_acts.carry_out(shop.ws, given_up, by="ana")
    approve(shop.ws, given_up, by="ben", note="agreed")
    table_acts.carry_out(shop.ws, given_up, by="ana")
    with pytest.raises(IllegalTransition, match=f"{RECENT} was given up for good by {given_up}"):
        table_acts.undo(shop.ws, act_id, by="cara", reason="second thoughts")
    with pytest.raises(IllegalTransition, match="given up"):
        shop.planned(OUTPUT, table=RECENT)
    assert not any(sentence.startswith(f"{RECENT}:") for sentence in shop.lives())


@pytest.mark.long
def test_while_readers_are_shown_it_the_policy_of_the_table_counts_for_runs_of_a_version(shop: VersionShop) -> None:
    run_id = shop.computed(V2, OUTPUT)
    assert operations.run_named(shop.ws, run_id).approved_by == "policy:backfill"
    shop.cut_over()
    shop.land("late.jsonl", [sale(FIFTH, amount=5, sale_id="late")])
    late = shop.staged(shop.planned(OUTPUT, table=V2))
    with pytest.raises(NotApproved, match="another person has to agree"):
        operations.publish(shop.ws, late, by="ben")


@pytest.mark.long
def test_nothing_of_the_path_to_readers_waits_for_a_version_and_it_is_restated_once_they_are_shown_it(
    shop: VersionShop,
) -> None:
    shop.computed(V2, OUTPUT)
    shop.land("late.jsonl", [sale(FIFTH, amount=5, sale_id="late")])
    because = ((SALES, DayRange.inclusive(FIFTH, FIFTH)),)

    def members() -> list[str]:
        ws = shop.ws.with_present_references()
        planned = operations.plan_set(ws, SetRequest(reason="late", by="ana", because=because))
        assert isinstance(planned, PlannedSet)
        operations.cancel(ws, planned.manifest.set_id, by="ana", reason="only looked")
        return [member.table for member in planned.manifest.members]

    assert members() == [RECENT]
    shop.computed(V2, OUTPUT)
    shop.cut_over()
    shop.land("later.jsonl", [sale(FIFTH, amount=5, sale_id="later")])
    assert members() == [V2]


@pytest.mark.long
def test_a_version_is_published_in_phases_has_no_pilots_and_readers_are_not_cut_over_while_they_see_frozen_days(
    shop: VersionShop,
) -> None:
    ask = PlanRequest(table=V2, days=OUTPUT, reason="in parts", by="ana")
    phases = plan_phases(shop.ws, ask, AskedPhases(count=2, terms=Phases()))
    operations.approve(shop.ws, phases.manifest.set_id, by="ben")
    for member in phases.manifest.members:
        shop.staged(member.run_id)
        operations.publish_set(shop.ws, phases.manifest.set_id, by="ana")
    assert set(rows_at(shadow.resolve(shop.ws, V2)).values()) == {40}
    with pytest.raises(Refused, match="only tables that replace whole partitions and keep no state have pilots"):
        operations.plan(shop.ws, replace(ask, scope=Scope(where=(("shop", "here"),))))
    act_id = shop.asked()
    approve(shop.ws, act_id, by="ben", note="agreed")
    begun = frozen(shop, FIFTH)
    with pytest.raises(Frozen, match=rf"cut-over {act_id} of {RECENT} waits: 2026-01-05, 1 day is frozen"):
        table_acts.carry_out(shop.ws, act_id, by="ana")
    unfreeze(shop.ws, begun.freeze_id, by="ben", reason="done")
    table_acts.carry_out(shop.ws, act_id, by="ana")
    # Their name now means the version; the table that they saw before is no more what a freeze is about.
    assert frozen(shop, DAYS.last).table == V2
    shop.land("eleventh.jsonl", [sale(DAYS.end)])
    (said,) = [each for each in shop.lives() if each.startswith(f"{V2}: ")]
    assert "2026-01-10, 1 day waits until it is frozen no longer" in said


def frozen(shop: VersionShop, day: date) -> Freeze:
    """A freeze of a day of the recent sales, for a day."""
    until = shop.ws.clock() + ONE_DAY
    day_alone = DayRange.inclusive(day, day)
    return freeze(shop.ws, RECENT, day_alone, until=until, only=None, by="ana", reason="the month is closed").freeze


@pytest.mark.long
def test_what_readers_saw_on_a_day_is_resolved_and_what_was_not_there_is_refused(shop: VersionShop) -> None:
    shop.computed(V2, OUTPUT)
    shop.cut_over()
    with pytest.raises(MissingInput, match=r"readers of silver\.recent_sales see nothing as of 2025-12-31"):
        shadow.resolve(shop.ws, RECENT, "2025-12-31")
    now = shop.ws.clock()
    assert shadow.resolve(shop.ws, RECENT, f"{now:%Y-%m-%dT%H:%M:%S}").table == V2
    assert shadow.resolve(shop.ws, RECENT, f"{now - 2 * ONE_HOUR:%Y-%m-%dT%H:%M:%S}").table == RECENT
    assert shadow.resolve(shop.ws, RECENT, f"{now:%Y-%m-%d %H:%M:%S} UTC").table == V2, "as pages show it"
    assert shadow.resolve(shop.ws, RECENT, f"{now:%Y-%m-%d}").table == V2, "a day that has begun"
    for ahead in (f"{now + ONE_HOUR:%Y-%m-%dT%H:%M:%SZ}", f"{now + ONE_DAY:%Y-%m-%d}"):
        with pytest.raises(InvalidRange, match="UTC is in the future: what readers see then is not known yet"):
            shadow.resolve(shop.ws, RECENT, ahead)
    with pytest.raises(InvalidRange, match="'2026-01-01T99:00' is not a time in UTC"):
        shadow.resolve(shop.ws, RECENT, "2026-01-01T99:00")
    with pytest.raises(UnknownName, match=r"is not a version of bronze\.sales"):
        shadow.resolve(shop.ws, SALES, shop_run(shop))
    with pytest.raises(UnknownName, match=r"gold\.sales_monthly is not a version of a table, and has no versions"):
        shadow.status(shop.ws, "gold.sales_monthly")


def test_declarations_that_readers_could_not_be_cut_over_to_are_refused(shop: VersionShop) -> None:
    domain = with_version(
        shop.ws.domain.__class__(
            name="shop",
            package=shop.ws.domain.package,
            sources=shop.ws.domain.sources,
            derived=tuple(t for t in shop.ws.domain.derived if t.name != V2),
        )
    )
    recent = domain.derived_table(RECENT)
    with pytest.raises(InvalidDeclaration, match="identifies its rows"):
        recent.beside("silver.other", differs=("shop",))
    with pytest.raises(InvalidDeclaration, match="a version of"):
        recent.beside("silver.other", clean_days=-1)
    with pytest.raises(UnknownName, match=r"7\.7\.7"):
        recent.beside("silver.other", version="7.7.7")


def compared(ws: Workspace) -> ComparedDay:
    ((_, day),) = shadow.compared(ws, by="ops")
    assert isinstance(day, ComparedDay)
    return day


@pytest.mark.long
def test_the_comparison_by_key_counts_what_was_expected_apart_and_days_count_only_in_a_row(
    tmp_path: Path, published_home: Path, spark: SparkSession
) -> None:
    copy_home(published_home, tmp_path / "home")
    clock = ticking_clock(NOON + 3 * ONE_HOUR)
    opened = open_shop(tmp_path / "home", clock=clock, spark=spark)
    strict = with_versions(opened, with_version(opened.ws.domain, clean_days=1))
    strict.computed(V2, OUTPUT)
    with pytest.raises(GateFailed, match=r"were not compared with silver\.recent_sales as both are now"):
        strict.asked()
    day = compared(strict.ws)
    assert (day.partition_count, day.agreed, day.differing, day.explained, day.is_clean) == (7, 0, 7, 0, False)
    with pytest.raises(
        GateFailed, match=r"has agreed with silver\.recent_sales on 0 days in a row, and 1 are declared"
    ):
        strict.asked()
    # What is expected is part of what is compared: all is compared again, and the day stays one that was not clean.
    expecting = with_versions(opened, with_version(opened.ws.domain, differs=("amount",), clean_days=1))
    day = compared(expecting.ws)
    assert (day.agreed, day.differing, day.explained, day.is_clean) == (0, 7, 7, False)
    half = with_versions(opened, with_version(opened.ws.domain, explained="day < date'2026-01-06'", clean_days=1))
    day = compared(half.ws)
    assert (day.agreed, day.differing, day.explained) == (0, 7, 3)
    (found,) = [each for each in shadow.status(half.ws, RECENT).versions if each.table == V2]
    assert [(each.partition.day, each.explained) for each in found.differing][2:4] == [(5, 1), (6, 0)]
    assert audit(opened.ws).problems == ()
    opened.ws.close()


def _without_plausible(domain: Domain) -> Domain:
    version = domain.derived_table(V2)
    gates = tuple(gate for gate in version.gates if gate.name != "plausible")
    others = tuple(table for table in domain.derived if table.name != V2)
    return replace(domain, derived=(*others, replace(version, gates=gates)))


ASKING_NOBODY = Policy(live="auto", backfill="auto", follow="auto")


@pytest.mark.long
def test_where_the_policy_asks_nobody_a_cut_over_needs_no_second_person(
    tmp_path: Path, published_home: Path, spark: SparkSession
) -> None:
    copy_home(published_home, tmp_path / "home")
    opened = open_shop(tmp_path / "home", clock=ticking_clock(NOON + 3 * ONE_HOUR), spark=spark)
    shop = with_versions(opened, with_version(opened.ws.domain, policy=ASKING_NOBODY))
    shop.computed(V2, OUTPUT)
    # That nobody is asked was declared after rows were agreed to, by whoever made the version perhaps.
    for act_id in (shop.asked(), shop.asked()):
        with pytest.raises(NotApproved):
            table_acts.carry_out(shop.ws, act_id, by="ana")
    with pytest.raises(NeedsAnother):
        approve(shop.ws, act_id, by="ana", note="mine")
    run_id = shop.planned(OUTPUT)
    operations.approve(shop.ws, run_id, by="ben")
    operations.publish(shop.ws, shop.staged(run_id), by="ben")
    # A gate of what readers see that the version lacks is no gate of what they would see.
    lax = with_versions(opened, _without_plausible(shop.ws.domain))
    act_id = lax.asked()
    with pytest.raises(NotApproved, match=r"\(gate plausible\)"):
        table_acts.carry_out(lax.ws, act_id, by="ana")
    act_id = shop.asked()
    # The stricter of the pinned and the present policy counts.
    strict = with_versions(opened, with_version(opened.ws.domain))
    with pytest.raises(NotApproved):
        table_acts.carry_out(strict.ws, act_id, by="ana")
    table_acts.carry_out(shop.ws, act_id, by="ana")
    assert set(shop.read().values()) == {40}
    given_up = shadow.stop(strict.ws, RECENT, by="ana", reason="the new one is here to stay").act.act_id
    with pytest.raises(NotApproved):
        table_acts.carry_out(strict.ws, given_up, by="ana")
    opened.ws.close()
