"""Audit: verifies that the ledger, the tables and their logs agree.

It compares the event chain with itself, the ledger's rows with its events, accepted versions with the files that
readers see and with their bytes, archived references with the manifests that pin them, publications with the commits
that contain them, and every commit with the publication that explains it. docs/guarantees.md lists what it finds and
what it cannot find.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from pathlib import Path

from backfill_assets.core.columns import LINEAGE
from backfill_assets.core.errors import BackfillError, Problem, Problems, Refused
from backfill_assets.core.grouped import grouped
from backfill_assets.core.local_files import open_regular
from backfill_assets.core.progress import Listener, Progress, no_listener
from backfill_assets.lake.append import validation_table
from backfill_assets.lake.log_evidence import not_needed
from backfill_assets.lake.swap import exchanged
from backfill_assets.ledger.imports import ImportRecord, sums_by_source
from backfill_assets.ledger.records import ApprovalGrounds, PublicationRecord, RunRecord
from backfill_assets.ledger.states import COUNTING, PublicationState, RunState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest_parts import NEVER_PUBLISHED, PinnedReference, RunPurpose
from backfill_assets.planning.safeguards import APPROVERS
from backfill_assets.requests.verdict import brings_back_what_was_recorded
from backfill_assets.transforms.code import changed_in_code_archive
from backfill_assets.transforms.references import archived_path, changed_in_archive
from backfill_assets.upkeep.alignment import Behind, out_of_step, words_of
from backfill_assets.upkeep.audit_checks import (
    changed_of,
    commits_against_ledger,
    commits_as_recorded,
    conformed_problems,
    earlier_files_against_ledger,
    files_against_ledger,
    kept_versions,
    lineage_problems,
    log_against_ledger,
    of_version,
    quarantine_problems,
    quarantine_statistics,
    raw_file_problems,
    segment_problems,
    statistics_problems,
    validation_problems,
)
from backfill_assets.upkeep.damage import Amiss, Damage, Lost
from backfill_assets.workspace import Workspace

HEAD = re.compile(r"[0-9]{1,18}:[0-9a-f]{64}")
"""What `audit` prints as the head of the event chain, whose sequence both databases can count to."""

MOST_LOOKS = 3
"""How often a log is compared with the ledger while publications land."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceAccount:
    """The account of one source: keys ever accepted = current + deleted + withdrawn."""

    source: str  #: The source.
    accepted: int  #: How many keys its landed files have ever brought.
    current: int  #: How many of them are current.
    deleted: int  #: How many are deleted.
    withdrawn: int  #: How many are withdrawn.


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The verdict of an audit: what it looked at, and what does not agree."""

    agrees: bool  #: True if everything does.
    head: str  #: The last event of the chain, as `SEQUENCE:HASH`: what `audit --head` takes.
    events: int  #: How many events the chain has.
    partitions: int  #: How many accepted partitions were looked at.
    commits: int  #: How many commits of tables.
    files: int  #: How many files of accepted versions.
    imports: int  #: How many landed files.
    size_bytes: int  #: How many bytes of files were read; 0 with `--quick`.
    problems: tuple[str, ...]  #: What does not agree, in sentences.


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport(Verdict):
    """The verdict of an audit, with what only its command shows."""

    references: int  #: How many archived references that runs were planned with.
    accounts: tuple[SourceAccount, ...]  #: The keys of each source that has landed files.
    unreadable: tuple[Problem, ...]  #: The tables that could not be opened, each with the error.
    has_open_publications: bool  #: True if a publication is still open, which `recover` ends.
    #: True if a table is older than the ledger, or newer, of which `recover` says what to do.
    has_other_times: bool = False
    #: Commits of other programs that were undone: readers see what publications left, and saw something else.
    undone: tuple[str, ...] = ()
    recorded_in: str | None = None  #: The file that keeps this verdict for the desk; null when it could not be written.


def audit(
    ws: Workspace, *, head: str | None = None, is_quick: bool = False, listener: Listener = no_listener
) -> AuditReport:
    """Verifies the event chain, and that ledger, tables and landed files agree. Changes nothing.

    Args:
        is_quick: Files are looked at, their bytes are not read.

    Raises:
        Refused: What was given as a head is not one.
    """
    if head is not None and not HEAD.fullmatch(head):
        raise Refused.coded(
            "not_a_head",
            "{head!r} is not the head of an event chain.",
            then="give it as an earlier audit printed it, SEQUENCE:HASH, with all 64 characters of the hash",
            head=head,
        )
    looked, broken = _Looked(), Problems()
    # Before the transaction: on a full disk SQLite gives no second connection beside it.
    definitions = ws.ledger.changed_definitions()
    with ws.ledger.read() as tx:
        names = tuple(dict.fromkeys((*ws.domain.tables, *tx.versions.tables())))

        def say(done: int, line: str, table: str = "") -> None:
            listener(Progress(step="audit", done=done, total=len(names) + 2, line=line, table=table))

        say(0, "the rows of the ledger with its events")
        problems: list[str] = []
        problems += (Amiss.of(each, Damage(kind=Lost.LEDGER)) for each in (*definitions, *_ledger_problems(tx, head)))
        records = tx.publications.records()
        for place, name in enumerate(names, start=1):
            say(place, "its files and commits with the ledger", name)
            found = _table_against_ledger(ws, tx, name, records, looked, is_quick=is_quick)
            problems += _noted(name, found, broken)
            problems += _not_needed(ws, tx, name, broken)
        if not is_quick:
            lineage = _settled(
                ws,
                tx,
                records,
                lambda now, publications: lineage_problems(ws, publications, now.publications.lost_runs()),
            )
            problems += _of_evidence(ws, LINEAGE, _noted(LINEAGE, lineage, broken))
            problems += _of_evidence(ws, LINEAGE, _noted(LINEAGE, _statistics(ws, LINEAGE), broken))
            for validation, tables in grouped((validation_table(name), name) for name in names).items():
                for found in (validation_problems(ws, tx, validation, tables), _statistics(ws, validation)):
                    problems += _of_evidence(ws, validation, _noted(validation, found, broken))
        problems = [*_with_repairs(tx, problems)]
        say(len(names) + 1, "landed files and references with the ledger")
        present_head = tx.events.head()
        events, agreed_by = 0, dict[PinnedReference, None]()
        for event in tx.events.entries():
            events += 1
            if grounds := ApprovalGrounds.parse(event.payload):
                approvers = (grounds.approvers_version, grounds.approvers_sha256)
                agreed_by[PinnedReference(name=APPROVERS, version=approvers[0], sha256=approvers[1])] = None
        landed = tx.imports.records(states=COUNTING)
        captured = [file for source in ws.domain.sources for file in tx.captures.files(source.name)]
        segments = {source.name: tx.events.segments(source.name) for source in ws.domain.sources}
        pinned = (*tx.runs.references(), *agreed_by)
        codes = sorted(tx.runs.archived_code())
    for record in landed:
        if not record.counts.reconciles:
            problems.append(Amiss.of(f"{record.import_id}: its counts do not add up.", Damage(kind=Lost.LEDGER)))
        problems += raw_file_problems(ws, record.import_id, record, is_quick=is_quick)
        problems += conformed_problems(ws, record, is_quick=is_quick)
    known = {record.stored_path for record in landed}
    for file in (file for file in captured if file.stored_path not in known):
        problems += raw_file_problems(ws, file.capture_id, file, is_quick=is_quick)
    for source in ws.domain.sources:
        problems += segment_problems(ws, source, segments[source.name])
        if not is_quick:
            of_source = [record for record in landed if record.source == source.name]
            problems += _noted(source.quarantine, quarantine_problems(ws, source, of_source), broken)
            problems += _noted(source.quarantine, quarantine_statistics(ws, source, of_source), broken)
    if not is_quick:
        looked.size_bytes += sum(_landed_bytes(record) for record in landed) + sum(
            file.size_bytes for file in captured if file.stored_path not in known
        )
    for pin in pinned:
        archived = str(ws.reference_archive.place / archived_path(pin.name, pin.sha256))
        lost = Damage(kind=Lost.REFERENCE, place=archived, named=f"{pin.name} {pin.version}", sha256=pin.sha256)
        changed = changed_in_archive([pin], ws.reference_archive, is_quick=is_quick)
        problems += [Amiss.of(said, lost) for said in changed]
    for path, said in changed_in_code_archive(codes, ws.reference_archive, is_quick=is_quick):
        problems.append(Amiss.of(said, Damage(kind=Lost.CODE, place=str(ws.reference_archive.place / path))))
    say(len(names) + 2, "done")
    amiss = [each for each in problems if not (isinstance(each, Amiss) and each.damage.kind is Lost.NOTHING)]
    return AuditReport(
        agrees=not amiss,
        head=present_head,
        events=events,
        partitions=looked.partitions,
        commits=looked.commits.total(),
        files=looked.files,
        imports=len(landed),
        references=len(pinned),
        accounts=tuple(_accounts(landed)),
        size_bytes=looked.size_bytes,
        problems=tuple(amiss),
        undone=tuple(each for each in problems if each not in amiss),
        unreadable=tuple(broken.found),
        has_open_publications=any(record.state is PublicationState.PUBLISHING for record in records),
        has_other_times=bool(looked.out_of_step),
    )


def _with_repairs(tx: ReadTransaction, problems: Iterable[str]) -> Iterator[str]:
    """The problems, with the open run that has begun to repair a lost accepted version."""
    begun: dict[str, list[tuple[RunRecord, bool]]] = {}
    for problem in problems:
        if not isinstance(problem, Amiss) or problem.damage.kind is not Lost.ACCEPTED:
            yield problem
            continue
        damage = problem.damage
        if damage.table not in begun:
            runs = tx.runs.records(table=damage.table, states=_BEGUN)
            repairs = [run for run in runs if run.kind is RunPurpose.REPAIR and run.mode not in NEVER_PUBLISHED]
            begun[damage.table] = [(run, brings_back_what_was_recorded(tx, run)) for run in repairs]
        own = [each for each in begun[damage.table] if damage.partition in each[0].manifest.partitions]
        run, is_same = next(iter(own), (None, False))
        is_ready = run is not None and run.state is RunState.PASSED and is_same
        found = replace(damage, repair=run.run_id, is_repaired=is_ready) if run else damage
        yield Amiss.of(str(problem), found)


_BEGUN = frozenset({RunState.PLANNED, RunState.STAGING, RunState.STAGED, RunState.GATING, RunState.PASSED})


def _landed_bytes(record: ImportRecord) -> int:
    return record.size_bytes + (record.conformed.size_bytes if record.conformed else 0)


def _accounts(landed: Iterable[ImportRecord]) -> Iterator[SourceAccount]:
    """The sums over what has landed; whether they close is checked with the ledger's rows."""
    for source, (accepted, keys) in sums_by_source(landed).items():
        yield SourceAccount(source=source, accepted=accepted, **asdict(keys))


@dataclass(slots=True)
class _Looked:
    """Counts of what was looked at."""

    partitions: int = 0
    commits: Counter[str] = field(default_factory=Counter)  #: By table.
    files: int = 0
    size_bytes: int = 0
    out_of_step: set[str] = field(default_factory=set)


def _ledger_problems(tx: ReadTransaction, head: str | None) -> Iterator[str]:
    """The disagreements within the ledger."""
    if head is not None and not tx.events.still_contains(head):
        yield f"the event chain does not contain the head {head}, which it had once."
    broken = tx.events.violations()
    yield from broken
    # Rows are compared with events; if events were changed, that would report everything twice.
    if not broken:
        yield from tx.row_checks.violations()
    yield from tx.imports.open_accounts()
    for name in tx.outbox.unwithdrawn():
        yield f"{name} does not stand, and still asks its dependents to follow it."


def _statistics(ws: Workspace, name: str) -> Iterator[str]:
    yield from (said for _, said in statistics_problems(ws, name))


def _of_evidence(ws: Workspace, name: str, found: Iterable[str]) -> Iterator[str]:
    """The faults in a copy of what the ledger has."""
    lost = Damage(kind=Lost.EVIDENCE, table=name, place=str(ws.lake.place(name)))
    yield from (Amiss.of(each, lost) for each in found)


def _not_needed(ws: Workspace, tx: ReadTransaction, name: str, broken: Problems) -> Iterator[str]:
    """Files in the log of a table that cannot be opened, where it can be without them; or the commits that it lacks."""
    if all(problem.table != name for problem in broken.found):
        return
    records = tx.publications.records(table=name)
    with suppress(BackfillError):
        yield from commits_as_recorded(ws, name, records, tx.publications.set_to_ledger(name))
    for path in not_needed(ws.lake, name, last=tx.publications.last_logged(name)):
        damage = Damage(kind=Lost.NOT_NEEDED, table=name, place=str(ws.lake.place(name) / path))
        yield Amiss.of(f"{name}: its log is complete without {path}.", damage)


def _noted(table: str, found: Iterable[str], broken: Problems) -> Iterator[str]:
    """Notes what is wrong in a table; `broken` takes one that cannot be opened."""
    refused = Problems()
    with refused.noted(table):
        yield from found
    broken.found += refused.found
    yield from map(str, refused.found)


_Look = Callable[[ReadTransaction, Sequence[PublicationRecord]], Iterable[str]]
"""Compares a log with a state of the ledger, of which all publications are given as well."""


def _settled(ws: Workspace, tx: ReadTransaction, records: Sequence[PublicationRecord], look: _Look) -> Iterator[str]:
    """The disagreements that remain, whatever lands meanwhile: a log is read after the ledger, which is asked again
    where they differ and publications have moved on."""
    found: list[str] = []
    try:
        found += look(tx, records)
        for _ in range(MOST_LOOKS - 1):
            if not found:
                return
            with ws.ledger.read() as now:
                present = now.publications.records()
                if _states(present) == _states(records):
                    break
                records, found = present, []
                found += look(now, present)
    except BackfillError:
        yield from found  # what was found before the log could not be read on
        raise
    yield from found


def _states(records: Iterable[PublicationRecord]) -> Mapping[str, PublicationState]:
    return {record.publication_id: record.state for record in records}


def _table_against_ledger(
    ws: Workspace,
    tx: ReadTransaction,
    name: str,
    records: Sequence[PublicationRecord],
    looked: _Looked,
    *,
    is_quick: bool,
) -> Iterator[str]:
    accepted = tx.versions.accepted(name)
    looked.partitions += len(accepted)
    looked.files += sum(len(version.files.files) for version in accepted.values())
    if not ws.lake.exists(name):
        if any(version.files.files for version in accepted.values()):
            lost = Damage(kind=Lost.TABLE, table=name, place=str(ws.lake.place(name)))
            yield Amiss.of(f"{name}: the ledger holds accepted rows, but the table is gone.", lost)
        return

    def look(now: ReadTransaction, records: Sequence[PublicationRecord]) -> Iterator[str]:
        seen = accepted if now is tx else now.versions.accepted(name)
        if (apart := out_of_step(ws, now, name)) and apart.behind is not Behind.OTHERS:
            looked.out_of_step.add(name)
            yield f"{name} {words_of(apart)}."
        yield from files_against_ledger(ws, name, seen, now.versions.expired(name))
        commits = sorted(exchanged(ws.lake, name), key=lambda commit: commit[0])
        looked.commits[name] = len(commits)
        known = {record.publication_id: record for record in records if record.table == name}
        settings = now.publications.set_to_ledger(name)
        foreign = Damage(kind=Lost.FOREIGN, table=name, place=str(ws.lake.place(name)))
        yield from commits_against_ledger(name, commits, known, settings, foreign)
        yield from log_against_ledger(ws, name, seen, tuple(known.values()), settings)

    yield from _settled(ws, tx, records, look)
    earlier = kept_versions(tx.versions.history(name), tx.publications.set_to_ledger(name))
    if any(earlier_files_against_ledger(ws, name, earlier, is_quick=is_quick)):
        with ws.ledger.read() as now:  # a removal may have begun since
            kept = kept_versions(now.versions.history(name), now.publications.set_to_ledger(name))
        yield from earlier_files_against_ledger(ws, name, kept, is_quick=is_quick)
    if not is_quick:
        looked.size_bytes += sum(version.files.size_bytes for version in (*accepted.values(), *earlier))
        for version, problem in changed_of(ws, name, accepted.values()):
            yield Amiss.of(f"{name}: {problem}.", of_version(ws, version))


# Record of the last audit: its verdict, kept in the home for pages and metrics that do not audit themselves.
#
# It is no evidence: anyone who can write into the home can write it. What it says of the event chain can be
# compared with the ledger, because it names the head that the audit has seen.

FILE = "last_audit.json"
MOST_PROBLEMS = 200
"""How many problems are kept; the audit itself prints all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedAudit(Verdict):
    """The verdict of the last audit, with the first of its problems."""

    at: datetime  #: When it ended.
    is_quick: bool  #: True if it did not read the bytes of files.
    problem_count: int  #: How many problems it found.


def record_audit(home: Path, report: AuditReport, *, at: datetime, is_quick: bool) -> Path | None:
    """Keeps the verdict of an audit in place of the one before it.

    Returns:
        The file; None when the folder cannot be written, as an audit of a home that is mounted read-only.
    """
    shared = {each.name: getattr(report, each.name) for each in fields(Verdict)}
    found = RecordedAudit(
        **{**shared, "problems": report.problems[:MOST_PROBLEMS]},
        at=at,
        is_quick=is_quick,
        problem_count=len(report.problems),
    )
    path = home / FILE
    part = path.with_suffix(f".{os.getpid()}.part")
    try:
        part.write_text(json.dumps(asdict(found), indent=1, default=datetime.isoformat), encoding="utf-8")
        part.replace(path)
    except OSError:
        with suppress(OSError):
            part.unlink()
        return None
    return path


def last_audit(home: Path) -> RecordedAudit | None:
    """The verdict of the last audit of a home; None when none was kept, or the file is not one of ours."""
    try:
        with open_regular(home / FILE) as file:
            document = json.loads(file.read())
        chosen = {each.name: document[each.name] for each in fields(RecordedAudit)}
        at = datetime.fromisoformat(document["at"])
        # It is empty where the head of the chain was removed.
        if chosen["head"] != "" and not HEAD.fullmatch(chosen["head"]):
            return None
        return RecordedAudit(**{**chosen, "at": at, "problems": tuple(map(str, document["problems"]))})
    except (OSError, ValueError, TypeError, KeyError):
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class LastAudit:
    """The last audit, and what the ledger knows of the time after it."""

    found: RecordedAudit
    is_contained: bool  #: True if the event chain still has the event that was its last one then.
    later_publications: int  #: How many publications and rollbacks began after that event: it has not seen them.


def last_audit_now(ws: Workspace) -> LastAudit | None:
    """The last audit of a home as the ledger sees it now; None when none was kept."""
    found = last_audit(ws.settings.home)
    if found is None:
        return None
    sequence = int(found.head.partition(":")[0] or 0)
    with ws.ledger.read() as tx:
        return LastAudit(
            found=found,
            is_contained=tx.events.still_contains(found.head),
            later_publications=tx.publications.count(after=sequence),
        )
