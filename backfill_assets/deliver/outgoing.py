"""Outgoing records: what is read of captured files, landed files and published partitions, always in the same order.

Who goes on with a replay reads everything again and leaves out what is in its target already: so nothing here may
depend on anything but the inputs of the replay. What of a run, a source or a table is sent is pinned when it is asked
for.
"""

from __future__ import annotations

import base64
import codecs
import csv
import gzip
import hashlib
import heapq
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, cast
from zoneinfo import ZoneInfo

from backfill_assets.capture.errors import NotAsCaptured
from backfill_assets.capture.file_capture import kind_of
from backfill_assets.capture.json_members import quoted
from backfill_assets.capture.kafka import TOMBSTONE, number_of
from backfill_assets.capture.kafka_topic import KafkaReplay
from backfill_assets.capture.kinesis import PREFIX
from backfill_assets.capture.kinesis_stream import KinesisReplay
from backfill_assets.capture.landed_files import Family, FileKind, Format, landing_place
from backfill_assets.capture.streams import SCAN
from backfill_assets.core.identity import EMPTY_FILE_SET
from backfill_assets.deliver.errors import NothingToReplay, RowsRemoved, RunNotReplayable
from backfill_assets.deliver.sinks import Headers, Outgoing
from backfill_assets.domain import DerivedTable, Operation, SourceTable
from backfill_assets.domain.operations import ENDED_BY, OPERATION
from backfill_assets.lake.row_values import json_rows, json_rows_of
from backfill_assets.landing.imports import STATEMENT
from backfill_assets.landing.probe import csv_text
from backfill_assets.ledger.captures import CapturedFile
from backfill_assets.ledger.records import Action, PartitionVersion, PartKind, ReplayPart, ReplayRecord
from backfill_assets.ledger.states import COUNTING, PublicationState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.partitions import DayRange, Grain, Partitions, partitions_over
from backfill_assets.workspace import Workspace

MODE = "REPLAY"
_MILLISECOND = timedelta(milliseconds=1)
_MOST_DIGITS = 76
"""Before and behind the point, of a number of a key that is written with all of them."""
_scan = json.JSONDecoder().raw_decode
_OWN = ("x-replay-id", "x-run-id", "x-processing-mode", "x-transform-version", "x-input-snapshot", "x-source")


@dataclass(slots=True, kw_only=True)
class OutgoingRecords:
    """The records of a replay.

    Attributes:
        ws: Where its inputs are.
        left_out: How many records of files were left out, as far as they were read: they have no key or no time.
    """

    ws: Workspace
    replay: ReplayRecord
    table: SourceTable | DerivedTable
    left_out: int = 0
    _versions: dict[str, str] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Outgoing]:
        # Before any row: a key that moved to another partition is deleted where it was, and then there.
        for part in self.replay.parts:
            if part.replaces:
                yield from self._removed(part)
        for (kind, _), alike in groupby(self.replay.parts, key=_place_of):
            if kind is PartKind.CAPTURED:
                yield from filter(self._is_within, self._of_topic(alike))
                continue
            for part in alike:
                match part.kind:
                    case PartKind.SHARD:
                        yield from filter(self._is_within, self._of_stream(part))
                    case PartKind.LANDED:
                        yield from filter(self._is_within, self._landed(part))
                    case PartKind.PARTITION:
                        yield from self._published(part)

    def _is_within(self, record: Outgoing) -> bool:
        begins, ends = self.replay.period_from, self.replay.period_to
        if begins is None or ends is None:
            return True
        return _milliseconds(begins) <= record.at < _milliseconds(ends)

    def _headers(self, run_id: str, version: str, snapshot: str) -> Headers:
        values = (self.replay.replay_id, run_id, MODE, version, snapshot)
        return [(name, value.encode()) for name, value in zip(_OWN, values, strict=False)]

    # ----------------------------------------------------------------------------------------------- files as they came

    def _of_topic(self, parts: Iterable[ReplayPart]) -> Iterator[Outgoing]:
        """What was in a partition of the topic, by offset: keys, headers, times, tombstones and partitions, and values
        as they were written. A record that was captured again, with the whole topic, is sent once."""
        captures: dict[str, list[ReplayPart]] = {}
        for part in parts:
            captures.setdefault(part.stream_partition, []).append(part)
        before = -1
        for offset, part, said, value in heapq.merge(*map(self._offsets, captures.values()), key=itemgetter(0)):
            if offset == before:
                continue
            before = offset
            partition = number_of(part.stream_partition)
            theirs = [(name, each) for name, each in _headers_said(said) if name not in _OWN]
            at = said.get("kafka_timestamp")
            yield Outgoing(
                key=_bytes_said(said, "kafka_key"),
                value=value,
                headers=[*theirs, *self._of_file(part), _position(part, str(partition), offset)],
                at=0 if at is None else _milliseconds(datetime.fromisoformat(at)),
                partition=-1 if self.replay.is_live else partition,
            )

    def _offsets(
        self, parts: Iterable[ReplayPart]
    ) -> Iterator[tuple[int, ReplayPart, Mapping[str, Any], bytes | None]]:
        """The records of files that follow each other, with their offsets."""
        for part in parts:
            for line in self._lines(part):
                said, value = _of_the_stream(line, "kafka_")
                yield said["kafka_offset"], part, said, value

    def _of_stream(self, part: ReplayPart) -> Iterator[Outgoing]:
        """What was in the stream: partition keys, data as it was written, and when it arrived."""
        headers = self._of_file(part)
        for line in self._lines(part):
            said, value = _of_the_stream(line, PREFIX)
            yield Outgoing(
                key=said["kinesis_partition_key"].encode(),
                value=value,
                headers=[*headers, _position(part, part.stream_partition, said["kinesis_sequence"])],
                at=_milliseconds(datetime.fromisoformat(said["kinesis_arrived_at"])),
            )

    def _lines(self, part: ReplayPart) -> Iterator[str]:
        with self._copied(part) as copy, gzip.open(copy, "rt", encoding="utf-8", newline="\n") as lines:
            yield from (line.rstrip("\n") for line in lines)

    @contextmanager
    def _copied(self, part: ReplayPart) -> Iterator[IO[bytes]]:
        """A copy of a landed file on this machine while the block lasts.

        It has no name: the copies of landings are removed by the next landing, and this one is gone with its process.

        Raises:
            Refused: It is not what landed.
        """
        files, digest = landing_place(self.ws.settings, self.table.name).files, hashlib.sha256()
        with TemporaryFile(dir=self.ws.settings.home) as copy:
            with files.open(part.name) as stored:
                while some := stored.read(1 << 20):
                    digest.update(some)
                    copy.write(some)
            if digest.hexdigest() != part.digest:
                raise NotAsCaptured(path=part.name)
            copy.seek(0)
            yield copy

    def _landed(self, part: ReplayPart) -> Iterator[Outgoing]:
        """The records of a file of a person; those without key or time are left out."""
        table = cast(SourceTable, self.table)
        headers = self._of_file(part)
        with self._copied(part) as copy:
            for number, (value, record) in enumerate(_records_of(copy, kind_of(Path(part.name))), 1):
                at = None if record is None else _instant(record.get(table.event_time), table.timezone)
                key = None if record is None else _key(record, table.key, self._declared)
                if at is None or key is None:
                    self.left_out += 1
                    continue
                source = f"{Path(part.name).name}#{number}".encode()
                yield Outgoing(key=key, value=value, headers=[*headers, ("x-source", source)], at=_milliseconds(at))

    def _of_file(self, part: ReplayPart) -> Headers:
        version = str(cast(SourceTable, self.table).contract_version)
        return self._headers(self.replay.replay_id, version, f"sha256:{part.digest}")

    @property
    def _declared(self) -> KafkaReplay | KinesisReplay:
        assert self.table.replay is not None
        return self.table.replay

    # --------------------------------------------------------------------------------------------- published partitions

    def _published(self, part: ReplayPart) -> Iterator[Outgoing]:
        """The rows of a partition, without what the project writes beside them; a deleted key has no value."""
        version = self._version(part, part.version)
        headers, at = self._of_version(version), _midnight(date.fromisoformat(part.name))
        for key, row in self._rows(version):
            if row is None:
                yield Outgoing(key=key, value=None, headers=headers, at=at)
                continue
            event = row[self.table.event_time] if isinstance(self.table, SourceTable) else "null"
            when = _instant(json.loads(event), "UTC")
            own = at if when is None else _milliseconds(when)
            yield Outgoing(key=key, value=_as_object(row), headers=headers, at=own)

    def _removed(self, part: ReplayPart) -> Iterator[Outgoing]:
        """The keys that a partition had before, and has no more: each as a record without a value."""
        version = self._version(part, part.version)
        before = {key for key, row in self._rows(self._version(part, part.replaces)) if row is not None}
        before -= {key for key, _ in self._rows(version)}
        headers, at = self._of_version(version), _midnight(date.fromisoformat(part.name))
        for key in sorted(before):
            yield Outgoing(key=key, value=None, headers=headers, at=at)

    def _rows(self, version: PartitionVersion) -> Iterator[tuple[bytes, Mapping[str, str] | None]]:
        """The current rows of a partition: their key and, unless it is deleted, their columns."""
        table, column = self.table, self.table.partition.column
        names = table.schema.fieldNames()
        has_changes = isinstance(table, SourceTable) and table.operation is not None
        more = [OPERATION, ENDED_BY] if has_changes else []
        wanted = [name for name in (*names, *more) if name != column]
        day = f'"{version.partition.isoformat()}"'
        for row in json_rows(self.ws.lake, table.name, version.files or EMPTY_FILE_SET, wanted):
            if has_changes and row[ENDED_BY] != "null":
                continue
            whole = {name: day if name == column else row[name] for name in names}
            key = _key({name: _loads(whole[name]) for name in table.key}, table.key, self._declared)
            assert key is not None, f"a row of {table.name} has no key"
            yield key, None if has_changes and row[OPERATION] == f'"{Operation.DELETE}"' else whole

    def _version(self, part: ReplayPart, version: int) -> PartitionVersion:
        with self.ws.ledger.read() as tx:
            return tx.versions.pinned(self.table.name, [(date.fromisoformat(part.name), version)])[
                date.fromisoformat(part.name)
            ]

    def _of_version(self, version: PartitionVersion) -> Headers:
        if version.run_id not in self._versions:
            with self.ws.ledger.read() as tx:
                self._versions[version.run_id] = tx.runs.get(version.run_id).manifest.transform_version
        snapshot = f"{self.table.name}@{version.delta_version}"
        return self._headers(version.run_id, self._versions[version.run_id], snapshot)


def _place_of(part: ReplayPart) -> tuple[PartKind, object]:
    """What is sent together: the files of one partition of a topic, and every other part by itself."""
    if part.kind is not PartKind.CAPTURED:
        return part.kind, (part.name, part.version)
    return part.kind, (part.name.rpartition("/")[0], number_of(part.stream_partition))


def _position(part: ReplayPart, partition: str, position: object) -> tuple[str, bytes]:
    return "x-source", f"{part.stream}/{partition}@{position}".encode()


def _of_the_stream(line: str, prefix: str) -> tuple[Mapping[str, Any], bytes | None]:
    """What Kafka or Kinesis said of a captured record, and its value as it was written."""
    said: dict[str, Any] = {}
    at = 1
    # What it said comes first, and no value with such members is kept as members.
    while line.startswith(f'"{prefix}', at):
        name, end = _scan(line, at)
        said[name], end = _scan(line, end + len(": "))
        at = end + len(", ") if line.startswith(", ", end) else end
    if TOMBSTONE in said:
        return said, None
    if f"{prefix}value" in said:
        return said, base64.b64decode(said[f"{prefix}value"])
    return said, f"{{{line[at:]}".encode()


def _bytes_said(said: Mapping[str, Any], name: str) -> bytes | None:
    if f"{name}_base64" in said:
        return base64.b64decode(said[f"{name}_base64"])
    return None if said.get(name) is None else str(said[name]).encode()


def _headers_said(said: Mapping[str, Any]) -> Headers:
    return [(each["name"], _bytes_said(each, "value")) for each in json.loads(said.get("kafka_headers", "[]"))]


def _records_of(copy: IO[bytes], kind: FileKind) -> Iterator[tuple[bytes, Mapping[str, Any] | None]]:
    """The records of a landed file: each as it was written or, of a format with columns, as JSON; and what it holds."""
    match kind.format:
        case Format.PARQUET:
            yield from _of_parquet(copy)
        case Format.CSV:
            yield from _of_csv(_opened(copy, kind))
        case Format.JSONL:
            yield from ((line, _object(line)) for line in _lines_of(_opened(copy, kind)))


def _opened(copy: IO[bytes], kind: FileKind) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(copy)) if kind.compression else copy


def _lines_of(file: IO[bytes]) -> Iterator[bytes]:
    """Lines that are not blank, whatever ends them: as landing reads them."""
    # Every byte is a character of Latin-1, so that a line is the same bytes again.
    with file, io.TextIOWrapper(cast(Any, file), encoding="latin-1") as text:
        for number, line in enumerate(text):
            found = line.encode("latin-1")
            found = (found if number else found.removeprefix(codecs.BOM_UTF8)).strip()
            if found:
                yield found


def _object(line: bytes) -> Mapping[str, Any] | None:
    try:
        found = _loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _loads(text: str | bytes) -> Any:
    """A value of JSON, with every digit of its numbers."""
    return json.loads(text, parse_float=Decimal)


def _of_csv(file: IO[bytes]) -> Iterator[tuple[bytes, Mapping[str, Any] | None]]:
    """The rows of a CSV; of one that landing rejects, as it has other columns or is no UTF-8, nothing is known."""
    with csv_text(file, errors="surrogateescape") as text:
        rows = csv.reader(text)
        columns = [name.strip() for name in next(rows, [])]
        for row in rows:
            if not row:
                continue
            record = {name: value or None for name, value in zip(columns, row, strict=False)}
            try:
                value = json.dumps(record, ensure_ascii=False).encode()
            except UnicodeEncodeError:
                yield b"", None
                continue
            yield (value, record) if len(row) == len(columns) else (b"", None)


def _of_parquet(copy: IO[bytes]) -> Iterator[tuple[bytes, Mapping[str, Any]]]:
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    # The earlier form of timestamps has no year beyond 2262 in nanoseconds, and no flag: it is an instant.
    with ParquetFile(copy, coerce_int96_timestamp_unit="us") as file:
        leaves = (file.schema.column(place) for place in range(len(file.schema.names)))
        instants = {leaf.path for leaf in leaves if leaf.physical_type == "INT96"}
        names = file.schema_arrow.names
        once = [name for name in names if names.count(name) == 1]
        for batch in file.iter_batches(columns=None if len(once) == len(names) else once):
            columns = {
                name: batch.column(name).cast(pa.timestamp("us", tz="UTC")) if name in instants else batch.column(name)
                for name in batch.schema.names
            }
            for row in json_rows_of(pa.RecordBatch.from_pydict(columns)):
                value = _as_object(row)
                yield value, _loads(value)


def _as_object(row: Mapping[str, str]) -> bytes:
    """A row of which each value is JSON already."""
    return f"{{{', '.join(f'{quoted(name)}: {text}' for name, text in row.items())}}}".encode()


def _key(record: Mapping[str, Any], columns: Sequence[str], declared: KafkaReplay | KinesisReplay) -> bytes | None:
    """The key of a record; None where it has none, or half a character, which is no text."""
    if any(record.get(name) is None for name in columns):
        return None
    found = record[columns[0]]
    if declared.key_format != "text":
        found = f"{{{', '.join(f'{quoted(name)}: {_of_key(record[name])}' for name in columns)}}}"
    try:
        return (found if isinstance(found, str) else _of_key(found)).encode()
    except UnicodeEncodeError:
        return None


def _of_key(value: object) -> str:
    """A value of a key as JSON: of one number always the same text, however many zeros it was written with."""
    match value:
        case Decimal() if value.is_finite() and abs(value.adjusted()) <= _MOST_DIGITS:
            whole, _, fraction = f"{value:f}".partition(".")
            text = f"{whole}.{fraction}".rstrip("0").rstrip(".") if fraction else whole
            return "0" if text == "-0" else text
        case Decimal():
            return str(value)
        case dict():
            return f"{{{', '.join(f'{quoted(name)}: {_of_key(each)}' for name, each in value.items())}}}"
        case list():
            return f"[{', '.join(map(_of_key, value))}]"
    return quoted(value)


def _instant(value: object, timezone: str) -> datetime | None:
    """An instant as records write it; None for what is none."""
    if not isinstance(value, str):
        return None
    try:
        found = datetime.fromisoformat(value.strip())
    except ValueError:
        return None
    if found.tzinfo is None:
        return found.replace(tzinfo=ZoneInfo(timezone)) if timezone else None
    return found


def _midnight(day: date) -> int:
    return _milliseconds(datetime.combine(day, time(), tzinfo=UTC))


def _milliseconds(at: datetime) -> int:
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // _MILLISECOND


_KINDS: Mapping[str, PartKind] = {Family.KAFKA: PartKind.CAPTURED, Family.KINESIS: PartKind.SHARD}
"""Of which captures the very records are sent that were in a topic or a stream."""


def parts_of_run(tx: ReadTransaction, run_id: str, days: DayRange | None) -> tuple[ReplayPart, ...]:
    """The partitions that a run published, with those that they replaced.

    Raises:
        Refused: Readers never saw it, or do not any more; or nothing of it is on these days.
        MissingInput: Retention has removed rows that are to be read.
    """
    made = [each for each in tx.publications.headers(run_id=run_id) if each.action is Action.PUBLISH]
    landed = next((each for each in made if each.state is PublicationState.PUBLISHED), None)
    if landed is None:
        raise RunNotReplayable(run_id=run_id, state=str(tx.runs.get(run_id).state))
    grain = tx.runs.get(run_id).manifest.grain
    versions = tuple(_on(grain, tx.versions.of_publication(landed.publication_id), days))
    replaced = tx.versions.pinned(landed.table, [(each.partition, each.replaces) for each in versions if each.replaces])
    if removed := {each.partition for each in (*versions, *replaced.values()) if each.removed_at is not None}:
        raise RowsRemoved(run_id=run_id, table=landed.table, partitions=Partitions.of(grain, removed))
    return _required(run_id, days, (_partition(each, replaces=each.replaces) for each in versions))


def parts_of_table(tx: ReadTransaction, table: DerivedTable, days: DayRange | None) -> tuple[ReplayPart, ...]:
    """The partitions of a table that readers see.

    Raises:
        Refused: There are none on these days.
    """
    versions = _on(table.partition.grain, tx.versions.accepted(table.name).values(), days)
    return _required(table.name, days, map(_partition, versions))


def parts_of_source(tx: ReadTransaction, source: SourceTable, days: DayRange | None) -> tuple[ReplayPart, ...]:
    """The files of a source as they came: captured ones by the positions of their stream, then those of people.

    Raises:
        Refused: There are none that have records of these days.
    """
    captures = {each.capture_id: each for each in tx.captures.records(source.name)}
    captured = tx.captures.files(source.name)
    of_streams = {each.stored_path for each in captured}
    dates = None if days is None else source.days.partitions(days)
    of_days = None if dates is None else {each.import_id for each in tx.imports.days(source=source.name, days=dates)}
    landed = [
        each
        for each in tx.imports.records(source.name, COUNTING)
        if each.stored_path not in of_streams
        and each.format != STATEMENT
        and (of_days is None or each.import_id in of_days)
    ]
    files = [
        ReplayPart(
            # Of other families the records are as in any file: nothing is known of a topic that they were in.
            kind=_KINDS.get(captures[each.capture_id].family, PartKind.LANDED),
            name=each.stored_path,
            digest=each.sha256,
            records=each.records,
            size_bytes=each.size_bytes,
            stream=captures[each.capture_id].name,
            stream_partition=each.partition,
        )
        for each in sorted(captured, key=_place)
        if each.records and (days is None or _has_records_of(each, source.days.instants(days)))
    ]
    files += [
        ReplayPart(
            kind=PartKind.LANDED,
            name=each.stored_path,
            digest=each.sha256,
            records=each.counts.landed,
            size_bytes=each.size_bytes,
        )
        for each in landed
    ]
    return _required(source.name, days, files)


def _required(subject: str, days: DayRange | None, parts: Iterable[ReplayPart]) -> tuple[ReplayPart, ...]:
    found = tuple(parts)
    if not found:
        raise NothingToReplay(subject=subject, within="" if days is None else f" of {days}")
    return found


def _partition(version: PartitionVersion, *, replaces: int = 0) -> ReplayPart:
    return ReplayPart(
        kind=PartKind.PARTITION,
        name=version.partition.isoformat(),
        digest=version.files.digest,
        records=version.rows,
        size_bytes=version.files.size_bytes,
        version=version.version,
        replaces=replaces,
    )


def _on(grain: Grain, versions: Iterable[PartitionVersion], days: DayRange | None) -> Iterable[PartitionVersion]:
    wanted = None if days is None else set(partitions_over(grain, days))
    return (each for each in versions if wanted is None or each.partition in wanted)


def _place(file: CapturedFile) -> tuple[str, str, int]:
    """A capture of earlier positions may have come later; what is sent has them first. Shards are named in the order in
    which they were created: parents come first."""
    begins = file.range_from.removesuffix("+")
    partition = re.sub(rf"^{SCAN}[0-9]+-(?=[0-9]+$)", "", file.partition)
    return file.stored_path.rpartition("/")[0], partition, int(begins) if begins.isdecimal() else 0


def _has_records_of(file: CapturedFile, period: tuple[datetime, datetime]) -> bool:
    if file.first_at is None or file.last_at is None:
        return True
    begins, ends = period
    return file.first_at < ends and file.last_at >= begins
