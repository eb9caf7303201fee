"""Proven: what computing partitions of a run again, with another window, came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date

from backfill_assets.gates.measure import Measured
from backfill_assets.gates.sampled import SampledRow
from backfill_assets.planning.reads import MoreDays
from backfill_assets.planning.windows import AnyWindow


@dataclass(frozen=True, slots=True, kw_only=True)
class Proven:
    """What computing some partitions of a run with another window came to.

    Attributes:
        partitions: Those that were computed again.
        described: The same as a person reads them.
        windows: The declared window of each input, by argument.
        more: At an end of the run, how much more of each input was read, no more than there were accepted partitions;
            empty for seams, which are computed with exactly the declared windows.
        again: What was measured, with the rows computed again as the new side and the staged ones as the old; `surplus`
            counts rows that share their key on either side. Where rows were not looked at it has no differences.
        differing: The partitions whose content is another one.
        examples: Some of the rows that differ in the first such partition: `before` as staged, `after` as computed
            again.
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
        """Whether there was anything to compare with."""
        return not self.more or any(each.sides for each in self.more)
