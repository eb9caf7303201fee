"""What does replacing a wrong history look like, from the first file to the audit?

Plays the domain's demo through the same functions as every other command, in a home of its own making, and says in
plain words what happens.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from backfill_assets.application.command_line import words_of
from backfill_assets.application.follow import follow
from backfill_assets.application.follow_document import follow_document
from backfill_assets.application.land import build, land_files, quarantine_table
from backfill_assets.application.plan import described_plan, plan
from backfill_assets.application.run import Run
from backfill_assets.cli.session import Session, opened
from backfill_assets.cli.show import listing, show
from backfill_assets.cli.views import audit_view, imports_view, plan_view, publications_view, report_view
from backfill_assets.domain import Demo
from backfill_assets.errors import NotApproved, Refused
from backfill_assets.evidence.imports import ImportDocument
from backfill_assets.evidence.measured import Moves
from backfill_assets.evidence.publications import PublicationDocument
from backfill_assets.lake.rows import small_table
from backfill_assets.next_steps import Act, do, step
from backfill_assets.planning.partitions import DayRange, Grain, describe, partitions_over
from backfill_assets.planning.request import PlanRequest
from backfill_assets.publication.plan_load import days_without_events, plan_load
from backfill_assets.settings import PROJECT_ROOT, Settings, default_home
from backfill_assets.upkeep.audit import AuditReport, audit
from backfill_assets.workspace import Workspace

ASKS, AGREES = "ana", "ben"
MARKER = "DEMO"
_MADE_BY_A_RUN = ("lake", "landing", "dagster", "demo_files", "reference_archive", "logs", "ledger.db", MARKER)

Figures = Mapping[tuple[str, ...], Any]


@dataclass(kw_only=True)
class Stage:
    """Where the demo speaks: numbered headings, and nothing at all for machines."""

    console: Console
    number: int = 0

    def step(self, heading: str, *sentences: str) -> None:
        """Begins the next step of the story."""
        self.number += 1
        self.console.print()
        self.console.print(Rule(Text(f"{self.number}. {heading}", style="bold"), align="left"))
        for sentence in sentences:
            # What is indented is a command, and is not broken.
            self.console.print(sentence, highlight=False, soft_wrap=sentence.startswith("  "), markup=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoReport:
    """What the demo did.

    Attributes:
        home: The folder that holds everything.
        imports: The files that it landed.
        first_run: The run that published the history.
        restatement: The run that replaced it.
        totals: How the rows of the restatement differ from those that it replaced.
        figures_moved: Whether the dependent figures changed.
        rollback_restored_figures: Whether the rollback brought the earlier figures back.
        republished_figures: Whether the second publication brought the corrected figures again.
        audit: Whether everything agrees in the end.
        elapsed_s: How long it took, in seconds.
    """

    home: str
    imports: tuple[ImportDocument, ...]
    first_run: str
    restatement: str
    totals: Moves | None
    figures_moved: bool
    rollback_restored_figures: bool
    republished_figures: bool
    audit: AuditReport
    elapsed_s: float


def run_demo(console: Console, *, size: int | None, seed: int | None, fresh: bool, quiet: bool) -> DemoReport:
    """Plays the demo.

    Args:
        console: Where the story is told.
        size: How much history to make up; the domain's usual size for None.
        seed: The same seed makes the same history.
        fresh: Start anew even if somebody landed files of their own after an earlier demo.
        quiet: Say nothing.

    Returns:
        What it did.

    Raises:
        Refused: The home holds work that no demo made, or the domain has no demo.
    """
    began = time.monotonic()
    settings = Settings.from_environment()
    stage = Stage(console=Console(quiet=True) if quiet else console)
    with opened(quiet=quiet) as session:
        if session.ws.domain.demo is None:
            raise Refused(f"the domain {session.ws.domain.name} has no demo.", next_step="unset BACKFILL_DOMAIN")
        _prepare_home(session.ws, settings, fresh=fresh)
    with opened(quiet=quiet) as session:
        assert session.ws.domain.demo is not None
        demo = session.ws.domain.demo
        chosen = (size or demo.size, demo.seed if seed is None else seed)
        return _play(session, demo, stage, chosen=chosen, began=began)


def _prepare_home(ws: Workspace, settings: Settings, *, fresh: bool) -> None:
    """An empty home, with reference files. Only what an earlier demo made is ever removed."""
    home, marker = settings.home, settings.home / MARKER
    with ws.ledger.read() as tx:
        foreign = [record for record in tx.imports.records() if record.landed_by != ASKS]
        is_used = bool(tx.imports.records() or tx.runs.records(limit=1))
    if is_used and not marker.exists():
        raise Refused(
            f"{home} holds work that no demo made.",
            next_step=step("BACKFILL_HOME=$(mktemp -d) ", do(Act.DEMO)),
        )
    if foreign and not fresh:
        raise Refused(
            f"{home} holds {foreign[0].original_path}, which {foreign[0].landed_by} landed after an earlier demo.",
            next_step=step(do(Act.DEMO, fresh=True), " removes it, or choose another BACKFILL_HOME"),
        )
    if is_used and not settings.ledger_url.startswith("sqlite"):
        raise Refused(
            "the ledger holds an earlier demo, and a demo removes nothing from a database server.",
            next_step="set BACKFILL_LEDGER_URL to an empty database",
        )
    ws.close()
    for name in _MADE_BY_A_RUN:
        _remove(home / name)
    for leftover in home.glob("ledger.db-*"):
        leftover.unlink()
    home.mkdir(parents=True, exist_ok=True)
    made = f"Everything here was made by `{words_of(do(Act.DEMO))}`, and the next one starts anew.\n"
    marker.write_text(made, encoding="utf-8")
    shipped = PROJECT_ROOT / "data" / "reference"
    if not settings.reference.exists() and shipped.exists():
        shutil.copytree(shipped, settings.reference)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _play(session: Session, demo: Demo, stage: Stage, *, chosen: tuple[int, int], began: float) -> DemoReport:
    ws, out = session.ws, stage.console
    asks, agrees = session.acting(ASKS, on="demo"), session.acting(AGREES, on="demo")

    def publish(run_id: str) -> PublicationDocument:
        return Run(ws, run_id).publish(agrees)

    def follow_all() -> Sequence[str]:
        return follow_document(follow(ws, replace(asks, by="follow"))).sentences

    name = demo.table.name
    figures_table = demo.figures[0].name

    stage.step("Files come in", "Ten monthly exports, with late events, duplicates, corrections and broken records.")
    files = demo.write_files(ws.settings.home / "demo_files", *chosen)
    landed = land_files(ws, demo.source.name, files, asks, on_duplicate="ignore", builds=False)
    show(out, imports_view(landed.imports), "landed = accepted + duplicate + superseded + rejected, in every file")
    rejected = ws.lake.path(quarantine_table(demo.source))
    show(out, f"Rejected records are kept with file, line and reason in {rejected}")
    covered = partitions_over(Grain.DAILY, demo.covered)
    silent = days_without_events(ws, demo.source.name, covered)
    built = plan_load(ws, demo.source.name, partitions=covered, by=ASKS, reason="ten monthly exports", empty=silent)
    assert built is not None
    loaded = build(ws, built, asks)
    show(out, f"{demo.source.name} is built from them: {loaded.run.partitions_described}")
    if silent:
        show(out, f"Nothing happened on {describe(Grain.DAILY, silent)}: {ASKS} says so, and is recorded for it.")

    stage.step(
        f"The history is published, computed by version {demo.defective_version}",
        f"{name} for {describe(Grain.DAILY, demo.history)}. It is staged in files nobody reads, its gates are "
        f"measured, another person approves, and one commit makes it visible.",
    )
    first = _planned(ws, demo, demo.history, "first publication", demo.defective_version)
    Run(ws, first).approve(by=AGREES, note="")
    Run(ws, first).stage(asks)
    show(out, publications_view([publish(first)]))
    show(
        out,
        f"{figures_table} depends on it and follows:",
        *follow_all(),
    )
    before = _figures(ws, demo)

    stage.step("Somebody finds that the history is wrong", demo.defect)

    stage.step(
        "A plan says what a restatement would read and replace",
        "Warm-up is read and never published. The manifest below is what will run, and what is approved.",
    )
    second = _planned(ws, demo, demo.restated, "deadlines were computed in UTC", demo.corrected_version, out=out)
    try:
        Run(ws, second).approve(by=ASKS, note="")
    except NotApproved as refusal:
        show(out, "", f"{ASKS} tries to approve her own plan: refused, {refusal.message}")
    Run(ws, second).approve(by=AGREES, note="")
    show(out, f"{AGREES} approves.")

    stage.step("It is staged and gated; readers still see the old rows")
    report = Run(ws, second).stage(asks)
    show(out, report_view(report))

    stage.step("It is published in one commit, and the months that depend on it follow")
    publish(second)
    follow_all()
    after = _figures(ws, demo)
    show(out, _movement(demo, before, after, ("before", "after")))

    stage.step("It is rolled back: exactly the files from before are what readers see")
    undone = Run(ws, second).rollback(agrees, reason="the press office needs a day", with_dependents=False)
    follow_all()
    restored = _figures(ws, demo)
    show(out, publications_view([undone.publication]))
    show(out, f"{figures_table} is as it was: {'yes' if restored == before else 'NO'}")

    stage.step("It is approved again and published again; nothing is computed a second time for it")
    Run(ws, second).approve(by=AGREES, note="")
    publish(second)
    follow_all()
    final = _figures(ws, demo)
    show(out, f"{figures_table} shows the corrected figures again: {'yes' if final == after else 'NO'}")

    stage.step("The audit: do ledger, tables and landed files tell the same story?")
    found = audit(ws)
    show(out, audit_view(found))
    elapsed = time.monotonic() - began
    day = demo.restated.start
    stage.step(
        "Where everything is",
        *(f"{table}: {ws.lake.path(table)}" for table in ws.domain.tables),
        f"ledger: {ws.settings.ledger_url}",
        "",
        "Try:",
        f"  {_command(ws.settings)} status",
        f"  {_command(ws.settings)} history {name} --partition {day}",
        f"  {_command(ws.settings)} report {second}",
        "  make dev    shows the same tables, runs and checks in Dagster's UI",
        "",
        f"The demo took {elapsed:.0f} s.",
    )
    return DemoReport(
        home=str(ws.settings.home),
        imports=landed.imports,
        first_run=first,
        restatement=second,
        totals=report.totals,
        figures_moved=before != after,
        rollback_restored_figures=restored == before,
        republished_figures=final == after,
        audit=found,
        elapsed_s=round(elapsed, 1),
    )


def _command(settings: Settings) -> str:
    """How to call the command from where the reader is, over the demo's home."""
    installed = shutil.which("backfill") is not None
    home = "" if settings.home == default_home() else f"BACKFILL_HOME={settings.home} "
    return f"{home}{'backfill' if installed else '.venv/bin/backfill'}"


def _planned(
    ws: Workspace, demo: Demo, days: DayRange, reason: str, version: str, *, out: Console | None = None
) -> str:
    planned = plan(ws, PlanRequest(table=demo.table.name, days=days, reason=reason, by=ASKS, transform_version=version))
    if out is not None:
        show(out, plan_view(described_plan(ws, planned)))
    return planned.manifest.run_id


def _figures(ws: Workspace, demo: Demo) -> Figures:
    """The dependent table's figures by key, as readers see them now."""
    table, column = demo.figures
    rows = small_table(ws.lake, table.name, [*table.key, column])
    return {tuple(str(row[name]) for name in table.key): row[column] for row in rows}


def _movement(demo: Demo, before: Figures, after: Figures, heads: tuple[str, str]) -> Any:
    table, column = demo.figures
    moved = [
        [*key, before.get(key), after.get(key)]
        for key in sorted({*before, *after})
        if before.get(key) != after.get(key)
    ]
    if not moved:
        return (
            f"{table.name}: none of {len(after)} figures of {column} moved; a larger demo has more cases near a limit"
        )
    title = f"{table.name}: {column}, where it moved ({len(moved)} of {len(after)} figures)"
    return listing(title, [*table.key, *heads], moved, numbers=heads)
