"""On which days the rejected records of an import would be, where their event time can be read."""

import sqlalchemy as sa
from alembic import op

from backfill_assets.ledger.column_types import CanonicalJson

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.add_column("imports", sa.Column("rejected_on", CanonicalJson))
