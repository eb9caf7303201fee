"""States of runs, publications, sets and imports, and their transition tables.

One table per kind of thing. The store refuses every step that is not in it, with an `UPDATE ... WHERE state = :from`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, StrEnum

from backfill_assets.core.next_steps import WAIT_OR_RECOVER, Advice, Command, do, wait_or_take_over
from backfill_assets.planning.manifest_parts import RunPurpose
from backfill_assets.planning.sets import is_set


class _State(StrEnum):
    """A state that equals its name as a text, and no state of another kind.

    With StrEnum alone `RunState.PUBLISHED == PublicationState.PUBLISHED`, and the two would share one entry in the
    tables below.
    """

    def __eq__(self, other: object) -> bool:
        return self is other if isinstance(other, Enum) else str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


class RequestKind(StrEnum):
    """The kinds of what somebody asks for and somebody agrees to; an id says which kind it is of."""

    RUN = "run"
    SET = "set"
    ACT = "act"
    CAPTURE = "cap"
    REPLAY = "rep"

    def id_of(self, number: int) -> str:
        """The id of an act, a capture or a replay; runs and sets are named where they are planned."""
        return f"{self}-{number:06d}"

    @classmethod
    def of_id(cls, name: str) -> RequestKind:
        """The kind that has an id: a run where nothing else has it."""
        if is_set(name):
            return cls.SET
        numbered = (cls.ACT, cls.CAPTURE, cls.REPLAY)
        return next((kind for kind in numbered if name.startswith(f"{kind}-")), cls.RUN)

    @property
    def has_runs(self) -> bool:
        """True for what makes rows: one run, or several that are agreed to together."""
        return self in (RequestKind.RUN, RequestKind.SET)


class RunState(_State):
    """The state of a run. Its approval is a separate fact, and publication needs both."""

    PLANNED = "PLANNED"
    STAGING = "STAGING"
    STAGED = "STAGED"
    GATING = "GATING"
    PASSED = "PASSED"
    BLOCKED = "BLOCKED"
    FAILED = "FAILED"
    PUBLISHING = "PUBLISHING"
    PUBLISHED = "PUBLISHED"
    VERIFIED = "VERIFIED"
    SUPERSEDED = "SUPERSEDED"
    ROLLED_BACK = "ROLLED_BACK"
    CANCELLED = "CANCELLED"


VISIBLE = frozenset({RunState.PUBLISHING, RunState.PUBLISHED, RunState.VERIFIED, RunState.SUPERSEDED})
"""The states of runs of which readers see the rows, have seen them, or see equal ones: their candidates are evidence,
and there is nothing left to approve."""

NOT_STAGED = (RunState.PLANNED, RunState.STAGING, RunState.FAILED)
NOT_MEASURED = (*NOT_STAGED, RunState.STAGED, RunState.GATING)
"""The states of runs without a whole candidate, and of those without results of their gates."""

UNFINISHED = (RunState.PLANNED, RunState.STAGED, RunState.FAILED)
"""The states of runs on which no process works, and whose gates are still to be measured."""

GATED = (RunState.PASSED, RunState.ROLLED_BACK)
"""The states of runs that can be published as they are."""

UNPUBLISHED = (*NOT_MEASURED, RunState.PASSED, RunState.BLOCKED)
"""The states of runs of which readers have seen nothing."""

EVER_VISIBLE = (RunState.PUBLISHED, RunState.SUPERSEDED)
"""The states of runs whose rows readers see, or saw until a later publication replaced them."""

EVER_PUBLISHED = (*EVER_VISIBLE, RunState.ROLLED_BACK)
"""The states of a run whose publication has landed once."""

FINISHED = (RunState.PUBLISHED, RunState.VERIFIED, RunState.SUPERSEDED, RunState.CANCELLED)
"""The states of runs that cannot be published, or not again before they are rolled back."""

OPEN_STATES = (*UNPUBLISHED, RunState.PUBLISHING)
"""The states of runs that could still be published, unless their mode is one that never is."""

UNBLOCKED = tuple(state for state in OPEN_STATES if state is not RunState.BLOCKED)
"""The same without blocked ones, which are planned again."""


class StoppedBy(StrEnum):
    """The cause that stopped a FAILED run, and would stop it again."""

    CODE = "code"
    LIMIT = "limit"


class ApprovalState(_State):
    """The approval state of a run: may its manifest be published?"""

    DRAFT = "DRAFT"
    APPROVED = "APPROVED"


class PublicationState(_State):
    """The state of one swap: intended, landed, given up with nothing changed, or undone by a later one."""

    PUBLISHING = "PUBLISHING"
    PUBLISHED = "PUBLISHED"
    ABANDONED = "ABANDONED"
    ROLLED_BACK = "ROLLED_BACK"


class SetState(_State):
    """The state of a restatement set's publication. Each of its runs has its own state."""

    PENDING = "PENDING"
    PUBLISHING = "PUBLISHING"
    PARTLY_PUBLISHED = "PARTLY_PUBLISHED"
    PUBLISHED = "PUBLISHED"
    VERIFIED = "VERIFIED"
    ROLLING_BACK = "ROLLING_BACK"
    ROLLED_BACK = "ROLLED_BACK"
    CANCELLED = "CANCELLED"


class VersionState(_State):
    """The state of a partition version for readers."""

    ACCEPTED = "ACCEPTED"
    SUPERSEDED = "SUPERSEDED"
    ROLLED_BACK = "ROLLED_BACK"
    EXPIRED = "EXPIRED"


def made_by(kind: RunPurpose) -> VersionState:
    """The state of the versions that the publication of a run of this kind makes."""
    return VersionState.EXPIRED if kind is RunPurpose.EXPIRY else VersionState.ACCEPTED


STANDING = (VersionState.ACCEPTED, VersionState.EXPIRED)
"""The states of which the newest version of a partition says what it is: what readers see, or that it has expired."""


class ImportState(_State):
    """The state of a landed file."""

    LANDING = "LANDING"
    LANDED = "LANDED"
    LOADED = "LOADED"
    FAILED = "FAILED"


COUNTING = (ImportState.LANDED, ImportState.LOADED)
"""The states of imports whose records count."""


class ChunkState(_State):
    """The state of one chunk of a run."""

    RUNNING = "RUNNING"
    DONE = "DONE"


class ReplayState(_State):
    """The state of a replay: agreed, begun in its topic or stream, all of it sent, and ended; or failed, as not all
    of what was planned can be sent."""

    ASKED = "ASKED"
    SENDING = "SENDING"
    SENT = "SENT"
    FAILED = "FAILED"
    CLOSED = "CLOSED"


class ActState(_State):
    """The state of an act on the versions of a table."""

    ASKED = "ASKED"
    DONE = "DONE"
    UNDONE = "UNDONE"
    CANCELLED = "CANCELLED"


State = (
    RunState
    | ApprovalState
    | PublicationState
    | VersionState
    | ImportState
    | ChunkState
    | SetState
    | ReplayState
    | ActState
)

OPEN_SETS = (SetState.PENDING, SetState.PUBLISHING, SetState.PARTLY_PUBLISHED, SetState.ROLLING_BACK)
"""The states of sets that are not finished."""

RUN = RunState
TRANSITIONS: Mapping[State, frozenset[State]] = {
    # A run. Staging may begin again wherever nothing of it is published: after a failure, a failed gate, or when the
    # target has changed since the candidate was compared with it; gating alone may begin again. Staging and gating may
    # follow themselves: another process takes over. Whatever is not published, or not any more, may be cancelled.
    RUN.PLANNED: frozenset({RUN.STAGING, RUN.CANCELLED}),
    RUN.STAGING: frozenset({RUN.STAGED, RUN.FAILED, RUN.STAGING, RUN.CANCELLED}),
    RUN.STAGED: frozenset({RUN.GATING, RUN.STAGING, RUN.CANCELLED}),
    RUN.GATING: frozenset({RUN.PASSED, RUN.BLOCKED, RUN.FAILED, RUN.STAGING, RUN.GATING, RUN.CANCELLED}),
    RUN.PASSED: frozenset({RUN.PUBLISHING, RUN.GATING, RUN.STAGING, RUN.CANCELLED}),
    RUN.BLOCKED: frozenset({RUN.GATING, RUN.STAGING, RUN.CANCELLED}),
    RUN.FAILED: frozenset({RUN.STAGING, RUN.CANCELLED}),
    RUN.PUBLISHING: frozenset({RUN.PUBLISHED, RUN.VERIFIED, RUN.PASSED, RUN.ROLLED_BACK}),
    RUN.PUBLISHED: frozenset({RUN.SUPERSEDED, RUN.ROLLED_BACK}),
    RUN.VERIFIED: frozenset(),
    RUN.SUPERSEDED: frozenset({RUN.PUBLISHED}),
    RUN.ROLLED_BACK: frozenset({RUN.PUBLISHING, RUN.STAGING, RUN.CANCELLED}),
    RUN.CANCELLED: frozenset(),
    # An approval is withdrawn by a rollback: publishing the same rows again is a new decision.
    ApprovalState.DRAFT: frozenset({ApprovalState.APPROVED}),
    ApprovalState.APPROVED: frozenset({ApprovalState.DRAFT}),
    PublicationState.PUBLISHING: frozenset({PublicationState.PUBLISHED, PublicationState.ABANDONED}),
    PublicationState.PUBLISHED: frozenset({PublicationState.ROLLED_BACK}),
    PublicationState.ABANDONED: frozenset(),
    PublicationState.ROLLED_BACK: frozenset(),
    # A rollback brings the version back that the rolled-back one had superseded.
    VersionState.ACCEPTED: frozenset({VersionState.SUPERSEDED, VersionState.ROLLED_BACK}),
    VersionState.SUPERSEDED: frozenset({VersionState.ACCEPTED}),
    VersionState.ROLLED_BACK: frozenset(),
    # A version without files, which says that a run let the snapshot before it expire.
    VersionState.EXPIRED: frozenset({VersionState.ROLLED_BACK}),
    ImportState.LANDING: frozenset({ImportState.LANDED, ImportState.FAILED}),
    ImportState.LANDED: frozenset({ImportState.LOADED, ImportState.LANDING}),
    ImportState.LOADED: frozenset({ImportState.LANDING}),
    ImportState.FAILED: frozenset({ImportState.LANDING}),
    ChunkState.RUNNING: frozenset({ChunkState.DONE, ChunkState.RUNNING}),
    ChunkState.DONE: frozenset({ChunkState.RUNNING}),
    SetState.PENDING: frozenset({SetState.PUBLISHING, SetState.VERIFIED, SetState.CANCELLED}),
    SetState.PUBLISHING: frozenset(
        {SetState.PUBLISHED, SetState.PARTLY_PUBLISHED, SetState.ROLLING_BACK, SetState.PENDING}
    ),
    # Between two phases of a set. Its last phase can be undone alone, also once all of it is published.
    SetState.PARTLY_PUBLISHED: frozenset(
        {SetState.PUBLISHING, SetState.PUBLISHED, SetState.ROLLING_BACK, SetState.ROLLED_BACK}
    ),
    SetState.PUBLISHED: frozenset({SetState.PARTLY_PUBLISHED, SetState.ROLLING_BACK}),
    SetState.VERIFIED: frozenset(),
    # A rollback that cannot go on may be given up: what was brought back is published again.
    SetState.ROLLING_BACK: frozenset({SetState.ROLLED_BACK, SetState.PUBLISHING}),
    SetState.ROLLED_BACK: frozenset({SetState.PUBLISHING, SetState.CANCELLED}),
    SetState.CANCELLED: frozenset(),
    ReplayState.ASKED: frozenset({ReplayState.SENDING, ReplayState.CLOSED}),
    ReplayState.SENDING: frozenset({ReplayState.SENT, ReplayState.FAILED, ReplayState.CLOSED}),
    ReplayState.SENT: frozenset({ReplayState.CLOSED}),
    ReplayState.FAILED: frozenset({ReplayState.CLOSED}),
    ReplayState.CLOSED: frozenset(),
    ActState.ASKED: frozenset({ActState.DONE, ActState.CANCELLED}),
    ActState.DONE: frozenset({ActState.UNDONE}),
    ActState.UNDONE: frozenset(),
    ActState.CANCELLED: frozenset(),
}


def may_follow(present: State, following: State) -> bool:
    """True if the transition table allows this step."""
    return following in TRANSITIONS[present]


def states_before(wanted: State) -> tuple[State, ...]:
    """The states that a step to this one may begin from."""
    return tuple(state for state in type(wanted) if may_follow(state, wanted))


def go_on_with(run_id: str, state: RunState, whole: str | None = None, *, is_leased: bool = False) -> Advice:
    """The command that takes a run on by its state alone: for a measured one it depends on its set, its approval and
    later publications too, which its status knows.

    Args:
        whole: The set that it is asked for with; None for the run alone.
        is_leased: Whether a process stages or gates it.
    """
    match state:
        case RunState.STAGING | RunState.GATING if is_leased:
            return wait_or_take_over(run_id)
        case RunState.BLOCKED:
            return do(Command.REPORT, run_id)
        case RunState.PUBLISHING:
            return WAIT_OR_RECOVER
        case _ if state in NOT_MEASURED:
            return do(Command.RUN, whole or run_id)
        case _:
            return do(Command.STATUS, whole or run_id)
