"""What an API does wrong stops its capture in one sentence, what was read before stays, and no secret is kept."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill_assets.capture.errors import BadAnswer, NoStream, StreamDenied, StreamFailed
from backfill_assets.capture.streams import Pace
from backfill_assets.core.errors import BackfillError, Refused, TakenOver
from backfill_assets.domain import Cursor, PageNumber
from backfill_assets.files.local import LocalFiles
from backfill_assets.files.port import FileState
from backfill_assets.report.command_line import explained
from backfill_assets_tests.domains import captured_api
from backfill_assets_tests.support.advice import has_code
from backfill_assets_tests.support.api_server import (
    CLIENT,
    LAST,
    SECRET,
    Api,
    ApiShop,
    Fault,
    ShopOf,
    Waits,
    running_api,
)
from backfill_assets_tests.support.captured_shop import FIRST, finished, stopped
from backfill_assets_tests.support.ledger_examples import tamper


@pytest.mark.long
def test_a_token_is_had_again_when_it_ends_and_secrets_are_shown_nowhere(shop_of: ShopOf, api: Api) -> None:
    api.sell(100)
    api.is_secured, api.token_lasts = True, 4
    shop = shop_of()
    secured = {"TEST_API_SECURED": "yes", "TEST_API_CLIENT": CLIENT}
    ask = ("capture", "sales", "--from", "2026-01-01", "--to", "2026-01-04", "--by", "ana", "--reason", "why not")
    code, said = finished(shop.command(*ask, "--no-load", more=secured))
    assert (code, "the secret TEST_API_SECRET is not there" in said) == (1, True), said
    code, said = finished(shop.command(*ask, "--no-load", more={**secured, "TEST_API_SECRET": "wrong-secret-word"}))
    assert (code, "does not accept the credentials: 401 Unauthorized" in said) == (1, True), said
    assert "wrong-secret-word" not in said
    code, said = finished(shop.command(*ask, "--no-load", more={**secured, "TEST_API_SECRET": SECRET}))
    assert (code, "100 records captured" in said, api.tokens >= 3) == (0, True, True), said
    kept = b"".join(
        gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        for path in shop.home.rglob("*")
        if path.is_file()
    )
    for secret in (SECRET, CLIENT, "token-number-"):
        assert secret.encode() not in kept
        assert secret not in said


@pytest.mark.long
def test_an_answer_that_repeats_a_secret_is_not_kept(
    shop_of: ShopOf, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.sell(5)
    monkeypatch.setenv("TEST_API_CLIENT", CLIENT)
    api.faults = {1: (200, {}, json.dumps({"data": {"items": [], "next": f"/v1/sales?client={CLIENT}"}}).encode())}
    shop = shop_of(secret_parameters={"client": "TEST_API_CLIENT"})
    with pytest.raises(Refused, check=has_code("answer_holds_secret"), match="has the secret client in it"):
        shop.capture(FIRST, FIRST)
    assert (shop.bytes("*.gz"), shop.files()) == ({}, ())


FAULTS: list[tuple[Fault, type[BackfillError], str]] = [
    ((401, {}, b""), StreamDenied, "does not accept the credentials: 401 Unauthorized"),
    ((404, {}, b""), NoStream, "has no /v1/sales"),
    ((410, {}, b""), Refused, "no longer knows 2026-01-02T00:00:00Z"),
    ((302, {"Location": "http://127.0.0.1:9/"}, b""), BadAnswer, "with 302 Found: the answer was not kept"),
    ((400, {}, b"limit: too many"), BadAnswer, "with 400 Bad Request"),
    ((500, {}, b"trace"), StreamFailed, "it answered 500 Internal Server Error, tried 2 times"),
    (
        (429, {"Retry-After": "3600"}, b""),
        StreamFailed,
        "asks to wait for 3600 s, and its capture waits for at most 300",
    ),
    ((200, {}, b"<html>"), BadAnswer, "with content that is not JSON"),
    ((200, {}, b'{"data": {"items": [], "error": 01}}'), BadAnswer, "with content that is not JSON"),
    ((200, {}, b"\xff"), BadAnswer, "with what is not UTF-8"),
    ((200, {}, b'{"data": {"items": null}}'), BadAnswer, "with no array at 'data.items', where its records"),
    ((200, {}, b'{"data": {"items": [], "next": "a\\u0000b"}}'), BadAnswer, "a next page that cannot be written down"),
    ("reset", StreamFailed, "the connection was refused or broke off, tried 2 times"),
    ("half", StreamFailed, "its answer broke off, tried 2 times"),
    ("slow", StreamFailed, "did not answer within 0.5 s"),
]


@pytest.mark.long
def test_what_an_api_does_wrong_is_one_sentence_and_what_was_read_before_stays(shop_of: ShopOf, api: Api) -> None:
    api.sell(20, days=2)
    for number, (fault, kind, said) in enumerate(FAULTS):
        api.requests.clear()
        api.faults = {2: fault, 3: fault}  # the second day, and the second attempt
        shop = shop_of(home=f"home-{number}", attempts=2, answers_within=timedelta(seconds=0.5))
        with pytest.raises(BackfillError) as refused:
            shop.capture(FIRST, LAST, pace=Waits().pace)
        assert type(refused.value) is kind, refused.value
        assert said in explained(refused.value)
        assert "\n" not in explained(refused.value)
        api.faults = {}
        assert (len(shop.files()), shop.capture(FIRST, LAST, pace=Waits().pace).captured) == (2, 10)


@pytest.mark.long
def test_an_api_that_went_away_in_the_middle_is_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    with running_api() as own:
        own.sell(40)
        shop = ApiShop(home=tmp_path / "home", spark=spark, api=own, declared={"attempts": 3})
        own.faults = dict.fromkeys(range(3, 100), "reset")
        with pytest.raises(StreamFailed, match="refused or broke off, tried 3 times"):
            shop.capture(FIRST, LAST, pace=Waits().pace)
        assert len(shop.files()) == 4
    with pytest.raises(StreamFailed, match="refused or broke off, tried 3 times"):
        shop.capture(FIRST, LAST, pace=Waits().pace)


@pytest.mark.long
def test_an_answer_that_a_killed_capture_did_not_record_is_removed_when_there_is_another(
    shop_of: ShopOf, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backfill_assets.application.capture._land", lambda *_, **__: None)
    api.sell(8)
    shop = shop_of()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("backfill_assets.ledger.captures.CaptureWrites.add", stopped)
        with pytest.raises(RuntimeError):
            shop.capture(FIRST, LAST)
    (left,) = shop.bytes()
    api.sales["s000000"]["amount"] = 11
    assert shop.capture(FIRST, LAST).captured == 8
    assert left not in shop.bytes()
    assert shop.bytes("*.gz").keys() == {each.stored_path.rpartition("/")[2] for each in shop.files()}


@pytest.mark.long
def test_what_another_capture_has_recorded_since_is_not_removed(
    shop_of: ShopOf, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backfill_assets.application.capture._land", lambda *_, **__: None)
    api.sell(8)
    shop = shop_of()
    listed = LocalFiles.listed

    def after_a_while(files: LocalFiles, folder: str = "") -> Iterator[FileState]:
        if "/v1-sales-" not in folder:
            return listed(files, folder)
        # This process stood still until its lease had ended, and another one has captured the same.
        monkeypatch.setattr(LocalFiles, "listed", listed)
        tamper(shop.open().settings.ledger_url, "DELETE FROM leases")
        shop.capture(FIRST, LAST)
        return listed(files, folder)

    monkeypatch.setattr(LocalFiles, "listed", after_a_while)
    with pytest.raises(TakenOver):
        shop.capture(FIRST, LAST)
    assert shop.bytes("*.gz").keys() == {each.stored_path.rpartition("/")[2] for each in shop.files()}


@pytest.mark.long
def test_pages_that_go_round_in_a_circle_stop_the_capture(shop_of: ShopOf, api: Api) -> None:
    api.sell(40)
    page = {"data": {"items": list(api.sales.values())[:10], "next": "10"}}
    first = {"data": {"items": list(api.sales.values())[20:30], "next": "10"}}
    whole = {"window": None, "pages": Cursor(parameter="cursor", next="data.next")}
    api.faults = {2: (200, {}, json.dumps(page).encode())}
    with pytest.raises(BadAnswer, match="behind cursor 10 it has cursor 10 once more"):
        shop_of(**whole).capture(None, None)
    api.requests.clear()
    api.faults = {3: (200, {}, json.dumps(first).encode())}
    shop = shop_of(home="later", **whole)
    with pytest.raises(BadAnswer, match="behind cursor 20 it has cursor 10 once more"):
        shop.capture(None, None)
    # Also when the process that read these pages is gone.
    api.faults = {4: (200, {}, json.dumps(first).encode())}
    with pytest.raises(BadAnswer, match="behind cursor 20 it has cursor 10 once more"):
        shop.capture(None, None)
    # An API that knows no pages gives the first one for each.
    numbered = shop_of(home="numbered", path="/v1/all", records="", window=None, pages=PageNumber(parameter="page"))
    with pytest.raises(BadAnswer, match="behind page 2 it has the page before once more"):
        numbered.capture(None, None)


@pytest.mark.long
def test_an_api_that_asks_to_wait_until_a_time_is_waited_for_by_its_own_clock(shop_of: ShopOf, api: Api) -> None:
    api.sell(5)
    now = datetime.now(UTC)
    at = (now + timedelta(days=300, seconds=7)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    date = (now + timedelta(days=300)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    api.faults = {1: (503, {"Retry-After": at, "Date": date}, b"")}
    waits = Waits()
    assert shop_of().capture(FIRST, FIRST, pace=waits.pace).captured == 2
    (waited,) = waits
    assert waited == pytest.approx(7, abs=1)


def test_requests_are_made_at_the_pace_that_is_declared(api: Api) -> None:
    from backfill_assets.capture.http.client import ApiClient, HttpSecrets, Request

    now = 0.0

    def wait(seconds: float) -> None:
        nonlocal now
        now += seconds

    url = f"{api.url}/v1/all"
    asking = ApiClient(replace(captured_api.API, url=url, requests_per_minute=120), HttpSecrets(), name="it")
    for _ in range(7):
        asking.ask(Request(url=url), Pace(wait=wait, now=lambda: now), position="start")
    asking.close()
    assert now == pytest.approx(3.0)
