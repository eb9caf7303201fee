"""What a request becomes: its kind, what it replaces, and what it reads from where."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

import pytest

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.calendar.windows import Window
from backfill_assets.core.errors import MissingInput
from backfill_assets.planning.kinds.merge import Merge
from backfill_assets.planning.manifest_parts import Limits, Mode, ReferenceSemantics, RunPurpose
from backfill_assets.planning.request import AskedReferences, Plan, PlanRequest, Staged, whole_table
from backfill_assets_tests.unit.planning.test_estimates import FIRST, LAST, MIDDLE, Accepted, graph_of, plan_of

GRAPH = graph_of(Window(days_back=1))
LIMITS = Limits(chunk_partitions=10)
DAYS = DayRange(FIRST + timedelta(days=100), FIRST + timedelta(days=103))
ONE, TWO, THREE = DAYS
REQUEST = PlanRequest(table=MIDDLE, days=DAYS, reason="why not", by="ana")


def planned(*accepted: date, request: PlanRequest = REQUEST) -> Plan:
    """What is planned where these partitions of the table have five accepted rows each."""
    state = Accepted(rows_a_day=1, others={MIDDLE: dict.fromkeys(accepted, 5)})
    return plan_of(GRAPH, state, request, limits=LIMITS)


def test_what_replaces_accepted_rows_is_a_restatement_that_names_their_runs() -> None:
    first = planned()
    assert (first.manifest.kind, first.manifest.supersedes) == (RunPurpose.BACKFILL, ())
    assert (first.replaced_partitions, first.replaced_rows) == (0, 0)
    again = planned(TWO)
    assert (again.manifest.kind, again.manifest.supersedes) == (RunPurpose.RESTATEMENT, ("before",))
    assert (again.replaced_partitions, again.replaced_rows) == (1, 5)


def test_a_kind_that_was_asked_for_is_kept_and_a_dry_run_replaces_nothing() -> None:
    assert planned(TWO, request=replace(REQUEST, kind=RunPurpose.REPAIR)).manifest.kind is RunPurpose.REPAIR
    assert planned(TWO, request=replace(REQUEST, mode=Mode.DRY_RUN)).manifest.supersedes == ()


def test_only_what_is_published_can_be_reconciled() -> None:
    request = replace(REQUEST, mode=Mode.RECONCILIATION)
    assert planned(*DAYS, request=request).manifest.partitions == (ONE, TWO, THREE)
    with pytest.raises(MissingInput, match=f"has never been published for {TWO}, 1 day; there is nothing to reconcile"):
        planned(ONE, THREE, request=request)


def test_of_the_days_only_chosen_partitions_are_planned_and_those_of_a_set_are_read_before_accepted_ones() -> None:
    chosen = replace(REQUEST, partitions=(THREE, ONE))
    assert planned(request=chosen).manifest.partitions == (ONE, THREE)
    month = DayRange(FIRST, FIRST + timedelta(days=31))
    state = Accepted(rows_a_day=1, others={MIDDLE: dict.fromkeys(month, 5)})
    staged = {MIDDLE: {FIRST: Staged(run_id="member", rows=70)}}
    found = plan_of(GRAPH, state, replace(REQUEST, table=LAST, days=month), limits=LIMITS, upstream=staged)
    (read,) = found.inputs
    assert (read.staged, read.missing, read.rows) == ((FIRST,), (), 70 + 30 * 5)
    (pins,) = found.manifest.inputs
    pinned = [(pin.version, pin.digest, pin.from_run) for pin in pins.partitions]
    assert pinned == [(0, "", "member"), *[(1, "d" * 64, None)] * 30]


def test_a_plan_over_a_table_whose_keys_move_takes_all_that_it_has_unless_rows_stay_or_references_are_chosen() -> None:
    moving = Merge(on=("key",), keys_move=True)
    earlier = FIRST + timedelta(days=50)
    state = Accepted(rows_a_day=1, others={MIDDLE: {earlier: 5, TWO: 5}})
    recorded = replace(REQUEST, references=AskedReferences(semantics=ReferenceSemantics.AS_RECORDED))
    for mode, request, taken in (
        (moving, REQUEST, (earlier, ONE, TWO, THREE)),
        (moving, recorded, None),
        (replace(moving, keeps_withdrawn=True), REQUEST, None),
        (replace(moving, keys_move=False), REQUEST, None),
    ):
        graph = replace(GRAPH, tables={**GRAPH.tables, MIDDLE: replace(GRAPH.tables[MIDDLE], change=mode)})
        found = whole_table(request, graph, tuple(DAYS), state)
        assert found == (request if taken is None else replace(request, days=found.days, partitions=taken))
        assert (found.days.start, found.days.last) == ((earlier, THREE) if taken else (ONE, THREE))
