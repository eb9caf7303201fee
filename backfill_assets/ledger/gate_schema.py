"""Schema of what gates read besides what their run pins; the other tables of the ledger are in `schema`."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Table, Text

from backfill_assets.ledger.column_types import CanonicalJson
from backfill_assets.ledger.schema import metadata

gate_reads = Table(
    "gate_reads",
    metadata,
    Column("run_id", Text, ForeignKey("runs.run_id"), primary_key=True),
    Column("gate", Text, primary_key=True),
    Column("inputs", CanonicalJson, nullable=False),
    Column("reference_versions", CanonicalJson, nullable=False),
)
"""What gates have read besides what their run pins: if it is not what readers see at the swap, they are asked again."""
