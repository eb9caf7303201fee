"""By which declaration the records of an import were read."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("imports", sa.Column("reading", sa.String(64)))
