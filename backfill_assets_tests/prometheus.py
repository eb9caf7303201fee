"""Debian's Prometheus where it is installed: what checks rules and metrics, and a server that scrapes."""

from __future__ import annotations

import shutil

import pytest


def program(name: str) -> str:
    """The path of `prometheus` or `promtool`; a test without it is skipped, and says so."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"PROMETHEUS IS NOT TESTED: {name} is not installed (apt-get install prometheus)")
    return found
