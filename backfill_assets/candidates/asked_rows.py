"""Asked rows: the rows of the keys that a person asked for when a run was planned, before and after, equal ones too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from backfill_assets.candidates.changed_rows import Wanted, compared_groups
from backfill_assets.candidates.compare import ComparedFiles
from backfill_assets.candidates.compared_sides import ComparedSides
from backfill_assets.gates.by_values import EQUAL, KINDS, Shape
from backfill_assets.lake.row_values import text_rows_of, typed_keys
from backfill_assets.ledger.errors import Edited
from backfill_assets.ledger.findings import SampledRow
from backfill_assets.planning.manifest import Manifest
from backfill_assets.transforms.schemas import business_schema
from backfill_assets.workspace import Workspace


def rows_asked_for(ws: Workspace, manifest: Manifest, sides: ComparedFiles) -> tuple[SampledRow, ...]:
    """The rows of the keys that a manifest pins, in the order of these; of a key without a row, the key alone.

    Cost: of keys that name their partition, the rows of these partitions; of others, those of all partitions.
    """
    if manifest.shown is None:
        return ()
    with ws.ledger.read() as tx:
        asked = tx.samples.asked_keys(manifest.run_id)
    if asked is None:
        return ()  # They were erased.
    if asked.pinned != manifest.shown:
        raise Edited(what=f"what was asked for of run {manifest.run_id}", of={"run_id": manifest.run_id})
    schema = to_arrow_schema(business_schema(sides.table), timezone="UTC")
    typed = typed_keys(asked.columns, asked.keys, schema)
    column = sides.table.partition.column
    if column in asked.columns:
        sides = sides.of(set(typed.column(column).to_pylist()) & {*sides.staged, *sides.accepted})
    found = _found(sides, Wanted(kinds=KINDS, keys=typed))
    first = manifest.partitions[0]
    return tuple(
        row
        for key in text_rows_of(typed)
        for row in found.get(
            tuple(key.values()),
            [SampledRow(partition=first, key=key, before=None, after=None, is_asked=True)],
        )
    )


def _found(sides: ComparedFiles, wanted: Wanted) -> Mapping[tuple[str | None, ...], Sequence[SampledRow]]:
    """The rows that have one of these keys, by the values of its columns as text."""
    assert wanted.keys is not None
    compared = ComparedSides(sides=sides, partitions=(), not_compared={}, what="this run")
    rows: dict[tuple[str | None, ...], list[SampledRow]] = {}
    for group in compared_groups(compared, wanted):
        for batch in group.rows():
            for row in _rows_of(batch, group.shape):
                rows.setdefault(tuple(row.key[name] for name in wanted.keys.column_names), []).append(row)
    return rows


def _rows_of(batch: pa.RecordBatch, shape: Shape) -> Iterator[SampledRow]:
    facts = batch.select(["kind", "on_staged", "on_accepted", "k_0"]).to_pylist()
    for row, fact in zip(text_rows_of(batch.drop_columns(["differ"])), facts, strict=True):
        before, after = (
            {name: row[f"{side}_{n}"] for n, name in enumerate(shape.values)} if fact[is_there] else None
            for side, is_there in (("before", "on_accepted"), ("after", "on_staged"))
        )
        yield SampledRow(
            partition=fact["k_0"],
            key={name: row[f"k_{n}"] for n, name in enumerate(shape.key)},
            before=before,
            # Equal values can have two texts, as zeros of either sign have.
            after=before if fact["kind"] == EQUAL else after,
            is_asked=True,
        )
