"""What the terminal shows belongs to the command."""

from __future__ import annotations

import logging

from py4j import java_gateway

from backfill_assets.cli.console import is_not_of_py4j


def test_tracebacks_that_py4j_logs_of_an_interrupted_call_are_left_out() -> None:
    def logged_in(path: str) -> logging.LogRecord:
        return logging.LogRecord("root", logging.ERROR, path, 1, "KeyboardInterrupt while sending command.", (), None)

    assert not is_not_of_py4j(logged_in(java_gateway.__file__))
    assert is_not_of_py4j(logged_in(__file__))
