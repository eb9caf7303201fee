"""Where a period is: the imports that hold records of it, how late they came, and what readers see that rests on it."""

from __future__ import annotations

import json
from datetime import date

import pytest
from typer.testing import CliRunner

from backfill_assets.application.capture import CaptureRange
from backfill_assets.calendar.partitions import DayRange, Grain, Partitions
from backfill_assets.core.errors import Refused, UnknownName
from backfill_assets.deliver.replay_parts import parts_of_table
from backfill_assets.ledger.states import ImportState
from backfill_assets.main import app
from backfill_assets.report.command_line import words_of
from backfill_assets.report.locate import LocatedPeriod, locate
from backfill_assets.report.pages import page_of
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.integration.staleness.test_stale import land_only
from backfill_assets_tests.support.captured_shop import plain_text
from backfill_assets_tests.support.declaring import declaring
from backfill_assets_tests.support.month import CARNIVAL, FEBRUARY, REACHED, TOTALS
from backfill_assets_tests.support.shop import RECENT, SALES, Shop, sale, shop_environment


@pytest.fixture
def shop(published_shop: Shop) -> Shop:
    return published_shop


def january(number: int) -> date:
    return date(2026, 1, number)


def located(shop: Shop, first: int, last: int) -> LocatedPeriod:
    return locate(shop.ws, SALES, DayRange.inclusive(january(first), january(last)))


@pytest.mark.long
def test_a_period_is_in_the_files_that_hold_records_of_it_with_how_late_they_came(shop: Shop) -> None:
    late = land_only(shop, "late.jsonl", sale(january(6), sale_id="x"), sale(january(6), sale_id="y"))
    found = located(shop, 5, 6)
    usual, second = found.imports
    assert [(d.day.event_date.day, d.day.events, d.days_late) for d in usual.days] == [
        (5, 1, (NOON.date() - january(5)).days),
        (6, 1, (NOON.date() - january(6)).days),
    ]
    landed = second.record
    assert (landed.import_id, landed.state, landed.landed_by) == (late, ImportState.LANDED, "ana")
    assert (landed.family, landed.name, second.records) == ("file", "late.jsonl", 2)
    assert [each.day.event_date for each in second.days] == [january(6)]
    assert str(found.not_loaded) == "2026-01-06, 1 day"
    assert found.next_step and words_of(found.next_step).startswith("backfill load sales --from 2026-01-06")


def test_what_rests_on_a_period_is_what_has_read_it_by_the_windows_of_its_runs(shop: Shop) -> None:
    found = located(shop, 6, 6)
    assert [(each.table, [p.day for p in each.partitions]) for each in found.partitions] == [
        (SALES, [6]),
        (RECENT, [5, 6, 7, 8]),
    ]
    recent = found.partitions[1]
    assert (recent.transform_version, recent.through) == ("0.9.0", (SALES,))
    with shop.ws.ledger.read() as reader:
        assert {each.run_id for each in reader.versions.claims(RECENT, [january(5)]).values()} == {recent.run_id}
    assert not found.not_loaded


@pytest.mark.long
def test_a_restatement_of_a_part_stands_for_its_partitions(shop: Shop) -> None:
    run_id = shop.published(DayRange.inclusive(january(7), january(8)))
    found = located(shop, 6, 6)
    recent = {each.run_id: tuple(p.day for p in each.partitions) for each in found.partitions if each.table == RECENT}
    assert recent[run_id] == (7, 8)
    assert set(recent.values()) == {(5, 6), (7, 8)}
    assert {each.transform_version for each in found.partitions if each.run_id == run_id} == {"1.0.0"}


@pytest.mark.long
def test_what_rests_on_what_rests_on_a_period_rests_on_it_too(month: Shop) -> None:
    found = locate(month.ws, SALES, DayRange.inclusive(CARNIVAL, CARNIVAL))
    silver, gold = [each for each in found.partitions if each.table != SALES]
    assert (silver.table, silver.partitions.days) == (RECENT, tuple(REACHED))
    assert (gold.table, gold.partitions.days, gold.through) == (TOTALS, (FEBRUARY.start,), (RECENT,))


def test_days_without_records_are_in_no_import_and_nothing_rests_on_them(shop: Shop) -> None:
    found = located(shop, 11, 12)
    assert (found.imports, found.partitions, found.next_step) == ((), (), None)


@pytest.mark.long
def test_a_key_that_a_file_moved_away_is_found_on_the_day_that_it_left(shop: Shop) -> None:
    moved = land_only(shop, "moved.jsonl", {**sale(january(9)), "sale_id": "sale-2026-01-06"})
    found = {each.record.import_id: each for each in located(shop, 6, 6).imports}[moved]
    assert (found.records, found.days[0].day.displaced) == (0, 1)


def test_an_unknown_source_is_refused(shop: Shop) -> None:
    with pytest.raises(UnknownName, match="no source"):
        locate(shop.ws, "nothing", DayRange.inclusive(january(6), january(6)))


def test_the_command_says_it_as_text_and_as_json(shop: Shop) -> None:
    environment = dict(shop_environment(shop.ws.settings.home))
    words = ["locate", "sales", "--from", "2026-01-06", "--to", "2026-01-06"]
    text = CliRunner().invoke(app, words, env=environment)
    assert text.exit_code == 0, text.output
    assert "imports with records of bronze.sales 2026-01-06" in text.output
    assert RECENT in text.output
    document = json.loads(CliRunner().invoke(app, [*words, "--json"], env=environment).stdout)
    assert (document["from"], document["imports"][0]["family"]) == ("2026-01-06", "file")
    assert [each["table"] for each in document["partitions"]] == [SALES, RECENT]


@pytest.mark.parametrize(
    ("zone", "dates", "asked"),
    [
        ("", (january(6), january(7)), ("2026-01-06T00:00:00+00:00", "2026-01-08T00:00:00+00:00")),
        ("Pacific/Kiritimati", (january(5), january(7)), ("2026-01-05T10:00:00+00:00", "2026-01-07T10:00:00+00:00")),
        ("America/New_York", (january(6), january(8)), ("2026-01-06T05:00:00+00:00", "2026-01-08T05:00:00+00:00")),
    ],
)
def test_what_is_located_captured_and_replayed_of_a_day_is_that_of_the_zone_of_its_source(
    shop: Shop, zone: str, dates: tuple[date, date], asked: tuple[str, str]
) -> None:
    ws, days = declaring(shop.ws, timezone=zone), DayRange.inclusive(january(6), january(7))
    source, found = ws.domain.source_table(SALES), locate(ws, SALES, days)
    assert (found.from_, found.to, found.timezone) == (days.start, days.last, zone)
    assert found.dates == Partitions.of(Grain.DAILY, DayRange.inclusive(*dates))
    assert {day.day.event_date for each in found.imports for day in each.days} == set(found.dates)
    assert set(found.partitions[0].partitions) == set(found.dates)
    page = plain_text(page_of(found))
    assert (f"in {zone}" in page, f"of the UTC dates {found.dates}" in page) == (bool(zone), bool(zone))
    period = CaptureRange(first=days.start, last=days.last).period(source)
    assert period.start and period.end
    assert (period.start.isoformat(), period.end.isoformat()) == asked
    with ws.ledger.read() as tx:
        assert {each.name for each in parts_of_table(tx, source, days)} == {str(each) for each in found.dates}
        with pytest.raises(Refused, match="2026-01-13"):
            parts_of_table(tx, source, DayRange.inclusive(january(13), january(13)))
