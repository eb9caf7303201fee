"""Which homes do tests of faults begin from, and how are they opened?"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from pyspark.sql import SparkSession

from backfill_assets.core.settings import Settings
from backfill_assets.workspace import Workspace
from backfill_assets_tests.faults.keeping_state import stock_peaks
from backfill_assets_tests.faults.taking_back import feed
from backfill_assets_tests.support.ledgers import copy_home
from backfill_assets_tests.support.month import IN_MARCH, stock_month
from backfill_assets_tests.support.shop import DAYS, Shop, open_shop, shop_environment, ticking_clock, usual_sales

KEPT_FOR_NOTHING = {
    "BACKFILL_ROLLBACK_DAYS": "1",
    "BACKFILL_REPRODUCTION_DAYS": "1",
    "BACKFILL_SPARK_MEMORY": "768m",
}
"""Vacuum keeps what is visible or open, and nothing else: then whatever is left beyond that has leaked."""


DOMAINS = ("feed", "peaks")
"""The homes whose domain is not that of the shop; a file in each of them names it."""


def opened(home: Path, *, hours: int = 0, spark: SparkSession | None = None) -> Shop:
    """The shop in a home, some hours after it was stocked."""
    of_home = next((name for name in DOMAINS if (home / name).exists()), None)
    other = {"BACKFILL_DOMAIN": f"backfill_assets_tests.domains.{of_home}"} if of_home else {}
    environment = {**shop_environment(home), **KEPT_FOR_NOTHING, **other}
    settings = Settings.from_environment(environment)
    ws = Workspace.open(
        settings,
        clock=ticking_clock(IN_MARCH + timedelta(hours=hours)),
        open_session=(lambda: spark) if spark else None,
    )
    folder = home / "incoming"
    folder.mkdir(parents=True, exist_ok=True)
    return Shop(ws=ws, folder=folder)


def stock(kind: str, home: Path, spark: SparkSession) -> None:
    """Makes one of the homes that scenarios begin from."""
    match kind:
        case "published":
            shop = open_shop(home, clock=ticking_clock(IN_MARCH - timedelta(hours=5)), spark=spark)
            shop.land("january.jsonl", usual_sales())
            shop.published(version="0.9.0")
            shop.ws.close()
        case "feed":
            home.mkdir(parents=True)
            (home / "feed").touch()
            shop = opened(home, hours=-5, spark=spark)
            shop.land("feed.jsonl", feed(DAYS))
            shop.published()
            shop.ws.close()
        case "peaks":
            home.mkdir(parents=True)
            (home / "peaks").touch()
            shop = opened(home, hours=-5, spark=spark)
            stock_peaks(shop)
            shop.ws.close()
        case "month":
            stock_month(home, spark)
        case _:
            raise AssertionError(f"there is no home {kind!r}")


def copied(template: Path, home: Path) -> Path:
    """A home of one's own, like the template."""
    copy_home(template, home)
    return home
