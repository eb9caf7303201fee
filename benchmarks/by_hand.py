"""B9: the deadlines of the traffic fines in one statement of DuckDB, written by hand: the distance to the hardware.

It reads the files that the bare script reads, and writes the same folders. What is small and comes from references
(what each event does to each clock, and the numbered days) is given to it. Before anything is said about time, its rows
are compared with those of the bare script: none may be left over on either side. DuckDB is in no requirement of the
project: `tools/setup.sh readers` fetches it for tests.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from figures import Figure, Watch, in_turns, ratio
from restatements import bare

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.examples.enforcement_sla.references import DeadlineRules
from backfill_assets.examples.enforcement_sla.sla_clocks import days_that_a_row_needs
from backfill_assets.examples.kafka_broker import cache
from backfill_assets.workspace import Workspace

SCRIPT, BY_HAND = "bare script", "DuckDB, by hand"
PYTHON = cache() / "readers" / "bin" / "python"


def measure(ws: Workspace, table: str, days: DayRange, version: str, *, rounds: int) -> Sequence[Figure]:
    """The bare script against the statement, in turns; nothing where DuckDB is not there."""
    if not PYTHON.exists():
        print("B9 IS NOT MEASURED: DuckDB is not there (`tools/setup.sh readers` fetches it)", flush=True)
        return []
    watch, folder = Watch(), ws.settings.home / "by_hand"
    asked = _asked(ws, table, days, folder)

    def by_hand() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        taken = _done(asked)["seconds"]
        watch.seconds.setdefault(BY_HAND, []).append(taken)
        print(f"{taken:8.2f} s  {BY_HAND}", flush=True)

    in_turns(rounds, lambda: bare(ws, watch, table, days, version, SCRIPT), by_hand)
    found = _done({"compared": [str(folder), str(ws.settings.home / "bare")]})
    if found["left_over"] or not found["rows"]:
        raise RuntimeError(f"the statement by hand makes other rows than the transform: {found}")
    return [ratio("B9", watch, SCRIPT, BY_HAND)]


def _asked(ws: Workspace, table: str, days: DayRange, folder: Path) -> dict[str, Any]:
    """What the statement is given."""
    references = {name: loaded.value for name, loaded in ws.references.items()}
    rules = DeadlineRules.from_references(references)
    ((argument, source),) = ws.domain.derived_table(table).inputs.items()
    read = days_that_a_row_needs(references).around(days)
    with ws.ledger.read() as reader:
        versions = reader.versions.accepted(source.name, list(read))
    root = ws.lake.place(source.name)
    return {
        argument: [str(root / path) for version in versions.values() for path in version.files.paths],
        "folder": str(folder),
        "zones": [[entry.name, entry.timezone] for entry in rules.calendar.jurisdictions],
        "roles": [
            [
                *(clock.jurisdiction, event_type, clock.name, clock.day_kind.value, clock.limit_days),
                *(clock.tracked_days, event_type in clock.starts_on, event_type in clock.stops_on),
                event_type in clock.pauses_on if event_type in clock.pauses_on | clock.resumes_on else None,
            ]
            for clock in rules.policy.clocks
            for event_type in sorted(clock.event_types)
        ],
        "days": [
            [day.jurisdiction, day.day_kind.value, day.day.isoformat(), day.is_countable, day.days_counted]
            for day in rules.countable_days(read.start, days.last)
        ],
        "output": [days.start.isoformat(), days.last.isoformat()],
    }


def _done(asked: dict[str, Any]) -> dict[str, Any]:
    script = Path(__file__).parent / "in_duckdb" / "statement.py"
    done = subprocess.run([PYTHON, str(script)], input=json.dumps(asked), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    sys.stderr.write(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found
