"""What a search of the desk finds: tables, runs and publications by their ids, names, people and reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from backfill_assets.ledger.views import View
from backfill_assets.workspace import Workspace

MOST = 50
"""How many of each kind are listed, the newest ones."""

Rows = tuple[Mapping[str, object], ...]
"""By column of their view."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a text occurs in.

    Attributes:
        text: The text.
        tables: Tables that are declared.
        runs, publications: The newest of them.
    """

    text: str
    tables: tuple[str, ...]
    runs: Rows
    publications: Rows


def find(ws: Workspace, text: str) -> Found:
    """What a text occurs in, in any case."""
    with ws.ledger.read() as tx:
        return Found(
            text=text,
            tables=tuple(name for name in ws.domain.tables if text.casefold() in name.casefold()),
            runs=tx.views.matching(View.RUNS, text, most=MOST),
            publications=tx.views.matching(View.PUBLICATIONS, text, most=MOST),
        )
