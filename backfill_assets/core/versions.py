"""Versions of this project, PySpark and Python, recorded with every run. A difference alone makes no row stale."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Versions = Mapping[str, str]

VERSIONS = "versions"
"""Their name in the event that begins the staging of a run."""


def client_versions() -> Versions:
    """The versions that are known without a Spark session."""
    import pyspark

    return {"backfill_assets": _own_version(), "pyspark": pyspark.__version__, "python": platform.python_version()}


def present_versions(spark: SparkSession) -> Versions:
    """The versions of this process and of the Spark that it computes with, which may be on another machine."""
    return {**client_versions(), "spark": spark.version}


def staged_versions(payloads: Iterable[Mapping[str, Any]]) -> Versions | None:
    """The versions that a run was last staged with, by the payloads of its events; None where none were recorded."""
    found: Versions | None = None
    for payload in payloads:
        found = payload.get(VERSIONS, found)
    return found


def _own_version() -> str:
    try:
        return version("backfill_assets")
    except PackageNotFoundError:
        return "not installed"
