"""A complete extract, from landing to published figures: they become those of a home that only ever saw the extract.

Two extracts of sales are drawn at random. The first is published in bronze, silver and gold; the second replaces it,
and a set of everything stale restates what rests on it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.application.statements import complete_extract, land_as_extract
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.compared_homes import checksums, differing, swapped
from backfill_assets_tests.support.month import FEBRUARY, SOLD, TOTALS, open_month, planned_set, ready_set
from backfill_assets_tests.support.searches import examples
from backfill_assets_tests.support.shop import RECENT, SALES, Shop, sale

ANA = Acting(by="ana", recorder=Unrecorded())
TABLES = (SALES, RECENT, TOTALS)
COLUMNS: Mapping[str, Sequence[str]] = {
    SALES: ("sold_on", "sale_id", "sold_at", "amount"),
    RECENT: ("day", "shop", "amount"),
    TOTALS: ("month", "amount"),
}

Sales = Mapping[str, Mapping[str, object]]
"""Sales by their key."""


def some_sales(chance: random.Random) -> Sales:
    """At least one on the first and on the last day, so that the days of the month can be computed."""
    ends = {f"end-{day}": sale(day, amount=1, sale_id=f"end-{day}") for day in (SOLD.start, SOLD.last)}
    drawn = chance.sample(range(80), chance.randint(1, 60))
    days = list(SOLD)
    return ends | {f"k{n}": sale(chance.choice(days), amount=chance.randint(0, 3), sale_id=f"k{n}") for n in drawn}


def corrected(chance: random.Random, sales: Sales) -> Sales:
    """Another extract: few of the sales are gone, moved and changed, or all of it is drawn anew."""
    other = some_sales(chance)
    if chance.random() < 0.5:
        return other
    kept = {key: found for key, found in sales.items() if key.startswith("end") or chance.random() < 0.9}
    new = {key: other[key] for key in chance.sample(sorted(other), min(3, len(other)))}
    return kept | new


def files_of(folder: Path, name: str, sales: Iterable[Mapping[str, object]]) -> list[Path]:
    """Two files: every other sale."""
    records, paths = list(sales), []
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(2):
        path = folder / f"{name}-{number}.jsonl"
        text = "".join(json.dumps(record) + "\n" for record in records[number::2])
        path.write_text(text, encoding="utf-8")
        paths.append(path)
    return paths


def landed_and_published(shop: Shop, name: str, sales: Sales) -> None:
    shop.land(f"{name}.jsonl", list(sales.values()))
    shop.published(FEBRUARY)
    month = shop.staged(shop.planned(FEBRUARY, table=TOTALS))
    operations.approve(shop.ws, month, by="ben")
    shop.publish(month)


def rows(shop: Shop) -> Mapping[str, list[tuple[object, ...]]]:
    """What readers see of each table."""
    return {
        table: sorted(
            tuple(row.values()) for row in shop.ws.lake.open(table).to_pyarrow_table(columns=list(columns)).to_pylist()
        )
        for table, columns in COLUMNS.items()
    }


@pytest.mark.long
@pytest.mark.parametrize("seed", range(examples(10)))
def test_after_an_extract_everything_is_what_it_is_where_only_the_extract_landed(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    first = some_sales(chance)
    second = corrected(chance, first)
    with closing(open_month(tmp_path / "clean", spark=spark).ws) as ws:
        clean = Shop(ws=ws, folder=tmp_path / "clean" / "incoming")
        landed_and_published(clean, "second", second)
        wanted, wanted_rows = checksums(ws, TABLES), rows(clean)

    with closing(open_month(tmp_path / "home", spark=spark).ws) as ws:
        shop = Shop(ws=ws, folder=tmp_path / "home" / "incoming")
        landed_and_published(shop, "first", first)
        before, before_rows = checksums(ws, TABLES), rows(shop)

        paths = files_of(shop.folder, "second", second.values())
        extract = complete_extract(SOLD, where={}, reason="the second extract", confirmed_by="bea")
        report = land_as_extract(ws, SALES, paths, extract, ANA, builds=True)
        assert report.imports[-1].record.counts.landed == len(first.keys() - second.keys())
        assert report.load is not None
        load = report.load.run.record.run_id
        moves = differing(before, wanted)
        (account,) = audit(ws, is_quick=True).accounts
        assert (account.current, account.withdrawn) == (len(second), len(first.keys() - second.keys()))
        assert account.accepted == len(first.keys() | second.keys())
        changed, _ = swapped(ws, [load])
        assert changed == {place for place in moves if place[0] == SALES}

        planned = planned_set(shop, stale=True)
        set_id = ready_set(shop, planned)
        operations.publish_set(ws, set_id, by="ben")
        assert checksums(ws, TABLES) == wanted
        assert rows(shop) == wanted_rows
        changed, verified = swapped(ws, [member.run_id for member in planned.manifest.members])
        assert changed == {place for place in moves if place[0] != SALES}
        assert not verified & changed
        assert [found.ranges for found in operations.stale_tables(ws)] == [(), (), ()]
        assert audit(ws).problems == ()

        operations.rollback_set(ws, set_id, by="ben", reason="as it was")
        for table in (RECENT, TOTALS):
            assert rows(shop)[table] == before_rows[table]
        operations.rollback(ws, load, by="ben", reason="as it was")
        assert (checksums(ws, TABLES), rows(shop)) == (before, before_rows)
        assert audit(ws).problems == ()
