"""Errors of publication: what a run or a table had to be, and what was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date

from backfill_assets.core import errors
from backfill_assets.core.errors import sentence
from backfill_assets.ledger.errors import Named
from backfill_assets.ledger.freezes import Freeze
from backfill_assets.ledger.states import RunState, StoppedBy
from backfill_assets.planning.impact import TablePartitions, each_once
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.partitions import Partitions

Groups = tuple[tuple[str, ...], ...]
"""An approver has to be a member of one group in each of these."""


def members(groups: Sequence[Sequence[str]]) -> str:
    """Of which groups a person has to be a member."""
    return " and ".join(f"of {' or '.join(name.strip() for name in names)}" for names in groups)


@sentence
class NeverPublished(errors.IllegalTransition):
    """run {run_id} has mode {manifest.mode} and is never published."""

    run_id: str
    manifest: Manifest


@sentence
class NotPublishable(errors.IllegalTransition):
    """run {run_id} cannot be published: it is {state}."""

    run_id: str
    state: RunState
    is_leased: bool
    manifest: Manifest


@sentence
class StoppedForGood(errors.IllegalTransition):
    """run {run_id} is {state} because of its {by}, so that nothing of it can be approved or published: {why}"""

    run_id: str
    state: RunState
    by: StoppedBy
    why: str
    manifest: Manifest


@sentence
class ComesAfter(errors.IllegalTransition):
    """run {run_id} waits for {first}, which has priority {priority} over {partitions} and is {state}."""

    run_id: str
    first: str
    state: RunState
    priority: int
    partitions: Partitions


@sentence
class Frozen(errors.IllegalTransition):
    """{what} of {freeze.table} waits: {partitions} is frozen until {freeze.until:%Y-%m-%d %H:%M} UTC by {freeze.by}
    ({freeze.reason}){passes}."""

    freeze: Freeze
    partitions: Partitions
    run_id: str | None = None
    act_id: str | None = None

    @property
    def what(self) -> str:
        return f"run {self.run_id}" if self.run_id else f"cut-over {self.act_id}" if self.act_id else "a load"

    @property
    def passes(self) -> str:
        return f", and only {self.freeze.only} is published meanwhile" if self.freeze.only else ""

    @property
    def ids(self) -> Mapping[str, object]:
        named = {"run_id": self.run_id, "act_id": self.act_id}
        return {"freeze_id": self.freeze.freeze_id, **{name: value for name, value in named.items() if value}}


@sentence
class NoCandidate(errors.GateFailed):
    """run {run_id} has no candidate for {partitions}."""

    run_id: str
    partitions: Partitions


@sentence
class GatesNotPassed(errors.GateFailed):
    """run {run_id} cannot be published: {gates} did not pass for exactly the staged files of {partitions}."""

    run_id: str
    gates: tuple[str, ...]
    partitions: Partitions


@sentence
class TableChanged(errors.TargetChanged):
    """{table} changed since run {run_id} was compared with it: {partitions}."""

    run_id: str
    table: str
    partitions: Partitions


@sentence
class OnlyAdds(errors.TargetChanged):
    """run {run_id} would change {table} {partitions}, which has an accepted version, and the table only adds
    partitions."""

    run_id: str
    table: str
    partitions: Partitions


@sentence
class AnotherUnderWay(errors.TargetChanged):
    """publication {publication_id} of {table} has begun and is not recorded yet, and keys of the table move between
    partitions."""

    table: str
    publication_id: str


@sentence
class MergedSince(errors.TargetChanged):
    """run {run_id} has merged changes into {table} after publication {publication_id}, and with its rows."""

    table: str
    publication_id: str
    run_id: str
    undone_with: str


@sentence
class ChangedAfterPublication(errors.TargetChanged):
    """{table} {partition} was changed by {changed_by} after publication {publication_id}."""

    table: str
    partition: date
    publication_id: str
    changed_by: str
    undone_with: str | None


@sentence
class ExpiresOthers(errors.InputsMovedOn):
    """which snapshots of {table} expire has changed since run {run_id} was planned: {partitions}."""

    run_id: str
    table: str
    partitions: Partitions


@sentence
class ReadByOpenRun(errors.InputsMovedOn):
    """run {run_id} cannot let {partitions} of {table} expire: the open run {reader} reads them."""

    run_id: str
    table: str
    partitions: Partitions
    reader: str


@sentence
class OlderInputs(errors.InputsMovedOn):
    """run {run_id} was computed from older inputs than what readers see: {partitions} of {manifest.table} would no
    longer follow from the inputs as they are now."""

    run_id: str
    partitions: Partitions
    manifest: Manifest


@sentence
class InputsRolledBack(errors.InputsMovedOn):
    """run {run_id} was computed from {table} {partitions}, rolled back since and without an accepted version."""

    run_id: str
    table: str
    partitions: Partitions


@sentence
class NothingToUndo(errors.IllegalTransition):
    """run {run_id} {why}, so there is nothing to undo."""

    run_id: str
    table: str
    why: str


@sentence
class LandedButNotRecorded(errors.OutcomeUnknown):
    """the swap landed as version {delta_version} of {table} and readers see it, but the ledger could not be updated:
    {why}"""

    publication_id: str
    run_id: str
    table: str
    delta_version: int
    why: str


@sentence
class RefusedButNotRecorded(errors.OutcomeUnknown):
    """{refusal} So nothing was published, but the ledger could not be updated: {why}"""

    publication_id: str
    run_id: str
    table: str
    refusal: str
    why: str


@sentence
class NotAmongApprovers(Named, errors.NotApproved):
    """{kind} {name} changes {table}, which is approved by a member {whom}, and {person} is none: {file} (version
    {version})."""

    table: str
    groups: Groups
    person: str
    file: str
    version: str

    @property
    def whom(self) -> str:
        return members(self.groups)


@sentence
class MayNotRollBack(NotAmongApprovers):
    """{kind} {name} has changed {table}, which is rolled back by a member {whom}, and {person} is none: {file} (version
    {version})."""


@sentence
class MayNotLeave(NotAmongApprovers):
    """the difference of {kind} {name} may only be accepted by a member {whom}, which owns {table}, and {person} is
    none: {file} (version {version})."""


@sentence
class NotTolerated(errors.Refused):
    """the rows of {table} cannot be left as they are in place of run {run_id}: {why}."""

    run_id: str
    table: str
    why: str


@sentence
class MayNotApproveAsked(NotAmongApprovers):
    """{kind} {name} of {table} is approved by a member {whom}, and {person} is none: {file} (version {version})."""


@sentence
class NoListOfApprovers(errors.NotApproved):
    """{table} is approved by a member {whom}, and the file that lists the members cannot be read."""

    table: str
    groups: Groups
    file: str

    @property
    def whom(self) -> str:
        return members(self.groups)


@sentence
class NotAgreed(Named, errors.NotApproved):
    """{kind} {name} is not approved; {requester} asked for it, so {who} has to agree{comment}."""

    requester: str
    groups: Groups
    comment_on: tuple[str, ...]

    @property
    def who(self) -> str:
        return f"another person {members(self.groups)}" if self.groups else "another person"

    @property
    def comment(self) -> str:
        return f", with a comment on {', '.join(self.comment_on)}" if self.comment_on else ""


@sentence
class CommentMissing(Named, errors.NotApproved):
    """the approval of {kind} {name} by {approver} does not comment on what gates of {table} found since:
    {comment_on}."""

    approver: str
    table: str
    comment_on: tuple[str, ...]


@sentence
class ApprovalNotValid(Named, errors.NotApproved):
    """the approval of {kind} {name} by {approver} is not valid: {cause.message}"""

    approver: str
    cause: errors.NotApproved


@sentence
class NotEnded(errors.BackfillError):
    """{what} {id} could not be ended: {cause.message}"""

    what: str
    id: str
    cause: errors.BackfillError


@sentence
class StillUnknown(errors.OutcomeUnknown):
    """it is still not known whether {publication_id} of {table} landed: {cause.message}"""

    publication_id: str
    table: str
    cause: errors.BackfillError


@sentence
class WouldLeaveOrphans(errors.LeavesOrphans):
    """rolling back {of} would leave published partitions without their input: {of_tables} (by {dependents})."""

    of: str
    dependents: tuple[str, ...]
    left: tuple[TablePartitions, ...]

    @property
    def of_tables(self) -> str:
        return each_once(self.left)


@sentence
class DependentChangedSince(ChangedAfterPublication):
    """{table} {partition} was changed by {changed_by} after publication {publication_id}, which would have to be rolled
    back as a whole."""


@sentence
class BeingPublished(errors.IllegalTransition):
    """run {run_id} of {whole} is being published{so}."""

    run_id: str
    whole: str
    so: str = ""


@sentence
class NoVersions(errors.UnknownName):
    """{table} is no version of a table, and has none."""

    table: str


@sentence
class SeveralVersions(errors.UnknownName):
    """{name} has several versions: {versions}."""

    name: str
    versions: tuple[str, ...]


@sentence
class VersionLacks(errors.TargetChanged):
    """readers of {name} cannot be cut over to {table}: it lacks {partitions}, which {shown} has."""

    name: str
    table: str
    shown: str
    partitions: Partitions


@sentence
class VersionIsStale(errors.InputsMovedOn):
    """readers of {name} cannot be cut over to {table}: {partitions} of it no longer follow from what there is now."""

    name: str
    table: str
    partitions: Partitions


@sentence
class NotCompared(errors.GateFailed):
    """readers of {name} cannot be cut over to {table}: {partitions} were not compared with {shown} as both are now."""

    name: str
    table: str
    shown: str
    partitions: Partitions


@sentence
class NotCleanLongEnough(errors.GateFailed):
    """readers of {name} cannot be cut over to {table}: it has agreed with {shown} on {found} days in a row, and
    {wanted} are declared."""

    name: str
    table: str
    shown: str
    found: int
    wanted: int


@sentence
class OfOtherTable(errors.UnknownName):
    """run {run_id} is of {other}, which is no version of {table}."""

    run_id: str
    table: str
    other: str


@sentence
class NothingReadersSee(errors.MissingInput):
    """readers of {table} see nothing as of {as_of}: {of} was not published by then."""

    table: str
    of: str
    as_of: str
