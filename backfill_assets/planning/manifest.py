"""Manifest: the immutable contract of a run.

The ledger stores its canonical JSON, and an approver approves the sha256 of that. It contains only what is known when
the run is planned.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cached_property
from itertools import accumulate, takewhile
from typing import Any

from backfill_assets.calendar.partitions import Grain, Partitions, next_partition
from backfill_assets.calendar.windows import parse_window
from backfill_assets.core.columns import EVIDENCE_OF_RUN, PUBLISHED_AT, RUN_ID, ColumnChange
from backfill_assets.core.errors import BackfillError, sentence
from backfill_assets.core.identity import canonical_json, document_digest, plain, sha256_text
from backfill_assets.core.next_steps import NextStep
from backfill_assets.core.tariff import Cost
from backfill_assets.core.what_ran import COMMIT, DISTRIBUTIONS, IMAGE, TREE
from backfill_assets.planning.graph import TableInput, TableNode
from backfill_assets.planning.kinds.any_change import AnyChange, parse_change
from backfill_assets.planning.kinds.replace import REPLACE
from backfill_assets.planning.manifest_parts import (
    A_PERSON,
    CauseKind,
    GateTerm,
    InexactSum,
    KeysUnknown,
    Limits,
    Mode,
    MoreDays,
    PinnedInput,
    PinnedKeys,
    PinnedPartition,
    PinnedReference,
    Proof,
    Reason,
    ReferenceSemantics,
    RunCause,
    RunPurpose,
    SettledSnapshot,
    semantics_of,
)
from backfill_assets.planning.next_steps import plan_again
from backfill_assets.planning.safeguards import AgreedTerms, Policy, Safeguard, gate_digests

FORMAT = 1
"""The shape of the document; no other one is read."""


MERGED_WITH = "accepted rows"
"""What stands for the argument of a transform where a run reads the accepted rows of its own table."""


@dataclass(frozen=True, kw_only=True)
class DeclaredTerms:
    """The contribution of a table's declaration to a manifest."""

    domain: str
    partition_column: str
    transform: str  #: The transform that computes its partitions.
    transform_version: str  #: The registered version of that transform.
    code_digest: str  #: sha256 over the code of that transform.
    session_digest: str  #: The Spark settings that decide what rows mean.
    code_modules: tuple[str, ...] = ()  #: What the code digest is over.
    code_archive: str = ""  #: sha256 of the list of these modules in the archive; empty for the code of this project.
    notes: str = ""  #: What the author of that version tells reviewers.
    #: Of this project, PySpark and Python where the run was planned.
    versions: Mapping[str, str] = field(default_factory=dict)
    references: tuple[PinnedReference, ...] = ()  #: The versions of the reference documents that it reads.
    gates: tuple[GateTerm, ...] = ()  #: What is measured before it may be published.
    limits: Limits  #: The bounds of the run; null is no limit.
    policy: Policy  #: Whose approval publication asks for, as declared when the run was planned.
    #: Of a version of a table, the policy of the table whose readers may be shown it; None otherwise.
    name_policy: Policy | None = None
    safeguards: tuple[Safeguard, ...] = ()  #: What else the table declares that its author may not loosen alone.
    #: How the columns that readers see change with its publication, as it was when the run was planned.
    columns: tuple[ColumnChange, ...] = ()
    inexact: tuple[InexactSum, ...] = ()  #: The additions of floating-point numbers that its code shows.


@dataclass(frozen=True, kw_only=True)
class Manifest(DeclaredTerms):
    """The contract of one run over one table."""

    run_id: str  #: Names the run everywhere: ledger, file paths, lineage columns, Dagster tags.
    request_id: str  #: What it is approved with: a request of several runs, or the run itself.
    kind: RunPurpose  #: Why the partitions are computed.
    mode: Mode  #: What may become of them.
    reason: str  #: Why, in the requester's words.
    requested_by: str  #: The requester.
    requested_at: datetime  #: When, aware UTC.
    table: str  #: The table whose partitions it computes.
    grain: Grain  #: Whether a partition is a day or a month.
    partitions: tuple[date, ...]  #: The output partitions, in order; nothing else may change.
    #: What else steers the transform (the window, for example), canonical values only.
    configuration: Mapping[str, Any]
    inputs: tuple[PinnedInput, ...] = ()  #: For a derived table, the exact input versions, warm-up included.
    change: AnyChange = REPLACE  #: What it does to the accepted partitions.
    #: The accepted versions of its own table that it reads: those that it merges changes with, or the snapshot that it
    #: begins with and the one before it. None where it reads none. Of an expiry, all accepted snapshots: those of its
    #: partitions expire, the others stay.
    base: PinnedInput | None = None
    #: Accepted snapshots that are kept where the one before them turns out to be equal.
    settled: tuple[SettledSnapshot, ...] = ()
    #: The runs whose accepted rows are replaced where they differ, as it was when the run was planned.
    supersedes: tuple[str, ...] = ()
    #: What the accepted rows of its partitions were computed from and is not what it is computed from, as it was when
    #: the run was planned: why they can differ.
    changed: tuple[Reason, ...] = ()
    #: What made the run exist. Only the ledger makes one a follow-up (`OutboxWrites.add_follow_up`).
    cause: RunCause = A_PERSON
    #: How many partitions each chunk has, in order; they add up to all partitions. Empty for source tables, whose
    #: chunks all have the size of the limit.
    chunks: tuple[int, ...] = ()
    #: What the warm-up gate computes again; None for source tables and tables that opted out.
    proof: Proof | None = None
    #: The keys whose rows its report shows, because a person asked for them; None where none were asked for.
    shown: PinnedKeys | None = None
    #: Keys of its sources that were not known when it was planned, where publication waits for them: what it reads of
    #: their days is what was there before.
    unknown: tuple[KeysUnknown, ...] = ()

    @property
    def is_alone(self) -> bool:
        """True if the run is the only one of its request."""
        return self.request_id == self.run_id

    @cached_property
    def document(self) -> Mapping[str, Any]:
        """The manifest as plain values, in the shape that `backfill plan table --json` documents."""
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
                "partitions": plain(self.partitions),
                "change": self.change.document,
            },
            "transform": {"name": self.transform, "version": self.transform_version, "code_digest": self.code_digest},
            "configuration": dict(self.configuration),
            "inputs": [input_document(pinned) for pinned in self.inputs],
            **({"base": input_document(self.base)} if self.base else {}),
            **(
                {"settled": [[_pin_document(each.pin), _pin_document(each.after)] for each in self.settled]}
                if self.settled
                else {}
            ),
            **({"columns": plain(self.columns)} if self.columns else {}),
            **({"inexact": plain(self.inexact)} if self.inexact else {}),
            **({"changed": plain(self.changed)} if self.changed else {}),
            **({"shown": plain(self.shown)} if self.shown else {}),
            **({"unknown": plain(self.unknown)} if self.unknown else {}),
            "references": plain(self.references),
            "gates": [gate.document for gate in self.gates],
            "limits": _limits_document(self.limits),
            "chunks": list(self.chunks),
            "proof": self.proof and _proof_document(self.proof),
            "request_id": self.request_id,
            "session_settings": self.session_digest,
            "code_modules": list(self.code_modules),
            **({"code_archive": self.code_archive} if self.code_archive else {}),
            **({"notes": self.notes} if self.notes else {}),
            "versions": dict(self.versions),
            "supersedes": list(self.supersedes),
            **self.terms.document,
            "cause": plain(self.cause),
        }

    @property
    def terms(self) -> AgreedTerms:
        """The terms of the declaration that its author may not loosen alone."""
        return AgreedTerms(policy=self.policy, name_policy=self.name_policy, safeguards=self.safeguards)

    @property
    def gate_digests(self) -> Mapping[str, str]:
        """By name, the digests of its gates: with what its rows are measured."""
        return gate_digests(self.gates, self.safeguards)

    @property
    def pinned(self) -> tuple[PinnedInput, ...]:
        """Everything that it reads of tables: its inputs, and the accepted rows that it merges changes with."""
        return (*self.inputs, *([self.base] if self.base else []))

    @property
    def computed(self) -> tuple[date, ...]:
        """The partitions whose rows it computes; without any it starts no Spark."""
        return self.change.computed(self.partitions)

    @property
    def output(self) -> Partitions:
        """The partitions that it may change."""
        return Partitions.of(self.grain, self.partitions)

    @property
    def reference_semantics(self) -> ReferenceSemantics | None:
        """The semantics of its references; None without references."""
        return semantics_of(self.references)

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
            KeyError, ValueError: The text is not a manifest of this format. The ledger only hands out texts whose
                digest it has checked, so this means a foreign writer.
        """
        document = json.loads(text)
        if document["format"] != FORMAT:
            raise ValueError(f"a manifest of format {document['format']}; this code reads format {FORMAT}")
        target, transform, cause = document["target"], document["transform"], document["cause"]
        terms = AgreedTerms.parse(document)
        return Manifest(
            run_id=document["run_id"],
            kind=RunPurpose(document["kind"]),
            mode=Mode(document["mode"]),
            reason=document["reason"],
            requested_by=document["requested_by"],
            requested_at=datetime.fromisoformat(document["requested_at"]),
            domain=document["domain"],
            table=target["table"],
            grain=Grain(target["grain"]),
            partition_column=target["partition_column"],
            partitions=tuple(date.fromisoformat(day) for day in target["partitions"]),
            change=parse_change(target["change"]),
            transform=transform["name"],
            transform_version=transform["version"],
            code_digest=transform["code_digest"],
            configuration=document["configuration"],
            inputs=tuple(parse_input(pinned) for pinned in document["inputs"]),
            base=parse_input(document["base"]) if "base" in document else None,
            settled=tuple(
                SettledSnapshot(pin=_parse_pin(pin), after=_parse_pin(after))
                for pin, after in document.get("settled", ())
            ),
            columns=tuple(ColumnChange(**each) for each in document.get("columns", ())),
            inexact=tuple(
                InexactSum(**{**each, "columns": tuple(each["columns"])}) for each in document.get("inexact", ())
            ),
            changed=tuple(map(Reason.parse, document.get("changed", ()))),
            shown=PinnedKeys(**document["shown"]) if "shown" in document else None,
            unknown=tuple(
                KeysUnknown(**{**each, "days": tuple(map(date.fromisoformat, each["days"]))})
                for each in document.get("unknown", ())
            ),
            references=tuple(map(PinnedReference.parse, document["references"])),
            gates=tuple(map(GateTerm.parse, document["gates"])),
            limits=_parse_limits(document["limits"]),
            supersedes=tuple(document["supersedes"]),
            cause=RunCause(kind=CauseKind(cause["kind"]), publications=tuple(cause["publications"])),
            chunks=tuple(document["chunks"]),
            proof=document["proof"] and _parse_proof(document["proof"]),
            request_id=document["request_id"],
            session_digest=document["session_settings"],
            code_modules=tuple(document["code_modules"]),
            code_archive=document.get("code_archive", ""),
            notes=document.get("notes", ""),
            versions=document["versions"],
            policy=terms.policy,
            name_policy=terms.name_policy,
            safeguards=terms.safeguards,
        )


def input_document(pinned: PinnedInput) -> Mapping[str, Any]:
    """A pinned input as plain values; `parse_input(input_document(pinned)) == pinned`."""
    partitions = [_pin_document(pin) for pin in pinned.partitions]
    return {"argument": pinned.argument, "table": pinned.table, "partitions": partitions}


def _pin_document(pin: PinnedPartition) -> list[str | int]:
    return [pin.partition.isoformat(), pin.version, pin.digest, *([pin.from_run] if pin.from_run else [])]


def _limits_document(limits: Limits) -> Mapping[str, Any]:
    most = None
    if limits.max_cost is not None:
        core_seconds, amount = limits.max_cost.core_seconds, limits.max_cost.amount
        # Numbers as texts: a float has no canonical form.
        most = [repr(core_seconds), None if amount is None else repr(amount), limits.max_cost.currency]
    return {**plain(limits), "max_cost": most}


def _parse_limits(document: Mapping[str, Any]) -> Limits:
    most = None
    if document["max_cost"]:
        core_seconds, amount, currency = document["max_cost"]
        paid = None if amount is None else float(amount)
        most = Cost(core_seconds=float(core_seconds), amount=paid, currency=currency)
    return Limits(**{**document, "max_cost": most})


def _proof_document(proof: Proof) -> Mapping[str, Any]:
    return {
        "beside": proof.beside,
        "partitions": plain(proof.partitions),
        "more": [{"argument": m.argument, "days_back": m.back, "days_ahead": m.ahead} for m in proof.more],
        "inputs": [input_document(pinned) for pinned in proof.inputs],
    }


def _parse_proof(document: Mapping[str, Any]) -> Proof:
    return Proof(
        beside=document["beside"],
        partitions=tuple(date.fromisoformat(day) for day in document["partitions"]),
        more=tuple(
            MoreDays(argument=each["argument"], back=each["days_back"], ahead=each["days_ahead"])
            for each in document["more"]
        ),
        inputs=tuple(parse_input(pinned) for pinned in document["inputs"]),
    )


def parse_input(document: Mapping[str, Any]) -> PinnedInput:
    """The pinned input of a document."""
    return PinnedInput(**{**document, "partitions": tuple(map(_parse_pin, document["partitions"]))})


def _parse_pin(pin: list[Any]) -> PinnedPartition:
    day, version, digest, *rest = pin
    return PinnedPartition(
        partition=date.fromisoformat(day), version=version, digest=digest, from_run=rest[0] if rest else None
    )


def lineage(manifest: Manifest) -> Mapping[str, str]:
    """Where the rows of a run come from, by column: its row of `lineage.runs`, and part of its rows where their table
    declares so."""
    return {
        RUN_ID: manifest.run_id,
        "_kind": str(manifest.kind),
        "_mode": str(manifest.mode),
        "_transform": manifest.transform,
        "_transform_version": manifest.transform_version,
        "_input_version": _input_version(manifest.inputs),
        "_reference_versions": ";".join(f"{r.name}={r.version}" for r in manifest.references),
        "_restatement_reason": manifest.reason,
    }


def row_of_run(manifest: Manifest, published_at: datetime | None) -> Mapping[str, str]:
    """The row of a run in `lineage.runs`: its lineage and, as far as it is known, what was read and what ran.

    Args:
        published_at: When its first publication began.
    """
    commit = manifest.versions.get(COMMIT)
    if commit and manifest.versions.get(TREE) != "clean":
        commit += f" ({manifest.versions.get(TREE)})"
    days = ((each.table, [pin.partition for pin in each.partitions]) for each in manifest.inputs)
    ranges = ";".join(f"{table}={min(read)}..{max(read)}" for table, read in days if read)
    known = {
        "_input_range": ranges,
        "_commit": commit,
        "_distributions": manifest.versions.get(DISTRIBUTIONS),
        "_image": manifest.versions.get(IMAGE),
        PUBLISHED_AT: published_at and published_at.isoformat(),
    }
    return {**lineage(manifest), **{name: value for name, value in known.items() if value}}


def lineage_digest(row: Mapping[str, str | None]) -> str:
    """The digest of the row of a run: of its lineage, and of what is known besides, but for when it was published."""
    said = {n: v for n, v in row.items() if n not in EVIDENCE_OF_RUN or (v is not None and n != PUBLISHED_AT)}
    return document_digest(said)


def _input_version(inputs: tuple[PinnedInput, ...]) -> str:
    """A short name for the exact input versions of a run: per table, a digest of its pinned file sets."""
    return ";".join(
        f"{pinned.table}@{document_digest([[p.partition.isoformat(), p.digest] for p in pinned.partitions])[:16]}"
        for pinned in inputs
    )


def configuration_of(node: TableNode) -> Mapping[str, Any]:
    """The configuration of a derived table besides code and references: its windows, and its sources' contracts."""
    windows = {edge.argument: dict(edge.window.document) for edge in node.inputs}
    contracts = {edge.table: edge.contract for edge in node.inputs if edge.contract}
    return {"windows": windows, **({"contracts": contracts} if contracts else {}), **node.change.configuration}


def inputs_of(manifest: Manifest) -> tuple[TableInput, ...]:
    """The inputs of a run."""
    windows = manifest.configuration["windows"]
    return tuple(
        TableInput(argument=pinned.argument, table=pinned.table, window=parse_window(windows[pinned.argument]))
        for pinned in manifest.inputs
    )


def has_gaps(manifest: Manifest) -> bool:
    """True if a run leaves out partitions between its own."""
    return len(node_of(manifest).in_a_row(manifest.partitions)) > 1


def node_of(manifest: Manifest) -> TableNode:
    """The table of a run."""
    inputs = inputs_of(manifest) if manifest.inputs else ()
    return TableNode(name=manifest.table, grain=manifest.grain, inputs=inputs, change=manifest.change)


@sentence
class OfManifest(BackfillError):
    """{manifest}"""

    manifest: Manifest

    @property
    def planned_again(self) -> NextStep:
        """What builds its partitions anew."""
        return plan_again(self.manifest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A part of the run that is computed in one call of the transform. Numbers begin at 1."""

    number: int  #: Its place.
    grain: Grain  #: Whether a partition is a day or a month.
    partitions: tuple[date, ...]  #: What it stages.
    #: The last partitions of its neighbours before it that it computes once more, in order.
    before: tuple[date, ...] = ()
    #: The first partitions of its neighbours after it that it computes once more, in order.
    after: tuple[date, ...] = ()

    @property
    def once_more(self) -> tuple[date, ...]:
        """The partitions that are computed with the chunk and compared with what their owners stage, and not staged."""
        return self.before + self.after

    @property
    def computed(self) -> tuple[date, ...]:
        """The partitions that one call of the transform computes."""
        return self.before + self.partitions + self.after


def chunks_of(manifest: Manifest) -> tuple[Chunk, ...]:
    """The parts a run is computed in, in order; boundaries are partition boundaries.

    Those of a source table are not listed: they all have the same size.
    """
    partitions = manifest.partitions
    most = manifest.limits.chunk_partitions
    sizes = manifest.chunks or [most] * -(-len(partitions) // most)
    chunks: list[Chunk] = []
    for number, (size, end) in enumerate(zip(sizes, accumulate(sizes), strict=True), start=1):
        before, after = _neighbours(manifest, end - size, end)
        chunks.append(
            Chunk(
                number=number,
                grain=manifest.grain,
                partitions=partitions[end - size : end],
                before=before,
                after=after,
            )
        )
    return tuple(chunks)


def _neighbours(manifest: Manifest, start: int, end: int) -> tuple[tuple[date, ...], tuple[date, ...]]:
    """The consecutive partitions on either side of a chunk that the proof asks it to compute as well."""
    proof, partitions = manifest.proof, manifest.partitions
    if proof is None:
        return (), ()

    def adjoins(place: int) -> bool:
        return next_partition(manifest.grain, partitions[place - 1]) == partitions[place]

    before = list(takewhile(adjoins, range(start, max(0, start - proof.beside), -1)))
    after = list(takewhile(adjoins, range(end, min(len(partitions), end + proof.beside))))
    return partitions[start - len(before) : start], partitions[end : end + len(after)]


def stays(manifest: Manifest) -> Partitions:
    """The accepted snapshots that an expiry leaves as they are."""
    pins = manifest.base.partitions if manifest.base else ()
    gone = frozenset(manifest.partitions)
    return Partitions.of(manifest.grain, (pin.partition for pin in pins if pin.partition not in gone))
