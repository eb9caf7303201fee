"""Errors of the ledger: what the database, a row or a request had to be, and what was found.

What cannot happen unless a caller of the ledger contradicts itself is a plain `Refused`, with nothing to advise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from backfill_assets.core import errors
from backfill_assets.core.about import Because, OfPublication, OfRun, OfSet, OfTable
from backfill_assets.core.errors import sentence
from backfill_assets.core.lease import Lease
from backfill_assets.core.next_steps import WAIT_OR_RECOVER, Advice, Command, do
from backfill_assets.ledger.states import ChunkState, ImportState, RunState, SetState, State, go_on_with, states_before
from backfill_assets.planning.manifest import Manifest


@sentence
class LedgerUrl(Because, errors.Refused):
    """{why}

    Next: set BACKFILL_LEDGER_URL to something like sqlite:////srv/backfill/ledger.db or postgresql://user@host/database
    """


@sentence
class Unusable(Because, errors.Refused):
    """{what} cannot be used: {why}"""

    what: str
    setting: str

    @property
    def advice(self) -> str:
        if " GRANT " in self.why:
            return "let its owner do that, then give the same command again"
        return "check {setting}, and that the database is up and may be written"


@sentence
class ReadOnly(Because, errors.Refused):
    """the ledger at {url} can be read, and not written: {why}

    Next: let this user write it: a SQLite file with its folder, or the tables of a PostgreSQL database that is not a
    standby
    """

    url: str


@sentence
class Unavailable(Because, errors.Retryable):
    """the ledger could not be used, and nothing was changed in it: {why}"""

    writer: str = ""

    @property
    def advice(self) -> str:
        if self.writer:
            return "wait for that process, or end it if it stands still; then give the same command again"
        return "check that its database is up and not locked by another program, then try again"


@sentence
class Damaged(errors.IllegalTransition):
    """{what}

    Next: [audit]
    """

    what: str
    of: Mapping[str, object]


@sentence
class Edited(Damaged):
    """{what} was edited after it was agreed: its text does not have its digest."""


@sentence
class BadText(Because, errors.Refused):
    """{what} {why}."""

    what: str
    is_missing: bool = False

    @property
    def advice(self) -> str:
        return "say {what}" if self.is_missing else "type it again, as one line of text"


@sentence
class BadApprover(BadText, errors.NotApproved):
    """{what} {why}."""


@sentence
class Named(errors.BackfillError):
    """{kind} {name}"""

    kind: str
    name: str

    @property
    def ids(self) -> Mapping[str, object]:
        return {f"{self.kind.split()[-1]}_id": self.name}


@sentence
class NotInLedger(Named, errors.UnknownName):
    """there is no {kind} {name!r}{which}."""

    which: str = ""
    near: str = ""

    @property
    def advice(self) -> str:
        return "did you mean {near}? [status {near}]" if self.near else "[status]"


@sentence
class TargetTaken(errors.Refused):
    """{target} belongs to replay {replay_id}, which is not closed."""

    target: str
    replay_id: str


def loosened_words(names: Sequence[str], unsure: Sequence[str] = ()) -> str:
    """The terms that are declared more loosely than was last agreed to.

    Args:
        unsure: Of these, what is changed, and may well be stricter.
    """
    parts: list[str] = []
    if surely := [name for name in names if name not in unsure]:
        parts.append(f"the declaration is looser than was last agreed to ({', '.join(surely)})")
    if changed := [name for name in names if name in unsure]:
        was, it_is, counts = ("was", "it is", "it counts") if len(changed) == 1 else ("were", "they are", "they count")
        parts.append(
            f"{' and '.join(changed)} {was} changed since the last agreement: whether {it_is} looser cannot be known, "
            f"so {counts} as looser"
        )
    return "; ".join(parts)


@sentence
class ActRefused(Because, errors.IllegalTransition):
    """{act} {why}.

    Next: [shadow status {name}]
    """

    act: str
    name: str


@sentence
class AlreadyRecorded(Named, errors.Refused):
    """there is a {kind} {name} already, and it never changes."""

    @property
    def advice(self) -> str:
        return "[recover]" if self.kind == "publication" else "plan it again: the new one gets an id of its own"


@sentence
class NotAFollowUp(OfRun, Because, errors.Refused):
    """run {run_id} {why}.

    Next: [follow]
    """


@sentence
class CannotBecome(errors.IllegalTransition):
    """{name} is {is_now}{why_not}."""

    name: str
    found: State | None
    wanted: State
    of: Mapping[str, object]

    @property
    def is_now(self) -> str:
        return "not in the ledger" if self.found is None else str(self.found)

    @property
    def why_not(self) -> str:
        before = " or ".join(map(str, states_before(self.wanted))) or "nothing"
        return " already" if self.found == self.wanted else f", and cannot become {self.wanted}: that follows {before}"

    @property
    def advice(self) -> Advice:
        run_id = self.of.get("run_id")
        match self.wanted, self.found:
            case ChunkState(), _:
                return do(Command.RUN, str(self.of["run_id"]))
            case ImportState(), _:
                return "[status], then land the file again"
            case RunState(), RunState() as found:
                return go_on_with(str(self.of["run_id"]), found)
            case _:
                named = run_id or self.of.get("set_id")
                return do(Command.STATUS, *([str(named)] if named else []))


@sentence
class UnfitState(Because, errors.IllegalTransition):
    """{kind} {name} is {state}; {why}."""

    name: str
    state: RunState | SetState

    @property
    def kind(self) -> str:
        return "run" if isinstance(self.state, RunState) else "set"

    @property
    def ids(self) -> Mapping[str, object]:
        return {f"{self.kind}_id": self.name, "state": str(self.state)}

    @property
    def advice(self) -> Advice:
        return go_on_with(self.name, self.state) if isinstance(self.state, RunState) else "[status {name}]"


@sentence
class NotCancellable(UnfitState):
    """{kind} {name} cannot be cancelled: it is {state}."""

    why: str = ""

    @property
    def advice(self) -> Advice:
        match self.state:
            case SetState.PUBLISHING | SetState.ROLLING_BACK:
                return "[recover], which completes or reverses it; or [rollback {name} by=NAME reason=WHY]"
            case RunState.PUBLISHING:
                return WAIT_OR_RECOVER
            case RunState.PUBLISHED | SetState.PUBLISHED:
                return "[rollback {name} by=NAME reason=WHY]"
            case _:
                return "[status {name}]"


@sentence
class Ended(Because, Named, errors.IllegalTransition):
    """{kind} {name} {why}."""

    @property
    def advice(self) -> str:
        return "[status {name}]" if self.kind in ("run", "set") else "[status]"


@sentence
class NeverPublished(OfRun, errors.IllegalTransition):
    """run {run_id} has mode {manifest.mode} and is never published, so it needs no approval.

    Next: [report {run_id}]
    """

    manifest: Manifest


@sentence
class PartOfSet(OfRun, OfSet, Because, errors.IllegalTransition):
    """run {run_id} {why}."""

    act: str  # what is asked for of the whole set instead

    @property
    def advice(self) -> str:
        match self.act:
            case Command.ROLLBACK:
                return "[rollback {set_id} by=NAME reason=WHY]"
            case Command.CANCEL:
                return "[cancel {set_id} by=NAME reason=WHY]"
            case Command.APPROVE:
                return "[approve {set_id} by=ANOTHER_PERSON]"
            case Command.PUBLISH:
                return "publish the whole set: [publish {set_id} by=NAME]"
            case _:
                return "[status {set_id}]"


@sentence
class ApprovedByPhase(OfRun, OfSet, errors.IllegalTransition):
    """set {set_id} is approved phase by phase, and the next one is run {run_id}.

    Next: [approve {run_id} by=ANOTHER_PERSON]
    """


@sentence
class NotStaged(OfRun, errors.IllegalTransition):
    """run {run_id} is not wholly staged: {lacking}.

    Next: [run {run_id}]
    """

    lacking: str


@sentence
class LostWork(Because, errors.TakenOver):
    """{name} no longer belongs to this process: {why}."""

    name: str
    of: Mapping[str, object]

    @property
    def advice(self) -> Advice:
        run_id = self.of.get("run_id")
        return do(Command.STATUS, *([run_id] if isinstance(run_id, str) else []))


@sentence
class UnderWay(errors.AtWork):
    """{work_id} is under way: {who}.

    Next: wait for it; if its process is gone: [recover {work_id} now=True by=NAME]
    """

    work_id: str
    held: Lease
    found_at: datetime

    @property
    def who(self) -> str:
        held, left = self.held, max(0, round((self.held.until_at - self.found_at).total_seconds()))
        return (
            f"{held.holder} ({held.machine}) has been working on it since {held.since_at:%Y-%m-%d %H:%M:%S} UTC; "
            f"its lease ends in {left} s, at {held.until_at:%H:%M:%S} UTC, unless it is renewed"
        )

    @property
    def ids(self) -> Mapping[str, object]:
        until = self.held.until_at.isoformat()
        return {"work_id": self.work_id, "holder": self.held.holder, "machine": self.held.machine, "until": until}


@sentence
class NeedsApproval(OfRun, errors.NotApproved):
    """no other person than the requester has approved the manifest of run {run_id}.

    Next: [approve {run_id} by=ANOTHER_PERSON]
    """


@sentence
class NeedsAnother(Because, Named, errors.NotApproved):
    """{kind} {name} was {why}, who cannot approve it{as_well}.

    Next: let another person approve it: [approve {name} by=ANOTHER_PERSON]
    """

    as_well: str = ""


@sentence
class TableBusy(OfRun, OfPublication, OfTable, errors.IllegalTransition):
    """{table} is being changed by publication {publication_id} ({action} of run {run_id}), and a table has one open
    publication at a time.

    Next: wait for it; if its process is gone: [recover]
    """

    action: str
