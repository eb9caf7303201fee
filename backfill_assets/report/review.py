"""Review of a run and of a set: the five questions of a reviewer, answered in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from backfill_assets.calendar.partitions import count_of
from backfill_assets.core.next_steps import NextStep
from backfill_assets.gates.measured import RowDiff
from backfill_assets.ledger.errors import loosened_words
from backfill_assets.ledger.states import EVER_PUBLISHED, EVER_VISIBLE, RunState, SetState
from backfill_assets.planning.manifest_parts import ALWAYS_SWAPPED, NEVER_PUBLISHED, Mode
from backfill_assets.planning.safeguards import Demand
from backfill_assets.planning.stages import Agree
from backfill_assets.report.command_line import words_of
from backfill_assets.report.measured import PROOF, GateSummary
from backfill_assets.report.report import RunReport, SetReport, TableTotals
from backfill_assets.report.runs import RunSummary, SetDocument
from backfill_assets.report.values import as_sentence
from backfill_assets.report.words.plans import (
    brought_along_words,
    changed_by_table,
    changed_words,
    columns_left_words,
    columns_words,
    gate_references_described,
    goes_back_words,
    inexact_words,
    known_rows_gone_words,
    left_behind_words,
    moved_on_words,
    no_rows_words,
    phase_words,
    references_described,
    stays_words,
    undetermined_words,
)
from backfill_assets.report.words.stages import WORDS
from backfill_assets.report.words.states import MEANING, changed_reference_words, meaning_of_run, meaning_of_set
from backfill_assets.report.words.verdicts import said_of

_DECIDED = (*EVER_PUBLISHED, RunState.VERIFIED, RunState.CANCELLED)
_STOPPED = (RunState.BLOCKED, RunState.CANCELLED)
_DECIDED_SETS = (SetState.PUBLISHED, SetState.VERIFIED, SetState.ROLLED_BACK, SetState.CANCELLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """The answers to a reviewer's questions, in words."""

    headline: str
    what_changes: str
    columns: str  #: How the columns that readers see change, and what has become of that; empty where they stay.
    changed: tuple[str, ...]  #: What has changed since the accepted rows were computed, cause by cause.
    why: str  #: Why, by whose request, and from which release to which.
    by_how_much: str  #: How many rows move.
    is_it_right: str  #: What was checked, and with what result.
    on_yes: str  #: What publication does, and what follows; what has become of it once it is decided.
    is_past: bool  #: True if that is decided.
    warnings: tuple[str, ...]  #: What has to be read before it is approved; empty when there is nothing.


def review_of(found: RunReport) -> Review:
    """The answers for one run."""
    warnings = _warnings(found)
    return Review(
        headline=_headline(found, warnings),
        what_changes=_what_changes(found),
        columns=_columns(found),
        changed=changed_words(found.run.manifest),
        why=_why(found),
        by_how_much=_by_how_much(found),
        is_it_right=_is_it_right(found.gates),
        on_yes=_on_yes(found),
        is_past=found.run.record.state in _DECIDED,
        warnings=warnings,
    )


def _warnings(found: RunReport) -> tuple[str, ...]:
    commented = {result.gate for result in found.to_comment}
    informing = [g for g in found.gates if g.failed and not g.blocking and g.gate not in commented]
    blocks = [g for g in found.gates if g.failed and g.blocking] if found.run.record.state in _STOPPED else []
    return (
        *(f"Gate {gate.gate} blocks it: {gate.first_failure}." for gate in blocks),
        *(f"It cannot be published as it is: {each.why}" for each in found.run.in_the_way),
        *(as_sentence(goes_back_words(each)) for each in found.goes_back),
        *(f"{each}." for each in undetermined_words(found.run.manifest.safeguards)),
        *(f"{inexact_words(each)}." for each in found.run.manifest.inexact),
        *(as_sentence(moved_on_words(each)) for each in found.moved_on),
        *(
            f"{as_sentence(changed_reference_words(each))} Plan it again to use it."
            for each in found.changed_references
        ),
        *(as_sentence(brought_along_words(each)) for each in found.other_code),
        *(as_sentence(left_behind_words(each)) for each in found.left_behind),
        *([no_rows_words(found.no_rows_of)] if found.no_rows_of else []),
        *(f"Gate {gate.gate} is not met: {gate.first_failure}." for gate in informing),
        *([f"The approval needs a written comment: {said_of(found.to_comment)}."] if found.to_comment else []),
        *(
            f"{as_sentence(loosened_words(each.loosened, each.unsure))} Whoever approves it agrees to that as well."
            for each in _loosened(found)
        ),
        *(known_rows_gone_words(each) for each in found.known_rows_gone),
    )


def _loosened(found: RunReport) -> Iterable[Demand]:
    """The terms that are declared more loosely than was last agreed to, while that is to be decided."""
    if found.run.record.state not in _DECIDED:
        yield from (each.demand for each in found.plan if isinstance(each, Agree) and each.demand.loosened)


def _headline(found: RunReport, warnings: Sequence[str]) -> str:
    run, share = found.run, _share(found)
    blocking = [gate.gate for gate in found.gates if gate.blocking and gate.failed]
    with_warnings = f", with {count_of(len(warnings), 'warning')}" if warnings else ""
    if run.record.state is RunState.BLOCKED:
        return f"Blocked by {' and '.join(blocking) or 'a gate'}: it cannot be published"
    if run.record.mode is Mode.RECONCILIATION and found.totals:
        return f"Drift: {count_of(len(found.swapped), found.noun)} differ" if found.swapped else "No drift"
    if run.record.state is RunState.VERIFIED or changes_nothing(found):
        is_known = run.record.state is RunState.VERIFIED
        said = "Nothing changes, and no decision is needed" if is_known else "Nothing would change"
        return f"{said}: all rows of {run.manifest.output} equal the accepted ones{with_warnings}"
    if run.record.state is RunState.PASSED and run.record.mode in NEVER_PUBLISHED:
        return f"Measured, and never published{share}{with_warnings}"
    if run.record.state is RunState.PASSED:
        waits = "ready to publish" if run.record.approved_by or run.brings_back else "waits for an approval"
        waits = "cannot be published as it is" if run.in_the_way else waits
        return f"Every blocking gate passed: {waits}{share}{with_warnings}"
    if run.record.state is RunState.FAILED and run.record.note:
        return f"Failed: {run.record.note.removesuffix('.')}{with_warnings}"
    share = share if run.record.state in EVER_VISIBLE else ""
    return f"{run.record.state.replace('_', ' ').capitalize()}: {meaning_of_run(run.record)}{share}{with_warnings}"


def changes_nothing(found: RunReport) -> bool:
    """True if it waits for publication, and readers would see what they see now."""
    return found.run.record.state is RunState.PASSED and found.totals is not None and not found.swapped


def all_change_nothing(report: SetReport) -> bool:
    """True if a set waits for publication, and readers would see what they see now."""
    return report.set.record.state is SetState.PENDING and all(map(changes_nothing, report.reports))


def _share(found: RunReport) -> str:
    """The share of the accepted rows that is concerned, for a headline; nothing where there are none."""
    share = share_of_accepted(found.restated.moves) if found.restated else None
    if not share:
        return ""
    if found.run.record.state in EVER_PUBLISHED:
        return f"; {share} of the rows accepted before changed or disappeared"
    return f"; {share} of the accepted rows change or disappear"


def share_of_accepted(moves: RowDiff) -> str | None:
    """The percentage of accepted rows that change or disappear; None where there are no accepted rows."""
    if not moves.accepted_rows:
        return None
    gone = moves.changed + moves.removed
    percent = f"{gone / moves.accepted_rows:.1%}"
    if percent == "0.0%" and gone:
        return "under 0.1%"
    return "over 99.9%" if percent == "100.0%" and gone < moves.accepted_rows else percent


def _what_changes(found: RunReport) -> str:
    run, measured = found.run, (len(found.new.partitions) if found.new else 0)
    measured += len(found.restated.partitions) if found.restated else 0
    if not measured:
        return (
            f"{run.manifest.output} of {run.record.table}; nothing is measured yet, so the differences are not known."
        )
    is_past = run.record.state in EVER_PUBLISHED
    verb = "changed" if is_past else "would change"
    parts = [
        f"{len(found.swapped):,} of {count_of(measured, found.noun)} of {run.record.table} {verb} "
        f"({run.manifest.output})"
    ]
    if found.new:
        parts.append(f"{count_of(len(found.new.partitions), found.noun)} had no accepted rows before")
    if lost := [part for part in found.partitions if part.expected_checksum]:
        same = sum(part.is_as_recorded for part in lost)
        parts.append(
            f"the accepted files of {count_of(len(lost), found.noun)} are gone or damaged, and the rows of {same:,} "
            "come out exactly as they were recorded"
        )
    elif run.record.kind in ALWAYS_SWAPPED:
        parts.append("equal partitions are swapped too")
    elif found.equal_partitions:
        stay = "were equal and stayed as they were" if is_past else "are equal and stay as they are"
        parts.append(f"the accepted rows of {count_of(found.equal_partitions, found.noun)} {stay}")
    return as_sentence("; ".join(parts))


def _columns(found: RunReport) -> str:
    changes, state = found.run.manifest.columns, found.run.record.state
    said = [columns_words(changes)]
    if changes and state is RunState.ROLLED_BACK:
        said.append(columns_left_words(changes))
    elif changes and (state is RunState.VERIFIED or changes_nothing(found)):
        said.append("not yet, as no row changes")
    return "; ".join(said)


def _why(found: RunReport) -> str:
    run = found.run
    said = f"{run.record.kind}, requested by {run.manifest.requested_by}: {run.manifest.reason}."
    return as_sentence(f"{said} {_rows_come_from(found)}")


def _rows_come_from(found: RunReport) -> str:
    """The origin of the new rows, and what they replace; for an expiry, which snapshots stay."""
    manifest = found.run.manifest
    if kept := stays_words(manifest):
        return f"Its table keeps {kept}"
    replaced = f", and replace rows from release {' and '.join(found.from_versions)}" if found.from_versions else ""
    named = references_described(manifest.references)
    references = f". References {named}" if named else ""
    if read := gate_references_described(found.gate_references):
        references += f". Gates have read {read}"
    rows, scope = "The rows", manifest.change.scope
    if scope is not None:
        rows, replaced = f"The rows of {scope}", "; all others stay exactly as they are accepted"
    return f"{rows} come from {manifest.transform}, release {manifest.transform_version}{replaced}{references}"


def _by_how_much(found: RunReport) -> str:
    if found.totals is None:
        return "Not measured yet."
    return as_sentence(_moves_of(found, is_past=found.run.record.state in EVER_PUBLISHED))


def _moves_of(found: RunReport | TableTotals, *, is_past: bool) -> str:
    """The differences of rows, for partitions that had accepted rows and for new ones."""
    parts = []
    if found.restated:
        parts.append(f"restated, {found.restated.partitions}: {moves_in_words(found.restated.moves, is_past=is_past)}")
    if found.new:
        parts.append(f"new, {found.new.partitions}: {count_of(found.new.moves.rows, 'row')}")
    return "; ".join(parts)


def moves_in_words(moves: RowDiff, *, is_past: bool) -> str:
    """The differences of rows from the accepted ones, or from those that were accepted before, in words."""
    share = share_of_accepted(moves)
    change, disappear, stay, are = _PAST if is_past else _PRESENT
    return (
        f"of {count_of(moves.accepted_rows, 'accepted row')} {moves.changed:,} {change} and {moves.removed:,} "
        f"{disappear}{f', together {share},' if share else ''} and {moves.unchanged:,} {stay}; "
        f"{moves.added:,} {are} added"
    )


_PRESENT = ("change", "disappear", "stay", "are")
_PAST = ("changed", "disappeared", "stayed", "were")


def _is_it_right(gates: Sequence[GateSummary]) -> str:
    measured = [gate for gate in gates if gate.passed_partitions or gate.failed]
    if not measured:
        return "Not measured yet."
    failed = [gate for gate in measured if gate.failed]
    if not failed:
        proof = "".join(f" The window ({gate.gate}): {gate.outcome}." for gate in measured if gate.gate == PROOF)
        return (
            f"All {count_of(len(measured), 'gate')} passed: the rows keep the declared rules.{proof} "
            "No gate can know whether the reason is right and covers every day that it concerns."
        )
    words = [_failure(gate) for gate in failed]
    return as_sentence(f"{len(failed):,} of {count_of(len(measured), 'gate')} failed. {'; '.join(words)}")


def _failure(gate: GateSummary) -> str:
    many = f" fails in {len(gate.failed):,} partitions, the first of them" if len(gate.failed) > 1 else ""
    return f"{gate.gate} ({'blocks' if gate.blocking else 'informs'}){many}: {gate.first_failure}"


def _on_yes(found: RunReport) -> str:
    run = found.run
    if run.record.mode in NEVER_PUBLISHED:
        return f"Nothing: a run of mode {run.record.mode} is never published."
    if run.record.state in (RunState.BLOCKED, RunState.CANCELLED):
        return f"It cannot be published: {MEANING[run.record.state]}."
    if run.record.state is RunState.FAILED:
        return _failed_words(run, run.next_step)
    followers = "; ".join(f"{each.table}, {each.partitions}" for each in found.dependents)
    waiting = "; ".join(map(str, found.unpublished))
    swap = WORDS[type(run.manifest.change)].swap
    if swap and run.record.state not in EVER_PUBLISHED:
        partitions = count_of(len(run.manifest.partitions), found.noun)
        return swap.format(partitions=partitions, table=run.record.table)
    if run.record.state in EVER_PUBLISHED:
        depends = f" Published and dependent on it: {followers}." if followers else _none_depends(waiting)
        is_read = run.record.state is RunState.PUBLISHED
        return f"It is {run.record.state}: {meaning_of_run(run.record)}.{depends if is_read else ''}"
    follow = f" Then the dependents follow: {followers}." if followers else _none_depends(waiting)
    if not run.record.is_alone:
        follow = f" It is published with the other runs of {run.record.request_id}, whose report lists the dependents."
    if run.record.state is RunState.VERIFIED:
        recorded = "The ledger records that the accepted rows also follow from its inputs"
        return f"It is {run.record.state}: {MEANING[run.record.state]}. {recorded}."
    if changes_nothing(found):
        return "No file is swapped: the ledger records that the accepted rows follow from its inputs too."
    back = "a rollback of this run restores exactly the earlier files"
    if any(part.expected_checksum for part in found.partitions):
        back = "it cannot be rolled back, because the earlier files are gone or damaged"
    if run.brings_back:
        follow = " No dependent has to follow, because the rows are those that were recorded."
    return (
        f"One commit swaps the files of {count_of(len(found.swapped), found.noun)} of {run.record.table}; {back}. "
        f"Cancelled instead, it changes nothing.{follow}"
        if found.totals
        else f"Publication swaps the partitions of {run.record.table} that differ, in one commit.{follow}"
    )


def _failed_words(run: RunSummary, following: NextStep | None, said: str = "") -> str:
    """A note that what failed cannot be published, with the step that moves the run, or its set, on."""
    why = (run.record.note or MEANING[run.record.state]).removesuffix(".")
    todo = f" Next: {words_of(following)}" if following else ""
    return f"It cannot be published: {said}{why}.{todo}"


def _none_depends(waiting: str) -> str:
    """A note that nothing published depends on a run, with the dependents that have no rows yet."""
    if not waiting:
        return " No other table depends on it."
    return f" Nothing published depends on it yet; {waiting}, follows where its inputs are complete."


def review_of_set(report: SetReport) -> Review:
    """The answers for the runs of a set together."""
    found, reports, tables = report.set, report.reports, report.tables
    manifest = found.record.manifest
    reviews = [(report.title_of(each), review_of(each)) for each in reports]
    warnings = tuple(dict.fromkeys(f"{title}: {text}" for title, review in reviews for text in review.warnings))
    inside = {report.run.record.table for report in reports}
    is_past = found.record.state in (SetState.PUBLISHED, SetState.ROLLED_BACK) and not _is_in_part(found)
    outside = dict.fromkeys(
        f"{each.table}, {each.partitions}" for r in reports for each in r.dependents if each.table not in inside
    )
    return Review(
        headline=_headline_of_set(report, warnings),
        what_changes=" ".join(review.what_changes for _, review in reviews),
        columns="; ".join(
            dict.fromkeys(
                f"{each.run.record.table}: {review.columns}"
                for each, (_, review) in zip(reports, reviews, strict=True)
                if review.columns
            )
        ),
        changed=changed_by_table(each.run.manifest for each in reports),
        why=" ".join(
            [
                f"Cause: {manifest.because}. Requested by {manifest.requested_by}: {manifest.reason}.",
                *dict.fromkeys(f"{each.run.record.table}: {_rows_come_from(each)}." for each in reports),
            ]
        ),
        by_how_much=" ".join(
            f"{each.table}: {_moves_of(each, is_past=is_past) or 'not measured yet'}." for each in tables
        ),
        is_it_right=" ".join(f"{title}: {review.is_it_right}" for title, review in reviews),
        on_yes=_on_yes_of_set(report, tuple(outside)),
        is_past=found.record.state in _DECIDED_SETS,
        warnings=warnings,
    )


def _is_in_part(found: SetDocument) -> bool:
    """True if some of its phases were cancelled, so that its totals say more than what has changed."""
    return RunState.CANCELLED in found.states


def _headline_of_set(report: SetReport, warnings: Sequence[str]) -> str:
    found, reports, tables = report.set, report.reports, report.tables
    blocked = [report.run.record.table for report in reports if report.is_blocked]
    if blocked:
        return f"Blocked: a gate of {' and '.join(dict.fromkeys(blocked))} failed, so the set cannot be published"
    with_warnings = f", with {count_of(len(warnings), 'warning')}" if warnings else ""
    if found.record.state is SetState.VERIFIED:
        return (
            f"Nothing changes, and no decision is needed: the rows of every run equal the accepted ones{with_warnings}"
        )
    if all_change_nothing(report):
        return f"Nothing would change: the rows of every run equal the accepted ones{with_warnings}"
    if found.record.state is SetState.PENDING:
        unmeasured = sum(report.totals is None for report in reports)
        if unmeasured:
            return f"{count_of(unmeasured, 'run')} of {len(reports):,} not measured yet{with_warnings}"
        waits = "ready to publish" if found.approved_by else "waits for an approval"
        waits = "cannot be published as it is" if any(each.run.in_the_way for each in reports) else waits
        concerned = _shares(tables, "accepted rows", "change or disappear")
        return f"Every blocking gate of every run passed: {waits}{concerned}{with_warnings}"
    is_published = found.record.state is SetState.PUBLISHED and not _is_in_part(found)
    concerned = _shares(tables, "rows accepted before", "changed or disappeared") if is_published else ""
    meaning = meaning_of_set(found.record.state, found.states)
    return f"{found.record.state.replace('_', ' ').capitalize()}: {meaning}{concerned}{with_warnings}"


def _shares(tables: Sequence[TableTotals], rows: str, verb: str) -> str:
    """The share of each table's accepted rows that is concerned, for a headline."""
    shares = [(table.table, share_of_accepted(table.restated.moves)) for table in tables if table.restated]
    words = [f"{share} of {table}" for table, share in shares if share]
    return f"; of the {rows}, {' and '.join(words)} {verb}" if words else ""


def _on_yes_of_set(report: SetReport, outside: Sequence[str]) -> str:
    found = report.set
    order = ", then ".join(dict.fromkeys(each.run.record.table for each in report.reports))
    if found.record.state in _DECIDED_SETS:
        depends = f" Published and dependent on it: {'; '.join(outside)}." if outside else ""
        return f"It is {found.record.state}: {meaning_of_set(found.record.state, found.states)}.{depends}"
    if any(each.is_blocked for each in report.reports):
        return "It cannot be published: a blocking gate failed; its next step says what can be done."
    follow = f" Then the dependents follow: {'; '.join(outside)}." if outside else ""
    manifest = found.record.manifest
    if manifest.phases:
        return (
            f"{manifest.because}: they are published {phase_words(manifest.phases)}. "
            f"A rollback of the set undoes all of them.{follow}"
        )
    if failed := next((run for each in report.reports if (run := each.run).record.state is RunState.FAILED), None):
        return _failed_words(failed, found.next_step, f"run {failed.record.run_id} failed: ")
    if len(report.reports) == 1:
        return f"Its run is published: {order}. A rollback of the set undoes it.{follow}"
    return f"Its runs are published one after the other: {order}. A rollback of the set undoes all of them.{follow}"
