"""What gates have read besides what their run pins."""

import sqlalchemy as sa
from alembic import op

from backfill_assets.ledger.column_types import CanonicalJson

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.create_table(
        "gate_reads",
        sa.Column("run_id", sa.Text, sa.ForeignKey("runs.run_id"), primary_key=True),
        sa.Column("gate", sa.Text, primary_key=True),
        sa.Column("inputs", CanonicalJson, nullable=False),
        sa.Column("reference_versions", CanonicalJson, nullable=False),
    )
