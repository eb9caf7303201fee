"""Deliveries: dropped files that a manifest beside them names land together, when all of them are there.

While a manifest is still being written, or cannot be read, nothing of its folder lands: which files it names is not
known. The files of one that stays incomplete wait for a person.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from backfill_assets.capture.drop_folder import DroppedFile
from backfill_assets.capture.expected_files import Expected, some_of
from backfill_assets.core.errors import Refused

COMPLETE_WITHIN = timedelta(days=1)
"""How long a manifest may be there before its last file."""


def in_deliveries(
    found: Sequence[DroppedFile], read: Callable[[DroppedFile], Sequence[Expected]], at: datetime
) -> tuple[DroppedFile, ...]:
    """Dropped files with what their manifests say of them, without those that have to wait.

    Args:
        read: What a manifest says of files of the source.
        at: The present.
    """
    held: set[str] = set()
    named_by: dict[str, str] = {}
    known = {each.subject: each for each in found}
    for manifest in found:
        if manifest.unfit or not manifest.is_manifest:
            continue
        beside = {each.path.name: each for each in found if each.source == manifest.source and not each.unfit}
        others = {each.subject for each in beside.values() if each != manifest}
        if not manifest.is_settled(at):
            held |= {manifest.subject, *others}
            continue
        try:
            said = {each.name: each for each in read(manifest)}
        except Refused as error:
            known[manifest.subject] = replace(manifest, unfit=error.message)
            held |= others
            continue
        if not said:  # of files of another source
            held.add(manifest.subject)
            continue
        missing = [name for name in said if name not in beside or not beside[name].is_settled(at)]
        mine = {beside[name].subject: said[name] for name in said if name in beside}
        if twice := [each.name for subject, each in mine.items() if subject in named_by]:
            # Which of the two says what it is, is not known; with the first one its files land, or wait.
            held |= mine.keys() - named_by.keys()
            why = f"names {some_of(twice)}, of another delivery: {named_by[beside[twice[0]].subject]} names it"
            known[manifest.subject] = replace(manifest, unfit=why)
            continue
        named_by |= dict.fromkeys(mine, manifest.path.name)
        if missing:
            held |= mine.keys()
            if at - manifest.changed_at < COMPLETE_WITHIN:
                held.add(manifest.subject)
            else:
                why = f"its delivery is not complete: {some_of(missing)} did not come within a day"
                known[manifest.subject] = replace(manifest, unfit=why)
            continue
        known[manifest.subject] = replace(manifest, delivery=manifest.subject)
        for subject, expected in mine.items():
            known[subject] = replace(known[subject], expected=expected, delivery=manifest.subject)
    return tuple(known[each.subject] for each in found if each.subject not in held)


def units(files: Iterable[DroppedFile]) -> Sequence[Sequence[DroppedFile]]:
    """Files that land together: those of a delivery, with its manifest; any other one alone."""
    found: dict[str, list[DroppedFile]] = {}
    for each in files:
        found.setdefault(each.delivery or each.subject, []).append(each)
    return [*found.values()]
