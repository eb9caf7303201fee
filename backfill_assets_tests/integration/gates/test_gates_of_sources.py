"""Gates on rows that fail of a source table: what was landed is measured before anybody can read it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from backfill_assets.application.check import check
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.core.errors import IllegalTransition
from backfill_assets.domain import Gate, Reference, control_totals, failing, totals
from backfill_assets.domain.errors import CodeBroken
from backfill_assets.report.report import run_report
from backfill_assets.testing import DomainKit
from backfill_assets.transforms.errors import NotDetermined
from backfill_assets_tests.domains import judged
from backfill_assets_tests.domains.judged import an_order
from backfill_assets_tests.integration.gates.conftest import Opens
from backfill_assets_tests.support.ledgers import copy_home

EVE = Acting(by="eve", recorder=Unrecorded())
ORDERS = "bronze.orders"
DELIVERED = """
version: "{version}"
totals:
  - {{ordered_on: 2026-01-03, country: IT, rows: 3, amount: {amount}}}
  - {{ordered_on: 2026-01-03, country: FR, rows: 2, amount: 70}}
"""


def opened_with(home: Path, *gates: Gate) -> DomainKit:
    """The home with gates on its source of orders, without the table that is computed from it."""
    orders = replace(judged.orders, gates=gates)
    domain = replace(
        judged.DOMAIN,
        sources=(orders, judged.customers),
        derived=(),
        references=(Reference(name="delivered", parse=control_totals),),
    )
    return judged.opened(domain, home)


def deliver(home: Path, version: str, amount: int) -> None:
    (home / "reference").mkdir(exist_ok=True)
    (home / "reference" / "delivered.yaml").write_text(DELIVERED.format(version=version, amount=amount))


def newest(kit: DomainKit) -> str:
    with kit.ws.ledger.read() as tx:
        return tx.runs.records(table=ORDERS)[0].run_id


@failing(demands="customers have names of the form c-1")
def names(candidate: DataFrame, accepted: DataFrame) -> DataFrame:
    before = accepted.select("ordered_on", "order_id", sf.col("customer_id").alias("expected"))
    wrong = candidate.where("customer_id NOT LIKE 'c-%'").withColumn("found", sf.col("customer_id"))
    return wrong.join(before, ["ordered_on", "order_id"], "left")


@pytest.mark.long
def test_landed_rows_that_are_not_what_was_delivered_are_named_and_wait_until_they_are(
    home_of_orders: Path, tmp_path: Path
) -> None:
    home = copy_home(home_of_orders, tmp_path / "home")
    deliver(home, "1", 35)
    gates = (totals("delivered", by=("country",), sums=("amount",)), names)
    kit = opened_with(home, *gates)
    late = [
        an_order(3, 5, country="IT", amount="4.00"),
        an_order(3, 4, customer_id="nobody", ordered_at="2026-01-03T10:04:00Z"),
    ]
    with pytest.raises(IllegalTransition, match="it is BLOCKED"):
        kit.land("orders", late, name="late.jsonl")
    report = run_report(kit.ws, newest(kit))
    assert [(each.gate, dict(each.key), each.expected, each.found) for each in report.failing_keys] == [
        ("totals_delivered", {"ordered_on": "2026-01-03", "country": "IT"}, "amount = 35", "amount = 34"),
        ("names", {"ordered_on": "2026-01-03", "order_id": "o-3-4"}, "c-3", "nobody"),
    ]
    assert {str(day): version.version for day, version in kit.accepted("orders").items()}["2026-01-03"] == 1

    deliver(home, "2", 34)
    kit = opened_with(home, *gates)
    kit.land("orders", [an_order(3, 4, ordered_at="2026-01-03T10:04:00Z")], name="corrected.jsonl")
    assert kit.accepted("orders")[report.run.record.manifest.partitions[0]].version == 2
    checked = check(kit.ws, EVE, ORDERS)
    lacking = {str(key.partition) for each in checked.gates for key in each.keys}
    assert lacking == {f"2026-01-0{day}" for day in (1, 2, 4, 5)}, "these have no entry"


SMALLEST = 1


def is_small(amount: int) -> bool:
    return amount < SMALLEST


def too_small(candidate: DataFrame) -> DataFrame:
    small = sf.udf(is_small, "boolean", useArrow=False)
    return candidate.where(small(sf.col("number"))).withColumn("found", sf.col("number"))


def at_random(candidate: DataFrame) -> DataFrame:
    small = sf.udf(is_small, "boolean", useArrow=False).asNondeterministic()
    return candidate.where(small(sf.col("number")))


@pytest.mark.long
def test_a_function_of_python_in_a_gate_finds_rows_and_not_by_other_code_than_was_planned(
    opens: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = opens(failing("too_small", rows=too_small))
    assert judged.failing_of(kit) == []
    assert judged.failing_of(kit, version="back") == [("too_small", "2026-01-03", judged.SECOND, None, "0")]
    monkeypatch.setattr(f"{__name__}.SMALLEST", 4)
    run_id = kit.planned("order_totals", judged.DAYS)
    kit.stage(run_id)
    with pytest.raises(CodeBroken, match=r"gate too_small .* in a Python process of Spark"):
        kit.gate(run_id)
    with kit.ws.ledger.read() as tx:
        assert tx.candidates.gate_results(run_id) == ()


@pytest.mark.long
def test_a_function_of_python_in_a_gate_that_says_it_is_not_determined_is_refused(opens: Opens) -> None:
    with pytest.raises(NotDetermined, match=r"uses \.asNondeterministic\(\) in .*test_gates_of_sources.py, line"):
        judged.failing_of(opens(failing("at_random", rows=at_random)))
