"""The first ledger. Frozen: a later shape is a later revision."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

SHA256 = sa.String(64)
INSTANT = sa.DateTime(timezone=True)


def one_of(name: str, *values: str) -> sa.Enum:
    return sa.Enum(*values, name=name, native_enum=False, create_constraint=True, length=16)


def upgrade() -> None:
    op.create_table(
        "manifests",
        sa.Column("run_id", sa.Text, primary_key=True),
        sa.Column("digest", SHA256, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_table(
        "runs",
        sa.Column("run_id", sa.Text, sa.ForeignKey("manifests.run_id"), primary_key=True),
        sa.Column("table_name", sa.Text, nullable=False),
        sa.Column(
            "state",
            one_of(
                "run_state",
                "PLANNED",
                "STAGING",
                "GATING",
                "PASSED",
                "BLOCKED",
                "FAILED",
                "PUBLISHING",
                "PUBLISHED",
                "SUPERSEDED",
                "ROLLED_BACK",
            ),
            nullable=False,
        ),
        sa.Column("note", sa.Text, nullable=False),
        sa.Column("added_sequence", sa.BigInteger, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
    )
    op.create_index("runs_by_table", "runs", ["table_name", "added_sequence"])
    op.create_index("runs_by_state", "runs", ["state"])
    op.create_table(
        "approvals",
        sa.Column("run_id", sa.Text, sa.ForeignKey("manifests.run_id"), primary_key=True),
        sa.Column("state", one_of("approval_state", "DRAFT", "APPROVED"), nullable=False),
        sa.Column("manifest_digest", SHA256),
        sa.Column("approved_by", sa.Text),
        sa.Column("approved_at", INSTANT),
        sa.Column("note", sa.Text, nullable=False),
        sa.CheckConstraint(
            "state = 'DRAFT' OR (manifest_digest IS NOT NULL AND approved_by IS NOT NULL AND approved_at IS NOT NULL)",
            name="approved_by_somebody",
        ),
    )
    op.create_table(
        "events",
        sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("entity", sa.Text, nullable=False),
        sa.Column("entity_id", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("from_state", sa.Text, nullable=False),
        sa.Column("to_state", sa.Text, nullable=False),
        sa.Column("payload", sa.Text, nullable=False),
        sa.Column("previous_hash", SHA256, nullable=False),
        sa.Column("hash", SHA256, nullable=False),
    )
    op.create_index("events_by_entity", "events", ["entity_id", "sequence"])
    head = op.create_table(
        "chain_head",
        sa.Column("only_row", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("hash", SHA256, nullable=False),
        sa.CheckConstraint("only_row = 1", name="only_one_head"),
    )
    op.bulk_insert(head, [{"only_row": 1, "sequence": 0, "hash": "0" * 64}])
    op.create_table(
        "chunk_runs",
        sa.Column("run_id", sa.Text, sa.ForeignKey("runs.run_id"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("partitions", sa.Text, nullable=False),
        sa.Column("state", one_of("chunk_state", "RUNNING", "DONE"), nullable=False),
        sa.Column("input_rows", sa.BigInteger),
        sa.Column("output_rows", sa.BigInteger),
        sa.Column("started_at", INSTANT, nullable=False),
        sa.Column("finished_at", INSTANT),
    )
    op.create_table(
        "candidate_partitions",
        sa.Column("run_id", sa.Text, sa.ForeignKey("runs.run_id"), primary_key=True),
        sa.Column("partition_date", sa.Date, primary_key=True),
        sa.Column("files", sa.Text, nullable=False),
        sa.Column("files_digest", SHA256, nullable=False),
        sa.Column("row_count", sa.BigInteger, nullable=False),
        sa.Column("checksum", sa.Text, nullable=False),
        sa.Column("compared_version", sa.Integer),
        sa.Column("compared_digest", SHA256),
        sa.Column("provenance", sa.Text, nullable=False),
    )
    op.create_table(
        "gate_results",
        sa.Column("run_id", sa.Text, primary_key=True),
        sa.Column("partition_date", sa.Date, primary_key=True),
        sa.Column("gate", sa.Text, primary_key=True),
        sa.Column("blocking", sa.Boolean, nullable=False),
        sa.Column("passed", sa.Boolean, nullable=False),
        sa.Column("digest", SHA256, nullable=False),
        sa.Column("verdict", sa.Text, nullable=False),
        sa.Column("observed", sa.Text, nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id", "partition_date"],
            ["candidate_partitions.run_id", "candidate_partitions.partition_date"],
        ),
    )
    op.create_table(
        "publications",
        sa.Column("publication_id", sa.Text, primary_key=True),
        sa.Column("run_id", sa.Text, sa.ForeignKey("runs.run_id"), nullable=False),
        sa.Column("action", one_of("publication_action", "PUBLISH", "ROLLBACK"), nullable=False),
        sa.Column("table_name", sa.Text, nullable=False),
        sa.Column(
            "state",
            one_of("publication_state", "PUBLISHING", "PUBLISHED", "ABANDONED", "ROLLED_BACK"),
            nullable=False,
        ),
        sa.Column("asked_by", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("undoes", sa.Text, sa.ForeignKey("publications.publication_id")),
        sa.Column("begun_sequence", sa.BigInteger, nullable=False),
        sa.Column("started_at", INSTANT, nullable=False),
        sa.Column("finished_at", INSTANT),
        sa.Column("delta_version", sa.BigInteger),
        sa.Column("note", sa.Text, nullable=False),
    )
    op.create_index("publications_by_run", "publications", ["run_id"])
    op.create_index(
        "one_open_publication_per_table",
        "publications",
        ["table_name"],
        unique=True,
        sqlite_where=sa.text("state = 'PUBLISHING'"),
        postgresql_where=sa.text("state = 'PUBLISHING'"),
    )
    op.create_table(
        "publication_changes",
        sa.Column("publication_id", sa.Text, sa.ForeignKey("publications.publication_id"), primary_key=True),
        sa.Column("partition_date", sa.Date, primary_key=True),
        sa.Column("expected_version", sa.Integer, nullable=False),
        sa.Column("expected_files", sa.Text, nullable=False),
        sa.Column("new_files", sa.Text, nullable=False),
        sa.Column("row_count", sa.BigInteger, nullable=False),
        sa.Column("checksum", sa.Text, nullable=False),
        sa.Column("restores", sa.Integer),
        sa.Column("provenance", sa.Text, nullable=False),
    )
    op.create_table(
        "partition_versions",
        sa.Column("table_name", sa.Text, primary_key=True),
        sa.Column("partition_date", sa.Date, primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("state", one_of("version_state", "ACCEPTED", "SUPERSEDED", "ROLLED_BACK"), nullable=False),
        sa.Column("run_id", sa.Text, sa.ForeignKey("runs.run_id"), nullable=False),
        sa.Column("publication_id", sa.Text, sa.ForeignKey("publications.publication_id"), nullable=False),
        sa.Column("files", sa.Text, nullable=False),
        sa.Column("row_count", sa.BigInteger, nullable=False),
        sa.Column("checksum", sa.Text, nullable=False),
        sa.Column("replaces", sa.Integer, nullable=False),
        sa.Column("delta_version", sa.BigInteger, nullable=False),
        sa.Column("accepted_at", INSTANT, nullable=False),
        sa.Column("provenance", sa.Text, nullable=False),
        sa.CheckConstraint("version > 0 AND replaces < version", name="versions_count_up"),
    )
    op.create_index("versions_by_run", "partition_versions", ["run_id", "state"])
    op.create_index(
        "one_accepted_version_per_partition",
        "partition_versions",
        ["table_name", "partition_date"],
        unique=True,
        sqlite_where=sa.text("state = 'ACCEPTED'"),
        postgresql_where=sa.text("state = 'ACCEPTED'"),
    )
    op.create_table(
        "outbox",
        sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("publication_id", sa.Text, sa.ForeignKey("publications.publication_id"), nullable=False, unique=True),
        sa.Column("run_id", sa.Text, sa.ForeignKey("runs.run_id"), nullable=False),
        sa.Column("table_name", sa.Text, nullable=False),
        sa.Column("partitions", sa.Text, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("delivered_at", INSTANT),
    )
    op.create_table(
        "imports",
        sa.Column("import_id", sa.Text, primary_key=True),
        sa.Column("arrival", sa.Integer, nullable=False, unique=True),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("sha256", SHA256, nullable=False),
        sa.Column("original_path", sa.Text, nullable=False),
        sa.Column("stored_path", sa.Text, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("file_format", sa.Text, nullable=False),
        sa.Column("compression", sa.Text, nullable=False),
        sa.Column("state", one_of("import_state", "LANDING", "LANDED", "LOADED", "FAILED"), nullable=False),
        sa.Column("first_seen_at", INSTANT, nullable=False),
        sa.Column("landed_at", INSTANT),
        sa.Column("landed_by", sa.Text, nullable=False),
        sa.Column("on_duplicate", sa.Text, nullable=False),
        sa.Column("landed", sa.BigInteger, nullable=False),
        sa.Column("accepted", sa.BigInteger, nullable=False),
        sa.Column("duplicate", sa.BigInteger, nullable=False),
        sa.Column("superseded", sa.BigInteger, nullable=False),
        sa.Column("rejected", sa.BigInteger, nullable=False),
        sa.Column("schema_versions", sa.Text, nullable=False),
        sa.Column("ignored_columns", sa.Text, nullable=False),
        sa.Column("note", sa.Text, nullable=False),
        sa.CheckConstraint("landed = accepted + duplicate + superseded + rejected", name="counts_reconcile"),
        sa.CheckConstraint(
            "accepted >= 0 AND duplicate >= 0 AND superseded >= 0 AND rejected >= 0",
            name="counts_are_counts",
        ),
    )
    op.create_index("imports_by_content", "imports", ["source", "sha256"])
    op.create_table(
        "import_days",
        sa.Column("import_id", sa.Text, sa.ForeignKey("imports.import_id"), primary_key=True),
        sa.Column("event_date", sa.Date, primary_key=True),
        sa.Column("events", sa.BigInteger, nullable=False),
        sa.Column("displaced", sa.BigInteger, nullable=False),
    )
    op.create_index("import_days_by_date", "import_days", ["event_date"])
    refuse_changes_of("manifests", "a manifest never changes: a correction is a new manifest")
    refuse_changes_of("events", "an event never changes: what happened has happened")


def refuse_changes_of(table: str, message: str) -> None:
    if op.get_bind().dialect.name == "sqlite":
        for verb in ("update", "delete"):
            op.execute(
                f"CREATE TRIGGER {table}_refuse_{verb} BEFORE {verb.upper()} ON {table} "
                f"BEGIN SELECT RAISE(ABORT, '{message}'); END"
            )
        return
    op.execute(
        f"CREATE FUNCTION {table}_refuse() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{message}'; END $$"
    )
    op.execute(
        f"CREATE TRIGGER {table}_refuse_change BEFORE UPDATE OR DELETE ON {table} "
        f"FOR EACH ROW EXECUTE FUNCTION {table}_refuse()"
    )
    op.execute(
        f"CREATE TRIGGER {table}_refuse_truncate BEFORE TRUNCATE ON {table} "
        f"FOR EACH STATEMENT EXECUTE FUNCTION {table}_refuse()"
    )
