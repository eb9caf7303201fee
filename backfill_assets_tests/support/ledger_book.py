"""The domain of publish modes in a home of its own: entries land, and runs of its tables are taken as far as asked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.clock import Clock
from backfill_assets.core.settings import Settings
from backfill_assets.domain import AddsOnly, DeclaredChange, DerivedTable, Domain, Merged
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.ledger.records import PublicationRecord
from backfill_assets.ledger.states import ApprovalState, RunState
from backfill_assets.planning.manifest_parts import Mode
from backfill_assets.planning.request import PlanRequest
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.shop import shop_environment

JOURNAL, TOTALS, ENTRIES = "silver.journal", "gold.totals", "bronze.entries"
FIRST = date(2026, 1, 1)


def entry(
    day: date, account: str, amount: int = 10, *, version: int = 1, gone: bool = False, name: str = ""
) -> Mapping[str, Any]:
    """An entry at noon of a day."""
    return {
        "entry_id": name or f"{account}-{day}-{version}",
        "at": f"{day}T12:00:00Z",
        "account": account,
        "amount": amount,
        "version": version,
        "gone": gone,
    }


@dataclass(frozen=True, kw_only=True)
class Book:
    """The domain with its workspace."""

    ws: Workspace

    def land(self, name: str, entries: Iterable[Mapping[str, Any]]) -> None:
        """Lands entries and builds the days that they touch."""
        path = self.ws.settings.home / f"{name}.jsonl"
        path.write_text("".join(json.dumps(each) + "\n" for each in entries), encoding="utf-8")
        operations.land(self.ws, ENTRIES, path, on_duplicate=OnDuplicate.IGNORE, by="ana")
        run = operations.plan_load(self.ws, ENTRIES, partitions=None, by="ana", reason="landed")
        assert run is not None
        self.through(run.run_id)

    def planned(
        self, table: str, days: Iterable[date], *, mode: Mode = Mode.BACKFILL, version: str | None = None
    ) -> str:
        """A run over some days of a table, possibly with gaps."""
        some = tuple(sorted(days))
        request = PlanRequest(
            table=table,
            days=DayRange.inclusive(some[0], some[-1]),
            partitions=some,
            reason="why not",
            by="ana",
            mode=mode,
            transform_version=version,
        )
        return operations.plan(self.ws, request).manifest.run_id

    def gated(self, run_id: str) -> RunState:
        """Stages and gates a run, and approves it if it passed; returns its state."""
        operations.stage(self.ws, run_id, actor="ana")
        operations.gate(self.ws, run_id, actor="ana")
        run = operations.run_named(self.ws, run_id)
        if run.state is RunState.PASSED and run.manifest.inputs and run.approval is ApprovalState.DRAFT:
            operations.approve(self.ws, run_id, by="ben")
        return run.state

    def through(self, run_id: str) -> PublicationRecord:
        """Takes a run all the way."""
        assert self.gated(run_id) is RunState.PASSED
        return operations.publish(self.ws, run_id, by="ben")

    def published(self, table: str, days: Iterable[date]) -> str:
        """A run that readers see."""
        run_id = self.planned(table, days)
        self.through(run_id)
        return run_id

    def rows(self, table: str, columns: Iterable[str]) -> list[tuple[Any, ...]]:
        """What readers see, in order."""
        if not self.ws.lake.exists(table):
            return []
        named = list(columns)
        found = self.ws.lake.open(table).to_pyarrow_table(columns=named).to_pylist()
        return sorted(tuple(row[name] for name in named) for row in found)


def declared_as(domain: Domain, name: str, mode: DeclaredChange) -> Domain:
    """The domain with another publish mode of a table."""
    derived: dict[str, DerivedTable] = {}
    for table in domain.derived:
        inputs = {argument: derived.get(read.name, read) for argument, read in table.inputs.items()}
        own = mode if table.name == name else table.publish
        gates = tuple(gate for gate in table.gates if not isinstance(gate, AddsOnly | Merged))
        derived[table.name] = replace(table, inputs=inputs, publish=own, gates=gates)
    return replace(domain, derived=tuple(derived.values()))


def open_book(home: Path, *, clock: Clock, spark: SparkSession) -> Book:
    """The domain in a home."""
    environment = {**shop_environment(home), "BACKFILL_DOMAIN": "backfill_assets_tests.domains.modes"}
    settings = Settings.from_environment(environment)
    home.mkdir(parents=True, exist_ok=True)
    return Book(ws=Workspace.open(settings, clock=clock, open_session=lambda: spark))
