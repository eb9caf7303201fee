"""The demo: a wrong history is published, found, replaced, rolled back and replaced again, then audited.

It goes through the same functions as every other command, in a home of its own.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType
from rich.rule import Rule
from rich.text import Text

from backfill_assets.application import look
from backfill_assets.application.command_line import words_of
from backfill_assets.application.follow import follow
from backfill_assets.application.follow_document import follow_document
from backfill_assets.application.land import build, land_files
from backfill_assets.application.plan import described_plan, plan
from backfill_assets.application.plan_load import days_without_events, plan_load
from backfill_assets.application.recorder import Acting
from backfill_assets.application.run import Run
from backfill_assets.cli.session import opened
from backfill_assets.cli.show import listing, show
from backfill_assets.cli.views import audit_view, imports_view, plan_view, publications_view, report_view
from backfill_assets.domain import Demo
from backfill_assets.errors import NotApproved, Refused
from backfill_assets.evidence.imports import ImportDocument
from backfill_assets.evidence.measured import Moves
from backfill_assets.evidence.report import RunReport
from backfill_assets.files.local import LocalFiles
from backfill_assets.next_steps import Act, NextStep, do, step
from backfill_assets.places import StoreUrl
from backfill_assets.planning.partitions import DayRange, Grain, describe, partitions_over
from backfill_assets.planning.request import Plan, PlanRequest
from backfill_assets.settings import PROJECT_ROOT, Settings, default_home
from backfill_assets.upkeep.audit import AuditReport
from backfill_assets.workspace import Workspace

ASKS, AGREES = "ana", "ben"
MARKER = "DEMO"
_MADE_BY_A_RUN = (
    *("lake", "landing", "landing_in_progress", "dagster", "demo_files", "reference_archive", "logs", "reports"),
    *("ledger.db", "last_audit.json", MARKER),
)

Figures = Mapping[tuple[str, ...], Any]


@dataclass(kw_only=True)
class Narration:
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
        console: The console for the output.
        size: How much history to make up; the domain's usual size for None.
        seed: The same seed makes the same history.
        fresh: Start again even if other files were landed after an earlier demo.
        quiet: Print nothing.

    Returns:
        What it did.

    Raises:
        Refused: The home holds work that no demo made, or the domain has no demo.
    """
    began = time.monotonic()
    settings = Settings.from_environment()
    narration = Narration(console=Console(quiet=True) if quiet else console)
    with opened(quiet=quiet) as session:
        if session.ws.domain.demo is None:
            raise Refused(f"the domain {session.ws.domain.name} has no demo.", next_step="unset BACKFILL_DOMAIN")
        _prepare_home(session.ws, settings, fresh=fresh)
    with opened(quiet=quiet) as session:
        assert session.ws.domain.demo is not None
        demo = session.ws.domain.demo
        chosen = (size or demo.size, demo.seed if seed is None else seed)
        return _Play(
            ws=session.ws,
            asks=session.acting(ASKS, on="demo"),
            agrees=session.acting(AGREES, on="demo"),
            demo=demo,
            narration=narration,
            began=began,
        ).whole(chosen)


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
    stores = [place for place in (settings.lake, settings.landing) if isinstance(place, StoreUrl)]
    if stores and (is_used or any(ws.lake.exists(table) for table in ws.domain.tables)):
        raise Refused(
            f"{' and '.join(map(str, stores))} may hold an earlier demo, and a demo removes nothing from a store.",
            next_step="set BACKFILL_LAKE and BACKFILL_LANDING to prefixes without anything, and BACKFILL_HOME to an "
            "empty folder",
        )
    ws.close()
    for name in _MADE_BY_A_RUN:
        _remove(home / name)
    for leftover in home.glob("ledger.db-*"):
        leftover.unlink()
    home.mkdir(parents=True, exist_ok=True)
    made = f"Everything here was made by `{words_of(do(Act.DEMO))}`, and the next one starts anew.\n"
    marker.write_text(made, encoding="utf-8")
    shipped = LocalFiles(PROJECT_ROOT / "data" / "reference")
    if next(ws.reference_files.listed(), None) is None:
        for each in shipped.listed():
            ws.reference_files.put_if_absent(each.path, shipped.read(each.path))


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@dataclass(frozen=True, kw_only=True)
class _Play:
    """The steps of the demo over one session."""

    ws: Workspace
    asks: Acting
    agrees: Acting
    demo: Demo
    narration: Narration
    began: float

    def whole(self, chosen: tuple[int, int]) -> DemoReport:
        """Every step, in order."""
        imports = self.files_come_in(chosen)
        first, before = self.history_is_published()
        self.narration.step("The history turns out to be wrong", self.demo.defect)
        second = self.restatement_is_planned()
        report, after = self.restatement_is_published(second, before)
        restored = self.restatement_is_rolled_back(second, before)
        final = self.restatement_is_published_again(second, after)
        self.narration.step("The audit: do ledger, tables and landed files agree?")
        found = look.audit(self.ws, head=None, is_quick=False)
        self.show(audit_view(found))
        elapsed_s = time.monotonic() - self.began
        self.where_everything_is(second, elapsed_s)
        return DemoReport(
            home=str(self.ws.settings.home),
            imports=imports,
            first_run=first,
            restatement=second,
            totals=report.totals,
            figures_moved=before != after,
            rollback_restored_figures=restored == before,
            republished_figures=final == after,
            audit=found,
            elapsed_s=round(elapsed_s, 1),
        )

    def files_come_in(self, chosen: tuple[int, int]) -> tuple[ImportDocument, ...]:
        """Ten files land, and bronze is built from them."""
        self.narration.step(
            "Files come in", "Ten monthly exports, with late events, duplicates, corrections and broken records."
        )
        ws, source = self.ws, self.demo.source
        files = self.demo.write_files(ws.settings.home / "demo_files", *chosen)
        landed = land_files(ws, source.name, files, self.asks, on_duplicate="ignore", builds=False)
        self.show(imports_view(landed.imports), "landed = accepted + duplicate + superseded + rejected, in every file")
        self.show(f"Rejected records are kept with file, line and reason in {ws.lake.place(source.quarantine)}")
        covered = partitions_over(Grain.DAILY, self.demo.covered)
        silent = days_without_events(ws, source.name, covered)
        built = plan_load(ws, source.name, partitions=covered, by=ASKS, reason="ten monthly exports", empty=silent)
        assert built is not None
        loaded = build(ws, built, self.asks)
        self.show(f"{source.name} is built from them: {loaded.run.partitions_described}")
        if silent:
            self.show(f"{ASKS} declares {describe(Grain.DAILY, silent)} to be without events; the manifest records it.")
        return landed.imports

    def history_is_published(self) -> tuple[str, Figures]:
        """The history is published by the defective version, and the dependent table follows."""
        demo = self.demo
        self.narration.step(
            f"The history is published, computed by version {demo.defective_version}",
            f"{demo.table.name} for {describe(Grain.DAILY, demo.history)}. It is staged in files that readers do not "
            f"see, its gates are measured, another person approves, and one commit makes it visible.",
        )
        run = Run(self.ws, self.planned(demo.history, "first publication", demo.defective_version).manifest.run_id)
        run.approve(by=AGREES, note="")
        run.stage(self.asks)
        self.show(publications_view([run.publish(self.agrees)]))
        self.show(f"{demo.figures[0].name} depends on it and follows:", *self.follow())
        return run.run_id, self.figures()

    def restatement_is_planned(self) -> str:
        """A restatement is planned, and approved by another person than its requester."""
        demo = self.demo
        self.narration.step(
            "A plan shows what a restatement would read and replace",
            "Warm-up is read and never published. The manifest below is what will run, and what is approved.",
        )
        planned = self.planned(demo.restated, "deadlines were computed in UTC", demo.corrected_version)
        self.show(plan_view(described_plan(self.ws, planned)))
        run = Run(self.ws, planned.manifest.run_id)
        try:
            run.approve(by=ASKS, note="")
        except NotApproved as refusal:
            self.show("", f"{ASKS} tries to approve her own plan: refused, {refusal.message}")
        run.approve(by=AGREES, note="")
        self.show(f"{AGREES} approves.")
        return run.run_id

    def restatement_is_published(self, run_id: str, before: Figures) -> tuple[RunReport, Figures]:
        """It is staged, gated and published."""
        self.narration.step("It is staged and gated; readers still see the old rows")
        report = Run(self.ws, run_id).stage(self.asks)
        self.show(report_view(report))
        self.narration.step("It is published in one commit, and the months that depend on it follow")
        after = self.published(run_id)
        self.show(_movement(self.demo, before, after, ("before", "after")))
        return report, after

    def restatement_is_rolled_back(self, run_id: str, before: Figures) -> Figures:
        """It is undone."""
        self.narration.step("It is rolled back: readers see exactly the files from before")
        undone = Run(self.ws, run_id).rollback(
            self.agrees, reason="the press office needs a day", with_dependents=False
        )
        self.follow()
        restored = self.figures()
        self.show(publications_view([undone.publication]))
        self.show(f"{self.demo.figures[0].name} is as it was: {'yes' if restored == before else 'NO'}")
        return restored

    def restatement_is_published_again(self, run_id: str, after: Figures) -> Figures:
        """It is approved and published once more, from the same files."""
        self.narration.step("It is approved again and published again; nothing is computed a second time for it")
        Run(self.ws, run_id).approve(by=AGREES, note="")
        final = self.published(run_id)
        self.show(f"{self.demo.figures[0].name} shows the corrected figures again: {'yes' if final == after else 'NO'}")
        return final

    def where_everything_is(self, run_id: str, elapsed_s: float) -> None:
        """What to look at next."""
        ws, command = self.ws, _command(self.ws.settings)
        self.narration.step(
            "Where everything is",
            *(f"{table}: {ws.lake.place(table)}" for table in ws.domain.tables),
            f"ledger: {ws.settings.ledger_url}",
            "",
            "Try:",
            f"  {command} status",
            f"  {command} history {self.demo.table.name} --partition {self.demo.restated.start}",
            f"  {command} report {run_id}",
            "  make dev    shows the same tables, runs and checks in Dagster's UI",
            "",
            f"The demo took {elapsed_s:.0f} s.",
        )

    def planned(self, days: DayRange, reason: str, version: str) -> Plan:
        """A planned run of the demo's table."""
        table = self.demo.table.name
        return plan(self.ws, PlanRequest(table=table, days=days, reason=reason, by=ASKS, transform_version=version))

    def published(self, run_id: str) -> Figures:
        """Publishes a run, lets its dependents follow, and reads their figures."""
        Run(self.ws, run_id).publish(self.agrees)
        self.follow()
        return self.figures()

    def follow(self) -> Sequence[NextStep]:
        """What depends on publications is computed again."""
        return follow_document(follow(self.ws, replace(self.asks, by="follow"))).sentences

    def figures(self) -> Figures:
        """The dependent table's figures by key, as readers see them now."""
        table, column = self.demo.figures
        rows = look.figures(self.ws, table.name, [*table.key, column])
        return {tuple(str(row[name]) for name in table.key): row[column] for row in rows}

    def show(self, *parts: RenderableType | NextStep) -> None:
        """Prints."""
        show(self.narration.console, *parts)


def _command(settings: Settings) -> str:
    """How to call the command from where the reader is, over the demo's home."""
    installed = shutil.which("backfill") is not None
    home = "" if settings.home == default_home() else f"BACKFILL_HOME={settings.home} "
    return f"{home}{'backfill' if installed else '.venv/bin/backfill'}"


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
