"""The status on a terminal: whole lines at usual widths, and the commands that take everything on."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, date, datetime
from io import StringIO

import pytest
from rich.console import Console

from backfill_assets.calendar.partitions import DayRange, Grain, Partitions
from backfill_assets.cli.terminal import show
from backfill_assets.core.next_steps import ANOTHER_PERSON, Command, do, step
from backfill_assets.ledger.records import TableAct
from backfill_assets.ledger.states import ActState, RunState, SetState
from backfill_assets.ledger.table_acts import ActRecord
from backfill_assets.planning.kinds.change import Scope
from backfill_assets.planning.kinds.pilot import Pilot
from backfill_assets.planning.manifest_parts import RunPurpose
from backfill_assets.planning.safeguards import USUAL_POLICY
from backfill_assets.report.command_line import words_of
from backfill_assets.report.runs import RunSummary, SetMember, run_summary_page, set_facts
from backfill_assets.report.status import StatusDocument, TableStatus, status_page
from backfill_assets.report.versions import ActDocument, next_step_of_act
from backfill_assets_tests.support.ledger_examples import a_manifest, a_run
from backfill_assets_tests.support.report_examples import restatement

NOON = datetime(2026, 1, 3, 12, tzinfo=UTC)


def run(number: int, state: RunState, *, set_id: str | None = None) -> RunSummary:
    run_id = f"case_sla_daily-20261122-883bd3{number:02}"
    manifest = a_manifest(
        run_id,
        table="silver.case_sla_daily",
        days=Partitions.of(Grain.DAILY, DayRange.inclusive(date(2025, 2, 1), date(2025, 4, 30))),
        kind=RunPurpose.REPROCESSING,
        request_id=set_id,
    )
    return RunSummary(record=a_run(manifest, state), next_step=step(do(Command.APPROVE, run_id, by=ANOTHER_PERSON)))


def lines(status: StatusDocument, width: int) -> list[str]:
    out = StringIO()
    show(Console(file=out, width=width), status_page(status))
    return [line.rstrip() for line in out.getvalue().splitlines()]


STATUS = StatusDocument(
    home="home",
    spark_server=None,
    tables=(),
    runs=(
        run(1, RunState.PASSED),
        run(2, RunState.PUBLISHED),
        run(3, RunState.PASSED, set_id="set.20261122-1a2b3c4d"),
    ),
    sets=(restatement(SetState.PENDING),),
    proposals=(),
    imports=(),
    captured=(),
    replays=(),
    acts=(),
    to_follow=(),
    frozen=(),
    stuck=(),
    problems=(),
)


A_CUT_OVER = ActRecord(
    act_id="act-000001",
    act=TableAct.CUT_OVER,
    name="silver.case_sla_daily",
    table="silver.case_sla_daily_v3",
    from_table="silver.case_sla_daily",
    state=ActState.ASKED,
    by="ana",
    asked_at=NOON,
    reason="it is better",
    policy=USUAL_POLICY,
    waits=True,
)


@pytest.mark.parametrize(("rows", "is_said"), [(0, False), (7, True)])
def test_a_status_with_accepted_partitions_says_that_it_does_not_look_at_what_is_stale(
    rows: int, is_said: bool
) -> None:
    accepted = Partitions(Grain.DAILY, (NOON.date(),) if rows else ())
    found = TableStatus(table="silver.case_sla_daily", accepted=accepted, accepted_rows=rows, path="there")
    said = "which of them are stale is not looked at here; to list them: backfill stale"
    assert (said in lines(replace(STATUS, tables=(found,)), 120)) is is_said


@pytest.mark.parametrize(
    ("newest", "named"), [(RunState.PASSED, [4]), (RunState.FAILED, [4]), (RunState.CANCELLED, [4, 3])]
)
def test_of_runs_that_failed_over_the_same_days_only_the_newest_has_a_next_step(
    newest: RunState, named: list[int]
) -> None:
    runs = (run(4, newest), *(run(n, RunState.FAILED) for n in (3, 2, 1)))
    said = "\n".join(lines(replace(STATUS, runs=runs, sets=()), 160)).partition("Next")[2]
    assert [n for n in (4, 3, 2, 1) if f"883bd3{n:02}" in said] == named


@pytest.mark.parametrize("width", [120, 160])
def test_a_run_a_set_and_a_command_are_each_one_line(width: int) -> None:
    shown = lines(STATUS, width)
    assert all(len(line) <= width for line in shown)
    *own, of_set = STATUS.runs
    # Its set is a line.
    assert not any(of_set.record.run_id in line for line in shown)
    for each in own:
        (line,) = (line for line in shown if line.startswith(each.record.run_id))
        assert re.split(r"\s{2,}", line)[1:] == [
            each.record.kind,
            str(each.record.manifest.output),
            each.record.state,
            "DRAFT",
        ]
    (line,) = (line for line in shown if line.startswith("set."))
    for word in ("(carnival)", "bronze.case_events:2025-03-10..2025-03-10", "a late event", "PENDING", "APPROVED"):
        assert word in line
    assert line.endswith("0 of 0")


@pytest.mark.parametrize(
    ("state", "of_set", "agreed"),
    [
        (RunState.PASSED, SetState.PENDING, "DRAFT"),
        (RunState.ROLLED_BACK, SetState.ROLLED_BACK, "withdrawn"),
        (RunState.VERIFIED, SetState.VERIFIED, "not needed"),
    ],
)
def test_an_approval_that_a_rollback_withdrew_and_one_that_nothing_needs_are_told_from_one_that_is_missing(
    state: RunState, of_set: SetState, agreed: str
) -> None:
    found, its_set = run(1, state), replace(restatement(of_set), approved_by=None)
    shown = lines(replace(STATUS, runs=(found,), sets=(its_set,)), 160)
    (of_run,) = (line for line in shown if line.startswith(found.record.run_id))
    assert of_run.endswith(f"{state}  {agreed}")
    (line,) = (line for line in shown if line.startswith("set."))
    assert re.split(r"\s{2,}", line)[-2] == agreed


def test_a_pilot_is_listed_and_answered_with_the_rows_that_it_changes() -> None:
    found = run(1, RunState.PASSED)
    scope = Pilot(rows=Scope(where=(("jurisdiction", "IN"),)))
    pilot = replace(found, record=replace(found.record, manifest=replace(found.manifest, change=scope)))
    (line,) = (line for line in lines(replace(STATUS, runs=(pilot,)), 160) if line.startswith(found.record.run_id))
    assert "only rows of jurisdiction=IN" in line
    out = StringIO()
    show(Console(file=out, width=160), run_summary_page(pilot))
    assert "only rows of jurisdiction=IN" in out.getvalue()


def test_what_is_next_can_be_typed_as_it_stands_and_a_run_of_a_set_is_left_to_its_set() -> None:
    shown = lines(STATUS, 120)
    assert shown[shown.index("Next") + 1 :] == [
        "backfill publish set.20261122-1a2b3c4d --by NAME",
        words_of(step(do(Command.APPROVE, STATUS.runs[0].record.run_id, by=ANOTHER_PERSON))),
    ]
    following = next_step_of_act(A_CUT_OVER, A_CUT_OVER.from_table)
    waiting = lines(replace(STATUS, acts=(ActDocument(act=A_CUT_OVER, columns=(), next_step=following),)), 120)
    assert waiting[waiting.index("Next") + 3] == "backfill approve act-000001 --by ANOTHER_PERSON"
    assert any(line.startswith("act-000001") and "CUT_OVER" in line for line in waiting)
    done = replace(STATUS, runs=STATUS.runs[1:], sets=(restatement(SetState.PUBLISHED),))
    assert "Next" not in lines(done, 120)


@pytest.mark.parametrize(("state", "is_of_plan"), [(RunState.PLANNED, True), (RunState.PASSED, False)])
def test_a_set_that_is_approved_before_all_of_it_is_measured_says_that_the_approval_is_of_its_plan(
    state: RunState, is_of_plan: bool
) -> None:
    members = tuple(
        SetMember(run=each, reached=each.record.state, changed_partitions=None, verified_partitions=None, outdated=None)
        for each in (run(1, RunState.PASSED), run(2, state))
    )
    facts = set_facts(replace(restatement(SetState.PENDING), runs=members))
    approval = dict(facts.pairs)["approval"]
    assert ("the plan, not its results" in str(approval)) is is_of_plan
