"""When the records of an import were judged, and how many of their times were taken as the first of two."""

import sqlalchemy as sa
from alembic import op

from backfill_assets.ledger.column_types import CanonicalJson, UtcDateTime

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("imports", sa.Column("judged_at", UtcDateTime))
    op.add_column("imports", sa.Column("taken_as_first", CanonicalJson))
