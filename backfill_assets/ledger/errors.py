"""Errors of the ledger: what the database, a row or a request had to be, and what was found.

What cannot happen unless a caller of the ledger contradicts itself is a plain `Refused`, with nothing to advise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime

from backfill_assets.core import errors
from backfill_assets.core.about import Because, OfPublication, OfRun, OfSet, OfTable
from backfill_assets.core.errors import sentence
from backfill_assets.core.lease import Lease
from backfill_assets.ledger.states import RunState, SetState, State, states_before
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.partitions import Partitions


@sentence
class LedgerUrl(Because, errors.Refused):
    """{why}"""


@sentence
class DriverMissing(errors.Refused):
    """{setting} names PostgreSQL, and the package {package} is not installed."""

    setting: str
    package: str


@sentence
class Unusable(Because, errors.Refused):
    """{what} cannot be used: {why}"""

    what: str
    setting: str


@sentence
class ReadOnly(Because, errors.Refused):
    """the ledger at {url} can be read, and not written: {why}"""

    url: str


@sentence
class ClockBehind(errors.Refused):
    """the clock of this machine shows {shown:%Y-%m-%d %H:%M:%S} UTC, and the last event of the ledger, {sequence} by
    {actor}, is of {last:%Y-%m-%d %H:%M:%S} UTC: one of the two clocks was wrong, and nothing was written.
    """

    shown: datetime
    last: datetime
    sequence: int
    actor: str


@sentence
class Unavailable(Because, errors.Retryable):
    """the ledger could not be used, and nothing was changed in it: {why}"""

    writer: str = ""


@sentence
class LostWhileCommitting(Because, errors.OutcomeUnknown):
    """the connection to the ledger was lost while it was committing: {why}"""


@sentence
class NewerLedger(errors.Refused):
    """the ledger is at revision {revision}, which this version does not know; it knows revisions up to {known}."""

    revision: str | None
    known: str


@sentence
class DanglingReferences(OfTable, errors.Refused):
    """rows of the ledger's table {table} refer to rows that are not there; it was left as it was."""


@sentence
class Damaged(errors.IllegalTransition):
    """{what}"""

    what: str
    of: Mapping[str, object]


@sentence
class Edited(Damaged):
    """{what} was edited after it was agreed: its text does not have its digest."""


@sentence
class Unreadable(Because, Damaged):
    """{what} cannot be read: {why}."""


@sentence
class BadText(Because, errors.Refused):
    """{what} {why}."""

    what: str
    is_missing: bool = False


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


@sentence
class TargetTaken(errors.Refused):
    """{target} belongs to replay {replay_id}, which is not closed."""

    target: str
    replay_id: str


def loosened_words(names: Sequence[str], unsure: Sequence[str] = ()) -> str:
    """What is declared more loosely than was last agreed to.

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
class ActNotApproved(errors.NotApproved):
    """{act_id} is not approved; {requester} asked for it, so another person has to agree{to_what}."""

    act_id: str
    requester: str
    loosened: tuple[str, ...] = ()
    unsure: tuple[str, ...] = ()

    @property
    def to_what(self) -> str:
        return f": {loosened_words(self.loosened, self.unsure)}" if self.loosened else ""


@sentence
class AlreadyShown(OfTable, errors.IllegalTransition):
    """{act} of {table} cannot be: readers of {name} are shown it."""

    act: str
    name: str


@sentence
class Retired(OfTable, errors.IllegalTransition):
    """{table} was given up for good by {act_id}."""

    act_id: str


@sentence
class OtherTableShown(errors.TargetChanged):
    """{act_id} was asked for while readers of {name} were shown {expected}, and they are shown {found} now."""

    act_id: str
    name: str
    expected: str
    found: str


@sentence
class NotTheLast(Because, errors.IllegalTransition):
    """{act_id} cannot be undone: it {why}."""

    act_id: str
    name: str


@sentence
class NotGivenUp(errors.UnknownName):
    """no sensor has given up {subject!r}."""

    subject: str


@sentence
class UnknownVersion(OfTable, errors.UnknownName):
    """{table} never had version {version} of {partition}{others}."""

    partition: date
    version: int
    more: int

    @property
    def others(self) -> str:
        return f" (nor {self.more} more of those asked for)" if self.more else ""


@sentence
class AlreadyRecorded(Named, errors.Refused):
    """there is a {kind} {name} already, and it never changes."""


@sentence
class OtherManifest(OfRun, OfSet, errors.Refused):
    """set {set_id} names another manifest of run {run_id} than the ledger holds."""


@sentence
class NotAFollowUp(OfRun, Because, errors.Refused):
    """run {run_id} {why}."""


@sentence
class NoSamples(errors.Refused):
    """the ledger holds no values of rows of run {runs}."""

    run_ids: tuple[str, ...]

    @property
    def runs(self) -> str:
        return " or ".join(self.run_ids)


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


@sentence
class NotCancellable(UnfitState):
    """{kind} {name} cannot be cancelled: it is {state}."""

    why: str = ""


@sentence
class Ended(Because, Named, errors.IllegalTransition):
    """{kind} {name} {why}."""


@sentence
class EndedBefore(errors.IllegalTransition):
    """a freeze until {until:%Y-%m-%d %H:%M} UTC would have ended already: it is {now:%Y-%m-%d %H:%M} UTC."""

    until: datetime
    now: datetime


@sentence
class NotForThis(OfTable, Because, errors.IllegalTransition):
    """a freeze of {table} {partitions} cannot be for {name}: {why}."""

    partitions: Partitions
    name: str


@sentence
class FrozenForAnother(OfTable, errors.IllegalTransition):
    """{table} {partitions} is frozen by {freeze_id} for {only} alone: with a freeze for {name} neither could pass."""

    partitions: Partitions
    freeze_id: str
    only: str
    name: str


@sentence
class NeverPublished(OfRun, errors.IllegalTransition):
    """run {run_id} has mode {manifest.mode} and is never published, so it needs no approval."""

    manifest: Manifest


@sentence
class PartOfSet(OfRun, OfSet, Because, errors.IllegalTransition):
    """run {run_id} {why}."""

    act: str  # what is asked for of the whole set instead


@sentence
class ApprovedByPhase(OfRun, OfSet, errors.IllegalTransition):
    """set {set_id} is approved phase by phase, and the next one is run {run_id}."""


@sentence
class NotStaged(OfRun, errors.IllegalTransition):
    """run {run_id} is not wholly staged: {lacking}."""

    lacking: str


@sentence
class NotWhatWasStaged(OfRun, errors.Refused):
    """the gates of run {run_id} measured files that are not the staged ones, for {partitions}."""

    partitions: str


@sentence
class LostWork(Because, errors.TakenOver):
    """{name} no longer belongs to this process: {why}."""

    name: str
    of: Mapping[str, object]


@sentence
class UnderWay(errors.AtWork):
    """{work_id} is under way: {who}."""

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
    """no other person than the requester has approved the manifest of run {run_id}."""


@sentence
class NeedsAnother(Because, Named, errors.NotApproved):
    """{kind} {name} was {why}, who cannot approve it{as_well}."""

    as_well: str = ""


@sentence
class NeedsComment(OfRun, OfTable, errors.NotApproved):
    """the approval of {whole} needs a comment on gates of {table}: {gates}."""

    whole: str
    gates: tuple[str, ...]


@sentence
class TableBusy(OfRun, OfPublication, OfTable, errors.IllegalTransition):
    """{table} is being changed by publication {publication_id} ({action} of run {run_id}), and a table has one open
    publication at a time."""

    action: str


@sentence
class NoLongerAsked(OfRun, errors.IllegalTransition):
    """run {run_id} follows publications that no longer ask for it ({reasons}), so it is not published."""

    publications: tuple[str, ...]
    reasons: str
    manifest: Manifest


@sentence
class LandedSince(OfRun, OfTable, errors.InputsMovedOn):
    """run {run_id} built {unread} of {table} without events, and events for those days landed afterwards."""

    unread: str
    days: tuple[date, ...]


@sentence
class OtherVersions(OfRun, OfTable, errors.TargetChanged):
    """{table} is not what was expected, for {which}: expected version {expected} of {first}, found {found}."""

    partitions: tuple[date, ...]
    which: str
    expected: int
    found: int
    is_rollback: bool

    @property
    def first(self) -> date:
        return self.partitions[0]


@sentence
class StagedFilesRemoved(OfRun, OfTable, errors.MissingInput):
    """the staged files of run {run_id} were removed by retention at {at}, for {days}."""

    at: str
    days: str


@sentence
class ReplacedFilesRemoved(OfRun, OfTable, errors.MissingInput):
    """run {run_id} cannot be rolled back: what it replaced in {table} {how} at {at}, for {days}."""

    at: str
    days: str
    manifest: Manifest
    how: str = "was removed by retention"
