"""Whatever order of steps people try, the ledger takes the legal ones and holds what the steps say."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from backfill_assets.core.errors import IllegalTransition, NotApproved, Refused, TargetChanged
from backfill_assets.ledger.records import Action, PublicationIntent
from backfill_assets.ledger.states import ApprovalState, RunState, VersionState, may_follow
from backfill_assets.ledger.store import Ledger
from backfill_assets.ledger.transactions import WriteTransaction
from backfill_assets_tests.support.ledger_examples import (
    DAYS,
    a_manifest,
    files_of,
    publication_of,
    results_for,
    rollback_of,
    staged,
)

RUNS = st.integers(0, 2)
_tables = count(1)


class LedgerMachine(RuleBasedStateMachine):
    """Three runs over one table, each free to try any step at any time; the model is what readers must see."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self.ledger = ledger
        self.table = f"silver.example_{next(_tables)}"
        self.runs = [f"{self.table}-run-{number}" for number in range(3)]
        self.states = dict.fromkeys(self.runs, RunState.PLANNED)
        self.approved = dict.fromkeys(self.runs, False)
        self.staged = dict.fromkeys(self.runs, False)
        self.open: PublicationIntent | None = None
        self.swaps: list[PublicationIntent] = []

    @initialize()
    def plan(self) -> None:
        with self.ledger.write() as writer:
            for run_id in self.runs:
                writer.runs.add(a_manifest(run_id, table=self.table), actor="ann")

    def attempt(self, allowed: bool, act: Callable[[WriteTransaction], object]) -> bool:
        if allowed:
            with self.ledger.write() as writer:
                act(writer)
        else:
            with pytest.raises((IllegalTransition, NotApproved, TargetChanged, Refused)), self.ledger.write() as writer:
                act(writer)
        return allowed

    @rule(number=RUNS, to=st.sampled_from(RunState))
    def move(self, number: int, to: RunState) -> None:
        run_id = self.runs[number]
        by_hand = to in {
            RunState.STAGING,
            RunState.STAGED,
            RunState.GATING,
            RunState.PASSED,
            RunState.BLOCKED,
            RunState.FAILED,
        }
        present = self.states[run_id]
        allowed = by_hand and present is not RunState.PUBLISHING and may_follow(present, to)
        if (present, to) == (RunState.STAGING, RunState.STAGED):
            allowed = self.staged[run_id]

        def act(writer: WriteTransaction) -> None:
            if to in (RunState.STAGING, RunState.GATING):
                writer.runs.take(run_id, to, actor="ann", attempt="a1")
            else:
                writer.runs.move(run_id, to, actor="ann", attempt="a1")

        if self.attempt(allowed, act):
            self.states[run_id] = to

    @rule(number=RUNS)
    def stage_and_gate(self, number: int) -> None:
        """The usual way to PASSED, so that publications are reached often."""
        run_id = self.runs[number]
        if not may_follow(self.states[run_id], RunState.STAGING):
            return
        with self.ledger.write() as writer:
            writer.runs.take(run_id, RunState.STAGING, actor="runner", attempt="a1")
            writer.candidates.clear(run_id)
            writer.candidates.start_chunk(run_id, 1, DAYS, attempt="a1")
            writer.candidates.finish_chunk(
                run_id, 1, input_rows=1, output_rows=1, candidates=staged(run_id), attempt="a1", checksum="xx64:1"
            )
            writer.runs.move(run_id, RunState.STAGED, actor="runner", attempt="a1")
            writer.runs.take(run_id, RunState.GATING, actor="runner", attempt="a1")
            writer.candidates.record_gates(run_id, staged(run_id), results_for(run_id), actor="runner", attempt="a1")
            writer.runs.move(run_id, RunState.PASSED, actor="runner", attempt="a1")
        self.states[run_id] = RunState.PASSED
        self.staged[run_id] = True

    @rule(number=RUNS)
    def approve(self, number: int) -> None:
        run_id = self.runs[number]
        visible = self.states[run_id] in {RunState.PUBLISHING, RunState.PUBLISHED, RunState.SUPERSEDED}
        if self.attempt(
            not visible and not self.approved[run_id], lambda writer: writer.requests.approve(run_id, by="Bob")
        ):
            self.approved[run_id] = True

    @rule(number=RUNS)
    def withdraw(self, number: int) -> None:
        run_id = self.runs[number]
        visible = self.states[run_id] in {RunState.PUBLISHING, RunState.PUBLISHED, RunState.SUPERSEDED}
        allowed = not visible and self.approved[run_id]
        if self.attempt(allowed, lambda writer: writer.requests.withdraw_approval(run_id, by="Bob", reason="no")):
            self.approved[run_id] = False

    @rule(number=RUNS, first=st.integers(0, 2))
    def begin_publication(self, number: int, first: int) -> None:
        run_id = self.runs[number]
        with self.ledger.read() as reader:
            intent = publication_of(reader, run_id, table=self.table, days=DAYS[first:])
        allowed = self.open is None and may_follow(self.states[run_id], RunState.PUBLISHING) and self.approved[run_id]
        if self.attempt(allowed, lambda writer: writer.publications.begin(intent, actor="Bob")):
            self.open = intent
            self.states[run_id] = RunState.PUBLISHING

    @rule()
    def begin_rollback_of_the_last(self) -> None:
        if not self.swaps:
            return
        with self.ledger.read() as reader:
            intent = rollback_of(reader, self.swaps[-1].publication_id)
        if self.attempt(self.open is None, lambda writer: writer.publications.begin(intent, actor="Bob")):
            self.open = intent

    @rule(landed=st.booleans())
    def end_the_open_one(self, landed: bool) -> None:
        if self.open is None:
            return
        intent, self.open = self.open, None
        with self.ledger.write() as writer:
            if landed:
                writer.publications.finish(intent.publication_id, delta_version=1, actor="Bob")
            else:
                writer.publications.abandon(intent.publication_id, actor="Bob", reason="lost")
        if intent.action is Action.PUBLISH:
            self.states[intent.run_id] = RunState.PUBLISHED if landed else RunState.PASSED
            if landed:
                self.swaps.append(intent)
        elif landed:
            self.swaps.pop()
            self.states[intent.run_id] = RunState.ROLLED_BACK
            self.approved[intent.run_id] = False
        self.follow_what_is_seen()

    def follow_what_is_seen(self) -> None:
        seen = set(self.visible().values())
        for swap in self.swaps:
            self.states[swap.run_id] = RunState.PUBLISHED if swap.run_id in seen else RunState.SUPERSEDED

    def visible(self) -> dict[object, str]:
        """The run behind every day: each standing swap over the ones before it."""
        return {change.partition: swap.run_id for swap in self.swaps for change in swap.changes}

    @invariant()
    def the_ledger_says_what_the_model_says(self) -> None:
        with self.ledger.read() as reader:
            found = {run.run_id: run for run in reader.runs.records(table=self.table)}
            if not found:
                return
            assert {run_id: run.state for run_id, run in found.items()} == self.states
            assert {run_id for run_id, run in found.items() if run.approval is ApprovalState.APPROVED} == {
                run_id for run_id, approved in self.approved.items() if approved
            }
            accepted = reader.versions.accepted(self.table)
            assert {day: version.run_id for day, version in accepted.items()} == self.visible()
            assert all(version.files == files_of(version.run_id, day) for day, version in accepted.items())
            states = [version.state for version in reader.versions.history(self.table)]
            assert states.count(VersionState.ACCEPTED) == len(accepted)

    def teardown(self) -> None:
        with self.ledger.read() as reader:
            assert reader.events.violations() == ()


@pytest.mark.long
def test_any_order_of_steps_leaves_the_ledger_true(ledger: Ledger) -> None:
    class Machine(LedgerMachine):
        def __init__(self) -> None:
            super().__init__(ledger)

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=15,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
