"""Code identity: the digest of the modules that a transform's function reaches.

The digest is over bytes, so a comment in a reached module is a change; one in any other module of the package is not.
Installed packages and this project are not included; their versions are recorded.
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
    _known: dict[tuple[str, str], Code] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_sources", Sources.of(self.domain))

    @functools.cached_property
    def package_digest(self) -> str:
        """The sha256 over every `.py` file of the package: what manifests before format 3 recorded."""
        return _digest(
            (path.relative_to(self._sources.root).as_posix(), path) for path in self._sources.package_files()
        )

    def of(self, table: Table, version: str) -> Code:
        """The code of one release of a table; of a source table, the loader's.

        Raises:
            UnknownName: There is no such release.
        """
        if not isinstance(table, DerivedTable):
            return _loader()
        key = table.name, version
        if key not in self._known:
            self._known[key] = self._reached(table, table.release(version))
        return self._known[key]

    def lifts(self, source: SourceTable) -> Mapping[int, str]:
        """The digests of the code of a source's lifts that change values, by the version that they start from."""
        changing = {each: source.lift_from(each) for each in source.earlier}
        return {
            each: self._digest_of(lift.function)
            for each, lift in changing.items()
            if lift.function is not None and not lift.keeps_values
        }

    def _digest_of(self, function: Callable[..., Any]) -> str:
        """The digest of the modules that a function reaches."""
        found = self._sources.reached(set(_modules_of(function)))
        return self.package_digest if found is None else _digest(found.items())

    def is_present(self, table: Table, version: str, digest: str) -> bool:
        """Whether a recorded digest is that of the present code, by the present rule or the previous one."""
        return digest in (self.of(table, version).digest, self.package_digest)

    def _reached(self, table: DerivedTable, release: Release) -> Code:
        # The present release's module contains the declaration, and what older releases use.
        roots = {*_modules_of(release.function), *_modules_of(table.releases[0].function)}
        found = self._sources.reached(roots)
        if found is None:
            return Code(digest=self.package_digest, modules=(f"{self.domain.package}.*",))
        return Code(digest=_digest(found.items()), modules=tuple(found))


@functools.cache
def _loader() -> Code:
    """The modules of this project that turn landed files into rows."""
    spec = importlib.util.find_spec(LOADER)
    assert spec is not None and spec.origin is not None
    folder = Path(spec.origin).parent
    return Code(digest=_digest((p.name, p) for p in sorted(folder.glob("*.py"))), modules=(f"{LOADER}.*",))


def _modules_of(function: Callable[..., Any]) -> Iterator[str]:
    """The modules of a function, including those of functions that it wraps, binds and encloses."""
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
            yield str(each.__globals__.get("__name__"))
            waiting += [getattr(each, "__wrapped__", None), *_enclosed(each)]
        else:
            yield each.__module__ if isinstance(each, type) else type(each).__module__


def _enclosed(function: Any) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not filled yet
            continue


def _digest(files: Iterable[tuple[str, Path]]) -> str:
    digest = hashlib.sha256()
    for name, path in files:
        content = path.read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()
