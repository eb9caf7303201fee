"""One person alone repairs what is lost, as it was recorded and agreed to, and nothing else; computed without Spark."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from backfill_assets.application.plan import plan_table
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.candidates import evaluate
from backfill_assets.core.errors import MissingInput
from backfill_assets.domain import DerivedTable, Domain, phases
from backfill_assets.ledger.errors import NeedsApproval
from backfill_assets.ledger.records import RunRecord
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.manifest_parts import RunPurpose
from backfill_assets.planning.request import Plan, PlanRequest
from backfill_assets.planning.restatement import PlannedSet
from backfill_assets.requests import authority
from backfill_assets.requests.errors import NotAgreed
from backfill_assets.staleness.find import changed_otherwise, stale_partitions
from backfill_assets.upkeep.alignment import set_to_ledger
from backfill_assets.workspace import Workspace
from backfill_assets_tests.faults.spark_free_compute import without_spark
from backfill_assets_tests.faults.stories import begun
from backfill_assets_tests.faults.story_generator import BUILT, StoryGenerator
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import has_code
from backfill_assets_tests.support.lakes import folder_of

PALETTE, TURNOVER = "gold.palette", "silver.turnover"
DAY = BUILT[2]


@pytest.fixture
def generator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StoryGenerator]:
    """A home in which all tables are published."""
    monkeypatch.setattr(evaluate, "prove", lambda *_: ())  # the proof of the window is made by Spark
    with begun(tmp_path) as (home, compute):
        found = StoryGenerator(home=home, chance=random.Random(1), compute=compute)
        with without_spark(compute):
            yield found
        found.ws.close()


def released(generator: StoryGenerator, version: str) -> None:
    """The author declares a new release of gold, which computes the same."""
    gold = generator.ws.domain.derived_table(PALETTE)
    newer = replace(gold.releases[0], version=version)
    declared(generator, replace(gold, releases=(newer, *gold.releases)))


def declared(generator: StoryGenerator, again: DerivedTable) -> None:
    """The author declares gold otherwise."""
    domain = generator.ws.domain
    derived = tuple(again if each.name == PALETTE else each for each in domain.derived)
    ws = replace(
        generator.ws, domain=Domain(name=domain.name, package=domain.package, sources=domain.sources, derived=derived)
    )
    ws.__dict__["ledger"] = generator.ws.ledger
    generator.ws = ws


def file_of(ws: Workspace, table: str, day: date) -> Path:
    with ws.ledger.read() as tx:
        return folder_of(ws.lake, table) / tx.versions.accepted(table)[day].files.files[0].path


def staged_by_ana(
    generator: StoryGenerator,
    table: str,
    days: Sequence[date] = (DAY,),
    kind: RunPurpose = RunPurpose.REPAIR,
    version: str | None = None,
) -> str:
    request = PlanRequest(
        table=table,
        days=DayRange.inclusive(days[0], days[-1]),
        reason="a file",
        by="ana",
        kind=kind,
        transform_version=version,
    )
    run_id = operations.plan(generator.ws, request).manifest.run_id
    generator._carry(generator.ws, run_id)
    return run_id


def unagreed(ws: Workspace) -> Sequence[object]:
    """The partitions of gold that were computed otherwise than was agreed to."""
    table = ws.domain.derived_table(PALETTE)
    with ws.ledger.read() as tx:
        return [*changed_otherwise(stale_partitions(ws, tx, table, BUILT, agreed=True))]


def test_a_repair_of_intact_rows_is_no_approval_of_a_new_release(generator: StoryGenerator) -> None:
    released(generator, "3.0.0")
    before = unagreed(generator.ws)
    assert before
    run_id = staged_by_ana(generator, PALETTE, BUILT[1:])
    with pytest.raises(NotAgreed):
        operations.publish(generator.ws, run_id, by="ana")
    assert unagreed(generator.ws) == before


@pytest.mark.long
def test_a_repair_of_a_lost_file_by_a_new_release_waits_for_a_person(generator: StoryGenerator) -> None:
    released(generator, "3.0.0")
    before = unagreed(generator.ws)
    file_of(generator.ws, PALETTE, DAY).unlink()
    run_id = staged_by_ana(generator, PALETTE, version="3.0.0")
    with pytest.raises(NotAgreed):
        operations.publish(generator.ws, run_id, by="ana")
    assert unagreed(generator.ws) == before


@pytest.mark.long
def test_a_repair_by_the_agreed_release_is_published_by_one_person_and_agrees_to_nothing_else(
    generator: StoryGenerator,
) -> None:
    released(generator, "3.0.0")
    before = unagreed(generator.ws)
    file_of(generator.ws, PALETTE, DAY).unlink()
    run_id = staged_by_ana(generator, PALETTE)
    operations.publish(generator.ws, run_id, by="ana")
    assert operations.run_named(generator.ws, run_id).approved_by == "policy:repair"
    assert len(unagreed(generator.ws)) == len(before)


@pytest.mark.long
def test_what_a_policy_once_repaired_by_another_release_counts_as_agreed_by_the_release_before(
    generator: StoryGenerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    released(generator, "3.0.0")
    before = unagreed(generator.ws)
    file_of(generator.ws, PALETTE, DAY).unlink()
    run_id = staged_by_ana(generator, PALETTE, version="3.0.0")
    # As a release of the product did that did not compare what they were computed by.
    with monkeypatch.context() as patch:
        patch.setattr("backfill_assets.ledger.bases.BasisReads.is_computed_as_agreed", lambda *_: True)
        operations.publish(generator.ws, run_id, by="ana")
    assert operations.run_named(generator.ws, run_id).approved_by == "policy:repair"
    assert len(unagreed(generator.ws)) == len(before)


def _always(_tx: object, _run: RunRecord) -> bool:
    return True


@pytest.mark.parametrize("what", ["intact", "another release", "other rows"])
def test_the_ledger_itself_refuses_what_no_repair_may_publish_alone(
    generator: StoryGenerator, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    released(generator, "3.0.0")
    if what == "other rows":
        generator.compute.land(generator.ws, {DAY: (99, 7)}, by="ana")
        generator.load(generator.ws)
        # The rows that were read before are lost as well.
        for table in (TURNOVER, "silver.colours"):
            run_id = staged_by_ana(generator, table, kind=RunPurpose.RESTATEMENT)
            operations.approve(generator.ws, run_id, by="ben")
            old = file_of(generator.ws, table, DAY)
            operations.publish(generator.ws, run_id, by="ana")
            old.unlink()
    if what != "intact":
        file_of(generator.ws, PALETTE, DAY).unlink()
    run_id = staged_by_ana(generator, PALETTE, version="3.0.0" if what == "another release" else None)
    monkeypatch.setattr(authority, "brings_back_what_was_recorded", _always)
    with pytest.raises(NeedsApproval):
        operations.publish(generator.ws, run_id, by="ana")
    assert operations.run_named(generator.ws, run_id).state is RunState.PASSED


@pytest.mark.long
@pytest.mark.parametrize("kind", [RunPurpose.RESTATEMENT, RunPurpose.REPAIR])
def test_a_file_that_was_away_for_a_moment_is_brought_back_by_a_rollback(
    generator: StoryGenerator, kind: RunPurpose
) -> None:
    path = file_of(generator.ws, TURNOVER, DAY)
    away = path.rename(path.with_suffix(".away"))
    run_id = staged_by_ana(generator, TURNOVER, kind=kind)
    away.rename(path)
    operations.approve(generator.ws, run_id, by="ben")
    operations.publish(generator.ws, run_id, by="ana")
    assert file_of(generator.ws, TURNOVER, DAY) != path
    operations.rollback(generator.ws, run_id, by="ben", reason="tried")
    assert file_of(generator.ws, TURNOVER, DAY) == path


@pytest.mark.long
def test_a_rollback_to_what_was_lost_is_refused_as_lost(generator: StoryGenerator) -> None:
    file_of(generator.ws, TURNOVER, DAY).unlink()
    run_id = staged_by_ana(generator, TURNOVER)
    operations.publish(generator.ws, run_id, by="ana")
    with pytest.raises(MissingInput, check=has_code("replaced_files_removed"), match="was lost, and replaced at"):
        operations.rollback(generator.ws, run_id, by="ben", reason="tried")


@pytest.mark.long
@pytest.mark.parametrize("is_lost", [True, False])
def test_a_repair_has_the_declared_phases_unless_a_file_is_lost(generator: StoryGenerator, is_lost: bool) -> None:
    declared(generator, replace(generator.ws.domain.derived_table(PALETTE), phases=phases(count=2)))
    if is_lost:
        file_of(generator.ws, PALETTE, DAY).unlink()
    days = DayRange.inclusive(BUILT[1], BUILT[-1])
    request = PlanRequest(table=PALETTE, days=days, reason="a file", by="ana", kind=RunPurpose.REPAIR)
    assert isinstance(plan_table(generator.ws, request), Plan if is_lost else PlannedSet)


@pytest.mark.long
def test_what_was_accepted_as_lost_is_not_brought_back_when_its_file_comes_back(generator: StoryGenerator) -> None:
    path = file_of(generator.ws, TURNOVER, DAY)
    generator.compute.land(generator.ws, {DAY: (99, 7)}, by="ana")
    generator.load(generator.ws)
    run_id = staged_by_ana(generator, TURNOVER, kind=RunPurpose.RESTATEMENT)
    operations.approve(generator.ws, run_id, by="ben")
    operations.publish(generator.ws, run_id, by="ana")
    away = path.rename(path.with_suffix(".away"))
    set_to_ledger(generator.ws, TURNOVER, by="ben", reason="tried")
    away.rename(path)
    with pytest.raises(MissingInput, check=has_code("replaced_files_removed")):
        operations.rollback(generator.ws, run_id, by="ben", reason="tried")


@pytest.mark.long
def test_a_repair_announces_nothing_to_dependents(generator: StoryGenerator) -> None:
    file_of(generator.ws, TURNOVER, DAY).unlink()
    run_id = staged_by_ana(generator, TURNOVER)
    with generator.ws.ledger.read() as tx:
        before = tx.outbox.entries()
    operations.publish(generator.ws, run_id, by="ana")
    with generator.ws.ledger.read() as tx:
        assert tx.outbox.entries() == before
