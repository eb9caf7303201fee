"""Documents of the stages of a run or a set."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Literal, assert_never

from backfill_assets.core.errors import Refused
from backfill_assets.ledger.records import RunRecord
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.partitions import count_of
from backfill_assets.planning.policy import Cause
from backfill_assets.planning.reads import MoreDays, Reads
from backfill_assets.planning.stages import (
    Agree,
    Compute,
    Measure,
    Notify,
    Prove,
    Recomputation,
    Stage,
    Swap,
    compared_by,
    stages_of,
)
from backfill_assets.publication.authority import demand_of
from backfill_assets.report.words.stages import stage_words
from backfill_assets.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOfStage:
    """What a stage reads of one input.

    Attributes:
        table: The input.
        from_: The first partition that is read.
        to: The last one.
    """

    table: str
    from_: date
    to: date


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeStage:
    """One chunk is computed into staged files.

    Attributes:
        stage: Which stage it is.
        sentence: It in words.
        run_id: The run.
        table: Its table.
        chunk: The number of the chunk, from 1.
        partitions: What the chunk writes.
        before: What of the chunks before it is computed once more for the proof of the window, and not staged.
        after: The same of the chunks after it.
        reads: What is read, warm-up and look-ahead included; empty for landed files.
    """

    stage: Literal["compute"] = "compute"
    sentence: str
    run_id: str
    table: str
    chunk: int
    partitions: tuple[date, ...]
    before: tuple[date, ...]
    after: tuple[date, ...]
    reads: tuple[InputOfStage, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureStage:
    """The staged files are measured against the gates, and compared with the accepted rows.

    Attributes:
        stage: Which stage it is.
        sentence: It in words.
        run_id: The run.
        table: Its table.
        gates: The names of the gates.
    """

    stage: Literal["measure"] = "measure"
    sentence: str
    run_id: str
    table: str
    gates: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MoreOfInput:
    """How many more days of an input are read than its declared window has.

    Attributes:
        argument: The argument of the transform.
        days_back: How many more days before the window are there.
        days_ahead: How many more days after it are.
    """

    argument: str
    days_back: int
    days_ahead: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenEnd:
    """Partitions at the ends of a run that are computed again with longer windows.

    Attributes:
        partitions: Which ones.
        more: How many more days are read, input by input.
    """

    partitions: tuple[date, ...]
    more: tuple[MoreOfInput, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProveStage:
    """Partitions are computed again with another window; the rows must be the same.

    Attributes:
        stage: Which stage it is.
        sentence: It in words.
        run_id: The run.
        table: Its table.
        partitions: What is computed again.
        between_chunks: Of these, what chunks compute of their neighbours while they are staged.
        ends: Of these, what is computed with longer windows.
    """

    stage: Literal["prove"] = "prove"
    sentence: str
    run_id: str
    table: str
    partitions: tuple[date, ...]
    between_chunks: tuple[date, ...]
    ends: tuple[ProvenEnd, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreeStage:
    """The manifest is approved, by the policy or by another person than the requester.

    Attributes:
        stage: Which stage it is.
        sentence: It in words.
        of: The run or the set.
        policy: The cause of runs that the table's policy approves; null where a person has to.
        groups: The person has to be of one group in each of these.
    """

    stage: Literal["agree"] = "agree"
    sentence: str
    of: str
    policy: Cause | None
    groups: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapStage:
    """One commit exchanges the files of the partitions whose rows differ.

    Attributes:
        stage: Which stage it is.
        sentence: It in words.
        run_id: The run.
        table: Its table.
        partitions: What may be exchanged.
    """

    stage: Literal["swap"] = "swap"
    sentence: str
    run_id: str
    table: str
    partitions: tuple[date, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyStage:
    """The dependents of what was swapped are asked to follow.

    Attributes:
        stage: Which stage it is.
        sentence: It in words.
        table: The table that was swapped.
        dependents: The tables that follow.
    """

    stage: Literal["notify"] = "notify"
    sentence: str
    table: str
    dependents: tuple[str, ...]


_MOST_CHUNKS = 3
"""Chunks that are described one by one in a report."""

StageDocument = ComputeStage | MeasureStage | ProveStage | AgreeStage | SwapStage | NotifyStage


def stage_document(stage: Stage) -> StageDocument:
    """One stage of the list of `planning.stages_of`."""
    words = stage_words(stage)
    match stage:
        case Compute():
            return _compute(stage, words)
        case Measure():
            return MeasureStage(sentence=words, run_id=stage.run_id, table=stage.table, gates=stage.gates)
        case Prove():
            return _prove(stage, words)
        case Agree():
            return AgreeStage(sentence=words, of=stage.of, policy=stage.demand.policy, groups=stage.demand.groups)
        case Swap():
            return SwapStage(sentence=words, run_id=stage.run_id, table=stage.table, partitions=stage.partitions)
        case Notify():
            return NotifyStage(sentence=words, table=stage.table, dependents=tuple(d.table for d in stage.dependents))
    assert_never(stage)


def _compute(stage: Compute, words: str) -> ComputeStage:
    return ComputeStage(
        sentence=words,
        run_id=stage.run_id,
        table=stage.table,
        chunk=stage.chunk.number,
        partitions=stage.chunk.partitions,
        before=stage.chunk.before,
        after=stage.chunk.after,
        reads=tuple(_input(reads) for reads in stage.reads if reads.partitions),
    )


def _input(reads: Reads) -> InputOfStage:
    return InputOfStage(table=reads.table, from_=reads.partitions[0], to=reads.partitions[-1])


def _prove(stage: Prove, words: str) -> ProveStage:
    return ProveStage(
        sentence=words,
        run_id=stage.run_id,
        table=stage.table,
        partitions=compared_by((*stage.between_chunks, *stage.ends)),
        between_chunks=compared_by(stage.between_chunks),
        ends=tuple(_end(end) for end in stage.ends),
    )


def _end(end: Recomputation) -> ProvenEnd:
    return ProvenEnd(partitions=end.compared, more=tuple(_more(more) for more in end.more))


def _more(more: MoreDays) -> MoreOfInput:
    return MoreOfInput(argument=more.argument, days_back=more.back, days_ahead=more.ahead)


def plan_in_words(ws: Workspace, tx: ReadTransaction, run: RunRecord) -> tuple[str, ...]:
    """What a run does, step by step in words, as the list that is executed says it; nothing while references cannot be
    read, or for a table that is no longer declared."""
    try:
        graph, demand = ws.graph, demand_of(ws, tx, run)
        stages = stages_of([run.manifest], graph, of=run.manifest.member_of, demand=demand)
    except Refused:
        return ()
    computed = [stage_words(stage) for stage in stages if isinstance(stage, Compute)]
    more = len(computed) - _MOST_CHUNKS
    further = [f"and {count_of(more, 'more chunk')} in the same way"] if more > 0 else []
    return (
        *computed[:_MOST_CHUNKS],
        *further,
        *(stage_words(stage) for stage in stages if not isinstance(stage, Compute)),
    )
