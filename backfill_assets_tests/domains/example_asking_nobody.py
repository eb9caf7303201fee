"""A colleague's own copy of the example domain, whose policies ask for no approval."""

from __future__ import annotations

from dataclasses import replace

from backfill_assets.domain import Domain, Policy
from backfill_assets_tests.domains import example as example_domain

ASKS_NOBODY = Policy(live="auto", backfill="auto", follow="auto")

recent_sales = replace(example_domain.recent_sales, policy=ASKS_NOBODY)
sales_monthly = replace(example_domain.sales_monthly, inputs={"recent": recent_sales}, policy=ASKS_NOBODY)

DOMAIN = Domain(
    name="example",
    package="backfill_assets_tests.domains.example",
    sources=(example_domain.sales,),
    derived=(recent_sales, sales_monthly),
)
