"""Publish mode: how a run's rows become the content of its partitions, as a table declares it and its manifests pin it.

Every mode stages the full new content of each partition and swaps it against the accepted one; they differ in what the
new content is made of, and in what is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from backfill_assets.core.declaring import declared
from backfill_assets.core.errors import InvalidDeclaration


class PublishKind(StrEnum):
    """What a publication does to partitions."""

    REPLACE = "REPLACE"
    APPEND = "APPEND"
    MERGE = "MERGE"
    PILOT = "PILOT"
    VERSIONED = "VERSIONED"


class Older(StrEnum):
    """What becomes of a change that is older than the accepted row of its key."""

    REFUSE = "refuse"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The rows that a pilot changes."""

    where: tuple[tuple[str, str], ...]  #: Columns with the value that a row has in each of them, as text.
    is_rest: bool = False  #: Whether it is all other rows instead.

    @property
    def outside(self) -> Scope:
        """All other rows."""
        return Scope(where=self.where, is_rest=not self.is_rest)

    @property
    def options(self) -> Sequence[tuple[str, str]]:
        """The options of a plan that name these rows."""
        return [("but" if self.is_rest else "where", f"{column}={value}") for column, value in self.where]

    def __str__(self) -> str:
        named = " and ".join(f"{column}={value}" for column, value in self.where)
        return f"all but {named}" if self.is_rest else named


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishMode:
    """How a run's rows become the content of its partitions."""

    #: Replaced as a whole, only added where no version was ever accepted, or merged by key.
    kind: PublishKind = PublishKind.REPLACE
    on: tuple[str, ...] = ()  #: With MERGE: what identifies a row in the table.
    #: With MERGE: the column of changes that is true for a delete; it is no column of the table.
    deletes: str | None = None
    version: str | None = None  #: With MERGE: the column that orders the versions of a key.
    older: Older = Older.REFUSE  #: With MERGE and a version: what becomes of older changes.
    #: With MERGE: whether a key can move to another partition, because `on` has no partition column.
    keys_move: bool = False
    keeps_withdrawn: bool = False  #: With MERGE: whether accepted rows stay whose key no change names any more.
    #: With PILOT: the rows that change; all others stay as accepted. No table declares it: a plan does.
    scope: Scope | None = None
    of: str = ""  #: With VERSIONED: the table that it is a version of.
    #: With VERSIONED: columns whose values are expected to differ from the other version.
    differs: tuple[str, ...] = ()
    #: With VERSIONED: a condition in SQL; rows that fulfil it on both sides are expected to differ.
    explained: str = ""
    clean_days: int = 0  #: With VERSIONED: on how many days in a row both have to agree before readers are cut over.

    @property
    def only_adds(self) -> bool:
        """Whether a partition with an accepted version, an empty one too, never changes."""
        return self.kind is PublishKind.APPEND

    @property
    def merges(self) -> bool:
        """Whether the transform returns changes, which are merged with the accepted rows."""
        return self.kind is PublishKind.MERGE

    @property
    def is_whole(self) -> bool:
        """Whether a plan over some partitions is one over all that the table has: which of them the row of a key
        belongs to follows from the changes of all, as soon as the change is taken back that it came from."""
        return self.keys_move and not self.keeps_withdrawn

    @property
    def keeps_rows(self) -> bool:
        """Whether accepted rows stay that a run does not compute."""
        return self.kind is PublishKind.PILOT or self.keeps_withdrawn

    @property
    def reads_accepted(self) -> bool:
        """Whether the new content depends on accepted rows, which are pinned."""
        return self.kind in (PublishKind.MERGE, PublishKind.PILOT)

    @property
    def pinned(self) -> PublishMode:
        """What manifests pin: all but how a version is compared, which decides nothing about its rows."""
        return PublishMode(kind=self.kind, of=self.of) if self.kind is PublishKind.VERSIONED else self

    @property
    def document(self) -> Mapping[str, str | bool | list[str] | None]:
        if self.kind is PublishKind.VERSIONED:
            return {"kind": str(self.kind), "of": self.of}
        if self.scope is not None:
            where = [f"{column}={value}" for column, value in self.scope.where]
            return {"kind": str(self.kind), "where": where, "is_rest": self.scope.is_rest}
        if not self.merges:
            return {"kind": str(self.kind)}
        return {
            "kind": str(self.kind),
            "on": list(self.on),
            "deletes": self.deletes,
            "version": self.version,
            "older": str(self.older),
            "keys_move": self.keys_move,
            "keeps_withdrawn": self.keeps_withdrawn,
        }

    @staticmethod
    def parse(document: Mapping[str, object]) -> PublishMode:
        """The mode that a document holds; `parse(mode.document) == mode.pinned`."""
        match document:
            case {"kind": "MERGE", "on": [*on], "deletes": deletes, "version": version, "older": older}:
                return PublishMode(
                    kind=PublishKind.MERGE,
                    on=tuple(map(str, on)),
                    deletes=None if deletes is None else str(deletes),
                    version=None if version is None else str(version),
                    older=Older(str(older)),
                    keys_move=document["keys_move"] is True,
                    keeps_withdrawn=document["keeps_withdrawn"] is True,
                )
            case {"kind": "PILOT", "where": [*where], "is_rest": is_rest}:
                named = tuple((column, value) for column, _, value in (str(each).partition("=") for each in where))
                return PublishMode(kind=PublishKind.PILOT, scope=Scope(where=named, is_rest=is_rest is True))
            case {"kind": "VERSIONED", "of": of}:
                return PublishMode(kind=PublishKind.VERSIONED, of=str(of))
            case {"kind": kind}:
                return PublishMode(kind=PublishKind(str(kind)))
        raise ValueError("a publish mode without a kind")


PUBLISH = "publish"
"""The part of a configuration that holds the mode of a run, where its rows depend on it."""

REPLACE = PublishMode()


def replace() -> PublishMode:
    """A partition is replaced as a whole by what the transform returns for it. The usual mode."""
    return REPLACE


def append() -> PublishMode:
    """Partitions are only added: one that has an accepted version, an empty one too, is never changed by a run.

    Such a table stays as it was published when its inputs, code or references change; `backfill stale` lists it. To
    correct it, roll back the publication that added the partitions and plan them again.
    """
    return PublishMode(kind=PublishKind.APPEND)


def merge(
    *,
    on: tuple[str, ...],
    deletes: str | None = None,
    version: str | None = None,
    older: str = "refuse",
    keeps_withdrawn: bool = False,
) -> PublishMode:
    """The transform returns changes by key, computed from the inputs as they are now: they are the new content.

    An accepted row whose key no change of its partition names has no input any more, because its source took it back,
    or a reference or another release no longer gives it. It is removed, unless the table keeps such rows.

    Args:
        on: What identifies a row: the key of the table. With the partition column a key stays in its partition. Without
            it a row can move to another partition, and a plan is one over every partition that the table has.
        deletes: A column that the transform returns besides those of the table, true for a key that is deleted.
        version: The column of the table that orders the versions of a key. Equal versions replace.
        older: `refuse` blocks a run with a change that is older than the accepted row, or with two changes of a key;
            `ignore` takes the latest of several changes, and leaves one out that is older than the row of a partition
            outside of the run.
        keeps_withdrawn: Accepted rows stay whose key no change names. Reports and `backfill stale` count them. With
            `older="ignore"` also rows that are newer than the change that is left. Where keys move, a run is over the
            partitions that it is planned for.

    Raises:
        InvalidDeclaration: `older` is neither, or is given without a version, or `keeps_withdrawn` is no truth value.
    """
    if older not in [*Older] or (version is None and older != Older.REFUSE):
        raise InvalidDeclaration(f"a merge with version={version!r:.60} cannot treat older ones with {older!r:.60}.")
    if not isinstance(keeps_withdrawn, bool):
        why = f"a merge with keeps_withdrawn={keeps_withdrawn!r:.60}, which is neither True nor False"
        raise InvalidDeclaration(f"{why}.")
    return PublishMode(
        kind=PublishKind.MERGE,
        on=on,
        deletes=deletes,
        version=version,
        older=Older(older),
        keeps_withdrawn=keeps_withdrawn,
    )


@declared
def versioned(*, of: str, differs: tuple[str, ...] = (), explained: str = "", clean_days: int = 0) -> PublishMode:
    """The table is a version of another one, beside it: readers of that one see it once they are cut over to it.

    Its runs replace partitions of the table itself, which has files, runs and history of its own.

    Args:
        of: The table whose readers may be cut over: of the same key and partitions.
        differs: Columns whose values are expected to differ. Such differences are counted as explained.
        explained: A condition in SQL over the columns; rows that fulfil it are expected to differ, or to be missing on
            one side. Where only one of two rows of a key fulfils it, their difference is not explained.
        clean_days: On how many days in a row the daily comparison has to find no unexplained difference before readers
            can be cut over; 0 asks for no comparison.

    Raises:
        InvalidDeclaration: The number of days is negative, or no table is named.
    """
    if not of or clean_days < 0:
        raise InvalidDeclaration(f"a version of {of!r:.60} cannot be compared for {clean_days} days.")
    return PublishMode(kind=PublishKind.VERSIONED, of=of, differs=differs, explained=explained, clean_days=clean_days)
