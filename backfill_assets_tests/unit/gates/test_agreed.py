"""The gates that a run is measured by are those of its manifest, with everything that they look at."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql.types import StructField, StructType

from backfill_assets.domain import Breakdown, DerivedTable, expression, moved, row_count
from backfill_assets.domain.errors import PlannedOtherwise
from backfill_assets.domain.gates import Gate
from backfill_assets.domain.safeguards import safeguards_of
from backfill_assets.gates.agreed import gate_terms, gates_since, require_agreed_gates
from backfill_assets.planning.kinds.expire import Expire, RetentionRule
from backfill_assets_tests.domains.story import turnover
from backfill_assets_tests.support.ledger_examples import a_manifest


def summed(what: str) -> DerivedTable:
    """Turnover with a gate over a measure that adds up something."""
    gates = (*turnover.gates, moved("sold", percent=5))
    return replace(turnover, breakdown=Breakdown(measures={"sold": what}), gates=gates)


def with_null(table: DerivedTable) -> DerivedTable:
    fields = [StructField(f.name, f.dataType, f.nullable or f.name == "amount") for f in table.schema.fields]
    return replace(table, schema=StructType(fields))


@pytest.mark.parametrize(
    ("planned", "declared", "changed"),
    [
        (summed("amount"), summed("0"), "gate moved_sold"),
        (summed("amount"), with_null(summed("amount")), "column amount"),
        (with_null(summed("amount")), summed("amount"), "column amount"),
    ],
)
def test_a_run_is_measured_by_the_sums_and_columns_that_were_approved(
    planned: DerivedTable, declared: DerivedTable, changed: str
) -> None:
    manifest = a_manifest(
        "r-1", table=planned.name, gates=gate_terms(planned), safeguards=safeguards_of(planned), policy=planned.policy
    )
    require_agreed_gates(manifest, planned)
    with pytest.raises(PlannedOtherwise, match=changed):
        require_agreed_gates(manifest, declared)


CHEAP = expression("cheap", "amount <= 10")


def with_gates(*gates: Gate) -> DerivedTable:
    return replace(turnover, gates=(*turnover.gates, *gates))


PLAIN = with_gates()


@pytest.mark.parametrize(
    ("planned", "declared", "since"),
    [
        (PLAIN, PLAIN, ()),
        (PLAIN, with_gates(CHEAP), ("gate cheap",)),
        (with_gates(CHEAP), PLAIN, ()),
        (with_gates(expression("cheap", "amount <= 9")), with_gates(CHEAP), ("gate cheap",)),
        (with_gates(replace(CHEAP, blocking=False)), with_gates(CHEAP), ("gate cheap",)),
        (with_gates(CHEAP), with_gates(replace(CHEAP, blocking=False)), ()),
        (with_gates(row_count(at_least=2)), with_gates(row_count(at_least=3)), ("gate row_count",)),
        (with_gates(row_count(at_least=3)), with_gates(row_count(at_least=2)), ()),
        (with_null(PLAIN), PLAIN, ("column amount",)),
        (PLAIN, with_null(PLAIN), ()),
    ],
)
def test_a_run_was_not_measured_with_gates_that_are_new_stricter_or_other_ones_since(
    planned: DerivedTable, declared: DerivedTable, since: tuple[str, ...]
) -> None:
    agreed = gate_terms(planned)
    manifest = a_manifest(
        "r-1", table=planned.name, gates=agreed, safeguards=safeguards_of(planned), policy=planned.policy
    )
    assert gates_since(manifest, declared) == since
    assert gates_since(replace(manifest, change=Expire(keep=RetentionRule(days=1))), declared) == ()
