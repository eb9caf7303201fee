"""An answer that says that it failed is refused, and a value that is no JSON rejects its record, and not its page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.capture.errors import BadAnswer
from backfill_assets.capture.http.client import HttpSecrets
from backfill_assets.capture.streams import Pace
from backfill_assets.domain import (
    Cursor,
    HttpApi,
    Offset,
)
from backfill_assets_tests.support.any_api import (
    AnyApi,
    AnyCapture,
    Said,
    captured,
    in_turn,
    named,
    record,
)


@pytest.mark.parametrize("error", [{"message": "no"}, ["no"], "no", True, 1])
@pytest.mark.parametrize("where", ["error", "errors"])
def test_an_error_in_an_answer_with_status_200_is_refused(
    api: AnyApi, tmp_path: Path, where: str, error: object
) -> None:
    found = captured(api, tmp_path, lambda _: named(results=[record(1)], **{where: error}))
    with pytest.raises(BadAnswer, match=f"an error at '{where}', although its status is 200"):
        found.run()
    assert captured(api, tmp_path, lambda _: named(results=[record(1)], **{where: error}), errors=()).run() == 1


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ([{"message": "no such field 'x'"}], "no such field"),
        ({"code": 7, "message": "quota"}, r"\('quota'\)"),
        ("not today\n" + "x" * 200, "not today.{0,4}xxx"),
        ({"code": 7}, r"status is 200, which errors=\(\) would accept"),
        ("the-secret-word is wrong", r"status is 200, which"),
    ],
)
def test_what_an_error_says_is_quoted_unless_it_has_a_secret_in_it(
    api: AnyApi, tmp_path: Path, error: object, said: str
) -> None:
    api.answer = lambda _: named(error=error)
    declared = HttpApi(url=f"{api.url}/v1", secret_parameters={"key": "API_KEY"})
    with pytest.raises(BadAnswer, match=said) as refused:
        AnyCapture(tmp_path, declared, HttpSecrets(parameters={"key": "the-secret-word"})).run()
    assert "secret" not in str(refused.value) and "\n" not in str(refused.value) and len(str(refused.value)) < 300


@pytest.mark.parametrize("status", [408, 425, 429, 500, 503, 403])
def test_what_may_succeed_later_is_tried_again(api: AnyApi, tmp_path: Path, status: int) -> None:
    waits: list[float] = []
    late = Said(status=status, headers={"Retry-After": "7"})
    found = captured(api, tmp_path, in_turn(api, late, named(results=[record(1)])))
    assert found.run(pace=Pace(wait=waits.append)) == 1
    assert waits == [7.0]


@pytest.mark.parametrize("error", [None, False, 0, "", [], {}])
def test_no_error_is_none(api: AnyApi, tmp_path: Path, error: object) -> None:
    assert captured(api, tmp_path, lambda _: named(results=[record(1)], error=error, errors=error)).run() == 1
    assert captured(api, tmp_path, lambda _: named(errors=[record(1)]), records="errors").run() == 1


NOT_JSON = ["NaN", "-Infinity", "Infinity", "nan", "-inf", "None", "undefined", "01", "+1", ".5", "1.", '"a\tb"']


@pytest.mark.parametrize("value", [*NOT_JSON, '"\\x41"', '"a\nb"', '{"a": [NaN]}', "0x1F", "1e999"])
def test_a_value_that_is_no_json_is_left_to_landing_and_its_page_counts(
    api: AnyApi, tmp_path: Path, value: str
) -> None:
    body = f'{{"at": "x", "results": [{{"id": 1, "v": {value}}},\n {{"id": 2, "v":\n 1.50}}], "next": null}}'.encode()
    found = captured(api, tmp_path, lambda _: Said(body=body), pages=Cursor(parameter="c", next="next"))
    assert found.run() == 2
    first, second = found.lines
    assert second == b'{"id": 2, "v":  1.50}'
    if value == "1e999":
        assert first == b'{"id": 1, "v": 1e999}'
        return

    def refused(name: str) -> None:
        raise ValueError(name)

    if "\n" in value:
        assert isinstance(json.loads(first), str)  # no object, which is rejected
    else:
        assert first == f'{{"id": 1, "v": {value}}}'.encode()
        with pytest.raises(ValueError):
            json.loads(first, parse_constant=refused)


@pytest.mark.parametrize(
    "body",
    [
        b'{"results": [{"id": 1}, {"id": 2, }]}',
        b'{"results": [{"id": 1} {"id": 2}]}',
        b'{"results": [{"id": 1}], "next": 01}',
        b'{"results": [{"id": 1}], "next": "a\tb"}',
        b"{\"results\": [{'id': 1}]}",
        b'{"results": [{"id": 1}]',
        b'{"results": [{id: 1}]}',
        b"<html>",
        b"",
    ],
)
def test_an_answer_of_which_it_is_not_known_where_records_end_is_refused(
    api: AnyApi, tmp_path: Path, body: bytes
) -> None:
    found = captured(api, tmp_path, lambda _: Said(body=body), pages=Cursor(parameter="c", next="next"))
    with pytest.raises(BadAnswer, match="content that is not JSON"):
        found.run()


@pytest.mark.parametrize(
    ("where", "why"), [("next", "a value that is not a cursor at 'next'"), ("other", ""), ("total", "no number")]
)
def test_no_number_beside_the_records_is_refused_where_it_is_asked_for(
    api: AnyApi, tmp_path: Path, where: str, why: str
) -> None:
    body = f'{{"{where}": NaN, "results": [{{"id": 1}}]}}'.encode()
    pages: Any = Offset(parameter="o", total="total") if where == "total" else Cursor(parameter="c", next="next")
    found = captured(api, tmp_path, lambda _: Said(body=body), pages=pages)
    if why:
        with pytest.raises(BadAnswer, match=why):
            found.run()
    else:
        assert found.run() == 1


def test_bytes_that_are_no_text_reject_their_record(api: AnyApi, tmp_path: Path) -> None:
    body = '{"results": [{"id": "ü"}, {"id": "u"}]}'.encode("latin-1")
    found = captured(api, tmp_path, lambda _: Said(body=body))
    assert found.run() == 2
    assert found.lines == ['{"id": "ü"}'.encode("latin-1"), b'{"id": "u"}']
    said = {"Content-Type": "application/json; charset=ISO-8859-1"}
    found = captured(api, tmp_path, lambda _: Said(body=body, headers=said))
    assert found.run() == 2
    assert found.lines == ['{"id": "ü"}'.encode(), b'{"id": "u"}']
    for encoding, why in (("utf-16", "what is not utf-16"), ("klingon", "the unknown encoding 'klingon'")):
        headers = {"Content-Type": f"application/json; charset={encoding}"}
        with pytest.raises(BadAnswer, match=why):
            captured(api, tmp_path, lambda _, headers=headers: Said(body=body, headers=headers)).run()  # type: ignore[misc]
