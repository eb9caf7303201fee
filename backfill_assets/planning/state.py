"""State: what planning reads of the ledger, and the protocols through which it does, which cannot write.

From accepted rows and earlier runs follow the estimates of how much a run writes, how long it takes and what it costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from itertools import combinations
from statistics import median
from typing import Any, Protocol

from backfill_assets.core.errors import Refused
from backfill_assets.core.tariff import Cost, Tariff
from backfill_assets.planning.graph import TableInput
from backfill_assets.planning.manifest_parts import PinnedReference


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedPartition:
    """An accepted partition version as planning needs it: measures of its file set, and not the set."""

    version: int
    run_id: str
    digest: str
    rows: int
    file_count: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """A snapshot that has expired: it is not accepted any more, and neither missing nor stale."""

    run_id: str  #: The run that let it expire.
    digest: str  #: The digest of its files.


UNKNOWN_DIGEST = ""
"""The digest of an input that a run read and that was never accepted, or was undone. It equals no other digest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedFromInput:
    """The partitions of one input that a run read, with the digests of their file sets."""

    edge: TableInput  #: The input, with its window as the manifest agreed it.
    digests: Mapping[date, str]  #: By input partition; `UNKNOWN_DIGEST` for what is not known to be accepted.
    #: The accepted digests of the table, if the reader found that they contain all of `digests`. Then a comparison with
    #: this same mapping is not needed.
    within: Mapping[date, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedFrom:
    """The basis of accepted partitions of a table: a run that computed them, or that later found them equal."""

    run_id: str
    partitions: tuple[date, ...]  #: The accepted partitions that it still applies to, in order.
    transform: str
    transform_version: str
    code_digest: str
    configuration: Mapping[str, Any]
    references: tuple[PinnedReference, ...]
    inputs: tuple[ComputedFromInput, ...]
    imports: frozenset[str]  #: For a source table, the landed files that they were built from.
    requested_at: datetime
    session_digest: str
    #: True if the run found other rows, and the owner of the table left the accepted ones.
    difference_accepted: bool = False

    @property
    def has_chosen_references(self) -> bool:
        """True if a person chose the version of a reference with which the rows were computed."""
        return any(pinned.is_chosen for pinned in self.references)


class ClaimReader(Protocol):
    """A reader of accepted versions."""

    def claims(self, table: str, partitions: Sequence[date]) -> Mapping[date, AcceptedPartition]:
        """The accepted versions of these partitions; partitions without one are absent."""
        ...


class StateReader(ClaimReader, Protocol):
    """The planner's read-only view of the ledger. Without partitions, claims are all of a table."""

    def claims(self, table: str, partitions: Sequence[date] | None = None) -> Mapping[date, AcceptedPartition]: ...

    def expired(self, table: str) -> Mapping[date, Expired]: ...

    def open_runs(self, table: str, partitions: Sequence[date]) -> Sequence[str]:
        """Ids of runs over some of these partitions that could still be published."""
        ...

    def pace(self, table: str) -> Pace | None:
        """The speed at which the table's latest runs were staged; None when there was none."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierRun:
    """The measures of one earlier run of the table. Grain: one per run whose gates have ended."""

    rows: int
    partitions: int
    chunks: int  #: In how many it was computed.
    staging_seconds: float  #: How long these took together, waiting between them left out.
    gating_seconds: float
    #: The processor time of its chunks; None where it was not measured, as in runs of releases that paid for cores by
    #: the time on the wall.
    staging_core_seconds: float | None = None
    gating_core_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The expected duration of a run, by a line of rows and chunks for its chunks and another for its gates."""

    runs: tuple[EarlierRun, ...]

    @property
    def usual_rows(self) -> int:
        """Rows of a partition."""
        return sum(run.rows for run in self.runs) // (sum(run.partitions for run in self.runs) or 1)

    def seconds(self, rows: int, chunks: int) -> float | None:
        """The duration of a run that writes so many rows; None where no earlier run has written any."""
        return _of(((run, run.staging_seconds, run.gating_seconds) for run in self.runs), rows, chunks)

    def core_seconds(self, rows: int, chunks: int) -> float | None:
        """The processor time of a run; None where no earlier run with rows has measured it."""
        measured = ((run, run.staging_core_seconds, run.gating_core_seconds) for run in self.runs)
        return _of(
            ((run, staging, gating) for run, staging, gating in measured if staging is not None and gating is not None),
            rows,
            chunks,
        )


def _of(measured: Iterable[tuple[EarlierRun, float, float]], rows: int, chunks: int) -> float | None:
    """The duration of a run, from the chunks and the gates of earlier runs."""
    known = [each for each in measured if each[0].rows]
    if not known:
        return None
    of_chunk = _line([(run.rows / run.chunks, staging / run.chunks) for run, staging, _ in known])
    of_gates = _line([(run.rows, gating) for run, _, gating in known])
    return chunks * of_chunk(rows / chunks) + of_gates(rows)


def _line(known: Sequence[tuple[float, float]]) -> Callable[[float], float]:
    """The line by which seconds follow from rows: a constant part, and a part for each row.

    It is a line through what is known: the median of the slopes between each two points (Theil and Sen), so that one
    slow run does not move it. Points of about one size tell only what a row takes.
    """
    pairs = combinations(sorted(known), 2)
    slopes = [(more_s - less_s) / (more - less) for (less, less_s), (more, more_s) in pairs if more > 2 * less]
    if not slopes:
        of_row = median(seconds / rows for rows, seconds in known)
        return lambda rows: rows * of_row
    slope = max(median(slopes), 0.0)
    always = max(median(seconds - slope * rows for rows, seconds in known), 0.0)
    return lambda rows: always + slope * rows


class EstimateBasis(StrEnum):
    """Where the numbers of an estimate come from: rows that readers see, earlier runs, or rows of the inputs."""

    ACCEPTED_ROWS = "ACCEPTED_ROWS"
    EARLIER_RUNS = "EARLIER_RUNS"
    INPUT_ROWS = "INPUT_ROWS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The expected output of a run."""

    rows: Mapping[date, int]  #: By output partition.
    size_bytes: int | None  #: Of all data files; None when no rows of the table are known.
    seconds: float | None  #: To stage it and to evaluate its gates; None when there is no earlier run.
    based_on: EstimateBasis  #: Where the numbers come from.
    runs: int = 0  #: Of how many earlier runs the pace is known.
    core_seconds: float | None = None  #: Of processor time, for the same; None when no earlier run was measured.

    @property
    def total_rows(self) -> int:
        """The total for all output partitions."""
        return sum(self.rows.values())


def estimate(
    partitions: Sequence[date],
    accepted: Mapping[date, AcceptedPartition],
    *,
    own_rows: Mapping[date, int],
    pace: Pace | None,
    chunks: Callable[[Mapping[date, int]], int],
) -> Estimate:
    """Estimates what a run over these partitions will write.

    Args:
        accepted: What readers see now, by partition; partitions that were never built are absent.
        own_rows: Rows that the inputs have on the days of each output partition, without its window, because windows of
            neighbouring partitions overlap.
        pace: How fast earlier runs were; None when there was none.
        chunks: In how many chunks a run computes so many rows of each partition.
    """
    accepted_rows = {partition: claim.rows for partition, claim in accepted.items()}
    usual: Mapping[date, int]
    if accepted_rows:
        usual = dict.fromkeys(partitions, int(median(accepted_rows.values())))
        based_on = EstimateBasis.ACCEPTED_ROWS
    elif pace is not None:
        usual = dict.fromkeys(partitions, pace.usual_rows)
        based_on = EstimateBasis.EARLIER_RUNS
    else:
        usual = own_rows
        based_on = EstimateBasis.INPUT_ROWS
    rows = {partition: accepted_rows.get(partition, usual[partition]) for partition in partitions}
    total, known = sum(rows.values()), sum(accepted_rows.values())
    accepted_bytes = sum(claim.size_bytes for claim in accepted.values())
    return Estimate(
        rows=rows,
        size_bytes=total * accepted_bytes // known if known else None,
        seconds=pace.seconds(total, chunks(rows)) if pace else None,
        core_seconds=pace.core_seconds(total, chunks(rows)) if pace else None,
        based_on=based_on,
        runs=len(pace.runs) if pace else 0,
    )


def require_affordable(
    expected: Sequence[tuple[str, Estimate]], most: Decimal | None, tariff: Tariff
) -> Sequence[Cost | None]:
    """Refuses what is expected to cost more than the requester allows, and what nothing is known of.

    Args:
        expected: What is expected of each run, with its table.
        most: What the requester allows; None for any cost.
        tariff: What computing costs.

    Returns:
        What each may cost, in order: what is expected of it, and as much of the rest as every other one. None for any
        cost.

    Raises:
        Refused: Nothing has been planned.
    """
    affordable = None if most is None else tariff.seconds(most)
    if most is None or affordable is None:
        return [None] * len(expected)
    if unknown := sorted(table for table, each in expected if each.core_seconds is None):
        raise Refused.coded(
            "cost_unknown",
            "no run of {table} whose processor time was measured has ended its gates, so "
            "whether it costs at most {most} is not known.",
            then="leave [max-cost=True] out for its first run",
            table=unknown[0],
            most=tariff.text(most),
        )
    known = [each.core_seconds or 0.0 for _, each in expected]
    total = sum(known)
    cost = tariff.cost(total)
    if cost > most:
        raise Refused.coded(
            "too_costly",
            "it is expected to cost {cost}, from the latest runs, and {most} at most is allowed.",
            then="plan fewer days, or allow more with [max-cost=True]",
            cost=tariff.text(cost, unlike=most),
            most=tariff.text(most, unlike=cost),
        )
    # Not in proportion: what is expected to write nothing would have to stop for the first row.
    more = (affordable - total) / len(known)
    return [tariff.spent(each + more) for each in known]
