"""Merging changes gives what a model in pandas gives: rows of keys, their days, and what is refused."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any, cast

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, StructField, StructType

from backfill_assets.candidates.compute import MergedRows
from backfill_assets.core.columns import RUN_ID
from backfill_assets.core.identity import EMPTY_FILE_SET
from backfill_assets.domain import DerivedTable
from backfill_assets.planning.kinds.merge import Merge
from backfill_assets.planning.manifest import MERGED_WITH
from backfill_assets_tests.domains.modes import accounts, balances
from backfill_assets_tests.support.merge_model import COLUMNS, MergedByHand, as_rows, merged_by_hand
from backfill_assets_tests.unit.planning.test_manifest import MANIFEST

EARLIER = "the run that computed what is accepted"
FIRST = date(2026, 1, 1)
DAYS = [FIRST + timedelta(days=n) for n in range(4)]
CHANGES = StructType([*accounts.schema.fields, StructField("gone", BooleanType())])
BETWEEN = timedelta(days=10)
"""Between the days of two worlds."""
Row = tuple[date, str, int, int]


def merge_of(table: DerivedTable) -> Merge:
    """The merge that a table declares."""
    assert isinstance(table.publish, Merge)
    return table.publish


keeping_accounts, keeping_balances = (
    replace(table, publish=replace(merge_of(table), keeps_withdrawn=True)) for table in (accounts, balances)
)


@dataclass(frozen=True, kw_only=True)
class InMemory(MergedRows):
    """A merge whose accepted rows are in memory."""

    held: DataFrame

    def _accepted(self, *, inside: bool) -> DataFrame:
        is_inside = self.held["day"].isin(list(self.partitions))
        return self.held.where(is_inside if inside else ~is_inside)


@dataclass(frozen=True, kw_only=True)
class World:
    """Rows and changes that share neither days nor keys with those of other worlds, merged by hand."""

    seed: int
    days: frozenset[date]
    accepted: list[Row]
    changes: list[tuple[Any, ...]]
    run: list[date]
    by_hand: MergedByHand


def drawn(seed: int, table: DerivedTable, *, place: int) -> World:
    """Accepted rows with unique keys, changes, and the partitions of a run."""
    choose = random.Random(seed)
    days = [day + place * BETWEEN for day in DAYS]
    named = [f"account {n} of {place}" for n in range(6)]
    keys = [(day, name) for day in days for name in named]
    if merge_of(table).keys_move:
        keys = [(choose.choice(days), name) for name in named]
    accepted = [(day, name, choose.randint(1, 3), choose.randint(1, 3)) for day, name in keys if choose.random() < 0.6]
    run = sorted(choose.sample(days, choose.randint(1, len(days))))
    changes = [
        (choose.choice(run), choose.choice(named), choose.randint(1, 3), choose.randint(1, 5), choose.random() < 0.3)
        for _ in range(choose.randint(0, 5))
    ]
    by_hand = merged_by_hand(
        accepted,
        days,
        pd.DataFrame(changes, columns=[*COLUMNS, "gone"]).astype({"gone": bool}),
        run,
        on=merge_of(table).on,
        ignores=merge_of(table).older == "ignore",
        keeps=merge_of(table).keeps_withdrawn,
    )
    return World(seed=seed, days=frozenset(days), accepted=accepted, changes=changes, run=run, by_hand=by_hand)


def merging(spark: SparkSession, table: DerivedTable, *worlds: World) -> InMemory:
    """One merge of everything in some worlds."""
    accepted = [row for world in worlds for row in world.accepted]
    changes = [change for world in worlds for change in world.changes]
    return InMemory(
        ws=cast(Any, None),
        manifest=MANIFEST,
        change=merge_of(table),
        table=table,
        partitions=[day for world in worlds for day in world.run],
        files={MERGED_WITH: {day: EMPTY_FILE_SET for world in worlds for day in world.days}},
        changes=spark.createDataFrame(changes, CHANGES),
        held=spark.createDataFrame(accepted, table.schema).withColumn(RUN_ID, F.lit(EARLIER)),
    )


def require_equal(spark: SparkSession, seeds: Iterable[int], table: DerivedTable) -> list[bool]:
    """Merges the worlds of some seeds in one, which Spark plans once, and compares each with its own."""
    worlds = [drawn(seed, table, place=place) for place, seed in enumerate(seeds)]
    merge = merging(spark, table, *worlds)
    staged = merge.rows().cache()
    measured = merge.measured(staged)
    rows = as_rows(staged.toPandas())
    staged.unpersist()
    assert {row[0] for row in rows} <= {day for world in worlds for day in world.run}
    assert measured.keys() == {day for world in worlds for day in world.run}
    for world in worlds:
        seed, by_hand = world.seed, world.by_hand
        found = [
            replace(each, elsewhere=tuple(other for other in each.elsewhere if other in world.days))
            for day, each in measured.items()
            if day in world.days
        ]
        assert [row for row in rows if row[0] in world.days] == by_hand.rows, seed
        assert {day for each in found for day in each.elsewhere} == by_hand.elsewhere, seed
        assert sum(each.taken_back for each in found) == by_hand.taken_back, seed
        assert any(each.twice for each in found) == by_hand.twice, seed
        assert any(each.older for each in found) == by_hand.older, seed
        assert not any(each.others_differ or each.undecided for each in found), seed
        assert all(each.holds for each in found) != by_hand.is_refused, seed
    return [world.by_hand.is_refused for world in worlds]


def test_merged_rows_are_those_of_a_model_whether_keys_move_or_stay(spark: SparkSession) -> None:
    assert merge_of(accounts).keys_move and not merge_of(balances).keys_move
    for table in (accounts, keeping_balances):
        assert set(require_equal(spark, range(20), table)) == {True, False}


def test_a_kept_row_that_no_change_names_goes_on_naming_the_run_that_computed_it(spark: SparkSession) -> None:
    merge = merging(spark, keeping_balances, drawn(1, keeping_balances, place=0))
    changed = {(row.day, row.account) for row in merge.named().collect()}
    made_by = {(row.day, row.account): row[RUN_ID] for row in merge.rows().collect()}
    assert made_by == {key: MANIFEST.run_id if key in changed else EARLIER for key in made_by}
    assert set(made_by.values()) == {MANIFEST.run_id, EARLIER}


@pytest.mark.long
@pytest.mark.parametrize(
    "table",
    [accounts, balances, keeping_accounts, keeping_balances],
    ids=["keys move", "keys stay", "keys move, rows are kept", "keys stay, rows are kept"],
)
def test_merged_rows_are_those_of_a_model_for_many_seeds(spark: SparkSession, table: DerivedTable) -> None:
    refused = [each for first in range(100, 300, 20) for each in require_equal(spark, range(first, first + 20), table)]
    assert 20 < sum(refused) < 180


@pytest.mark.long
def test_a_kept_row_that_no_change_names_and_that_differs_is_found(spark: SparkSession) -> None:
    for seed in range(20):
        world = drawn(seed, keeping_accounts, place=0)
        merge, by_hand = merging(spark, keeping_accounts, world), world.by_hand
        named = {row.account for row in merge.named().collect()}
        others = [row for row in by_hand.rows if row[1] not in named]
        if others:
            break
    day, account, amount, version = others[0]
    lost = spark.createDataFrame([row for row in by_hand.rows if row != others[0]], accounts.schema)
    other = spark.createDataFrame([(day, account, amount + 1, version)], accounts.schema).unionByName(lost)
    for staged in (lost, other):
        found = merge.measured(staged)
        assert [partition for partition, each in found.items() if each.others_differ] == [day]
        assert not found[day].holds


@pytest.mark.long
def test_a_change_without_a_partition_is_undecided_and_never_left_out(spark: SparkSession) -> None:
    world = replace(drawn(0, accounts, place=0), changes=[(FIRST, "account 0 of 0", 1, 9, True)])
    merge = merging(spark, accounts, world)
    merge = replace(merge, changes=merge.changes.withColumn("day", F.lit(None).cast("date")))
    found = merge.measured(merge.rows())
    assert [each.undecided for each in found.values()] == [1, *[0] * (len(world.run) - 1)]
    assert not found[world.run[0]].holds
