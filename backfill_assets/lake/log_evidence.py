"""Log evidence: what a table's log contains, digested, so that a later edit shows, and whether its statistics of files
are true.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from backfill_assets.core.grouped import grouped
from backfill_assets.core.identity import LogEvidence, document_digest, sha256_bytes
from backfill_assets.lake.swap import actions_of, log_entries
from backfill_assets.lake.tables import Lake

# Log evidence: what a table's log contains, digested, so that a later edit of it shows.
#
# An edit of the log leaves every data file as it is: a column renamed in `metaData`, statistics by which readers
# skip rows, another partition value. So the ledger records the bytes of each commit by digest, and what the log
# makes of the table. Readers may begin at a checkpoint instead of the first commit: it has to say what the
# commits before it say.

_CHECKPOINT = re.compile(r"_delta_log/([0-9]{20})\.checkpoint.*\.parquet")
_LAST = "_delta_log/_last_checkpoint"
_READ_BY_OTHERS = re.compile(
    r"_delta_log/([0-9.]+\.(compacted\.json|crc)|[0-9]+\.checkpoint\.(.*\.)?json|_sidecars/.*|_(staged_)?commits/.*)"
)
"""Files of a log that some readers take in place of commits, and that are never written here."""


def log_evidence(lake: Lake, table: str, *, after: int, version: int | None = None) -> LogEvidence:
    """The evidence of the commits behind a version, up to another one.

    Args:
        after: The last version whose commit is recorded already; -1 if none is.
        version: The last version of this evidence; the newest one by default.

    Raises:
        UnreadableTable: The log is damaged.
    """
    with lake.reading(table):
        handle = DeltaTable(lake.url(table), version=version, storage_options=lake.storage_options)
        found = list(commit_digests(lake, table, after=after, until=handle.version()))
        # Commits that another program has cleaned up are not there: the evidence begins behind them.
        begins = found[0][0] - 1 if found else handle.version()
        return LogEvidence(after=begins, commits=tuple(digest for _, digest in found), state=_state_digest(handle))


def commit_digests(lake: Lake, table: str, *, after: int = -1, until: int | None = None) -> Iterator[tuple[int, str]]:
    """The version and the sha256 of the bytes of every commit behind a version, in order."""
    files = lake.files(table)
    with lake.reading(table):
        for version, path in reversed(log_entries(lake, table)):
            if after < version and (until is None or version <= until):
                yield version, sha256_bytes(files.read(path))


def state_digest(lake: Lake, table: str) -> str:
    """The digest of what readers of the newest version are told of the table besides its files: columns, partition
    column, properties and protocol."""
    with lake.reading(table):
        return _state_digest(lake.open(table))


def _state_digest(handle: DeltaTable) -> str:
    metadata, protocol = handle.metadata(), handle.protocol()
    return document_digest(
        {
            "schema": json.loads(handle.schema().to_json()),
            "partition_columns": metadata.partition_columns,
            "configuration": metadata.configuration,
            "names": [str(metadata.id), metadata.name, metadata.description],
            "versions": [protocol.min_reader_version, protocol.min_writer_version],
            "features": [sorted(protocol.reader_features or ()), sorted(protocol.writer_features or ())],
        }
    )


def live_row_counts(lake: Lake, table: str) -> Mapping[str, int | None]:
    """The row count of each live file according to the log; None where it has none, or other statistics beside it.

    Publications write the number of rows and no statistics of columns: statistics that are there mislead readers.
    """
    with lake.reading(table):
        actions = lake.open(table).get_add_actions(flatten=True)
        names = actions.schema.names
        rows = actions.column("num_records").to_pylist() if "num_records" in names else [None] * actions.num_rows
        others = [actions.column(name).to_pylist() for name in names if re.match(r"(min|max|null_count)\.", name)]
        misleading = [any(value is not None for value in values) for values in zip(*others, strict=True)]
        paths = actions.column("path").to_pylist()
    misleading = misleading or [False] * len(paths)
    return {
        unquote(path): None if is_misleading else count
        for path, count, is_misleading in zip(paths, rows, misleading, strict=True)
    }


def log_problems(lake: Lake, table: str) -> Iterator[tuple[str, str]]:
    """Files of a log that could tell readers something else than its commits, with a sentence about each.

    Cost: nothing in a log without checkpoints; otherwise one pass over all commits.
    """
    with lake.reading(table):
        paths = [each.path for each in lake.files(table).listed("_delta_log")]
        strange = filter(_READ_BY_OTHERS.fullmatch, paths)
        yield from ((path, f"{path} is in the log, and was not written by a publication") for path in strange)
        checkpoints = grouped((int(found[1]), path) for path in paths if (found := _CHECKPOINT.fullmatch(path)))
        if _LAST in paths and (named := _named_last(lake, table)) not in checkpoints:
            yield _LAST, f"{_LAST} names the checkpoint of version {named}, and there is none"
        if not checkpoints:
            return
        replayed, entries = _Replayed(), list(reversed(log_entries(lake, table)))
        # Programs of others clean commits up that are before a checkpoint.
        for version in sorted(each for each in checkpoints if not entries or each > entries[-1][0]):
            path = checkpoints[version][0]
            yield path, f"{path} is in the log, and there is no commit of version {version}"
        begins = entries[0][0] if entries else 0
        first = min((each for each in checkpoints if begins > 0 and each >= begins - 1), default=None)
        if first is not None:
            # Commits before it were cleaned up: it is what the log begins with, and is compared with nothing.
            replayed = _checkpointed(lake, table, checkpoints[first])
        for version, path in entries:
            if first is not None and version <= first:
                continue
            for action in actions_of(lake, table, path):
                replayed.take(action)
            if version in checkpoints and _checkpointed(lake, table, checkpoints[version]) != replayed:
                said = f"the checkpoint of version {version} does not say what the commits up to it say"
                yield checkpoints[version][0], said


def not_needed(lake: Lake, table: str, *, last: int) -> tuple[str, ...]:
    """Files of a log that a table has to be opened without: commit files behind the last recorded commit that follow
    from none before them or are no commits, checkpoints, and the mark of the last one. None where a commit up to the
    recorded one is gone or cannot be read.

    Args:
        last: The last version whose commit the ledger has recorded; -1 if none is.
    """
    files = lake.files(table)
    commits = dict(log_entries(lake, table))
    sound = {version for version, path in commits.items() if _is_commit(lake, table, path)}
    if not sound or not sound.issuperset(range(max(last, 0) + 1)):
        return ()
    end = next(version for version in range(max(sound) + 2) if version not in sound)
    stray = [path for version, path in sorted(commits.items()) if version >= end]
    listed = [each.path for each in files.listed("_delta_log")]
    # Every reader that cannot use one of them fails in its own way; none needs them.
    return (*stray, *(path for path in listed if path == _LAST or _CHECKPOINT.fullmatch(path)))


def _is_commit(lake: Lake, table: str, path: str) -> bool:
    try:
        actions = list(actions_of(lake, table, path))
    except (ValueError, OSError):
        return False
    return bool(actions) and all(isinstance(action, dict) for action in actions)


def _named_last(lake: Lake, table: str) -> object:
    """The version of the checkpoint at which readers are told to begin; what else is there, if it is no version."""
    content = lake.files(table).read(_LAST)
    try:
        return json.loads(content)["version"]
    except (ValueError, LookupError, TypeError):
        return "?"


@dataclass(slots=True)
class _Replayed:
    """The state of a table after replaying commits, or a checkpoint in place of them."""

    files: dict[str, object] = field(default_factory=dict)
    transactions: dict[str, int] = field(default_factory=dict)
    table: object = None
    protocol: object = None

    def take(self, action: Mapping[str, Any]) -> None:
        match action:
            case {"add": dict(add)}:
                self.files[unquote(add["path"])] = [
                    add["size"],
                    sorted(dict(add["partitionValues"]).items()),
                    json.loads(add["stats"]) if add.get("stats") else None,
                    add.get("deletionVector"),
                ]
            case {"remove": dict(remove)}:
                self.files.pop(unquote(remove["path"]), None)
            case {"txn": dict(txn)}:
                self.transactions[txn["appId"]] = txn["version"]
            case {"metaData": dict(found)}:
                configuration = sorted(dict(found.get("configuration") or {}).items())
                self.table = [found["id"], json.loads(found["schemaString"]), found["partitionColumns"], configuration]
            case {"protocol": dict(found)}:
                features = [sorted(found.get(name) or ()) for name in ("readerFeatures", "writerFeatures")]
                self.protocol = [found["minReaderVersion"], found["minWriterVersion"], *features]
            case _:
                pass


def _checkpointed(lake: Lake, table: str, paths: list[str] | tuple[str, ...]) -> _Replayed:
    found = _Replayed()
    for path in paths:
        with lake.files(table).open(path) as opened, pq.ParquetFile(opened) as parquet:
            held = [name for name in _ACTIONS if name in parquet.schema_arrow.names]
            for batch in parquet.iter_batches(columns=held):
                for row in batch.to_pylist():
                    # A removed file is only listed for the writers that clean up.
                    found.take({name: row[name] for name in held if row[name] is not None})
    return found


_ACTIONS = ("add", "txn", "metaData", "protocol")


# Statistics in logs: whether what a log says of the rows of each file is true, since readers skip files by it.

_SHORTENED = timedelta(milliseconds=1)
"""Times in logs have milliseconds, which readers know."""


def misleading_statistics(lake: Lake, table: str) -> Iterator[str]:
    """The files of a table of which its log says what is not true of their rows; readers would skip some.

    Cost: one pass over the table, a file at a time.
    """
    with lake.reading(table):
        actions = pa.table(lake.open(table).get_add_actions(flatten=True))
        for told in actions.to_pylist():
            path = unquote(told["path"])
            with lake.files(table).open(path) as opened, pq.ParquetFile(opened) as parquet:
                if not _is_true(told, parquet.read()):
                    yield path


def _is_true(told: Mapping[str, Any], rows: pa.Table) -> bool:
    if told.get("num_records") not in (None, rows.num_rows):
        return False
    return all(_is_true_of(told, name, rows.column(name)) for name in rows.column_names)


def _is_true_of(told: Mapping[str, Any], name: str, values: pa.ChunkedArray) -> bool:
    """True if the bounds of a column hold; long texts have shortened ones, on the safe side."""
    if told.get(f"null_count.{name}") not in (None, values.null_count):
        return False
    least, most = told.get(f"min.{name}"), told.get(f"max.{name}")
    if least is None and most is None:
        return True
    if pa.types.is_floating(values.type):
        values = values.filter(pc.invert(pc.is_nan(values)))
    found = pc.min_max(values).as_py()
    if found["min"] is None:
        return False
    if most is not None and pa.types.is_timestamp(values.type):
        most += _SHORTENED
    return (least is None or least <= found["min"]) and (most is None or found["max"] <= most)
