"""What exactly was agreed? The immutable contract of a run.

A manifest is a document: its canonical JSON is what the ledger stores, its sha256 is what an approver approves. It
holds nothing that is not known when the run is planned.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from functools import cached_property
from typing import Any

from backfill_assets.identity import canonical_json, sha256_text
from backfill_assets.planning.partitions import Grain

FORMAT = 1


class Kind(StrEnum):
    """Why history is computed (DESIGN, Vocabulary)."""

    BACKFILL = "BACKFILL"
    REPROCESSING = "REPROCESSING"
    RESTATEMENT = "RESTATEMENT"
    REPAIR = "REPAIR"
    MIGRATION = "MIGRATION"
    BOOTSTRAP = "BOOTSTRAP"
    LIVE = "LIVE"


class Mode(StrEnum):
    """How a run may act on the world."""

    LIVE = "LIVE"
    BACKFILL = "BACKFILL"
    REPLAY = "REPLAY"
    DRY_RUN = "DRY_RUN"
    RECONCILIATION = "RECONCILIATION"


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedPartition:
    """One input partition as it was when the run was planned.

    Attributes:
        partition: Its first day.
        version: The partition version in the ledger.
        digest: The digest of its file set.
    """

    partition: date
    version: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedInput:
    """One input of the run: the table, bound to an argument of the transform, and its exact partition versions."""

    argument: str
    table: str
    partitions: tuple[PinnedPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedReference:
    """A reference document: its declared version and the sha256 of its bytes."""

    name: str
    version: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GateTerm:
    """A gate as agreed: its name, what it demands in words, and whether it blocks publication."""

    name: str
    demands: str
    blocking: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of the run.

    Attributes:
        chunk_partitions: The most output partitions that are computed in one go.
        max_rows: More staged rows than this stop the run before its gates; None for no limit.
    """

    chunk_partitions: int
    max_rows: int | None = None


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The contract of one run over one table.

    Attributes:
        run_id: Names the run everywhere: ledger, file paths, lineage columns, Dagster tags.
        reason: Why, in the words of whoever asked.
        requested_by: Who asked.
        requested_at: When, aware UTC.
        partitions: The output partitions, in order; nothing else may change.
        imports: For a source table, the ids of the landed files it is built from; empty for derived tables.
        inputs: For a derived table, the exact input versions, warm-up included.
        configuration: What else steers the transform (the window, for example), canonical values only.
        supersedes: The run that this one corrects, if it was said.
        because: The publication that this run follows, for runs that nobody asked for by hand.
    """

    run_id: str
    kind: Kind
    mode: Mode
    reason: str
    requested_by: str
    requested_at: datetime
    domain: str
    table: str
    grain: Grain
    partition_column: str
    partitions: tuple[date, ...]
    transform: str
    transform_version: str
    code_digest: str
    configuration: Mapping[str, Any]
    inputs: tuple[PinnedInput, ...] = ()
    imports: tuple[str, ...] = ()
    references: tuple[PinnedReference, ...] = ()
    gates: tuple[GateTerm, ...] = ()
    limits: Limits
    publish_mode: str = "REPLACE_PARTITIONS"
    side_effects: str = "FORBIDDEN"
    supersedes: str | None = None
    because: str | None = None

    @cached_property
    def document(self) -> Mapping[str, Any]:
        """The manifest as plain values, in the shape that `backfill plan --json` documents."""
        return {
            "format": FORMAT,
            "run_id": self.run_id,
            "kind": str(self.kind),
            "mode": str(self.mode),
            "reason": self.reason,
            "requested_by": self.requested_by,
            "requested_at": self.requested_at.isoformat(),
            "domain": self.domain,
            "target": {
                "table": self.table,
                "grain": str(self.grain),
                "partition_column": self.partition_column,
                "partitions": [partition.isoformat() for partition in self.partitions],
                "publish_mode": self.publish_mode,
            },
            "transform": {
                "name": self.transform,
                "version": self.transform_version,
                "code_digest": self.code_digest,
            },
            "configuration": dict(self.configuration),
            "inputs": [
                {
                    "argument": pinned.argument,
                    "table": pinned.table,
                    "partitions": [[p.partition.isoformat(), p.version, p.digest] for p in pinned.partitions],
                }
                for pinned in self.inputs
            ],
            "imports": list(self.imports),
            "references": [{"name": r.name, "version": r.version, "sha256": r.sha256} for r in self.references],
            "gates": [{"name": g.name, "demands": g.demands, "blocking": g.blocking} for g in self.gates],
            "limits": {
                "chunk_partitions": self.limits.chunk_partitions,
                "max_rows": self.limits.max_rows,
            },
            "side_effects": self.side_effects,
            "supersedes": self.supersedes,
            "because": self.because,
        }

    @cached_property
    def text(self) -> str:
        """The canonical JSON that is stored and digested."""
        return canonical_json(self.document)

    @cached_property
    def digest(self) -> str:
        """The sha256 of the canonical JSON: what an approval approves."""
        return sha256_text(self.text)

    @cached_property
    def configuration_digest(self) -> str:
        """The sha256 of the configuration alone, part of a partition version's provenance."""
        return sha256_text(canonical_json(dict(self.configuration)))

    @staticmethod
    def parse(text: str) -> Manifest:
        """The manifest that a canonical JSON text holds; `parse(m.text) == m`.

        Raises:
            KeyError, ValueError: The text is not a manifest of format 1. The ledger only hands out texts whose digest
                it has checked, so this means a foreign writer.
        """
        document = json.loads(text)
        if document["format"] != FORMAT:
            raise ValueError(f"a manifest of format {document['format']}; this code reads format {FORMAT}")
        target, transform = document["target"], document["transform"]
        return Manifest(
            run_id=document["run_id"],
            kind=Kind(document["kind"]),
            mode=Mode(document["mode"]),
            reason=document["reason"],
            requested_by=document["requested_by"],
            requested_at=datetime.fromisoformat(document["requested_at"]),
            domain=document["domain"],
            table=target["table"],
            grain=Grain(target["grain"]),
            partition_column=target["partition_column"],
            partitions=tuple(date.fromisoformat(day) for day in target["partitions"]),
            publish_mode=target["publish_mode"],
            transform=transform["name"],
            transform_version=transform["version"],
            code_digest=transform["code_digest"],
            configuration=document["configuration"],
            inputs=tuple(_parse_input(pinned) for pinned in document["inputs"]),
            imports=tuple(document["imports"]),
            references=tuple(PinnedReference(**reference) for reference in document["references"]),
            gates=tuple(GateTerm(**gate) for gate in document["gates"]),
            limits=Limits(**document["limits"]),
            side_effects=document["side_effects"],
            supersedes=document["supersedes"],
            because=document["because"],
        )


def _parse_input(document: Mapping[str, Any]) -> PinnedInput:
    return PinnedInput(
        argument=document["argument"],
        table=document["table"],
        partitions=tuple(
            PinnedPartition(partition=date.fromisoformat(day), version=version, digest=digest)
            for day, version, digest in document["partitions"]
        ),
    )
