"""Delta tables of others: their files, and their changes as operations where they have a change feed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as pds
import pyarrow.parquet as pq

from backfill_assets.capture.errors import (
    CannotBeCaptured,
    ChangesUnreadable,
    NoStream,
    ReadFailed,
    StreamDenied,
    VersionGone,
)
from backfill_assets.capture.lake_table import LakeTable
from backfill_assets.capture.streams import Operated, Span
from backfill_assets.lake.tables_of_others import COMMITTED, ROWS, VERSION, Newest, TableStream

if TYPE_CHECKING:
    from deltalake import DeltaTable

_ESCAPED = "%25"
_FEED = "delta.enableChangeDataFeed"
_FEED_WAS_OFF = "Change Data not enabled"
_DENIED = (
    *("403 Forbidden", "401 Unauthorized", "AccessDenied", "InvalidAccessKeyId"),
    *("SignatureDoesNotMatch", "PermissionDenied"),
)
_GONE = ("not found", "No such file", "Invalid table version", "not the same as the specified end version", "404 Not")
"""What the client says; it also says how many milliseconds a request took, so that a bare 403 may be a time."""


class DeltaStream(TableStream):
    """A Delta table that was opened.

    Args:
        declared: The table as its source declares it.
        secret: The secret options of its store.
        event_time: The column that is the time of a record.
        operated: How the source names operations; None where its records have none.
    """

    table_format = "delta"

    def __init__(
        self, declared: LakeTable, *, secret: Mapping[str, str], event_time: str, operated: Operated | None
    ) -> None:
        super().__init__(declared.url, chunk=declared.chunk, event_time=event_time, operated=operated)
        self._declared = declared
        self._options = {**declared.options, **secret}

    def _identity(self) -> str:
        return str(self._at(self._declared.version).metadata().id)

    def _newest(self) -> Newest:
        table = self._at(self._declared.version)
        has_feed = self._has_feed(table)
        return Newest(
            version=table.version(), pinned={"change feed": "yes" if has_feed else "no"}, has_changes=has_feed
        )

    def _has_feed(self, table: DeltaTable) -> bool:
        """Whether changes can be read as operations."""
        has_deletes = self._operated is not None and self._operated.delete is not None
        if not has_deletes or (table.metadata().configuration or {}).get(_FEED) != "true":
            return False
        # The client looks for files of partition values with such characters in folders that do not exist.
        return not any(_ESCAPED in path for path in pa.table(table.get_add_actions())["path"].to_pylist())

    def _own_schema(self, version: int) -> pa.Schema:
        return self._dataset(version).schema

    def _files(self, version: int) -> Sequence[Any]:
        return sorted(self._dataset(version).get_fragments(), key=lambda each: each.path)

    def _counts(self, version: int) -> Sequence[int]:
        actions = pa.table(self._at(version).get_add_actions())
        known = dict(zip(actions["path"].to_pylist(), actions["num_records"].to_pylist(), strict=True))
        counts = ((known.get(each.path), each) for each in self._files(version))
        return [each.count_rows() if count is None else count for count, each in counts]

    def _require_readable(self, version: int, files: Sequence[Any]) -> None:  # noqa: ARG002 - as of any table
        for each in files:
            each.ensure_complete_metadata()

    def _batches(self, version: int, file: Any) -> Iterator[pa.RecordBatch]:
        yield from file.to_batches(schema=self._dataset(version).schema, batch_size=ROWS)

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
                for batch in found.to_arrow_reader(ROWS):
                    yield from pa.Table.from_batches([batch]).cast(schema).to_batches()
        finally:
            held.unlink(missing_ok=True)

    def _at(self, version: int | None) -> DeltaTable:
        from deltalake import DeltaTable

        return DeltaTable(self._declared.url, version=version, storage_options=dict(self._options) or None)

    @lru_cache(maxsize=4)  # noqa: B019 - a stream lives as long as one capture
    def _dataset(self, version: int) -> pds.Dataset:
        with self._reading(version):
            return self._at(version).to_pyarrow_dataset()

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
            if _FEED_WAS_OFF in said:
                raise ChangesUnreadable(name=self.name, why="its change feed was off in between") from None
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
            c._commit_version AS {VERSION},
            c._commit_timestamp::TIMESTAMP AT TIME ZONE 'UTC' AS {COMMITTED},
            CASE WHEN c._change_type IN {ended} THEN $delete
                WHEN NOT {others(ended)} THEN $create ELSE $update END
                AS {quoted(operated.column)}
        FROM changes c
        WHERE c._change_type IN {wrote} OR (c._change_type IN {ended} AND NOT {others(wrote)})
        ORDER BY c._commit_version, {", ".join(f"c.{each}" for each in (*map(quoted, operated.key), *own))}
    """
