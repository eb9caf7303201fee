"""Outgoing records: those of a replay, captured records or the rows that readers see, always in the same order."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import cached_property
from itertools import groupby
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.candidates.rows import rows_of
from backfill_assets.capture.errors import NotAsCaptured
from backfill_assets.capture.families import captured_by
from backfill_assets.capture.json_members import quoted
from backfill_assets.capture.landed_files import landing_files, landing_place
from backfill_assets.core.errors import BackfillError, Refused, Retryable
from backfill_assets.core.identity import document_digest
from backfill_assets.deliver.errors import ReplayFailed
from backfill_assets.deliver.sinks import Headers, Outgoing, Replays, milliseconds
from backfill_assets.domain import DerivedTable, Operation, SourceTable
from backfill_assets.domain.operations import ENDED_BY, OPERATION, UNKNOWN_SINCE, VALID_FROM, VALID_UNTIL, UnknownKeys
from backfill_assets.lake.checksums import checksum_of, hashes_of_row, sums_of
from backfill_assets.lake.row_values import json_of
from backfill_assets.landing.conformed import HAPPENED, IMPORT_ID, ConformedRecords, version_columns
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.landing.key_versions import DECIDES, NEXT, UNKNOWN, KeyState, key_state, resolve_versions
from backfill_assets.landing.record_rules import REASON
from backfill_assets.ledger.imports import ImportRecord
from backfill_assets.ledger.records import PartitionVersion, PartKind, ReplayPart, ReplayRecord
from backfill_assets.ledger.states import COUNTING
from backfill_assets.transforms.schemas import business_schema, current_rows
from backfill_assets.workspace import Workspace

# Captured records: what was in a topic or a stream, as it was captured, in the order of its positions, whatever has
# become of its records since.


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedRecords:
    """The records of captured files."""

    ws: Workspace  #: Where the files are.
    source: str
    parts: tuple[ReplayPart, ...]  #: The files, in the order of their positions.
    headers: Callable[[ReplayPart], Headers]  #: What the records of a file have besides their own headers.
    is_live: bool  #: True if the target was there before, so that its partitions may be others.

    def __iter__(self) -> Iterator[Outgoing | None]:
        """The records; None for one that was captured twice, or is of one value with the one before it."""
        for kind, alike in groupby(self.parts, key=lambda part: part.kind):
            replays: Replays = captured_by(kind).module("replay")
            yield from replays.captured_records(tuple(alike), self)

    def lines(self, part: ReplayPart) -> Iterator[str]:
        with self._copied(part) as copy, gzip.open(copy, "rt", encoding="utf-8", newline="\n") as lines:
            yield from (line.rstrip("\n") for line in lines)

    @contextmanager
    def _copied(self, part: ReplayPart) -> Iterator[IO[bytes]]:
        """A copy of a landed file on this machine while the block lasts.

        It has no name: the copies of landings are removed by the next landing, and this one is gone with its process.

        Raises:
            Refused: It is not what landed.
        """
        files, digest = landing_place(self.ws.settings, self.source).files, hashlib.sha256()
        with TemporaryFile(dir=self.ws.settings.home) as copy:
            with files.open(part.name) as stored:
                while some := stored.read(1 << 20):
                    digest.update(some)
                    copy.write(some)
            if digest.hexdigest() != part.digest:
                raise NotAsCaptured(path=part.name)
            copy.seek(0)
            yield copy


# Held rows: the rows that readers see of a table, and the keys that have none any more, as a replay sends them.
#
# Rows come from published files by the code that every reader of them uses, so that they are those of the present
# contract. Keys without a row are told by what landed: every key that is deleted, truncated or withdrawn there.
# Of a run they are the keys that it took away. A key that has a row anywhere in the table is never among them.
#
# Nothing here rests on anything but the inputs of the replay, and everything comes in one order: a process that
# goes on with a replay reads it again.

_GONE, _DAY, _AT = "_gone", "_day", "_at"
_MOST_DIGITS = 76
"""Before and behind the point, of a number of a key that is written with all of them."""
_ENDS = (str(Operation.DELETE), str(Operation.TRUNCATE), UNKNOWN_SINCE)


class Held(NamedTuple):
    """A row, or a key that has none."""

    key: Mapping[str, Any]  #: The columns of the key.
    row: Mapping[str, str] | None  #: By column, the value as JSON; None for a key that has no row.
    #: The partition of the row, or the latest one that the key had a row in; None where that is not known.
    day: date | None
    at: datetime | None  #: When it happened; of a row with a date alone, and where that is not known, None.
    import_id: str | None  #: What took the key away, if it was withdrawn.


@dataclass(frozen=True, kw_only=True)
class HeldRows:
    """The rows and keys of the inputs of a replay."""

    ws: Workspace
    table: SourceTable | DerivedTable
    parts: Sequence[ReplayPart]
    #: Of a source, only rows whose event time is in it, and keys that had a version on its UTC dates; None for all.
    period: tuple[datetime, datetime] | None

    def __iter__(self) -> Iterator[Held]:
        """Keys that have no row, then rows by partition, both in the order of their keys."""
        names, schema = self.table.schema.fieldNames(), self.table.schema
        own = F.lit(None).cast("timestamp")
        if isinstance(self.table, SourceTable) and not self.table.has_dates:
            own = F.col(self.table.event_time)
        day, nothing = F.col(self.table.partition.column), F.lit(None).cast("string")
        rows = self._current.select(
            F.lit(0).alias(_GONE), day.alias(_DAY), own.alias(_AT), nothing.alias(IMPORT_ID), *names
        )
        if self._tells_keys:
            absent = (
                F.lit(None).cast(each.dataType).alias(each.name)
                for each in schema.fields
                if each.name not in self.table.key
            )
            gone = self._gone.select(F.lit(1).alias(_GONE), _DAY, _AT, IMPORT_ID, *self.table.key, *absent)
            rows = rows.unionByName(gone)
        # As local times: Python makes those of its own zone of instants.
        types = {_AT: T.TimestampType(), **{each.name: each.dataType for each in schema.fields}}
        shown = rows.select(_GONE, _DAY, IMPORT_ID, *(_without_zone(name, types[name]) for name in types))
        for row in shown.orderBy(F.col(_GONE).desc(), _DAY, *self.table.key).toLocalIterator():
            found = {name: json_of(_value(row[name], types[name])) for name in names}
            yield Held(
                key={name: _loads(found[name]) for name in self.table.key},
                row=None if row[_GONE] else found,
                day=row[_DAY],
                at=_value(row[_AT], types[_AT]),
                import_id=row[IMPORT_ID],
            )

    def counted(self) -> Mapping[date, int]:
        """The number of rows that are sent, by partition."""
        found = self._current.groupBy(F.col(self.table.partition.column).alias(_DAY)).count().collect()
        return {row[_DAY]: row["count"] for row in found}

    def gone(self) -> tuple[int, str]:
        """The number of keys without a row, and a checksum of these keys."""
        schema = T.StructType([self.table.schema[name] for name in self.table.key])
        hashed = self._gone.select(*(F.expr(each).alias(f"_{n}") for n, each in enumerate(hashes_of_row(schema))))
        found = hashed.agg(F.count(F.lit(1)).alias("rows"), *sums_of(("_0", "_1"))).collect()[0].asDict()
        return int(found["rows"]), checksum_of(found)

    def key_on_several_days(self) -> str | None:
        """A key that has rows in several partitions, as a person reads it."""
        many = self._current.groupBy(*self.table.key).count().where(F.col("count") > 1)
        found = many.select(*(F.col(name).cast("string").alias(name) for name in self.table.key)).first()
        return None if found is None else ", ".join(f"{name} {found[name]}" for name in self.table.key)

    # ----------------------------------------------------------------------------------------------------- as frames

    @cached_property
    def _sent(self) -> DataFrame:
        return self._read(self._versions(PartKind.PARTITION))

    @property
    def _current(self) -> DataFrame:
        rows = current_rows(self._sent, self.table)
        if self.period is None or not isinstance(self.table, SourceTable):
            return rows
        return rows.where(_is_within(F.col(self.table.event_time), self.table, self.table.has_dates, self.period))

    @property
    def _tells_keys(self) -> bool:
        return any(part.kind is PartKind.GONE for part in self.parts)

    @property
    def _gone(self) -> DataFrame:
        """Keys without a row, each with its latest day, when it was taken away, and by which import."""
        arrival = next(part.version for part in self.parts if part.kind is PartKind.GONE)
        found = self._taken_by_the_run() if not arrival else self._taken_by_what_landed(arrival)
        beside = current_rows(self._read(self._versions(PartKind.BESIDE)), self.table)
        sent = current_rows(self._sent, self.table)
        held = sent.select(*self.table.key).unionAll(beside.select(*self.table.key))
        return found.join(held, on=list(self.table.key), how="left_anti")

    def _taken_by_the_run(self) -> DataFrame:
        key, day = self.table.key, F.col(self.table.partition.column)
        midnight = day.cast("timestamp")
        before = current_rows(self._read(self._versions(PartKind.PARTITION, replaced=True)), self.table)
        found = before.select(*key, day.alias(_DAY), midnight.alias(_AT))
        if isinstance(self.table, SourceTable) and self.table.operation is not None:
            is_delete = F.col(OPERATION) == str(Operation.DELETE)
            ended = self._sent.where(is_delete | F.coalesce(F.col(ENDED_BY).isin(*_ENDS), F.lit(False)))
            ended_at = F.when(is_delete, F.col(VALID_FROM)).otherwise(F.col(VALID_UNTIL)).cast("timestamp")
            at = F.coalesce(ended_at, midnight)
            found = found.unionAll(ended.select(*key, day.alias(_DAY), at.alias(_AT)))
        latest = found.groupBy(*key).agg(F.max(_DAY).alias(_DAY), F.max(_AT).alias(_AT))
        return latest.withColumn(IMPORT_ID, F.lit(None).cast("string"))

    def _taken_by_what_landed(self, arrival: int) -> DataFrame:
        source = self.table
        assert isinstance(source, SourceTable), "only of a source anything lands"
        imports = [each for each in self._imports if each.arrival <= arrival]
        records = ConformedRecords(spark=self.ws.spark(), landing=landing_files(self.ws.settings), source=source)
        versions = records.versions(imports).select(*version_columns(source))
        found = resolve_versions(versions, source, imports)
        day = F.col(source.partition.column)
        is_dropped = F.col(UNKNOWN).isNotNull() & F.lit(source.unknown == UnknownKeys.DROP)
        is_gone = F.col(DECIDES) & (is_dropped | (key_state() != F.lit(str(KeyState.CURRENT))))
        at = (
            F.when(is_dropped, F.col(f"{UNKNOWN}.at"))
            .when(F.col(OPERATION) == str(Operation.DELETE), F.col(HAPPENED))
            .otherwise(F.col(f"{NEXT}.at"))
        )
        end = F.struct(at.cast("timestamp").alias(_AT), F.when(at.isNull(), F.col(IMPORT_ID)).alias(IMPORT_ID))
        told = F.lit(True)
        if self.period is not None:
            # A delete may have the event time of what it ends, and is told on the day on which it happened as well.
            is_delete = F.col(OPERATION) == str(Operation.DELETE)
            is_date = isinstance(source.time_type, T.DateType)
            is_ended_then = is_delete & _is_within(F.col(HAPPENED), source, is_date, self.period)
            is_of_then = _is_within(day, source, True, self.period) if source.has_dates else _is_of(day, *self.period)
            told = F.coalesce(is_of_then, F.lit(False)) | F.coalesce(is_ended_then, F.lit(False))
        of_key = found.groupBy(*source.key).agg(
            F.max(F.when(is_gone, end)).alias("_end"), F.max(told).alias("_told"), F.max(day).alias(_DAY)
        )
        # A withdrawn key without a day was never accepted: only rejected records of it have landed.
        was_accepted = F.col(_DAY).isNotNull()
        taken = of_key.where(F.col("_end").isNotNull() & F.col("_told") & was_accepted).select(
            *source.key, _DAY, F.col(f"_end.{_AT}").alias(_AT), F.col(f"_end.{IMPORT_ID}").alias(IMPORT_ID)
        )
        again = [each.import_id for each in imports if each.on_duplicate == OnDuplicate.REPROCESS]
        if not again:
            return taken
        # They may have been accepted before their file was read again.
        rejected = versions.where(F.col(REASON).isNotNull() & F.col(IMPORT_ID).isin(again) & told)
        rejected = rejected.groupBy(*source.key).agg(F.max(day).alias(_DAY), F.max(IMPORT_ID).alias(IMPORT_ID))
        lost = rejected.join(of_key.where(was_accepted).select(*source.key), on=list(source.key), how="left_anti")
        return taken.unionByName(lost.withColumn(_AT, F.lit(None).cast("timestamp")))

    # ---------------------------------------------------------------------------------------------------- inputs

    @cached_property
    def _imports(self) -> Sequence[ImportRecord]:
        with self.ws.ledger.read() as tx:
            return tx.imports.records(self.table.name, COUNTING)

    def landed_at(self, import_id: str) -> datetime:
        """When an import landed."""
        return next(each.first_seen_at for each in self._imports if each.import_id == import_id)

    def _versions(self, kind: PartKind, *, replaced: bool = False) -> Iterable[PartitionVersion]:
        pairs = [
            (date.fromisoformat(part.name), part.replaces if replaced else part.version)
            for part in self.parts
            if part.kind is kind and (part.replaces or not replaced)
        ]
        with self.ws.ledger.read() as tx:
            return tx.versions.pinned(self.table.name, pairs).values()

    def _read(self, versions: Iterable[PartitionVersion]) -> DataFrame:
        return rows_of(self.ws, self.table, [version.files for version in versions])


def contract_sent(ws: Workspace, table: SourceTable | DerivedTable) -> str:
    """Names the columns that rows are sent with, and the code that lifts earlier ones to them."""
    named = ws.contracts[table.name].named() if isinstance(table, SourceTable) else ""
    return document_digest([named, business_schema(table).json()])


def _is_within(at: Column, source: SourceTable, is_date: bool, period: tuple[datetime, datetime]) -> Column:
    """True if a time is in a period; of a date, if it is one of its days."""
    begins, ends = period
    if not is_date:
        return (at >= F.lit(begins)) & (at < F.lit(ends))
    return at.between(F.lit(source.days.of(begins)), F.lit(source.days.of(ends - timedelta(microseconds=1))))


def _is_of(day: Column, begins: datetime, ends: datetime) -> Column:
    """True if a UTC date has instants of a period."""
    return day.between(F.lit(begins.date()), F.lit((ends - timedelta(microseconds=1)).date()))


def _without_zone(name: str, kind: T.DataType) -> Column:
    return F.col(name).cast(_local(kind)).alias(name)


def _local(kind: T.DataType) -> T.DataType:
    """A type with local times in the place of instants, at any depth, of which everything can be null."""
    match kind:
        case T.TimestampType():
            return T.TimestampNTZType()
        case T.ArrayType():
            return T.ArrayType(_local(kind.elementType))
        case T.StructType():
            return T.StructType([T.StructField(each.name, _local(each.dataType)) for each in kind.fields])
        case _:
            return kind


def _value(value: Any, kind: T.DataType) -> Any:
    """A value of a row as `json_of` takes it: an instant says that it is one, and a struct has names."""
    match value, kind:
        case None, _:
            return None
        case datetime(), T.TimestampType():
            return value.replace(tzinfo=UTC)
        case bytearray(), _:
            return bytes(value)
        case Row(), T.StructType():
            return {each.name: _value(value[place], each.dataType) for place, each in enumerate(kind.fields)}
        case list(), T.ArrayType():
            return [_value(each, kind.elementType) for each in value]
        case _:
            return value


def _loads(text: str) -> Any:
    """A value of JSON, with every digit of its numbers."""
    return json.loads(text, parse_float=Decimal)


def key_bytes(key: Mapping[str, Any], key_format: str) -> bytes:
    """The key of a record: an object of its columns, or the text of its one column."""
    if key_format != "text":
        return f"{{{', '.join(f'{quoted(name)}: {_of_key(value)}' for name, value in key.items())}}}".encode()
    (found,) = key.values()
    return (found if isinstance(found, str) else _of_key(found)).encode()


def _of_key(value: object) -> str:
    """A value of a key as JSON: of one number always the same text, however many zeros its type has."""
    match value:
        case Decimal() if value.is_finite() and abs(value.adjusted()) <= _MOST_DIGITS:
            whole, _, fraction = f"{value:f}".partition(".")
            text = f"{whole}.{fraction}".rstrip("0").rstrip(".") if fraction else whole
            return "0" if text == "-0" else text
        case Decimal():
            return str(value)
        case _:
            return quoted(value)


def as_object(row: Mapping[str, str]) -> bytes:
    """A row of which each value is JSON already."""
    return f"{{{', '.join(f'{quoted(name)}: {text}' for name, text in row.items())}}}".encode()


# Outgoing records: those of a replay, always in the same order.
#
# Who goes on with a replay reads everything again and leaves out what is in its target already: so nothing here
# may depend on anything but the inputs of the replay, which are pinned when it is asked for.

MODE = "REPLAY"
_OWN = ("x-replay-id", "x-run-id", "x-processing-mode", "x-transform-version", "x-input-snapshot")


@dataclass(slots=True, kw_only=True)
class OutgoingRecords:
    """The records of a replay."""

    ws: Workspace  #: Where its inputs are.
    replay: ReplayRecord
    table: SourceTable | DerivedTable
    #: How many captured records were left out, as far as they were read: they are of other times than were asked for,
    #: were captured twice, or are of one value with the record before them.
    left_out: int = 0
    _versions: dict[str, str] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Outgoing]:
        """The records.

        Raises:
            ReplayFailed: They are not those that were planned, or cannot be read any more.
        """
        count = 0
        if not self.replay.is_as_captured:
            self.ws.spark()  # a session that does not open says nothing about the inputs
        try:
            for record in self._captured() if self.replay.is_as_captured else self._held():
                if record is None:
                    self.left_out += 1
                else:
                    count += 1
                    yield record
        except Retryable:
            raise
        except BackfillError as error:
            raise ReplayFailed(replay_id=self.replay.replay_id, why=error.message.rstrip(".")) from error
        if count + self.left_out != self.replay.records:
            why = f"{count + self.left_out:,} records were read, and {self.replay.records:,} were planned"
            raise ReplayFailed(replay_id=self.replay.replay_id, why=why)

    def _headers(self, run_id: str, version: str, snapshot: str) -> Headers:
        values = (self.replay.replay_id, run_id, MODE, version, snapshot)
        return [(name, value.encode()) for name, value in zip(_OWN, values, strict=True)]

    # --------------------------------------------------------------------------------------------------- as captured

    def _captured(self) -> Iterator[Outgoing | None]:
        found = CapturedRecords(
            ws=self.ws,
            source=self.table.name,
            parts=self.replay.parts,
            headers=self._of_file,
            is_live=self.replay.is_live,
        )
        return (each if each is not None and self._is_within(each) else None for each in found)

    def _is_within(self, record: Outgoing) -> bool:
        if self.replay.period is None:
            return True
        begins, ends = self.replay.period
        return milliseconds(begins) <= record.at < milliseconds(ends)

    def _of_file(self, part: ReplayPart) -> Headers:
        return self._headers(self.replay.replay_id, self._contract, f"sha256:{part.digest}")

    @property
    def _contract(self) -> str:
        return str(self.table.contract_version) if isinstance(self.table, SourceTable) else self.table.version

    # --------------------------------------------------------------------------------------------- what readers see

    def _held(self) -> Iterator[Outgoing]:
        replay, table = self.replay, self.table
        assert table.replay is not None, "what declares no replay is not sent"
        held = HeldRows(ws=self.ws, table=table, parts=replay.parts, period=replay.period)
        if replay.contract != contract_sent(self.ws, table):
            raise _changed(f"the columns of {table.name}")
        if any(part.kind is PartKind.GONE and held.gone()[1] != part.digest for part in replay.parts):
            raise _changed(f"what landed of {table.name}")
        versions = self._partitions()
        newest = f"{table.name}@{_newest(versions)}"
        of_keys = (
            self._headers(replay.replay_id, self._contract, newest)
            if replay.subject == table.name
            else self._headers(replay.subject, self._transform(replay.subject), newest)
        )
        of_rows: dict[date, Headers] = {}
        for each in held:
            key = key_bytes(each.key, table.replay.key_format)
            if each.row is None:
                ended = each.at if each.import_id is None else held.landed_at(each.import_id)
                yield Outgoing(key=key, value=None, headers=of_keys, at=milliseconds(ended or replay.asked_at))
                continue
            assert each.day is not None, "a row is in a partition"
            if each.day not in of_rows:
                of_rows[each.day] = self._of_version(versions[each.day])
            at = each.at or datetime.combine(each.day, time(), tzinfo=UTC)
            yield Outgoing(key=key, value=as_object(each.row), headers=of_rows[each.day], at=milliseconds(at))

    def _partitions(self) -> Mapping[date, PartitionVersion]:
        sent = (each for each in self.replay.parts if each.kind is PartKind.PARTITION)
        with self.ws.ledger.read() as tx:
            return tx.versions.pinned(self.table.name, [(date.fromisoformat(each.name), each.version) for each in sent])

    def _of_version(self, version: PartitionVersion) -> Headers:
        snapshot = f"{self.table.name}@{version.delta_version}"
        return self._headers(version.run_id, self._transform(version.run_id), snapshot)

    def _transform(self, run_id: str) -> str:
        """The version of the transform of a run."""
        if run_id not in self._versions:
            with self.ws.ledger.read() as tx:
                self._versions[run_id] = tx.runs.get(run_id).manifest.transform_version
        return self._versions[run_id]


def _newest(versions: Mapping[date, PartitionVersion]) -> int:
    return max((each.delta_version for each in versions.values()), default=0)


def _changed(what: str) -> Refused:
    return Refused.coded("replay_inputs_changed", "{what} changed after the replay was planned.", what=what)
