"""Code identity: the digest of what a transform's function reaches in the author's modules.

The digest is over lines, so a comment between or inside reached definitions is a change; one in any other definition or
module is not. It is also over the values that the function finds in these modules: what was read from the environment
or a file when they were imported, and what was assigned since. Installed packages and this project are not included;
their versions are recorded.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import backfill_assets
from backfill_assets.core.identity import sha256_text
from backfill_assets.core.what_ran import what_ran
from backfill_assets.domain import Domain, Failing, SourceTable, Table
from backfill_assets.domain.tables import DerivedTable
from backfill_assets.planning.manifest_parts import InexactSum
from backfill_assets.transforms.definitions import Reaching, Sources, module_at
from backfill_assets.transforms.determined import require_determined
from backfill_assets.transforms.statements import Module, Named
from backfill_assets.transforms.values import MISSING, Encoding, NotPinned, Read, found_by, is_constant, is_of_a_library

_THIS_PROJECT = backfill_assets.__name__
LOADER = f"{_THIS_PROJECT}.landing"


_DIGITS_OF_A_VALUE = 3
"""Enough to see that it is another one, too few to find out what it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleText:
    """The text of a reached module."""

    name: str  #: Its name.
    path: str  #: Its file, below the folder that it is imported from.
    reached: bytes  #: The lines that count.
    source: bytes  #: All of it.


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """The identity of the code of a table."""

    digest: str  #: The sha256 over the names and bytes of the modules.
    #: Their names, in order; `package.*` when a module is imported by a computed name, so that the whole package is
    #: included.
    modules: tuple[str, ...]
    #: The text of each; none of the code of this project.
    texts: tuple[ModuleText, ...] = field(default=(), repr=False)
    #: Digits of the digest of each value that is found in them, by name.
    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class DomainCode:
    """The present code of a domain's tables; each module is read once."""

    domain: Domain
    _sources: Sources = field(init=False)
    _parsed: dict[str, Module] = field(init=False, default_factory=dict)
    _ran: dict[str, Mapping[str, str]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_sources", Sources.of(self.domain))

    def what_ran(self, image: str) -> Mapping[str, str]:
        """The evidence of what computes with this code, asked for once; see `core.what_ran`."""
        if image not in self._ran:
            self._ran[image] = what_ran(self._sources.root, image=image)
        return self._ran[image]

    @property
    def sources(self) -> Sources:
        """The author's files."""
        return self._sources

    def of(self, table: Table, version: str) -> Code:
        """The code of one release of a table, with the values of this instant; of a source table, the loader's."""
        if not isinstance(table, DerivedTable):
            return _loader()
        # What other releases use is not its code: a new release leaves earlier runs reproducible.
        parses = (each.parse for each in self.domain.references if each.name in table.references)
        # What the author declares as harmless is agreed to with the code that it is about.
        agreed = {f"undetermined {what}": reason.encode() for what, reason in table.undetermined.items()}
        return self._reached(table.release(version).function, *parses, agreed=agreed)

    def of_gates(self, table: Table) -> Mapping[str, Code]:
        """The code of the gates of a table that an author's function or query measures, by their names; it is no part
        of the code of the table, whose rows do not follow from it."""
        own = (gate for gate in table.gates if isinstance(gate, Failing) and not gate.release)
        return {gate.name: self.of_gate(gate) for gate in own}

    def gate_digests(self, table: Table) -> Mapping[str, str]:
        """The digests of that code, by the names of the gates."""
        return {name: code.digest for name, code in self.of_gates(table).items()}

    def of_gate(self, gate: Failing) -> Code:
        """The code of a gate, with that by which references are read that it names."""
        if gate.rows is None:
            return Code(digest=sha256_text(gate.sql), modules=())
        parses = (each.parse for each in self.domain.references if each.name in gate.references)
        return self._reached(gate.rows, *parses)

    def require_determined(self, table: Table, version: str) -> tuple[InexactSum, ...]:
        """Refuses a release of a table whose rows do not follow from what a manifest pins; see `determined`."""
        return require_determined(self.domain, self._sources, table, version)

    def lifts(self, source: SourceTable) -> Mapping[int, str]:
        """The digests of the code of a source's lifts that change values, by the version that they start from."""
        changing = {each: source.lift_from(each) for each in source.earlier}
        return {
            each: self._reached(lift.function).digest
            for each, lift in changing.items()
            if lift.function is not None and not lift.keeps_values
        }

    def _reached(self, *functions: Callable[..., Any], agreed: Mapping[str, bytes] = MappingProxyType({})) -> Code:
        reached = _Reached(sources=self._sources, parsed=self._parsed, values=dict(agreed))
        content = reached.by(*functions)
        values = [(f"value of {name}", value) for name, value in sorted(reached.values.items())]
        digits = {
            name: hashlib.sha256(value).hexdigest()[:_DIGITS_OF_A_VALUE] for name, value in reached.values.items()
        }
        if content is None:
            digest, modules = _digest([("*", self._package_bytes), *values]), (f"{self.domain.package}.*",)
            return Code(digest=digest, modules=modules, texts=tuple(self._package_texts()), values=digits)
        digest, texts = _digest([*content.items(), *values]), tuple(self._texts(content))
        return Code(digest=digest, modules=tuple(content), texts=texts, values=digits)

    def _texts(self, content: Mapping[str, bytes]) -> Iterator[ModuleText]:
        for name, reached in content.items():
            path = self._sources.file(name)
            assert path is not None, name
            # A module that is imported from another folder, such as one of tests, has the place of its name.
            below = Path(*name.split("."), "__init__.py") if path.name == "__init__.py" else Path(*name.split("."))
            if path.is_relative_to(self._sources.holder):
                below = path.relative_to(self._sources.holder)
            yield ModuleText(
                name=name, path=below.with_suffix(".py").as_posix(), reached=reached, source=self._parsed[name].source
            )

    def _package_texts(self) -> Iterator[ModuleText]:
        for path in self._sources.package_files():
            below, source = path.relative_to(self._sources.holder), path.read_bytes()
            name = ".".join(below.with_suffix("").parts).removesuffix(".__init__")
            yield ModuleText(name=name, path=below.as_posix(), reached=source, source=source)

    @functools.cached_property
    def _package_bytes(self) -> bytes:
        root = self._sources.root
        files = ((path.relative_to(root).as_posix(), path.read_bytes()) for path in self._sources.package_files())
        return _digest(files).encode()


@dataclass(kw_only=True)
class _Reached:
    """The objects that a function reaches, names and values in turn: a value can hold a function, and a function
    uses names."""

    sources: Sources
    parsed: dict[str, Module]
    values: dict[str, bytes] = field(default_factory=dict)
    _encoding: Encoding = field(init=False)

    def __post_init__(self) -> None:
        self._encoding = Encoding(sources=self.sources, parsed=self.parsed)

    def by(self, *functions: Callable[..., Any]) -> Mapping[str, bytes] | None:
        """The code that is reached, by module; None if all of the package can be."""
        reaching = Reaching(sources=self.sources, parsed=self.parsed)
        for function in functions:
            self._pin(_name_of_root(function), function)
        content, known, classes, seen = None, set[Named](), 0, set[Read]()
        while known != (now := self._encoding.found | self._encoding.made) or classes < len(self._encoding.classes):
            known = now
            content = reaching.content(known)
            for read in sorted(reaching.reads.keys() - seen, key=repr):
                seen.add(read)
                self._read(read)
            for module in sorted(reaching.whole):
                self._all_of(module)
            for kind in list(self._encoding.classes)[classes:]:
                classes += 1
                self._pin_class(kind)
        return content

    def _read(self, read: Read) -> None:
        name, value = found_by(read)
        holder = name.rpartition(".")[0]
        if value is MISSING or is_of_a_library(value, self.sources):
            return
        if isinstance(value, ModuleType):
            self._all_of(value.__name__)
        elif self.sources.file(holder) is not None or is_constant(value):
            self._pin(name, value)

    def _all_of(self, module: str) -> None:
        """The values of a module that is handed on, as far as they can be pinned."""
        path, loaded = self.sources.file(module), sys.modules.get(module)
        if path is None or loaded is None:
            return
        for statement in module_at(self.parsed, module, path).statements:
            for name in statement.binds & vars(loaded).keys():
                self._pin(f"{module}.{name}", vars(loaded)[name])

    def _pin(self, name: str, value: object) -> None:
        if name not in self.values:
            # What cannot be pinned is refused when a run is planned, and shown until then.
            self.values[name] = self._encoding.of(value, is_foreign=True)

    def _pin_class(self, kind: type) -> None:
        name = f"{kind.__module__}.{kind.__qualname__}"
        key = f"{name} {sum(each.startswith(f'{name} ') for each in self.values)}"
        try:
            self.values[key] = self._encoding.of_class(kind)
        except NotPinned:
            self.values[key] = b""


@functools.cache
def _loader() -> Code:
    """The modules of this project that turn landed files into rows."""
    spec = importlib.util.find_spec(LOADER)
    assert spec is not None and spec.origin is not None
    folder = Path(spec.origin).parent
    return Code(digest=_digest((p.name, p.read_bytes()) for p in sorted(folder.glob("*.py"))), modules=(f"{LOADER}.*",))


def _name_of_root(function: Any) -> str:
    """The name of a function, or of the class of a callable object."""
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"


def _digest(contents: Iterable[tuple[str, bytes]]) -> str:
    digest = hashlib.sha256()
    for name, content in contents:
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()
