"""Verdict: what exactly a publication or a rollback would change, by what the ledger has of candidates and versions.

Whether a run may be published is decided in `requests.obstacles`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date

from backfill_assets.core.identity import EMPTY_FILE_SET, contract_of
from backfill_assets.core.people import POLICY
from backfill_assets.ledger.provenance import NOTHING_RECORDED
from backfill_assets.ledger.records import (
    CandidatePartition,
    PartitionChange,
    PartitionVersion,
    RunRecord,
    VerifiedPartition,
)
from backfill_assets.ledger.states import EVER_PUBLISHED
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import ALWAYS_SWAPPED, RunPurpose
from backfill_assets.requests.errors import (
    ChangedAfterPublication,
)


def changes_for(
    manifest: Manifest,
    candidates: Mapping[date, CandidatePartition],
    accepted: Mapping[date, PartitionVersion],
) -> tuple[tuple[PartitionChange, ...], tuple[VerifiedPartition, ...]]:
    """The changes that publishing a candidate would make to each declared partition, where it has no obstacles.

    Returns:
        The partitions whose rows change, and those whose accepted rows are equal: the latter stay, so that nothing
        downstream is recomputed for them (early cutoff).
    """
    changes: list[PartitionChange] = []
    verified: list[VerifiedPartition] = []
    for partition in manifest.partitions:
        candidate, present = candidates[partition], accepted.get(partition)
        if present is not None and is_verified(manifest.kind, candidate, present):
            verified.append(
                VerifiedPartition(
                    partition=partition,
                    version=present.version,
                    files=present.files,
                    provenance=candidate.provenance,
                )
            )
            continue
        changes.append(
            PartitionChange(
                partition=partition,
                expected_version=present.version if present else 0,
                expected=present.files if present else EMPTY_FILE_SET,
                new=candidate.files,
                rows=candidate.rows,
                checksum=candidate.checksum,
                provenance=candidate.provenance,
            )
        )
    return tuple(changes), tuple(verified)


def is_verified(kind: RunPurpose, candidate: CandidatePartition, accepted: PartitionVersion) -> bool:
    """True if the accepted files hold exactly the candidate's rows. The checksum begins with their number.

    The present content of the files counts, not only that at their acceptance: a damaged file is replaced. Where the
    latter was recorded of the columns of an earlier contract, or in the form of another release, the present content
    decides alone.
    """
    if kind in ALWAYS_SWAPPED or not candidate.checksum:
        return False
    forms = {text.partition(":")[0] for text in (accepted.checksum, candidate.checksum)}
    is_comparable = contract_of(accepted.files) == contract_of(candidate.files) and len(forms) == 1
    at_acceptance = accepted.checksum if is_comparable else candidate.compared_checksum
    return candidate.checksum == candidate.compared_checksum == at_acceptance


def has_recorded_rows(candidate: CandidatePartition, accepted: PartitionVersion) -> bool:
    """True if a candidate has exactly the rows that the ledger recorded when they were accepted, by their number and
    by a checksum of the same columns in the same form. What the accepted files hold now does not matter."""
    return (
        bool(candidate.checksum)
        and (candidate.rows, candidate.checksum) == (accepted.rows, accepted.checksum)
        and contract_of(candidate.files) == contract_of(accepted.files)
    )


def brings_back_what_was_recorded(tx: ReadTransaction, run: RunRecord) -> bool:
    """True if a repair has computed, for every partition, exactly the rows that the ledger recorded when they were
    accepted, whose files are lost, by the code, settings and references that were agreed to for them; for a
    published repair, if it was approved for that."""
    manifest = run.manifest
    if manifest.kind is not RunPurpose.REPAIR:
        return False
    if run.state in EVER_PUBLISHED:
        return run.approved_by == f"{POLICY}repair"
    accepted, staged = tx.versions.accepted(manifest.table, manifest.partitions), tx.candidates.of_run(run.run_id)
    is_recorded = staged.keys() == set(manifest.partitions) and all(
        p in accepted and has_recorded_rows(candidate, accepted[p]) for p, candidate in staged.items()
    )
    lost = {p for p, candidate in staged.items() if candidate.replaces_lost}
    is_needed = manifest.change.is_repaired(lost, staged.keys())
    return is_recorded and is_needed and tx.bases.is_computed_as_agreed(run.run_id, manifest.table, manifest.partitions)


def rollback_changes(
    table: str,
    publication_id: str,
    published: Iterable[PartitionVersion],
    standing: Mapping[date, PartitionVersion],
    replaced: Mapping[date, PartitionVersion],
    whole_of: Callable[[str], str],
    repaired: Mapping[tuple[date, int], PartitionVersion],
) -> tuple[PartitionChange, ...]:
    """The changes of undoing a publication: every partition returns to the version that it replaced.

    Args:
        repaired: By partition and version, the version whose rows a repair put back in other files: such a version is
            undone with it.
        standing: What stands for each partition: the accepted version, or that which says that it has expired.
        replaced: The versions that it replaced; partitions that had none are absent.
        whole_of: What is undone with a run: its set, or a run of its own.

    Raises:
        TargetChanged: A partition has been published again since.
    """
    changes: list[PartitionChange] = []
    for version in published:
        present = standing.get(version.partition)
        first = present and repaired.get((present.partition, present.version), present)
        if present is None or version.version not in (present.version, first and first.version):
            raise ChangedAfterPublication(
                table=table,
                partition=version.partition,
                publication_id=publication_id,
                changed_by=f"run {present.run_id}" if present else "a rollback",
                undone_with=whole_of(present.run_id) if present else None,
            )
        before = replaced.get(version.partition)
        changes.append(
            PartitionChange(
                partition=version.partition,
                expected_version=present.version,
                expected=present.files,
                new=before.files if before else EMPTY_FILE_SET,
                rows=before.rows if before else 0,
                checksum=before.checksum if before else "",
                restores=version.replaces,
                provenance=before.provenance if before else NOTHING_RECORDED,
            )
        )
    return tuple(changes)
