"""Debian's Prometheus, installed or in the cache of `tools/setup.sh`: what checks rules, and a server that scrapes."""

from __future__ import annotations

import shutil

import pytest

from backfill_assets.examples.kafka_broker import cache


def program(name: str) -> str:
    """The path of `prometheus` or `promtool`; a test without it is skipped, and says so."""
    found = shutil.which(name) or shutil.which(cache() / "prometheus" / "usr" / "bin" / name)
    if found is None:
        pytest.skip(f"PROMETHEUS IS NOT TESTED: {name} is not there (`tools/setup.sh prometheus` fetches it)")
    return found
