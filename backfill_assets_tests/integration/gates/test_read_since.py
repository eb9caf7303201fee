"""What a gate has read is what readers see when its run is published, however late it changes; else it is asked again.
And a run is published that was measured with the gates that its table declares then.

Each change is tried without the guard as well: then the run is published beside what no gate has seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import GateFailed, TargetChanged
from backfill_assets.domain import Reference, expression, failing, golden, known_rows, reads
from backfill_assets.ledger.states import RunState
from backfill_assets.report.command_line import words_of
from backfill_assets.report.what_next import next_step
from backfill_assets.requests import obstacles, publish
from backfill_assets.testing import DomainKit
from backfill_assets.workspace import Workspace
from backfill_assets_tests.domains.judged import a_customer, customers
from backfill_assets_tests.integration.gates.conftest import Opens
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import advised

KNOWN = """
version: "{version}"
rows:
  - {{day: 2026-01-03, order_id: o-3-2, amount: "{amount}"}}
"""
ORPHANS = "SELECT * FROM candidate LEFT ANTI JOIN known USING (customer_id)"

no_orphans = failing("no_orphans", sql=ORPHANS, reads={"known": reads(customers, days_back=2)})


def ready(kit: DomainKit) -> str:
    """A run of one day that is approved and has passed."""
    run_id = kit.planned("order_totals", "2026-01-03")
    kit.approve(run_id)
    kit.stage(run_id)
    assert kit.gate(run_id).failed == ()
    return run_id


def unguarded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(obstacles.read_as_measured, "find", lambda *_: None)


@pytest.mark.parametrize("is_guarded", [True, False], ids=["guarded", "without the guard"])
def test_a_run_is_asked_again_where_a_reference_of_its_gate_has_another_version(
    opens: Opens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_guarded: bool
) -> None:
    document = tmp_path / "home" / "reference" / "known_rows.yaml"
    document.parent.mkdir()
    document.write_text(KNOWN.format(version="1", amount="20.00"))

    def opened() -> DomainKit:
        """As another process finds the reference."""
        return opens(golden("known_rows"), references=(Reference(name="known_rows", parse=known_rows),))

    run_id = ready(opened())
    document.write_text(KNOWN.format(version="2", amount="21.00"))
    kit = opened()
    if not is_guarded:
        unguarded(monkeypatch)
        kit.publish(run_id)
        assert operations.state_of(kit.ws, run_id) is RunState.PUBLISHED
        return
    with pytest.raises(TargetChanged, match=f"known_rows changed since gate golden_known_rows of run {run_id} read it"):
        kit.publish(run_id)
    assert kit.gate(run_id).failed == ("golden_known_rows",)
    document.write_text(KNOWN.format(version="3", amount="20"))
    kit = opened()
    assert kit.gate(run_id).failed == ()
    kit.publish(run_id)


@pytest.mark.parametrize(
    "is_guarded", [True, pytest.param(False, marks=pytest.mark.long)], ids=["guarded", "without the guard"]
)
def test_a_table_that_changes_after_the_checks_of_a_publication_and_before_its_transaction_is_noticed(
    opens: Opens, monkeypatch: pytest.MonkeyPatch, is_guarded: bool
) -> None:
    kit = opens(no_orphans)
    run_id = ready(kit)
    checked: Callable[..., None] = publish._require_ready
    asked: list[str] = []

    def others_publish(ws: Workspace, run: str) -> None:
        checked(ws, run)
        asked.append(run)
        if asked == [run_id]:
            kit.land("customers", [a_customer("c-9", day=2)], name="meanwhile.jsonl")

    with monkeypatch.context() as patch:
        patch.setattr(publish, "_require_ready", others_publish)
        if not is_guarded:
            unguarded(patch)
            kit.publish(run_id)
            assert operations.state_of(kit.ws, run_id) is RunState.PUBLISHED
            return
        with pytest.raises(TargetChanged, match=f"customers changed since gate no_orphans of run {run_id} read it"):
            kit.publish(run_id)
    assert asked[0] == run_id
    assert operations.state_of(kit.ws, run_id) is RunState.PASSED
    assert kit.gate(run_id).failed == ()
    kit.publish(run_id)


@pytest.mark.long
@pytest.mark.parametrize("point", [Point.SWAP_INTENDED, Point.SWAP_COMMITTED], ids=lambda point: point.name)
def test_a_table_whose_own_publication_is_under_way_has_changed_as_well(opens: Opens, point: Point) -> None:
    kit = opens(no_orphans)
    run_id = ready(kit)
    refused: list[str] = []

    def reached(at: Point) -> None:
        if at is point:
            with pytest.raises(TargetChanged) as error:
                kit.publish(run_id)
            refused.append(error.value.message)

    other = replace(kit, ws=replace(kit.ws, reached=reached))
    other.land("customers", [a_customer("c-9", day=2)], name="meanwhile.jsonl")
    (said,) = refused
    assert said.startswith(f"bronze.customers changed since gate no_orphans of run {run_id} read it: 2026-01-02")
    assert kit.gate(run_id).failed == ()
    kit.publish(run_id)


@pytest.mark.parametrize("is_guarded", [True, False], ids=["guarded", "without the guard"])
def test_a_run_that_has_passed_before_another_gate_was_declared_is_planned_again(
    opens: Opens, monkeypatch: pytest.MonkeyPatch, is_guarded: bool
) -> None:
    run_id = ready(opens())
    kit = opens(expression("free", "amount = 0"))
    if not is_guarded:
        monkeypatch.setattr(obstacles.present_gates, "find", lambda *_: None)
        kit.publish(run_id)
        assert operations.state_of(kit.ws, run_id) is RunState.PUBLISHED
        return
    said = f"run {run_id} was not measured with what silver.order_totals declares now: gate free"
    with pytest.raises(GateFailed, match=said) as refused:
        kit.publish(run_id)
    again = "backfill plan table order_totals --reason WHY --from 2026-01-03 --to 2026-01-03 --by NAME"
    again = f"plan it again, to measure it with them: {again}"
    assert advised(refused.value) == again
    with kit.ws.ledger.read() as tx:
        following = next_step(kit.ws, tx, tx.runs.get(run_id))
    assert following is not None
    assert words_of(following) == f"{run_id} was not measured with gate free of silver.order_totals; {again}"
    assert operations.state_of(kit.ws, run_id) is RunState.PASSED
    # A gate that is gone again asks nothing, and a person has agreed to the others.
    opens().publish(run_id)
