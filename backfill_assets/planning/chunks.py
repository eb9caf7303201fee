"""Chunks: the parts in which a run is computed, by partitions, expected rows and limits. The manifest lists them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import islice

from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A part of the run that is computed in one call of the transform. Numbers begin at 1.

    Attributes:
        partitions: What it stages.
        seam: The last partition of the chunk before it, when the proof of the window asks to compute that once more.
    """

    number: int
    partitions: tuple[date, ...]
    seam: date | None = None

    @property
    def computed(self) -> tuple[date, ...]:
        """What one call computes; the seam is compared and not staged."""
        return self.partitions if self.seam is None else (self.seam, *self.partitions)


def chunks_of(manifest: Manifest) -> tuple[Chunk, ...]:
    """The parts a run is computed in, in order; boundaries are partition boundaries.

    A manifest of format 1 did not list them: they all had the same size.
    """
    remaining = iter(manifest.partitions)
    most = manifest.limits.chunk_partitions
    sizes = manifest.chunks or [most] * -(-len(manifest.partitions) // most)
    seams = frozenset(manifest.proof.seams if manifest.proof else ())
    chunks: list[Chunk] = []
    for number, size in enumerate(sizes, start=1):
        before = chunks[-1].partitions[-1] if chunks else None
        seam = before if before in seams else None
        chunks.append(Chunk(number=number, partitions=tuple(islice(remaining, size)), seam=seam))
    return tuple(chunks)


def chunk_sizes(partitions: Sequence[date], rows: Mapping[date, int], limits: Limits) -> tuple[int, ...]:
    """How many partitions each chunk takes, so that neither limit is exceeded by more than one partition alone.

    Args:
        partitions: The output partitions in order.
        rows: How many rows each is expected to have.
        limits: The most partitions and the most expected rows of a chunk.
    """
    sizes: list[int] = []
    expected = 0
    for partition in partitions:
        more = rows.get(partition, 0)
        full = limits.chunk_rows is not None and expected + more > limits.chunk_rows
        if not sizes or sizes[-1] >= limits.chunk_partitions or full:
            sizes.append(0)
            expected = 0
        sizes[-1] += 1
        expected += more
    return tuple(sizes)
