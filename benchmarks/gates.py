"""B15: what gates cost, each as a share of the run that they judge: the quarter of the traffic fines.

    .venv/bin/python benchmarks/gates.py FOLDER [ROUNDS]      # with events.parquet and reference/ of the traffic fines

The quarter is restated once, with the gates of the example, in which the shares of its steps are read. Then each other
gate is asked of the staged rows, in turns, and all of them together in one query. Gates on single rows are part of the
one pass over the candidate: it is timed without any, with those of the example, and with twenty more.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import restatements
from figures import Watch
from restatements import governed, planned
from traffic_fines import BRONZE, SILVER, SPANS, settings_of

from backfill_assets.candidates.failing_rows import counted, measuring_run
from backfill_assets.candidates.rows import rows_of
from backfill_assets.core.clock import system_clock
from backfill_assets.domain import (
    DerivedTable,
    Failing,
    Reference,
    complete,
    control_totals,
    expression,
    failing,
    golden,
    joins_once,
    known_rows,
    monotonic,
    reads,
    reconciles,
    references,
    totals,
)
from backfill_assets.examples.enforcement_sla import DOMAIN
from backfill_assets.examples.enforcement_sla.active_cases import active_cases
from backfill_assets.examples.enforcement_sla.sources import case_events
from backfill_assets.gates.measure import contents
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.transforms.schemas import business_schema
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support import operations

OF_THE_EXAMPLE = ("jurisdiction_calendar", "sla_policy")
GATES: Mapping[str, Failing] = {
    "failing (SQL over the candidate)": failing("negative", sql="SELECT * FROM candidate WHERE elapsed_days < 0"),
    "complete (active cases)": complete(
        of=active_cases, key=("case_id", "clock"), references=OF_THE_EXAMPLE, name="every_active_case"
    ),
    "references": references("case_id", to=reads(case_events, days_back=61, days_ahead=1), optional=True),
    "reconciles": reconciles("1", of="events", by=("jurisdiction",)),
    "joins_once": joins_once("events", on="case_id"),
    "monotonic": monotonic("elapsed_days", over="business_date"),
    "golden (1,000 rows)": golden("known_rows"),
    "totals": totals("control_totals", by=("jurisdiction",), sums=("elapsed_days",), every_partition=False),
}


def written_references(folder: Path, days: list[str]) -> None:
    """A thousand known rows, and totals of every day."""
    rows = "".join(
        f"  - {{business_date: {days[n % len(days)]}, case_id: A{n}, clock: payment, elapsed_days: {n}}}\n"
        for n in range(1_000)
    )
    (folder / "known_rows.yaml").write_text(f'version: "1"\nrows:\n{rows}', encoding="utf-8")
    of_days = "".join(f"  - {{business_date: {day}, jurisdiction: IT, rows: 1, elapsed_days: 1}}\n" for day in days)
    (folder / "control_totals.yaml").write_text(f'version: "1"\ntotals:\n{of_days}', encoding="utf-8")


def seconds(act: Callable[[], object]) -> float:
    """How long an act takes."""
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def main(log: Path, rounds: int, home: Path) -> None:
    """Prints the shares."""
    days, _ = SPANS["quarter"]
    settings = settings_of(home, log)
    written_references(home / "reference", [str(day) for day in days])
    known = (
        Reference(name="known_rows", parse=known_rows),
        Reference(name="control_totals", parse=control_totals),
    )
    ws = replace(
        Workspace.open(settings, clock=system_clock), domain=replace(DOMAIN, references=(*DOMAIN.references, *known))
    )
    watch, whole = Watch(), "restated"
    restatements.STEPS = (*restatements.STEPS, "counted", "as_usual")
    operations.land(ws, BRONZE, log / "events.parquet", on_duplicate=OnDuplicate.IGNORE, by="ana")
    load = operations.plan_load(ws, BRONZE, partitions=None, by="ana", reason="benchmark")
    assert load is not None
    governed(ws, watch, load.run_id, "loaded")
    governed(ws, watch, planned(ws, SILVER, days, "2.4.1"), "published")
    run_id = planned(ws, SILVER, days, "3.1.0")
    governed(ws, watch, run_id, whole)
    run = watch.seconds[whole][0]
    with ws.ledger.read() as tx:
        manifest = tx.runs.get(run_id).manifest
        files = [each.files for each in tx.candidates.of_run(run_id).values()]
    table = ws.domain.derived_table("case_sla_daily")
    print(f"\nthe run: {run:.1f} s, {sum(each.rows for each in files):,} rows of {len(files)} days")
    for name in sorted(name for name in watch.seconds if name.startswith(f"{whole}: ")):
        print(f"{watch.seconds[name][0] / run:8.1%}  {name.removeprefix(f'{whole}: ')}")

    def asked(*gates: Failing) -> float:
        def ask() -> None:
            candidate = rows_of(ws, table, files)
            work = measuring_run(ws, manifest, table, gates, candidate=lambda: candidate, accepted=lambda: candidate)
            assert work is not None
            counted(work)

        return seconds(ask)

    def measured(of: DerivedTable) -> float:
        return seconds(lambda: contents(rows_of(ws, of, files), of, schema=business_schema(of), breakdown=of.breakdown))

    more = tuple(expression(f"more_{n}", f"elapsed_days > -{n + 1}") for n in range(20))
    no_rows = tuple(gate for gate in table.gates if type(gate).__name__ not in ("RowExpression", "AcceptedValues"))
    acts: dict[str, Callable[[], float]] = {name: (lambda gate=gate: asked(gate)) for name, gate in GATES.items()}  # type: ignore[misc]
    acts["all of these in one query"] = lambda: asked(*GATES.values())
    acts["one pass, without gates on rows"] = lambda: measured(replace(table, gates=no_rows))
    acts["one pass, with the example's"] = lambda: measured(table)
    acts["one pass, with twenty more"] = lambda: measured(replace(table, gates=(*table.gates, *more)))
    took: dict[str, list[float]] = {name: [] for name in acts}
    for number in range(rounds + 1):
        for name, act in acts.items():
            found = act()
            if number:  # The first round warms up.
                took[name].append(found)
    for name, each in took.items():
        print(f"{statistics.median(each) / run:8.1%}  {statistics.median(each):6.2f} s  {name}")
    ws.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 3, Path(folder) / "home")
