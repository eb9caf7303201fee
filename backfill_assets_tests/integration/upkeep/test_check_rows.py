"""Rows of yesterday under gates of today: what is said of new gates, and what a check finds and leaves alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from shutil import rmtree
from typing import TypeVar

import pytest
from typer.testing import CliRunner

from backfill_assets.application import look
from backfill_assets.application.check import check
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import Refused
from backfill_assets.domain import (
    DerivedTable,
    Gate,
    SourceTable,
    Table,
    accepted,
    expression,
    row_count,
    rows,
    usual,
    weeks,
)
from backfill_assets.domain.errors import CodeBroken
from backfill_assets.lake.append import validation_table
from backfill_assets.ledger.checks import GATES_CHECKED
from backfill_assets.ledger.findings import FailingKey
from backfill_assets.main import app
from backfill_assets.report.command_line import words_of
from backfill_assets.report.gates_since import FailsGate, NotMeasured, fails_gates, not_measured
from backfill_assets.report.html import html_file
from backfill_assets.report.pages import page_of
from backfill_assets.report.status import status
from backfill_assets.report.upkeep import after_rows_check
from backfill_assets.upkeep.alignment import rewrite_evidence, write_evidence_again
from backfill_assets.upkeep.audit import audit
from backfill_assets.upkeep.audit_checks import lacking_results
from backfill_assets.upkeep.check import GateOnRows, RowsCheck
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.edited import drift
from backfill_assets_tests.support.lakes import folder_of
from backfill_assets_tests.support.shop import OUTPUT, RECENT, SALES, Shop, WorkIn

T = TypeVar("T", SourceTable, DerivedTable)

SMALL = expression("small", "amount <= 50")
"""A gate that rows of 0.9.0 fail, which are twice as much as those of 1.0.0: 80 and 40 a day."""
ONLY = accepted("shop", ["only"])
"""One that all rows pass."""
EVE = Acting(by="eve", recorder=Unrecorded())


@pytest.fixture
def shop(published_shop: Shop) -> Shop:
    return published_shop


def with_gates(shop: Shop, *more: Gate, of: str = RECENT, without: Sequence[str] = ()) -> Shop:
    """The shop, of which a table declares other gates from now on, under the same code."""

    def changed(table: T) -> T:
        kept: tuple[Gate, ...] = tuple(gate for gate in table.gates if gate.name not in without)
        return replace(table, gates=(*kept, *more)) if table.name == of else table

    known: dict[str, Table] = {source.name: changed(source) for source in shop.ws.domain.sources}
    for table in shop.ws.domain.derived:
        inputs = {argument: known[read.name] for argument, read in table.inputs.items()}
        known[table.name] = changed(replace(table, inputs=inputs))
    sources = tuple(each for each in known.values() if isinstance(each, SourceTable))
    derived = tuple(each for each in known.values() if isinstance(each, DerivedTable))
    return replace(shop, ws=drift(shop.ws, replace(shop.ws.domain, sources=sources, derived=derived)))


def lacking(shop: Shop) -> dict[str, tuple[str, ...]]:
    """The gates that accepted rows were not measured with, by table."""
    return {each.table: each.gates for each in unmeasured(shop)}


def unmeasured(shop: Shop) -> tuple[NotMeasured, ...]:
    with shop.ws.ledger.read() as tx:
        return not_measured(shop.ws, tx, shop.ws.domain.tables.values())


def failing(shop: Shop) -> tuple[FailsGate, ...]:
    with shop.ws.ledger.read() as tx:
        return fails_gates(shop.ws, tx, shop.ws.domain.tables.values())


def gate_of(found: RowsCheck, name: str) -> GateOnRows:
    (gate,) = [each for each in found.gates if each.gate == name]
    return gate


def seen_by_readers(shop: Shop) -> object:
    """Everything that a check may not change."""
    with shop.ws.ledger.read() as tx:
        versions = {name: tx.versions.accepted(name) for name in (SALES, RECENT)}
        runs = [(run.run_id, run.state, run.approved_by) for run in tx.runs.headers()]
        return versions, runs, tx.outbox.entries(), shop.live_paths(), shop.live_paths(SALES)


def held(shop: Shop) -> list[tuple[object, ...]]:
    """The results of checks that people can query."""
    found = shop.ws.lake.open(validation_table(RECENT)).to_pyarrow_table().to_pylist()
    rows = [(r["partition"], r["gate"], r["checked_version"], r["passed"]) for r in found if r["checked_version"]]
    return sorted(rows)


def test_a_gate_that_is_new_is_named_without_making_rows_stale_and_a_check_measures_them(shop: Shop) -> None:
    stale_before, before = operations.stale_tables(shop.ws), seen_by_readers(shop)
    assert lacking(shop) == {}
    shop = with_gates(shop, SMALL, ONLY)
    (found,) = look.stale(shop.ws, None, None).not_measured
    assert (found.table, found.gates, found.partitions.days) == (RECENT, ("small", "accepted_shop"), tuple(OUTPUT))
    command = f"backfill check {RECENT} --from 2026-01-03 --to 2026-01-09 --gate small --gate accepted_shop"
    assert words_of(found.check) == command
    assert operations.stale_tables(shop.ws) == stale_before
    document = status(shop.ws)
    assert "not measured with 2 gates (small, accepted_shop)" in html_file(page_of(document))
    assert [words_of(each.check) for each in document.not_measured] == [command]

    checked = check(shop.ws, EVE, RECENT, OUTPUT, gates=["small", "accepted_shop"])
    small = gate_of(checked, "small")
    assert (checked.passes, checked.replaced, checked.not_measurable) == (False, None, ())
    assert small.failed is not None
    assert (small.measured, small.failed.days) == (7, tuple(OUTPUT))
    first = {"day": "2026-01-03", "shop": "only"}
    assert small.keys[0] == FailingKey(gate="small", partition=date(2026, 1, 3), key=first)
    assert len(small.keys) == 5
    assert gate_of(checked, "accepted_shop").failed is None
    assert seen_by_readers(shop) == before
    assert lacking(shop) == {}
    (fails,) = failing(shop)
    assert (fails.gate, fails.blocking, fails.partitions.days) == ("small", True, tuple(OUTPUT))
    assert f"backfill plan table {RECENT}" in words_of(fails.next_step)
    page = html_file(page_of(checked))
    assert "small fails" in page and "Keys of rows that fail small" in page
    (following,) = after_rows_check(checked)
    assert f"backfill plan table {RECENT}" in words_of(following)
    assert audit(shop.ws).problems == ()
    # Without the gate nothing is said of it any more, and with it again what was found.
    assert failing(with_gates(shop, without=["small"])) == ()
    # Another condition is another gate.
    looser = with_gates(shop, expression("small", "amount <= 99"), without=["small"])
    assert (lacking(looser), failing(looser)) == ({RECENT: ("small",)}, ())


def test_days_without_accepted_rows_are_named_and_gates_that_check_does_not_measure(shop: Shop) -> None:
    shop = with_gates(shop, usual(rows(), against=weeks(8)))
    checked = check(shop.ws, EVE, RECENT, DayRange.inclusive(date(2026, 1, 8), date(2026, 1, 12)), gates=())
    assert checked.not_accepted is not None
    assert (checked.asked, [day.day for day in checked.not_accepted]) == (5, [10, 11, 12])
    page = html_file(page_of(checked))
    assert "No accepted rows on 3 of 5 days" in page and "2026-01-10..2026-01-12" in page
    assert "usual_rows" in checked.of_candidates
    assert "warm_up, usual_rows. Check does not measure them: each run does, and its report shows it" in page
    every = check(shop.ws, EVE, RECENT)
    assert (every.asked, every.not_accepted) == (None, None)


def test_the_same_check_again_adds_nothing(shop: Shop) -> None:
    shop = with_gates(shop, SMALL)
    check(shop.ws, EVE, RECENT, OUTPUT)
    with shop.ws.ledger.read() as tx:
        head, sampled = tx.events.head(), len(held(shop))
    assert sampled == 7 * 5  # schema, unique_key, and the three that are declared
    again = check(shop.ws, EVE, RECENT, OUTPUT)
    assert gate_of(again, "small").keys
    with shop.ws.ledger.read() as tx:
        assert (tx.events.head(), len(held(shop))) == (head, sampled)


def stopping(ws: Workspace, act: Callable[[], object]) -> Workspace:
    """The workspace, in which something happens once results are appended, before the ledger has them."""

    def reached(point: Point) -> None:
        if point is Point.CHECK_APPENDED:
            act()

    return replace(ws, reached=reached)


class Killed(Exception):
    """The process is gone."""


@pytest.mark.long
def test_a_process_that_is_killed_before_the_ledger_knows_leaves_nothing_half_and_goes_on(shop: Shop) -> None:
    shop = with_gates(shop, SMALL)

    def die() -> None:
        raise Killed

    with pytest.raises(Killed):
        check(stopping(shop.ws, die), EVE, RECENT, OUTPUT, gates=["small"])
    assert (lacking(shop), failing(shop)) == ({RECENT: ("small",)}, ())
    assert audit(shop.ws).problems == ()
    check(shop.ws, EVE, RECENT, OUTPUT, gates=["small"])
    assert held(shop) == [(day, "small", 1, False) for day in OUTPUT]
    assert lacking(shop) == {}
    assert audit(shop.ws).problems == ()


@pytest.mark.long
def test_a_version_that_is_replaced_meanwhile_is_the_one_that_is_named(shop: Shop) -> None:
    shop = with_gates(shop, SMALL)
    run_id = shop.ready()
    checked = check(stopping(shop.ws, lambda: shop.publish(run_id)), EVE, RECENT, OUTPUT, gates=["small"])
    assert checked.replaced is not None
    assert checked.replaced.days == tuple(OUTPUT)
    assert {each.version for each in gate_of(checked, "small").failures} == {1}
    # The run of the version that readers see now was measured with the gate, and passed it.
    assert (lacking(shop), failing(shop)) == ({}, ())
    # The version before it comes back with what is known of it.
    operations.rollback(shop.ws, run_id, by="ben", reason="second thoughts")
    assert lacking(shop) == {}
    assert [each.gate for each in failing(shop)] == ["small"]


@pytest.mark.long
def test_rows_that_a_later_run_found_equal_were_measured_with_its_gates(shop: Shop) -> None:
    shop = with_gates(shop, ONLY)
    assert lacking(shop) == {RECENT: ("accepted_shop",)}
    run_id = shop.ready(version="0.9.0")
    assert lacking(shop) == {RECENT: ("accepted_shop",)}
    shop.publish(run_id)
    with shop.ws.ledger.read() as tx:
        assert {version.version for version in tx.versions.accepted(RECENT).values()} == {1}
    assert lacking(shop) == {}


def test_a_condition_that_stops_spark_is_named_without_the_value_and_other_gates_can_be_asked(shop: Shop) -> None:
    shop = with_gates(shop, expression("numbered", "cast(shop AS int) > 3"), ONLY)
    stopped = "the gate numbered of silver.recent_sales stopped with CAST_INVALID_INPUT while Spark asked it of rows."
    with pytest.raises(CodeBroken) as refused:
        check(shop.ws, EVE, RECENT)
    assert refused.value.message == stopped
    assert gate_of(check(shop.ws, EVE, RECENT, gates=["accepted_shop"]), "accepted_shop").measured == len(OUTPUT)
    assert lacking(shop) == {RECENT: ("numbered",)}


@pytest.mark.parametrize("harm", ["gone", "other bytes"])
def test_a_file_that_is_gone_or_damaged_is_said_in_one_sentence_and_the_others_are_measured(
    shop: Shop, harm: str
) -> None:
    with shop.ws.ledger.read() as tx:
        (file,) = tx.versions.accepted(RECENT)[date(2026, 1, 5)].files.files
    place = folder_of(shop.ws.lake, RECENT) / file.path
    content = place.read_bytes()
    place.unlink()
    if harm == "other bytes":
        place.write_bytes(bytes([*content[:-20], content[-20] ^ 1, *content[-19:]]))
    shop = with_gates(shop, ONLY)
    checked = check(shop.ws, EVE, RECENT)
    (lost,) = checked.not_measurable
    assert (checked.passes, lost.partitions.days) == (False, (date(2026, 1, 5),))
    assert file.path in lost.why
    assert gate_of(checked, "accepted_shop").measured == 6
    (found,) = unmeasured(shop)
    assert found.partitions.days == (date(2026, 1, 5),)


def test_source_tables_are_checked_and_partitions_without_rows_too(shop: Shop) -> None:
    shop = with_gates(shop, row_count(at_least=2), of=SALES)
    checked = check(shop.ws, EVE, SALES, DayRange.inclusive(date(2026, 1, 1), date(2026, 1, 2)))
    failed = gate_of(checked, "row_count").failed
    assert failed is not None and len(failed) == 2
    assert [each.gate for each in failing(shop)] == ["row_count"]
    assert "backfill locate sales" in words_of(failing(shop)[0].next_step)


def test_the_command_says_what_each_gate_found_and_which_ask_only_candidates(shop: Shop, work_in: WorkIn) -> None:
    work_in(shop.ws.settings.home)
    before = seen_by_readers(shop)
    runner = CliRunner()
    done = runner.invoke(app, ["check", RECENT, "--from", "2026-01-03", "--to", "2026-01-04", "--by", "eve"])
    assert done.exit_code == 0, done.output
    assert "asked only of candidates: compared_with_accepted, warm_up" in done.output
    done = runner.invoke(app, ["check", RECENT, "--gate", "usual", "--json", "--by", "eve"])
    assert done.exit_code == 0, (done.output, done.stderr, done.exception)
    document = json.loads(done.stdout)
    assert [(each["gate"], each["measured"]) for each in document["gates"]] == [("usual", 7)]
    for typed, said in (
        (["check", RECENT, "--gate", "unusual"], "not one of"),
        (["check", RECENT, "--gate", "warm_up"], "asked only of candidates"),
        (["check", "--gate", "usual"], "no table is named"),
        (["check", RECENT, "--from", "2026-01-10", "--to", "2026-01-10"], "has accepted rows"),
    ):
        refused = runner.invoke(app, typed)
        assert (refused.exit_code, said in refused.output) == (1, True), refused.output
    assert seen_by_readers(shop) == before
    with shop.ws.ledger.read() as tx:
        assert {event.actor for event in tx.events.entries() if event.action == GATES_CHECKED} >= {"eve"}


def test_keys_of_rows_that_fail_are_erased_with_the_values_of_the_run_that_made_them(shop: Shop) -> None:
    shop = with_gates(shop, SMALL)
    with shop.ws.ledger.read() as tx:
        run_id = tx.versions.accepted(RECENT)[OUTPUT.start].run_id
        assert tx.samples.latest(run_id, FailingKey) == ()
    check(shop.ws, EVE, RECENT, OUTPUT, gates=["small"])
    with shop.ws.ledger.read() as tx:
        # The report of the run shows what its own gates found.
        assert tx.samples.latest(run_id, FailingKey) == ()
        assert "only" not in json.dumps([dict(event.payload) for event in tx.events.entries()])
    with shop.ws.ledger.write() as writer:
        kept = writer.samples.erase(run_id, by="dpo", reason="a request")
    assert kept >= 1
    assert audit(shop.ws).problems == ()


def test_nobody_is_named_who_may_not_check_and_a_check_without_a_name_is_of_the_account(shop: Shop) -> None:
    shop = with_gates(shop, SMALL)
    for by in ("ana", "ben", "eve"):
        check(shop.ws, replace(EVE, by=by), RECENT, OUTPUT, gates=["small"])
    with shop.ws.ledger.read() as tx:
        assert all(run.approved_by != "eve" for run in tx.runs.headers())


def test_a_gate_that_needs_a_candidate_is_refused_before_anything_is_read(shop: Shop) -> None:
    with pytest.raises(Refused, match="asked only of candidates"):
        check(shop.ws, EVE, RECENT, gates=["compared_with_accepted"])


@pytest.mark.parametrize("lost", ["the table", "some rows"])
def test_results_of_checks_that_people_query_are_written_again_from_the_ledger(shop: Shop, lost: str) -> None:
    shop = with_gates(shop, SMALL)
    check(shop.ws, EVE, RECENT, OUTPUT, gates=["small", "plausible"])
    before, name = held(shop), validation_table(RECENT)
    assert len(before) == 14
    if lost == "the table":
        rmtree(folder_of(shop.ws.lake, name))
    else:
        shop.ws.lake.open(name).delete("gate = 'small'")
    assert any(name in problem for problem in audit(shop.ws).problems)
    if lost == "the table":
        write_evidence_again(shop.ws, name)
    else:
        rewrite_evidence(shop.ws, RECENT)
    assert held(shop) == before
    with shop.ws.ledger.read() as tx:
        assert lacking_results(shop.ws, tx, RECENT) == ()
