"""Whatever is landed, published, undone and cut over, readers find what a plain model in pandas holds."""

from __future__ import annotations

import random
import shutil
from datetime import date, datetime, timedelta
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from backfill_assets.application import shadow
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.errors import Refused
from backfill_assets.ledger.states import ActState, RunState
from backfill_assets.requests import table_acts
from backfill_assets.requests.authority import approve
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.integration.conftest import ONE_HOUR
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.ledgers import copy_home
from backfill_assets_tests.support.searches import is_thorough
from backfill_assets_tests.support.shop import DAYS, OUTPUT, RECENT, open_shop, sale, ticking_clock
from backfill_assets_tests.support.version_model import VersionModel
from backfill_assets_tests.support.version_shop import V2, VersionShop, rows_at, with_version, with_versions

SEEDS, PARTS = 200, 4
"""In a thorough run all seeds, otherwise the first one of each part."""
ACTS = ("land", "publish", "publish", "roll back", "cut over", "cut over", "show again", "ask", "do what was asked")


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_readers_find_what_the_model_holds(
    part: int, tmp_path: Path, published_home: Path, spark: SparkSession
) -> None:
    for seed in range(part, SEEDS, PARTS) if is_thorough() else (part,):
        home = tmp_path / f"home-{seed}"
        copy_home(published_home, home)
        opened = open_shop(home, clock=ticking_clock(NOON + 3 * ONE_HOUR), spark=spark)
        shop = with_versions(opened, with_version(opened.ws.domain))
        try:
            Story(shop, random.Random(seed)).told(steps=10)
            assert audit(shop.ws).problems == ()
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        opened.ws.close()
        shutil.rmtree(home)


class Story:
    """Random acts on a shop, each of which the model either does as well or says that it is refused."""

    def __init__(self, shop: VersionShop, chance: random.Random) -> None:
        self.shop, self.chance = shop, chance
        sales = pd.DataFrame([(day, f"sale-{day}", 10) for day in DAYS], columns=["day", "sale_id", "amount"])
        self.model = VersionModel(sales=sales, versions=dict.fromkeys(DAYS, 1))
        with shop.ws.ledger.read() as tx:
            (first,) = tx.runs.records(table=RECENT, states=[RunState.PUBLISHED])
        self.model.publish(first.run_id, RECENT, OUTPUT)
        self.model.undo[RECENT].clear()
        self.asked: list[tuple[str, str, str]] = []
        self.saw: list[tuple[datetime, dict[date, int]]] = []

    def told(self, *, steps: int) -> None:
        """Does so many acts, and looks after each."""
        self._publish(V2, OUTPUT)
        self._look()
        for number in range(steps):
            match self.chance.choice(ACTS):
                case "land":
                    self._land(number)
                case "publish":
                    first = self.chance.choice(list(OUTPUT))
                    last = min(first + timedelta(days=self.chance.randint(0, 6)), OUTPUT.last)
                    self._publish(self.chance.choice([RECENT, V2]), DayRange.inclusive(first, last))
                case "roll back":
                    self._roll_back(self.chance.choice([RECENT, V2]))
                case "cut over":
                    self._cut_over(self.chance.choice([RECENT, V2]))
                case "show again" if self.model.cut_overs:
                    table_acts.undo(self.shop.ws, self.model.cut_overs[-1][0], by="cara", reason="as before")
                    self.model.show_again()
                case "ask":
                    self._ask(self.chance.choice([RECENT, V2]))
                case "do what was asked" if self.asked:
                    self._do(*self.asked.pop(self.chance.randrange(len(self.asked))))
                case _:
                    continue
            self._look()
        for run_id, (table, amounts) in self.chance.sample(sorted(self.model.then.items()), 2):
            assert shadow.resolve(self.shop.ws, table, run_id).table == table
            assert dict(rows_at(shadow.resolve(self.shop.ws, table, run_id))) == dict(amounts)
        for at, amounts in self.chance.sample(self.saw, min(3, len(self.saw))):
            assert dict(self.shop.read(f"{at:%Y-%m-%dT%H:%M:%S.%f}")) == amounts

    def _look(self) -> None:
        shown = dict(self.model.amounts(self.model.shown))
        assert dict(self.shop.read()) == shown
        assert shadow.resolve(self.shop.ws, RECENT).table == self.model.shown
        assert dict(rows_at(shadow.resolve(self.shop.ws, V2))) == dict(self.model.amounts(V2))
        self.saw.append((self.shop.ws.clock(), shown))

    def _land(self, number: int) -> None:
        day, amount = self.chance.choice(list(DAYS)), self.chance.choice([0, 5, 7])
        self.shop.land(f"late-{number}.jsonl", [sale(day, amount=amount, sale_id=f"late-{number}")])
        self.model.land(day, f"late-{number}", amount)

    def _publish(self, table: str, days: DayRange) -> None:
        ws = self.shop.ws
        run_id = self.shop.planned(days, table=table)
        operations.approve(ws, run_id, by="ben")
        self.shop.staged(run_id)
        operations.publish(ws, run_id, by="ben")
        self.model.publish(run_id, table, days)

    def _roll_back(self, table: str) -> None:
        if self.model.undo[table]:
            run_id, _ = self.model.undo[table][-1]
            operations.rollback(self.shop.ws, run_id, by="cara", reason="second thoughts")
            self.model.roll_back(table)

    def _ask(self, table: str) -> str | None:
        """Asks for a cut-over, unless that is refused as the model says."""
        try:
            act_id = self.shop.asked(table) if table != self.model.shown else None
        except Refused:
            assert self.model.refuses(table)
            return None
        if act_id is None:
            return None
        assert not self.model.refuses(table)
        approve(self.shop.ws, act_id, by="ben", note="agreed")
        self.asked.append((act_id, table, self.model.shown))
        return act_id

    def _cut_over(self, table: str) -> None:
        if self._ask(table):
            self._do(*self.asked.pop())

    def _do(self, act_id: str, table: str, shown_then: str) -> None:
        """Does what was asked for, unless readers are shown another table by now, or the model refuses it."""
        if self.model.shown != shown_then or self.model.refuses(table):
            with pytest.raises(Refused):
                table_acts.carry_out(self.shop.ws, act_id, by="ana")
            return
        done = table_acts.carry_out(self.shop.ws, act_id, by="ana")
        assert done.state is ActState.DONE
        self.model.cut_over(act_id, table)
