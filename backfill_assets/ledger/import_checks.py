"""Import checks: whether the rows of landed files agree with their events, and the accounts of a source close."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import select

from backfill_assets.identity import document_digest
from backfill_assets.ledger.import_records import KeyCounts
from backfill_assets.ledger.queries import Queries
from backfill_assets.ledger.schema import events, import_days, imports
from backfill_assets.ledger.states import ImportState

COUNTS = ("landed", "accepted", "duplicate", "superseded", "rejected")
LANDED = (ImportState.LANDED, ImportState.LOADED)


@dataclass(slots=True)
class _Stated:
    """What the events say of landed files, by import: counts, the digest of the days, contract version, and keys."""

    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    days: dict[str, str] = field(default_factory=dict)
    contracts: dict[str, int] = field(default_factory=dict)
    keys: dict[str, dict[str, int]] = field(default_factory=dict)


class ImportChecks(Queries):
    """Landed files, compared with what was recorded of them."""

    def violations(self) -> Iterator[str]:
        """What was changed in the rows of imports, and what does not add up, one sentence each.

        Cost: one pass over the events of imports, and over all rows of imports and their days.
        """
        stated = self._stated()
        touched: dict[str, list[list[Any]]] = {}
        for day in self._rows(select(import_days)):
            touched.setdefault(day.import_id, []).append([day.event_date.isoformat(), day.events])
        for row in self._rows(select(imports).where(imports.c.state.in_(LANDED)).order_by(imports.c.arrival)):
            if {name: row._mapping[name] for name in COUNTS} != stated.counts.get(row.import_id):
                yield f"the counts of {row.import_id} were edited: they are not what was counted."
            if row.contract != stated.contracts.get(row.import_id, 1):
                yield f"the contract version of {row.import_id} was edited: it is not the one that it was landed with."
            keys = {"current": row.keys_current, "deleted": row.keys_deleted, "withdrawn": row.keys_withdrawn}
            if stated.keys.get(row.import_id, keys) != keys:
                yield f"the keys of {row.import_id} were edited: they are not what was counted."
            found = document_digest(sorted(touched.get(row.import_id, [])))
            if row.import_id in stated.days and found != stated.days[row.import_id]:
                yield f"the days of {row.import_id} were edited: they are not what was counted."
        yield from self._open_accounts()

    def _stated(self) -> _Stated:
        found = _Stated()
        chosen = select(events.c.sequence, events.c.entity_id, events.c.action, events.c.payload).where(
            events.c.entity == "import", events.c.action.in_(("import_landed", "import_recounted"))
        )
        for row in self._paged(chosen, events.c.sequence, after=0):
            found.counts[row.entity_id] = {name: row.payload[name] for name in COUNTS}
            if "days_digest" in row.payload:
                found.days[row.entity_id] = row.payload["days_digest"]
                found.contracts[row.entity_id] = row.payload.get("contract", 1)
            if "keys" in row.payload:
                found.keys[row.entity_id] = row.payload["keys"]
            found.days.update(row.payload.get("linked_days", {}))
            for other, by in _moved(row.payload).items():
                for name, n in by.items() if other in found.counts else ():
                    found.counts[other][name] += n
        return found

    def _open_accounts(self) -> Iterator[str]:
        """Sources whose keys do not add up: ever accepted = current + deleted + withdrawn.

        While an import is landed again in its place, the sums are those of before and of after, so nothing is compared.
        """
        accepted: Counter[str] = Counter()
        keys: dict[str, KeyCounts] = {}
        unfinished: set[str] = set()
        for row in self._rows(select(imports)):
            if row.state in LANDED:
                accepted[row.source] += row.accepted
                of_import = KeyCounts(current=row.keys_current, deleted=row.keys_deleted, withdrawn=row.keys_withdrawn)
                keys[row.source] = keys.get(row.source, KeyCounts()) + of_import
            elif row.landed_at is not None:
                unfinished.add(row.source)
        for source in sorted(keys.keys() - unfinished):
            found = keys[source]
            if accepted[source] != found.ever or min(found.current, found.deleted, found.withdrawn) < 0:
                yield (
                    f"the keys of {source} do not add up: {accepted[source]:,} were accepted, {found.current:,} are "
                    f"current, {found.deleted:,} deleted and {found.withdrawn:,} withdrawn."
                )


def _moved(payload: dict[str, Any]) -> dict[str, dict[str, int]]:
    """How many records of other imports had another fate from then on; earlier releases only knew superseded ones."""
    earlier = {other: {"accepted": -n, "superseded": n} for other, n in payload.get("superseded_elsewhere", {}).items()}
    return {**earlier, **payload.get("moved_elsewhere", {})}
