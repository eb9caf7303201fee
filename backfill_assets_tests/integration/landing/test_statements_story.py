"""A random story of statements about a source, published and rolled back after every one of them, beside a plain model.

Files land and correct, complete extracts replace ranges of days, keys are withdrawn and restored. The model is a
dictionary of the sales that stand; it knows nothing of files, imports, bronze or Delta.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.landing.extract import Extract
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.ledger.states import ImportState
from backfill_assets.planning.request import PlanRequest
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.integration.landing.test_restated_by_an_extract import files_of
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.month import IN_MARCH
from backfill_assets_tests.support.searches import examples
from backfill_assets_tests.support.shop import (
    DAYS,
    OUTPUT,
    RECENT,
    SALES,
    Shop,
    open_shop,
    sale,
    ticking_clock,
    usual_sales,
)

STATEMENTS = 6

Sales = Mapping[str, tuple[date, int]]
"""The day and the amount of each sale that stands, by its key."""

Rows = Mapping[str, list[tuple[object, ...]]]


@dataclass(kw_only=True)
class Story:
    """A shop, and what a plain model says that it holds."""

    shop: Shop
    chance: random.Random
    sales: dict[str, tuple[date, int]] = field(default_factory=dict)
    taken: dict[str, dict[str, tuple[date, int]]] = field(default_factory=dict)
    steps: list[str] = field(default_factory=list)

    def statement(self, number: int) -> None:
        """One statement, at random, of those that can be made."""
        can: list[Callable[[str], str]] = [self._lands, self._lands, self._replaces]
        if self.sales:
            can.append(self._withdraws)
        if self._restorable():
            can += [self._restores, self._restores]
        self.steps.append(f"{number}: {self.chance.choice(can)(f'statement-{number}')}")

    def _drawn(self, days: DayRange) -> dict[str, tuple[date, int]]:
        keys = self.chance.sample(range(15), self.chance.randint(1, 4))
        return {f"k{key}": (self.chance.choice(list(days)), self.chance.randint(0, 9)) for key in keys}

    def _lands(self, name: str) -> str:
        new = self._drawn(DAYS)
        path = self.shop.folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps(record) + "\n" for record in _records(new)), encoding="utf-8")
        operations.land(self.shop.ws, SALES, path, on_duplicate=OnDuplicate.IGNORE, by="ana")
        self.sales |= new
        return f"lands {new}"

    def _replaces(self, name: str) -> str:
        first, last = sorted(self.chance.choices(list(DAYS), k=2))
        scope = DayRange.inclusive(first, last)
        inside = {key: each for key, each in self.sales.items() if each[0] in scope}
        kept = {key: each for key, each in inside.items() if self.chance.random() < 0.6}
        new = kept | self._drawn(scope)
        paths = files_of(self.shop.folder / name, name, _records(new))
        stated = Extract(days=scope, where={}, reason="complete", confirmed_by="bea")
        found = operations.land_extract(self.shop.ws, SALES, paths, stated, by="ana")
        gone = {key: each for key, each in inside.items() if key not in new}
        assert found.withdrawn.keys == len(gone)
        self.sales = {key: each for key, each in self.sales.items() if key not in gone} | new
        if gone:
            self.taken[found.statement.record.import_id] = gone
        return f"replaces {first}..{last} by {new}"

    def _withdraws(self, name: str) -> str:
        key = self.chance.choice(sorted(self.sales))
        found = operations.withdraw(self.shop.ws, SALES, {"sale_id": key}, by="ana", reason=name)
        self.taken[found.record.import_id] = {key: self.sales.pop(key)}
        return f"withdraws {key}"

    def _restorable(self) -> list[str]:
        """Withdrawals of which a key is still withdrawn by them."""
        latest = {key: import_id for import_id, keys in sorted(self.taken.items()) for key in keys}
        return sorted({import_id for key, import_id in latest.items() if key not in self.sales})

    def _restores(self, name: str) -> str:
        import_id = self.chance.choice(self._restorable())
        operations.restore(self.shop.ws, SALES, import_id, by="ana", reason=name)
        latest = {key: each for each, keys in sorted(self.taken.items()) for key in keys}
        back = {
            key: each
            for key, each in self.taken[import_id].items()
            if key not in self.sales and latest[key] == import_id
        }
        self.sales |= back
        return f"restores {import_id}: {back}"

    def load(self) -> str | None:
        """The run that builds bronze; None where nothing is to be built."""
        run = operations.plan_load(self.shop.ws, SALES, partitions=None, by="ana", reason="landed")
        if run is None:
            return None
        self._published(run.run_id)
        return run.run_id

    def silver(self) -> str:
        """The run that rebuilds all of silver."""
        request = PlanRequest(table=RECENT, days=OUTPUT, reason="landed", by="ana")
        run_id = operations.plan(self.shop.ws, request).manifest.run_id
        operations.approve(self.shop.ws, run_id, by="ben")
        self._published(run_id)
        return run_id

    def _published(self, run_id: str) -> None:
        operations.stage(self.shop.ws, run_id, actor="ana")
        operations.gate(self.shop.ws, run_id, actor="ana")
        operations.publish(self.shop.ws, run_id, by="ben")

    def undone(self, run_id: str) -> None:
        operations.rollback(self.shop.ws, run_id, by="ben", reason="was right before")

    def again(self, run_id: str) -> None:
        operations.approve(self.shop.ws, run_id, by="ben")
        operations.publish(self.shop.ws, run_id, by="ben")


def _records(sales: Sales) -> list[Mapping[str, object]]:
    return [sale(day, amount=amount, sale_id=key) for key, (day, amount) in sales.items()]


def bronze_of(sales: Sales) -> list[tuple[object, ...]]:
    return sorted((day, key, amount) for key, (day, amount) in sales.items())


def silver_of(sales: Sales) -> list[tuple[object, ...]]:
    """The sum over a day, the two before it and the one after; no row where nothing was sold."""
    found: list[tuple[object, ...]] = []
    for day in OUTPUT:
        window = DayRange.inclusive(day - timedelta(days=2), day + timedelta(days=1))
        amounts = [amount for sold_on, amount in sales.values() if sold_on in window]
        if amounts:
            found.append((day, sum(amounts)))
    return found


def seen(shop: Shop, table: str, *columns: str) -> list[tuple[object, ...]]:
    found = shop.ws.lake.open(table).to_pyarrow_table(columns=list(columns)).to_pylist()
    return sorted(tuple(row.values()) for row in found)


def bronze(shop: Shop) -> list[tuple[object, ...]]:
    return seen(shop, SALES, "sold_on", "sale_id", "amount")


def silver(shop: Shop) -> list[tuple[object, ...]]:
    return seen(shop, RECENT, "day", "amount")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(examples(12)))
def test_after_every_statement_publication_and_rollback_readers_see_what_a_plain_model_says(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    with closing(open_shop(tmp_path, clock=ticking_clock(IN_MARCH), spark=spark).ws) as ws:
        story = Story(shop=Shop(ws=ws, folder=tmp_path / "incoming"), chance=random.Random(seed))
        for problem in problems_of(story):
            pytest.fail("\n".join([*story.steps, problem]))


def problems_of(story: Story) -> Iterator[str]:
    """What is not as the model says, after every statement, publication and rollback."""
    shop, chance = story.shop, story.chance
    shop.land("usual.jsonl", usual_sales())
    story.sales = {str(each["sale_id"]): (day, 10) for day, each in zip(DAYS, usual_sales(), strict=True)}
    story.silver()
    for number in range(STATEMENTS):
        before = (bronze(shop), silver(shop))
        story.statement(number)
        yield from _differ("before bronze is built", (bronze(shop), silver(shop)), before)
        load = story.load()
        yield from _differ("bronze", bronze(shop), bronze_of(story.sales))
        run_id = story.silver()
        now = (bronze_of(story.sales), silver_of(story.sales))
        yield from _differ("published", (bronze(shop), silver(shop)), now)
        if now == before:
            continue
        if now[1] != before[1]:
            story.undone(run_id)
            yield from _differ("silver rolled back", (bronze(shop), silver(shop)), (now[0], before[1]))
        if load is not None and now[0] != before[0] and chance.random() < 0.5:
            story.undone(load)
            yield from _differ("both rolled back", (bronze(shop), silver(shop)), before)
            story.again(load)
        if now[1] != before[1] and chance.random() < 0.7:
            story.again(run_id)
            yield from _differ("published again", (bronze(shop), silver(shop)), now)
    yield from audit(shop.ws).problems
    with shop.ws.ledger.read() as tx:
        yield from (f"{r.import_id} is {r.state}" for r in tx.imports.records(states=[ImportState.LANDING]))


def _differ(when: str, found: object, expected: object) -> Iterator[str]:
    if found != expected:
        yield f"{when}: {found}, and by the model {expected}"
