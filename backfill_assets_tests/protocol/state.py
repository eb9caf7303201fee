"""What there is in the model: tables, files, the ledger's rows, and processes with what they hold in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

Files = frozenset[str]
Table = tuple[Files, ...]
"""The files of every partition."""

NOTHING: Files = frozenset()


class Guard(StrEnum):
    """What keeps the protocol right: where it is in the package, and what it does."""

    INTENT_FIRST = "requests.publish.publish_run: the intent is in the ledger before the table changes"
    ONE_OPEN = "ledger.write_publications.PublicationWrites._must_be_free: one open publication of a table"
    SAME_TARGET = (
        "requests.obstacles.same_target,"
        " ledger.write_publications.PublicationWrites._must_expect_what_is_accepted: over what it was compared with"
    )
    APPROVAL = (
        "requests.obstacles.agreed,"
        " ledger.write_publications.PublicationWrites._may_publish: asked in the intent's transaction"
    )
    GATED_FILES = "requests.obstacles.passed_gates: passed for exactly these files"
    NOT_REMOVED = "ledger.write_publications.PublicationWrites._must_be_there: what retention marked stays removed"
    REQUIRE_FILES = "lake.swap._require_files: every new file is there before the commit"
    COMPARE = "lake.swap._compare: every declared partition holds what is expected"
    ONE_HANDLE = "lake.swap.swap: max_commit_retries=0, so no commit came between"
    ONE_COMMIT = "lake.swap._commit: all partitions in one commit"
    APPLICATION_TRANSACTION = "lake.swap.swap: the commit carries the publication's id"
    ASK_BEFORE_COMMIT = "lake.swap.swap: GIVEN_UP is looked for on the handle that commits"
    FENCE = "lake.swap.fence: GIVEN_UP is committed before a publication is abandoned for another process"
    FENCE_ONE_HANDLE = "lake.swap.fence: max_commit_retries=0"
    UNKNOWN_STAYS_OPEN = "requests.publish.swap_and_acknowledge: an unknown outcome is not a refusal"
    CONDITIONAL_STEP = "ledger.events.EventLog.change: UPDATE ... WHERE state = :from"
    FINISH_TWICE = "ledger.write_publications.PublicationWrites.finish: finishing what is finished changes nothing"
    RUN_HELD = "ledger.runs.RunWrites.take: a run that is being published is not staged again"
    VACUUM_CANDIDATES = "upkeep.vacuum._candidate_is_needed: candidates that can still be published are kept"
    VACUUM_OPEN = "upkeep.vacuum._being_published: a table with an open publication is left alone"
    VACUUM_LIVE = "upkeep.vacuum._holdings: what the log shows is kept, whatever the ledger says"
    VACUUM_LISTS_FIRST = "upkeep.vacuum._planned: files are listed before they are judged"
    VACUUM_MOVED = "upkeep.vacuum._moved: what a publication or a run needs since it was judged is not marked"
    VACUUM_LOOKS_AGAIN = "upkeep.vacuum.vacuum_lake: what has become visible since is not removed"
    VACUUM_BEING_WRITTEN = "upkeep.vacuum._by_folder: files of a run that is being staged or gated are kept"
    HOLDER = "ledger.runs.RunReads.require_holder: what a process adds to a run names the attempt that has it"
    LEASE_LEFT_ALONE = "ledger.leases.LeaseReads.require_free: a run is not taken from a process whose lease lasts"
    LEASE_RENEWED = "core.lease.renewed: a working process renews its lease"
    LEASE_GIVEN_UP = "application.recover._computation: a run whose lease has ended is given up"
    CANCEL_UNSEEN = "ledger.runs.end_run: what is being published is not cancelled"
    CANCELLED_IS_FINAL = "ledger.states.TRANSITIONS: nothing follows CANCELLED"

    @property
    def places(self) -> tuple[str, ...]:
        """The dotted names of what does it."""
        return tuple(f"backfill_assets.{name}" for name in self.value.partition(": ")[0].split(", "))


class Wrong(Exception):
    """An invariant does not hold."""


@dataclass(frozen=True, slots=True)
class Publication:
    """A row of the ledger: what a swap is to do, and how far it is; without `new` there is nothing to commit."""

    owner: str
    run: str
    state: str
    expected: Mapping[int, Files]
    versions: Mapping[int, int]
    new: Mapping[int, Files]
    undoes: str | None = None
    equal: Mapping[int, Files] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash((self.owner, self.state, tuple(self.expected.items()), tuple(self.new.items())))


@dataclass(frozen=True, slots=True)
class Run:
    """A candidate: its files, what the gates saw, what they compared it with, and whether that is the same."""

    files: Mapping[int, Files]
    gated: Mapping[int, Files]
    compared: Mapping[int, Files]
    state: str = "PASSED"
    approved: bool = True
    is_equal: bool = False
    attempt: str = ""  #: The process that has it.
    lease: str = ""  #: Of that process: `alive`, or `ended`.
    worker: str = ""  #: Who staged its files; empty for what was there at the beginning.
    cancelled: bool = False  #: It was once; kept beside its state, which a missing guard may change.

    def __hash__(self) -> int:
        return hash((self.state, self.approved, self.attempt, tuple(self.files.items()), tuple(self.gated.items())))


@dataclass(frozen=True, slots=True)
class Process:
    """Who is at which step, with what is held in memory."""

    name: str
    kind: str
    run: str = ""
    at: str = "begin"
    seen_version: int = -1
    held: str = ""
    listed: Files = NOTHING
    going: Files = NOTHING
    rests_on: tuple[tuple[str, str], ...] = ()
    measured: tuple[tuple[int, Files, Files], ...] = ()


@dataclass(frozen=True, slots=True)
class State:
    """Everything there is."""

    table: Table
    version: int
    told: Mapping[str, str]
    publications: Mapping[str, Publication]
    accepted: tuple[tuple[int, Files], ...]
    highest: tuple[int, ...]
    runs: Mapping[str, Run]
    files: Files
    marked: Files
    processes: tuple[Process, ...]
    landed: Mapping[str, Table]
    foreign: frozenset[int] = frozenset()
    paused: frozenset[str] = frozenset()  #: Processes that sleep, so that they renew no lease.
    #: Attempts that may find their run taken: their lease ended while they slept, or a person took it over.
    excused: frozenset[str] = frozenset()

    def __hash__(self) -> int:
        return hash(
            (
                self.table,
                self.version,
                tuple(sorted(self.told.items())),
                tuple(sorted((key, hash(value)) for key, value in self.publications.items())),
                self.accepted,
                tuple(sorted((key, hash(value)) for key, value in self.runs.items())),
                self.files,
                self.marked,
                self.processes,
            )
        )


Steps = Iterator[tuple[str, State]]


def history(*processes: Process, change: Callable[[State], State] = lambda state: state) -> State:
    """`z` is published over `o`; runs `a` (both partitions), `b` (the second) and `e`, `f` (no rows) have passed.

    Args:
        processes: Who acts.
        change: What else is different at the beginning.
    """
    o = {0: frozenset({"o-0"}), 1: frozenset({"o-1"})}
    z = {0: frozenset({"z-0"}), 1: frozenset({"z-1"})}
    a = {0: frozenset({"a-0"}), 1: frozenset({"a-1"})}
    b = {1: frozenset({"b-1"})}
    none = {2: NOTHING}
    every = [*o.values(), *z.values(), *a.values(), *b.values()]
    published = Publication(owner="earlier", run="z", state="PUBLISHED", expected=o, versions={0: 1, 1: 1}, new=z)
    return change(
        State(
            table=(z[0], z[1], NOTHING),
            version=2,
            told={"earlier": "LANDED"},
            publications={"earlier": published},
            accepted=((2, z[0]), (2, z[1]), (0, NOTHING)),
            highest=(2, 2, 0),
            runs={
                "z": Run(files=z, gated=z, compared=o, state="PUBLISHED"),
                "a": Run(files=a, gated=a, compared=z),
                "b": Run(files=b, gated=b, compared={1: z[1]}),
                "e": Run(files=none, gated=none, compared=none),
                "f": Run(files=none, gated=none, compared=none),
            },
            files=frozenset().union(*every),
            marked=NOTHING,
            processes=processes,
            landed={"earlier": (o[0], o[1], NOTHING)},
        )
    )
