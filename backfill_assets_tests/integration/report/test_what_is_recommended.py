"""What pages recommend is not refused when a person does it, and they speak of what happened as past."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from backfill_assets.calendar.partitions import DayRange, Grain
from backfill_assets.cli.terminal import show
from backfill_assets.core.errors import TargetChanged
from backfill_assets.gates.measured import COMPARISON
from backfill_assets.ledger.findings import Finding, GateResult
from backfill_assets.main import app
from backfill_assets.report.history import partition_history
from backfill_assets.report.measured import moves_of_some, partition_moves, total_moves
from backfill_assets.report.report import run_report
from backfill_assets.report.run_report import run_page
from backfill_assets.report.status import status
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import refused, worded
from backfill_assets_tests.support.by_hand import Hand
from backfill_assets_tests.support.hand_made import SILVER
from backfill_assets_tests.support.shop import OUTPUT, RECENT, Shop, WorkIn

FIFTH, SIXTH = date(2026, 1, 5), date(2026, 1, 6)


def rollback_of(run_id: str) -> str:
    return f"backfill rollback {run_id} --by NAME --reason WHY"


def undoing(hand: Hand, run_id: str, day: date) -> set[str]:
    """How a run is undone, by the history of a day, by the report and by `status`."""
    version = partition_history(hand.ws, SILVER, day).versions[0]
    assert version.claim.run_id == run_id
    (shown,) = (run for run in status(hand.ws).runs if run.record.run_id == run_id)
    next_steps = {worded(run_report(hand.ws, run_id).run.next_step), worded(shown.next_step)}
    return {worded(version.undo), *(each.removeprefix("to undo it: ") for each in next_steps)}


@pytest.mark.long
def test_a_rollback_is_recommended_when_no_later_publication_has_replaced_some_of_it(hand: Hand) -> None:
    first = hand.silver({FIFTH: 15, SIXTH: 16})
    hand.publish(first)
    assert undoing(hand, first, FIFTH) == {rollback_of(first)}
    second = hand.silver({SIXTH: 20})
    hand.publish(second)
    assert undoing(hand, first, FIFTH) == {
        f"first roll back the publication that replaced some of its partitions: {rollback_of(second)}"
    }
    with refused(TargetChanged, match=f"undo that first: {rollback_of(second)}"):
        operations.rollback(hand.ws, first, by="ben", reason="was right before")
    for run_id in (second, first):
        day = SIXTH if run_id == second else FIFTH
        assert undoing(hand, run_id, day) == {rollback_of(run_id)}
        operations.rollback(hand.ws, run_id, by="ben", reason="was right before")


@pytest.mark.long
def test_what_a_refusal_recommends_is_accepted_once_names_and_reason_are_filled_in(
    published_shop: Shop, work_in: WorkIn
) -> None:
    ws = published_shop.ws
    with ws.ledger.read() as reader:
        first = reader.runs.records(table=RECENT)[-1].run_id
    second = published_shop.published(DayRange.inclusive(FIFTH, SIXTH))
    cancelled = published_shop.planned()
    operations.cancel(ws, cancelled, by="ana", reason="not wanted")
    ws.ledger.close()
    work_in(ws.settings.home)
    undo_first = ("rollback", first, "--by", "ben", "--reason", "was right before")
    assert recommended("publish", cancelled, "--by", "ben") == (
        f"backfill plan table recent_sales --reason WHY --from {OUTPUT.start} --to {OUTPUT.last} --by NAME"
    )
    assert recommended(*undo_first) == rollback_of(second)
    assert recommended("cancel", first, "--by", "ana", "--reason", "not wanted") == rollback_of(first)


def recommended(*words: str) -> str:
    """The command that the refusal of a command recommends; it is accepted."""
    exit_code, document = answered(*words)
    command = f"backfill {document['error']['next_step'].rpartition('backfill ')[2]}"
    filled_in = {"NAME": "ben", "WHY": "as recommended"}
    assert (exit_code, answered(*(filled_in.get(word, word) for word in command.split()[1:]))[0]) == (1, 0)
    return command


def answered(*words: str) -> tuple[int, dict[str, Any]]:
    """The exit code and the document of a command."""
    result = CliRunner().invoke(app, [*words, "--json"])
    return result.exit_code, json.loads(result.stdout)


def test_the_report_of_a_published_run_says_what_was_swapped(hand: Hand) -> None:
    run_id = hand.silver({FIFTH: 15, SIXTH: 10})
    before = printed(hand, run_id)
    assert f"1 of 2 days of {SILVER} would change" in before
    assert "the accepted rows of 1 day are equal and stay as they are" in before
    hand.publish(run_id)
    after = printed(hand, run_id)
    assert f"1 of 2 days of {SILVER} changed" in after
    assert "the accepted rows of 1 day were equal and stayed as they were" in after


def printed(hand: Hand, run_id: str) -> str:
    """The report, with what the gates of a run that is staged by hand have not measured: how its rows move."""
    with hand.ws.ledger.read() as tx:
        candidates = tx.candidates.of_run(run_id)
    gate = GateResult(
        run_id=run_id,
        partition=FIFTH,
        gate=COMPARISON,
        blocking=False,
        passed=True,
        digest="",
        finding=Finding.COMPARED,
    )
    partitions = partition_moves([replace(gate, partition=day) for day in candidates], candidates)
    report = replace(
        run_report(hand.ws, run_id),
        partitions=partitions,
        totals=total_moves(partitions),
        restated=moves_of_some(Grain.DAILY, partitions),
        equal_partitions=sum(each.equal for each in partitions),
        new_empty_partitions=0,
    )
    shown = io.StringIO()
    show(Console(file=shown, width=1_000), run_page(report))
    return shown.getvalue()
