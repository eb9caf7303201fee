"""What landed files do to keys: current, deleted and withdrawn ones, in total and on the days that they touch."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    for name in ("keys_current", "keys_deleted", "keys_withdrawn"):
        op.add_column("imports", sa.Column(name, sa.BigInteger, nullable=False, server_default="0"))
    for name in ("deleted", "withdrawn", "restored"):
        op.add_column("import_days", sa.Column(name, sa.BigInteger, nullable=False, server_default="0"))
    # Until now nothing could end a key, so the accepted records of all imports were the keys.
    op.execute("UPDATE imports SET keys_current = accepted WHERE state IN ('LANDED', 'LOADED')")
