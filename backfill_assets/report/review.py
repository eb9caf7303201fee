"""Review of a run: the five questions of its reviewer, answered in sentences. Pure: from what the ledger knows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from backfill_assets.gates.moves import Moves
from backfill_assets.ledger.records import GateResult
from backfill_assets.ledger.states import EVER_PUBLISHED, RunState
from backfill_assets.planning.impact import TablePartitions
from backfill_assets.planning.manifest_parts import ALWAYS_SWAPPED, NEVER_PUBLISHED, Mode
from backfill_assets.planning.partitions import count_of
from backfill_assets.report.measured import PROOF, GateSummary, MovesOfSome
from backfill_assets.report.reach import DependentMoves
from backfill_assets.report.releases import LaterRelease, LeftBehind
from backfill_assets.report.runs import RunSummary
from backfill_assets.report.words.releases import goes_back_words, left_behind_words, moved_on_words
from backfill_assets.report.words.verdicts import said_of


class Level(StrEnum):
    """How a reviewer should take a report.

    PENDING: there is nothing to decide yet. GOOD: nothing speaks against it. ATTENTION: something has to be read first.
    BAD: it cannot be published, or is not what readers see.
    """

    PENDING = "PENDING"
    GOOD = "GOOD"
    ATTENTION = "ATTENTION"
    BAD = "BAD"


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """The answers to a reviewer's questions, in words.

    Attributes:
        level: How it should be taken: PENDING (nothing is measured yet), GOOD, ATTENTION (see `warnings`) or BAD (it
            cannot be published, or was taken back).
        headline: The verdict in one line.
        what_changes: What changes for readers.
        why: Why, by whose request, and from which release to which.
        by_how_much: How many rows move.
        is_it_right: What was checked, and with what result.
        on_yes: What publication does, and what follows.
        warnings: What has to be read before it is approved; empty when there is nothing.
    """

    level: Level
    headline: str
    what_changes: str
    why: str
    by_how_much: str
    is_it_right: str
    on_yes: str
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewed:
    """What a review is written from.

    Attributes:
        noun: What one partition is called: `day` or `month`.
        run: The run.
        from_versions: The releases whose accepted rows it replaces.
        goes_back: Later releases among them.
        moved_on: The inputs that have changed since it was planned.
        left_behind: What keeps rows of another release on its borders.
        totals: All partitions together; None before the gates.
        new: Those without accepted rows, or None.
        restated: Those with accepted rows, or None.
        swapped: In how many partitions the rows differ, or are swapped in any case.
        equal: How many partitions equal the accepted rows.
        gates: The result of each gate.
        dependents: What depends on it.
        to_comment: What the approver has to comment on and has not; empty when there is nothing.
    """

    noun: str
    run: RunSummary
    from_versions: tuple[str, ...]
    goes_back: tuple[LaterRelease, ...]
    moved_on: tuple[TablePartitions, ...]
    left_behind: tuple[LeftBehind, ...]
    totals: Moves | None
    new: MovesOfSome | None
    restated: MovesOfSome | None
    swapped: int
    equal: int
    gates: tuple[GateSummary, ...]
    dependents: tuple[DependentMoves, ...]
    to_comment: tuple[GateResult, ...]


def review_of(found: Reviewed) -> Review:
    """The answers for one run."""
    warnings = _warnings(found)
    return Review(
        level=_level(found, warnings),
        headline=_headline(found, warnings),
        what_changes=_what_changes(found),
        why=_why(found),
        by_how_much=_by_how_much(found),
        is_it_right=_is_it_right(found.gates),
        on_yes=_on_yes(found),
        warnings=warnings,
    )


def _warnings(found: Reviewed) -> tuple[str, ...]:
    commented = {result.gate for result in found.to_comment}
    informing = [g for g in found.gates if g.failed and not g.blocking and g.gate not in commented]
    return (
        *(_sentence(goes_back_words(each)) for each in found.goes_back),
        *(_sentence(moved_on_words(each)) for each in found.moved_on),
        *(_sentence(left_behind_words(each)) for each in found.left_behind),
        *(f"Gate {gate.gate} is not met: {gate.first_failure}." for gate in informing),
        *([f"The approval needs a written comment: {said_of(found.to_comment)}."] if found.to_comment else []),
    )


def _level(found: Reviewed, warnings: Sequence[str]) -> Level:
    if found.run.state in (RunState.BLOCKED, RunState.ROLLED_BACK, RunState.CANCELLED, RunState.FAILED):
        return Level.BAD
    if found.totals is None:
        return Level.PENDING
    if warnings or (found.run.mode is Mode.RECONCILIATION and found.swapped):
        return Level.ATTENTION
    return Level.GOOD


def _headline(found: Reviewed, warnings: Sequence[str]) -> str:
    run, share = found.run, _share(found)
    blocking = [gate.gate for gate in found.gates if gate.blocking and gate.failed]
    with_warnings = f", with {count_of(len(warnings), 'warning')}" if warnings else ""
    if run.state is RunState.BLOCKED:
        return f"Blocked by {' and '.join(blocking) or 'a gate'}: it cannot be published"
    if run.mode is Mode.RECONCILIATION and found.totals:
        return f"Drift: {count_of(found.swapped, found.noun)} differ" if found.swapped else "No drift"
    if run.state is RunState.PASSED and run.mode in NEVER_PUBLISHED:
        return f"Measured, and never published{share}{with_warnings}"
    if run.state is RunState.PASSED:
        waits = "ready to publish" if run.approved_by else "waits for an approval"
        return f"Every blocking gate passed: {waits}{share}{with_warnings}"
    share = share if run.state in (RunState.PUBLISHED, RunState.SUPERSEDED) else ""
    return f"{run.state.replace('_', ' ').capitalize()}: {run.meaning}{share}{with_warnings}"


def _share(found: Reviewed) -> str:
    """What part of the accepted rows is concerned, for a headline; nothing where there are none."""
    share = share_of_accepted(found.restated.moves) if found.restated else None
    if not share:
        return ""
    if found.run.state in EVER_PUBLISHED:
        return f"; {share} of the rows accepted before changed or disappeared"
    return f"; {share} of the accepted rows change or disappear"


def share_of_accepted(moves: Moves) -> str | None:
    """How many of the accepted rows change or disappear, in percent; None where there are no accepted rows."""
    if not moves.accepted_rows:
        return None
    gone = moves.changed + moves.removed
    percent = f"{gone / moves.accepted_rows:.1%}"
    if percent == "0.0%" and gone:
        return "under 0.1%"
    return "over 99.9%" if percent == "100.0%" and gone < moves.accepted_rows else percent


def _what_changes(found: Reviewed) -> str:
    run, measured = found.run, (len(found.new.partitions) if found.new else 0)
    measured += len(found.restated.partitions) if found.restated else 0
    if not measured:
        return f"{run.partitions_described} of {run.table}; nothing is measured yet, so it is not known what differs."
    verb = "changed" if run.state in EVER_PUBLISHED else "would change"
    parts = [
        f"{found.swapped:,} of {count_of(measured, found.noun)} of {run.table} {verb} ({run.partitions_described})"
    ]
    if found.new:
        parts.append(f"{count_of(len(found.new.partitions), found.noun)} had no accepted rows before")
    if run.kind in ALWAYS_SWAPPED:
        parts.append("files of equal partitions are replaced too")
    elif found.equal:
        parts.append(f"{count_of(found.equal, found.noun)} hold the accepted rows already and stay as they are")
    return _sentence("; ".join(parts))


def _why(found: Reviewed) -> str:
    run = found.run
    replaced = f", and replace rows from release {' and '.join(found.from_versions)}" if found.from_versions else ""
    references = f". References {run.references_described}" if run.references_described else ""
    return _sentence(
        f"{run.kind}, requested by {run.requested_by}: {run.reason}. "
        f"The rows come from {run.transform}, release {run.transform_version}{replaced}{references}"
    )


def _by_how_much(found: Reviewed) -> str:
    if found.totals is None:
        return "Not measured yet."
    parts = []
    if found.restated:
        moves = found.restated.moves
        parts.append(f"restated, {found.restated.partitions}: {moves_in_words(moves)}")
    if found.new:
        parts.append(f"new, {found.new.partitions}: {count_of(found.new.moves.rows, 'row')}")
    return _sentence("; ".join(parts))


def moves_in_words(moves: Moves) -> str:
    """How rows differ from the accepted ones."""
    share = share_of_accepted(moves)
    return (
        f"of {count_of(moves.accepted_rows, 'accepted row')} {moves.changed:,} change and {moves.removed:,} disappear"
        f"{f', together {share},' if share else ''} and {moves.unchanged:,} stay; {moves.added:,} are added"
    )


def _is_it_right(gates: Sequence[GateSummary]) -> str:
    measured = [gate for gate in gates if gate.passed_partitions or gate.failed]
    if not measured:
        return "Not measured yet."
    failed = [gate for gate in measured if gate.failed]
    if not failed:
        proof = "".join(f" The window ({gate.gate}): {gate.outcome}." for gate in measured if gate.gate == PROOF)
        return (
            f"All {count_of(len(measured), 'gate')} passed: the rows keep the declared rules.{proof} "
            "Whether the reason is right, and these days are all that it concerns, no gate can know."
        )
    words = [f"{gate.gate} ({'blocks' if gate.blocking else 'informs'}): {gate.first_failure}" for gate in failed]
    return _sentence(f"{len(failed):,} of {count_of(len(measured), 'gate')} failed. {'; '.join(words)}")


def _on_yes(found: Reviewed) -> str:
    run = found.run
    if run.mode in NEVER_PUBLISHED:
        return f"Nothing: a run of mode {run.mode} is never published."
    if run.state in (RunState.BLOCKED, RunState.CANCELLED):
        return f"It cannot be published: {run.meaning}."
    followers = "; ".join(f"{each.table}, {each.partitions}" for each in found.dependents)
    follow = f" Then the dependents follow: {followers}." if followers else " No other table depends on it."
    if run.state in EVER_PUBLISHED:
        return f"It is {run.state}: {run.meaning}.{follow}"
    return (
        f"One commit swaps the files of {count_of(found.swapped, found.noun)} of {run.table}; a rollback of this "
        f"run restores exactly the earlier files. Cancelled instead, it changes nothing.{follow}"
        if found.totals
        else f"Publication swaps the partitions of {run.table} that differ, in one commit.{follow}"
    )


def worst(levels: Iterable[Level]) -> Level:
    """The level of several runs together."""
    found = set(levels)
    return next((level for level in (Level.BAD, Level.ATTENTION, Level.PENDING) if level in found), Level.GOOD)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"
