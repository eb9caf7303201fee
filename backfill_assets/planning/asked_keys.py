"""Asked keys: the rows that a person wants to see in the report of a run, named by their keys before it is computed.

A manifest has their number and a digest; the keys themselves are values of rows, and kept where they can be erased.
"""

from __future__ import annotations

from dataclasses import dataclass

from backfill_assets.core.identity import document_digest

MOST_KEYS = 5_000
"""The most keys that can be asked for: a person reads the rows, one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedKeys:
    """The requested keys, as a manifest pins them."""

    count: int  #: How many they are.
    digest: str  #: sha256 over a random number, which is kept with the keys, and the keys.


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedKeys:
    """Keys of rows."""

    columns: tuple[str, ...]  #: Columns of the key.
    keys: tuple[tuple[str, ...], ...]  #: Values of these columns, as text.
    salt: str  #: A random number, which is erased with the keys: without it, their digest proves no guess.

    @property
    def pinned(self) -> PinnedKeys:
        return PinnedKeys(count=len(self.keys), digest=document_digest([self.salt, self.columns, self.keys]))
