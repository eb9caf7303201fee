"""A lake, a table, a log, landed files or a ledger is restored from an older backup beside the others of now.

The oracle is what readers saw at the two times, and what an audit says once the way out was taken.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill_assets.application.land import land_files
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.application.recover import recover
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.errors import BackfillError, Refused
from backfill_assets.core.next_steps import Command, Invocation
from backfill_assets.planning.manifest_parts import RunPurpose
from backfill_assets.planning.request import PlanRequest
from backfill_assets.report.follow import RecoveredWork
from backfill_assets.report.upkeep import after_audit
from backfill_assets.upkeep.audit import audit
from backfill_assets.upkeep.doctor import Health, examine
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.integration.conftest import ONE_HOUR
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.lakes import only_in_folders
from backfill_assets_tests.support.ledgers import copy_home, only_with_sqlite
from backfill_assets_tests.support.shop import RECENT, SALES, Shop, open_shop, sale, ticking_clock

LATER = date(2026, 1, 11)
LEDGER = ("ledger.db", "ledger.db-wal", "ledger.db-shm")
TABLE = "lake/silver/recent_sales"

Amounts = Mapping[str, Mapping[date, int]]


@dataclass(frozen=True, kw_only=True)
class Times:
    """A home at two times, and what readers saw at each."""

    before: Path
    after: Path
    seen_before: Amounts
    seen_after: Amounts


def publication(shop: Shop) -> None:
    shop.published(reason="better")


def landing(shop: Shop) -> None:
    shop.land("more.jsonl", [sale(LATER)])


def rollback(shop: Shop) -> None:
    with shop.ws.ledger.read() as tx:
        (run,) = (header for header in tx.runs.headers() if header.table == RECENT)
    operations.rollback(shop.ws, run.run_id, by="ben", reason="or not")


ACTS: Mapping[str, Callable[[Shop], None]] = {"publication": publication, "landing": landing, "rollback": rollback}
_CHANGED = {"publication": RECENT, "rollback": RECENT, "landing": SALES}


@pytest.fixture(scope="module")
def times(tmp_path_factory: pytest.TempPathFactory, published_home: Path, spark: SparkSession) -> Mapping[str, Times]:
    """By what was done between them."""
    only_with_sqlite("its file is copied back")
    only_in_folders("its files are copied back")
    found: dict[str, Times] = {}
    for name, act in ACTS.items():
        after = copy_home(published_home, tmp_path_factory.mktemp(name) / "home")
        shop = open_shop(after, clock=ticking_clock(NOON + 2 * ONE_HOUR), spark=spark)
        seen_before = seen(shop)
        act(shop)
        found[name] = Times(before=published_home, after=after, seen_before=seen_before, seen_after=seen(shop))
        assert found[name].seen_before != found[name].seen_after
        shop.ws.close()
    return found


@pytest.fixture
def restore(tmp_path: Path, times: Mapping[str, Times], spark: SparkSession) -> Iterator[Callable[..., Shop]]:
    """Opens the home as it was after an act, with parts of the time before it."""
    opened: list[Shop] = []

    def restored(act: str, *parts: str) -> Shop:
        home = copy_home(times[act].after, tmp_path / "home")
        for part in parts:
            put_back(times[act].before / part, home / part)
        opened.append(open_shop(home, clock=ticking_clock(NOON + 5 * ONE_HOUR), spark=spark))
        return opened[-1]

    yield restored
    for each in opened:
        each.ws.close()


def put_back(source: Path, target: Path) -> None:
    if target.is_dir():
        shutil.rmtree(target)
    else:
        target.unlink(missing_ok=True)
    if source.is_dir():
        shutil.copytree(source, target)
    elif source.exists():
        shutil.copy2(source, target)


def seen(shop: Shop) -> Amounts:
    """What readers see of each table: the amount of each day."""
    found: dict[str, dict[date, int]] = {}
    for table, column in ((SALES, "sold_on"), (RECENT, "day")):
        days = found.setdefault(table, {})
        if shop.ws.lake.exists(table):
            for row in shop.ws.lake.open(table).to_pyarrow_table(columns=[column, "amount"]).to_pylist():
                days[row[column]] = days.get(row[column], 0) + row["amount"]
    return found


def said(shop: Shop) -> str:
    return "\n".join(f"{each.what} {each.id} {each.outcome}. Next: {each.next_step}" for each in found(shop))


def found(shop: Shop) -> tuple[RecoveredWork, ...]:
    return recover(shop.ws, by="recover")


def set_to_ledger(shop: Shop, table: str) -> RecoveredWork:
    (work,) = recover(shop.ws, by="ben", only=table, reason="the backup of noon was restored")
    return work


def require_sound(shop: Shop) -> None:
    """An audit agrees, and the next publication and the next landing do what they should."""
    assert audit(shop.ws).problems == ()
    assert found(shop) == ()
    shop.land("next.jsonl", [sale(LATER, amount=7, sale_id="next")])
    assert seen(shop)[SALES][LATER] in (7, 17)
    shop.published(version="0.9.0", reason="go on")
    assert audit(shop.ws).problems == ()


@pytest.mark.parametrize(
    "act", ["publication", *(pytest.param(act, marks=pytest.mark.long) for act in ACTS if act != "publication")]
)
def test_a_ledger_that_is_older_than_the_lake_is_what_readers_see_once_a_person_accepts_the_loss(
    restore: Callable[..., Shop], times: Mapping[str, Times], act: str
) -> None:
    shop, table = restore(act, *LEDGER), _CHANGED[act]
    assert re.search(rf"table {table} has 1 publication that the ledger does not have.*older than the lake", said(shop))
    with pytest.raises(Refused):
        recover(shop.ws, by="recover", only=table, reason="no person")
    version = shop.ws.lake.open(table).version()
    with pytest.raises(Refused, match="reason"):
        recover(shop.ws, by="ben", only=table)
    assert shop.ws.lake.open(table).version() == version
    set_to_ledger(shop, table.partition(".")[2])
    assert seen(shop) == times[act].seen_before
    require_sound(shop)


@pytest.mark.long
@pytest.mark.parametrize("act", ["publication", "rollback"])
def test_a_log_that_is_older_than_the_ledger_is_set_to_it_without_computing_anything(
    restore: Callable[..., Shop], times: Mapping[str, Times], act: str
) -> None:
    shop = restore(act, f"{TABLE}/_delta_log")
    assert re.search(rf"table {RECENT} lacks 1 publication of the ledger.*lake is older", said(shop))
    set_to_ledger(shop, RECENT)
    assert seen(shop) == times[act].seen_after
    require_sound(shop)


@pytest.mark.long
@pytest.mark.parametrize("part", ["lake", TABLE])
def test_a_table_of_an_older_backup_gets_its_files_from_a_later_one(
    restore: Callable[..., Shop], times: Mapping[str, Times], part: str
) -> None:
    shop = restore("publication", part)
    assert re.search(rf"table {RECENT} lacks 1 publication", said(shop))
    later, here = times["publication"].after / TABLE / "_runs", shop.ws.settings.home / TABLE / "_runs"
    shutil.copytree(later, here, dirs_exist_ok=True)
    set_to_ledger(shop, RECENT)
    assert seen(shop) == times["publication"].seen_after
    require_sound(shop)


@pytest.mark.long
@pytest.mark.parametrize("part", ["lake", TABLE])
def test_rows_whose_files_no_backup_has_are_refused_to_readers_until_their_run_is_rolled_back(
    restore: Callable[..., Shop], times: Mapping[str, Times], part: str
) -> None:
    shop = restore("publication", part)
    assert "7 partitions are gone" in set_to_ledger(shop, RECENT).outcome
    with pytest.raises(Exception, match=r"(?i)no such file|not found"):
        shop.amounts()
    with shop.ws.ledger.read() as tx:
        run = max((each for each in tx.runs.headers() if each.table == RECENT), key=lambda each: each.sequence)
    operations.rollback(shop.ws, run.run_id, by="ben", reason="no backup has its files")
    assert seen(shop) == times["publication"].seen_before
    assert all("cannot be restored" in each for each in audit(shop.ws).problems)
    assert "7 earlier versions cannot be restored" in set_to_ledger(shop, RECENT).outcome
    require_sound(shop)


@pytest.mark.long
@pytest.mark.parametrize("part", ["lake", TABLE])
def test_rows_whose_files_no_backup_has_are_repaired_as_recorded_by_what_the_audit_says(
    restore: Callable[..., Shop], times: Mapping[str, Times], part: str
) -> None:
    shop = restore("publication", part)
    assert "7 partitions are gone" in set_to_ledger(shop, RECENT).outcome
    asked = [each for way in after_audit(audit(shop.ws)) for each in way.parts]
    (plan,) = [each for each in asked if isinstance(each, Invocation) and each.command is Command.PLAN_TABLE]
    options = dict(plan.options)
    days = DayRange.inclusive(*(date.fromisoformat(str(options[name])) for name in ("first", "last")))
    request = PlanRequest(table=RECENT, days=days, reason="no backup has its files", by="ana", kind=RunPurpose.REPAIR)
    run_id = operations.plan(shop.ws, request).manifest.run_id
    shop.staged(run_id)
    # Nobody agrees: the rows are those that were agreed to.
    operations.publish(shop.ws, run_id, by="ana")
    assert seen(shop) == times["publication"].seen_after
    require_sound(shop)


def land_again(shop: Shop, source: str, path: str) -> None:
    acting = Acting(by="ana", recorder=Unrecorded())
    land_files(shop.ws, source, [Path(path)], acting, on_duplicate="ignore", builds=True)


@pytest.mark.long
def test_what_landed_since_an_older_ledger_is_named_and_landed_again(
    restore: Callable[..., Shop], times: Mapping[str, Times]
) -> None:
    shop = restore("landing", *LEDGER)
    assert "; 1 landed file that the ledger does not know" in said(shop)
    work = set_to_ledger(shop, SALES)
    assert work.next_step is not None
    (land,) = [each for each in work.next_step.parts if isinstance(each, Invocation) and each.command is Command.LAND]
    source, path = land.of
    land_again(shop, source, path)
    assert seen(shop) == times["landing"].seen_after
    assert found(shop) == ()
    assert audit(shop.ws).problems == ()


@pytest.mark.long
def test_landed_files_of_an_older_backup_are_named_until_the_original_is_landed_again(
    restore: Callable[..., Shop], times: Mapping[str, Times]
) -> None:
    shop = restore("landing", "landing")
    (work,) = found(shop)
    assert (work.what, work.id) == ("source", SALES)
    assert re.search(r"lacks 1 landed file of the ledger: .*more\.jsonl", work.outcome)
    with shop.ws.ledger.read() as tx:
        landed = tx.imports.records(SALES)[-1]
    land_again(shop, "sales", landed.original_path)
    assert seen(shop) == times["landing"].seen_after
    assert found(shop) == ()


@pytest.mark.long
def test_doctor_says_that_a_table_and_the_ledger_are_of_different_times(restore: Callable[..., Shop]) -> None:
    part = {each.part: each for each in examine(restore("publication", *LEDGER).ws).parts}["ledger and tables"]
    assert part.health is Health.FAILED and "the ledger is older than the lake" in part.found


@pytest.mark.long
def test_a_lake_of_before_a_rollback_has_all_that_the_ledger_needs(
    restore: Callable[..., Shop], times: Mapping[str, Times]
) -> None:
    shop = restore("rollback", "lake")
    set_to_ledger(shop, RECENT)
    assert seen(shop) == times["rollback"].seen_after
    require_sound(shop)


@pytest.mark.long
def test_bronze_of_before_a_landing_gets_its_files_from_a_later_backup(
    restore: Callable[..., Shop], times: Mapping[str, Times]
) -> None:
    shop = restore("landing", "lake")
    assert "the files of 1 partition are gone, the first is 2026-01-11" in set_to_ledger(shop, SALES).outcome
    runs = "lake/bronze/sales/_runs"
    shutil.copytree(times["landing"].after / runs, shop.ws.settings.home / runs, dirs_exist_ok=True)
    assert seen(shop) == times["landing"].seen_after
    require_sound(shop)


@pytest.mark.long
def test_a_table_that_is_as_the_ledger_says_is_not_set(restore: Callable[..., Shop]) -> None:
    shop = restore("publication")
    assert found(shop) == ()
    with pytest.raises(BackfillError, match="nothing has to be set"):
        set_to_ledger(shop, RECENT)
