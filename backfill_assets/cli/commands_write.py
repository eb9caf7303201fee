"""Commands that write: they carry out what was planned, and undo it, replay records, and give a version of a table its
place.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Literal

import typer

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.cli.answers import (
    OF_THE_SOURCE,
    By,
    ByAccount,
    From,
    Json,
    Reason,
    RunOrSet,
    TableName,
    To,
    answering,
    app,
    argument,
    final_day,
    first_day,
    instant,
    number,
    range_given,
    text,
)
from backfill_assets.cli.session import acting_name, given_reason, opened, person, person_or_account
from backfill_assets.report.errors import NotGiven, NotTogether

# The commands that carry out what was planned, and undo it.


@app.command()
def approve(
    run: RunOrSet,
    by: By = "",
    note: Annotated[
        str,
        text(
            "--note",
            "--comment",
            help="The grounds of the approval; required where a measure moved further than expected.",
        ),
    ] = "",
    as_json: Json = False,
) -> None:
    """Approve exactly this run, set, capture, replay or act, as another person than the requester."""
    with answering(as_json) as answer:
        with opened() as session:
            document = session.request(run).approve(by=person(by), note=note)
        answer(document)


@app.command()
def run(run: RunOrSet, by: ByAccount = "", as_json: Json = False) -> None:
    """Stage and gate a planned run or set, from the first unfinished chunk; its rows are not visible to readers."""
    with answering(as_json) as answer:
        with opened(quiet=as_json, conditions=False) as session:
            document = session.request(run).stage(session.acting(person_or_account(by), on=run))
        # With all that a report needs, which is imported while rows are computed, and not before.
        from backfill_assets.report.report import RunReport

        # The report of a run is a command of its own, which the next step begins with.
        shown = document.run if isinstance(document, RunReport) and not as_json else document
        answer(shown, failed=document.is_blocked)


@app.command()
def publish(run: RunOrSet, by: By = "", as_json: Json = False) -> None:
    """Publish a gated and approved run in one commit; the runs of a set one after the other."""
    with answering(as_json) as answer:
        from backfill_assets.application.follow import step_after_change

        with opened(quiet=as_json) as session:
            document = session.request(run).publish(session.acting(person(by), on=run))
            following = step_after_change(session.ws)
        answer(document, following=following)


@app.command()
def rollback(
    run: RunOrSet,
    reason: Annotated[str, text(help="Why it is rolled back.")] = "",
    by: By = "",
    with_dependents: Annotated[
        bool, typer.Option("--with-dependents", help="First roll back the dependents that would lose their input.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Restore exactly the files that a publication replaced; for a set, those of all its publications."""
    with answering(as_json) as answer:
        from backfill_assets.application.follow import step_after_change

        why = given_reason(reason, by)
        with opened(quiet=as_json) as session:
            document = session.request(run).rollback(
                session.acting(person(by), on=run), reason=why, with_dependents=with_dependents
            )
            following = step_after_change(session.ws)
        answer(document, following=following)


@app.command()
def cancel(
    run: RunOrSet,
    reason: Annotated[str, text(help="Why it is cancelled.")] = "",
    leave: Annotated[
        bool,
        typer.Option(
            "--leave",
            help="As an owner of the table, accept the measured difference, which is within the table's tolerance: the "
            "accepted rows stay, and are not stale until their inputs change again.",
        ),
    ] = False,
    by: By = "",
    as_json: Json = False,
) -> None:
    """Cancel the unpublished part of a run or a set, permanently; its process stops at its next step."""
    with answering(as_json) as answer:
        why = given_reason(reason, by)
        with opened() as session:
            document = session.request(run).cancel(by=person(by), reason=why, leave=leave)
        answer(document)


@app.command()
def freeze(
    table: TableName,
    first: From,
    last: To,
    until: Annotated[
        datetime,
        typer.Option(
            parser=instant,
            metavar="TIME",
            help="When it ends by itself, in UTC, such as 2026-03-10T08:00.",
        ),
    ],
    reason: Reason = "",
    only: Annotated[
        str | None, text("--for", metavar="RUN", help="The one run or set that may be published meanwhile.")
    ] = None,
    by: By = "",
    as_json: Json = False,
) -> None:
    """Hold LIVE runs, loads and follow-ups over these days of a table until a time; nothing is lost."""
    with answering(as_json) as answer:
        from backfill_assets.application import freeze as freezing

        who, why = person(by), given_reason(reason, by)
        days = DayRange.inclusive(first, last)
        with opened() as session:
            document = freezing.freeze(session.ws, table, days, until=until, only=only, by=who, reason=why)
        answer(document)


@app.command()
def unfreeze(
    freeze: Annotated[str, argument(metavar="FREEZE", help="A freeze's id, as `freeze` and `status` print it.")],
    reason: Reason = "",
    by: By = "",
    as_json: Json = False,
) -> None:
    """End a freeze before its time, as its author or another person; the held work continues."""
    with answering(as_json) as answer:
        from backfill_assets.application import freeze as freezing

        why = given_reason(reason, by)
        with opened() as session:
            document = freezing.unfreeze(session.ws, freeze, by=person(by), reason=why)
        answer(document)


@app.command()
def follow(
    by: By = "",
    cancel: Annotated[
        str, text(metavar="PUBLICATION", help="Leave the dependents of this publication as they are.")
    ] = "",
    reason: Annotated[str, text(help="Why the dependents stay as they are; with --cancel.")] = "",
    as_json: Json = False,
) -> None:
    """Recompute the tables that depend on new publications, as the daemon's sensor does."""
    with answering(as_json) as answer:
        from backfill_assets.application import follow as following

        if reason and not cancel:
            raise NotTogether(why="--reason goes with --cancel", leave="--reason", instead="add --cancel PUBLICATION")
        why = given_reason(reason, by) if cancel else ""
        with opened(quiet=as_json) as session:
            if cancel:
                cancelled = following.dismiss_follow_ups(session.ws, cancel, by=person(by), reason=why)
                answer(cancelled)
                return
            document = following.follow(session.ws, session.acting(by or "follow", on="follow"))
        answer(document, failed=document.failed)


@app.command()
def propose(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be proposed, and why.")] = False,
    by: ByAccount = "",
    as_json: Json = False,
) -> None:
    """Plan draft sets for late and corrected data behind published output, as the sensor of the daemon does.

    One for what tables connect. The person who landed the latest file of a set is its requester; whoever landed one of
    its files cannot approve it.
    """
    with answering(as_json) as answer:
        from backfill_assets.application.propose import propose as propose_restatements

        with opened() as session:
            document = propose_restatements(session.ws, by=person_or_account(by), dry_run=dry_run)
        answer(document)


@app.command()
def recover(
    run: Annotated[
        str | None,
        argument(metavar="RUN", help="Only this run, landed file or set; or a table, which is set to the ledger."),
    ] = None,
    now: Annotated[
        bool, typer.Option("--now", help="Take over RUN even if the lease of its process is still valid.")
    ] = False,
    by: By = "recover",
    reason: Annotated[str, text(help="Why a table is set to what the ledger holds.")] = "",
    as_json: Json = False,
) -> None:
    """Complete or undo the unfinished work of a stopped process; work with a valid lease is skipped.

    After a restore from a backup, it names the tables that are older or newer than the ledger. A person who may approve
    TABLE sets it to what the ledger holds.
    """
    with answering(as_json) as answer:
        from backfill_assets.application.recover import recover_document

        # What lost its lease is ended on behalf of the command; what has not, a person takes over.
        who = _taking_over(by) if now else by
        with opened() as session:
            acting = session.acting(who, on="recover")
            document = recover_document(session.ws, acting, only=run, now=now, reason=reason)
        answer(document, failed=bool(document.problems))


@app.command()
def clear(
    subject: Annotated[str, argument(metavar="SUBJECT", help="A run, set, publication or file that `status` lists.")],
    by: By = "",
    as_json: Json = False,
) -> None:
    """Let the daemon's sensors retry the work that they have given up."""
    with answering(as_json) as answer:
        from backfill_assets.application.sensor_work import clear as clear_stuck

        with opened() as session:
            document = clear_stuck(session.ws, subject, by=person(by))
        answer(document)


@app.command()
def erase(
    run: RunOrSet,
    reason: Annotated[str, text(help="Why these row values may not be kept.")] = "",
    by: By = "",
    as_json: Json = False,
) -> None:
    """Delete the row values kept for the reviewers of a run or a set; the fact that they existed stays recorded."""
    with answering(as_json) as answer:
        why = given_reason(reason, by)
        with opened() as session:
            from backfill_assets.application.requests import Restatement

            document = Restatement(session.ws, run).erase_samples(by=person(by), reason=why)
        answer(document)


@app.command()
def vacuum(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list the files that would be removed, and why.")
    ] = False,
    by: By = "vacuum",
    as_json: Json = False,
) -> None:
    """Remove staged files that no reader, candidate, rollback or reproduction needs, and old Dagster runs."""
    with answering(as_json) as answer:
        from backfill_assets.application.upkeep import vacuum as vacuum_all

        with opened(quiet=as_json) as session:
            document = vacuum_all(session.ws, session.acting(acting_name(by), on="vacuum"), dry_run=dry_run)
        answer(document, failed=bool(document.lake.problems))


def _taking_over(by: str) -> str:
    if by == "recover":
        raise NotGiven(why="it is not stated who takes the work over", add="--by NAME, or set BACKFILL_USER")
    return person(by)


# The command that sends records to a topic or a stream again, and ends that.

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


# The commands for versions of a table: where readers find it, and how a version takes its place.

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
