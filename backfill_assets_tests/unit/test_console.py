"""What the terminal shows belongs to the command."""

from __future__ import annotations

import logging

import pytest
from py4j import java_gateway

from backfill_assets.cli.console import is_not_of_py4j, progress_listener
from backfill_assets.progress import Progress


def test_tracebacks_that_py4j_logs_of_an_interrupted_call_are_left_out() -> None:
    def logged_in(path: str) -> logging.LogRecord:
        return logging.LogRecord("root", logging.ERROR, path, 1, "KeyboardInterrupt while sending command.", (), None)

    assert not is_not_of_py4j(logged_in(java_gateway.__file__))
    assert is_not_of_py4j(logged_in(__file__))


def test_a_line_of_progress_names_its_table_and_that_of_several_tables_does_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with progress_listener("a set", quiet=False) as listener:
        listener(Progress(step="stage", done=0, total=3, sentence="chunk 1 of 3", table="silver.daily"))
        listener(Progress(step="land", done=0, total=3, sentence="january.csv"))
    assert capsys.readouterr().err == "stage silver.daily: chunk 1 of 3\nland: january.csv\n"
