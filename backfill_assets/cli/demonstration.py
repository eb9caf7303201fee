"""The command `demo`, which shows a complete backfill in a few minutes."""

from __future__ import annotations

from typing import Annotated

import typer

from backfill_assets.cli.answers import Json, answering, app, print_json


@app.command()
def demo(
    cases: Annotated[int | None, typer.Option(min=50, help="How many cases to make up.")] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed makes the same history.")] = None,
    fresh: Annotated[bool, typer.Option(help="Start anew even if this home holds files that you landed.")] = False,
    as_json: Json = False,
) -> None:
    """Watch a wrong history being replaced: land, publish, find the defect, restate, roll back, publish again."""
    with answering(as_json) as console:
        from backfill_assets.cli.demo import run_demo

        document = run_demo(console, size=cases, seed=seed, fresh=fresh, quiet=as_json)
        if as_json:
            print_json(document)
