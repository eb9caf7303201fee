"""Words of plans: what they rest on and do, what could be done instead, and their releases and references."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import assert_never

from backfill_assets.calendar.partitions import TablePartitions, count_of
from backfill_assets.core.columns import ColumnChange
from backfill_assets.core.grouped import grouped
from backfill_assets.core.next_steps import NextStep, step
from backfill_assets.domain import Tolerance
from backfill_assets.planning.kinds.any_change import AnyChange
from backfill_assets.planning.kinds.append import Append
from backfill_assets.planning.kinds.expire import Expire, RetentionRule
from backfill_assets.planning.kinds.load import Load
from backfill_assets.planning.kinds.merge import Merge
from backfill_assets.planning.kinds.pilot import Pilot
from backfill_assets.planning.kinds.replace import Replace, VersionOf
from backfill_assets.planning.manifest import Manifest, stays
from backfill_assets.planning.manifest_parts import (
    CauseKind,
    InexactSum,
    PinnedReference,
    ReferenceSemantics,
    semantics_of,
    together,
)
from backfill_assets.planning.safeguards import UNDETERMINED, Safeguard
from backfill_assets.planning.sets import Phases
from backfill_assets.planning.state import Estimate, EstimateBasis
from backfill_assets.report.alternatives import Alternative, AlternativeKind
from backfill_assets.report.known_rows import KnownRowsGone
from backfill_assets.report.releases import CODE, LaterRelease, MixedReleaseBoundary, UnrelatedChange
from backfill_assets.report.values import cost_words, key_text
from backfill_assets.report.words.states import NEW_VERSION, because_words
from backfill_assets.transforms.ties import AddedDoubles


def basis_words(estimate: Estimate) -> str:
    """Where the numbers of an estimate come from."""
    match estimate.based_on:
        case EstimateBasis.ACCEPTED_ROWS:
            return "the accepted rows of these partitions"
        case EstimateBasis.EARLIER_RUNS:
            return f"the latest {count_of(estimate.runs, 'run')} of this table"
        case EstimateBasis.INPUT_ROWS:
            return "one row for every input row of the same days: a guess, as this table was never built before"


def inexact_words(found: InexactSum) -> str:
    """The words for what adds floating-point numbers, and what to add in their place."""
    return (
        f"{found.file}, line {found.line}: {found.function} of {', '.join(found.columns)} adds floating-point numbers, "
        f"whose last digits depend on the order of the rows: declare decimal(18,6), or cast to it before adding"
    )


def added_doubles_words(found: AddedDoubles) -> str:
    """The words for an addition of floating-point numbers in Spark's plan."""
    return (
        f"{found.column} is a {found.name} of floating-point numbers, whose last digits depend on the order of the "
        f"rows: declare decimal(18,6), or cast to it before adding"
    )


def undetermined_words(safeguards: Iterable[Safeguard]) -> Iterator[str]:
    """The words for what an author declares as harmless in rows that depend on an order that nothing decides."""
    for each in safeguards:
        if each.name.startswith(UNDETERMINED):
            what = each.name.removeprefix(UNDETERMINED)
            yield f"Nothing decides {what}, and its author declares why that does not matter: {each.exactly['reason']}"


def keep_words(keep: RetentionRule) -> str:
    """The words for the snapshots of a table that stay."""
    days = count_of(keep.days, "day")
    return f"those of {days} before the newest one, and the last one of each {keep.then} before that"


def stays_words(manifest: Manifest) -> str | None:
    """The words for the snapshots that stay when others expire, and why; None for a run in which none expires."""
    match manifest.change:
        case Expire(keep=keep):
            return f"{stays(manifest)}: {keep_words(keep)}"
        case _:
            return None


def publish_words(manifest: Manifest) -> str:
    """The words for what the publication of a run does to partitions."""
    match manifest.change:
        case Replace(version_of=VersionOf(table=of)):
            return f"whole partitions of this version of {of}, beside it"
        case Replace() | Load():
            return "whole partitions in place of the accepted ones"
        case Append():
            return "only partitions that have no accepted version (append)"
        case Merge() as merge:
            what = "the accepted rows with changes" if merge.keeps_withdrawn else "what changes give"
            moves = ", which can move between partitions" if merge.keys_move else ""
            is_planned = merge.covers_table and manifest.cause.kind is CauseKind.PERSON
            whole = ", so that it covers the whole table" if is_planned else ""
            return f"{what} by {', '.join(merge.on)}{moves}{whole} (merge)"
        case Pilot(rows=rows):
            return f"only rows of {rows}; all others stay exactly as they are accepted"
        case Expire():
            return "these snapshots expire: readers see none of their rows, and nothing is computed"


def kept_words(change: AnyChange) -> str:
    """The rows that a run keeps: those that it does not compute."""
    match change:
        case Merge(on=on):
            return f"all whose {', '.join(on)} no change names"
        case Pilot(rows=rows):
            return f"those of {rows.outside}"
        case Replace() | Append() | Expire() | Load():
            return "none"


def columns_words(changes: Sequence[ColumnChange]) -> str:
    """The words for changes of the columns that readers see; empty where they stay."""
    added = [f"{each.column} ({each.becomes})" for each in changes if each.was is None]
    gone = [each.column for each in changes if each.becomes is None]
    parts = [f"adds {', '.join(added)}"] if added else []
    parts += [f"no longer has {', '.join(gone)}"] if gone else []
    return "; ".join([*parts, *(_other_type(each) for each in changes if each.was and each.becomes)])


def changed_words(manifest: Manifest) -> tuple[str, ...]:
    """The words for what changed since the accepted rows of a run's partitions were computed, cause by cause.

    What is to be done about changed code is said where it is named with its partitions (`brought_along_words`).
    """
    return tuple(because_words(manifest.table, each) for each in manifest.changed)


def changed_by_table(manifests: Iterable[Manifest]) -> tuple[str, ...]:
    """The words for changes of the runs of a set, table by table."""
    found = grouped((manifest.table, reason) for manifest in manifests for reason in manifest.changed)
    return tuple(f"{table}: {because_words(table, each)}" for table, some in found.items() for each in together(some))


def columns_left_words(changes: Sequence[ColumnChange]) -> str:
    """The words for changed columns that a rollback leaves: a table never loses one."""
    added = ", ".join(each.column for each in changes if each.was is None)
    return f"the rollback left the columns so{f', with null for {added} in the earlier rows' if added else ''}"


def _other_type(change: ColumnChange) -> str:
    retyped = [f"was {change.was} and is {change.becomes}"] if change.was != change.becomes else []
    loosened = ["allows null where it did not"] if change.loosens else []
    return f"{change.column} {', and '.join([*retyped, *loosened])}"


def alternative_words(found: Alternative) -> NextStep:
    """The words for an alternative to a plan, and its cost."""
    said = _alternative(found)
    return step(f"{said}: ", found.next_step) if found.next_step else step(said)


def _alternative(found: Alternative) -> str:
    cost = "" if found.cost is None else f"; about {cost_words(found.cost)}"
    cost = "; it costs nothing" if found.cost is not None and not found.cost.core_seconds else cost
    match found.instead:
        case AlternativeKind.NOTHING:
            return f"nothing: none of {found.stays} is stale, so that every row is expected to be equal{cost}"
        case AlternativeKind.ONLY_STALE:
            return f"only {found.partitions}: {found.stays} is not stale{cost}"
        case AlternativeKind.FORWARD:
            return (
                f"a fix forward: {found.stays} keeps the rows of the earlier release, listed as stale, and the newer "
                f"one computes only the days that follow{cost}"
            )
        case AlternativeKind.BY_KEY:
            return f"a correction by key: only its rows change, and every other row stays exactly as it is{cost}"
        case AlternativeKind.TOGETHER:
            return f"with {'; '.join(map(str, found.dependents))}, to measure them before anybody approves"
        case AlternativeKind.LEAVE:
            assert found.tolerated is not None, "what is left is tolerated"
            return f"leave {found.stays} as it is{cost}: {tolerated_words(found.tolerated)}. An owner accepts it"
        case AlternativeKind.PERHAPS_LEAVE:
            assert found.tolerated is not None, "what may be left is tolerated"
            return (
                f"leave {found.stays} as it is{cost}, if its gates find that {tolerated_words(found.tolerated)}: the "
                "report of the run says so, and how an owner accepts it"
            )
    assert_never(found.instead)


def tolerated_words(found: Tolerance) -> str:
    """Within what a run stays, and whose word it takes to leave it."""
    by = f" by {' and '.join(found.by)}" if found.by else ""
    small = f", or by less than {found.at_least:,}" if found.at_least else ""
    return (
        f"changes of {found.measure} in the rows of each month{by} add up to at most {found.percent:f} % of its "
        f"total{small}, which the table tolerates (owner: {found.owner})"
    )


def brought_along_words(found: UnrelatedChange) -> str:
    """The words for a newer release, another reference or changed code that a run brings along."""
    if found.what == CODE:
        other = f"the code of {found.table} {found.now} is not what computed {found.partitions} under this version"
        return f"{other}: {NEW_VERSION}"
    edited = " with other content" if found.was == found.now else ""
    return f"{found.table} gets {found.what} {found.now}{edited} in place of {found.was}: {found.partitions}"


def goes_back_words(found: LaterRelease) -> str:
    """Behind which release a run goes back."""
    return (
        f"this run goes back: the accepted rows of {found.partitions} come from version {found.accepted_version}, "
        f"and the run is {found.transform_version}"
    )


def known_rows_gone_words(found: KnownRowsGone) -> str:
    """The sentence that golden rows are gone or changed."""
    more = [f"{found.others:,} more"] if found.others else []
    return f"Gone or changed in {found.reference}: {'; '.join([*map(key_text, found.keys), *more])}."


def moved_on_words(found: TablePartitions) -> str:
    """The words for an input that has changed since a run was planned."""
    partitions = str(found).removeprefix(f"{found.table} ")
    return (
        f"the input {found.table} has changed since this run was planned ({partitions}), and the run has not read "
        "that: plan it again to read it"
    )


def left_behind_words(found: MixedReleaseBoundary) -> str:
    """The words for the partitions that keep another release on the border of a run, and what reads both sides of
    it."""
    both = (
        f", and what reads days of both mixes the releases: {'; '.join(map(str, found.mixed))}" if found.mixed else ""
    )
    return (
        f"{found.partitions} of {found.table} next to this run keep the rows of release "
        f"{' and '.join(found.releases)}: a jump in the values where they meet can come from the change of release "
        f"alone{both}"
    )


def no_rows_words(scope: str) -> str:
    """The sentence that a pilot has measured nothing, because it names rows that are not there."""
    return f"No row of these partitions is of {scope}, so that nothing was measured: look whether it is mistyped."


def gate_references_described(references: Sequence[PinnedReference]) -> str | None:
    """The versions that gates have read, or would read now; None without any."""
    return ", ".join(f"{each.name} {each.version}" for each in references) or None


def references_described(references: Sequence[PinnedReference]) -> str | None:
    """The versions in words, and why these; None for a run without references."""
    versions = ", ".join(f"{pinned.name} {pinned.version}" for pinned in references)
    match semantics_of(references):
        case None:
            return None
        case ReferenceSemantics.CURRENT:
            return f"current: {versions}"
        case ReferenceSemantics.AS_RECORDED:
            return f"as recorded, which the replaced rows had used: {versions}"
        case ReferenceSemantics.CORRECTED:
            named = ", ".join(f"{pinned.name} {pinned.version}" for pinned in references if pinned.is_chosen)
            others = ", ".join(f"{pinned.name} {pinned.version}" for pinned in references if not pinned.is_chosen)
            return f"corrected, as named: {named}" + (f"; current: {others}" if others else "")


def duration_words(seconds: int) -> str:
    """The words for a duration, in whole hours where possible."""
    return count_of(seconds // 3600, "hour") if seconds % 3600 == 0 else count_of(seconds, "second")


def phase_words(phases: Phases) -> str:
    """The words for how the phases of a set are published."""
    held = f", each {duration_words(phases.hold_s)} after the one before it" if phases.hold_s else ""
    return f"one after the other{held}; approved {'one by one' if phases.each else 'all at once'}"
