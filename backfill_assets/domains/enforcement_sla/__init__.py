"""The reference domain: the legal deadlines of enforcement cases. Copy this package to begin your own.

In the order of the data's way:

- `sources`: what lands (`bronze.case_events`).
- `references`: the facts from outside, versioned, and what makes such a file acceptable.
- `sla_clocks`: where every clock of every case stands each day (`silver.case_sla_daily`), in the present release
  and in the defective one before it.
- `sla_breaches`: what a regulator reports (`gold.sla_breach_monthly`).
- `case_histories`, `generator`: made-up events and the files they come in, for the demo; no table depends on them.

Nothing here knows about Delta, Dagster or the ledger: assets, checks, plans and reports follow from `DOMAIN`.
"""

from __future__ import annotations

from backfill_assets.domain import Domain, Reference
from backfill_assets.domains.enforcement_sla.references import parse_jurisdiction_calendar, parse_sla_policy
from backfill_assets.domains.enforcement_sla.sla_breaches import sla_breach_monthly
from backfill_assets.domains.enforcement_sla.sla_clocks import case_sla_daily
from backfill_assets.domains.enforcement_sla.sources import case_events

DOMAIN = Domain(
    name="enforcement_sla",
    package="backfill_assets.domains.enforcement_sla",
    sources=(case_events,),
    derived=(case_sla_daily, sla_breach_monthly),
    references=(
        Reference(name="jurisdiction_calendar", parse=parse_jurisdiction_calendar),
        Reference(name="sla_policy", parse=parse_sla_policy),
    ),
)
