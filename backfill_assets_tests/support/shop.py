"""A small shop to backfill: the example domain in a home of its own, driven through the operations.

Ten days of sales in January 2026, one sale of 10 a day, so that every window sum can be done in one's head.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from pathlib import Path

from pyspark.sql import SparkSession

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.clock import Clock
from backfill_assets.core.settings import Settings
from backfill_assets.ledger.records import PublicationRecord
from backfill_assets.testing import DomainKit
from backfill_assets.workspace import Workspace
from backfill_assets_tests.conftest import SPARK_ENVIRONMENT
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.lakes import folder_of
from backfill_assets_tests.support.ledgers import home_environment
from backfill_assets_tests.support.remembered import MEMORY, TickingClock

DAYS = DayRange.inclusive(date(2026, 1, 1), date(2026, 1, 10))
SALES = "bronze.sales"
RECENT = "silver.recent_sales"
OUTPUT = DayRange.inclusive(date(2026, 1, 3), date(2026, 1, 9))
"""What can be computed from DAYS: two days back and one ahead are needed."""


WorkIn = Callable[[Path], None]
"""Makes what a test types, or calls without settings, work in a home (the fixture `work_in`)."""


def shop_environment(home: Path) -> Mapping[str, str]:
    """The environment of a process that works in the shop."""
    return {
        "BACKFILL_HOME": str(home),
        "BACKFILL_DOMAIN": "backfill_assets_tests.domains.example",
        "BACKFILL_FIRST_DAY": "2026-01-01",
        **home_environment(home),
        **SPARK_ENVIRONMENT,
    }


def sale(day: date, *, amount: int = 10, sale_id: str | None = None) -> Mapping[str, object]:
    """A sale at noon of a day."""
    at = datetime.combine(day, time(12), tzinfo=UTC)
    return {"sale_id": sale_id or f"sale-{day}", "sold_at": at.isoformat(), "amount": amount}


@dataclass(frozen=True, kw_only=True)
class Shop:
    """The shop with its doors open."""

    ws: Workspace
    folder: Path

    def land(self, name: str, sales: Sequence[Mapping[str, object]], *, by: str = "ana") -> None:
        """Lands a file of sales and builds the days it touches."""
        MEMORY.once(self.ws, f"land {name} {by} {sales}", lambda: self._land(name, sales, by=by))

    def _land(self, name: str, sales: Sequence[Mapping[str, object]], *, by: str) -> None:
        assert replace(self.kit, asks=by).land(SALES, sales, name=name) is not None

    @property
    def kit(self) -> DomainKit:
        """What the shop does as any domain in the tests of its author."""
        return DomainKit(ws=self.ws, folder=self.folder)

    def planned(
        self, days: DayRange = OUTPUT, *, table: str = RECENT, version: str | None = None, reason: str = "why not"
    ) -> str:
        """A run that ana asks for."""
        return self.kit.planned(table, days, version=version, reason=reason)

    def staged(self, run_id: str) -> str:
        """The run, staged and gated."""
        MEMORY.once(self.ws, f"stage {run_id}", lambda: self._stage(run_id))
        return run_id

    def _stage(self, run_id: str) -> None:
        self.kit.stage(run_id)
        self.kit.gate(run_id)

    def ready(self, days: DayRange = OUTPUT, *, version: str | None = None, reason: str = "why not") -> str:
        """A run that only has to be published."""
        act = f"ready {days} {version} {reason}"
        return MEMORY.once(self.ws, act, lambda: self._ready(days, version=version, reason=reason))

    def _ready(self, days: DayRange, *, version: str | None, reason: str) -> str:
        run_id = self.planned(days, version=version, reason=reason)
        # Approved before it is measured, it waits for its publication even where it would change nothing.
        self.kit.approve(run_id)
        return self.staged(run_id)

    def published(self, days: DayRange = OUTPUT, *, version: str | None = None, reason: str = "why not") -> str:
        """A run that readers see."""
        act = f"published {days} {version} {reason}"
        return MEMORY.once(self.ws, act, lambda: self._published(days, version=version, reason=reason))

    def _published(self, days: DayRange, *, version: str | None, reason: str) -> str:
        run_id = self.ready(days, version=version, reason=reason)
        operations.publish(self.ws, run_id, by="ben")
        return run_id

    def publish(self, run_id: str) -> PublicationRecord:
        """Publishes a run."""
        return operations.publish(self.ws, run_id, by="ben")

    def amounts(self, table: str = RECENT) -> Mapping[date, int]:
        """What readers see: the amount of each day."""
        rows = self.ws.lake.open(table).to_pyarrow_table(columns=["day", "amount"]).to_pylist()
        assert len({row["day"] for row in rows}) == len(rows)
        return {row["day"]: row["amount"] for row in rows}

    def files(self, table: str = RECENT) -> Mapping[str, bytes]:
        """Every data file below a table, by path."""
        root = folder_of(self.ws.lake, table)
        return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*.parquet")}

    def live_paths(self, table: str = RECENT) -> set[str]:
        """The files that readers see."""
        return set(self.ws.lake.open(table).get_add_actions(flatten=True).column("path").to_pylist())


def open_shop(home: Path, *, clock: Clock, spark: SparkSession | None = None, ledger_url: str | None = None) -> Shop:
    """The shop in a home; with a session of the test's, or one of its own."""
    elsewhere = {"BACKFILL_LEDGER_URL": ledger_url} if ledger_url else {}
    settings = Settings.from_environment({**shop_environment(home), **elsewhere})
    ws = Workspace.open(settings, clock=clock, open_session=(lambda: spark) if spark else None)
    folder = home / "incoming"
    folder.mkdir(parents=True, exist_ok=True)
    return Shop(ws=ws, folder=folder)


def usual_sales() -> list[Mapping[str, object]]:
    """One sale of 10 on each of the ten days."""
    return [sale(day) for day in DAYS]


def ticking_clock(start: datetime) -> Clock:
    """A clock that advances by a second whenever it is read."""
    return TickingClock(start)
