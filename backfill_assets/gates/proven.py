"""Proven: the result of recomputing partitions of a run with another window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date

from backfill_assets.gates.measure import Measured
from backfill_assets.ledger.sampled import SampledRow
from backfill_assets.planning.reads import MoreDays
from backfill_assets.planning.windows import AnyWindow


@dataclass(frozen=True, slots=True, kw_only=True)
class Proven:
    """The result of recomputing some partitions of a run with another window.

    Attributes:
        partitions: Those that were recomputed.
        described: The same in words.
        windows: The declared window of each input, by argument.
        more: At the ends of the run, how many more days of each input were read, limited to accepted partitions; empty
            for what chunks computed of their neighbours, by the declared windows of both.
        again: The measurements, with the recomputed rows as the new side and the staged ones as the old; `surplus`
            counts rows that share their key on either side. If rows were not compared it has no differences.
        differing: The partitions whose content differs.
        examples: Some of the rows that differ in the first such partition: `before` as staged, `after` as recomputed.
    """

    partitions: tuple[date, ...]
    described: str
    windows: Mapping[str, AnyWindow]
    more: tuple[MoreDays, ...] = ()
    again: Mapping[date, Measured] = field(default_factory=dict)
    differing: tuple[date, ...] = ()
    examples: tuple[SampledRow, ...] = ()

    @property
    def is_compared(self) -> bool:
        """Whether there was something to compare with."""
        return not self.more or any(each.sides for each in self.more)
