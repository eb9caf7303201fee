"""Swap: exchanges the files of a table's partitions atomically.

Compare and commit on one handle, with no retries inside the library: if another writer committed in between, the commit
fails, and the comparison is repeated. The publication's id is an application transaction of the commit, so that the
table's log shows whether it landed, even if this process stops.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

from backfill_assets.core.errors import BackfillError, MissingInput, OutcomeUnknown
from backfill_assets.core.identity import EMPTY_FILE_SET, DataFile, FileSet, digest_of_paths
from backfill_assets.core.progress import waiting
from backfill_assets.lake import errors
from backfill_assets.lake.tables import (
    Lake,
    cannot_follow,
    changed_files,
    in_one_line,
    live_files,
    missing_files,
    schema_after,
    schema_of,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

MOST_ATTEMPTS = 8
LANDED = 1
"""The application transaction's version of a publication that landed."""
GIVEN_UP = 2
"""The version that `fence` writes: a process that still holds the intent cannot commit it any more."""
_FIRST_WAIT_S = 0.05
_LOG_ENTRY = re.compile(r"_delta_log/([0-9]+)\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One partition's part in a swap."""

    value: str  #: The partition value as text, such as `2006-07-01`.
    expected: FileSet = EMPTY_FILE_SET  #: The files the table must hold for it now.
    new: FileSet = EMPTY_FILE_SET


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchanged:
    """The files that a commit added and removed, by path."""

    added: frozenset[str]
    removed: frozenset[str]
    #: The kinds of its other actions, such as `metaData`, without what every commit has.
    others: frozenset[str] = field(default=frozenset(), compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapOrder:
    """The order for a swap."""

    table: str
    partition_column: str
    publication_id: str  #: Kept in the commit, as metadata and as the application transaction.
    run_id: str  #: Kept in the commit's metadata.
    exchanges: tuple[Exchange, ...]
    committed_at_ms: int  #: Milliseconds since 1970, for the actions' timestamps.
    #: The columns of the new files, which the table's schema follows in the same commit; None if it has them.
    schema: StructType | None = None
    #: The columns of earlier contracts, which new files may lack; None where columns have no versions.
    former: frozenset[str] | None = None
    #: The new files are those of earlier versions, which may have been published with other columns.
    puts_back: bool = False
    #: The columns of the new files do not follow from those of the table, and all its files are exchanged: it has these
    #: columns alone then.
    replaces_columns: bool = False


def swap(lake: Lake, order: SwapOrder, *, wait: Callable[[float], None] = time.sleep) -> int:
    """Replaces the expected files of every declared partition by the new ones, in one commit.

    Calling it again with the same publication id after it landed changes nothing and returns the same version.

    Returns:
        The table version that holds the new files.

    Raises:
        MissingInput: A new file was removed or truncated since it was staged.
        TargetChanged: A declared partition does not hold exactly the expected files.
        LostRace: Other writers committed first in every attempt.
        OutcomeUnknown: The commit failed in a way that does not show whether it landed.
    """
    _require_files(lake, order)
    is_unsure = False
    for attempt in range(MOST_ATTEMPTS):
        try:
            handle = lake.open(order.table)
            match handle.transaction_version(order.publication_id):
                case int(state) if state == LANDED:
                    return _landed(lake, order)
                case int():
                    raise errors.Abandoned(table=order.table, publication_id=order.publication_id, run_id=order.run_id)
            with lake.reading(order.table):
                _compare(handle, order)
                of_files = _with_columns_of_files(lake, handle, order)
        except (errors.ChangedByAnotherWriter, errors.Abandoned):
            raise  # what an earlier attempt may have sent finds its place taken
        except BackfillError as error:
            if is_unsure:
                raise _unknown(order, error) from error
            raise
        try:
            _commit(handle, of_files)
        except CommitFailedError:
            if _has_landed(lake, order):
                return _landed(lake, order)
            with waiting(lambda: f"waiting for other writers of {order.table}"):
                wait(_FIRST_WAIT_S * 2**attempt * (0.5 + random.random()))  # noqa: S311 - jitter, not a secret
        except Exception as error:
            # A store may have taken a commit whose answer was lost, or take it yet. It would take the place of the next
            # attempt, as another writer's: at most one of them lands.
            if isinstance(lake.root, Path) or attempt == MOST_ATTEMPTS - 1:
                raise _unknown(order, error) from error
            if _has_landed(lake, order):
                return _landed(lake, order)
            is_unsure = True
            with waiting(lambda: f"waiting for the store of {order.table}, whose answer was lost"):
                wait(_FIRST_WAIT_S * 2**attempt)
        else:
            return _landed(lake, order)
    raise errors.OthersCommittedFirst(
        table=order.table, publication_id=order.publication_id, attempts=MOST_ATTEMPTS, is_recovery=False
    )


def set_files(lake: Lake, handle: DeltaTable, order: SwapOrder) -> bool:
    """Commits an order once, on the handle that was looked at, whether its new files are there or not.

    Returns:
        False when another writer committed first: then nothing has changed, and the table is looked at again.

    Raises:
        OutcomeUnknown: The commit failed in a way that does not show whether it landed.
    """
    there = [each for each in order.exchanges if each.new.files and not missing_files(lake, order.table, [each.new])]
    # Columns follow from files, so from one that can be read.
    of_files = _with_columns_of_files(lake, handle, replace(order, exchanges=tuple(there)))
    try:
        _commit(handle, replace(of_files, exchanges=order.exchanges))
    except CommitFailedError:
        return _has_landed(lake, order)
    except Exception as error:
        raise _unknown(order, error) from error
    return True


def _has_landed(lake: Lake, order: SwapOrder) -> bool:
    """True if a commit that reported failure landed nevertheless; if the log cannot be read, the outcome is unknown."""
    try:
        return is_landed(lake, order.table, order.publication_id)
    except BackfillError as error:
        raise _unknown(order, error) from error


def _landed(lake: Lake, order: SwapOrder) -> int:
    """The version of an order that has landed. If the log cannot be read now, the outcome is unknown, not refused."""
    try:
        return landed_version(lake, order.table, order.publication_id)
    except BackfillError as error:
        raise _unknown(order, error) from error


def require_as_expected(lake: Lake, order: SwapOrder) -> int:
    """Compares a table with what an order expects, and changes nothing.

    Returns:
        The table version that was compared.
    """
    _require_files(lake, order)
    handle = lake.open(order.table)
    with lake.reading(order.table):
        _compare(handle, order)
        return handle.version()


def is_landed(lake: Lake, table: str, publication_id: str) -> bool:
    """True if the table's log contains this publication, that is, whether it landed."""
    with lake.reading(table):
        return lake.open(table).transaction_version(publication_id) == LANDED


def fence(lake: Lake, table: str, publication_id: str, *, wait: Callable[[float], None] = time.sleep) -> int | None:
    """Decides permanently whether a publication lands.

    If it has not landed, an empty commit with its application transaction ensures that it never will: a process that
    was slow and had not stopped fails its compare-and-swap, and then finds that the publication was abandoned.

    Returns:
        The table version that contains it; None if it did not land and cannot land any more.

    Raises:
        LostRace: Other writers committed first in every attempt.
        OutcomeUnknown: The commit failed in a way that does not show whether it landed.
    """
    for attempt in range(MOST_ATTEMPTS):
        handle = lake.open(table)
        with lake.reading(table):
            state = handle.transaction_version(publication_id)
        if state is not None:
            return landed_version(lake, table, publication_id) if state == LANDED else None
        try:
            handle.create_write_transaction(
                [],
                mode="append",
                schema=handle.schema(),
                partition_by=handle.metadata().partition_columns,
                commit_properties=CommitProperties(
                    custom_metadata={"gave_up": publication_id},
                    max_commit_retries=0,
                    app_transactions=[Transaction(publication_id, GIVEN_UP)],
                ),
            )
        except CommitFailedError:
            with waiting(lambda: f"waiting for other writers of {table}"):
                wait(_FIRST_WAIT_S * 2**attempt)
        except Exception as error:
            raise OutcomeUnknown.coded(
                "not_fenced_off",
                "publication {publication_id} could not be fenced off in the log of {table}: {why}.",
                then="make the table writable again, then [recover]",
                table=table,
                publication_id=publication_id,
                why=in_one_line(error),
            ) from error
        else:
            return None
    raise errors.OthersCommittedFirst(
        table=table, publication_id=publication_id, attempts=MOST_ATTEMPTS, is_recovery=True
    )


def landed_version(lake: Lake, table: str, publication_id: str) -> int:
    """The table version whose commit contains this publication.

    Raises:
        BackfillError: No commit in the log contains it.
    """
    for version, commit in commits(lake, table):
        if commit.get("publication_id") == publication_id:
            return version
    raise errors.NoCommitOfPublication(table=table, publication_id=publication_id)


def commits(lake: Lake, table: str) -> Iterable[tuple[int, Mapping[str, object]]]:
    """Every commit in the table's log, newest first: its version and its metadata."""
    with lake.reading(table):
        for version, path in log_entries(lake, table):
            yield version, next((a["commitInfo"] for a in actions_of(lake, table, path) if "commitInfo" in a), {})


def exchanged(lake: Lake, table: str) -> Iterable[tuple[int, Mapping[str, object], Exchanged]]:
    """Every commit, newest first: its version, its metadata, and which files it exchanged."""
    with lake.reading(table):
        for version, path in log_entries(lake, table):
            yield version, *_exchanged_by(actions_of(lake, table, path))


def _exchanged_by(actions: Iterable[Mapping[str, Any]]) -> tuple[Mapping[str, object], Exchanged]:
    metadata: Mapping[str, object] = {}
    added: set[str] = set()
    removed: set[str] = set()
    others: set[str] = set()
    for action in actions:
        match action:
            case {"commitInfo": info}:
                metadata = info
            case {"add": add}:
                added.add(unquote(add["path"]))
            case {"remove": remove}:
                removed.add(unquote(remove["path"]))
            case _:
                others |= action.keys() - {"txn"}
    return metadata, Exchanged(added=frozenset(added), removed=frozenset(removed), others=frozenset(others))


def log_entries(lake: Lake, table: str) -> Sequence[tuple[int, str]]:
    """The commits in a table's log, newest first: the version of each, and its file."""
    listed = ((_LOG_ENTRY.fullmatch(each.path), each.path) for each in lake.files(table).listed("_delta_log"))
    return sorted(((int(found[1]), path) for found, path in listed if found), reverse=True)


def actions_of(lake: Lake, table: str, path: str) -> Iterator[Mapping[str, Any]]:
    """The actions of the commit in a file of the log."""
    for line in lake.files(table).read(path).splitlines():
        yield json.loads(line)


def _require_files(lake: Lake, order: SwapOrder) -> None:
    moved = [exchange.new for exchange in order.exchanges if exchange.new != exchange.expected]
    problems = missing_files(lake, order.table, (exchange.new for exchange in order.exchanges))
    if problems := problems or changed_files(lake, order.table, moved, trust_stamps=True):
        raise MissingInput.coded(
            "staged_files_changed",
            "the staged files of {table} are not as they were gated: {why}.",
            then="[run {run_id}]",
            table=order.table,
            run_id=order.run_id,
            why=problems[0],
        )


def _compare(handle: DeltaTable, order: SwapOrder) -> None:
    present = live_files(handle, order.partition_column)
    changed = [
        exchange.value
        for exchange in order.exchanges
        if digest_of_paths(present.get(exchange.value, ())) != exchange.expected.digest
    ]
    if changed:
        first = next(exchange for exchange in order.exchanges if exchange.value == changed[0])
        raise errors.ChangedByAnotherWriter(
            table=order.table,
            run_id=order.run_id,
            partitions=tuple(changed),
            declared=len(order.exchanges),
            expected=len(first.expected.files),
            found=len(present.get(first.value, ())),
        )


def _with_columns_of_files(lake: Lake, handle: DeltaTable, order: SwapOrder) -> SwapOrder:
    """The order without a change of the table's columns that the new files do not have: a rollback, an expiry, and what
    was staged before a declaration changed bring nothing that no gate has measured.

    Raises:
        OtherColumns: The new files have other columns than files of the table that stay.
    """
    moved = [each for each in order.exchanges if each.new.files and each.new.paths != each.expected.paths]
    if order.schema is None:
        return order
    if not moved:
        return replace(order, schema=None)
    present = schema_of(handle)
    follows = cannot_follow(present, order.schema, former=order.former) is None
    if follows and not order.puts_back and schema_after(handle, order.schema) is None:
        return order
    # Imported where a publication changes columns, or is undone: others read no file.
    from backfill_assets.lake.staging import columns_declared, footer_columns, schema_of_columns

    (found,) = footer_columns(lake, order.table, [FileSet.of(moved[0].new.files[:1])])
    is_declared = found == columns_declared(order.schema, order.partition_column)
    if is_declared and follows:
        return order
    columns = order.schema if is_declared else schema_of_columns(found, present[order.partition_column])
    differing = cannot_follow(columns.toNullable(), present.toNullable(), former=None)
    stays = _has_others(handle, order)
    if not found or (differing is None and (stays or not is_declared)):
        return replace(order, schema=None)
    if differing is not None and stays:
        raise errors.OtherColumns(table=order.table, differing=differing)
    return replace(order, schema=columns, replaces_columns=True)


def _has_others(handle: DeltaTable, order: SwapOrder) -> bool:
    """True if files of the table stay beside those that an order brings."""
    brought = {each.value: set(each.new.paths) for each in order.exchanges}
    live = live_files(handle, order.partition_column)
    return any(value not in brought or brought[value].intersection(path for path, _ in live[value]) for value in live)


def _commit(handle: DeltaTable, order: SwapOrder) -> None:
    column = order.partition_column
    moved = [exchange for exchange in order.exchanges if exchange.new != exchange.expected]
    after = _schema_after(handle, order, moved)
    removes: list[AddAction | RemoveAction] = []
    adds: list[AddAction | RemoveAction] = []
    for exchange in moved:
        kept = set(exchange.expected.paths) & set(exchange.new.paths)
        for file in exchange.expected.files:
            if file.path not in kept:
                removes.append(_remove(file, column, exchange.value, order.committed_at_ms))
        for file in exchange.new.files:
            if file.path not in kept:
                adds.append(_add(file, column, exchange.value, order.committed_at_ms))
    # Only an overwrite changes the schema in the same commit. It removes what the partitions hold, which are the
    # expected files: they were compared on this handle, and the commit fails if another one came first.
    handle.create_write_transaction(
        [*removes, *adds] if after is None else adds,
        mode="append" if after is None else "overwrite",
        partition_filters=None if after is None else [(column, "in", [exchange.value for exchange in moved])],
        schema=after or handle.schema(),
        partition_by=[column],
        commit_properties=CommitProperties(
            custom_metadata={
                "publication_id": order.publication_id,
                "run_id": order.run_id,
                "partitions": len(moved),
            },
            max_commit_retries=0,
            app_transactions=[Transaction(order.publication_id, LANDED)],
        ),
    )


def _schema_after(handle: DeltaTable, order: SwapOrder, moved: Sequence[Exchange]) -> Schema | None:
    """The schema that this commit gives to the table; None when it stays as it is."""
    if order.replaces_columns and order.schema is not None:
        return Schema.from_json(order.schema.json())
    stays = any(set(exchange.expected.paths) & set(exchange.new.paths) for exchange in moved)
    return schema_after(handle, order.schema) if order.schema is not None and moved and not stays else None


def _add(file: DataFile, column: str, value: str, at_ms: int) -> AddAction:
    return AddAction(
        path=file.path,
        size=file.size_bytes,
        partition_values={column: value},
        modification_time=at_ms,
        data_change=True,
        # No column statistics: a log is never rewritten, and the minimum of a key is the key of a row (ADR 17).
        stats=json.dumps({"numRecords": file.rows}),
    )


def _remove(file: DataFile, column: str, value: str, at_ms: int) -> RemoveAction:
    return RemoveAction(
        file.path, data_change=True, deletion_timestamp=at_ms, size=file.size_bytes, partition_values={column: value}
    )


def _unknown(order: SwapOrder, error: Exception) -> OutcomeUnknown:
    return OutcomeUnknown.coded(
        "commit_unknown",
        "the commit to {table} failed in a way that does not show whether it landed: {why}.",
        then="when the table can be reached, give the same command again, which finds it out; or: [recover]",
        table=order.table,
        publication_id=order.publication_id,
        why=in_one_line(error),
    )
