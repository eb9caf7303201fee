"""Errors of references: documents that cannot be read, and versions that are not known."""

from __future__ import annotations

from collections.abc import Sequence

from backfill_assets.core.errors import InvalidReference, MissingInput, Refused, UnknownName, sentence


@sentence
class ReferenceNotRead(MissingInput):
    """the reference {reference} cannot be read from {place}."""

    reference: str
    place: str
    is_named: bool


@sentence
class ReferenceBroken(InvalidReference):
    """{place}: {why}."""

    reference: str
    place: str
    why: str


@sentence
class ReferenceNotArchived(MissingInput):
    """{reference} {version} (sha256 {sha256}) is what the rows are computed with, and the archive {place} does not hold
    it as it was."""

    reference: str
    version: str
    sha256: str
    place: str


@sentence
class NoSuchVersion(UnknownName):
    """no version {wanted!r} of {reference} was ever used here; known are {known}."""

    reference: str
    wanted: str
    known: Sequence[str]


@sentence
class SeveralDocuments(Refused):
    """{count} documents of {reference} have version {wanted}: sha256 {sha256}."""

    reference: str
    wanted: str
    sha256: Sequence[str]

    @property
    def count(self) -> int:
        return len(self.sha256)
