"""A changed calendar touches the days it says, and never a row outside of them: held against the rules read by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.settings import EXAMPLE_REFERENCE
from backfill_assets.examples.enforcement_sla import DOMAIN
from backfill_assets.examples.enforcement_sla.reference_changes import (
    days_a_calendar_changes,
    days_a_policy_changes,
    days_whose_facts_count,
    most_days_until_due,
)
from backfill_assets.examples.enforcement_sla.references import (
    Clock,
    DayKind,
    Jurisdiction,
    JurisdictionCalendar,
    SlaPolicy,
)
from backfill_assets.files.local import LocalFiles
from backfill_assets.planning.manifest_parts import PinnedReference
from backfill_assets.staleness.decide import ReferenceDiff
from backfill_assets.staleness.find import narrowing
from backfill_assets.transforms.references import LoadedReference, archive, load_references
from backfill_assets_tests.support.sla_oracle import Event, expected_rows

SPAN = DayRange.inclusive(date(2024, 2, 1), date(2024, 4, 30))
ITALY = Jurisdiction(
    name="IT", timezone="Europe/Rome", weekend=frozenset({5, 6}), holidays=frozenset({date(2006, 8, 15)})
)
CALENDAR = JurisdictionCalendar(version="1", jurisdictions=(ITALY,))
CLOCK = Clock(
    jurisdiction="IT",
    name="decision",
    starts_on=frozenset({"OPENED"}),
    stops_on=frozenset({"DECIDED"}),
    pauses_on=frozenset({"ASKED"}),
    resumes_on=frozenset({"ANSWERED"}),
    limit_days=3,
    day_kind=DayKind.BUSINESS,
    tracked_days=10,
)
POLICY = SlaPolicy(version="1", clocks=(CLOCK,))


def calendar_of(*jurisdictions: Jurisdiction) -> JurisdictionCalendar:
    return JurisdictionCalendar(version="2", jurisdictions=jurisdictions)


def with_holidays(*days: date) -> JurisdictionCalendar:
    return calendar_of(replace(ITALY, holidays=frozenset(days)))


HOLIDAYS = st.frozensets(st.dates(SPAN.start, SPAN.last), max_size=12)
EVENTS = st.lists(
    st.builds(
        Event,
        event_id=st.uuids().map(str),
        case_id=st.sampled_from(["a", "b"]),
        jurisdiction=st.just("IT"),
        event_type=st.sampled_from(["OPENED", "OPENED", "DECIDED", "ASKED", "ANSWERED"]),
        event_time=st.datetimes(datetime(2024, 2, 10), datetime(2024, 4, 1), timezones=st.just(UTC)),  # noqa: DTZ001
    ),
    min_size=1,
    max_size=6,
)
CLOCKS = st.builds(
    replace,
    st.just(CLOCK),
    limit_days=st.integers(0, 9),
    tracked_days=st.integers(1, 25),
    day_kind=st.sampled_from([DayKind.BUSINESS, DayKind.BUSINESS, DayKind.CALENDAR]),
)


def widest(policy: SlaPolicy, *calendars: JurisdictionCalendar) -> tuple[int, int]:
    windows = [days_whose_facts_count({"jurisdiction_calendar": c, "sla_policy": policy}) for c in calendars]
    return max(w.days_back for w in windows), max(w.days_ahead for w in windows)


@given(EVENTS, CLOCKS, HOLIDAYS, HOLIDAYS, st.frozensets(st.integers(0, 6), max_size=3))
def test_no_row_changes_outside_the_days_that_a_new_calendar_names(
    events: list[Event], clock: Clock, before: frozenset[date], now: frozenset[date], weekend: frozenset[int]
) -> None:
    policy = SlaPolicy(version="1", clocks=(clock,))
    then, new = (calendar_of(replace(ITALY, holidays=holidays, weekend=weekend)) for holidays in (before, now))
    changed = days_a_calendar_changes(then, new)
    assert changed is not None
    back, ahead = widest(policy, then, new)
    reached = {
        day for some in changed for day in DayRange(some.start - timedelta(days=ahead), some.end + timedelta(days=back))
    }
    moved = set(expected_rows(events, then, policy, "3.1.0", SPAN)) ^ set(
        expected_rows(events, new, policy, "3.1.0", SPAN)
    )
    assert {row[2] for row in moved} <= reached


def test_a_holiday_beyond_a_weekend_moves_the_deadline_of_a_day_before_it() -> None:
    opened = Event("e", "a", "IT", "OPENED", datetime(2024, 3, 7, 9, tzinfo=UTC))
    then, new = with_holidays(), with_holidays(date(2024, 3, 12))
    rows = [expected_rows([opened], calendar, POLICY, "3.1.0", SPAN) for calendar in (then, new)]
    thursday = [next(row for row in some if row[2] == date(2024, 3, 7)) for some in rows]
    assert [row[9] for row in thursday] == [date(2024, 3, 12), date(2024, 3, 13)]
    # The deadline is five days away and the limit is three: a window of `limit_days` would leave this row as it was.
    back, ahead = widest(POLICY, then, new)
    assert (back, ahead) == (10, 7)


@given(st.integers(0, 30), HOLIDAYS, st.frozensets(st.integers(0, 6), max_size=6), st.dates(SPAN.start, SPAN.last))
def test_the_longest_way_to_a_deadline_is_never_longer_than_said(
    limit: int, holidays: frozenset[date], weekend: frozenset[int], day: date
) -> None:
    jurisdiction = replace(ITALY, holidays=holidays, weekend=weekend)
    most = most_days_until_due(replace(CLOCK, limit_days=limit), jurisdiction)
    counted = sum(
        jurisdiction.is_countable(day + timedelta(days=number), DayKind.BUSINESS) for number in range(1, most + 1)
    )
    assert counted >= limit


def test_the_way_to_a_deadline_is_said_in_whole_weeks_and_holidays_far_apart_count_once() -> None:
    no_holidays = replace(ITALY, holidays=frozenset())
    assert most_days_until_due(replace(CLOCK, limit_days=5), no_holidays) == 7
    assert most_days_until_due(replace(CLOCK, limit_days=0), no_holidays) == 0
    each_year = replace(ITALY, holidays=frozenset(date(year, 12, 25) for year in range(1999, 2030)))
    assert most_days_until_due(replace(CLOCK, limit_days=5), each_year) == 14


def test_a_moved_holiday_changes_the_day_it_left_and_the_day_it_took() -> None:
    changed = days_a_calendar_changes(CALENDAR, with_holidays(date(2006, 8, 16)))
    assert changed == [DayRange.inclusive(date(2006, 8, day), date(2006, 8, day)) for day in (15, 16)]


def test_a_holiday_on_a_weekend_changes_no_day() -> None:
    assert days_a_calendar_changes(CALENDAR, with_holidays(date(2006, 8, 15), date(2006, 8, 19))) == []


@pytest.mark.parametrize(
    "now",
    [
        calendar_of(replace(ITALY, timezone="Europe/Athens")),
        calendar_of(replace(ITALY, weekend=frozenset({6}))),
        calendar_of(replace(ITALY, name="FR")),
    ],
    ids=["time zone", "weekend", "jurisdiction gone"],
)
def test_what_moves_more_than_single_days_could_be_any_day(now: JurisdictionCalendar) -> None:
    assert days_a_calendar_changes(CALENDAR, now) is None


def test_a_new_jurisdiction_or_another_name_of_the_version_changes_no_day() -> None:
    assert days_a_calendar_changes(CALENDAR, calendar_of(replace(ITALY, name="FR"), ITALY)) == []


def test_a_policy_with_the_same_clocks_changes_no_day_and_any_other_could_change_any() -> None:
    other = replace(CLOCK, name="other")
    both = SlaPolicy(version="1", clocks=(CLOCK, other))
    assert days_a_policy_changes(both, SlaPolicy(version="2", clocks=(other, CLOCK))) == []
    assert days_a_policy_changes(POLICY, both) is None
    assert days_a_policy_changes(POLICY, SlaPolicy(version="1", clocks=(replace(CLOCK, limit_days=4),))) is None


def test_calendar_clocks_ask_no_calendar() -> None:
    policy = SlaPolicy(version="1", clocks=(replace(CLOCK, day_kind=DayKind.CALENDAR, tracked_days=200),))
    assert widest(policy, CALENDAR) == (0, 0)
    assert widest(POLICY, CALENDAR)[0] == 10


# ------------------------------------------------------------------------------------------------ from the archive

Change = Callable[[Any], object]


class References:
    """A folder of reference files, an archive, and what was there before a change."""

    def __init__(self, folder: Path, change: Mapping[str, Change]) -> None:
        self.folder, self.archive = folder / "reference", folder / "archive"
        self.folder.mkdir()
        for path in sorted((EXAMPLE_REFERENCE).glob("*.yaml")):
            (self.folder / path.name).write_bytes(path.read_bytes())
        self.before = self.loaded()
        for name, mend in change.items():
            path = self.folder / f"{name}.yaml"
            document = yaml.safe_load(path.read_text(encoding="utf-8"))
            mend(document)
            path.write_text(yaml.safe_dump(document), encoding="utf-8")

    def loaded(self) -> Mapping[str, LoadedReference]:
        loaded = load_references(DOMAIN, LocalFiles(self.folder))
        archive(loaded.values(), LocalFiles(self.archive))
        return loaded

    def narrowed(self, name: str = "jurisdiction_calendar", *, but: str = "") -> ReferenceDiff | None:
        """What is known of a changed reference, for a run that used all present ones but one."""
        table = DOMAIN.derived_table("silver.case_sla_daily")
        used = tuple(self.before[reference].pinned for reference in table.references if reference != but)
        return narrowing(DOMAIN, table, self.loaded(), LocalFiles(self.archive))(name, used)

    def pinned(self, name: str) -> PinnedReference:
        return self.before[name].pinned


def more_holidays(document: Any) -> None:
    next(iter(document["jurisdictions"].values()))["holidays"] += ["2006-08-16", "2006-08-17"]


def test_what_changed_is_found_from_the_archived_document(tmp_path: Path) -> None:
    references = References(tmp_path, {"jurisdiction_calendar": more_holidays})
    narrowed = references.narrowed()
    assert narrowed is not None and narrowed.window is not None
    assert narrowed.days == (DayRange.inclusive(date(2006, 8, 16), date(2006, 8, 17)),)
    reached = narrowed.window.reached_from(narrowed.days[0])
    assert date(2006, 8, 16) in reached
    assert date(2010, 1, 1) not in reached
    assert len(reached) < 200


def test_a_document_that_only_says_the_same_otherwise_changes_no_day(tmp_path: Path) -> None:
    references = References(tmp_path, {"jurisdiction_calendar": lambda d: d.update(version="renamed")})
    assert references.narrowed() == ReferenceDiff(days=(), window=None)


def test_a_document_that_the_archive_lost_could_have_changed_any_day(tmp_path: Path) -> None:
    references = References(tmp_path, {"jurisdiction_calendar": more_holidays})
    lost = references.pinned("jurisdiction_calendar").sha256
    (references.archive / "jurisdiction_calendar" / f"{lost}.yaml").unlink()
    assert references.narrowed() is None


def test_a_document_that_is_no_longer_acceptable_could_have_changed_any_day(tmp_path: Path) -> None:
    references = References(tmp_path, {"jurisdiction_calendar": more_holidays})
    lost = references.pinned("jurisdiction_calendar").sha256
    (references.archive / "jurisdiction_calendar" / f"{lost}.yaml").write_text("version: 1", encoding="utf-8")
    assert references.narrowed() is None


def test_a_policy_whose_earlier_document_is_lost_leaves_the_reach_of_a_holiday_unknown(tmp_path: Path) -> None:
    def longer(document: Any) -> None:
        document["clocks"][0]["limit_days"] += 1

    references = References(tmp_path, {"jurisdiction_calendar": more_holidays, "sla_policy": longer})
    assert references.narrowed("sla_policy") is None
    narrowed = references.narrowed()
    assert narrowed is not None and narrowed.window is not None
    lost = references.pinned("sla_policy").sha256
    (references.archive / "sla_policy" / f"{lost}.yaml").unlink()
    narrowed = references.narrowed()
    assert narrowed is not None and narrowed.days and narrowed.window is None


def test_the_reach_is_not_known_of_a_run_from_before_the_table_used_another_reference(tmp_path: Path) -> None:
    narrowed = References(tmp_path, {"jurisdiction_calendar": more_holidays}).narrowed(but="sla_policy")
    assert narrowed is not None and narrowed.days and narrowed.window is None


def test_the_reach_is_the_longer_one_of_before_and_now(tmp_path: Path) -> None:
    def shorter(document: Any) -> None:
        for clock in document["clocks"]:
            clock["tracked_days"] = clock["limit_days"] = 1

    narrowed = References(tmp_path, {"jurisdiction_calendar": more_holidays, "sla_policy": shorter}).narrowed()
    assert narrowed is not None and narrowed.window is not None
    assert narrowed.window.days_back == 60
