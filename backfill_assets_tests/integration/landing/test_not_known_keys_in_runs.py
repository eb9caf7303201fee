"""Keys of which a newer record was rejected: counted and listed everywhere, and read where their source says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date

import pytest

from backfill_assets.application import look
from backfill_assets.application.plan import described_plan
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.domain.operations import UnknownKeys
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import KeysUnknown
from backfill_assets.planning.request import PlanRequest
from backfill_assets.report.locate import locate
from backfill_assets.report.markdown import markdown_page
from backfill_assets.report.pages import page_of
from backfill_assets.report.report import run_report
from backfill_assets.report.status import status
from backfill_assets.requests.errors import KeysNotKnown, ReadBeforeKnown
from backfill_assets.upkeep.audit import audit
from backfill_assets.workspace import Workspace
from backfill_assets_tests.integration.staleness.test_stale import land_only
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import refused
from backfill_assets_tests.support.declaring import declaring
from backfill_assets_tests.support.shop import RECENT, SALES, Shop, sale

SIXTH = date(2026, 1, 6)
DAY = DayRange.inclusive(SIXTH, SIXTH)
USUAL = 40
"""What the present release makes of four days with a sale of ten each."""
SAID = "1 key of bronze.sales (2026-01-06, 1 day) is not known since {}, of which newer records were rejected"


def land(shop: Shop, name: str, *records: Mapping[str, object]) -> str:
    """Lands a file, and builds the days that it touches."""
    import_id = land_only(shop, name, *records)
    load(shop.ws)
    return import_id


def load(ws: Workspace, days: tuple[date, ...] | None = None) -> None:
    run = operations.plan_load(ws, SALES, partitions=days, by="ana", reason="landed")
    assert run is not None
    operations.approve(ws, run.run_id, by="ben")
    operations.stage(ws, run.run_id, actor="ana")
    assert operations.gate(ws, run.run_id, actor="ana").passed
    operations.publish(ws, run.run_id, by="ana")


def restated(ws: Workspace) -> str:
    """A run over the sixth that only has to be published."""
    run_id = operations.plan(ws, PlanRequest(table=RECENT, days=DAY, reason="x", by="ana")).manifest.run_id
    operations.approve(ws, run_id, by="ben")
    operations.stage(ws, run_id, actor="ana")
    assert operations.gate(ws, run_id, actor="ana").passed
    return run_id


def said(document: object) -> str:
    return markdown_page(page_of(document))


@pytest.fixture(name="unread")
def unread_correction(published_shop: Shop) -> str:
    """A correction of the sale of the sixth whose amount cannot be read."""
    return land(published_shop, "unread.jsonl", {**sale(SIXTH), "amount": "much"})


@pytest.mark.long
def test_a_key_of_a_rejected_correction_is_counted_and_listed_wherever_its_day_is_looked_at(
    published_shop: Shop, unread: str
) -> None:
    ws = published_shop.ws
    planned = described_plan(ws, operations.plan(ws, PlanRequest(table=RECENT, days=DAY, reason="x", by="ana")))
    report = run_report(ws, planned.plan.manifest.run_id)
    period = locate(ws, SALES, DAY)
    for document in (planned, report, status(ws), look.stale(ws, None, None), look.stale(ws, RECENT, None)):
        (found,) = document.not_known
        assert (found.found.keys, found.found.policy, found.found.imports) == (1, "block", (unread,))
        assert SAID.format(unread) in said(document)
    assert "sale-2026-01-06, last known on 2026-01-06; since" in said(period)
    (key,) = period.unknown
    assert (key.import_id, key.row, key.reason) == (unread, 1, "amount is not a whole number: 'much'")
    assert audit(ws).problems == ()


def test_what_reads_such_a_day_is_refused_until_a_newer_record_of_the_key_is_accepted(
    published_shop: Shop, unread: str
) -> None:
    before, run_id = published_shop.amounts(), restated(published_shop.ws)
    refusal = "where 1 key is not known.*backfill locate sales --from 2026-01-06 --to 2026-01-06.*unknown='keep'"
    with refused(KeysNotKnown, match=refusal):
        published_shop.publish(run_id)
    assert published_shop.amounts() == before
    land(published_shop, "again.jsonl", sale(SIXTH, amount=70))
    assert look.stale(published_shop.ws, None, None).not_known == ()
    published_shop.publish(restated(published_shop.ws))
    assert published_shop.amounts()[SIXTH] == USUAL + 60


@pytest.mark.long
@pytest.mark.parametrize("is_built", [True, False])
def test_a_run_that_was_planned_while_a_key_was_not_known_is_planned_again_once_it_is(
    published_shop: Shop, unread: str, is_built: bool
) -> None:
    """It was published with the rows of before, and was stale at once."""
    ws, before, run_id = published_shop.ws, published_shop.amounts(), restated(published_shop.ws)
    with ws.ledger.read() as tx:
        manifest = tx.runs.get(run_id).manifest
    assert manifest.unknown == (KeysUnknown(table=SALES, keys=1, days=(SIXTH,)),)
    assert Manifest.parse(manifest.text) == manifest
    (land if is_built else land_only)(published_shop, "again.jsonl", sale(SIXTH, amount=70))
    build = "" if is_built else "load sales --from 2026-01-06 --to 2026-01-06.*"
    with refused(ReadBeforeKnown, match=f"was not known when it was planned, and is now.*{build}plan recent_sales"):
        published_shop.publish(run_id)
    assert published_shop.amounts() == before
    assert "was not known when it was planned, and is now" in said(run_report(ws, run_id))
    if not is_built:
        load(ws)
    published_shop.publish(restated(ws))
    assert published_shop.amounts()[SIXTH] == USUAL + 60
    assert not is_stale(ws)


@pytest.mark.parametrize("ends", ["the same value again", "keep"])
def test_a_run_whose_inputs_are_what_is_accepted_goes_on_when_the_key_is_known(
    published_shop: Shop, unread: str, ends: str
) -> None:
    assert unread
    ws, run_id = published_shop.ws, restated(published_shop.ws)
    if ends == "keep":
        ws = declaring(ws, unknown=UnknownKeys.KEEP)
    else:
        land(published_shop, "again.jsonl", sale(SIXTH))
    operations.publish(ws, run_id, by="ben")
    assert published_shop.amounts()[SIXTH] == USUAL


@pytest.mark.long
def test_a_run_that_was_ready_before_the_record_was_rejected_is_refused_as_well(published_shop: Shop) -> None:
    run_id = restated(published_shop.ws)
    land_only(published_shop, "unread.jsonl", {**sale(SIXTH), "amount": "much"})
    with pytest.raises(KeysNotKnown):
        published_shop.publish(run_id)


@pytest.mark.long
@pytest.mark.parametrize("value", [70, 10])
def test_a_run_that_was_ready_before_a_record_was_rejected_is_planned_again_once_the_key_has_another_value(
    published_shop: Shop, value: int
) -> None:
    """It was published with the rows of before, although publication had waited for the key."""
    ws, before, run_id = published_shop.ws, published_shop.amounts(), restated(published_shop.ws)
    land(published_shop, "unread.jsonl", {**sale(SIXTH), "amount": "much"})
    land(published_shop, "again.jsonl", sale(SIXTH, amount=value))
    if value == sale(SIXTH)["amount"]:
        published_shop.publish(run_id)
    else:
        with refused(ReadBeforeKnown, match="was not known for a time after it was planned, and is now.*plan recent"):
            published_shop.publish(run_id)
        assert published_shop.amounts() == before
        published_shop.publish(restated(ws))
    assert published_shop.amounts()[SIXTH] == USUAL - 10 + value
    assert not is_stale(ws)


@pytest.mark.long
def test_a_withdrawal_ends_what_is_not_known_and_its_restoration_brings_that_back(
    published_shop: Shop, unread: str
) -> None:
    ws = published_shop.ws
    statement = operations.withdraw(ws, SALES, {"sale_id": f"sale-{SIXTH}"}, by="ana", reason="until it is known")
    assert look.stale(ws, None, None).not_known == ()
    operations.restore(ws, SALES, statement.record.import_id, by="ana", reason="it is needed")
    (found,) = look.stale(ws, None, None).not_known
    assert found.found.imports == (unread,)


@pytest.mark.long
def test_a_key_that_was_not_known_before_drop_was_declared_is_not_read_until_its_day_is_built_again(
    published_shop: Shop, unread: str
) -> None:
    dropping = replace(published_shop, ws=declaring(published_shop.ws, unknown=UnknownKeys.DROP))
    with pytest.raises(KeysNotKnown):
        dropping.publish(restated(dropping.ws))
    load(dropping.ws, (SIXTH,))
    dropping.publish(restated(dropping.ws))
    assert dropping.amounts()[SIXTH] == USUAL - 10


@pytest.mark.long
def test_keep_publishes_the_last_accepted_version_and_says_so(published_shop: Shop, unread: str) -> None:
    ws = declaring(published_shop.ws, unknown=UnknownKeys.KEEP)
    run_id = restated(ws)
    operations.publish(ws, run_id, by="ben")
    assert published_shop.amounts()[SIXTH] == USUAL
    text = said(run_report(ws, run_id))
    assert SAID.format(unread) + ": readers see the last accepted versions, as declared" in text


@pytest.mark.long
def test_drop_leaves_the_key_out_until_it_is_known_and_both_are_stale_for_dependents(published_shop: Shop) -> None:
    dropping = replace(published_shop, ws=declaring(published_shop.ws, unknown=UnknownKeys.DROP))
    load(dropping.ws, tuple(DayRange.inclusive(date(2026, 1, 1), date(2026, 1, 10))))
    with_it = restated(dropping.ws)
    land_only(dropping, "unread.jsonl", {**sale(SIXTH), "amount": "much"})
    build = "build these days without them, and then plan it again: backfill load sales --from 2026-01-06"
    with refused(KeysNotKnown, match=build):
        dropping.publish(with_it)
    load(dropping.ws)
    with refused(KeysNotKnown, match=build):
        dropping.publish(with_it)
    assert is_stale(dropping.ws)
    dropping.publish(restated(dropping.ws))
    assert dropping.amounts()[SIXTH] == USUAL - 10
    land(dropping, "again.jsonl", sale(SIXTH))
    assert is_stale(dropping.ws)
    dropping.publish(restated(dropping.ws))
    assert dropping.amounts()[SIXTH] == USUAL


def is_stale(ws: Workspace) -> bool:
    found = {each.table: each.partitions for each in operations.stale_tables(ws)}
    return SIXTH in found[RECENT] and not found[SALES]
