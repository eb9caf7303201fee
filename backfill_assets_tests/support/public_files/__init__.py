"""Public files, written anew: the quirks of well-known data sets without any of their data, and how pandas reads each.

A module each for delimited text, JSON and Parquet, and for what stations, offices, banks and shops, and machines write;
`SHAPES` has all of them by name.
"""

from __future__ import annotations

from backfill_assets_tests.support.public_files import (
    columnar,
    delimited,
    delimited_quirks,
    documents,
    ledgers,
    machines,
    offices,
    stations,
)
from backfill_assets_tests.support.public_files.shape import Shape

_MODULES = (delimited, delimited_quirks, documents, columnar, stations, offices, ledgers, machines)
SHAPES: dict[str, Shape] = {shape.name: shape for module in _MODULES for shape in module.SHAPES}

__all__ = ["SHAPES", "Shape"]
