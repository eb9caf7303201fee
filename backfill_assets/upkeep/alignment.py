"""Alignment: whether the log of a table and the ledger are of one time, and how a person makes them so.

A lake or a ledger that was restored from an older backup lacks what was published since. The log of a table tells which
of the two: it ends before what the ledger has recorded of it, or it has commits of publications that the ledger never
had. The ledger decides what readers see, because it alone knows what was agreed: the table is set to the accepted
versions in one commit, and an event names the person who accepted that, and what is lost.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import StrEnum

from backfill_assets.calendar.partitions import count_of
from backfill_assets.candidates.evaluate import validation_rows
from backfill_assets.core.columns import LINEAGE, RUN_ID
from backfill_assets.core.errors import BackfillError, Refused, Retryable
from backfill_assets.core.grouped import grouped
from backfill_assets.core.identity import EMPTY_FILE_SET, DataFile, FileSet, LogEvidence, digest_of_paths, fields_of
from backfill_assets.core.people import require_person
from backfill_assets.lake.append import (
    ValidationRow,
    append_run,
    append_validation,
    hold_runs,
    hold_validation,
    lineage_rows,
    validation_table,
)
from backfill_assets.lake.log_evidence import commit_digests, state_digest
from backfill_assets.lake.swap import Exchange, SwapOrder, commits, log_entries, set_files
from backfill_assets.lake.tables import altered_files, live_files, missing_files
from backfill_assets.ledger.recorded_text import one_line
from backfill_assets.ledger.records import PartitionVersion, PublicationRecord
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest import lineage, lineage_digest, row_of_run
from backfill_assets.requests.authority import grounds_to_set, reads_approvers
from backfill_assets.transforms.schemas import former_columns, stored_schema
from backfill_assets.upkeep.audit_checks import (
    LANDED,
    Recorded,
    ends_at,
    held_results,
    is_recorded,
    kept_versions,
    lacking_results,
    recorded_commits,
    recorded_results,
    runs_of_results,
)
from backfill_assets.workspace import Workspace

MOST_ATTEMPTS = 8
_MOST_NAMED = 3
_MOST_LOOKS = 3


class Behind(StrEnum):
    """The side that is of an earlier time than the other."""

    LAKE = "LAKE"
    LEDGER = "LEDGER"
    BOTH = "BOTH"
    OTHERS = "OTHERS"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownCommit:
    """A commit in the log of a table that the ledger does not know."""

    version: int  #: The version of the table that it made.
    at: datetime | None  #: When, by the clock of whoever committed; null where it does not say.
    publication_id: str  #: The publication that it says it is of; empty where another program made it.
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfStep:
    """The difference between the log of a table and the ledger."""

    table: str
    behind: Behind  #: What is of an earlier time.
    agreed: int  #: The last version that both have; -1 when there is none.
    newest: int  #: The last version in the log; -1 when the table is gone.
    unknown: tuple[UnknownCommit, ...]  #: The commits that the ledger does not know.
    missing: tuple[PublicationRecord, ...]  #: The publications that the log does not have, the first begun first.


@dataclass(frozen=True, slots=True, kw_only=True)
class WasSet:
    """A table that was set to what the ledger holds."""

    version: int  #: The version of the table that holds the accepted rows again.
    partitions: tuple[date, ...]  #: The partitions whose files were exchanged.
    gone: tuple[date, ...]  #: The partitions whose accepted files are not in the lake: they cannot be read.
    unreadable: int  #: How many earlier versions no rollback can bring back any more.
    lost_runs: tuple[str, ...]  #: The runs that only the lake knows.
    rewritten: int  #: How many rows of `lineage.runs` and of gate results were appended again.


def out_of_step(ws: Workspace, tx: ReadTransaction, table: str) -> OutOfStep | None:
    """The difference between the log of a table and the ledger; None where they agree.

    Cost: one index range and the listing of the log; where they differ, every publication and every commit.
    """
    last = tx.publications.last_log(table)
    if not ws.lake.exists(table):
        if last is None:
            return None
        return _compared(tx, table, {}, ())
    with ws.lake.reading(table):
        entries = log_entries(ws.lake, table)
    newest = entries[0][0] if entries else -1
    if last is not None and newest == last.version:
        tip = dict(commit_digests(ws.lake, table, after=newest - 1))
        if not last.commits or tip.get(newest) == last.commits[-1]:
            return None
    return _compared(tx, table, dict(commit_digests(ws.lake, table)), tuple(commits(ws.lake, table)))


def tables_out_of_step(ws: Workspace) -> Iterator[tuple[str, OutOfStep | BackfillError]]:
    """The tables whose log and the ledger differ, or whose log cannot be read, whatever is published meanwhile.

    Cost: as `out_of_step`, and twice that where they differ.
    """
    with ws.ledger.read() as tx:
        names = tuple(dict.fromkeys((*ws.domain.tables, *tx.versions.tables())))
    for name in names:
        before: OutOfStep | BackfillError | None = None
        for _ in range(_MOST_LOOKS):
            found = _looked_at(ws, name)
            # A log is read after the ledger: what was published in between is known to the next look.
            if found == before or not isinstance(found, OutOfStep):
                break
            before = found
        if found is not None:
            yield name, found


def _looked_at(ws: Workspace, name: str) -> OutOfStep | BackfillError | None:
    with ws.ledger.read() as tx:
        try:
            return out_of_step(ws, tx, name)
        except BackfillError as error:
            return error


def _compared(
    tx: ReadTransaction, table: str, digests: Mapping[int, str], log: Sequence[tuple[int, Mapping[str, object]]]
) -> OutOfStep | None:
    records = tuple(reversed(tx.publications.records(table=table)))
    settings = tx.publications.set_to_ledger(table)
    recorded = {version: digest for version, (digest, _) in recorded_commits(records, settings).items()}
    newest, first = max(digests, default=-1), min(digests, default=0)
    # Commits that another program has cleaned up are before the first one that is there.
    differing = (version for version, digest in recorded.items() if version >= first and digests.get(version) != digest)
    agreed = min(min(differing, default=newest + 1) - 1, newest, max(recorded, default=-1))
    known = {record.publication_id for record in records}
    set_at = {version for each in settings for version in range(each.log.after + 1, each.log.version + 1)}
    unknown = []
    for version, info in reversed(log):
        if version <= agreed or (version in set_at and recorded.get(version) == digests.get(version)):
            continue
        if version == 0 and "created_by" in info:
            continue
        publication_id = str(info.get("publication_id", ""))
        if publication_id in known or str(info.get("gave_up", "")) in known:
            continue
        unknown.append(
            UnknownCommit(
                version=version,
                at=_instant(info.get("timestamp")),
                publication_id=publication_id,
                run_id=str(info.get("run_id", "")),
            )
        )
    carried = {str(info.get("publication_id", "")) for _, info in log}
    missing = tuple(
        record
        for record in records
        if record.state in LANDED
        and record.changes
        and record.publication_id not in carried
        and ends_at(record.publication_id, settings) is None
    )
    if not unknown and not missing:
        return None
    ours = any(each.publication_id for each in unknown)
    behind = Behind.BOTH if missing and ours else Behind.LAKE if missing else Behind.LEDGER if ours else Behind.OTHERS
    return OutOfStep(table=table, behind=behind, agreed=agreed, newest=newest, unknown=tuple(unknown), missing=missing)


def words_of(found: OutOfStep) -> str:
    """The words for what is behind what, following the name of the table."""
    said = []
    if found.behind in (Behind.LEDGER, Behind.BOTH):
        ours = [each for each in found.unknown if each.publication_id]
        until = f", the last of {ours[-1].at:%Y-%m-%d %H:%M:%S} UTC" if ours[-1].at else ""
        named = few([f"{each.publication_id} of run {each.run_id} (version {each.version})" for each in ours])
        said.append(f"has {count_of(len(ours), 'publication')} that the ledger does not have{until}: {named}")
    if found.missing:
        last = found.missing[-1]
        named = few(
            [f"{each.publication_id} of run {each.run_id} (version {each.delta_version})" for each in found.missing]
        )
        at = f"{last.finished_at or last.started_at:%Y-%m-%d %H:%M:%S}"
        lacks = "is not there, with" if found.newest < 0 else "lacks"
        said.append(
            f"{lacks} {count_of(len(found.missing), 'publication')} of the ledger, the last of {at} UTC: {named}"
        )
    older = {
        Behind.LEDGER: "the ledger is older than the lake",
        Behind.LAKE: "the lake is older than the ledger",
        Behind.BOTH: "lake and ledger went separate ways",
        Behind.OTHERS: "another program wrote it",
    }
    return f"{', and '.join(said)}; {older[found.behind]}"


def few(names: Sequence[str]) -> str:
    """The first of many names, and how many more there are."""
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _instant(stamp: object) -> datetime | None:
    return datetime.fromtimestamp(stamp / 1000, UTC) if isinstance(stamp, int) else None


@reads_approvers
def set_to_ledger(ws: Workspace, table: str, *, by: str, reason: str) -> WasSet:
    """Sets a table to what the ledger holds, in one commit, and records who accepted what is lost.

    A process that stops in between leaves a commit that the ledger does not know: the same request records it.

    Raises:
        Refused: The table is as the ledger says, or the person may not.
        TableBusy: A publication of the table has begun, and is not recorded yet.
        LostRace: Other writers committed first in every attempt.
    """
    require_person("the one who accepts it", by)
    one_line("the reason", reason)
    for _ in range(MOST_ATTEMPTS):
        if (done := _set_once(ws, table, by=by, reason=reason)) is not None:
            return done
    raise Retryable.coded(
        "not_like_before",
        "{table} was changed by others while it was set to what the ledger holds.",
        table=table,
    )


def _set_once(ws: Workspace, table: str, *, by: str, reason: str) -> WasSet | None:
    declared = ws.domain.tables.get(table)
    with ws.ledger.read() as tx:
        grounds_to_set(ws, tx, table, by)
    if declared is not None:
        ws.lake.ensure(table, stored_schema(declared), declared.partition.column)
    # The table before the ledger: what lands after this handle was opened makes the commit fail.
    handle = ws.lake.open(table)
    column = handle.metadata().partition_columns[0]
    with ws.ledger.read() as tx:
        tx.publications.require_none_open(table)
        found = out_of_step(ws, tx, table)
        unreadable = _unreadable(ws, tx, table)
        if found is None and not unreadable:
            raise Refused.coded(
                "nothing_to_set",
                "{table} holds exactly what the ledger has recorded; nothing has to be set.",
                table=table,
            )
        accepted = tx.versions.accepted(table)
    with ws.lake.reading(table):
        live = live_files(handle, column)
    exchanges = tuple(_exchanges(live, accepted))
    if exchanges:
        order = SwapOrder(
            table=table,
            partition_column=column,
            publication_id=f"set-{secrets.token_hex(5)}",
            run_id="",
            exchanges=exchanges,
            committed_at_ms=int(ws.clock().timestamp() * 1000),
            schema=None if declared is None else stored_schema(declared),
            former=None if declared is None else former_columns(declared),
        )
        if not set_files(ws.lake, handle, order):
            return None
    lost = _lost_runs(ws, table, found)
    # Where only files are gone, the last commit is recorded once more.
    after = found.agreed if found else max(ws.lake.open(table).version() - 1, -1)
    written = tuple(digest for _, digest in commit_digests(ws.lake, table, after=after))
    log = LogEvidence(after=after, commits=written, state=state_digest(ws.lake, table))
    with ws.ledger.write() as tx:
        if _digests(tx.versions.accepted(table)) != _digests(accepted):
            return None
        grounds = grounds_to_set(ws, tx, table, by)
        missing = [
            each.publication_id
            for each in tx.publications.records(table=table)
            if found and ((each.delta_version or -1) > after or (each.log and each.log.version > after))
        ]
        # What was given up is not brought back by a rollback either, though its file may come back.
        tx.versions.mark_removed((table, partition, version) for partition, version in unreadable)
        tx.publications.set_table_to_ledger(
            table, log, missing=missing, lost_runs=lost, gone=unreadable, actor=by, reason=reason, grounds=grounds
        )
    changed = {date.fromisoformat(each.value) for each in exchanges}
    gone = [p for p, version in sorted(accepted.items()) if missing_files(ws.lake, table, [version.files])]
    return WasSet(
        version=log.version,
        partitions=tuple(sorted(changed)),
        gone=tuple(gone),
        unreadable=len(unreadable),
        lost_runs=lost,
        rewritten=rewrite_evidence(ws, table),
    )


def _digests(accepted: Mapping[date, PartitionVersion]) -> Mapping[date, str]:
    return {partition: version.files.digest for partition, version in accepted.items()}


def _exchanges(
    live: Mapping[str, Sequence[tuple[str, int]]], accepted: Mapping[date, PartitionVersion]
) -> Iterable[Exchange]:
    wanted = {partition.isoformat(): version.files for partition, version in accepted.items()}
    for value in sorted(live.keys() | wanted.keys()):
        present, new = live.get(value, ()), wanted.get(value, EMPTY_FILE_SET)
        if digest_of_paths(present) != new.digest:
            expected = FileSet.of(DataFile(path=path, size_bytes=size, rows=0) for path, size in present)
            yield Exchange(value=value, expected=expected, new=new)


def _unreadable(ws: Workspace, tx: ReadTransaction, table: str) -> tuple[tuple[date, int], ...]:
    """The versions that a rollback could bring back, whose files are gone or damaged, and of which nobody has accepted
    that."""
    kept = kept_versions(tx.versions.history(table), tx.publications.set_to_ledger(table))
    if not altered_files(ws.lake, table, (each.files for each in kept)):
        return ()
    gone = (each for each in kept if altered_files(ws.lake, table, [each.files]))
    return tuple((each.partition, each.version) for each in gone)


def _lost_runs(ws: Workspace, table: str, found: OutOfStep | None) -> tuple[str, ...]:
    """The runs of a table that the lake has and the ledger does not."""
    seen = {each.run_id for each in found.unknown if each.run_id} if found else set()
    seen |= runs_of_results(ws, table)
    with ws.ledger.read() as tx:
        return tuple(sorted(seen - tx.runs.existing(seen)))


def rewrite_evidence(ws: Workspace, table: str) -> int:
    """Appends again what `lineage.runs` and the gate results of a table lack of what the ledger has; returns how many
    rows that are."""
    with ws.ledger.read() as tx:
        recorded = _recorded_runs(tx, table)
        missing = recorded.keys() - {str(row[RUN_ID]) for row in lineage_rows(ws.lake)}
        runs = _rows_of_runs(tx, {run_id: recorded[run_id] for run_id in sorted(missing)})
        lacking = _rows_of_results(tx, lacking_results(ws, tx, table))
    for row in runs:
        append_run(ws.lake, row)
    for run_id, rows in grouped((row.run_id, row) for row in lacking).items():
        append_validation(ws.lake, table, rows, app_id=f"validation:{run_id}:again-{secrets.token_hex(4)}")
    return len(runs) + len(lacking)


def is_evidence(ws: Workspace, name: str) -> bool:
    """True if a table is a copy of what the ledger has: the lineage of runs, or results of gates."""
    return name == LINEAGE or bool(_judged_in(ws, name))


def write_evidence_again(ws: Workspace, name: str) -> int:
    """Lets the lineage of runs, or a table with results of gates, hold what the ledger has, and what the ledger does
    not contradict: runs that are known to be lost, and results of earlier attempts, as far as they can be read.

    Returns:
        How many rows it holds.
    """
    if name == LINEAGE:
        return hold_runs(ws.lake, lambda: _lineage(ws))
    return hold_validation(ws.lake, name, lambda: _results(ws, name))


def _lineage(ws: Workspace) -> Sequence[Mapping[str, str]]:
    try:
        held = lineage_rows(ws.lake)
    except BackfillError:
        held = ()
    with ws.ledger.read() as tx:
        records = grouped((each.run_id, each) for each in tx.publications.records() if each.lineage_digest)
        lost = tx.publications.lost_runs()
        kept = {
            run_id: row
            for row in held
            if (run_id := str(row.get(RUN_ID))) in lost or is_recorded(row, records.get(run_id, ()))
        }
        landed = {run_id: of for run_id, of in records.items() if any(each.state in LANDED for each in of)}
        missing = {run_id: landed[run_id] for run_id in sorted(landed.keys() - kept.keys())}
        return (*kept.values(), *_rows_of_runs(tx, missing))


def _results(ws: Workspace, validation: str) -> Sequence[Mapping[str, object]]:
    with ws.ledger.read() as tx:
        known = _rows_of_results(tx, recorded_results(tx, _judged_in(ws, validation)))
        found = {_key_of_result(row): row for row in map(fields_of, known)}
        try:
            others = [row for row in held_results(ws, validation) if _key_of_result(row) not in found]
        except BackfillError:
            others = []
        runs = {str(row["run_id"]) for row in others}
        explained = tx.runs.existing(runs) | tx.publications.lost_runs()
    return (*found.values(), *(row for row in others if row["run_id"] in explained))


def _key_of_result(row: Mapping[str, object]) -> tuple[object, ...]:
    # A table of an earlier release has no checks, and not the column that tells them.
    return (*(row[name] for name in ("run_id", "partition", "gate", "file_set_digest")), row.get("checked_version"))


def _judged_in(ws: Workspace, validation: str) -> Sequence[str]:
    """The tables whose results a table holds."""
    with ws.ledger.read() as tx:
        names = dict.fromkeys((*ws.domain.tables, *tx.versions.tables()))
    return [name for name in names if validation_table(name) == validation]


def _recorded_runs(tx: ReadTransaction, table: str) -> Mapping[str, Sequence[PublicationRecord]]:
    """The runs of a table that have landed, with what was recorded of their lineage."""
    records = grouped((each.run_id, each) for each in tx.publications.records(table=table) if each.lineage_digest)
    return {run_id: of for run_id, of in records.items() if any(each.state in LANDED for each in of)}


def _rows_of_runs(
    tx: ReadTransaction, published: Mapping[str, Sequence[PublicationRecord]]
) -> Sequence[Mapping[str, str]]:
    rows = []
    for run in tx.runs.named(list(published)):
        row = row_of_run(run.manifest, min(each.started_at for each in published[run.run_id]))
        # An earlier release has recorded the lineage alone.
        has_all = lineage_digest(row) in {each.lineage_digest for each in published[run.run_id]}
        rows.append(row if has_all else lineage(run.manifest))
    return rows


def _rows_of_results(tx: ReadTransaction, results: Iterable[Recorded]) -> Sequence[ValidationRow]:
    of_runs = grouped(((each.run_id, version), each) for version, each in results)
    judged = {run.run_id: run.manifest for run in tx.runs.named(sorted({run_id for run_id, _ in of_runs}))}
    return [
        row
        for (run_id, version), of in of_runs.items()
        for row in validation_rows(judged[run_id], of, checked_version=version)
    ]
