"""Words of what is done and who agrees: stages, the proof of a window, policies, and what differs by kind of change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import assert_never

from backfill_assets.calendar.partitions import count_of, describe
from backfill_assets.calendar.windows import AnyWindow, Months, SinceFirstDay
from backfill_assets.ledger.errors import loosened_words
from backfill_assets.planning.kinds import expire
from backfill_assets.planning.kinds.append import Append
from backfill_assets.planning.kinds.change import Change
from backfill_assets.planning.kinds.load import Load
from backfill_assets.planning.kinds.merge import Merge
from backfill_assets.planning.kinds.pilot import Pilot
from backfill_assets.planning.kinds.replace import Replace
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.safeguards import Policy
from backfill_assets.planning.stages import (
    Agree,
    Compute,
    Expire,
    Hold,
    Measure,
    Notify,
    Prove,
    Stage,
    Swap,
    compared_by,
)
from backfill_assets.report.words.plans import duration_words
from backfill_assets.report.words.verdicts import NOTHING_THERE, more_days_words
from backfill_assets.requests.errors import members

NOTHING_FOLLOWS = (
    "what was computed from these snapshots stays as it is, and cannot be computed again while they have expired"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeWords:
    """What pages say of a change."""

    #: What computes the rows of a run, with the `release`.
    computed_by: str = "release {release}"
    #: What readers see of partitions once they are swapped.
    published: str = "readers see the new rows"
    #: What readers saw of a version.
    seen: str = "readers saw it"
    #: What its commit does, with the `partitions` and the `table`; empty where the report says it by its rows.
    swap: str = ""
    #: The dependents where there are none.
    no_dependents: str = "none"


_ROWS_CHANGE = ChangeWords()

WORDS: Mapping[type[Change], ChangeWords] = {
    Append: _ROWS_CHANGE,
    expire.Expire: ChangeWords(
        computed_by="expiry of snapshots",
        published="readers no longer see these rows",
        seen="readers saw no rows",
        swap=(
            "One commit removes the files of {partitions} of {table}; a rollback of this run restores exactly these. "
            "Tables that were computed from them stay as they are."
        ),
        no_dependents=NOTHING_FOLLOWS,
    ),
    Load: _ROWS_CHANGE,
    Merge: _ROWS_CHANGE,
    Pilot: _ROWS_CHANGE,
    Replace: _ROWS_CHANGE,
}


def stage_words(stage: Stage) -> str:
    """The words for what a stage does."""
    match stage:
        case Compute():
            read = "; ".join(f"{reads.table} {describe(reads.grain, reads.partitions)}" for reads in stage.reads)
            return (
                f"compute chunk {stage.chunk.number} of {stage.chunks} of {stage.table}, "
                f"{describe(stage.grain, stage.chunk.partitions)}"
                + (f" (and {describe(stage.grain, stage.chunk.once_more)}, once more)" if stage.chunk.once_more else "")
                + f", from {read or 'the landed files'}"
            )
        case Expire():
            return f"stage {stage.table} without {describe(stage.grain, stage.partitions)}; nothing is computed"
        case Prove():
            return f"prove the window of {stage.table}: {proof_words(stage)}"
        case Measure():
            return (
                f"measure {count_of(len(stage.gates), 'gate')} of {stage.table} on "
                f"{describe(stage.grain, stage.partitions)}, compared with the accepted rows"
                + (f" and with those of {' and '.join(stage.others)}" if stage.others else "")
            )
        case Agree():
            if stage.demand.policy == "repair":
                return "no approval is needed: the rows are exactly those that were recorded when they were accepted"
            if stage.demand.policy is not None:
                return f"approved by policy: {stage.demand.policy} runs are published automatically"
            groups = members(stage.demand.groups)
            unless = (
                "; where its rows are exactly those that were recorded, no approval is needed" if stage.repairs else ""
            )
            loosened = (
                f": {loosened_words(stage.demand.loosened, stage.demand.unsure)}" if stage.demand.loosened else ""
            )
            return (
                f"wait until another person than {stage.requested_by}{f', {groups},' if groups else ''} "
                f"approves {stage.of}{loosened}{unless}"
            )
        case Hold():
            return f"wait {duration_words(stage.seconds)} after the phase before it of {stage.table} has landed"
        case Swap():
            return f"swap {stage.table} {describe(stage.grain, stage.partitions)} in one commit; equal partitions stay"
        case Notify():
            return f"ask the dependents of what changed to follow: at most {'; '.join(map(str, stage.dependents))}"
    assert_never(stage)


def published_words(manifest: Manifest, swapped: Iterable[date]) -> str:
    """The words for the outcome of a published run's partitions, of which these were swapped."""
    grain, new = manifest.grain, set(swapped)
    if not new:
        return f"published {describe(grain, manifest.partitions)}: equal to what readers see, so nothing was swapped"
    seen = WORDS[type(manifest.change)].published
    equal = [each for each in manifest.partitions if each not in new]
    stay = f"; {describe(grain, equal)} equal what they saw before" if equal else ""
    return f"published {describe(grain, new)}: {seen}{stay}"


def proof_words(stage: Prove) -> str:
    """The words for what is computed again, and with which days."""
    longer = [
        f"{describe(stage.grain, again.compared)}, once more with {more_days_words(again.more)}"
        for again in stage.ends
        if again.is_other
    ]
    if beside := compared_by(stage.between_chunks):
        longer.append(f"{describe(stage.grain, beside)}, once more with the chunks beside them")
    return "; ".join(longer) or NOTHING_THERE


def window_words(window: AnyWindow) -> str:
    """Such as `27 days back and 1 ahead`."""
    if isinstance(window, SinceFirstDay):
        return f"every day since {window.since or 'the first one'}"
    back, ahead = window.counts
    return f"{count_of(back, 'month' if isinstance(window, Months) else 'day')} back and {ahead:,} ahead"


def policy_words(policy: Policy, planned: Sequence[Stage] = ()) -> str:
    """The words for which runs of a table wait for a person, and of which groups.

    Args:
        planned: The stages of a run, which may wait for a person all the same.
    """
    return _policy_words(policy) + waits_anyway(planned, [policy])


def _policy_words(policy: Policy) -> str:
    rules = (("new days", policy.live), ("backfills", policy.backfill), ("follow-ups", policy.follow))
    waiting = [name for name, rule in rules if rule == "approve"]
    free = [name for name, rule in rules if rule == "auto"]
    if not waiting:
        return f"{_and(free)} wait for no approval"
    groups = f" of {' or '.join(name.strip() for name in policy.approvers)}" if policy.approvers else ""
    said = f"{_and(waiting)} wait for the approval of another person{groups}"
    return f"{said}, {_and(free)} for none" if free else said


def waits_anyway(stages: Iterable[Stage], policies: Iterable[Policy]) -> str:
    """The words for why the plan waits for a person although its policies wait for none, or were stricter when rows
    were last agreed to, as the end of their words; empty where they say it themselves."""
    demand = next((each.demand for each in stages if isinstance(each, Agree) and each.demand.policy is None), None)
    if demand is None:
        return ""
    if demand.loosened:
        return f"; this waits for another person: {loosened_words(demand.loosened, demand.unsure)}"
    rules = (rule for each in policies for rule in (each.live, each.backfill, each.follow))
    return "" if "approve" in rules else "; this waits for another person all the same"


def _and(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
