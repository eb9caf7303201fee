"""Upkeep: what operations stand on, whether everything agrees and can be reproduced, and which files are not needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from backfill_assets.calendar.partitions import count_of
from backfill_assets.core.next_steps import step
from backfill_assets.report.documents import INLINE
from backfill_assets.report.page import (
    Block,
    Note,
    Page,
    Table,
    Tone,
    Toned,
    facts,
    next_steps,
    page,
    run_ref,
    section,
    table,
)
from backfill_assets.report.repairs import after_audit
from backfill_assets.report.runs import problem_notes
from backfill_assets.report.screens.shown_rows import sample_table
from backfill_assets.report.values import mebibytes
from backfill_assets.upkeep.audit import AuditReport, SourceAccount
from backfill_assets.upkeep.doctor import DoctorReport, Health
from backfill_assets.upkeep.reproduce import Difference, ReproductionReport, ReproductionVersions
from backfill_assets.upkeep.vacuum import FileCount, LeftAlone, VacuumedTable, VacuumReport, Why

# Document of a clean-up: what became of staged files, and of the history that a recorder keeps.


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """The part of a recorder's history that was removed, or would be."""

    days: int  #: How old a recorded run is before it is removed.
    runs: int = 0  #: How many were removed, or would be.
    kept_runs: int = 0  #: How many older ones stay, because a page still shows them.
    #: By how much the files are smaller; in a dry run, and with PostgreSQL, what was recorded of them.
    size_bytes: int = 0
    #: Why it was left alone, or what is left to do; null when there is nothing. That is no problem of the lake.
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumDocument:
    """The actions of a clean-up, done or planned."""

    lake: VacuumReport = field(metadata=INLINE)  #: Of staged files.
    dagster: Pruned  #: Of Dagster's record of runs.


_MOST_DIFFERENCES = 40
_TONES = {Health.SOUND: Tone.GOOD, Health.FAILED: Tone.BAD, Health.NOT_NEEDED: Tone.SOFT}

WHY: Mapping[Why, str] = {
    Why.ACCEPTED: "readers see it",
    Why.LIVE: "the table's log names it",
    Why.CANDIDATE: "candidate of a run that can still be published",
    Why.WRITING: "its run is being staged or gated",
    Why.TRIAL: "candidate of a trial run, within the rollback horizon",
    Why.ROLLED_BACK: "rolled back, within the rollback horizon",
    Why.REPLACED: "a rollback would restore it",
    Why.INPUT: "input of a run that can still be published",
    Why.REPLAYED: "a replay has still to send it",
    Why.EVIDENCE: "published within the reproduction horizon",
    Why.REPRODUCTION: "input of a run published within the reproduction horizon",
    Why.IN_USE: "a reproduction may be using it",
    Why.UNKNOWN: "of no run or landed file of this ledger",
    Why.PAST: "replaced or rolled back, past every horizon",
    Why.FINISHED: "candidate of a run that is past every horizon",
    Why.CANCELLED: "candidate of a run that was cancelled",
    Why.ATTEMPT: "left by staging, and no candidate refers to it",
    Why.SCRATCH: "left by a reproduction that did not finish",
    Why.NOT_LIVE: "records that were quarantined again",
}
"""Why files stay or go."""

LEFT_ALONE: Mapping[LeftAlone, str] = {
    LeftAlone.OPEN_PUBLICATION: "a publication is open",
    LeftAlone.UNREADABLE_MANIFEST: "a manifest that may need its files cannot be read",
    LeftAlone.MOVED_ON: "it was published or taken up again meanwhile; vacuum it again",
}
"""Why a table was left alone."""


def doctor_page(report: DoctorReport) -> Page:
    """Every part with what was found, and below what to do about those that failed."""
    rows = [(each.part, Toned(value=each.health, tone=_TONES[each.health]), each.found) for each in report.parts]
    failed = [(each.part, each.error.next_step) for each in report.parts if each.error]
    return page(
        "Doctor",
        section("what operations stand on", table(["part", "", "found"], rows, whole=[""])),
        *(Note(text=step(f"{part}: ", following)) for part, following in failed if following),
    )


def audit_page(audit: AuditReport) -> Page:
    """The page of an audit: what was looked at, the account of every source, and whether everything agrees."""
    agrees = Note(text="everything agrees", tone=Tone.GOOD) if audit.agrees else None
    return page(
        "Audit",
        facts(
            ("events in the chain", audit.events),
            ("accepted partitions", f"{audit.partitions:,}, {count_of(audit.files, 'file')}"),
            ("table commits", audit.commits),
            ("landed files", audit.imports),
            ("archived references", audit.references),
            ("bytes read", audit.size_bytes or "none"),
            ("newest event, and its hash", audit.head),
            *((f"keys of {each.source}", _account(each)) for each in audit.accounts),
        ),
        agrees,
        *(Note(text=f"- {problem}", tone=Tone.BAD) for problem in audit.problems),
        *(Note(text=f"- {each}", tone=Tone.ATTENTION) for each in audit.undone),
        next_steps(*after_audit(audit)),
    )


def _account(found: SourceAccount) -> str:
    return (
        f"{found.accepted:,} accepted = {found.current:,} current + {found.deleted:,} deleted + "
        f"{found.withdrawn:,} withdrawn"
    )


def reproduction_page(found: ReproductionReport) -> Page:
    """The page on reproduction: does a published run follow from its manifest, and where not."""
    checked = f"{found.partitions} of {found.of_partitions:,} in the run; {count_of(found.rows, 'row')}"
    identical = Note(text="identical: every partition has exactly the rows that were published", tone=Tone.GOOD)
    behind = [
        (run_ref(each.run_id), each.table, len(each.partitions), "identical" if each.identical else "differs")
        for each in found.behind
    ]
    differ = f"{count_of(len(found.differences), 'partition')} differ: what was rebuilt against what was published"
    return page(
        "Reproduction",
        facts(
            ("run", run_ref(found.run_id)),
            ("table", f"{found.table} by {found.transform} {found.transform_version}"),
            ("rebuilt", checked),
            ("code", "as it was archived when the run was planned; it is edited now" if found.archived_code else None),
            ("other versions", _other_versions(found.versions)),
        ),
        section(differ, _differences(found.differences)) if found.differences else None,
        identical if found.identical else None,
        section("what it read, rebuilt from the files that landed", table(["run", "table", "partitions", ""], behind))
        if behind
        else None,
        sample_table(found.sample),
    )


def _differences(differences: Iterable[Difference]) -> Table:
    rows = [
        (d.partition, d.expected_rows, d.rows, d.added, d.removed, d.changed, d.unchanged, _columns(d))
        for d in differences
    ]
    counts = ["published", "rebuilt", "added", "removed", "changed", "unchanged"]
    heads = ["partition", *counts, "columns"]
    return table(heads, rows, numbers=counts, whole=["partition"], most=_MOST_DIFFERENCES)


def _other_versions(versions: ReproductionVersions) -> str:
    """The versions that differ from those recorded when the run was staged."""
    recorded, present = versions.recorded, versions.present
    names = sorted(name for name in recorded.keys() | present.keys() if recorded.get(name) != present.get(name))
    return ", ".join(f"{name} {recorded.get(name)}, now {present.get(name)}" for name in names)


def _columns(difference: Difference) -> str:
    if difference.changed_columns is None:
        return "the published files are gone; only checksums were compared"
    return ", ".join(f"{name} {count:,}" for name, count in difference.changed_columns.items())


def vacuum_page(vacuum: VacuumDocument) -> Page:
    """The page on what was removed or would be, what stays, and why."""
    lake = vacuum.lake
    verb = "would go" if lake.dry_run else "removed"
    rollback, reproduction = count_of(lake.rollback_days, "day"), count_of(lake.reproduction_days, "day")
    return page(
        "Vacuum",
        facts(
            (verb, _amount(lake.removed)),
            ("kept", _amount(lake.kept)),
            ("horizons", f"rollback {rollback}, reproduction {reproduction}"),
            ("versions without files from now on", lake.versions_removed),
            ("Dagster's history", _pruned(vacuum.dagster, verb)),
        ),
        *(block for each in lake.tables for block in _vacuumed(each, verb)),
        *problem_notes(lake.problems),
    )


def _vacuumed(found: VacuumedTable, verb: str) -> Sequence[Block | None]:
    rows = [(f.run_id, "kept" if f.kept else verb, f.files, mebibytes(f.size_bytes), WHY[f.reason]) for f in found.runs]
    heads, numbers = ["run", "", "files", "size", "why"], ["files", "size"]
    skipped = (
        Note(text=f"{found.table}: left alone, {LEFT_ALONE[found.skipped]}", tone=Tone.ATTENTION)
        if found.skipped
        else None
    )
    return (skipped, section(found.table, table(heads, rows, numbers=numbers, whole=["run"])))


def _pruned(dagster: Pruned, verb: str) -> str:
    old = f"{count_of(dagster.runs, 'run')} older than {count_of(dagster.days, 'day')}"
    gone = f"{verb}: {old}, {mebibytes(dagster.size_bytes)}; {dagster.kept_runs:,} on pages kept"
    return f"{gone}. {dagster.note}" if dagster.note else gone


def _amount(counted: FileCount) -> str:
    return f"{count_of(counted.files, 'file')}, {mebibytes(counted.size_bytes)}"
