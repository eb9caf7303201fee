"""The version of its source's contract that the records of a landed file are kept in."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column("imports", sa.Column("contract", sa.Integer, nullable=False, server_default="1"))
