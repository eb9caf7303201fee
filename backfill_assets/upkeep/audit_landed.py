"""Audit of what has landed: raw files, the conformed records that rows are computed from, and the quarantine.

The ledger has the sha256 of raw and of conformed files. The quarantine is a table that people query: its rows have to
be the rejected records of the conformed files.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from backfill_assets.capture.landed_files import Family, landing_files
from backfill_assets.domain import SourceTable
from backfill_assets.files.port import Files
from backfill_assets.files.recorded import missing, rewritten
from backfill_assets.landing.conformed import RAW_TRUNCATED, changes_of
from backfill_assets.landing.formats import RAW, ROW
from backfill_assets.landing.key_versions import changed_segments
from backfill_assets.landing.record_rules import REASON
from backfill_assets.ledger.captures import CapturedFile
from backfill_assets.ledger.imports import ImportRecord
from backfill_assets.ledger.states import COUNTING
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.upkeep.audit_evidence import statistics_problems
from backfill_assets.upkeep.damage import Amiss, Damage, Lost
from backfill_assets.workspace import Workspace

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
    if isinstance(file, ImportRecord) and file.family == Family.FILE:
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
