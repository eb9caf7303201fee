"""Pinned inputs: the files behind the inputs of a manifest, and those that one call of a transform reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from functools import partial
from typing import TYPE_CHECKING

from backfill_assets.calendar.partitions import Partitions
from backfill_assets.candidates.errors import MergedWithEarlier, StagedAgain
from backfill_assets.core.errors import MissingInput
from backfill_assets.core.identity import FileSet, document_digest
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.graph import Graph
from backfill_assets.planning.manifest import MERGED_WITH, Manifest, node_of
from backfill_assets.planning.manifest_parts import PinnedInput, PinnedPartition, RunPurpose
from backfill_assets.planning.next_steps import plan_again

if TYPE_CHECKING:
    # A status asks whether what was staged is still present, and reads no window.
    from backfill_assets.planning.stages import Reads

PinnedFiles = Mapping[str, Mapping[date, FileSet]]
"""The files of pinned input partitions, by argument of the transform and partition."""

PinnedDigests = Mapping[str, Mapping[date, str]]
"""The digests of these files, by argument and partition."""


def pinned_files(tx: ReadTransaction, run_id: str, inputs: Iterable[PinnedInput]) -> PinnedFiles:
    """The exact files that a manifest pins: accepted versions, also if they were replaced since, and candidates of
    other runs of the same set.

    Args:
        tx: The transaction.
        run_id: The run that pins them, for the error.
        inputs: `manifest.pinned`, or the further inputs of its proof.

    Raises:
        MissingInput: The ledger does not have a version in its pinned form, retention has removed it, or the run whose
            candidate is read has none.
    """
    found: dict[str, dict[date, FileSet]] = {}
    for pinned in inputs:
        files = found.setdefault(pinned.argument, {})
        files |= _accepted_files(tx, run_id, pinned, [p for p in pinned.partitions if p.from_run is None])
        staged = [p for p in pinned.partitions if p.from_run is not None]
        for other in dict.fromkeys(p.from_run for p in staged if p.from_run):
            files |= _candidate_files(tx, run_id, pinned, other, [p for p in staged if p.from_run == other])
    return found


def _accepted_files(
    tx: ReadTransaction, run_id: str, pinned: PinnedInput, pins: Sequence[PinnedPartition]
) -> Mapping[date, FileSet]:
    versions = tx.versions.pinned(pinned.table, [(p.partition, p.version) for p in pins])
    for pin in pins:
        version = versions[pin.partition]
        if version.files.digest != pin.digest:
            raise MissingInput.coded(
                "input_changed",
                "run {run_id} was planned with version {version} of {table} {partition}, which "
                "the ledger does not hold as it was.",
                then="[audit]",
                run_id=run_id,
                table=pinned.table,
                partition=pin.partition,
                version=pin.version,
            )
        if version.removed_at is not None:
            raise MissingInput.coded(
                "input_removed",
                "run {run_id} reads version {version} of {table} {partition}, which retention removed at {removed_at}.",
                then="plan it again, from what is accepted now: {planned_again}",
                run_id=run_id,
                table=pinned.table,
                partition=pin.partition,
                version=pin.version,
                removed_at=version.removed_at.isoformat(timespec="seconds"),
                planned_again=plan_again(tx.runs.get(run_id).manifest),
            )
    return {pin.partition: versions[pin.partition].files for pin in pins}


def _candidate_files(
    tx: ReadTransaction, run_id: str, pinned: PinnedInput, other: str, pins: Sequence[PinnedPartition]
) -> Mapping[date, FileSet]:
    candidates = tx.candidates.of_run(other)
    lacking = [pin.partition for pin in pins if pin.partition not in candidates]
    if lacking:
        raise MissingInput.coded(
            "input_not_staged",
            "run {run_id} reads what run {other} stages of {table}, and that has not staged {partition}.",
            then="[run {other}]",
            run_id=run_id,
            other=other,
            table=pinned.table,
            partition=lacking[0],
        )
    return {pin.partition: candidates[pin.partition].files for pin in pins}


def digests_of(files: PinnedFiles) -> PinnedDigests:
    """The digests of the files of pinned input partitions."""
    return {argument: {day: held.digest for day, held in of_input.items()} for argument, of_input in files.items()}


def window_digests(graph: Graph, manifest: Manifest, partition: date, digests: PinnedDigests) -> Mapping[str, str]:
    """The provenance of an output partition: by input table, the digest of its window."""
    node = node_of(manifest)
    read: dict[str, list[str]] = {}
    for edge in node.inputs:
        needed = graph.needed(edge, node, (partition,))
        read.setdefault(edge.table, []).extend(digests[edge.argument].get(day, "") for day in needed)
    held = digests.get(MERGED_WITH, {})
    merged_with = manifest.change.merges_with(partition, sorted(held)) if manifest.base else None
    if merged_with is not None:
        read[manifest.table] = [held.get(day, "") for day in merged_with]
    return {table: document_digest(of_table) for table, of_table in read.items()}


def read_before(tx: ReadTransaction, graph: Graph, manifest: Manifest) -> tuple[date, ...]:
    """The staged partitions of a run whose inputs are candidates of its set that have been staged again since."""
    others = {pin.from_run for pinned in manifest.inputs for pin in pinned.partitions if pin.from_run}
    if not others:
        return ()
    staged = {other: tx.candidates.digests(other) for other in sorted(others)}
    now = {
        pinned.argument: {
            pin.partition: staged[pin.from_run].get(pin.partition, "") if pin.from_run else pin.digest
            for pin in pinned.partitions
        }
        for pinned in manifest.pinned
    }
    return tuple(
        partition
        for partition, read in tx.candidates.inputs(manifest.run_id).items()
        if read != window_digests(graph, manifest, partition, now)
    )


def require_read_as_staged(tx: ReadTransaction, graph: Graph, manifest: Manifest) -> None:
    """Refuses a candidate that was computed from other candidates of its set than those that are staged now.

    Raises:
        InputsMovedOn: The run has to be staged again.
    """
    if before := read_before(tx, graph, manifest):
        raise StagedAgain(
            run_id=manifest.run_id,
            request_id=manifest.request_id,
            table=manifest.table,
            partitions=Partitions.of(manifest.grain, before),
        )


def require_merged_with_present(tx: ReadTransaction, manifest: Manifest) -> None:
    """Refuses changes that were merged with other rows than those that are accepted now.

    Raises:
        InputsMovedOn: The run has to be planned again.
    """
    if moved := replaced_since(tx, manifest):
        raise MergedWithEarlier(
            run_id=manifest.run_id,
            table=manifest.table,
            partitions=Partitions.of(manifest.grain, moved),
            manifest=manifest,
        )


def replaced_since(tx: ReadTransaction, manifest: Manifest) -> Sequence[date]:
    """The partitions whose rows have changed since a run pinned them, for runs that keep accepted rows or merge with
    them."""
    present = manifest.change.claims_merged(partial(tx.versions.claims, manifest.table), manifest.partitions)
    if manifest.base is None or present is None:
        return ()
    then = {pin.partition: pin.version for pin in manifest.base.partitions}
    if manifest.kind is RunPurpose.REPAIR:
        # In place of a lost version, what it was made from is merged with, as long as that version is the accepted one.
        lost = {p for p, c in present.items() if c.run_id in manifest.supersedes and then.get(p, 0) < c.version}
        present = {p: claim for p, claim in present.items() if p not in lost}
        then = {p: version for p, version in then.items() if p not in lost}
    now = {partition: claim.version for partition, claim in present.items()}
    return sorted(partition for partition in {*now, *then} if now.get(partition) != then.get(partition))


def files_read(read: Reads, files: PinnedFiles) -> tuple[FileSet, ...]:
    """The files behind what a call reads of one input, in the order of the partitions."""
    return tuple(files[read.argument][partition] for partition in read.partitions)


def rows_read(reads: Iterable[Reads], files: PinnedFiles) -> int:
    """The number of rows that a call reads."""
    return sum(file_set.rows for read in reads for file_set in files_read(read, files))
