"""Errors of the ledger: what the database, a row or a request had to be, and what was found.

What cannot happen unless a caller of the ledger contradicts itself is a plain `Refused`, with nothing to advise.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime

from backfill_assets.core import errors
from backfill_assets.core.errors import sentence
from backfill_assets.core.lease import Lease
from backfill_assets.ledger.states import RunState, SetState, State, states_before
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.partitions import Partitions


@sentence
class LedgerUrl(errors.Refused):
    """{why}"""

    why: str


@sentence
class DriverMissing(errors.Refused):
    """{setting} names PostgreSQL, and the package {package} is not installed."""

    setting: str
    package: str


@sentence
class Unusable(errors.Refused):
    """{what} cannot be used: {why}"""

    what: str
    why: str
    setting: str


@sentence
class ReadOnly(errors.Refused):
    """the ledger at {url} can be read, and not written: {why}"""

    url: str
    why: str


@sentence
class Unavailable(errors.Retryable):
    """the ledger could not be used, and nothing was changed in it: {why}"""

    why: str


@sentence
class LostWhileCommitting(errors.OutcomeUnknown):
    """the connection to the ledger was lost while it was committing: {why}"""

    why: str


@sentence
class NewerLedger(errors.Refused):
    """the ledger is at revision {revision}, which this version does not know; it knows revisions up to {known}."""

    revision: str | None
    known: str


@sentence
class DanglingReferences(errors.Refused):
    """rows of the ledger's table {table} refer to rows that are not there; it was left as it was."""

    table: str


@sentence
class Damaged(errors.IllegalTransition):
    """{what}"""

    what: str
    of: Mapping[str, object]


@sentence
class Edited(Damaged):
    """{what} was edited after it was agreed: its text does not have its digest."""


@sentence
class Unreadable(Damaged):
    """{what} cannot be read: {why}."""

    why: str


@sentence
class BadText(errors.Refused):
    """{what} {why}."""

    what: str
    why: str
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


@sentence
class ActNotApproved(errors.NotApproved):
    """{act_id} is not approved; {requester} asked for it, so another person has to agree."""

    act_id: str
    requester: str


@sentence
class AlreadyShown(errors.IllegalTransition):
    """{act} of {table} cannot be: readers of {name} are shown it."""

    act: str
    name: str
    table: str


@sentence
class Retired(errors.IllegalTransition):
    """{table} was given up for good by {act_id}."""

    table: str
    act_id: str


@sentence
class OtherTableShown(errors.TargetChanged):
    """{act_id} was asked for while readers of {name} were shown {expected}, and they are shown {found} now."""

    act_id: str
    name: str
    expected: str
    found: str


@sentence
class NotTheLast(errors.IllegalTransition):
    """{act_id} cannot be undone: it {why}."""

    act_id: str
    name: str
    why: str


@sentence
class NotGivenUp(errors.UnknownName):
    """no sensor has given up {subject!r}."""

    subject: str


@sentence
class UnknownVersion(errors.UnknownName):
    """{table} never had version {version} of {partition}{others}."""

    table: str
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
class OtherManifest(errors.Refused):
    """set {set_id} names another manifest of run {run_id} than the ledger holds."""

    set_id: str
    run_id: str


@sentence
class NotAFollowUp(errors.Refused):
    """run {run_id} {why}."""

    run_id: str
    why: str


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
class UnfitState(errors.IllegalTransition):
    """{kind} {name} is {state}; {why}."""

    name: str
    state: RunState | SetState
    why: str

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
class Ended(Named, errors.IllegalTransition):
    """{kind} {name} {why}."""

    why: str


@sentence
class EndedBefore(errors.IllegalTransition):
    """a freeze until {until:%Y-%m-%d %H:%M} UTC would have ended already: it is {now:%Y-%m-%d %H:%M} UTC."""

    until: datetime
    now: datetime


@sentence
class NotForThis(errors.IllegalTransition):
    """a freeze of {table} {partitions} cannot be for {name}: {why}."""

    table: str
    partitions: Partitions
    name: str
    why: str


@sentence
class FrozenForAnother(errors.IllegalTransition):
    """{table} {partitions} is frozen by {freeze_id} for {only} alone: with a freeze for {name} neither could pass."""

    table: str
    partitions: Partitions
    freeze_id: str
    only: str
    name: str


@sentence
class NeverPublished(errors.IllegalTransition):
    """run {run_id} has mode {manifest.mode} and is never published, so it needs no approval."""

    run_id: str
    manifest: Manifest


@sentence
class PartOfSet(errors.IllegalTransition):
    """run {run_id} {why}."""

    run_id: str
    set_id: str
    act: str  # what is asked for of the whole set instead
    why: str


@sentence
class ApprovedByPhase(errors.IllegalTransition):
    """set {set_id} is approved phase by phase, and the next one is run {run_id}."""

    set_id: str
    run_id: str


@sentence
class NotStaged(errors.IllegalTransition):
    """run {run_id} is not wholly staged: {lacking}."""

    run_id: str
    lacking: str


@sentence
class NotWhatWasStaged(errors.Refused):
    """the gates of run {run_id} measured files that are not the staged ones, for {partitions}."""

    run_id: str
    partitions: str


@sentence
class LostWork(errors.TakenOver):
    """{name} no longer belongs to this process: {why}."""

    name: str
    why: str
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
class NeedsApproval(errors.NotApproved):
    """no other person than the requester has approved the manifest of run {run_id}."""

    run_id: str


@sentence
class NeedsAnother(Named, errors.NotApproved):
    """{kind} {name} was {why}, who cannot approve it{as_well}."""

    why: str
    as_well: str = ""


@sentence
class NeedsComment(errors.NotApproved):
    """the approval of {whole} needs a comment on gates of {table}: {gates}."""

    run_id: str
    whole: str
    table: str
    gates: tuple[str, ...]


@sentence
class TableBusy(errors.IllegalTransition):
    """{table} is being changed by publication {publication_id} ({action} of run {run_id}), and a table has one open
    publication at a time."""

    table: str
    publication_id: str
    action: str
    run_id: str


@sentence
class NoLongerAsked(errors.IllegalTransition):
    """run {run_id} follows publications that no longer ask for it ({reasons}), so it is not published."""

    run_id: str
    publications: tuple[str, ...]
    reasons: str
    manifest: Manifest


@sentence
class LandedSince(errors.InputsMovedOn):
    """run {run_id} built {unread} of {table} without events, and events for those days landed afterwards."""

    run_id: str
    table: str
    unread: str
    days: tuple[date, ...]


@sentence
class OtherVersions(errors.TargetChanged):
    """{table} is not what was expected, for {which}: expected version {expected} of {first}, found {found}."""

    run_id: str
    table: str
    partitions: tuple[date, ...]
    which: str
    expected: int
    found: int
    is_rollback: bool

    @property
    def first(self) -> date:
        return self.partitions[0]


@sentence
class StagedFilesRemoved(errors.MissingInput):
    """the staged files of run {run_id} were removed by retention at {at}, for {days}."""

    run_id: str
    table: str
    at: str
    days: str


@sentence
class ReplacedFilesRemoved(errors.MissingInput):
    """run {run_id} cannot be rolled back: what it replaced in {table} was removed by retention at {at}, for {days}."""

    run_id: str
    table: str
    at: str
    days: str
    manifest: Manifest
