"""With which gates accepted rows were measured: by their runs, and by later checks."""

import sqlalchemy as sa
from alembic import op

from backfill_assets.ledger.column_types import CanonicalJson, UtcDateTime

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column("runs", sa.Column("gates", CanonicalJson))
    op.create_table(
        "checked_gates",
        sa.Column("table_name", sa.Text, primary_key=True),
        sa.Column("partition_date", sa.Date, primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("gate", sa.Text, primary_key=True),
        sa.Column("blocking", sa.Boolean, nullable=False),
        sa.Column("passed", sa.Boolean, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("finding", sa.Text, nullable=False),
        sa.Column("observed", CanonicalJson, nullable=False),
        sa.Column("month", sa.Integer, nullable=False),
        sa.Column("run_id", sa.Text, sa.ForeignKey("runs.run_id"), nullable=False),
        sa.Column("term", sa.String(16), nullable=False),
        sa.Column("checked_at", UtcDateTime, nullable=False),
        sa.ForeignKeyConstraint(
            ["table_name", "partition_date", "version"],
            ["partition_versions.table_name", "partition_versions.partition_date", "partition_versions.version"],
        ),
    )
