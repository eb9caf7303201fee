"""Versions of a table that others write, as Parquet files. Nothing is ever written to it.

A position is a version that was not read yet. The first capture is a snapshot of the newest version, group by group of
its data files (`8@20`: of version 7, twenty files are read). What follows are the changes of later versions as
operations, where the format can tell them and the source has operations; else the newest version once more, as a scan
that lands as a complete extract. A table that goes back to an earlier state is scanned under a number of its own, so
that the records of this state are the newest ones.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from backfill_assets.calendar.local_days import LocalDays
from backfill_assets.capture.errors import CannotBeCaptured, CreatedAgain, NotOffered, VersionGone
from backfill_assets.capture.lake_tables import FAMILY
from backfill_assets.capture.lake_tables.declaration import COMMITTED, VERSION
from backfill_assets.capture.landed_files import FileKind, Format
from backfill_assets.capture.streams import (
    SCAN,
    Captured,
    CapturePeriod,
    Operated,
    Pace,
    Resolution,
    Resolved,
    Span,
    Written,
    cut,
    ends_of,
    followed,
    new_scan,
)
from backfill_assets.core.errors import PackageMissing

_BEGIN = "0"
OF_STATE = "-of-"
_ASKED_AT_ONCE = 16
_VERSIONS = 100
"""At most so many versions have their changes in one file."""
ROWS = 50_000
_COMMITTED_TYPE = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True, slots=True, kw_only=True)
class Newest:
    """The version of a table that a capture reads."""

    version: int  #: Its number, which rises from version to version.
    pinned: Mapping[str, str]  #: What else is known of it.
    has_changes: bool  #: True if the changes that led to it can be read as operations.
    #: What is read, of a format whose tables can go back: such a state has another number then.
    state: int | None = None


class TableStream(ABC):
    """A table of others that was opened.

    Args:
        place: Where it is, for people.
        chunk: About how many rows of a version one landed file has.
        event_time: The column that is the time of a record.
        days: What its days are.
        operated: How the source names operations; None where its records have none.
        columns: The columns of its contract. A table that lacks one is refused: its values would be null.
    """

    kind = FileKind(format=Format.PARQUET, compression="")
    table_format: str
    """The format of its tables, such as `delta`."""

    def __init__(
        self,
        place: str,
        *,
        chunk: int,
        event_time: str,
        days: LocalDays,
        operated: Operated | None,
        columns: Sequence[str],
    ) -> None:
        self._place, self._chunk = place, chunk
        self._columns = columns
        self._event_time, self._days = event_time, days
        self._operated = operated

    @property
    def name(self) -> str:
        return f"the {self.table_format.capitalize()} table {self._place}"

    def close(self) -> None:  # noqa: B027 - a table needs nothing
        """Nothing is held open."""

    # --------------------------------------------------------------------------------------- what a format has to know

    @abstractmethod
    def _identity(self) -> str:
        """The identity of the table, which no other table has, also not one that is created in its place."""

    @abstractmethod
    def _newest(self) -> Newest:
        """The newest version, or the one that is declared."""

    @abstractmethod
    def _state(self, partition: str, version: int) -> int | None:
        """The table state to which captured positions belong; null where that is not known any more."""

    def _after(self, newest: Newest, version: int) -> int:
        """The number of a state that is not the captured one, of a number that was captured last."""
        raise NotImplementedError

    @abstractmethod
    def _own_schema(self, state: int) -> pa.Schema:
        """The columns of the table in a state."""

    @abstractmethod
    def _files(self, state: int) -> Sequence[Any]:
        """The data files of a state, always in the same order."""

    @abstractmethod
    def _counts(self, state: int) -> Sequence[int]:
        """The row count of each of these files."""

    @abstractmethod
    def _require_readable(self, state: int, files: Sequence[Any]) -> None:
        """Fails where a file is not there any more."""

    @abstractmethod
    def _batches(self, state: int, file: Any) -> Iterator[pa.RecordBatch]:
        """The rows of a file with the columns of the table, at most `ROWS` at once."""

    def _require_changes(self, first: int, last: int) -> None:
        """Fails where the changes of versions cannot be read any more, of a format that can tell them."""
        raise NotImplementedError

    def _changes(self, piece: Span, copy: Path) -> Iterator[pa.RecordBatch]:
        """The changes of versions as rows of `_schema`, of a format that can tell them."""
        raise NotImplementedError

    @abstractmethod
    def _reading(self, state: int | None = None) -> AbstractContextManager[None]:
        """Turns errors of the client into ours."""

    # ------------------------------------------------------------------------------------------------- what it holds

    def resolve(self, period: CapturePeriod, captured: Sequence[Captured]) -> Resolution:
        if not period.is_whole and (period.start or period.end):
            raise NotOffered(
                name=self.name, why="cannot be asked for a period: a capture reads everything that it has now"
            )
        with self._reading():
            newest = self._newest()
            identity = self._identity()
        partition, start, end = self._following(newest, captured)
        if period.is_whole:
            version = self._number(newest, _last_end(captured))
            partition, start, end = _named(new_scan(captured), newest, version), _BEGIN, str(version + 1)
        if start not in (_BEGIN, end):
            self._require_changes(int(start), int(end) - 1)
        return Resolution(
            family=FAMILY.name,
            name=self._place,
            stream=f"{self.table_format}/{identity}",
            pinned={"format": self.table_format, "version": str(newest.version), **newest.pinned},
            is_compacted=False,
            spans=(Resolved(partition=partition, range_from=start, range_to=end, held_from="", held_to=end),),
            is_whole=partition.startswith(SCAN),
        )

    def _following(self, newest: Newest, captured: Sequence[Captured]) -> tuple[str, str, str]:
        """Partition and positions of what follows on the captures: the rest of a snapshot, changes, or all rows."""
        last = _last_end(captured)
        begun, _, group = followed(captured, "0", _BEGIN, is_end=_is_whole).partition("@")
        if group and (last is None or int(begun) > int(last.range_to)):
            state = self._state("0", int(begun) - 1)
            if state is not None and self._is_readable(state, begin=int(group)):
                return "0", _BEGIN, begun
        elif last is None:
            return "0", _BEGIN, str(newest.version + 1)
        version = self._number(newest, last)
        if last is not None and int(last.range_to) > version:
            return "0", last.range_to, last.range_to
        if last is not None and newest.has_changes:
            return "0", last.range_to, str(version + 1)
        return _named(f"{SCAN}version-{version}", newest, version), _BEGIN, str(version + 1)

    def _number(self, newest: Newest, last: Captured | None) -> int:
        """The number under which the newest state is captured."""
        if last is None:
            return newest.version
        version = int(last.range_to) - 1
        state = newest.version if newest.state is None else newest.state
        return version if self._state(last.partition, version) == state else self._after(newest, version)

    def require_same(self, stream: str) -> None:
        with self._reading():
            found = self._identity()
        expected = stream.rpartition("/")[2]
        if found != expected:
            raise CreatedAgain(name=self.name, expected=expected, found=found, declare="")

    def _is_readable(self, state: int, *, begin: int) -> bool:
        """True if the files of all states from one on exist."""
        try:
            with self._reading(state):
                self._require_readable(state, self._files(state)[begin:])
        except VersionGone:
            return False
        return True

    # ------------------------------------------------------------------------------------------------ what is written

    def pieces(self, span: Span, captured: Sequence[Span]) -> Iterator[Span]:
        """Groups of the files of a version, or changes of some versions, cut where every capture cuts."""
        if span.range_from == _BEGIN:
            at = followed(captured, span.partition, _BEGIN, is_end=_is_whole)
            if at != _BEGIN and "@" not in at:
                return
            ends = self._ends_of_groups(self._state_of(span), begin=int(at.partition("@")[2] or 0))
            for end in [*(f"{span.range_to}@{number}" for number in ends[:-1]), span.range_to]:
                yield Span(partition=span.partition, range_from=at, range_to=end)
                at = end
            return
        for start, to in cut(span, (), _VERSIONS, int):
            yield Span(partition=span.partition, range_from=str(start), range_to=str(to))

    def file_name(self, resolution: Resolution, piece: Span) -> str:
        table = resolution.stream.rpartition("/")[2]
        slug = re.sub(r"[^A-Za-z0-9]+", "-", Path(self._place).name).strip("-") or "table"
        versions = f"{piece.range_from}-{piece.range_to}".replace("@", ".")
        return f"{slug}-{table}/{table}-{piece.partition}-{versions}{self.kind.suffix}"

    def write(self, piece: Span, copy: Path, pace: Pace) -> Written:
        is_snapshot = piece.range_from == _BEGIN or "@" in piece.range_from
        rows = self._rows_of_group(piece) if is_snapshot else self._changes(piece, copy)
        state = self._state_of(piece)
        with self._reading(state):
            return self._write(rows, self._schema(state), copy, pace)

    def _state_of(self, span: Span) -> int:
        """The state of which positions are."""
        version = int(span.range_to.partition("@")[0]) - 1
        state = self._state(span.partition, version)
        if state is None:
            raise VersionGone(name=self.name, version=version)
        return state

    def _write(self, rows: Iterator[pa.RecordBatch], schema: pa.Schema, copy: Path, pace: Pace) -> Written:
        count, times = 0, list[datetime]()
        with pq.ParquetWriter(copy, schema, compression="zstd") as file:
            for batch in rows:
                file.write_batch(batch)
                count += batch.num_rows
                times = ends_of([*times, *_times(batch, self._event_time, self._days)])
                pace.took(batch.num_rows, batch.nbytes)
        return Written(records=count, first_at=min(times, default=None), last_at=max(times, default=None))

    def _rows_of_group(self, piece: Span) -> Iterator[pa.RecordBatch]:
        """The rows of a group of files of a version, as a snapshot."""
        (_, _, begin), (behind, _, end) = piece.range_from.partition("@"), piece.range_to.partition("@")
        state = self._state_of(piece)
        said: list[tuple[object, pa.DataType]] = [(int(behind) - 1, pa.int64()), (None, _COMMITTED_TYPE)]
        if self._operated is not None:
            said.append((self._operated.snapshot, pa.string()))
        for file in self._files(state)[int(begin or 0) : int(end) if end else None]:
            for batch in self._batches(state, file):
                added = [pa.array([value] * batch.num_rows, kind) for value, kind in said]
                yield pa.RecordBatch.from_arrays([*batch.columns, *added], schema=self._schema(state))

    def _ends_of_groups(self, state: int, *, begin: int) -> list[int]:
        """Where groups of files of a state end that have about as many rows as a chunk. All of them are there."""
        with self._reading(state):
            self._schema(state)
            self._require_readable(state, self._files(state)[begin:])
            ends, rows, counts = [], 0, self._counts(state)
            for number, count in enumerate(counts[begin:], begin):
                if rows and rows + count > self._chunk:
                    ends.append(number)
                    rows = 0
                rows += count
            return [*ends, len(counts)]

    def _schema(self, state: int) -> pa.Schema:
        """The columns of the table, and those that a capture adds."""
        added = [pa.field(VERSION, pa.int64()), pa.field(COMMITTED, _COMMITTED_TYPE)]
        if self._operated is not None:
            added.append(pa.field(self._operated.column, pa.string()))
        own = self._own_schema(state)
        for each in added:
            if each.name in own.names:
                raise CannotBeCaptured(
                    name=self.name, why=f"it has a column {each.name} itself, which a capture writes"
                )
        schema = pa.schema([*(each.with_nullable(True) for each in own), *added])
        if lacking := [each for each in self._columns if each not in schema.names]:
            raise CannotBeCaptured(name=self.name, why=f"it has no column {', '.join(lacking)}")
        return schema


def all_there(is_there: Callable[[str], bool], paths: Sequence[str]) -> bool:
    """True if all files exist; a store is asked for several at once."""
    with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
        return all(pool.map(is_there, paths))


def _last_end(captured: Sequence[Captured]) -> Captured | None:
    """The last state that was captured to its end."""
    return next((each for each in reversed(captured) if _is_whole(each.range_to)), None)


def _named(partition: str, newest: Newest, version: int) -> str:
    """A partition, which names the state where the number alone does not."""
    return partition if version == newest.version else f"{partition}{OF_STATE}{newest.state}"


def _is_whole(position: str) -> bool:
    """True if a snapshot ends here."""
    return "@" not in position


def _times(batch: pa.RecordBatch, column: str, days: LocalDays) -> list[datetime]:
    """The earliest and the latest time of rows, where their column is one; of dates where they begin and end."""
    place = batch.schema.get_field_index(column)
    kind = pa.null() if place < 0 else batch.schema.field(place).type
    is_date = days.are_dates and pa.types.is_date(kind)
    if not is_date and not (pa.types.is_timestamp(kind) and kind.tz):
        return []
    found = [at for at in pc.min_max(batch.column(place)).as_py().values() if at is not None]
    if not is_date:
        return [at.astimezone(UTC) for at in found]
    with suppress(OverflowError):
        return [at for day in found for at in days.span(day)]
    return []


# First rows: some rows of a table that others write, to look at before it is declared.

_LOG, _METADATA = "_delta_log", "metadata"


def is_delta(folder: Path) -> bool:
    """True if a folder is a Delta table."""
    return (folder / _LOG).is_dir()


def newest_metadata(folder: Path) -> Path | None:
    """The newest metadata file of an Iceberg table in a folder; None where it is none."""
    found = sorted((folder / _METADATA).glob("*.metadata.json"), key=lambda path: (path.stat().st_mtime_ns, path.name))
    return found[-1] if found else None


def first_rows_of_delta(place: Path | str, most: int, options: Mapping[str, str] | None = None) -> pa.Table:
    """The first rows of a Delta table.

    Args:
        place: Its folder, or its address in an object store.
        options: How that store is reached.

    Raises:
        ValueError: It cannot be read, in the words of its client.
    """
    from deltalake import DeltaTable, QueryBuilder
    from deltalake.exceptions import DeltaError

    try:
        table = DeltaTable(str(place), storage_options=dict(options) if options else None)
        batches = QueryBuilder().register("found", table).execute(f"SELECT * FROM found LIMIT {most:d}")  # noqa: S608 - a number
        return pa.table(batches.read_all())
    except (DeltaError, OSError, pa.ArrowException, RuntimeError) as error:
        raise ValueError(str(error).splitlines()[0] if str(error) else "its client failed") from error


def first_rows_of_iceberg(metadata: Path, most: int) -> pa.Table:
    """The first rows of an Iceberg table.

    Raises:
        PackageMissing: pyiceberg is not installed.
        ValueError: It cannot be read, in the words of its client.
    """
    try:
        from pyiceberg.table import StaticTable
    except ImportError:
        raise PackageMissing(what="looking at an Iceberg table", package="pyiceberg", extra="iceberg") from None
    try:
        return StaticTable.from_metadata(str(metadata)).scan(limit=most).to_arrow()
    except (ValueError, LookupError, OSError, pa.ArrowException, RuntimeError) as error:
        raise ValueError(str(error).splitlines()[0] if str(error) else "its client failed") from error
