"""A number is followed to the people who asked for it, and to the records of landed files, also as it was at a time."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from backfill_assets.application import look
from backfill_assets.calendar.partitions import DayRange, instant_named, moment_named
from backfill_assets.cli.terminal import show
from backfill_assets.core.errors import InvalidRange, MissingInput, Refused
from backfill_assets.core.settings import Settings
from backfill_assets.report.history import row_history, row_page
from backfill_assets.report.html import html_file
from backfill_assets.report.trace import MOST_ROWS, Trace, trace_page
from backfill_assets.report.values import text_of
from backfill_assets.testing import DomainKit
from backfill_assets.workspace import Workspace
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.domains import feed
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.advice import advised
from backfill_assets_tests.support.by_hand import JANUARY, Hand
from backfill_assets_tests.support.hand_made import GOLD
from backfill_assets_tests.support.month import CARNIVAL, FEBRUARY, REACHED, SOLD, TOTALS, planned_set, ready_set
from backfill_assets_tests.support.shop import DAYS, RECENT, SALES, Shop, sale, shop_environment, ticking_clock

SHOP = {"shop": "only"}
FIRST_OF_FEBRUARY = JANUARY.end


def traced(shop: Shop, table: str, day: date, key: dict[str, str] | None = None) -> Trace:
    return look.trace(shop.ws, table, day, key or {}, None)


def restated(shop: Shop) -> str:
    set_id = ready_set(shop, planned_set(shop))
    operations.publish_set(shop.ws, set_id, by="ben")
    return set_id


def test_a_monthly_number_leads_to_its_request_and_to_every_record_behind_it(month: Shop) -> None:
    found = traced(month, TOTALS, FEBRUARY.start)
    (publication,) = found.publications
    assert (publication.requested_by, publication.approved_by, publication.reason) == ("ana", "ben", "why not")
    silver, bronze = found.inputs
    assert (silver.table, silver.count, silver.partitions.days) == (RECENT, 28, tuple(FEBRUARY))
    assert (bronze.table, bronze.of) == (SALES, RECENT)
    assert (bronze.by, bronze.count) == ((), MOST_ROWS + 3), "of twenty days, with two days back and one ahead"
    assert {record.landed.original_path.rpartition("/")[2] for record in found.records} == {"sold.jsonl"}
    assert len({record.record for record in found.records}) == MOST_ROWS


@pytest.mark.long
def test_a_number_of_a_set_leads_to_the_publication_of_the_set_that_it_was_computed_from(late: Shop) -> None:
    set_id = restated(late)
    monthly, daily = traced(late, TOTALS, FEBRUARY.start).publications
    assert (monthly.table, daily.table, monthly.follows) == (TOTALS, RECENT, (daily.publication_id,))
    with late.ws.ledger.read() as tx:
        assert {monthly.run_id, daily.run_id} <= {each.run_id for each in tx.sets.get(set_id).manifest.members}


def test_more_rows_are_followed_where_more_are_asked_for(month: Shop) -> None:
    few = shown_of(traced(month, TOTALS, FEBRUARY.start))
    assert "28 rows, all that was read; followed: the first 20 rows" in few
    assert "To follow more of them: --rows N." in few
    found = look.trace(month.ws, TOTALS, FEBRUARY.start, {}, None, most=500)
    assert len(found.inputs[0].rows) == 28
    assert "--rows" not in shown_of(found)


@pytest.mark.long
def test_the_rows_that_changed_a_number_are_followed_before_the_others(late: Shop) -> None:
    before = look.trace(late.ws, TOTALS, FEBRUARY.start, {}, None, most=2)
    assert [each.changed for each in before.inputs] == [None, None], "the first version replaced none"
    restated(late)
    found = look.trace(late.ws, TOTALS, FEBRUARY.start, {}, None, most=3)
    silver, bronze = found.inputs
    moved = [str(day) for day in REACHED]
    assert (silver.count, silver.changed) == (28, len(moved))
    assert [row.partition for row in silver.rows] == moved, "all that changed, and not the first days of the month"
    assert [(row.partition, row.values["amount"]) for row in silver.replaced] == [(day, "40") for day in moved]
    assert (bronze.changed, bronze.rows[0].values["sale_id"], bronze.rows[0].is_changed) == (1, "late", True)
    assert not any(row.is_changed for row in bronze.rows[1:])
    assert "late.jsonl" in {record.landed.original_path.rpartition("/")[2] for record in found.records}
    shown = shown_of(found)
    assert "28 rows, all that was read; followed: the first 4 rows, those that changed before the others." in shown
    assert f"{len(moved)} of them are new or changed since the version of gold.sales_monthly that was" in shown
    row = row_history(late.ws, TOTALS, FEBRUARY.start, {})
    assert row.versions[0].landed[0].original_path.endswith("late.jsonl")


@pytest.mark.long
def test_rows_are_in_the_order_of_their_days_and_keys_whichever_run_made_them(late: Shop) -> None:
    restated(late)
    for most in (5, 500):
        found = look.trace(late.ws, TOTALS, FEBRUARY.start, {}, None, most=most)
        for each in found.inputs:
            named = [(not row.is_changed, row.partition, row.values.get("sale_id")) for row in each.rows]
            assert named == sorted(named)
    others = [row.partition for row in found.inputs[0].rows if not row.is_changed]
    assert len(others) > 20


@pytest.mark.long
def test_what_changed_a_number_is_reached_however_few_rows_are_followed(late: Shop) -> None:
    restated(late)
    for most in (1, None, 500):
        found = look.trace(late.ws, TOTALS, FEBRUARY.start, {}, None, most=most)
        (cause,) = found.causes
        assert (cause.cause, cause.subject, cause.record, cause.by) == ("RECORD", "late.jsonl", 1, "ana")
        assert (cause.table, cause.partition, cause.key) == (SALES, str(CARNIVAL), {"sale_id": "late"})
        bronze = found.inputs[1]
        assert (bronze.changed, [row.values["sale_id"] for row in bronze.rows if row.is_changed]) == (1, ["late"])
    shown = shown_of(found)
    assert shown.index("Last change of the number") < shown.index("Publications, back to the request")


def test_a_day_of_a_month_is_answered_for_the_month_and_says_so(month: Shop) -> None:
    found = look.trace(month.ws, TOTALS, DayRange.inclusive(CARNIVAL, CARNIVAL), {}, None)
    assert (found.partition, found.asked_day) == ("2026-02", CARNIVAL)
    assert "2026-02-16 is a day of the partition 2026-02: this is the number of all its days." in shown_of(found)
    assert look.trace(month.ws, TOTALS, FEBRUARY, {}, None).asked_day is None


@pytest.mark.long
def test_a_stale_number_says_so_and_why_and_one_of_an_earlier_time_does_not(late: Shop) -> None:
    found = traced(late, RECENT, CARNIVAL, SHOP)
    assert [reason.name for reason in found.stale] == [SALES]
    assert "Stale: bronze.sales changed: " in shown_of(found)
    earlier = look.trace(late.ws, RECENT, CARNIVAL, SHOP, late.ws.clock())
    assert earlier.stale == () and "Stale" not in shown_of(earlier)
    row = row_history(late.ws, RECENT, CARNIVAL, SHOP)
    assert row.stale == found.stale
    assert "Stale: bronze.sales changed: " in html_file(row_page(row, "/trace"))
    restated(late)
    assert traced(late, RECENT, CARNIVAL, SHOP).stale == ()


def test_a_row_of_a_source_leads_to_its_file_and_record(late: Shop) -> None:
    found = traced(late, SALES, CARNIVAL, {"sale_id": "late"})
    (record,) = found.records
    assert (record.landed.original_path.rpartition("/")[2], record.landed.landed_by) == ("late.jsonl", "ana")
    assert found.values["amount"] == "5"
    earlier = traced(late, SALES, CARNIVAL, {"sale_id": f"sale-{CARNIVAL}"})
    assert earlier.records[0].record == (CARNIVAL - SOLD.start).days + earlier_first(late)


def earlier_first(shop: Shop) -> int:
    """The number of the first record of the file."""
    (record,) = traced(shop, SALES, SOLD.start, {"sale_id": f"sale-{SOLD.start}"}).records
    assert record.record is not None
    return record.record


@pytest.mark.long
def test_versions_of_a_feed_that_a_function_was_not_given_are_not_behind_its_number(
    tmp_path: Path, spark: SparkSession
) -> None:
    """Every version of a key is in bronze. Without `changes` a function is given those that nothing has ended."""
    environment = {**shop_environment(tmp_path), "BACKFILL_DOMAIN": feed.__name__}
    ws = Workspace.open(Settings.from_environment(environment), clock=ticking_clock(NOON), open_session=lambda: spark)
    kit = DomainKit(ws=ws, folder=tmp_path / "incoming")
    second, third, fourth, fifth = (DAYS.start + timedelta(days=number) for number in range(1, 5))
    kit.land(SALES, [{**sale(day), "op": "c", "number": number} for number, day in enumerate(DAYS)])
    for name, day, op, amounts in (
        ("update", third, "u", {second: 10, third: 7, fourth: 10, fifth: 10}),
        ("delete", second, "d", {third: 7, fourth: 10, fifth: 10}),
    ):
        kit.land(SALES, [{**sale(day, amount=7), "op": op, "number": 20}], name=f"{name}.jsonl")
        kit.published(RECENT, DayRange.inclusive(fourth, fourth))
        found = look.trace(ws, RECENT, fourth, SHOP, None)
        (bronze,) = found.inputs
        rows = {date.fromisoformat(row.partition): int(row.values["amount"] or 0) for row in bronze.rows}
        assert (rows, bronze.count, found.values["amount"]) == (amounts, len(amounts), str(sum(amounts.values())))
        standing = [each for each in found.records if not each.is_replaced]
        assert [each.key["sale_id"] for each in standing] == [row.values["sale_id"] for row in bronze.rows]
    assert bronze.changed == 0, "the deletion took a row away, and changed none"
    assert [row.values["amount"] for row in bronze.replaced] == ["10"]
    assert [(each.cause, each.subject, each.record) for each in found.causes] == [("DELETE", "delete.jsonl", 1)]
    ws.close()


@pytest.mark.long
def test_what_readers_saw_at_a_time_is_told_also_of_a_version_that_was_restored(late: Shop) -> None:
    before = traced(late, TOTALS, FEBRUARY.start)
    set_id = restated(late)
    after = traced(late, TOTALS, FEBRUARY.start)
    assert after.values["amount"] != before.values["amount"]
    operations.rollback_set(late.ws, set_id, by="ben", reason="second thoughts")
    now = traced(late, TOTALS, FEBRUARY.start)
    (undone,) = now.causes
    assert (undone.cause, undone.by, undone.why) == ("ROLLBACK", "ben", "second thoughts")
    assert now.publications[0].undoes == undone.subject == after.publications[0].publication_id
    assert [each.version for each in now.periods] == [1, 2, 1]
    assert [each.until for each in now.periods] == [now.periods[1].since, now.periods[2].since, None]
    then = look.trace(late.ws, TOTALS, FEBRUARY.start, {}, now.periods[1].since)
    assert (then.values, then.seen.version) == (after.values, 2)
    assert now.values == before.values
    with pytest.raises(MissingInput, match="readers see no version"):
        look.trace(late.ws, TOTALS, FEBRUARY.start, {}, now.periods[0].since - timedelta(seconds=1))


def test_a_time_as_pages_show_it_is_one_at_which_readers_saw_what_began_then(month: Shop) -> None:
    since = traced(month, RECENT, CARNIVAL, SHOP).seen.since
    for at in (since, instant_named(text_of(since)), instant_named(since.isoformat())):
        assert look.trace(month.ws, RECENT, CARNIVAL, SHOP, at).seen.since == since
        assert look.shown(month.ws, RECENT, at) == RECENT
    with pytest.raises(MissingInput, match="readers see no version"):
        look.trace(month.ws, RECENT, CARNIVAL, SHOP, since - timedelta(seconds=1))
    assert look.seen_at(month.ws, since) == since + timedelta(microseconds=999_999), "as pages leave fractions out"
    fraction = since + timedelta(microseconds=5)
    assert look.seen_at(month.ws, fraction) == fraction


def test_a_day_at_which_it_is_asked_what_readers_saw_is_its_end_and_the_present_one_is_now(month: Shop) -> None:
    since = traced(month, RECENT, CARNIVAL, SHOP).seen.since
    day = moment_named(str(since.date()))
    assert look.trace(month.ws, RECENT, CARNIVAL, SHOP, day).seen.since == since
    assert look.seen_at(month.ws, moment_named("2020-02")) == datetime(2020, 2, 29, 23, 59, 59, 999_999, tzinfo=UTC)
    before = month.ws.clock()
    present = look.seen_at(month.ws, moment_named(str(before.date())))
    assert present is not None and before < present < month.ws.clock()
    with pytest.raises(InvalidRange, match="is in the future"):
        look.seen_at(month.ws, moment_named("2999-01-01"))


def test_a_time_in_the_future_is_refused_where_it_is_asked_what_readers_saw(month: Shop) -> None:
    ahead = month.ws.clock() + timedelta(hours=1)
    for asked in (look.shown, lambda ws, table, at: look.trace(ws, table, CARNIVAL, SHOP, at)):
        with pytest.raises(InvalidRange, match="is in the future: what readers see then is not known yet") as refused:
            asked(month.ws, RECENT, ahead)
        assert advised(refused.value) == "name a time that has passed, or leave it out for now"


def test_a_key_that_is_none_or_is_not_there_is_refused_with_the_columns(month: Shop) -> None:
    with pytest.raises(Refused, match=r"a key of silver\.recent_sales is shop, and shop is not given"):
        traced(month, RECENT, CARNIVAL)
    with pytest.raises(Refused, match=r"shpo is not of the key of silver\.recent_sales, which is shop") as mistyped:
        traced(month, RECENT, CARNIVAL, {"shpo": "only"})
    advised = mistyped.value.next_step
    assert advised is not None and str(advised) == "write shop=VALUE"
    with pytest.raises(MissingInput, match=r"readers see no row with shop=nobody of silver\.recent_sales 2026-02-16"):
        traced(month, RECENT, CARNIVAL, {"shop": "nobody"})


@pytest.mark.parametrize("named", ["2026-02-17", "2026-02", "garbage", ""])
def test_a_key_that_names_another_partition_than_the_one_asked_for_is_refused(month: Shop, named: str) -> None:
    key = {"day": named, **SHOP}
    for asked in (lambda: traced(month, RECENT, CARNIVAL, key), lambda: row_history(month.ws, RECENT, CARNIVAL, key)):
        with pytest.raises(Refused, match=f"day '{named}' is not the partition 2026-02-16") as refused:
            asked()
        assert advised(refused.value) == "write it like day=2026-02-16, or leave it out"


def test_a_key_may_name_the_partition_asked_for(month: Shop) -> None:
    assert traced(month, RECENT, CARNIVAL, {"day": str(CARNIVAL), **SHOP}).key == SHOP
    for named in ("2026-02", "2026-02-01"):
        assert traced(month, TOTALS, FEBRUARY.start, {"month": named}).key == {}


def test_a_row_that_was_rolled_back_is_refused_with_the_time_at_which_readers_saw_it_last(hand: Hand) -> None:
    run_id = hand.silver({FIRST_OF_FEBRUARY: 15})
    hand.undo(hand.publish(run_id))
    with pytest.raises(MissingInput, match=f"readers see no version of {RECENT} {FIRST_OF_FEBRUARY}") as gone:
        look.trace(hand.ws, RECENT, FIRST_OF_FEBRUARY, SHOP, None)
    begins, _, at = advised(gone.value).rpartition(" ")
    assert begins == f"what readers saw last: backfill trace {RECENT} {FIRST_OF_FEBRUARY} shop=only --at"
    found = look.trace(hand.ws, RECENT, FIRST_OF_FEBRUARY, SHOP, instant_named(at))
    assert (found.publications[0].run_id, found.values["amount"]) == (run_id, "15")
    with pytest.raises(MissingInput) as before:
        look.trace(hand.ws, RECENT, FIRST_OF_FEBRUARY, SHOP, found.seen.since - timedelta(hours=1))
    assert advised(before.value).startswith("backfill history ")


def test_a_row_that_was_never_there_is_refused_with_the_history(month: Shop) -> None:
    with pytest.raises(MissingInput, match="no row with shop=nobody") as nobody:
        traced(month, RECENT, CARNIVAL, {"shop": "nobody"})
    assert advised(nobody.value).startswith(f"backfill history {RECENT} --partition {CARNIVAL}")


def test_a_day_without_a_version_is_refused_with_the_first_and_the_last_that_there_is(month: Shop) -> None:
    with pytest.raises(MissingInput, match="never been published for 2030-01-01") as traced_so:
        traced(month, RECENT, date(2030, 1, 1), SHOP)
    with pytest.raises(MissingInput, match="never been published for 2030-01-01") as shown_so:
        row_history(month.ws, RECENT, date(2030, 1, 1), SHOP)
    for never in (traced_so, shown_so):
        assert advised(never.value).startswith(
            "choose one from 2026-02-01 to 2026-02-28, written like the first; backfill history silver.recent_sales"
        )


def test_a_word_of_a_key_without_a_value_is_refused_with_an_example(month: Shop) -> None:
    days = DayRange.inclusive(CARNIVAL, CARNIVAL)
    refused = look.word_without_value(month.ws, RECENT, days, "only")
    assert refused.message == "'only' is not COLUMN=VALUE: a row of silver.recent_sales is named by shop=VALUE."
    assert advised(refused) == "write it like shop=only"


def test_a_month_of_a_daily_table_is_no_partition_of_it(month: Shop) -> None:
    with pytest.raises(Refused, match=r"one day of silver\.recent_sales") as several:
        look.trace(month.ws, RECENT, FEBRUARY, SHOP, None)
    assert advised(several.value) == "write it like 2026-02-01"
    assert look.trace(month.ws, TOTALS, FEBRUARY, {}, None).partition == "2026-02"


def test_a_number_that_followed_a_rollback_leads_to_who_rolled_back_and_why(hand: Hand) -> None:
    published = hand.published({JANUARY.start: 15})
    for _ in range(2):
        (followed,) = operations.plan_follow_ups(hand.ws, by="ops").runs
        hand.publish(hand.month(followed.run_id))
        if hand.total() == 315:
            hand.undo(published)
    found = look.trace(hand.ws, GOLD, JANUARY.start, {}, None)
    (undone,) = [each for each in found.publications if each.undoes]
    assert (undone.undoes, undone.requested_by, undone.approved_by) == (published, "ben", None)
    assert undone.reason == "was right before"
    assert f"rolled {undone.release} back" in shown_of(found)
    # And on to who published the rows that it brought back.
    brought_back = found.publications[found.publications.index(undone) + 1]
    assert undone.follows == (brought_back.publication_id,)
    assert brought_back.run_id != undone.run_id and brought_back.undoes is None and brought_back.approved_by


def shown_of(found: Trace) -> str:
    shown = io.StringIO()
    show(Console(file=shown, width=200), trace_page(found))
    return shown.getvalue()


def test_the_page_says_what_the_document_says(month: Shop) -> None:
    found = traced(month, RECENT, CARNIVAL, SHOP)
    for text in (shown_of(found), html_file(trace_page(found))):
        assert found.publications[0].publication_id in text
        assert "ana" in text
        assert SALES in text
