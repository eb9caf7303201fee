"""The commands for versions of a table: where readers find it, and how a version takes its place."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from backfill_assets.cli.answers import By, Json, TableName, answering, app, text
from backfill_assets.cli.session import given_reason, opened, person

Deed = Literal["start", "status", "cut-over", "stop"]


@app.command()
def resolve(
    table: TableName,
    as_of: Annotated[
        str,
        text(
            metavar="RUN|DAY|TIME", help="As readers saw it at this time in UTC, or at the end of a day (default: now)."
        ),
    ] = "",
    as_json: Json = False,
) -> None:
    """Show where readers find a table: its path and version, now or as of a run or a day."""
    with answering(as_json) as answer:
        from backfill_assets.application import shadow as versions

        with opened(conditions=False) as session:
            document = versions.resolve(session.ws, table, as_of)
        answer(document)


@app.command()
def shadow(
    deed: Annotated[Deed, typer.Argument(metavar="DEED", help="start, status, cut-over or stop.")],
    table: TableName,
    reason: Annotated[str, text(help="Why; not for status.")] = "",
    by: By = "",
    as_json: Json = False,
) -> None:
    """Run a version of a table beside the one that readers see, and cut readers over to it."""
    with answering(as_json) as answer:
        from backfill_assets.application import shadow as versions

        if deed == "status":
            with opened(conditions=False) as session:
                answer(versions.status(session.ws, table))
            return
        why = given_reason(reason, by)
        with opened(quiet=as_json) as session:
            ws, who = session.ws, person(by)
            if deed == "start":
                from backfill_assets.application.plan import described_plan

                planned = versions.start(ws, table, by=who, reason=why)
                answer(described_plan(ws, planned) if planned else versions.status(ws, table))
                return
            ask = versions.cut_over if deed == "cut-over" else versions.stop
            answer(ask(ws, table, by=who, reason=why))
