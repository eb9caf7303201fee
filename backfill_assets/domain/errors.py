"""Errors of domains: declarations that cannot be used, and an author's code that does not do what it declares."""

from __future__ import annotations

from backfill_assets.core.about import Because, OfRun, OfTable
from backfill_assets.core.errors import ContractBroken, InvalidDeclaration, UnknownName, sentence
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.partitions import Days


@sentence
class NoDomain(InvalidDeclaration):
    """BACKFILL_DOMAIN is not set, and there is no domain without it."""


@sentence
class DomainNotFound(InvalidDeclaration):
    """BACKFILL_DOMAIN names the module {module!r}, which cannot be imported."""

    module: str


@sentence
class DomainNotLoaded(Because, InvalidDeclaration):
    """the module {module!r} cannot be loaded: {why}."""

    module: str


@sentence
class NotPlanned(OfTable, UnknownName):
    """{table} is a source table; it is built from landed files, not planned."""

    days: Days | None


@sentence
class CodeBroken(ContractBroken):
    """{code} {problem}."""

    code: str
    problem: str
    manifest: Manifest | None = None
    """Of the run that it stopped."""


@sentence
class PlannedOtherwise(OfRun, ContractBroken):
    """run {run_id} {difference}."""

    difference: str
    manifest: Manifest
