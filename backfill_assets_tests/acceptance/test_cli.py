"""The command line as its users meet it: a whole restatement, and every mistake with one sentence and exit code 1."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from backfill_assets.core.settings import EXAMPLE_REFERENCE, PROJECT_ROOT
from backfill_assets.main import app
from backfill_assets_tests.conftest import SPARK_ENVIRONMENT

SILVER = "silver.case_sla_daily"
DAYS = ("--from", "2025-02-05", "--to", "2025-02-07")
SAMPLE = PROJECT_ROOT / "backfill_assets_tests" / "support" / "case_events.jsonl"


@dataclass(frozen=True, kw_only=True)
class Terminal:
    """A person at a terminal, whose home is a folder of the test's."""

    environment: Mapping[str, str]

    def types(self, *words: str) -> Result:
        return CliRunner().invoke(app, list(words), env=dict(self.environment), catch_exceptions=False)

    def does(self, *words: str) -> Any:
        """A command that succeeds: its JSON."""
        result = self.types(*words, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def is_refused(self, *words: str) -> str:
        """A command that is refused: what a person reads, in one line. Nothing may have changed."""
        before = json.loads(self.types("status", "--json").stdout)
        result = self.types(*words)
        assert result.exit_code == 1, result.output
        assert "Traceback" not in result.output
        after = json.loads(self.types("status", "--json").stdout)
        assert (after["runs"], after["tables"]) == (before["runs"], before["tables"])
        return " ".join(result.stderr.split())

    def planned(self, *extra: str) -> str:
        run_id: str = self.does("plan", "table", SILVER, *DAYS, "--reason", "try", "--by", "ana", *extra)["run_id"]
        return run_id

    def ready(self, *extra: str) -> str:
        run_id = self.planned(*extra)
        self.does("approve", run_id, "--by", "ben")
        assert self.does("run", run_id)["state"] == "PASSED"
        return run_id


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Terminal]:
    home = tmp_path_factory.mktemp("cli")
    shutil.copytree(EXAMPLE_REFERENCE, home / "reference")
    with pytest.MonkeyPatch.context() as patch:
        # Dagster reads it from the process, and a session of this process is used, not one of the command's.
        patch.delenv("DAGSTER_HOME", raising=False)
        environment = {"BACKFILL_HOME": str(home), "BACKFILL_FIRST_DAY": "2024-12-01", **SPARK_ENVIRONMENT}
        for name, value in environment.items():
            patch.setenv(name, value)
        person = Terminal(environment=environment)
        landed = person.does("land", "case_events", str(SAMPLE), "--by", "ana")
        (record,) = landed["imports"]
        assert record["counts"]["landed"] == 20
        assert record["counts"]["rejected"] == 1
        nothing = ("--empty", "--reason", "nothing happened", "--by", "ana")
        refused = person.is_refused("load", "case_events", "--from", "2024-12-01", "--to", "2025-02-28", *nothing)
        assert "2025-02-24, 1 day of bronze.case_events cannot be declared empty among other days" in refused
        person.does("load", "case_events", "--from", "2025-02-24", "--to", "2025-02-24", *nothing)
        person.does("load", "case_events", "--from", "2024-12-01", "--to", "2025-02-28", *nothing)
        yield person


def test_a_restatement_from_plan_to_rollback(terminal: Terminal) -> None:
    plan = terminal.does(
        "plan", "table", SILVER, *DAYS, "--reason", "deadlines", "--by", "ana", "--transform-version", "2.4.1"
    )
    run_id = plan["run_id"]
    assert plan["inputs"][0]["partitions"] == {"ranges": ["2024-12-06..2025-02-08"], "count": 65}
    assert plan["inputs"][0]["warm_up"]["count"] == 62
    assert plan["output"]["count"] == 3
    assert terminal.does("status", run_id)["state"] == "PLANNED"
    assert terminal.does("approve", run_id, "--by", "ben")["approval"] == "APPROVED"
    report = terminal.does("run", run_id)
    assert report["state"] == "PASSED"
    assert report["totals"]["added"] == report["totals"]["rows"] > 0
    assert terminal.does("publish", run_id, "--by", "ben")["state"] == "PUBLISHED"
    assert "it is PUBLISHED" in terminal.is_refused("publish", run_id, "--by", "ben")
    history = terminal.does("history", SILVER, "--partition", "2025-02-05")
    (version,) = history["versions"]
    assert (version["requested_by"], version["approved_by"]) == ("ana", "ben")
    assert version["transform_version"] == "2.4.1"
    assert all(check["passed"] for check in version["checks"])
    assert {each["name"] for each in version["references"]} == {"jurisdiction_calendar", "sla_policy"}
    assert version["versions"] == report["versions"]
    staged = set(version["versions"]["staged"])
    assert staged - {"commit", "tree", "image"} == {"backfill_assets", "distributions", "pyspark", "python", "spark"}
    assert version["supersedes"] == []
    shown = " ".join(terminal.types("history", SILVER, "--partition", "2025-02-05").stdout.split())
    assert "staged with backfill_assets " in shown
    assert terminal.does("audit")["agrees"]
    assert terminal.does("rollback", run_id, "--by", "ben", "--reason", "enough")["action"] == "ROLLBACK"
    assert terminal.does("history", SILVER)["accepted"]["count"] == 0
    (undone,) = terminal.does("history", SILVER, "--partition", "2025-02-05")["versions"]
    assert (undone["undone"]["by"], undone["undone"]["reason"]) == ("ben", "enough")
    assert "so there is nothing to undo" in terminal.is_refused("rollback", run_id, "--by", "ben", "--reason", "again")


@pytest.mark.long
def test_a_run_over_a_target_that_changed_is_refused_and_can_run_again(terminal: Terminal) -> None:
    first, late = terminal.ready("--transform-version", "2.4.1"), terminal.ready()
    terminal.does("publish", first, "--by", "ben")
    assert "changed since run" in terminal.is_refused("publish", late, "--by", "ben")
    terminal.does("run", late)
    terminal.does("publish", late, "--by", "ben")
    history = terminal.does("history", SILVER, "--partition", "2025-02-05")
    assert {first, late} <= {version["run_id"] for version in history["versions"]}
    for run_id in (late, first):
        terminal.does("rollback", run_id, "--by", "ben", "--reason", "tidy")
    assert terminal.does("history", SILVER)["accepted"]["count"] == 0


def test_what_a_person_reads_names_the_next_command(terminal: Terminal) -> None:
    result = terminal.types("plan", "table", SILVER, *DAYS, "--reason", "look", "--by", "ana")
    assert result.exit_code == 0
    assert "warm-up" in result.stdout
    assert "backfill approve" in result.stdout
    for words in (("status",), ("history", SILVER), ("audit",)):
        shown = terminal.types(*words)
        assert shown.exit_code == 0, shown.output
        assert shown.stdout.strip()


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("plan", "table", "silver.nobody", *DAYS), "there is no table 'silver.nobody'"),
        (
            ("plan", "table", SILVER, "--from", "2001-01-01", "--to", "2001-01-02"),
            "can have partitions from 2024-12-01",
        ),
        (("plan", "table", SILVER, "--from", "2025-02-07", "--to", "2025-02-05"), "the range is reversed"),
        (("plan", "table", SILVER, *DAYS, "--transform-version", "9.9.9"), "no transform version '9.9.9'"),
        (("plan", "table", SILVER, "--from", "2025-06-20", "--to", "2025-06-21"), "have never been built"),
        (("plan", "table", "bronze.case_events", *DAYS), "built from landed files"),
    ],
)
def test_an_impossible_plan_is_refused(terminal: Terminal, words: tuple[str, ...], sentence: str) -> None:
    assert sentence in terminal.is_refused(*words, "--reason", "try", "--by", "ana")


def test_days_far_from_those_that_have_landed_are_asked_about_and_not_declared_empty(terminal: Terminal) -> None:
    said = terminal.is_refused(
        "plan", "table", SILVER, "--from", "2025-06-20", "--to", "2025-06-21", "--reason", "try", "--by", "ana"
    )
    assert "..2025-06-22" in said
    assert "choose other days: bronze.case_events has 2024-12-01..2025-04-08; or land the missing files first" in said
    assert "--empty" not in said


def test_steps_out_of_order_are_refused(terminal: Terminal) -> None:
    run_id = terminal.planned()
    assert "another person" in terminal.is_refused("approve", run_id, "--by", "ana")
    assert "it is PLANNED. next: backfill run" in terminal.is_refused("publish", run_id, "--by", "ben")
    assert "there is no run" in terminal.is_refused("publish", "nobody", "--by", "ben")
    assert "who is acting" in terminal.is_refused("approve", run_id, "--by", " ")


def offered(folder: Path, name: str, content: bytes) -> str:
    path = folder / name
    path.write_bytes(content)
    return str(path)


def test_files_that_cannot_be_read_are_refused_whole(terminal: Terminal, tmp_path: Path) -> None:
    land = ("land", "case_events", "--by", "ana")
    assert "missing.jsonl" in terminal.is_refused(*land, str(tmp_path / "missing.jsonl"))
    corrupt = offered(tmp_path, "corrupt.parquet", b"PAR1 this is no parquet file PAR1")
    assert "corrupt.parquet" in terminal.is_refused(*land, corrupt)
    keyless = offered(tmp_path, "keyless.csv", b"case_id,event_type\nA,B\n")
    assert "event_id" in terminal.is_refused(*land, keyless)
    cut = offered(tmp_path, "cut.jsonl.gz", gzip.compress(b'{"event_id": "x"}\n' * 1000)[:-20])
    assert "cut.jsonl.gz" in terminal.is_refused(*land, cut)
    assert "there is no source 'nobody'" in terminal.is_refused("land", "nobody", "--by", "ana", str(SAMPLE))


def test_a_file_that_was_landed_before_adds_nothing(terminal: Terminal) -> None:
    again = terminal.does("land", "case_events", str(SAMPLE), "--by", "ana")
    assert again["load"] is None
    assert [record["is_new"] for record in again["imports"]] == [False]
    read = " ".join(terminal.types("land", "case_events", str(SAMPLE), "--by", "ana").stdout.split())
    assert "was landed before as imp-000001; nothing new." in read
    said = terminal.is_refused("land", "case_events", str(SAMPLE), "--by", "ana", "--on-duplicate", "reject")
    assert "imp-000001" in said


def test_an_impossible_reference_is_refused_naming_the_file(terminal: Terminal, tmp_path: Path) -> None:
    reference = tmp_path / "reference"
    shutil.copytree(EXAMPLE_REFERENCE, reference)
    calendar = reference / "jurisdiction_calendar.yaml"
    calendar.write_text(calendar.read_text("utf-8").replace("Europe/Rome", "Europe/Atlantis"), encoding="utf-8")
    person = Terminal(environment={**terminal.environment, "BACKFILL_REFERENCE": str(reference)})
    said = person.is_refused("plan", "table", SILVER, *DAYS, "--reason", "try", "--by", "ana")
    assert "Europe/Atlantis" in said
    assert "jurisdiction_calendar.yaml" in said
    # What a window needs to be known for is a problem of `status`, and the rest of it is shown.
    (problem,) = json.loads(person.types("status", "--json").stdout)["problems"]
    assert "Europe/Atlantis" in problem["error"]["message"]
    calendar.unlink()
    assert "cannot be read" in person.is_refused("plan", "table", SILVER, *DAYS, "--reason", "try", "--by", "ana")


def test_wrong_usage_is_exit_code_2(terminal: Terminal) -> None:
    assert (
        terminal.types("plan", "table", SILVER, "--from", "yesterday", "--to", "today", "--reason", "x").exit_code == 1
    )
    assert terminal.types("plan").exit_code == 1
    assert terminal.types("no-such-command").exit_code == 1


def test_refusals_are_json_for_machines(terminal: Terminal) -> None:
    result = terminal.types("plan", "table", "nobody", *DAYS, "--reason", "x", "--by", "ana", "--json")
    assert result.exit_code == 1
    error = json.loads(result.stdout)["error"]
    assert error["type"] == "UnknownName"
    assert "nobody" in error["message"]


def test_names_and_reasons_are_text_whatever_they_look_like(terminal: Terminal) -> None:
    reason = "[bold]'; DROP TABLE runs; --</b> <script>"
    run_id = terminal.does("plan", "table", SILVER, *DAYS, "--reason", reason, "--by", "o'neil [red]")["run_id"]
    assert terminal.does("status", run_id)["reason"] == reason
    assert reason in " ".join(terminal.types("status", run_id).stdout.split())
