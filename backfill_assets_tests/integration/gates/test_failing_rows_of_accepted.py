"""Gates of an author asked of accepted rows: with the inputs from which these were computed, not with later ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from backfill_assets.application.check import check
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.candidates import failing_rows
from backfill_assets.domain import TransformContext, daily, derived_table, failing, warm_up_proof
from backfill_assets.gates.judge import FailingRows, count_failing
from backfill_assets.report.gates_since import not_measured
from backfill_assets.testing import DomainKit
from backfill_assets.transforms.apply import Called
from backfill_assets.upkeep.check import RowsCheck
from backfill_assets_tests.domains import judged
from backfill_assets_tests.domains.judged import DAYS, an_order, judged_by
from backfill_assets_tests.support.lakes import folder_of
from backfill_assets_tests.support.ledgers import copy_home

EVE = Acting(by="eve", recorder=Unrecorded())
TABLE = "silver.order_totals"
SECOND = {"day": "2026-01-03", "order_id": "o-3-2"}

Opens = Callable[..., DomainKit]


@pytest.fixture(scope="session")
def home_of_dearer_orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home in which one accepted row is wrong, by a release that no gate has seen. Tests copy it."""
    home = tmp_path_factory.mktemp("accepted") / "home"
    judged.stocked(home)
    kit = judged.opened(judged_by(), home)
    kit.published("order_totals", DAYS, version="dearer")
    kit.close()
    return home


@pytest.fixture
def opens(home_of_dearer_orders: Path, tmp_path: Path) -> Opens:
    """Opens a copy of the home with gates on its table of orders."""
    copy_home(home_of_dearer_orders, tmp_path / "home")
    return lambda *gates: judged.opened(judged_by(*gates), tmp_path / "home")


def as_ordered(more: str = "") -> str:
    return f"""
    SELECT t.day, t.order_id, o.amount AS expected, t.amount AS found
    FROM candidate AS t JOIN orders AS o ON o.order_id = t.order_id
    WHERE t.amount <> o.amount {more}
    """


@failing(demands="the accepted rows are the candidate itself")
def is_itself(candidate: DataFrame, accepted: DataFrame) -> DataFrame:
    return candidate.exceptAll(accepted).select("day", "order_id", sf.lit("a row").alias("expected"))


def found(checked: RowsCheck, gate: str) -> list[tuple[object, ...]]:
    (of_gate,) = [each for each in checked.gates if each.gate == gate]
    return [(str(key.partition), dict(key.key), key.expected, key.found) for key in of_gate.keys]


def lacking(kit: DomainKit) -> tuple[str, ...]:
    with kit.ws.ledger.read() as tx:
        return tuple(gate for each in not_measured(kit.ws, tx, kit.ws.domain.derived) for gate in each.gates)


@pytest.mark.long
def test_a_gate_of_an_author_finds_the_accepted_row_that_is_wrong_by_the_inputs_of_its_run(opens: Opens) -> None:
    kit = opens(failing("as_ordered", sql=as_ordered()), is_itself)
    assert lacking(kit) == ("as_ordered", "is_itself")
    # The source is corrected to what the row says; it was computed from what the source said before.
    kit.land("orders", [an_order(3, 2, amount="21.00", ordered_at="2026-01-03T10:02:00Z")], name="later.jsonl")
    checked = check(kit.ws, EVE, TABLE)
    assert found(checked, "as_ordered") == [("2026-01-03", SECOND, "20.00", "21.00")]
    assert found(checked, "is_itself") == []
    assert (checked.passes, checked.not_measurable, lacking(kit)) == (False, (), ())
    # Another query is another gate, whatever its words say.
    assert lacking(opens(failing("as_ordered", sql=as_ordered("AND true")), is_itself)) == ("as_ordered",)


@pytest.mark.long
def test_gates_are_asked_together_of_the_rows_of_each_run(opens: Opens, monkeypatch: pytest.MonkeyPatch) -> None:
    opens().published("order_totals", "2026-01-03", version="all")
    kit, asked = opens(failing("as_ordered", sql=as_ordered()), is_itself), list[tuple[str, ...]]()

    def counting(called: Called, *given: Any) -> Mapping[str, FailingRows]:
        asked.append(tuple(called))
        return count_failing(called, *given)

    monkeypatch.setattr(failing_rows, "count_failing", counting)
    checked = check(kit.ws, EVE, TABLE)
    assert asked == [("as_ordered", "is_itself")] * 2
    assert found(checked, "as_ordered") == [("2026-01-03", SECOND, "20.00", "21.00")]
    assert found(checked, "is_itself") == []


@pytest.mark.long
def test_rows_whose_inputs_are_gone_cannot_be_measured_with_a_gate_on_them_and_that_is_said(opens: Opens) -> None:
    kit = opens(failing("as_ordered", sql=as_ordered()), is_itself)
    with kit.ws.ledger.read() as tx:
        for version in tx.versions.accepted("bronze.orders").values():
            for file in version.files.files:
                (folder_of(kit.ws.lake, "bronze.orders") / file.path).unlink()
    checked = check(kit.ws, EVE, TABLE)
    (lost,) = checked.not_measurable
    assert (lost.gates, len(lost.partitions), checked.passes) == (("as_ordered",), 3, False)
    assert {each.gate: each.measured for each in checked.gates}.items() >= {"as_ordered": 0, "is_itself": 3}.items()
    assert lacking(kit) == ("as_ordered",)


@derived_table(
    name=TABLE,
    inputs={"orders": judged.orders, "customers": judged.customers},
    key=("day", "order_id"),
    partition=daily("day"),
    schema=judged.order_totals.schema,
    version="2.0.0",
    gates=(
        failing(
            "known",
            sql="SELECT t.day, t.order_id FROM candidate t LEFT ANTI JOIN customers c ON c.customer_id = t.customer_id",
        ),
        warm_up_proof(partitions=0),
    ),
)
def of_customers(orders: DataFrame, customers: DataFrame, ctx: TransformContext) -> DataFrame:
    """The active orders of a day. Grain: one row per day and order."""
    known = orders.join(customers, "customer_id", "left_semi").withColumn("day", sf.col("ordered_on"))
    return known.withColumn("number", sf.lit(1).cast("long")).select(*judged.order_totals.schema.fieldNames())


def test_a_gate_on_an_input_that_the_run_of_the_rows_did_not_read_cannot_be_asked_of_them(
    opens: Opens, tmp_path: Path
) -> None:
    opens().close()
    domain = replace(judged.DOMAIN, derived=(of_customers,))
    kit = judged.opened(domain, tmp_path / "home")
    checked = check(kit.ws, EVE, TABLE)
    (lost,) = checked.not_measurable
    assert (lost.gates, len(lost.partitions), checked.passes) == (("known",), 3, False)
    assert "did not read customers" in lost.why
    assert lacking(kit) == ("known",)
