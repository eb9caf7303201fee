"""The command `diff`, which lists every row that differs."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import Annotated, Literal

import typer

from backfill_assets.cli.answers import (
    OF_PARTITIONS,
    Json,
    answering,
    app,
    argument,
    first_day,
    last_day,
    range_given,
    text,
    texts,
)
from backfill_assets.cli.session import opened
from backfill_assets.report.errors import NotGiven, NotTogether

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
