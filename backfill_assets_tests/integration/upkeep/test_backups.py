"""The commands of docs/backups.md are typed as they stand there, in SQLite and folders, PostgreSQL, and a store.

What they are typed into is a home that goes on after the backup: one more file lands, and a better release is
published. The oracle is what readers saw before and after that.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill_assets.core.settings import PROJECT_ROOT
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.integration.conftest import ONE_HOUR
from backfill_assets_tests.integration.upkeep.test_restored import LATER, seen
from backfill_assets_tests.support import ledgers
from backfill_assets_tests.support.lakes import only_in_folders, use_store
from backfill_assets_tests.support.ledgers import copy_home, only_with_sqlite
from backfill_assets_tests.support.s3_server import Store
from backfill_assets_tests.support.shop import (
    DAYS,
    OUTPUT,
    RECENT,
    SALES,
    Shop,
    open_shop,
    sale,
    shop_environment,
    ticking_clock,
)

PAGE = PROJECT_ROOT / "docs" / "backups.md"
BLOCKS = tuple(
    re.sub(r"^ {4}", "", block, flags=re.MULTILINE)
    for block in re.findall(
        r"^ *```bash\n(.*?)^ *```$", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
)


def block(*words: str) -> str:
    """The one block of the page that has these words."""
    (found,) = (each for each in BLOCKS if all(word in each for word in words))
    return found


BACKUP_OF_SQLITE = block(".backup")
BACKUP_OF_POSTGRESQL = block("pg_dump")
BACKUP_OF_STORE = block('"$BACKFILL_LAKE" "$BACKUP_BUCKET/lake"')
RESTORE_SQLITE = block('cp "$BACKUP/ledger.db"')
RESTORE_POSTGRESQL = block("pg_restore")
RESTORE_FOLDER = block("rm -rf")
RESTORE_STORE = block('"$BACKUP_BUCKET/lake" "$BACKFILL_LAKE"')
ASK, ACCEPT, AUDIT = block("recover\n"), block("recover TABLE"), block("audit\n")
LOAD, REPAIR = block("backfill load"), block("--kind repair")


def test_every_block_of_the_page_is_one_that_is_typed_here() -> None:
    typed_here = {BACKUP_OF_SQLITE, BACKUP_OF_POSTGRESQL, BACKUP_OF_STORE, RESTORE_SQLITE, RESTORE_POSTGRESQL}
    assert {*typed_here, RESTORE_FOLDER, RESTORE_STORE, ASK, ACCEPT, AUDIT, LOAD, REPAIR} == set(BLOCKS)


class Home:
    """A home in which commands are typed, with a backup of it."""

    def __init__(self, home: Path, spark: SparkSession) -> None:
        self.home, self._spark = home, spark
        self.backup = home.parent / "backup"
        self.backup.mkdir()
        self._hours = 2

    def opened(self) -> Shop:
        self._hours += 1
        return open_shop(self.home, clock=ticking_clock(NOON + self._hours * ONE_HOUR), spark=self._spark)

    def type(self, script: str) -> str:
        """What a shell prints; a command that fails fails the test."""
        environment: Mapping[str, str] = {
            **os.environ,
            **shop_environment(self.home),
            "BACKUP": str(self.backup),
            "BACKUP_BUCKET": "s3://archive",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        ended = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script], env=environment, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, f"{script}\n{ended.stdout}{ended.stderr}"
        return ended.stdout

    def out_of_step(self) -> Sequence[str]:
        """The tables that `recover` names, in its order."""
        answer = json.loads(self.type(ASK.replace("recover", "recover --json")))
        return [each["id"] for each in answer["recovered"] if each["what"] == "table"]

    def accept(self, tables: Sequence[str]) -> str:
        typed = (ACCEPT.replace("TABLE", table).replace("NAME", "ben") for table in tables)
        return "\n".join(map(self.type, typed))

    def make_again(self) -> None:
        """What the page says where no backup has the files of accepted partitions: the source, then what reads it."""
        # By ana, who may not approve: nobody has to.
        self.type(LOAD.replace("SOURCE", "sales").replace("DAY", str(LATER)).replace("NAME", "ana"))
        plan, *rest = REPAIR.replace("TABLE", "recent_sales").replace("NAME", "ana").splitlines()
        plan = plan.replace("--from DAY", f"--from {OUTPUT.start}").replace("--to DAY", f"--to {OUTPUT.last}")
        run_id = json.loads(self.type(f"{plan} --json"))["run_id"]
        self.type("\n".join(rest).replace("RUN", run_id))

    def goes_on(self) -> tuple[object, object]:
        """What readers see before and after one more file and one more release."""
        shop = self.opened()
        before = seen(shop)
        shop.land("more.jsonl", [sale(LATER)])
        shop.published(reason="better")
        after = seen(shop)
        shop.ws.close()
        return before, after

    def seen(self) -> object:
        shop = self.opened()
        found = seen(shop)
        shop.ws.close()
        return found


@pytest.fixture
def home(tmp_path: Path, published_home: Path, spark: SparkSession) -> Home:
    only_with_sqlite("the page has a part for each")
    only_in_folders("the page has a part for each")
    if shutil.which("sqlite3") is None:
        pytest.skip("BACKUPS ARE NOT TESTED: there is no sqlite3")
    return Home(copy_home(published_home, tmp_path / "home"), spark)


def lose_ledger(home: Home) -> None:
    (home.home / "ledger.db").unlink()
    home.type(RESTORE_SQLITE)


def lose_lake(home: Home) -> None:
    later = home.home.parent / "later"
    shutil.copytree(home.home / "lake", later)
    home.type(RESTORE_FOLDER)
    for runs in later.rglob("_runs"):
        shutil.copytree(runs, home.home / "lake" / runs.relative_to(later), dirs_exist_ok=True)


@pytest.mark.long
@pytest.mark.parametrize(("lose", "is_lost"), [(lose_ledger, True), (lose_lake, False)])
def test_what_was_restored_beside_what_is_newer_is_led_out_of_it(
    home: Home, lose: Callable[[Home], None], is_lost: bool
) -> None:
    home.type(BACKUP_OF_SQLITE)
    before, after = home.goes_on()
    lose(home)
    tables = home.out_of_step()
    assert tables == [SALES, RECENT]
    home.accept(tables)
    assert "agree" in home.type(AUDIT)
    assert home.seen() == (before if is_lost else after)
    assert home.out_of_step() == []


@pytest.mark.long
def test_a_lake_of_which_no_later_backup_is_left_is_made_again(home: Home) -> None:
    home.type(BACKUP_OF_SQLITE)
    _, after = home.goes_on()
    home.type(RESTORE_FOLDER)
    assert "are gone" in home.accept(home.out_of_step())
    home.make_again()
    assert "agree" in home.type(AUDIT)
    assert home.seen() == after
    assert home.out_of_step() == []


@pytest.mark.long
def test_a_backup_that_is_taken_while_a_publication_goes_on_is_restored_as_a_whole(home: Home) -> None:
    ledger, *others = BACKUP_OF_SQLITE.splitlines()
    home.type(ledger)
    before, _ = home.goes_on()
    home.type("\n".join(others))
    shutil.rmtree(home.home / "landing")
    shutil.copytree(home.backup / "landing", home.home / "landing")
    home.type(RESTORE_SQLITE + RESTORE_FOLDER)
    home.accept(home.out_of_step())
    home.type(AUDIT)
    assert home.seen() == before


@pytest.fixture
def in_postgresql(monkeypatch: pytest.MonkeyPatch, postgres_server: str) -> Iterator[None]:
    monkeypatch.setenv(ledgers.SERVER, postgres_server)
    yield


@pytest.mark.long
def test_a_ledger_in_postgresql_is_dumped_and_restored(
    tmp_path: Path, in_postgresql: None, spark: SparkSession
) -> None:
    home = Home(tmp_path / "home", spark)
    stock(home)
    home.type(BACKUP_OF_POSTGRESQL)
    before, _ = home.goes_on()
    home.type(RESTORE_POSTGRESQL)
    tables = home.out_of_step()
    assert tables == [SALES, RECENT]
    home.accept(tables)
    home.type(AUDIT)
    assert home.seen() == before


@pytest.mark.long
def test_a_lake_in_a_store_is_copied_and_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Store, spark: SparkSession
) -> None:
    if shutil.which("aws") is None:
        pytest.skip("BACKUPS OF A STORE ARE NOT TESTED: there is no aws")
    use_store(monkeypatch, store)
    home = Home(tmp_path / "home", spark)
    store.make_bucket("archive")
    stock(home)
    home.type(BACKUP_OF_STORE)
    before, after = home.goes_on()
    home.type(RESTORE_STORE)
    tables = home.out_of_step()
    assert tables == [SALES, RECENT]
    assert "are gone" in home.accept(tables)
    home.make_again()
    assert "agree" in home.type(AUDIT)
    assert before != home.seen() == after


def stock(home: Home) -> None:
    """January has landed, and a first release is published."""
    shop = home.opened()
    shop.land("january.jsonl", [sale(day) for day in DAYS])
    shop.published(version="0.9.0")
    shop.ws.close()
