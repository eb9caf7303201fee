"""Which operations decode landed files, and how is each taken up again?"""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

from backfill_assets.application.land import landing, offered
from backfill_assets.domain import Csv, SourceTable
from backfill_assets.landing.imports import OnDuplicate, read_otherwise
from backfill_assets.landing.land import land_again, land_files
from backfill_assets.ledger.states import ImportState
from backfill_assets.workspace import Workspace
from backfill_assets_tests.faults.scenario import Notes, Scenario, published
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.shop import SALES, Shop, sale

FIFTH = date(2026, 1, 5)
FILES = ("late-1.txt", "late-2.csv")


def _source(ws: Workspace, encoding: str = "cp1252") -> SourceTable:
    return replace(ws.domain.source_table(SALES), reads=Csv(delimiter=";", encoding=encoding))


def _sheets(shop: Shop) -> Notes:
    """Two files: a late sale, one that is there already, a row that is too short, and a correction."""
    at = sale(FIFTH)["sold_at"]
    rows = ([f"€;{at};100", f"sale-{FIFTH};{at};10", "short;"], [f"€;{at};70"])
    for name, some in zip(FILES, rows, strict=True):
        content = "\r\n".join(["sep=;", "sale_id;sold_at;amount", *some, ""])
        (shop.folder / name).write_bytes(content.encode("cp1252"))
    return {"folder": str(shop.folder)}


def _land(ws: Workspace, notes: Notes, *, encoding: str = "cp1252") -> None:
    source = _source(ws, encoding)
    files = offered(source, [Path(notes["folder"]) / name for name in FILES])
    land_files(landing(ws, source, "ana"), files, OnDuplicate.IGNORE, lambda _: None)


def _loaded(shop: Shop, notes: Notes) -> None:
    _land(shop.ws, {**notes, "folder": str(shop.folder)})
    _built(shop)


def _built(shop: Shop) -> None:
    with shop.ws.ledger.read() as reader:
        is_waiting = bool(reader.imports.records(states=[ImportState.LANDED]))
    if is_waiting:
        load = operations.plan_load(shop.ws, SALES, partitions=None, by="ana", reason="landed")
        assert load is not None
        published(shop, {"run": load.run_id})


def _misread(shop: Shop) -> Notes:
    """The files, read in another encoding, so that the key of the late sale is another one."""
    notes = _sheets(shop)
    _land(shop.ws, notes, encoding="latin-1")
    _built(shop)
    return notes


def _read_anew(ws: Workspace, _: Notes) -> None:
    source = _source(ws)
    with ws.ledger.read() as tx:
        # Those of the home are JSON lines, which no dialect of CSV reads otherwise.
        before = [each for each in read_otherwise(tx, source) if each.name in FILES]
    land_again(landing(ws, source, "ana"), before)


def _read_anew_and_loaded(shop: Shop, notes: Notes) -> None:
    _read_anew(shop.ws, notes)
    _built(shop)


DIALECTS = (
    Scenario(name="land a dialect", home="published", prepare=_sheets, act=_land, finish=_loaded, needs_spark=True),
    Scenario(
        name="land again as declared",
        home="published",
        prepare=_misread,
        act=_read_anew,
        finish=_read_anew_and_loaded,
        needs_spark=True,
    ),
)
