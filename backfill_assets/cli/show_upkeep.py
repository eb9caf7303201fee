"""Terminal views of an audit, a reproduction, a vacuum and an examination."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from backfill_assets.cli.show import facts, listing, mebibytes, problems_view
from backfill_assets.cli.terminal import view
from backfill_assets.core.wording import visible
from backfill_assets.planning.partitions import count_of
from backfill_assets.report.advice import next_step_of
from backfill_assets.report.command_line import words_of
from backfill_assets.report.page import page
from backfill_assets.report.requests import NextStep, step
from backfill_assets.report.screens.run_report import sample_table

if TYPE_CHECKING:
    # They import Spark, which a view of them does not need.
    from backfill_assets.application.recorder import Pruned
    from backfill_assets.application.upkeep import VacuumDocument
    from backfill_assets.upkeep.audit import AuditReport, SourceAccount
    from backfill_assets.upkeep.doctor import DoctorReport
    from backfill_assets.upkeep.rebuild import Difference
    from backfill_assets.upkeep.reproduce import ReproductionReport, ReproductionVersions
    from backfill_assets.upkeep.vacuum_report import FileCount, VacuumedTable

_MOST_DIFFERENCES = 40
_HEALTH_STYLE = {"sound": "green", "failed": "red", "not needed": "dim"}


def doctor_view(report: DoctorReport) -> Sequence[RenderableType | NextStep]:
    """Every part with what was found, and below what to do about those that failed."""
    rows = [[each.part, Text(each.health, style=_HEALTH_STYLE[each.health]), each.found] for each in report.parts]
    failed = [(each.part, next_step_of(each.error)) for each in report.parts if each.error]
    steps = [step(f"{part}: ", following) for part, following in failed if following]
    return [listing("what operations stand on", ["part", "", "found"], rows), *steps]


def audit_view(audit: AuditReport) -> RenderableType:
    """What was looked at, the account of every source, and whether everything agrees."""
    looked = facts(
        [
            ("events in the chain", f"{audit.events:,}"),
            ("accepted partitions", f"{audit.partitions:,}, {audit.files:,} files"),
            ("table commits", f"{audit.commits:,}"),
            ("landed files", f"{audit.imports:,}"),
            ("archived references", f"{audit.references:,}"),
            ("bytes read", f"{audit.size_bytes:,}" if audit.size_bytes else "none"),
            ("head of the chain", audit.head),
            *((f"keys of {each.source}", _account(each)) for each in audit.accounts),
        ]
    )
    if audit.agrees:
        return Group(looked, Text("everything agrees", style="green"))
    # It knows the rooms of upkeep, which no other view needs.
    from backfill_assets.report.advice.upkeep import after_audit

    problems = (Text(visible(f"- {problem}"), style="red") for problem in audit.problems)
    return Group(looked, *problems, *(Text(visible(f"next: {words_of(step)}")) for step in after_audit(audit)))


def _account(found: SourceAccount) -> str:
    return (
        f"{found.accepted:,} accepted = {found.current:,} current + {found.deleted:,} deleted + "
        f"{found.withdrawn:,} withdrawn"
    )


def reproduction_view(reproduction: ReproductionReport) -> RenderableType:
    """Whether a published run follows from its manifest, and where not."""
    checked = f"{reproduction.partitions_described} of {reproduction.of_partitions:,} in the run"
    head = facts(
        [
            ("run", reproduction.run_id),
            ("table", f"{reproduction.table} by {reproduction.transform} {reproduction.transform_version}"),
            ("rebuilt", f"{checked}; {count_of(reproduction.rows, 'row')}"),
            ("other versions", _other_versions(reproduction.versions)),
        ]
    )
    if reproduction.identical:
        return Group(head, Text("identical: every content checksum is the recorded one", style="green"))
    parts: list[RenderableType] = [head, "", _differences(reproduction.differences)]
    if reproduction.sample:
        parts += ["", view(page("", sample_table(reproduction.sample)))]
    return Group(*parts)


def _differences(differences: Sequence[Difference]) -> RenderableType:
    rows = [
        [d.partition, d.expected_rows, d.rows, d.added, d.removed, d.changed, d.unchanged, _columns(d)]
        for d in differences[:_MOST_DIFFERENCES]
    ]
    title = f"{count_of(len(differences), 'partition')} differ: what was rebuilt against what was published"
    heads = ["partition", "published", "rebuilt", "added", "removed", "changed", "unchanged"]
    return listing(title, [*heads, "columns"], rows, numbers=heads[1:])


def _other_versions(versions: ReproductionVersions) -> str:
    """What is not as it was recorded when the run was staged."""
    recorded, present = versions.recorded, versions.present
    names = sorted(name for name in recorded.keys() | present.keys() if recorded.get(name) != present.get(name))
    return ", ".join(f"{name} {recorded.get(name)}, now {present.get(name)}" for name in names)


def _columns(difference: Difference) -> str:
    if difference.changed_columns is None:
        return "the published files are gone; only checksums were compared"
    return ", ".join(f"{name} {count:,}" for name, count in difference.changed_columns.items())


def vacuum_view(vacuum: VacuumDocument) -> RenderableType:
    """What went or would go, what stays, and why."""
    lake = vacuum.lake
    verb = "would go" if lake.dry_run else "removed"
    rollback, reproduction = count_of(lake.rollback_days, "day"), count_of(lake.reproduction_days, "day")
    head = facts(
        [
            (verb, _amount(lake.removed)),
            ("kept", _amount(lake.kept)),
            ("horizons", f"rollback {rollback}, reproduction {reproduction}"),
            ("versions without files from now on", f"{lake.versions_removed:,}"),
            ("Dagster's history", _pruned(vacuum.dagster, verb)),
        ]
    )
    tables = [part for table in lake.tables for part in _vacuumed(table, verb)]
    return Group(head, *tables, *problems_view(lake.problems))


def _vacuumed(table: VacuumedTable, verb: str) -> Sequence[RenderableType]:
    parts: list[RenderableType] = []
    if table.skipped:
        parts += ["", Text(f"{table.table}: left alone, {table.skipped}", style="yellow")]
    if table.runs:
        rows = [[f.run_id, "kept" if f.kept else verb, f.files, mebibytes(f.size_bytes), f.reason] for f in table.runs]
        parts += ["", listing(table.table, ["run", "", "files", "MiB", "why"], rows, numbers=["files", "MiB"])]
    return parts


def _pruned(dagster: Pruned, verb: str) -> str:
    old = f"{count_of(dagster.runs, 'run')} older than {count_of(dagster.days, 'day')}"
    gone = f"{verb}: {old}, {mebibytes(dagster.size_bytes)} MiB; {dagster.kept_runs:,} on pages kept"
    return f"{gone}. {dagster.note}" if dagster.note else gone


def _amount(counted: FileCount) -> str:
    return f"{count_of(counted.files, 'file')}, {mebibytes(counted.size_bytes)} MiB"
