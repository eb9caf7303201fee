"""An API on loopback for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from backfill_assets_tests.support.any_api import AnyApi, any_api


@pytest.fixture(scope="module")
def server() -> Iterator[AnyApi]:
    with any_api() as found:
        yield found


@pytest.fixture
def api(server: AnyApi) -> AnyApi:
    server.asked.clear()
    return server
