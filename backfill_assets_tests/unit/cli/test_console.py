"""What the terminal shows belongs to the command."""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime
from io import StringIO

import pytest
from py4j import java_gateway
from rich.console import Console

from backfill_assets.cli.console import is_not_of_py4j, progress_listener, quiet_spark
from backfill_assets.cli.terminal import show
from backfill_assets.core.progress import Progress
from backfill_assets.core.settings import Settings
from backfill_assets.ledger.import_records import ImportRecord
from backfill_assets.ledger.states import ImportState
from backfill_assets.report.page import page, table
from backfill_assets.report.screens.landing import imports_table


def test_tracebacks_that_py4j_logs_of_an_interrupted_call_are_left_out() -> None:
    def logged_in(path: str) -> logging.LogRecord:
        return logging.LogRecord("root", logging.ERROR, path, 1, "KeyboardInterrupt while sending command.", (), None)

    assert not is_not_of_py4j(logged_in(java_gateway.__file__))
    assert is_not_of_py4j(logged_in(__file__))


def test_a_line_of_progress_names_its_table_and_that_of_several_tables_does_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with progress_listener("a set", quiet=False) as listener:
        listener(Progress(step="stage", done=0, total=3, line="chunk 1 of 3", table="silver.daily"))
        listener(Progress(step="land", done=0, total=3, line="january.csv"))
    assert capsys.readouterr().err == "stage silver.daily: chunk 1 of 3\nland: january.csv\n"


def test_the_progress_of_many_files_is_a_line_for_each_tenth_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_listener("sales", quiet=False) as listener:
        for done in range(1, 306):
            listener(Progress(step="land", done=done, total=305, line=f"{done}.csv"))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 11
    assert [lines[0], lines[1], lines[-1]] == [
        "land: 1.csv, 1 of 305",
        "land: 31.csv, 31 of 305",
        "land: 305.csv, 305 of 305",
    ]
    with progress_listener("sales", quiet=False) as listener:
        for done in range(1, 11):
            listener(Progress(step="land", done=done, total=10, line=f"{done}.csv"))
    assert len(capsys.readouterr().err.splitlines()) == 10


def test_after_a_long_silence_a_line_says_what_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_listener("a set", quiet=False, silence_s=0.3) as listener:
        time.sleep(0.5)
        assert capsys.readouterr().err == "", "nothing has begun"
        listener(Progress(step="gate", done=3, total=3, line="all gates evaluated", table="silver.daily"))
        time.sleep(1)
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "gate silver.daily: all gates evaluated"
    assert 2 <= len(said) <= 4
    assert all("goes on" in line and "all gates evaluated" in line for line in said[1:])


@pytest.mark.parametrize(("quiet", "said"), [(False, "starting Spark\n"), (True, "")])
def test_a_command_that_starts_spark_says_so_where_a_person_reads_it(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], quiet: bool, said: str
) -> None:
    session = object()
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    monkeypatch.setattr("backfill_assets.core.spark.open_spark", lambda _settings: session)
    assert quiet_spark(settings, quiet=quiet)() is session
    assert capsys.readouterr() == ("", said)


def landed(path: str, *, note: str) -> ImportRecord:
    return ImportRecord(
        import_id="imp-000001",
        source="bronze.events",
        family="file",
        range_from="",
        range_to="",
        sha256="",
        original_path=path,
        stored_path="",
        size_bytes=0,
        format="jsonl",
        compression="",
        state=ImportState.LOADED,
        arrival=1,
        first_seen_at=datetime(2026, 1, 3, tzinfo=UTC),
        landed_at=None,
        landed_by="ana",
        on_duplicate="ignore",
        note=note,
    )


def test_landed_files_are_listed_with_the_reason_of_a_statement_where_there_is_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    file, withdrawal = landed("in/a.jsonl", note=""), landed("withdrawal", note="issued in error")
    for imports, heads in (([file], ["rejected"]), ([file, withdrawal], ["rejected", "note"])):
        show(Console(width=160), page("Landed", imports_table(imports)))
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].split()[-len(heads) :] == heads
        assert ("issued in error" in lines[-1]) is ("note" in heads)


@pytest.mark.parametrize("width", [100, 160])
def test_a_long_verdict_leaves_room_for_what_its_gate_demands(width: int) -> None:
    days = "2025-02-19, 2025-03-10, 2025-04-14, 3 days"
    outcome = f"{days}: computed again, the same rows; the other 86 days not computed again"
    demands = "the first and last 5 partitions of a run, and those where chunks meet, are the same with more input"
    columns = ["gate", "verdict", "on failure", "demands, or the first failure"]
    console = Console(width=width, file=StringIO())
    row = ("counts_no_more_days_than_passed", outcome, "blocks", demands)
    show(console, page("Gates", table(columns, [row], whole=["gate"])))
    assert isinstance(console.file, StringIO)
    assert len(console.file.getvalue().splitlines()) <= 8
