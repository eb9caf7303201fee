"""What is a scenario, and what do all of them share?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from backfill_assets.core.crash_points import Point
from backfill_assets.ledger.imports import KeyCounts
from backfill_assets.ledger.states import COUNTING, RunState
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.month import TOTALS
from backfill_assets_tests.support.shop import RECENT, SALES, Shop

Notes = Mapping[str, str]
"""What a scenario's preparation leaves for those who act: ids of runs and sets, paths."""

TABLES = (SALES, RECENT, TOTALS)
_OF_A_FEED = ("_operation", "_ended_by")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One operation that is killed."""

    name: str
    #: The home it begins from: `published` (January, in silver), `month` (February, in silver and gold), `feed`
    #: (January from a change feed, in silver) or `peaks` (snapshots of January, in silver).
    home: str
    prepare: Callable[[Shop], Notes]  #: Brings the home to where the operation begins.
    act: Callable[[Workspace, Notes], object]  #: The operation; it runs in a process that is killed.
    #: Does what is still to be done, whatever was done before; it can be called at any time.
    finish: Callable[[Shop, Notes], object]
    needs_spark: bool = False  #: Whether acting starts Spark, which costs seconds.


class Stopped(BaseException):
    """Ends an operation of the preparation at a place, as a kill would."""


def stopping_at(ws: Workspace, at: Point) -> Workspace:
    """A workspace whose process stops at a place."""

    def reached(point: Point) -> None:
        if point is at:
            raise Stopped

    return replace(ws, reached=reached)


def published(shop: Shop, notes: Notes) -> None:
    """Takes a run from wherever it is to its publication."""
    run_id = notes["run"]
    run = operations.run_named(shop.ws, run_id)
    if run.state in (RunState.PLANNED, RunState.STAGING, RunState.FAILED, RunState.BLOCKED):
        operations.stage(shop.ws, run_id, actor="ana")
    if operations.state_of(shop.ws, run_id) in (RunState.STAGED, RunState.GATING):
        operations.gate(shop.ws, run_id, actor="ana")
    if operations.state_of(shop.ws, run_id) in (RunState.PASSED, RunState.ROLLED_BACK):
        operations.publish(shop.ws, run_id, by="ben")


def seen(shop: Shop) -> Mapping[str, Any]:
    """What readers see: which table of recent sales, and the amount of every day and month."""
    with shop.ws.ledger.read() as reader:
        found: dict[str, Any] = {"shown": reader.acts.shown(RECENT)}
    for table in TABLES:
        if shop.ws.lake.exists(table):
            rows = shop.ws.lake.open(table).to_pyarrow_table().to_pylist()
            column = shop.ws.domain.table(table).partition.column
            found[table] = sorted(
                (str(row[column]), *(str(row.get(name)) for name in ("sale_id", "amount", *_OF_A_FEED))) for row in rows
            )
    return found


def held(shop: Shop) -> Mapping[str, Any]:
    """What the ledger holds as accepted: content checksums, which do not depend on attempts, file names or times; and
    what became of the records and keys of all that landed, and of the days that they touch, of what was captured, and
    of what was replayed."""
    with shop.ws.ledger.read() as reader:
        accepted = {
            table: [
                (str(day), version.checksum, version.rows) for day, version in reader.versions.accepted(table).items()
            ]
            for table in TABLES
        }
        landed = reader.imports.records(SALES, COUNTING)
        captured = [(f.partition, f.range_from, f.range_to, f.sha256, f.records) for f in reader.captures.files(SALES)]
        replayed = [(each.subject, each.state, each.sent) for each in reader.replays.records()]
        days = {r.import_id: [replace(day, import_id="") for day in reader.imports.days([r.import_id])] for r in landed}
    return {
        **accepted,
        "landed": [(Path(r.original_path).name, r.state, r.counts, r.keys, days[r.import_id]) for r in landed],
        "keys": sum((r.keys for r in landed), KeyCounts()),
        "captured": captured,
        "replayed": replayed,
    }
