"""The late event of docs/late-data.md changes a number of the demo, by the rules read word for word."""

from __future__ import annotations

import json
import re
from datetime import date, datetime

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.settings import PROJECT_ROOT
from backfill_assets.examples.enforcement_sla import DOMAIN
from backfill_assets.examples.enforcement_sla.case_histories import generate_events
from backfill_assets.examples.enforcement_sla.generator import DEFAULT_CASES, DEFAULT_SEED
from backfill_assets.examples.enforcement_sla.references import JurisdictionCalendar, SlaPolicy
from backfill_assets.files.local import LocalFiles
from backfill_assets.transforms.references import load_references
from backfill_assets_tests.support.sla_oracle import Event, expected_rows

PAGE = PROJECT_ROOT / "docs" / "late-data.md"
REFERENCES = PROJECT_ROOT / "backfill_assets" / "examples" / "enforcement_sla" / "reference"
MARCH = DayRange.inclusive(date(2025, 3, 1), date(2025, 3, 31))


def late_event() -> Event:
    found = re.search(r"^echo '(\{.*\})' > late\.jsonl$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None
    record = json.loads(found[1])
    return Event(
        event_id=record["event_id"],
        case_id=record["case_id"],
        jurisdiction=record["jurisdiction"],
        event_type=record["event_type"],
        event_time=datetime.fromisoformat(record["event_time"]),
    )


def test_the_late_event_of_the_page_takes_days_from_a_case_that_was_breached_without_it() -> None:
    late = late_event()
    demo = [
        Event(
            event_id=each.event_id,
            case_id=each.case_id,
            jurisdiction=each.jurisdiction,
            event_type=each.event_type,
            event_time=each.happened_at,
        )
        for each in generate_events(cases=DEFAULT_CASES, seed=DEFAULT_SEED)
        if each.case_id == late.case_id
    ]
    assert demo and late.event_id not in {each.event_id for each in demo}
    loaded = load_references(DOMAIN, LocalFiles(REFERENCES))
    calendar, policy = (loaded[name].value for name in ("jurisdiction_calendar", "sla_policy"))
    assert isinstance(calendar, JurisdictionCalendar) and isinstance(policy, SlaPolicy)
    before, after = (
        [row[10] for row in expected_rows(events, calendar, policy, "3.1.0", MARCH)] for events in (demo, [*demo, late])
    )
    assert before.count("BREACHED") > after.count("BREACHED")
