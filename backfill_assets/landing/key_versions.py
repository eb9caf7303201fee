"""Versions of a key: which one counts, and the account of landed files, which classifies each record among everything
that has landed, and counts what it changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from enum import StrEnum
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, IntegerType, IntegralType, StringType
from pyspark.sql.window import WindowSpec

from backfill_assets.capture.landed_files import STATEMENT
from backfill_assets.core.identity import FileSet
from backfill_assets.domain import Operation, SourceTable
from backfill_assets.domain.operations import OPERATION, STATEMENTS, Ties
from backfill_assets.domain.source_files import SCHEMA_VERSION
from backfill_assets.lake.row_values import texts
from backfill_assets.landing.conformed import (
    ARRIVAL,
    CONTENT_HASH,
    HAPPENED,
    IMPORT_ID,
    RESTORES,
    ConformedRecords,
    earlier_versions,
    is_version,
    version_columns,
)
from backfill_assets.landing.errors import TiedRecords, Values
from backfill_assets.landing.formats import IGNORED, ROW
from backfill_assets.landing.record_rules import REASON, TAKEN, counts_taken
from backfill_assets.ledger.imports import ImportCounts, ImportDay, ImportRecord, KeyCounts

# Standing: what each version of a key is among all versions of it.
#
# The versions of a key are ordered by the columns that its source declares, or by arrival. Of versions that are
# equal in these columns a change comes after a snapshot, and a later arrival after an earlier one. A withdrawal
# voids every version of its key that arrived before it, whatever their order, until a restoration names it. Of
# the versions that are not void
#
# - a *duplicate* has the content of the one before it; - the last one that is no duplicate *decides* what the key
# is: current, or deleted. A key without such a version is withdrawn, and its last withdrawal decides that; - each
# one *ends* with the next one of another position, or with a truncate that comes before that; and, as far as
# times go, at the earliest time of all that come after it, so that of two versions that a time is of the last one
# holds at it. One that is dated back before another leaves nothing of that.
#
# A rejected record whose key can be read is no version. What its key is since then is *not known* while nothing
# newer has been accepted of it: nothing of a later position or, where its own position cannot be read, nothing
# that arrived later. A withdrawal ends that too, also of a key that was never accepted: the record stays void
# when it is read again.
#
# Column expressions over windows by key: nothing here reads or writes.

VOID_BY = "_void_by"
IS_LAST_VOID = "_is_last_void"
IS_DUPLICATE = "_is_duplicate"
IS_OVERRIDDEN = "_is_overridden"
IS_TIED = "_is_tied"
DECIDES = "_decides"
NEXT = "_next"
EARLIEST = "_earliest"
UNKNOWN = "_unknown"

STATE_BEFORE, STATE_AFTER = "_state_before", "_state_after"

_COUNTS, _BEFORE, _RANK = "_counts", "_before", "_rank"
_RESTORED, _WITHDRAWAL = "_restored", "_withdrawal"
_NEWEST, _SINCE = "_newest", "_since"
_IS_OPEN, _WITHDRAWS = "_is_open", "_withdraws"
IS_CURRENT = "_is_current"


class RecordOutcome(StrEnum):
    """The outcome of a valid record among all versions of its key."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    SUPERSEDED = "superseded"


class KeyState(StrEnum):
    """The state of a key after everything that has landed."""

    CURRENT = "current"
    DELETED = "deleted"
    WITHDRAWN = "withdrawn"


def resolve_versions(
    versions: DataFrame, source: SourceTable, imports: Iterable[ImportRecord], *, apart: Sequence[str] = ()
) -> DataFrame:
    """Every version with what it is among those of its key.

    Args:
        versions: At least `version_columns` of all valid records of some keys, of the rejected ones of these keys, and
            of the truncates.
        imports: Where they are from: without a statement among them there is nothing to look for that withdraws.
        apart: Columns of `versions`; versions that differ in them are not of one key.

    Returns:
        The columns of `versions` for each that is no rejected record (a truncate is there once for every key), and:
        `_void_by`, the import that withdraws it; `_is_last_void`, whether no other withdrawn one of its key comes after
        it; `_is_duplicate`; `_is_overridden`, whether a later one has its
        position; `_is_tied`, whether nothing declared decides between it and the one before it; `_decides`, whether it
        decides what its key is; `_next`, what ends it: operation, import, day and time of that, null while it holds;
        `_earliest`, of what comes after it that which happened first: time, import and day;
        `_unknown`, of one that decides that its key is current, the first rejected record to arrive that is newer:
        import, number, time and reason.
    """
    found = _judged(versions, source, imports, apart).where(F.col(REASON).isNull()).drop(_IS_OPEN)
    is_current = F.col(DECIDES) & (key_state() == KeyState.CURRENT)
    return found.withColumn(UNKNOWN, F.when(is_current, F.col(_SINCE))).drop(_SINCE)


def open_rejected(versions: DataFrame, source: SourceTable, imports: Iterable[ImportRecord]) -> DataFrame:
    """The rejected records that no withdrawal voids and that are newer than everything that counts of their key.

    Args:
        versions: As for `resolve_versions`.
        imports: As for `resolve_versions`.

    Returns:
        The columns of `versions`, and `_is_current`: whether the key is current by what was accepted of it.
    """
    found = _judged(versions, source, imports, ())
    is_current = F.max(F.col(DECIDES) & (key_state() == KeyState.CURRENT)).over(Window.partitionBy(*source.key))
    return found.withColumn(IS_CURRENT, is_current).where(_IS_OPEN).select(*versions.columns, IS_CURRENT)


def _judged(
    versions: DataFrame, source: SourceTable, imports: Iterable[ImportRecord], apart: Sequence[str]
) -> DataFrame:
    """Every version and every rejected record, with what `resolve_versions` and `open_rejected` tell of them."""
    every = Window.partitionBy(*apart, *source.key)
    operation = F.col(OPERATION)
    is_statement = _is_statement()
    is_truncate = F.coalesce(operation == Operation.TRUNCATE, F.lit(False))
    found = _with_truncates(versions, source, apart).withColumn(_RANK, _rank(source))
    is_stated = any(record.format == STATEMENT for record in imports)
    found = _with_withdrawals(found, every, is_stated=is_stated)
    is_rejected = F.col(REASON).isNotNull()
    found = found.withColumn(_COUNTS, ~is_statement & ~is_rejected & F.col(VOID_BY).isNull())
    place = F.struct(*(F.col(name) for name in _place(source)))
    found = _with_rejected(found, source, every, place)
    position = F.struct(*(F.col(name) for name in source.order or (ARRIVAL, ROW)))
    before = F.struct(_COUNTS, CONTENT_HASH, _RANK, position.alias("position"))
    found = found.withColumn(_BEFORE, F.lag(before).over(_in_order(source, every)))
    follows = F.col(_COUNTS) & F.coalesce(F.col(f"{_BEFORE}.{_COUNTS}"), F.lit(False))
    same_content = F.col(f"{_BEFORE}.{CONTENT_HASH}") == F.col(CONTENT_HASH)
    same_position = (F.col(f"{_BEFORE}.position") == position) & (F.col(f"{_BEFORE}.{_RANK}") == F.col(_RANK))
    found = found.withColumn(IS_DUPLICATE, follows & ~is_truncate & same_content)
    # Not `~IS_DUPLICATE`: a truncate that is delivered again is no duplicate of any key, and no contradiction either.
    found = found.withColumn(IS_TIED, F.lit(bool(source.order)) & follows & same_position & ~same_content)

    stands = F.col(_COUNTS) & ~F.col(IS_DUPLICATE)
    after = _in_reverse(source, every).rowsBetween(Window.unboundedPreceding, -1)
    later = F.last(F.when(stands, position), ignorenulls=True).over(after) if source.order else F.lit(None)
    found = found.withColumn(IS_OVERRIDDEN, F.coalesce(later == position, F.lit(False)))
    ends = F.struct(
        operation.alias("operation"),
        F.col(IMPORT_ID).alias("import_id"),
        F.col(source.partition.column).alias("day"),
        F.col(HAPPENED).alias("at"),
    )
    held = stands & ~F.col(IS_OVERRIDDEN)
    in_time = F.struct(ends["at"].alias("at"), ends["import_id"].alias("import_id"), ends["day"].alias("day"))
    last = F.max(F.when(stands & ~is_truncate, place)).over(every)
    is_void = F.col(VOID_BY).isNotNull() & ~is_rejected
    last_void = F.max(F.when(is_void, place)).over(every) if is_stated else F.lit(None)
    withdrawn = (operation == Operation.WITHDRAW) & (F.col(ARRIVAL) == F.col(f"{_WITHDRAWAL}.{ARRIVAL}"))
    return found.select(
        *versions.columns,
        _SINCE,
        _IS_OPEN,
        F.coalesce(withdrawn, F.lit(False)).alias(_WITHDRAWS),
        VOID_BY,
        F.coalesce(is_void & (place == last_void), F.lit(False)).alias(IS_LAST_VOID),
        IS_DUPLICATE,
        IS_OVERRIDDEN,
        IS_TIED,
        F.coalesce(F.when(last.isNull(), withdrawn).otherwise(stands & (place == last)), F.lit(False)).alias(DECIDES),
        F.last(F.when(held, ends), ignorenulls=True).over(after).alias(NEXT),
        F.min(F.when(held & F.col(HAPPENED).isNotNull(), in_time)).over(after).alias(EARLIEST),
    )


def _with_rejected(found: DataFrame, source: SourceTable, every: WindowSpec, place: Column) -> DataFrame:
    """Adds the rejected records that are newer than everything that counts of their key, and the first of these to
    arrive."""
    found = found.withColumn(_NEWEST, F.max(F.when(F.col(_COUNTS), place)).over(every))
    is_placed = reduce(
        lambda left, right: left & right, (F.col(name).isNotNull() for name in source.order), F.lit(True)
    )
    came_later = F.struct(ARRIVAL, ROW) > F.struct(f"{_NEWEST}.{ARRIVAL}", f"{_NEWEST}.{ROW}")
    is_newer = F.when(is_placed, place > F.col(_NEWEST)).otherwise(came_later)
    is_newer = F.col(_NEWEST).isNull() | F.coalesce(is_newer, F.lit(False))
    found = found.withColumn(_IS_OPEN, F.col(REASON).isNotNull() & F.col(VOID_BY).isNull() & is_newer)
    since = F.struct(ARRIVAL, ROW, IMPORT_ID, F.col(HAPPENED).alias("at"), F.col(REASON).alias("reason"))
    return found.withColumn(_SINCE, F.min(F.when(F.col(_IS_OPEN), since)).over(every))


def _with_withdrawals(versions: DataFrame, every: WindowSpec, *, is_stated: bool) -> DataFrame:
    """The withdrawal of the key that stands, as arrival and import, and which versions it voids."""
    if not is_stated:
        nothing = F.lit(None).cast("string")
        standing_one = F.struct(F.lit(None).cast("int").alias(ARRIVAL), nothing.alias(IMPORT_ID))
        return versions.withColumns({_WITHDRAWAL: standing_one, VOID_BY: nothing})
    operation = F.col(OPERATION)
    restored = F.collect_set(F.when(operation == Operation.RESTORE, F.col(RESTORES))).over(every)
    withdraws = (operation == Operation.WITHDRAW) & ~F.array_contains(_RESTORED, F.col(IMPORT_ID))
    is_record = ~F.coalesce(operation.isin(*map(str, (*STATEMENTS, Operation.TRUNCATE))), F.lit(False))
    is_earlier = F.col(ARRIVAL) < F.col(f"{_WITHDRAWAL}.{ARRIVAL}")
    return (
        versions.withColumn(_RESTORED, restored)
        .withColumn(_WITHDRAWAL, F.max(F.when(withdraws, F.struct(ARRIVAL, IMPORT_ID))).over(every))
        .withColumn(VOID_BY, F.when(is_record & is_earlier, F.col(f"{_WITHDRAWAL}.{IMPORT_ID}")))
    )


def with_states(found: DataFrame, source: SourceTable, *, apart: Sequence[str]) -> DataFrame:
    """Adds to each version of `resolve_versions` the state of its key before that version arrived, and when it had."""
    arrived = Window.partitionBy(*apart, *source.key).orderBy(ARRIVAL, ROW)
    so_far = arrived.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    operation = F.col(OPERATION)
    is_truncate = F.coalesce(operation == Operation.TRUNCATE, F.lit(False))
    counts = ~_is_statement() & F.col(VOID_BY).isNull()
    ends = F.coalesce(operation.isin(str(Operation.DELETE), str(Operation.TRUNCATE)), F.lit(False))
    found = found.withColumn(_RANK, _rank(source))
    last = F.max(F.when(counts, F.struct(*(F.col(name) for name in _place(source)), ends.alias("ends")))).over(so_far)
    is_known = F.max(counts & ~is_truncate).over(so_far)
    was_withdrawn = F.max(F.col(VOID_BY).isNotNull() | F.col(_WITHDRAWS)).over(so_far)
    state = (
        F.when(is_known & last["ends"], F.lit(KeyState.DELETED))
        .when(is_known, F.lit(KeyState.CURRENT))
        .when(was_withdrawn, F.lit(KeyState.WITHDRAWN))
    )
    found = found.withColumn(STATE_AFTER, state.cast("string")).drop(_RANK)
    return found.withColumn(STATE_BEFORE, F.lag(STATE_AFTER).over(arrived))


def _is_statement() -> Column:
    return F.coalesce(F.col(OPERATION).isin(*map(str, STATEMENTS)), F.lit(False))


def fate() -> Column:
    """The outcome of a record. One that decides nothing and repeats nothing is superseded, truncates included."""
    return (
        F.when(F.col(IS_DUPLICATE), F.lit(RecordOutcome.DUPLICATE))
        .when(F.col(DECIDES), F.lit(RecordOutcome.ACCEPTED))
        .otherwise(F.lit(RecordOutcome.SUPERSEDED))
    )


def key_state() -> Column:
    """The state of a key, by the version that decides it: only a truncate can come after that."""
    operation = F.coalesce(F.col(OPERATION), F.lit(""))
    return (
        F.when(operation == Operation.WITHDRAW, F.lit(KeyState.WITHDRAWN))
        .when((operation == Operation.DELETE) | F.col(NEXT).isNotNull(), F.lit(KeyState.DELETED))
        .otherwise(F.lit(KeyState.CURRENT))
    )


def _place(source: SourceTable) -> tuple[str, ...]:
    """The position of a version, with what decides between equal ones."""
    return (*source.order, _RANK, ARRIVAL, ROW) if source.order else (ARRIVAL, ROW)


def _in_order(source: SourceTable, every: WindowSpec) -> WindowSpec:
    """Versions that do not count come first, so that none of them lies between two that do."""
    return every.orderBy(_COUNTS, *_place(source))


def _in_reverse(source: SourceTable, every: WindowSpec) -> WindowSpec:
    """Seen from each version, all that come after it; a frame of what follows would be read again for each row."""
    return every.orderBy(F.col(_COUNTS).desc(), *(F.col(name).desc() for name in _place(source)))


def _rank(source: SourceTable) -> Column:
    """The rank among versions of one position: a snapshot comes before a change."""
    if source.operation is None or source.operation.snapshot is None:
        return F.lit(1)
    return F.when(F.col(OPERATION) == Operation.SNAPSHOT, F.lit(0)).otherwise(F.lit(1)).cast(IntegerType())


def _with_truncates(versions: DataFrame, source: SourceTable, apart: Sequence[str]) -> DataFrame:
    """Truncates have no key: each is put among the versions of every key. There are few of them."""
    if source.operation is None or source.operation.truncate is None:
        return versions
    is_truncate = F.coalesce(F.col(OPERATION) == Operation.TRUNCATE, F.lit(False))
    keyed, truncates = versions.where(~is_truncate), versions.where(is_truncate)
    keys = keyed.select(*apart, *source.key).distinct()
    few = F.broadcast(truncates.drop(*source.key))
    of_each_key = (keys.join(few, on=list(apart)) if apart else keys.crossJoin(few)).select(*versions.columns)
    return keyed.unionByName(of_each_key)


# Account: `resolve_versions` decides what a version of a key is. The account compares its result with the files and
# without them, in one pass over the versions of the keys that they have: the records of these files by outcome, the
# records of earlier files whose outcome they change, the keys whose state they change, and the days that have to be
# built again.

PHASE, WITHOUT, WITH = "_phase", "without", "with"
"""The phase of a version: with the landed files or without; versions of earlier files are in both."""

_MANY = 200_000
"""From so many earlier records on, a job that leaves out other keys is worth its cost."""

MOST_NAMES = 100
"""At most so many schema versions, and sets of ignored columns, are recorded for one import."""

_RECORDS, _REJECTED, _TRUNCATES, _TIED = "records", "rejected", "truncates", "tied"
_IGNORED, _VERSION, _TAKEN = "ignored", "version", "taken"
_MOVED, _DELETED, _WITHDRAWN, _IS_RESTORED, _TOUCHED = "moved", "deleted", "withdrawn", "restored", "touched"
_UNKNOWN, _KEYLESS = "unknown", "keyless"
_CAUSES = {
    _MOVED: "displaced",
    _DELETED: "deleted",
    _WITHDRAWN: "withdrawn",
    _IS_RESTORED: "restored",
    _UNKNOWN: "unknown",
    _TOUCHED: "",
}
_OF_DAYS = {_RECORDS: "events", _TRUNCATES: "events", **_CAUSES}
"""The classes that are counted for a day, by the attribute of `ImportDay`; earlier versions only touch their days."""

_DAYS_OF_REJECTED = (date(1900, 1, 1), date(2199, 12, 31))
"""The days of rejected records that are counted."""

_Entry = tuple[str, str, date | None]
"""A class, the import (empty for keys) and the day that it is counted for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileAccount:
    """The account of one landed file."""

    counts: ImportCounts
    days: tuple[ImportDay, ...]
    schema_versions: tuple[int, ...]  #: The distinct values of `schema_version`.
    ignored_columns: tuple[str, ...]  #: Columns of its valid records that the contract does not know.
    keyless: int = 0  #: How many of its rejected records have no key that can be read.
    #: By column, of how many valid records the time is the first of two, without a declaration.
    taken_as_first: Mapping[str, int] = field(default_factory=dict)
    #: How many rejected records are of each day, where their event time can be read.
    rejected_on: Mapping[date, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The account of files that are landed together: their records and effects."""

    files: Mapping[str, FileAccount]  #: By import.
    #: By earlier import, how many more of its records are accepted, duplicate and superseded now.
    moved_elsewhere: Mapping[str, ImportCounts]
    linked: tuple[ImportDay, ...]  #: Days whose rows follow from earlier imports that did not touch them before.
    keys: Mapping[str, KeyCounts]  #: By import, how many more keys are current, deleted and withdrawn since it arrived.
    conformed: Mapping[str, FileSet] = field(default_factory=dict)  #: By import, the files with its judged records.


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of the account: `n` records or keys, of an import or a name, on a day, are `what`, without or with the
    new files (`phase`)."""

    phase: str
    what: str
    of: str
    day: date | None
    n: int


_BECOMES, _IS_NO_MORE = "becomes ", "is no more "


def account(records: ConformedRecords, imports: Sequence[ImportRecord], others: Sequence[ImportRecord]) -> Account:
    """Counts the conformed records of some imports against those of the other live imports of their source.

    Raises:
        AmbiguousOrder: Nothing declared decides between two versions of a key.
    """
    source, ids = records.source, [record.import_id for record in imports]
    versions = _affected_versions(records, imports, others)
    present = resolve_versions(versions, source, (*imports, *others), apart=(PHASE,))
    states = len(imports) > 1 and not any(record.format == STATEMENT for record in imports)
    return account_of(records.read(imports), present, ids, source, states=states)


def account_of(
    found: DataFrame, present: DataFrame, ids: Sequence[str], source: SourceTable, *, states: bool = False
) -> Account:
    """Counts conformed records.

    Args:
        found: The records.
        present: What `resolve_versions` gives of the versions of their keys, with them and without them.
        ids: Their imports.
        states: As for `_lines`.

    Raises:
        AmbiguousOrder: Nothing declared decides between two versions of a key.
    """
    counted = _contents(found, source).unionByName(_lines(present, ids, source, apart=(PHASE,), states=states))
    lines = [_Line(row["phase"], row["what"], row["of"] or "", row["day"], row["n"]) for row in counted.collect()]
    if any(line.what == _TIED for line in lines) and source.ties == Ties.REFUSE:
        raise _ambiguous(present, source, ids)
    return _account(ids, lines)


def _affected_versions(
    records: ConformedRecords, imports: Sequence[ImportRecord], others: Sequence[ImportRecord]
) -> DataFrame:
    """All versions of the keys that imports can affect, and once more those without these imports."""
    source = records.source
    written_now = {record.import_id for record in imports}
    mine = records.versions(imports, hashed=written_now).select(*version_columns(source))
    if not others:
        return mine.withColumn(PHASE, F.lit(WITH))
    theirs = earlier_versions(records, others)
    truncates = source.operation is not None and source.operation.truncate is not None
    many = sum(record.counts.landed for record in others) > _MANY
    first, last, is_ended = _reach(mine, source) if truncates or many else (None, None, False)
    if truncates and is_ended:
        return _in_both_phases(mine, theirs)
    near = None if first is None else F.col(source.key[0]).between(F.lit(first), F.lit(last))
    return with_and_without(mine, theirs, source, near=near)


def with_and_without(
    mine: DataFrame, theirs: DataFrame, source: SourceTable, *, near: Column | None = None
) -> DataFrame:
    """The versions of landed files, and those of the same keys that others have, with these files and without them.

    Args:
        near: True for every version of one of the keys; it need not be for others.
    """
    return _in_both_phases(mine, of_keys_of(mine, theirs, source, near=near).select(*mine.columns))


def of_keys_of(some: DataFrame, versions: DataFrame, source: SourceTable, *, near: Column | None = None) -> DataFrame:
    """The versions of the keys that some records have, and the truncates; `near` as for `with_and_without`."""
    keys = some.select(*source.key).distinct()
    chosen = versions if near is None else versions.where(near)
    found = chosen.join(keys, on=list(source.key), how="left_semi").select(*versions.columns)
    if source.operation is not None and source.operation.truncate is not None:
        found = found.unionByName(versions.where(_is_truncate()))
    return found


def _in_both_phases(mine: DataFrame, affected: DataFrame) -> DataFrame:
    phases = F.explode(F.array(F.lit(WITHOUT), F.lit(WITH)))
    return mine.withColumn(PHASE, F.lit(WITH)).unionByName(affected.withColumn(PHASE, phases))


def _is_truncate() -> Column:
    return F.coalesce(F.col(OPERATION) == Operation.TRUNCATE, F.lit(False))


def _reach(mine: DataFrame, source: SourceTable) -> tuple[Any, Any, bool]:
    """The smallest and the largest value of the first key column, by which files of earlier versions are left out, and
    whether there is a truncate."""
    name = source.key[0]
    is_plain = isinstance(source.schema[name].dataType, (StringType, IntegralType, DateType))
    key = F.col(name) if is_plain else F.lit(None)
    found = mine.agg(F.min(key), F.max(key), F.max(_is_truncate())).collect()[0]
    return found[0], found[1], bool(found[2])


def _line(what: Column, of: Column, day: Column, n: Column, phase: Column | None = None) -> tuple[Column, ...]:
    return (
        (F.lit(WITH) if phase is None else phase).alias("phase"),
        what.cast("string").alias("what"),
        of.cast("string").alias("of"),
        day.cast("date").alias("day"),
        n.cast("long").alias("n"),
    )


def _contents(found: DataFrame, source: SourceTable) -> DataFrame:
    """Records of each import per event date, rejected ones and truncates, and ignored columns and schema versions."""
    nothing, valid = F.lit(None), F.col(REASON).isNull()
    kind = F.when(~valid, F.lit(_REJECTED)).when(_is_truncate(), F.lit(_TRUNCATES)).otherwise(F.lit(_RECORDS))
    day = F.col(source.partition.column)
    # Of what is damaged there can be as many days as records.
    day = F.when(valid | day.between(*map(F.lit, _DAYS_OF_REJECTED)), day)
    lines = (
        found.groupBy(kind.alias("kind"), IMPORT_ID, day.alias("event_day"))
        .count()
        .select(*_line(F.col("kind"), F.col(IMPORT_ID), F.col("event_day"), F.col("count")))
    )
    keyless = found.where(~is_version(source)).groupBy(IMPORT_ID).count()
    lines = lines.unionByName(keyless.select(*_line(F.lit(_KEYLESS), F.col(IMPORT_ID), nothing, F.col("count"))))
    ignored = _few_of_each(found.where(valid & F.col(IGNORED).isNotNull()), IGNORED)
    names = _few_of_each(ignored.select(IMPORT_ID, F.explode(IGNORED).alias("name")), "name")
    lines = lines.unionByName(
        names.select(*_line(F.concat_ws(":", F.lit(_IGNORED), "name"), F.col(IMPORT_ID), nothing, F.lit(1)))
    )
    if counts_taken(source):
        taken = found.where(valid).select(IMPORT_ID, F.explode(TAKEN).alias("name")).groupBy(IMPORT_ID, "name").count()
        named = F.concat_ws(":", F.lit(_TAKEN), "name")
        lines = lines.unionByName(taken.select(*_line(named, F.col(IMPORT_ID), nothing, F.col("count"))))
    if SCHEMA_VERSION in source.schema.fieldNames():
        versions = _few_of_each(found.where(valid & F.col(SCHEMA_VERSION).isNotNull()), SCHEMA_VERSION)
        named = F.concat_ws(":", F.lit(_VERSION), SCHEMA_VERSION)
        lines = lines.unionByName(versions.select(*_line(named, F.col(IMPORT_ID), nothing, F.lit(1))))
    return lines


def _few_of_each(found: DataFrame, name: str) -> DataFrame:
    """The first distinct values of a column, of each import."""
    place = F.row_number().over(Window.partitionBy(IMPORT_ID).orderBy(name))
    return found.select(IMPORT_ID, name).distinct().withColumn("_place", place).where(F.col("_place") <= MOST_NAMES)


def _lines(
    found: DataFrame, ids: Sequence[str], source: SourceTable, *, apart: Sequence[str] = (), states: bool = False
) -> DataFrame:
    """The role of every version, the key that it decides, and the import that takes it away from its day: one pass, few
    lines.

    Args:
        found: What `resolve_versions` gives.
        ids: The imports that are accounted for.
        apart: As for `resolve_versions`: the phase, if there are two.
        states: Also count by import which keys it made what they became.
    """
    day = F.col(source.partition.column)
    is_mine = F.col(IMPORT_ID).isin(list(ids))
    is_truncate = _is_truncate()
    restores = F.when(is_mine & (F.col(OPERATION) == Operation.RESTORE), F.col(IMPORT_ID))
    found = found.withColumn("_restored_by", F.max(restores).over(Window.partitionBy(*apart, *source.key)))
    if states:
        found = with_states(found, source, apart=apart)
    ends = F.col(f"{NEXT}.operation").isin(str(Operation.DELETE), str(Operation.TRUNCATE))
    leaves = F.col(f"{NEXT}.import_id") != F.col(IMPORT_ID)
    earliest = F.col(f"{EARLIEST}.import_id")
    is_ended_elsewhere = (earliest != F.col(IMPORT_ID)) & (F.col(f"{EARLIEST}.day") != day)

    def entry(holds: Column, what: Column, of: Column, of_day: Column) -> Column:
        named = F.struct(what.cast("string").alias("what"), of.cast("string").alias("of"), of_day.alias("day"))
        return F.when(holds, named)

    nothing, nowhere = F.lit(None), F.lit(None).cast("date")
    changes = [
        entry(
            is_mine & state.isNotNull() & ~F.col(STATE_BEFORE).eqNullSafe(F.col(STATE_AFTER)),
            F.concat(F.lit(prefix), state),
            F.col(IMPORT_ID),
            nowhere,
        )
        for prefix, state in ((_BECOMES, F.col(STATE_AFTER)), (_IS_NO_MORE, F.col(STATE_BEFORE)))
        if states
    ]
    entries = F.array(
        *changes,
        entry(~is_truncate, fate(), F.col(IMPORT_ID), nowhere),
        entry(F.col(DECIDES), key_state(), nothing, nowhere),
        entry(
            ~is_truncate & leaves & (ends | (F.col(f"{NEXT}.day") != day)),
            F.when(ends, F.lit(_DELETED)).otherwise(F.lit(_MOVED)),
            F.col(f"{NEXT}.import_id"),
            day,
        ),
        entry(
            F.lit(source.operation is not None) & ~is_truncate & is_ended_elsewhere,
            F.lit(_TOUCHED),
            earliest,
            day,
        ),
        entry(
            F.col(VOID_BY).isNotNull(),
            F.when(F.col(IS_LAST_VOID), F.lit(_WITHDRAWN)).otherwise(F.lit(_TOUCHED)),
            F.col(VOID_BY),
            day,
        ),
        entry(
            F.col("_restored_by").isNotNull() & day.isNotNull(),
            F.when(F.col(DECIDES), F.lit(_IS_RESTORED)).otherwise(F.lit(_TOUCHED)),
            F.col("_restored_by"),
            day,
        ),
        entry(F.col(IS_TIED) & is_mine, F.lit(_TIED), F.col(IMPORT_ID), nowhere),
        entry(F.col(UNKNOWN).isNotNull(), F.lit(_UNKNOWN), F.col(f"{UNKNOWN}.{IMPORT_ID}"), day),
    )
    phase = F.col(PHASE) if apart else F.lit(WITH)
    line = _line(F.col("entry.what"), F.col("entry.of"), F.col("entry.day"), F.col("count"), F.col("of_phase"))
    return (
        found.select(phase.alias("of_phase"), F.explode(F.array_compact(entries)).alias("entry"))
        .groupBy("of_phase", "entry")
        .count()
        .select(*line)
    )


def _account(ids: Sequence[str], lines: Iterable[_Line]) -> Account:
    phases: dict[str, Counter[_Entry]] = {WITH: Counter(), WITHOUT: Counter()}
    for line in lines:
        phases[line.phase][line.what, line.of, line.day] += line.n
    now, before = phases[WITH], phases[WITHOUT]
    change = Counter(now)
    change.subtract(before)
    elsewhere = sorted({of for what, of, _ in change if what in set(RecordOutcome)} - set(ids))
    moved = {of: {str(kind): change[kind, of, None] for kind in RecordOutcome} for of in elsewhere}
    return Account(
        files={import_id: _of_file(import_id, now) for import_id in ids},
        moved_elsewhere={of: ImportCounts(**counts) for of, counts in moved.items() if any(counts.values())},
        linked=_days({entry: n for entry, n in change.items() if n and entry[0] in _CAUSES and entry[1] not in ids}),
        keys=_keys(ids, change),
    )


def _keys(ids: Sequence[str], change: Mapping[_Entry, int]) -> Mapping[str, KeyCounts]:
    """The key counts that the imports changed together: each one's part where that was counted, and the rest in the
    last one."""
    found = {
        import_id: KeyCounts(
            **{
                str(state): change.get((f"{_BECOMES}{state}", import_id, None), 0)
                - change.get((f"{_IS_NO_MORE}{state}", import_id, None), 0)
                for state in KeyState
            }
        )
        for import_id in ids[:-1]
    }
    together = KeyCounts(**{str(state): change.get((str(state), "", None), 0) for state in KeyState})
    return {**found, ids[-1]: together - sum(found.values(), KeyCounts())}


def _of_file(import_id: str, now: Mapping[_Entry, int]) -> FileAccount:
    mine = {entry: n for entry, n in now.items() if entry[1] == import_id}
    rejected = {day: n for (what, _, day), n in mine.items() if what == _REJECTED and day is not None}
    fates = Counter({what: n for (what, _, _), n in mine.items() if what in set(RecordOutcome)})
    held: Counter[str] = Counter()
    for (what, _, _), n in mine.items():
        held[what] += n
    return FileAccount(
        counts=ImportCounts(
            landed=held[_RECORDS] + held[_TRUNCATES] + held[_REJECTED],
            accepted=fates[RecordOutcome.ACCEPTED],
            duplicate=fates[RecordOutcome.DUPLICATE],
            superseded=fates[RecordOutcome.SUPERSEDED] + held[_TRUNCATES],
            rejected=held[_REJECTED],
        ),
        days=_days({entry: n for entry, n in mine.items() if entry[0] in _OF_DAYS}),
        schema_versions=tuple(sorted(map(int, _names(mine, _VERSION)))),
        ignored_columns=tuple(sorted(_names(mine, _IGNORED))),
        keyless=held[_KEYLESS],
        taken_as_first={name: held[f"{_TAKEN}:{name}"] for name in _names(mine, _TAKEN)},
        rejected_on=dict(sorted(rejected.items())),
    )


def _names(entries: Iterable[_Entry], kind: str) -> list[str]:
    return [what.partition(":")[2] for what, _, _ in entries if what.partition(":")[0] == kind]


def _days(entries: Mapping[_Entry, int]) -> tuple[ImportDay, ...]:
    """The days that imports touch, from the entries that have a day."""
    found: dict[tuple[str, date], Counter[str]] = {}
    for (what, of, day), n in entries.items():
        if day is not None:
            counts = found.setdefault((of, day), Counter())
            if _OF_DAYS[what]:
                counts[_OF_DAYS[what]] += n
    return tuple(
        ImportDay(import_id=of, event_date=day, **{"events": 0, **counts})
        for (of, day), counts in sorted(found.items())
    )


def _ambiguous(found: DataFrame, source: SourceTable, ids: Sequence[str]) -> TiedRecords:
    named = [*source.key, *source.order]
    tied = found.where(F.col(IS_TIED) & F.col(IMPORT_ID).isin(list(ids)))
    first = tied.select(*(F.col(name).cast("string") for name in named), IMPORT_ID, ROW).orderBy(IMPORT_ID, ROW).first()
    assert first is not None
    key, order = (Values(texts(first, names)) for names in (source.key, source.order))
    return TiedRecords(source=source.name, key=key, order=order, row=first[ROW])


@dataclass(frozen=True, slots=True, kw_only=True)
class Recount:
    """A new count of the records of imports."""

    counts: Mapping[str, ImportCounts]
    keys: KeyCounts  #: What the keys of the source are.
    #: How many keys are not known since a rejected record of an import, by that and the day of the key.
    unknown: Mapping[tuple[str, date], int]


def recount(records: ConformedRecords, imports: Sequence[ImportRecord]) -> Recount:
    """Counts these imports and the keys all over again: for when an import in their midst has changed.

    Args:
        imports: Every import that counts. What they landed and rejected stays as it is.
    """
    source = records.source
    versions = records.versions(imports).select(*version_columns(source))
    lines = _lines(resolve_versions(versions, source, imports), [], source).collect()
    found = {(row["of"], row["what"]): row["n"] for row in lines if row["day"] is None}
    counts = {
        record.import_id: {str(kind): found.get((record.import_id, kind), 0) for kind in RecordOutcome}
        for record in imports
    }
    recounted = {
        record.import_id: replace(record.counts, **_counting_truncates(record.counts, counts[record.import_id]))
        for record in imports
    }
    return Recount(
        counts=recounted,
        keys=KeyCounts(**{str(state): found.get((None, state), 0) for state in KeyState}),
        unknown={(row["of"], row["day"]): row["n"] for row in lines if row["what"] == _UNKNOWN},
    )


def _counting_truncates(counts: ImportCounts, fates: Mapping[str, int]) -> Mapping[str, int]:
    """Truncates are versions of no key: they are superseded, and what the records of keys leave of the valid ones."""
    truncates = counts.landed - counts.rejected - sum(fates.values())
    return {**fates, str(RecordOutcome.SUPERSEDED): fates[str(RecordOutcome.SUPERSEDED)] + truncates}
