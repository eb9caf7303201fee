"""Families of sources: plug-ins, of which the heart names none.

A family is a package that an entry point of the group `backfill_assets.families` names by its `Family` record, in
pyproject.toml of this project or of any other one. Modules of the package, each imported when it is used:

- `declaration`: what an author declares, derived from the classes of `domain.external`;
- `stream`, where a source can be captured from it: `open_stream`, as `domain.external.OpensStreams` has it;
- `client`, where files can be dropped on a server: `open_server`, as `capture.files.drop_places.OpensServers` has it;
- `replay`, where tables can be replayed to it: `open_sink` and `captured_records`, as `deliver.sinks.Replays` has them;
- `sniff`, where what an address or a file has can be proposed as a declaration: `sniffed`, as `sniff.addresses.Sniffs`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, distribution, entry_points
from typing import Any

from backfill_assets.core.errors import Refused

GROUP = "backfill_assets.families"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The words for what tables are replayed to."""

    kind: str  #: The noun for a target, such as `topic`.
    part: str  #: The noun for a part of it, such as `partition`.
    delivery: str  #: How often a consumer gets a record, such as `at least once`.
    note: str  #: What consumers have to know.
    captured_as: str  #: The `PartKind` of captured files of this family, whose records can be replayed.
    #: What declares that a target may be replayed to which was there before, `{target!r}`; empty where none may.
    if_live: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A family of sources."""

    name: str  #: Its name in the ledger.
    package: str  #: The package of its modules.
    streams: tuple[str, ...] = ()  #: The declarations that a source can have as `capture`.
    servers: tuple[str, ...] = ()  #: Those that it can have as `drop`.
    schemes: tuple[str, ...] = ()  #: What addresses of files on these servers begin with, such as `sftp`.
    replays: tuple[str, ...] = ()  #: Those that a table can have as `replay`.
    parts: tuple[str, ...] = ()  #: What else of its declarations authors write.
    target: Target | None = None  #: Given if tables can be replayed to it.
    sniffs: bool = False  #: True if it proposes declarations.

    def module(self, name: str) -> Any:
        """A module of its package."""
        return import_module(f"{self.package}.{name}")


def family(name: str) -> Family:
    """The family of a name.

    Raises:
        Refused: No installed distribution has it.
    """
    for known in (_own(), _installed()):
        if name in known:
            return known[name]
    raise Refused.coded(
        "no_family",
        "no installed package has the family of sources {name!r}; there are {known}.",
        then="install the package that has it; of a checkout, run tools/setup.sh python",
        name=name,
        known=", ".join(_installed()) or "none",
    )


def families() -> Iterable[Family]:
    """All families, by name."""
    return _installed().values()


def target_of(name: str) -> Target:
    """The words for a target of replays to a family."""
    found = family(name).target
    assert found is not None, f"nothing is replayed to {name}"
    return found


def captured_by(kind: str) -> Family:
    """The family whose captured files are replayed as parts of a kind."""
    return next(each for each in families() if each.target is not None and each.target.captured_as == kind)


def declaration(name: str) -> Any:
    """A declaration of a family, by the name that authors import.

    Raises:
        KeyError: No family has it.
    """
    # Entry points of one distribution are read in a millisecond, those of all in up to 200.
    for known in (_own, _installed):
        for each in known().values():
            if name in (*each.streams, *each.servers, *each.replays, *each.parts):
                return getattr(each.module("declaration"), name)
    raise KeyError(name)


def one_of(attribute: str) -> str:
    """The declarations of all families for an attribute of a table, as a message lists them.

    Args:
        attribute: Of `Family`: `streams`, `servers` or `replays`.
    """
    *names, last = (f"{name}(...)" for each in families() for name in getattr(each, attribute))
    return f"{', '.join(names)} or {last}" if names else last


@cache
def _own() -> Mapping[str, Family]:
    return _loaded(each for each in distribution("backfill-assets").entry_points if each.group == GROUP)


@cache
def _installed() -> Mapping[str, Family]:
    return _loaded(entry_points(group=GROUP))


def _loaded(points: Iterable[EntryPoint]) -> Mapping[str, Family]:
    return {each.name: each for each in _in_order(points)}


def _in_order(points: Iterable[EntryPoint]) -> Iterator[Family]:
    for point in sorted(points, key=lambda each: each.name):
        yield point.load()
