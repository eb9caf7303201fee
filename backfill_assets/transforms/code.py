"""Code identity: the digest of what a transform's function reaches in the author's modules.

The digest is over lines, so a comment between or inside reached definitions is a change; one in any other definition or
module is not. Installed packages and this project are not included; their versions are recorded.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import backfill_assets
from backfill_assets.domain import Domain, SourceTable, Table
from backfill_assets.domain.tables import DerivedTable
from backfill_assets.transforms.definitions import WHOLE, Module, Named, Reaching, Sources

_THIS_PROJECT = backfill_assets.__name__
LOADER = f"{_THIS_PROJECT}.landing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """What identifies the code of a table.

    Attributes:
        digest: The sha256 over the names and bytes of the modules.
        modules: Their names, in order; `package.*` when a module is imported by a computed name, so that the whole
            package is included.
    """

    digest: str
    modules: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class DomainCode:
    """The present code of a domain's tables; each module is read once."""

    domain: Domain
    _sources: Sources = field(init=False)
    _parsed: dict[str, Module] = field(init=False, default_factory=dict)
    _known: dict[tuple[str, str], Code] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_sources", Sources.of(self.domain))

    def of(self, table: Table, version: str) -> Code:
        """The code of one release of a table; of a source table, the loader's."""
        if not isinstance(table, DerivedTable):
            return _loader()
        key = table.name, version
        if key not in self._known:
            # What other releases use is not its code: a new release leaves earlier runs reproducible.
            self._known[key] = self._reached(table.release(version).function)
        return self._known[key]

    def lifts(self, source: SourceTable) -> Mapping[int, str]:
        """The digests of the code of a source's lifts that change values, by the version that they start from."""
        changing = {each: source.lift_from(each) for each in source.earlier}
        return {
            each: self._reached(lift.function).digest
            for each, lift in changing.items()
            if lift.function is not None and not lift.keeps_values
        }

    def _reached(self, function: Callable[..., Any]) -> Code:
        found = Reaching(sources=self._sources, parsed=self._parsed).content(set(_definitions_of(function)))
        if found is None:
            return Code(digest=self._package_digest, modules=(f"{self.domain.package}.*",))
        return Code(digest=_digest(found.items()), modules=tuple(found))

    @functools.cached_property
    def _package_digest(self) -> str:
        root = self._sources.root
        return _digest((path.relative_to(root).as_posix(), path.read_bytes()) for path in self._sources.package_files())


@functools.cache
def _loader() -> Code:
    """The modules of this project that turn landed files into rows."""
    spec = importlib.util.find_spec(LOADER)
    assert spec is not None and spec.origin is not None
    folder = Path(spec.origin).parent
    return Code(digest=_digest((p.name, p.read_bytes()) for p in sorted(folder.glob("*.py"))), modules=(f"{LOADER}.*",))


def _definitions_of(function: Callable[..., Any]) -> Iterator[Named]:
    """The module and definition of a function, and those of functions that it wraps, binds and encloses."""
    waiting: list[Any] = [function]
    seen: set[int] = set()
    while waiting:
        each = waiting.pop()
        if id(each) in seen or not callable(each):
            continue
        seen.add(id(each))
        if isinstance(each, functools.partial):
            waiting += [each.func, *each.args, *each.keywords.values()]
        elif inspect.ismethod(each):
            waiting += [each.__func__, type(each.__self__)]
        elif inspect.isfunction(each):
            yield str(each.__globals__.get("__name__")), _outermost(each.__code__.co_qualname)
            waiting += [getattr(each, "__wrapped__", None), *_enclosed(each)]
        else:
            kind = each if isinstance(each, type) else type(each)
            yield kind.__module__, _outermost(kind.__qualname__)


def _outermost(qualified: str) -> str:
    """The definition of a module that something is written in; a lambda can be in any."""
    name = qualified.partition(".")[0]
    return name if name.isidentifier() else WHOLE


def _enclosed(function: Any) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not filled yet
            continue


def _digest(contents: Iterable[tuple[str, bytes]]) -> str:
    digest = hashlib.sha256()
    for name, content in contents:
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()
