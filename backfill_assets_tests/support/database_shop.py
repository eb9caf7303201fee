"""A shop whose sales are captured from a table of a real PostgreSQL."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any

from psycopg import Connection
from psycopg.errors import DeadlockDetected, UniqueViolation

from backfill_assets.application.capture import CaptureRange, capture, plan_capture
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.capture.streams import Pace
from backfill_assets.core.settings import Settings
from backfill_assets.domain import Domain, PostgresTable, SourceTable
from backfill_assets.report.captured import CapturePlan, CaptureReport
from backfill_assets.workspace import Workspace
from backfill_assets_tests.conftest import SPARK_ENVIRONMENT
from backfill_assets_tests.domains import database
from backfill_assets_tests.support.captured_shop import StreamShop
from backfill_assets_tests.support.ledgers import home_environment
from backfill_assets_tests.support.shop import ticking_clock
from backfill_assets_tests.support.source_database import PASSWORD, USER, SourceDatabase

SALES = "bronze.sales"
Record = Mapping[str, Any]
CONFLICTS = (DeadlockDetected, UniqueViolation)
COLUMNS = [each.name for each in database.SALES]
TABLE = """CREATE TABLE sales (sale_id int PRIMARY KEY, sold_at timestamptz NOT NULL, amount numeric(12, 2),
    paid boolean, note text, seal bytea)"""
DAY = "date_trunc('day', now() at time zone 'utc') at time zone 'utc' + interval '12 hours'"
NEW = f"INSERT INTO sales SELECT i, {DAY} - interval '1 day' * (1 + i % 4), i, i % 2 = 0, 'new', '\\x00ff'"


@dataclass(frozen=True, kw_only=True)
class DatabaseShop(StreamShop):
    """A shop of a home of its own over a table."""

    server: SourceDatabase  #: Where the table is.
    database: str  #: The database that it is in.

    @property
    def slot(self) -> str:
        return str(self.declared.get("slot", f"sales_{self.database}"))

    def environment(self) -> Mapping[str, str]:
        """Of a process that works in the shop."""
        return {
            "BACKFILL_HOME": str(self.home),
            "BACKFILL_DOMAIN": "backfill_assets_tests.domains.database",
            "BACKFILL_FIRST_DAY": (datetime.now(UTC).date() - timedelta(days=10)).isoformat(),
            "TEST_SHOP_DATABASE": self.database,
            "TEST_SHOP_PORT": str(self.server.port),
            "TEST_SHOP_SLOT": self.slot,
            "TEST_SHOP_CHUNK": str(self.declared.get("chunk", 65_536)),
            "TEST_SHOP_PASSWORD": PASSWORD,
            **home_environment(self.home),
            **SPARK_ENVIRONMENT,
        }

    def connect(self) -> Connection[tuple[Any, ...]]:
        """Of the superuser of the server."""
        return self.server.connect(self.database)

    def run(self, *statements: str) -> None:
        """Runs each statement in a transaction of its own, as the user who owns the table."""
        with self.connect() as connection:
            connection.execute(f"SET ROLE {USER}".encode())
            for each in statements:
                connection.execute(each.encode())

    def source(self) -> SourceTable:
        usual = {"table": "public.sales", "database": self.database, "host": "127.0.0.1", "port": self.server.port}
        more = {"user": USER, "slot": self.slot, "chunk": 65_536, "secrets": {"password": "TEST_SHOP_PASSWORD"}}
        table = PostgresTable(**{**usual, **more, **self.declared})
        return replace(database.sales, capture=table, policy=self.policy)

    def open(self) -> Workspace:
        settings = Settings.from_environment(self.environment())
        spark = self.spark
        opened = Workspace.open(
            settings,
            clock=ticking_clock(datetime.now(UTC)),
            open_session=(lambda: spark) if spark is not None else None,
        )
        domain = Domain(name="database", package=database.DOMAIN.package, sources=(self.source(),), derived=())
        return replace(opened, domain=domain)

    def plan(self, *, whole: bool = False) -> CapturePlan:  # type: ignore[override]
        ws = self.open()
        try:
            return plan_capture(ws, SALES, CaptureRange(first=None, last=None, is_whole=whole))
        finally:
            ws.close()

    def capture(  # type: ignore[override]
        self, *, whole: bool = False, builds: bool = False, confirmed_by: str | None = None, pace: Pace | None = None
    ) -> CaptureReport:
        ws = self.open()
        try:
            acting = Acting(by="ana", recorder=Unrecorded())
            asked = CaptureRange(first=None, last=None, is_whole=whole, confirmed_by=confirmed_by)
            return capture(ws, SALES, asked, acting, reason="a test", pace=pace or Pace(), builds=builds)
        finally:
            ws.close()

    def current_rows(self) -> list[tuple[Any, ...]]:
        """What bronze says exists now."""
        now = (each for each in self.rows() if each["_operation"] != "delete" and each["_ended_by"] is None)
        return sorted(tuple(each[name] for name in COLUMNS) for each in now)

    def selected(self) -> list[tuple[Any, ...]]:
        """What the database has now."""
        with self.connect() as connection:
            return sorted(connection.execute(f"SELECT {', '.join(COLUMNS)} FROM sales".encode()).fetchall())


def write_at_random(shop: DatabaseShop, seed: int, is_enough: Event) -> None:
    """Transactions of one of several writers: every kind of change, some rolled back, few truncates."""
    chance = random.Random(seed)
    with shop.connect() as connection:
        while not is_enough.wait(0.002):
            try:
                with connection.transaction(force_rollback=chance.random() < 0.1):
                    for _ in range(chance.randint(1, 5)):
                        connection.execute(_statement(chance))
            except CONFLICTS:
                continue


def _statement(chance: random.Random) -> bytes:
    some, other = chance.randint(1, 60), chance.randint(1, 60)
    day = f"{DAY} - interval '{chance.randint(1, 4)} days'"
    taken = f"ON CONFLICT (sale_id) DO UPDATE SET amount = sales.amount + 1, sold_at = {day}"
    chosen = chance.choices(
        (
            f"INSERT INTO sales VALUES ({some}, {day}, {other}, true, 'note', '\\x01') {taken}",
            f"UPDATE sales SET amount = {other}, note = NULL WHERE sale_id = {some}",
            f"UPDATE sales SET sale_id = {other} WHERE sale_id = {some}",
            f"DELETE FROM sales WHERE sale_id = {some}",
            "TRUNCATE sales",
        ),
        weights=(40, 30, 15, 15, 1),
    )
    return chosen[0].encode()


ShopOf = Callable[..., DatabaseShop]


def records_of(shop: DatabaseShop) -> list[Record]:
    """The records of the files that count, in the order of their positions."""
    names = [Path(each.stored_path).name for each in sorted(shop.files(), key=lambda each: each.range_from)]
    content = shop.bytes()
    return [json.loads(line) for name in names for line in gzip.decompress(content[name]).splitlines()]


def replayed(records: list[Record], *, before: int | None = None) -> dict[str, Record]:
    """The rows by key that records say there are, as far as a position."""
    rows: dict[str, Record] = {}
    for each in records:
        if before is not None and each["pg_operation"] != "snapshot" and each["pg_lsn"] >= before:
            continue
        match each["pg_operation"]:
            case "truncate":
                rows.clear()
            case "delete":
                rows.pop(each["sale_id"], None)
            case _:
                rows[each["sale_id"]] = {name: each[name] for name in ("sale_id", "amount", "note")}
    return rows


def selected(connection: Connection[Any]) -> dict[str, Record]:
    """The same of the table."""
    found = connection.execute("SELECT sale_id::text, amount::text, note FROM sales").fetchall()
    return {each[0]: dict(zip(("sale_id", "amount", "note"), each, strict=True)) for each in found}


def slots_of(shop: DatabaseShop) -> list[str]:
    with shop.connect() as connection:
        query = "SELECT slot_name FROM pg_replication_slots WHERE database = current_database() AND NOT temporary"
        return [name for (name,) in connection.execute(query)]
