"""One table is broken: the others are recovered, vacuumed, shown and audited, and it is said which one and why."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from backfill_assets.capture.landed_files import landing_files
from backfill_assets.core.errors import Problem, UnreadableTable
from backfill_assets.ledger.states import RunState
from backfill_assets.main import app
from backfill_assets.report.status import status
from backfill_assets.upkeep.audit import audit
from backfill_assets.upkeep.vacuum import LeftAlone
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.integration.conftest import ONE_HOUR
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.lakes import folder_of
from backfill_assets_tests.support.ledger_examples import disarm, tamper
from backfill_assets_tests.support.ledgers import copy_home
from backfill_assets_tests.support.seams import Seam
from backfill_assets_tests.support.shop import (
    OUTPUT,
    RECENT,
    SALES,
    Shop,
    WorkIn,
    open_shop,
    sale,
    ticking_clock,
)

PAST_ALL = timedelta(days=731)


@pytest.fixture(scope="module")
def replaced(tmp_path_factory: pytest.TempPathFactory, published_home: Path, spark: SparkSession) -> Path:
    """A home in which both tables hold files that retention may take once all horizons have passed."""
    home = tmp_path_factory.mktemp("replaced") / "home"
    copy_home(published_home, home)
    shop = open_shop(home, clock=ticking_clock(NOON + 2 * ONE_HOUR), spark=spark)
    shop.land("late.jsonl", [sale(OUTPUT.start, amount=90, sale_id="late")])
    shop.published(reason="a late sale")
    shop.ws.close()
    return home


@pytest.fixture
def shop(tmp_path: Path, replaced: Path, spark: SparkSession) -> Iterator[Shop]:
    copy_home(replaced, tmp_path / "home")
    opened = open_shop(tmp_path / "home", clock=ticking_clock(NOON + PAST_ALL + 3 * ONE_HOUR), spark=spark)
    yield opened
    opened.ws.close()


def _log(shop: Shop) -> Path:
    return folder_of(shop.ws.lake, RECENT) / "_delta_log"


def cut(shop: Shop) -> None:
    entry = max(_log(shop).glob("*.json"))
    entry.write_bytes(entry.read_bytes()[:20])


def garbage(shop: Shop) -> None:
    min(_log(shop).glob("*.json")).write_bytes(b"\x00\xff not a log")


def no_folder(shop: Shop) -> None:
    """As it looks to a user without read permission."""
    shutil.rmtree(_log(shop))
    _log(shop).write_bytes(b"")


def gone(shop: Shop) -> None:
    shutil.rmtree(folder_of(shop.ws.lake, RECENT))


DAMAGES = {"a log that was cut": cut, "a log of garbage": garbage, "a log that is no folder": no_folder, "gone": gone}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_table_keeps_no_other_one_from_being_looked_after(shop: Shop, damage: Callable[[Shop], None]) -> None:
    damage(shop)
    shown = status(shop.ws)
    assert {line.table: len(line.accepted) for line in shown.tables}[SALES] == 10
    _names_only(RECENT, shown.problems)

    found = audit(shop.ws)
    assert [problem for problem in found.problems if problem.startswith(f"{RECENT}:")]
    assert all(problem.startswith((f"{RECENT}:", f"{RECENT} version")) for problem in found.problems)
    assert found.partitions > 10

    before = shop.files(SALES)
    vacuumed = operations.vacuum(shop.ws, by="vic")
    _names_only(RECENT, vacuumed.problems)
    assert vacuumed.removed.files > 0
    assert len(shop.files(SALES)) == len(before) - 1


def test_a_publication_of_a_damaged_table_stays_open_and_everything_else_is_recovered(
    shop: Shop, work_in: WorkIn
) -> None:
    planned = shop.planned(reason="stopped")
    with shop.ws.ledger.write() as writer:
        writer.runs.take(planned, RunState.STAGING, actor="ana", attempt="a1")
    open_one = shop.ready(version="0.9.0", reason="dies")
    with pytest.MonkeyPatch.context() as dying:
        Seam.SWAP_OF_PUBLICATIONS.put(dying, _die)
        with pytest.raises(KeyboardInterrupt):
            shop.publish(open_one)
    cut(shop)
    found = operations.recover(shop.ws, by="ops")
    (broken,) = [each.problem for each in found if each.problem]
    assert broken.table == RECENT
    assert "cannot be read" in broken.error.message
    assert sorted(each.what for each in found if not each.problem) == ["run"]
    with pytest.raises(UnreadableTable):
        shop.ws.lake.open(RECENT)
    work_in(shop.ws.settings.home)
    again = CliRunner().invoke(app, ["recover", "--json"])
    assert again.exit_code == 1, again.output
    (problem,) = json.loads(again.stdout)["problems"]
    assert (problem["table"], "cannot be read" in problem["error"]["message"]) == (RECENT, True)


def _die(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_a_table_that_is_no_longer_declared_is_named_and_still_vacuumed_and_audited(shop: Shop) -> None:
    domain = shop.ws.domain
    fewer = replace(shop.ws, domain=replace(domain, derived=()))
    shown = status(fewer)
    _names_only(RECENT, shown.problems)
    assert "no longer declares the table" in shown.problems[0].error.message
    assert [line.table for line in shown.tables][-1] == RECENT
    assert audit(fewer).problems == ()
    vacuumed = operations.vacuum(fewer, by="vic")
    assert vacuumed.problems == ()
    assert {table.table for table in vacuumed.tables if table.removed.files} == {SALES, RECENT}


def test_a_manifest_that_cannot_be_read_is_named_and_everything_else_is_shown(shop: Shop) -> None:
    planned = shop.planned(reason="unreadable")
    with shop.ws.ledger.write() as writer:
        writer.runs.take(planned, RunState.STAGING, actor="ana", attempt="a1")
    disarm(shop.ws.settings.ledger_url, "manifests")
    tamper(shop.ws.settings.ledger_url, f"UPDATE manifests SET body = '{{}}' WHERE run_id = '{planned}'")
    shown = status(shop.ws)
    _names_only(RECENT, shown.problems)
    assert len(shown.runs) == 4
    assert planned not in {run.record.run_id for run in shown.runs}
    (ended,) = operations.recover(shop.ws, by="ops")
    assert (ended.what, ended.id, ended.problem) == ("run", planned, None)
    vacuumed = operations.vacuum(shop.ws, by="vic")
    _names_only(RECENT, vacuumed.problems)
    reasons = {table.table: table.skipped for table in vacuumed.tables}
    # What the run reads cannot be said, so nothing of what its table is built from goes.
    assert reasons == dict.fromkeys((RECENT, SALES), LeftAlone.UNREADABLE_MANIFEST)


def test_a_landed_file_that_is_gone_keeps_no_table_from_being_audited(shop: Shop) -> None:
    with shop.ws.ledger.read() as reader:
        landed = reader.imports.records()[0]
    landing_files(shop.ws.settings).remove([landed.stored_path])
    found = audit(shop.ws)
    assert found.problems == (f"{landed.import_id}: the landed file {landed.stored_path} is gone.",)
    assert status(shop.ws).problems == ()


@pytest.mark.long
def test_commands_end_with_1_and_say_it_in_words_and_as_json(shop: Shop, work_in: WorkIn) -> None:
    cut(shop)
    work_in(shop.ws.settings.home)
    for command in (["status"], ["vacuum", "--dry-run"], ["audit", "--quick"], ["recover"]):
        said = CliRunner().invoke(app, command)
        assert (said.exit_code, RECENT in said.output) == (1, True), said.output
        document = json.loads(CliRunner().invoke(app, [*command, "--json"]).output)
        assert document["problems"]


def _names_only(table: str, problems: Sequence[Problem]) -> None:
    assert {problem.table for problem in problems} == {table}, problems
    assert all(problem.error.message and problem.error.next_step for problem in problems)
