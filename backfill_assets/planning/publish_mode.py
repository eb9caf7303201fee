"""Publish mode: how a run's rows become the content of its partitions, as a table declares it and its manifests pin it.

Every mode stages the full new content of each partition and swaps it against the accepted one; they differ in what the
new content is made of, and in what is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class PublishKind(StrEnum):
    """What a publication does to partitions."""

    REPLACE = "REPLACE"
    APPEND = "APPEND"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishMode:
    """How a run's rows become the content of its partitions.

    Attributes:
        kind: Replaced as a whole, or only added where no version was ever accepted.
    """

    kind: PublishKind = PublishKind.REPLACE

    @property
    def only_adds(self) -> bool:
        """Whether a partition with an accepted version, an empty one too, never changes."""
        return self.kind is PublishKind.APPEND

    @property
    def document(self) -> Mapping[str, str]:
        """The mode as plain values."""
        return {"kind": str(self.kind)}

    @staticmethod
    def parse(document: Mapping[str, str]) -> PublishMode:
        """The mode that a document holds; `parse(mode.document) == mode`."""
        return PublishMode(kind=PublishKind(document["kind"]))


REPLACE = PublishMode()


def replace() -> PublishMode:
    """A partition is replaced as a whole by what the transform returns for it. The usual mode."""
    return REPLACE


def append() -> PublishMode:
    """Partitions are only added: one that has an accepted version, an empty one too, is never changed by a run.

    Such a table stays as it was published when its inputs, code or references change; `backfill stale` lists it. To
    correct it, roll back the publication that added the partitions and plan them again.
    """
    return PublishMode(kind=PublishKind.APPEND)
