"""Errors of domains: declarations that cannot be used, and an author's code that does not do what it declares."""

from __future__ import annotations

from backfill_assets.core.about import Because, OfRun
from backfill_assets.core.errors import ContractBroken, InvalidDeclaration, sentence
from backfill_assets.core.next_steps import Advice
from backfill_assets.planning.manifest import Manifest, OfManifest
from backfill_assets.planning.next_steps import fix_and_plan_again


@sentence
class DomainNotLoaded(Because, InvalidDeclaration):
    """the module {module!r} cannot be loaded: {why}.

    Next: correct {declared_in}
    """

    module: str


@sentence
class CodeBroken(ContractBroken):
    """{code} {problem}."""

    code: str
    problem: str
    manifest: Manifest | None = None
    """Of the run that it stopped."""

    @property
    def advice(self) -> Advice:
        if self.manifest is None:
            return "correct it in the domain, then give the same command again"
        return fix_and_plan_again(self.manifest)


@sentence
class PlannedOtherwise(OfRun, OfManifest, ContractBroken):
    """run {run_id} {difference}.

    Next: run it with what it was planned with, or plan it again: {planned_again}
    """

    difference: str
