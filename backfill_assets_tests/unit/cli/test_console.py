"""What the terminal shows belongs to the command."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from io import StringIO

import pytest
from py4j import java_gateway
from rich.console import Console

from backfill_assets.cli.console import is_not_of_py4j, progress_listener, quiet_spark
from backfill_assets.cli.terminal import show
from backfill_assets.core.progress import Progress
from backfill_assets.core.settings import Settings
from backfill_assets.ledger.imports import ImportCounts, ImportRecord
from backfill_assets.ledger.states import ImportState
from backfill_assets.report.page import Moved, Table, Value, page, publication_ref, run_ref, table, words
from backfill_assets.report.sources import imports_table
from backfill_assets.report.values import text_of


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
    assert all(
        re.fullmatch(r"gate silver.daily: still running after \d s: recording what was done", line) for line in said[1:]
    )


def test_after_a_long_silence_the_work_that_the_line_above_names_is_not_repeated(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with progress_listener("a set", quiet=False, silence_s=0.3) as listener:
        listener(Progress(step="stage", done=0, total=3, line="chunk 1 of 1", table="silver.daily"))
        time.sleep(0.5)
    assert set(capsys.readouterr().err.splitlines()) == {
        "stage silver.daily: chunk 1 of 1",
        "stage silver.daily: still running after 0 s",
    }


def test_after_a_long_silence_a_file_that_no_line_has_named_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_listener("sales", quiet=False, silence_s=0.3) as listener:
        for done in (1, 2):
            listener(Progress(step="land", done=done, total=305, line=f"{done}.csv"))
        time.sleep(0.5)
    assert "land: still running after 0 s: 2.csv\n" in capsys.readouterr().err


def test_a_stage_that_is_done_chunk_by_chunk_in_the_same_words_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_listener("a set", quiet=False) as listener:
        for line in ("measuring 31 days", "measuring 31 days", "measuring 28 days", "measuring 31 days"):
            listener(Progress(step="gate", done=0, total=90, line=line, table="silver.daily"))
        listener(Progress(step="gate", done=0, total=90, line="measuring 31 days", table="silver.other"))
    lines = [line.partition(": ")[2] for line in capsys.readouterr().err.splitlines()]
    assert lines == ["measuring 31 days", "measuring 28 days", "measuring 31 days", "measuring 31 days"]


def test_a_start_of_spark_that_takes_long_is_said_again(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    monkeypatch.setattr("backfill_assets.core.spark.open_spark", lambda _settings: time.sleep(0.5))
    quiet_spark(settings, quiet=False, silence_s=0.2)()
    said = capfd.readouterr().err.splitlines()
    assert said[0] == "starting Spark" and said[-1].startswith("Spark took ")
    assert 1 <= len(said[1:-1]) <= 2 and all("still running after" in line for line in said[1:-1])
    quiet_spark(settings, quiet=True, silence_s=0.2)()
    assert capfd.readouterr().err == ""


def test_a_busy_server_that_is_waited_for_is_named(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def slow(_settings: Settings) -> object:
        time.sleep(0.5)
        return object()

    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    monkeypatch.setattr("backfill_assets.core.spark.session_on_server", slow)
    for quiet, said in ((False, 2), (True, 0)):
        quiet_spark(settings, quiet=quiet, silence_s=0.2)()
        lines = capfd.readouterr().err.splitlines()
        assert len(lines) == said
        assert all(line.startswith("waiting for the Spark server: still running after ") for line in lines)


def test_a_file_that_was_rejected_whole_has_nothing_that_could_be_built() -> None:
    record = replace(landed("in/a.csv", note=""), state=ImportState.LANDED, counts=ImportCounts(landed=3))
    refused = replace(record, counts=ImportCounts(landed=3, rejected=3))
    states = [text_of(row[2]) for row in imports_table([record, refused]).rows]
    assert states == ["LANDED", "NOTHING ACCEPTED"]
    assert text_of(imports_table([replace(refused, state=ImportState.FAILED)]).rows[0][2]) == "FAILED"


def test_a_file_without_records_does_not_wait_for_anything() -> None:
    nothing = replace(landed("in/a.csv", note=""), state=ImportState.LANDED, counts=ImportCounts(landed=0))
    assert text_of(imports_table([nothing]).rows[0][2]) == "NO RECORDS"
    withdrawal = replace(nothing, family="statement")
    assert text_of(imports_table([withdrawal]).rows[0][2]) == "LANDED"


@pytest.mark.parametrize(
    ("quiet", "said"),
    [
        (
            False,
            "starting Spark\nSpark took 0 s to start: backfill up keeps it running for the next commands\n",
        ),
        (True, ""),
    ],
    ids=["to a person", "to a machine"],
)
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
        judged_at=datetime(2026, 1, 3, tzinfo=UTC),
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
    outcome = f"{days}: computed again with more input, the same rows; the other 86 days were not computed again"
    demands = "the first and last 5 partitions of a run, and those where chunks meet, are the same with more input"
    columns = ["gate", "verdict", "on failure", "demands, or the first failure"]
    console = Console(width=width, file=StringIO())
    row = ("counts_no_more_days_than_passed", outcome, "blocks", demands)
    show(console, page("Gates", table(columns, [row], whole=["gate"])))
    assert isinstance(console.file, StringIO)
    assert len(console.file.getvalue().splitlines()) <= 8


def test_the_id_of_a_run_is_not_broken_beside_long_texts() -> None:
    run_id, words = "sla_breach_monthly-20261127-8f2a39c7", "follows a publication of the days " * 3
    row = ("2026-11-27 04:00:23 UTC", "ROLLBACK", "gold.sla_breach_monthly", f"pub-1 {run_id}", words, words)
    heads = ["at", "what", "table", "publication and run", "partitions", "by, and why"]
    assert any(run_id in line for line in lines_of(160, table(heads, [row], whole=["at"])))


def lines_of(width: int, *blocks: Table) -> list[str]:
    console = Console(width=width, file=StringIO())
    show(console, page("Report", *blocks))
    assert isinstance(console.file, StringIO)
    lines = console.file.getvalue().splitlines()
    assert all(len(line) <= width for line in lines)
    return lines


def test_a_number_that_is_very_long_takes_no_room_from_labels_and_other_numbers() -> None:
    most = Moved(before=10**37, after=3 * 10**37, how_far=f"+{text_of(2 * 10**37)}, +200.0%")
    amounts = [Moved(before=Decimal("100000000000014.5"), after=0, how_far="-100,000,000,000,014.5, -100.0%"), most]
    rows: list[Sequence[Value]] = [("Amsterdam", 4, *amounts), ("Utrecht", 12_345, 3, 1.7976931348623157e308)]
    columns = ["town", "rows", "amount", "weight"]
    for width in (60, 120, 160):
        said = "\n".join(lines_of(width, table(columns, rows, numbers=columns[1:])))
        for part in ("Amsterdam", "Utrecht", "12,345", "100,000,000,000,014.5", "1.7976931348623157e+308", *columns):
            assert part in said, (width, part)
    assert "30" + ",000" * 12 in "".join(lines_of(160, table(columns, rows, numbers=columns[1:])))


def test_numbers_without_room_beside_the_others_follow_in_a_table_with_the_same_labels() -> None:
    measures = [f"measure_{number:02}" for number in range(30)]
    lines = lines_of(120, table(["town", *measures], [("Utrecht", *range(10**6, 10**6 + 30))], numbers=measures))
    said = " ".join(lines)
    assert all(name in said for name in measures)
    assert all(text_of(10**6 + number) in said for number in range(30))
    assert sum("Utrecht" in line for line in lines) == sum("town" in line for line in lines) > 1


@pytest.mark.parametrize("width", [140, 160])
def test_dates_and_names_of_tables_are_not_broken(width: int) -> None:
    extent = "2025-02-01..2025-05-01, 89 partitions swapped, 2 recorded as empty, 13 verified as equal, 1,423 rows"
    why = "ben: deadlines were computed in UTC, by the clock of the server (decided by the board)"
    ids = words(publication_ref("pub-20250601-0123456789"), " ", run_ref("bf-20250601-100000-abcdef"))
    row = ("2025-06-01 10:00:00 UTC", "PUBLISH", "silver.case_sla_daily", ids, extent, 3, why)
    columns = ["at", "what", "table", "publication and run", "partitions", "table version", "by, and why"]
    lines = lines_of(width, table(columns, [row], numbers=["table version"], whole=["at"]))
    said = " ".join(" ".join(lines).split())
    for part in (
        "2025-06-01 10:00:00 UTC",
        "silver.case_sla_daily",
        "2025-02-01..2025-05-01,",
        "bf-20250601-100000-abcdef",
        "pub-20250601-0123456789",
    ):
        assert part in said
