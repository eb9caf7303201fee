"""Queries: the base of all that ask the ledger, inside one transaction, and the conversion between database rows and
records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import date, datetime
from functools import cache
from typing import Any, TypeVar, cast

from sqlalchemy import Column, ColumnElement, Connection, Row, Select, func, select
from sqlalchemy.sql import Executable

from backfill_assets.calendar.partitions import Grain
from backfill_assets.capture.streams import Resolved
from backfill_assets.core.errors import BackfillError, IllegalTransition
from backfill_assets.core.identity import EMPTY_FILE_SET, LogEvidence, plain, sha256_text
from backfill_assets.core.lease import Lease
from backfill_assets.core.wording import visible
from backfill_assets.ledger.errors import Damaged, Edited, NotInLedger
from backfill_assets.ledger.findings import Finding, GateResult
from backfill_assets.ledger.provenance import document_of, provenance_of
from backfill_assets.ledger.records import (
    CandidatePartition,
    ChunkRecord,
    EventRecord,
    OutboxEntry,
    PartitionChange,
    PartitionVersion,
    PartKind,
    PublicationHeader,
    PublicationRecord,
    ReplayPart,
    RunHeader,
    RunRecord,
    SetRecord,
    VerifiedPartition,
)
from backfill_assets.ledger.states import ApprovalState
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.safeguards import Policy
from backfill_assets.planning.sets import SetManifest

# Base of all ledger queries: a connection inside one transaction, and lists of any length in batches.

T = TypeVar("T")

BATCH = 2_000
"""The number of values in one IN list: far below the limits of both databases, and 5,000 days take three queries."""

PAGE = 1_000
"""The number of rows of a long history that are held at once."""


OnUnreadable = Callable[[str, BackfillError], None]
"""Called with what cannot be read and why, so that the rest can be."""


class Queries:
    """The queries of one aggregate within one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def _rows(self, statement: Executable) -> list[Row[Any]]:
        # Fetched at once: row by row, SQLAlchemy takes twice as long.
        return list(self._connection.execute(statement).all())

    def _rows_with(
        self, statement: Select[*tuple[Any, ...]], column: ColumnElement[Any], values: Iterable[Any] | None
    ) -> Iterator[Row[Any]]:
        """The rows whose column has one of these values, however many these are; all rows where None are named."""
        if values is None:
            yield from self._rows(statement)
        else:
            for batch in batches(values):
                yield from self._rows(statement.where(column.in_(batch)))

    def _ends(self, column: ColumnElement[date]) -> tuple[date, date] | None:
        """The least and the greatest value of a column; None of no rows."""
        (row,) = self._rows(select(func.min(column).label("first"), func.max(column).label("last")))
        return None if row.first is None else (row.first, row.last)

    def _named(
        self,
        statement: Select[*tuple[Any, ...]],
        key: Column[str],
        *,
        kind: str,
        name: str,
        also: Column[str] | None = None,
    ) -> Row[Any]:
        """The row of what has an id.

        Args:
            also: The ids of what a reader can mean as well, where only a part of an id was typed.

        Raises:
            NotInLedger: There is none; the error names the only one whose id begins like that, or has it elsewhere.
            Damaged: There is one, and rows that belong to it are not there any more.
        """
        row = self._row(statement.where(key == name))
        if row is None:
            if self._values(select(key).where(key == name)):
                what = f"rows of the {kind} {name} were removed from the ledger."
                raise Damaged(what=what, of={f"{kind.split()[-1]}_id": name})
            raise NotInLedger(kind=kind, name=name, near=self._meant(name, [key, *([] if also is None else [also])]))
        return row

    def _meant(self, name: str, keys: Sequence[Column[str]]) -> str:
        """The only id that begins with a text; where none does, the only one that has it elsewhere; else nothing."""
        for has in (ColumnElement.startswith, ColumnElement.contains) if name else ():
            found = [
                each
                for key in keys
                for each in self._values(select(key).where(has(key, name, autoescape=True)).limit(2))
            ]
            if found:
                return found[0] if len(found) == 1 else ""
        return ""

    def _highest(self, number: Column[int], *of: ColumnElement[bool]) -> int:
        """The highest number that was given so far; 0 before the first."""
        return int(self._values(select(func.coalesce(func.max(number), 0)).where(*of))[0])

    def _columns(self, statement: Executable) -> list[tuple[Any, ...]]:
        """Rows as plain tuples: by name, a hundred thousand of them take twice as long."""
        return cast("list[tuple[Any, ...]]", self._rows(statement))

    def _paged(self, statement: Select[*tuple[Any, ...]], key: Column[Any], *, after: object) -> Iterator[Row[Any]]:
        """Rows in the order of a unique column of theirs, a page at a time, so that a long history needs no memory.

        Pages and not an open cursor: a caller that stops reading half-way leaves nothing behind.
        """
        following = statement.order_by(key).limit(PAGE)
        page = self._rows(following.where(key > after))
        while page:
            yield from page
            page = self._rows(following.where(key > page[-1]._mapping[key])) if len(page) == PAGE else []

    def _streamed(self, statement: Select[*tuple[Any, ...]], page: int = PAGE) -> Iterator[Row[Any]]:
        """Rows in the order of a statement, a page at a time; the cursor is closed where a caller stops half-way."""
        with self._connection.execute(statement.execution_options(yield_per=page)) as found:
            yield from found

    def _row(self, statement: Executable) -> Row[Any] | None:
        return self._connection.execute(statement).first()

    def _values(self, statement: Executable) -> list[Any]:
        return list(self._connection.execute(statement).scalars())


def readable(
    found: Iterable[Row[Any]], read: Callable[[Row[Any]], T], *, name: str, unreadable: OnUnreadable | None
) -> Iterator[T]:
    """The records of rows.

    Args:
        name: The column that says what a row is of.
        unreadable: Called with rows that are refused; None to be refused as a whole.
    """
    for row in found:
        try:
            yield read(row)
        except BackfillError as error:
            if unreadable is None:
                raise
            unreadable(row._mapping[name], error)


def batches(values: Iterable[T], size: int = BATCH) -> Iterator[list[T]]:
    """The distinct values in order, cut into lists that fit into one statement."""
    chosen = list(dict.fromkeys(values))
    for start in range(0, len(chosen), size):
        yield chosen[start : start + size]


# Rows: conversion between database rows and records, field by field, with the same names except `COLUMNS`.

AnyRow = Row[Any]
Read = TypeVar("Read")

COLUMNS = {
    "table": "table_name",
    "partition": "partition_date",
    "rows": "row_count",
    "by": "asked_by",
    "expected": "expected_files",
    "new": "new_files",
    "format": "file_format",
}
"""The columns whose name differs from that of the field."""

_MOST_CHARACTERS = 200


def dates_of(texts: list[str]) -> tuple[date, ...]:
    """The dates of a stored list."""
    return tuple(date.fromisoformat(day) for day in texts)


def _resolved_spans(documents: list[dict[str, Any]]) -> tuple[Resolved, ...]:
    times = ("first_at", "expires_at")
    return tuple(
        Resolved(**{**each, **{name: datetime.fromisoformat(each[name]) for name in times if each[name]}})
        for each in documents
    )


def log_evidence(document: dict[str, Any] | None) -> LogEvidence | None:
    """The recorded evidence of a table's log."""
    return None if document is None else LogEvidence(**{**document, "commits": tuple(document["commits"])})


_READ: Mapping[str, Callable[[Any], object]] = {
    "provenance": provenance_of,
    "partitions": dates_of,
    "schema_versions": tuple,
    "ignored_columns": tuple,
    "finding": Finding,
    "spans": _resolved_spans,
    "parts": lambda found: tuple(ReplayPart(**{**each, "kind": PartKind(each["kind"])}) for each in found),
    "policy": Policy.parse,
    "grain": Grain,
    "log": log_evidence,
}
_WRITTEN: Mapping[str, Callable[[Any], object]] = {
    "provenance": document_of,
    "observed": dict,
    "grain": str,
    "spans": plain,
    "parts": plain,
    "policy": plain,
}


def read_as(kind: type[Read], **columns: str) -> Callable[..., Read]:
    """The reader of a record from a row and from what is no column of it.

    A column that was not asked for leaves its field at its default.

    Args:
        kind: The class of the record, a dataclass.
        **columns: The column of a field, where neither the name of the field nor `COLUMNS` tells it.
    """
    names = [(each.name, columns.get(each.name, COLUMNS.get(each.name, each.name))) for each in fields(kind)]  # type: ignore[arg-type]

    @cache
    def places(there: tuple[str, ...]) -> tuple[tuple[str, int, Callable[[Any], object] | None], ...]:
        # Once per statement: it would take longer than the values of a row.
        at = {column: place for place, column in enumerate(there)}
        return tuple((field, at[column], _READ.get(column)) for field, column in names if column in at)

    def read(row: AnyRow, **more: object) -> Read:
        values = tuple(row)
        found = {
            field: values[place] if convert is None else convert(values[place])
            for field, place, convert in places(row._fields)
        }
        return kind(**(found | more))

    return read


def row_of(record: object, columns: Mapping[str, str] = COLUMNS, /, **more: object) -> dict[str, object]:
    """The row of a record, with what only the row has.

    Args:
        columns: The columns whose name differs from that of the field.
    """
    values = ((each.name, getattr(record, each.name)) for each in fields(record))  # type: ignore[arg-type]
    found = {columns.get(name, name): _WRITTEN[name](value) if name in _WRITTEN else value for name, value in values}
    return found | more


chunk_record = read_as(ChunkRecord)
candidate = read_as(CandidatePartition)
gate_result = read_as(GateResult)
partition_version = read_as(PartitionVersion)
change = read_as(PartitionChange)
publication_header = read_as(PublicationHeader, sequence="begun_sequence")
_publication, _set_record = read_as(PublicationRecord), read_as(SetRecord)
_RUN = {"sequence": "added_sequence", "manifest_digest": "digest", "first": "first_partition", "last": "last_partition"}
_run_header, _run_record = read_as(RunHeader, **_RUN), read_as(RunRecord, **_RUN)
outbox_entry = read_as(OutboxEntry)
event_record = read_as(EventRecord)


def change_row(publication_id: str, made: PartitionChange) -> dict[str, object]:
    """The row of what a publication does to one partition."""
    new = made.new
    measured = {"files_digest": new.digest, "file_count": len(new.files), "size_bytes": new.size_bytes}
    return row_of(made, publication_id=publication_id, **measured)


def verified(row: AnyRow) -> VerifiedPartition:
    """A partition that was found equal; `files` are those of the version that it names."""
    return VerifiedPartition(
        partition=row.partition_date,
        version=row.version,
        files=row.files or EMPTY_FILE_SET,
        provenance=provenance_of(row.provenance),
    )


def verified_row(publication_id: str, found: VerifiedPartition) -> dict[str, object]:
    """The row of a partition that was found equal; its files are those of the version."""
    row = row_of(found, publication_id=publication_id)
    del row["files"]
    return row


def publication_record(
    row: AnyRow, changes: tuple[PartitionChange, ...], verified: tuple[VerifiedPartition, ...]
) -> PublicationRecord:
    """A swap and what became of it."""
    return _publication(row, changes=changes, verified=verified)


def lease(row: AnyRow, prefix: str = "") -> Lease | None:
    """The working process from the columns of a lease, whose names may begin with a prefix; None without one."""
    return None if row._mapping[f"{prefix}attempt"] is None else lease_of(row, prefix)


def lease_of(row: AnyRow, prefix: str = "") -> Lease:
    """The working process from the columns of a lease that is there; its mark is kept behind the name."""
    columns = {name: row._mapping[f"{prefix}{name}"] for name in ("attempt", "holder", "since_at", "until_at")}
    machine, _, mark = row._mapping[f"{prefix}machine"].partition(" ")
    return Lease(**columns, machine=machine, mark=mark)


def run_header(row: AnyRow) -> RunHeader:
    """A run without its manifest."""
    return _run_header(row, **_agreed(row))


def run_record(row: AnyRow) -> RunRecord:
    """A run, from its manifest, its state and its approval.

    Raises:
        Refused: The stored manifest is not the text that its digest was taken of.
    """
    if sha256_text(row.body) != row.digest:
        raise Edited(what=f"the manifest of run {row.run_id}", of={"run_id": row.run_id})
    manifest = _read(Manifest.parse, row.body, f"the manifest of run {row.run_id}", run_id=row.run_id)
    if manifest.request_id != row.request_id:
        # A column that says otherwise would let a run of a set be approved and published alone.
        what = f"run {row.run_id} is recorded as one of another request than its manifest says."
        raise Damaged(what=what, of={"run_id": row.run_id})
    return _run_record(row, **_agreed(row), manifest=manifest)


def _agreed(row: AnyRow) -> dict[str, Any]:
    approved = row.approval_state is ApprovalState.APPROVED and row.approved_digest == row.digest
    return {
        "approval": ApprovalState.APPROVED if approved else ApprovalState.DRAFT,
        "approved_by": row.approved_by if approved else None,
        "approved_at": row.approved_at if approved else None,
        "lease": lease(row, "lease_"),
    }


def _read(parse: Callable[[str], Read], body: str, what: str, **ids: str) -> Read:
    """A document whose text has its digest.

    Raises:
        Refused: This release cannot read it; another program wrote it.
    """
    try:
        return parse(body)
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
        why = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise IllegalTransition.coded(
            "unreadable",
            "{what} cannot be read: {why}.",
            then="use the release that wrote it; or [audit]",
            what=what,
            why=visible(why)[:_MOST_CHARACTERS],
            of=ids,
        ) from error


def set_record(row: AnyRow) -> SetRecord:
    """A restatement set.

    Raises:
        Refused: The stored document is not the text that its digest was taken of.
    """
    if sha256_text(row.body) != row.digest:
        raise Edited(what=f"the document of set {row.set_id}", of={"set_id": row.set_id})
    manifest = _read(SetManifest.parse, row.body, f"the document of set {row.set_id}", set_id=row.set_id)
    return _set_record(row, manifest=manifest)


def texts_of(partitions: tuple[date, ...]) -> list[str]:
    """Dates as they are stored in a list."""
    return [partition.isoformat() for partition in partitions]
