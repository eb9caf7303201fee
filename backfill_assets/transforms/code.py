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
from backfill_assets.domain import Domain, Release, SourceTable, Table
from backfill_assets.domain.tables import DerivedTable
from backfill_assets.transforms.definitions import WHOLE, Module, Named, Reaching
from backfill_assets.transforms.reached import Sources

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

    @functools.cached_property
    def package_digest(self) -> str:
        """The sha256 over every `.py` file of the package: what manifests before format 3 recorded."""
        root = self._sources.root
        return _digest((path.relative_to(root).as_posix(), path.read_bytes()) for path in self._sources.package_files())

    def of(self, table: Table, version: str) -> Code:
        """The code of one release of a table; of a source table, the loader's.

        Raises:
            UnknownName: There is no such release.
        """
        if not isinstance(table, DerivedTable):
            return _loader()
        key = table.name, version
        if key not in self._known:
            self._known[key] = self._reached(table.release(version))
        return self._known[key]

    def lifts(self, source: SourceTable, *, by_modules: bool = False) -> Mapping[int, str]:
        """The digests of the code of a source's lifts that change values, by the version that they start from.

        Args:
            source: The source.
            by_modules: By the rule that runs recorded before definitions were followed.
        """
        changing = {each: source.lift_from(each) for each in source.earlier}
        digest_of = self._digest_of_modules if by_modules else self._digest_of
        return {
            each: digest_of(set(_definitions_of(lift.function)))
            for each, lift in changing.items()
            if lift.function is not None and not lift.keeps_values
        }

    def is_present(self, table: Table, version: str, digest: str) -> bool:
        """Whether a recorded digest is that of the present code, by the present rule or an earlier one."""
        known = [self.of(table, version).digest, self.package_digest]
        return digest in known or (isinstance(table, DerivedTable) and digest == self.modules_digest(table, version))

    def modules_digest(self, table: DerivedTable, version: str) -> str:
        """The digest over whole modules, as it was recorded before definitions were followed."""
        functions = table.release(version).function, table.releases[0].function
        return self._digest_of_modules({named for each in functions for named in _definitions_of(each)})

    def _digest_of(self, roots: set[Named]) -> str:
        found = self._content(roots)
        return self.package_digest if found is None else _digest(found.items())

    def _content(self, roots: set[Named]) -> Mapping[str, bytes] | None:
        return Reaching(sources=self._sources, parsed=self._parsed).content(roots)

    def _digest_of_modules(self, roots: set[Named]) -> str:
        found = self._sources.reached({module for module, _ in roots})
        return self.package_digest if found is None else _digest((n, path.read_bytes()) for n, path in found.items())

    def _reached(self, release: Release) -> Code:
        # What other releases use is not its code: a new release leaves earlier runs reproducible.
        found = self._content(set(_definitions_of(release.function)))
        if found is None:
            return Code(digest=self.package_digest, modules=(f"{self.domain.package}.*",))
        return Code(digest=_digest(found.items()), modules=tuple(found))


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
