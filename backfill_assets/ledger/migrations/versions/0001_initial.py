"""The first schema. Frozen: a later shape is a later revision."""

import sqlalchemy as sa
from alembic import op

from backfill_assets.ledger.append_only import EVENT_IS_FINAL, MANIFEST_IS_FINAL, refuse_changes
from backfill_assets.ledger.views import create_views

revision = "0001"
down_revision = None

SHA256 = sa.String(64)
INSTANT = sa.DateTime(timezone=True)


def one_of(name: str, values: str) -> sa.Enum:
    return sa.Enum(*values.split(), name=name, native_enum=False, create_constraint=True, length=16)


def index_where(name: str, table: str, columns: list[str], condition: str, *, unique: bool = False) -> None:
    where = sa.text(condition)
    op.create_index(name, table, columns, unique=unique, sqlite_where=where, postgresql_where=where)


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
                "PLANNED STAGING STAGED GATING PASSED BLOCKED FAILED PUBLISHING PUBLISHED VERIFIED SUPERSEDED ROLLED_BACK CANCELLED",
            ),
            nullable=False,
        ),
        sa.Column("note", sa.Text, nullable=False),
        sa.Column("added_sequence", sa.BigInteger, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.Column("attempt", sa.Text, nullable=False, server_default=""),
        sa.Column(
            "kind",
            one_of("run_kind", "BACKFILL REPROCESSING RESTATEMENT REPAIR MIGRATION BOOTSTRAP LIVE EXPIRY"),
            nullable=False,
        ),
        sa.Column("mode", one_of("run_mode", "LIVE BACKFILL REPLAY DRY_RUN RECONCILIATION"), nullable=False),
        sa.Column("because", one_of("run_cause", "PERSON FOLLOW_UP LIVE"), nullable=False),
        sa.Column("first_partition", sa.Date, nullable=False),
        sa.Column("last_partition", sa.Date, nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("left_sequence", sa.BigInteger),
    )
    op.create_index("runs_by_cause", "runs", ["because", "added_sequence"])
    op.create_index("runs_by_mode", "runs", ["mode", "added_sequence"])
    op.create_index("runs_by_sequence", "runs", ["added_sequence"])
    op.create_index("runs_by_state", "runs", ["state", "because"])
    op.create_index("runs_by_table", "runs", ["table_name", "added_sequence"])
    op.create_index("runs_by_table_and_state", "runs", ["table_name", "state", "mode"])
    op.create_table(
        "run_follows",
        sa.Column("run_id", sa.Text, sa.ForeignKey("runs.run_id"), primary_key=True),
        sa.Column("publication_id", sa.Text, primary_key=True),
    )
    op.create_index("followers_by_publication", "run_follows", ["publication_id", "run_id"])
    op.create_table(
        "leases",
        sa.Column("work_id", sa.Text, primary_key=True),
        sa.Column("attempt", sa.Text, nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("machine", sa.Text, nullable=False),
        sa.Column("since_at", INSTANT, nullable=False),
        sa.Column("until_at", INSTANT, nullable=False),
    )
    op.create_table(
        "approvals",
        sa.Column("run_id", sa.Text, sa.ForeignKey("manifests.run_id"), primary_key=True),
        sa.Column("state", one_of("approval_state", "DRAFT APPROVED"), nullable=False),
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
        sa.Column("digests", sa.Text, nullable=False),
        sa.Column("previous_hash", SHA256, nullable=False),
        sa.Column("hash", SHA256, nullable=False),
    )
    op.create_index("events_by_entity", "events", ["entity_id", "sequence"])
    index_where("rollback_events", "events", ["sequence"], "entity = 'rollback'")
    op.create_table(
        "samples",
        sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("kind", one_of("sample_kind", "CHANGED_ROWS FAILING_KEYS BREAKDOWN PARTITION_CELLS ROW_CHANGES"), primary_key=True),
        sa.Column("run_id", sa.Text, sa.ForeignKey("runs.run_id"), nullable=False),
        sa.Column("salt", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_index("samples_by_run", "samples", ["run_id", "sequence"])
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
        sa.Column("state", one_of("chunk_state", "RUNNING DONE"), nullable=False),
        sa.Column("input_rows", sa.BigInteger),
        sa.Column("output_rows", sa.BigInteger),
        sa.Column("started_at", INSTANT, nullable=False),
        sa.Column("finished_at", INSTANT),
        sa.Column("attempt", sa.Text, nullable=False),
        sa.Column("checksum", sa.Text, nullable=False),
        sa.Column("seam_checksum", sa.Text, nullable=False),
    )
    op.create_table(
        "candidate_partitions",
        sa.Column("run_id", sa.Text, sa.ForeignKey("runs.run_id"), primary_key=True),
        sa.Column("partition_date", sa.Date, primary_key=True),
        sa.Column("chunk", sa.Integer, nullable=False),
        sa.Column("files", sa.Text, nullable=False),
        sa.Column("files_digest", SHA256, nullable=False),
        sa.Column("row_count", sa.BigInteger, nullable=False),
        sa.Column("checksum", sa.Text, nullable=False),
        sa.Column("compared_version", sa.Integer),
        sa.Column("compared_digest", SHA256),
        sa.Column("compared_checksum", sa.Text),
        sa.Column("provenance", sa.Text, nullable=False),
    )
    op.create_index("candidates_by_chunk", "candidate_partitions", ["run_id", "chunk"])
    op.create_table(
        "gate_results",
        sa.Column("run_id", sa.Text, primary_key=True),
        sa.Column("partition_date", sa.Date, primary_key=True),
        sa.Column("gate", sa.Text, primary_key=True),
        sa.Column("blocking", sa.Boolean, nullable=False),
        sa.Column("passed", sa.Boolean, nullable=False),
        sa.Column("digest", SHA256, nullable=False),
        sa.Column("finding", sa.Text, nullable=False),
        sa.Column("observed", sa.Text, nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id", "partition_date"], ["candidate_partitions.run_id", "candidate_partitions.partition_date"]
        ),
    )
    op.create_table(
        "publications",
        sa.Column("publication_id", sa.Text, primary_key=True),
        sa.Column("run_id", sa.Text, sa.ForeignKey("runs.run_id"), nullable=False),
        sa.Column("action", one_of("publication_action", "PUBLISH ROLLBACK"), nullable=False),
        sa.Column("table_name", sa.Text, nullable=False),
        sa.Column("state", one_of("publication_state", "PUBLISHING PUBLISHED ABANDONED ROLLED_BACK"), nullable=False),
        sa.Column("asked_by", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("undoes", sa.Text, sa.ForeignKey("publications.publication_id")),
        sa.Column("lineage_digest", sa.Text, nullable=False),
        sa.Column("begun_sequence", sa.BigInteger, nullable=False),
        sa.Column("started_at", INSTANT, nullable=False),
        sa.Column("finished_at", INSTANT),
        sa.Column("delta_version", sa.BigInteger),
        sa.Column("note", sa.Text, nullable=False),
    )
    index_where("one_open_publication_per_table", "publications", ["table_name"], "state = 'PUBLISHING'", unique=True)
    op.create_index("publications_by_run", "publications", ["run_id"])
    op.create_index("publications_by_state", "publications", ["state", "begun_sequence"])
    op.create_index("publications_by_table", "publications", ["table_name", "begun_sequence"])
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
        sa.Column("files_digest", SHA256, nullable=False),
        sa.Column("file_count", sa.Integer, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "partition_versions",
        sa.Column("table_name", sa.Text, primary_key=True),
        sa.Column("partition_date", sa.Date, primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("month", sa.Integer, nullable=False),
        sa.Column("state", one_of("version_state", "ACCEPTED SUPERSEDED ROLLED_BACK EXPIRED"), nullable=False),
        sa.Column("run_id", sa.Text, sa.ForeignKey("runs.run_id"), nullable=False),
        sa.Column("publication_id", sa.Text, sa.ForeignKey("publications.publication_id"), nullable=False),
        sa.Column("files", sa.Text, nullable=False),
        sa.Column("row_count", sa.BigInteger, nullable=False),
        sa.Column("checksum", sa.Text, nullable=False),
        sa.Column("replaces", sa.Integer, nullable=False),
        sa.Column("delta_version", sa.BigInteger, nullable=False),
        sa.Column("accepted_at", INSTANT, nullable=False),
        sa.Column("provenance", sa.Text, nullable=False),
        sa.Column("files_digest", SHA256, nullable=False),
        sa.Column("file_count", sa.Integer, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("removed_at", INSTANT),
        sa.CheckConstraint("version > 0 AND replaces < version", name="versions_count_up"),
    )
    index_where(
        "one_accepted_version_per_partition",
        "partition_versions",
        ["table_name", "partition_date"],
        "state = 'ACCEPTED'",
        unique=True,
    )
    op.create_index("versions_by_publication", "partition_versions", ["publication_id", "month"])
    op.create_index("versions_by_run", "partition_versions", ["run_id", "state"])
    op.create_table(
        "verifications",
        sa.Column("publication_id", sa.Text, sa.ForeignKey("publications.publication_id"), primary_key=True),
        sa.Column("partition_date", sa.Date, primary_key=True),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("provenance", sa.Text, nullable=False),
    )
    op.create_index("verifications_by_partition", "verifications", ["partition_date", "version"])
    op.create_table(
        "restatement_sets",
        sa.Column("set_id", sa.Text, sa.ForeignKey("manifests.run_id"), primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column(
            "state",
            one_of(
                "set_state",
                "PENDING PUBLISHING PARTLY_PUBLISHED PUBLISHED VERIFIED ROLLING_BACK ROLLED_BACK CANCELLED",
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
    op.create_table(
        "outbox",
        sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("publication_id", sa.Text, sa.ForeignKey("publications.publication_id"), nullable=False),
        sa.Column("run_id", sa.Text, sa.ForeignKey("runs.run_id"), nullable=False),
        sa.Column("table_name", sa.Text, nullable=False),
        sa.Column("partitions", sa.Text, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("delivered_at", INSTANT),
        sa.Column("withdrawn_at", INSTANT),
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("note", sa.Text, nullable=False, server_default=""),
    )
    op.create_index("one_entry_per_publication", "outbox", ["publication_id"], unique=True)
    index_where("open_outbox_entries", "outbox", ["sequence"], "delivered_at IS NULL AND withdrawn_at IS NULL")
    index_where("unwithdrawn_outbox_entries", "outbox", ["publication_id"], "withdrawn_at IS NULL")
    op.create_table(
        "freezes",
        sa.Column("freeze_id", sa.Text, primary_key=True),
        sa.Column("table_name", sa.Text, nullable=False),
        sa.Column("grain", sa.Text, nullable=False),
        sa.Column("first_partition", sa.Date, nullable=False),
        sa.Column("last_partition", sa.Date, nullable=False),
        sa.Column("until_at", INSTANT, nullable=False),
        sa.Column("only_run", sa.Text, sa.ForeignKey("manifests.run_id")),
        sa.Column("asked_by", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("begun_at", INSTANT, nullable=False),
        sa.Column("ended_at", INSTANT),
        sa.Column("ended_by", sa.Text),
    )
    op.create_index("freezes_by_table", "freezes", ["table_name", "until_at"])
    op.create_table(
        "captures",
        sa.Column("capture_id", sa.Text, primary_key=True),
        sa.Column("number", sa.Integer, nullable=False, unique=True),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("family", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("stream", sa.Text, nullable=False),
        sa.Column("period_from", INSTANT),
        sa.Column("period_to", INSTANT),
        sa.Column("is_live", sa.Boolean, nullable=False),
        sa.Column("is_whole", sa.Boolean, nullable=False),
        sa.Column("resolved_at", INSTANT, nullable=False),
        sa.Column("asked_by", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("pinned", sa.Text, nullable=False),
        sa.Column("spans", sa.Text, nullable=False),
        sa.Column("policy", sa.Text, nullable=False),
        sa.Column("waits", sa.Boolean, nullable=False),
        sa.Column("approved_by", sa.Text),
        sa.Column("approved_at", INSTANT),
    )
    op.create_index("captures_by_source", "captures", ["source", "number"])
    op.create_table(
        "captured_files",
        sa.Column("capture_id", sa.Text, sa.ForeignKey("captures.capture_id"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("stream_partition", sa.Text, nullable=False),
        sa.Column("range_from", sa.Text, nullable=False),
        sa.Column("range_to", sa.Text, nullable=False),
        sa.Column("records", sa.BigInteger, nullable=False),
        sa.Column("first_at", INSTANT),
        sa.Column("last_at", INSTANT),
        sa.Column("sha256", SHA256, nullable=False),
        sa.Column("stored_path", sa.Text, nullable=False, unique=True),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("file_format", sa.Text, nullable=False),
        sa.Column("compression", sa.Text, nullable=False),
        sa.Column("captured_at", INSTANT, nullable=False),
    )
    op.create_table(
        "replays",
        sa.Column("replay_id", sa.Text, primary_key=True),
        sa.Column("number", sa.Integer, nullable=False, unique=True),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("table_name", sa.Text, nullable=False),
        sa.Column("period_from", INSTANT),
        sa.Column("period_to", INSTANT),
        sa.Column("parts", sa.Text, nullable=False),
        sa.Column("family", sa.Text, nullable=False),
        sa.Column("stream", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("mark", sa.Text, nullable=False),
        sa.Column("stream_partitions", sa.Integer, nullable=False),
        sa.Column("is_live", sa.Boolean, nullable=False),
        sa.Column("identity", sa.Text),
        sa.Column("state", one_of("replay_state", "ASKED SENDING SENT CLOSED"), nullable=False),
        sa.Column("sender", sa.Text),
        sa.Column("progress", sa.BigInteger),
        sa.Column("sent", sa.BigInteger),
        sa.Column("ends", sa.Text, nullable=False),
        sa.Column("asked_by", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("asked_at", INSTANT, nullable=False),
        sa.Column("policy", sa.Text, nullable=False),
        sa.Column("approved_by", sa.Text),
        sa.Column("approved_at", INSTANT),
        sa.Column("sent_at", INSTANT),
        sa.Column("closed_by", sa.Text),
        sa.Column("closed_at", INSTANT),
    )
    op.create_index("replays_by_state", "replays", ["state", "stream", "target"])
    op.create_table(
        "table_acts",
        sa.Column("act_id", sa.Text, primary_key=True),
        sa.Column("number", sa.Integer, nullable=False, unique=True),
        sa.Column("act", one_of("table_act", "START STOP CUT_OVER RETIRE"), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("table_name", sa.Text, nullable=False),
        sa.Column("from_table", sa.Text, nullable=False),
        sa.Column("state", one_of("act_state", "ASKED DONE UNDONE CANCELLED"), nullable=False),
        sa.Column("asked_by", sa.Text, nullable=False),
        sa.Column("asked_at", INSTANT, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("policy", sa.Text, nullable=False),
        sa.Column("waits", sa.Boolean, nullable=False),
        sa.Column("approved_by", sa.Text),
        sa.Column("approved_at", INSTANT),
        sa.Column("done_at", INSTANT),
        sa.Column("done_sequence", sa.BigInteger),
        sa.Column("undone_at", INSTANT),
    )
    op.create_index("table_acts_by_name", "table_acts", ["name", "done_sequence"])
    op.create_table(
        "compared_partitions",
        sa.Column("table_name", sa.Text, primary_key=True),
        sa.Column("partition_date", sa.Date, primary_key=True),
        sa.Column("with_table", sa.Text, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("with_version", sa.Integer, nullable=False),
        sa.Column("agreed", sa.BigInteger, nullable=False),
        sa.Column("changed", sa.BigInteger, nullable=False),
        sa.Column("only_here", sa.BigInteger, nullable=False),
        sa.Column("only_there", sa.BigInteger, nullable=False),
        sa.Column("explained", sa.BigInteger, nullable=False),
        sa.Column("terms", SHA256, nullable=False),
    )
    op.create_table(
        "compared_days",
        sa.Column("table_name", sa.Text, primary_key=True),
        sa.Column("compared_on", sa.Date, primary_key=True),
        sa.Column("with_table", sa.Text, nullable=False),
        sa.Column("compared_at", INSTANT, nullable=False),
        sa.Column("partition_count", sa.Integer, nullable=False),
        sa.Column("agreed", sa.BigInteger, nullable=False),
        sa.Column("differing", sa.BigInteger, nullable=False),
        sa.Column("explained", sa.BigInteger, nullable=False),
        sa.Column("is_clean", sa.Boolean, nullable=False),
    )
    op.create_table(
        "imports",
        sa.Column("import_id", sa.Text, primary_key=True),
        sa.Column("arrival", sa.Integer, nullable=False, unique=True),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("family", sa.Text, nullable=False),
        sa.Column("range_from", sa.Text, nullable=False),
        sa.Column("range_to", sa.Text, nullable=False),
        sa.Column("sha256", SHA256, nullable=False),
        sa.Column("original_path", sa.Text, nullable=False),
        sa.Column("stored_path", sa.Text, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("file_format", sa.Text, nullable=False),
        sa.Column("compression", sa.Text, nullable=False),
        sa.Column("state", one_of("import_state", "LANDING LANDED LOADED FAILED"), nullable=False),
        sa.Column("first_seen_at", INSTANT, nullable=False),
        sa.Column("landed_at", INSTANT),
        sa.Column("landed_by", sa.Text, nullable=False),
        sa.Column("on_duplicate", sa.Text, nullable=False),
        sa.Column("landed", sa.BigInteger, nullable=False),
        sa.Column("accepted", sa.BigInteger, nullable=False),
        sa.Column("duplicate", sa.BigInteger, nullable=False),
        sa.Column("superseded", sa.BigInteger, nullable=False),
        sa.Column("rejected", sa.BigInteger, nullable=False),
        sa.Column("keys_current", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("keys_deleted", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("keys_withdrawn", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("schema_versions", sa.Text, nullable=False),
        sa.Column("ignored_columns", sa.Text, nullable=False),
        sa.Column("note", sa.Text, nullable=False),
        sa.Column("contract", sa.Integer, nullable=False, server_default="1"),
        sa.CheckConstraint("landed = accepted + duplicate + superseded + rejected", name="counts_reconcile"),
        sa.CheckConstraint(
            "accepted >= 0 AND duplicate >= 0 AND superseded >= 0 AND rejected >= 0", name="counts_are_counts"
        ),
    )
    op.create_index("imports_by_content", "imports", ["source", "sha256"])
    op.create_table(
        "import_days",
        sa.Column("import_id", sa.Text, sa.ForeignKey("imports.import_id"), primary_key=True),
        sa.Column("event_date", sa.Date, primary_key=True),
        sa.Column("events", sa.BigInteger, nullable=False),
        sa.Column("displaced", sa.BigInteger, nullable=False),
        sa.Column("deleted", sa.BigInteger, nullable=False),
        sa.Column("withdrawn", sa.BigInteger, nullable=False),
        sa.Column("restored", sa.BigInteger, nullable=False),
    )
    op.create_index("import_days_by_date", "import_days", ["event_date"])
    refuse_changes(op.get_bind(), "manifests", MANIFEST_IS_FINAL)
    refuse_changes(op.get_bind(), "events", EVENT_IS_FINAL)
    create_views(op.get_bind())
