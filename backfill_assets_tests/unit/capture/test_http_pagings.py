"""However an API pages, every record that it has is captured, each once after its key, or the capture is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backfill_assets.capture.errors import BadAnswer, NoStream
from backfill_assets.capture.http.client import HttpSecrets
from backfill_assets.capture.streams import CapturePeriod
from backfill_assets.core.errors import Refused
from backfill_assets.domain import Cursor, HttpApi, IdRange, InBody, InHeader, LinkHeader, NextUrl, Offset, PageNumber
from backfill_assets_tests.support.advice import has_code
from backfill_assets_tests.support.any_api import (
    FIRST,
    NUMBERED,
    WINDOW,
    AnyApi,
    AnyCapture,
    Asked,
    Record,
    Said,
    any_api,
    captured,
    in_turn,
    named,
    record,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How an API pages: how it is declared, and how it answers from all records of a request and the size of a page."""

    pages: Any
    answer: Callable[[Asked, Sequence[Record], int], Said]
    declared: Mapping[str, Any]
    is_unordered: bool = False


def sliced(at: int, found: Sequence[Record], size: int) -> Sequence[Record]:
    return found[at : at + size]


def by_offset(asked: Asked, found: Sequence[Record], size: int) -> Said:
    at = int(asked.parameters["skip"])
    return named(items=sliced(at, found, min(size, int(asked.parameters["take"]))), meta={"total": len(found)})


def by_number(asked: Asked, found: Sequence[Record], size: int) -> Said:
    page, count = int(asked.parameters["page"]), -(-len(found) // size)
    if page > max(count, 1):
        return Said(status=404, document={"detail": "Invalid page."})
    return Said(document={"items": sliced((page - 1) * size, found, size), "pages": count}, headers={"X-More": "true"})


def by_url(asked: Asked, found: Sequence[Record], size: int) -> Said:
    at = int(asked.parameters.get("at", "0"))
    query = "&".join(f"{name}={value.replace('+', '%2B')}" for name, value in asked.query if name != "at")
    following = f"{asked.path}?{query}&at={at + size}" if at + size < len(found) else None
    return named(items=sliced(at, found, size), links={"next": following})


def by_link(asked: Asked, found: Sequence[Record], size: int) -> Said:
    said = by_url(asked, found, size)
    following = said.document["links"]["next"]
    links = f'<{asked.path}?x=a,b>; rel="prev", <{following}>; title="the ""; rel=next' if following else ""
    return Said(document=said.document["items"], headers={"Link": links.replace('"the ""', '"the \\", next"')})


def by_header(asked: Asked, found: Sequence[Record], size: int) -> Said:
    at = int(asked.parameters.get("cursor", "0"))
    headers = {"X-Next": str(at + size)} if at + size < len(found) else {}
    return Said(document={"items": sliced(at, found, size)}, headers=headers)


def by_body(asked: Asked, found: Sequence[Record], size: int) -> Said:
    """GraphQL: a cursor is null at first, and then a text."""
    variables = asked.document["variables"]
    assert variables["after"] is None or isinstance(variables["after"], str)
    at = int((variables["after"] or "c0")[1:])
    info = {"endCursor": f"c{min(at + size, len(found))}", "hasNextPage": at + size < len(found)}
    edges = [{"node": each, "cursor": "x"} for each in sliced(at, found, size)]
    return named(data={"sales": {"edges": edges, "pageInfo": info}})


def by_search(asked: Asked, found: Sequence[Record], size: int) -> Said:
    """A search that goes on behind the sort values of its last hit, with their types."""
    after = asked.document.get("search_after")
    rest = [each for each in found if after is None or [each["at"], each["id"]] > after]
    hits = [{"_source": each, "sort": [each["at"], each["id"]]} for each in rest[:size]]
    return named(hits={"hits": hits})


def by_tie(asked: Asked, found: Sequence[Record], size: int) -> Said:
    at, number = asked.parameters.get("since", ""), int(asked.parameters.get("since_id", "-1"))
    return named(items=[each for each in found if (each["at"], each["id"]) > (at, number)][:size])


def by_id(asked: Asked, found: Sequence[Record], size: int) -> Said:
    after = int(asked.parameters.get("since", "-1"))
    return named(items=[each for each in sorted(found, key=lambda each: each["id"]) if each["id"] > after][:size])


GRAPHQL = "query($after: String) { sales { edges { node { id at } } pageInfo { endCursor hasNextPage } } }"
SHAPES: Mapping[str, Shape] = {
    "offset": Shape(
        pages=Offset(parameter="skip", limit="take", size=3), answer=by_offset, declared={"records": "items"}
    ),
    "offset with a total": Shape(
        pages=Offset(parameter="skip", limit="take", size=3, total="meta.total"),
        answer=by_offset,
        declared={"records": "items"},
    ),
    "page until 404": Shape(
        pages=PageNumber(parameter="page"), answer=by_number, declared={"records": "items", "empty": (404, 204)}
    ),
    "page with a total": Shape(
        pages=PageNumber(parameter="page", total="pages"), answer=by_number, declared={"records": "items"}
    ),
    "next URL": Shape(pages=NextUrl(next="links.next"), answer=by_url, declared={"records": "items"}),
    "Link header": Shape(pages=LinkHeader(), answer=by_link, declared={}),
    "cursor in a header": Shape(
        pages=Cursor(parameter="cursor", next=InHeader("X-Next")), answer=by_header, declared={"records": "items"}
    ),
    "GraphQL": Shape(
        pages=Cursor(
            parameter=InBody("variables.after"),
            next="data.sales.pageInfo.endCursor",
            more="data.sales.pageInfo.hasNextPage",
        ),
        answer=by_body,
        declared={
            "records": "data.sales.edges[].node",
            "method": "POST",
            "body": {"query": GRAPHQL, "variables": {"after": None}},
        },
    ),
    "search": Shape(
        pages=Cursor(parameter=InBody("search_after"), next="hits.hits.-1.sort"),
        answer=by_search,
        declared={"records": "hits.hits[]._source", "method": "POST", "body": {"query": {"match_all": {}}}},
    ),
    "two keys": Shape(
        pages=IdRange(after="since", member="at", tie="id", tie_after="since_id"),
        answer=by_tie,
        declared={"records": "items"},
    ),
    "ids": Shape(pages=IdRange(after="since", member="id"), answer=by_id, declared={"records": "items"}),
}


@pytest.mark.parametrize("name", SHAPES)
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    hours=st.lists(st.integers(0, 95), max_size=12),
    size=st.integers(2, 5),
    later=st.integers(0, 3),
    has_window=st.booleans(),
    kills=st.lists(st.integers(1, 4), max_size=3),
    failing=st.sets(st.integers(1, 30), max_size=6),
    nothing=st.sampled_from([200, 204, 404]),
)
def test_what_is_captured_is_what_an_api_has_whatever_happens_on_the_way(
    api: AnyApi,
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    hours: Sequence[int],
    size: int,
    later: int,
    has_window: bool,
    kills: Sequence[int],
    failing: set[int],
    nothing: int,
) -> None:
    shape = SHAPES[name]
    records = sorted((record(n, hour) for n, hour in enumerate(hours)), key=lambda each: (each["at"], each["id"]))
    api.asked.clear()
    is_post = shape.declared.get("method") == "POST"
    window = replace(WINDOW, start=InBody("from"), end=InBody("to")) if is_post else WINDOW

    def answer(asked: Asked) -> Said:
        if len(api.asked) in failing:
            return Said(status=503)
        named_by = asked.document if is_post else asked.parameters
        found = [each for each in records if not has_window or named_by["from"] <= each["at"] < named_by["to"]]
        if has_window and not found and nothing != 200:
            return Said(status=nothing)
        said = shape.answer(asked, found, size)
        if len(api.asked) == later:  # while it is read, another record comes at the end
            records.append(record(100, 95))
        return said

    api.answer = answer
    declared = HttpApi(
        url=f"{api.url}/v1/sales",
        pages=shape.pages,
        window=window if has_window else None,
        attempts=30,
        **{**shape.declared, "empty": (404, 204) if has_window else shape.declared.get("empty", ())},
    )
    capture = AnyCapture(tmp_path_factory.mktemp("pages"), declared)
    period = (
        CapturePeriod(start=FIRST, end=FIRST + timedelta(days=4)) if has_window else CapturePeriod(start=None, end=None)
    )
    had = {each["id"] for each in records}
    for kill in kills:
        capture.run(period, stops_after=kill)
    capture.run(period)
    found = [each["id"] for each in capture.records]
    assert had <= set(found) <= {each["id"] for each in records}
    assert sorted(json.dumps(each, sort_keys=True) for each in capture.records) == sorted(
        {json.dumps(each, sort_keys=True) for each in records if each["id"] in found}
    )
    asked_before = len(api.asked)
    failing.clear()
    capture.run(period)
    assert len(capture.records) == len(found) or name in ("GraphQL", "two keys", "ids", "search")
    assert len(api.asked) <= asked_before + 4


def test_seven_records_by_offset_are_seven_and_asked_for_as_declared(api: AnyApi, tmp_path: Path) -> None:
    def answer(asked: Asked) -> Said:
        at, most = int(asked.parameters["offset"]), min(2, int(asked.parameters["limit"]))
        return named(results=[record(n) for n in range(at, min(7, at + most))], total=7)

    # The server gives two where three are asked for.
    found = captured(api, tmp_path, answer, pages=Offset(parameter="offset", limit="limit", size=3, total="total"))
    found.run()
    assert [each["id"] for each in found.records] == list(range(7))
    assert [each.parameters for each in api.asked] == [{"offset": str(at), "limit": "3"} for at in (0, 2, 4, 6)]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (named(results=[], total=7), "no records, and says that more follow"),
        (named(results=[record(1)]), "no number at 'total'"),
        (named(results=[record(1)], total="many"), "no number at 'total'"),
        (named(results=[record(1)], total=0), "records behind the last of 0 records, which it says at 'total'"),
    ],
)
def test_a_total_that_is_not_one_of_the_records_is_refused(api: AnyApi, tmp_path: Path, said: Said, why: str) -> None:
    found = captured(api, tmp_path, lambda _: said, pages=Offset(parameter="offset", total="total"))
    with pytest.raises(BadAnswer, match=why):
        found.run()


@pytest.mark.parametrize("place", ["cursorMark", InBody("cursorMark")])
def test_a_first_page_may_have_a_cursor_and_the_last_one_its_own(
    api: AnyApi, tmp_path: Path, place: str | InBody
) -> None:
    def answer(asked: Asked) -> Said:
        mark = (asked.parameters if isinstance(place, str) else asked.document)["cursorMark"]
        at = {"*": 0, "m2": 2, "m3": 3}[mark]
        found = [record(n) for n in range(3)][at : at + 2]
        return named(results=found, nextCursorMark=f"m{at + len(found)}")

    method = "GET" if isinstance(place, str) else "POST"
    pages = Cursor(parameter=place, next="nextCursorMark", first="*")
    found = captured(api, tmp_path, answer, pages=pages, method=method)
    assert (found.run(), len(api.asked)) == (3, 3)
    assert found.run() == 0


def test_an_api_that_does_not_know_offsets_goes_in_a_circle(api: AnyApi, tmp_path: Path) -> None:
    found = captured(api, tmp_path, lambda _: named(results=[record(1)]), pages=Offset(parameter="offset"))
    with pytest.raises(BadAnswer, match="in a circle: behind offset 1 it has the page before"):
        found.run()


def test_a_next_address_is_asked_as_it_is_and_takes_secrets_to_no_other_server(api: AnyApi, tmp_path: Path) -> None:
    said = [
        named(results=[record(1)], **{"@odata.nextLink": f"{api.url}/v1?$skip=1&key=the-secret-word#x"}),
        named(results=[record(2)], **{"@odata.nextLink": "?$skip=2"}),
        named(results=[record(3)]),
    ]
    api.answer = in_turn(api, *(replace(each, document={**each.document}) for each in said))
    declared = HttpApi(
        url=f"{api.url}/v1",
        records="results",
        pages=NextUrl(next="@odata.nextLink"),
        parameters={"$top": "1"},
        secret_parameters={"key": "API_KEY"},
        secret_headers={"X-Key": "API_KEY"},
    )
    capture = AnyCapture(tmp_path, declared, HttpSecrets(parameters={"key": "the-secret-word"}))
    with pytest.raises(Refused, check=has_code("answer_holds_secret")):  # in the body it would be kept
        capture.run()
    said[0] = named(results=[record(1)], **{"@odata.nextLink": f"{api.url}/v1?$skip=1"})
    api.asked.clear()
    api.answer = in_turn(api, *said)
    assert capture.run() == 3
    assert [each.parameters for each in api.asked] == [
        {"$top": "1", "key": "the-secret-word"},
        {"$skip": "1", "key": "the-secret-word"},
        {"$skip": "2", "key": "the-secret-word"},
    ]
    assert capture.captured[0].range_to == f"url {api.url}/v1?$skip=1"


def test_a_secret_in_a_link_is_left_out_of_the_position(api: AnyApi, tmp_path: Path) -> None:
    link = {"Link": f'<{api.url}/v1?key=the-secret-word&at=1>; rel="next"'}
    api.answer = in_turn(api, Said(document=[record(1)], headers=link), Said(document=[record(2)]))
    declared = HttpApi(url=f"{api.url}/v1", pages=LinkHeader(), secret_parameters={"key": "API_KEY"})
    capture = AnyCapture(tmp_path, declared, HttpSecrets(parameters={"key": "the-secret-word"}))
    assert capture.run() == 2
    assert "secret" not in str(capture.captured)
    # Under another name it would be in the position.
    api.asked.clear()
    link = {"Link": f'<{api.url}/v1?token=the-secret-word>; rel="next"'}
    api.answer = in_turn(api, Said(document=[record(1)], headers=link))
    with pytest.raises(Refused, check=has_code("answer_holds_secret")):
        AnyCapture(tmp_path, declared, HttpSecrets(parameters={"key": "the-secret-word"})).run()


@pytest.mark.parametrize(
    ("following", "why"),
    [
        ("https://elsewhere.example/v1?page=2", r"a next page at https://elsewhere\.example: declare origins="),
        ("//elsewhere.example/v1", "a next page at http://elsewhere"),
        ("http://127.0.0.1:1/v1", "a next page at http://127.0.0.1:1"),
        ("http://me:hidden@127.0.0.1/v1", "not of the web, or has a password in it"),
        ("ftp://127.0.0.1/v1", "not of the web"),
        ("javascript:alert(1)", "not of the web"),
        ("http://[::1/v1", "an address that cannot be read"),
        (7, "a value that is not an address at 'next'"),
        ({"href": "/v1"}, "a value that is not an address at 'next'"),
        ("/v1?page=\u2028x", "cannot be written down"),
    ],
)
def test_a_next_address_elsewhere_is_refused(api: AnyApi, tmp_path: Path, following: object, why: str) -> None:
    answers = in_turn(api, named(results=[record(1)], next=following), named(results=[record(2)]))
    found = captured(api, tmp_path, answers, pages=NextUrl(next="next"))
    with pytest.raises(BadAnswer, match=why) as refused:
        found.run()
    assert "hidden" not in str(refused.value)


def test_another_server_is_asked_when_it_is_declared(api: AnyApi, tmp_path: Path) -> None:
    with any_api() as other:
        other.answer = lambda _: named(results=[record(2)], next=None)
        answers = in_turn(api, named(results=[record(1)], next=f"{other.url}/v1?at=2"))
        found = captured(api, tmp_path, answers, pages=NextUrl(next="next", origins=(other.url,)))
        assert found.run() == 2
        assert len(other.asked) == 1


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ('</v1?at=1>; rel="next"', 2),
        ("</v1?at=1>;rel=next", 2),
        ('</v1?at=1>; title="a, <b>; rel=prev"; REL="last Next"', 2),
        ('</v1?a=1,2;3>; rel="prev", </v1?at=1>; rel="next"; type="x"', 2),
        ('</v1?at=1>; rel="prev"; rel="next"', 1),
        ('</v1?at=1>; title="rel=next"', 1),
        ('</v1?at=1>; rel="nextish"', 1),
        ("", 1),
    ],
)
def test_the_link_of_a_header_is_the_one_of_its_relation(api: AnyApi, tmp_path: Path, link: str, expected: int) -> None:
    answers = in_turn(api, Said(document=[record(1)], headers={"Link": link}), Said(document=[record(2)]))
    assert captured(api, tmp_path, answers, pages=LinkHeader(), records="").run() == expected


# ------------------------------------------------------------------------------------------------------------- its end


@pytest.mark.parametrize("status", [404, 204, 416])
def test_the_end_of_numbered_pages_may_be_a_status(api: AnyApi, tmp_path: Path, status: int) -> None:
    answers = in_turn(api, *(named(results=[record(n)]) for n in range(3)), Said(status=status, body=b""))
    found = captured(api, tmp_path, answers, pages=NUMBERED, empty=(404, 204, 416))
    assert (found.run(), found.run(), len(api.asked)) == (3, 0, 4)
    assert json.loads(found.answers[-1].partition(b"\n")[0])["status"] == status


def test_a_window_may_have_no_events_by_status_and_is_not_asked_for_again(api: AnyApi, tmp_path: Path) -> None:
    def answer(asked: Asked) -> Said:
        day = int(asked.parameters["from"][8:10])
        return (Said(status=404, document={"detail": "none"}), Said(status=204), named(results=[record(day)]))[day % 3]

    found = captured(api, tmp_path, answer, window=WINDOW, empty=(404, 204))
    period = CapturePeriod(start=FIRST, end=FIRST + timedelta(days=6))
    assert (found.run(period), found.run(period), len(api.asked)) == (2, 0, 6)


@pytest.mark.parametrize(
    ("declared", "before"),
    [
        ({}, 0),
        ({"pages": NUMBERED}, 0),  # the address may be wrong
        ({"pages": Cursor(parameter="cursor", next="next")}, 1),  # the cursor may be forgotten
        ({"pages": NextUrl(next="next")}, 1),
    ],
)
def test_a_status_that_may_say_something_else_is_no_end(
    api: AnyApi, tmp_path: Path, declared: dict[str, Any], before: int
) -> None:
    pages = [named(results=[record(n)], next=f"/v1?at={n}") for n in range(before)]
    found = captured(api, tmp_path, in_turn(api, *pages, Said(status=404)), empty=(404, 204), **declared)
    with pytest.raises(BadAnswer if before else NoStream, match="404 Not Found: the" if before else "has no /v1"):
        found.run()


@pytest.mark.parametrize(
    ("declared", "pages", "status", "said"),
    [
        ({"pages": NUMBERED}, 2, 404, r"answered page 3 with 404 Not Found, which empty=\(404,\) declares"),
        ({"pages": Offset(parameter="o")}, 1, 416, r"which empty=\(416,\) declares to mean no records"),
        ({}, 0, 204, r"with 204 No Content, which empty=\(204,\) declares"),
        ({"window": WINDOW}, 0, 404, r"has no /v1, or no records for this window, which empty=\(404,\) declares"),
    ],
)
def test_a_status_that_may_be_an_end_is_refused_with_what_would_declare_it(
    api: AnyApi, tmp_path: Path, declared: dict[str, Any], pages: int, status: int, said: str
) -> None:
    answers = in_turn(api, *(named(results=[record(n)]) for n in range(pages)), Said(status=status))
    found = captured(api, tmp_path, answers, **declared)
    has_window = "window" in declared
    with pytest.raises((BadAnswer, NoStream), match=said):
        found.run(
            CapturePeriod(start=FIRST, end=FIRST + timedelta(days=1))
            if has_window
            else CapturePeriod(start=None, end=None)
        )


@pytest.mark.parametrize(
    ("document", "empty"),
    [
        ({"results": None, "next": None}, "null"),
        ({}, "missing"),
        ([], "missing"),
        ({"results": {}}, ""),
        ([1], ""),
    ],
)
def test_no_array_means_no_records_where_that_is_declared(
    api: AnyApi, tmp_path: Path, document: object, empty: str
) -> None:
    usual = {"pages": Cursor(parameter="cursor", next="next")}
    said = f"no array at 'results'.*declare empty=\\('{empty}',\\)" if empty else "no array at 'results'"
    with pytest.raises(BadAnswer, match=said):
        captured(api, tmp_path, lambda _: Said(document=document), **usual).run()
    declared = {**usual, "empty": (empty or "null", "missing")}
    if empty:
        assert captured(api, tmp_path, lambda _: Said(document=document), **declared).run() == 0
    else:
        with pytest.raises(BadAnswer, match="no array"):
            captured(api, tmp_path, lambda _: Said(document=document), **declared).run()


def test_an_end_that_does_not_end_is_the_end_or_is_refused(
    api: AnyApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The same cursor without records, for ever.
    found = captured(
        api, tmp_path, lambda _: named(results=[], next_cursor=0), pages=Cursor(parameter="c", next="next_cursor")
    )
    assert (found.run(), len(api.asked)) == (0, 2)

    # Another one each time.
    def anew(_: Asked) -> Said:
        return named(results=[], next_cursor=f"c{len(api.asked)}")

    monkeypatch.setattr("backfill_assets.capture.http.stream._MOST_EMPTY", 50)
    with pytest.raises(BadAnswer, match=r"50 pages without records, one after the other: declare .*ends_empty=True"):
        captured(api, tmp_path, anew, pages=Cursor(parameter="c", next="next_cursor")).run()
    api.asked.clear()
    ends = Cursor(parameter="c", next="next_cursor", ends_empty=True)
    assert (captured(api, tmp_path, anew, pages=ends).run(), len(api.asked)) == (0, 1)
    # A cursor that means the end, with which the first page would come again.
    api.asked.clear()
    ends = Cursor(parameter="c", next="next_cursor", end=("0", "-1"))
    again = captured(api, tmp_path, lambda _: named(results=[record(1)], next_cursor=0), pages=ends)
    assert (again.run(), len(api.asked)) == (1, 1)
    without = captured(
        api,
        tmp_path,
        lambda _: named(results=[record(1)], next_cursor=0),
        pages=Cursor(parameter="c", next="next_cursor"),
    )
    with pytest.raises(BadAnswer):
        without.run()


@pytest.mark.parametrize("pages", [NUMBERED, NextUrl(next="next"), LinkHeader(), Offset(parameter="offset")])
def test_the_same_page_again_and_again_is_a_circle(api: AnyApi, tmp_path: Path, pages: object) -> None:
    def answer(asked: Asked) -> Said:
        at = f"/v1?at={1 - int(asked.parameters.get('at', '0'))}"
        return Said(document={"results": [record(1)], "next": at}, headers={"Link": f'<{at}>; rel="next"'})

    with pytest.raises(BadAnswer, match="in a circle"):
        captured(api, tmp_path, answer, pages=pages).run()
