"""Errors of references that cannot be read or are not known, and of code whose rows do not follow from a manifest."""

from __future__ import annotations

from collections.abc import Sequence

from backfill_assets.core.about import OfTable
from backfill_assets.core.errors import ContractBroken, InvalidReference, MissingInput, sentence

_MOST = 4
"""How many further places a message names."""


@sentence
class ReferenceNotRead(MissingInput):
    """the reference {reference} cannot be read from {place}."""

    reference: str
    place: str
    is_named: bool

    @property
    def advice(self) -> str:
        if self.is_named:
            return "name a YAML file that exists"
        return "put {reference}.yaml there, or set BACKFILL_REFERENCE to the place that has it"


@sentence
class ReferenceBroken(InvalidReference):
    """{place}: {why}."""

    reference: str
    place: str
    why: str


@sentence
class NotDetermined(OfTable, ContractBroken):
    """{table} uses {name} in {file}, line {line}: {why}, so that the same inputs can give other rows{further}.

    Next: take the value from an input, a reference or the context of the call, and plan again
    """

    name: str
    why: str
    file: str
    line: int
    others: Sequence[str] = ()

    @property
    def further(self) -> str:
        return f"; and so does {', '.join(self.others[:_MOST])}" if self.others else ""
