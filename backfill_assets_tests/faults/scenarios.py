"""Which operations are killed at every place between two durable steps, and how is each taken up again?

A scenario prepares a home once, acts in a process that will be killed, and is then finished by the next process. What
readers see afterwards, and what the ledger holds, has to be what a run without a kill leaves.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import date, timedelta
from functools import partial
from pathlib import Path

from backfill_assets.application.check import check
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.crash_points import Point
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.ledger.states import ApprovalState, ImportState, RunState, SetState
from backfill_assets.planning.request import AskedLimits, PlanRequest
from backfill_assets.planning.restatement import PlannedSet, SetRequest
from backfill_assets.workspace import Workspace
from backfill_assets_tests.faults.dialects import DIALECTS
from backfill_assets_tests.faults.following import FOLLOWING
from backfill_assets_tests.faults.jobs import jobs
from backfill_assets_tests.faults.keeping_state import KEEPING_STATE
from backfill_assets_tests.faults.modes import MODES
from backfill_assets_tests.faults.moving import moving
from backfill_assets_tests.faults.phasing import PHASING
from backfill_assets_tests.faults.proposing import PROPOSING
from backfill_assets_tests.faults.scenario import Notes, Scenario, Stopped, published, stopping_at
from backfill_assets_tests.faults.taking_back import TAKING_BACK
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.lakes import folder_of
from backfill_assets_tests.support.month import CARNIVAL
from backfill_assets_tests.support.shop import RECENT, SALES, Shop, sale

FIFTH = date(2026, 1, 5)
THREE_DAYS = DayRange.inclusive(date(2026, 1, 4), date(2026, 1, 6))
FOUR_DAYS = timedelta(days=4)
LATE_FILE = "late.jsonl"


# ----------------------------------------------------------------------------------------------------------- landing


def _late_file(shop: Shop) -> Path:
    """A late sale, one that is there already, and one that cannot be read."""
    path = shop.folder / LATE_FILE
    lines = [json.dumps(sale(FIFTH, amount=100, sale_id="late")), json.dumps(sale(FIFTH)), '{"sale_id": "no time"}']
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def _landing(shop: Shop) -> Notes:
    return {"file": str(_late_file(shop))}


def _land(ws: Workspace, notes: Notes) -> None:
    operations.land(ws, SALES, Path(notes["file"]), on_duplicate=OnDuplicate.IGNORE, by="ana")


def _landing_together(shop: Shop) -> Notes:
    """Three files, of which the second corrects the first and then has a record of its key that cannot be read."""
    contents = (
        [json.dumps(sale(FIFTH, amount=100, sale_id="late"))],
        [json.dumps(sale(FIFTH, amount=70, sale_id="late")), '{"sale_id": "late"}'],
        [json.dumps(sale(FIFTH))],
    )
    for number, lines in enumerate(contents):
        (shop.folder / f"part-{number}.jsonl").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return {"folder": str(shop.folder)}


def _land_together(ws: Workspace, notes: Notes) -> None:
    operations.land_together(ws, SALES, sorted(Path(notes["folder"]).glob("part-*.jsonl")), by="ana")


def _loaded_together(shop: Shop, notes: Notes) -> None:
    """Lands the files that have not landed, and builds the days that they touch."""
    _land_together(shop.ws, {**notes, "folder": str(shop.folder)})
    _built(shop)


def _loaded(shop: Shop, notes: Notes) -> None:
    """Lands the file, unless it has landed, and builds the days that it touches."""
    _land(shop.ws, {**notes, "file": str(shop.folder / LATE_FILE)})
    _built(shop)


def _built(shop: Shop) -> None:
    with shop.ws.ledger.read() as reader:
        is_waiting = bool(reader.imports.records(states=[ImportState.LANDED]))
    if is_waiting:
        load = operations.plan_load(shop.ws, SALES, partitions=None, by="ana", reason="landed")
        assert load is not None
        published(shop, {"run": load.run_id})


def _planned_load(shop: Shop) -> Notes:
    _land(shop.ws, _landing(shop))
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
        _stage(stopping_at(shop.ws, Point.STAGE_CHUNK_FINISHED), notes)
    return notes


def _staged(shop: Shop) -> Notes:
    notes = _planned(shop)
    _stage(shop.ws, notes)
    return notes


def _ready(shop: Shop) -> Notes:
    notes = _staged(shop)
    _gate(shop.ws, notes)
    return notes


def _visible(shop: Shop) -> Notes:
    notes = _ready(shop)
    _publish(shop.ws, notes)
    return notes


def _brought_back(shop: Shop, notes: Notes) -> None:
    if operations.state_of(shop.ws, notes["run"]) is RunState.PUBLISHED:
        _roll_back(shop.ws, notes)


def _cancelled(shop: Shop, notes: Notes) -> None:
    """A run that is not wanted after all: undone if readers see it, and cancelled; then nothing needs its files."""
    _brought_back(shop, notes)
    if operations.state_of(shop.ws, notes["run"]) is not RunState.CANCELLED:
        operations.cancel(shop.ws, notes["run"], by="ana", reason="not wanted")


def _stopped_publication(at: Point) -> Callable[[Shop], Notes]:
    def prepare(shop: Shop) -> Notes:
        notes = _ready(shop)
        with suppress(Stopped):
            _publish(stopping_at(shop.ws, at), notes)
        return notes

    return prepare


def _with_leftovers(shop: Shop) -> Notes:
    """A run that was staged twice, so that files of its first attempt are not needed any more."""
    notes = _ready(shop)
    with shop.ws.ledger.read() as reader:
        candidates = reader.candidates.of_run(notes["run"])
    for candidate in candidates.values():
        (folder_of(shop.ws.lake, RECENT) / candidate.files.files[0].path).unlink()
        break
    _stage_and_gate(shop.ws, notes)
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
    operations.approve(shop.ws, planned.manifest.set_id, by="ben")
    return {"set": planned.manifest.set_id}


def _visible_set(shop: Shop) -> Notes:
    notes = _ready_set(shop)
    _publish_set(shop.ws, notes)
    return notes


def _visible_half_equal_set(shop: Shop) -> Notes:
    notes = _half_equal_set(shop)
    _publish_set(shop.ws, notes)
    return notes


def _half_equal_set_agreed_again(shop: Shop) -> Notes:
    notes = _visible_half_equal_set(shop)
    operations.rollback_set(shop.ws, notes["set"], by="ben", reason="second thoughts")
    operations.approve(shop.ws, notes["set"], by="ben")
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
            operations.approve(shop.ws, notes["set"], by="ben")
        _publish_set(shop.ws, notes)


def _brought_back_set(shop: Shop, notes: Notes) -> None:
    if _set_state(shop, notes) is not SetState.ROLLED_BACK:
        _roll_back_set(shop.ws, notes)


def _cancelled_set(shop: Shop, notes: Notes) -> None:
    """A set that is not wanted after all."""
    if _set_state(shop, notes) is SetState.PUBLISHED:
        _roll_back_set(shop.ws, notes)
    if _set_state(shop, notes) is not SetState.CANCELLED:
        operations.cancel(shop.ws, notes["set"], by="ana", reason="not wanted")


def _first_silver(shop: Shop) -> Notes:
    """The run that built silver for the first time; gold depends on it."""
    with shop.ws.ledger.read() as reader:
        (run,) = reader.runs.records(table=RECENT)
    return {"run": run.run_id}


def _brought_back_with_gold(shop: Shop, notes: Notes) -> None:
    if operations.state_of(shop.ws, notes["run"]) is RunState.PUBLISHED:
        _roll_back_with_dependents(shop.ws, notes)


# ------------------------------------------------------------------------------------------------------- what is killed


def _stage(ws: Workspace, notes: Notes) -> None:
    operations.stage(ws, notes["run"], actor="ana")


def _gate(ws: Workspace, notes: Notes) -> None:
    operations.gate(ws, notes["run"], actor="ana")


def _stage_and_gate(ws: Workspace, notes: Notes) -> None:
    _stage(ws, notes)
    _gate(ws, notes)


def _publish(ws: Workspace, notes: Notes) -> None:
    operations.publish(ws, notes["run"], by="ben")


def _roll_back(ws: Workspace, notes: Notes) -> None:
    operations.rollback(ws, notes["run"], by="ben", reason="was right before")


def _roll_back_with_dependents(ws: Workspace, notes: Notes) -> None:
    operations.rollback_with_dependents(ws, notes["run"], by="ben", reason="was never right")


def _publish_set(ws: Workspace, notes: Notes) -> None:
    operations.publish_set(ws, notes["set"], by="ben")


def _roll_back_set(ws: Workspace, notes: Notes) -> None:
    operations.rollback_set(ws, notes["set"], by="ben", reason="was right before")


def _recover(ws: Workspace, _: Notes) -> None:
    operations.recover(ws, by="ops")


def _vacuum(ws: Workspace, _: Notes) -> None:
    operations.vacuum(ws, by="ops")


def _check(ws: Workspace, _: Notes) -> None:
    check(ws, Acting(by="eve", recorder=Unrecorded()), RECENT)


def _checked(shop: Shop, notes: Notes) -> None:
    _check(shop.ws, notes)
    published(shop, notes)


_run = partial(Scenario, home="published", finish=published)
_set = partial(Scenario, home="month")

SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        _run(name="land", prepare=_landing, act=_land, finish=_loaded, needs_spark=True),
        _run(
            name="land together",
            prepare=_landing_together,
            act=_land_together,
            finish=_loaded_together,
            needs_spark=True,
        ),
        *DIALECTS,
        _run(name="load", prepare=_planned_load, act=_stage_and_gate, needs_spark=True),
        _run(name="stage", prepare=_planned, act=_stage, needs_spark=True),
        _run(name="resume", prepare=_half_staged, act=_stage, needs_spark=True),
        _run(name="stage what is cancelled", prepare=_planned, act=_stage, finish=_cancelled, needs_spark=True),
        _run(name="gate", prepare=_staged, act=_gate, needs_spark=True),
        _run(name="check", prepare=_visible, act=_check, finish=_checked, needs_spark=True),
        _run(name="publish", prepare=_ready, act=_publish),
        _run(name="publish what is cancelled", prepare=_ready, act=_publish, finish=_cancelled),
        _set(name="publish a set that is cancelled", prepare=_ready_set, act=_publish_set, finish=_cancelled_set),
        _run(name="roll back", prepare=_visible, act=_roll_back, finish=_brought_back),
        _set(name="publish a set", prepare=_ready_set, act=_publish_set, finish=_published_set),
        _set(name="roll back a set", prepare=_visible_set, act=_roll_back_set, finish=_brought_back_set),
        _set(
            name="roll back a set with an equal table",
            prepare=_visible_half_equal_set,
            act=_roll_back_set,
            finish=_brought_back_set,
        ),
        _set(
            name="publish a set with an equal table again",
            prepare=_half_equal_set_agreed_again,
            act=_publish_set,
            finish=_published_set,
        ),
        _set(
            name="roll back with dependents",
            prepare=_first_silver,
            act=_roll_back_with_dependents,
            finish=_brought_back_with_gold,
        ),
        _run(name="recover an intent", prepare=_stopped_publication(Point.SWAP_INTENDED), act=_recover),
        _run(name="recover a commit", prepare=_stopped_publication(Point.SWAP_COMMITTED), act=_recover),
        _run(name="recover staging", prepare=_half_staged, act=_recover),
        _run(name="vacuum", prepare=_with_leftovers, act=_vacuum),
        *jobs(
            a_run=_ready,
            a_set=_ready_set,
            staging=_half_staged,
            intent=_stopped_publication(Point.SWAP_INTENDED),
            commit=_stopped_publication(Point.SWAP_COMMITTED),
        ),
        *FOLLOWING,
        *KEEPING_STATE,
        *MODES,
        *moving(_built),
        *PHASING,
        *PROPOSING,
        *TAKING_BACK,
    )
}
