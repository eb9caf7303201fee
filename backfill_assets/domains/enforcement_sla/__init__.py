"""The reference domain: the legal deadlines of enforcement cases. Copy this package to begin your own.

From the landed file to the monthly figures:

- `sources`: what lands (`bronze.case_events`).
- `references`: the facts from outside, versioned, and what makes such a file acceptable.
- `reference_changes`: which days a new version of them touches, so that no more than those is computed again.
- `sla_clocks`: where every clock of every case stands each day (`silver.case_sla_daily`), in the present release
  and in the defective one before it.
- `sla_breaches`: what a regulator reports (`gold.sla_breach_monthly`).
- `case_histories`, `generator`: made-up events and the files they come in, for the demo; no table depends on them.

Nothing here knows about Delta, Dagster or the ledger: assets, checks, plans and reports follow from `DOMAIN`.
"""

from __future__ import annotations

from datetime import date

from backfill_assets.domain import DayRange, Demo, Domain, Reference

from .generator import DEFAULT_CASES, DEFAULT_SEED, write_demo_files
from .reference_changes import days_a_calendar_changes, days_a_policy_changes
from .references import parse_jurisdiction_calendar, parse_sla_policy
from .sla_breaches import sla_breach_monthly
from .sla_clocks import case_sla_daily
from .sources import case_events

DEMO = Demo(
    source=case_events,
    table=case_sla_daily,
    figures=(sla_breach_monthly, "breached_cases"),
    write_files=lambda folder, size, seed: write_demo_files(folder, cases=size, seed=seed),
    size=DEFAULT_CASES,
    seed=DEFAULT_SEED,
    covered=DayRange.inclusive(date(2024, 10, 1), date(2025, 7, 1)),
    history=DayRange.inclusive(date(2024, 12, 1), date(2025, 6, 30)),
    restated=DayRange.inclusive(date(2025, 2, 1), date(2025, 4, 30)),
    defective_version="2.4.1",
    corrected_version="3.1.0",
    defect=(
        "Version 2.4.1 took the date of an event in UTC. A case opened in New York at nine in the evening was counted "
        "from the next day, one opened in India before dawn from the day before: its deadline is a day off. Version "
        "3.1.0 takes the date where the case is. February to April 2025 were reported already and have to be restated."
    ),
)

DOMAIN = Domain(
    name="enforcement_sla",
    package=__name__,
    sources=(case_events,),
    derived=(case_sla_daily, sla_breach_monthly),
    references=(
        Reference(
            name="jurisdiction_calendar", parse=parse_jurisdiction_calendar, changed_days=days_a_calendar_changes
        ),
        Reference(name="sla_policy", parse=parse_sla_policy, changed_days=days_a_policy_changes),
    ),
    demo=DEMO,
)
