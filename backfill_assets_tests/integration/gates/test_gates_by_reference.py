"""Gates by a reference: known rows and control totals, each with a defect that no rule about rows can see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from backfill_assets.domain import Failing, GateContext, Reference, control_totals, golden, known_rows, totals
from backfill_assets.domain.errors import CodeBroken
from backfill_assets.domain.gates_by_reference import KnownRows
from backfill_assets.planning.partitions import DayRange, Grain
from backfill_assets_tests.domains.judged import DEFECTS, SECOND, failing_of
from backfill_assets_tests.integration.gates.conftest import Opens

KNOWN = """
version: "2026-01"
rows:
  - {day: 2026-01-02, order_id: o-2-3, country: FR, amount: 30}
  - {day: 2026-01-03, order_id: o-3-2, customer_id: c-2, amount: "20.00", number: 3}
  - {day: 2026-01-05, order_id: of another day, amount: 1}
"""

TOTALS = """
version: "2026-01"
totals:
  - {day: 2026-01-02, country: IT, rows: 2, amount: 30}
  - {day: 2026-01-02, country: FR, rows: 1}
  - {day: 2026-01-03, country: IT, rows: 2, amount: 30.00}
  - {day: 2026-01-03, country: FR, amount: "30"}
  - {day: 2026-01-04, country: IT, rows: 2, amount: 30}
  - {day: 2026-01-04, country: FR, rows: 1, amount: 30}
"""

DAY = "2026-01-03"
Finds = Callable[..., Sequence[tuple[Any, ...]]]


@pytest.fixture
def finds(opens: Opens, tmp_path: Path) -> Finds:
    """What a gate finds by a reference with this document."""

    def found(gate: Failing, document: str, version: str | None = None, days: str | None = None) -> Any:
        name = gate.references[0]
        parse = known_rows if name == "known_rows" else control_totals
        folder = tmp_path / "home" / "reference"
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.yaml").write_text(document, encoding="utf-8")
        kit = opens(gate, references=(Reference(name=name, parse=parse),))
        return failing_of(kit, version=version, **({"days": days} if days else {}))

    return found


BY_KNOWN_ROWS = {
    "lost": ("golden_known_rows", DAY, SECOND, "a row", "no row"),
    "orphan": ("golden_known_rows", DAY, SECOND, "customer_id = c-2", "customer_id = nobody"),
    "nobody": ("golden_known_rows", DAY, SECOND, "customer_id = c-2", "customer_id = null"),
    "dearer": ("golden_known_rows", DAY, SECOND, "amount = 20.00", "amount = 21.00"),
    "back": ("golden_known_rows", DAY, SECOND, "number = 3", "number = 0"),
}


@pytest.mark.parametrize("defect", [None, *DEFECTS])
def test_a_row_that_is_known_names_each_value_that_differs(finds: Finds, defect: str | None) -> None:
    assert finds(golden("known_rows"), KNOWN, defect) == ([BY_KNOWN_ROWS[defect]] if defect else [])


def test_a_value_that_is_known_to_be_null_is_not_another_one_and_the_reverse(finds: Finds) -> None:
    known = KNOWN.replace("customer_id: c-2, amount", "customer_id: null, amount")
    assert finds(golden("known_rows"), known, "nobody") == []
    assert [row[3:] for row in finds(golden("known_rows"), known)] == [("customer_id = null", "customer_id = c-2")]


def test_a_value_that_the_column_cannot_have_differs(finds: Finds) -> None:
    found = finds(golden("known_rows"), KNOWN.replace("number: 3", "number: three"))
    assert [row[3:] for row in found] == [("number = three", "number = 3")]


def test_a_value_that_the_column_would_round_differs(finds: Finds) -> None:
    found = finds(golden("known_rows"), KNOWN.replace('"20.00"', '"20.004"'))
    assert [row[3:] for row in found] == [("amount = 20.004", "amount = 20.00")]
    assert finds(golden("known_rows"), KNOWN.replace('"20.00"', '"2.000e1"')) == []


ITALY = {"day": DAY, "country": "IT"}


@pytest.mark.parametrize(
    ("defect", "found"),
    [
        (None, []),
        (
            "lost",
            [(ITALY, "amount = 30", "amount = 10"), (ITALY, "rows = 2", "rows = 1")],
        ),
        ("orphan", []),
        ("dearer", [(ITALY, "amount = 30", "amount = 31")]),
    ],
)
def test_rows_and_sums_of_a_group_are_what_was_delivered(
    finds: Finds, defect: str | None, found: Sequence[tuple[Any, ...]]
) -> None:
    gate = totals("control_totals", by=("country",), sums=("amount",))
    assert sorted((row[2:] for row in finds(gate, TOTALS, defect)), key=str) == list(found)


def test_a_total_may_be_off_by_what_is_allowed_and_no_more(finds: Finds) -> None:
    for within, count in (("1", 0), ("0.999", 1)):
        gate = totals("control_totals", by=("country",), sums=("amount",), within=within)
        assert len(finds(gate, TOTALS, "dearer")) == count


@pytest.mark.parametrize("odd", ["NaN", "Infinity", "-Infinity"])
def test_a_total_with_a_value_that_is_no_number_is_not_the_one_that_was_delivered(
    spark: SparkSession, odd: str
) -> None:
    delivered = KnownRows(version="1", rows=({"day": DAY, "amount": "30", "rows": "3"},))
    ctx = GateContext(
        output=DayRange.inclusive(date(2026, 1, 3), date(2026, 1, 3)),
        output_partitions=(date(2026, 1, 3),),
        grain=Grain.DAILY,
        partition="day",
        partition_columns={"candidate": "day"},
        key=("day",),
        references={"control_totals": delivered},
        spark=spark,
    )
    rows = spark.sql(f"SELECT DATE'{DAY}' AS day, explode(array(10, 20, double('{odd}'))) AS amount")
    gate = totals("control_totals", sums=("amount",))
    assert gate.rows is not None
    (found,) = gate.rows(ctx=ctx, candidate=rows).collect()
    assert (found.expected, found.found) == ("amount = 30", "amount = 30, and values that are not numbers: 1")


def test_groups_and_partitions_without_an_entry_fail(finds: Finds) -> None:
    without = "".join(
        line + "\n" for line in TOTALS.splitlines() if "03, country: FR" not in line and "-04" not in line
    )
    gate = totals("control_totals", by=("country",), sums=("amount",))
    assert [row[1:] for row in finds(gate, without)] == [
        (DAY, {"day": DAY, "country": "FR"}, "no rows", "rows = 1"),
        ("2026-01-04", {"day": "2026-01-04", "country": None}, "an entry in control_totals", "none"),
    ]
    some = totals("control_totals", by=("country",), sums=("amount",), every_partition=False)
    assert [row[1] for row in finds(some, without)] == [DAY]


def test_a_group_that_was_delivered_and_is_not_there_fails(finds: Finds) -> None:
    more = TOTALS + "  - {day: 2026-01-04, country: DE, rows: 7}\n"
    gate = totals("control_totals", by=("country",))
    assert [
        row[2:]
        for row in finds(
            gate, more.replace(", amount: 30.00", "").replace(', amount: "30"', ", rows: 1").replace(", amount: 30", "")
        )
    ] == [({"day": "2026-01-04", "country": "DE"}, "rows = 7", "rows = 0")]


@pytest.mark.parametrize(
    ("gate", "document", "said"),
    [
        (golden("known_rows"), KNOWN.replace("order_id: o-2-3, ", ""), "entry 1 of known_rows 2026-01 lacks order_id"),
        (golden("known_rows"), KNOWN.replace("country", "land"), "has land, where amount, country"),
        (golden("known_rows"), KNOWN.replace("2026-01-02", "soon"), "day is 'soon', which is not a day such as"),
        (
            golden("known_rows"),
            KNOWN.replace("2026-01-05", "2026-01-02").replace("of another day", "o-2-3"),
            "same as an",
        ),
        (
            totals("control_totals", by=("country",), sums=("amount",)),
            TOTALS.replace(", rows: 2", ", rows: two"),
            "rows is 'two', which is not",
        ),
    ],
    ids=["no key", "unknown column", "no day", "twice", "no amount"],
)
def test_an_entry_that_says_nothing_clear_is_refused_with_its_number(
    finds: Finds, gate: Failing, document: str, said: str
) -> None:
    with pytest.raises(CodeBroken, match=said):
        finds(gate, document)
