"""The reference domain: the legal deadlines of enforcement cases. Copy this package to begin your own.

From the landed file to the monthly figures:

- `sources`: what lands (`bronze.case_events`).
- `references`: the facts from outside, versioned, and what makes such a file acceptable.
- `reference_changes`: which days a new version of them touches, so that no more than those is computed again.
- `sla_clocks`: where every clock of every case stands each day (`silver.case_sla_daily`), in the present release
  and in the defective one before it.
- `active_cases`: the clocks that every day has to report, told from the events alone, for a gate.
- `sla_breaches`: what a regulator reports (`gold.sla_breach_monthly`).
- `open_cases`: the clocks that are open at the end of a day (`silver.open_cases`), a table that keeps state.
- `clock_moves`: what both tables of clocks share: events on their local dates, and days by how many count.
- `case_histories`, `generator`, `demo.md`: made-up events, the files they come in, and the story of `backfill demo`; no
  table depends on them. `from_topic` is the same domain over a topic, and `demo_kafka.md` its story.
- `reference`: the present files of the references.

Nothing here knows about Delta, Dagster or the ledger: assets, checks, plans and reports follow from `DOMAIN`.
"""

from __future__ import annotations

from backfill_assets.domain import Domain, Reference

from .open_cases import open_cases
from .reference_changes import days_a_calendar_changes, days_a_policy_changes
from .references import parse_jurisdiction_calendar, parse_sla_policy
from .sla_breaches import sla_breach_monthly
from .sla_clocks import case_sla_daily
from .sources import case_events

DOMAIN = Domain(
    name="enforcement_sla",
    package=__name__,
    sources=(case_events,),
    derived=(case_sla_daily, sla_breach_monthly, open_cases),
    references=(
        Reference(
            name="jurisdiction_calendar", parse=parse_jurisdiction_calendar, changed_days=days_a_calendar_changes
        ),
        Reference(name="sla_policy", parse=parse_sla_policy, changed_days=days_a_policy_changes),
    ),
)
