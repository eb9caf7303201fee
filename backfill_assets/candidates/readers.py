"""Readers of a table: whether the transforms that read it can, by its columns alone.

A transform runs no action, so it can be called with inputs that have columns and no rows: Spark resolves every column
that it names, and the columns that it returns are compared with those that it declares.
"""

from __future__ import annotations

from collections.abc import Mapping

from backfill_assets.candidates.rows import rows_of
from backfill_assets.domain import DerivedTable, TransformContext
from backfill_assets.errors import BackfillError
from backfill_assets.planning.manifest_parts import Kind, Mode
from backfill_assets.planning.partitions import partition_of
from backfill_assets.planning.reads import output_days, reads_of
from backfill_assets.transforms.apply import called_transform
from backfill_assets.transforms.schemas import current_rows
from backfill_assets.workspace import Workspace


def cannot_compute(ws: Workspace, table: DerivedTable) -> str | None:
    """Why the present release of a table cannot be computed from inputs as they are declared; None if it can."""
    partition = partition_of(table.partition.grain, ws.settings.first_day)
    reads = reads_of(ws.graph.table(table.name), ws.graph, (partition,))
    ctx = TransformContext(
        run_id="check",
        kind=Kind.BACKFILL,
        mode=Mode.DRY_RUN,
        transform_version=table.version,
        output=output_days(table.partition.grain, (partition,)),
        output_partitions=(partition,),
        input_days={read.argument: read.days for read in reads},
        references={name: ws.references[name].value for name in table.references},
        spark=ws.spark(),
    )
    frames = {
        argument: no_rows if argument in table.changes else current_rows(no_rows, source)
        for argument, source in table.inputs.items()
        for no_rows in [rows_of(ws, source, ())]
    }
    try:
        called_transform(table, table.release(None), frames, ctx)
    except BackfillError as error:
        return error.message.rstrip(".")
    except (LookupError, AttributeError, TypeError, ValueError) as error:
        named = f"the transform {table.transform} {table.version} of {table.name}"
        return f"{named} failed: {type(error).__name__}: {error}".splitlines()[0].rstrip(".")
    return None


def unreadable_by(ws: Workspace, table: str) -> Mapping[str, str]:
    """The declared readers of a table that cannot read its declared columns, with the reason."""
    readers = [reader for reader in ws.domain.derived if table in {each.name for each in reader.inputs.values()}]
    found = {reader.name: cannot_compute(ws, reader) for reader in readers}
    return {reader: reason for reader, reason in found.items() if reason is not None}
