"""The commands that stay: the desk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from backfill_assets.cli.answers import Json, answering, app, print_json
from backfill_assets.cli.session import opened, surroundings


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
        int | None, typer.Option(min=1, max=65_535, help="A port of this machine; any free one by default.")
    ] = None,
    open_browser: Annotated[bool, typer.Option("--open", help="Open it in the browser as well.")] = False,
    as_json: Json = False,
) -> None:
    """Serve pages for auditors on this machine, read-only, until Ctrl-C: runs, calendar, where a number came from."""
    with answering(as_json) as console:

        def ready(url: str) -> None:
            if as_json:
                print_json(DeskDocument(url=url))
            else:
                console.print(f"{url}  (read-only; Ctrl-C ends it)", highlight=False, soft_wrap=True)
            if open_browser:
                typer.launch(url)

        with opened(looks=True) as session:
            surroundings().serving(session.ws, port, ready)
