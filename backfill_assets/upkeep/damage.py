"""Damage: what an audit found amiss as a sentence, with what it is about, from which the next step follows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Self

from backfill_assets.calendar.partitions import Grain


class Lost(StrEnum):
    """A lost object: it is gone, or is not as it was written."""

    ACCEPTED = "ACCEPTED"
    EARLIER = "EARLIER"
    LANDED = "LANDED"
    CAPTURED = "CAPTURED"
    CONFORMED = "CONFORMED"
    QUARANTINED = "QUARANTINED"
    SEGMENT = "SEGMENT"
    REFERENCE = "REFERENCE"
    CODE = "CODE"
    TABLE = "TABLE"
    NOT_NEEDED = "NOT_NEEDED"
    FOREIGN = "FOREIGN"
    COMMIT = "COMMIT"
    EVIDENCE = "EVIDENCE"
    LEDGER = "LEDGER"
    NOTHING = "NOTHING"


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """The kind of a problem in an audit."""

    kind: Lost
    table: str = ""  #: The table or the source; empty of what is of none.
    grain: Grain | None = None  #: Of its partitions; None of a source file.
    partition: date | None = None  #: The partition of a lost version.
    run_id: str = ""  #: The run that made the lost version.
    place: str = ""  #: The file or the folder, as a person finds it.
    named: str = ""  #: What the file was called where it came from, or which version of a reference it is.
    sha256: str = ""  #: Of its bytes, where they are to be found elsewhere.
    repair: str = ""  #: The open run that has begun to repair it, if there is one.
    is_repaired: bool = False  #: True if that has only to be published.


class Amiss(str):
    """A problem of an audit: a sentence that carries its damage."""

    __slots__ = ("damage",)
    damage: Damage

    @classmethod
    def of(cls, sentence: str, damage: Damage) -> Self:
        found = cls(sentence)
        found.damage = damage
        return found
