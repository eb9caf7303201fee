"""Restatement set: the manifest that names the runs of one restatement of several tables, in order.

One table is swapped atomically; several tables are not. The runs of a set are staged, gated and approved together, then
published one after the other, and until the last is published readers of different tables can see different histories.
The set gives a name to the versions that belong together. Its runs may be phases: the partitions of one plan, cut into
runs that are published one after the other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property
from itertools import groupby, pairwise
from typing import Any

from backfill_assets.core.declaring import declared
from backfill_assets.core.errors import InvalidDeclaration
from backfill_assets.core.identity import canonical_json, plain, sha256_text
from backfill_assets.planning.errors import NoPhases

SET_FORMAT = 1
"""The shape of the document; no other one is read."""

SET_PREFIX = "set."
"""The prefix of set ids. A run's id begins with its table's name, so that it cannot have this prefix."""


def set_id_for(asked: str, as_of: datetime) -> str:
    """The id of a set: the day, and a digest of who asked for what and when."""
    return f"{SET_PREFIX}{as_of:%Y%m%d}-{sha256_text(asked)[:8]}"


def is_set(name: str) -> bool:
    """True if an id is a set's and not a run's."""
    return name.startswith(SET_PREFIX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Phases:
    """The order of publication for runs of a set that are phases of one change."""

    hold_s: int = 0  #: For how many seconds after a phase has landed the next one waits.
    #: True if each phase is approved by itself, once those before it are published; else the set as a whole.
    each: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedPhases:
    """The phases that a request asks for: so many of about the same size, or one per month of the partitions."""

    count: int | None  #: How many; None for one per month.
    terms: Phases  #: How they are published.


@declared
def phases(count: int | None = None, *, hold_hours: int = 0, each: bool = False) -> AskedPhases:
    """The phases in which a table is published when a person's plan concerns enough of it.

    Args:
        count: So many of about the same size; one per month without it.
        hold_hours: How many hours after a phase has landed the next one waits.
        each: Whether each phase is approved by itself, once those before it are published.

    Raises:
        InvalidDeclaration: Fewer than two phases, or a negative time.
    """
    if (count is not None and count < 2) or hold_hours < 0:
        raise InvalidDeclaration(f"{count} phases, held for {hold_hours} hours: at least 2, and at least 0 hours.")
    return AskedPhases(count=count, terms=Phases(hold_s=hold_hours * 3600, each=each))


def cut(table: str, partitions: Sequence[date], count: int | None) -> tuple[tuple[date, ...], ...]:
    """The partitions of each phase, in order.

    Args:
        count: How many phases; None for one per month.

    Raises:
        NoPhases: There would be one phase, or one without partitions.
    """
    if count is None:
        found = tuple(tuple(month) for _, month in groupby(partitions, key=lambda each: (each.year, each.month)))
    else:
        ends = [len(partitions) * number // count for number in range(count + 1)]
        found = tuple(tuple(partitions[start:end]) for start, end in pairwise(ends))
    if len(found) < 2 or not all(found):
        why = f"{len(partitions):,} of its partitions are asked for, which makes no {count or 2} phases"
        why = why if count is None or count > 1 else "one phase is a plan without phases"
        raise NoPhases(table=table, why=why, by_days=True)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMember:
    """One run of a set: its table, and the digest of its manifest."""

    run_id: str
    table: str
    manifest_digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedByFile:
    """The changes of a landed file to the days for which a set was proposed."""

    import_id: str
    days: tuple[date, ...]  #: The changed days that it decides something of.
    rows: int  #: Accepted rows of these days that are its records.
    moved_away: int  #: Rows of these days whose keys it has on other days.
    taken_back: int  #: Rows of these days that it deleted or withdrew.
    restored: int  #: Rows of these days whose withdrawal it undid.


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedBecause:
    """The reason why a set was proposed without a person who asked for it."""

    days: Mapping[str, tuple[date, ...]]  #: The changed days, by source.
    imports: tuple[str, ...]  #: The landed files that changed them, in the order of arrival.
    landed_by: tuple[str, ...]  #: Who landed these; none of them may approve the set.
    basis: str  #: A digest of what is accepted of the changed days and of what the set rebuilds.
    files: tuple[ChangedByFile, ...]  #: What each of the files changed, in the same order.

    @staticmethod
    def parse(document: Mapping[str, Any]) -> ProposedBecause:
        """The proposal that a document holds; `parse(plain(p)) == p`."""
        return ProposedBecause(
            days={source: _days(some) for source, some in document["days"].items()},
            imports=tuple(document["imports"]),
            landed_by=tuple(document["landed_by"]),
            basis=document["basis"],
            files=tuple(ChangedByFile(**{**file, "days": _days(file["days"])}) for file in document["files"]),
        )


def _days(texts: Iterable[str]) -> tuple[date, ...]:
    return tuple(map(date.fromisoformat, texts))


@dataclass(frozen=True, kw_only=True)
class SetManifest:
    """The contract of several runs that belong together."""

    set_id: str  #: Names the set everywhere.
    name: str  #: Its display name.
    reason: str  #: Why, in the requester's words.
    requested_by: str  #: The requester.
    requested_at: datetime  #: When, aware UTC.
    because: str  #: What made it necessary, as it was requested, such as `bronze.case_events:2006-03-15..2006-03-15`.
    members: tuple[SetMember, ...]  #: In the order of publication: inputs before what is computed from them.
    proposed: ProposedBecause | None = None  #: What it was proposed for; None for a set that a person planned.
    #: How its runs are published, if they are phases of one change; None for runs published together.
    phases: Phases | None = None

    @cached_property
    def document(self) -> Mapping[str, Any]:
        return {"format": SET_FORMAT, **plain(self)}

    @cached_property
    def text(self) -> str:
        """The canonical JSON that is stored and digested."""
        return canonical_json(self.document)

    @cached_property
    def digest(self) -> str:
        """The sha256 of the canonical JSON: what an approval of the set approves, including every member."""
        return sha256_text(self.text)

    @staticmethod
    def parse(text: str) -> SetManifest:
        """The set that a canonical JSON text holds; `parse(s.text) == s`.

        Raises:
            KeyError, ValueError: The text is not a set of this format.
        """
        document = json.loads(text)
        if document["format"] != SET_FORMAT:
            raise ValueError(f"a set of format {document['format']}; this code reads format {SET_FORMAT}")
        parts = {
            "requested_at": datetime.fromisoformat(document["requested_at"]),
            "members": tuple(SetMember(**member) for member in document["members"]),
            "proposed": document["proposed"] and ProposedBecause.parse(document["proposed"]),
            "phases": document["phases"] and Phases(**document["phases"]),
        }
        return SetManifest(**{**{name: value for name, value in document.items() if name != "format"}, **parts})
