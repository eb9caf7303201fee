"""What can be typed after `plan`: which options go together, and what names which days."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.cli.answers import days_given
from backfill_assets.core.errors import InvalidRange
from backfill_assets.main import app
from backfill_assets.planning.restatement import parse_because
from backfill_assets_tests.support.advice import advised

WHY = ("--reason", "why", "--by", "ana")
DAYS = ("--from", "2006-02-01", "--to", "2006-02-03")


def typed(*words: str) -> Result:
    return CliRunner().invoke(app, list(words), catch_exceptions=False)


def test_a_plan_of_nothing_is_wrong_usage() -> None:
    for words in (("table",), ("with-dependents", *DAYS), ("because",), ("expire", "--json")):
        result = typed("plan", *words, *WHY)
        assert result.exit_code == 1
        assert "missing argument" in " ".join(result.output.split()).lower()
    shown = typed("plan")
    assert shown.exit_code == 1
    assert all(each in shown.output for each in ("table", "with-dependents", "because", "stale", "expire"))


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("table", "silver.x", *DAYS), "--changed-code"),
        (("because", "bronze.x:2006-02"), "--changed-code"),
        (("because", "bronze.x:2006-02"), "--from"),
        (("stale",), "--kind"),
        (("with-dependents", "silver.x", *DAYS), "--where"),
        (("with-dependents", "silver.x", *DAYS), "--kind"),
        (("with-dependents", "silver.x", *DAYS), "--phases"),
        (("expire", "silver.x"), "--show"),
        (("expire", "silver.x"), "--from"),
    ],
)
def test_options_that_do_not_go_together_belong_to_different_commands(words: tuple[str, ...], option: str) -> None:
    result = typed("plan", *words, *WHY, option)
    assert result.exit_code == 1, result.output
    assert f"no such option: {option}" in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("table", "silver.x", *DAYS, "--name", "spring"), "--name, --hold and --approve-each are about phases"),
        (("table", "silver.x", *DAYS, "--where", "a=1", "--but", "a=2"), "both say which rows change"),
        (("because", "bronze.x:soon"), "'soon' is neither a date like 2006-07-01 nor a month"),
        (("because", "bronze.x:2006-02-30"), "'2006-02-30' is not in the calendar"),
        (("with-dependents", "silver.x"), "the days to plan are not given"),
        (("because", "bronze.x:2006-02-05.."), "has no last day"),
        (("table", "silver.x", *DAYS, "--max-rows", "0"), "from 1 upwards"),
        (("because", "bronze.x:2006-03..2006-02"), "the range is reversed"),
        (("stale", "--because", "bronze.x:2006-03..2006-02"), "the range is reversed"),
        (("table", "silver.x", *DAYS, "--from", "2006-02-09"), "--from is given 2 times and --to 1 time"),
        (
            ("table", "silver.x", *DAYS, "--from", "2006-02-09", "--to", "2006-02-08"),
            "the range is reversed: it starts on 2006-02-09",
        ),
        (("table", "silver.x", "--days", "nowhere.txt"), "nowhere.txt cannot be read: No such file or directory"),
    ],
)
def test_options_that_make_no_sense_together_are_refused_and_not_passed_over(
    words: tuple[str, ...], sentence: str
) -> None:
    result = typed("plan", *words, *WHY)
    assert result.exit_code == 1, result.output
    assert sentence in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("bronze.x:2006-02-03", date(2006, 2, 3), date(2006, 2, 3)),
        ("bronze.x:2006-02", date(2006, 2, 1), date(2006, 2, 28)),
        ("bronze.x:2006", date(2006, 1, 1), date(2006, 12, 31)),
        ("bronze.x:2006-02..2006-03", date(2006, 2, 1), date(2006, 3, 31)),
        ("bronze.x:2006-02-05..2006-02", date(2006, 2, 5), date(2006, 2, 28)),
    ],
)
def test_a_month_is_all_its_days(text: str, first: date, last: date) -> None:
    assert parse_because(text) == ("bronze.x", DayRange.inclusive(first, last))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"2006-02-01\n\nsoon\n", "line 3: 'soon' is neither a date like 2006-07-01 nor a month"),
        (b"2006-02-05..2006-02-01\n", "line 1: the range is reversed: '2006-02-05..2006-02-01' starts on 2006-02-05"),
        (b"2006-02-05..\n", "line 1: the range '2006-02-05..' has no last day"),
        (b"2006-02-30\n", "line 1: '2006-02-30' is not in the calendar"),
        (b"\n \n", "names no days"),
        ("2006-02-01\n".encode("utf-16"), "cannot be read: it is not UTF-8 text"),
    ],
)
def test_a_file_of_days_is_refused_for_its_first_line_that_names_none(
    tmp_path: Path, content: bytes, sentence: str
) -> None:
    file = tmp_path / "days.txt"
    file.write_bytes(content)
    result = typed("plan", "table", "silver.x", "--days", str(file), *WHY)
    assert result.exit_code == 1, result.output
    said = " ".join(result.stderr.split())
    assert sentence.replace(" ", "") in said.replace(" ", ""), said
    assert "days.txt" in said.replace(" ", "")


def test_days_of_a_file_and_of_options_are_one_whole_in_which_each_day_counts_once(tmp_path: Path) -> None:
    file = tmp_path / "days.txt"
    file.write_text("2006-02-01\n2006-02-03..2006-02-05\r\n\n 2006-02-04 .. 2006-02-06 \n2006-03\n2006-02-01\n")
    found = days_given([date(2006, 2, 8)], [date(2006, 2, 9)], file)
    ends = [(date(2006, 2, 1), date(2006, 2, 1)), (date(2006, 2, 3), date(2006, 2, 6))]
    ends += [(date(2006, 2, 8), date(2006, 2, 9)), (date(2006, 3, 1), date(2006, 3, 31))]
    assert found is not None and found.ranges == tuple(DayRange.inclusive(*each) for each in ends)
    one = date(2006, 2, 2)
    assert days_given([one], [one], None) == DayRange.inclusive(one, one)
    assert days_given(None, None) is None


def test_days_without_a_table_are_refused() -> None:
    with pytest.raises(InvalidRange, match="does not name the days of a table") as refused:
        parse_because("2006-02-03")
    assert advised(refused.value) == "write it like TABLE:2006-03-15..2006-03-20", "of no domain in particular"


@pytest.mark.parametrize(
    "words",
    [("plan", "table", "silver.x", *WHY), ("stale",), ("replay", "x", "--into", "topic", *WHY), ("load", "x", *WHY)],
)
@pytest.mark.parametrize("end", [DAYS[:2], DAYS[2:]], ids=["from", "to"])
def test_one_end_of_a_range_alone_is_refused_with_what_to_add(words: tuple[str, ...], end: tuple[str, ...]) -> None:
    result = typed(*words, *end)
    assert result.exit_code == 1
    said = " ".join(result.output.split())
    assert "refused: only one end of the range was given. next: add the other: both --from DAY and --to DAY" in said


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "table", "silver.x", *DAYS),
        ("plan", "stale"),
        ("rollback", "bf-1"),
        ("cancel", "bf-1"),
        ("erase", "bf-1"),
        ("follow", "--cancel", "pub-1"),
        ("withdraw", "events", "--key", "event_id=e1"),
        ("restore", "imp-000001"),
    ],
)
@pytest.mark.parametrize("given", [(), ("--reason", " ")])
def test_every_decision_without_a_reason_is_refused_in_the_same_words(
    words: tuple[str, ...], given: tuple[str, ...]
) -> None:
    result = typed(*words, "--by", "ana", *given)
    assert (result.exit_code, result.stderr) == (1, "refused: no reason is given.\nnext: add --reason WHY\n")


@pytest.mark.parametrize(
    "words", [("plan", "table", "silver.x", *DAYS, *WHY), ("history", "silver.x"), ("stale", "silver.x")]
)
def test_a_table_that_does_not_exist_is_refused_with_what_to_do_next(words: tuple[str, ...]) -> None:
    result = typed(*words)
    assert result.exit_code == 1
    assert "there is no table 'silver.x'; the tables are bronze.case_events" in result.stderr
    assert "next: name one of these; backfill status shows what each holds" in result.stderr


def test_a_release_that_is_not_declared_is_refused_with_how_one_is_kept() -> None:
    result = typed("plan", "table", "silver.case_sla_daily", *DAYS, *WHY, "--transform-version", "1.0.0")
    assert result.exit_code == 1
    assert "there is no transform version '1.0.0'; the transform versions are" in result.stderr
    kept = 'earlier={"1.0.0": FUNCTION}'
    assert f"next: name one of these, or keep it runnable where the table is declared: {kept}" in result.stderr


@pytest.mark.parametrize(
    "words", [("freeze", "silver.x", *DAYS, *WHY, "--until"), ("trace", "silver.x", "2006-02-01", "a=1", "--at")]
)
def test_a_mistyped_time_is_wrong_usage_and_shown_as_it_is_written(words: tuple[str, ...]) -> None:
    result = typed(*words, "tomorrow")
    assert result.exit_code == 1
    said = " ".join(result.output.split())
    assert "'tomorrow' is not a time in UTC. next: write it like 2026-03-10T08:00, or as a day" in said


@pytest.mark.parametrize(
    ("day", "meant"), [("2006-2-1", "2006-02-01"), ("2006-2", "2006-02"), ("20060203", "2006-02-03")]
)
@pytest.mark.parametrize(
    "words", [("plan", "table", "silver.x", *WHY, "--to", "2006-03-01", "--from"), ("trace", "silver.x")]
)
def test_a_day_in_another_form_is_refused_with_how_it_is_written(words: tuple[str, ...], day: str, meant: str) -> None:
    result = typed(*words, day)
    assert result.exit_code == 1
    assert f"next: write it as {meant}" in " ".join(result.output.replace("│", " ").split())


@pytest.mark.parametrize("day", ["01.02.2006", "2006-02-30", "soon"])
@pytest.mark.parametrize(
    "words", [("plan", "table", "silver.x", *WHY, "--to", "2006-03-01", "--from"), ("trace", "silver.x")]
)
def test_a_mistyped_day_is_refused_with_its_form(words: tuple[str, ...], day: str) -> None:
    result = typed(*words, day)
    assert result.exit_code == 1
    assert "next: write it as YYYY-MM-DD, such as 2006-07-01" in " ".join(result.output.replace("│", " ").split())


def test_a_source_of_files_is_not_captured_and_the_command_that_lands_them_is_named() -> None:
    result = typed("capture", "case_events", *DAYS, *WHY)
    assert result.exit_code == 1
    assert (
        "next: land its files instead, with their paths after it: backfill land case_events --by NAME" in result.stderr
    )


@pytest.mark.parametrize(
    ("words", "sentence", "advice"),
    [
        (("--reason", "why"), "--where, --reason, --confirmed-by and --dry-run are about complete", "add --replaces"),
        (("--dry-run",), "--where, --reason, --confirmed-by and --dry-run are about complete", "add --replaces"),
        (("--replaces", "2024-12-12..2024-12-10"), "the range is reversed", "2024-12-10..2024-12-12"),
        (("--replaces", "2024-12-12.."), "has no last day", "write it like 2006-07-01..2006-07-31"),
        (("--replaces", "12.12.2024"), "neither a date like 2006-07-01", "write it like 2006-07-01"),
        (
            ("--replaces", "2024", "--where", "town"),
            "--where 'town' is not COLUMN=VALUE",
            "write it like --where COLUMN=VALUE",
        ),
        (("--replaces", "2024", "--on-duplicate", "correct"), "land again even where equal files landed before", ""),
    ],
)
def test_what_says_that_files_are_a_complete_extract_is_refused_before_any_of_them_is_read(
    words: tuple[str, ...], sentence: str, advice: str
) -> None:
    result = typed("land", "events", "no-such-file.jsonl", "--by", "ana", *words)
    assert result.exit_code == 1, result.output
    assert sentence in " ".join(result.stderr.split())
    assert advice in " ".join(result.stderr.split())
