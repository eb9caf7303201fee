"""B2: publications and rollbacks of many partitions, against a Delta overwrite of the same days."""

from __future__ import annotations

from collections.abc import Sequence

from deltalake import write_deltalake
from figures import Figure, Watch, in_turns, ratio
from restatements import governed, planned
from small_world import SILVER, World, output

from backfill_assets_tests.support import operations

FEW, MANY = 1, 100
"""Rows of a day; a publication must not depend on them."""

GOAL_365_S = 0.05


def measure(world: World, *, partitions: Sequence[int], rounds: int) -> Sequence[Figure]:
    """The figures for each number of partitions, with few and with many rows in each."""
    figures: list[Figure] = []
    for count in partitions:
        watch = Watch()
        for rows in (FEW, MANY):
            _published(world, watch, count, rows, rounds)
        for act in ("publish", "roll back"):
            few, many = (f"{act} {count} partitions of {rows} rows" for rows in (FEW, MANY))
            goal = GOAL_365_S if count == 365 else None
            figures.append(Figure(name="B2", what=few, measured=watch.seconds[few], goal=goal))
            figures.append(ratio("B2", watch, many, few))
            figures.append(ratio("B2", watch, few, f"Delta overwrites {count} partitions of {FEW} rows"))
    return figures


def _published(world: World, watch: Watch, count: int, rows: int, rounds: int) -> None:
    with world.home(f"publications-{count}-{rows}", days=count, items=lambda _: rows) as ws:
        of = f"{count} partitions of {rows} rows"
        governed(ws, Watch(), planned(ws, SILVER, output(count), "1.0.0"), "first")
        run_id = planned(ws, SILVER, output(count), "3.0.0")
        operations.stage(ws, run_id, actor="ana")
        operations.gate(ws, run_id, actor="ana")
        staged = ws.lake.open(SILVER).to_pyarrow_table()
        target = ws.settings.home / "bare-delta"
        write_deltalake(target, staged, partition_by=["day"])

        def publish() -> None:
            with watch.on(f"publish {of}"):
                operations.publish(ws, run_id, by="ben")
            with watch.on(f"roll back {of}"):
                operations.rollback(ws, run_id, by="ben", reason="next round")
            operations.approve(ws, run_id, by="ben")

        def overwrite() -> None:
            with watch.on(f"Delta overwrites {of}"):
                write_deltalake(target, staged, mode="overwrite", predicate="day >= '2015-01-01'")

        in_turns(rounds, publish, overwrite)
