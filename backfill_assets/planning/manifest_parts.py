"""Parts of a manifest: what a run is for, what it pins, why its rows can differ, its gates, its limits, its proof, and
the keys whose rows its report shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from typing import Any

from backfill_assets.calendar.partitions import DayRange, Grain, Partitions, compress
from backfill_assets.calendar.windows import AnyWindow, parse_window
from backfill_assets.core.grouped import grouped
from backfill_assets.core.identity import document_digest
from backfill_assets.core.tariff import Cost


class RunPurpose(StrEnum):
    """Why history is computed (docs/glossary.md)."""

    BACKFILL = "BACKFILL"
    REPROCESSING = "REPROCESSING"
    RESTATEMENT = "RESTATEMENT"
    REPAIR = "REPAIR"
    MIGRATION = "MIGRATION"
    BOOTSTRAP = "BOOTSTRAP"
    LIVE = "LIVE"
    EXPIRY = "EXPIRY"


class Mode(StrEnum):
    """The mode of a run: how it may act on the world."""

    LIVE = "LIVE"
    BACKFILL = "BACKFILL"
    REPLAY = "REPLAY"
    DRY_RUN = "DRY_RUN"
    RECONCILIATION = "RECONCILIATION"


class CauseKind(StrEnum):
    """The kind of cause of a run."""

    PERSON = "PERSON"
    FOLLOW_UP = "FOLLOW_UP"
    LIVE = "LIVE"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class InexactSum:
    """An addition of floating-point numbers: its last digits depend on the order in which Spark adds rows."""

    file: str  #: The module of the author that adds, below the folder of the package.
    line: int  #: The line.
    function: str  #: What adds, such as `sum`.
    columns: tuple[str, ...]  #: What is added.


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCause:
    """The cause of a run, which decides which policy of its table counts."""

    kind: CauseKind  #: A request by a person, a follow-up that the ledger's outbox asked for, or a landed file.
    #: The publications that a follow-up follows, in the order of the outbox; empty for the other kinds.
    publications: tuple[str, ...] = ()


A_PERSON = RunCause(kind=CauseKind.PERSON)
WHAT_LANDED = RunCause(kind=CauseKind.LIVE)

NEVER_PUBLISHED = frozenset({Mode.DRY_RUN, Mode.RECONCILIATION})
"""Modes of runs that stage and gate, and end there."""

ALWAYS_SWAPPED = frozenset({RunPurpose.REPAIR, RunPurpose.MIGRATION, RunPurpose.EXPIRY})
"""Kinds of runs that replace the files themselves, so equal rows are swapped in all the same."""

NOT_BY_KIND = frozenset({RunPurpose.LIVE, RunPurpose.EXPIRY})
"""Kinds that no person can name in a plan: what arrives, and the snapshots that a table no longer keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedPartition:
    """One input partition as it was when the run was planned."""

    partition: date  #: Its first day.
    version: int  #: The partition version in the ledger; 0 when another run of the same set stages it.
    digest: str  #: The digest of its file set; empty when another run of the same set stages it.
    from_run: str | None = None  #: The run of the same set whose candidate is read; None for an accepted version.


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledSnapshot:
    """An accepted snapshot that is kept where the snapshot before it in the run turns out to be equal."""

    pin: PinnedPartition
    after: PinnedPartition  #: The accepted snapshot before it, since which nothing has changed.


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedInput:
    """One input of the run: the table, bound to an argument of the transform, and its exact partition versions."""

    argument: str
    table: str
    partitions: tuple[PinnedPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysUnknown:
    """Keys of a source that were not known when a run was planned, of days that it reads."""

    table: str  #: The source table.
    keys: int  #: How many.
    days: tuple[date, ...]  #: The days of their last accepted versions.


class ReferenceSemantics(StrEnum):
    """The truth that a reference gives the rows of a run.

    `CURRENT`: what holds now, the version in the reference folder when the run was planned. `CORRECTED`: what should
    have been true, a version that the requester named. `AS_RECORDED`: what was believed then, the version that the
    replaced rows had used.
    """

    CURRENT = "CURRENT"
    CORRECTED = "CORRECTED"
    AS_RECORDED = "AS_RECORDED"


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedReference:
    """A reference document."""

    name: str  #: Its name.
    version: str  #: Its declared version.
    sha256: str  #: Of its bytes.
    semantics: ReferenceSemantics = ReferenceSemantics.CURRENT  #: Why this version.

    @property
    def is_chosen(self) -> bool:
        """True if a person chose this version, rather than taking the present one."""
        return self.semantics is not ReferenceSemantics.CURRENT

    @staticmethod
    def parse(document: Mapping[str, str]) -> PinnedReference:
        named = {name: document[name] for name in ("name", "version", "sha256")}
        return PinnedReference(**named, semantics=ReferenceSemantics(document["semantics"]))


def semantics_of(references: Iterable[PinnedReference]) -> ReferenceSemantics | None:
    """The semantics of a run's references: `CURRENT` if no version was chosen; None for a run without references.

    One run never mixes versions as recorded with versions that were named.
    """
    found = {reference.semantics for reference in references}
    chosen = found - {ReferenceSemantics.CURRENT}
    return next(iter(chosen or found), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class GateInput:
    """A table whose accepted rows a gate reads, in a window around the partitions of its run."""

    argument: str  #: By which name the gate is given them.
    table: str  #: The table; that of the run itself for the partitions around it.
    window: AnyWindow  #: How far around a partition of the run it reads.
    changes: bool = False  #: True if it reads the changelog of a source, and not the current rows.
    #: True if partitions that are not accepted are left out; else the gate does not pass without them.
    is_optional: bool = False

    @property
    def document(self) -> Mapping[str, Any]:
        """The input as a manifest keeps it; `GateInput.parse(read.document) == read`."""
        flags = {"changes": self.changes, "optional": self.is_optional}
        named = {"argument": self.argument, "table": self.table, "window": dict(self.window.document)}
        return {**named, **{name: True for name, is_set in flags.items() if is_set}}

    @staticmethod
    def parse(document: Mapping[str, Any]) -> GateInput:
        return GateInput(
            argument=document["argument"],
            table=document["table"],
            window=parse_window(document["window"]),
            changes=document.get("changes", False),
            is_optional=document.get("optional", False),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GateTerm:
    """A gate as agreed."""

    name: str  #: Its name.
    demands: str  #: What it asks for, in words.
    blocking: bool  #: True if its failure blocks publication; else it only informs.
    #: The digest of the author's code that measures it, or of a query; the kind and release of a gate of this project;
    #: empty for a gate that its words say.
    code: str = ""
    reads: tuple[GateInput, ...] = ()  #: The tables whose accepted rows it reads.
    references: tuple[str, ...] = ()  #: The references that it names.

    @property
    def document(self) -> Mapping[str, Any]:
        """The term as a manifest keeps it; `GateTerm.parse(term.document) == term`."""
        more = {
            "code": self.code,
            "reads": [dict(read.document) for read in self.reads],
            "references": list(self.references),
        }
        found = {"name": self.name, "demands": self.demands, "blocking": self.blocking}
        return {**found, **{name: value for name, value in more.items() if value}}

    @staticmethod
    def parse(document: Mapping[str, Any]) -> GateTerm:
        reads = tuple(map(GateInput.parse, document.get("reads", ())))
        return GateTerm(**{**document, "reads": reads, "references": tuple(document.get("references", ()))})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of the run. None is no limit."""

    chunk_partitions: int  #: The most output partitions that one call computes, in parallel.
    chunk_rows: int | None = None  #: The most rows that a chunk is expected to have; a single partition may have more.
    max_rows: int | None = None  #: The most staged rows; more of them stop the run before its gates.
    #: Staging waits between chunks so that no more rows than this are written per minute.
    rows_per_minute: int | None = None
    pause_s: int = 0  #: Seconds between one chunk and the next.
    max_cost: Cost | None = None  #: What its requester allows it to cost; what costs more stops before its next chunk.
    priority: int = 0  #: Publication of open runs of a lower one over the same partitions waits for this run.


@dataclass(frozen=True, slots=True, kw_only=True)
class MoreDays:
    """The number of days beyond its window that are read of one input: those that exist, even if the proof asks for
    more."""

    argument: str  #: The argument of the transform.
    back: int  #: Days before the window.
    ahead: int  #: Days after it.


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The recomputations that prove the window: of partitions at the ends of the run and of its chunks."""

    beside: int  #: How many partitions of its neighbours a chunk computes as well on either side, at most.
    partitions: tuple[date, ...]  #: Those at the ends of the run, with longer windows.
    #: By how many more days than its own window each input is read for these, if they are there.
    more: tuple[MoreDays, ...]
    inputs: tuple[PinnedInput, ...]  #: The input partitions of the longer windows that the run itself does not read.


class Cause(StrEnum):
    """Why a partition is stale, the most pressing first."""

    CODE_CHANGED = "CODE_CHANGED"
    SESSION_CHANGED = "SESSION_CHANGED"
    VERSION_CHANGED = "VERSION_CHANGED"
    CONFIGURATION_CHANGED = "CONFIGURATION_CHANGED"
    PILOTED = "PILOTED"
    REFERENCE_CHANGED = "REFERENCE_CHANGED"
    REFERENCE_KEPT = "REFERENCE_KEPT"
    DIFFERENCE_ACCEPTED = "DIFFERENCE_ACCEPTED"
    INPUT_CHANGED = "INPUT_CHANGED"
    NEVER_BUILT = "NEVER_BUILT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One reason why a range of partitions is stale."""

    #: What changed. CODE_CHANGED: the code, while the version is the same, an error to be confirmed; SESSION_CHANGED:
    #: the Spark settings that a later release fixes; PILOTED: the last run computed only some of the rows;
    #: REFERENCE_KEPT: a person chose the version of a reference; DIFFERENCE_ACCEPTED: an owner left the rows as they
    #: are, although a run found others.
    cause: Cause
    #: The input table, the reference, the version whose code changed, or the rows of a pilot; empty for the other
    #: causes.
    name: str = ""
    was: str = ""  #: The version, digest or setting then.
    now: str = ""  #: The same now.
    #: The input days that changed and that the range reads, or the days whose facts changed; None if the cause has no
    #: days, or any day may be affected.
    days: tuple[DayRange, ...] | None = None
    files: tuple[str, ...] = ()  #: For a source table, the landed files that the range was built without.
    semantics: ReferenceSemantics | None = None  #: Of a reference whose version was chosen: which truth it gives.
    #: The run for which it was chosen, the pilot, the run whose difference was accepted, or the run of the same set
    #: that computes the input days again.
    run_id: str = ""

    @staticmethod
    def parse(document: Mapping[str, Any]) -> Reason:
        """The reason that a document of plain values holds."""
        days, semantics = document["days"], document["semantics"]
        return Reason(
            cause=Cause(document["cause"]),
            name=document["name"],
            was=document["was"],
            now=document["now"],
            days=None
            if days is None
            else tuple(DayRange(date.fromisoformat(each["start"]), date.fromisoformat(each["end"])) for each in days),
            files=tuple(document["files"]),
            semantics=None if semantics is None else ReferenceSemantics(semantics),
            run_id=document["run_id"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedReference:
    """A reference that has changed since a run was planned with it."""

    table: str  #: The table of the run.
    name: str  #: The reference.
    was: str  #: The version that the run was planned with.
    now: str  #: The present version; the same where it has other content under it.
    partitions: Partitions  #: The partitions of the run that it can change.


_PRESSING = {cause: place for place, cause in enumerate(Cause)}


def in_order(reasons: Iterable[Reason]) -> tuple[Reason, ...]:
    """Reasons, the most pressing first."""
    return tuple(sorted(reasons, key=lambda each: (_PRESSING[each.cause], each.name, each.was, each.run_id)))


def only_of_code(reasons: Iterable[Reason]) -> bool:
    """True if partitions are stale for changed code alone, which a person asks for by itself (`--changed-code`)."""
    return {reason.cause for reason in reasons} - {Cause.DIFFERENCE_ACCEPTED} == {Cause.CODE_CHANGED}


def together(reasons: Iterable[Reason]) -> tuple[Reason, ...]:
    """The reasons of several ranges of partitions, each once, with the days that it has in any of them."""
    found = grouped((replace(reason, days=None), reason.days) for reason in reasons)
    return in_order(replace(reason, days=_all_days(some)) for reason, some in found.items())


def _all_days(some: Iterable[tuple[DayRange, ...] | None]) -> tuple[DayRange, ...] | None:
    """The days of all; None if any day may be affected."""
    found: set[date] = set()
    for ranges in some:
        if ranges is None:
            return None
        found.update(day for days in ranges for day in days)
    return compress(Grain.DAILY, found)


MOST_KEYS = 5_000
"""The most keys that can be asked for: a person reads the rows, one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedKeys:
    """The requested keys, as a manifest pins them."""

    count: int  #: How many they are.
    digest: str  #: sha256 over a random number, which is kept with the keys, and the keys.


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedKeys:
    """Keys of rows."""

    columns: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...]  #: Values of these columns, as text.
    salt: str  #: A random number, which is erased with the keys: without it, their digest proves no guess.

    @property
    def pinned(self) -> PinnedKeys:
        return PinnedKeys(count=len(self.keys), digest=document_digest([self.salt, self.columns, self.keys]))
