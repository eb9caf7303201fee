"""The command that writes a project of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from backfill_assets.cli.answers import Json, answering, app, argument
from backfill_assets.report.new_project import Example


@app.command()
def init(
    name: Annotated[str, argument(metavar="NAME", help="The project's folder, package and domain: my_shop.")],
    example: Annotated[
        Example,
        typer.Option(
            help="What it begins as: a table of the last week's orders; a log whose extracts are complete; a feed of "
            "changes that are merged by key."
        ),
    ] = "orders",
    as_json: Json = False,
) -> None:
    """Write a project of your own: a domain with sample data and tests, which runs at once."""
    with answering(as_json) as answer:
        from backfill_assets.application.new_project import new_project

        answer(new_project(name, example, into=Path.cwd()))
