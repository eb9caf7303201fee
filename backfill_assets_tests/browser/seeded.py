"""A home with some history of the reference domain: February 2025 in silver by the defective release, and in gold."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from backfill_assets.core.settings import EXAMPLE_REFERENCE
from backfill_assets.examples.enforcement_sla.generator import deliveries
from backfill_assets.main import app
from backfill_assets_tests.conftest import SPARK_ENVIRONMENT

BACKFILL = str(Path(sys.executable).parent / "backfill")
SILVER, GOLD = "silver.case_sla_daily", "gold.sla_breach_monthly"
CASES = 400
FIRST_DAY, LAST_DAY = "2025-02-01", "2025-02-28"
EXPORTS = ("2024-12", "2025-01", "2025-02", "2025-03")
"""The months that the window of these days reaches."""


@dataclass(frozen=True, kw_only=True)
class Terminal:
    """A person at a terminal, whose home is a folder of the test's."""

    home: Path

    def types(self, *words: str) -> Result:
        """A command."""
        return CliRunner().invoke(app, list(words), env=dict(environment(self.home)), catch_exceptions=False)

    def does(self, *words: str) -> Any:
        """A command that succeeds: its JSON."""
        result = self.types(*words, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def publishes(self, run_id: str) -> None:
        """Approves, runs and publishes a run."""
        self.does("approve", run_id, "--by", "ben", "--note", "the first history")
        assert self.does("run", run_id)["state"] == "PASSED"
        assert self.does("publish", run_id, "--by", "ben")["state"] == "PUBLISHED"


def environment(home: Path) -> Mapping[str, str]:
    """The settings of a process over the home."""
    return {
        "BACKFILL_HOME": str(home),
        "BACKFILL_DOMAIN": "backfill_assets.examples.enforcement_sla",
        "BACKFILL_FIRST_DAY": f"{EXPORTS[0]}-01",
        "BACKFILL_LEDGER_URL": f"sqlite:///{home / 'ledger.db'}",
        **SPARK_ENVIRONMENT,
    }


def seed(home: Path) -> Terminal:
    """Fills a home by the commands, with the Spark session of this process."""
    home.mkdir(parents=True)
    shutil.copytree(EXAMPLE_REFERENCE, home / "reference")
    files = home / "files"
    files.mkdir()
    names = []
    for delivery in deliveries(cases=CASES):
        if any(month in delivery.name for month in EXPORTS):
            (files / delivery.name).write_bytes(delivery.content)
            names.append(str(files / delivery.name))
    person = Terminal(home=home)
    person.does("land", "case_events", *names, "--by", "ana", "--no-load")
    covered = ("--from", f"{EXPORTS[0]}-01", "--to", f"{EXPORTS[-1]}-31")
    person.does("load", "case_events", *covered, "--empty", "--reason", "nothing happened", "--by", "ana")
    for table, release in ((SILVER, ("--transform-version", "2.4.1")), (GOLD, ())):
        days = ("--from", FIRST_DAY, "--to", LAST_DAY)
        planned = person.does("plan", "table", table, *days, "--reason", "first time", "--by", "ana", *release)
        person.publishes(planned["run_id"])
    person.does("follow")
    return person


@contextmanager
def spark_that_stays(home: Path) -> Iterator[None]:
    """The server that `make dev` starts as well: without it each run of Dagster starts a Spark of its own."""

    def done(command: str) -> None:
        subprocess.run([BACKFILL, command], env={**os.environ, **environment(home)}, check=True, capture_output=True)

    done("up")
    try:
        yield
    finally:
        done("down")
