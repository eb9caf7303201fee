"""An answer of an API counts when all of it came, and none of it has changed on the way."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from backfill_assets.capture.errors import StreamFailed
from backfill_assets.capture.http.client import Answer, ApiClient, HttpSecrets, Request
from backfill_assets.capture.http.paging import page_of
from backfill_assets.capture.streams import Pace
from backfill_assets_tests.domains import captured_api
from backfill_assets_tests.support.api_server import Api, running_api

BODY = b'{"results": [' + b", ".join(b'{"id": %d}' % number for number in range(300)) + b"]}"
PACKED = {"gzip": gzip.compress(BODY, mtime=0), "deflate": zlib.compress(BODY)}


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    with running_api() as found:
        yield found


def asked(api: Api, headers: dict[str, str], body: bytes) -> Answer:
    api.requests.clear()
    api.faults = {1: (200, headers, body)}
    declared = replace(captured_api.API, url=f"{api.url}/v1/all", token=None, attempts=1)
    asking = ApiClient(declared, HttpSecrets(), name="it")
    try:
        return asking.ask(Request(url=declared.url), Pace(), position="start")
    finally:
        asking.close()


def digests_of(body: bytes) -> list[dict[str, str]]:
    md5, sha256, sha512 = (
        base64.b64encode(hashlib.new(name, body).digest()).decode() for name in ("md5", "sha256", "sha512")
    )
    return [
        {},
        {"Content-MD5": md5},
        {"Digest": f"SHA-256={sha256}, md5={md5}"},
        {"Content-Digest": f"sha-512=:{sha512}:, sha-256=:{sha256}:"},
        {"Repr-Digest": f"sha-256=:{sha256}:"},
        {"Digest": "crc32c=abcd"},
    ]


@pytest.mark.parametrize("encoding", ["identity", "gzip", "deflate", "raw deflate"])
@pytest.mark.parametrize("digest", range(6))
def test_an_answer_is_what_was_sent_however_it_is_packed(api: Api, encoding: str, digest: int) -> None:
    packing = zlib.compressobj(wbits=-15)
    body = {**PACKED, "identity": BODY, "raw deflate": packing.compress(BODY) + packing.flush()}[encoding]
    headers = {"Content-Encoding": encoding.removeprefix("raw "), **digests_of(body)[digest]}
    assert asked(api, headers, body).body == BODY


@pytest.mark.parametrize("headers", digests_of(BODY)[1:5])
def test_an_answer_that_does_not_match_its_digest_is_refused(api: Api, headers: dict[str, str]) -> None:
    with pytest.raises(StreamFailed, match="does not match its own digest"):
        asked(api, headers, BODY.replace(b"7", b"8", 1))


@pytest.mark.parametrize("encoding", PACKED)
def test_a_packed_answer_that_is_cut_or_has_changed_is_refused(api: Api, encoding: str) -> None:
    body = PACKED[encoding]
    for end in (0, 5, len(body) // 2, len(body) - 9, len(body) - 4, len(body) - 1):
        with pytest.raises(StreamFailed, match="broke off"):
            asked(api, {"Content-Encoding": encoding}, body[:end])
    for changed in (body[:40] + bytes([body[40] ^ 1]) + body[41:], body[:-1] + bytes([body[-1] ^ 1]), body + b"x"):
        with pytest.raises(StreamFailed):
            asked(api, {"Content-Encoding": encoding}, changed)
    with pytest.raises(StreamFailed, match="packed in another way than it was asked for"):
        asked(api, {"Content-Encoding": "br"}, body)


class Refused(Exception):
    """An answer was refused, with a reason."""


def lines_of(body: bytes, records: str = "results") -> tuple[str, ...]:
    return page_of(body, {}, records=records, empty=(), bad=Refused).records


TOKENS = [
    "NaN",
    "-Infinity",
    "nan",
    "None",
    "01",
    "+1",
    "1.",
    '"a\tb"',
    '"\\x41"',
    '"a\nb"',
    "1e5",
    '"\\u00e9"',
    "[{}]",
]
values = st.sampled_from(TOKENS)


@given(
    elements=st.lists(st.tuples(st.sampled_from(["id", "a b", 'q"', "é"]), values), max_size=5),
    before=st.sampled_from(['"x": [1, {"results": []}], ', '"t": "]}", ', ""]),
    behind=st.sampled_from([', "next": null', ', "took": NaN', ""]),
    blank=st.sampled_from(["", " ", "\n", "\r\n\t"]),
)
def test_each_element_is_what_was_between_its_neighbours_whatever_its_values_are(
    elements: list[tuple[str, str]], before: str, behind: str, blank: str
) -> None:
    written = [f"{{{json.dumps(name)}:{blank}{value}}}" for name, value in elements]
    text = f'{{{before}"results": [{blank}{f"{blank},{blank}".join(written)}{blank}]{behind}}}'
    found = lines_of(text.encode())
    assert len(found) == len(written)
    for line, each in zip(found, written, strict=True):
        in_one_line = each.replace("\r", " ").replace("\n", " ")
        assert line in (in_one_line, json.dumps(each, ensure_ascii=False)) and "\n" not in line
        try:
            is_right = json.loads(each, parse_constant=lambda name: 1 / 0) is not None
        except (ValueError, ZeroDivisionError):
            is_right = False
        # What is no JSON does not become an object of it.
        try:
            lands = isinstance(json.loads(line, parse_constant=lambda name: 1 / 0), dict)
        except (ValueError, ZeroDivisionError):
            lands = False
        assert lands == is_right


PAGE = '{"next": 7, "results": [{"id": 1, "v": "a\\"b]"}, {"id": 2, "v": [1.50, {"c": null}]}, 3], "t": NaN}'


@given(place=st.integers(0, len(PAGE)), count=st.integers(0, 3), text=st.text("{}[],:\"\\ \nNa01'x", max_size=3))
@example(place=0, count=0, text="")
def test_a_damaged_answer_is_refused_or_each_of_its_objects_was_there(place: int, count: int, text: str) -> None:
    damaged = PAGE[:place] + text + PAGE[place + count :]
    try:
        found = lines_of(damaged.encode())
    except Refused:
        return
    in_one_line = damaged.replace("\n", " ")
    for line in found:
        assert "\n" not in line
        assert line in in_one_line or json.loads(line) in damaged
    if damaged == PAGE:
        assert len(found) == 3


@given(body=st.binary(max_size=30), records=st.sampled_from(["", "results", "a.b", "a[].b", "0.-1"]))
def test_any_bytes_are_an_answer_or_are_refused(body: bytes, records: str) -> None:
    for each in (body, b'{"results": [' + body + b"]}", b'{"a": [{"b": ' + body + b"}]}"):
        try:
            page = page_of(each, {"content-type": "application/json"}, records=records, empty=(), bad=Refused)
        except Refused:
            continue
        assert len(page.lines.splitlines()) == len(page.members) == len(page.records)
