"""What every kind of gate finds of rows with many defects, measured where the environment of a process computes.

`python -m backfill_assets_tests.support.gated_there HOME` prints it as JSON, for a home of `domains.judged`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backfill_assets.testing import DomainKit
from backfill_assets_tests.domains.judged import an_order, judged_by, opened, rows_that_fail
from backfill_assets_tests.domains.judged.every_gate import DOCUMENTS, EVERY_GATE, REFERENCES

BEFORE, RESTATED, FAR = "2026-01-01..2026-01-05", "2026-01-03..2026-01-04", "2026-01-06"
FAR_ORDERS = 40
"""So many orders has a day that is far from the usual."""


def gated(home: Path, settings: Mapping[str, str] | None = None) -> Mapping[str, Any]:
    """Of a release that is wrong, and of a day far from the usual: each verdict, row that fails and version read."""
    before = opened(judged_by(), home, settings)
    before.land("orders", [an_order(6, 1, order_id=f"o-6-{number}") for number in range(FAR_ORDERS)], name="far.jsonl")
    before.published("order_totals", BEFORE)
    folder = home / "reference"
    folder.mkdir(exist_ok=True)
    for name, document in DOCUMENTS.items():
        (folder / f"{name}.yaml").write_text(document, encoding="utf-8")
    kit = opened(judged_by(*EVERY_GATE, references=REFERENCES), home, settings)
    found = {"wrong": _found(kit, RESTATED, "all"), "far": _found(kit, FAR)}
    kit.close()
    return found


def _found(kit: DomainKit, days: str, version: str | None = None) -> Mapping[str, Any]:
    run_id = kit.planned("order_totals", days, version=version)
    kit.stage(run_id)
    kit.gate(run_id)
    with kit.ws.ledger.read() as tx:
        results = tx.candidates.gate_results(run_id)
        read = tx.candidates.read_by_gates(run_id)
    return {
        "verdicts": sorted([str(r.partition), r.gate, r.passed, json.dumps(dict(r.observed))] for r in results),
        "rows": [list(row) for row in rows_that_fail(kit, run_id)],
        "read": [
            [each.gate, pinned.table, str(pin.partition), pin.version]
            for each in read
            for pinned in each.inputs
            for pin in pinned.partitions
        ],
    }


if __name__ == "__main__":
    computing = {name: value for name, value in os.environ.items() if name.startswith("BACKFILL_SPARK_")}
    sys.stdout.write(json.dumps(gated(Path(sys.argv[1]), computing)))
