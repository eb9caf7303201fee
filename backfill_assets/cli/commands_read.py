"""Commands that only read: answers, the desk for people, rows that differ, metrics and exports for machines."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from backfill_assets.calendar.partitions import DayRange, count_of
from backfill_assets.cli.answers import (
    OF_ONE_PARTITION,
    OF_PARTITIONS,
    OF_THE_SOURCE,
    By,
    ByAccount,
    DaysFile,
    EveryFrom,
    EveryTo,
    Json,
    RunId,
    RunOrSet,
    SourceName,
    TableName,
    answering,
    app,
    argument,
    columns_and_values,
    days_given,
    days_of_one,
    final_day,
    first_day,
    last_day,
    lines,
    moment,
    number,
    print_json,
    range_given,
    text,
    texts,
)
from backfill_assets.cli.session import acting_name, opened, person_or_account, surroundings
from backfill_assets.report.errors import NotGiven, NotTogether

# The commands that look and change nothing: answers, the desk for people, metrics and exports for machines.


@app.command()
def report(
    run: RunOrSet,
    html: Annotated[str, text(metavar="FILE", help="Write the report as one self-contained HTML file.")] = "",
    page: Annotated[bool, typer.Option("--page", help="The same, as reports/RUN.html in the home.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print short Markdown instead of text.")] = False,
    as_json: Json = False,
) -> None:
    """Show a reviewer the verdict, the rows that change, the gates that passed, and some rows before and after."""
    with answering(as_json) as answer, opened(conditions=False) as session:
        if html or page:
            from backfill_assets.application.report import default_file, write_html

            written = write_html(session.ws, run, Path(html) if html else default_file(session.ws, run))
            answer(written, as_line=str(written.file))
        elif markdown:
            from backfill_assets.application.report import report_markdown

            sys.stdout.write(report_markdown(session.ws, run))
        else:
            answer(session.request(run).report())


@app.command()
def status(
    run: Annotated[str | None, argument(metavar="RUN", help="Only this run, set, or other work with an id.")] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Refresh every two seconds, with the work in progress, until Ctrl-C.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the accepted rows of every table, the newest runs, and the work that waits for a person."""
    if watch and as_json:
        raise typer.BadParameter("give either --watch or --json")
    with answering(as_json) as answer:
        if watch:
            from backfill_assets.cli.watch import watch_status

            with opened(conditions=False) as session:
                watch_status(session.ws, run, answer.console)
            return
        from backfill_assets.application import look
        from backfill_assets.report.status import StatusDocument

        with opened(conditions=False) as session:
            document = look.status(session.ws, run)
        answer(document, failed=isinstance(document, StatusDocument) and bool(document.problems))


@app.command()
def stale(
    table: Annotated[str | None, argument(metavar="TABLE", help="Only this table.")] = None,
    first: EveryFrom = None,
    last: EveryTo = None,
    days_file: DaysFile = None,
    as_json: Json = False,
) -> None:
    """List the partitions that no longer follow from their inputs, code, configuration and references, and why."""
    with answering(as_json) as answer:
        from backfill_assets.application import look

        days = days_given(first, last, days_file)
        with opened(conditions=False) as session:
            document = look.stale(session.ws, table, days)
        answer(document)


@app.command()
def history(
    table: TableName,
    partition: Annotated[
        DayRange | None,
        typer.Option(parser=days_of_one, metavar="DAY", help=f"Every version of {OF_ONE_PARTITION}"),
    ] = None,
    as_json: Json = False,
) -> None:
    """List every publication of a table; with --partition, every version of the partition and its run."""
    with answering(as_json) as answer:
        from backfill_assets.application import look

        with opened(conditions=False) as session:
            document = look.history(session.ws, table, partition)
        answer(document)


@app.command()
def trace(
    table: TableName,
    partition: Annotated[DayRange, typer.Argument(parser=days_of_one, metavar="DAY", help=f"Of {OF_ONE_PARTITION}")],
    key: Annotated[
        list[str] | None,
        typer.Argument(metavar="COLUMN=VALUE", callback=lines, help="The key of the row, one word per column."),
    ] = None,
    at: Annotated[
        Any,
        typer.Option(
            metavar="DAY|TIME",
            parser=moment,
            help="As readers saw it at this time in UTC, such as 2025-03-10T08:00, or at the end of a day.",
        ),
    ] = None,
    rows: Annotated[
        int | None, number("rows", most=500, help="The most unchanged rows of each table to follow (default: 20).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Follow a number to what changed it last, its publications, requester and approver, rows and landed records."""
    with answering(as_json) as answer:
        from backfill_assets.application import look

        alone = [word for word in key or [] if "=" not in word]
        values = columns_and_values([word for word in key or [] if "=" in word], "KEY")
        with opened(conditions=False) as session:
            seen = look.shown(session.ws, table, at)
            if alone:
                raise look.word_without_value(session.ws, seen, partition, alone[0])
            document = look.trace(session.ws, seen, partition, values, at, most=rows)
        answer(document)


@app.command()
def code(
    named: Annotated[str, argument(metavar="DIGEST|RUN", help="A code digest, from 8 digits on, or a run.")],
    other: Annotated[str | None, argument(metavar="OTHER", help="Another one: how the first differs from it.")] = None,
    lines_too: Annotated[bool, typer.Option("--lines", help="Print the lines as well.")] = False,
    to: Annotated[str, text(metavar="FOLDER", help="Write the modules to a new folder.")] = "",
    as_json: Json = False,
) -> None:
    """The lines of the modules that a code digest stands for; of two, how they differ."""
    with answering(as_json) as answer:
        from backfill_assets.application import look

        if other and (to or lines_too):
            raise typer.BadParameter("give either two codes to compare, or --lines or --to with one")
        with opened(conditions=False) as session:
            if other:
                document: object = look.code_difference(session.ws, named, other)
            else:
                document = look.code(session.ws, named, texts=lines_too, folder=Path(to) if to else None)
        answer(document)


@app.command()
def locate(
    source: SourceName,
    first: Annotated[date, first_day(OF_THE_SOURCE)],
    last: Annotated[date, final_day(OF_THE_SOURCE)],
    as_json: Json = False,
) -> None:
    """List the imports with records of these days, how late they came, and the partitions that depend on them."""
    with answering(as_json) as answer:
        from backfill_assets.report.locate import locate as located

        with opened(conditions=False) as session:
            document = located(session.ws, source, DayRange.inclusive(first, last))
        answer(document)


@app.command()
def check(
    table: Annotated[
        str | None, argument(metavar="TABLE", help="Measure the accepted rows of this table with its present gates.")
    ] = None,
    first: EveryFrom = None,
    last: EveryTo = None,
    days_file: DaysFile = None,
    gate: Annotated[list[str] | None, texts(metavar="GATE", help="Only this gate; again for another one.")] = None,
    by: ByAccount = "",
    as_json: Json = False,
) -> None:
    """Compare the domain with the published tables; with a TABLE, measure its accepted rows with its present gates."""
    with answering(as_json) as answer:
        if table is not None:
            days = days_given(first, last, days_file)
            with opened(quiet=as_json) as session:
                from backfill_assets.application.check import check as check_table

                acting = session.acting(person_or_account(by), on=table)
                found = check_table(session.ws, acting, table, days, gates=gate or ())
            answer(found, failed=not found.passes)
            return
        if first or last or days_file or gate:
            raise NotGiven(why="no table is named whose rows are checked", add="TABLE")
        from backfill_assets.application import look

        with opened(quiet=as_json, begins=True) as session:
            document = look.check(session.ws, session.listener(on="the domain"))
        answer(document, failed=not document.agrees)


@app.command()
def doctor(as_json: Json = False) -> None:
    """Check everything that the commands need: Java, Spark and its jars, ledger, clock, space, the lake's store."""
    with answering(as_json) as answer:
        from backfill_assets.application import look
        from backfill_assets.cli.console import progress_listener

        examined = opened(conditions=False, begins=True, examines=True)
        with examined as session, progress_listener("this set-up", quiet=as_json) as listener:
            document = look.doctor(session.ws, listener)
        answer(document, failed=not document.is_sound)


@app.command()
def audit(
    head: Annotated[
        str | None, text(help="A head that an earlier audit printed; the event chain must still contain it.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Do not read the bytes of files.")] = False,
    as_json: Json = False,
) -> None:
    """Verify that events, rows, tables, published and landed files match the ledger."""
    with answering(as_json) as answer:
        from backfill_assets.application import look

        with opened(quiet=as_json, conditions=False) as session:
            document = look.audit(session.ws, session.listener(on="the ledger"), head=head, is_quick=quick)
        answer(document, failed=not document.agrees)


@app.command()
def reproduce(
    run: RunId,
    sample: Annotated[
        int | None, number("partitions", help="How many partitions, spread over the run (default: all).")
    ] = None,
    from_raw: Annotated[
        bool,
        typer.Option("--from-raw", help="Rebuild its inputs as well, from the bytes of the landed files."),
    ] = False,
    by: By = "reproduce",
    as_json: Json = False,
) -> None:
    """Rebuild a published run from its manifest in a separate place, and compare the rows."""
    with answering(as_json) as answer:
        with opened(quiet=as_json) as session:
            acting = session.acting(acting_name(by), on=run)
            document = session.request(run).reproduce(acting, sample=sample, from_raw=from_raw)
        answer(document, failed=not document.identical)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeskDocument:
    """Where the desk is."""

    url: str  #: The address of its first page, on this machine alone.


@app.command()
def desk(
    port: Annotated[
        int | None, number("", most=65_535, help="A port of this machine; any free one by default.")
    ] = None,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the pages in the browser as well.")] = False,
    as_json: Json = False,
) -> None:
    """Serve read-only pages for auditors on this machine until Ctrl-C: runs, calendar, origin of a number."""
    with answering(as_json) as answer:

        def ready(url: str) -> None:
            answer(DeskDocument(url=url), as_line=f"{url}  (read-only; Ctrl-C ends it)")
            if open_browser:
                typer.launch(url)

        with opened(conditions=False) as session:
            surroundings().serving(session.ws, port, ready)


@app.command()
def export(
    what: Annotated[Literal["runs", "publications"], typer.Argument(metavar="WHAT", help="runs or publications.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A .csv, .jsonl or .parquet file, which is replaced.")],
    as_json: Json = False,
) -> None:
    """Write all runs or publications to a file for other programs, a row each."""
    with answering(as_json) as answer:
        from backfill_assets.application.export import export as export_view
        from backfill_assets.ledger.views import View

        with opened(conditions=False) as session:
            document = export_view(session.ws, View(what), file)
        answer(document, as_line=f"{document.file}: {count_of(document.rows, 'row')}")


@app.command()
def metrics(as_json: Json = False) -> None:
    """Print the metrics in the text format of Prometheus, as `/metrics` of the desk serves them."""
    with answering(as_json):
        from backfill_assets.application import look
        from backfill_assets.application.metrics import metrics_text

        with opened(conditions=False) as session:
            document = look.metrics(session.ws, None, look.staleness(session.ws))
        if as_json:
            print_json(document)
        else:
            sys.stdout.write(metrics_text(document))


# The command `diff`, which lists every row that differs.

RowKind = Literal["added", "removed", "changed"]


@app.command()
def diff(
    named: Annotated[str, argument(metavar="RUN|TABLE", help="A run or a set; or a table, with two of --as-of.")],
    table: Annotated[str | None, text(help="Only this table of a set.")] = None,
    as_of: Annotated[
        list[str] | None,
        texts(
            metavar="RUN|DAY|TIME|vN",
            help="Of TABLE, the earlier state; once more, the later one: what readers saw once a run was published, at "
            "the end of a day, at a time in UTC, or in version N of the Delta table.",
        ),
    ] = None,
    first: Annotated[date | None, first_day(OF_PARTITIONS, more="; of TABLE")] = None,
    kind: Annotated[RowKind | None, typer.Option(help="Only rows that are added, removed or changed.")] = None,
    columns: Annotated[str, text(metavar="A,B", help="Compare and show only these columns, besides the key.")] = "",
    where: Annotated[
        str,
        text(metavar="SQL", help="Only rows that fulfil this condition before or after, in DuckDB's SQL."),
    ] = "",
    to: Annotated[
        list[str] | None,
        texts(
            metavar="FILE|DAY",
            help="Write all rows to a .parquet, .csv or .jsonl file. Of a set of several tables, one file for each: "
            f"changed.TABLE.parquet for changed.parquet. With --from, its last day or month, {OF_PARTITIONS}.",
        ),
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="With --to: replace a file that exists.")] = False,
    as_json: Json = False,
) -> None:
    """List every row that a run or set adds, removes or changes, or that differs between two states of a table."""
    with answering(as_json) as answer, opened(conditions=False) as session:
        from backfill_assets.application.diff import diff_of, diff_of_states, wanted_rows

        compared = [name for name in map(str.strip, columns.split(",")) if name]
        wanted = wanted_rows(kind, compared, where.strip())
        (last, file), ws = _day_and_file(to or []), session.ws
        if first and file and not last:
            raise NotGiven(
                why="--to names a file, and the last day is not given", add="--to DAY as well, a second --to"
            )
        days = range_given(first, last)
        if as_of or any(named in (each.name, each.short_name) for each in ws.domain.tables.values()):
            if as_of is None or len(as_of) != 2 or not all(map(str.strip, as_of)):
                raise NotGiven(why=f"which two states of {named} are compared is not given", add="--as-of A --as-of B")
            if table is not None:
                raise NotTogether(why="--table chooses a table of a set", leave="--table", instead="name only TABLE")
            before, after = as_of
            found = diff_of_states(ws, named, before, after, wanted, days=days, to=file, replaces=replace)
        else:
            if days is not None:
                why = "--from and --to choose days of a table, and a run or set is compared on all of its days"
                raise NotTogether(why=why, leave="--from and --to", instead="choose rows with --where")
            found = diff_of(ws, named, wanted, table=table, to=file, replaces=replace)
        answer(found)


def _day_and_file(given: list[str]) -> tuple[date | None, Path | None]:
    """The last day of a range, the file, or both, that `--to` names."""
    days = [last_day(each) for each in given if _NAMES_DAYS.fullmatch(each)]
    files = [Path(each) for each in given if not _NAMES_DAYS.fullmatch(each)]
    if len(files) > 1 or len(days) > 1:
        raise NotTogether(
            why="--to names one file, and one last day", leave="one --to", instead="give the command twice"
        )
    return next(iter(days), None), next(iter(files), None)


_NAMES_DAYS = re.compile("[0-9]{4}(-[0-9]*)*")
