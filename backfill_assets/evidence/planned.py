"""What does a plan, of a run or of a set, say to a person and to a machine?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from backfill_assets.evidence.report import policy_document
from backfill_assets.planning.impact import TablePartitions
from backfill_assets.planning.partitions import describe
from backfill_assets.planning.request import Plan, PlannedInput
from backfill_assets.planning.restatement import LeftOut, NothingToRebuild, PlannedSet
from backfill_assets.planning.stages import Prove, Stage, proof_sentence, stage_document


def plan_document(
    plan: Plan, stages: Sequence[Stage], goes_back: Sequence[Mapping[str, Any]] = ()
) -> Mapping[str, Any]:
    """The plan as plain values; the fields are documented in docs/cli.md.

    Args:
        plan: The plan.
        stages: What will be done, in order, as `stages_of` reads it from the manifest.
        goes_back: The later releases whose accepted rows it would replace.
    """
    proofs = [proof_sentence(stage) for stage in stages if isinstance(stage, Prove)]
    return {
        **_run_document(plan),
        "proof": proofs[0] if proofs else None,
        "goes_back": list(goes_back),
        "stages": [stage_document(stage) for stage in stages],
    }


def set_plan_document(planned: PlannedSet | NothingToRebuild) -> Mapping[str, Any]:
    """The plan of a set as plain values."""
    if isinstance(planned, NothingToRebuild):
        return {"set_id": None, "left_out": [_left_out_document(each) for each in planned.left_out]}
    manifest = planned.manifest
    return {
        "set_id": manifest.set_id,
        "name": manifest.name,
        "state": "PLANNED",
        "approval": "DRAFT",
        "reason": manifest.reason,
        "requested_by": manifest.requested_by,
        "because": manifest.because,
        "manifest_digest": manifest.digest,
        "runs": [_run_document(plan) for plan in planned.plans],
        "rebuilds": [
            {
                "table": rebuild.table,
                "partitions": len(rebuild.partitions),
                "described": describe(rebuild.grain, rebuild.partitions),
                "new_partitions": len(rebuild.new),
                "because": [_partitions_document(some) for some in rebuild.because],
                "only_read": [_partitions_document(some) for some in rebuild.only_read],
            }
            for rebuild in planned.rebuilds
        ],
        "left_out": [_left_out_document(each) for each in planned.left_out],
        "stages": [stage_document(stage) for stage in planned.stages],
    }


def _left_out_document(each: LeftOut) -> Mapping[str, Any]:
    return {
        "table": each.table,
        "partitions": len(each.partitions),
        "described": describe(each.grain, each.partitions),
        "why": each.why,
        "include": each.include,
    }


def _partitions_document(some: TablePartitions) -> Mapping[str, Any]:
    return {
        "table": some.table,
        "partitions": len(some.partitions),
        "described": describe(some.grain, some.partitions),
    }


def _run_document(plan: Plan) -> Mapping[str, Any]:
    manifest = plan.manifest
    expected = plan.estimate
    return {
        "run_id": manifest.run_id,
        "state": "PLANNED",
        "approval": "DRAFT",
        "table": manifest.table,
        "kind": str(manifest.kind),
        "mode": str(manifest.mode),
        "reason": manifest.reason,
        "requested_by": manifest.requested_by,
        "transform": manifest.transform,
        "transform_version": manifest.transform_version,
        "manifest_digest": manifest.digest,
        "policy": policy_document(manifest.policy),
        "output": {
            "from": manifest.partitions[0].isoformat(),
            "to": manifest.partitions[-1].isoformat(),
            "partitions": len(manifest.partitions),
            "described": describe(manifest.grain, manifest.partitions),
        },
        "inputs": [_input_document(read) for read in plan.inputs],
        "missing": {name: [day.isoformat() for day in days] for name, days in plan.missing.items()},
        "replaces": {"partitions": plan.replaced_partitions, "rows": plan.replaced_rows},
        "supersedes": list(manifest.supersedes),
        "code_modules": list(manifest.code_modules),
        "chunks": len(plan.chunks),
        "chunk_list": [
            {
                "number": chunk.number,
                "from": chunk.partitions[0].isoformat(),
                "to": chunk.partitions[-1].isoformat(),
                "partitions": len(chunk.partitions),
                "expected_rows": sum(expected.rows.get(partition, 0) for partition in chunk.partitions),
            }
            for chunk in plan.chunks
        ],
        "estimate": {
            "rows": expected.total_rows,
            "size_bytes": expected.size_bytes,
            "seconds": None if expected.seconds is None else round(expected.seconds, 1),
            "based_on": expected.based_on,
        },
        "limits": manifest.document["limits"],
        "references": {r.name: r.version for r in manifest.references},
        "gates": [{"name": g.name, "demands": g.demands, "blocking": g.blocking} for g in manifest.gates],
        "dependents": [
            {"table": d.table, "partitions": len(d.partitions), "described": describe(d.grain, d.partitions)}
            for d in plan.dependents
        ],
        "conflicts": list(plan.conflicts),
    }


def _input_document(read: PlannedInput) -> Mapping[str, Any]:
    return {
        "argument": read.argument,
        "table": read.table,
        **read.window.document,
        "from": read.partitions[0].isoformat(),
        "to": read.partitions[-1].isoformat(),
        "partitions": len(read.partitions),
        "described": describe(read.grain, read.partitions),
        "warm_up": describe(read.grain, read.warm_up),
        "warm_up_partitions": len(read.warm_up),
        "staged_partitions": len(read.staged),
        "rows": read.rows,
        "files": read.files,
        "size_bytes": read.size_bytes,
    }
