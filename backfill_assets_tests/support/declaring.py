"""How does a workspace of a test get tables that declare something more?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from backfill_assets.workspace import Workspace


def declaring(ws: Workspace, **declared: object) -> Workspace:
    """A workspace whose tables declare something more, as far as they can; who reads them, reads these."""

    def changed(table: Any, **more: object) -> Any:
        return replace(table, **{name: value for name, value in declared.items() if hasattr(table, name)}, **more)

    tables: dict[str, Any] = {each.name: changed(each) for each in ws.domain.sources}
    for each in ws.domain.derived:
        tables[each.name] = changed(each, inputs={name: tables[read.name] for name, read in each.inputs.items()})
    sources = tuple(tables[each.name] for each in ws.domain.sources)
    derived = tuple(tables[each.name] for each in ws.domain.derived)
    return replace(ws, domain=replace(ws.domain, sources=sources, derived=derived))
