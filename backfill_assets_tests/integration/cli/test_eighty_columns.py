"""On 80 columns every screen of a home with long names fits, and has everything that a wide one has."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from io import StringIO
from typing import Any

import pytest
from pyspark.sql import SparkSession

from backfill_assets.application import look
from backfill_assets.application.plan import described_plan, plan
from backfill_assets.application.requests import Restatement
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.cli.console import PlainConsole
from backfill_assets.cli.terminal import show
from backfill_assets.planning.request import PlanRequest
from backfill_assets.report.pages import page_of
from backfill_assets.testing import DomainKit
from backfill_assets_tests.domains.long_names import DOMAIN
from backfill_assets_tests.support.shop import DAYS, OUTPUT, sale

TABLE = "silver.revenue_per_customer_segment_and_country"
WHY = "the discounts of the autumn campaign were booked twice by the provider of payments, who has confirmed it to us"


def shown(document: object, width: int) -> list[str]:
    """What the terminal shows."""
    out = StringIO()
    show(PlainConsole(file=out, width=width), page_of(document))
    return [line.rstrip() for line in out.getvalue().splitlines()]


@pytest.fixture(scope="module")
def screens(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Mapping[str, Any]]:
    """A home with a publication, a restatement that waits, and a plan."""
    kit = DomainKit.open(DOMAIN, tmp_path_factory.mktemp("long"), first_day=DAYS.start)
    kit.land("sales", [sale(day) for day in DAYS], name="deliveries_of_the_provider_of_payments_until_january.jsonl")
    kit.published(TABLE, OUTPUT, version="0.9.0-before-the-discounts-were-known")
    waits = kit.planned(TABLE, OUTPUT, reason=WHY)
    kit.stage(waits)
    kit.gate(waits)
    proposed = plan(kit.ws, PlanRequest(table=TABLE, days=OUTPUT, reason=WHY, by="ana"))
    yield {
        "status": look.status(kit.ws, None),
        "status RUN": look.status(kit.ws, waits),
        "report": Restatement(kit.ws, waits).report(),
        "history": look.history(kit.ws, TABLE, None),
        "history of a partition": look.history(kit.ws, TABLE, DayRange.inclusive(OUTPUT.start, OUTPUT.start)),
        "plan": described_plan(kit.ws, proposed),
        "stale": look.stale(kit.ws, None, None),
    }
    kit.close()


NAMES = ("status", "status RUN", "report", "history", "history of a partition", "plan", "stale")


@pytest.mark.parametrize("name", NAMES)
def test_no_line_is_longer_than_the_terminal_and_nothing_is_left_out(screens: Mapping[str, Any], name: str) -> None:
    narrow, wide = shown(screens[name], 80), shown(screens[name], 1000)
    assert [line for line in narrow if len(line) > 80] == []
    # Broken words and commands are put together again; what is beside each other in one is below it in the other.
    text = re.sub(r"\s+", "", "\n".join(narrow).replace(" \\\n", " "))
    assert [word for line in wide for word in line.split() if word not in text] == []


def test_what_is_next_can_be_copied_from_80_columns(screens: Mapping[str, Any]) -> None:
    lines = shown(screens["plan"], 80)
    begins = max(place for place, line in enumerate(lines) if line.startswith("next: "))
    typed = "\n".join(lines[begins:]).removeprefix("next: ")
    run_id = screens["plan"].plan.manifest.run_id
    words = shlex.split(typed.replace("\\\n", "").replace(", and then", ""))
    assert words == ["backfill", "report", run_id, "backfill", "approve", run_id, "--by", "ANOTHER_PERSON"]
