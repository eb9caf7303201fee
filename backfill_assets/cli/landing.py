"""The commands that take files in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from backfill_assets.cli.answers import By, From, Json, OnDuplicate, To, answering, app, one_line, print_json
from backfill_assets.cli.session import opened, person


@app.command()
def land(
    source: Annotated[str, typer.Argument(metavar="SOURCE", callback=one_line, help="A source, such as case_events.")],
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="JSONL, CSV or Parquet, also gzipped.")],
    by: By = "",
    on_duplicate: Annotated[
        OnDuplicate, typer.Option(help="What to do with content that was landed before.")
    ] = "ignore",
    load: Annotated[bool, typer.Option("--load/--no-load", help="Build the touched bronze partitions.")] = True,
    as_json: Json = False,
) -> None:
    """Land files as they came, and build the bronze days they touch."""
    with answering(as_json) as console:
        from backfill_assets.application.land import land_files
        from backfill_assets.cli import views

        with opened(quiet=as_json) as session:
            outcome = land_files(
                session.ws,
                source,
                files,
                session.acting(person(by), on=source),
                on_duplicate=on_duplicate,
                builds=load,
            )
        if as_json:
            print_json(outcome)
        else:
            views.show(console, views.imports_view(outcome.imports), *outcome.sentences, *outcome.next_steps)


@app.command()
def load(
    source: Annotated[str, typer.Argument(metavar="SOURCE", callback=one_line, help="A source, such as case_events.")],
    first: From,
    last: To,
    by: By = "",
    empty: Annotated[
        bool, typer.Option("--empty", help="Declare that nothing happened on those of the days without landed events.")
    ] = False,
    reason: Annotated[str, typer.Option(callback=one_line, help="Why.")] = "build bronze from what has landed",
    as_json: Json = False,
) -> None:
    """Build bronze days from what has landed; with --empty, days without events on your word."""
    with answering(as_json) as console:
        from backfill_assets.application.land import load as load_days
        from backfill_assets.cli import views

        with opened(quiet=as_json) as session:
            acting = session.acting(person(by), on=source)
            report = load_days(session.ws, source, first, last, acting, empty=empty, reason=reason)
        print_json(report) if as_json else views.show(console, views.report_head_view(report))
