"""The shop of `domains/example` whose sales are captured from an API; where that is, the environment says."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta

from backfill_assets.domain import Cursor, Domain, HttpApi, TimeWindow, Token
from backfill_assets_tests.domains import example as example_domain

SERVER = os.environ.get("TEST_API", "http://127.0.0.1:9")

API = HttpApi(
    url=f"{SERVER}/v1/sales",
    records="data.items",
    pages=Cursor(parameter="cursor", next="data.next"),
    window=TimeWindow(start="from", end="to", of="sold_at"),
    parameters={"limit": "10"},
    answers_within=timedelta(seconds=5),
)

SECURED = replace(
    API,
    secret_parameters={"client": "TEST_API_CLIENT"},
    token=Token(url=f"{SERVER}/token", secrets={"client_id": "TEST_API_CLIENT", "client_secret": "TEST_API_SECRET"}),
)

sales = replace(example_domain.sales, gates=(), capture=SECURED if os.environ.get("TEST_API_SECURED") else API)

DOMAIN = Domain(name="captured", package="backfill_assets_tests.domains.captured_api", sources=(sales,), derived=())
