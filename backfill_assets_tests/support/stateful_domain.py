"""A domain that keeps state over what happens to cases, in a home: moves land, and runs are taken as far as asked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.settings import Settings
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.ledger.records import PublicationRecord
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.request import Plan, PlanRequest
from backfill_assets.planning.restatement import PlannedSet, SetRequest
from backfill_assets.report.words.verdicts import verdict_words
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.shop import shop_environment, ticking_clock

CASES = "silver.open_cases"
JANUARY = date(2026, 1, 1)


def move(day: date, case: str, amount: int = 10, *, closes: bool = False, name: str = "") -> Mapping[str, Any]:
    """Something that happens to a case at noon of a day."""
    return {
        "move_id": name or f"{case}-{day}",
        "at": f"{day}T12:00:00Z",
        "case_id": case,
        "amount": amount,
        "closes": int(closes),
    }


@dataclass(frozen=True, kw_only=True)
class StatefulDomain:
    """The domain in a home."""

    ws: Workspace
    table: str = CASES

    def land(self, name: str, moves: Iterable[Mapping[str, Any]]) -> None:
        path = self.ws.settings.home / f"{name}.jsonl"
        path.write_text("".join(json.dumps(each) + "\n" for each in moves), encoding="utf-8")
        operations.land(self.ws, "moves", path, on_duplicate=OnDuplicate.IGNORE, by="ana")
        run = operations.plan_load(self.ws, "moves", partitions=None, by="ana", reason="landed")
        assert run is not None
        operations.stage(self.ws, run.run_id, actor="ana")
        operations.gate(self.ws, run.run_id, actor="ana")
        operations.publish(self.ws, run.run_id, by="ana")

    def planned(self, first: date, last: date, *, table: str | None = None, version: str | None = None) -> Plan:
        days = DayRange.inclusive(first, last)
        return operations.plan(
            self.ws,
            PlanRequest(table=table or self.table, days=days, reason="why not", by="ana", transform_version=version),
        )

    def gated(self, run_id: str) -> RunState:
        operations.stage(self.ws, run_id, actor="ana")
        operations.gate(self.ws, run_id, actor="ana")
        return operations.state_of(self.ws, run_id)

    def through(self, planned: Plan) -> PublicationRecord:
        run_id = planned.manifest.run_id
        assert self.gated(run_id) is RunState.PASSED
        operations.approve(self.ws, run_id, by="ben")
        return operations.publish(self.ws, run_id, by="ben")

    def restated(self) -> tuple[PlannedSet, list[PublicationRecord]]:
        """Everything stale, published."""
        planned = operations.plan_set(self.ws, SetRequest(reason="late", by="ana", stale=True))
        assert isinstance(planned, PlannedSet)
        for member in planned.manifest.members:
            assert self.gated(member.run_id) is RunState.PASSED
        operations.approve(self.ws, planned.manifest.set_id, by="ben")
        operations.publish_set(self.ws, planned.manifest.set_id, by="ben")
        with self.ws.ledger.read() as tx:
            records = [tx.publications.records(run_id=m.run_id)[-1] for m in planned.manifest.members]
        return planned, records

    def checksums(self) -> Mapping[date, str]:
        with self.ws.ledger.read() as tx:
            return {day: version.checksum for day, version in tx.versions.accepted(self.table).items()}

    def rows(self, table: str | None = None) -> list[tuple[Any, ...]]:
        """What readers see of a table, without the columns that name its runs."""
        named = table or self.table
        columns = self.ws.domain.derived_table(named).schema.fieldNames()
        found = self.ws.lake.open(named).to_pyarrow_table(columns=columns).to_pylist()
        return sorted(tuple(row.values()) for row in found)

    def verdict(self, run_id: str) -> str:
        with self.ws.ledger.read() as tx:
            found = [each for each in tx.candidates.gate_results(run_id) if each.gate == "same_state"]
        (said,) = {verdict_words(each) for each in found}
        return said


def open_stateful_domain(
    home: Path,
    spark: SparkSession,
    *,
    first_day: date = JANUARY,
    domain: str = "states",
    table: str = CASES,
    ledger_url: str | None = None,
) -> StatefulDomain:
    environment = {
        **shop_environment(home),
        "BACKFILL_DOMAIN": f"backfill_assets_tests.domains.{domain}",
        "BACKFILL_FIRST_DAY": str(first_day),
        **({"BACKFILL_LEDGER_URL": ledger_url} if ledger_url else {}),
    }
    home.mkdir(parents=True, exist_ok=True)
    clock = ticking_clock(datetime(2026, 6, 1, 12, tzinfo=UTC))
    settings = Settings.from_environment(environment)
    return StatefulDomain(ws=Workspace.open(settings, clock=clock, open_session=lambda: spark), table=table)
