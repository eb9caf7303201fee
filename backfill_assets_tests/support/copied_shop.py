"""A copy of the shop's domain whose module a test can edit, and a home for it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill_assets.core.settings import Settings
from backfill_assets.workspace import Workspace
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.domains import example as example_domain
from backfill_assets_tests.integration.conftest import ONE_HOUR
from backfill_assets_tests.support.ledgers import copy_home
from backfill_assets_tests.support.shop import Shop, shop_environment, ticking_clock


def copied_shop(tmp_path: Path, stocked_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The module of a copy of the shop's domain, which can be edited, and a home for it."""
    package = tmp_path / "code" / "copied_shop"
    package.mkdir(parents=True)
    source = Path(example_domain.__file__).read_text(encoding="utf-8")
    module = package / "__init__.py"
    module.write_text(source.replace(example_domain.__name__, "copied_shop"), encoding="utf-8")
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.delitem(sys.modules, "copied_shop", raising=False)
    copy_home(stocked_home, tmp_path / "home")
    return module


def opened_copy(tmp_path: Path, spark: SparkSession) -> Shop:
    environment = {**shop_environment(tmp_path / "home"), "BACKFILL_DOMAIN": "copied_shop"}
    ws = Workspace.open(
        Settings.from_environment(environment), clock=ticking_clock(NOON + 2 * ONE_HOUR), open_session=lambda: spark
    )
    return Shop(ws=ws, folder=tmp_path)
