"""Dependents follow what was published because the ledger asks for it, once, and never because a person says so."""

from __future__ import annotations

import io
import json
import random
import socket
import subprocess
from contextlib import suppress
from dataclasses import replace
from datetime import date

import pytest
from dagster import DagsterRunStatus
from rich.console import Console
from typer.testing import CliRunner, Result

from backfill_assets.application.follow import step_after_change
from backfill_assets.cli.terminal import show
from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import (
    IllegalTransition,
    InputsMovedOn,
    Refused,
    UnknownName,
)
from backfill_assets.ledger.records import RunRecord
from backfill_assets.ledger.states import UNPUBLISHED, PublicationState, RunState
from backfill_assets.main import app
from backfill_assets.planning.manifest_parts import A_PERSON, CauseKind, RunCause, RunPurpose
from backfill_assets.planning.request import PlanRequest, TableSpec
from backfill_assets.report.status import status, status_page
from backfill_assets.requests import follow
from backfill_assets.requests.authority import demand_of
from backfill_assets.transforms.errors import ReferenceNotRead
from backfill_assets.upkeep.audit import audit
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import worded
from backfill_assets_tests.support.by_hand import JANUARY, MONTH, Hand
from backfill_assets_tests.support.hand_made import GOLD, SILVER
from backfill_assets_tests.support.ledger_examples import tamper
from backfill_assets_tests.support.seams import Seam
from backfill_assets_tests.support.shop import WorkIn
from backfill_assets_tests.support.ticks import Ticks

FIFTH, SIXTH, SEVENTH = (date(2026, 1, day) for day in (5, 6, 7))
BEFORE = 310


class KilledThere(BaseException):
    """Ends an operation at a place, as a kill would."""


def planned(hand: Hand) -> tuple[str, ...]:
    return tuple(run.run_id for run in operations.plan_follow_ups(hand.ws, by="ops").runs)


def open_entries(hand: Hand) -> list[str]:
    with hand.ws.ledger.read() as reader:
        return [entry.publication_id for entry in reader.outbox.entries(open_only=True)]


def is_automatic(hand: Hand, run: RunRecord, **changes: object) -> bool:
    """Whether a policy would publish the run if its manifest said this."""
    changed = replace(run, manifest=replace(run.manifest, **changes))  # type: ignore[arg-type]
    with hand.ws.ledger.read() as reader:
        return demand_of(hand.ws, reader, changed).policy is not None


def followed_by(hand: Hand, run_id: str) -> tuple[str, ...]:
    return operations.run_named(hand.ws, run_id).manifest.cause.publications


def test_a_month_follows_its_days_and_policy_publishes_it(hand: Hand) -> None:
    assert step_after_change(hand.ws) is None, "nothing waits before anything is published"
    publication = hand.published({FIFTH: 15})
    assert worded(step_after_change(hand.ws)).startswith("what depends on it is computed again by the sensor")
    (asked,) = status(hand.ws).to_follow
    assert asked.publication_id == publication
    assert asked.dependents[0].partitions == (date(2026, 1, 1),)
    (run_id,) = planned(hand)
    run = operations.run_named(hand.ws, run_id)
    assert run.manifest.cause == RunCause(kind=CauseKind.FOLLOW_UP, publications=(publication,))
    assert (run.manifest.partitions, run.manifest.transform_version) == ((MONTH,), "1.0.0")
    assert (open_entries(hand), planned(hand)) == ([], ())
    hand.publish(hand.month(run_id))
    assert step_after_change(hand.ws) is None, "no table depends on gold"
    assert hand.total() == BEFORE + 5
    approved_by = operations.run_named(hand.ws, run_id).approved_by or ""
    assert approved_by == "policy:follow"
    assert planned(hand) == ()
    assert audit(hand.ws).problems == ()


def test_two_that_follow_at_once_write_one_manifest(hand: Hand) -> None:
    publication = hand.published({FIFTH: 15})
    meanwhile: list[str] = []

    def terms_of(name: str) -> TableSpec:
        meanwhile.extend(planned(hand))
        return operations.present_terms(hand.ws, name)

    late = follow.plan_follow_ups(hand.ws, by="ops", terms_of=terms_of)
    assert (len(meanwhile), late.runs, late.failed) == (1, (), ())
    with hand.ws.ledger.read() as reader:
        assert [run.manifest.cause.publications for run in reader.runs.records(table=GOLD)][:-1] == [(publication,)]


def test_a_manifest_is_a_follow_up_by_the_outbox_alone(hand: Hand) -> None:
    publication = hand.published({FIFTH: 15})
    (run_id,) = planned(hand)
    claimed = replace(operations.run_named(hand.ws, run_id).manifest, run_id="claimed")
    with hand.ws.ledger.write() as writer:
        with pytest.raises(Refused, match="only what the outbox asks for is"):
            writer.runs.add(claimed, actor="eve")
        with pytest.raises(Refused, match="follows no publication"):
            writer.outbox.add_follow_up(replace(claimed, cause=A_PERSON), actor="eve")
        # Delivered, and unknown: nothing asks for it.
        for publications in ((publication,), ("pub-0",), (publication, "pub-0")):
            cause = RunCause(kind=CauseKind.FOLLOW_UP, publications=publications)
            assert writer.outbox.add_follow_up(replace(claimed, cause=cause), actor="eve") is None


def test_only_the_present_release_follows_without_a_person(hand: Hand) -> None:
    hand.published({FIFTH: 15})
    (run_id,) = planned(hand)
    run = operations.run_named(hand.ws, run_id)
    assert is_automatic(hand, run)
    assert not is_automatic(hand, run, transform_version="0.9.0")
    assert not is_automatic(hand, run, cause=A_PERSON, kind=RunPurpose.LIVE)


def test_a_follow_up_of_an_undone_publication_is_refused_with_a_sentence(hand: Hand) -> None:
    publication = hand.published({FIFTH: 15})
    (run_id,) = planned(hand)
    hand.month(run_id)
    hand.undo(publication)
    with pytest.raises(IllegalTransition, match=f"{publication}: it was undone"):
        hand.publish(run_id)
    run = operations.run_named(hand.ws, run_id)
    assert (run.state, publication in run.note) == (RunState.CANCELLED, True)
    assert hand.total() == BEFORE
    # Nothing had followed, so nothing has to go back.
    assert planned(hand) == ()
    assert (open_entries(hand), status(hand.ws).to_follow) == ([], ())
    assert audit(hand.ws).problems == ()


def test_what_is_undone_before_anything_followed_asks_for_nothing(hand: Hand) -> None:
    publication = hand.published({FIFTH: 15})
    hand.undo(publication)
    with hand.ws.ledger.read() as reader:
        entry = reader.outbox.of_publications([publication])[publication]
        assert (entry.withdrawn_at is None, entry.note.startswith("undone by pub-")) == (False, True)
    assert planned(hand) == ()
    assert (open_entries(hand), status(hand.ws).to_follow) == ([], ())


def test_what_had_followed_goes_back_with_a_rollback(hand: Hand) -> None:
    publication = hand.published({FIFTH: 15})
    (run_id,) = planned(hand)
    hand.publish(hand.month(run_id))
    hand.undo(publication)
    (back,) = planned(hand)
    hand.publish(hand.month(back))
    assert hand.total() == BEFORE
    assert audit(hand.ws).problems == ()


def test_several_publications_are_followed_by_one_run(hand: Hand) -> None:
    publications = (hand.published({FIFTH: 15}), hand.published({SIXTH: 20}))
    (run_id,) = planned(hand)
    assert followed_by(hand, run_id) == publications
    assert open_entries(hand) == []
    hand.publish(hand.month(run_id))
    assert hand.total() == BEFORE + 15


@pytest.mark.long
def test_what_else_a_dead_follow_up_followed_is_asked_for_again(hand: Hand) -> None:
    first, second = hand.published({FIFTH: 15}), hand.published({SIXTH: 20})
    (run_id,) = planned(hand)
    hand.undo(first)
    (again,) = planned(hand)
    assert again != run_id
    # The rollback asks as well: it moved a day that nothing has followed.
    assert second in followed_by(hand, again)
    hand.publish(hand.month(again))
    assert hand.total() == BEFORE + 10
    assert (planned(hand), open_entries(hand)) == ((), [])


def test_what_a_person_computed_meanwhile_is_not_computed_again(hand: Hand) -> None:
    hand.published({FIFTH: 15})
    run_id = operations.plan(hand.ws, PlanRequest(table=GOLD, days=JANUARY, reason="at once", by="ana")).manifest.run_id
    operations.approve(hand.ws, run_id, by="ben")
    hand.publish(hand.month(run_id))
    assert (planned(hand), open_entries(hand)) == ((), [])


def test_a_follow_up_that_cannot_be_planned_says_why_until_it_is_cancelled(hand: Hand) -> None:
    publication = hand.published({FIFTH: 15})

    def broken(_name: str) -> TableSpec:
        raise ReferenceNotRead(reference="calendar", place="/references", is_named=False)

    for _ in range(2):
        assert not follow.plan_follow_ups(hand.ws, by="ops", terms_of=broken).runs
    (asked,) = status(hand.ws).to_follow
    assert (asked.failed_attempts, asked.last_failure) == (
        2,
        f"{GOLD}: the reference calendar cannot be read from /references.",
    )
    assert worded(asked.cancel) == f"backfill follow --cancel {publication} --by NAME --reason WHY"
    shown = io.StringIO()
    show(Console(file=shown, width=1_000), status_page(status(hand.ws)))
    assert f"{publication} of {SILVER} was not followed, it failed 2 times" in shown.getvalue()
    assert worded(asked.cancel) in shown.getvalue()
    operations.dismiss_follow_ups(hand.ws, publication, by="ben", reason="gold is retired")
    assert (status(hand.ws).to_follow, planned(hand), open_entries(hand)) == ((), (), [])
    with hand.ws.ledger.read() as reader:
        last = [e for e in reader.events.entries(entity_id=publication) if e.entity == "outbox"][-1]
        assert (last.actor, last.action) == ("ben", "withdrawn")
        assert "gold is retired" in last.payload["why"]
    with pytest.raises(IllegalTransition, match="it was withdrawn already"):
        operations.dismiss_follow_ups(hand.ws, publication, by="ben", reason="twice")
    with pytest.raises(UnknownName):
        operations.dismiss_follow_ups(hand.ws, "pub-0", by="ben", reason="no such thing")
    assert audit(hand.ws).problems == ()


def test_the_audit_finds_an_undone_publication_that_still_asks(hand: Hand) -> None:
    publication = hand.published({FIFTH: 15})
    hand.undo(publication)
    url = hand.ws.settings.ledger_url
    tamper(url, "UPDATE outbox SET withdrawn_at = NULL WHERE publication_id = :name", name=publication)
    assert [problem for problem in audit(hand.ws).problems if "still asks" in problem] == [
        f"{publication} does not stand, and still asks its dependents to follow it."
    ]


def test_follow_exits_with_1_when_something_failed_and_clears_what_is_cancelled(
    hand: Hand, monkeypatch: pytest.MonkeyPatch, work_in: WorkIn
) -> None:
    def broken(_ws: Workspace, _name: str) -> TableSpec:
        raise ReferenceNotRead(reference="calendar", place="/references", is_named=False)

    def backfill(*words: str) -> Result:
        return CliRunner().invoke(app, [*words, "--json"])

    work_in(hand.ws.settings.home)
    publication = hand.published({FIFTH: 15})
    Seam.TERMS_OF_FOLLOW_UPS.put(monkeypatch, broken)
    failed = backfill("follow")
    assert failed.exit_code == 1
    document = json.loads(failed.stdout)
    (found,) = document["followed"]
    assert (found["publications"], found["failed"], found["run_id"]) == ([publication], True, None)
    error = found["error"]
    assert (error["message"], error["next_step"]) == (
        "the reference calendar cannot be read from /references.",
        "put calendar.yaml there, or set BACKFILL_REFERENCE to the place that has it",
    )
    shown = CliRunner().invoke(app, ["follow"]).stdout
    assert f"was not planned ({error['message']} Next: {error['next_step']})" in shown
    (asked,) = json.loads(backfill("status").stdout)["to_follow"]
    assert asked["cancel"] == f"backfill follow --cancel {publication} --by NAME --reason WHY"
    assert "who is acting" in backfill("follow", "--cancel", publication, "--reason", "retired").output
    cancelled = backfill("follow", "--cancel", publication, "--by", "ben", "--reason", "retired")
    assert (cancelled.exit_code, json.loads(cancelled.stdout)["cancelled_by"]) == (0, "ben")
    assert (backfill("follow").exit_code, json.loads(backfill("status").stdout)["to_follow"]) == (0, [])


def test_a_follow_up_whose_process_was_killed_is_asked_for_again(hand: Hand) -> None:
    hand.published({FIFTH: 15})
    ticks = Ticks(hand.ws)
    with ticks.open():
        (request,) = ticks.asked("follow")
        gone = subprocess.Popen(["true"])
        gone.wait()
        ticks.recorded(request, DagsterRunStatus.STARTED, process=f"{socket.gethostname()}:{gone.pid}")
        (again,) = ticks.asked("follow")
        assert (again.run_key, again.tags) == (request.run_key.replace(":1", ":2"), request.tags)


@pytest.mark.parametrize("seed", range(6))
def test_whatever_is_published_undone_and_killed_the_month_ends_as_the_sum_of_its_days(hand: Hand, seed: int) -> None:
    chance = random.Random(seed)
    standing: list[str] = []

    def dying(at: Point) -> Workspace:
        def reached(point: Point) -> None:
            if point is at:
                raise KilledThere

        return replace(hand.ws, reached=reached)

    def unfinished() -> list[str]:
        with hand.ws.ledger.read() as reader:
            return [run.run_id for run in reader.outbox.unfinished_follow_ups(UNPUBLISHED)]

    for number in range(12):
        match chance.choice(("publish", "publish", "undo", "plan", "plan and die", "follow", "undo and die")):
            case "publish":
                standing.append(hand.published({chance.choice((FIFTH, SIXTH, SEVENTH)): 20 + number}))
            case "undo" | "undo and die" as how if standing:
                undone = standing.pop()
                ws = dying(chance.choice((Point.SWAP_INTENDED, Point.SWAP_COMMITTED)))
                with suppress(KilledThere):
                    Hand(ws=ws if how != "undo" else hand.ws).undo(undone)
                operations.recover(hand.ws, by="ops")
                with hand.ws.ledger.read() as reader:
                    if reader.publications.get(undone).state is PublicationState.PUBLISHED:
                        standing.append(undone)
            case "plan":
                planned(hand)
            case "plan and die":
                with suppress(KilledThere):
                    operations.plan_follow_ups(dying(Point.FOLLOW_UP_PLANNED), by="ops")
            case "follow":
                for run_id in unfinished():
                    with suppress(Refused):
                        hand.publish(hand.month(run_id))
    # Until nothing is asked for any more, as the sensor does.
    for _ in range(5):
        planned(hand)
        for run_id in unfinished():
            with suppress(InputsMovedOn):
                hand.publish(hand.month(run_id))
    days = hand.ws.lake.open(SILVER).to_pyarrow_table(columns=["amount"]).to_pylist()
    assert hand.total() == sum(row["amount"] for row in days)
    assert (open_entries(hand), status(hand.ws).to_follow) == ([], ())
    assert audit(hand.ws).problems == ()
