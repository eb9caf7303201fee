"""What can be said of captures of an API without one: declarations, the windows of a period, and records as written."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from backfill_assets import domain
from backfill_assets.calendar.local_days import LocalDays
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.capture.http.client import HttpSecrets
from backfill_assets.capture.http.declaration import (
    Basic,
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
    Token,
)
from backfill_assets.capture.http.paging import page_of
from backfill_assets.capture.http.stream import HttpStream, _place_of
from backfill_assets.capture.streams import Captured, CapturePeriod, Span
from backfill_assets.core.errors import InvalidDeclaration
from backfill_assets.core.settings import PROJECT_ROOT
from backfill_assets.domain import SourceTable
from backfill_assets_tests.domains import captured

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
USUAL: dict[str, Any] = {"start": "from", "end": "to", "of": "at", "step": 6 * HOUR}
WINDOW = TimeWindow(**USUAL)
API = HttpApi(
    url="https://api.example.org/v1", window=WINDOW, pages=Cursor(parameter="cursor", next="next"), records="items"
)


def declared(**changed: Any) -> SourceTable:
    return replace(captured.sales, capture=replace(API, **changed))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"url": "api.example.org"}, "has to be like 'https://api.example.org/v1/events'"),
        ({"url": "https://me:hidden-word@api.example.org/v1"}, "without parameters and user"),
        ({"url": "https://api.example.org/v1?key=hidden-word"}, "without parameters and user"),
        ({"url": "http://api.example.org/v1", "secret_headers": {"X": "WORD"}}, "use https"),
        ({"pages": "cursor"}, "have to be Cursor(...), PageNumber(...), Offset(...), IdRange(...), NextUrl"),
        ({"window": replace(WINDOW, step=timedelta(seconds=1.5))}, "has to be a number of seconds"),
        ({"window": replace(WINDOW, form="day")}, "has to be a number of days"),
        *(
            (
                {"window": TimeWindow(**{**USUAL, name: wrong})},
                f"{name} of its window is {wrong!r}, and has to be a timedelta",
            )
            for name in ("step", "settles_after")
            for wrong in (domain.days(1), 1, "1d", None)
        ),
        ({"window": TimeWindow(**{**USUAL, "form": "year"})}, "has to be one of iso, day"),
        (
            {"window": replace(WINDOW, overlap=timedelta(seconds=1.5))},
            "overlap of its window is 0:00:01.500000, and has",
        ),
        ({"window": replace(WINDOW, form="day", overlap=timedelta(hours=1))}, "has to be a number of days"),
        ({"window": replace(WINDOW, overlap=-timedelta(hours=1))}, "overlap of its window"),
        ({"pages": Cursor(parameter="c", next="")}, "does not say where an answer has the next one"),
        ({"pages": Cursor(parameter="", next="next")}, "a parameter that has no name"),
        ({"pages": PageNumber(parameter="page", total="a", more="b")}, "ends by total or by more, and not by both"),
        ({"pages": Offset(parameter="offset", limit="limit")}, "has limit and size together"),
        ({"pages": Offset(parameter="offset", size=100)}, "has limit and size together"),
        ({"pages": Offset(parameter="offset", limit="limit", size=0)}, "has limit and size together"),
        ({"pages": Offset(parameter="offset", limit="offset", size=1)}, "is asked with offset twice"),
        ({"pages": IdRange(after="since", member="")}, "does not say which member of a record is its id"),
        ({"pages": IdRange(after="since", member="at", tie="id")}, "has tie, a member, and tie_after"),
        (
            {"pages": IdRange(after="since", member="at", tie="id", tie_after="i", first="0")},
            "begins behind what its parameters or its body have at first",
        ),
        ({"pages": NextUrl(next="")}, "does not say where an answer has the address"),
        ({"pages": NextUrl(next="next", origins=("eu.example.org",))}, "has to be like 'https://eu.example.org'"),
        ({"pages": NextUrl(next="n", origins=("https://eu.example.org/v1",))}, "has to be like 'https://eu.example"),
        ({"pages": LinkHeader(origins=("https://me:hidden-word@a.org",))}, "has to be like 'https://eu.example.org"),
        (
            {"pages": LinkHeader(origins=("http://eu.example.org",)), "secret_headers": {"X": "WORD"}},
            "its API at eu.example.org would receive secrets without encryption",
        ),
        ({"pages": LinkHeader(rel="")}, "has no relation"),
        ({"pages": PageNumber(parameter=InBody("page"))}, "page of its API is in the body, and a GET has none"),
        ({"pages": PageNumber(parameter=InBody("a..b")), "method": "POST"}, "'a..b' is not a place in the body"),
        (
            {"pages": PageNumber(parameter=InBody("a.b")), "method": "POST", "body": {"a": 1}},
            "'a.b' is not a place in the body",
        ),
        ({"pages": PageNumber(parameter=InHeader("a b"))}, "'a b' is not the name of a header"),
        ({"pages": PageNumber(parameter=InHeader("x-a")), "headers": {"X-A": "b"}}, "with the header x-a twice"),
        ({"body": {"a": 1}}, "has a body, and a GET has none"),
        ({"method": "PUT"}, "has to be 'GET' or 'POST'"),
        ({"method": "POST", "body": {"a": {1, 2}}}, "has to be what JSON can say"),
        ({"method": "POST", "body": {"a": float("nan")}}, "has to be what JSON can say"),
        ({"method": "POST", "body": {"a": [{"api_key": "hidden-word"}]}}, "name it among its secrets"),
        ({"records": "a[].b[].c"}, "a place like 'data.issues.edges[].node'"),
        ({"records": "a[]"}, "a place like 'data.issues.edges[].node'"),
        *(({"empty": (wrong,)}, "does not mean an answer without records") for wrong in (200, 401, 429, 503, "none")),
        ({"basic": Basic(user="a", secrets={})}, "secrets of its Basic(...) are 'password', 'user' or both"),
        ({"basic": Basic(user="a", secrets={"word": "A"})}, "secrets of its Basic(...) are"),
        ({"basic": Basic(secrets={"password": "A"})}, "has its user either in user or among its secrets"),
        ({"basic": Basic(user="a", secrets={"user": "A"})}, "has its user either in user or among its secrets"),
        ({"basic": Basic(user="a:b", secrets={"password": "A"})}, "has a colon in it"),
        ({"basic": Basic(user="a", secrets={"password": "hidden-word"})}, "is named by an environment variable"),
        (
            {"basic": Basic(user="a", secrets={"password": "A"}), "secret_headers": {"authorization": "A"}},
            "with the header authorization twice",
        ),
        (
            {"token": Token(url="https://a.org/t", secrets={"client_secret": "A"}, client_in_header=True)},
            "sends its client in a header, and has no client_id",
        ),
        ({"window": replace(WINDOW, form="yyyyMMdd", step=HOUR)}, "has to be a number of days"),
        ({"window": replace(WINDOW, form="yyyy-MM-dd HH:mm")}, "which has no seconds"),
        ({"window": replace(WINDOW, form="%Y%m%d")}, "letters stand for parts"),
        ({"window": replace(WINDOW, form="yyyy[-MM-dd]")}, "a part in brackets may be missing"),
        ({"window": replace(WINDOW, end="")}, "its window has no end"),
        ({"window": replace(WINDOW, both="{start}..{end}")}, "is sent with start alone"),
        ({"window": replace(WINDOW, end="", both="since {start}")}, "has to be like 'at ge {start} and at lt {end}'"),
        ({"attempts": 0}, "has to be a number of at least 1"),
        ({"answers_within": 3}, "has to be a timedelta of more than nothing"),
        ({"parameters": {"from": "x"}}, "is asked with from twice"),
        ({"parameters": {"api_key": "hidden-word"}}, "name it among its secrets"),
        ({"headers": {"Authorization": "hidden-word"}}, "name it among its secrets"),
        ({"secret_headers": {"Authorization": "hidden-word"}}, "is named by an environment variable"),
        (
            {"token": Token(url="https://a.org/t", secrets={"client_secret": "hidden-word"})},
            "is named by an environment",
        ),
    ],
)
def test_an_api_that_cannot_be_captured_is_refused_when_it_is_declared(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidDeclaration, match=r"bronze\.sales: ") as refused:
        declared(**changed)
    assert said in refused.value.message
    assert "hidden-word" not in refused.value.message


def test_secrets_may_be_told_to_an_api_of_this_machine() -> None:
    assert declared(url="http://127.0.0.1:8080/v1", secret_headers={"Authorization": "API_TOKEN"})


def stream(*, as_of: datetime = FIRST + 100 * HOUR, zone: str = "UTC", **changed: Any) -> HttpStream:
    return HttpStream(replace(API, **changed), secret=HttpSecrets(), event_time="at", as_of=as_of, days=LocalDays(zone))


def text(hour: int) -> str:
    return (FIRST + hour * HOUR).strftime("%Y-%m-%dT%H:%M:%SZ")


hours = st.integers(0, 60)


@given(
    wanted=st.tuples(hours, hours).map(sorted),
    done=st.lists(st.tuples(hours, hours, st.booleans()), max_size=4),
)
def test_windows_are_what_is_not_captured_in_order_each_once_and_a_begun_one_is_ended(
    wanted: list[int], done: list[tuple[int, int, bool]]
) -> None:
    captured_pages: list[Span] = []
    held: set[int] = set()
    begun: set[tuple[str, str]] = set()
    for start, end, is_complete in ((min(a, b), max(a, b), c) for a, b, c in done):
        if start == end or held & set(range(start, end)):
            continue  # no capture reads a window that another one has
        held |= set(range(start, end))
        page = f"{text(start)}..{text(end)} cursor x"
        captured_pages.append(Span(partition="0", range_from=text(start), range_to=page))
        if is_complete:
            captured_pages.append(Span(partition="0", range_from=page, range_to=text(end)))
        elif start < wanted[1] and end > wanted[0]:
            begun.add((page, text(end)))
    asked = Span(partition="0", range_from=text(wanted[0]), range_to=text(wanted[1]))
    pieces = list(stream().pieces(asked, captured_pages))
    rests = {(each.range_from, each.range_to) for each in pieces if " " in each.range_from}
    whole = [
        tuple(int((datetime.fromisoformat(at) - FIRST) / HOUR) for at in (each.range_from, each.range_to))
        for each in pieces
        if " " not in each.range_from
    ]
    assert rests == begun
    assert [hour for start, end in whole for hour in range(start, end)] == [
        hour for hour in range(*wanted) if hour not in held
    ]
    assert all(start // 6 == (end - 1) // 6 for start, end in whole)


def test_what_is_new_begins_where_captures_end_and_ends_with_what_has_settled() -> None:
    opened = stream(window=replace(WINDOW, settles_after=10 * HOUR))
    pages = [
        Captured(partition="0", range_from=text(0), range_to=text(6)),
        Captured(partition="0", range_from=text(6), range_to=f"{text(6)}..{text(12)} cursor x"),
        Captured(partition="0", range_from=text(12), range_to=text(18)),
    ]
    (span,) = opened.resolve(CapturePeriod(start=None, end=None), pages).spans
    assert (span.range_from, span.range_to) == (text(6), text(90))
    pieces = [(each.range_from, each.range_to) for each in opened.pieces(span, pages)]
    assert pieces[:2] == [(f"{text(6)}..{text(12)} cursor x", text(12)), (text(18), text(24))]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Amsterdam", "America/New_York", "Pacific/Kiritimati"])
def test_an_api_of_days_is_asked_for_the_days_of_the_zone_each_once(zone: str) -> None:
    window = replace(WINDOW, form="day", step=timedelta(days=1))
    days, asked = LocalDays(zone), DayRange(date(2026, 3, 25), date(2026, 4, 2))  # clocks in Amsterdam change
    opened = stream(window=window, zone=zone, as_of=datetime(2026, 6, 1, 12, tzinfo=UTC))
    start, end = days.instants(asked)
    (span,) = opened.resolve(CapturePeriod(start=start, end=end), ()).spans
    written = [opened._of_window(_place_of(piece).window) for piece in opened.pieces(span, ())]
    assert written == [{"from": f"{day}", "to": f"{day + timedelta(days=1)}"} for day in asked]


@pytest.mark.parametrize("pages", [None, PageNumber(parameter="page"), Cursor(parameter="c", next="next")])
def test_another_request_is_another_stream_and_how_it_is_made_is_not(pages: Any) -> None:
    every = CapturePeriod(start=None, end=None)

    def identity(**changed: Any) -> str:
        return stream(**{"window": None, "pages": pages, **changed}).resolve(every, ()).stream

    same: list[dict[str, Any]] = [
        {"attempts": 2},
        {"headers": {"X-Client": "x"}},
        {"secret_headers": {"Authorization": "API_TOKEN"}},
    ]
    assert {identity(**each) for each in same} == {identity()}
    other: list[dict[str, Any]] = [{"parameters": {"limit": "5"}}, {"records": "data"}, {"url": "https://a.org/v2"}]
    assert len({identity(), *(identity(**each) for each in other)}) == 4


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.long
@given(
    elements=st.lists(json_values, max_size=4),
    before=st.dictionaries(st.text(max_size=3), json_values, max_size=3),
    indent=st.sampled_from([None, 0, 2]),
    is_ascii=st.booleans(),
)
def test_elements_of_an_answer_are_cut_out_as_they_were_written(
    elements: list[Any], before: dict[str, Any], indent: int | None, is_ascii: bool
) -> None:
    document = {**before, "a": {**before, "items": elements}, "behind": before}
    written = json.dumps(document, indent=indent, ensure_ascii=is_ascii)
    found = page_of(written.encode(), {}, records="a.items", empty=(), bad=ValueError).records
    assert [json.loads(each) for each in found] == elements
    assert all(each.replace(" ", "") in re.sub(r"[ \n]", "", written) for each in found)
    assert not any("\n" in each for each in found)


@pytest.mark.parametrize("kind", ["HttpApi", "LakeTable"])
def test_the_declaration_of_the_page_is_one(kind: str) -> None:
    page = (PROJECT_ROOT / "docs" / "sources.md").read_text(encoding="utf-8")
    examples = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    (example,) = (each for each in examples if f"capture={kind}(" in each)
    names = ("permit_id", "order_id", "op")
    times = [StructField(name, TimestampType()) for name in ("issued_at", "lake_committed_at")]
    schema = StructType([*times, StructField("lake_version", LongType())])
    for name in names:
        schema = schema.add(name, StringType())
    usual = {"event_time": "issued_at", "partition": domain.daily("day"), "schema": schema}
    known = {name: getattr(domain, name) for name in domain.__all__}
    defined: dict[str, Any] = {}
    exec(example.replace("    ...,\n", "    **usual,\n"), {**known, "timedelta": timedelta, "usual": usual}, defined)
    (source,) = defined.values()
    assert type(source.capture).__name__ == kind
    for other in (each for each in examples if f"= {kind}(" in each):
        alone: dict[str, Any] = {}
        exec(other, dict(known), alone)
        assert not list(alone.popitem()[1].mistakes())
    assert len(example.splitlines()) <= 15


def test_the_time_of_a_record_with_a_date_is_where_the_date_begins_and_ends() -> None:
    days = LocalDays("Asia/Tokyo", are_dates=True)
    opened = HttpStream(API, secret=HttpSecrets(), event_time="at", as_of=FIRST, days=days)
    begins = datetime(2026, 1, 1, 15, tzinfo=UTC)
    assert opened._times_of({"at": "2026-01-02"}) == (begins, begins + 24 * HOUR - timedelta(microseconds=1))
    for unknown in ("2026-13-01", "9999-12-31", "2026-01-02T00:00:00Z", 20260102, None):
        assert opened._times_of({"at": unknown}) == (), unknown
    of_times = HttpStream(API, secret=HttpSecrets(), event_time="at", as_of=FIRST, days=LocalDays())
    assert of_times._times_of({"at": "2026-01-02"}) == ()


_OF_DLT = (
    *("single_page", "json_link", "json_response", "header_link", "header_cursor", "cursor", "offset", "page_number"),
    *("auto", "bearer", "api_key", "http_basic", "oauth2_client_credentials"),
)
_OF_AIRBYTE = (
    *("NoPagination", "CursorPagination", "OffsetIncrement", "PageIncrement", "BearerAuthenticator"),
    *("ApiKeyAuthenticator", "BasicHttpAuthenticator", "OAuthAuthenticator", "SessionTokenAuthenticator"),
)


def test_each_paging_and_login_that_others_have_by_name_is_found_in_the_page() -> None:
    page = (PROJECT_ROOT / "docs" / "sources.md").read_text(encoding="utf-8")
    table = page.partition("### Coming from dlt or Airbyte")[2].partition("\n###")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")][1:]
    assert all(f"`{name}`" in " ".join(row[0] for row in rows) for name in _OF_DLT)
    assert all(name in " ".join(row[-2] for row in rows) for name in _OF_AIRBYTE)
    for row in rows:
        made = re.findall(r"`([A-Z]\w+)\(", row[-1])
        assert made or "`" in row[-1] or row[-1].startswith("no")
        assert all(hasattr(domain, name) for name in made)
