"""Gates by a reference: known rows and control totals, each with a defect that no rule about rows can see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from backfill_assets.application.plan import described_plan, plan
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.application.requests import compute, run_of
from backfill_assets.calendar.partitions import DayRange, Grain
from backfill_assets.core.errors import InvalidReference
from backfill_assets.domain import (
    Failing,
    GateContext,
    Reference,
    ReferenceValue,
    control_totals,
    expression,
    golden,
    known_rows,
    totals,
)
from backfill_assets.domain.gates_by_reference import KnownRows
from backfill_assets.ledger.findings import Finding
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.request import PlanRequest
from backfill_assets.report.history import partition_history
from backfill_assets.report.html import html_file
from backfill_assets.report.markdown import markdown_page
from backfill_assets.report.pages import page_of
from backfill_assets.report.report import run_report
from backfill_assets.report.runs import run_document
from backfill_assets.report.words.verdicts import verdict_words
from backfill_assets.testing import DomainKit
from backfill_assets.upkeep.check import check, check_rows
from backfill_assets_tests.domains.judged import DAYS, DEFECTS, SECOND, failing_of
from backfill_assets_tests.integration.gates.conftest import Opens
from backfill_assets_tests.support.advice import worded

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


def with_reference(opens: Opens, tmp_path: Path, gate: Failing, document: str, **parse: Any) -> DomainKit:
    """The home with a gate, and with this document as its reference."""
    name = gate.references[0]
    folder = tmp_path / "home" / "reference"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.yaml").write_text(document, encoding="utf-8")
    parsed = {"parse": known_rows if name == "known_rows" else control_totals, **parse}
    return opens(gate, references=(Reference(name=name, **parsed),))


@pytest.fixture
def finds(opens: Opens, tmp_path: Path) -> Finds:
    """What a gate finds by a reference with this document."""

    def found(gate: Failing, document: str, version: str | None = None, days: str | None = None) -> Any:
        kit = with_reference(opens, tmp_path, gate, document)
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


@pytest.mark.long
def test_a_value_that_is_known_to_be_null_is_not_another_one_and_the_reverse(finds: Finds) -> None:
    known = KNOWN.replace("customer_id: c-2, amount", "customer_id: null, amount")
    assert finds(golden("known_rows"), known, "nobody") == []
    assert [row[3:] for row in finds(golden("known_rows"), known)] == [("customer_id = null", "customer_id = c-2")]


@pytest.mark.long
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


@pytest.mark.long
def test_a_total_may_be_off_by_what_is_allowed_and_no_more(finds: Finds) -> None:
    for within, count in (("1", 0), ("0.999", 1)):
        gate = totals("control_totals", by=("country",), sums=("amount",), within=within)
        assert len(finds(gate, TOTALS, "dearer")) == count


def asked(gate: Failing, known: KnownRows, rows: DataFrame, key: tuple[str, ...] = ("day",)) -> Sequence[Row]:
    """What a gate finds of rows of the day, without a run."""
    ctx = GateContext(
        output=DayRange.inclusive(date(2026, 1, 3), date(2026, 1, 3)),
        output_partitions=(date(2026, 1, 3),),
        grain=Grain.DAILY,
        partition="day",
        partition_columns={"candidate": "day"},
        key=key,
        references={gate.references[0]: known},
        spark=rows.sparkSession,
    )
    assert gate.rows is not None
    return gate.rows(ctx=ctx, candidate=rows).collect()


@pytest.mark.parametrize("odd", ["NaN", "Infinity", "-Infinity", "1e300"])
def test_a_total_with_a_value_that_no_sum_has_is_not_the_one_that_was_delivered(spark: SparkSession, odd: str) -> None:
    delivered = KnownRows(version="1", rows=({"day": DAY, "amount": "30", "rows": "3"},))
    rows = spark.sql(f"SELECT DATE'{DAY}' AS day, explode(array(10, 20, double('{odd}'))) AS amount")
    (found,) = asked(totals("control_totals", sums=("amount",)), delivered, rows)
    assert (found.expected, found.found) == ("amount = 30", "amount = 30, and values that are not numbers: 1")


@pytest.mark.parametrize(
    ("scale", "amount", "delivered", "within", "differs"),
    [
        (9, "1.000000001", "1", "0", True),
        (9, "1.000000001", "1", "0.000000001", False),
        (9, "1", "1.00000000001", "0", True),
        (9, "1", "1.00000000001", "0.00000000001", False),
        (12, "1.000000000001", "1", "0", True),
        (2, "1", "1e40", "0", True),
        (2, "1", "1e40", "1e40", False),
        (2, "1", "2", "1e40", False),
    ],
)
def test_a_total_is_compared_in_each_of_its_digits(
    spark: SparkSession, scale: int, amount: str, delivered: str, within: str, *, differs: bool
) -> None:
    rows = spark.sql(f"SELECT DATE'{DAY}' AS day, CAST('{amount}' AS DECIMAL(30, {scale})) AS amount")
    known = KnownRows(version="1", rows=({"day": DAY, "amount": delivered},))
    assert bool(asked(totals("control_totals", sums=("amount",), within=within), known, rows)) is differs


def test_a_total_of_as_many_digits_as_a_number_can_have_is_named_whole(spark: SparkSession) -> None:
    rows = spark.sql(f"SELECT DATE'{DAY}' AS day, CAST('{10**37}' AS DECIMAL(38, 0)) AS amount")
    known = KnownRows(version="1", rows=({"day": DAY, "amount": str(2 * 10**37)},))
    (found,) = asked(totals("control_totals", sums=("amount",)), known, rows)
    assert (found.expected, found.found) == (f"amount = {2 * 10**37}", f"amount = {10**37}")


def test_a_day_without_an_entry_is_named_also_where_totals_are_grouped_by_the_day(spark: SparkSession) -> None:
    rows = spark.sql(f"SELECT DATE'{DAY}' AS day")
    (found,) = asked(totals("control_totals", by=("day",)), KnownRows(version="1", rows=()), rows)
    assert (str(found.day), found.found) == (DAY, "none")


def test_a_row_that_is_known_can_have_a_key_with_a_null_and_a_value_in_any_form(spark: SparkSession) -> None:
    rows = spark.sql(
        f"SELECT DATE'{DAY}' AS day, id, 10000000000000000 AS number, TIMESTAMP'2026-01-03 12:30:00' AS at "
        "FROM VALUES (CAST(NULL AS STRING)), ('b') AS ids(id)"
    )
    same = {"day": DAY, "id": None, "number": "1e+16", "at": "2026-01-03 13:30:00+01:00"}
    known = KnownRows(version="1", rows=(same, {**same, "id": "b", "at": "2026-01-03 12:30:01"}))
    (found,) = asked(golden("known_rows"), known, rows, key=("day", "id"))
    assert (found.id, found.expected, found.found) == ("b", "at = 2026-01-03 12:30:01", "at = 2026-01-03 12:30:00")


@pytest.mark.long
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
        (
            golden("known_rows"),
            KNOWN.replace("order_id: o-2-3, ", ""),
            "entry 1 of `rows`, in line 4, lacks order_id; give it day, order_id, which say what it is about "
            "(gate golden_known_rows of silver.order_totals asks what it says).",
        ),
        (
            golden("known_rows"),
            KNOWN.replace("country", "land"),
            "entry 1 of `rows`, in line 4, has land; an entry can have day, order_id, customer_id, country, amount,",
        ),
        (
            golden("known_rows"),
            KNOWN.replace("2026-01-03", "soon"),
            "entry 2 of `rows`, in line 5, has 'soon' as day; write a day such as 2026-01-31",
        ),
        (
            golden("known_rows"),
            KNOWN.replace("2026-01-05", "2026-01-02").replace("of another day", "o-2-3"),
            "entry 3 of `rows`, in line 6, is about the same as entry 1; keep one of the two",
        ),
        (
            golden("known_rows"),
            KNOWN.replace("number: 3", "number: three"),
            "entry 2 of `rows`, in line 5, has 'three' as number; write a number such as",
        ),
        (
            totals("control_totals", by=("country",), sums=("amount",)),
            TOTALS.replace("IT, rows: 2, amount: 30.00", "IT, rows: two"),
            "entry 3 of `totals`, in line 6, has 'two' as rows; write a number such as",
        ),
        (
            totals("control_totals", by=("country",), sums=("amount",)),
            TOTALS.replace("amount: 30.00", "amount: .nan"),
            "entry 3 of `totals`, in line 6, has 'nan' as amount; write a number such as",
        ),
        (
            totals("control_totals", by=("country",), sums=("amount",)),
            TOTALS.replace("amount: 30.00", "amount: null"),
            "entry 3 of `totals`, in line 6, has null as amount; write a number such as",
        ),
        (
            totals("control_totals"),
            TOTALS,
            "entry 1 of `totals`, in line 4, has country, amount; an entry can have day, rows",
        ),
        (
            golden("known_rows"),
            KNOWN.replace("country: FR", "country: NO"),
            "entry 1 of `rows`, in line 4, has 'false' as country; put the text in quotes, because YAML reads NO",
        ),
        (
            totals("control_totals", by=("number",)),
            "version: a\ntotals:\n  - {day: 2026-01-03, number: three, rows: 3}\n",
            "entry 1 of `totals`, in line 3, has 'three' as number; write a number such as 12",
        ),
        (
            totals("control_totals", by=("number",)),
            'version: a\ntotals: [{day: 2026-01-03, number: 3, rows: 3},\n  {day: 2026-01-03, number: "03"}]\n',
            "entry 2 of `totals`, in line 3, is about the same as entry 1; keep one of the two",
        ),
    ],
    ids=[
        *("no key", "unknown column", "no day", "twice", "no number", "no amount", "not a number", "null", "no group"),
        *("no text", "no value of a group", "a group twice"),
    ],
)
def test_an_entry_that_says_nothing_clear_is_named_with_its_file_and_line_when_a_run_is_planned(
    gate: Failing, document: str, said: str, opens: Opens, tmp_path: Path
) -> None:
    kit = with_reference(opens, tmp_path, gate, document)
    with pytest.raises(InvalidReference) as refused:
        kit.planned("order_totals", DAYS)
    file = tmp_path / "home" / "reference" / f"{gate.references[0]}.yaml"
    assert refused.value.message.startswith(f"{file}: {said}")


@pytest.mark.long
def test_an_entry_that_became_unclear_after_the_plan_is_named_by_its_file_when_the_gates_are_measured(
    opens: Opens, tmp_path: Path
) -> None:
    run_id = (kit := with_reference(opens, tmp_path, golden("known_rows"), KNOWN)).planned("order_totals", DAYS)
    kit.stage(run_id)
    kit = with_reference(opens, tmp_path, golden("known_rows"), KNOWN.replace("order_id: o-2-3, ", ""))
    with pytest.raises(
        InvalidReference, match=r"reference/known_rows\.yaml: entry 1 of `rows`, in line 4, lacks order_id"
    ):
        kit.gate(run_id)


def test_a_reference_that_is_parsed_otherwise_is_named_with_how_to_declare_it(opens: Opens, tmp_path: Path) -> None:
    def another(document: Any) -> ReferenceValue:
        return SimpleNamespace(version=document["version"])

    kit = with_reference(opens, tmp_path, golden("known_rows"), KNOWN, parse=another)
    with pytest.raises(InvalidReference, match="the domain has to declare it with parse=known_rows"):
        kit.planned("order_totals", DAYS)


@pytest.mark.parametrize(
    ("gate", "document", "has", "parse"),
    [
        (golden("control_totals"), TOTALS, "`version` and `rows` in place of `totals`", "known_rows"),
        (golden("control_totals"), "version: a\ntotals: []\n", "`version` and `rows`", "known_rows"),
        (totals("known_rows", by=("country",)), KNOWN, "`version` and `totals` in place of `rows`", "control_totals"),
    ],
    ids=["golden", "without an entry", "totals"],
)
def test_a_reference_of_the_other_kind_of_gate_is_named_with_what_it_has_to_have(
    gate: Failing, document: str, has: str, parse: str, opens: Opens, tmp_path: Path
) -> None:
    kit = with_reference(opens, tmp_path, gate, document)
    with pytest.raises(InvalidReference) as refused:
        kit.planned("order_totals", DAYS)
    said = refused.value.message
    file = tmp_path / "home" / "reference" / f"{gate.references[0]}.yaml"
    assert said.startswith(f"{file}: gate {gate.name} of silver.order_totals reads its entries")
    assert f"parse={parse}, and it has to have {has}" in said
    assert [each.problems for each in check(kit.ws).tables if each.problems] == [(said,)]


def test_an_entry_that_a_parser_has_made_of_something_else_is_named_without_a_line(
    opens: Opens, tmp_path: Path
) -> None:
    def renamed(document: Any) -> KnownRows:
        return known_rows({"version": document["version"], "rows": document["known"]})

    document = KNOWN.replace("rows:", "known:").replace("order_id: o-2-3, ", "")
    kit = with_reference(opens, tmp_path, golden("known_rows"), document, parse=renamed)
    with pytest.raises(InvalidReference, match=r"entry 1 of `rows` lacks order_id"):
        kit.planned("order_totals", DAYS)


@pytest.mark.parametrize(
    ("gate", "document"),
    [
        (golden("known_rows"), 'version: "2"\nrows: []\n'),
        (totals("control_totals", every_partition=False), 'version: "2"\ntotals: []\n'),
    ],
    ids=["golden", "totals"],
)
def test_a_reference_without_an_entry_of_a_partition_says_that_nothing_was_measured_there(
    gate: Failing, document: str, opens: Opens, tmp_path: Path
) -> None:
    kit = with_reference(opens, tmp_path, gate, document)
    run_id = kit.planned("order_totals", DAYS)
    kit.stage(run_id)
    kit.gate(run_id)
    with kit.ws.ledger.read() as tx:
        found = [each for each in tx.candidates.gate_results(run_id) if each.gate == gate.name]
    assert {(each.passed, each.finding) for each in found} == {(True, Finding.NOTHING_KNOWN)}
    assert verdict_words(found[0]) == f"nothing was measured: {gate.references[0]} has no entry here"
    shown = html_file(page_of(run_report(kit.ws, run_id)))
    assert f"3 days passed, where nothing was measured: {gate.references[0]} has no entry for them" in shown


@pytest.mark.long
def test_a_run_that_its_reference_blocks_is_measured_again_when_that_is_corrected(opens: Opens, tmp_path: Path) -> None:
    gate = totals("control_totals", every_partition=False)
    document = "version: a\ntotals:\n  - {day: 2026-01-03, rows: 4}\n"
    kit = with_reference(opens, tmp_path, gate, document)
    run_id = kit.planned("order_totals", DAYS)
    kit.stage(run_id)
    assert kit.gate(run_id).state == "BLOCKED"
    (found,) = run_document(kit.ws, run_id).blocked_by
    assert (found.first_failure or "").startswith("2026-01-03: 1 row fails")
    following = worded(run_report(kit.ws, run_id).run.next_step) or ""
    again = f"correct it there, and measure the same rows again: backfill run {run_id}; else fix the cause and plan"
    assert f"if the cause is in control_totals, {again} again: backfill plan table order_totals" in following
    kit = with_reference(opens, tmp_path, gate, document.replace("rows: 4", "rows: 3"))
    compute(kit.ws, run_id, Acting(by="eve", recorder=Unrecorded()))
    assert run_of(kit.ws, run_id).state is RunState.PASSED


def test_a_run_that_its_own_rows_block_is_not_advised_to_be_run_again(opens: Opens, tmp_path: Path) -> None:
    gate, wrong = totals("control_totals"), expression("never", "amount < 0")
    folder = tmp_path / "home" / "reference"
    folder.mkdir()
    (folder / "control_totals.yaml").write_text("version: a\ntotals: []\n", encoding="utf-8")
    kit = opens(gate, wrong, references=(Reference(name="control_totals", parse=control_totals),))
    run_id = kit.planned("order_totals", DAYS)
    kit.stage(run_id)
    assert kit.gate(run_id).failed == ("never", "totals_control_totals")
    assert "backfill run" not in (worded(run_report(kit.ws, run_id).run.next_step) or "")


@pytest.mark.long
def test_the_version_that_a_gate_has_met_is_in_the_plan_the_report_and_the_history(
    opens: Opens, tmp_path: Path
) -> None:
    gate = totals("control_totals", every_partition=False)
    kit = with_reference(opens, tmp_path, gate, 'version: "2026-01"\ntotals: [{day: 2026-01-03, rows: 3}]\n')
    three_days = DayRange.inclusive(date(2026, 1, 2), date(2026, 1, 4))
    planned = plan(kit.ws, PlanRequest(table="order_totals", days=three_days, reason="for a test", by="ana"))
    run_id = planned.manifest.run_id
    document = described_plan(kit.ws, planned)
    assert [each.version for each in document.gate_references] == ["2026-01"]
    assert ">read by gates<" in html_file(page_of(document))
    kit.stage(run_id)
    kit.gate(run_id)
    report = run_report(kit.ws, run_id)
    assert [(each.name, each.version) for each in report.gate_references] == [("control_totals", "2026-01")]
    shown = markdown_page(page_of(report)).replace("\\_", "_")
    assert "Gates have read control_totals 2026-01" in shown
    assert ">read by gates<" in html_file(page_of(report))
    kit.approve(run_id)
    kit.publish(run_id)
    history = partition_history(kit.ws, "silver.order_totals", date(2026, 1, 3))
    assert ">read by gates<" in html_file(page_of(history))


@pytest.mark.long
def test_partitions_with_and_without_an_entry_are_told_apart(opens: Opens, tmp_path: Path) -> None:
    kit = with_reference(opens, tmp_path, golden("known_rows"), KNOWN)
    run_id = kit.planned("order_totals", DAYS)
    kit.stage(run_id)
    kit.gate(run_id)
    with kit.ws.ledger.read() as tx:
        found = {
            e.partition.day: e.finding for e in tx.candidates.gate_results(run_id) if e.gate == "golden_known_rows"
        }
    assert found == {2: Finding.NO_ROWS_FAIL, 3: Finding.NO_ROWS_FAIL, 4: Finding.NOTHING_KNOWN}
    kit.approve(run_id)
    kit.publish(run_id)
    asked = kit.ws.domain.table("silver.order_totals")
    checked = check_rows(kit.ws, asked, None, gates=["golden_known_rows"], by="eve")
    assert [(each.measured, each.nothing_known, each.failed) for each in checked.gates] == [(3, 1, None)]
    assert "passed in 3 days, 1 without an entry to compare" in html_file(page_of(checked))
