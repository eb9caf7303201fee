"""Checks of an audit: tables, their files and logs, the evidence of runs and what has landed, against the ledger."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from backfill_assets.capture.landed_files import GIVEN_FILE, landing_files
from backfill_assets.core.columns import EVIDENCE_OF_RUN, LINEAGE, LINEAGE_OF_RUN, PUBLISHED_AT, RUN_ID
from backfill_assets.core.grouped import grouped
from backfill_assets.core.identity import EMPTY_FILE_SET, LogEvidence, canonical_json
from backfill_assets.domain import SourceTable
from backfill_assets.files.port import Files
from backfill_assets.files.recorded import missing, rewritten
from backfill_assets.lake.append import VALIDATION_COLUMNS, lineage_rows, validation_table
from backfill_assets.lake.log_evidence import (
    commit_digests,
    live_row_counts,
    log_problems,
    misleading_statistics,
    state_digest,
)
from backfill_assets.lake.swap import Exchanged
from backfill_assets.lake.tables import changed_files, live_digests, missing_files
from backfill_assets.landing.conformed import RAW_TRUNCATED, changed_segments, changes_of
from backfill_assets.landing.formats import RAW, ROW
from backfill_assets.landing.record_rules import REASON
from backfill_assets.ledger.captures import CapturedFile
from backfill_assets.ledger.findings import GateResult
from backfill_assets.ledger.imports import ImportRecord
from backfill_assets.ledger.publications import SetToLedger
from backfill_assets.ledger.records import PartitionVersion, PublicationRecord
from backfill_assets.ledger.states import COUNTING, PublicationState, VersionState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest import lineage_digest
from backfill_assets.planning.state import Expired
from backfill_assets.upkeep.damage import Amiss, Damage, Lost
from backfill_assets.workspace import Workspace

# Audit of tables: what readers see of each, its files and its log, against the ledger.
#
# A publication determines its commit: which files, with how many rows, of which partition, and nothing else. So
# every commit is compared with its publication, its bytes with the digest that was recorded when it had landed,
# and what the log makes of the table, by its commits and by its checkpoints, with what that publication left.

LANDED = (PublicationState.PUBLISHED, PublicationState.ROLLED_BACK)

_MAKES, _EXCHANGES = {"protocol", "metaData"}, {"metaData"}
"""What the commit that makes a table holds besides itself, and what one that exchanges files may hold."""


def files_against_ledger(
    ws: Workspace, name: str, accepted: Mapping[date, PartitionVersion], expired: Mapping[date, Expired]
) -> Iterator[str]:
    """Where the files that readers see are not those of the accepted versions."""
    live = dict(live_digests(ws.lake, name))
    # Asked once of all files; only where some are missing, of each partition again to say which.
    has_missing = bool(missing_files(ws.lake, name, (version.files for version in accepted.values())))
    for partition, version in accepted.items():
        found = live.pop(partition.isoformat(), EMPTY_FILE_SET.digest)
        if found != version.files.digest:
            yield (
                f"{name} {partition}: readers do not see version {version.version}, which the ledger calls accepted "
                f"(run {version.run_id})."
            )
        for problem in missing_files(ws.lake, name, [version.files]) if has_missing else ():
            yield Amiss.of(f"{name} {partition}: {problem}.", of_version(ws, version))
    by_value = {partition.isoformat(): each.run_id for partition, each in expired.items()}
    for value in sorted(live):
        why = f": the snapshot expired by run {by_value[value]}" if value in by_value else ""
        yield f"{name} {value}: readers see rows that no accepted version explains{why}."


def kept_versions(
    versions: Iterable[PartitionVersion], settings: Iterable[SetToLedger] = ()
) -> Sequence[PartitionVersion]:
    """The versions that are not accepted, and that a rollback could bring back.

    Args:
        settings: When the table was set to the ledger, and it was accepted that some versions cannot be brought back.
    """
    gone = {each for setting in settings for each in setting.gone}
    kept = (each for each in versions if each.state is not VersionState.ACCEPTED and each.removed_at is None)
    return [each for each in kept if (each.partition, each.version) not in gone]


def earlier_files_against_ledger(
    ws: Workspace, name: str, kept: Sequence[PartitionVersion], *, is_quick: bool
) -> Iterator[str]:
    """Where the files of kept versions are not as recorded."""
    if missing_files(ws.lake, name, (each.files for each in kept)):
        for version in kept:
            for problem in missing_files(ws.lake, name, [version.files]):
                said = f"{name} {version.partition}: {problem}; version {version.version} cannot be restored."
                yield Amiss.of(said, replace(of_version(ws, version), kind=Lost.EARLIER))
    if not is_quick:
        for version, problem in changed_of(ws, name, kept):
            said = f"{name}: {problem}; its version cannot be restored."
            yield Amiss.of(said, replace(of_version(ws, version), kind=Lost.EARLIER))


def changed_of(
    ws: Workspace, name: str, versions: Iterable[PartitionVersion]
) -> Iterator[tuple[PartitionVersion, str]]:
    """Files of versions that have other bytes, each once, with a version that it is of."""
    known = list(versions)
    of_path = {path: version for version in reversed(known) for path in version.files.paths}
    for problem in changed_files(ws.lake, name, (version.files for version in known)):
        yield next(version for path, version in of_path.items() if path in problem), problem


def of_version(ws: Workspace, version: PartitionVersion) -> Damage:
    """The loss of an accepted version."""
    return Damage(
        kind=Lost.ACCEPTED,
        table=version.table,
        grain=ws.domain.tables[version.table].partition.grain if version.table in ws.domain.tables else None,
        partition=version.partition,
        run_id=version.run_id,
        place=str(ws.lake.place(version.table)),
    )


def commits_against_ledger(
    name: str,
    seen: Iterable[tuple[int, Mapping[str, object], Exchanged]],
    known: Mapping[str, PublicationRecord],
    settings: Sequence[SetToLedger],
    foreign_in: Damage,
) -> Iterator[str]:
    """Where the commits of a table are not those of its publications, nor accepted when it was set to the ledger.

    Commits of other programs that follow each other are explained once the last of them has undone the others, as a
    RESTORE does: what readers see is what publications left. Readers of the versions between saw something else.
    """
    accepted = {version for each in settings for version in range(each.log.after + 1, each.log.version + 1)}
    carried: dict[str, int] = {}
    foreign: list[tuple[int, str, Exchanged]] = []
    for version, commit, found in seen:
        is_empty = not found.added and not found.removed
        if is_empty and version == 0 and "created_by" in commit and found.others <= _MAKES:
            continue
        if is_empty and not found.others and _is_given_up(known.get(str(commit.get("gave_up", "")))):
            continue
        publication_id = str(commit.get("publication_id", ""))
        record = known.get(publication_id)
        if record is None and version in accepted:
            continue  # its bytes are those that were recorded then, or `log_against_ledger` says so
        if record is None:
            foreign.append((version, str(commit.get("operation", "an unknown operation")), found))
        elif record.state not in LANDED:
            yield (
                f"{name} version {version}: publication {publication_id} landed, but the ledger calls it "
                f"{record.state}."
            )
        else:
            carried[publication_id] = version
            if found != _intended(record) or not found.others <= _EXCHANGES:
                yield (
                    f"{name} version {version}: the commit of publication {publication_id} exchanged other files than "
                    f"the ledger says"
                )
    for some in _in_a_row(foreign):
        if undo_each_other([exchange for _, _, exchange in some]):
            first, last = some[0][0], some[-1][0]
            said = f"{name} versions {first} to {last}: commits of another program, the last of which undid the others."
            yield Amiss.of(said, replace(foreign_in, kind=Lost.NOTHING))
        else:
            for version, operation, _ in some:
                said = f"{name} version {version}: a commit ({operation}) that no publication explains."
                yield Amiss.of(said, foreign_in)
    for publication_id, record in known.items():
        if not record.changes or ends_at(publication_id, settings) is not None:
            continue  # every partition was found equal, so there was nothing to commit; or it is known to be lost
        if record.state in LANDED and carried.get(publication_id) != record.delta_version:
            yield (
                f"{name}: the ledger says publication {publication_id} is version {record.delta_version}, the "
                f"table's log says {carried.get(publication_id, 'nothing')}."
            )


def _in_a_row(
    foreign: Iterable[tuple[int, str, Exchanged]],
) -> Iterator[Sequence[tuple[int, str, Exchanged]]]:
    some: list[tuple[int, str, Exchanged]] = []
    for each in foreign:
        if some and each[0] != some[-1][0] + 1:
            yield some
            some = []
        some.append(each)
    if some:
        yield some


def undo_each_other(exchanges: Iterable[Exchanged]) -> bool:
    """True if several commits together leave the files of a table as they were; columns, properties and statistics
    are compared with what publications left in any case."""
    added: set[str] = set()
    removed: set[str] = set()
    count = 0
    for exchange in exchanges:
        count += 1
        brought, taken = exchange.added - exchange.removed, exchange.removed - exchange.added
        added, removed = (added - taken) | (brought - removed), (removed - brought) | (taken - added)
    return count > 1 and not added and not removed


def _is_given_up(record: PublicationRecord | None) -> bool:
    """True if a recovery may have fenced this publication; until the ledger knows, it is still open."""
    return record is not None and record.state in (PublicationState.ABANDONED, PublicationState.PUBLISHING)


def _intended(record: PublicationRecord) -> Exchanged:
    old = {path for change in record.changes for path in change.expected.paths}
    new = {path for change in record.changes for path in change.new.paths}
    return Exchanged(added=frozenset(new - old), removed=frozenset(old - new))


def _logs(
    records: Iterable[PublicationRecord], settings: Sequence[SetToLedger]
) -> Iterator[tuple[LogEvidence, str, int | None]]:
    """The recorded evidence of a table's log, by what, and the last version up to which it counts; None for all.

    Args:
        settings: When the table was set to the ledger, in order; what was recorded before counts up to there.
    """
    for number, each in enumerate(settings):
        ends = min((later.log.after for later in settings[number + 1 :]), default=None)
        yield each.log, f"event {each.sequence}", ends
    for record in records:
        if record.log:
            name = f"publication {record.publication_id}"
            yield record.log, name, ends_at(record.publication_id, settings)


def ends_at(publication_id: str, settings: Iterable[SetToLedger]) -> int | None:
    """The last version up to which what a publication recorded of the log still counts; None where all of it does."""
    return min((each.log.after for each in settings if publication_id in each.missing), default=None)


def recorded_commits(
    records: Iterable[PublicationRecord], settings: Sequence[SetToLedger]
) -> Mapping[int, tuple[str, str]]:
    """The sha256 of the bytes of each commit of a table that the ledger has recorded, and by what, by version."""
    return {
        version: (digest, name)
        for log, name, ends in _logs(records, settings)
        for version, digest in enumerate(log.commits, start=log.after + 1)
        if ends is None or version <= ends
    }


def commits_as_recorded(
    ws: Workspace, name: str, records: Sequence[PublicationRecord], settings: Sequence[SetToLedger]
) -> Iterator[Amiss]:
    """The commits that the ledger has recorded, and that are gone or have other bytes, also of a log that cannot be
    read."""
    found = dict(commit_digests(ws.lake, name))
    for version, (digest, recorded_by) in sorted(recorded_commits(records, settings).items()):
        if found.get(version) != digest:
            said = f"{name} version {version}: the commit is not the one that {recorded_by} recorded."
            place = str(ws.lake.place(name) / "_delta_log" / f"{version:020}.json")
            yield Amiss.of(said, Damage(kind=Lost.COMMIT, table=name, place=place, sha256=digest))


def log_against_ledger(
    ws: Workspace,
    name: str,
    accepted: Mapping[date, PartitionVersion],
    records: Sequence[PublicationRecord],
    settings: Sequence[SetToLedger],
) -> Iterator[str]:
    """Where the log of a table does not contain what its publications recorded of it."""
    broken = list(commits_as_recorded(ws, name, records, settings))
    yield from broken
    counting = [(log.version, log.state, by) for log, by, ends in _logs(records, settings) if ends is None]
    if counting and state_digest(ws.lake, name) != max(counting)[1]:
        yield f"{name}: readers see other columns or properties than {max(counting)[2]} left."
    rows = {file.path: file.rows for version in accepted.values() for file in version.files.files}
    for path, counted in live_row_counts(ws.lake, name).items():
        if path in rows and counted != rows[path]:
            yield f"{name}: the statistics of {path} in the log are not those of its publication."
    for path, problem in log_problems(ws.lake, name):
        not_needed = Damage(kind=Lost.NOT_NEEDED, table=name, place=str(ws.lake.place(name) / path))
        # Without a commit that is gone, readers need the checkpoint behind it.
        yield Amiss.of(f"{name}: {problem}.", broken[0].damage if broken else not_needed)


# Audit of the tables that people query about runs: their lineage, and the results of their gates.
#
# Both are copies of what the ledger has, in the lake. What was appended is compared row by row.


def statistics_problems(ws: Workspace, table: str) -> Iterator[tuple[str, str]]:
    """The files of which the log of a table makes readers skip rows that are there, with a sentence about each."""
    if ws.lake.exists(table):
        for path in misleading_statistics(ws.lake, table):
            yield path, f"{table}: its log says of {path} what is not true of its rows, so that readers skip some."


def lineage_problems(ws: Workspace, records: Sequence[PublicationRecord], lost: Collection[str]) -> Iterator[str]:
    """Where the lineage of runs is not what the publications of these runs recorded.

    Args:
        lost: Runs that only the lake knows, as a person has accepted.
    """
    recorded = grouped((record.run_id, record) for record in records if record.lineage_digest)
    landed = {record.run_id for record in records if record.lineage_digest and record.state in LANDED}
    seen: Counter[str] = Counter()
    for row in lineage_rows(ws.lake):
        if not {RUN_ID, *LINEAGE_OF_RUN} <= row.keys() <= {RUN_ID, *LINEAGE_OF_RUN, *EVIDENCE_OF_RUN}:
            yield f"{LINEAGE}: its columns were changed: they are {', '.join(row)}."
            return
        run_id = str(row[RUN_ID])
        seen[run_id] += 1
        if run_id not in recorded:
            if run_id in lost:
                continue
            yield f"{LINEAGE}: a row of run {run_id} that no publication explains."
        elif not is_recorded(row, recorded[run_id]):
            yield f"{LINEAGE}: the row of run {run_id} is not what its publication recorded."
    for run_id, count in seen.items():
        if count > 1:
            yield f"{LINEAGE}: run {run_id} has {count} rows."
    for run_id in sorted(landed - seen.keys()):
        yield f"{LINEAGE}: the row of run {run_id}, which was published, is gone."


def is_recorded(row: Mapping[str, str], publications: Iterable[PublicationRecord]) -> bool:
    """True if a row is what a publication of the run recorded: one that was rolled back, and published again by a
    later release, keeps the row of its first publication."""
    at = row.get(PUBLISHED_AT)
    found = [each for each in publications if each.lineage_digest == lineage_digest(row)]
    return bool(found) and (at is None or any(at == each.started_at.isoformat() for each in publications))


def validation_problems(ws: Workspace, tx: ReadTransaction, validation: str, tables: Collection[str]) -> Iterator[str]:
    """Where the table behind `validation/<name>` lacks gate results that the ledger has, or has some of no run.

    Results of earlier attempts of a run stay in the table, and the ledger has the last ones.

    Args:
        validation: The table with the results.
        tables: The tables whose results it holds.

    Cost: one pass over the results in the ledger and in the table; memory grows with their number.
    """
    if not any(True for _ in recorded_results(tx, tables)):
        return
    if not ws.lake.exists(validation):
        yield f"{validation}: the table with the results of gates is gone."
        return
    if gone := _gone(ws.lake.open(validation).to_pyarrow_dataset().schema.names):
        yield f"{validation}: its columns were changed: {gone} are not there."
        return
    lacking, others = _lacking(ws, tx, validation, tables)
    for name in sorted(f"{each.gate} on {each.partition} of run {each.run_id}" for _, each in lacking):
        yield f"{validation}: the result of {name} is gone, or is not the one in the ledger."
    for run_id in sorted(others - tx.runs.existing(others) - tx.publications.lost_runs()):
        yield f"{validation}: results of run {run_id}, which the ledger does not know."


Recorded = tuple[int | None, GateResult]
"""A gate result, with the accepted version that a later check measured; None for what a run measured."""


def recorded_results(tx: ReadTransaction, tables: Iterable[str]) -> Iterator[Recorded]:
    """Everything that gates found in the runs of some tables, and in later checks of their rows.

    Cost: every gate result of these tables, a page at a time.
    """
    named = tuple(tables)
    yield from ((None, each) for each in tx.candidates.every_gate_result(named))
    yield from tx.checks.every_result(named)


def lacking_results(ws: Workspace, tx: ReadTransaction, table: str) -> Sequence[Recorded]:
    """The gate results of a table that the ledger has, and the table behind `validation/<name>` lacks."""
    return _lacking(ws, tx, validation_table(table), [table])[0]


def runs_of_results(ws: Workspace, table: str) -> frozenset[str]:
    """The runs of which the table behind `validation/<name>` has results."""
    return frozenset(str(values[VALIDATION_COLUMNS.index("run_id")]) for values in _held(ws, validation_table(table)))


def _lacking(
    ws: Workspace, tx: ReadTransaction, validation: str, tables: Collection[str]
) -> tuple[Sequence[Recorded], frozenset[str]]:
    """The results that the ledger has and the table lacks; and the runs of the results that only the table has."""
    lacking = {_of_result(result): (version, result) for version, result in recorded_results(tx, tables)}
    known = {result.run_id for _, result in lacking.values()}
    seen: set[str] = set()
    for values in _held(ws, validation):
        lacking.pop(_digest(values), None)
        seen.add(str(values[VALIDATION_COLUMNS.index("run_id")]))
    return tuple(lacking.values()), frozenset(seen - known)


def held_results(ws: Workspace, validation: str) -> Iterator[Mapping[str, object]]:
    """The rows of a table with gate results, by column; none where its columns were changed."""
    if ws.lake.exists(validation):
        with ws.lake.reading(validation):
            held = ws.lake.open(validation).to_pyarrow_dataset()
            if not _gone(held.schema.names):
                for batch in held.to_batches():
                    yield from batch.to_pylist()


def _held(ws: Workspace, validation: str) -> Iterator[Sequence[object]]:
    """The rows of a table with gate results, in the columns that the ledger has too; none when there is no table."""
    if not ws.lake.exists(validation):
        return
    with ws.lake.reading(validation):
        held = ws.lake.open(validation).to_pyarrow_dataset()
        if _gone(held.schema.names):
            return
        for batch in held.to_batches(columns=list(VALIDATION_COLUMNS)):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _gone(names: Collection[str]) -> str:
    return ", ".join(name for name in VALIDATION_COLUMNS if name not in names)


def _of_result(result: GateResult) -> bytes:
    observed = canonical_json(dict(result.observed))
    values = (result.partition, result.run_id, result.gate, result.blocking, result.passed, str(result.finding))
    return _digest((*values, observed, result.digest))


def _digest(values: Sequence[object]) -> bytes:
    plain = [value.isoformat() if isinstance(value, date) else value for value in values]
    return hashlib.sha256(json.dumps(plain).encode()).digest()


# Audit of what has landed: raw files, the conformed records that rows are computed from, and the quarantine.
#
# The ledger has the sha256 of raw and of conformed files. The quarantine is a table that people query: its rows
# have to be the rejected records of the conformed files.

_QUARANTINED = ("file_name", "row_number", "reason", "raw_record", "raw_truncated", "landed_at")
"""The columns of a quarantine table that are compared, in this order; its partition is the import."""

_DIGITS = 1 << 256

_Sums = dict[str, tuple[int, int]]
"""By import, how many rows there are, and the sum of their hashes."""


def raw_file_problems(ws: Workspace, name: str, file: ImportRecord | CapturedFile, *, is_quick: bool) -> Iterator[str]:
    """The faults of a raw landed file.

    Args:
        name: The import or the capture that it is of.
        is_quick: Its bytes are not read.
    """
    landed = landing_files(ws.settings)
    lost = Damage(kind=Lost.CAPTURED, place=str(landed.place / file.stored_path), sha256=file.sha256)
    if isinstance(file, ImportRecord) and file.family == GIVEN_FILE:
        lost = replace(lost, kind=Lost.LANDED, table=file.source, named=file.original_path)
    try:
        if landed.stat(file.stored_path) is None:
            yield Amiss.of(f"{name}: the landed file {file.stored_path} is gone.", lost)
        elif not is_quick and landed.digest(file.stored_path) != file.sha256:
            yield Amiss.of(f"{name}: the bytes of the landed file {file.stored_path} were changed.", lost)
    except OSError as error:
        yield Amiss.of(f"{name}: the landed file {file.stored_path} cannot be read: {error.strerror}.", lost)


_OF_FILE = re.compile(r"[^/]+/[0-9a-f]{2}/[0-9a-f]{64}[.](?:jsonl|csv|parquet)(?:[.]gz)?")
"""Where a file that a person landed is kept; what captures keep has the names of their ranges."""


def landed_apart(
    ws: Workspace, tx: ReadTransaction, source: SourceTable
) -> tuple[Sequence[str], Sequence[ImportRecord]]:
    """The differences between landed files and the ledger: files that it does not know, where they are, and imports
    without theirs.

    Cost: one listing, and every import of the source.
    """
    files, records = landing_files(ws.settings), tx.imports.records(source.name)
    held = {each.path for each in files.listed(source.name.rpartition(".")[2])}
    unknown = sorted(held - {each.stored_path for each in records})
    lost = [each for each in records if each.state in COUNTING and each.stored_path not in held]
    return [str(files.place / each) for each in unknown if _OF_FILE.fullmatch(each)], lost


def conformed_problems(ws: Workspace, record: ImportRecord, *, is_quick: bool) -> Iterator[str]:
    """The faults in the conformed records of an import."""
    files, recorded = landing_files(ws.settings), record.conformed.files if record.conformed else ()
    for problem in missing(files, recorded) or (() if is_quick else rewritten(files, recorded)):
        said = f"{record.import_id}: its conformed records, from which rows are computed, were changed: {problem}."
        yield Amiss.of(said, _to_land_again(ws, record, Lost.CONFORMED))


def _to_land_again(ws: Workspace, record: ImportRecord, kind: Lost) -> Damage:
    """The computed files of a landed file that are lost."""
    place = str(landing_files(ws.settings).place / record.stored_path)
    return Damage(kind=kind, table=record.source, place=place, named=record.family, sha256=record.sha256)


def segment_problems(ws: Workspace, source: SourceTable, segments: Mapping[str, str]) -> Iterator[str]:
    """Compacted versions of a source that are not what was written. They are not used, and are written again."""
    for problem in changed_segments(landing_files(ws.settings), source, segments):
        place = str(landing_files(ws.settings).place / problem.partition(" ")[0])
        lost = Damage(kind=Lost.SEGMENT, table=source.name, place=place)
        yield Amiss.of(f"{source.name}: the compacted versions {problem}.", lost)


def quarantine_problems(ws: Workspace, source: SourceTable, landed: Sequence[ImportRecord]) -> Iterator[str]:
    """Where the quarantine of a source does not hold exactly the rejected records of its landed files.

    Cost: one pass over the quarantine, and over the conformed files that have rejected records.
    """
    expected = {each.import_id: each for each in landed if each.state in COUNTING and each.counts.rejected}
    if not ws.lake.exists(source.quarantine):
        for import_id, record in expected.items():
            said = f"{source.quarantine}: the table is gone, with {record.counts.rejected:,} records of {import_id}."
            yield Amiss.of(said, _to_land_again(ws, record, Lost.QUARANTINED))
        return
    held: _Sums = {}
    broken: set[str] = set()
    with ws.lake.reading(source.quarantine):
        rows = ws.lake.open(source.quarantine).to_pyarrow_dataset()
    if lacking := {"import_id", *_QUARANTINED} - set(rows.schema.names):
        yield f"{source.quarantine}: its columns were changed: {', '.join(sorted(lacking))} are not there."
        return
    # Each by itself: a file that cannot be read is of one import, and is written again with it.
    for files_of in rows.get_fragments():
        named = str(ds.get_partition_keys(files_of.partition_expression)["import_id"])
        try:
            for batch in files_of.to_batches(schema=rows.schema, columns=["import_id", *_QUARANTINED]):
                for found, *values in _rows(batch):
                    _add(held, str(found), values)
        except (OSError, pa.ArrowException):
            broken.add(named)
    settled = {record.import_id for record in landed if record.state in COUNTING}
    for import_id in sorted(held.keys() & settled - expected.keys()):
        yield f"{source.quarantine}: it has records of {import_id}, of which none was rejected."
    files = landing_files(ws.settings)
    for import_id, record in expected.items():
        if changes_of(files, record):
            continue  # what was rejected is not known, and that is told of its conformed records
        if import_id in broken or held.get(import_id, (0, 0)) != _rejected(files, record):
            said = f"{source.quarantine}: its rows of {import_id} are not the records that were rejected."
            yield Amiss.of(said, _to_land_again(ws, record, Lost.QUARANTINED))


def quarantine_statistics(ws: Workspace, source: SourceTable, landed: Sequence[ImportRecord]) -> Iterator[str]:
    """Where the log of the quarantine of a source makes readers skip records."""
    for path, said in statistics_problems(ws, source.quarantine):
        of_file = [record for record in landed if f"import_id={record.import_id}/" in path]
        yield Amiss.of(said, _to_land_again(ws, of_file[0], Lost.QUARANTINED)) if of_file else said


def _rejected(files: Files, record: ImportRecord) -> tuple[int, int]:
    """The number and the sum of hashes of the rejected records in the conformed files of an import."""
    found: _Sums = {}
    for file in record.conformed.files if record.conformed else ():
        with files.open(file.path) as opened, pq.ParquetFile(opened) as parquet:
            for batch in parquet.iter_batches(columns=[ROW, REASON, RAW, RAW_TRUNCATED]):
                rejected = batch.filter(pc.is_valid(batch.column(REASON)))
                for row, reason, raw, truncated in _rows(rejected.select([ROW, REASON, RAW, RAW_TRUNCATED])):
                    values = [record.name, row, reason, raw, truncated, record.first_seen_at]
                    _add(found, record.import_id, values)
    return found.get(record.import_id, (0, 0))


def _rows(batch: pa.RecordBatch) -> Iterable[tuple[object, ...]]:
    return zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _add(sums: _Sums, name: str, values: Sequence[object]) -> None:
    """Adds a row to the number and to the order-independent sum of hashes of an import."""
    plain = [value.isoformat() if isinstance(value, datetime) else value for value in values]
    hashed = int.from_bytes(hashlib.sha256(json.dumps(plain).encode()).digest(), "big")
    many, total = sums.get(name, (0, 0))
    sums[name] = (many + 1, (total + hashed) % _DIGITS)
