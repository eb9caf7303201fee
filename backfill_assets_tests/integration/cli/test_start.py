"""Commands answer at once: what takes long to import is imported by the commands that need it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pytest

from backfill_assets.core.clock import system_clock
from backfill_assets_tests.support.number_examples import NUMBERS, gated, publish_numbers, workspace_of_numbers

PROGRAM = """
import gc, sys, time
from backfill_assets.main import main
try:
    main()
except SystemExit as ended:
    code = ended.code or 0
import json
has_session = "pyspark" in sys.modules and sys.modules["pyspark"].sql.SparkSession.getActiveSession() is not None
ends_at_once = gc.get_freeze_count() > len(gc.get_objects())
cpu_s = time.process_time()
found = {
    "code": code,
    "modules": sorted(sys.modules),
    "has_session": has_session,
    "cpu_s": cpu_s,
    "ends_at_once": ends_at_once,
}
print("\\n" + json.dumps(found), file=sys.stderr)
"""

ACTS = {"alembic", "dagster", "numpy", "pandas", "pyarrow"}
"""Libraries of what moves rows and migrates the ledger: half a second to two seconds of processor time each."""

LISTS = ACTS | {"deltalake", "pydantic_core._pydantic_core", "pyspark", "rich", "sqlalchemy", "sqlglot", "yaml"}
"""With those that know the domain, the ledger and the tables, and that print them."""

LOOKS = ACTS | {"pydantic", "sqlalchemy.dialects.postgresql", "sqlglot", "yaml"}
"""With those that convert values, declare what only PostgreSQL has, and parse conditions and references."""

ROOMS = {
    "candidates.evaluate",
    "candidates.stage",
    "landing.land",
    "orchestration",
    "requests.plan",
    "requests.rollout",
    "transforms.apply",
    "upkeep",
}
"""Rooms that carry something out."""


COMPARES = {"duckdb", "report.report", "report.set_report"}
"""What a run needs when its rows are compared and shown."""

RUN = "sales_monthly-20250101-0a1b2c"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a command printed, what its process had imported by then, and whether it ends without garbage collection."""

    out: str
    modules: frozenset[str]
    has_session: bool
    cpu_s: float
    ends_at_once: bool

    def imported(self, names: set[str]) -> set[str]:
        """Those of the libraries and rooms that it imported."""
        return {n for n in names if n in self.modules or f"backfill_assets.{n}" in self.modules}


def answer(home: Path, *words: str, code: int = 0) -> Answer:
    """What a command, in a process of its own, answers with this exit code."""
    environment = {
        "BACKFILL_HOME": str(home),
        "BACKFILL_DOMAIN": "backfill_assets_tests.domains.example",
        "PYTHONWARNINGS": "ignore",
    }
    given = [sys.executable, "-c", PROGRAM, *words]
    ended = subprocess.run(given, capture_output=True, text=True, env={**os.environ, **environment}, check=True)
    found: Mapping[str, object] = json.loads(ended.stderr.splitlines()[-1])
    assert found["code"] == code, ended.stdout + ended.stderr
    modules = frozenset(str(name) for name in found["modules"])  # type: ignore[attr-defined]
    return Answer(
        out=ended.stdout,
        modules=modules,
        has_session=bool(found["has_session"]),
        cpu_s=float(str(found["cpu_s"])),
        ends_at_once=bool(found["ends_at_once"]),
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home in which a table is published that nothing depends on."""
    home = tmp_path_factory.mktemp("home")
    ws = workspace_of_numbers(home, f"sqlite:///{home / 'ledger.db'}", system_clock)
    ws.lake.ensure("gold.sales_monthly", NUMBERS, "day")
    publish_numbers(ws, gated(ws, RUN, "gold.sales_monthly", [date(2025, 1, 1)], 1))
    ws.close()
    return home


@pytest.mark.long
def test_the_list_of_commands_needs_neither_the_domain_nor_the_ledger(tmp_path: Path) -> None:
    listed = answer(tmp_path, "--help")
    assert "Plan and publish:" in listed.out
    assert listed.imported(LISTS | ROOMS) == set()
    # A quarter of a second on a busy machine.
    assert min(listed.cpu_s, *(answer(tmp_path, "--help").cpu_s for _ in range(2))) < 1


@pytest.mark.parametrize("asked", [["status"], ["status", RUN], ["report", RUN], ["history", "gold.sales_monthly"]])
def test_what_the_ledger_knows_is_shown_without_what_moves_rows(home: Path, asked: list[str]) -> None:
    shown = answer(home, *asked)
    assert RUN in shown.out
    assert shown.imported(LOOKS | ROOMS - {"requests.rollout"}) == set()
    assert not shown.has_session
    assert shown.ends_at_once


@pytest.mark.long
def test_a_run_comes_to_its_rows_without_what_it_needs_after_them(home: Path) -> None:
    refused = answer(home, "run", RUN, "--by", "ana", code=1)
    assert "candidates.stage" in {name.removeprefix("backfill_assets.") for name in refused.modules}
    assert refused.imported({"dagster", "pydantic", "sqlglot"} | COMPARES) == set()
    program = "import backfill_assets.orchestration.background_recorder, sys; print(*sys.modules)"
    executes = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert {"dagster", "pandas", "pydantic", "duckdb"}.isdisjoint(executes.stdout.split())


@pytest.mark.long
def test_a_status_without_anything_to_follow_knows_nothing_of_follow_ups_and_other_pages(home: Path) -> None:
    plans = {"planning.request", "planning.stages", "requests.follow", "staleness.decide", "report.report"}
    answer(home, "follow")
    assert answer(home, "status").imported(plans) == set()


@pytest.mark.long
def test_with_nothing_to_follow_neither_spark_nor_dagster_is_started(home: Path) -> None:
    followed = answer(home, "follow", "--json")
    assert json.loads(followed.out)["followed"] == []
    assert followed.imported(ACTS | ROOMS) == set()
    assert not followed.has_session


@pytest.mark.long
def test_only_a_new_home_needs_what_creates_a_ledger_and_no_migrations(tmp_path: Path) -> None:
    """What the others leave out is imported where it is needed: the test above can fail."""
    (tmp_path / "home").mkdir()
    creates = "backfill_assets.ledger.creation"
    assert answer(tmp_path / "home", "status").imported({"alembic", creates}) == {creates}
    assert answer(tmp_path / "home", "status").imported({"alembic", creates}) == set()
