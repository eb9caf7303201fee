"""Opens a table of others, of either format."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from backfill_assets.capture.declared import secrets_named
from backfill_assets.capture.lake_tables.declaration import IcebergTable, LakeTable
from backfill_assets.capture.lake_tables.delta import DeltaStream
from backfill_assets.capture.lake_tables.iceberg import IcebergStream
from backfill_assets.capture.lake_tables.versions import TableStream
from backfill_assets.domain import SourceTable


def open_stream(
    declared: LakeTable | IcebergTable,
    source: SourceTable,
    *,
    home: Path,
    as_of: datetime,  # noqa: ARG001 - as of any family
) -> TableStream:
    """The table that a source is captured from."""
    opened: Callable[..., TableStream] = DeltaStream if isinstance(declared, LakeTable) else IcebergStream
    return opened(
        declared,
        secret=secrets_named(declared.secrets, home=home),
        event_time=source.event_member,
        days=source.days,
        operated=source.operated,
        columns=source.member_columns,
    )
