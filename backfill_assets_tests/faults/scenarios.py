"""Which operations are killed at every place between two durable steps, and how is each taken up again?

A scenario prepares a home once, acts in a process that will be killed, and is then finished by whoever comes next. What
readers see afterwards, and what the ledger holds, has to be what a run without a kill leaves.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import date, timedelta
from pathlib import Path

from backfill_assets.crash_points import Point
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.ledger.states import ApprovalState, ImportState, RunState, SetState
from backfill_assets.planning.partitions import DayRange
from backfill_assets.planning.request import AskedLimits, PlanRequest
from backfill_assets.planning.restatement import PlannedSet, SetRequest
from backfill_assets.workspace import Workspace
from backfill_assets_tests import operations
from backfill_assets_tests.faults.following import FOLLOWING
from backfill_assets_tests.faults.scenario import Notes, Scenario, Stopped, published, stopping_at
from backfill_assets_tests.month import CARNIVAL
from backfill_assets_tests.shop import RECENT, SALES, Shop, sale

FIFTH = date(2026, 1, 5)
THREE_DAYS = DayRange.inclusive(date(2026, 1, 4), date(2026, 1, 6))
FOUR_DAYS = timedelta(days=4)
LATE_FILE = "late.jsonl"


# ----------------------------------------------------------------------------------------------------------- landing


def _late_file(shop: Shop) -> Path:
    """A late sale, one that is there already, and one that nobody can read."""
    path = shop.folder / LATE_FILE
    lines = [json.dumps(sale(FIFTH, amount=100, sale_id="late")), json.dumps(sale(FIFTH)), '{"sale_id": "no time"}']
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def _land(ws: Workspace, notes: Notes) -> None:
    operations.land(ws, SALES, Path(notes["file"]), on_duplicate=OnDuplicate.IGNORE, by="ana")


def _loaded(shop: Shop, notes: Notes) -> None:
    """Lands the file, unless it has landed, and builds the days that it touches."""
    _land(shop.ws, {**notes, "file": str(shop.folder / LATE_FILE)})
    with shop.ws.ledger.read() as reader:
        is_waiting = bool(reader.imports.records(states=[ImportState.LANDED]))
    if is_waiting:
        load = operations.plan_load(shop.ws, SALES, partitions=None, by="ana", reason="landed")
        assert load is not None
        published(shop, {"run": load.run_id})


def _planned_load(shop: Shop) -> Notes:
    _land(shop.ws, {"file": str(_late_file(shop))})
    load = operations.plan_load(shop.ws, SALES, partitions=None, by="ana", reason="landed")
    assert load is not None
    return {"run": load.run_id}


# --------------------------------------------------------------------------------------------------- one run


def _planned(shop: Shop) -> Notes:
    request = PlanRequest(
        table=RECENT, days=THREE_DAYS, reason="the present release", by="ana", limits=AskedLimits(chunk_partitions=2)
    )
    run_id = operations.plan(shop.ws, request).manifest.run_id
    operations.approve(shop.ws, run_id, by="ben")
    return {"run": run_id}


def _half_staged(shop: Shop) -> Notes:
    notes = _planned(shop)
    with suppress(Stopped):
        operations.stage(stopping_at(shop.ws, Point.STAGE_CHUNK_FINISHED), notes["run"], actor="ana")
    return notes


def _staged(shop: Shop) -> Notes:
    notes = _planned(shop)
    operations.stage(shop.ws, notes["run"], actor="ana")
    return notes


def _ready(shop: Shop) -> Notes:
    notes = _staged(shop)
    operations.gate(shop.ws, notes["run"], actor="ana")
    return notes


def _visible(shop: Shop) -> Notes:
    notes = _ready(shop)
    operations.publish(shop.ws, notes["run"], by="ben")
    return notes


def _brought_back(shop: Shop, notes: Notes) -> None:
    if operations.run_named(shop.ws, notes["run"]).state is RunState.PUBLISHED:
        operations.rollback(shop.ws, notes["run"], by="ben", reason="was right before")


def _cancelled(shop: Shop, notes: Notes) -> None:
    """A run that is not wanted after all: undone if readers see it, and cancelled; then nothing needs its files."""
    _brought_back(shop, notes)
    if operations.run_named(shop.ws, notes["run"]).state is not RunState.CANCELLED:
        operations.cancel(shop.ws, notes["run"], by="ana", reason="not wanted")


def _stopped_publication(at: Point) -> Callable[[Shop], Notes]:
    def prepare(shop: Shop) -> Notes:
        notes = _ready(shop)
        with suppress(Stopped):
            operations.publish(stopping_at(shop.ws, at), notes["run"], by="ben")
        return notes

    return prepare


def _with_leftovers(shop: Shop) -> Notes:
    """A run that was staged twice, so that files of its first attempt are needed by nobody."""
    notes = _ready(shop)
    with shop.ws.ledger.read() as reader:
        candidates = reader.candidates.of_run(notes["run"])
    for candidate in candidates.values():
        (shop.ws.lake.path(RECENT) / candidate.files.files[0].path).unlink()
        break
    operations.stage(shop.ws, notes["run"], actor="ana")
    operations.gate(shop.ws, notes["run"], actor="ana")
    return notes


# ------------------------------------------------------------------------------------------------------- a set


def _ready_set(shop: Shop) -> Notes:
    """Silver and gold change."""
    return _ready_after(shop, [sale(CARNIVAL, amount=5, sale_id="late")])


def _half_equal_set(shop: Shop) -> Notes:
    """A sale was moved by four days: silver changes, gold is wholly equal."""
    return _ready_after(
        shop, [sale(CARNIVAL, amount=5, sale_id="new"), sale(CARNIVAL + FOUR_DAYS, amount=-5, sale_id="old")]
    )


def _ready_after(shop: Shop, sales: Sequence[Mapping[str, object]]) -> Notes:
    shop.land("late.jsonl", sales)
    because = ((SALES, DayRange.inclusive(CARNIVAL, CARNIVAL + FOUR_DAYS)),)
    planned = operations.plan_set(shop.ws, SetRequest(reason="a late sale", by="ana", because=because))
    assert isinstance(planned, PlannedSet)
    for member in planned.manifest.members:
        shop.staged(member.run_id)
    operations.approve_set(shop.ws, planned.manifest.set_id, by="ben")
    return {"set": planned.manifest.set_id}


def _visible_set(shop: Shop) -> Notes:
    notes = _ready_set(shop)
    operations.publish_set(shop.ws, notes["set"], by="ben")
    return notes


def _visible_half_equal_set(shop: Shop) -> Notes:
    notes = _half_equal_set(shop)
    operations.publish_set(shop.ws, notes["set"], by="ben")
    return notes


def _half_equal_set_agreed_again(shop: Shop) -> Notes:
    notes = _visible_half_equal_set(shop)
    operations.rollback_set(shop.ws, notes["set"], by="ben", reason="second thoughts")
    operations.approve_set(shop.ws, notes["set"], by="ben")
    return notes


def _set_state(shop: Shop, notes: Notes) -> SetState:
    with shop.ws.ledger.read() as reader:
        return reader.sets.get(notes["set"]).state


def _published_set(shop: Shop, notes: Notes) -> None:
    if _set_state(shop, notes) is not SetState.PUBLISHED:
        with shop.ws.ledger.read() as reader:
            members = reader.sets.get(notes["set"]).manifest.members
            is_draft = any(reader.runs.get(m.run_id).approval is ApprovalState.DRAFT for m in members)
        if is_draft:
            operations.approve_set(shop.ws, notes["set"], by="ben")
        operations.publish_set(shop.ws, notes["set"], by="ben")


def _brought_back_set(shop: Shop, notes: Notes) -> None:
    if _set_state(shop, notes) is not SetState.ROLLED_BACK:
        operations.rollback_set(shop.ws, notes["set"], by="ben", reason="was right before")


def _cancelled_set(shop: Shop, notes: Notes) -> None:
    """A set that is not wanted after all."""
    if _set_state(shop, notes) is SetState.PUBLISHED:
        operations.rollback_set(shop.ws, notes["set"], by="ben", reason="was right before")
    if _set_state(shop, notes) is not SetState.CANCELLED:
        operations.cancel(shop.ws, notes["set"], by="ana", reason="not wanted")


def _first_silver(shop: Shop) -> Notes:
    """The run that built silver for the first time; gold rests on it."""
    with shop.ws.ledger.read() as reader:
        (run,) = reader.runs.records(table=RECENT)
    return {"run": run.run_id}


def _brought_back_with_gold(shop: Shop, notes: Notes) -> None:
    if operations.run_named(shop.ws, notes["run"]).state is RunState.PUBLISHED:
        operations.rollback_with_dependents(shop.ws, notes["run"], by="ben", reason="was never right")


def _staged_and_gated(ws: Workspace, notes: Notes) -> None:
    operations.stage(ws, notes["run"], actor="ana")
    operations.gate(ws, notes["run"], actor="ana")


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario(
            name="land",
            home="published",
            prepare=lambda shop: {"file": str(_late_file(shop))},
            act=_land,
            finish=_loaded,
            needs_spark=True,
        ),
        Scenario(
            name="load",
            home="published",
            prepare=_planned_load,
            act=_staged_and_gated,
            finish=published,
            needs_spark=True,
        ),
        Scenario(
            name="stage",
            home="published",
            prepare=_planned,
            act=lambda ws, notes: operations.stage(ws, notes["run"], actor="ana"),
            finish=published,
            needs_spark=True,
        ),
        Scenario(
            name="resume",
            home="published",
            prepare=_half_staged,
            act=lambda ws, notes: operations.stage(ws, notes["run"], actor="ana"),
            finish=published,
            needs_spark=True,
        ),
        Scenario(
            name="stage what is cancelled",
            home="published",
            prepare=_planned,
            act=lambda ws, notes: operations.stage(ws, notes["run"], actor="ana"),
            finish=_cancelled,
            needs_spark=True,
        ),
        Scenario(
            name="gate",
            home="published",
            prepare=_staged,
            act=lambda ws, notes: operations.gate(ws, notes["run"], actor="ana"),
            finish=published,
            needs_spark=True,
        ),
        Scenario(
            name="publish",
            home="published",
            prepare=_ready,
            act=lambda ws, notes: operations.publish(ws, notes["run"], by="ben"),
            finish=published,
        ),
        Scenario(
            name="publish what is cancelled",
            home="published",
            prepare=_ready,
            act=lambda ws, notes: operations.publish(ws, notes["run"], by="ben"),
            finish=_cancelled,
        ),
        Scenario(
            name="publish a set that is cancelled",
            home="month",
            prepare=_ready_set,
            act=lambda ws, notes: operations.publish_set(ws, notes["set"], by="ben"),
            finish=_cancelled_set,
        ),
        Scenario(
            name="roll back",
            home="published",
            prepare=_visible,
            act=lambda ws, notes: operations.rollback(ws, notes["run"], by="ben", reason="was right before"),
            finish=_brought_back,
        ),
        Scenario(
            name="publish a set",
            home="month",
            prepare=_ready_set,
            act=lambda ws, notes: operations.publish_set(ws, notes["set"], by="ben"),
            finish=_published_set,
        ),
        Scenario(
            name="roll back a set",
            home="month",
            prepare=_visible_set,
            act=lambda ws, notes: operations.rollback_set(ws, notes["set"], by="ben", reason="was right before"),
            finish=_brought_back_set,
        ),
        Scenario(
            name="roll back a set with an equal table",
            home="month",
            prepare=_visible_half_equal_set,
            act=lambda ws, notes: operations.rollback_set(ws, notes["set"], by="ben", reason="was right before"),
            finish=_brought_back_set,
        ),
        Scenario(
            name="publish a set with an equal table again",
            home="month",
            prepare=_half_equal_set_agreed_again,
            act=lambda ws, notes: operations.publish_set(ws, notes["set"], by="ben"),
            finish=_published_set,
        ),
        Scenario(
            name="roll back with dependents",
            home="month",
            prepare=_first_silver,
            act=lambda ws, notes: operations.rollback_with_dependents(ws, notes["run"], by="ben", reason="never right"),
            finish=_brought_back_with_gold,
        ),
        Scenario(
            name="recover an intent",
            home="published",
            prepare=_stopped_publication(Point.SWAP_INTENDED),
            act=lambda ws, _: operations.recover(ws, by="ops"),
            finish=published,
        ),
        Scenario(
            name="recover a commit",
            home="published",
            prepare=_stopped_publication(Point.SWAP_COMMITTED),
            act=lambda ws, _: operations.recover(ws, by="ops"),
            finish=published,
        ),
        Scenario(
            name="recover staging",
            home="published",
            prepare=_half_staged,
            act=lambda ws, _: operations.recover(ws, by="ops"),
            finish=published,
        ),
        Scenario(
            name="vacuum",
            home="published",
            prepare=_with_leftovers,
            act=lambda ws, _: operations.vacuum(ws, by="ops"),
            finish=published,
        ),
        *FOLLOWING,
    )
}
