"""The command line converts texts, flags and what has a parser by itself, and leaves every other value to Typer."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from typer.main import get_command

from backfill_assets.main import app

PROGRAM = get_command(app)


def parsed(name: str, *given: str) -> dict[str, object]:
    """The values of a command, as it is called with these words."""
    words = [*given]
    with PROGRAM.make_context("backfill", [name]) as ctx:
        command = PROGRAM.get_command(ctx, name)  # type: ignore[attr-defined]
        if name == "plan":
            name, *words = words
            command = command.get_command(ctx, name)
        with command.make_context(name, words, parent=ctx) as found:
            return dict(found.params)


def test_a_value_that_is_no_text_is_converted_although_texts_beside_it_are_not() -> None:
    values = parsed("land", "sales", "one.csv", "two.csv", "--on-duplicate", "correct")
    assert list(values["files"]) == ["one.csv", "two.csv"]  # type: ignore[call-overload]
    assert values["on_duplicate"] == "correct"
    assert parsed("load", "sales", "--days", "days.txt", "--reason", "why")["days_file"] == Path("days.txt")


def test_a_number_is_what_its_parser_returns() -> None:
    days = ("--from", "2025-01", "--from", "2025-03-04")
    planned = parsed("plan", "table", "gold.sales", *days, "--max-rows", "1000", "--where", "a=b", "--where", "c=d")
    assert planned["max_rows"] == 1000
    assert planned["first"] == [date(2025, 1, 1), date(2025, 3, 4)]
    assert list(planned["where"]) == ["a=b", "c=d"]  # type: ignore[call-overload]
