"""Known rows of gates that are gone or changed since they were agreed to: which ones, for whoever approves that.

The ledger has their digests only. Their values are read from the archived versions of the reference.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from backfill_assets.domain.gates_by_reference import KnownRows
from backfill_assets.lake.row_values import Texts, texts
from backfill_assets.ledger.records import RunRecord
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.safeguards import KNOWN, Demand
from backfill_assets.requests.authority import standing_of
from backfill_assets.transforms.references import archived_versions
from backfill_assets.workspace import Workspace

MOST = 5
"""So many rows of a reference are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRowsGone:
    """Rows that a gate knew when its rows were last agreed to, and does not, or otherwise, now."""

    reference: str  #: The reference.
    #: The keys of the first of them, in order; fewer where the archive does not have their version any more.
    keys: tuple[Texts, ...]
    others: int  #: How many more there are.


def known_rows_gone(ws: Workspace, tx: ReadTransaction, run: RunRecord, demand: Demand) -> tuple[KnownRowsGone, ...]:
    """The known rows that are gone or changed among what the approval of a run would agree to as well.

    Cost: nothing where there are none; else the archived versions of each of their references are parsed.
    """
    table = ws.domain.tables.get(run.manifest.table)
    if table is None or not any(name.startswith(KNOWN) for name in demand.loosened):
        return ()
    standing, pinned = standing_of(ws, tx, table.name), run.manifest.safeguards
    key = tuple(dict.fromkeys((table.partition.column, *table.row_key)))
    found = []
    for reference in ws.domain.references:
        lost = standing.last.lacking(f"{KNOWN}{reference.name}", standing.safeguards, *([pinned] if pinned else []))
        if lost:
            versions = (each.value for each in archived_versions(reference, ws.reference_archive))
            keys = _named(versions, set(lost), key)
            named = tuple(texts(each, key) for each in keys)
            found.append(KnownRowsGone(reference=reference.name, keys=named, others=len(lost) - len(named)))
    return tuple(found)


def _named(versions: Iterable[object], lost: set[str], key: tuple[str, ...]) -> list[Texts]:
    """The first rows with one of these digests, by key."""
    rows: dict[str, Texts] = {}
    for known in versions:
        if isinstance(known, KnownRows):
            rows |= known.having(lost - rows.keys())
        if rows.keys() == lost:
            break
    whole = (row for row in rows.values() if row.keys() >= {*key})
    return sorted(whole, key=lambda row: [row[name] or "" for name in key])[:MOST]
