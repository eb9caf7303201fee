"""Errors of references that cannot be read or are not known, and of code whose rows do not follow from a manifest."""

from __future__ import annotations

from collections.abc import Sequence

from backfill_assets.core.about import OfTable
from backfill_assets.core.errors import ContractBroken, InvalidReference, MissingInput, Refused, sentence

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
class CodeNotArchived(MissingInput):
    """the list {place} is not that of the code with digest {digest}, which would not lead to its lines."""

    digest: str
    place: str


@sentence
class SeveralDocuments(Refused):
    """{count} documents of {reference} have version {wanted}: sha256 {sha256}."""

    reference: str
    wanted: str
    sha256: Sequence[str]

    @property
    def count(self) -> int:
        return len(self.sha256)

    @property
    def advice(self) -> str | None:
        return "name one by its sha256: [reference={reference}={first}]" if self.sha256 else None

    @property
    def first(self) -> str:
        return self.sha256[0]


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


@sentence
class NotPinnable(OfTable, ContractBroken):
    """{table} uses {name}, bound in {file}, line {line}: its value, a {kind}, cannot be pinned in a manifest.

    Next: bind a constant, such as a number, a text, a tuple or a StructType, or make it inside of the function; then
    plan again
    """

    name: str
    kind: str
    file: str
    line: int
