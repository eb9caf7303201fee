"""Terms: what the declaration of a table contributes to the manifest of a run."""

from __future__ import annotations

from backfill_assets.core.session_settings import client_versions, session_digest
from backfill_assets.domain import DerivedTable, WarmUpProof
from backfill_assets.gates.agreed import gate_terms
from backfill_assets.planning.manifest_parts import Limits
from backfill_assets.planning.proof import ProofTerms
from backfill_assets.planning.request import Terms
from backfill_assets.transforms.schemas import changes_for_readers
from backfill_assets.workspace import Workspace


def terms_of(ws: Workspace, table: DerivedTable, version: str) -> Terms:
    """The terms of a release of a table's transform, as declared now."""
    code = ws.code.of(table, version)
    return Terms(
        domain=ws.domain.name,
        partition_column=table.partition.column,
        transform=table.transform,
        transform_version=version,
        code_digest=code.digest,
        code_modules=code.modules,
        versions=client_versions(),
        session_digest=session_digest(),
        references=tuple(ws.references[name].pinned for name in table.references),
        gates=gate_terms(table),
        limits=Limits(chunk_partitions=ws.settings.chunk_partitions, chunk_rows=ws.settings.chunk_rows),
        policy=table.policy,
        proof=_proof_terms(table),
        columns=changes_for_readers(ws.lake, table),
    )


def present_terms(ws: Workspace, name: str) -> Terms:
    """The terms of the present release of a table."""
    table = ws.domain.derived_table(name)
    return terms_of(ws, table, table.version)


def _proof_terms(table: DerivedTable) -> ProofTerms | None:
    asked = [ProofTerms(partitions=g.asked, extra_days=g.extra_days) for g in table.gates if isinstance(g, WarmUpProof)]
    return asked[0] if asked else None
