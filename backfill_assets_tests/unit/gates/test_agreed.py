"""The gates that a run is measured by are those of its manifest, with everything that they look at."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql.types import StructField, StructType

from backfill_assets.domain import Breakdown, DerivedTable, moved
from backfill_assets.domain.errors import PlannedOtherwise
from backfill_assets.domain.safeguards import safeguards_of
from backfill_assets.gates.agreed import gate_terms, require_agreed_gates
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
