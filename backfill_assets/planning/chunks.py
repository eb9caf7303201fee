"""Chunks: the parts in which a run is computed, by partitions, expected rows and limits. The manifest lists them.

Where chunks meet, each also computes a few partitions of its neighbours: more of what comes before than the chunk after
it has, and more of what comes after than the chunk before it has. Their rows must be those that their owner stages.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from itertools import accumulate, takewhile

from backfill_assets.calendar.partitions import Grain, next_partition
from backfill_assets.planning.manifest import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A part of the run that is computed in one call of the transform. Numbers begin at 1."""

    number: int  #: Its place.
    grain: Grain  #: Whether a partition is a day or a month.
    partitions: tuple[date, ...]  #: What it stages.
    #: The last partitions of its neighbours before it that it computes once more, in order.
    before: tuple[date, ...] = ()
    #: The first partitions of its neighbours after it that it computes once more, in order.
    after: tuple[date, ...] = ()

    @property
    def once_more(self) -> tuple[date, ...]:
        """The partitions that are computed with the chunk and compared with what their owners stage, and not staged."""
        return self.before + self.after

    @property
    def computed(self) -> tuple[date, ...]:
        """The partitions that one call of the transform computes."""
        return self.before + self.partitions + self.after


def chunks_of(manifest: Manifest) -> tuple[Chunk, ...]:
    """The parts a run is computed in, in order; boundaries are partition boundaries.

    Those of a source table are not listed: they all have the same size.
    """
    partitions = manifest.partitions
    most = manifest.limits.chunk_partitions
    sizes = manifest.chunks or [most] * -(-len(partitions) // most)
    chunks: list[Chunk] = []
    for number, (size, end) in enumerate(zip(sizes, accumulate(sizes), strict=True), start=1):
        before, after = _neighbours(manifest, end - size, end)
        chunks.append(
            Chunk(
                number=number,
                grain=manifest.grain,
                partitions=partitions[end - size : end],
                before=before,
                after=after,
            )
        )
    return tuple(chunks)


def _neighbours(manifest: Manifest, start: int, end: int) -> tuple[tuple[date, ...], tuple[date, ...]]:
    """The consecutive partitions on either side of a chunk that the proof asks it to compute as well."""
    proof, partitions = manifest.proof, manifest.partitions
    if proof is None:
        return (), ()

    def adjoins(place: int) -> bool:
        return next_partition(manifest.grain, partitions[place - 1]) == partitions[place]

    before = list(takewhile(adjoins, range(start, max(0, start - proof.beside), -1)))
    after = list(takewhile(adjoins, range(end, min(len(partitions), end + proof.beside))))
    return partitions[start - len(before) : start], partitions[end : end + len(after)]
