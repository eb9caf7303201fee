"""Versions of known rows: one that lacks rows of the version that was agreed to is a looser gate, for a person. So is
any other version of what a gate of an author reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from backfill_assets.application.plan import plan
from backfill_assets.core.errors import NotApproved
from backfill_assets.domain import Failing, GateContext, Policy, Reference, failing, golden, known_rows
from backfill_assets.planning.request import PlanRequest, asked_references
from backfill_assets.report.html import html_file
from backfill_assets.report.pages import page_of
from backfill_assets.report.report import run_report
from backfill_assets.report.review import review_of
from backfill_assets.report.words.plans import known_rows_gone_words
from backfill_assets.requests.authority import demand_of, standing_of
from backfill_assets.testing import DomainKit
from backfill_assets.testing.kit import in_days
from backfill_assets_tests.domains import judged
from backfill_assets_tests.domains.judged import judged_by
from backfill_assets_tests.support.ledgers import copy_home

ROWS = (
    "{day: 2026-01-02, order_id: o-2-3, country: FR}",
    '{day: 2026-01-03, order_id: o-3-2, amount: "20.00"}',
    '{day: 2026-01-03, order_id: o-3-3, amount: "30.00"}',
)
DAY = "2026-01-03"
KNOWN = golden("known_rows")
Versions = Callable[..., DomainKit]


def document(version: str, *rows: str) -> str:
    return f'version: "{version}"\nrows: [{", ".join(rows)}]\n'


@pytest.fixture
def versions(home_of_orders: Path, tmp_path: Path) -> Versions:
    """Opens the home as another process does, with a version of the known rows, under a policy that asks for nobody."""
    home = tmp_path / "home"
    copy_home(home_of_orders, home)
    (home / "reference").mkdir()

    def opened(version: str, *rows: str, references: tuple[str, ...] = (), gate: Failing = KNOWN) -> DomainKit:
        (home / "reference" / "known_rows.yaml").write_text(document(version, *rows), encoding="utf-8")
        domain = judged_by(gate, references=(Reference(name="known_rows", parse=known_rows),))
        table = replace(domain.derived[0], policy=Policy(backfill="auto"), references=references)
        return judged.opened(replace(domain, derived=(table,)), home)

    return opened


def is_known(candidate: DataFrame, ctx: GateContext) -> DataFrame:
    """Nothing but what is known."""
    known = [row["order_id"] for row in ctx.references["known_rows"].rows]
    return candidate.where(~sf.col("order_id").isin(known))


def loosened(kit: DomainKit, run_id: str) -> tuple[str, ...]:
    """What an approver of a run agrees to besides it; a run of which nothing is loosened needs no approval."""
    with kit.ws.ledger.read() as tx:
        asked = demand_of(kit.ws, tx, tx.runs.get(run_id))
    assert (asked.policy is None) is bool(asked.loosened)
    return asked.loosened


def published(kit: DomainKit) -> str:
    run_id = kit.planned("order_totals", DAY)
    kit.stage(run_id)
    kit.gate(run_id)
    kit.publish(run_id)
    return run_id


@pytest.mark.long
def test_fewer_or_other_known_rows_wait_for_a_person_and_more_do_not(versions: Versions) -> None:
    published(versions("1", *ROWS))
    other = ROWS[1].replace("20.00", "21.00")
    for rows, said in (
        (ROWS, ()),
        (tuple(reversed(ROWS)), ()),
        ((*ROWS, "{day: 2026-01-04, order_id: o-4-1}"), ()),
        (ROWS[:2], ("golden rows of known_rows: 1 of 3 are gone or changed",)),
        ((ROWS[0], other, ROWS[2]), ("golden rows of known_rows: 1 of 3 are gone or changed",)),
        ((), ("golden rows of known_rows: 3 of 3 are gone or changed",)),
    ):
        kit = versions("2", *rows)
        assert loosened(kit, kit.planned("order_totals", DAY)) == said

    # The approver reads which ones, of the version that was agreed to.
    kit = versions("3", ROWS[0], other)
    reported = run_report(kit.ws, kit.planned("order_totals", DAY))
    (gone,) = reported.known_rows_gone
    named = known_rows_gone_words(gone)
    assert named == "Gone or changed in known_rows: 2026-01-03, o-3-2; 2026-01-03, o-3-3."
    assert "golden rows of known_rows: 2 of 3 are gone or changed" in html_file(page_of(reported))
    assert named in review_of(reported).warnings
    assert known_rows_gone_words(replace(gone, keys=gone.keys[:1], others=1)).endswith("2026-01-03, o-3-2; 1 more.")

    # Nor can a plan from before the version hide it: what is there when it is published counts.
    before = (kit := versions("1", *ROWS)).planned("order_totals", DAY)
    assert loosened(kit, before) == ()
    assert loosened(versions("2", *ROWS[:1]), before) == ("golden rows of known_rows: 2 of 3 are gone or changed",)


@pytest.mark.long
def test_rows_that_only_a_version_without_their_known_rows_lets_pass_are_not_published_by_a_policy(
    versions: Versions,
) -> None:
    published(versions("1", *ROWS))
    kit = versions("2", ROWS[0])
    run_id = kit.planned("order_totals", DAY, version="dearer")
    kit.stage(run_id)
    assert kit.gate(run_id).failed == ()
    with pytest.raises(NotApproved, match="golden rows of known_rows: 2 of 3 are gone or changed"):
        kit.publish(run_id)
    assert "golden rows of known_rows: 2 of 3 are gone or changed" in html_file(page_of(run_report(kit.ws, run_id)))
    kit.approve(run_id)
    kit.publish(run_id)
    # What a person has agreed to counts from then on.
    assert loosened(kit, kit.planned("order_totals", DAY)) == ()


def test_a_version_that_was_chosen_for_a_run_counts_as_what_its_gates_are_given(versions: Versions) -> None:
    versions("0", ROWS[0], references=("known_rows",)).planned("order_totals", DAY)
    kit = versions("1", *ROWS, references=("known_rows",))
    published(kit)
    request = PlanRequest(
        table="order_totals",
        days=in_days(DAY),
        reason="for a test",
        by="ana",
        references=asked_references(None, ["known_rows=0"]),
    )
    planned = plan(kit.ws, request)
    assert loosened(kit, planned.manifest.run_id) == ("golden rows of known_rows: 2 of 3 are gone or changed",)


@pytest.mark.long
def test_another_version_of_what_a_gate_of_an_author_reads_waits_for_a_person_as_its_code_does(
    versions: Versions,
) -> None:
    gate = failing("is_known", rows=is_known, references=("known_rows",), blocking=False)
    published(versions("1", *ROWS, gate=gate))
    kit = versions("1", *ROWS, gate=gate)
    before = kit.planned("order_totals", DAY)
    assert loosened(kit, before) == ()
    kit = versions("2", *ROWS, "{day: 2026-01-03, order_id: o-3-9}", gate=gate)
    assert loosened(kit, before) == ("reference known_rows of gate is_known",)
    with kit.ws.ledger.read() as tx:
        # Nobody can tell whether it fails less.
        assert demand_of(kit.ws, tx, tx.runs.get(before)).unsure == ("reference known_rows of gate is_known",)
    # Of a reference that the rows follow from too, another version changes them.
    of_rows = versions("2", *ROWS, gate=gate, references=("known_rows",))
    with of_rows.ws.ledger.read() as tx:
        assert "reference known_rows of gate is_known" not in {
            each.name for each in standing_of(of_rows.ws, tx, "silver.order_totals").safeguards
        }
    kit = versions("2", *ROWS, "{day: 2026-01-03, order_id: o-3-9}", gate=gate)
    run_id = kit.planned("order_totals", DAY, version="dearer")
    assert loosened(kit, run_id) == ("reference known_rows of gate is_known",)
    kit.stage(run_id)
    kit.gate(run_id)
    kit.approve(run_id)
    kit.publish(run_id)
    assert loosened(kit, kit.planned("order_totals", DAY)) == ()
