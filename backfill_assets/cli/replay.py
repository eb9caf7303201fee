"""The command that sends records to a topic or a stream again, and ends that."""

from __future__ import annotations

from datetime import date
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
    final_day,
    first_day,
    number,
    range_given,
    text,
)
from backfill_assets.cli.session import given_reason, opened, person
from backfill_assets.report.errors import NotGiven, NotTogether

CLOSE = "close"


@app.command()
def replay(
    subject: Annotated[
        str,
        argument(metavar="RUN|SOURCE|TABLE|close", help="The table or source to send; or `close`, to end a replay."),
    ],
    replay_id: Annotated[str, argument(metavar="[REPLAY]", help="With `close`: the replay.")] = "",
    into: Annotated[str, text(metavar="TOPIC|STREAM", help="The topic or stream, which is created.")] = "",
    first: Annotated[
        date | None, first_day(OF_THE_SOURCE, more="; of a derived table, of its partitions; with --to")
    ] = None,
    last: Annotated[
        date | None, final_day(OF_THE_SOURCE, more="; of a derived table, of its partitions; with --from")
    ] = None,
    as_captured: Annotated[
        bool,
        typer.Option("--as-captured", help="Send the captured records of a source instead of its rows."),
    ] = False,
    by: By = "",
    reason: Reason = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the records that would be sent, and write nothing.")
    ] = False,
    records_per_minute: Annotated[int | None, number("records", help="The most records sent per minute.")] = None,
    bytes_per_minute: Annotated[int | None, number("bytes", help="The most bytes sent per minute.")] = None,
    as_json: Json = False,
) -> None:
    """Send the rows of a table, or captured records, to a new topic or stream; `close` deletes it."""
    with answering(as_json) as answer:
        from backfill_assets.application import replay as replays

        if subject == CLOSE:
            if not replay_id:
                raise NotGiven(why="it is not stated which replay is closed", add="its id, such as rep-000001")
            with opened(quiet=as_json, conditions=False) as session:
                closed = replays.close_replay(session.ws, replay_id, by=person(by), reason=given_reason(reason, by))
            answer(closed)
            return
        if replay_id:
            raise NotTogether(why=f"{replay_id!r} follows {subject!r}", leave="the second word", instead="write close")
        if not into:
            raise NotGiven(why="it is not stated where the records go", add="--into TOPIC or STREAM")
        days = range_given(first, last)
        asked = replays.ReplayAsked(subject=subject, into=into, days=days, as_captured=as_captured)
        with opened(quiet=as_json, conditions=False) as session:
            if dry_run:
                answer(replays.plan_replay(session.ws, asked))
                return
            from backfill_assets.capture.streams import Pace

            pace = Pace(records_per_minute=records_per_minute, bytes_per_minute=bytes_per_minute)
            why, acting = given_reason(reason, by), session.acting(person(by), on=subject)
            report = replays.replay(
                session.ws,
                asked,
                acting,
                reason=why,
                pace=pace,
                planned=lambda plan: None if as_json else answer(plan),
            )
        answer(report)
