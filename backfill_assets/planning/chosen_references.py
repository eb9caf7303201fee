"""Chosen references: the versions of references that a request asks for, and those that accepted rows used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from backfill_assets.calendar.partitions import Grain, Partitions
from backfill_assets.core.errors import MissingInput
from backfill_assets.planning import errors
from backfill_assets.planning.manifest_parts import PinnedReference, ReferenceSemantics
from backfill_assets.planning.next_steps import joined, plans


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedReferences:
    """The references that a request asks for.

    Raises:
        Refused: CORRECTED without a name, names without CORRECTED, or a name that is given twice.
    """

    semantics: ReferenceSemantics = ReferenceSemantics.CURRENT  #: Which truth it asks for.
    #: With CORRECTED: names of references, each with a version, the beginning of a sha256, or a file. The present
    #: versions count for all others.
    named: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        is_corrected = self.semantics is ReferenceSemantics.CORRECTED
        if is_corrected and not self.named:
            raise errors.UnclearReferences(why="corrected references are asked for, and none is named")
        if self.named and not is_corrected:
            raise errors.UnclearReferences(
                why="a version of a reference is named, and the request asks for other references than corrected ones"
            )
        if len(dict(self.named)) < len(self.named):
            raise errors.UnclearReferences(why="a reference is named twice")

    @property
    def are_present(self) -> bool:
        """True if every run is computed with the present versions."""
        return self.semantics is ReferenceSemantics.CURRENT


THE_PRESENT = AskedReferences()


def asked_references(word: str | None, named: Sequence[str]) -> AskedReferences:
    """The references that are asked for in words: `as-recorded`, `corrected` or `current`, and `NAME=VERSION` each."""
    # A version that is named is a correction, so that the word is not needed with it.
    asked = word or ("corrected" if named else "current")
    semantics = ReferenceSemantics(asked.upper().replace("-", "_"))
    return AskedReferences(semantics=semantics, named=tuple(map(parse_reference, named)))


def parse_reference(text: str) -> tuple[str, str]:
    """Parses a reference with its version: `calendars=2025-restated`.

    Raises:
        Refused: It is not of that form.
    """
    name, equals, version = text.partition("=")
    if not equals or not name.strip() or not version.strip():
        raise errors.UnclearReferences(why=f"{text!r} does not name a version of a reference")
    return name.strip(), version.strip()


Recorded = Mapping[date, Mapping[str, PinnedReference] | None]
"""The references that accepted rows were computed with, by name; None where that is not recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionGroup:
    """Partitions whose accepted rows were computed with the same versions of the references."""

    partitions: tuple[date, ...]
    references: tuple[PinnedReference, ...]


def by_recorded_versions(
    table: str, grain: Grain, names: Sequence[str], partitions: Sequence[date], recorded: Recorded
) -> tuple[VersionGroup, ...]:
    """The partitions by the references that their accepted rows were computed with, in order of their first partition.

    Raises:
        MissingInput: Partitions have no accepted rows, or it is not recorded which versions these used.
    """
    never = [partition for partition in partitions if partition not in recorded]
    if never:
        raise MissingInput.coded(
            "never_computed",
            "{table} has never been published for {partitions}, so no references are recorded.",
            then="plan these with the present references: {planned}",
            table=table,
            partitions=Partitions.of(grain, never),
            planned=joined(plans(table, grain, never)),
        )
    groups: dict[tuple[PinnedReference, ...], list[date]] = {}
    for partition in partitions:
        used = recorded[partition]
        if used is None or _lacks(used, names):
            lacking = Partitions.of(grain, (p for p in partitions if _lacks(recorded[p], names)))
            raise MissingInput.coded(
                "versions_not_recorded",
                "{table} has rows of {partitions} for which no version of {references} is recorded.",
                then="plan these with the present references: {planned}",
                table=table,
                partitions=lacking,
                references=names,
                planned=joined(plans(table, grain, lacking)),
            )
        groups.setdefault(tuple(used[name] for name in names), []).append(partition)
    return tuple(VersionGroup(partitions=tuple(some), references=used) for used, some in groups.items())


def _lacks(used: Mapping[str, PinnedReference] | None, names: Iterable[str]) -> bool:
    return used is None or any(name not in used for name in names)


def require_one_group(table: str, grain: Grain, groups: Sequence[VersionGroup]) -> VersionGroup:
    """The only group: a run has one version of every reference.

    Raises:
        Refused: The rows were computed with different versions.
    """
    if len(groups) == 1:
        return groups[0]
    with_versions = (
        (Partitions.of(grain, group.partitions), {pinned.name: pinned.version for pinned in group.references})
        for group in groups
    )
    raise errors.SeveralVersions(table=table, groups=tuple(with_versions))


def require_used(asked: AskedReferences, used: Mapping[str, Sequence[str]]) -> None:
    """Refuses a choice of references that no run of a request would make.

    Raises:
        Refused: None of the tables uses references, or one that is named.
    """
    if asked.are_present:
        return
    known = sorted({name for names in used.values() for name in names})
    unused = [name for name, _ in asked.named if name not in known]
    if unused or not known:
        raise errors.ReferencesNotUsed(asked=unused, tables=tuple(used), known=known)
