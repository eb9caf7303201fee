"""Verdict: whether a run may be published, and what exactly would change. Pure: from ledger records to changes.

It is evaluated in the ledger transaction that writes the intent, so that it still holds when the swap begins.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import date

from backfill_assets.errors import GateFailed, IllegalTransition, TargetChanged
from backfill_assets.identity import EMPTY_FILE_SET
from backfill_assets.lake.checksums import is_known
from backfill_assets.lake.staging import contract_of
from backfill_assets.ledger.provenance import NOTHING_RECORDED
from backfill_assets.ledger.records import (
    CandidatePartition,
    PartitionChange,
    PartitionVersion,
    PassedGate,
    RunRecord,
    VerifiedPartition,
)
from backfill_assets.ledger.states import MEANING, RunState
from backfill_assets.next_steps import Act, Advice, do, step, undo, wait_or_take_over
from backfill_assets.planning.filling import plan_again
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import ALWAYS_SWAPPED, NEVER_PUBLISHED, Kind
from backfill_assets.planning.partitions import count_of, describe


def _advice_for_state(run: RunRecord) -> Advice:
    match run.state:
        case RunState.PLANNED | RunState.STAGED | RunState.FAILED:
            return do(Act.RUN, run.run_id)
        case RunState.STAGING | RunState.GATING:
            return do(Act.RUN, run.run_id) if run.lease is None else wait_or_take_over(run.run_id)
        case RunState.PUBLISHING:
            return do(Act.RECOVER)
        case RunState.SUPERSEDED:
            return do(Act.HISTORY, run.manifest.table)
        case RunState.CANCELLED:
            return step("plan it again: ", plan_again(run.manifest))
        case RunState.BLOCKED | RunState.PASSED | RunState.PUBLISHED | RunState.ROLLED_BACK:
            return do(Act.REPORT, run.run_id)


def require_publishable(run: RunRecord) -> None:
    """Refuses a run whose state or mode does not allow publication. Approval belongs to `publication.authority`.

    Raises:
        IllegalTransition: It is not gated, is published already, or is of a mode that never publishes.
    """
    manifest = run.manifest
    if manifest.mode in NEVER_PUBLISHED:
        raise IllegalTransition(
            f"run {run.run_id} has mode {manifest.mode} and is never published.",
            next_step=step("plan a run that is published: ", plan_again(manifest)),
            run_id=run.run_id,
        )
    if run.state not in (RunState.PASSED, RunState.ROLLED_BACK):
        raise IllegalTransition(
            f"run {run.run_id} cannot be published: it is {run.state} ({MEANING[run.state]}).",
            next_step=_advice_for_state(run),
            run_id=run.run_id,
            state=str(run.state),
        )


def changes_for(
    manifest: Manifest,
    candidates: Mapping[date, CandidatePartition],
    passed: Collection[PassedGate],
    accepted: Mapping[date, PartitionVersion],
) -> tuple[tuple[PartitionChange, ...], tuple[VerifiedPartition, ...]]:
    """What publishing the candidate would do to each declared partition.

    Returns:
        The partitions whose rows change, and those whose accepted rows are equal: the latter stay, so that nothing
        downstream is recomputed for them (early cutoff).

    Raises:
        GateFailed: A blocking gate failed, or was not evaluated on exactly these files.
        TargetChanged: A partition's accepted version is not the one that the candidate was compared with.
    """
    _require_every_partition(manifest, candidates)
    _require_gates(manifest, candidates, passed)
    _require_same_target(manifest, candidates, accepted)
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


def is_verified(kind: Kind, candidate: CandidatePartition, accepted: PartitionVersion) -> bool:
    """Whether the accepted files hold exactly the candidate's rows. The checksum begins with their number.

    The present content of the files counts, not only that at their acceptance: a damaged file is replaced. Where the
    latter was recorded in an earlier form, or of the columns of an earlier contract, nothing is known of it, and the
    present content decides alone.
    """
    if kind in ALWAYS_SWAPPED or not is_known(candidate.checksum):
        return False
    is_comparable = is_known(accepted.checksum) and contract_of(accepted.files) == contract_of(candidate.files)
    at_acceptance = accepted.checksum if is_comparable else candidate.compared_checksum
    return candidate.checksum == candidate.compared_checksum == at_acceptance


def _require_every_partition(manifest: Manifest, candidates: Mapping[date, CandidatePartition]) -> None:
    if set(candidates) != set(manifest.partitions):
        lacking = set(manifest.partitions) - set(candidates)
        raise GateFailed(
            f"run {manifest.run_id} has no candidate for {describe(manifest.grain, lacking)}.",
            next_step=do(Act.RUN, manifest.run_id),
            run_id=manifest.run_id,
        )


def _require_gates(
    manifest: Manifest, candidates: Mapping[date, CandidatePartition], passed: Collection[PassedGate]
) -> None:
    blocking = [gate.name for gate in manifest.gates if gate.blocking]
    digests = {partition: candidates[partition].files.digest for partition in manifest.partitions}
    lacking = [(p, gate) for p, digest in digests.items() for gate in blocking if (p, gate, digest) not in passed]
    if lacking:
        gates = sorted({gate for _, gate in lacking})
        days = describe(manifest.grain, (partition for partition, _ in lacking))
        raise GateFailed(
            f"run {manifest.run_id} cannot be published: {', '.join(gates)} did not pass for exactly the staged "
            f"files of {days}.",
            next_step=do(Act.REPORT, manifest.run_id),
            run_id=manifest.run_id,
            gates=gates,
        )


def _require_same_target(
    manifest: Manifest,
    candidates: Mapping[date, CandidatePartition],
    accepted: Mapping[date, PartitionVersion],
) -> None:
    changed = [
        partition
        for partition in manifest.partitions
        if _present(accepted, partition)
        != (candidates[partition].compared_version, candidates[partition].compared_digest)
    ]
    if changed:
        raise TargetChanged(
            f"{manifest.table} changed since run {manifest.run_id} was compared with it: "
            f"{count_of(len(changed), 'partition')}, {describe(manifest.grain, changed)}.",
            next_step=step("compare it with the present rows: ", do(Act.RUN, manifest.run_id)),
            run_id=manifest.run_id,
            partitions=[partition.isoformat() for partition in changed],
        )


def _present(accepted: Mapping[date, PartitionVersion], partition: date) -> tuple[int, str]:
    version = accepted.get(partition)
    return (version.version, version.files.digest) if version else (0, EMPTY_FILE_SET.digest)


def rollback_changes(
    table: str,
    publication_id: str,
    published: Iterable[PartitionVersion],
    accepted: Mapping[date, PartitionVersion],
    replaced: Mapping[date, PartitionVersion],
    whole_of: Callable[[str], str],
) -> tuple[PartitionChange, ...]:
    """The changes of undoing a publication: every partition returns to the version that it replaced.

    Args:
        table: The table.
        publication_id: The publication to undo.
        published: The versions that it made.
        accepted: The versions that readers see now.
        replaced: The versions that it replaced; partitions that had none are absent.
        whole_of: What is undone with a run: its set, or a run of its own.

    Raises:
        TargetChanged: A partition has been published again since.
    """
    changes: list[PartitionChange] = []
    for version in published:
        present = accepted.get(version.partition)
        if present is None or present.version != version.version:
            by = f"run {present.run_id}" if present else "a rollback"
            raise TargetChanged(
                f"{table} {version.partition} was changed by {by} after publication {publication_id}.",
                next_step=step("undo that first: ", undo(whole_of(present.run_id)))
                if present
                else do(Act.HISTORY, table, partition=version.partition),
                table=table,
                publication_id=publication_id,
            )
        before = replaced.get(version.partition)
        changes.append(
            PartitionChange(
                partition=version.partition,
                expected_version=version.version,
                expected=version.files,
                new=before.files if before else EMPTY_FILE_SET,
                rows=before.rows if before else 0,
                checksum=before.checksum if before else "",
                restores=version.replaces,
                provenance=before.provenance if before else NOTHING_RECORDED,
            )
        )
    return tuple(changes)
