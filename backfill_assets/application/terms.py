"""Terms: what the declaration of a table contributes to the manifest of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from backfill_assets.core.session_settings import session_digest
from backfill_assets.domain import DerivedTable, SourceTable, Table, WarmUpProof
from backfill_assets.domain.safeguards import safeguards_of
from backfill_assets.gates.agreed import gate_terms
from backfill_assets.landing.imports import LOAD, LOAD_VERSION
from backfill_assets.planning.manifest_parts import Limits
from backfill_assets.planning.request import TableSpec
from backfill_assets.planning.stages import ProofTerms
from backfill_assets.transforms.code import Code, keep
from backfill_assets.transforms.schemas import changes_for_readers
from backfill_assets.workspace import Workspace

_SOURCE_CHUNK = 100_000
"""A source table is built in one chunk: its landed files are read once, for all the days that they touch."""


def load_terms(ws: Workspace, table: SourceTable) -> TableSpec:
    """The terms of a load of a source table, as declared now.

    Raises:
        NotDetermined: Its lifts or gates ask a clock, randomness or the environment.
        ContractBroken: Its lifts reach a value that cannot be pinned.
        InvalidReference: An entry of a reference that a gate asks says nothing clear.
    """
    ws.code.require_determined(table, LOAD_VERSION)
    return _terms(ws, table, LOAD, LOAD_VERSION, Limits(chunk_partitions=_SOURCE_CHUNK))


def terms_of(ws: Workspace, table: DerivedTable, version: str, *, computes: bool = True) -> TableSpec:
    """The terms of a release of a table's transform, as declared now.

    Args:
        computes: Whether rows are computed, and not snapshots expired.

    Raises:
        NotDetermined: The rows of the release would not follow from what a manifest pins.
        ContractBroken: The release reaches a value that cannot be pinned.
        InvalidReference: An entry of a reference that a gate asks says nothing clear.
    """
    inexact = ws.code.require_determined(table, version) if computes else ()
    limits = Limits(chunk_partitions=ws.settings.chunk_partitions, chunk_rows=ws.settings.chunk_rows)
    columns = changes_for_readers(ws.lake, table)
    if columns:
        with ws.ledger.read() as tx:
            # No reader ever saw the columns of a table that was staged and never published.
            columns = columns if tx.publications.count(table=table.name) else ()
    return replace(
        _terms(ws, table, table.transform, version, limits),
        references=tuple(ws.references[name].pinned for name in table.references),
        proof=_proof_terms(table),
        columns=columns,
        inexact=inexact,
    )


def _terms(ws: Workspace, table: Table, transform: str, version: str, limits: Limits) -> TableSpec:
    code, of_gates = ws.code.of(table, version), gate_code(ws, table)
    name = table.version_of if isinstance(table, DerivedTable) else None
    return TableSpec(
        domain=ws.domain.name,
        partition_column=table.partition.column,
        transform=transform,
        transform_version=version,
        code_digest=code.digest,
        code_modules=code.modules,
        code_archive=_archived(ws, code),
        notes=table.release(version).notes if isinstance(table, DerivedTable) else "",
        versions=ws.versions(),
        session_digest=session_digest(),
        gates=gate_terms(table, code=of_gates),
        limits=limits,
        policy=table.policy,
        name_policy=ws.domain.table(name).policy if name else None,
        safeguards=safeguards_of(table, of_gates, ws.known_to_gates(table)),
    )


def present_terms(ws: Workspace, name: str) -> TableSpec:
    """The terms of the present release of a table."""
    table = ws.domain.derived_table(name)
    return terms_of(ws, table, table.version)


def _proof_terms(table: DerivedTable) -> ProofTerms | None:
    asked = [ProofTerms(partitions=g.asked, extra_days=g.extra_days) for g in table.gates if isinstance(g, WarmUpProof)]
    return asked[0] if asked else None


def gate_code(ws: Workspace, table: Table) -> Mapping[str, str]:
    """The digests of the author's code that measures gates of a table, by their names; the code is archived."""
    found = ws.code.of_gates(table)
    for code in found.values():
        _archived(ws, code)
    return {name: code.digest for name, code in found.items()}


def _archived(ws: Workspace, code: Code) -> str:
    """The sha256 of the list of the archived code."""
    try:
        return keep(code, ws.reference_archive)
    except OSError:
        ws.ledger.try_writing()  # of a home that is read-only, the ledger is what a person is told of
        raise
