"""Workspaces after an edit of the domain's modules, with and without its being seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from backfill_assets.domain import Domain, Table
from backfill_assets.transforms.code import Code, DomainCode
from backfill_assets.workspace import Workspace

EDITED = "0" * 64


class EditedCode(DomainCode):
    """Other code in every table."""

    def of(self, table: Table, version: str) -> Code:
        del table, version
        return Code(digest=EDITED, modules=("edited",))


def edit(ws: Workspace) -> Workspace:
    """The workspace, whose tables have other code from now on."""
    ws.__dict__["code"] = EditedCode(domain=ws.domain)
    return ws


def drift(ws: Workspace, domain: Domain) -> Workspace:
    """The workspace over another domain that passes for the one before: rows that drift under the same code."""
    other = replace(ws, domain=domain)
    other.__dict__["code"] = _CodeBefore(domain=ws.domain)
    return other


class _CodeBefore(DomainCode):
    """The code of a domain, also for tables of the same names with other functions."""

    def of(self, table: Table, version: str) -> Code:
        return super().of(self.domain.table(table.name), version)


def keep_code(ws: Workspace) -> None:
    """Lets functions that a test puts in place of others pass for the code that runs were planned with."""
    held = {(t.name, r.version): ws.code.of(t, r.version) for t in ws.domain.derived for r in t.releases}
    ws.__dict__["code"] = _HeldCode(domain=ws.domain, held=held)


@dataclass(frozen=True)
class _HeldCode(DomainCode):
    """The code of a moment, whatever functions the tables have since."""

    held: Mapping[tuple[str, str], Code]

    def of(self, table: Table, version: str) -> Code:
        return self.held.get((table.name, version)) or super().of(table, version)
