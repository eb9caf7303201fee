"""Captures of an API on loopback: what is landed is what it said, once, whatever it and the process do on the way."""

from __future__ import annotations

import gzip
import hashlib
import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.capture.errors import BadAnswer, NothingCaptured, NotOffered, StreamFailed
from backfill_assets.core.errors import Refused, Retryable
from backfill_assets.domain import Cursor, IdRange, Offset, PageNumber, TimeWindow
from backfill_assets.landing.errors import WithdrawsTooMuch
from backfill_assets.report.command_line import explained
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.support.advice import has_code
from backfill_assets_tests.support.api_server import LAST, Api, Fault, ShopOf, Waits, current, ids
from backfill_assets_tests.support.captured_shop import FIRST


@pytest.mark.long
def test_pages_are_landed_once_with_their_answers_and_corrections_and_deletes_are_found(
    shop_of: ShopOf, api: Api
) -> None:
    api.sell(47)
    api.faults = {2: (429, {"Retry-After": "2"}, b""), 4: (503, {}, b"busy"), 6: "reset", 8: "half"}
    shop, waits = shop_of(), Waits()
    planned = shop.plan(FIRST, LAST)
    assert (planned.records, planned.files, api.requests) == (None, 4, [])

    # A sale of the last day is corrected before its page is read, and one of the first day after it was.
    def corrected(number: int) -> None:
        if number == 9:
            api.sales["s000000"]["amount"] = 77
            api.sales["s000040"]["amount"] = 66

    api.before = corrected
    report = shop.capture(FIRST, LAST, builds=True, pace=waits.pace)
    assert (report.captured, len(shop.bytes()), len(shop.bytes("*.answer.gz"))) == (47, 8, 8)
    assert waits == [2.0, 0.5, 0.5, 0.5]
    assert len(api.asked) == 8 + 4
    assert ids(shop) == sorted(api.sales)
    assert (current(shop)["s000000"], current(shop)["s000040"]) == (10, 66)

    # Every answer is there byte for byte, with what was asked for, its status and its digest.
    for answer in shop.bytes("*.answer.gz").values():
        said, _, body = gzip.decompress(answer).partition(b"\n")
        told = json.loads(said)
        parameters = told["request"]["parameters"]
        assert (told["status"], told["sha256"]) == (200, hashlib.sha256(body).hexdigest())
        assert json.loads(body)["data"]["items"]
        assert parameters["limit"] == "10"
        assert parameters in api.asked

    again = shop.capture(FIRST, LAST)
    assert (again.captured, len(api.asked)) == (0, 12)
    elsewhere = shop_of(home="elsewhere")
    api.sales["s000000"]["amount"] = 10
    elsewhere.capture(FIRST, FIRST)
    first_day = elsewhere.bytes("*.gz")
    assert (len(first_day), first_day.items() <= shop.bytes("*.gz").items()) == (4, True)

    # Nothing says that these changed, and that one is gone: only reading everything once more finds them.
    api.sales["s000000"]["amount"] = 77
    del api.sales["s000041"]
    found = shop.capture(FIRST, LAST, builds=True, is_whole=True)
    assert found.landed is not None
    assert found.landed.extract is not None
    assert (found.captured, found.landed.extract.withdrawn.keys) == (46, 1)
    assert current(shop) == {sale_id: sale["amount"] for sale_id, sale in api.sales.items()}
    ws = shop.open()
    try:
        assert audit(ws).problems == ()
    finally:
        ws.close()


@pytest.mark.long
def test_records_are_the_bytes_that_the_api_wrote(shop_of: ShopOf, api: Api) -> None:
    body = (
        b'{"note": {"items": [1]}, "items" : [ {"sale_id":"s1",\r\n"sold_at":"2026-01-01T12:00:00.000Z","amount":10 ,'
        b'"exact":1.50E0,"text":"a\\n\\u00e9"} , 7, "x", [{"a": 1}, {"a": 2}], '
        b'{"sale_id":"s2", "sold_at":"2026-01-01T12:00:00Z","amount":'
        b'12345678901234567890123} ], "next": null}'
    )
    api.faults = {1: (200, {"Content-Type": "application/json"}, body)}
    report = shop_of(records="items", pages=Cursor(parameter="cursor", next="next"), window=None).capture(None, None)
    assert report.captured == 5
    shop = shop_of()
    (content,) = shop.bytes().values()
    assert gzip.decompress(content).decode().splitlines() == [
        '{"sale_id":"s1",  "sold_at":"2026-01-01T12:00:00.000Z","amount":10 ,"exact":1.50E0,"text":"a\\n\\u00e9"}',
        "7",
        '"x"',
        '[{"a": 1}, {"a": 2}]',
        '{"sale_id":"s2", "sold_at":"2026-01-01T12:00:00Z","amount":12345678901234567890123}',
    ]
    (answer,) = shop.bytes("*.answer.gz").values()
    assert gzip.decompress(answer).partition(b"\n")[2] == body
    assert report.landed is not None
    (landed,) = report.landed.imports
    assert (landed.record.counts.accepted, landed.record.counts.rejected) == (1, 4)


@pytest.mark.long
def test_a_value_that_is_no_json_rejects_its_record_and_not_its_page(shop_of: ShopOf, api: Api) -> None:
    def sale(number: int, more: str) -> str:
        return f'{{"sale_id": "s{number}", "sold_at": "2026-01-01T12:00:00Z", {more}}}'

    wrong = [
        *('"amount": NaN', '"amount": 1, "v": NaN', '"amount": 1, "v": -Infinity', '"amount": 1, "v": [nan]'),
        *('"amount": 01', '"amount": None', '"amount": 1, "v": "a\tb"', '"amount": 1, "v": "a\nb"'),
        *('"amount": 1, "v": "\\x41"', '"amount": 1, "v": "\xfc"'),
    ]
    right = ['"amount": 15', '"amount": 12, "v": "NaN"']
    written = ",\n".join(sale(number, more) for number, more in enumerate([*wrong, *right]))
    api.faults = {1: (200, {}, f'{{"items": [{written}], "took": NaN}}'.encode("latin-1"))}
    shop = shop_of(records="items", pages=None, window=None)
    report = shop.capture(None, None, builds=True)
    assert report.captured == len(wrong) + len(right)
    assert report.landed is not None
    (landed,) = report.landed.imports
    assert (landed.record.counts.accepted, landed.record.counts.rejected) == (len(right), len(wrong))
    assert current(shop) == {f"s{len(wrong)}": 15, f"s{len(wrong) + 1}": 12}


@pytest.mark.long
@pytest.mark.parametrize(
    ("path", "declared", "requests"),
    [
        ("/v1/pages", {"records": "", "pages": PageNumber(parameter="page")}, 6),
        ("/v1/ids", {"records": "items", "pages": IdRange(after="since", member="sale_id")}, 7),
        ("/v1/changes", {"records": "items", "pages": Cursor(parameter="cursor", next="next", more="more")}, 5),
        ("/v1/sales", {"pages": Cursor(parameter="cursor", next="data.next")}, 5),
        ("/v1/all", {"records": "", "pages": None}, 1),
    ],
)
def test_an_api_without_periods_is_read_as_a_whole_and_then_from_where_it_ended(
    shop_of: ShopOf, api: Api, path: str, declared: dict[str, Any], requests: int
) -> None:
    api.sell(50)
    shop = shop_of(path=path, window=None, **declared)
    with pytest.raises(NotOffered, match="cannot be asked for a period"):
        shop.capture(FIRST, LAST)
    assert (shop.capture(None, None).captured, len(api.asked), ids(shop)) == (50, requests, sorted(api.sales))
    api.sell(5, start=50)
    goes_on = path in ("/v1/ids", "/v1/changes")
    assert shop.capture(None, None).captured == (5 if goes_on else 0)
    assert shop.capture(None, None).captured == 0
    # Where an API has no newest end, everything is read once more to know what is new.
    del api.sales["s000000"]
    found = shop.capture(None, None, builds=True, is_whole=True)
    assert found.landed is not None
    assert found.captured == 54
    assert current(shop).keys() == api.sales.keys()


@pytest.mark.long
def test_windows_that_end_by_status_and_pages_by_a_total_are_captured_and_reconciled(shop_of: ShopOf, api: Api) -> None:
    api.sell(23, days=2)  # of the four days two have no sales
    shop = shop_of(
        path="/v1/offsets",
        records="items",
        pages=Offset(parameter="skip", limit="limit", size=5, total="of"),
        parameters={},
        empty=(404, 204),
    )
    assert shop.capture(FIRST, LAST, builds=True).captured == 23
    assert current(shop).keys() == api.sales.keys()
    asked = len(api.asked)
    assert asked == 3 + 3 + 1 + 1
    assert (shop.capture(FIRST, LAST).captured, len(api.asked)) == (0, asked)
    del api.sales["s000000"]
    found = shop.capture(FIRST, LAST, builds=True, is_whole=True)
    assert found.landed is not None
    assert found.landed.extract is not None
    assert (found.captured, found.landed.extract.withdrawn.keys) == (22, 1)
    assert current(shop).keys() == api.sales.keys()


@pytest.mark.long
def test_records_that_overlapping_windows_have_twice_are_one_and_a_reconciliation_withdraws_only_its_days(
    shop_of: ShopOf, api: Api
) -> None:
    api.sell(12)  # at noon of each of the four days
    shop = shop_of(window=TimeWindow(start="from", end="to", of="sold_at", overlap=timedelta(hours=13)))
    assert shop.capture(FIRST, LAST, builds=True).captured == 12 + 3 * 3 + 3 * 3
    assert current(shop).keys() == api.sales.keys()
    del api.sales["s000000"], api.sales["s000005"]
    api.sales["s000004"]["amount"] = 44
    found = shop.capture(FIRST, FIRST, builds=True, is_whole=True, confirmed_by="ben")
    assert found.landed is not None
    assert found.landed.extract is not None
    assert found.landed.extract.withdrawn.keys == 1
    assert current(shop).keys() == {*api.sales, "s000005"}  # that day was not asked for
    assert current(shop)["s000004"] == 44


def a_change(amount: int, following: object, more: object) -> Fault:
    sale = {"sale_id": "s1", "sold_at": "2026-01-01T12:00:00+00:00", "amount": amount}
    return 200, {}, json.dumps({"items": [sale], "next": following, "more": more}).encode()


CHANGES: dict[str, Any] = {
    "path": "/v1/changes",
    "window": None,
    "records": "items",
    "pages": Cursor(parameter="cursor", next="next", more="more"),
}


@pytest.mark.long
def test_an_answer_that_says_again_what_an_earlier_one_said_holds_again(shop_of: ShopOf, api: Api) -> None:
    api.faults = {1: a_change(10, "1", False), 2: a_change(20, "2", False), 3: a_change(10, "3", False)}
    shop = shop_of(**CHANGES)
    for amount in (10, 20, 10):
        assert shop.capture(None, None, builds=True).captured == 1
        assert current(shop) == {"s1": amount}
    # Also where all of them are read at once.
    api.requests.clear()
    api.faults = {1: a_change(10, "1", True), 2: a_change(20, "2", True), 3: a_change(10, "3", False)}
    at_once = shop_of(home="at-once", **CHANGES)
    assert at_once.capture(None, None, builds=True).captured == 3
    assert current(at_once) == {"s1": 10}


@pytest.mark.parametrize(
    ("following", "more", "said"),
    [
        (None, True, "a next page at 'more', and no cursor"),
        ("1", 1, "neither true nor false at 'more'"),
        ("1", "yes", "neither true nor false at 'more'"),
        ("1", None, "neither true nor false at 'more'"),
        ({"at": 1}, True, "a value that is not a cursor at 'next'"),
        (True, False, "a value that is not a cursor at 'next'"),
    ],
)
def test_an_answer_that_does_not_say_whether_it_is_the_last_one_is_refused(
    shop_of: ShopOf, api: Api, monkeypatch: pytest.MonkeyPatch, following: object, more: object, said: str
) -> None:
    monkeypatch.setattr("backfill_assets.application.capture._land", lambda *_, **__: None)
    api.faults = {1: a_change(10, following, more)}
    with pytest.raises(BadAnswer, match=said):
        shop_of(**CHANGES).capture(None, None)


@pytest.mark.long
def test_the_newest_windows_follow_the_last_ones_and_none_is_read_before_it_has_settled(
    shop_of: ShopOf, api: Api
) -> None:
    api.sell(400, days=20)  # the clock of the test stands at noon of the fifteenth day
    window = TimeWindow(start="from", end="to", of="sold_at", settles_after=timedelta(hours=18))
    shop = shop_of(window=window)
    with pytest.raises(NothingCaptured):
        shop.capture(None, None)
    assert shop.capture(FIRST, FIRST + timedelta(days=9)).captured == 200
    asked = len(api.asked)
    assert shop.capture(None, None).captured == 80  # of the 14th day only the hours up to 18:00 are settled
    first, last = api.asked[asked], api.asked[-1]
    assert (first["from"], last["to"][:-4]) == ("2026-01-11T00:00:00Z", "2026-01-14T18:00")
    assert len(ids(shop)) == 280
    assert len(set(ids(shop))) == 280


@pytest.mark.long
def test_a_reconciliation_withdraws_nothing_of_days_that_it_does_not_read_to_their_end(
    shop_of: ShopOf, api: Api
) -> None:
    """The extract had the days that were asked for, and the API was read up to what is settled."""
    api.sell(400, days=20)  # the clock of the test stands at noon of the fifteenth day
    api.sales["late"] = {"sale_id": "late", "sold_at": "2026-01-14T20:00:00Z", "amount": 10}
    today = FIRST + timedelta(days=14)
    shop_of().capture(FIRST, today, builds=True)
    del api.sales["s000000"]
    shop = shop_of(window=TimeWindow(start="from", end="to", of="sold_at", settles_after=timedelta(hours=18)))
    for last in (today, None):
        found = shop.capture(FIRST, last, is_whole=True, builds=True)
        assert "late" in current(shop)
        assert "s000000" not in current(shop)
        assert found.plan.to == datetime(2026, 1, 14, tzinfo=UTC)
        assert found.landed is not None
        assert found.landed.extract is not None
        assert found.landed.extract.scope == "2026-01-01..2026-01-13"
        api.sales["s000001"]["amount"] += 1
    with pytest.raises(
        Retryable, check=has_code("not_settled"), match=r"no day of the period is over .* until 2026-01-15 18:00 UTC"
    ):
        shop.capture(FIRST + timedelta(days=13), today, is_whole=True)


@pytest.mark.long
def test_a_window_of_another_time_than_the_event_time_lands_and_is_not_reconciled(shop_of: ShopOf, api: Api) -> None:
    api.sell(20)
    shop = shop_of(window=TimeWindow(start="from", end="to", of="updated_at", step=timedelta(days=7)))
    assert shop.capture(FIRST, LAST).captured == 20
    with pytest.raises(
        Refused,
        check=has_code("asked_by_another_time"),
        match="is asked for records by updated_at, and days are of sold_at",
    ):
        shop.capture(FIRST, LAST, is_whole=True)


@pytest.mark.long
def test_a_capture_that_was_killed_goes_on_at_the_next_page_without_loss_or_duplicate(
    shop_of: ShopOf, api: Api, tmp_path: Path
) -> None:
    api.sell(400)
    shop = shop_of()
    ask = ("capture", "sales", "--from", "2026-01-01", "--to", "2026-01-04", "--by", "ana", "--reason", "why not")
    for _ in range(2):
        have = len(shop.bytes())
        process = shop.command(*ask, "--no-load", "--records-per-minute", "1200")
        until = time.monotonic() + 300
        while len(shop.bytes()) < have + 5:
            assert process.poll() is None and time.monotonic() < until
            time.sleep(0.05)
        process.kill()
        process.communicate()
    assert len(shop.files()) < 80
    # What was kept and not recorded is asked for again; it may be another answer by then.
    stopped_at = len(shop.bytes())
    shop.capture(FIRST, LAST, builds=True)
    assert len(shop.bytes()) == 40
    assert len(api.asked) <= 42 + 2 < 40 + stopped_at
    files = [each for each in shop.files() if each.format == "jsonl"]
    assert (len(files), sum(each.records for each in files)) == (40, 400)
    assert current(shop).keys() == api.sales.keys()
    whole = shop_of(home="whole")
    whole.capture(FIRST, LAST)
    assert shop.bytes("*.gz") == whole.bytes("*.gz")


@pytest.mark.long
def test_a_scan_that_found_nothing_new_withdraws_nothing_of_what_comes_later(shop_of: ShopOf, api: Api) -> None:
    """It did not count as landed, and landed once more behind the captures that came after it."""
    api.sell(20)
    by_id = IdRange(after="since", member="sale_id")
    shop = shop_of(path="/v1/ids", window=None, records="items", pages=by_id)
    for is_whole in (False, True, True):
        assert shop.capture(None, None, is_whole=is_whole).captured == 20
    api.sell(1, start=20)
    assert shop.capture(None, None, builds=True).captured == 1
    assert shop.capture(None, None, builds=True).landed is None
    assert current(shop).keys() == api.sales.keys()


@pytest.mark.long
def test_a_scan_that_was_stopped_goes_on_and_lands_only_when_it_is_complete(shop_of: ShopOf, api: Api) -> None:
    api.sell(100)
    shop = shop_of(attempts=1)
    shop.capture(FIRST, LAST, builds=True)
    for number in range(50):
        del api.sales[f"s{number:06}"]
    api.sales["s000050"]["amount"] = 5
    before = len(api.asked)
    api.faults = {before + 4: (500, {}, b"")}
    with pytest.raises(StreamFailed, match="500 Internal Server Error"):
        shop.capture(FIRST, LAST, is_whole=True)
    shop.capture(FIRST, LAST)  # nothing of a scan lands before all of it does
    assert current(shop)["s000050"] == 10
    with pytest.raises(WithdrawsTooMuch, match=r"lacks 50 of 100 keys") as refused:
        shop.capture(FIRST, LAST, is_whole=True)
    assert "--confirmed-by" in explained(refused.value)
    asked = len(api.asked)
    shop.capture(FIRST, LAST, is_whole=True, builds=True, confirmed_by="ben")
    assert len(api.asked) == asked  # it had been read
    assert current(shop) == {sale_id: sale["amount"] for sale_id, sale in api.sales.items()}
    api.sales.clear()
    with pytest.raises(WithdrawsTooMuch, match="lacks 50 of 50 keys"):
        shop.capture(FIRST, LAST, is_whole=True)
    shop.capture(FIRST, LAST, is_whole=True, builds=True, confirmed_by="ben")
    assert current(shop) == {}
