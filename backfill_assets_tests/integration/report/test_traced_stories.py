"""Whatever happened to the sales behind a bill, its trace adds up, names what changed it last, and cites true lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from backfill_assets.application import look
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.planning.restatement import PlannedSet, SetRequest
from backfill_assets.report.trace import Trace, TracedRecord
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support import operations, tariffs
from backfill_assets_tests.support.tariffs import BILLS, CHARGES, JANUARY, SALES, SOLD

Act = tuple[str, str]
"""A kind of cause, and the sale or the reference."""


@dataclass(kw_only=True)
class Story:
    """A month of bills, and what is known of it without asking the product."""

    ws: Workspace
    home: Path
    spark: SparkSession
    chance: Random
    sales: dict[str, tuple[date, int]] = field(default_factory=dict)  #: By sale its day and its amount.
    #: By statement, the sale and what it was.
    withdrawn: dict[str, tuple[str, tuple[date, int]]] = field(default_factory=dict)
    factor: int = 1
    acts: set[Act] = field(default_factory=set)  #: What was done since the rows that readers see were computed.
    #: What readers were shown, one after the other: the sales, the tariff's factor, and what changed it.
    published: list[tuple[dict[str, tuple[date, int]], int, set[Act]]] = field(default_factory=list)
    sets: list[str] = field(default_factory=list)
    files: int = 0

    def begins(self) -> None:
        self.lands({f"sale-{day}": (day, 10) for day in SOLD})
        self.builds()
        for table in (CHARGES, BILLS):
            tariffs.published(self.ws, tariffs.plan(self.ws, JANUARY, table=table))
        self.acts.clear()
        self.published.append((dict(self.sales), self.factor, set()))

    def lands(self, records: dict[str, tuple[date, int]]) -> None:
        self.files += 1
        path = self.home / f"sales-{self.files}.jsonl"
        lines = [{"sale_id": i, "sold_at": f"{on}T12:00:00Z", "amount": n} for i, (on, n) in records.items()]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        operations.land(self.ws, SALES, path, on_duplicate=OnDuplicate.IGNORE, by="ana")
        self.sales |= records
        self.acts |= {("RECORD", sale) for sale in records}

    def corrects(self) -> None:
        """Some sales have another amount; one that nothing was done to, so that each act stands for itself."""
        some = self.chance.sample(self.untouched(), 2)
        self.lands({sale: (self.sales[sale][0], self.chance.randrange(11, 1_000)) for sale in some})

    def sells(self) -> None:
        on = JANUARY.start + timedelta(days=self.chance.randrange(len(JANUARY)))
        self.lands({f"late-{self.files}": (on, self.chance.randrange(11, 1_000))})

    def withdraws(self) -> None:
        sale = self.chance.choice(self.untouched())
        landed = operations.withdraw(self.ws, SALES, {"sale_id": sale}, by="cleo", reason="never sold")
        self.withdrawn[landed.record.import_id] = (sale, self.sales.pop(sale))
        self.acts.add(("WITHDRAWAL", sale))

    @property
    def can_restore(self) -> bool:
        return any(("WITHDRAWAL", sale) not in self.acts for sale, _ in self.withdrawn.values())

    def restores(self) -> None:
        statement, (sale, was) = next(
            (each, found) for each, found in self.withdrawn.items() if ("WITHDRAWAL", found[0]) not in self.acts
        )
        operations.restore(self.ws, SALES, statement, by="cleo", reason="sold after all")
        del self.withdrawn[statement]
        self.sales[sale] = was
        self.acts.add(("RESTORATION", sale))

    def changes_the_tariff(self) -> None:
        self.factor += 1
        tariffs.write(self.home, "tariff", f"v{self.factor}", self.factor)
        self.ws.close()
        self.ws = tariffs.opened(self.home, self.spark)
        self.acts.add(("REFERENCE", "tariff"))

    def rolls_back(self) -> None:
        operations.rollback_set(self.ws, self.sets.pop(), by="dora", reason="second thoughts")
        self.acts |= self.published.pop()[2]

    def takes_the_charges_back(self) -> None:
        """What was done is published table by table; then the charges are rolled back, and the bills follow them."""
        self.builds()
        charges = tariffs.published(self.ws, tariffs.plan(self.ws, JANUARY, table=CHARGES))
        tariffs.published(self.ws, tariffs.plan(self.ws, JANUARY, table=BILLS))
        undone = operations.rollback(self.ws, charges, by="dora", reason="second thoughts").undoes
        assert undone is not None
        tariffs.published(self.ws, tariffs.plan(self.ws, JANUARY, table=BILLS))
        # The number is again what it was, and all that was done waits to be published again.
        sales, factor, _ = self.published[-1]
        self.published[-1] = (sales, factor, {("ROLLBACK", undone)})

    def untouched(self) -> list[str]:
        return sorted(self.sales.keys() - {sale for _, sale in self.acts} - {f"sale-{SOLD.start}"})

    def publishes(self) -> None:
        """The days that landed are built, and all that is stale is restated."""
        self.builds()
        planned = operations.plan_set(self.ws, SetRequest(reason="it changed", by="ana", stale=True, name="all"))
        assert isinstance(planned, PlannedSet)
        self.sets.append(tariffs.published_set(self.ws, planned))
        self.published.append((dict(self.sales), self.factor, set(self.acts)))
        self.acts.clear()

    def builds(self) -> None:
        load = operations.plan_load(self.ws, SALES, partitions=None, by="ana", reason="landed")
        if load is not None:
            operations.approve(self.ws, load.run_id, by="ben")
            operations.stage(self.ws, load.run_id, actor="ana")
            operations.gate(self.ws, load.run_id, actor="ana")
            operations.publish(self.ws, load.run_id, by="ana")

    # ------------------------------------------------------------------------------------------- what is held

    def holds(self, *, rolled_back: bool = False) -> None:
        sales, factor, acts = self.published[-1]
        sold = {sale: each for sale, each in sales.items() if each[0] in JANUARY}
        for most in (3, 500):
            found = look.trace(self.ws, BILLS, JANUARY, {}, None, most=most)
            assert found.values["amount"] == str(factor * sum(amount for _, amount in sold.values()))
            causes = list(found.causes)
            if rolled_back:
                undone = causes.pop(0)
                assert (undone.cause, undone.by, undone.why) == ("ROLLBACK", "dora", "second thoughts")
            assert {(each.cause, each.key.get("sale_id", each.subject)) for each in causes} == acts
            for each in causes:
                if each.cause == "RECORD":
                    self.require_line(each.subject, each.record, each.key["sale_id"], sales)
                elif each.cause in ("WITHDRAWAL", "RESTORATION"):
                    reason = "never sold" if each.cause == "WITHDRAWAL" else "sold after all"
                    assert (each.by, each.why) == ("cleo", reason)
                elif each.cause == "ROLLBACK":
                    assert (each.table, each.by, each.why) == (CHARGES, "dora", "second thoughts")
            for record in standing(found):
                self.require_line(record.landed.name, record.record, record.key["sale_id"], sales)
        silver, bronze = found.inputs
        assert sum(int(row.values["amount"] or 0) for row in silver.rows) == int(found.values["amount"] or 0)
        assert {row.values["sale_id"]: int(row.values["amount"] or 0) for row in bronze.rows} == {
            sale: amount for sale, (_, amount) in sold.items()
        }
        assert [each.key["sale_id"] for each in standing(found)] == [row.values["sale_id"] for row in bronze.rows]

    def require_line(self, file: str, line: int | None, sale: str | None, sales: dict[str, tuple[date, int]]) -> None:
        assert line is not None and sale is not None
        read: dict[str, Any] = json.loads((self.home / file).read_text(encoding="utf-8").splitlines()[line - 1])
        assert (read["sale_id"], read["amount"]) == (sale, sales[sale][1])


def standing(found: Trace) -> list[TracedRecord]:
    """The records of rows that the number is computed from, not of those that it was computed from before."""
    return [each for each in found.records if not each.is_replaced]


@pytest.fixture
def story(tmp_path: Path, spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[Story]:
    for name in ("tariff", "tax"):
        tariffs.write(tmp_path, name, "v1", 1)
    ws = tariffs.opened(tmp_path, spark)
    told = Story(ws=ws, home=tmp_path, spark=spark, chance=Random(request.param))
    told.begins()
    yield told
    told.ws.close()


@pytest.mark.long
@pytest.mark.parametrize("story", [0], indirect=True)
def test_after_every_kind_of_act_the_trace_adds_up_and_names_what_changed_the_number_last(story: Story) -> None:
    story.holds()
    for acts in ((story.withdraws,), (story.restores, story.corrects), (story.changes_the_tariff, story.sells)):
        for act in acts:
            act()
        story.publishes()
        story.holds()
        if story.restores in acts:
            story.rolls_back()
            story.holds(rolled_back=True)


@pytest.mark.long
@pytest.mark.parametrize("story", [1, 2], indirect=True)
def test_whatever_happened_the_trace_adds_up_and_names_what_changed_the_number_last(story: Story) -> None:
    for _ in range(4):
        acts = [story.corrects, story.sells, story.withdraws, story.changes_the_tariff]
        for act in story.chance.sample(acts, 2):
            act()
        if story.can_restore:
            story.restores()
        story.publishes()
        story.holds()
        if story.chance.random() < 0.5:
            story.rolls_back()
            story.holds(rolled_back=True)


@pytest.mark.long
@pytest.mark.parametrize("story", [3, 4], indirect=True)
def test_after_the_rollback_of_an_input_the_number_that_follows_names_that_rollback(story: Story) -> None:
    some = story.chance.sample([story.corrects, story.sells, story.withdraws, story.changes_the_tariff], 2)
    for act in some:
        act()
    story.takes_the_charges_back()
    story.holds()
    undone = story.published[-1][2]
    story.publishes()
    story.holds()
    assert undone.isdisjoint(story.published[-1][2])
    story.rolls_back()
    story.holds(rolled_back=True)
