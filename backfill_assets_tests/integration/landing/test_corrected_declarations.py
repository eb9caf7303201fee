"""Whatever was declared wrongly of a source is corrected under its own name: every screen names the same command, and
after it bronze holds what a right declaration would have given from the beginning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    DataType,
    DoubleType,
    IntegerType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from backfill_assets.application.land import land_files, load
from backfill_assets.application.land_again import land_again, preview_again
from backfill_assets.application.look import stale
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.domain import Csv, SourceTable
from backfill_assets.lake.errors import OtherColumns
from backfill_assets.report.command_line import words_of
from backfill_assets.workspace import Workspace
from backfill_assets_tests.domains.example import DOMAIN, recent_sales, sales
from backfill_assets_tests.support.shop import RECENT, SALES, Shop, open_shop, ticking_clock

ANA = Acting(by="ana", recorder=Unrecorded())
AGAIN = "backfill land sales --again-as-declared --by NAME"
LOOK = "backfill land sales --again-as-declared --dry-run"
DAYS = DayRange.inclusive(date(2026, 1, 3), date(2026, 1, 9))

FILE = "\n".join(
    [
        "sale_id,sold_at,paid_at,amount,net",
        *(f"s{n},2026-01-{n:02}T02:00:00,2026-01-{n:02}T00:30:00,{n}{'.5' * (n % 2)},{n}.25" for n in range(1, 11)),
        "",
    ]
)
DATED = FILE.replace("2026-01-", "").replace("T02:00:00", "/01/2026 02:00").replace("T00:30:00", "/01/2026 00:30")
"""The day before the month, which is a day in the other form as well."""


def schema(amount: DataType, name: str = "amount") -> StructType:
    return StructType(
        [
            StructField("sale_id", StringType(), nullable=False),
            StructField("sold_at", TimestampType(), nullable=False),
            StructField("paid_at", TimestampType(), nullable=False),
            StructField(name, amount),
        ]
    )


RIGHT = replace(sales, schema=schema(DoubleType()), reads=Csv(), timezone="Europe/Amsterdam")
FORMED = replace(
    RIGHT, formats={"sold_at": "dd/MM/yyyy HH:mm", "paid_at": "dd/MM/yyyy HH:mm"}, planned=True, timezone="UTC"
)


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """A wrong declaration and the right one, of the same file."""

    wrong: SourceTable
    right: SourceTable = RIGHT
    content: str = FILE


MISTAKES: Mapping[str, Mistake] = {
    "a whole number for a fraction": Mistake(wrong=replace(RIGHT, schema=schema(IntegerType()))),
    "a text for a number": Mistake(wrong=replace(RIGHT, schema=schema(StringType()))),
    "a misspelt name": Mistake(wrong=replace(RIGHT, schema=schema(DoubleType(), "amuont"))),
    "the month before the day": Mistake(
        wrong=replace(FORMED, formats=dict.fromkeys(("sold_at", "paid_at"), "MM/dd/yyyy HH:mm")),
        right=FORMED,
        content=DATED,
    ),
    "another column of the file": Mistake(wrong=replace(RIGHT, columns={"net": "amount"})),
    "another key": Mistake(wrong=replace(RIGHT, key=("sale_id", "sold_at"))),
    "another event time": Mistake(wrong=replace(RIGHT, event_time="paid_at")),
    "another zone": Mistake(wrong=replace(RIGHT, timezone="America/New_York")),
}


def declared(shop: Shop, source: SourceTable) -> Workspace:
    """The workspace of the shop, whose sales are declared so; of a source without amounts nothing is derived."""
    table = replace(recent_sales, inputs={"sales": source})
    derived = (table,) if "amount" in source.schema.fieldNames() else ()
    again = replace(shop.ws, domain=replace(DOMAIN, sources=(source,), derived=derived))
    again.__dict__["ledger"] = shop.ws.ledger
    return again


@pytest.fixture
def shop(tmp_path: Path, spark: SparkSession) -> Iterator[Shop]:
    shop = open_shop(tmp_path, clock=ticking_clock(datetime(2026, 1, 20, tzinfo=UTC)), spark=spark)
    yield shop
    shop.ws.close()


def written(shop: Shop, content: str, name: str = "sales.csv") -> Path:
    path = shop.folder / name
    path.write_text(content, encoding="utf-8")
    return path


def bronze(ws: Workspace) -> list[Mapping[str, object]]:
    """What readers see of the sales, with every column that they see."""
    rows = ws.lake.open(SALES).to_pyarrow_table().to_pylist()
    shown = ({name: value for name, value in row.items() if not name.startswith("_")} for row in rows)
    return sorted(shown, key=lambda row: str(row["sale_id"]))


@pytest.mark.parametrize("name", MISTAKES)
def test_what_was_declared_wrongly_is_corrected_by_the_command_that_every_screen_names(
    shop: Shop, name: str, tmp_path: Path, spark: SparkSession
) -> None:
    mistake = MISTAKES[name]
    wrong, right = declared(shop, mistake.wrong), declared(shop, mistake.right)
    path = written(shop, mistake.content)
    land_files(wrong, "sales", [path], ANA, on_duplicate="ignore", builds=True)
    assert stale(wrong, None, None).read_before == ()
    found = stale(right, SALES, None)
    assert [words_of(each) for each in found.next_steps] == [LOOK]
    if mistake.wrong.schema != mistake.right.schema:
        with pytest.raises(OtherColumns) as refused:
            load(right, "sales", DAYS, ANA, empty=False, reason="corrected")
        next_step = refused.value.next_step
        assert next_step is not None and AGAIN in words_of(next_step)
    before = bronze(wrong)
    expected = preview_again(right, "sales", []).imports[0]
    assert bronze(wrong) == before
    again = land_again(right, "sales", [], ANA, builds=True)
    (anew,) = again.imports
    assert (expected.landed_now, expected.rejected_now) == (anew.record.counts.landed, anew.record.counts.rejected)
    assert again.load is not None and set(again.load.run.record.manifest.partitions) <= set(expected.days.days)
    other = open_shop(tmp_path / "other", clock=ticking_clock(datetime(2026, 1, 20, tzinfo=UTC)), spark=spark)
    never_wrong = declared(other, mistake.right)
    land_files(never_wrong, "sales", [written(other, mistake.content)], ANA, on_duplicate="ignore", builds=True)
    assert bronze(right) == bronze(never_wrong) and len(bronze(right)) == 10
    other.ws.close()
    after = stale(right, SALES, None)
    assert (after.read_before, after.is_stale) == ((), False)
    with right.ledger.read() as tx:
        assert tx.imports.open_accounts() == ()


@pytest.mark.long
def test_a_corrected_type_reaches_what_is_derived_from_it(shop: Shop) -> None:
    wrong = declared(shop, replace(RIGHT, schema=schema(IntegerType())))
    right = declared(shop, RIGHT)
    whole, others = FILE.replace(".5,", ","), FILE.replace("\ns", "\nt").replace(".25", ".75")
    land_files(wrong, "sales", [written(shop, whole, "1.csv")], ANA, on_duplicate="ignore", builds=True)
    land_files(wrong, "sales", [written(shop, others, "2.csv")], ANA, on_duplicate="ignore", builds=True)
    before = bronze(wrong)
    assert [row["amount"] for row in before] == [*IN_ORDER, *EVEN]
    replace(shop, ws=wrong).published(DAYS)
    again = land_again(right, "sales", [], ANA, builds=True)
    assert again.load is not None
    assert [row["amount"] for row in bronze(right)] == [*IN_ORDER, *(n + n % 2 / 2 for n in IN_ORDER)]
    (derived,) = (each for each in stale(right, None, None).tables if each.table == RECENT)
    assert set(derived.partitions) == set(DAYS)
    replace(shop, ws=right).published(DAYS, reason="amounts have fractions")
    assert shop.amounts()[date(2026, 1, 5)] == 2 * (3 + 4 + 5 + 6) + 2 * 0.5
    assert not stale(right, None, None).is_stale


@pytest.mark.long
def test_nothing_is_computed_from_files_of_other_columns_than_are_declared(shop: Shop) -> None:
    wrong, right = declared(shop, replace(RIGHT, schema=schema(StringType()))), declared(shop, RIGHT)
    land_files(wrong, "sales", [written(shop, FILE)], ANA, on_duplicate="ignore", builds=True)
    run_id = replace(shop, ws=wrong).planned(DAYS)
    with pytest.raises(OtherColumns):
        replace(shop, ws=right).kit.stage(run_id)
    with pytest.raises(OtherColumns) as refused:
        replace(shop, ws=right).planned(DAYS)
    next_step = refused.value.next_step
    assert next_step is not None and AGAIN in words_of(next_step)


IN_ORDER = (1, 10, 2, 3, 4, 5, 6, 7, 8, 9)
"""The amounts of sales in the order of their names."""

EVEN = tuple(n for n in IN_ORDER if n % 2 == 0)
"""Those that are whole numbers in the other file."""
