"""What a plan says will be done, in the list that runs and in the text for people."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from backfill_assets.calendar.partitions import ONE_DAY, DayRange, Grain
from backfill_assets.calendar.windows import Window
from backfill_assets.cli.terminal import show
from backfill_assets.core.columns import ColumnChange
from backfill_assets.core.tariff import Tariff
from backfill_assets.planning.kinds.expire import Expire, RetentionRule
from backfill_assets.planning.manifest_parts import Cause, Limits, Mode, Reason, RunPurpose
from backfill_assets.planning.request import AskedLimits, Plan
from backfill_assets.planning.restatement import PlannedSet
from backfill_assets.planning.safeguards import Demand
from backfill_assets.planning.sets import SetManifest, SetMember
from backfill_assets.planning.stages import (
    Agree,
    Notify,
    ProofTerms,
    Prove,
    Stage,
    Swap,
    measuring,
    publishing,
    stages_of,
)
from backfill_assets.report.page import Page
from backfill_assets.report.planned import PlanDocument, SetPlan, left_out_documents, plan_page, set_plan_page
from backfill_assets.report.words.stages import stage_words
from backfill_assets_tests.unit.planning.test_estimates import AS_OF, LAST, Accepted, graph_of, plan_of
from backfill_assets_tests.unit.planning.test_proof import FIRST, derived
from backfill_assets_tests.unit.planning.test_proof import planned as proven_manifest

WEEK = DayRange.inclusive(date(2024, 6, 10), date(2024, 6, 16))
LIMITS = Limits(chunk_partitions=10)
GRAPH = graph_of(Window(days_back=2))
PROOF = ProofTerms(partitions=3)


def plan(*, asked: AskedLimits | None = None) -> Plan:
    return plan_of(GRAPH, Accepted(rows_a_day=10), WEEK, limits=LIMITS, proof=PROOF, asked=asked or AskedLimits())


def ends(prove: Prove) -> list[tuple[tuple[date, ...], tuple[int, int]]]:
    """The ends that are computed again, and how much more of the one input they read."""
    return [(end.compared, (more.back, more.ahead)) for end in prove.ends for (more,) in [end.more]]


def text_of(page: Page) -> str:
    console = Console(width=400, force_terminal=False)
    with console.capture() as captured:
        show(console, page)
    return captured.get()


def shown(planned: Plan) -> str:
    return text_of(plan_page(PlanDocument(plan=planned, stages=stages_of([planned.manifest], GRAPH))))


@given(
    st.integers(0, 9), st.integers(0, 9), st.integers(0, 4), st.integers(0, 4), st.integers(1, 12), st.integers(1, 9)
)
def test_the_proof_is_announced_with_the_days_that_are_really_there(
    before: int, after: int, back: int, ahead: int, length: int, extra: int
) -> None:
    """So many days are accepted before and after the run's own window; the proof asks for `extra` on each side."""
    graph, node = derived(Window(days_back=back, days_ahead=ahead))
    output = [FIRST + timedelta(days=day) for day in range(length)]
    there = range(-back - before, length + ahead + after)
    accepted = frozenset(FIRST + timedelta(days=day) for day in there)
    manifest = proven_manifest(node, graph, output, accepted, ProofTerms(partitions=3, extra_days=extra))
    _, prove = measuring(manifest, graph)
    assert isinstance(prove, Prove)
    first, last, between = tuple(output[:3]), tuple(output[-3:]), length - 3
    # Days of the run's own window count as more days of the end that does not need them.
    of_first = (min(extra, before), min(extra, after + between))
    of_last = (min(extra, before + between), min(extra, after))
    if length <= 6:
        assert ends(prove) == [(tuple(output), (min(extra, before), min(extra, after)))]
    elif of_first == of_last and 3 + ahead >= between - back:
        assert ends(prove) == [((*first, *last), of_first)]
    else:
        assert ends(prove) == [(first, of_first), (last, of_last)]
    said = stage_words(prove)
    if any(any(more) for _, more in ends(prove)):
        assert "with 0" not in said and "and 0" not in said
        assert set(prove.compared) == {p for partitions, more in ends(prove) if any(more) for p in partitions}
    else:
        assert "there is nothing to compare with" in said and prove.compared == ()


def test_the_text_of_a_plan_shows_the_proof_of_its_window() -> None:
    said = shown(plan())
    assert (
        "proof of the window  2024-06-10..2024-06-12, 2024-06-14..2024-06-16, 6 days, once more with 7 more days back "
        "and 7 more days ahead"
    ) in said
    short = plan_of(
        GRAPH, Accepted(rows_a_day=10), DayRange(WEEK.start, WEEK.start + ONE_DAY), limits=LIMITS, proof=PROOF
    )
    assert "proof of the window  2024-06-10, 1 day, once more with 7 more days back and 7 more days ahead" in shown(
        short
    )
    without = plan_of(GRAPH, Accepted(rows_a_day=10), WEEK, limits=LIMITS)
    assert "proof of the window" not in shown(without)


@pytest.mark.parametrize(
    ("first", "last", "is_said"),
    [
        (date(2024, 6, 10), date(2024, 6, 16), True),
        (date(2024, 6, 1), date(2024, 7, 30), True),
        (date(2024, 6, 1), date(2024, 7, 31), False),
    ],
)
def test_a_plan_of_months_says_first_that_other_days_were_asked_for(first: date, last: date, is_said: bool) -> None:
    asked = DayRange.inclusive(first, last)
    said = shown(plan_of(GRAPH, Accepted(rows_a_day=10), asked, table=LAST, limits=LIMITS))
    line = f"asked for     {asked}: every month is built completely"
    assert (line in said) is is_said
    assert not is_said or said.index("asked for  ") < said.index("output range")
    assert "is built completely" not in shown(plan())


@pytest.mark.parametrize(("most", "said"), [(0, "stops above 0 rows"), (5, "stops above 5 rows")])
def test_the_text_of_a_plan_shows_a_limit_of_rows_even_of_none(most: int, said: str) -> None:
    limited = plan(asked=AskedLimits(max_rows=most))
    assert limited.manifest.limits.max_rows == most
    assert said in shown(limited)
    assert said in text_of(set_plan_page(document_of(limited)))
    assert "stops above" not in shown(plan())


def test_a_plan_warns_when_more_rows_are_expected_than_its_limit_allows() -> None:
    expected = plan().estimate.total_rows
    assert expected > 1
    for most, is_warned in ((expected - 1, True), (expected, False)):
        limited = plan(asked=AskedLimits(max_rows=most))
        said = f"about {expected:,} rows are expected, and the run stops above {most:,}"
        assert (said in shown(limited)) is is_warned
        assert (said in text_of(set_plan_page(document_of(limited)))) is is_warned


def test_the_text_of_a_plan_and_of_a_set_shows_columns_that_change_and_no_others() -> None:
    risk = ColumnChange(column="risk", was=None, becomes="string")
    found = plan()
    wider = replace(found, manifest=replace(found.manifest, columns=(risk,)))
    assert "columns       adds risk (string)" in shown(wider)
    assert f"{found.manifest.table}: adds risk (string)" in text_of(set_plan_page(document_of(wider)))
    assert "columns  " not in shown(found)


def test_the_text_of_a_plan_and_of_a_set_shows_what_has_changed_since_the_accepted_rows() -> None:
    found, said = plan(), "bronze.events changed: 2024-06-10..2024-06-16, 7 days"
    release = Reason(cause=Cause.VERSION_CHANGED, was="orders 1.0.0", now="orders 2.0.0")
    reason = Reason(cause=Cause.INPUT_CHANGED, name="bronze.events", days=(WEEK,))
    restating = replace(found, manifest=replace(found.manifest, changed=(release, reason)))
    computed = "computed by orders 1.0.0; now it is orders 2.0.0"
    assert re.search(rf"changed since +{computed} *\n +{said} *\n", shown(restating))
    of_set = text_of(set_plan_page(document_of(restating)))
    table = found.manifest.table
    assert re.search(rf"changed since +{table}: {computed} *\n +{table}: {said} *\n", of_set)
    assert "changed since" not in shown(found)


def test_the_text_of_a_plan_and_of_a_set_shows_what_they_cost_or_that_it_is_not_known() -> None:
    found = replace(plan(), estimate=replace(plan().estimate, seconds=None, core_seconds=None))
    cost, table = Tariff(cores=2).spent(182), found.manifest.table
    unknown = f"cost +not known, because no run of {table} has ended its gates"
    assert re.search(unknown, shown(found)) and re.search(unknown, text_of(set_plan_page(document_of(found))))
    known = "cost +about 182 core seconds *\n"
    assert re.search(known, text_of(set_plan_page(replace(document_of(found), cost=cost))))
    limited = replace(found, manifest=replace(found.manifest, limits=replace(found.manifest.limits, max_cost=cost)))
    for page in (shown(limited), text_of(set_plan_page(document_of(limited)))):
        assert re.search("limits .*stops above 182 core seconds *\n", page)
    expiry = replace(found, manifest=replace(found.manifest, change=Expire(keep=RetentionRule(days=1))))
    assert "cost  " not in shown(expiry)


def document_of(planned: Plan) -> SetPlan:
    found = set_of(planned)
    return SetPlan(planned=found, left_out=left_out_documents(found.left_out))


def set_of(planned: Plan) -> PlannedSet:
    manifest = planned.manifest
    member = SetMember(run_id=manifest.run_id, table=manifest.table, manifest_digest=manifest.digest)
    return PlannedSet(
        manifest=SetManifest(
            set_id="set-1",
            name="set-1",
            reason="why not",
            requested_by="ana",
            requested_at=AS_OF,
            because="bronze.source",
            members=(member,),
        ),
        rebuilds=(),
        left_out=(),
        plans=(planned,),
        stages=stages_of([replace(manifest, request_id="set-1")], GRAPH),
    )


def agreements(stages: tuple[Stage, ...]) -> list[str]:
    return [stage_words(stage) for stage in stages if isinstance(stage, Agree)]


def test_who_approves_is_said_as_it_is() -> None:
    manifest = plan().manifest
    assert agreements(stages_of([manifest], GRAPH)) == [
        f"wait until another person than ana approves {manifest.run_id}"
    ]
    groups = Demand(groups=(("finance", "platform"), ("audit",)))
    assert agreements(stages_of([manifest], GRAPH, demand=groups)) == [
        f"wait until another person than ana, of finance or platform and of audit, approves {manifest.run_id}"
    ]
    automatic = Demand(policy="live")
    assert agreements(stages_of([manifest], GRAPH, demand=automatic)) == [
        "approved by policy: live runs are published automatically"
    ]
    # A table may want a person for what arrives by itself as well.
    live = replace(manifest, kind=RunPurpose.LIVE, mode=Mode.LIVE)
    assert agreements(stages_of([live], GRAPH)) == [f"wait until another person than ana approves {manifest.run_id}"]
    assert agreements(stages_of([replace(manifest, mode=Mode.DRY_RUN)], GRAPH, demand=automatic)) == []


def test_dependents_are_asked_to_follow_unless_they_are_published_together() -> None:
    swap, notify = publishing(plan().manifest, GRAPH)
    assert isinstance(swap, Swap) and isinstance(notify, Notify)
    assert [(each.table, each.partitions) for each in notify.dependents] == [(LAST, (WEEK.start.replace(day=1),))]
    assert publishing(plan().manifest, GRAPH, inside=[LAST]) == (swap,)


def test_a_monthly_table_is_proven_too() -> None:
    graph, node = derived(Window(days_back=1), grain=Grain.MONTHLY)
    accepted = frozenset(date(2024, 5, 1) + timedelta(days=day) for day in range(-20, 31))
    manifest = proven_manifest(node, graph, [date(2024, 5, 1)], accepted, ProofTerms(partitions=1, extra_days=7))
    _, prove = measuring(manifest, graph)
    assert isinstance(prove, Prove)
    assert ends(prove) == [((date(2024, 5, 1),), (7, 0))]
