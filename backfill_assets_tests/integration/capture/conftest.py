"""An API on loopback, and homes that capture it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from backfill_assets_tests.support.api_server import Api, ApiShop, ShopOf, running_api


@pytest.fixture
def api() -> Iterator[Api]:
    with running_api() as found:
        yield found


@pytest.fixture
def shop_of(api: Api, spark: SparkSession, tmp_path: Path) -> ShopOf:
    def opened(*, home: str = "home", path: str = "/v1/sales", **declared: Any) -> ApiShop:
        return ApiShop(home=tmp_path / home, spark=spark, api=api, path=path, declared=declared)

    return opened
