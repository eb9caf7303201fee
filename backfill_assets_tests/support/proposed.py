"""The source that a proposal declares: its module is run as an author would keep it."""

from __future__ import annotations

from types import ModuleType

from backfill_assets.domain import SourceTable
from backfill_assets.report.sniffed import python_of
from backfill_assets.sniff.proposal import Proposal


def declared(proposal: Proposal) -> SourceTable:
    module = ModuleType("proposed")
    exec(compile(python_of(proposal), "proposed.py", "exec"), vars(module))
    (source,) = module.DOMAIN.sources
    assert isinstance(source, SourceTable)
    return source
