"""Delta capture: versions of a Delta table that others write, as Parquet files. Nothing is ever written to it.

A position is a version that was not read yet. The first capture is a snapshot of the newest version, group by group of
its data files (`8@20`: of version 7, twenty files are read). What follows are the changes of later versions as
operations, where the table has a change feed and the source has operations; else the newest version once more, as a
scan that lands as a complete extract.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds
import pyarrow.parquet as pq

from backfill_assets.capture.errors import (
    CannotBeCaptured,
    ChangesUnreadable,
    CreatedAgain,
    NoPeriod,
    NoStream,
    ReadFailed,
    StreamDenied,
    VersionGone,
)
from backfill_assets.capture.lake_table import LakeTable
from backfill_assets.capture.landed_files import Family, FileKind, Format
from backfill_assets.capture.streams import (
    SCAN,
    Captured,
    Operated,
    Pace,
    Period,
    Resolution,
    Resolved,
    Span,
    Written,
    cut,
)

if TYPE_CHECKING:
    from deltalake import DeltaTable

_BEGIN = "0"
_VERSIONS = 100
"""At most so many versions have their changes in one file."""
_ROWS = 50_000
_VERSION, _COMMITTED = "lake_version", "lake_committed_at"
_ESCAPED = "%25"
_FEED = "delta.enableChangeDataFeed"
_COMMITTED_TYPE = pa.timestamp("us", tz="UTC")
_DENIED = ("403", "401", "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "PermissionDenied")
_GONE = ("not found", "No such file", "Invalid table version", "not the same as the specified end version", "404")


class DeltaStream:
    """A Delta table that was opened.

    Args:
        declared: The table as its source declares it.
        secret: The secret options of its store.
        event_time: The column that is the time of a record.
        operated: How the source names operations; None where its records have none.
    """

    kind = FileKind(format=Format.PARQUET, compression="")

    def __init__(
        self, declared: LakeTable, *, secret: Mapping[str, str], event_time: str, operated: Operated | None
    ) -> None:
        self._declared = declared
        self._options = {**declared.options, **secret}
        self._event_time = event_time
        self._operated = operated

    @property
    def name(self) -> str:
        return f"the Delta table {self._declared.url}"

    def close(self) -> None:
        """Nothing is held open."""

    # ------------------------------------------------------------------------------------------------- what it holds

    def resolve(
        self,
        period: Period,
        captured: Sequence[Captured],
    ) -> Resolution:
        if not period.is_whole and (period.start or period.end):
            raise NoPeriod(name=self.name)
        with self._reading():
            table = self._at(self._declared.version)
            version, has_feed = table.version(), self._has_feed(table)
        partition, start, end = self._following(version, captured, has_feed=has_feed)
        if period.is_whole:
            scans = (re.fullmatch(rf"{SCAN}([0-9]+)", each.partition) for each in captured)
            number = max((int(each[1]) for each in scans if each), default=0) + 1
            partition, start, end = f"{SCAN}{number}", _BEGIN, str(version + 1)
        return Resolution(
            family=str(Family.LAKE),
            name=self._declared.url,
            stream=f"delta/{table.metadata().id}",
            pinned={"format": "delta", "version": str(version), "change feed": "yes" if has_feed else "no"},
            is_compacted=False,
            spans=(
                Resolved(partition=partition, range_from=start, range_to=end, held_from="", held_to=str(version + 1)),
            ),
            is_whole=partition.startswith(SCAN),
        )

    def _following(self, version: int, captured: Sequence[Captured], *, has_feed: bool) -> tuple[str, str, str]:
        """Partition and positions of what follows on the captures: the rest of a snapshot, changes, or all rows."""
        read = [int(each.range_to) for each in captured if "@" not in each.range_to]
        reached = max(read, default=None)
        begun, _, group = _followed(captured, "0", _BEGIN).partition("@")
        if group and (reached is None or int(begun) > reached):
            if self._is_readable(int(begun) - 1, begin=int(group)):
                return "0", _BEGIN, begun
        elif reached is None:
            return "0", _BEGIN, str(version + 1)
        elif reached > version or has_feed:
            return "0", str(reached), str(max(reached, version + 1))
        return f"{SCAN}version-{version}", _BEGIN, str(version + 1)

    def require_same(self, stream: str) -> None:
        with self._reading():
            found = str(self._at(self._declared.version).metadata().id)
        expected = stream.rpartition("/")[2]
        if found != expected:
            raise CreatedAgain(name=self.name, expected=expected, found=found, declare="")

    def _has_feed(self, table: DeltaTable) -> bool:
        """Whether changes can be read as operations."""
        has_deletes = self._operated is not None and self._operated.delete is not None
        if not has_deletes or (table.metadata().configuration or {}).get(_FEED) != "true":
            return False
        # The client looks for files of partition values with such characters in folders that do not exist.
        return not any(_ESCAPED in path for path in pa.table(table.get_add_actions())["path"].to_pylist())

    def _is_readable(self, version: int, *, begin: int) -> bool:
        """Whether the files of a version from one on are there."""
        try:
            with self._reading(version):
                for each in self._fragments(version)[begin:]:
                    each.ensure_complete_metadata()
        except VersionGone:
            return False
        return True

    # ------------------------------------------------------------------------------------------------ what is written

    def pieces(self, span: Span, captured: Sequence[Span]) -> Iterator[Span]:
        """Groups of the files of a version, or changes of some versions, cut where every capture cuts."""
        if span.range_from == _BEGIN:
            at = _followed(captured, span.partition, _BEGIN)
            if at != _BEGIN and "@" not in at:
                return
            ends = self._ends_of_groups(int(span.range_to) - 1, begin=int(at.partition("@")[2] or 0))
            for end in [*(f"{span.range_to}@{number}" for number in ends[:-1]), span.range_to]:
                yield Span(partition=span.partition, range_from=at, range_to=end)
                at = end
            return
        for start, to in cut(span, (), _VERSIONS, int):
            yield Span(partition=span.partition, range_from=str(start), range_to=str(to))

    def file_name(self, resolution: Resolution, piece: Span) -> str:
        table = resolution.stream.rpartition("/")[2]
        slug = re.sub(r"[^A-Za-z0-9]+", "-", Path(self._declared.url).name).strip("-") or "table"
        versions = f"{piece.range_from}-{piece.range_to}".replace("@", ".")
        return f"{slug}-{table}/{table}-{piece.partition}-{versions}{self.kind.suffix}"

    def write(self, piece: Span, copy: Path, pace: Pace) -> Written:
        is_snapshot = piece.range_from == _BEGIN or "@" in piece.range_from
        rows = self._rows_of_group(piece) if is_snapshot else self._changes(piece, copy)
        version = int(piece.range_to.partition("@")[0]) - 1
        with self._reading(version):
            return self._write(rows, self._schema(version), copy, pace)

    def recorded(self, piece: Span) -> None:
        """Nothing is acknowledged to a table."""

    def _write(self, rows: Iterator[pa.RecordBatch], schema: pa.Schema, copy: Path, pace: Pace) -> Written:
        count, first, last = 0, None, None
        with pq.ParquetWriter(copy, schema, compression="zstd") as file:
            for batch in rows:
                file.write_batch(batch)
                count += batch.num_rows
                times = _times(batch, self._event_time)
                first = min([*times, *([] if first is None else [first])], default=None)
                last = max([*times, *([] if last is None else [last])], default=None)
                pace.took(batch.num_rows, batch.nbytes)
        return Written(records=count, first_at=first, last_at=last)

    def _rows_of_group(self, piece: Span) -> Iterator[pa.RecordBatch]:
        """The rows of a group of files of a version, as a snapshot."""
        (_, _, begin), (behind, _, end) = piece.range_from.partition("@"), piece.range_to.partition("@")
        version = int(behind) - 1
        schema = self._dataset(version).schema
        said: list[tuple[str, object, pa.DataType]] = [
            (_VERSION, version, pa.int64()),
            (_COMMITTED, None, _COMMITTED_TYPE),
        ]
        if self._operated is not None:
            said.append((self._operated.column, self._operated.snapshot, pa.string()))
        for fragment in self._fragments(version)[int(begin or 0) : int(end) if end else None]:
            for batch in fragment.to_batches(schema=schema, batch_size=_ROWS):
                added = [pa.array([value] * batch.num_rows, kind) for _, value, kind in said]
                yield pa.RecordBatch.from_arrays([*batch.columns, *added], schema=self._schema(version))

    def _changes(self, piece: Span, copy: Path) -> Iterator[pa.RecordBatch]:
        """The changes of versions: per version and key what it is afterwards, or that it is deleted.

        A key that a version deletes and writes was changed by it: that is how tables are overwritten. One that was only
        the key before an update is gone.
        """
        operated = self._operated
        assert operated is not None and operated.delete is not None
        first, last = int(piece.range_from), int(piece.range_to) - 1
        schema = self._schema(last)
        held = copy.with_name(f"{copy.name}.changes")
        try:
            with self._reading(last):
                feed = pa.RecordBatchReader.from_stream(self._at(last).load_cdf(first, last))
                with pq.ParquetWriter(held, feed.schema) as file:
                    for batch in feed:
                        file.write_batch(batch)
            with duckdb.connect(config={"threads": "1", "temp_directory": str(copy.parent)}) as connection:
                connection.execute("SET TimeZone = 'UTC'")
                statement = _changes_statement(self._dataset(last).schema.names, operated)
                found = connection.sql(statement, params={"held": str(held), **operated.values})
                for batch in found.to_arrow_reader(_ROWS):
                    yield from pa.Table.from_batches([batch]).cast(schema).to_batches()
        finally:
            held.unlink(missing_ok=True)

    # ------------------------------------------------------------------------------------------------------ the table

    def _at(self, version: int | None) -> DeltaTable:
        from deltalake import DeltaTable

        return DeltaTable(self._declared.url, version=version, storage_options=dict(self._options) or None)

    @lru_cache(maxsize=4)  # noqa: B019 - a stream lives as long as one capture
    def _dataset(self, version: int) -> pds.Dataset:
        with self._reading(version):
            return self._at(version).to_pyarrow_dataset()

    def _fragments(self, version: int) -> list[Any]:
        return sorted(self._dataset(version).get_fragments(), key=lambda each: each.path)

    def _ends_of_groups(self, version: int, *, begin: int) -> list[int]:
        """Where groups of files of a version end that have about as many rows as a chunk, in the order of paths."""
        with self._reading(version):
            actions = pa.table(self._at(version).get_add_actions())
            known = dict(zip(actions["path"].to_pylist(), actions["num_records"].to_pylist(), strict=True))
            ends, rows, fragments = [], 0, self._fragments(version)
            for number, each in enumerate(fragments[begin:], begin):
                count = known.get(each.path)
                count = each.count_rows() if count is None else count
                if rows and rows + count > self._declared.chunk:
                    ends.append(number)
                    rows = 0
                rows += count
            return [*ends, len(fragments)]

    def _schema(self, version: int) -> pa.Schema:
        """The columns of the table, and those that a capture adds."""
        added = [pa.field(_VERSION, pa.int64()), pa.field(_COMMITTED, _COMMITTED_TYPE)]
        if self._operated is not None:
            added.append(pa.field(self._operated.column, pa.string()))
        own = self._dataset(version).schema
        for each in added:
            if each.name in own.names:
                raise CannotBeCaptured(
                    name=self.name, why=f"it has a column {each.name} itself, which a capture writes"
                )
        return pa.schema([*(each.with_nullable(True) for each in own), *added])

    @contextmanager
    def _reading(self, version: int | None = None) -> Iterator[None]:
        """Turns errors of the client into ours; what it says itself may hold an access key."""
        from deltalake.exceptions import DeltaError, DeltaProtocolError, TableNotFoundError

        try:
            yield
        except TableNotFoundError:
            raise NoStream(name="Delta table", servers=self._declared.url) from None
        except DeltaProtocolError:
            raise CannotBeCaptured(
                name=self.name, why="it uses features of Delta that its reader does not have"
            ) from None
        except (DeltaError, pa.ArrowException, OSError) as error:
            said = str(error)
            if _ESCAPED in said:
                why = "the client does not open partitions whose values have characters such as a blank"
                raise ChangesUnreadable(name=self.name, why=why) from None
            if any(word in said for word in _DENIED):
                raise StreamDenied(name=self.name, why="its store refused the request") from None
            if isinstance(error, FileNotFoundError) or any(word in said for word in _GONE):
                wanted = self._declared.version if version is None else version
                raise VersionGone(name=self.name, version=wanted) from None
            raise ReadFailed(name=self.name, why=f"its client failed ({type(error).__name__})") from None


def _changes_statement(columns: Sequence[str], operated: Operated) -> str:
    def quoted(name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    own = [quoted(each) for each in columns]
    same_key = " AND ".join(f"w.{quoted(key)} IS NOT DISTINCT FROM c.{quoted(key)}" for key in operated.key)
    wrote, ended = "('insert', 'update_postimage')", "('delete', 'update_preimage')"

    def others(kinds: str) -> str:
        return (
            f"EXISTS (SELECT 1 FROM changes w WHERE w._commit_version = c._commit_version "
            f"AND w._change_type IN {kinds} AND {same_key})"
        )

    return f"""
        WITH changes AS (SELECT * FROM read_parquet($held))
        SELECT {", ".join(f"c.{each}" for each in own)},
            c._commit_version AS {_VERSION},
            c._commit_timestamp::TIMESTAMP AT TIME ZONE 'UTC' AS {_COMMITTED},
            CASE WHEN c._change_type IN {ended} THEN $delete
                WHEN NOT {others(ended)} THEN $create ELSE $update END
                AS {quoted(operated.column)}
        FROM changes c
        WHERE c._change_type IN {wrote} OR (c._change_type IN {ended} AND NOT {others(wrote)})
        ORDER BY c._commit_version, {", ".join(f"c.{each}" for each in (*map(quoted, operated.key), *own))}
    """


def _followed(captured: Sequence[Span], partition: str, at: str) -> str:
    """Where the files of a snapshot end."""
    ends = {each.range_from: each.range_to for each in captured if each.partition == partition}
    while at in ends:
        at = ends[at]
        if "@" not in at:
            break
    return at


def _times(batch: pa.RecordBatch, column: str) -> list[datetime]:
    """The earliest and the latest time of rows, where their column is one."""
    place = batch.schema.get_field_index(column)
    if place < 0 or not pa.types.is_timestamp(batch.schema.field(place).type) or not batch.schema.field(place).type.tz:
        return []
    found = pc.min_max(batch.column(place)).as_py()
    return [at.astimezone(UTC) for at in found.values() if at is not None]
