"""The restatement of some days of the traffic fines in a process of its own, wherever its environment computes it.

    python -m backfill_assets_tests.support.one_restatement EVENTS FIRST LAST

Lands the events, builds their days, publishes silver with the defective release and restates it with the corrected one;
what came out is a JSON document on standard output, with nothing in it that may differ from place to place.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import date
from pathlib import Path
from typing import Any

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.clock import system_clock
from backfill_assets.core.identity import plain
from backfill_assets.core.settings import Settings
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.planning.request import PlanRequest
from backfill_assets.upkeep.audit import audit
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support import operations

BRONZE, SILVER = "bronze.case_events", "silver.case_sla_daily"
RELEASES = ("2.4.1", "3.1.0")


def restated(ws: Workspace, events: Path, days: DayRange) -> dict[str, Any]:
    """What each run of the story staged and found, by partition, and what the audit says in the end."""
    operations.land(ws, BRONZE, events, on_duplicate=OnDuplicate.IGNORE, by="ana")
    load = operations.plan_load(ws, BRONZE, partitions=None, by="ana", reason="the log")
    assert load is not None
    found = {"load": _published(ws, load.run_id)}
    for release in RELEASES:
        request = PlanRequest(table=SILVER, days=days, reason="deadlines", by="ana", transform_version=release)
        run_id = operations.plan(ws, request).manifest.run_id
        operations.approve(ws, run_id, by="ben")
        found[release] = _published(ws, run_id)
    return {**found, "problems": list(audit(ws).problems)}


def _published(ws: Workspace, run_id: str) -> dict[str, Any]:
    operations.stage(ws, run_id, actor="ana")
    gated = operations.gate(ws, run_id, actor="ana")
    operations.publish(ws, run_id, by="ben")
    with ws.ledger.read() as tx:
        table = tx.runs.get(run_id).manifest.table
        rows = {str(day): version.rows for day, version in tx.versions.accepted(table).items()}
        checksums = {str(day): version.checksum for day, version in tx.versions.accepted(table).items()}
    gates = sorted([str(r.partition), r.gate, r.passed, dict(r.observed)] for r in gated.results)
    sample = plain(gated.sample)
    return {"rows": rows, "checksums": checksums, "gates": gates, "sample": sample}


def main() -> None:
    """Does it for the environment and the arguments of the process."""
    events, first, last = sys.argv[1:]
    days = DayRange.inclusive(date.fromisoformat(first), date.fromisoformat(last))
    ws = Workspace.open(Settings.from_environment(os.environ), clock=system_clock)
    try:
        sys.stdout.write(json.dumps(restated(ws, Path(events), days)) + "\n")
    finally:
        ws.close()


if __name__ == "__main__":
    main()
