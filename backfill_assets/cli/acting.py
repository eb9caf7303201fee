"""The commands that carry out what was planned, and undo it."""

from __future__ import annotations

from typing import Annotated

import typer

from backfill_assets.cli.answers import (
    FOLLOW,
    By,
    Json,
    RunOrSet,
    answering,
    app,
    exit_with_problems,
    one_line,
    print_json,
    run_or_set,
)
from backfill_assets.planning.partitions import count_of
from backfill_assets.planning.sets import SET_PREFIX


@app.command()
def approve(
    run: RunOrSet,
    by: By = "",
    note: Annotated[str, typer.Option(callback=one_line, help="What the approval rests on.")] = "",
    as_json: Json = False,
) -> None:
    """Agree to exactly this manifest, or to every run of a set, as another person than the requester."""
    with answering(as_json) as console:
        from backfill_assets.cli import commands, views

        document = commands.approve(run, by=by, note=note)
        print_json(document) if as_json else views.show(console, run_or_set(document))


@app.command()
def run(run: RunOrSet, by: By = "", as_json: Json = False) -> None:
    """Stage and gate a planned run or set, from the first chunk that is not finished; nobody reads its rows yet."""
    with answering(as_json) as console:
        from backfill_assets.cli import commands, views

        if run.startswith(SET_PREFIX):
            document = commands.run_set(run, by=by, quiet=as_json)
            blocked = any(each["state"] == "BLOCKED" for each in document["runs"])
        else:
            document = commands.run(run, by=by, quiet=as_json)
            blocked = document["state"] == "BLOCKED"
        if as_json:
            print_json(document)
        else:
            views.show(console, views.report_view(document) if "run_id" in document else run_or_set(document))
        if blocked:
            raise typer.Exit(1)


@app.command()
def publish(run: RunOrSet, by: By = "", as_json: Json = False) -> None:
    """Make a gated and approved run what readers see, in one commit; the runs of a set one after the other."""
    with answering(as_json) as console:
        from backfill_assets.cli import commands, views

        if run.startswith(SET_PREFIX):
            document = commands.publish_set(run, by=by, quiet=as_json)
            print_json(document) if as_json else views.show(console, views.set_view(document), FOLLOW)
            return
        document = commands.publish(run, by=by, quiet=as_json)
        print_json(document) if as_json else views.show(console, views.publications_view([document]), FOLLOW)


@app.command()
def rollback(
    run: RunOrSet,
    reason: Annotated[str, typer.Option(callback=one_line, help="Why it is undone.")],
    by: By = "",
    with_dependents: Annotated[
        bool,
        typer.Option("--with-dependents", help="First undo what would be left without its input."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Bring back exactly the files that a publication replaced; of a set, all of them."""
    with answering(as_json) as console:
        from backfill_assets.cli import commands, views

        if run.startswith(SET_PREFIX):
            document = commands.rollback_set(run, by=by, reason=reason, with_dependents=with_dependents)
            print_json(document) if as_json else views.show(console, views.set_view(document), FOLLOW)
            return
        document = commands.rollback(run, by=by, reason=reason, with_dependents=with_dependents)
        shown = views.publications_view([*document["dependents"], document])
        print_json(document) if as_json else views.show(console, shown, FOLLOW)


@app.command()
def cancel(
    run: RunOrSet,
    reason: Annotated[str, typer.Option(callback=one_line, help="Why it is not wanted.")],
    by: By = "",
    as_json: Json = False,
) -> None:
    """End a run or a set that is not published, for good; a process at work on it stops at its next step."""
    with answering(as_json) as console:
        from backfill_assets.cli import commands, views

        document = commands.cancel(run, by=by, reason=reason)
        print_json(document) if as_json else views.show(console, run_or_set(document))


@app.command()
def follow(
    by: By = "",
    cancel: Annotated[
        str,
        typer.Option(metavar="PUBLICATION", callback=one_line, help="Let dependents be: nothing follows it any more."),
    ] = "",
    reason: Annotated[str, typer.Option(callback=one_line, help="Why nothing follows it; with --cancel.")] = "",
    as_json: Json = False,
) -> None:
    """Compute again what depends on new publications, as the sensor of the daemon does."""
    with answering(as_json) as console:
        from backfill_assets.cli import commands, views

        if cancel:
            document = commands.cancel_follow_ups(cancel, by=by, reason=reason)
            print_json(document) if as_json else views.show(console, *document["sentences"])
            return
        document = commands.follow(by=by or "follow", quiet=as_json)
        print_json(document) if as_json else views.show(console, *document["sentences"])
        if document["failed"]:
            raise typer.Exit(1)


@app.command()
def recover(
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN]", callback=one_line, help="Only this run, landed file or set.")
    ] = None,
    now: Annotated[
        bool, typer.Option("--now", help="Take RUN over, by name, even while the lease of its process has not ended.")
    ] = False,
    by: By = "recover",
    as_json: Json = False,
) -> None:
    """Finish or undo what a dead process left half done; what holds a lease is left alone."""
    with answering(as_json) as console:
        from backfill_assets.cli import commands, views

        document = commands.recover(run, now=now, by=by)
        if as_json:
            print_json(document)
        else:
            views.show(console, *views.recovered_lines(document["recovered"]))
        exit_with_problems(document)


@app.command()
def erase(
    run: RunOrSet,
    reason: Annotated[str, typer.Option(callback=one_line, help="Why its rows may not be kept.")],
    by: By = "",
    as_json: Json = False,
) -> None:
    """Delete the values of rows kept for the reviewers of a run or a set; that they were there stays known."""
    with answering(as_json) as console:
        from backfill_assets.cli import commands, views

        document = commands.erase_samples(run, by=by, reason=reason)
        if as_json:
            print_json(document)
        else:
            views.show(console, f"{count_of(document['erased'], 'sample')} of {run} erased")


@app.command()
def vacuum(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go, and why.")] = False,
    by: By = "vacuum",
    as_json: Json = False,
) -> None:
    """Remove staged files that no reader, candidate, rollback or reproduction needs, and old runs of Dagster's."""
    with answering(as_json) as console:
        from backfill_assets.cli import commands, views

        document = commands.vacuum(dry_run=dry_run, by=by)
        print_json(document) if as_json else views.show(console, views.vacuum_view(document))
        exit_with_problems(document)
