"""LIVE path: the newest days, from landed files to what readers see, by the same code as every other run.

Bronze is built from what has landed. Then every table that reads a source gets the days after its last accepted one,
in order and as far as their windows are complete; what reads those tables follows. A policy publishes, or the run waits
for a person: a LIVE run that waits or is blocked is not planned again, and nothing after it is, unless it can never be
published.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date

from backfill_assets.application.follow import follow
from backfill_assets.application.parts import Part, parts_left
from backfill_assets.application.plan_load import plan_load
from backfill_assets.application.recorder import Acting
from backfill_assets.application.sensor_work import remember
from backfill_assets.application.terms import present_terms
from backfill_assets.calendar.partitions import DayRange, days_of, describe
from backfill_assets.core.errors import BackfillError, NotApproved
from backfill_assets.core.people import LIVE, Sensor
from backfill_assets.domain import DerivedTable, SourceTable, Table
from backfill_assets.domain.errors import PlannedOtherwise
from backfill_assets.gates.agreed import require_agreed_gates
from backfill_assets.landing.days import pending_days
from backfill_assets.ledger.outbox import GivenUp
from backfill_assets.ledger.records import RunRecord
from backfill_assets.ledger.states import UNFINISHED, UNPUBLISHED, RunState
from backfill_assets.ledger.store import LedgerState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.impact import complete_partitions, lacking
from backfill_assets.planning.manifest_parts import WHAT_LANDED, Mode, RunPurpose
from backfill_assets.planning.request import PlanRequest, propose, require_inputs
from backfill_assets.report.command_line import explained, words_of
from backfill_assets.report.waiting import frozen_words, waits_for_words
from backfill_assets.report.what_next import next_step
from backfill_assets.requests.authority import demands_of
from backfill_assets.requests.covered import is_built_since
from backfill_assets.requests.errors import DeclaredSince, ReadBeforeKnown
from backfill_assets.requests.left_out import lacks
from backfill_assets.requests.obstacles import IN_ITS_TURN, Publishing, obstacles, present_gates
from backfill_assets.requests.proposals import days_held_by_moves
from backfill_assets.staleness.find import own_past, stale_before, with_changes
from backfill_assets.workspace import Workspace

REASON = "the newest days"


@dataclass(frozen=True, slots=True, kw_only=True)
class Advanced:
    """The outcome of advancing one table: a sentence, and whether it failed."""

    sentence: str
    failed: bool = False


def live(ws: Workspace, acting: Acting) -> tuple[Advanced, ...]:
    """Takes the newest days of every table as far as they may go."""
    acting = replace(acting, by=LIVE)
    found = [_captured(ws, source, acting) for source in ws.domain.sources if source.capture is not None]
    found += [_advanced(ws, source, acting) for source in ws.domain.sources]
    try:
        found += _derived(ws, acting)
    except BackfillError as error:
        # Such as a reference that cannot be read, on which windows depend: the sources are built all the same.
        found.append(Advanced(sentence=explained(error), failed=True))
    return tuple(found)


def _captured(ws: Workspace, source: SourceTable, acting: Acting) -> Advanced:
    """Captures what is new in the stream of a source, as landed files; their days are built with all others."""
    # Imported where a source has a stream: it brings what lands files along.
    from backfill_assets.application.capture import CaptureRange, capture
    from backfill_assets.capture.streams import Pace

    try:
        asked = CaptureRange(first=None, last=None)
        report = capture(ws, source.name, asked, acting, reason=REASON, pace=Pace(), builds=False, on_schedule=True)
    except BackfillError as error:
        return Advanced(sentence=f"{source.name}: {explained(error)}", failed=True)
    if report.waits:
        return Advanced(sentence=f"{source.name}: {report.capture_id} waits for the approval of another person.")
    return Advanced(sentence=f"{source.name}: {report.captured:,} records captured.")


def _derived(ws: Workspace, acting: Acting) -> Iterator[Advanced]:
    with ws.ledger.read() as tx:
        stopped = tx.acts.stopped()
    for name, node in ws.graph.tables.items():
        table = ws.domain.tables[name]
        is_followed = node.is_beside or any(
            isinstance(ws.domain.tables[edge.table], SourceTable) for edge in node.inputs
        )
        if isinstance(table, DerivedTable) and is_followed and name not in stopped:
            yield _advanced(ws, table, acting)
    for each in follow(ws, replace(acting, by=str(Sensor.FOLLOW))).followed:
        because = explained(each.error) if each.error else ""
        sentence = f"{each.table}: {each.run_id} follows, and is {each.state}. {because}".rstrip()
        yield Advanced(sentence=sentence if each.run_id else because, failed=each.failed)
    if ws.domain.names_with_versions:
        yield from _compared(ws)


def _compared(ws: Workspace) -> Iterator[Advanced]:
    """The comparison of every version of a table with what readers are shown, which is made every day."""
    # Imported where a table has versions.
    from backfill_assets.application.shadow import compared

    for pair, day in compared(ws, by=LIVE):
        named = f"{pair.version.name}: compared with {pair.shown.name}"
        if isinstance(day, BackfillError):
            yield Advanced(sentence=f"{named}: {explained(day)}", failed=True)
            continue
        other = day.differing - day.explained
        found = f"{day.agreed:,} keys agree, {day.explained:,} differ as declared, {other:,} otherwise"
        yield Advanced(sentence=f"{named}, {found}.")


def _advanced(ws: Workspace, table: Table, acting: Acting) -> Advanced:
    try:
        run = _still_current(ws, _unfinished(ws, table)) or _planned(ws, table)
        if isinstance(run, str):
            return Advanced(sentence=f"{table.name}: {run}.")
        return _executed(ws, run, acting)
    except BackfillError as error:
        return Advanced(sentence=f"{table.name}: {explained(error)}", failed=True)


def _unfinished(ws: Workspace, table: Table) -> RunRecord | None:
    """The LIVE run of a table that is not published, if there is one: nothing is planned beside it."""
    with ws.ledger.read() as tx:
        open_ones = tx.runs.records(table=table.name, states=UNPUBLISHED)
        own = [run for run in open_ones if run.manifest.requested_by == LIVE]
        # A person may have published these days meanwhile; then it keeps nothing waiting.
        if isinstance(table, SourceTable):
            kept = [run for run in own if not is_built_since(ws, tx, run)]
        elif ws.graph.table(table.name).is_beside:
            # It restates its own days as well.
            kept = own
        else:
            kept = [run for run in own if set(run.manifest.partitions) - tx.versions.claims(table.name).keys()]
    return kept[-1] if kept else None


def _still_current(ws: Workspace, run: RunRecord | None) -> RunRecord | None:
    """A LIVE run; one that can never be published is cancelled, to be planned again: it has read what was there before
    keys were known, or its table declares other gates now."""
    if run is None or run.state not in (*UNFINISHED, RunState.PASSED):
        return run
    with ws.ledger.read() as tx:
        why = _other_gates(ws, tx, run)
    if not why and not run.manifest.unknown:
        return run
    with ws.ledger.write() as tx:
        if not why:
            waits = next(obstacles(Publishing(ws=ws, tx=tx, run=run), IN_ITS_TURN), None)
            if waits is None or not isinstance(waits.error, ReadBeforeKnown) or waits.error.known.unbuilt:
                return run
            why = waits.error.known.words
        tx.runs.give_way(run.run_id, actor=LIVE, why=why)
    return None


def _other_gates(ws: Workspace, tx: ReadTransaction, run: RunRecord) -> str:
    """Why a run cannot be measured, or was not measured, with the gates that its table declares; empty where it can."""
    if run.state is RunState.PASSED:
        found = present_gates.find(Publishing(ws=ws, tx=tx, run=run))
        return f"was not measured with {found.named}, declared since" if isinstance(found, DeclaredSince) else ""
    table = ws.domain.table(run.manifest.table)
    try:
        require_agreed_gates(run.manifest, table, ws.code.gate_digests(table))
    except PlannedOtherwise as error:
        return error.difference
    return ""


def _planned(ws: Workspace, table: Table) -> RunRecord | str:
    """A new LIVE run of a table, or why there is none."""
    if isinstance(table, SourceTable):
        load = plan_load(ws, table.name, partitions=None, by=LIVE, reason=REASON, on_schedule=True)
        return load or _frozen(ws, table) or "nothing has landed that is not built"
    assert isinstance(table, DerivedTable)
    with ws.ledger.read() as tx:
        found = _newest(ws, tx, table)
        if isinstance(found, str):
            return found
        newest = found.partitions
        request = PlanRequest(
            table=table.name,
            days=DayRange(newest[0], days_of(table.partition.grain, newest[-1]).end),
            partitions=newest,
            reason=found.reason,
            by=LIVE,
            kind=RunPurpose.LIVE,
            mode=Mode.LIVE,
        )
        plan = propose(
            request,
            present_terms(ws, table.name),
            graph=ws.graph,
            state=LedgerState(tx),
            as_of=tx.now,
            cause=WHAT_LANDED,
            past=own_past(ws, tx, table, newest[0]),
        )
        require_inputs(plan, first_day=ws.graph.first_day)
        plan = with_changes(ws, tx, plan)
    with ws.ledger.write() as tx:
        if others := LedgerState(tx).open_runs(table.name, newest):
            return _others(others)
        return tx.runs.add(plan.manifest, actor=LIVE, expected_core_seconds=plan.estimate.core_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Newest:
    """The new partitions of a table that can be computed, and the reason of the run, which says what cannot."""

    partitions: tuple[date, ...]
    reason: str


def _newest(ws: Workspace, tx: ReadTransaction, table: DerivedTable) -> _Newest | str:
    """The partitions after the last accepted one that are over and can be computed, up to the first that cannot."""
    accepted = tx.versions.claims(table.name)
    if not accepted:
        return "it was never published, and a person begins with that"
    grain, today = table.partition.grain, ws.clock().date()
    node, state = ws.graph.table(table.name), LedgerState(tx)
    after = days_of(grain, max(accepted)).end
    days = DayRange(after, max(after, today))
    new = [partition for partition in node.partitions_over(days) if days_of(grain, partition).end <= today]
    if node.is_beside:
        return _behind(ws, tx, table, new)
    ready, _ = complete_partitions(node, ws.graph, new, state)
    held = _held(ws, tx, table, new)
    frozen = tx.freezes.over(table.name, new, at=tx.now)
    first = next((each for each in new if each not in ready or each in held or each in frozen), None)
    newest = tuple(new[: new.index(first)] if first else new)
    if first is None and not newest:
        return "its newest days are published"
    reason = REASON
    if first:
        rest = new[len(newest) :]
        why = "for a person: keys moved between its days and published ones"
        if first in frozen:
            why = f"until it is frozen no longer: {frozen_words(frozen[first])}"
        elif first not in held:
            why = f"for its inputs: {lacks(lacking(ws.graph, node, [first], state.accepted))}"
        later = f", and {describe(grain, rest[1:])} for that" if len(rest) > 1 else ""
        left = f"{describe(grain, [first])} waits {why}{later}"
        reason = f"{REASON}, {len(newest)} of {len(new)}: {left}"
    if not newest:
        return reason
    others = state.open_runs(table.name, newest)
    return _others(others) if others else _Newest(partitions=newest, reason=reason)


def _behind(ws: Workspace, tx: ReadTransaction, table: DerivedTable, new: Sequence[date]) -> _Newest | str:
    """The days in which a version beside the accepted table lags behind: new ones, days whose input changed, and stale
    ones.

    No set and no follow-up contains it, so that nothing of the path to readers waits for it. What readers are shown and
    is stale as well is built again after that, so that both are compared over the same inputs.
    """
    accepted, node = tx.versions.claims(table.name), ws.graph.table(table.name)
    shown = ws.domain.derived_table(tx.acts.shown(table.version_of or table.name))
    missing = (
        {*node.among(tx.versions.claims(shown.name)), *new} - accepted.keys() - tx.versions.expired(table.name).keys()
    )
    missing |= stale_before(ws, tx, table, shown).keys()
    complete, waiting = complete_partitions(node, ws.graph, missing, LedgerState(tx))
    frozen = tx.freezes.over(table.name, complete, at=tx.now)
    ready = tuple(each for each in complete if each not in frozen)
    if not ready and frozen:
        return f"it waits: {frozen_words(next(iter(frozen.values())))}"
    if not ready:
        return "it is up to date" + (f"; {describe(node.grain, waiting)} waits for its inputs" if waiting else "")
    if others := LedgerState(tx).open_runs(table.name, ready):
        return _others(others)
    return _Newest(partitions=ready, reason=f"{REASON} beside {shown.name}")


def _held(ws: Workspace, tx: ReadTransaction, table: DerivedTable, new: Sequence[date]) -> set[date]:
    """Those of the partitions that read days whose keys moved from or to days that a person has yet to restate."""
    node = ws.graph.table(table.name)
    days = days_held_by_moves(ws, tx) if new else {}
    edges = [edge for edge in node.inputs if edge.table in days]
    return {partition for edge in edges for partition in ws.graph.reached(edge, node, sorted(days[edge.table]))}


def _frozen(ws: Workspace, source: SourceTable) -> str:
    """A report that landed days wait to be loaded until a freeze ends; empty when there are none."""
    with ws.ledger.read() as tx:
        frozen = tx.freezes.over(source.name, pending_days(tx, source).days, at=tx.now)
    return "; ".join(dict.fromkeys(map(frozen_words, frozen.values())))


def _others(run_ids: Sequence[str]) -> str:
    return f"its newest days are in the hands of {', '.join(run_ids)}"


def _executed(ws: Workspace, run: RunRecord, acting: Acting) -> Advanced:
    """Takes a LIVE run as far as its policy lets it."""
    if run.state in (*UNFINISHED, RunState.PASSED):
        with ws.ledger.read() as tx:
            if waits := next(obstacles(Publishing(ws=ws, tx=tx, run=run), IN_ITS_TURN), None):
                named = f"{run.manifest.table}: {run.run_id} over {run.manifest.output}"
                return Advanced(sentence=f"{named} is {run.state} and waits: {waits_for_words(waits.error)}.")
            is_automatic = demands_of(ws, tx, [run])[run.run_id].policy is not None
        parts = parts_left(run.state, is_automatic=is_automatic)
        is_load = isinstance(ws.domain.table(run.manifest.table), SourceTable)
        if parts and not acting.recorder.is_elsewhere(run.run_id):
            try:
                # A source table is one asset in Dagster; whether it may be published is decided at its swap.
                chosen = tuple(Part) if is_load else parts
                acting.recorder.execute(ws, run.run_id, chosen, by=LIVE, listener=acting.listener)
            except NotApproved:
                # What its gates demand a comment on was not known before: it waits for a person now.
                pass
    with ws.ledger.read() as tx:
        run = tx.runs.get(run.run_id)
        following = next_step(ws, tx, run) if run.state in UNPUBLISHED else None
    said = f"{run.manifest.table}: {run.run_id} over {run.manifest.output} is {run.state}."
    if run.manifest.reason != REASON and run.state in UNPUBLISHED:
        said = f"{said} {run.manifest.reason}."
    if following:
        said = f"{said} Next: {words_of(following)}"
    is_blocked = run.state is RunState.BLOCKED
    if is_blocked:
        _list_blocked(ws, run)
    return Advanced(sentence=said, failed=is_blocked)


def _list_blocked(ws: Workspace, run: RunRecord) -> None:
    """Lists a blocked run as stuck, unless a person has cleared it since a gate blocked it last."""
    blocked = GivenUp(subject=run.run_id, why="a blocking gate failed", mark=run.updated_at.isoformat())
    with ws.ledger.read() as tx:
        is_cleared = (blocked.subject, blocked.mark) in tx.stuck.cleared(Sensor.LIVE)
    if not is_cleared:
        remember(ws, Sensor.LIVE, [blocked])
