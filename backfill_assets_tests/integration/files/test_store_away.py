"""A store fails in the middle of an operation: work waits for it, or ends in a sentence and goes on afterwards."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.application.requests import Restatement
from backfill_assets.core.errors import BackfillError, ContractBroken, OutcomeUnknown, StoreRefused
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.ledger.states import ImportState, RunState
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import advised
from backfill_assets_tests.support.lakes import use_store
from backfill_assets_tests.support.outages import Outage, Proxy, Way, proxied
from backfill_assets_tests.support.s3_server import Store
from backfill_assets_tests.support.shop import RECENT, SALES, Shop, open_shop, ticking_clock, usual_sales

A_COMMIT = rf"PUT .*{RECENT.partition('.')[2]}/_delta_log/"
STAGED = r"PUT .*\.parquet"
ARCHIVED, CONFORMED = r"PUT .*/landing/sales/../", r"PUT .*/landing/sales/conformed/"
BEN = Acting(by="ben", recorder=Unrecorded())
REMOVED = r"POST .*[?&]delete"


@pytest.fixture(scope="module")
def proxy(store: Store) -> Iterator[Proxy]:
    with proxied(store.port) as opened:
        yield opened


@pytest.fixture
def far(
    tmp_path: Path, store: Store, proxy: Proxy, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Shop]:
    """A shop in which January has landed, with its lake in a store behind a proxy."""
    use_store(monkeypatch, store)
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
    opened = open_shop(tmp_path / "home", clock=ticking_clock(NOON), spark=spark)
    opened.land("january.jsonl", usual_sales())
    yield opened
    proxy.end()
    opened.ws.close()


def one_sentence(error: BackfillError) -> str:
    text = str(error)
    assert "\n" not in text and "\x1b" not in text and error.exit_code == 1 and advised(error)
    return text


def goes_on(shop: Shop, run_id: str) -> None:
    """Whatever is still to be done is done by the commands that were given before."""
    if operations.state_of(shop.ws, run_id) is not RunState.PUBLISHED:
        _worked_through(shop, run_id)
    assert set(shop.amounts().values()) == {40}
    assert audit(shop.ws).problems == ()


def _worked_through(shop: Shop, run_id: str) -> None:
    if operations.state_of(shop.ws, run_id) in (RunState.PLANNED, RunState.FAILED):
        operations.stage(shop.ws, run_id, actor="ana")
        operations.gate(shop.ws, run_id, actor="ana")
        operations.approve(shop.ws, run_id, by="ben")
    Restatement(shop.ws, run_id).publish(BEN)


def late_sale(shop: Shop, number: int) -> Path:
    path = shop.folder / f"late-{number}.jsonl"
    record = {"sale_id": f"late-{number}", "sold_at": "2026-01-14T12:00:00Z", "amount": number}
    path.write_text(json.dumps(record) + "\n", encoding="utf-8")
    return path


def landed(shop: Shop, path: Path) -> ImportState:
    return operations.land(shop.ws, SALES, path, on_duplicate=OnDuplicate.IGNORE, by="ana").record.state


def waited_for(shop: Shop, proxy: Proxy, seconds: float) -> None:
    """The store answers 503 for a while, in the middle of landing, of staging, of publication and of vacuum."""
    for number, at in enumerate((ARCHIVED, CONFORMED)):
        with during(proxy, Outage(way=Way.ANSWERS, seconds=seconds, begins_at=at)):
            assert landed(shop, late_sale(shop, number)) is ImportState.LANDED
    run_id = shop.planned()
    with during(proxy, Outage(way=Way.ANSWERS, seconds=seconds, begins_at=STAGED)):
        operations.stage(shop.ws, run_id, actor="ana")
    operations.gate(shop.ws, run_id, actor="ana")
    operations.approve(shop.ws, run_id, by="ben")
    with during(proxy, Outage(way=Way.ANSWERS, seconds=seconds, begins_at=A_COMMIT)):
        shop.publish(run_id)
    goes_on(shop, run_id)
    not_needed = shop.planned(reason="not needed")
    operations.stage(shop.ws, not_needed, actor="ana")
    operations.cancel(shop.ws, not_needed, by="ana", reason="a mistake")
    long_after = replace(shop.ws, clock=lambda: NOON + timedelta(days=4_000))
    with during(proxy, Outage(way=Way.ANSWERS, seconds=seconds, begins_at=REMOVED)):
        operations.vacuum(long_after, by="ops")
    goes_on(shop, run_id)


@contextmanager
def during(proxy: Proxy, outage: Outage) -> Iterator[None]:
    """What is done while a store fails; requests have to meet it."""
    proxy.begin(outage)
    yield
    assert proxy.met
    proxy.end()


@pytest.mark.long
def test_a_short_outage_is_waited_for(far: Shop, proxy: Proxy) -> None:
    waited_for(far, proxy, 2.0)


@pytest.mark.long
def test_a_store_that_answers_503_for_half_a_minute_is_waited_for(far: Shop, proxy: Proxy) -> None:
    waited_for(far, proxy, 30.0)


@pytest.mark.long
@pytest.mark.parametrize("way", [Way.LOSES_ANSWER, Way.CUTS])
def test_a_commit_whose_answer_is_lost_is_looked_for(far: Shop, proxy: Proxy, way: Way) -> None:
    run_id = far.ready()
    with during(proxy, Outage(way=way, seconds=0.3, begins_at=A_COMMIT)):
        far.publish(run_id)
    goes_on(far, run_id)


@pytest.mark.long
@pytest.mark.parametrize(
    ("status", "code", "message", "reason"),
    [
        ("403 Forbidden", "ExpiredToken", "The provided token has expired.", "have expired"),
        ("403 Forbidden", "InvalidAccessKeyId", "This key does not exist.", "does not know these credentials"),
        ("404 Not Found", "NoSuchBucket", "This bucket does not exist.", "no such bucket"),
    ],
)
def test_credentials_that_end_in_the_middle_are_one_sentence_and_nothing_is_lost(
    far: Shop, proxy: Proxy, status: str, code: str, message: str, reason: str
) -> None:
    outage = Outage(way=Way.ANSWERS, status=status, code=code, message=message, begins_at=STAGED)
    for number, (at, error) in enumerate(((ARCHIVED, StoreRefused), (CONFORMED, ContractBroken))):
        path = late_sale(far, number)
        with during(proxy, replace(outage, begins_at=at)), pytest.raises(error) as refused:
            landed(far, path)
        assert re.search(f"{code}|{message}|{reason}", one_sentence(refused.value))
        assert landed(far, path) is ImportState.LANDED
    run_id = far.planned()
    with during(proxy, outage), pytest.raises(ContractBroken) as stopped:
        operations.stage(far.ws, run_id, actor="ana")
    # Hadoop passes on what the store says, for some answers only their code.
    assert re.search(f"{code}|{message}", one_sentence(stopped.value))
    assert operations.state_of(far.ws, run_id) is RunState.FAILED
    operations.stage(far.ws, run_id, actor="ana")
    operations.gate(far.ws, run_id, actor="ana")
    operations.approve(far.ws, run_id, by="ben")
    with during(proxy, replace(outage, begins_at=A_COMMIT)), pytest.raises(OutcomeUnknown) as unknown:
        far.publish(run_id)
    assert reason in one_sentence(unknown.value)
    with during(proxy, replace(outage, begins_at=".")):
        report = operations.vacuum(far.ws, by="ops")
    assert report.problems and all(reason in str(problem) for problem in report.problems)
    goes_on(far, run_id)
