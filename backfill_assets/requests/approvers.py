"""Approvers: the file of the reference folder that lists who may approve, by group.

Which group a run needs is decided in `authority`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from backfill_assets.core.errors import Refused
from backfill_assets.core.people import require_person, same_name, spellings
from backfill_assets.domain import Reference
from backfill_assets.planning.safeguards import APPROVERS


@dataclass(frozen=True, slots=True, kw_only=True)
class Approvers:
    """The groups of `approvers.yaml` and their members, by the names that are written there."""

    version: str
    groups: Mapping[str, tuple[str, ...]]

    def groups_of(self, name: str) -> frozenset[str]:
        return frozenset(
            group for group, people in self.groups.items() if any(same_name(name, each) for each in people)
        )

    def members_of(self, group: str) -> tuple[str, ...]:
        """The members of a group, as they are written there; none where the file does not list it."""
        return tuple(name.strip() for each, people in self.groups.items() if same_name(each, group) for name in people)


def parse_approvers(document: Any) -> Approvers:
    """Parses `approvers.yaml`: `version`, and under `groups` the names of people by group.

    Raises:
        ValueError: What is wrong with it.
    """
    if not isinstance(document, dict) or set(document) != {"version", "groups"}:
        raise ValueError("it has to say `version` and `groups`, and nothing else")
    version, groups = document["version"], document["groups"]
    if not isinstance(version, str) or not version.strip():
        raise ValueError('`version` has to be a text, such as "1"')
    if not isinstance(groups, dict):
        raise ValueError("`groups` has to be lists of names by group, such as finance: [ana, ben]")
    found: dict[str, tuple[str, ...]] = {}
    for group, people in groups.items():
        if not isinstance(group, str) or not spellings(group) or any(same_name(group, other) for other in found):
            raise ValueError(f"the group {group!r} has no name, or the name of another group")
        found[group.strip()] = _members(group, people)
    return Approvers(version=version.strip(), groups=found)


def _members(group: str, people: Any) -> tuple[str, ...]:
    if not isinstance(people, list) or not all(isinstance(name, str) for name in people):
        raise ValueError(f"the group {group!r} has to be a list of names, such as [ana, ben]")
    for name in people:
        try:
            require_person(f"a member of the group {group!r}", name)
        except Refused as refusal:
            raise ValueError(refusal.message) from refusal
    return tuple(people)


WHO_APPROVES = Reference(name=APPROVERS, parse=parse_approvers)
