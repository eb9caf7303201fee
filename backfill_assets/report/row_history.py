"""History of a row: the values of one key in every version that its partition ever had, side by side."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from itertools import zip_longest

from backfill_assets.core.columns import RUN_ID
from backfill_assets.core.errors import BackfillError, InvalidRange, Refused
from backfill_assets.lake.row_values import Texts, rows_with_key, some_keys
from backfill_assets.ledger.imports import ImportRecord
from backfill_assets.ledger.records import PartitionVersion
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest import lineage as lineage_of
from backfill_assets.planning.partitions import Grain, count_of, days_named, partition_text, partitions_over
from backfill_assets.planning.reasons import Reason
from backfill_assets.report.errors import Malformed, NotGiven, NotOfKey, WordWithoutValue
from backfill_assets.report.fresh import reasons_of
from backfill_assets.report.history import PartitionHistory, VersionHistory, partition_history
from backfill_assets.report.landed_behind import LandedBehind
from backfill_assets.workspace import Workspace

MOST_KEYS = 25
"""How many keys of a partition are offered to a reader who has none."""

MOST_FILES = 20
"""How many landed files are named."""

_MOST_ROWS = 3
_QUOTED = 100
_LINEAGE = "_"
"""The columns of lineage begin with it; they differ from version to version, and are no values of the row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowVersion:
    """The row in one version of its partition."""

    version: VersionHistory  #: The version, and where it came from.
    #: By column, as text or null; null when the version has no such row, or it cannot be read.
    values: Mapping[str, str | None] | None
    #: By column of lineage, what the row says of its origin, and what its run says where the row does not.
    lineage: Mapping[str, str | None]
    changed: tuple[str, ...]  #: The columns whose values differ from those of the version before.
    found: str | None  #: What was found, in a sentence; null when there is exactly one row.
    #: The landed files behind the version, those that are not behind the version before first; twenty at most.
    landed: tuple[ImportRecord, ...]
    landed_count: int | None  #: How many these are; null when that cannot be found out.


@dataclass(frozen=True, slots=True, kw_only=True)
class RowHistory:
    """One row in every version of its partition."""

    history: PartitionHistory  #: The versions of its partition.
    key: Mapping[str, str]  #: By column, the value that was asked for.
    #: Why the present version does not follow from the present any more; empty where it does.
    stale: tuple[Reason, ...]
    columns: tuple[str, ...]  #: The columns of values, in the order of the table.
    versions: tuple[RowVersion, ...]  #: The newest first.


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyList:
    """Keys of a partition."""

    history: PartitionHistory  #: The versions of the partition.
    key_columns: tuple[str, ...]  #: The columns of the key, without the partition's.
    #: By column, the values of some keys, of the newest version whose files are there.
    keys: tuple[Mapping[str, str], ...]
    problem: str | None  #: Why there are none, or null.


def key_columns(ws: Workspace, table: str) -> tuple[str, ...]:
    """The columns that name a row within its partition."""
    declared = ws.domain.table(table)
    return tuple(name for name in declared.key if name != declared.partition.column)


def chosen_key(ws: Workspace, table: str, partition: date, key: Mapping[str, str]) -> Mapping[str, str]:
    """A complete key of a row within its partition, from what a reader has typed.

    Raises:
        Refused: A column is not of the key, one of the key is not given, or that of the partition names another one.
    """
    declared, wanted = ws.domain.table(table), key_columns(ws, table)
    column, grain = declared.partition.column, declared.partition.grain
    if column in key and not _names(grain, partition, key[column]):
        named = partition_text(grain, partition)
        raise Malformed(
            what=column,
            value=key[column][:_QUOTED],
            form=f"the partition {named}",
            example=f"{column}={named}, or leave it out",
        )
    given = {name: value for name, value in key.items() if name != column}
    if strange := [name for name in given if name not in wanted]:
        raise NotOfKey(table=declared.name, column=strange[0][:_QUOTED], key=wanted)
    if lacking := [name for name in wanted if name not in given]:
        raise NotGiven(
            why=f"a key of {declared.name} is {', '.join(wanted)}, and {', '.join(lacking)} is not given",
            add=" ".join(f"{name}=VALUE" for name in lacking),
        )
    return {name: given[name] for name in wanted}


def _names(grain: Grain, partition: date, text: str) -> bool:
    """True if a text names a partition, or days of it."""
    with suppress(InvalidRange):
        return partitions_over(grain, days_named(text)) == (partition,)
    return False


def word_without_value(ws: Workspace, table: str, day: date, word: str) -> WordWithoutValue:
    """The refusal of a word that is no `COLUMN=VALUE`, with the key of a row of the partition as an example."""
    found = keys_of(ws, table, day)
    example = found.keys[0] if found.keys else dict.fromkeys(found.key_columns, "VALUE")
    return WordWithoutValue(table=found.history.table, word=word, example=tuple(example.items()))


def keys_of(ws: Workspace, table: str, day: date) -> KeyList:
    """Some keys of a partition, to choose from."""
    history = partition_history(ws, table, day)
    columns, problem = key_columns(ws, history.table), None
    with ws.ledger.read() as tx:
        versions = tx.versions.history(history.table, history.partition)
    for version in versions:
        try:
            found = some_keys(ws.lake, history.table, version.files, columns, most=MOST_KEYS)
        except BackfillError as error:
            problem = problem or error.message
            continue
        keys = sorted({tuple(row[name] or "" for name in columns) for row in found})
        if keys:
            chosen = tuple(dict(zip(columns, key, strict=True)) for key in keys)
            return KeyList(history=history, key_columns=columns, keys=chosen, problem=None)
    return KeyList(history=history, key_columns=columns, keys=(), problem=problem or "no version has rows")


def row_history(ws: Workspace, table: str, day: date, key: Mapping[str, str]) -> RowHistory:
    """The row of a key in every version that its partition ever had.

    Raises:
        UnknownName: There is no such table.
        MissingInput: The partition has never had a version.
        InvalidRange: A value is not of its column's type.
        Refused: As of `chosen_key`.
    """
    history = partition_history(ws, table, day)
    chosen = chosen_key(ws, history.table, history.partition, key)
    with ws.ledger.read() as tx:
        versions = tx.versions.history(history.table, history.partition)
        behind = LandedBehind(ws=ws, tx=tx)
        landed = [_landed(tx, behind, version, before) for version, before in zip_longest(versions, versions[1:])]
        stale = reasons_of(ws, tx, history.table, history.partition)
    read = [_read(ws, version, chosen) for version in versions]
    before = [values for values, _, _ in read[1:]] + [None]
    manifests = _manifests(ws, {lineage[RUN_ID] for _, lineage, _ in read if lineage.get(RUN_ID)})
    documents = {each.claim.version: each for each in history.versions}
    return RowHistory(
        history=history,
        key=chosen,
        stale=stale,
        columns=_columns(ws, history.table, [values for values, _, _ in read]),
        versions=tuple(
            RowVersion(
                version=documents[version.version],
                values=values,
                lineage=_with_that_of_run(lineage, manifests),
                changed=_changed(values, earlier),
                found=found,
                landed=files,
                landed_count=count,
            )
            for version, (values, lineage, found), earlier, (files, count) in zip(
                versions, read, before, landed, strict=True
            )
        ),
    )


def _read(ws: Workspace, version: PartitionVersion, key: Mapping[str, str]) -> tuple[Texts | None, Texts, str | None]:
    """The values of a row in a version, those of its lineage, and what is to be known of them."""
    if version.removed_at is not None:
        return None, {}, f"retention removed its files on {version.removed_at:%Y-%m-%d}; its checksum is still known"
    try:
        rows = rows_with_key(ws.lake, version.table, version.files, key, most=_MOST_ROWS)
    except InvalidRange:
        raise  # What the reader has typed, and not what became of the files.
    except BackfillError as error:
        return None, {}, error.message
    if not rows:
        return None, {}, "no row has this key in this version"
    values = business_values(rows[0])
    lineage = {name: value for name, value in rows[0].items() if name not in values}
    return values, lineage, None if len(rows) == 1 else f"{count_of(len(rows), 'row')} have this key; this is the first"


def business_values(row: Texts) -> Texts:
    """The values of a row without those of its lineage."""
    return {name: value for name, value in row.items() if not name.startswith(_LINEAGE)}


def _manifests(ws: Workspace, run_ids: Collection[str | None]) -> Mapping[str | None, Manifest]:
    with ws.ledger.read() as tx:
        return {run.run_id: run.manifest for run in tx.runs.named(sorted(map(str, run_ids)))}


def _with_that_of_run(found: Texts, manifests: Mapping[str | None, Manifest]) -> Texts:
    """The lineage of a row that was found: rows say what is not the same in all rows of their run, and may say more."""
    manifest = manifests.get(found.get(RUN_ID))
    said = {name: value for name, value in found.items() if value is not None}
    return {**lineage_of(manifest), **said} if manifest else said


def _columns(ws: Workspace, table: str, found: Sequence[Texts | None]) -> tuple[str, ...]:
    """The columns of the table as it is declared, and those that only earlier versions have."""
    declared = ws.domain.table(table)
    stored = [name for values in found if values for name in values]
    names = dict.fromkeys((*declared.schema.fieldNames(), *stored))
    return tuple(name for name in names if name != declared.partition.column)


def _changed(values: Texts | None, earlier: Texts | None) -> tuple[str, ...]:
    if values is None or earlier is None:
        return ()
    return tuple(name for name in values if values[name] != earlier.get(name))


def _landed(
    tx: ReadTransaction, behind: LandedBehind, version: PartitionVersion, before: PartitionVersion | None
) -> tuple[tuple[ImportRecord, ...], int | None]:
    try:
        known = set(behind.imports(before)) if before else ()
        imports = sorted(behind.imports(version), key=lambda import_id: import_id in known)
        return tuple(tx.imports.get(import_id) for import_id in imports[:MOST_FILES]), len(imports)
    except Refused:
        return (), None  # A manifest of a run behind it cannot be read: an audit says which.
