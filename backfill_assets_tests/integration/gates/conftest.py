"""A home with orders, in which gates are put on their table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from backfill_assets.testing import DomainKit
from backfill_assets_tests.domains import judged
from backfill_assets_tests.domains.judged import judged_by
from backfill_assets_tests.support.ledgers import copy_home

Opens = Callable[..., DomainKit]


@pytest.fixture(scope="session")
def home_of_orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with orders. Tests copy it."""
    home = tmp_path_factory.mktemp("judged") / "home"
    judged.stocked(home)
    return home


@pytest.fixture
def opens(home_of_orders: Path, tmp_path: Path) -> Opens:
    """Opens a copy of the home with gates on its table of orders."""
    copy_home(home_of_orders, tmp_path / "home")
    return lambda *gates, **declared: judged.opened(judged_by(*gates, **declared), tmp_path / "home")
