"""Release 2.4.1 of the deadlines is live and 3.1.0 runs in shadow, for days of live landing with late events."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from backfill_assets.application import shadow
from backfill_assets.application.live import live
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.errors import GateFailed
from backfill_assets.core.settings import PROJECT_ROOT, Settings
from backfill_assets.domain import Domain
from backfill_assets.examples.enforcement_sla import DOMAIN
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.ledger.table_acts import ComparedDay
from backfill_assets.planning.request import PlanRequest
from backfill_assets.report.versions import VersionStatus
from backfill_assets.requests import table_acts
from backfill_assets.requests.authority import approve
from backfill_assets.upkeep.audit import audit
from backfill_assets.workspace import Workspace
from backfill_assets_tests.conftest import SPARK_ENVIRONMENT
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.ledgers import home_environment
from backfill_assets_tests.support.searches import is_thorough

pytestmark = pytest.mark.long

TABLE, V3 = "silver.case_sla_daily", "silver.case_sla_daily_v3"
KEY = ["case_id", "clock", "business_date"]
FIRST = date(2025, 3, 3)
ONE_DAY = timedelta(days=1)
TRACKED = 5
ABROAD = "jurisdiction in ('US-NY', 'IN')"
CLEAN_DAYS = 3
WHICH_WAY = PROJECT_ROOT / "docs" / "which-way.md"


def with_shadow(explained: str) -> Domain:
    """The domain with the defective release live, and the present one as a version beside it."""
    table, monthly = (DOMAIN.derived_table(name) for name in ("silver.case_sla_daily", "gold.sla_breach_monthly"))
    live_one = replace(table, releases=(table.release("2.4.1"), table.release("3.1.0")))
    version = live_one.beside(V3, version="3.1.0", explained=explained, clean_days=CLEAN_DAYS)
    return replace(DOMAIN, derived=(live_one, version, replace(monthly, inputs={"case_sla": live_one})))


@dataclass(kw_only=True)
class StatefulDomain:
    """An office whose cases land day by day."""

    ws: Workspace
    folder: Path
    at: datetime = datetime(2025, 3, 3, 6, tzinfo=UTC)
    files: int = 0

    def clock(self) -> datetime:
        self.at += timedelta(seconds=1)
        return self.at

    def lands(self, events: Sequence[Mapping[str, object]]) -> None:
        """A file lands; nothing is built."""
        self.files += 1
        path = self.folder / f"events-{self.files}.jsonl"
        path.write_text("".join(json.dumps(event) + "\n" for event in events), encoding="utf-8")
        operations.land(self.ws, "case_events", path, on_duplicate=OnDuplicate.IGNORE, by="olga")

    def lives(self) -> list[str]:
        """A pass of the LIVE path."""
        found = live(self.ws.with_present_references(), Acting(by="x", recorder=Unrecorded()))
        assert not [each for each in found if each.failed], found
        return [each.sentence for each in found]

    def publishes(self, table: str, days: Sequence[date]) -> None:
        """A run over some days is planned by ana, approved by ben and published."""
        request = PlanRequest(
            table=table, days=DayRange.inclusive(min(days), max(days)), partitions=tuple(days), reason="why", by="ana"
        )
        self.carries_out(operations.plan(self.ws, request).manifest.run_id)

    def carries_out(self, run_id: str) -> None:
        """A planned run is approved by ben and published."""
        operations.approve(self.ws, run_id, by="ben")
        operations.stage(self.ws, run_id, actor="ana")
        operations.gate(self.ws, run_id, actor="ana")
        operations.publish(self.ws, run_id, by="ben")

    def version(self) -> VersionStatus:
        (found,) = [each for each in shadow.status(self.ws, TABLE).versions if each.table == V3]
        return found

    def declares(self, explained: str) -> None:
        """The author declares what is expected to differ."""
        ledger = self.ws.ledger
        self.ws = replace(self.ws, domain=with_shadow(explained))
        self.ws.__dict__["ledger"] = ledger


@pytest.fixture
def stateful(tmp_path: Path, spark: SparkSession) -> Iterator[StatefulDomain]:
    reference = tmp_path / "reference"
    reference.mkdir()
    for each in files("backfill_assets.examples.enforcement_sla").joinpath("reference").iterdir():
        text = each.read_text(encoding="utf-8").replace("tracked_days: 60", f"tracked_days: {TRACKED}")
        (reference / each.name).write_text(text, encoding="utf-8")
    environment = {
        "BACKFILL_HOME": str(tmp_path / "home"),
        "BACKFILL_DOMAIN": "backfill_assets.examples.enforcement_sla",
        "BACKFILL_REFERENCE": str(reference),
        "BACKFILL_FIRST_DAY": str(FIRST),
        **home_environment(tmp_path / "home"),
        **SPARK_ENVIRONMENT,
    }
    (tmp_path / "home").mkdir()
    folder = tmp_path / "incoming"
    folder.mkdir()
    opened: list[StatefulDomain] = []
    ws = Workspace.open(
        Settings.from_environment(environment), clock=lambda: opened[0].clock(), open_session=lambda: spark
    )
    opened.append(StatefulDomain(ws=replace(ws, domain=with_shadow(ABROAD)), folder=folder))
    yield opened[0]
    opened[0].ws.close()


def event(day: date, hour: int, jurisdiction: str, case: str, kind: str = "CASE_OPENED") -> Mapping[str, object]:
    at = datetime.combine(day, time(hour, 30), tzinfo=UTC)
    return {
        "event_id": f"{case}-{kind}",
        "case_id": case,
        "jurisdiction": jurisdiction,
        "event_type": kind,
        "event_time": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "attributes": None,
        "schema_version": 1,
    }


def day_of(day: date) -> list[Mapping[str, object]]:
    """Cases of a day: at noon in Italy, in the evening in New York, before dawn in India; some are decided later."""
    opened = [
        event(day, 11, "IT", f"IT-{day}"),
        event(day, 2, "US-NY", f"NY-{day}"),
        event(day, 15, "US-NY", f"NY2-{day}"),
        event(day, 20, "IN", f"IN-{day}"),
    ]
    before = day - 2 * ONE_DAY
    return [*opened, event(day, 12, "IT", f"IT-{before}", "DECISION_ISSUED")] if before >= FIRST else opened


def rows_of(ws: Workspace, table: str) -> pd.DataFrame:
    found = shadow.resolve(ws, table)
    return DeltaTable(found.path, version=found.version).to_pandas()


def by_hand(stateful: StatefulDomain, explains: str) -> tuple[int, int, int]:
    """How many keys agree, differ, and differ as expected, in pandas."""
    here, there = (rows_of(stateful.ws, table).drop(columns="_run_id") for table in (V3, TABLE))
    both = here.merge(there, on=KEY, how="outer", suffixes=("", "_live"), indicator=True)
    values = [name for name in here.columns if name not in KEY]
    same = both["_merge"] == "both"
    for name in values:
        left, right = both[name], both[f"{name}_live"]
        same &= (left == right) | (left.isna() & right.isna())
    where = both["jurisdiction"].fillna(both["jurisdiction_live"])
    expected = where.isin(["US-NY", "IN"]) | both["case_id"].isin([explains])
    return int(same.sum()), int((~same).sum()), int((~same & expected).sum())


def assert_as_by_hand(stateful: StatefulDomain, day: ComparedDay | None, explains: str = "") -> None:
    assert day is not None
    assert (day.agreed, day.differing, day.explained) == by_hand(stateful, explains)
    assert day.compared_on == stateful.at.date()


@pytest.mark.timeout(1800)
def test_the_daily_comparison_is_that_by_hand_and_readers_are_cut_over_at_once_and_back(
    stateful: StatefulDomain,
) -> None:
    days = 30 if is_thorough() else 6
    begins = FIRST + (TRACKED + 1) * ONE_DAY
    last = begins + 2 * ONE_DAY
    stateful.at = datetime.combine(last + 2 * ONE_DAY, time(6), tzinfo=UTC)
    stateful.lands([each for day in DayRange.inclusive(FIRST, last + ONE_DAY) for each in day_of(day)])
    stateful.lives()
    stateful.publishes(TABLE, list(DayRange.inclusive(begins, last)))
    planned = shadow.start(stateful.ws, V3, by="ana", reason="the date of the jurisdiction")
    assert planned is not None
    stateful.carries_out(planned.manifest.run_id)
    night, explains = "", ""
    for number in range(days):
        day = last + (number + 2) * ONE_DAY
        stateful.at = datetime.combine(day + ONE_DAY, time(6), tzinfo=UTC)
        news = day_of(day)
        if number % 3 == 1:
            # Late: a case of three days ago, which restates what both sides hold.
            news = [
                *news,
                event(day - 3 * ONE_DAY, 11, "IT", f"LATE-{day}"),
                event(day - 3 * ONE_DAY, 2, "IN", f"L2-{day}"),
            ]
        if number == 1:
            # In Italy it is the next day by then: a difference that is not declared.
            night = f"IT-NIGHT-{day}"
            news = [*news, event(day, 23, "IT", night)]
        stateful.lands(news)
        stateful.lives()
        assert_as_by_hand(stateful, stateful.version().last, explains)
        if number % 3 == 1:
            with stateful.ws.ledger.read() as tx:
                accepted = tx.versions.claims(TABLE).keys()
            (stale,) = operations.stale_tables(stateful.ws, table=TABLE)
            stateful.publishes(TABLE, [each for each in stale.partitions if each in accepted])
            stateful.lives()
            assert_as_by_hand(stateful, stateful.version().last, explains)
        if number == 2:
            assert stateful.version().clean_days == 0
            with pytest.raises(GateFailed):
                shadow.cut_over(stateful.ws, V3, by="ana", reason="better")
            explains = night
            stateful.declares(f"{ABROAD} or case_id = '{night}'")
    found = stateful.version()
    assert found.last is not None
    assert found.last.differing == found.last.explained > 0
    assert found.clean_days == days - 3
    assert read_side_by_side(stateful) == (found.last.agreed, found.last.differing)
    assert_cut_over_at_once(stateful)
    assert audit(stateful.ws).problems == ()


def read_side_by_side(stateful: StatefulDomain) -> tuple[int, int]:
    """How many keys agree and differ for a consumer that reads both as the documentation says."""
    (code,) = re.findall(r"```python\n# both: (.*?)```", WHICH_WAY.read_text(encoding="utf-8"), re.DOTALL)
    found: dict[str, Any] = {
        side: asdict(shadow.resolve(stateful.ws, table)) for side, table in (("shown", TABLE), ("beside", V3))
    }
    exec(compile(f"# {code}", str(WHICH_WAY), "exec"), found)
    rows = found["both"].df()
    return int((~rows["differs"]).sum()), int(rows["differs"].sum())


def assert_cut_over_at_once(stateful: StatefulDomain) -> None:
    """While readers are cut over and back, every read has rows of one release only."""
    seen: list[frozenset[str]] = []
    stop = threading.Event()

    def reads() -> None:
        while not stop.is_set():
            seen.append(frozenset(rows_of(stateful.ws, TABLE)["_run_id"]))

    reader = threading.Thread(target=reads)
    reader.start()
    try:
        act_id = shadow.cut_over(stateful.ws, V3, by="ana", reason="better").act.act_id
        approve(stateful.ws, act_id, by="ben", note="seven clean days")
        table_acts.carry_out(stateful.ws, act_id, by="ana")
        assert shadow.resolve(stateful.ws, TABLE).table == V3
        table_acts.undo(stateful.ws, act_id, by="ben", reason="second thoughts")
    finally:
        stop.set()
        reader.join()
    assert shadow.resolve(stateful.ws, TABLE).table == TABLE
    with stateful.ws.ledger.read() as tx:
        named = tx.runs.named(sorted(frozenset().union(*seen)))
        release = {run.run_id: run.manifest.transform_version for run in named}
    assert all(len({release[run_id] for run_id in each}) == 1 for each in seen)
