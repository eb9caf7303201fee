"""Answers: what all commands share, such as options, printing and the handling of errors."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from backfill_assets import __version__
from backfill_assets.calendar.partitions import (
    DayRange,
    Days,
    MalformedDays,
    count_of,
    days_between,
    days_in,
    days_named,
    instant_named,
    moment_named,
)
from backfill_assets.cli.groups import CommandGroup
from backfill_assets.core.errors import BackfillError, InvalidRange
from backfill_assets.core.next_steps import Command, NextStep, do, step
from backfill_assets.core.wording import fault_of
from backfill_assets.report.command_line import words_of
from backfill_assets.report.documents import as_json
from backfill_assets.report.errors import Malformed, NotGiven

if TYPE_CHECKING:
    # These take long to import, and `--help` does not need them.
    from rich.console import Console

Parsed = TypeVar("Parsed")


def documentation() -> Path:
    """The first page of the documentation: of the checkout, or of the wheel that has a copy of it."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "documentation"
    return (inside if inside.exists() else package.parent / "docs") / "README.md"


app = typer.Typer(
    name="backfill",
    cls=CommandGroup,
    help="Backfills as controlled production changes: plan, stage, gate, swap, undo, and keep the evidence.",
    epilog=f"Documentation: {documentation()}",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"backfill-assets {__version__}\n")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


def typed(parse: Callable[[str], Parsed], how: str) -> Callable[[str | Parsed], Parsed]:
    """The parser of what a person types; what is parsed already, such as a default, stays.

    Args:
        parse: Raises `InvalidRange`.
        how: How it is written.
    """

    def parsed(text: str | Parsed) -> Parsed:
        if not isinstance(text, str):
            return text
        try:
            return parse(text)
        except InvalidRange as error:
            meant = f"as {error.example}" if isinstance(error, MalformedDays) and error.is_meant else how
            raise typer.BadParameter(f"{error.message} next: write it {meant}") from None

    return parsed


_AS_A_DAY = "as YYYY-MM-DD, such as 2006-07-01"
_AS_ONE_PARTITION = "as YYYY-MM-DD, such as 2006-07-01, or, of a monthly table, as YYYY-MM"
_AS_A_TIME = "like 2026-03-10T08:00, or as a day"

day = typed(lambda text: days_named(text).start, _AS_A_DAY)
"""The first day that a person names: 2006-07-01, or by the month or the year that it begins."""

last_day = typed(lambda text: days_named(text).last, _AS_A_DAY)
"""The last day that a person names: a month and a year are all their days."""

days_of_one = typed(days_named, _AS_ONE_PARTITION)
"""The days of one partition, as a person names it."""

instant = typed(instant_named, _AS_A_TIME)
"""The instant in UTC that a person names; of a day, its beginning."""

moment = typed(moment_named, _AS_A_TIME)
"""The time in UTC that a person names, or the days whose end is meant."""


def range_given(first: date | None, last: date | None) -> DayRange | None:
    """The days of `--from` and `--to`; None without them.

    Raises:
        Refused: Only one of the two is given.
    """
    if (first is None) != (last is None):
        raise NotGiven(why="only one end of the range was given", add="the other: both --from DAY and --to DAY")
    return DayRange.inclusive(first, last) if first and last else None


def days_given(first: Sequence[date] | None, last: Sequence[date] | None, file: Path | None = None) -> Days | None:
    """The days of every `--from` with the `--to` of the same place, and of a file; None without them. Days that are
    named more than once count once.

    Raises:
        Refused: Some `--from` has no `--to`, a range is reversed, or a line of the file names no days.
    """
    first, last = first or (), last or ()
    if len(first) + len(last) == 1:
        range_given(*(next(iter(given), None) for given in (first, last)))
    if len(first) != len(last):
        why = f"--from is given {count_of(len(first), 'time')} and --to {count_of(len(last), 'time')}"
        raise NotGiven(why=why, add="the other end of each range: --from DAY --to DAY --from DAY --to DAY")
    ranges = [DayRange.inclusive(*ends) for ends in zip(first, last, strict=True)]
    if file is not None:
        ranges += _days_of_file(file)
    return days_in(ranges) if ranges else None


_A_FILE = "a file with lines like 2006-07-01..2006-07-31"


def _days_of_file(file: Path) -> Sequence[DayRange]:
    """The ranges of a file: a day, a month, a year or a range `A..B` on each line."""
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else error.strerror
        raise MalformedDays(
            why=f"{file} cannot be read: {why}", example="a file of lines like 2006-07-01..2006-07-31"
        ) from None
    found = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                found.append(days_between(line.strip()))
            except MalformedDays as error:
                why = f"{file}, line {number}: {error.why}"
                raise MalformedDays(why=why, example=error.example) from None
    if not found:
        raise MalformedDays(why=f"{file} names no days", example=_A_FILE)
    return found


def one_line(value: str | None) -> str | None:
    """Refuses control characters, marks that change the direction of writing, and texts that are too long."""
    fault = fault_of(value) if value is not None else None
    if fault:
        raise typer.BadParameter(f"it {fault}")
    return value


def lines(values: list[str] | None) -> list[str] | None:
    """The completed lines of an option that can be given several times."""
    for value in values or ():
        one_line(value)
    return values


def columns_and_values(given: list[str], option: str) -> Mapping[str, str]:
    """Columns and values, from `COLUMN=VALUE`.

    Raises:
        Refused: One has another form, or a column is named twice.
    """
    values: dict[str, str] = {}
    for text in given:
        column, equals, value = text.partition("=")
        if not equals or not column.strip() or column.strip() in values:
            raise Malformed(
                what=option,
                value=text[:100],
                form="COLUMN=VALUE, each column once",
                example=f"{option} COLUMN=VALUE".removeprefix("KEY "),
            )
        values[column.strip()] = value
    return values


def whole_number(unit: str, *, least: int = 1, most: int | None = None) -> Callable[[str | int], int]:
    """The parser of a whole number.

    Args:
        unit: What it counts, in the plural; empty where it has no unit.
    """

    def parsed(text: str | int) -> int:
        typed = str(text)
        if not re.fullmatch("[0-9]{1,12}", typed) or not least <= int(typed) <= (most or int(typed)):
            of, upwards = f" of {unit}" if unit else "", f"to {most:,}" if most else "upwards"
            raise typer.BadParameter(
                f"{typed[:100]!r} is not a whole number{of} from {least:,} {upwards}. next: write one, such as {least}"
            )
        return int(typed)

    return parsed


def text(*names: str, **declared: Any) -> Any:
    """An option that is one line; arguments as for `typer.Option`."""
    return typer.Option(*names, callback=one_line, **declared)


def argument(**declared: Any) -> Any:
    """An argument that is one line; arguments as for `typer.Argument`."""
    return typer.Argument(callback=one_line, **declared)


def arguments(**declared: Any) -> Any:
    """Arguments that are lines, one or more; arguments as for `typer.Argument`."""
    return typer.Argument(callback=lines, **declared)


def texts(*, metavar: str = "COLUMN=VALUE", **declared: Any) -> Any:
    """An option of lines that can be given several times."""
    return typer.Option(callback=lines, metavar=metavar, **declared)


def number(unit: str, *, least: int = 1, most: int | None = None, metavar: str = "N", **declared: Any) -> Any:
    """An option that is a whole number; see `whole_number`."""
    return typer.Option(parser=whole_number(unit, least=least, most=most), metavar=metavar, **declared)


def cost(text: str | Decimal) -> Decimal:
    """The most that something may cost, in core seconds or money."""
    typed = str(text)
    if not re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,9})?", typed) or not Decimal(typed):
        raise typer.BadParameter(
            f"{typed[:100]!r} is not a number above 0, of core seconds or, where "
            "BACKFILL_CORE_HOUR_PRICE is set, of its currency. next: write one, such as 3600"
        )
    return Decimal(typed)


OnDuplicate = Literal["ignore", "reprocess", "correct", "reject"]
Json = Annotated[bool, typer.Option("--json", help="Print stable JSON instead of text.")]
By = Annotated[str, text("--by", envvar="BACKFILL_USER", help="Who is acting (default: $BACKFILL_USER).")]
ByAccount = Annotated[
    str,
    text(
        "--by",
        envvar="BACKFILL_USER",
        help="Who is acting (default: $BACKFILL_USER, or the account that the process belongs to).",
    ),
]
OF_ONE_PARTITION = "one partition: a day (of a source, a UTC date), or a month."
OF_PARTITIONS = "inclusive; partitions of a source are UTC dates"
OF_THE_SOURCE = "inclusive, by the clocks of the source's timezone (default: UTC)"
"""What the days are that a person names: those of partitions, or those of the records of a source."""


def first_day(of: str, *, more: str = "") -> Any:
    """The option `--from`."""
    return typer.Option("--from", parser=day, metavar="DAY", help=f"First day or month, {of}{more}.")


def final_day(of: str, *, more: str = "") -> Any:
    """The option `--to`."""
    return typer.Option("--to", parser=last_day, metavar="DAY", help=f"Last day or month, {of}{more}.")


From = Annotated[date, first_day(OF_PARTITIONS)]
To = Annotated[date, final_day(OF_PARTITIONS)]
EveryFrom = Annotated[list[date] | None, first_day(OF_PARTITIONS, more="; with --to. Both again for another range")]
EveryTo = Annotated[list[date] | None, final_day(OF_PARTITIONS, more="; with --from")]
DaysFile = Annotated[
    Path | None,
    typer.Option("--days", metavar="FILE", help="Days of a file: a day, month, or range DAY..DAY on each line."),
]
RunId = Annotated[str, argument(metavar="RUN", help="A run's id, as `plan` and `status` print it.")]
RunOrSet = Annotated[str, argument(metavar="RUN", help="A run's or a set's id, as `plan` and `status` print it.")]
Reason = Annotated[str, text(help="Why.")]
SourceName = Annotated[str, argument(metavar="SOURCE", help="A source, such as case_events.")]
RunMode = Literal["backfill", "replay", "dry-run", "reconciliation"]
TableName = Annotated[str, argument(metavar="TABLE", help="A table, such as silver.case_sla_daily.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorDocument:
    """The document of a command that ended with an error."""

    error: BackfillError  #: The error.


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A command's answer, on standard output."""

    console: Console  #: For what is not a document.
    as_json: bool

    def __call__(
        self, document: object, *, as_line: str = "", following: NextStep | None = None, failed: bool = False
    ) -> None:
        """Prints a document: as JSON, or the page of it.

        Args:
            as_line: A line in place of its page.
            following: What is left to do besides what the page says.
            failed: Whether a person has to look at something; everything else was done.

        Raises:
            Exit: With code 1, after what has failed was printed.
        """
        if self.as_json:
            print_json(document)
        elif as_line:
            self.console.print(as_line, soft_wrap=True, highlight=False)
        else:
            from backfill_assets.cli.terminal import show
            from backfill_assets.report.pages import page_of

            show(self.console, page_of(document), *([step("next: ", following)] if following else []))
        if failed:
            raise typer.Exit(1)


@contextmanager
def answering(as_json: bool) -> Iterator[Answer]:
    """Runs a command and prints its answer; a refusal becomes one sentence and exit code 1."""
    from backfill_assets.cli.console import terminal

    try:
        yield Answer(console=terminal(sys.stdout), as_json=as_json)
    except BackfillError as error:
        if error.__cause__ is not None:
            from backfill_assets.cli.last_resort import show_trace

            show_trace(error)
        _explain(error, as_json=as_json)
        raise typer.Exit(error.exit_code) from None
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except BrokenPipeError:
        # The reader of the output has ended, as `head` does; Python would report it again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        raise typer.Exit(1) from None
    except Exception as error:  # noqa: BLE001 - the last resort: a person reads one sentence, the file has the rest
        from backfill_assets.cli.last_resort import unexpected

        failure = unexpected(error)
        _explain(failure, as_json=as_json)
        raise typer.Exit(failure.exit_code) from None
    except KeyboardInterrupt:
        sys.stderr.write(
            "\ninterrupted. next: the command again; "
            f"{words_of(do(Command.STATUS))} shows whether something was left unfinished\n"
        )
        raise typer.Exit(130) from None


def _explain(error: BackfillError, *, as_json: bool) -> None:
    if as_json:
        print_json(ErrorDocument(error=error))
    else:
        from backfill_assets.cli.terminal import print_error

        print_error(error)


def print_json(document: object) -> None:
    """JSON on standard output, for machines."""
    values = as_json(document)
    text = json.dumps(values, indent=2, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:  # what this output's encoding lacks, or half a character
        text = json.dumps(values, indent=2)
    sys.stdout.write(text + "\n")
