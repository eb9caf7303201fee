"""Every record that an API has is captured, however it pages, or it is refused, and no capture goes on for ever."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.calendar.local_days import LocalDays
from backfill_assets.capture.errors import BadAnswer
from backfill_assets.capture.http.client import Answer, HttpSecrets, Request
from backfill_assets.capture.http.stream import HttpStream
from backfill_assets.capture.streams import CapturePeriod, Pace, Span
from backfill_assets.domain import Cursor, HttpApi, IdRange, PageNumber, TimeWindow

Parameters = Mapping[str, Any]
Record = Mapping[str, Any]
_MOST = 200
"""More requests than any capture of these tests needs."""


class Capture:
    """Captures of an API: what they wrote, and where they are.

    Args:
        answer: From the parameters of a request to its document.
        declared: What the declaration has that is not usual.
    """

    def __init__(self, folder: Path, answer: Callable[[Parameters], object], **declared: Any) -> None:
        self._copy, self._answer, self._declared = folder / "copy", answer, declared
        self.captured: list[Span] = []
        self.records: list[Record] = []
        self.requests = 0

    def ask(self, request: Request, pace: Pace, *, position: str, **_: Any) -> Answer:  # noqa: ARG002 - as the real one
        self.requests += 1
        assert self.requests < _MOST, f"asked for {position} for ever"
        return Answer(status=200, headers={}, body=json.dumps(self._answer(request.parameters)).encode())

    def run(self, period: CapturePeriod | None = None) -> None:
        """One capture, in a process of its own."""
        api = HttpApi(url="https://api.example/v1", records="results", **self._declared)
        stream = HttpStream(
            api, secret=HttpSecrets(), event_time="at", as_of=datetime(2026, 1, 31, tzinfo=UTC), days=LocalDays()
        )
        stream._asking.ask = self.ask  # type: ignore[method-assign]
        (span,) = stream.resolve(period or CapturePeriod(start=None, end=None), ()).spans
        pieces = list(stream.pieces(span, self.captured))
        while pieces:
            piece = pieces.pop(0)
            written = stream.write(piece, self._copy, Pace())
            range_to = written.range_to or piece.range_to
            if written.goes_on:
                pieces.insert(0, Span(partition=piece.partition, range_from=range_to, range_to=piece.range_to))
            if range_to == piece.range_from and not written.records:
                continue
            self.records += [json.loads(line) for line in gzip.decompress(self._copy.read_bytes()).splitlines()]
            self.captured.append(Span(partition=piece.partition, range_from=piece.range_from, range_to=range_to))


def behind(records: Sequence[Record], page: int, *, inclusive: bool = False) -> Callable[[Parameters], object]:
    """An API that gives the records behind an id, which it compares with `>` or `>=`."""

    def answer(parameters: Parameters) -> object:
        after = parameters.get("since")
        found = [
            each
            for each in records
            if after is None or str(each["id"]) > after or (inclusive and str(each["id"]) == after)
        ]
        return {"results": sorted(found, key=lambda each: (str(each["id"]), each["n"]))[:page]}

    return answer


BY_ID = IdRange(after="since", member="id")


def records_of(ids: Sequence[str]) -> list[Record]:
    return [{"id": each, "n": number} for number, each in enumerate(ids)]


def numbers(records: Sequence[Record]) -> Counter[int]:
    return Counter(each["n"] for each in records)


TIES = ["10:00:00", "10:00:01", "10:00:01", "10:00:02"]


@pytest.mark.parametrize("page", [3, 4, 5, 100])
def test_records_of_one_id_on_two_pages_are_all_captured(tmp_path: Path, page: int) -> None:
    records = records_of(TIES)
    found = Capture(tmp_path, behind(records, page), pages=BY_ID)
    found.run()
    assert numbers(found.records) == numbers(records)


def test_a_page_that_has_no_room_for_more_than_one_id_is_refused(tmp_path: Path) -> None:
    says = "nothing but records of id '10:00:01', so that others of these may be left out"
    with pytest.raises(BadAnswer, match=says):
        Capture(tmp_path, behind(records_of(TIES), 2), pages=BY_ID).run()


@given(
    ids=st.lists(st.integers(0, 9).map(str), max_size=14),
    more=st.lists(st.integers(0, 3).map(str), max_size=6),
    page=st.integers(2, 6),
    has_window=st.booleans(),
    inclusive=st.booleans(),
)
def test_every_record_behind_an_id_is_captured_once_or_its_page_is_refused(
    tmp_path_factory: pytest.TempPathFactory,
    ids: Sequence[str],
    more: Sequence[str],
    page: int,
    has_window: bool,
    inclusive: bool,
) -> None:
    records = records_of(ids)
    window = TimeWindow(start="from", end="to", of="at") if has_window else None
    period = (
        CapturePeriod(start=datetime(2026, 1, 1, tzinfo=UTC), end=datetime(2026, 1, 2, tzinfo=UTC)) if window else None
    )
    pages = replace(BY_ID, inclusive=inclusive)
    answer = behind(records, page, inclusive=inclusive)
    found = Capture(tmp_path_factory.mktemp("pages"), answer, pages=pages, window=window)
    try:
        found.run(period)
        assert numbers(found.records) == numbers(records)
        if has_window:
            return
        # What comes later may have the last id too.
        last = max(ids, default="0")
        records += [{"id": f"{last}{each}" if int(each) else last, "n": 100 + n} for n, each in enumerate(more)]
        found.run()
        assert numbers(found.records) == numbers(records)
        asked = found.requests
        found.run()
        assert (numbers(found.records), found.requests <= asked + 2) == (numbers(records), True)
    except BadAnswer as refused:
        assert "ask for larger pages" in str(refused)
        assert max(Counter(each["id"] for each in records).values()) > 1


@pytest.mark.parametrize(
    ("ids", "says"),
    [
        ([3, 2, 1], "records that are not in the order of id"),
        (["b", "a", "b"], "records that are not in the order of id"),
        (["2026-01-03", "2026-01-02"], "records that are not in the order of id"),  # the newest ones first
        (["2026-01-03T10:00:00Z", "2026-01-03T09:59:59.5Z", "2026-01-01T00:00:00Z"], "not in the order of id"),
        (["c", "B", "a"], "records that are not in the order of id"),
        (["2.5", "10", "9.5"], "records that are not in the order of id"),
        ([1, None], "a record without 'id'"),
        (["0", "1"], "id '0', behind which it was asked for records"),
    ],
)
def test_ids_that_no_page_can_be_asked_behind_are_refused(tmp_path: Path, ids: Sequence[object], says: str) -> None:
    pages = IdRange(after="since", member="id", first="0")
    with pytest.raises(BadAnswer, match=says):
        Capture(tmp_path, lambda _: {"results": [{"id": each} for each in ids]}, pages=pages).run()


@pytest.mark.parametrize(
    "ids",
    [
        ["9", "10"],
        ["9.5", "10.25"],
        ["2026-01-03T10:00:00+02:00", "2026-01-03T09:00:00+00:00"],
        ["a", "B", "c"],
        ["ab", "a-c"],
        ["Äpfel", "Birnen", "Zimt"],
    ],
)
def test_ids_have_the_order_of_numbers_of_times_or_of_the_api(tmp_path: Path, ids: Sequence[str]) -> None:
    def answer(parameters: Parameters) -> object:
        after = ids.index(parameters["since"]) + 1 if "since" in parameters else 0
        return {"results": [{"id": each, "n": n} for n, each in enumerate(ids)][after:]}

    found = Capture(tmp_path, answer, pages=BY_ID)
    found.run()
    assert [each["id"] for each in found.records] == ids


@pytest.mark.parametrize(
    ("pairs", "is_right"),
    [
        ([("2026-01-01", 9), ("2026-01-01", 10), ("2026-01-02", 1)], True),
        ([("2026-01-01", 2), ("2026-01-01", 1), ("2026-01-02", 1)], False),
        ([("2026-01-02", 1), ("2026-01-01", 2), ("2026-01-01", 3)], False),
        ([("2026-01-01", 1), ("2026-01-02", 2), ("2026-01-01", 3)], False),
    ],
)
def test_records_of_two_keys_are_in_the_order_of_both(
    tmp_path: Path, pairs: Sequence[tuple[str, int]], is_right: bool
) -> None:
    records = [{"at": at, "id": number, "n": n} for n, (at, number) in enumerate(pairs)]

    def answer(parameters: Parameters) -> object:
        after = (parameters.get("since", ""), int(parameters.get("since_id", "0")))
        return {"results": [each for each in records if (each["at"], each["id"]) > after]}

    pages = IdRange(after="since", member="at", tie="id", tie_after="since_id")
    found = Capture(tmp_path, answer, pages=pages)
    if is_right:
        found.run()
        assert numbers(found.records) == numbers(records)
    else:
        with pytest.raises(BadAnswer, match="records that are not in the order of at and id"):
            found.run()


def by_cursor(pages: Mapping[str, tuple[Sequence[int], object]]) -> Callable[[Parameters], object]:
    """An API with named pages, each with its numbers and the cursor of the next one."""

    def answer(parameters: Parameters) -> object:
        found, following = pages[parameters.get("cursor", "")]
        return {"results": [{"n": each} for each in found], "next_cursor": following}

    return answer


BY_CURSOR = Cursor(parameter="cursor", next="next_cursor")


@pytest.mark.parametrize(
    ("pages", "numbers"),
    [
        ({"": ([], 0), "0": ([], 0)}, []),
        ({"": ([1, 2], 2), "2": ([3], 3), "3": ([], 3)}, [1, 2, 3]),
        ({"": ([1], "a"), "a": ([], "b"), "b": ([], "c"), "c": ([2], None)}, [1, 2]),
        ({"": ([], "a"), "a": ([1], "")}, [1]),
    ],
)
@pytest.mark.parametrize("has_window", [False, True])
def test_pages_without_records_are_gone_through_and_the_last_one_may_have_its_own_cursor(
    tmp_path: Path, pages: Mapping[str, tuple[Sequence[int], object]], numbers: Sequence[int], has_window: bool
) -> None:
    window = TimeWindow(start="from", end="to", of="at") if has_window else None
    period = (
        CapturePeriod(start=datetime(2026, 1, 1, tzinfo=UTC), end=datetime(2026, 1, 2, tzinfo=UTC)) if window else None
    )
    found = Capture(tmp_path, by_cursor(pages), pages=BY_CURSOR, window=window)
    found.run(period)
    assert [each["n"] for each in found.records] == numbers
    found.run(period)
    assert [each["n"] for each in found.records] == numbers


@pytest.mark.parametrize(
    "pages",
    [
        {"": ([1], "a"), "a": ([2], "b"), "b": ([3], "a")},
        {"": ([], "a"), "a": ([], "b"), "b": ([], "a")},
        {"": ([1], "a"), "a": ([2], "a")},
    ],
)
def test_cursors_that_lead_to_each_other_are_refused(
    tmp_path: Path, pages: Mapping[str, tuple[Sequence[int], object]]
) -> None:
    found = Capture(tmp_path, by_cursor(pages), pages=BY_CURSOR)
    for _ in range(2):  # also when the process that read the first pages is gone
        with pytest.raises(BadAnswer):
            found.run()


def test_an_api_that_says_that_there_is_more_and_gives_the_same_cursor_without_records_is_refused(
    tmp_path: Path,
) -> None:
    pages = Cursor(parameter="cursor", next="next_cursor", more="more")
    found = Capture(tmp_path, lambda _: {"results": [], "next_cursor": "a", "more": True}, pages=pages)
    with pytest.raises(BadAnswer):
        found.run()


@pytest.mark.parametrize("length", [1, 2, 3, 5])
def test_numbered_pages_that_begin_anew_are_refused(tmp_path: Path, length: int) -> None:
    def answer(parameters: Parameters) -> object:
        return {"results": [{"n": int(parameters["page"]) % length}]}

    with pytest.raises(BadAnswer):
        Capture(tmp_path, answer, pages=PageNumber(parameter="page")).run()


def test_numbered_pages_of_any_length_are_read_to_the_first_one_without_records(tmp_path: Path) -> None:
    pages = [[1, 2], [3], [4, 5, 6, 7], [1, 2], []]

    def answer(parameters: Parameters) -> object:
        return {"results": [{"n": each} for each in pages[int(parameters["page"]) - 1]]}

    found = Capture(tmp_path, answer, pages=PageNumber(parameter="page"))
    found.run()
    assert [each["n"] for each in found.records] == [each for page in pages for each in page]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 10, 11, 12])
def test_ids_that_no_two_records_have_are_read_in_pages_of_any_length(tmp_path: Path, count: int) -> None:
    records = records_of([f"{number:02}" for number in range(count)])
    for page in (2, 3, 100):
        found = Capture(tmp_path, behind(records, page), pages=BY_ID)
        found.run()
        found.run()
        assert numbers(found.records) == numbers(records)
