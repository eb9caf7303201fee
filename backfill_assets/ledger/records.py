"""Records of the ledger: frozen dataclasses, one per row.

Times are aware UTC. Partitions are first days. `files` are complete file sets, so a snapshot needs no table log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import Any, Self

from backfill_assets.core.identity import FileSet, LogEvidence
from backfill_assets.core.lease import Lease
from backfill_assets.ledger.provenance import NOTHING_RECORDED, Provenance
from backfill_assets.ledger.states import (
    ApprovalState,
    ChunkState,
    PublicationState,
    ReplayState,
    RunState,
    SetState,
    VersionState,
)
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import CauseKind, Kind, Mode
from backfill_assets.planning.policy import Policy
from backfill_assets.planning.sets import SetManifest, is_set


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalGrounds:
    """Why the approver of a run may approve it.

    Attributes:
        groups: The approver's groups that count.
        approvers_version: The version of `approvers.yaml` that lists these groups.
        approvers_sha256: sha256 of that file.
    """

    groups: tuple[str, ...]
    approvers_version: str
    approvers_sha256: str

    @classmethod
    def parse(cls, payload: Mapping[str, Any]) -> Self | None:
        """The grounds in the payload of an approval's event; None where any person but the requester may approve."""
        if "groups" not in payload:
            return None
        version, sha256 = payload["approvers_version"], payload["approvers_sha256"]
        return cls(groups=tuple(payload["groups"]), approvers_version=version, approvers_sha256=sha256)


class TableAct(StrEnum):
    """What is done with a version of a table as a whole: it is kept up to date beside the table that readers are shown,
    or not any more; readers are cut over to it; or it is given up for good."""

    START = "START"
    STOP = "STOP"
    CUT_OVER = "CUT_OVER"
    RETIRE = "RETIRE"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHeader:
    """A run without its manifest: what it is, and how far.

    Attributes:
        kind, mode, because: As the manifest says.
        sequence: The event that planned it: the order in which runs were planned.
        first, last: Its first and last partition.
        state: How far it is.
        approval: APPROVED only while a valid approval of `manifest_digest` stands.
        approved_by: Who gave it; None while DRAFT.
        approved_at: When, or None.
        updated_at: When its state changed last.
        note: The reason for its present state, such as why it failed.
        lease: The process that works on it, or did when it stopped; None when no process stages or gates it.
    """

    run_id: str
    table: str
    kind: Kind
    mode: Mode
    because: CauseKind
    first: date
    last: date
    sequence: int
    manifest_digest: str
    state: RunState
    approval: ApprovalState
    approved_by: str | None
    approved_at: datetime | None
    updated_at: datetime
    note: str = ""
    lease: Lease | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord(RunHeader):
    """A run with its manifest.

    Attributes:
        manifest: Its contract.
    """

    manifest: Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRecord:
    """One chunk of a run: partitions that are computed at once. Key: run_id, number.

    Attributes:
        run_id: The run.
        number: Its place in the run, from 1.
        partitions: The first days of its partitions.
        state: How far it is.
        input_rows: How many rows it read; None while it runs.
        output_rows: How many rows it wrote, or None.
        started_at: When it began.
        finished_at: When it was done, or None.
        attempt: Who computes it; only that attempt can finish it.
        checksum: Order-independent content checksum of its rows, where it is a snapshot that the next chunk continues;
            empty otherwise, and until it is done.
        seam_checksum: The same of what was computed with it of its neighbours, for the proof of the window; empty where
            that is nothing.
    """

    run_id: str
    number: int
    partitions: tuple[date, ...]
    state: ChunkState
    input_rows: int | None
    output_rows: int | None
    started_at: datetime
    finished_at: datetime | None
    attempt: str = ""
    checksum: str = ""
    seam_checksum: str = ""

    @property
    def seconds(self) -> float:
        """How long it was computed; 0 until it is done."""
        return (self.finished_at - self.started_at).total_seconds() if self.finished_at else 0.0


LOST = "lost:"
"""What stands before the recorded checksum of accepted rows whose files are gone or damaged."""

OTHER_COLUMNS = "other columns:"
"""What stands before that of accepted rows whose columns were declared otherwise, so that no row can be compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidatePartition:
    """One staged partition of a run. Key: run_id, partition.

    Attributes:
        checksum: The order-independent content checksum of its business columns; empty until it is gated.
        compared_version: The accepted version that the gates compared it with; 0 when the partition had none; None
            until it is gated.
        compared_digest: The file set digest of that version.
        compared_checksum: The content checksum of its files as the gates read them. Files that were tampered with or
            damaged have another one than the ledger recorded when they were accepted. Where they cannot be read as they
            were accepted, the recorded one behind `LOST` or `OTHER_COLUMNS`: it equals no checksum of rows.
        provenance: What it was computed from.
    """

    run_id: str
    partition: date
    files: FileSet
    rows: int
    checksum: str = ""
    compared_version: int | None = None
    compared_digest: str | None = None
    compared_checksum: str | None = None
    provenance: Provenance = NOTHING_RECORDED

    @property
    def replaces_lost(self) -> bool:
        """Whether the accepted files are gone or damaged, so that it was compared with what was recorded of them."""
        return (self.compared_checksum or "").startswith(LOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionVersion:
    """One claim that was ever accepted. Key: table, partition, version.

    Attributes:
        version: Counts up with every publication that changes the partition.
        state: Whether readers see it.
        publication_id: The publication that made it visible.
        files: Its files.
        rows: How many rows it has.
        checksum: The content checksum of its rows.
        replaces: The version that was accepted before it; 0 when there was none. A rollback brings that one back.
        delta_version: The table version whose commit made it visible.
        accepted_at: When readers saw it first.
        provenance: What it was computed from: landed files, or the digests of the inputs in its window.
        removed_at: When retention removed its files; None while they are there.
    """

    table: str
    partition: date
    version: int
    state: VersionState
    run_id: str
    publication_id: str
    files: FileSet
    rows: int
    checksum: str
    replaces: int
    delta_version: int
    accepted_at: datetime
    provenance: Provenance = NOTHING_RECORDED
    removed_at: datetime | None = None


class Action(StrEnum):
    """What a publication does: bring new files in, or bring the earlier ones back."""

    PUBLISH = "PUBLISH"
    ROLLBACK = "ROLLBACK"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChange:
    """What a publication does to one partition.

    Attributes:
        expected_version: The version that must be the accepted one; 0 for none.
        expected: Its files, which the table must hold for the partition.
        new: The files that take their place.
        rows: Rows in `new`.
        checksum: Content checksum of `new`.
        restores: For a rollback, the version that is accepted again; 0 for none. None for a publication.
    """

    partition: date
    expected_version: int
    expected: FileSet
    new: FileSet
    rows: int
    checksum: str
    restores: int | None = None
    provenance: Provenance = NOTHING_RECORDED


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedPartition:
    """A partition that a run computed again and found equal to the accepted version, which therefore stays.

    Attributes:
        version: The accepted version; 0 for a partition that has none and got no rows.
        files: Its files, which the table must hold when the rest of the run is published.
        provenance: What the equal rows were computed from this time.
    """

    partition: date
    version: int
    files: FileSet
    provenance: Provenance = NOTHING_RECORDED


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """A time during which readers saw one version of a partition.

    Attributes:
        version: The version; 0 for none.
        publication_id: The publication or rollback that began it.
        since: When it began.
        until: When it ended; null while it lasts.
    """

    version: int
    publication_id: str
    since: datetime
    until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationIntent:
    """A swap that is about to be tried, as it is written to the ledger first.

    Attributes:
        verified: What was found equal and is not swapped.
        undoes: For a rollback, the publication that it undoes.
        lineage_digest: Of the row of `lineage.runs` that is there before its rows become visible; empty for a rollback,
            and for a publication that swaps nothing.
    """

    publication_id: str
    run_id: str
    action: Action
    table: str
    by: str
    reason: str
    changes: tuple[PartitionChange, ...]
    undoes: str | None = None
    verified: tuple[VerifiedPartition, ...] = ()
    lineage_digest: str = ""

    @property
    def partitions(self) -> tuple[date, ...]:
        """What it names, in order: none for the rollback of a publication that had found everything equal."""
        return tuple(sorted([*(c.partition for c in self.changes), *(found.partition for found in self.verified)]))


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationRecord(PublicationIntent):
    """A swap that was intended, and what became of it.

    Attributes:
        log: What the log of the table contained when it had landed; null before, and where nothing was swapped.
    """

    state: PublicationState
    started_at: datetime
    finished_at: datetime | None
    delta_version: int | None
    log: LogEvidence | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationHeader:
    """A swap that was intended, without the partitions that it changes.

    Attributes:
        publication_id: Names it.
        run_id: The run whose rows it made visible, or took back.
        table: The table that it changed.
        action: What it does.
        by: The person who asked for it.
        reason: Why.
        undoes: For a rollback, the publication that it undoes.
        sequence: The event that began it: the order in which publications were begun.
        state: How far it is.
        started_at: When it was intended.
        finished_at: When the ledger knew its outcome, or null.
        delta_version: The version of the table that it made; null while it is not known.
        note: What is to be known of its state; empty when there is nothing.
    """

    publication_id: str
    run_id: str
    table: str
    action: Action
    by: str
    reason: str
    undoes: str | None
    sequence: int
    state: PublicationState
    started_at: datetime
    finished_at: datetime | None
    delta_version: int | None
    note: str = ""

    @property
    def at(self) -> datetime:
        """Its time wherever it is shown: that of its outcome, which readers saw from then on; before, its intent's."""
        return self.finished_at or self.started_at


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackOrder:
    """A rollback that takes dependents along, noted before the first of them is undone.

    Attributes:
        of: The run or set that is rolled back, after its dependents.
        dependents: Runs, in the order in which they are undone.
    """

    of: str
    dependents: tuple[str, ...]
    by: str
    reason: str

    @property
    def is_of_set(self) -> bool:
        return is_set(self.of)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRecord:
    """A restatement set: its document, how far its publication is, and the runs that belong to it, in order.

    Attributes:
        manifest: What was agreed.
        digest: The sha256 of the document: what an approval of the set approves.
        state: How far it is.
        updated_at: When its state changed last.
        note: The reason for its present state; empty when there is none.
    """

    set_id: str
    manifest: SetManifest
    digest: str
    state: SetState
    updated_at: datetime
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxEntry:
    """A publication that dependents should follow. `sequence` only grows.

    Attributes:
        delivered_at: When every follow-up that it asks for was planned.
        withdrawn_at: When its publication was undone, or a person cancelled what it asks for.
        attempts: How many plans of its follow-ups have failed.
        note: Why the last plan failed, or why it was withdrawn.
    """

    sequence: int
    publication_id: str
    run_id: str
    table: str
    partitions: tuple[date, ...]
    created_at: datetime
    delivered_at: datetime | None
    withdrawn_at: datetime | None = None
    attempts: int = 0
    note: str = ""

    @property
    def is_open(self) -> bool:
        return self.delivered_at is None and self.withdrawn_at is None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRecord:
    """One entry of the hash chain: `hash = sha256(previous_hash + canonical JSON of the entry)`.

    Attributes:
        digests: By table and entity, the digest of its rows before and after what happened (`row_digests`).
    """

    sequence: int
    at: datetime
    actor: str
    entity: str
    entity_id: str
    action: str
    from_state: str
    to_state: str
    payload: Mapping[str, Any]
    digests: Mapping[str, Mapping[str, Sequence[str]]]
    previous_hash: str
    hash: str


class PartKind(StrEnum):
    """What a replay reads: a captured file, of a topic or a stream; a version of a partition, whose rows are sent; one
    beside it, whose keys have a row; and the keys that have none any more, each sent as a record without a value."""

    CAPTURED = "captured"
    SHARD = "shard"
    PARTITION = "partition"
    BESIDE = "beside"
    GONE = "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPart:
    """One input of a replay, which never changes.

    Attributes:
        kind: What it is.
        name: The path of the file relative to the landing place, or the first day of the partition.
        digest: The sha256 of the file; of a partition, the digest of its file set; of keys, their checksum.
        records: How many records it has that are sent.
        size_bytes: How large its files are.
        stream: Of a captured file, what people call its stream; else empty.
        stream_partition: Of a captured file, the partition of its stream; else empty.
        version: Of a partition, its version. Of keys that landed, the arrival of the last import that counts; of those
            that a run took away, 0.
        replaces: Of a partition that a run published, the version before it, whose keys that are gone are deleted in
            the topic; else 0.
    """

    kind: PartKind
    name: str
    digest: str
    records: int
    size_bytes: int
    stream: str = ""
    stream_partition: str = ""
    version: int = 0
    replaces: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRecord:
    """Something that is sent to a topic or a stream again.

    Attributes:
        replay_id: `rep-` and a number.
        subject: What was asked for: a run, or a table.
        table: The table.
        period_from: Only records from then on; null for all.
        period_to: Only records before; null for all.
        parts: The inputs, in the order in which they are sent.
        family: What it is sent to: `kafka` for a topic, `kinesis` for a stream.
        stream: The id of the cluster of the topic; of a stream, where it is.
        target: The topic or the stream.
        mark: What a target that was created for it carries, and its transactions are called by.
        stream_partitions: How many partitions the topic, or shards the stream, has.
        is_live: Whether the topic was there before, so that another person has to approve it.
        identity: The id of the target; null before it is known to be there.
        contract: Names the columns that its rows are sent with; empty where captured records are sent.
        state: How far it is.
        sent: How many records were sent; null before all are.
        left_out: How many captured records were left out, of other times, captured twice, or of one value with another;
            null before all are sent.
        failure: Why it failed; null for one that did not.
        ends: The position behind the last record, by partition or shard, when all were sent.
        by: Who asked for it.
        reason: Why.
        asked_at: When.
        policy: The policy of the table when it was asked for.
        approved_by: Who approved it; null before, and where no approval is required.
        approved_at: When.
        sender: Of a stream, which process may write to it; null before one did.
        progress: Of a stream, how many records are in it for certain; null before any was sent.
        sent_at: When all were sent.
        closed_by: Who ended it.
        closed_at: When.
    """

    replay_id: str
    subject: str
    table: str
    period_from: datetime | None
    period_to: datetime | None
    parts: tuple[ReplayPart, ...]
    family: str
    stream: str
    target: str
    mark: str
    stream_partitions: int
    is_live: bool
    identity: str | None
    contract: str
    state: ReplayState
    sent: int | None
    left_out: int | None
    failure: str | None
    ends: Mapping[str, str]
    by: str
    reason: str
    asked_at: datetime
    policy: Policy
    approved_by: str | None = None
    approved_at: datetime | None = None
    sender: str | None = None
    progress: int | None = None
    sent_at: datetime | None = None
    closed_by: str | None = None
    closed_at: datetime | None = None

    @property
    def waits(self) -> bool:
        """Whether another person has to approve it first."""
        return self.is_live and self.approved_by is None

    @property
    def inputs(self) -> int:
        """How many files, or partitions of the table, are sent."""
        return sum(each.kind not in (PartKind.BESIDE, PartKind.GONE) for each in self.parts)

    @property
    def period(self) -> tuple[datetime, datetime] | None:
        """The period of which records are sent; None for all."""
        return None if self.period_from is None or self.period_to is None else (self.period_from, self.period_to)

    @property
    def is_as_captured(self) -> bool:
        """Whether captured records are sent as they were, and not the rows that readers see."""
        return any(each.kind in (PartKind.CAPTURED, PartKind.SHARD) for each in self.parts)

    @property
    def deleted_keys(self) -> int:
        """How many of the records have no value, since their key has no row any more."""
        return sum(each.records for each in self.parts if each.kind is PartKind.GONE)

    @property
    def records(self) -> int:
        """How many records they have."""
        return sum(each.records for each in self.parts)

    @property
    def size_bytes(self) -> int:
        """How large their files are."""
        return sum(each.size_bytes for each in self.parts)
