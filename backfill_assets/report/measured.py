"""Documents of gate results, by partition and by gate."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import date

from backfill_assets.calendar.partitions import Grain, Partitions, count_of
from backfill_assets.core.grouped import grouped
from backfill_assets.domain import WarmUpProof
from backfill_assets.gates.measured import RowDiff as RowDiff  # a part of documents, which other rooms know from here
from backfill_assets.gates.measured import StateMove as StateMove  # as `RowDiff` above
from backfill_assets.gates.measured import added_up, changed_columns_in, moves_in, state_moves_in
from backfill_assets.ledger.findings import Finding, GateResult
from backfill_assets.ledger.records import LOST, CandidatePartition
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import GateTerm
from backfill_assets.report.documents import INLINE
from backfill_assets.report.words.verdicts import scope_of_proof, verdict_words

PROOF = WarmUpProof().name
"""The gate that proves the window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMoves:
    """The changes that a run would make to one partition."""

    partition: date  #: Its first day.
    moves: RowDiff = field(metadata=INLINE)  #: Its counts.
    checksum: str  #: The content checksum of the new rows.
    equal: bool  #: True if it holds exactly the accepted rows, and stays as it is.
    #: True if it has no accepted version and gets no rows: it is recorded, and nothing changes for readers.
    new_empty: bool
    new: bool  #: True if it had no accepted version to compare with.
    #: The checksum that was recorded of the accepted rows, where their files are gone or damaged and they were compared
    #: by it; null otherwise.
    expected_checksum: str | None = None

    @property
    def is_as_recorded(self) -> bool:
        """True if its rows are those that were recorded of lost ones."""
        return self.checksum == self.expected_checksum


@dataclass(frozen=True, slots=True, kw_only=True)
class MovesOfSome:
    """The changes that a run would make to some of its partitions together."""

    partitions: Partitions  #: The partitions.
    moves: RowDiff = field(metadata=INLINE)  #: Their counts.


@dataclass(frozen=True, slots=True, kw_only=True)
class GateSummary:
    """The result of one gate of a run."""

    gate: str  #: Its name.
    demands: str  #: What it asks for, in words.
    blocking: bool  #: True if its failure blocks the run; else it only informs.
    passed_partitions: int  #: In how many partitions it passed.
    outcome: str  #: The same in words: `1 of 5 days failed`; of a proof that holds, what was compared and what was not.
    first_failure: str | None  #: The first failure in words; null when there is none.
    failed: Partitions  #: The partitions in which it failed.


def partition_moves(
    results: Iterable[GateResult], candidates: Mapping[date, CandidatePartition]
) -> tuple[PartitionMoves, ...]:
    """Per partition, how the candidate differs from the accepted rows it was compared with."""
    return tuple(
        _partition_moves(moves, candidates[result.partition])
        for result in results
        for moves in [moves_in(result)]
        if moves is not None and result.partition in candidates
    )


def _partition_moves(moves: RowDiff, candidate: CandidatePartition) -> PartitionMoves:
    compared = candidate.compared_version
    return PartitionMoves(
        partition=candidate.partition,
        moves=moves,
        checksum=candidate.checksum,
        equal=bool(compared) and candidate.checksum == candidate.compared_checksum,
        new_empty=compared == 0 and not candidate.rows,
        new=compared == 0,
        expected_checksum=(candidate.compared_checksum or "").removeprefix(LOST) if candidate.replaces_lost else None,
    )


def total_moves(parts: Sequence[PartitionMoves | MovesOfSome]) -> RowDiff | None:
    """All partitions together; None of none, as before the gates."""
    if not parts:
        return None
    return RowDiff(**{each.name: sum(getattr(part.moves, each.name) for part in parts) for each in fields(RowDiff)})


def moves_of_some(grain: Grain, parts: Sequence[PartitionMoves]) -> MovesOfSome | None:
    """Some partitions together; None for none of them."""
    totals = total_moves(parts)
    if totals is None:
        return None
    return MovesOfSome(partitions=Partitions.of(grain, (part.partition for part in parts)), moves=totals)


def changed_columns(results: Iterable[GateResult]) -> Mapping[str, int]:
    """Over all partitions, how many keys have another value per column; the most changed first."""
    total: dict[str, int] = {}
    for result in results:
        for name, count in changed_columns_in(result).items():
            total[name] = total.get(name, 0) + count
    return dict(sorted(total.items(), key=lambda item: (-item[1], item[0])))


def state_moves(results: Iterable[GateResult], new: Collection[date]) -> tuple[StateMove, ...]:
    """From which listed value to which rows have moved, over all partitions with accepted rows.

    Args:
        new: The partitions without accepted rows, where every row is added.
    """
    return added_up(move for result in results if result.partition not in new for move in state_moves_in(result))


def gate_summaries(manifest: Manifest, results: Sequence[GateResult]) -> tuple[GateSummary, ...]:
    """Per gate of the manifest, in how many partitions it passed, and the first failure in words."""
    by_gate = grouped((result.gate, result) for result in results)
    return tuple(_gate_summary(manifest.grain, term, by_gate.get(term.name, [])) for term in manifest.gates)


def _gate_summary(grain: Grain, term: GateTerm, results: Sequence[GateResult]) -> GateSummary:
    failed = [result for result in results if not result.passed]
    return GateSummary(
        gate=term.name,
        demands=term.demands,
        blocking=term.blocking,
        passed_partitions=len(results) - len(failed),
        outcome=outcome_of(grain, results),
        first_failure=f"{failed[0].partition}: {verdict_words(failed[0])}" if failed else None,
        failed=Partitions.of(grain, (result.partition for result in failed)),
    )


def outcome_of(grain: Grain, results: Sequence[GateResult]) -> str:
    """The number of partitions that passed or failed one gate, in unambiguous words."""
    failed = sum(not result.passed for result in results)
    every = count_of(len(results), grain.noun)
    if not results:
        return "not measured yet"
    if not failed and results[0].gate == PROOF:
        return scope_of_proof(grain, results)
    return f"{failed:,} of {every} failed" if failed else f"{every} passed{_without_entry(results)}"


def _without_entry(results: Sequence[GateResult]) -> str:
    """In how many partitions a gate that passed has measured nothing, because its reference has no entry for them."""
    nothing = [result for result in results if result.finding is Finding.NOTHING_KNOWN]
    if not nothing:
        return ""
    named = f"{nothing[0].observed['reference']} has no entry"
    if len(nothing) == len(results):
        return f", where nothing was measured: {named} for {'it' if len(nothing) == 1 else 'them'}"
    return f"; nothing was measured in {len(nothing):,} of them, for which {named}"
