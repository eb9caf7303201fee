"""Account of landed files: classifies each record among everything that has landed, and counts what it changes.

`resolve_versions` decides what a version of a key is. The account compares its result with the files and without them,
in one pass over the versions of the keys that they have: the records of these files by outcome, the records of earlier
files whose outcome they change, the keys whose state they change, and the days that have to be built again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, IntegralType, StringType

from backfill_assets.capture.landed_files import STATEMENT
from backfill_assets.core.identity import FileSet
from backfill_assets.domain import Operation, SourceTable
from backfill_assets.domain.operations import OPERATION, Ties
from backfill_assets.domain.source_files import SCHEMA_VERSION
from backfill_assets.lake.row_values import texts
from backfill_assets.landing.conformed import IMPORT_ID, ConformedRecords, is_version
from backfill_assets.landing.errors import TiedRecords, Values
from backfill_assets.landing.formats import IGNORED, ROW
from backfill_assets.landing.key_versions import DECIDES as IS_DECIDING
from backfill_assets.landing.key_versions import (
    EARLIEST,
    IS_LAST_VOID,
    IS_TIED,
    NEXT,
    STATE_AFTER,
    STATE_BEFORE,
    UNKNOWN,
    VOID_BY,
    KeyState,
    RecordOutcome,
    earlier_versions,
    fate,
    key_state,
    resolve_versions,
    version_columns,
    with_states,
)
from backfill_assets.landing.record_rules import REASON, TAKEN, counts_taken
from backfill_assets.ledger.imports import ImportCounts, ImportDay, ImportRecord, KeyCounts

PHASE, WITHOUT, WITH = "_phase", "without", "with"
"""The phase of a version: with the landed files or without; versions of earlier files are in both."""

_MANY = 200_000
"""From so many earlier records on, a job that leaves out other keys is worth its cost."""

MOST_NAMES = 100
"""At most so many schema versions, and sets of ignored columns, are recorded for one import."""

_RECORDS, _REJECTED, _TRUNCATES, _TIED = "records", "rejected", "truncates", "tied"
_IGNORED, _VERSION, _TAKEN = "ignored", "version", "taken"
_MOVED, _DELETED, _WITHDRAWN, _RESTORED, _TOUCHED = "moved", "deleted", "withdrawn", "restored", "touched"
_UNKNOWN, _KEYLESS = "unknown", "keyless"
_CAUSES = {
    _MOVED: "displaced",
    _DELETED: "deleted",
    _WITHDRAWN: "withdrawn",
    _RESTORED: "restored",
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
        entry(F.col(IS_DECIDING), key_state(), nothing, nowhere),
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
            F.when(F.col(IS_DECIDING), F.lit(_RESTORED)).otherwise(F.lit(_TOUCHED)),
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
        record.import_id: replace(record.counts, **_with_truncates(record.counts, counts[record.import_id]))
        for record in imports
    }
    return Recount(
        counts=recounted,
        keys=KeyCounts(**{str(state): found.get((None, state), 0) for state in KeyState}),
        unknown={(row["of"], row["day"]): row["n"] for row in lines if row["what"] == _UNKNOWN},
    )


def _with_truncates(counts: ImportCounts, fates: Mapping[str, int]) -> Mapping[str, int]:
    """Truncates are versions of no key: they are superseded, and what the records of keys leave of the valid ones."""
    truncates = counts.landed - counts.rejected - sum(fates.values())
    return {**fates, str(RecordOutcome.SUPERSEDED): fates[str(RecordOutcome.SUPERSEDED)] + truncates}
