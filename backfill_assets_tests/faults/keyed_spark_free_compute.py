"""Orders that have keys: what lands, is corrected, moves to another day and is withdrawn, without Spark.

The ledger gets of each import what landing would record; rows of a day are the sums of the keys that are on it.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from backfill_assets.capture.landed_files import STATEMENT, LandedFile, landing_files
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.ledger.imports import ImportCounts, ImportDay, ImportRecord, KeyCounts
from backfill_assets.workspace import Workspace
from backfill_assets_tests.faults.spark_free_compute import Row, SparkFreeCompute

ORDERS = "bronze.orders"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A record of a key; withdrawn, it takes the key back."""

    key: str
    day: date
    row: Row = (0, 0)
    is_withdrawn: bool = False


Keys = Mapping[str, Order]
"""Orders by key."""


@dataclass(kw_only=True)
class KeyedSparkFreeCompute(SparkFreeCompute):
    """What has landed, by import in the order of arrival: orders of which each has its own key."""

    orders: dict[str, Sequence[Order]] = field(default_factory=dict)
    landed_on: dict[str, date] = field(default_factory=dict)

    def current(self, imports: Iterable[str] | None = None) -> Keys:
        """The order of every key that is there, by all imports or by some."""
        chosen = self.orders if imports is None else set(imports)
        found: dict[str, Order] = {}
        for import_id, orders in self.orders.items():
            if import_id in chosen:
                found |= {order.key: order for order in orders}
        return {key: order for key, order in found.items() if not order.is_withdrawn}

    def came_with(self, order: Order) -> str:
        """The only import that ever spoke of a key; empty when there are several."""
        speaking = [i for i, orders in self.orders.items() if any(each.key == order.key for each in orders)]
        return speaking[0] if len(speaking) == 1 else ""

    def take_in(self, ws: Workspace, orders: Sequence[Order], *, by: str) -> str:
        """Lands a file of orders, or withdraws a key."""
        is_statement = any(order.is_withdrawn for order in orders)
        document = [[order.key, str(order.day), order.row] for order in orders] + [len(self.orders)]
        text = json.dumps(document)
        digest = hashlib.sha256(text.encode()).hexdigest()
        stored = f"orders/{digest}.jsonl"
        landing_files(ws.settings).put_if_absent(stored, text.encode())
        on_duplicate = str(OnDuplicate.CORRECT if is_statement else OnDuplicate.IGNORE)
        offered = LandedFile(
            source=ORDERS,
            family="statement" if is_statement else "file",
            range_from="0",
            range_to=str(len(text)),
            sha256=digest,
            original_path=f"{len(self.orders)}.jsonl",
            stored_path=stored,
            size_bytes=len(text),
            format=STATEMENT if is_statement else "jsonl",
            compression="",
        )
        with ws.ledger.write() as tx:
            import_id = tx.imports.begin(offered, on_duplicate=on_duplicate, actor=by).import_id
            tx.imports.finish(
                import_id, schema_versions=[1], ignored_columns=[], actor=by, **self._account(import_id, orders)
            )
        self.orders[import_id], self.landed_on[import_id] = orders, ws.clock().date()
        return import_id

    def _account(self, import_id: str, orders: Sequence[Order]) -> Mapping[str, Any]:
        """What an import is and does among those before it, as `finish` of imports takes it."""
        deciding = {order.key: (other, order) for other, some in self.orders.items() for order in some}
        days: dict[date, Counter[str]] = {}
        counts, keys = Counter[str](landed=len(orders)), Counter[str]()
        elsewhere: dict[str, ImportCounts] = {}
        for order in orders:
            before = deciding.get(order.key)
            days.setdefault(order.day, Counter())["withdrawn" if order.is_withdrawn else "events"] += 1
            if before is not None and before[1] == order:
                counts["duplicate"] += 1
                continue
            counts["accepted"] += 1
            keys["withdrawn" if order.is_withdrawn else "current"] += 1
            if before is None:
                continue
            other, earlier = before
            keys["withdrawn" if earlier.is_withdrawn else "current"] -= 1
            moved = elsewhere.get(other, ImportCounts())
            elsewhere[other] = ImportCounts(accepted=moved.accepted - 1, superseded=moved.superseded + 1)
            if not earlier.is_withdrawn and earlier.day != order.day:
                days.setdefault(earlier.day, Counter())["displaced"] += 1
        return {
            "counts": ImportCounts(**counts),
            "keys": KeyCounts(**keys),
            "moved_elsewhere": elsewhere,
            "days": [
                ImportDay(import_id=import_id, event_date=day, **{"events": 0, **found}) for day, found in days.items()
            ],
        }

    def rows_of(self, imports: Sequence[ImportRecord], days: Sequence[date]) -> Mapping[date, Row]:
        """The sums of the keys that are on each day."""
        found = self.current(record.import_id for record in imports)
        return {day: row for day in days if (row := row_of(found, day))}


def row_of(orders: Keys, day: date) -> Row | None:
    """What bronze has of a day; None without a key."""
    rows = [order.row for order in orders.values() if order.day == day]
    return (sum(row[0] for row in rows), sum(row[1] for row in rows)) if rows else None
