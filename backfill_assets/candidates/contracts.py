"""Contracts of a run: the version of its contract in which a source is built or read, as the manifest remembers it."""

from __future__ import annotations

from backfill_assets.domain import SourceTable, Table
from backfill_assets.errors import ContractBroken
from backfill_assets.landing.contracts import FIRST
from backfill_assets.next_steps import Advice, step
from backfill_assets.planning.filling import plan_again
from backfill_assets.planning.manifest import Manifest
from backfill_assets.workspace import Workspace


def table_built(ws: Workspace, manifest: Manifest) -> Table:
    """The table of a run; a source in the version of its contract that the run builds."""
    table = ws.domain.table(manifest.table)
    if not isinstance(table, SourceTable):
        return table
    return table.at(ws.contracts[table.name].version_built(manifest.configuration) or table.contract_version)


def table_read(ws: Workspace, manifest: Manifest, name: str) -> Table:
    """An input of a run; a source in the version of its contract that the run reads.

    Raises:
        ContractBroken: The domain has no such version any more, or its lifts are other code.
    """
    table = ws.domain.table(name)
    if not isinstance(table, SourceTable):
        return table
    recorded = manifest.configuration.get("contracts", {}).get(name, FIRST)
    version = ws.contracts[table.name].version_read(recorded)
    if version is None:
        raise ContractBroken(
            f"run {manifest.run_id} reads {name} in version {recorded} of its contract, with the code of the lifts "
            f"before it, and the domain has {ws.contracts[table.name].named()}.",
            next_step=step("run it with the domain it was planned with, or plan it again: ", plan_again(manifest)),
            run_id=manifest.run_id,
            table=name,
        )
    return table.at(version)


def require_same_contracts(ws: Workspace, manifest: Manifest, *, next_step: Advice | None = None) -> None:
    """Refuses to compute for a manifest by contracts that the domain does not have any more.

    Raises:
        ContractBroken: A contract version that the run builds or reads is not among those of the domain.
    """
    table = ws.domain.table(manifest.table)
    if not isinstance(table, SourceTable):
        for pinned in manifest.inputs:
            table_read(ws, manifest, pinned.table)
    elif table.earlier and ws.contracts[table.name].version_built(manifest.configuration) is None:
        raise ContractBroken(
            f"run {manifest.run_id} builds {table.name} by a contract that is none of the {table.contract_version} "
            f"versions which the domain declares, or with other code of their lifts.",
            next_step=next_step or "declare that version again, as it was",
            run_id=manifest.run_id,
            table=table.name,
        )


def require_present_contract(ws: Workspace, manifest: Manifest) -> None:
    """Refuses to stage rows of a source by an earlier contract than the present one.

    Raises:
        ContractBroken: The contract has changed since the run was planned.
    """
    table = table_built(ws, manifest)
    present = ws.domain.table(manifest.table)
    if isinstance(table, SourceTable) and isinstance(present, SourceTable) and table is not present:
        raise ContractBroken(
            f"run {manifest.run_id} was planned with version {table.contract_version} of the contract of "
            f"{manifest.table}, and the domain declares version {present.contract_version} now.",
            next_step=step("plan it again: ", plan_again(manifest)),
            run_id=manifest.run_id,
            table=manifest.table,
        )
