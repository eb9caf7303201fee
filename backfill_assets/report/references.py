"""References of a run, as documents name them: which versions, and which truth they give."""

from __future__ import annotations

from collections.abc import Sequence

from backfill_assets.planning.manifest_parts import PinnedReference, ReferenceSemantics, semantics_of


def references_described(references: Sequence[PinnedReference]) -> str | None:
    """The versions in words, and why these; None for a run without references."""
    versions = ", ".join(f"{pinned.name} {pinned.version}" for pinned in references)
    match semantics_of(references):
        case None:
            return None
        case ReferenceSemantics.CURRENT:
            return f"current: {versions}"
        case ReferenceSemantics.AS_RECORDED:
            return f"as recorded, which the replaced rows had used: {versions}"
        case ReferenceSemantics.CORRECTED:
            named = ", ".join(f"{pinned.name} {pinned.version}" for pinned in references if pinned.is_chosen)
            others = ", ".join(f"{pinned.name} {pinned.version}" for pinned in references if not pinned.is_chosen)
            return f"corrected, as named: {named}" + (f"; current: {others}" if others else "")
