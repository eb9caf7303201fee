"""A home with sales and their sums by day, whose contract is edited while it is in use."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.candidates.rows import rows_of
from backfill_assets.domain import Domain
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.ledger.imports import ImportRecord
from backfill_assets.planning.manifest_parts import Cause
from backfill_assets.planning.request import PlanRequest
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support import operations

SALES, TOTALS = "bronze.sales", "silver.totals"
START = date(2025, 1, 1)
Values = Mapping[str, Any]


def days_from(first: int, count: int) -> DayRange:
    """So many days, counted from the first of the history."""
    start = START + timedelta(days=first)
    return DayRange.inclusive(start, start + timedelta(days=count - 1))


def sale(day: date, **values: Any) -> Values:
    """A sale at noon of a day."""
    at = datetime.combine(day, time(12), tzinfo=UTC).isoformat()
    return {"sale_id": f"sale-{day}", "sold_at": at, "place": "here", **values}


@dataclass(kw_only=True)
class Store:
    """A home whose domain is edited while it is in use."""

    ws: Workspace
    folder: Path

    def becomes(self, domain: Domain) -> None:
        """The author edits the domain."""
        self.ws = Workspace(
            settings=self.ws.settings, domain=domain, clock=self.ws.clock, open_session=self.ws.open_session
        )

    def lands(self, name: str, records: Sequence[Values], *, again: bool = False) -> ImportRecord:
        """Lands a file by the suffix of its name."""
        path = self.folder / name
        if path.suffix == ".csv":
            with path.open("w", newline="") as text:
                rows = csv.DictWriter(text, fieldnames=list(records[0]))
                rows.writeheader()
                rows.writerows(records)
        else:
            path.write_text("".join(json.dumps(record) + "\n" for record in records))
        duplicate = OnDuplicate.REPROCESS if again else OnDuplicate.IGNORE
        return operations.land(self.ws, SALES, path, on_duplicate=duplicate, by="ana").record

    def loads(self, partitions: tuple[date, ...] | None = None) -> str:
        """Builds the days that wait, or these."""
        run = operations.plan_load(self.ws, SALES, partitions=partitions, by="ana", reason="landed")
        assert run is not None
        self._executes(run.run_id)
        return run.run_id

    def totals(self, days: DayRange, *, version: str | None = None) -> str:
        """Computes and publishes the sums of some days."""
        run_id = self.planned(days, version=version)
        self._executes(run_id)
        return run_id

    def planned(self, days: DayRange, *, version: str | None = None) -> str:
        """A run that is planned."""
        request = PlanRequest(table=TOTALS, days=days, reason="why not", by="ana", transform_version=version)
        return operations.plan(self.ws, request).manifest.run_id

    def _executes(self, run_id: str) -> None:
        if operations.run_named(self.ws, run_id).manifest.table == TOTALS:
            operations.approve(self.ws, run_id, by="ben")
        operations.stage(self.ws, run_id, actor="ana")
        assert operations.gate(self.ws, run_id, actor="ana").passed
        operations.publish(self.ws, run_id, by="ben")

    def sold(self, table: str = SALES) -> list[dict[str, Any]]:
        """The accepted rows as the present domain reads them."""
        declared = self.ws.domain.table(table)
        with self.ws.ledger.read() as tx:
            files = [tx.versions.accepted(table, [p])[p].files for p in tx.versions.claims(table)]
        return [row.asDict() for row in rows_of(self.ws, declared, files).orderBy(declared.partition.column).collect()]

    def versions(self, table: str = SALES) -> Mapping[date, int]:
        """The accepted version of every partition."""
        with self.ws.ledger.read() as tx:
            return {partition: claim.version for partition, claim in tx.versions.claims(table).items()}

    def stale(self, table: str) -> Mapping[Cause, int]:
        """How many partitions of a table are stale, by cause."""
        found: dict[Cause, int] = {}
        for each in operations.stale_tables(self.ws, table=table):
            for some in each.ranges:
                for reason in some.reasons:
                    found[reason.cause] = found.get(reason.cause, 0) + len(some.partitions)
        return found

    def is_identical(self, run_id: str) -> bool:
        """Whether a run is reproduced identically."""
        return operations.reproduce(self.ws, run_id, by="rita").identical

    def rejected(self) -> list[str]:
        """The reasons of all quarantined records."""
        rows = self.ws.lake.open("quarantine.sales").to_pyarrow_table(columns=["reason"]).to_pylist()
        return sorted(row["reason"] for row in rows)
