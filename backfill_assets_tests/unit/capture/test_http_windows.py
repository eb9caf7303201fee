"""What an API is asked: searches, windows that overlap, instants as it reads them; and what a position means."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.calendar.local_days import LocalDays
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.capture.streams import CapturePeriod
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.identity import canonical_json
from backfill_assets.domain import (
    Cursor,
    HttpApi,
    IdRange,
    InBody,
    InHeader,
    LinkHeader,
    NextUrl,
    Offset,
    PageNumber,
    TimeWindow,
)
from backfill_assets_tests.support.any_api import (
    FIRST,
    WINDOW,
    AnyApi,
    AnyCapture,
    Asked,
    Record,
    Said,
    captured,
    named,
    record,
)


def test_a_search_is_a_post_whose_body_has_the_window_the_page_and_numbers_as_numbers(
    api: AnyApi, tmp_path: Path
) -> None:
    def answer(asked: Asked) -> Said:
        at = asked.document["page"]["from"]
        return Said(document={"results": [record(at)] if at < 2 else []}, status=201)

    found = captured(
        api,
        tmp_path,
        answer,
        method="POST",
        body={"query": {"kind": "sale", "rate": 1.5}, "page": {"from": None}},
        pages=Offset(parameter=InBody("page.from"), limit=InBody("page.size"), size=1),
        window=TimeWindow(start=InBody("range.start"), end=InHeader("X-Until"), of="at", form="seconds"),
        parameters={"tag": ("a", "b")},
    )
    assert found.run(CapturePeriod(start=FIRST, end=FIRST + timedelta(days=1))) == 2
    start = int(FIRST.timestamp())
    assert [each.document for each in api.asked] == [
        {"query": {"kind": "sale", "rate": 1.5}, "page": {"from": n, "size": 1}, "range": {"start": start}}
        for n in range(3)
    ]
    first = api.asked[0]
    assert (first.method, first.headers["content-type"]) == ("POST", "application/json")
    assert first.headers["x-until"] == str(start + 86400)
    assert list(first.query) == [("tag", "a"), ("tag", "b")]
    kept = json.loads(found.answers[0].partition(b"\n")[0])["request"]
    assert json.loads(kept["body"]) == first.document
    assert (kept["method"], kept["headers"]) == ("POST", {"X-Until": str(start + 86400)})


@pytest.mark.parametrize("seconds", [-40, 0, 40])
def test_records_that_a_clock_beside_theirs_puts_elsewhere_are_captured_with_an_overlap(
    api: AnyApi, tmp_path: Path, seconds: int
) -> None:
    """The server finds records by when it got them, and counts neither end."""
    edges = [FIRST + timedelta(days=1, seconds=each) for each in (-86400, -86390, -30, -1, 0, 1, 30)]
    records: list[Record] = [{"id": number, "at": at.isoformat()} for number, at in enumerate(edges)]

    def answer(asked: Asked) -> Said:
        start, end = (datetime.fromisoformat(asked.parameters[each]) for each in ("from", "to"))
        skew = timedelta(seconds=seconds)
        return named(results=[each for each in records if start < datetime.fromisoformat(each["at"]) + skew < end])

    window = replace(WINDOW, overlap=timedelta(minutes=1))
    found = captured(api, tmp_path, answer, window=window)
    found.run(CapturePeriod(start=FIRST, end=FIRST + timedelta(days=1)))
    assert {each["id"] for each in found.records} >= {0, 1, 2, 3}
    found.run(CapturePeriod(start=FIRST, end=FIRST + timedelta(days=2)))
    assert {each["id"] for each in found.records} == set(range(7))


@pytest.mark.parametrize("day", ["2026-03-29", "2026-10-25"])  # clocks in Amsterdam change
def test_an_overlap_of_days_is_one_of_the_calendar(api: AnyApi, tmp_path: Path, day: str) -> None:
    window = TimeWindow(start="from", end="to", of="at", form="day", overlap=timedelta(days=1))
    declared = HttpApi(url=f"{api.url}/v1", records="results", window=window)
    api.answer = lambda _: named(results=[])
    from zoneinfo import ZoneInfo

    from backfill_assets_tests.support import any_api as support

    zone = ZoneInfo("Europe/Amsterdam")
    first = datetime.fromisoformat(day).replace(tzinfo=zone)
    following = (first.replace(tzinfo=None) + timedelta(days=1)).replace(tzinfo=zone)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(support, "NOW", datetime(2027, 1, 1, tzinfo=UTC))
        capture = AnyCapture(tmp_path, declared, zone="Europe/Amsterdam")
        capture.run(CapturePeriod(start=first.astimezone(UTC), end=following.astimezone(UTC)))
    (asked,) = api.asked
    whole = datetime.fromisoformat(day).date()
    assert asked.parameters == {"from": f"{whole - timedelta(days=1)}", "to": f"{whole + timedelta(days=2)}"}


@pytest.mark.parametrize(
    ("form", "zone", "asked"),
    [
        ("yyyyMMdd", "Europe/Amsterdam", [("20260101", "20260102"), ("20260102", "20260103")]),
        ("d/M/yyyy", "UTC", [("1/1/2026", "2/1/2026"), ("2/1/2026", "3/1/2026")]),
        (
            "yyyy-MM-dd HH:mm:ss",
            "America/New_York",
            [("2025-12-31 19:00:00", "2026-01-01 19:00:00"), ("2026-01-01 19:00:00", "2026-01-02 19:00:00")],
        ),
        (
            "yyyyMMdd'T'HHmmssXXX",
            "America/New_York",
            [("20260101T000000Z", "20260102T000000Z"), ("20260102T000000Z", "20260103T000000Z")],
        ),
    ],
)
def test_instants_are_written_as_an_api_reads_them(
    api: AnyApi, tmp_path: Path, form: str, zone: str, asked: Sequence[tuple[str, str]]
) -> None:
    api.answer = lambda _: named(results=[])
    window = replace(WINDOW, form=form)
    capture = AnyCapture(tmp_path, HttpApi(url=f"{api.url}/v1", records="results", window=window), zone=zone)
    first = LocalDays(zone).instants(DayRange(date(2026, 1, 1), date(2026, 1, 3))) if window.is_of_days else None
    capture.run(CapturePeriod(start=first[0] if first else FIRST, end=first[1] if first else FIRST + timedelta(days=2)))
    assert [(each.parameters["from"], each.parameters["to"]) for each in api.asked] == asked


def test_a_period_may_be_in_one_text(api: AnyApi, tmp_path: Path) -> None:
    window = TimeWindow(start="$filter", both="at ge {start} and at lt {end}", of="at")
    found = captured(api, tmp_path, lambda _: named(results=[]), window=window)
    found.run(CapturePeriod(start=FIRST, end=FIRST + timedelta(days=1)))
    assert [each.parameters for each in api.asked] == [
        {"$filter": "at ge 2026-01-01T00:00:00Z and at lt 2026-01-02T00:00:00Z"}
    ]


# ------------------------------------------------------------------------------------------------- what positions mean


def identity(**declared: Any) -> str:
    usual = {"url": "https://api.example.org/v1", "records": "items", "parameters": {"limit": "5"}}
    return hashlib.sha256(canonical_json(HttpApi(**{**usual, **declared}).identity).encode()).hexdigest()[:12]


def test_positions_of_earlier_releases_have_the_meaning_that_they_had() -> None:
    window = TimeWindow(start="from", end="to", of="at", settles_after=timedelta(hours=1))
    pages = [
        None,
        Cursor(parameter="c", next="next"),
        Cursor(parameter="c", next="next", more="more"),
        PageNumber(parameter="page"),
        IdRange(after="since", member="id", first="0"),
    ]
    assert [identity(pages=each, window=of) for each in pages for of in (None, window)] == [
        *("3b3615e43e7f", "f469b0eeaae7", "9dc3ccedb2e8", "0b5e50b8ed14", "f0a592d9b167"),
        *("1986906cf1a8", "72e94f4310ae", "5a2c397f7196", "7e1772b628ae", "68f04c6bda55"),
    ]


def test_what_changes_which_records_a_position_means_is_another_stream() -> None:
    offset = Offset(parameter="offset")
    changed: list[dict[str, Any]] = [
        {},
        *({"pages": each} for each in (offset, replace(offset, first=1), replace(offset, parameter="skip"))),
        *({"pages": each} for each in (replace(offset, limit="n", size=5), replace(offset, limit="n", size=6))),
        *({"pages": each} for each in (replace(offset, total="total"), replace(offset, more="total"))),
        *({"pages": each} for each in (NextUrl(next="next"), NextUrl(next="other"), LinkHeader(), LinkHeader(rel="x"))),
        {"pages": Cursor(parameter="c", next="next")},
        {"pages": Cursor(parameter=InBody("c"), next="next"), "method": "POST"},
        {"pages": Cursor(parameter=InHeader("c"), next="next")},
        {"pages": Cursor(parameter="c", next=InHeader("next"))},
        {"pages": Cursor(parameter="c", next="next", end=("0",))},
        {"pages": Cursor(parameter="c", next="next", first="*")},
        {"pages": PageNumber(parameter="page")},
        {"pages": PageNumber(parameter="page", total="pages")},
        {"pages": IdRange(after="since", member="at")},
        {"pages": IdRange(after="since", member="at", tie="id", tie_after="since_id")},
        {"window": WINDOW},
        {"window": replace(WINDOW, overlap=timedelta(seconds=1))},
        {"window": replace(WINDOW, form="yyyyMMdd")},
        {"window": replace(WINDOW, end="", both="{start}..{end}")},
        {"method": "POST"},
        {"method": "POST", "body": {"a": 1.5}},
        {"method": "POST", "body": {"a": 1.25}},
    ]
    assert len({identity(**each) for each in changed}) == len(changed)
    same: list[dict[str, Any]] = [{"empty": (404,)}, {"errors": ()}, {"attempts": 1}]
    assert {identity(**each) for each in same} == {identity()}


def test_refusals_are_of_one_sentence(api: AnyApi, tmp_path: Path) -> None:
    found = captured(api, tmp_path, lambda _: named(results=None))
    with pytest.raises(BackfillError) as refused:
        found.run()
    assert "\n" not in str(refused.value)
