"""Does the reference domain declare what its spec asks for?"""

from __future__ import annotations

from backfill_assets.calendar.partitions import Grain
from backfill_assets.examples.enforcement_sla import DOMAIN


def test_the_tables_are_declared_inputs_first_with_their_keys_and_partitions() -> None:
    declared = {name: (table.key, table.partition.column) for name, table in DOMAIN.tables.items()}
    assert list(declared.items()) == [
        ("bronze.case_events", (("event_id",), "event_date")),
        ("silver.case_sla_daily", (("case_id", "clock", "business_date"), "business_date")),
        ("silver.open_cases", (("case_id", "clock", "as_of_date"), "as_of_date")),
        ("gold.sla_breach_monthly", (("month", "jurisdiction", "clock"), "month")),
    ]
    assert DOMAIN.table("gold.sla_breach_monthly").partition.grain is Grain.MONTHLY


def test_the_present_release_comes_first_and_the_defective_ones_can_still_be_run() -> None:
    table = DOMAIN.derived_table("case_sla_daily")
    assert [release.version for release in table.releases] == ["3.1.0", "3.0.0", "2.4.1"]
    assert table.transform == "case-sla"
    assert DOMAIN.derived_table("sla_breach_monthly").transform == "sla-breach"


def test_a_transform_says_what_its_grain_key_window_and_source_are() -> None:
    for table in DOMAIN.derived:
        for word in ("Grain:", "Key:", "Window:", "Source:"):
            assert word in table.description
