"""Errors of requests: what a run, a restatement or a table had to be, what was found, and how much can be planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Literal

from backfill_assets.calendar.partitions import OfPartitions, Partitions, TablePartitions, count_of
from backfill_assets.core import errors
from backfill_assets.core.about import Because, OfPublication, OfRun, OfSet, OfTable
from backfill_assets.core.errors import sentence
from backfill_assets.core.next_steps import Advice, Command, NextStep, Option, do, step
from backfill_assets.landing.imports import KnownSince, NotKnown
from backfill_assets.ledger.errors import Named, loosened_words
from backfill_assets.ledger.freezes import Freeze
from backfill_assets.ledger.states import RunState, SetState, StoppedBy, go_on_with
from backfill_assets.planning.impact import LeftOut, by_table
from backfill_assets.planning.manifest import OfManifest
from backfill_assets.planning.next_steps import fix_and_plan_again, joined, measured_again, plan_again
from backfill_assets.requests.left_out import how_to_include, why_left_out

Groups = tuple[tuple[str, ...], ...]
"""An approver has to be a member of one group in each of these."""


def members(groups: Sequence[Sequence[str]], people: Mapping[str, Sequence[str]] | None = None) -> str:
    """The groups of which a person has to be a member.

    Args:
        people: The members of each group, where they are known.
    """
    known = people or {}

    def named(group: str) -> str:
        return f"{group.strip()}{_who_are(known[group])}" if group in known else group.strip()

    return " and ".join(f"of {' or '.join(map(named, names))}" for names in groups)


_MOST_PEOPLE = 6
"""So many members of a group are named, and the others are counted."""


def _who_are(people: Sequence[str]) -> str:
    named, others = people[:_MOST_PEOPLE], people[_MOST_PEOPLE:]
    listed = ", ".join([*named, *([count_of(len(others), "other")] if others else [])])
    return f" ({listed or 'nobody'})"


@sentence
class NeverPublished(OfRun, OfManifest, errors.IllegalTransition):
    """{whole} has mode {manifest.mode} and is never published.

    Next: {planned}
    """

    @property
    def whole(self) -> str:
        return f"run {self.run_id}" if self.manifest.is_alone else f"set {self.manifest.request_id}"

    @property
    def planned(self) -> Advice:
        if self.manifest.is_alone:
            return step("plan a run that is published: ", plan_again(self.manifest))
        return f"plan the set again without the mode {self.manifest.mode}"


@sentence
class NotPublishable(OfRun, OfManifest, errors.IllegalTransition):
    """{which} cannot be published: {it} is {state}."""

    state: RunState
    is_leased: bool

    @property
    def which(self) -> str:
        return f"run {self.run_id}" if self.manifest.is_alone else f"set {self.manifest.request_id}"

    @property
    def it(self) -> str:
        return "it" if self.manifest.is_alone else f"its run {self.run_id}"

    @property
    def advice(self) -> Advice:
        match self.state:
            case RunState.SUPERSEDED:
                return do(Command.HISTORY, self.manifest.table)
            case RunState.CANCELLED if self.manifest.is_alone:
                return "plan it again: {planned_again}"
            case _:
                return go_on_with(self.run_id, self.state, self.manifest.request_id, is_leased=self.is_leased)


@sentence
class SetIs(OfSet, errors.IllegalTransition):
    """set {set_id} is {state}.

    Next: [status {set_id}]
    """

    state: SetState


@sentence
class AnotherPhaseFirst(OfRun, OfSet, errors.IllegalTransition):
    """run {run_id} is not the next phase of set {set_id}: that is {due}.

    Next: publish that first: [publish {set_id} by=NAME]
    """

    due: str


@sentence
class PhaseHeld(OfRun, OfSet, errors.IllegalTransition):
    """phase {number} of {count} of set {set_id} is held until {until:%Y-%m-%d %H:%M:%S} UTC.

    Next: publish it then: [publish {set_id} by=NAME]
    """

    number: int
    count: int
    until: datetime


@sentence
class StoppedForGood(OfRun, Because, OfManifest, errors.IllegalTransition):
    """run {run_id} is {state} because of its {cause}, so it cannot be approved or published: {why}"""

    state: RunState
    by: StoppedBy

    @property
    def cause(self) -> str:
        """The cause to remove before it is planned again; what code cannot compute can be due to its rows."""
        return "code or its rows" if self.by is StoppedBy.CODE else str(self.by)

    @property
    def advice(self) -> Advice:
        return fix_and_plan_again(self.manifest, needs_more=self.by is StoppedBy.LIMIT)


@sentence
class ComesAfter(OfRun, OfPartitions, errors.IllegalTransition):
    """run {run_id} waits for {first}, which has priority {priority} over {partitions} and is {state}.

    Next: publish or cancel that one first: [status {first}]
    """

    first: str
    state: RunState
    priority: int


@sentence
class Frozen(OfPartitions, errors.IllegalTransition):
    """{what} of {freeze.table} waits: {partitions} is frozen until {freeze.until:%Y-%m-%d %H:%M} UTC by {freeze.by}
    ({freeze.reason}){passes}.

    Next: wait until then, or end it: [unfreeze {freeze.freeze_id} by=NAME reason=WHY]
    """

    freeze: Freeze
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
class ReadBeforeKnown(OfRun, errors.InputsMovedOn):
    """run {run_id} would publish rows of before: {known.words}.

    Next: {known.next_step}
    """

    known: KnownSince


@sentence
class KeysNotKnown(OfRun, errors.IllegalTransition):
    """run {run_id} reads {found.days} of {found.source}, where {keys} not known: newer records of {theirs} were
    rejected.

    Next: {found.next_step}
    """

    found: NotKnown

    @property
    def keys(self) -> str:
        return f"{count_of(self.found.keys, 'key')} {'is' if self.found.keys == 1 else 'are'}"

    @property
    def theirs(self) -> str:
        return "it" if self.found.keys == 1 else "them"


@sentence
class NoCandidate(OfRun, OfPartitions, errors.GateFailed):
    """run {run_id} has no candidate for {partitions}.

    Next: [run {run_id}]
    """


@sentence
class GatesNotPassed(OfRun, OfPartitions, errors.GateFailed):
    """run {run_id} cannot be published: {gates} did not pass for exactly the staged files of {partitions}.

    Next: [report {run_id}]
    """

    gates: tuple[str, ...]


@sentence
class DeclaredSince(OfRun, OfTable, OfManifest, errors.GateFailed):
    """run {run_id} was not measured with what {table} declares now: {named}.

    Next: {measured_again}
    """

    gates: tuple[str, ...]

    @property
    def named(self) -> str:
        return ", ".join(self.gates)

    @property
    def measured_again(self) -> NextStep:
        return measured_again(self.manifest)


@sentence
class TableChanged(OfRun, OfTable, OfPartitions, errors.TargetChanged):
    """{table} changed since run {run_id} was compared with it: {partitions}.

    Next: compare it with the present rows: [run {run_id}]
    """


@sentence
class ReadByGateSince(OfRun, errors.TargetChanged):
    """{name} changed since gate {gate} of run {run_id} read it{where}.

    Next: compare it with the present rows: [run {run_id}]
    """

    gate: str
    name: str
    partitions: Partitions | None

    @property
    def where(self) -> str:
        return f": {self.partitions}" if self.partitions else ""


@sentence
class OnlyAdds(OfRun, OfTable, OfPartitions, errors.TargetChanged):
    """run {run_id} would change {table} {partitions}, which has an accepted version, and the table only adds
    partitions.

    Next: roll back the publication that added them, then plan them again: [history {table}]
    """


@sentence
class AnotherUnderWay(OfPublication, OfTable, errors.TargetChanged):
    """publication {publication_id} of {table} has begun and is not recorded yet, and keys of the table move between
    partitions.

    Next: wait for it; if its process is gone: [recover]
    """


@sentence
class ChangedAfterPublication(OfPublication, OfTable, errors.TargetChanged):
    """{table} {partition} was changed by {changed_by} after publication {publication_id}{so}."""

    partition: date
    changed_by: str
    undone_with: str | None
    so: str = ""

    @property
    def advice(self) -> str:
        if self.undone_with is not None:
            return "undo that first: [rollback {undone_with} by=NAME reason=WHY]"
        return "[history {table} partition={partition}]"


@sentence
class ExpiresOthers(OfRun, OfTable, OfPartitions, errors.InputsMovedOn):
    """which snapshots of {table} expire has changed since run {run_id} was planned: {partitions}.

    Next: plan it again: [plan expire {table} by=NAME reason=WHY]
    """


@sentence
class ReadByOpenRun(OfRun, OfTable, OfPartitions, errors.InputsMovedOn):
    """run {run_id} cannot let {partitions} of {table} expire: the open run {reader} reads them.

    Next: publish or cancel that one first: [status {reader}]
    """

    reader: str


@sentence
class OlderInputs(OfRun, OfPartitions, OfManifest, errors.InputsMovedOn):
    """run {run_id} was computed from older inputs than what readers see: {partitions} of {manifest.table} would no
    longer follow from the inputs as they are now.

    Next: plan it again, so that it reads them: {some_planned_again}
    """

    @property
    def some_planned_again(self) -> NextStep:
        return plan_again(self.manifest, self.partitions)


@sentence
class InputsRolledBack(OfRun, OfTable, OfPartitions, errors.InputsMovedOn):
    """run {run_id} was computed from {table} {partitions}, rolled back since and without an accepted version.

    Next: build that again first: [history {table} partition={first}]
    """

    @property
    def first(self) -> date:
        return self.partitions.days[0]


@sentence
class LandedButNotRecorded(OfRun, OfPublication, OfTable, Because, errors.OutcomeUnknown):
    """the swap landed as version {delta_version} of {table} and readers see it, but the ledger could not be updated:
    {why}

    Next: [recover]
    """

    delta_version: int


ToApprove = Literal["approve", "approve what is asked for", "roll back", "set", "leave"]
"""What a member of a group may do, and others may not."""


@sentence
class NotAmongApprovers(OfTable, Named, errors.NotApproved):
    """{kind} {name} {done} by a member {whom}, and {person} is not a member: {file} (version {version})."""

    act: ToApprove

    groups: Groups
    people: Mapping[str, Sequence[str]]
    person: str
    file: str
    version: str

    @property
    def whom(self) -> str:
        return members(self.groups, self.people)

    @property
    def done(self) -> str:
        match self.act:
            case "approve":
                return f"changes {self.table}, which is approved"
            case "approve what is asked for":
                return f"of {self.table} is approved"
            case "roll back":
                return f"has changed {self.table}, which is rolled back"
            case "set":
                return "is set to what the ledger holds"
            case "leave":
                return f"leaves a difference in {self.table}, which only its owner accepts: it is approved"

    @property
    def advice(self) -> str:
        if self.act == "roll back":
            return "let one of them roll it back: [rollback {name} by=NAME reason=WHY]"
        return "let one of them approve it: [approve {name} by=ANOTHER_PERSON]"


@sentence
class NotTolerated(OfRun, OfTable, Because, errors.Refused):
    """the rows of {table} cannot be left as they are in place of run {run_id}: {why}."""


@sentence
class NoListOfApprovers(OfTable, errors.NotApproved):
    """{table} is approved by a member {whom}, and the file that lists the members cannot be read.

    Next: write {file}: version: "1", and below groups: the line {group}: [[NAME, NAME]]
    """

    groups: Groups
    file: str

    @property
    def whom(self) -> str:
        return members(self.groups)

    @property
    def group(self) -> str:
        return self.groups[0][0]


@sentence
class NotAgreed(Named, errors.NotApproved):
    """{kind} {name} is not approved; {requester} asked for it, so {who} has to agree{to_what}{comment}."""

    requester: str
    groups: Groups
    loosened: tuple[str, ...]
    unsure: tuple[str, ...]
    comment_on: tuple[str, ...]

    @property
    def who(self) -> str:
        return f"another person {members(self.groups)}" if self.groups else "another person"

    @property
    def to_what(self) -> str:
        return f": {loosened_words(self.loosened, self.unsure)}" if self.loosened else ""

    @property
    def comment(self) -> str:
        return f", with a comment on {', '.join(self.comment_on)}" if self.comment_on else ""

    @property
    def advice(self) -> str:
        comment = "WHY" if self.comment_on else ""
        return f"[approve {{name}} by=ANOTHER_PERSON note={comment}]"


@sentence
class NotEnded(errors.BackfillError):
    """{what} {id} could not be ended: {cause.message}"""

    what: str
    id: str
    cause: errors.BackfillError

    @property
    def advice(self) -> Advice:
        return self.cause.next_step or "[recover]"


@sentence
class StillUnknown(OfPublication, OfTable, errors.OutcomeUnknown):
    """it is still not known whether {publication_id} of {table} landed: {cause.message}"""

    cause: errors.BackfillError

    @property
    def advice(self) -> Advice:
        return self.cause.next_step or "[recover]"


@sentence
class WouldLeaveOrphans(errors.LeavesOrphans):
    """rolling back {of} would leave published partitions without their input: {of_tables} (by {dependents}).

    Next: roll them back with it: [rollback {of} with_dependents=True by=NAME reason=WHY]
    """

    of: str
    dependents: tuple[str, ...]
    left: tuple[TablePartitions, ...]

    @property
    def of_tables(self) -> str:
        return "; ".join(map(str, by_table(self.left)))


@sentence
class BeingPublished(OfRun, errors.IllegalTransition):
    """run {run_id} of {whole} is being published{so}.

    Next: wait for it; if its process is gone: [recover]
    """

    whole: str
    so: str = ""


@sentence
class SeveralVersions(errors.UnknownName):
    """{name} has several versions: {versions}.

    Next: name one of them: {named}
    """

    name: str
    versions: tuple[str, ...]

    @property
    def named(self) -> str:
        return ", ".join(self.versions)


@sentence
class NothingReadersSee(OfTable, errors.MissingInput):
    """readers of {table} see nothing as of {as_of}: {of} was not published by then.

    Next: [history {of}]
    """

    of: str
    as_of: str


_MOST_NAMED = 3


@sentence
class MemberSuperseded(OfRun, OfSet, OfTable, errors.IllegalTransition):
    """run {run_id} of set {set_id} is {state}."""

    state: RunState
    undone_with: str | None

    @property
    def advice(self) -> str:
        if self.undone_with is not None:
            return "undo the later publication first: [rollback {undone_with} by=NAME reason=WHY]"
        return "[history {table}]; roll back the later publication first"


@sentence
class SetWouldBeOrphaned(OfSet, errors.LeavesOrphans):
    """rolling back {of} would leave published partitions of set {set_id} without their input: {of_tables}.

    Next: a set is rolled back in one act, so roll it back first: [rollback {set_id} by=NAME reason=WHY]
    """

    of: str
    left: tuple[TablePartitions, ...]

    @property
    def of_tables(self) -> str:
        return "; ".join(map(str, by_table(self.left)))


@sentence
class HalfPublished(OfSet, errors.HalfWay):
    """{cause.message} {published} of {count} runs of set {set_id} are published.

    Next: [recover], which completes the set or reverses it{or_first}
    """

    published: int
    count: int
    cause: errors.BackfillError

    @property
    def or_first(self) -> NextStep | None:
        return step("; or first ", self.cause.next_step) if self.cause.next_step else None


@sentence
class ReproducedOneByOne(OfSet, errors.Refused):
    """{set_id} is a set, and its runs are reproduced one by one."""

    published: tuple[str, ...]

    @property
    def advice(self) -> Advice:
        if not self.published:
            return "[status {set_id}]"
        return joined([do(Command.REPRODUCE, run_id) for run_id in self.published])


@sentence
class OnlyPart(errors.Refused):
    """{planned:,} of {asked} asked for can be planned. Left out: {named}."""

    planned: int
    asked_for: int
    left_out: tuple[LeftOut, ...]

    @property
    def asked(self) -> str:
        return count_of(self.asked_for, "partition")

    @property
    def named(self) -> str:
        more = len(self.left_out) - _MOST_NAMED
        named = [f"{each}: {why_left_out(each)}" for each in self.left_out[:_MOST_NAMED]]
        return "; ".join([*named, *([f"and {more:,} more"] if more > 0 else [])])

    @property
    def advice(self) -> Advice | None:
        if not self.left_out:
            return None
        included = how_to_include(self.left_out[0])
        less = step("; or, to plan less than was asked for, add ", Option("partial"))
        return step(included, less) if self.planned else included
