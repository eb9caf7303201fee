"""Upkeep: whether everything agrees and can be reproduced, which files are not needed, and what repairs lost ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING

from backfill_assets.calendar.partitions import Grain, Partitions, compress, count_of, partition_text
from backfill_assets.core.grouped import grouped
from backfill_assets.core.next_steps import NAME, WHY, Command, NextStep, do, step, to_publish
from backfill_assets.planning.next_steps import joined, loads, restated
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
from backfill_assets.report.runs import problem_notes
from backfill_assets.report.shown_rows import keys_table, sample_table
from backfill_assets.report.values import as_sentence, mebibytes
from backfill_assets.report.words.verdicts import verdict_words
from backfill_assets.upkeep.audit import AuditReport, SourceAccount
from backfill_assets.upkeep.check import GateOnRows, NotMeasurable, RowsCheck
from backfill_assets.upkeep.damage import Amiss, Damage, Lost
from backfill_assets.upkeep.doctor import DoctorReport, Health
from backfill_assets.upkeep.reproduce import Difference, ReproductionReport, ReproductionVersions
from backfill_assets.upkeep.vacuum import FileCount, LeftAlone, VacuumedTable, VacuumReport, Why

if TYPE_CHECKING:
    from backfill_assets.upkeep.audit import AuditReport
    from backfill_assets.upkeep.check import CheckedTable, RowsCheck


def after_audit(audit: AuditReport) -> Sequence[NextStep]:
    """The next steps for the problems of an audit, in the order in which they are done; alike ones in one step."""
    if audit.agrees:
        return ()
    damages = [each.damage for each in audit.problems if isinstance(each, Amiss)]
    readable = {each.table for each in damages if each.kind in _OPENED_AFTER}
    broken = [each for each in audit.unreadable if each.table not in readable]
    kinds = grouped((each.kind, each) for each in dict.fromkeys(damages))
    steps = (
        *(step for kind in Lost if kind in kinds for step in _after_loss(kind, kinds[kind])),
        *(found for problem in broken if (found := problem.error.next_step)),
        *([step(do(Command.RECOVER))] if audit.has_open_publications or audit.has_other_times else []),
    )
    return steps or (step("restore ledger and lake from backups of the same time; then ", do(Command.AUDIT)),)


_OPENED_AFTER = frozenset({Lost.NOT_NEEDED, Lost.COMMIT, Lost.EVIDENCE})
"""After the next step for these a table can be opened."""


def _after_loss(kind: Lost, found: Sequence[Damage]) -> Iterator[NextStep]:
    """The next step after damages of one kind."""
    match kind:
        case Lost.LEDGER:
            yield step("restore the ledger from a backup that has not been edited; then ", do(Command.AUDIT))
        case Lost.LANDED:
            for each in found:
                fetch = f"fetch {each.named} (sha256 {each.sha256}) from the archive; to land it again puts it back: "
                yield step(fetch, do(Command.LAND, _short(each.table), each.named, by=NAME))
        case Lost.CAPTURED:
            for each in found:
                yield step(f"restore {each.place} (sha256 {each.sha256}) from a backup; then ", do(Command.AUDIT))
        case Lost.CONFORMED | Lost.QUARANTINED:
            for place, alike in grouped((each.place, each) for each in found).items():
                # Files are landed from a folder.
                copied = place.rpartition("/")[2] if "://" in place else place
                first = "" if copied == place else f"copy {place} to this folder, and "
                again = do(Command.LAND, _short(alike[0].table), copied, on_duplicate="reprocess", by=NAME)
                yield step(f"{first}judge its records again, from the landed file: ", again)
        case Lost.SEGMENT | Lost.NOT_NEEDED:
            for each in found:
                why = (
                    "it is written again when it is needed"
                    if kind is Lost.SEGMENT
                    else "readers begin with the commits"
                )
                yield step(f"remove {each.place}: {why}; then ", do(Command.AUDIT))
        case Lost.REFERENCE:
            for each in found:
                said = f"put {each.named} back as {each.place}: the file whose sha256 is {each.sha256}; then "
                yield step(said, do(Command.AUDIT))
        case Lost.TABLE | Lost.CODE:
            for place in dict.fromkeys(each.place for each in found):
                yield step(f"restore {place} from a backup; then ", do(Command.AUDIT))
        case Lost.COMMIT:
            for table, of_table in grouped((each.table, each) for each in found).items():
                wanted = ", ".join(f"{each.place} (sha256 {each.sha256})" for each in of_table)
                log = of_table[0].place.rpartition("/")[0]
                without = f"restore {wanted} from a backup; without one, move {log} away, and set {table} to what its "
                yield step(without, "publications left: ", do(Command.RECOVER, table, reason=WHY, by=NAME))
        case Lost.EVIDENCE:
            for table, of_table in grouped((each.table, each) for each in found).items():
                how = f"write {table} again from the ledger (move {of_table[0].place} away if it cannot be opened): "
                yield step(how, do(Command.RECOVER, table))
        case Lost.FOREIGN:
            for table in dict.fromkeys(each.table for each in found):
                undoes = f"set {table} to what its publications left, which undoes what another program did: "
                yield step(undoes, do(Command.RECOVER, table, reason=WHY, by=NAME))
        case Lost.ACCEPTED:
            for repair in dict.fromkeys(each.repair for each in found if each.repair):
                is_ready = any(each.is_repaired for each in found if each.repair == repair)
                yield step(
                    f"{repair} repairs lost files: ", to_publish(repair) if is_ready else do(Command.STATUS, repair)
                )
            begun = [each for each in found if not each.repair]
            for (table, _), lost in grouped(((each.table, each.run_id), each) for each in begun).items():
                days = sorted({each.partition for each in lost if each.partition is not None})
                yield step(
                    f"restore the lost files of {table} from a backup, or compute them again: ", _repair(lost[0], days)
                )
        case Lost.EARLIER:
            for table, of_table in grouped((each.table, each) for each in found).items():
                accept = do(Command.RECOVER, table, reason=WHY, by=NAME)
                yield step(f"restore them below {of_table[0].place} from a backup, or accept the loss: ", accept)
        case Lost.NOTHING:
            pass


def _repair(lost: Damage, days: Sequence[date]) -> NextStep:
    """The commands that compute lost partitions again: those of a source are loaded, others planned."""
    if lost.table.startswith("bronze."):
        return joined(loads(lost.table, days))
    if lost.grain is None:
        return step("declare the table again; then ", do(Command.AUDIT))
    plans = [
        do(Command.PLAN_TABLE, _short(lost.table), kind="repair", reason=WHY, first=some.start, last=some.last, by=NAME)
        for some in compress(lost.grain, days)
    ]
    return joined(plans)


def _short(table: str) -> str:
    return table.partition(".")[2]


def after_check(table: CheckedTable) -> NextStep:
    """The commands that build partitions again which do not hold what their table declares."""
    if table.contract_version is not None:
        return joined(loads(table.table, table.restate or ()))
    return step(
        do(Command.STALE, table.table), " says whether its inputs and its release still are those of these rows"
    )


def after_rows_check(found: RowsCheck) -> Iterator[NextStep]:
    """The commands that replace accepted rows which fail a blocking gate, and bring back those that could not be
    read."""
    failed = [each.failed for each in found.gates if each.blocking and each.failed]
    if failed:
        days = sorted({day for each in failed for day in each})
        yield restated(found.table, Partitions.of(failed[0].grain, days))
    if found.not_measurable:
        yield step(do(Command.AUDIT), " says what is damaged, and what repairs it")


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

WHY_LEFT_ALONE: Mapping[Why, str] = {
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
    rows = [
        (f.run_id, "kept" if f.kept else verb, f.files, mebibytes(f.size_bytes), WHY_LEFT_ALONE[f.reason])
        for f in found.runs
    ]
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


def rows_page(found: RowsCheck) -> Page:
    """The page on a check of rows: what was measured, what each gate found, and what replaces rows that fail."""
    grain = Grain.DAILY if found.partitions is None else found.partitions.grain
    which = "" if found.partitions is None else f": {found.partitions}"
    rows = [
        (each.gate, "blocks" if each.blocking else "informs", _outcome(each, grain.noun), each.failed)
        for each in found.gates
    ]
    return page(
        f"Accepted rows of {found.table}{which}",
        section("Gates", table(["gate", "failure", "outcome", "failed in"], rows)),
        *(block for each in found.gates for block in _failed(each, grain)),
        Note(text=as_sentence(_not_accepted(found, found.not_accepted)), tone=Tone.ATTENTION)
        if found.not_accepted
        else None,
        Note(text=_of_candidates(found.of_candidates)) if found.of_candidates else None,
        *(Note(text=as_sentence(_not_measured(each)), tone=Tone.BAD) for each in found.not_measurable),
        Note(text=f"replaced meanwhile, and measured as before: {found.replaced}", tone=Tone.ATTENTION)
        if found.replaced
        else None,
        Note(text="every blocking gate passes, and nothing was changed", tone=Tone.GOOD) if found.passes else None,
        next_steps(*after_rows_check(found)),
    )


def _outcome(found: GateOnRows, noun: str) -> str:
    if found.failed is None:
        nothing = f", {found.nothing_known:,} without an entry to compare" if found.nothing_known else ""
        return f"passed in {count_of(found.measured, noun)}{nothing}"
    return f"failed in {len(found.failed):,} of {count_of(found.measured, noun)}"


def _not_accepted(found: RowsCheck, lacking: Partitions) -> str:
    every = count_of(found.asked or len(lacking), lacking.grain.noun)
    return f"no accepted rows on {len(lacking):,} of {every}: {lacking}"


def _of_candidates(gates: Sequence[str]) -> str:
    """The sentence that gates are about a candidate beside what was accepted before it, as the usual."""
    names, them = ", ".join(gates), "it" if len(gates) == 1 else "them"
    return f"asked only of candidates: {names}. Check does not measure {them}: each run does, and its report shows it"


def _not_measured(found: NotMeasurable) -> str:
    return f"{found.partitions} could not be measured with {', '.join(found.gates)}: {found.why}"


def _failed(found: GateOnRows, grain: Grain) -> Iterator[Block | None]:
    if found.failed is None:
        return
    rows = [
        (partition_text(grain, each.partition), each.version, verdict_words(each.result)) for each in found.failures
    ]
    yield section(f"{found.gate} fails", table(["partition", "version", "found"], rows, numbers=["version"]))
    yield section(f"Keys of rows that fail {found.gate}", keys_table(found.keys, grain), of_rows=True)
