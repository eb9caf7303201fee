"""Schema of the ledger: its tables, and the constraints that the database enforces.

A new ledger is created from it (`creation`, with partial indexes, triggers and views); an earlier one is brought to it
by the Alembic revisions under `migrations/`. Instants come back aware and in UTC, documents as canonical JSON text,
file sets with every file in them. `table_name` and `partition_date` are called so because `table` and `partition` are
words of SQL.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Date,
    DateTime,
    Dialect,
    Enum,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    and_,
)
from sqlalchemy.types import TypeDecorator

from backfill_assets.core.identity import DataFile, FileSet, canonical_json
from backfill_assets.ledger.findings import SampleKind
from backfill_assets.ledger.records import Action, TableAct
from backfill_assets.ledger.states import (
    ActState,
    ApprovalState,
    ChunkState,
    ImportState,
    PublicationState,
    ReplayState,
    RunState,
    SetState,
    VersionState,
)
from backfill_assets.planning.manifest_parts import CauseKind, Mode, RunPurpose

# Column types of the ledger: instants, documents and file sets, as both databases keep them.


class UtcDateTime(TypeDecorator[datetime]):
    """An aware instant. PostgreSQL keeps it as such; SQLite has no such type and keeps its UTC wall time."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """The instant as the database keeps it; a naive one could mean any of 24 hours and is a mistake."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"an instant without a time zone cannot be kept: {value!r}")
        in_utc = value.astimezone(UTC)
        return in_utc.replace(tzinfo=None) if dialect.name == "sqlite" else in_utc

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002 - the signature is SQLAlchemy's
        """The instant, aware and in UTC whatever the time zone of the database session is."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class CanonicalJson(TypeDecorator[Any]):
    """A document as its one canonical text, so that what is stored is also what is digested."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any | None, dialect: Dialect) -> str | None:  # noqa: ARG002 - the signature is SQLAlchemy's
        """The canonical text."""
        return None if value is None else canonical_json(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any | None:  # noqa: ARG002 - the signature is SQLAlchemy's
        """The document."""
        return None if value is None else json.loads(value)


class FileSetText(TypeDecorator[FileSet]):
    """A file set, one `[path, size, rows, sha256, stamp]` per file, in the order of paths."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: FileSet | None, dialect: Dialect) -> str | None:  # noqa: ARG002 - the signature is SQLAlchemy's
        """The file set as text."""
        if value is None:
            return None
        return canonical_json([[f.path, f.size_bytes, f.rows, f.sha256, f.stamp] for f in value.files])

    def process_result_value(self, value: str | None, dialect: Dialect) -> FileSet | None:  # noqa: ARG002 - the signature is SQLAlchemy's
        """The file set."""
        if value is None:
            return None
        return FileSet.of(
            DataFile(path=path, size_bytes=size, rows=rows, sha256=sha256, stamp=stamp)
            for path, size, rows, sha256, stamp in json.loads(value)
        )


HEAD_REVISION = "0001"
"""The newest revision under `migrations/`; repeated here so that opening an up-to-date ledger need not load Alembic."""

SHA256 = String(64)


def _one_of(values: type[StrEnum], name: str) -> Enum:
    return Enum(values, name=name, native_enum=False, create_constraint=True, length=16)


def _measured_file_set() -> tuple[Column[Any], ...]:
    """The columns of a file set that planning asks for, so that it need not read the set: 100,000 partitions take
    part in a plan."""
    return (
        Column("files_digest", SHA256, nullable=False),
        Column("file_count", Integer, nullable=False),
        Column("size_bytes", BigInteger, nullable=False),
    )


def _verdict() -> tuple[Column[Any], ...]:
    """A gate's verdict."""
    kinds: Any = {"blocking": Boolean, "passed": Boolean, "digest": SHA256, "finding": Text, "observed": CanonicalJson}
    return (Column("gate", Text, primary_key=True), *(Column(name, kinds[name], nullable=False) for name in kinds))


metadata = MetaData()

manifests = Table(
    "manifests",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("digest", SHA256, nullable=False),
    Column("body", Text, nullable=False),
)
"""Agreed terms. Rows are never updated or deleted; triggers see to it."""

runs = Table(
    "runs",
    metadata,
    Column("run_id", Text, ForeignKey("manifests.run_id"), primary_key=True),
    Column("request_id", Text, nullable=False),
    Column("table_name", Text, nullable=False),
    Column("state", _one_of(RunState, "run_state"), nullable=False),
    Column("note", Text, nullable=False),
    Column("added_sequence", BigInteger, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    Column("attempt", Text, nullable=False, server_default=""),
    Column("kind", _one_of(RunPurpose, "run_kind"), nullable=False),
    Column("mode", _one_of(Mode, "run_mode"), nullable=False),
    Column("because", _one_of(CauseKind, "run_cause"), nullable=False),
    Column("first_partition", Date, nullable=False),
    Column("last_partition", Date, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("terms", CanonicalJson, nullable=False),
    Column("left_sequence", BigInteger),
    Column("gates", CanonicalJson),
    Index("runs_by_sequence", "added_sequence"),
    Index("runs_by_request", "request_id"),
    Index("runs_by_table", "table_name", "added_sequence"),
    Index("runs_by_table_and_state", "table_name", "state", "mode"),
    Index("runs_by_state", "state", "because"),
    Index("runs_by_cause", "because", "added_sequence"),
    Index("runs_by_mode", "mode", "added_sequence"),
)
"""How far each run is. `added_sequence` is the event that added it: the order in which runs were planned. `attempt`
names the process that stages or gates it: one that was given up for dead has another name, and is refused. `kind`,
`mode`, `because`, `priority`, `terms` and the first and last partition are the manifest's, repeated so that runs can be
chosen without reading manifests; an audit compares them. `left_sequence` is the event by which an owner left the
accepted rows as they are, although the run found others. `gates` digests the manifest's gates."""

run_follows = Table(
    "run_follows",
    metadata,
    Column("run_id", Text, ForeignKey("runs.run_id"), primary_key=True),
    Column("publication_id", Text, primary_key=True),
    Index("followers_by_publication", "publication_id", "run_id"),
)
"""Which publications a run follows, as its manifest names them; an audit compares them as well."""

leases = Table(
    "leases",
    metadata,
    Column("work_id", Text, primary_key=True),
    Column("attempt", Text, nullable=False),
    Column("holder", Text, nullable=False),
    Column("machine", Text, nullable=False),
    Column("since_at", UtcDateTime, nullable=False),
    Column("until_at", UtcDateTime, nullable=False),
)
"""The process that works on a run or a landed file, or whose turn it is to land files of a source, until when unless it
is renewed. A renewal is not an event: it changes no state, and what an attempt may still do is decided by
`runs.attempt`."""

approvals = Table(
    "approvals",
    metadata,
    Column("request_id", Text, primary_key=True),
    Column("state", _one_of(ApprovalState, "approval_state"), nullable=False),
    Column("manifest_digest", SHA256),
    Column("approved_by", Text),
    Column("approved_at", UtcDateTime),
    Column("note", Text, nullable=False),
    CheckConstraint(
        "state = 'DRAFT' OR (approved_by IS NOT NULL AND approved_at IS NOT NULL)",
        name="approved_by_somebody",
    ),
)
"""The approval that stands now of every run, act, capture and replay, by its id; the events tell of the earlier ones.
Where there is no manifest, the row that says what was asked for never changes."""

events = Table(
    "events",
    metadata,
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("at", UtcDateTime, nullable=False),
    Column("actor", Text, nullable=False),
    Column("entity", Text, nullable=False),
    Column("entity_id", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("from_state", Text, nullable=False),
    Column("to_state", Text, nullable=False),
    Column("payload", CanonicalJson, nullable=False),
    Column("digests", CanonicalJson, nullable=False),
    Column("previous_hash", SHA256, nullable=False),
    Column("hash", SHA256, nullable=False),
    Index("events_by_entity", "entity_id", "sequence"),
)
"""Events, chained by hash, with the digests of the rows that were changed (`row_digests`). Triggers refuse to
update or delete a row."""

samples = Table(
    "samples",
    metadata,
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", _one_of(SampleKind, "sample_kind"), primary_key=True),
    Column("run_id", Text, ForeignKey("runs.run_id"), nullable=False),
    Column("salt", Text, nullable=False),
    Column("body", Text, nullable=False),
    Index("samples_by_run", "run_id", "sequence"),
)
"""Values of rows, kept apart from the events because these can never be erased. The event of that sequence has the
digest of the row; the salt goes with the body, so that the digest proves nothing once both are erased."""

chain_head = Table(
    "chain_head",
    metadata,
    Column("only_row", Integer, primary_key=True, autoincrement=False),
    Column("sequence", BigInteger, nullable=False),
    Column("hash", SHA256, nullable=False),
    CheckConstraint("only_row = 1", name="only_one_head"),
)
"""The last event. Every writer locks this row first, so that there is one writer at a time and one chain."""

chunk_runs = Table(
    "chunk_runs",
    metadata,
    Column("run_id", Text, ForeignKey("runs.run_id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("partitions", CanonicalJson, nullable=False),
    Column("state", _one_of(ChunkState, "chunk_state"), nullable=False),
    Column("input_rows", BigInteger),
    Column("output_rows", BigInteger),
    Column("started_at", UtcDateTime, nullable=False),
    Column("finished_at", UtcDateTime),
    Column("attempt", Text, nullable=False),
    Column("checksum", Text, nullable=False),
    Column("seam_checksum", Text, nullable=False),
)
"""How far staging is. `attempt` names who computed a chunk; the run goes on from chunks of earlier attempts."""

candidate_partitions = Table(
    "candidate_partitions",
    metadata,
    Column("run_id", Text, ForeignKey("runs.run_id"), primary_key=True),
    Column("partition_date", Date, primary_key=True),
    Column("chunk", Integer, nullable=False),
    Column("files", FileSetText, nullable=False),
    Column("files_digest", SHA256, nullable=False),
    Column("row_count", BigInteger, nullable=False),
    Column("checksum", Text, nullable=False),
    Column("compared_version", Integer),
    Column("compared_digest", SHA256),
    Column("compared_checksum", Text),
    Column("provenance", CanonicalJson, nullable=False),
    Index("candidates_by_chunk", "run_id", "chunk"),
)
"""Partitions that a run has staged; `chunk` is the number of the chunk that staged it."""

gate_results = Table(
    "gate_results",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("partition_date", Date, primary_key=True),
    *_verdict(),
    ForeignKeyConstraint(
        ["run_id", "partition_date"],
        ["candidate_partitions.run_id", "candidate_partitions.partition_date"],
    ),
)

publications = Table(
    "publications",
    metadata,
    Column("publication_id", Text, primary_key=True),
    Column("run_id", Text, ForeignKey("runs.run_id"), nullable=False),
    Column("action", _one_of(Action, "publication_action"), nullable=False),
    Column("table_name", Text, nullable=False),
    Column("state", _one_of(PublicationState, "publication_state"), nullable=False),
    Column("asked_by", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("undoes", Text, ForeignKey("publications.publication_id")),
    Column("lineage_digest", Text, nullable=False),
    Column("begun_sequence", BigInteger, nullable=False),
    Column("started_at", UtcDateTime, nullable=False),
    Column("finished_at", UtcDateTime),
    Column("delta_version", BigInteger),
    Column("log", CanonicalJson),
    Column("note", Text, nullable=False),
    Index("publications_by_run", "run_id"),
    Index("publications_by_table", "table_name", "begun_sequence"),
    Index("publications_by_state", "state", "begun_sequence"),
)

publication_changes = Table(
    "publication_changes",
    metadata,
    Column("publication_id", Text, ForeignKey("publications.publication_id"), primary_key=True),
    Column("partition_date", Date, primary_key=True),
    Column("expected_version", Integer, nullable=False),
    Column("expected_files", FileSetText, nullable=False),
    Column("new_files", FileSetText, nullable=False),
    Column("row_count", BigInteger, nullable=False),
    Column("checksum", Text, nullable=False),
    Column("restores", Integer),
    Column("provenance", CanonicalJson, nullable=False),
    *_measured_file_set(),
)

partition_versions = Table(
    "partition_versions",
    metadata,
    Column("table_name", Text, primary_key=True),
    Column("partition_date", Date, primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("month", Integer, nullable=False),
    Column("state", _one_of(VersionState, "version_state"), nullable=False),
    Column("run_id", Text, ForeignKey("runs.run_id"), nullable=False),
    Column("publication_id", Text, ForeignKey("publications.publication_id"), nullable=False),
    Column("files", FileSetText, nullable=False),
    Column("row_count", BigInteger, nullable=False),
    Column("checksum", Text, nullable=False),
    Column("replaces", Integer, nullable=False),
    Column("delta_version", BigInteger, nullable=False),
    Column("accepted_at", UtcDateTime, nullable=False),
    Column("provenance", CanonicalJson, nullable=False),
    *_measured_file_set(),
    Column("removed_at", UtcDateTime),
    CheckConstraint("version > 0 AND replaces < version", name="versions_count_up"),
    Index("versions_by_run", "run_id", "state"),
    Index("versions_by_publication", "publication_id", "month"),
)
"""What readers see of a partition, and saw before. `month` is that of the partition, such as 202410. Versions are
digested by publication and month, so that the next publication of one day does not read thousands of others."""

gate_reads = Table(
    "gate_reads",
    metadata,
    Column("run_id", Text, ForeignKey("runs.run_id"), primary_key=True),
    Column("gate", Text, primary_key=True),
    Column("inputs", CanonicalJson, nullable=False),
    Column("reference_versions", CanonicalJson, nullable=False),
)
"""What gates have read besides what their run pins: if it is not what readers see at the swap, they are asked again."""

verifications = Table(
    "verifications",
    metadata,
    Column("publication_id", Text, ForeignKey("publications.publication_id"), primary_key=True),
    Column("partition_date", Date, primary_key=True),
    Column("version", Integer, nullable=False),
    Column("provenance", CanonicalJson, nullable=False),
    Index("verifications_by_partition", "partition_date", "version"),
)
"""Accepted versions that a publication found equal to what it computed, and left where they are (early cutoff)."""

checked_gates = Table(
    "checked_gates",
    metadata,
    Column("table_name", Text, primary_key=True),
    Column("partition_date", Date, primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    *_verdict(),
    Column("month", Integer, nullable=False),
    Column("run_id", Text, ForeignKey("runs.run_id"), nullable=False),
    Column("term", String(16), nullable=False),
    Column("checked_at", UtcDateTime, nullable=False),
    ForeignKeyConstraint(partition_versions.primary_key.columns.keys(), [*partition_versions.primary_key.columns]),
)
"""The last check of each gate on accepted versions. `run_id` made the version; `term` digests what the gate demands."""

restatement_sets = Table(
    "restatement_sets",
    metadata,
    Column("set_id", Text, ForeignKey("manifests.run_id"), primary_key=True),
    Column("name", Text, nullable=False),
    Column("state", _one_of(SetState, "set_state"), nullable=False),
    Column("note", Text, nullable=False),
    Column("added_sequence", BigInteger, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
)
"""Runs that were agreed together. The set's own document is a row of `manifests`, final like every other."""

outbox = Table(
    "outbox",
    metadata,
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("publication_id", Text, ForeignKey("publications.publication_id"), nullable=False),
    Column("run_id", Text, ForeignKey("runs.run_id"), nullable=False),
    Column("table_name", Text, nullable=False),
    Column("partitions", CanonicalJson, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("delivered_at", UtcDateTime),
    Column("withdrawn_at", UtcDateTime),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("note", Text, nullable=False, server_default=""),
    Index("one_entry_per_publication", "publication_id", unique=True),
)
"""What publications ask of dependents, one entry each. It is delivered when every follow-up that it asks for is
planned, and withdrawn when its publication is undone or a person cancels it. `attempts` counts the plans that failed,
and `note` says why the last one did, or why it was withdrawn."""

freezes = Table(
    "freezes",
    metadata,
    Column("freeze_id", Text, primary_key=True),
    Column("table_name", Text, nullable=False),
    Column("grain", Text, nullable=False),
    Column("first_partition", Date, nullable=False),
    Column("last_partition", Date, nullable=False),
    Column("until_at", UtcDateTime, nullable=False),
    Column("only_run", Text, ForeignKey("manifests.run_id")),
    Column("asked_by", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("begun_at", UtcDateTime, nullable=False),
    Column("ended_at", UtcDateTime),
    Column("ended_by", Text),
    Index("freezes_by_table", "table_name", "until_at"),
)
"""Partitions over which runs wait. One ends at `until_at` without a write; `ended_at` is set only when a person ends it
before."""

captures = Table(
    "captures",
    metadata,
    Column("capture_id", Text, primary_key=True),
    Column("number", Integer, nullable=False, unique=True),
    Column("source", Text, nullable=False),
    Column("family", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("stream", Text, nullable=False),
    Column("period_from", UtcDateTime),
    Column("period_to", UtcDateTime),
    Column("is_live", Boolean, nullable=False),
    Column("is_whole", Boolean, nullable=False),
    Column("resolved_at", UtcDateTime, nullable=False),
    Column("asked_by", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("pinned", CanonicalJson, nullable=False),
    Column("spans", CanonicalJson, nullable=False),
    Column("policy", CanonicalJson, nullable=False),
    Column("waits", Boolean, nullable=False),
    Index("captures_by_source", "source", "number"),
)
"""Periods of streams that were resolved to positions, and what these rest on."""

captured_files = Table(
    "captured_files",
    metadata,
    Column("capture_id", Text, ForeignKey("captures.capture_id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("stream_partition", Text, nullable=False),
    Column("range_from", Text, nullable=False),
    Column("range_to", Text, nullable=False),
    Column("records", BigInteger, nullable=False),
    Column("first_at", UtcDateTime),
    Column("last_at", UtcDateTime),
    Column("sha256", SHA256, nullable=False),
    Column("stored_path", Text, nullable=False, unique=True),
    Column("size_bytes", BigInteger, nullable=False),
    Column("file_format", Text, nullable=False),
    Column("compression", Text, nullable=False),
    Column("captured_at", UtcDateTime, nullable=False),
)
"""Files that hold positions of a stream, from when they are durable; `imports` has what landed of them."""

replays = Table(
    "replays",
    metadata,
    Column("replay_id", Text, primary_key=True),
    Column("number", Integer, nullable=False, unique=True),
    Column("subject", Text, nullable=False),
    Column("table_name", Text, nullable=False),
    Column("period_from", UtcDateTime),
    Column("period_to", UtcDateTime),
    Column("parts", CanonicalJson, nullable=False),
    Column("family", Text, nullable=False),
    Column("stream", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("mark", Text, nullable=False),
    Column("stream_partitions", Integer, nullable=False),
    Column("is_live", Boolean, nullable=False),
    Column("identity", Text),
    Column("contract", Text, nullable=False),
    Column("state", _one_of(ReplayState, "replay_state"), nullable=False),
    Column("sender", Text),
    Column("progress", BigInteger),
    Column("sent", BigInteger),
    Column("left_out", BigInteger),
    Column("failure", Text),
    Column("ends", CanonicalJson, nullable=False),
    Column("asked_by", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("asked_at", UtcDateTime, nullable=False),
    Column("policy", CanonicalJson, nullable=False),
    Column("sent_at", UtcDateTime),
    Column("closed_by", Text),
    Column("closed_at", UtcDateTime),
    Index("replays_by_state", "state", "stream", "target"),
)
"""What is sent to a topic or a stream again, and what became of it. `parts` are its inputs in the order in which they
are sent. How far the sending is, a topic's own cluster knows, in the transactions that have the records; of a stream,
`progress` says it, and `sender` which process may go on."""

table_acts = Table(
    "table_acts",
    metadata,
    Column("act_id", Text, primary_key=True),
    Column("number", Integer, nullable=False, unique=True),
    Column("act", _one_of(TableAct, "table_act"), nullable=False),
    Column("name", Text, nullable=False),
    Column("table_name", Text, nullable=False),
    Column("from_table", Text, nullable=False),
    Column("state", _one_of(ActState, "act_state"), nullable=False),
    Column("asked_by", Text, nullable=False),
    Column("asked_at", UtcDateTime, nullable=False),
    Column("reason", Text, nullable=False),
    Column("policy", CanonicalJson, nullable=False),
    Column("waits", Boolean, nullable=False),
    Column("done_at", UtcDateTime),
    Column("done_sequence", BigInteger),
    Column("undone_at", UtcDateTime),
    Index("table_acts_by_name", "name", "done_sequence"),
)
"""Acts on the versions of a table. The last CUT_OVER of a name that is DONE says which table its readers are shown: one
row changes it, and so one transaction."""

compared_partitions = Table(
    "compared_partitions",
    metadata,
    Column("table_name", Text, primary_key=True),
    Column("partition_date", Date, primary_key=True),
    Column("with_table", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("with_version", Integer, nullable=False),
    Column("agreed", BigInteger, nullable=False),
    Column("changed", BigInteger, nullable=False),
    Column("only_here", BigInteger, nullable=False),
    Column("only_there", BigInteger, nullable=False),
    Column("explained", BigInteger, nullable=False),
    Column("terms", SHA256, nullable=False),
)
"""The latest comparison of each partition of a version with the one that readers are shown, by key. `terms` is the
digest of the differences that were expected."""

compared_days = Table(
    "compared_days",
    metadata,
    Column("table_name", Text, primary_key=True),
    Column("compared_on", Date, primary_key=True),
    Column("with_table", Text, nullable=False),
    Column("compared_at", UtcDateTime, nullable=False),
    Column("partition_count", Integer, nullable=False),
    Column("agreed", BigInteger, nullable=False),
    Column("differing", BigInteger, nullable=False),
    Column("explained", BigInteger, nullable=False),
    Column("is_clean", Boolean, nullable=False),
)
"""What the comparison of all partitions of a version came to, by day. A day that was not clean once stays so."""

imports = Table(
    "imports",
    metadata,
    Column("import_id", Text, primary_key=True),
    Column("arrival", Integer, nullable=False, unique=True),
    Column("source", Text, nullable=False),
    Column("family", Text, nullable=False),
    Column("range_from", Text, nullable=False),
    Column("range_to", Text, nullable=False),
    Column("sha256", SHA256, nullable=False),
    Column("original_path", Text, nullable=False),
    Column("stored_path", Text, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("file_format", Text, nullable=False),
    Column("compression", Text, nullable=False),
    Column("state", _one_of(ImportState, "import_state"), nullable=False),
    Column("first_seen_at", UtcDateTime, nullable=False),
    Column("landed_at", UtcDateTime),
    Column("landed_by", Text, nullable=False),
    Column("on_duplicate", Text, nullable=False),
    Column("landed", BigInteger, nullable=False),
    Column("accepted", BigInteger, nullable=False),
    Column("duplicate", BigInteger, nullable=False),
    Column("superseded", BigInteger, nullable=False),
    Column("rejected", BigInteger, nullable=False),
    Column("keys_current", BigInteger, nullable=False, server_default="0"),
    Column("keys_deleted", BigInteger, nullable=False, server_default="0"),
    Column("keys_withdrawn", BigInteger, nullable=False, server_default="0"),
    Column("schema_versions", CanonicalJson, nullable=False),
    Column("ignored_columns", CanonicalJson, nullable=False),
    Column("note", Text, nullable=False),
    Column("contract", Integer, nullable=False, server_default="1"),
    Column("keyless", BigInteger, nullable=False, server_default="0"),
    Column("conformed", FileSetText),
    Column("judged_at", UtcDateTime),
    Column("taken_as_first", CanonicalJson),
    Column("reading", SHA256),
    Column("rejected_on", CanonicalJson),
    CheckConstraint("landed = accepted + duplicate + superseded + rejected", name="counts_reconcile"),
    CheckConstraint("accepted >= 0 AND duplicate >= 0 AND superseded >= 0 AND rejected >= 0", name="counts_are_counts"),
    Index("imports_by_content", "source", "sha256"),
)

import_days = Table(
    "import_days",
    metadata,
    Column("import_id", Text, ForeignKey("imports.import_id"), primary_key=True),
    Column("event_date", Date, primary_key=True),
    Column("events", BigInteger, nullable=False),
    Column("displaced", BigInteger, nullable=False),
    Column("deleted", BigInteger, nullable=False),
    Column("withdrawn", BigInteger, nullable=False),
    Column("restored", BigInteger, nullable=False),
    Column("unknown", BigInteger, nullable=False, server_default="0"),
    Index("import_days_by_date", "event_date"),
)

IS_FOUND_EQUAL = and_(
    partition_versions.c.table_name == publications.c.table_name,
    partition_versions.c.partition_date == verifications.c.partition_date,
    partition_versions.c.version == verifications.c.version,
)
"""Whether a version is one that a verification of a publication names."""
