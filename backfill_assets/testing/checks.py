"""Checks: what holds for every table of an author, each as one call in a test.

They work with the rows that are landed and published in the home of the kit. A check that could not fail with these
rows, because they do not reach what it is about, fails and says which rows are missing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill_assets.application.recover import recover
from backfill_assets.application.replay import ReplayAsked, plan_replay
from backfill_assets.calendar.partitions import days_of
from backfill_assets.candidates.rows import rows_of
from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import ContractBroken
from backfill_assets.deliver.errors import NotReplayable
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.manifest_parts import Mode
from backfill_assets.testing.effects import watched
from backfill_assets.testing.kit import Days, DomainKit, in_days, listed, partitions_in
from backfill_assets.testing.values import Rows, differing
from backfill_assets.transforms.schemas import business_schema
from backfill_assets.upkeep.audit import audit
from backfill_assets.upkeep.reproduce import spread

Check = Callable[[DomainKit, str, Days], None]
"""A check that needs a table and its days only."""

_ALONE = 3
"""So many partitions are computed one by one as well."""


def check_rows(
    kit: DomainKit,
    table: str,
    days: Days,
    *,
    given: Mapping[str, Rows],
    expected: Rows,
    version: str | None = None,
) -> None:
    """Given these rows of its inputs, a table has exactly the expected rows on these days.

    Args:
        given: Rows by argument of the table's function; what is left out has no rows.
        expected: Rows in any order; only the columns that they name are compared. Of a table that merges they are the
            changes that its function returns.
        version: The release; the present one by default.
    """
    found = kit.computed(table, given, days, version=version)
    missing, unexpected = differing(found, expected, kit.ws.domain.derived_table(table).returned)
    if missing or unexpected:
        lines = [*(f"  missing:    {row}" for row in missing), *(f"  unexpected: {row}" for row in unexpected)]
        raise AssertionError("\n".join([f"{table} has other rows than expected:", *lines]))


def check_deterministic(kit: DomainKit, table: str, days: Days) -> None:
    """Checks that the same inputs give the same rows, in whatever order they are read and however the days are
    divided."""
    inputs = kit.inputs(table)
    whole = kit.checksums(kit.compute(table, inputs, days), table)
    if not whole:
        raise AssertionError(f"{table} has no rows on {in_days(days)}, so that nothing can be compared: land some.")
    for how, reordered in _in_other_orders(inputs):
        _require_equal(kit.checksums(kit.compute(table, reordered, days), table), whole, table, f"computed {how}")
    derived = kit.ws.domain.derived_table(table)
    if derived.state is not None:
        return
    for partition in spread(tuple(partitions_in(kit, table, days)), _ALONE):
        alone = kit.checksums(kit.compute(table, inputs, days_of(derived.partition.grain, partition)), table)
        part = {partition: whole[partition]} if partition in whole else {}
        _require_equal(alone, part, table, "computed without the other days")


def _in_other_orders(inputs: Mapping[str, DataFrame]) -> Iterator[tuple[str, Mapping[str, DataFrame]]]:
    """The rows in two orders, one the reverse of the other: one differs from the order of the files."""
    for how, descends in (("from input in an order of its own", False), ("from input in the opposite order", True)):
        reordered = {}
        for argument, frame in inputs.items():
            place = F.xxhash64(*frame.columns)
            reordered[argument] = frame.repartition(1).sortWithinPartitions(place.desc() if descends else place.asc())
        yield how, reordered


def check_staging_twice(kit: DomainKit, table: str, days: Days) -> None:
    """A run that is staged twice, and a second run over the same days, double nothing: readers see each row once."""
    run_id = kit.planned(table, days)
    kit.approve(run_id)
    once = _staged(kit, run_id)
    _require_equal(_staged(kit, run_id), once, table, "staged twice")
    kit.gate(run_id)
    kit.publish(run_id)
    again = kit.planned(table, days)
    _require_equal(_staged(kit, again), once, table, "staged by a second run")
    kit.gate(again)
    with kit.ws.ledger.read() as tx:
        state = tx.runs.get(again).state
    if state is not RunState.VERIFIED:
        raise AssertionError(f"a second run of {table} over the same days is {state}, and it would change nothing.")
    # From the files that readers see, and not from what the ledger says of them.
    derived = kit.ws.domain.derived_table(table)
    seen = kit.checksums(kit.visible(derived.name), table)
    _require_equal({p: seen[p] for p in partitions_in(kit, table, days) if p in seen}, once, table, "published")


def check_resumes_after_death(kit: DomainKit, table: str, days: Days) -> None:
    """A run that dies when a chunk's files are written and not recorded ends with the rows of one that does not die."""
    partitions = partitions_in(kit, table, days)
    if len(partitions) < 2:
        raise AssertionError(f"{in_days(days)} is one partition of {table}; two are needed for a run of two chunks.")
    clean = _staged(kit, kit.planned(table, days, mode=Mode.DRY_RUN))
    half = math.ceil(len(partitions) / 2)
    run_id = kit.planned(table, days, mode=Mode.DRY_RUN, chunk_partitions=half)
    derived = kit.ws.domain.derived_table(table)
    # Partitions that are computed together are one chunk, and snapshots after an equal one are not computed again.
    chunks = 2 if kit.ws.graph.table(derived.name).is_divisible else 1
    dying = replace(kit, ws=replace(kit.ws, reached=_Deaths(Point.STAGE_FILES_WRITTEN, at=chunks)))
    try:
        dying.stage(run_id)
    except _Died:
        pass
    else:
        raise AssertionError(f"the run of {table} was not computed in two chunks.")
    finally:
        dying.close()
    recover(kit.ws, by=kit.asks, only=run_id, now=True)
    _require_equal(_staged(kit, run_id), clean, table, "staged by a run that died and was resumed")


class _Died(BaseException):
    """Ends a run in the middle, as SIGKILL would: nothing that handles errors handles it."""


class _Deaths:
    """Ends what reaches a point for the so many'th time."""

    def __init__(self, point: Point, *, at: int) -> None:
        self._point, self._left = point, at

    def __call__(self, point: Point) -> None:
        if point is self._point:
            self._left -= 1
            if not self._left:
                raise _Died


def check_warm_up(kit: DomainKit, table: str, days: Days) -> None:
    """Warm-up is read and not published: rows depend on it, no further input changes them, and it is not in the output.

    The days before the first one have to be landed, further back than the window reaches.
    """
    derived = kit.ws.domain.derived_table(table)
    partitions = partitions_in(kit, table, days)
    staged = kit.stage(kit.planned(table, days, mode=Mode.DRY_RUN))
    if outside := set(staged) - derived.publish.completed(set(partitions), kit.accepted(table).keys):
        raise AssertionError(f"{table} staged {listed(outside)}, which was not asked for.")
    node = kit.ws.graph.table(derived.name)
    with_warm_up = [edge.argument for edge in node.inputs if edge.window.counts[0] > 0]
    if derived.state is not None or not with_warm_up:
        return
    inputs = kit.inputs(table)
    declared = kit.checksums(kit.compute(table, inputs, days), table)
    longer = kit.checksums(kit.compute(table, inputs, days, within_windows=False), table)
    _require_equal(longer, declared, table, "computed from all input, so that its window is too short:")
    first = partitions[0]
    without = {
        argument: frame.where(frame[derived.inputs[argument].partition.column] >= F.lit(first))
        if argument in with_warm_up
        else frame
        for argument, frame in inputs.items()
    }
    if kit.checksums(kit.compute(table, without, days), table) == declared:
        raise AssertionError(
            f"{table} has the same rows without its input before {first}: either its window reaches too far back, or "
            "the landed rows do not show what warm-up is for."
        )


def check_no_outside_effects(kit: DomainKit, table: str, days: Days) -> None:
    """The function of a table writes no file, starts no process and opens no connection, and no topic may have its rows
    unless the table declares so."""
    derived = kit.ws.domain.derived_table(table)
    inputs = kit.inputs(table)
    # Of a domain that was made in a test, functions can be in other modules than those of its package.
    with watched(kit.ws.domain.package, *(release.function.__module__ for release in derived.releases)) as found:
        try:
            kit.compute(table, inputs, days)
        except ContractBroken:
            # What it does outside says more than the refusal of it.
            if not found:
                raise
    if found:
        raise AssertionError(f"the function of {table} acts outside: {'; '.join(dict.fromkeys(found))}.")
    if derived.replay is not None:
        return
    if not kit.accepted(table):
        kit.published(table, days)
    try:
        plan_replay(kit.ws, ReplayAsked(subject=derived.name, into="a-topic"))
    except NotReplayable:
        return
    raise AssertionError(f"{table} declares no replay, and its rows may leave all the same.")


def check_totals(kit: DomainKit, table: str, *, rows: int, totals: Mapping[str, int | float | Decimal]) -> None:
    """Checks that readers see this many rows and these sums, every landed record is accounted for, and the audit
    agrees.

    Args:
        rows: The number of rows.
        totals: Sums by column, known from elsewhere, such as from the report of the source.
    """
    columns = business_schema(kit.ws.domain.table(table)).fieldNames()
    if unknown := sorted(totals.keys() - set(columns)):
        raise ValueError(f"{', '.join(unknown)} is expected, which {table} has not; it has {', '.join(columns)}.")
    found = kit.rows(table)
    wrong = [] if len(found) == rows else [f"{len(found)} rows, and not {rows}"]
    for column, total in totals.items():
        held = _sum(row[column] for row in found)
        equal = math.isclose(held, total, rel_tol=1e-9) if isinstance(held, float) else held == total
        if not equal:
            wrong.append(f"{held} in {column}, and not {total}")
    with kit.ws.ledger.read() as tx:
        landed = tx.imports.records()
    wrong += [f"counts of {each.import_id} that do not add up" for each in landed if not each.counts.reconciles]
    wrong += audit(kit.ws).problems
    if wrong:
        raise AssertionError(f"{table} has {'; '.join(wrong)}.")


def _sum(values: Iterator[Any]) -> Any:
    return sum((value for value in values if value is not None), start=0)


CHECKS: tuple[Check, ...] = (
    check_deterministic,
    check_staging_twice,
    check_resumes_after_death,
    check_warm_up,
    check_no_outside_effects,
)
"""All of these, for `pytest.mark.parametrize`."""


def _staged(kit: DomainKit, run_id: str) -> Mapping[date, str]:
    """Stages a run, and reads what it has written."""
    with kit.ws.ledger.read() as tx:
        table = tx.runs.get(run_id).manifest.table
    files = [candidate.files for candidate in kit.stage(run_id).values()]
    return kit.checksums(rows_of(kit.ws, kit.ws.domain.derived_table(table), files), table)


def _require_equal(found: Mapping[date, str], wanted: Mapping[date, str], table: str, how: str) -> None:
    if differ := [p for p in {*found, *wanted} if found.get(p) != wanted.get(p)]:
        raise AssertionError(f"{table} {how} has other rows on {listed(differ)}.")
