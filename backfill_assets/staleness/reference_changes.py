"""Reference changes: the days that are affected by references that changed since a run used them.

The earlier values come from the archive. If the archive does not have them, any day may be affected.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from backfill_assets.core.errors import InvalidReference, MissingInput
from backfill_assets.domain import DayRange, DerivedTable, Domain, Window
from backfill_assets.files.port import Files
from backfill_assets.planning.manifest_parts import PinnedReference
from backfill_assets.planning.partitions import Grain, compress
from backfill_assets.staleness.decide import Narrow, Narrowed
from backfill_assets.transforms.references import LoadedReference, load_pinned


def narrowing(domain: Domain, table: DerivedTable, now: Mapping[str, LoadedReference], archive: Files) -> Narrow:
    """What is known about changed references of a table.

    Args:
        domain: Declares how to find the days that changed.
        table: Declares how far around a day facts count.
        now: The references as they are now.
        archive: The place with every reference that was ever used.
    """
    declared = {reference.name: reference for reference in domain.references}

    @cache
    def value_then(pinned: PinnedReference) -> Any | None:
        present = now.get(pinned.name)
        if present is not None and present.sha256 == pinned.sha256:
            return present.value
        try:
            return load_pinned(domain, [pinned], archive)[pinned.name].value
        except (MissingInput, InvalidReference):
            return None

    @cache
    def changed(pinned: PinnedReference) -> tuple[DayRange, ...] | None:
        hook = declared[pinned.name].changed_days
        before = value_then(pinned)
        if hook is None or before is None:
            return None
        days: Iterable[DayRange] | None = hook(before, now[pinned.name].value)
        return None if days is None else compress(Grain.DAILY, (day for some in days for day in some))

    @cache
    def window(used: tuple[PinnedReference, ...]) -> Window | None:
        then = {pinned.name: value_then(pinned) for pinned in used}
        if None in then.values():
            return None
        return _wider(
            table.reference_window_for(then),
            table.reference_window_for({name: now[name].value for name in table.references}),
        )

    def narrow(name: str, used: tuple[PinnedReference, ...]) -> Narrowed | None:
        pinned = next((pinned for pinned in used if pinned.name == name), None)
        days = changed(pinned) if pinned is not None and name in declared else None
        if days is None:
            return None
        return Narrowed(days=days, window=window(used) if days else None)

    return narrow


def _wider(then: Window | None, now: Window | None) -> Window | None:
    """The longer of both windows on either side, so that it holds for present rows and for recomputed ones."""
    if then is None or now is None:
        return None
    return Window(days_back=max(then.days_back, now.days_back), days_ahead=max(then.days_ahead, now.days_ahead))
