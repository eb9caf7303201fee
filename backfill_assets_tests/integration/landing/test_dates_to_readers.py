"""An event time that is a date: the day that the source wrote is the partition, the window and the name of everything,
wherever it was written and whatever clock looks at it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill_assets.application import propose as proposals
from backfill_assets.application import statements
from backfill_assets.application.land import land_files
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.settings import Settings
from backfill_assets.deliver.outgoing import HeldRows
from backfill_assets.deliver.replay_parts import parts_of_table
from backfill_assets.landing.extract import Extract
from backfill_assets.orchestration.partitions import offered_days
from backfill_assets.report.command_line import words_of
from backfill_assets.report.landed import LandReport
from backfill_assets.report.locate import locate
from backfill_assets.report.pages import page_of
from backfill_assets.testing import DomainKit
from backfill_assets.upkeep.reproduce import reproduce_run
from backfill_assets.workspace import Workspace
from backfill_assets_tests.conftest import NOON, SPARK_ENVIRONMENT
from backfill_assets_tests.domains import rain as declared
from backfill_assets_tests.support.captured_shop import plain_text
from backfill_assets_tests.support.declaring import declaring
from backfill_assets_tests.support.ledgers import home_environment

RAIN, DAYS, GAUGES = "bronze.rain", "silver.rain_of_days", "bronze.gauges"
ACTING = Acting(by="ana", recorder=Unrecorded())


def january(number: int) -> date:
    return date(2026, 1, number)


class Watch:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.at = NOON

    def __call__(self) -> datetime:
        self.at += timedelta(milliseconds=1)
        return self.at


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def kit(tmp_path: Path, spark: SparkSession, watch: Watch) -> Iterator[DomainKit]:
    home = tmp_path / "home"
    settings = Settings.from_environment(
        {
            **SPARK_ENVIRONMENT,
            **home_environment(home),
            "BACKFILL_HOME": str(home),
            "BACKFILL_DOMAIN": declared.__name__,
            "BACKFILL_FIRST_DAY": "2026-01-01",
        }
    )
    ws = Workspace.open(settings, clock=watch, open_session=lambda: spark)
    (home / "incoming").mkdir(parents=True, exist_ok=True)
    yield DomainKit(ws=ws, folder=home / "incoming")
    ws.close()


def csv(kit: DomainKit, name: str, *rows: str) -> Path:
    path = kit.folder / name
    path.write_text("station,day,mm\n" + "".join(f"{row}\n" for row in rows))
    return path


def landed(kit: DomainKit, source: str, path: Path) -> LandReport:
    return land_files(kit.ws, source, [path], ACTING, on_duplicate="ignore", builds=True)


def of_days(kit: DomainKit) -> Mapping[int, int]:
    return {row["day"].day: row["mm"] for row in kit.rows(DAYS)}


def of_rain(kit: DomainKit) -> list[tuple[str, int, int, int]]:
    return sorted((r["station"], r["day"].day, r["rain_day"].day, r["mm"]) for r in kit.rows(RAIN))


@pytest.mark.long
def test_a_date_is_its_own_day_from_its_file_to_its_restatement(kit: DomainKit, watch: Watch) -> None:
    days = range(10, 15)
    report = landed(kit, RAIN, csv(kit, "first.csv", *(f"a,2026-01-{n},{n}" for n in days), "b,2026-01-14,5"))
    (file,) = report.imports
    assert (file.record.counts.landed, file.record.counts.accepted) == (6, 6)
    assert report.load and "built the dates 2026-01-10..2026-01-14" in plain_text(page_of(report))
    assert of_rain(kit) == [*(("a", n, n, n) for n in days), ("b", 14, 14, 5)]
    kit.published(DAYS, DayRange.inclusive(january(11), january(14)))
    assert of_days(kit) == {11: 21, 12: 23, 13: 25, 14: 32}

    # Located: the days are dates, of no zone.
    found = locate(kit.ws, RAIN, DayRange.inclusive(january(12), january(12)))
    assert (found.timezone, found.has_dates, [str(each) for each in found.dates]) == ("", True, ["2026-01-12"])
    assert [(each.table, [p.day for p in each.partitions]) for each in found.partitions] == [
        (RAIN, [12]),
        (DAYS, [12, 13]),
    ]
    assert [(d.day.event_date.day, d.day.events, d.days_late) for d in found.imports[0].days] == [(12, 1, 3)]
    assert "UTC dates" not in plain_text(page_of(found))

    # Late data is proposed by its date, and restated.
    watch.at += timedelta(days=1)
    landed(kit, RAIN, csv(kit, "late.csv", "c,2026-01-12,100"))
    (proposal,) = proposals.propose(kit.ws, by="propose").proposed
    assert [each.changed.days for each in proposal.files] == [(january(12),)]
    assert [each.most_days_late for each in proposal.files] == [4]
    kit.published(DAYS, DayRange.inclusive(january(12), january(13)))
    assert of_days(kit) == {11: 21, 12: 123, 13: 125, 14: 32}

    # A key is withdrawn by its date.
    statements.withdraw(kit.ws, "rain", {"station": "c", "day": "2026-01-12"}, ACTING, reason="another place")
    assert ("c", 12, 12, 100) not in of_rain(kit)

    # A complete extract of one date withdraws what it lacks of that date, and touches no other one.
    path = csv(kit, "again.csv", "a,2026-01-14,40")
    stated = Extract(days=DayRange.inclusive(january(14), january(14)), where={}, reason="complete")
    preview = statements.preview_extract(kit.ws, "rain", [path], stated, "ana")
    assert preview.withdrawn.rebuilt is not None and preview.withdrawn.rebuilt.days == (january(14),)
    report = statements.land_as_extract(kit.ws, "rain", [path], stated, ACTING, builds=True)
    assert report.extract and (report.extract.scope, report.extract.withdrawn.keys) == ("2026-01-14..2026-01-14", 1)
    assert of_rain(kit) == [*(("a", n, n, n) for n in range(10, 14)), ("a", 14, 14, 40)]

    # A replay of a date has its rows, and the keys that it lost; their time is where the date begins.
    rain = kit.ws.domain.source_table(RAIN)
    days_sent = DayRange.inclusive(january(12), january(14))
    with kit.ws.ledger.read() as tx:
        parts = parts_of_table(tx, rain, days_sent)
    held = HeldRows(ws=kit.ws, table=rain, parts=parts, period=rain.days.instants(days_sent))
    assert [(each.key["station"], each.day, each.at, each.row is None) for each in held] == [
        ("c", january(12), None, True),
        ("b", january(14), None, True),
        *(("a", january(n), None, False) for n in (12, 13, 14)),
    ]

    with kit.ws.ledger.read() as tx:
        (load, *_) = [each.run_id for each in tx.bases.of_accepted([RAIN]).bases[RAIN]]
    assert reproduce_run(kit.ws, load, by="ana", from_raw=True).identical


@pytest.mark.long
def test_a_date_is_in_the_future_while_no_place_on_earth_has_it(kit: DomainKit, watch: Watch) -> None:
    watch.at = datetime(2026, 1, 15, 9, 59, tzinfo=UTC)
    report = landed(kit, RAIN, csv(kit, "early.csv", "a,2026-01-15,1", "a,2026-01-16,2"))
    reason = (
        "day lies in the future (no place on Earth had this date when it was landed); declare ahead=seconds(60) of a "
        "clock that is ahead, planned=True of a schedule"
    )
    assert report.imports[0].reasons == {reason: 1}
    watch.at = datetime(2026, 1, 15, 10, 1, tzinfo=UTC)
    report = landed(kit, RAIN, csv(kit, "in time.csv", "b,2026-01-16,2", "b,2026-01-17,3"))
    assert report.imports[0].reasons == {reason: 1}
    assert of_rain(kit) == [("a", 15, 15, 1), ("b", 16, 16, 2)]


@pytest.mark.long
def test_a_feed_of_dates_with_times_of_changes_keeps_both_as_they_were_written(kit: DomainKit) -> None:
    changes = [
        {"gauge": "g", "built_on": "2026-01-03", "changed_at": "2026-01-10T00:30:00", "number": 1, "op": "c"},
        {"gauge": "h", "built_on": "2026-01-03", "changed_at": "2026-01-10T01:00:00Z", "number": 2, "op": "c"},
        {"gauge": "g", "changed_at": "2026-01-12T00:30:00", "number": 3, "op": "d"},
        {"gauge": "h", "built_on": "2026-01-04", "number": 4, "op": "u"},
    ]
    kit.land("gauges", changes)
    rows = sorted(kit.visible(GAUGES, changes=True).collect(), key=lambda row: (row["gauge"], row["number"]))
    fields = ("gauge", "built_day", "_operation", "_valid_from", "_valid_until", "_ended_by")
    assert [tuple(str(row[name]) for name in fields) for row in rows] == [
        ("g", "2026-01-03", "create", "2026-01-09 10:30:00", "2026-01-11 10:30:00", "delete"),
        # The clock of the source showed the twelfth when it was deleted.
        ("g", "2026-01-12", "delete", "2026-01-11 10:30:00", "None", "None"),
        ("h", "2026-01-03", "create", "2026-01-10 01:00:00", "None", "None"),
    ]
    with kit.ws.ledger.read() as tx:
        (record,) = tx.imports.records(GAUGES)
    assert (record.counts.landed, record.counts.rejected) == (4, 1)


@pytest.mark.long
def test_what_is_planned_for_later_days_is_built_planned_and_published_there(kit: DomainKit) -> None:
    kit = replace(kit, ws=declaring(kit.ws, planned=True))
    report = landed(
        kit, RAIN, csv(kit, "first.csv", "a,2026-01-14,1", "a,2026-01-15,2", "a,2027-03-01,3", "a,9999-12-31,4")
    )
    assert [each.record.counts.accepted for each in report.imports] == [3]
    assert report.imports[0].reasons == {"day is after 9998-12-31, the last day for which something is planned": 1}
    # Nothing is missing between today and what is planned: only the rejected record has a next step.
    assert [words_of(each).partition(",")[0] for each in report.next_steps] == ["next: correct the file"]
    assert {row["day"] for row in kit.rows(RAIN)} == {january(14), january(15), date(2027, 3, 1)}
    landed(kit, RAIN, csv(kit, "second.csv", "a,2027-03-02,5"))
    later = DayRange.inclusive(date(2027, 3, 2), date(2027, 3, 2))
    kit.published(DAYS, later)
    assert [row["mm"] for row in kit.rows(DAYS)] == [8]
    assert [each.table for each in locate(kit.ws, RAIN, later).partitions] == [RAIN, DAYS]
    offered = offered_days(kit.ws)
    assert january(15) + offered.beyond == date(2027, 3, 2)
