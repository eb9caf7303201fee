"""Operations that are killed while something is taken back: complete extracts, withdrawals, restorations, deletes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import partial
from pathlib import Path

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.errors import Refused
from backfill_assets.landing.extract import Extract
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.ledger.states import COUNTING, ImportState
from backfill_assets.workspace import Workspace
from backfill_assets_tests.faults.scenario import Notes, Scenario, published
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.shop import SALES, Shop, sale

THIRD, FOURTH, FIFTH, SIXTH = (date(2026, 1, day) for day in (3, 4, 5, 6))
EXTRACTED = DayRange.inclusive(THIRD, SIXTH)
TAKEN_BACK = {"sale_id": f"sale-{SIXTH}"}


def _written(shop: Shop, name: str, records: Sequence[Mapping[str, object]]) -> str:
    path = shop.folder / name
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return str(path)


# ---------------------------------------------------------------------------------------------------------- an extract


def _extracted(shop: Shop) -> Notes:
    """Two files: one sale has another amount, one is new, one cannot be read, and the only one of a day is lacking."""
    unreadable = {**sale(FIFTH), "sold_at": "never"}
    return {
        "first": _written(shop, "first.jsonl", [sale(THIRD), sale(FOURTH, amount=12)]),
        "second": _written(shop, "second.jsonl", [unreadable, sale(FIFTH, amount=7, sale_id="new")]),
    }


def _land_extract(ws: Workspace, notes: Notes) -> None:
    stated = Extract(days=EXTRACTED, where={}, reason="a new extract", confirmed_by="ben")
    operations.land_extract(ws, SALES, [Path(notes["first"]), Path(notes["second"])], stated, by="ana")


# ------------------------------------------------------------------------------------------------------------ one key


def _withdraw(ws: Workspace, _: Notes) -> None:
    operations.withdraw(ws, SALES, TAKEN_BACK, by="ana", reason="never happened")


def _withdrawn(shop: Shop) -> Notes:
    """The only sale of a day is withdrawn, and readers do not see it."""
    _withdraw(shop.ws, {})
    _build(shop)
    with shop.ws.ledger.read() as reader:
        return {"import": reader.imports.records(SALES, COUNTING)[-1].import_id}


def _restore(ws: Workspace, notes: Notes) -> None:
    operations.restore(ws, SALES, notes["import"], by="ana", reason="it did happen")


# -------------------------------------------------------------------------------------------------------- a change feed


def _late_deletes(shop: Shop) -> Notes:
    """Of three deletes one comes after everything, one before a later change, and one has no key that it could end."""
    records = [
        {"sale_id": f"sale-{SIXTH}", "sold_at": f"{SIXTH}T12:00:00Z", "op": "d", "number": 300},
        {"sale_id": f"sale-{FIFTH}", "sold_at": f"{FIFTH}T12:00:00Z", "op": "d", "number": 150},
        {"sold_at": f"{FOURTH}T12:00:00Z", "op": "d", "number": 301},
    ]
    return {"file": _written(shop, "late.jsonl", records)}


def _land(ws: Workspace, notes: Notes) -> None:
    operations.land(ws, SALES, Path(notes["file"]), on_duplicate=OnDuplicate.IGNORE, by="ana")


def feed(days: DayRange) -> list[Mapping[str, object]]:
    """One sale a day, created; that of the fifth is changed later."""
    created = [{**sale(day), "op": "c", "number": number} for number, day in enumerate(days, 100)]
    return [*created, {**sale(FIFTH, amount=11), "op": "u", "number": 200}]


# ------------------------------------------------------------------------------------------------------------ the ends


def _built(act: Callable[[Workspace, Notes], None]) -> Callable[[Shop, Notes], None]:
    """The same command once more, which is refused if all of it has landed; then the days that it touched are built."""

    def finish(shop: Shop, notes: Notes) -> None:
        try:
            act(shop.ws, notes)
        except Refused as refusal:
            if "already" not in refusal.message:
                raise
        _build(shop)

    return finish


def _build(shop: Shop) -> None:
    with shop.ws.ledger.read() as reader:
        if not reader.imports.records(SALES, [ImportState.LANDED]):
            return
    load = operations.plan_load(shop.ws, SALES, partitions=None, by="ana", reason="landed")
    assert load is not None
    published(shop, {"run": load.run_id})


def _gated_load(shop: Shop) -> Notes:
    """What an extract changes is ready to be published, a day without rows among it."""
    _land_extract(shop.ws, _extracted(shop))
    load = operations.plan_load(shop.ws, SALES, partitions=None, by="ana", reason="landed")
    assert load is not None
    operations.stage(shop.ws, load.run_id, actor="ana")
    operations.gate(shop.ws, load.run_id, actor="ana")
    return {"run": load.run_id}


def _publish(ws: Workspace, notes: Notes) -> None:
    operations.publish(ws, notes["run"], by="ana")


_shop = partial(Scenario, home="published")

TAKING_BACK = (
    _shop(
        name="land an extract", prepare=_extracted, act=_land_extract, finish=_built(_land_extract), needs_spark=True
    ),
    _shop(name="withdraw", prepare=lambda _: {}, act=_withdraw, finish=_built(_withdraw), needs_spark=True),
    _shop(name="restore", prepare=_withdrawn, act=_restore, finish=_built(_restore), needs_spark=True),
    _shop(name="publish what an extract changed", prepare=_gated_load, act=_publish, finish=published),
    Scenario(
        name="land late deletes", home="feed", prepare=_late_deletes, act=_land, finish=_built(_land), needs_spark=True
    ),
)
