"""Shown keys: the rows of the keys that a person asked for when a run was planned, before and after."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from backfill_assets.ledger.findings import SampledRow, Values
from backfill_assets.planning.manifest import Manifest


class WhereShown(StrEnum):
    """Where the row of a key is.

    ADDED, REMOVED: On one side. CHANGED, EQUAL: On both sides. OTHER_PARTITION: The key names a partition that the run
    does not compute. NOWHERE: No partition of the run has it, before or after.
    """

    ADDED = "ADDED"
    REMOVED = "REMOVED"
    CHANGED = "CHANGED"
    EQUAL = "EQUAL"
    OTHER_PARTITION = "OTHER_PARTITION"
    NOWHERE = "NOWHERE"

    @property
    def is_found(self) -> bool:
        return self not in (WhereShown.OTHER_PARTITION, WhereShown.NOWHERE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownKey:
    """A key that was asked for, and its row; a key without a partition can have several."""

    #: The columns that identify the row as text, the partition first; where there is no row, as it was asked for.
    key: Values
    #: ADDED, REMOVED, CHANGED, EQUAL, OTHER_PARTITION (the run does not compute the partition that it names) or NOWHERE
    #: (no partition of the run has it, before or after).
    where: WhereShown
    #: The other columns of the row as text in the accepted rows; null where it is not among them.
    before: Values | None
    after: Values | None  #: The same in the new rows.


def shown_keys(manifest: Manifest, sampled: Iterable[SampledRow]) -> tuple[ShownKey, ...]:
    """The keys that were asked for, of what the gates of a run have kept."""
    return tuple(
        ShownKey(key=row.key, where=_where(manifest, row), before=row.before, after=row.after)
        for row in sampled
        if row.is_asked
    )


def _where(manifest: Manifest, row: SampledRow) -> WhereShown:
    if row.before is not None and row.after is not None:
        return WhereShown.EQUAL if row.before == row.after else WhereShown.CHANGED
    if row.before is not None or row.after is not None:
        return WhereShown.ADDED if row.before is None else WhereShown.REMOVED
    named = row.key.get(manifest.partition_column)
    is_outside = named is not None and date.fromisoformat(named) not in manifest.partitions
    return WhereShown.OTHER_PARTITION if is_outside else WhereShown.NOWHERE
