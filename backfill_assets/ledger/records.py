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
    made_by,
)
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import CauseKind, Mode, RunPurpose
from backfill_assets.planning.safeguards import Policy
from backfill_assets.planning.sets import SetManifest, is_set


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalGrounds:
    """The grounds on which a person may approve a run."""

    groups: tuple[str, ...]  #: The approver's groups that count.
    approvers_version: str  #: The version of `approvers.yaml` that lists these groups.
    approvers_sha256: str  #: sha256 of that file.

    @classmethod
    def parse(cls, payload: Mapping[str, Any]) -> Self | None:
        """The grounds in the payload of an approval's event; None where any person but the requester may approve."""
        if "groups" not in payload:
            return None
        version, sha256 = payload["approvers_version"], payload["approvers_sha256"]
        return cls(groups=tuple(payload["groups"]), approvers_version=version, approvers_sha256=sha256)


class TableAct(StrEnum):
    """An act on a version of a table as a whole: keep it up to date beside the table that readers are shown, or stop
    that; cut readers over to it; or give it up for good."""

    START = "START"
    STOP = "STOP"
    CUT_OVER = "CUT_OVER"
    RETIRE = "RETIRE"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHeader:
    """A run without its manifest: what it is, and how far."""

    run_id: str
    request_id: str  #: What is approved, published and undone with it: a request of several runs, or the run itself.
    table: str
    kind: RunPurpose  #: As the manifest says.
    mode: Mode  #: As the manifest says.
    because: CauseKind  #: As the manifest says.
    first: date  #: Its first and last partition.
    last: date  #: Its first and last partition.
    sequence: int  #: The event that planned it: the order in which runs were planned.
    manifest_digest: str
    state: RunState  #: How far it is.
    approval: ApprovalState  #: APPROVED only while a valid approval of `manifest_digest` stands.
    approved_by: str | None  #: Who gave it; None while DRAFT.
    approved_at: datetime | None  #: When, or None.
    updated_at: datetime  #: When its state changed last.
    note: str = ""  #: The reason for its present state, such as why it failed.
    #: The process that works on it, or did when it stopped; None when no process stages or gates it.
    lease: Lease | None = None

    @property
    def is_alone(self) -> bool:
        """True if the run is the only one of its request."""
        return self.request_id == self.run_id

    @property
    def makes(self) -> VersionState:
        """The state of the versions that its publication makes."""
        return made_by(self.kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord(RunHeader):
    """A run with its manifest."""

    manifest: Manifest  #: Its contract.


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRecord:
    """One chunk of a run: partitions that are computed at once. Key: run_id, number."""

    run_id: str  #: The run.
    number: int  #: Its place in the run, from 1.
    partitions: tuple[date, ...]  #: The first days of its partitions.
    state: ChunkState  #: How far it is.
    input_rows: int | None  #: How many rows it read; None while it runs.
    output_rows: int | None  #: How many rows it wrote, or None.
    started_at: datetime  #: When it began.
    finished_at: datetime | None  #: When it was done, or None.
    attempt: str = ""  #: Who computes it; only that attempt can finish it.
    #: Order-independent content checksum of its rows, where it is a snapshot that the next chunk continues; empty
    #: otherwise, and until it is done.
    checksum: str = ""
    #: The same of what was computed with it of its neighbours, for the proof of the window; empty where that is
    #: nothing.
    seam_checksum: str = ""

    @property
    def seconds(self) -> float:
        """The seconds for which it was computed; 0 until it is done."""
        return (self.finished_at - self.started_at).total_seconds() if self.finished_at else 0.0


LOST = "lost:"
"""The prefix of the recorded checksum of accepted rows whose files are gone or damaged."""

OTHER_COLUMNS = "other columns:"
"""The prefix of the recorded checksum of accepted rows whose columns were declared otherwise, so that no row can be
compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidatePartition:
    """One staged partition of a run. Key: run_id, partition."""

    run_id: str
    partition: date
    files: FileSet
    rows: int
    checksum: str = ""  #: The order-independent content checksum of its business columns; empty until it is gated.
    #: The accepted version that the gates compared it with; 0 when the partition had none; None until it is gated.
    compared_version: int | None = None
    compared_digest: str | None = None  #: The file set digest of that version.
    #: The content checksum of its files as the gates read them. Files that were tampered with or damaged have another
    #: one than the ledger recorded when they were accepted. Where they cannot be read as they were accepted, the
    #: recorded one behind `LOST` or `OTHER_COLUMNS`: it equals no checksum of rows.
    compared_checksum: str | None = None
    provenance: Provenance = NOTHING_RECORDED  #: What it was computed from.

    @property
    def replaces_lost(self) -> bool:
        """True if the accepted files are gone or damaged, so that it was compared with what was recorded of them."""
        return (self.compared_checksum or "").startswith(LOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionVersion:
    """One claim that was ever accepted. Key: table, partition, version."""

    table: str
    partition: date
    version: int  #: Counts up with every publication that changes the partition.
    state: VersionState  #: Whether readers see it.
    run_id: str
    publication_id: str  #: The publication that made it visible.
    files: FileSet  #: Its files.
    rows: int  #: How many rows it has.
    checksum: str  #: The content checksum of its rows.
    replaces: int  #: The version that was accepted before it; 0 when there was none. A rollback brings that one back.
    delta_version: int  #: The table version whose commit made it visible.
    accepted_at: datetime  #: When readers saw it first.
    #: What it was computed from: landed files, or the digests of the inputs in its window.
    provenance: Provenance = NOTHING_RECORDED
    removed_at: datetime | None = None  #: When retention removed its files; None while they are there.


class Action(StrEnum):
    """The direction of a publication: bring new files in, or bring the earlier ones back."""

    PUBLISH = "PUBLISH"
    ROLLBACK = "ROLLBACK"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChange:
    """A publication's change to one partition."""

    partition: date
    expected_version: int  #: The version that must be the accepted one; 0 for none.
    expected: FileSet  #: Its files, which the table must hold for the partition.
    new: FileSet  #: The files that take their place.
    rows: int  #: Rows in `new`.
    checksum: str  #: Content checksum of `new`.
    #: For a rollback, the version that is accepted again; 0 for none. None for a publication.
    restores: int | None = None
    provenance: Provenance = NOTHING_RECORDED


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedPartition:
    """A partition that a run computed again and found equal to the accepted version, which therefore stays."""

    partition: date
    version: int  #: The accepted version; 0 for a partition that has none and got no rows.
    files: FileSet  #: Its files, which the table must hold when the rest of the run is published.
    provenance: Provenance = NOTHING_RECORDED  #: What the equal rows were computed from this time.


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """A time during which readers saw one version of a partition."""

    version: int  #: The version; 0 for none.
    publication_id: str  #: The publication or rollback that began it.
    since: datetime  #: When it began.
    until: datetime | None  #: When it ended; null while it lasts.


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationIntent:
    """A swap that is about to be tried, as it is written to the ledger first."""

    publication_id: str
    run_id: str
    action: Action
    table: str
    by: str
    reason: str
    changes: tuple[PartitionChange, ...]
    undoes: str | None = None  #: For a rollback, the publication that it undoes.
    verified: tuple[VerifiedPartition, ...] = ()  #: What was found equal and is not swapped.
    #: Of the row of `lineage.runs` that is there before its rows become visible; empty for a rollback, and for a
    #: publication that swaps nothing.
    lineage_digest: str = ""

    @property
    def partitions(self) -> tuple[date, ...]:
        """The partitions that it names, in order: none for the rollback of a publication that had found everything
        equal."""
        return tuple(sorted([*(c.partition for c in self.changes), *(found.partition for found in self.verified)]))


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationRecord(PublicationIntent):
    """A swap that was intended, and what became of it."""

    state: PublicationState
    started_at: datetime
    finished_at: datetime | None
    delta_version: int | None
    #: What the log of the table contained when it had landed; null before, and where nothing was swapped.
    log: LogEvidence | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationHeader:
    """A swap that was intended, without the partitions that it changes."""

    publication_id: str  #: Names it.
    run_id: str  #: The run whose rows it made visible, or took back.
    table: str  #: The table that it changed.
    action: Action  #: What it does.
    by: str  #: The person who asked for it.
    reason: str  #: Why.
    undoes: str | None  #: For a rollback, the publication that it undoes.
    sequence: int  #: The event that began it: the order in which publications were begun.
    state: PublicationState  #: How far it is.
    started_at: datetime  #: When it was intended.
    finished_at: datetime | None  #: When the ledger knew its outcome, or null.
    delta_version: int | None  #: The version of the table that it made; null while it is not known.
    note: str = ""  #: What is to be known of its state; empty when there is nothing.

    @property
    def at(self) -> datetime:
        """Its time wherever it is shown: that of its outcome, which readers saw from then on; before, its intent's."""
        return self.finished_at or self.started_at


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackOrder:
    """A rollback that takes dependents along, noted before the first of them is undone."""

    of: str  #: The run or set that is rolled back, after its dependents.
    dependents: tuple[str, ...]  #: Runs, in the order in which they are undone.
    by: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRecord:
    """A restatement: its document, how far its publication is, and the runs that belong to it, in order."""

    set_id: str  #: Of a restatement of one run, the id of the run.
    manifest: SetManifest  #: What was agreed.
    digest: str  #: The sha256 of the document: what an approval of the set approves.
    state: SetState  #: How far it is.
    updated_at: datetime  #: When its state changed last.
    note: str = ""  #: The reason for its present state; empty when there is none.

    @property
    def is_alone(self) -> bool:
        """True for a restatement of one run, whose swap is all there is of its publication."""
        return not is_set(self.set_id)

    @property
    def run_ids(self) -> tuple[str, ...]:
        """Its runs in the order of publication."""
        return tuple(member.run_id for member in self.manifest.members)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxEntry:
    """A publication that dependents should follow. `sequence` only grows."""

    sequence: int
    publication_id: str
    run_id: str
    table: str
    partitions: tuple[date, ...]
    created_at: datetime
    delivered_at: datetime | None  #: When every follow-up that it asks for was planned.
    withdrawn_at: datetime | None = None  #: When its publication was undone, or a person cancelled what it asks for.
    attempts: int = 0  #: How many plans of its follow-ups have failed.
    note: str = ""  #: Why the last plan failed, or why it was withdrawn.

    @property
    def is_open(self) -> bool:
        return self.delivered_at is None and self.withdrawn_at is None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRecord:
    """One entry of the hash chain: `hash = sha256(previous_hash + canonical JSON of the entry)`."""

    sequence: int
    at: datetime
    actor: str
    entity: str
    entity_id: str
    action: str
    from_state: str
    to_state: str
    payload: Mapping[str, Any]
    #: By table and entity, the digest of its rows before and after what happened (`row_digests`).
    digests: Mapping[str, Mapping[str, Sequence[str]]]
    previous_hash: str
    hash: str


class PartKind(StrEnum):
    """The kind of a replay's input: a captured file of a topic or a stream; a version of a partition, whose rows are
    sent; one beside it, whose keys have a row; or the keys that have none any more, each sent as a record without a
    value."""

    CAPTURED = "captured"
    SHARD = "shard"
    PARTITION = "partition"
    BESIDE = "beside"
    GONE = "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPart:
    """One input of a replay, which never changes."""

    kind: PartKind  #: What it is.
    name: str  #: The path of the file relative to the landing place, or the first day of the partition.
    digest: str  #: The sha256 of the file; of a partition, the digest of its file set; of keys, their checksum.
    records: int  #: How many records it has that are sent.
    size_bytes: int  #: How large its files are.
    stream: str = ""  #: Of a captured file, what people call its stream; else empty.
    stream_partition: str = ""  #: Of a captured file, the partition of its stream; else empty.
    #: Of a partition, its version. Of keys that landed, the arrival of the last import that counts; of those that a run
    #: took away, 0.
    version: int = 0
    #: Of a partition that a run published, the version before it, whose keys that are gone are deleted in the topic;
    #: else 0.
    replaces: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRecord:
    """Something that is sent to a topic or a stream again."""

    replay_id: str  #: `rep-` and a number.
    subject: str  #: What was asked for: a run, or a table.
    table: str
    period_from: datetime | None  #: Only records from then on; null for all.
    period_to: datetime | None  #: Only records before; null for all.
    parts: tuple[ReplayPart, ...]  #: The inputs, in the order in which they are sent.
    family: str  #: What it is sent to: `kafka` for a topic, `kinesis` for a stream.
    stream: str  #: The id of the cluster of the topic; of a stream, where it is.
    target: str  #: The topic or the stream.
    mark: str  #: What a target that was created for it carries, and its transactions are called by.
    stream_partitions: int  #: How many partitions the topic, or shards the stream, has.
    is_live: bool  #: True if the topic was there before, so that another person has to approve it.
    identity: str | None  #: The id of the target; null before it is known to be there.
    contract: str  #: Names the columns that its rows are sent with; empty where captured records are sent.
    state: ReplayState  #: How far it is.
    sent: int | None  #: How many records were sent; null before all are.
    #: How many captured records were left out, of other times, captured twice, or of one value with another; null
    #: before all are sent.
    left_out: int | None
    failure: str | None  #: Why it failed; null for one that did not.
    ends: Mapping[str, str]  #: The position behind the last record, by partition or shard, when all were sent.
    by: str  #: Who asked for it.
    reason: str  #: Why.
    asked_at: datetime
    policy: Policy  #: The policy of the table when it was asked for.
    approved_by: str | None = None  #: Who approved it; null before, and where no approval is required.
    approved_at: datetime | None = None  #: When.
    sender: str | None = None  #: Of a stream, which process may write to it; null before one did.
    progress: int | None = None  #: Of a stream, how many records are in it for certain; null before any was sent.
    sent_at: datetime | None = None
    closed_by: str | None = None  #: Who ended it.
    closed_at: datetime | None = None

    @property
    def waits(self) -> bool:
        """True if another person has to approve it first."""
        return self.is_live and self.approved_by is None

    @property
    def inputs(self) -> int:
        """The number of files, or partitions of the table, that are sent."""
        return sum(each.kind not in (PartKind.BESIDE, PartKind.GONE) for each in self.parts)

    @property
    def period(self) -> tuple[datetime, datetime] | None:
        """The period of which records are sent; None for all."""
        return None if self.period_from is None or self.period_to is None else (self.period_from, self.period_to)

    @property
    def is_as_captured(self) -> bool:
        """True if captured records are sent as they were, and not the rows that readers see."""
        return any(each.kind in (PartKind.CAPTURED, PartKind.SHARD) for each in self.parts)

    @property
    def deleted_keys(self) -> int:
        """The number of records without a value, since their key has no row any more."""
        return sum(each.records for each in self.parts if each.kind is PartKind.GONE)

    @property
    def records(self) -> int:
        """The number of their records."""
        return sum(each.records for each in self.parts)

    @property
    def size_bytes(self) -> int:
        """The size of their files in bytes."""
        return sum(each.size_bytes for each in self.parts)
