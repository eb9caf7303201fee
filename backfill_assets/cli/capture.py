"""The command that captures a period of a stream."""

from __future__ import annotations

from typing import Annotated

import typer

from backfill_assets.cli.answers import (
    OF_THE_SOURCE,
    By,
    Json,
    Reason,
    answering,
    app,
    argument,
    day,
    last_day,
    number,
    text,
)
from backfill_assets.cli.session import given_reason, opened, person
from backfill_assets.report.errors import NotGiven, NotTogether

NOW = "now"


@app.command()
def capture(
    source: Annotated[str, argument(metavar="SOURCE", help="A source that declares a capture.")],
    first: Annotated[
        str,
        text(
            "--from", metavar="DAY", help=f"First day or month, {OF_THE_SOURCE} (default: the end of the last capture)."
        ),
    ] = "",
    last: Annotated[str, text("--to", metavar="DAY", help=f"Last day or month, {OF_THE_SOURCE}; or `now`.")] = "",
    whole: Annotated[
        bool,
        typer.Option(
            "--snapshot", help="Read everything that the source holds now; keys missing from it are withdrawn."
        ),
    ] = False,
    confirmed_by: Annotated[
        str, text(metavar="NAME", help="Another person, who confirms more withdrawals than the source allows.")
    ] = "",
    reconciles: Annotated[
        bool, typer.Option("--reconcile", help="Read all of the days again; keys missing from them are withdrawn.")
    ] = False,
    by: By = "",
    reason: Reason = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the ranges that would be read, and write nothing.")
    ] = False,
    records_per_minute: Annotated[int | None, number("records", help="The most records read per minute.")] = None,
    bytes_per_minute: Annotated[int | None, number("bytes", help="The most bytes read per minute.")] = None,
    group: Annotated[
        str,
        text(
            "--behind-group",
            metavar="GROUP",
            help="Wait while this consumer group of the stream lags by more than --most-behind.",
        ),
    ] = "",
    most_behind: Annotated[
        int, number("records", least=0, help="The most records by which that group may lag.")
    ] = 10_000,
    load: Annotated[bool, typer.Option("--load/--no-load", help="Build the touched bronze partitions.")] = True,
    as_json: Json = False,
) -> None:
    """Capture a period of a stream as landed files, land them, and build the bronze days they touch."""
    begins = day(first) if first else None
    ends = None if last == NOW else last_day(last) if last else None
    with answering(as_json) as answer:
        from backfill_assets.application import capture as captures

        if whole and (first or last):
            why = "a snapshot is everything that the source holds now, and of no period"
            raise NotTogether(why=why, leave="--from and --to", instead="leave out --snapshot")
        if whole and reconciles:
            why = "a snapshot reconciles by itself"
            raise NotTogether(why=why, leave="--reconcile", instead="leave out --snapshot")
        if not last and not whole:
            raise NotGiven(why="it is not stated where the period ends", add="--to DAY or --to now")
        asked = captures.Asked(first=begins, last=ends, is_whole=whole or reconciles, confirmed_by=confirmed_by or None)
        if dry_run:
            with opened(quiet=as_json, conditions=False, begins=True) as session:
                plan = captures.plan_capture(session.ws, source, asked)
            answer(plan)
            return
        why = given_reason(reason or ("everything that is new" if not first and last == NOW else ""), by)
        with opened(quiet=as_json, begins=True) as session:
            from backfill_assets.application.propose import step_after_landing
            from backfill_assets.capture.streams import Pace

            pace = Pace(
                records_per_minute=records_per_minute,
                bytes_per_minute=bytes_per_minute,
                group=group,
                most_behind=most_behind,
            )
            acting = session.acting(person(by), on=source)
            report = captures.capture(session.ws, source, asked, acting, reason=why, pace=pace, builds=load)
            following = step_after_landing(session.ws, source) if load else None
        answer(report, following=following, failed=report.needs_a_look)
