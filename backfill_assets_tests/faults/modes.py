"""Which operations on tables that are published in other modes than the usual one are killed?

The table of recent sales, declared to merge what its transform returns by key, or only to add days, or with a version
beside it to which readers are cut over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date

from backfill_assets.application import shadow
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.domain import DeclaredChange, append, merge
from backfill_assets.ledger.states import ActState, RunState
from backfill_assets.planning.request import AskedLimits, PlanRequest
from backfill_assets.requests import table_acts
from backfill_assets.requests.authority import approve
from backfill_assets.workspace import Workspace
from backfill_assets_tests.faults.scenario import Notes, Scenario, published
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.ledger_book import declared_as
from backfill_assets_tests.support.shop import DAYS, OUTPUT, RECENT, Shop, sale
from backfill_assets_tests.support.version_shop import V2, with_version

BY_KEY, ONLY_ADDS = merge(on=("day", "shop")), append()
THREE_DAYS = DayRange.inclusive(date(2026, 1, 4), date(2026, 1, 6))
NEW_DAY = DayRange.inclusive(DAYS.last, DAYS.last)


def _declared(ws: Workspace, mode: DeclaredChange) -> Workspace:
    return replace(ws, domain=declared_as(ws.domain, RECENT, mode))


def _planned(mode: DeclaredChange, days: DayRange) -> Callable[[Shop], Notes]:
    def prepare(shop: Shop) -> Notes:
        # A late sale within the days, and the day ahead that the last of them needs.
        shop.land("late.jsonl", [sale(THREE_DAYS.start, amount=7, sale_id="late"), sale(DAYS.end)])
        limits = AskedLimits(chunk_partitions=2)
        request = PlanRequest(table=RECENT, days=days, reason="late", by="ana", limits=limits)
        run_id = operations.plan(_declared(shop.ws, mode), request).manifest.run_id
        operations.approve(shop.ws, run_id, by="ben")
        return {"run": run_id}

    return prepare


def _staged(mode: DeclaredChange, days: DayRange) -> Callable[[Shop], Notes]:
    def prepare(shop: Shop) -> Notes:
        notes = _planned(mode, days)(shop)
        operations.stage(_declared(shop.ws, mode), notes["run"], actor="ana")
        return notes

    return prepare


def _ready(mode: DeclaredChange, days: DayRange) -> Callable[[Shop], Notes]:
    def prepare(shop: Shop) -> Notes:
        notes = _staged(mode, days)(shop)
        operations.gate(_declared(shop.ws, mode), notes["run"], actor="ana")
        return notes

    return prepare


def _visible(mode: DeclaredChange, days: DayRange) -> Callable[[Shop], Notes]:
    def prepare(shop: Shop) -> Notes:
        notes = _ready(mode, days)(shop)
        operations.publish(_declared(shop.ws, mode), notes["run"], by="ben")
        return notes

    return prepare


def _published(mode: DeclaredChange) -> Callable[[Shop, Notes], None]:
    return lambda shop, notes: published(replace(shop, ws=_declared(shop.ws, mode)), notes)


def _brought_back(shop: Shop, notes: Notes) -> None:
    if operations.state_of(shop.ws, notes["run"]) is RunState.PUBLISHED:
        operations.rollback(shop.ws, notes["run"], by="ben", reason="was right before")


def _with_version(ws: Workspace) -> Workspace:
    return replace(ws, domain=with_version(ws.domain))


def _asked(shop: Shop) -> Notes:
    """A version of the recent sales is published, and another person agreed to show it to readers."""
    ws = _with_version(shop.ws)
    run_id = operations.plan(ws, PlanRequest(table=V2, days=OUTPUT, reason="beside", by="ana")).manifest.run_id
    operations.stage(ws, run_id, actor="ana")
    operations.gate(ws, run_id, actor="ana")
    operations.publish(ws, run_id, by="ana")
    act_id = shadow.cut_over(ws, V2, by="ana", reason="it is better").act.act_id
    approve(ws, act_id, by="ben", note="agreed")
    return {"act": act_id}


def _shown(shop: Shop) -> Notes:
    notes = _asked(shop)
    _cut_over(shop.ws, notes)
    return notes


def _cut_over(ws: Workspace, notes: Notes) -> None:
    table_acts.carry_out(_with_version(ws), notes["act"], by="ana")


def _show_again(ws: Workspace, notes: Notes) -> None:
    table_acts.undo(_with_version(ws), notes["act"], by="ben", reason="was right before")


def _act_state(shop: Shop, notes: Notes) -> ActState:
    with shop.ws.ledger.read() as tx:
        return tx.acts.get(notes["act"]).state


def _is_shown(shop: Shop, notes: Notes) -> None:
    if _act_state(shop, notes) is ActState.ASKED:
        _cut_over(shop.ws, notes)


def _is_shown_again(shop: Shop, notes: Notes) -> None:
    if _act_state(shop, notes) is ActState.DONE:
        _show_again(shop.ws, notes)


MODES = (
    Scenario(name="cut over", home="published", prepare=_asked, act=_cut_over, finish=_is_shown),
    Scenario(name="undo a cut-over", home="published", prepare=_shown, act=_show_again, finish=_is_shown_again),
    Scenario(
        name="stage a merge",
        home="published",
        prepare=_planned(BY_KEY, THREE_DAYS),
        act=lambda ws, notes: operations.stage(_declared(ws, BY_KEY), notes["run"], actor="ana"),
        finish=_published(BY_KEY),
        needs_spark=True,
    ),
    Scenario(
        name="gate a merge",
        home="published",
        prepare=_staged(BY_KEY, THREE_DAYS),
        act=lambda ws, notes: operations.gate(_declared(ws, BY_KEY), notes["run"], actor="ana"),
        finish=_published(BY_KEY),
        needs_spark=True,
    ),
    Scenario(
        name="publish a merge",
        home="published",
        prepare=_ready(BY_KEY, THREE_DAYS),
        act=lambda ws, notes: operations.publish(_declared(ws, BY_KEY), notes["run"], by="ben"),
        finish=_published(BY_KEY),
    ),
    Scenario(
        name="roll back a merge",
        home="published",
        prepare=_visible(BY_KEY, THREE_DAYS),
        act=lambda ws, notes: operations.rollback(ws, notes["run"], by="ben", reason="was right before"),
        finish=_brought_back,
    ),
    Scenario(
        name="publish what only adds",
        home="published",
        prepare=_ready(ONLY_ADDS, NEW_DAY),
        act=lambda ws, notes: operations.publish(_declared(ws, ONLY_ADDS), notes["run"], by="ben"),
        finish=_published(ONLY_ADDS),
    ),
    Scenario(
        name="roll back what only adds",
        home="published",
        prepare=_visible(ONLY_ADDS, NEW_DAY),
        act=lambda ws, notes: operations.rollback(ws, notes["run"], by="ben", reason="was right before"),
        finish=_brought_back,
    ),
)
