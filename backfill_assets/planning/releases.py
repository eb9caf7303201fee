"""Releases: whether a run would replace accepted rows with those of an earlier release."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date


def later_releases(version: str, accepted: Mapping[date, str]) -> Mapping[str, tuple[date, ...]]:
    """The partitions whose accepted rows come from a later release, by that release.

    Args:
        version: The release that would replace them.
        accepted: The release that made the accepted rows, by partition.
    """
    found: dict[str, list[date]] = {}
    for partition, other in sorted(accepted.items()):
        if release_order(other) > release_order(version):
            found.setdefault(other, []).append(partition)
    return {other: tuple(found[other]) for other in sorted(found, key=release_order, reverse=True)}


def release_order(version: str) -> tuple[tuple[int, int, str], ...]:
    """The place of a release among others.

    Numbers count as numbers, so that 3.10.0 is after 3.9.0, and come after words: 3.0.0 is after 3.0.0-rc1.
    """
    parts = re.findall(r"\d+|[^\d.+_-]+", version)
    ordered = [(1, int(part), "") if part.isdigit() else (-1, 0, part) for part in parts]
    return (*ordered, (0, 0, ""))
