"""The command `backfill`: parse, call, print.

Exit codes: 0 done; 1 refused, with one sentence that says why and what to do next, and nothing changed; 2 wrong usage.
Every command takes `--json`; the fields are documented in docs/cli.md.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from backfill_assets.console import terminal
from backfill_assets.errors import BackfillError, Refused
from backfill_assets.planning.manifest import Kind

app = typer.Typer(
    name="backfill",
    help="Backfills as controlled production changes: plan, stage, gate, swap, undo, and keep the evidence.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def day(text: str | date) -> date:
    """A date as a person types it: 2006-07-01."""
    if isinstance(text, date):
        return text
    try:
        # A month is named by its first day.
        return date.fromisoformat(f"{text}-01" if len(text) == len("2006-07") else text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a date like 2006-07-01") from None


OnDuplicate = Literal["ignore", "reprocess", "correct", "reject"]
Json = Annotated[bool, typer.Option("--json", help="Print stable JSON instead of text.")]
By = Annotated[str, typer.Option("--by", envvar="BACKFILL_USER", help="Who is acting (default: $BACKFILL_USER).")]
From = Annotated[date, typer.Option("--from", parser=day, metavar="DAY", help="First day, inclusive.")]
To = Annotated[date, typer.Option("--to", parser=day, metavar="DAY", help="Last day, inclusive.")]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="A run's id, as `plan` and `status` print it.")]
TableName = Annotated[str, typer.Argument(metavar="TABLE", help="A table, such as silver.case_sla_daily.")]


FOLLOW = "next: backfill follow computes again what depends on it, unless the sensor of `make dev` runs"


@contextmanager
def answering(as_json: bool) -> Iterator[Console]:
    """Where a command prints; what is refused becomes one sentence and exit code 1."""
    console = terminal(sys.stdout)
    try:
        yield console
    except BackfillError as error:
        if as_json:
            print_json({"error": error_document(error)})
        else:
            print_error(error)
        raise typer.Exit(error.exit_code) from None
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted; nothing was published. next: backfill recover, then the command again\n")
        raise typer.Exit(130) from None


def error_document(error: BackfillError) -> dict[str, Any]:
    """An error as plain values."""
    ids = {name: value if isinstance(value, (list, dict)) else str(value) for name, value in error.ids.items()}
    return {"type": type(error).__name__, "message": error.message, "next_step": error.next_step, "ids": ids}


def print_error(error: BackfillError) -> None:
    """The sentence on standard error, and below it the next step."""
    outcome = "refused" if isinstance(error, Refused) else "stopped"
    console = terminal(sys.stderr)
    console.print(Text(f"{outcome}: ", style="bold red") + Text(error.message), highlight=False)
    if error.next_step:
        console.print(f"[dim]next:[/dim] {escape(error.next_step)}", highlight=False, soft_wrap=True)


def print_json(document: object) -> None:
    """JSON on standard output, for machines."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


@app.command()
def land(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A source, such as case_events.")],
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
        from backfill_assets import commands, evidence

        outcome = commands.land(source, files, on_duplicate=on_duplicate, load=load, by=by, quiet=as_json)
        if as_json:
            print_json(outcome)
        else:
            evidence.show(console, evidence.imports_view(outcome["imports"]), *outcome["sentences"])


@app.command()
def load(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A source, such as case_events.")],
    first: From,
    last: To,
    by: By = "",
    reason: Annotated[str, typer.Option(help="Why.")] = "build bronze from what has landed",
    as_json: Json = False,
) -> None:
    """Build bronze days from what has landed; days without events are recorded as empty."""
    with answering(as_json) as console:
        from backfill_assets import commands, evidence

        report = commands.load(source, first, last, by=by, reason=reason, quiet=as_json)
        print_json(report) if as_json else evidence.show(console, evidence.run_view(report))


@app.command()
def plan(
    table: TableName,
    first: From,
    last: To,
    reason: Annotated[str, typer.Option(help="Why history has to change.")],
    by: By = "",
    kind: Annotated[
        Kind | None,
        typer.Option(case_sensitive=False, help="By default RESTATEMENT where rows would be replaced, else BACKFILL."),
    ] = None,
    transform_version: Annotated[
        str | None, typer.Option(help="A registered version; the present one by default.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what a run would read and replace, and write its DRAFT manifest."""
    with answering(as_json) as console:
        from backfill_assets import commands, evidence

        document = commands.plan(
            table, first, last, reason=reason, by=by, kind=kind, transform_version=transform_version
        )
        if as_json:
            print_json(document)
        else:
            run_id = document["run_id"]
            following = f"next: backfill approve {run_id} --by SOMEBODY_ELSE, and backfill run {run_id}"
            evidence.show(console, evidence.plan_view(document), "", following)


@app.command()
def approve(
    run: RunId,
    by: By = "",
    note: Annotated[str, typer.Option(help="What the approval rests on.")] = "",
    as_json: Json = False,
) -> None:
    """Agree to exactly this manifest, as somebody other than the requester."""
    with answering(as_json) as console:
        from backfill_assets import commands, evidence

        document = commands.approve(run, by=by, note=note)
        print_json(document) if as_json else evidence.show(console, evidence.run_view(document))


@app.command()
def run(run: RunId, by: By = "", as_json: Json = False) -> None:
    """Stage and gate a planned run; nobody reads its rows yet."""
    with answering(as_json) as console:
        from backfill_assets import commands, evidence

        document = commands.run(run, by=by, quiet=as_json)
        print_json(document) if as_json else evidence.show(console, evidence.report_view(document))
        if document["state"] == "BLOCKED":
            raise typer.Exit(1)


@app.command()
def report(run: RunId, as_json: Json = False) -> None:
    """What a reviewer reads: what moves, which gates passed, some rows before and after."""
    with answering(as_json) as console:
        from backfill_assets import commands, evidence

        document = commands.report(run)
        print_json(document) if as_json else evidence.show(console, evidence.report_view(document))


@app.command()
def publish(run: RunId, by: By = "", as_json: Json = False) -> None:
    """Make a gated and approved run what readers see, in one commit."""
    with answering(as_json) as console:
        from backfill_assets import commands, evidence

        document = commands.publish(run, by=by, quiet=as_json)
        print_json(document) if as_json else evidence.show(console, evidence.publications_view([document]), FOLLOW)


@app.command()
def rollback(
    run: RunId,
    reason: Annotated[str, typer.Option(help="Why it is undone.")],
    by: By = "",
    as_json: Json = False,
) -> None:
    """Bring back exactly the files that a run's publication replaced."""
    with answering(as_json) as console:
        from backfill_assets import commands, evidence

        document = commands.rollback(run, by=by, reason=reason)
        print_json(document) if as_json else evidence.show(console, evidence.publications_view([document]), FOLLOW)


@app.command()
def follow(by: By = "follow", as_json: Json = False) -> None:
    """Compute again what depends on new publications, as the sensor of the daemon does."""
    with answering(as_json) as console:
        from backfill_assets import commands, evidence

        document = commands.follow(by=by, quiet=as_json)
        print_json(document) if as_json else evidence.show(console, *document["sentences"])


@app.command()
def recover(by: By = "recover", as_json: Json = False) -> None:
    """Finish or undo what a dead process left half done."""
    with answering(as_json) as console:
        from backfill_assets import commands, evidence

        found = commands.recover(by=by)
        if as_json:
            print_json({"recovered": found})
        else:
            lines = [f"{r['what']} {r['id']} {r['outcome']}" for r in found]
            evidence.show(console, *(lines or ["nothing was half done"]))


@app.command()
def reproduce(
    run: RunId,
    sample: Annotated[
        int | None, typer.Option(min=1, help="Only so many partitions, spread over the run; all by default.")
    ] = None,
    by: By = "reproduce",
    as_json: Json = False,
) -> None:
    """Rebuild a published run from its manifest, aside, and compare: identical, or exactly what differs."""
    with answering(as_json) as console:
        from backfill_assets import commands, evidence

        document = commands.reproduce(run, sample=sample, by=by, quiet=as_json)
        print_json(document) if as_json else evidence.show(console, evidence.reproduction_view(document))
        if not document["identical"]:
            raise typer.Exit(1)


@app.command()
def vacuum(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go, and why.")] = False,
    by: By = "vacuum",
    as_json: Json = False,
) -> None:
    """Remove staged files that no reader, candidate, rollback or reproduction needs."""
    with answering(as_json) as console:
        from backfill_assets import commands, evidence

        document = commands.vacuum(dry_run=dry_run, by=by)
        print_json(document) if as_json else evidence.show(console, evidence.vacuum_view(document))


@app.command()
def status(
    run: Annotated[str | None, typer.Argument(metavar="[RUN]", help="Only this run.")] = None,
    as_json: Json = False,
) -> None:
    """What every table holds, the newest runs, and what waits for whom."""
    with answering(as_json) as console:
        from backfill_assets import commands, evidence

        document = commands.status(run)
        if as_json:
            print_json(document)
        else:
            evidence.show(console, evidence.run_view(document) if run else evidence.status_view(document))


@app.command()
def history(
    table: TableName,
    partition: Annotated[
        date | None, typer.Option(parser=day, metavar="DAY", help="The whole story of one partition.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Every publication of a table; with --partition, where its rows ever came from."""
    with answering(as_json) as console:
        from backfill_assets import commands, evidence

        document = commands.history(table, partition)
        if as_json:
            print_json(document)
        else:
            evidence.show(console, evidence.story_view(document) if partition else evidence.history_view(document))


@app.command()
def audit(as_json: Json = False) -> None:
    """Verify the event chain, and that ledger, tables and landed files agree."""
    with answering(as_json) as console:
        from backfill_assets import commands, evidence

        document = commands.audit()
        print_json(document) if as_json else evidence.show(console, evidence.audit_view(document))
        if not document["agrees"]:
            raise typer.Exit(1)


@app.command()
def demo(
    cases: Annotated[int | None, typer.Option(min=50, help="How many cases to make up.")] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed makes the same history.")] = None,
    fresh: Annotated[bool, typer.Option(help="Start anew even if this home holds files that you landed.")] = False,
    as_json: Json = False,
) -> None:
    """Watch a wrong history being replaced: land, publish, find the defect, restate, roll back, publish again."""
    with answering(as_json) as console:
        from backfill_assets.demo import run_demo

        document = run_demo(console, size=cases, seed=seed, fresh=fresh, quiet=as_json)
        if as_json:
            print_json(document)


def main() -> None:
    """The entry point of the installed command."""
    app()
