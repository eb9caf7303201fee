"""The commands that watch: the desk for people, metrics and exports for machines."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from backfill_assets.cli.answers import Json, answering, app, number, print_json
from backfill_assets.cli.session import opened, surroundings
from backfill_assets.planning.partitions import count_of


@dataclass(frozen=True, slots=True, kw_only=True)
class DeskDocument:
    """Where the desk is.

    Attributes:
        url: The address of its first page, on this machine alone.
    """

    url: str


@app.command()
def desk(
    port: Annotated[
        int | None, number("", most=65_535, help="A port of this machine; any free one by default.")
    ] = None,
    open_browser: Annotated[bool, typer.Option("--open", help="Open it in the browser as well.")] = False,
    as_json: Json = False,
) -> None:
    """Serve pages for auditors on this machine, read-only, until Ctrl-C: runs, calendar, where a number came from."""
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
    """Print what is watched in the text format of Prometheus, as `/metrics` of the desk serves it."""
    with answering(as_json):
        from backfill_assets.application import look
        from backfill_assets.application.metrics import metrics_text

        with opened(conditions=False) as session:
            document = look.metrics(session.ws, None, look.staleness(session.ws))
        if as_json:
            print_json(document)
        else:
            sys.stdout.write(metrics_text(document))
