"""Public files, written anew: the quirks of well-known data sets without any of their data, and how pandas reads each.

`delimited`, `delimited_quirks`, `documents` and `columnar` write them; `SHAPES` has all of them by name.
"""

from __future__ import annotations

from backfill_assets_tests.support.public_files import columnar, delimited, delimited_quirks, documents
from backfill_assets_tests.support.public_files.shape import Shape

SHAPES: dict[str, Shape] = {
    shape.name: shape for module in (delimited, delimited_quirks, documents, columnar) for shape in module.SHAPES
}

__all__ = ["SHAPES", "Shape"]
