"""Contract versions as runs remember them: which of them give the rows that the present contract gives.

A run of a source has the digest of its contract as configuration. A run of a derived table names, for each input that
is a source, the version that it read. Both name the code of lifts that change values, because other code gives other
rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from backfill_assets.core.identity import document_digest
from backfill_assets.domain import SourceTable
from backfill_assets.landing.imports import contract_of

FIRST = "1"
"""The name of the first version of a contract. A configuration names only later ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractVersions:
    """The versions of a source's contract.

    Attributes:
        lifts: The digests of the code of those lifts that change values, by the version that they start from.
    """

    source: SourceTable
    lifts: Mapping[int, str]

    @property
    def present(self) -> int:
        return self.source.contract_version

    def configuration(self, version: int | None = None) -> Mapping[str, str]:
        """The configuration of a run that builds the source in a version of its contract; the present one for None."""
        of = version or self.present
        digest = self._lifts_until(of)
        return {**contract_of(self.source.at(of)), **({"lifts": digest} if digest else {})}

    def version_built(self, configuration: Mapping[str, Any]) -> int | None:
        """The version that a run of the source built, by its configuration; None when no version has it."""
        return next((v for v in range(self.present, 0, -1) if self.configuration(v) == configuration), None)

    def named(self, version: int | None = None) -> str:
        """How a run names the version that it read, with the code of the lifts up to it that change values."""
        of = version or self.present
        digest = self._lifts_until(of)
        return f"{of}:{digest[:12]}" if digest else str(of)

    def version_read(self, name: str) -> int | None:
        """The version that a run read, by its name; None when there is none, or its lifts are other code now."""
        number = int(name.partition(":")[0])
        return number if number <= self.present and name == self.named(number) else None

    def gives_same_rows(self, version: int) -> bool:
        """Whether what was built or read in a version is what the present contract says, up to added columns."""
        return not any(each in self.lifts for each in range(version, self.present))

    def _lifts_until(self, version: int) -> str:
        changing = {str(each): digest for each, digest in self.lifts.items() if each < version}
        return document_digest(changing) if changing else ""


def as_present_build(versions: ContractVersions, configuration: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration of a run of a source; the present one if its contract gives the same rows."""
    built = versions.version_built(configuration)
    return versions.configuration() if built and versions.gives_same_rows(built) else configuration


def as_present_reads(every: Mapping[str, ContractVersions], configuration: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration of a run of a derived table, with the present version of every source that gives it the same
    rows as the version that it read."""
    recorded: Mapping[str, str] = configuration.get("contracts", {})
    names = {table: _as_present(versions, recorded.get(table, FIRST)) for table, versions in every.items()}
    rest = {name: value for name, value in configuration.items() if name != "contracts"}
    return {**rest, **contracts_document({**recorded, **names})}


def _as_present(versions: ContractVersions, name: str) -> str:
    read = versions.version_read(name)
    return versions.named() if read and versions.gives_same_rows(read) else name


def contracts_document(names: Mapping[str, str]) -> Mapping[str, Any]:
    """The part of a configuration that names the contract versions of inputs; nothing where all are the first."""
    later = {table: name for table, name in names.items() if name != FIRST}
    return {"contracts": later} if later else {}
