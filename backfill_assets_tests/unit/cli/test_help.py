"""What the command line says before it does anything: help, corrections of what was mistyped, and what is missing."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from backfill_assets import __version__
from backfill_assets.cli.groups import GROUPS
from backfill_assets.core.settings import PROJECT_ROOT
from backfill_assets.main import app
from backfill_assets_tests.support import commands as typed

COMMANDS = typed.commands()


def said(*words: str, code: int, columns: int = 80) -> str:
    ended = CliRunner(env={"COLUMNS": str(columns), "BACKFILL_USER": ""}).invoke(app, words)
    assert ended.exit_code == code, ended.output
    return ended.output


def test_help_lists_every_command_once_in_groups_with_summaries_that_end() -> None:
    lines = said("--help", code=0).splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert not any("..." in line for line in lines if "[OPTIONS]" not in line)
    place = 0
    for title, commands in GROUPS.items():
        place = lines.index(f"{title}:", place)
        shown = lines[place + 1 : place + 1 + len(commands)]
        assert [re.split(r"\s{2,}", line.strip()) for line in shown] == [[str(a), s] for a, s in commands.items()]
    assert sorted(str(act) for commands in GROUPS.values() for act in commands) == sorted(COMMANDS)


def test_the_page_of_commands_has_the_same_groups() -> None:
    page = (PROJECT_ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    found = {}
    for section in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        title, _, text = section.partition("\n")
        rows = re.findall(r"^\| (`.*?) \|", text, flags=re.MULTILINE)
        found[title] = {name for row in rows for name in typed.explained_in(row)}
    assert found == {title: {str(act) for act in commands} for title, commands in GROUPS.items()}


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["statsu"], "next: did you mean 'status'?"),
        (["status", "--jsn"], "--json"),
        (["plan", "table", "silver.x", "--form", "2025-01"], "--from"),
    ],
)
def test_what_was_meant_is_named(words: list[str], meant: str) -> None:
    assert meant in said(*words, code=1)


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        (
            ["plan", "table", "silver.x"],
            "refused: the days to plan are not given, no reason is given, and it is not stated who is acting. "
            "next: add --from DAY --to DAY --reason WHY --by NAME, or set BACKFILL_USER",
        ),
        (
            ["plan", "table", "silver.x", "--from", "2025-01", "--to", "2025-01", "--by", "ana"],
            "refused: no reason is given. next: add --reason WHY",
        ),
        (
            ["rollback", "RUN"],
            "refused: no reason is given, and it is not stated who is acting. "
            "next: add --reason WHY --by NAME, or set BACKFILL_USER",
        ),
        (
            ["cancel", "RUN", "--reason", "was a mistake"],
            "refused: it is not stated who is acting. next: add --by NAME, or set BACKFILL_USER",
        ),
    ],
    ids=["a plan", "a reason", "an undoing", "a name"],
)
def test_one_refusal_names_everything_that_is_missing(words: list[str], missing: str) -> None:
    assert " ".join(said(*words, code=1).split()) == missing


def test_the_version_is_that_of_the_package() -> None:
    assert said("--version", code=0) == f"backfill-assets {__version__}\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--hold", "0.01"], "'0.01' is not a whole number of hours from 1 upwards. next: write one, such as 1"),
        (["--phases", "0"], "'0' is not a whole number of phases from 1 upwards. next: write one, such as 1"),
        (["--pause", "-1"], "'-1' is not a whole number of seconds from 0 upwards. next: write one, such as 0"),
        (["--max-cost", "much"], "'much' is not a number above 0, of core seconds or"),
        (["--max-cost", "0"], "'0' is not a number above 0, of core seconds or"),
        (["--max-cost", "-5"], "'-5' is not a number above 0, of core seconds or"),
    ],
)
def test_a_number_that_is_none_is_refused_with_what_it_counts_and_from_where(words: list[str], sentence: str) -> None:
    shown = " ".join(said("plan", "table", "silver.x", *words, code=1, columns=200).split())
    assert f"refused: backfill plan table: invalid value for '{words[0]}': {sentence}" in shown


def test_a_number_that_is_too_large_is_refused_with_the_largest() -> None:
    asked = ["trace", "gold.x", "2025-01", "--rows", "501"]
    assert "'501' is not a whole number of rows from 1 to 500." in " ".join(said(*asked, code=1).split())


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        ("--nope", "backfill: no such option: --nope. next: see backfill -h"),
        ("nope", "backfill: no such command 'nope'. next: see backfill -h"),
        ("run", "backfill run: missing argument 'RUN'. next: see backfill run -h"),
        ("history x y", "backfill history: got unexpected extra argument(s) (y). next: see backfill history -h"),
        ("history x --partition", "backfill history: option '--partition' requires an argument. next: see backfill"),
        ("shadow nope", "backfill shadow: invalid value for 'DEED': 'nope' is not one of 'start', 'status', "),
        ("shadow", "backfill shadow: missing argument 'DEED'. Choose from: start, status, cut-over, stop. next: see"),
        ("status --watch --json", "backfill status: give either --watch or --json. next: see backfill status -h"),
        (
            "history x --partition 2025-13",
            "backfill history: invalid value for '--partition': '2025-13' is not in the calendar. "
            "next: write it as YYYY-MM-DD, such as 2006-07-01",
        ),
    ],
)
def test_wrong_usage_is_one_refusal_that_says_where_what_and_what_to_do(words: str, refusal: str) -> None:
    assert " ".join(said(*words.split(), code=1).split()).startswith(f"refused: {refusal}")


def test_the_program_without_a_command_shows_its_help() -> None:
    assert said(code=1).startswith("Usage: ")


def test_every_option_that_takes_a_day_says_where_its_days_begin() -> None:
    options = [
        (name, option)
        for name, command in COMMANDS.items()
        for option in command.params
        if re.search(r"\bDAY\b", option.metavar or "") or option.name in {"first", "last"}
    ]
    assert len(options) > 15
    assert [(name, option.name) for name, option in options if "UTC" not in (option.help or "")] == []
