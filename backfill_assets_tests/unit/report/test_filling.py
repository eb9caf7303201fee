"""What is recommended to build partitions: commands that name exactly the days which they would accept."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from backfill_assets.calendar.partitions import DayRange, Grain, Partitions
from backfill_assets.landing.imports import NotKnown
from backfill_assets.ledger.errors import NotCancellable
from backfill_assets.ledger.states import RunState, SetState
from backfill_assets.planning.errors import IncompleteWindows
from backfill_assets.planning.kinds.change import Scope
from backfill_assets.planning.kinds.load import Load
from backfill_assets.planning.kinds.pilot import Pilot
from backfill_assets.planning.manifest_parts import PinnedInput
from backfill_assets.planning.next_steps import (
    _MOST,
    _MOST_RANGES,
    how_to_fill,
    measured_again,
    plan_again,
)
from backfill_assets.upkeep.errors import ReproducedOtherwise
from backfill_assets_tests.support.advice import advised, worded
from backfill_assets_tests.support.ledger_examples import a_manifest

SECOND, THIRD, FIFTH = date(2026, 1, 2), date(2026, 1, 3), date(2026, 1, 5)
READ = (PinnedInput(argument="sales", table="bronze.sales", partitions=()),)


def test_a_derived_table_is_planned_again_without_the_days_between_its_partitions() -> None:
    run = a_manifest("bf-1", days=[SECOND, THIRD, FIFTH], inputs=READ)
    assert worded(plan_again(run)) == (
        "backfill plan table example --reason WHY --from 2026-01-02 --to 2026-01-03 --from 2026-01-05 --to 2026-01-05 "
        "--by NAME"
    )
    assert worded(plan_again(run, [FIFTH])) == (
        "backfill plan table example --reason WHY --from 2026-01-05 --to 2026-01-05 --by NAME"
    )


@pytest.mark.parametrize(
    ("scope", "options"),
    [
        (Scope(where=(("tenant", "a b"), ("used", "2"))), "--where 'tenant=a b' --where used=2"),
        (Scope(where=(("tenant", "acme"),), is_rest=True), "--but tenant=acme"),
    ],
)
def test_a_pilot_is_planned_again_with_its_scope(scope: Scope, options: str) -> None:
    pilot = Pilot(rows=scope)
    run = a_manifest("bf-1", days=[SECOND], inputs=READ, change=pilot)
    assert worded(plan_again(run)) == (
        f"backfill plan table example --reason WHY --from 2026-01-02 --to 2026-01-02 --by NAME {options}"
    )


def test_a_month_is_planned_again_to_its_last_day() -> None:
    run = a_manifest("bf-1", days=[date(2026, 2, 1)], grain=Grain.MONTHLY, inputs=READ)
    assert (
        worded(plan_again(run))
        == "backfill plan table example --reason WHY --from 2026-02-01 --to 2026-02-28 --by NAME"
    )


def test_a_source_table_is_loaded_even_if_no_file_had_landed_for_the_run() -> None:
    run = a_manifest("bf-1", table="bronze.sales", days=[SECOND, THIRD], change=Load(declared_empty=(THIRD,)))
    assert run.change.imports == ()
    assert worded(plan_again(run)) == (
        "backfill load sales --from 2026-01-02 --to 2026-01-02 --by NAME; "
        "backfill load sales --from 2026-01-03 --to 2026-01-03 --empty --reason WHY --by NAME"
    )


def test_days_without_events_are_declared_and_many_ranges_are_shortened() -> None:
    assert worded(how_to_fill("bronze.sales", Grain.DAILY, [SECOND])).endswith(
        "declare it with backfill load sales --from 2026-01-02 --to 2026-01-02 --empty --reason WHY --by NAME"
    )
    for count, more in ((_MOST, None), (_MOST + 1, 1)):
        apart = [SECOND + timedelta(days=2 * n) for n in range(count * _MOST_RANGES)]
        said = worded(how_to_fill("silver.sales", Grain.DAILY, apart))
        assert said.count("--from") == _MOST * _MOST_RANGES
        assert said.count("backfill plan") == _MOST
        assert said.endswith("--by NAME" if more is None else f"; and {more} more in the same way")


@pytest.mark.parametrize(
    ("lacks", "said"),
    [
        (date(2026, 2, 1), "land the missing files; if nothing happened on these days"),
        (date(2025, 12, 31), "land the missing files; if nothing happened on these days"),
        (
            date(2026, 2, 2),
            "choose other days: bronze.sales has 2026-01-01..2026-01-31; or land the missing files first",
        ),
        (date(2025, 1, 31), "choose other days: bronze.sales has 2026-01-01..2026-01-31; or land"),
    ],
)
def test_nobody_is_advised_to_declare_days_empty_that_are_apart_from_those_of_a_source(lacks: date, said: str) -> None:
    held = Partitions.of(Grain.DAILY, DayRange.inclusive(date(2026, 1, 1), date(2026, 1, 31)))
    error = IncompleteWindows(
        table="silver.totals",
        missing={"bronze.sales": Partitions.of(Grain.DAILY, [lacks])},
        held={"bronze.sales": held},
        first_day=date(2000, 1, 1),
    )
    assert (advised(error) or "").startswith(said)


def test_where_a_state_begins_is_declared_and_no_years_before_the_log() -> None:
    held = Partitions.of(Grain.DAILY, DayRange.inclusive(date(2026, 1, 1), date(2026, 1, 31)))
    error = IncompleteWindows(
        table="silver.open",
        missing={"bronze.sales": Partitions.of(Grain.DAILY, DayRange.inclusive(date(1999, 1, 1), date(2025, 12, 31)))},
        held={"bronze.sales": held},
        first_day=date(1999, 1, 1),
        has_snapshots=True,
    )
    assert advised(error) == (
        "say where its state begins: reads_self(since=date(2026, 1, 1)) in the declaration of silver.open; "
        "bronze.sales has 2026-01-01..2026-01-31"
    )


def test_a_run_of_a_set_is_measured_with_other_gates_once_its_set_is_planned_again_as_a_whole() -> None:
    run = a_manifest("bf-1", days=[SECOND], inputs=READ, request_id="set.1")
    assert worded(measured_again(run)) == (
        "to measure it with them, cancel what is not published of the set: "
        "backfill cancel set.1 --by NAME --reason WHY; then plan again: "
        "backfill plan with-dependents example --reason WHY --from 2026-01-02 --to 2026-01-02 --by NAME; "
        "or, if it was proposed: backfill propose"
    )


def test_what_is_published_is_rolled_back_and_not_cancelled() -> None:
    for state in (RunState.PUBLISHED, SetState.PUBLISHED):
        error = NotCancellable(name="bf-1", state=state)
        assert advised(error) == "backfill rollback bf-1 --by NAME --reason WHY"
    assert advised(NotCancellable(name="bf-1", state=RunState.CANCELLED)) == "backfill status bf-1"


def test_who_makes_keys_known_hears_that_a_run_has_read_what_was_there_before() -> None:
    found = NotKnown(
        source="bronze.sales", policy="block", keys=1, days=Partitions.of(Grain.DAILY, {SECOND}), imports=("imp-1",)
    )
    assert worded(found.next_step).endswith("once they are known, plan again: this run has read what was there before")


@pytest.mark.parametrize("from_raw", [True, False])
def test_a_reproduction_by_other_code_is_asked_for_again_as_it_was(from_raw: bool) -> None:
    refused = ReproducedOtherwise(run_id="r-1", why="it was planned with other code.", from_raw=from_raw)
    assert advised(refused).endswith("backfill reproduce r-1" + (" --from-raw" if from_raw else ""))
