"""A third kind of samples: measures of a run by business dimensions, whose values can be erased as those of rows."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

KINDS = ("CHANGED_ROWS", "FAILING_KEYS", "BREAKDOWN")


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.drop_constraint("sample_kind", "samples")
        op.create_check_constraint("sample_kind", "samples", f"kind IN ({', '.join(repr(kind) for kind in KINDS)})")
    else:
        rebuild()


def rebuild() -> None:
    """SQLite cannot change a constraint: the table is made anew beside itself, with its rows and its index."""
    op.create_table(
        "samples_beside",
        sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column(
            "kind",
            sa.Enum(*KINDS, name="sample_kind", native_enum=False, create_constraint=True, length=16),
            primary_key=True,
        ),
        sa.Column("run_id", sa.Text, sa.ForeignKey("runs.run_id"), nullable=False),
        sa.Column("salt", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.execute("INSERT INTO samples_beside SELECT sequence, kind, run_id, salt, body FROM samples")
    op.drop_table("samples")
    op.rename_table("samples_beside", "samples")
    op.create_index("samples_by_run", "samples", ["run_id", "sequence"])
