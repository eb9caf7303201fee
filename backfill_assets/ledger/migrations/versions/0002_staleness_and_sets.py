"""Sizes and digests that planning reads, verified partitions, restatement sets, attempts, retention."""

import hashlib
import json

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

SHA256 = sa.String(64)
INSTANT = sa.DateTime(timezone=True)
KEYS = {
    "publication_changes": (("publication_id", "partition_date"), "new_files"),
    "partition_versions": (("table_name", "partition_date", "version"), "files"),
}


def upgrade() -> None:
    for table in KEYS:
        op.add_column(table, sa.Column("files_digest", SHA256, nullable=False, server_default=""))
        op.add_column(table, sa.Column("file_count", sa.Integer, nullable=False, server_default="0"))
        op.add_column(table, sa.Column("size_bytes", sa.BigInteger, nullable=False, server_default="0"))
        measure_file_sets(table)
    op.add_column("partition_versions", sa.Column("removed_at", INSTANT))
    op.add_column("candidate_partitions", sa.Column("compared_checksum", sa.Text))
    op.add_column("runs", sa.Column("attempt", sa.Text, nullable=False, server_default=""))
    op.add_column("chunk_runs", sa.Column("attempt", sa.Text, nullable=False, server_default=""))
    op.add_column("chunk_runs", sa.Column("checksum", sa.Text, nullable=False, server_default=""))
    op.create_table(
        "verifications",
        sa.Column("publication_id", sa.Text, sa.ForeignKey("publications.publication_id"), primary_key=True),
        sa.Column("partition_date", sa.Date, primary_key=True),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("provenance", sa.Text, nullable=False),
    )
    op.create_table(
        "restatement_sets",
        sa.Column("set_id", sa.Text, sa.ForeignKey("manifests.run_id"), primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column(
            "state",
            sa.Enum(
                *("PLANNED", "PUBLISHING", "PUBLISHED", "ROLLING_BACK", "ROLLED_BACK"),
                name="set_state",
                native_enum=False,
                create_constraint=True,
                length=16,
            ),
            nullable=False,
        ),
        sa.Column("note", sa.Text, nullable=False),
        sa.Column("added_sequence", sa.BigInteger, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
    )
    op.create_table(
        "set_members",
        sa.Column("set_id", sa.Text, sa.ForeignKey("restatement_sets.set_id"), primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("run_id", sa.Text, sa.ForeignKey("runs.run_id"), nullable=False, unique=True),
    )


def measure_file_sets(table: str) -> None:
    """Fills the new columns from the stored file sets, in the way that `identity.FileSet` digests them."""
    names, column = KEYS[table]
    connection = op.get_bind()
    rows = connection.execute(sa.text(f"SELECT {', '.join(names)}, {column} AS files FROM {table}")).mappings().all()
    where = " AND ".join(f"{name} = :{name}" for name in names)
    statement = sa.text(
        f"UPDATE {table} SET files_digest = :digest, file_count = :count, size_bytes = :size WHERE {where}"
    )
    values = []
    for row in rows:
        files = sorted([path, size] for path, size, *_ in json.loads(row["files"]))
        text = json.dumps(files, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        values.append(
            {
                **{name: row[name] for name in names},
                "digest": hashlib.sha256(text.encode()).hexdigest(),
                "count": len(files),
                "size": sum(size for _, size in files),
            }
        )
    if values:
        connection.execute(statement, values)
