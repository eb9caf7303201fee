"""Comparison of a version of a table with the one that readers are shown, by key, in the partitions that have changed.

What differs is counted by the comparison of gates, once over all columns that both have, and once more without what the
version declares to be explained: the columns that may differ, and the rows that fulfil its condition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from backfill_assets.candidates.rows import rows_of
from backfill_assets.core.identity import document_digest
from backfill_assets.domain import DerivedTable
from backfill_assets.gates.measure import by_key, compare_frames, comparing, shape_of
from backfill_assets.gates.measured import ByKey
from backfill_assets.ledger.records import PartitionVersion
from backfill_assets.ledger.table_acts import ComparedDay, ComparedPartition
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.kinds.replace import VersionOf
from backfill_assets.transforms.schemas import business_schema
from backfill_assets.workspace import Workspace

GROUP = 366
"""How many partitions are compared at once, at most."""

NOTHING = ByKey()


def expected_differences(version: DerivedTable, shown: DerivedTable) -> VersionOf:
    """The declaration of how two versions may differ, by the one that is a version of another table."""
    return version.declared_version or shown.declared_version or VersionOf(table=shown.name)


def shared_columns(version: DerivedTable, shown: DerivedTable) -> StructType:
    """The columns that both have, of the same type: those are compared."""
    other = {field.name: field.dataType for field in business_schema(shown).fields}
    return StructType([field for field in business_schema(version).fields if other.get(field.name) == field.dataType])


def terms_of(version: DerivedTable, shown: DerivedTable) -> str:
    """Digests what is compared, and which differences are expected."""
    mode = expected_differences(version, shown)
    columns = [[field.name, field.dataType.simpleString()] for field in shared_columns(version, shown).fields]
    return document_digest([columns, sorted(mode.differs), mode.explained])


def outdated(tx: ReadTransaction, version: DerivedTable, shown: DerivedTable) -> tuple[set[date], set[date]]:
    """The partitions that are to be compared again, as one side or what is compared has changed, and those that neither
    side has any more."""
    here, there = tx.versions.claims(version.name), tx.versions.claims(shown.name)
    known, terms = tx.comparisons.partitions(version.name), terms_of(version, shown)
    due = {
        partition
        for partition in {*here, *there}
        if (found := known.get(partition)) is None
        or (found.with_table, found.terms) != (shown.name, terms)
        or found.version != (here[partition].version if partition in here else 0)
        or found.with_version != (there[partition].version if partition in there else 0)
    }
    return due, known.keys() - {*here, *there}


def compare_with_shown(ws: Workspace, version: DerivedTable, shown: DerivedTable, *, by: str) -> ComparedDay:
    """Compares what has changed on one of the sides since it was compared last, and adds up the day.

    Raises:
        MissingInput: A file does not exist any more or was truncated.
    """
    with ws.ledger.read() as tx:
        due, gone = outdated(tx, version, shown)
        days = sorted(due)
        here, there = (tx.versions.accepted(each.name, days) for each in (version, shown))
    found: list[ComparedPartition] = []
    for start in range(0, len(days), GROUP):
        found += _compared(ws, version, shown, days[start : start + GROUP], here, there)
    with ws.ledger.write() as tx:
        return tx.comparisons.record(version.name, shown.name, found, gone=gone, by=by)


def _compared(
    ws: Workspace,
    version: DerivedTable,
    shown: DerivedTable,
    days: Sequence[date],
    here: Mapping[date, PartitionVersion],
    there: Mapping[date, PartitionVersion],
) -> list[ComparedPartition]:
    mode, schema = expected_differences(version, shown), shared_columns(version, shown)
    new, old = (
        rows_of(ws, table, (side[day].files for day in days if day in side)).select(*schema.fieldNames())
        for table, side in ((version, here), (shown, there))
    )
    size = sum(f.size_bytes for side in (here, there) for day in days if day in side for f in side[day].files.files)
    every = _by_key(ws, version, schema, new, old, size)
    rest = every
    if mode.differs or mode.explained:
        kept = StructType([field for field in schema.fields if field.name not in mode.differs])
        if mode.explained:
            new, old = (side.where(~F.coalesce(F.expr(mode.explained), F.lit(False))) for side in (new, old))
        new, old = (side.select(*kept.fieldNames()) for side in (new, old))
        rest = _by_key(ws, version, kept, new, old, size)
    terms = terms_of(version, shown)
    return [
        ComparedPartition(
            table=version.name,
            partition=day,
            with_table=shown.name,
            version=here[day].version if day in here else 0,
            with_version=there[day].version if day in there else 0,
            agreed=found.unchanged,
            changed=found.changed,
            only_here=found.added,
            only_there=found.removed,
            explained=_differing(found) - _differing(rest.get(day, NOTHING)),
            terms=terms,
        )
        for day in days
        for found in [every.get(day, NOTHING)]
    ]


def _by_key(
    ws: Workspace, version: DerivedTable, schema: StructType, new: DataFrame, old: DataFrame, size_bytes: int
) -> Mapping[date, ByKey]:
    # What the rows of a version are broken down by is for reviewers of its runs.
    plain = replace(shape_of(version, schema), listed=(), telling=(), is_ranked=False)
    spread = size_bytes > ws.settings.compare_in_spark_above
    return by_key(compare_frames(new, old, comparing(plain), plain, spread=spread), plain)


def _differing(found: ByKey) -> int:
    return found.added + found.removed + found.changed
