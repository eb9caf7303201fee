"""Pages of freezes, and the section of other pages that lists them."""

from __future__ import annotations

from collections.abc import Iterable

from backfill_assets.report.frozen import FreezeDocument, Unfrozen, frozen_line, frozen_words
from backfill_assets.report.page import Items, Note, Page, Section, next_steps, page, section


def frozen_section(found: Iterable[FreezeDocument]) -> Section | None:
    """What is frozen, what waits for it, and what ends it; nothing when nothing is."""
    return section("Frozen", Items(items=tuple(map(frozen_line, found))))


def freeze_page(frozen: FreezeDocument) -> Page:
    """That partitions are frozen."""
    return page("Frozen", Items(items=(frozen_line(frozen),)))


def unfrozen_page(ended: Unfrozen) -> Page:
    """That a freeze has ended."""
    text = f"{ended.freeze.freeze_id} was ended by {ended.ended_by}; it was: {frozen_words(ended.freeze)}"
    return page("Frozen no longer", Note(text=text), next_steps(ended.next_step))
