"""Statements: what a person, or a complete extract, says about records that landed before.

A withdrawal takes keys back, a restoration undoes a withdrawal, and a complete extract says that its files are all that
exists for some days. Each is an import like a landed file: a small document in the archive, conformed records (one per
key) and a place in the order of arrival, so that bronze is built, reproduced and undone in the same way as from files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, TimestampType

from backfill_assets.capture.landed_files import STATEMENT, LandedFile
from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import Refused, UnknownName
from backfill_assets.core.identity import canonical_json
from backfill_assets.domain import Operation, SourceTable
from backfill_assets.domain.operations import OPERATION
from backfill_assets.landing.attempt import Landed, Landing, landed_now
from backfill_assets.landing.conformed import (
    ARRIVAL,
    CONTENT_HASH,
    IMPORT_ID,
    RESTORES,
    conformed_schema,
    earlier_versions,
)
from backfill_assets.landing.days import pending_days
from backfill_assets.landing.errors import NotCurrent, Values
from backfill_assets.landing.formats import ROW
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.landing.key_versions import DECIDES, KeyState, key_state, open_rejected, resolve_versions
from backfill_assets.landing.reading import FIRST, SECOND, Reading
from backfill_assets.landing.times import is_shown_twice
from backfill_assets.landing.values import typed
from backfill_assets.ledger.imports import ImportRecord
from backfill_assets.ledger.states import COUNTING
from backfill_assets.ledger.transactions import WriteTransaction

_QUOTED = 100
"""So many characters of a value are repeated in a refusal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A statement before it is taken in."""

    title: str  #: What it is, as lists of imports show it.
    document: Mapping[str, object]  #: What it says, without who and why: equal statements have equal documents.
    reason: str

    def kept(self, work: Landing) -> LandedFile:
        content = canonical_json({**self.document, "source": work.source.name}).encode("utf-8")
        sha256 = hashlib.sha256(content).hexdigest()
        with work.place.scratch() as copy:
            copy.write_bytes(content)
            stored_path = work.place.keep(copy, f"{sha256[:2]}/{sha256}.json")
        return LandedFile(
            source=work.source.name,
            family=STATEMENT,
            range_from="0",
            range_to=str(len(content)),
            sha256=sha256,
            original_path=self.title,
            stored_path=stored_path,
            size_bytes=len(content),
            format=STATEMENT,
            compression="",
        )


def withdraw(work: Landing, key: Mapping[str, str], *, reason: str) -> Landed:
    """Takes one key back: whatever landed of it before counts no more, until it is restored or lands again."""
    require_key(work.source, key, complete=True)
    wanted = columns_condition(work, key)
    with work.turn():
        _require_current(work, key, wanted)
        statement = Statement(title="withdrawal", document={"statement": "withdrawal", "key": dict(key)}, reason=reason)
        how = _by_hand(work.source)
        values = [
            typed(F.lit(key[name]), StringType(), work.source.schema[name].dataType, how).alias(name)
            for name in work.source.key
        ]
        return _state(work, statement, work.spark.range(1).select(*values), Operation.WITHDRAW)


def restore(work: Landing, import_id: str, key: Mapping[str, str], *, reason: str) -> Landed:
    """Undoes a withdrawal or that of a complete extract, of all its keys or of those with some values.

    Raises:
        Refused: It is no statement of this source, or withdrew nothing that is not restored already.
    """
    require_key(work.source, key, complete=False)
    with work.turn():
        with work.ledger.read() as tx:
            record = tx.imports.get(import_id)
            statements = [each for each in tx.imports.records(work.source.name, COUNTING) if each.format == STATEMENT]
        if record not in statements:
            raise Refused.coded(
                "not_a_withdrawal",
                "{import_id} ({path}) is not a withdrawal of {table}.",
                then="[status]",
                import_id=import_id,
                path=record.original_path,
                table=work.source.name,
            )
        chosen = columns_condition(work, key)
        keys = work.records.valid(statements)
        restored = keys.where(F.col(RESTORES) == import_id).select(*work.source.key)
        is_of_it = (F.col(IMPORT_ID) == import_id) & (F.col(OPERATION) == Operation.WITHDRAW)
        left = keys.where(is_of_it & chosen).select(*work.source.key)
        left = left.join(restored, on=list(work.source.key), how="left_anti")
        if not left.limit(1).count():
            raise Refused.coded(
                "nothing_to_restore",
                "{import_id} withdrew no such key of {table} that is not restored already.",
                then="[status]",
                import_id=import_id,
                table=work.source.name,
            )
        document = {"statement": "restoration", "restores": import_id, "key": dict(key)}
        statement = Statement(title=f"restoration of {import_id}", document=document, reason=reason)
        return _state(work, statement, left, Operation.RESTORE, restores=import_id)


def statement_rows(
    source: SourceTable,
    keys: DataFrame,
    operation: Operation,
    *,
    import_id: str,
    arrival: int,
    restores: str | None = None,
) -> DataFrame:
    """The conformed records of a statement: one per key."""
    own: dict[str, Column] = {
        IMPORT_ID: F.lit(import_id),
        ARRIVAL: F.lit(arrival),
        ROW: F.monotonically_increasing_id() + 1,
        CONTENT_HASH: F.lit(0),
        OPERATION: F.lit(str(operation)),
        RESTORES: F.lit(restores),
        **{name: F.col(name) for name in source.key},
    }
    columns = [
        own.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name)
        for field in conformed_schema(source).fields
    ]
    return keys.select(*columns)


def write_statement(
    work: Landing, record: ImportRecord, keys: DataFrame, operation: Operation, *, restores: str | None = None
) -> None:
    """Writes the conformed records of a statement."""
    by, at = record.import_id, record.arrival
    rows = statement_rows(work.source, keys, operation, import_id=by, arrival=at, restores=restores)
    rows.write.mode("overwrite").parquet(work.records.folder(record.import_id))
    work.reached(Point.LAND_STATED)


def record_statement(
    tx: WriteTransaction, record: ImportRecord, statement: Statement, keys: int, *, by: str, **more: object
) -> None:
    """The event of a statement: what was stated, why, and about how many keys. Their values can be erased, so that they
    are in the archived document, of which the event has the digest."""
    kind = str(statement.document["statement"])
    tx.events.record(
        actor=by,
        entity="import",
        entity_id=record.import_id,
        action="keys_restored" if kind == "restoration" else "keys_withdrawn",
        payload={"statement": kind, "sha256": record.sha256, "reason": statement.reason, "keys": keys, **more},
    )


def _state(
    work: Landing, statement: Statement, keys: DataFrame, operation: Operation, *, restores: str | None = None
) -> Landed:
    kept = statement.kept(work)
    work.reached(Point.LAND_ARCHIVED)
    (record,) = work.begun([kept], OnDuplicate.CORRECT)
    work.reached(Point.LAND_BEGUN)
    with work.attempting([record]):
        write_statement(work, record, keys, operation, restores=restores)
        found = work.account([record])
        counts = found.files[record.import_id].counts
        with work.ledger.write() as tx:
            work.finish(tx, [record], found, note=statement.reason)
            record_statement(tx, record, statement, counts.landed, by=work.by)
            record = tx.imports.get(record.import_id)
    work.reached(Point.LAND_FINISHED)
    return landed_now(record, found)


def require_key(source: SourceTable, key: Mapping[str, str], *, complete: bool) -> None:
    """Refuses columns that are not of the key of a source or, when all are needed, a key that lacks one."""
    if strange := [name for name in key if name not in source.key]:
        raise Refused.coded(
            "not_of_key",
            "{column} is not of the key of {table}, which is {key}.",
            then="name a column of the key: [key={first}=VALUE]",
            table=source.name,
            key=source.key,
            column=strange[0][:_QUOTED],
            first=source.key[0],
        )
    if complete and (missing := [name for name in source.key if name not in key]):
        raise Refused.coded(
            "key_incomplete",
            "the key of {table} is {key}, and no value of {missing} is given.",
            then="add [key={missing}=VALUE]",
            table=source.name,
            key=source.key,
            missing=missing[0],
        )


def require_columns(source: SourceTable, values: Mapping[str, str]) -> None:
    """Refuses columns that a source does not have."""
    if strange := [name for name in values if name not in source.schema.fieldNames()]:
        columns = tuple(source.schema.fieldNames())
        raise UnknownName.coded(
            "unknown_column",
            "{table} has no column {column!r}; its columns are {columns}.",
            then="name one of these: [where={first}=VALUE]",
            table=source.name,
            column=strange[0][:_QUOTED],
            columns=columns,
            first=source.key[0],
        )


def _by_hand(source: SourceTable) -> Reading:
    """The reading of values that a person types."""
    is_second = source.repeated_hour == SECOND
    return Reading(timezone=source.timezone, repeated=SECOND if is_second else FIRST)


def columns_condition(work: Landing, values: Mapping[str, str]) -> Column:
    """True for rows with these values, given as text, of columns that the contract has.

    Raises:
        Refused: A value is not of the type of its column.
    """
    schema, table = work.source.schema, work.source.name
    session = work.spark  # without one there are no expressions
    if not values:
        return F.lit(True)
    how = _by_hand(work.source)
    given = {name: typed(F.lit(text), StringType(), schema[name].dataType, how) for name, text in values.items()}
    found = session.range(1).select(*(value.isNotNull().alias(name) for name, value in given.items())).collect()[0]
    if wrong := [name for name in values if not found[name]]:
        column, value = wrong[0], values[wrong[0]][:_QUOTED]
        raise Refused.coded(
            "wrong_value",
            "{value!r} is not a value of {column} of {table}, which has the type {type_}.",
            then="give a {type_}, written as in the files of {table}",
            table=table,
            column=column,
            value=value,
            type_=schema[column].dataType.simpleString(),
        )
    zone = how.timezone
    if zone and work.source.repeated_hour not in (FIRST, SECOND):
        times = [name for name in values if isinstance(schema[name].dataType, TimestampType)]
        twice = [is_shown_twice(F.lit(values[name]), StringType(), how).alias(name) for name in times]
        asked = session.range(1).select(F.lit(None).alias("_none"), *twice).collect()[0]
        if unclear := [name for name in times if asked[name]]:
            raise Refused.coded(
                "shown_twice",
                "{value!r} is a time of {column} of {table} that clocks in {timezone} show twice.",
                then="write {column} with its offset, such as +01:00",
                table=table,
                column=unclear[0],
                value=values[unclear[0]][:_QUOTED],
                timezone=zone,
            )
    return reduce(lambda left, right: left & right, (F.col(name) == value for name, value in given.items()))


def _require_current(work: Landing, key: Mapping[str, str], wanted: Column) -> None:
    imports = work.others([])
    is_truncate = F.coalesce(F.col(OPERATION) == Operation.TRUNCATE, F.lit(False))
    versions = earlier_versions(work.records, imports).where(wanted | is_truncate)
    if not versions.where(wanted).limit(1).count():
        # Cheaper than to put versions in order, and what most refusals are about: a key that was mistyped.
        raise _not_current(work, key, None, None)
    found = (
        resolve_versions(versions, work.source, imports)
        .where(F.col(DECIDES))
        .select(key_state().alias("state"), IMPORT_ID)
        .first()
    )
    if found is not None and found["state"] == KeyState.CURRENT:
        return
    if open_rejected(versions, work.source, imports).limit(1).count():
        return  # as if it had been read: otherwise it would come back when it is
    is_withdrawn = found is not None and found["state"] == KeyState.WITHDRAWN
    with work.ledger.read() as tx:  # a process that withdrew it may have stopped before it had built the days
        unbuilt = pending_days(tx, work.source).days if is_withdrawn else ()
    state = None if found is None else found["state"]
    raise _not_current(work, key, state, found[IMPORT_ID] if found is not None and is_withdrawn else None, unbuilt)


def _not_current(
    work: Landing,
    key: Mapping[str, str],
    state: str | None,
    withdrawn_by: str | None,
    unbuilt: tuple[date, ...] = (),
) -> NotCurrent:
    values = Values({name: value[:_QUOTED] for name, value in key.items()})
    return NotCurrent(table=work.source.name, key=values, state=state, withdrawn_by=withdrawn_by, unbuilt=unbuilt)
