"""Compacted versions: what accounts need of earlier imports, in a few sorted files instead of a folder for each import.

A segment holds the version columns of the records of some imports, rejected ones of a known key among them, as the
present contract has them, sorted by key. It says which imports it stands for and by which conformed files of each; for
an import that was landed again since it does not count. Nothing rests on segments: what none stands for is read from
the conformed folders, and a segment that is removed is built again. They are read and built by the process that has the
turn of the source.

The newest imports are read from their folders. When they are many they become a segment, together with the segments
that are not larger than what has come so far: so there are few, and a record is written again a few times only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from backfill_assets.core.identity import DataFile, document_digest, sha256_bytes
from backfill_assets.core.places import for_spark
from backfill_assets.domain import SourceTable
from backfill_assets.domain.operations import OPERATION
from backfill_assets.files.port import Files
from backfill_assets.files.recorded import altered
from backfill_assets.lake.staging import described_files
from backfill_assets.landing.conformed import (
    ARRIVAL,
    CONTENT_HASH,
    IMPORT_ID,
    RESTORES,
    ConformedRecords,
    conformed_schema,
    has_present_hashes,
)
from backfill_assets.landing.formats import ROW
from backfill_assets.landing.key_versions import HAPPENED, version_columns
from backfill_assets.landing.record_rules import REASON
from backfill_assets.ledger.imports import ImportRecord

MOST_FOLDERS = 32
"""So many of the newest imports are read from their own folders."""

ROWS_OF_A_FILE = 1_000_000

_STANDS_FOR = "_stands_for.json"

RecordSegment = Callable[[str, str], None]
"""Records a segment in the ledger, given its folder and the sha256 of the file that says what it stands for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A folder with the versions of some imports.

    Attributes:
        path: The folder, relative to the landing place.
        imports: The imports, with what names the conformed files of each.
        files: The data files, with the sha256 of their bytes.
    """

    path: str
    imports: Mapping[str, str]
    files: tuple[DataFile, ...]
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Where the versions of imports are read from.

    Attributes:
        segments: Segments, with the imports that are read from each.
        folders: The imports that are read from their conformed folders, in the order of arrival.
    """

    segments: tuple[tuple[Segment, frozenset[str]], ...]
    folders: tuple[str, ...]


def choose(segments: Sequence[Segment], wanted: Mapping[str, str]) -> Choice:
    """Reads as much as possible from large segments, and each import once.

    Args:
        wanted: The imports, with what names their conformed files now.
    """
    left = dict(wanted)
    used: list[tuple[Segment, frozenset[str]]] = []
    for segment in sorted(segments, key=lambda each: (-len(each.imports), each.path)):
        chosen = frozenset(each for each, files in segment.imports.items() if left.get(each) == files)
        if chosen:
            used.append((segment, chosen))
        for import_id in chosen:
            del left[import_id]
    return Choice(segments=tuple(used), folders=tuple(left))


def to_merge(choice: Choice, rows: Mapping[str, int], can_be_compacted: frozenset[str]) -> frozenset[str]:
    """The imports of which a segment is to be made now; none while few are read from their folders.

    Args:
        rows: How many valid records each import has.
        can_be_compacted: The imports whose present versions follow from what is declared alone.
    """
    new = [import_id for import_id in choice.folders if import_id in can_be_compacted]
    if len(new) < MOST_FOLDERS:
        return frozenset()
    merged = frozenset(new)
    size = sum(rows[import_id] for import_id in new)
    for segment, chosen in sorted(choice.segments, key=lambda each: each[0].rows):
        if segment.rows <= size or len(chosen) < len(segment.imports):
            merged |= chosen
            size += segment.rows
    return merged


def earlier_versions(records: ConformedRecords, imports: Sequence[ImportRecord]) -> DataFrame:
    """The version columns of all valid records of these imports, and of rejected ones of a known key. Called with the
    turn of the source."""
    spark, landing, source = records.spark, records.landing, records.source
    choice = choose(_segments(landing, _folder(source), records.segments), _named(imports))
    where = {segment.path: for_spark(landing.place, segment.path) for segment, _ in choice.segments}
    folders = set(choice.folders)
    directly = [record for record in imports if record.import_id in folders]
    schema = _schema(source)
    parts: list[DataFrame] = []
    if directly or not imports:
        few = directly if len(directly) <= MOST_FOLDERS else ()
        hashed = {
            record.import_id
            for record in few
            if record.conformed
            and any(has_present_hashes(file, landing, source) for file in record.conformed.paths[:1])
        }
        parts.append(records.versions(directly, hashed=hashed).select(*version_columns(source)))
    whole = [segment for segment, chosen in choice.segments if len(chosen) == len(segment.imports)]
    if whole:
        parts.append(spark.read.schema(schema).parquet(*(where[segment.path] for segment in whole)))
    for segment, chosen in choice.segments:
        if segment not in whole:
            found = spark.read.schema(schema).parquet(where[segment.path])
            parts.append(found.where(F.col(IMPORT_ID).isin(sorted(chosen))))
    return reduce(DataFrame.unionByName, parts)


def compact(records: ConformedRecords, imports: Sequence[ImportRecord], *, attempt: str, record: RecordSegment) -> None:
    """Makes a segment of the newest of these imports when they are many, and removes segments that are not needed.

    Called with the turn of the source. A process that stops here leaves what the next one removes or uses.

    Args:
        record: Records a segment in the ledger, before anything is read from it.
    """
    landing, source = records.landing, records.source
    named = _named(imports)
    choice = choose(_segments(landing, _folder(source), records.segments), named)
    rows = {record.import_id: record.counts.landed - record.counts.rejected for record in imports}
    declared = frozenset(record.import_id for record in imports if _is_declared(source, record))
    if merged := to_merge(choice, rows, declared):
        of_them = [record for record in imports if record.import_id in merged]
        folder, digest = _build(records, of_them, {each: named[each] for each in sorted(merged)}, rows, attempt)
        record(folder, digest)
        records = replace(records, segments={**records.segments, folder: digest})
        choice = choose(_segments(landing, _folder(source), records.segments), named)
    _remove_but(landing, source, {segment.path for segment, _ in choice.segments})


def remove_half_built(landing: Files, source: SourceTable) -> None:
    """Removes what a killed process left. Called with the turn of the source."""
    held = landing.listed(_versions(source))
    _remove_but(landing, source, {_folder_of(each.path) for each in held if _name_of(each.path) == _STANDS_FOR})


def _remove_but(landing: Files, source: SourceTable, needed: Collection[str]) -> None:
    """Removes every segment, of this and of other contracts, but those that are needed."""
    depth = _folder(source).count("/") + 2
    for folder in {"/".join(each.path.split("/")[:depth]) for each in landing.listed(_versions(source))} - set(needed):
        landing.remove_folder(folder)


def _build(
    records: ConformedRecords,
    imports: Sequence[ImportRecord],
    named: Mapping[str, str],
    rows: Mapping[str, int],
    attempt: str,
) -> tuple[str, str]:
    """Writes a segment, which counts once the ledger has recorded it.

    Returns:
        Its folder, and the sha256 of the file that says what it stands for.
    """
    landing, source = records.landing, records.source
    folder = f"{_folder(source)}/{document_digest({'imports': dict(named)})[:16]}-{attempt}"
    many = sum(rows[import_id] for import_id in named)
    files = 1 + many // ROWS_OF_A_FILE
    found = earlier_versions(records, imports)
    spread = found.repartitionByRange(files, *source.key) if files > 1 else found.coalesce(1)
    written = for_spark(landing.place, folder)
    spread.sortWithinPartitions(*source.key).write.mode("overwrite").parquet(written)
    listed = [each for each in landing.listed(folder) if each.path.endswith(".parquet")]
    segment = Segment(path=folder, imports=named, files=tuple(described_files(landing, listed)), rows=many)
    content = json.dumps({name: value for name, value in asdict(segment).items() if name != "path"}).encode()
    landing.put_if_absent(f"{folder}/{_STANDS_FOR}", content)
    return folder, sha256_bytes(content)


def _is_declared(source: SourceTable, record: ImportRecord) -> bool:
    """Whether no function of the author computes what the present contract makes of its records."""
    steps = range(source.read_as(record.contract), source.contract_version)
    return all(source.lift_from(version).function is None for version in steps)


def _schema(source: SourceTable) -> StructType:
    known = conformed_schema(source)
    names = dict.fromkeys([*source.key, *source.order, source.partition.column])
    own = (IMPORT_ID, ARRIVAL, ROW, CONTENT_HASH, OPERATION, RESTORES, REASON)
    return StructType([*(known[name] for name in (*names, *own)), StructField(HAPPENED, source.time_type)])


def _versions(source: SourceTable) -> str:
    """The folder of all segments, relative to the landing place."""
    return f"{source.short_name}/versions"


def _folder(source: SourceTable) -> str:
    """Where segments of the present contract are: other declarations give other versions of the same records."""
    lifts = {str(version): source.lift_from(version) for version in range(1, source.contract_version)}
    declared = {
        "schemas": [source.at(version).schema.json() for version in range(1, source.contract_version + 1)],
        "lifts": {
            version: [sorted(lift.renamed.items()), sorted((k, repr(v)) for k, v in lift.defaults.items())]
            for version, lift in lifts.items()
        },
        "key": list(source.key),
        "order": list(source.order),
        "event_time": source.event_time,
        "operation": repr(source.operation),
        "hashes": "of the present columns",
    }
    return f"{_versions(source)}/{document_digest(declared)[:16]}"


def _segments(landing: Files, below: str, recorded: Mapping[str, str]) -> list[Segment]:
    """The segments below a folder that the ledger recorded and whose files are what was written."""
    found = []
    for each in landing.listed(below):
        folder = _folder_of(each.path)
        if _name_of(each.path) != _STANDS_FOR or folder not in recorded:
            continue
        content = landing.read(each.path)
        if sha256_bytes(content) != recorded[folder]:
            continue
        document = json.loads(content)
        files = tuple(DataFile(**file) for file in document["files"])
        if not altered(landing, files):
            found.append(Segment(path=folder, **(document | {"files": files})))
    return found


def changed_segments(landing: Files, source: SourceTable, recorded: Mapping[str, str]) -> tuple[str, ...]:
    """Recorded segments that are there and are not what was written, one sentence each. They are not used."""
    there = {_folder_of(each.path) for each in landing.listed(_versions(source)) if _name_of(each.path) == _STANDS_FOR}
    sound = {segment.path for segment in _segments(landing, _versions(source), recorded)}
    return tuple(f"{path} are not what was written" for path in sorted(there & recorded.keys() - sound))


def _named(imports: Sequence[ImportRecord]) -> Mapping[str, str]:
    """What names the conformed files of each import: every attempt writes files of other names."""
    return {each.import_id: each.conformed.digest[:16] if each.conformed else "" for each in imports}


def _folder_of(path: str) -> str:
    return path.rpartition("/")[0]


def _name_of(path: str) -> str:
    return path.rpartition("/")[2]
