"""Status: what there is, what waits and for whom, and what processes are working on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date

from backfill_assets.core.next_steps import Act, NextStep, do, step
from backfill_assets.ledger.states import EVER_PUBLISHED, EVER_VISIBLE, OPEN_SETS, RunState
from backfill_assets.report.at_work import WorkInProgress
from backfill_assets.report.page import (
    Items,
    Note,
    Page,
    Section,
    Table,
    Tone,
    facts,
    page,
    run_ref,
    section,
    set_ref,
    table,
    table_ref,
)
from backfill_assets.report.runs import RunSummary, SetDocument
from backfill_assets.report.screens.landing import captured_table, imports_table, not_known_section, read_before_notes
from backfill_assets.report.screens.replays import open_replays_table
from backfill_assets.report.screens.runs import approval, partitions_of, problem_notes, state_of
from backfill_assets.report.screens.set_up import server_line
from backfill_assets.report.screens.shadow import acts_table
from backfill_assets.report.screens.work import frozen_section
from backfill_assets.report.status import StatusDocument
from backfill_assets.report.words.gates_since import fails_words, not_measured_words
from backfill_assets.report.words.staleness import taken_back_words
from backfill_assets.report.words.waiting import open_proposal_words, stuck_words, waiting_words

_STALENESS = Note(
    text=step("which of them are stale is not looked at here; to list them: ", do(Act.STALE)), tone=Tone.SOFT
)


def status_page(status: StatusDocument) -> Page:
    """The status page: what there is, what waits, and for whom."""
    accepted = [(table_ref(each.table), each.accepted, each.accepted_rows) for each in status.tables]
    return page(
        "Status",
        facts(
            ("home", status.home),
            ("Spark server", server_line(status.spark_server) if status.spark_server else None),
        ),
        section(
            "Tables",
            table(["table", "accepted partitions", "rows"], accepted, numbers=["rows"]),
            *(
                Note(text=f"{each.table}: {taken_back_words(each.taken_back_rows)}", tone=Tone.ATTENTION)
                for each in status.tables
                if each.taken_back_rows
            ),
            *(Note(text=fails_words(each), tone=Tone.BAD) for each in status.fails_gates),
            *(Note(text=not_measured_words(each), tone=Tone.ATTENTION) for each in status.not_measured),
            _STALENESS if any(each.accepted for each in status.tables) else None,
        ),
        section("Runs, newest first", _runs([run for run in status.runs if run.manifest.member_of is None])),
        section("Restatement sets, newest first", _sets(status.sets)),
        frozen_section(status.frozen),
        not_known_section(status.not_known),
        *read_before_notes(status.read_before),
        section("Next", Items(items=tuple(_next(status)))),
        _listed("Proposed restatements that are open", map(open_proposal_words, status.proposals)),
        section("Captures", captured_table(status.captured)),
        section("Replays that are not closed", open_replays_table(status.replays)),
        section("Acts on versions that are not done", acts_table([each.act for each in status.acts])),
        section("Landed files", imports_table(status.imports)),
        _listed(
            "Publications that are not followed by their dependents yet",
            map(waiting_words, status.to_follow),
        ),
        _listed("Work that sensors have given up", map(stuck_words, status.stuck)),
        *problem_notes(status.problems),
    )


def work_section(found: Sequence[WorkInProgress]) -> Section | Note:
    """The section on what processes are working on now."""
    rows = [
        (
            each.work,
            each.table,
            each.state,
            None if each.chunks_done is None else f"{each.chunks_done} staged, {each.chunks_begun} begun",
            each.rows,
            each.lease.holder,
            each.lease.since_at,
            "alive" if not each.overdue_seconds else f"no sign of life for {each.overdue_seconds:.0f} s",
        )
        for each in found
    ]
    heads = ["work", "table", "state", "chunks", "rows", "by", "since", "process"]
    listed = section("At work", table(heads, rows, numbers=["rows"], whole=["work", "state"]))
    return listed or Note(text="no process is at work", tone=Tone.SOFT)


def _runs(runs: Sequence[RunSummary]) -> Table:
    # The id of a run begins with the name of its table.
    rows = [
        (run_ref(run.record.run_id), run.record.kind, partitions_of(run), state_of(run.record.state), approval(run))
        for run in runs
    ]
    return table(["run", "kind", "partitions", "state", "approval"], rows, whole=["run", "state"])


def _sets(sets: Sequence[SetDocument]) -> Table:
    rows = [
        (
            set_ref(each.record.set_id, each.record.manifest.name),
            each.record.manifest.because,
            each.record.manifest.reason,
            state_of(each.record.state),
            approval(each),
            f"{sum(of.run.record.state in EVER_VISIBLE for of in each.runs):,} of {len(each.runs):,}",
        )
        for each in sets
    ]
    return table(["set", "because", "reason", "state", "approval", "published"], rows, whole=["set", "state"])


def _next(status: StatusDocument) -> Iterable[NextStep]:
    """The next steps of runs and sets, each once; a run of a set is taken on by its set."""
    steps = [
        *(each.next_step for each in status.sets if each.record.state in OPEN_SETS),
        *(
            run.next_step
            for run in _not_replaced(status.runs)
            if run.record.state not in EVER_PUBLISHED and run.manifest.member_of is None
        ),
        *(each.next_step for each in status.acts),
        *(each.next_step for each in status.fails_gates),
        *(step(each.check) for each in status.not_measured),
    ]
    return dict.fromkeys(each for each in steps if each)


def _not_replaced(runs: Sequence[RunSummary]) -> Iterator[RunSummary]:
    """Runs, the newest first, without those that failed and whose partitions newer runs compute all the same."""
    newer: dict[str, set[date]] = {}
    for run in runs:
        of_table = newer.setdefault(run.record.table, set())
        if run.record.state is not RunState.FAILED or not of_table.issuperset(run.manifest.partitions):
            yield run
        if run.record.state not in (RunState.CANCELLED, RunState.ROLLED_BACK):
            of_table.update(run.manifest.partitions)


def _listed(title: str, items: Iterable[NextStep]) -> Section | None:
    return section(title, Items(items=tuple(items)))
