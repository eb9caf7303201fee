"""Errors of upkeep: what cannot be audited or reproduced, and which part of an installation is not sound."""

from __future__ import annotations

from enum import Enum, auto

from backfill_assets.core.about import Because, OfRun, OfTable
from backfill_assets.core.errors import ContractBroken, IllegalTransition, MissingInput, Refused, sentence
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.partitions import Partitions


@sentence
class NotAHead(Refused):
    """{head!r} is not the head of an event chain."""

    head: str


@sentence
class EmptySample(Refused):
    """a sample has at least one partition, not {sample}."""

    sample: int


@sentence
class NothingToReproduce(OfRun, IllegalTransition):
    """run {run_id} is not published, so there is nothing to reproduce: it is {state}."""

    state: RunState


@sentence
class ComputedNothing(OfRun, OfTable, IllegalTransition):
    """run {run_id} computed nothing that could be reproduced: by it, snapshots of {table} expired."""


@sentence
class NothingToCompare(OfRun, OfTable, MissingInput):
    """the published files of {table} {partitions} are gone, and their checksums have the form of another release."""

    partitions: Partitions


@sentence
class SparkStopped(OfRun, OfTable, Because, ContractBroken):
    """Spark stopped while it rebuilt {table}: {why}"""


@sentence
class NothingAccepted(OfTable, MissingInput):
    """no partition of {table} that was asked for has accepted rows."""


@sentence
class AskedOfCandidates(OfTable, Refused):
    """gate {gate} of {table} is asked only of candidates: it compares one with the accepted rows."""

    gate: str


@sentence
class NotReadThen(OfRun, OfTable, MissingInput):
    """run {run_id} did not read {argument} for {table}, so that a gate on it cannot be asked of its rows."""

    argument: str


class Fault(Enum):
    """Why a part of an installation is not sound."""

    NO_JAVA = auto()
    LITTLE_SPACE = auto()
    NOT_WRITABLE = auto()
    NOT_LISTED = auto()
    NOT_REMOVED = auto()
    DOES_NOT_COUNT = auto()
    CLOCKS_APART = auto()
    NO_JARS = auto()
    FILES_NOT_SHARED = auto()
    OTHER_TIMES = auto()


@sentence
class NotSound(Refused):
    """{found}"""

    fault: Fault
    found: str


@sentence
class ReadableByOthers(Refused):
    """{place} can be read by other users of this machine."""

    place: str
    home: str
    whom: str


@sentence
class ReadAnew(OfRun, MissingInput):
    """{run_id} was computed from {import_id} ({path}) as an earlier declaration read it, and that file was read anew
    since: the rows that it gave then are not kept."""

    import_id: str
    path: str


@sentence
class ReproducedOtherwise(OfRun, Because, ContractBroken):
    """{why}"""

    from_raw: bool = False
