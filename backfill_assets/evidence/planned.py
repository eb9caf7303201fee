"""What does a plan say to a person and to a machine?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backfill_assets.planning.partitions import describe
from backfill_assets.planning.request import InputRead, Plan


def plan_document(plan: Plan) -> Mapping[str, Any]:
    """The plan as plain values; the fields are documented in docs/cli.md."""
    manifest = plan.manifest
    return {
        "run_id": manifest.run_id,
        "state": "PLANNED",
        "approval": "DRAFT",
        "table": manifest.table,
        "kind": str(manifest.kind),
        "reason": manifest.reason,
        "requested_by": manifest.requested_by,
        "transform": manifest.transform,
        "transform_version": manifest.transform_version,
        "manifest_digest": manifest.digest,
        "output": {
            "from": manifest.partitions[0].isoformat(),
            "to": manifest.partitions[-1].isoformat(),
            "partitions": len(manifest.partitions),
            "described": describe(manifest.grain, manifest.partitions),
        },
        "inputs": [_input_document(read) for read in plan.inputs],
        "missing": {name: [day.isoformat() for day in days] for name, days in plan.missing.items()},
        "replaces": {"partitions": plan.replaced_partitions, "rows": plan.replaced_rows},
        "chunks": len(plan.chunks),
        "references": {r.name: r.version for r in manifest.references},
        "gates": [{"name": g.name, "demands": g.demands, "blocking": g.blocking} for g in manifest.gates],
        "dependents": [
            {"table": d.table, "partitions": len(d.partitions), "described": describe(d.grain, d.partitions)}
            for d in plan.dependents
        ],
        "conflicts": list(plan.conflicts),
        "side_effects": manifest.side_effects,
    }


def _input_document(read: InputRead) -> Mapping[str, Any]:
    return {
        "argument": read.argument,
        "table": read.table,
        "days_back": read.window.days_back,
        "days_ahead": read.window.days_ahead,
        "from": read.partitions[0].isoformat(),
        "to": read.partitions[-1].isoformat(),
        "partitions": len(read.partitions),
        "described": describe(read.grain, read.partitions),
        "warm_up": describe(read.grain, read.warm_up),
        "warm_up_partitions": len(read.warm_up),
        "rows": read.rows,
        "files": read.files,
        "size_bytes": read.size_bytes,
    }
