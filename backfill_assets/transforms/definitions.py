"""Reached definitions: what of the author's modules a function uses, directly and indirectly.

Names are followed from definition to definition, through imports and packages that pass a name on; nothing is executed.
Of a module that is reached, every line counts but the definitions, and the imported names, that nothing reached uses.
What a table declares as its inputs is not followed: their rows are pinned. A module that is imported by a computed name
could be any, so that the whole package counts. Where names do not say what is used, such as with `import *`,
`globals()` or a module that is handed on as a value, all of the module counts.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import backfill_assets
from backfill_assets.domain import Domain, Failing, Table
from backfill_assets.domain.failing_rows import FailingFunction
from backfill_assets.transforms.statements import WHOLE, Alias, Chain, Module, Named, Statement, parsed_module

_THIS_PROJECT = backfill_assets.__name__
_INSTALLED = {"site-packages", "dist-packages"}

_EXECUTED = ""
"""In place of a name: only what the module does when it is imported."""

_IN_DOUBT = {"globals", "locals", "vars", "exec", "eval"}


def functions_of_gates(table: Table) -> Mapping[str, FailingFunction]:
    """The functions of an author that measure gates of a table, by the names of the gates."""
    own = (gate for gate in table.gates if isinstance(gate, Failing) and not gate.release)
    return {gate.name: gate.rows for gate in own if gate.rows is not None}


@dataclass(frozen=True, kw_only=True)
class Sources:
    """The source files that an author can change: the domain's package, and modules beside it on the same path."""

    package: str  #: The domain's package, or its only module.
    root: Path  #: The folder of the package, or the one that holds its only module.
    holder: Path  #: The folder on the path that the package is imported from.
    is_package: bool
    #: Modules elsewhere that hold functions of the domain's tables, such as the one of a test.
    apart: Mapping[str, Path] = field(default_factory=dict)

    @staticmethod
    def of(domain: Domain) -> Sources:
        """The sources of a domain.

        Raises:
            InvalidDeclaration: It names a package that has no source files.
        """
        origin, is_package = domain.source_of_package()
        root = origin.parent
        above = domain.package.count(".") + (1 if is_package else 0)
        holder = root if above == 0 else root.parents[above - 1]
        sources = Sources(package=domain.package, root=root, holder=holder, is_package=is_package)
        functions = [release.function for table in domain.derived for release in table.releases]
        functions += [function for table in domain.tables.values() for function in functions_of_gates(table).values()]
        modules = {function.__module__ for function in functions if hasattr(function, "__module__")}
        apart = {module: path for module in sorted(modules) if (path := sources.outside(module))}
        return replace(sources, apart=apart) if apart else sources

    def outside(self, module: str) -> Path | None:
        """The file of an imported module of the author that is not beside the package; None for an installed one."""
        file = getattr(sys.modules.get(module), "__file__", None)
        is_of_others = module.partition(".")[0] == _THIS_PROJECT or bool(_INSTALLED & {*Path(file or "").parts})
        if not file or is_of_others or self.file(module):
            return None
        return Path(file) if Path(file).is_file() else None

    def package_files(self) -> list[Path]:
        if not self.is_package:
            return [self.holder.joinpath(*self.package.split(".")).with_suffix(".py")]
        return sorted(self.root.rglob("*.py"))

    def file(self, module: str) -> Path | None:
        """The source of one of the author's modules; None for any other."""
        if module in self.apart:
            return self.apart[module]
        inside = module == self.package or module.startswith(f"{self.package}.")
        top = module.partition(".")[0]
        if not module or (not inside and self._is_foreign(top)):
            return None
        path = self.holder.joinpath(*module.split("."))
        for candidate in (path / "__init__.py", path.with_suffix(".py")):
            if candidate.is_file() and not _INSTALLED & set(candidate.relative_to(self.holder).parts):
                return candidate
        return None

    def _is_foreign(self, top: str) -> bool:
        """True if a top-level name is this project's, or lies beside an installed package."""
        beside_installed = bool(_INSTALLED & set(self.holder.parts)) and top != self.package.partition(".")[0]
        return top == _THIS_PROJECT or beside_installed

    def on_the_way(self, module: str) -> Iterator[str]:
        """The packages that are executed on the way to a module; the domain's own only declares the tables."""
        parts = module.split(".")
        above = (".".join(parts[:count]) for count in range(1, len(parts)))
        return (package for package in above if not f"{self.package}.".startswith(f"{package}."))


@dataclass(kw_only=True)
class Reaching:
    """The objects that some functions reach."""

    sources: Sources  #: The author's files.
    parsed: dict[str, Module]  #: The modules that were read, which several searches share.
    _seen: set[Named] = field(default_factory=set)
    _used: dict[str, set[Statement]] = field(default_factory=dict)
    _aliases: dict[str, set[Alias]] = field(default_factory=dict)
    _by_name: bool = False
    _reads: dict[tuple[str, Chain, Alias | None], int] = field(default_factory=dict)

    @property
    def reads(self) -> Mapping[tuple[str, Chain, Alias | None], int]:
        """The names that were used: by which module, with which attributes, and the import inside a function that
        binds them there; with the line of a statement that uses them."""
        return self._reads

    @property
    def whole(self) -> frozenset[str]:
        """The modules of which all counts."""
        return frozenset(module for module, name in self._seen if name == WHOLE)

    def content(self, roots: Iterable[Named]) -> Mapping[str, bytes] | None:
        """The content that counts of every reached module, by its name.

        Returns:
            None if it cannot be determined from the source, or none of the roots is in one of the author's modules.
        """
        waiting = sorted(roots)
        while waiting:
            named = waiting.pop()
            path = self.sources.file(named[0])
            if named in self._seen or path is None:
                continue
            self._seen.add(named)
            module = module_at(self.parsed, named[0], path)
            self._by_name |= module.by_name
            waiting += self._first(named[0], module)
            waiting += self._whole(named[0], module) if named[1] == WHOLE else self._named(named, module)
        return None if self._by_name else {name: self._content(name) for name in sorted(self._used)} or None

    def _content(self, name: str) -> bytes:
        module = self.parsed[name]
        if (name, WHOLE) in self._seen:
            return module.source
        return module.content(self._used[name], self._aliases[name])

    def _first(self, name: str, module: Module) -> Iterator[Named]:
        """The statements that a module executes whenever it is imported, and the packages that are executed on the
        way to it."""
        if name in self._used:
            return
        self._used[name], self._aliases[name] = set(), set()
        yield from ((package, _EXECUTED) for package in self.sources.on_the_way(name))
        if module.has_star or any("__getattr__" in each.binds for each in module.statements):
            yield name, WHOLE
        for statement in module.statements:
            if statement.is_always:
                yield from self._uses(name, module, statement)
        taken = {chain[0] for each in module.statements for chain in each.uses} | module.only_inputs
        for alias in module.aliases:
            # A module that is imported and not used is imported for what it does.
            if alias.name is None and alias.bound not in taken:
                yield from self._through(name, alias, ())

    def _whole(self, name: str, module: Module) -> Iterator[Named]:
        for statement in module.statements:
            yield from self._uses(name, module, statement)
        for alias in module.aliases:
            if alias.bound not in module.only_inputs:
                yield from self._through(name, alias, ())

    def _named(self, named: Named, module: Module) -> Iterator[Named]:
        name = named[1]
        if name == _EXECUTED:
            return
        if "." in name:
            for statement in module.binding(name):
                yield from self._uses(named[0], module, statement)
            return
        found = list(self._of_chain(named[0], module, (name,), ()))
        if not found and not self._binds(module, name):
            inner = f"{named[0]}.{name}"
            found = [(inner, WHOLE) if self.sources.file(inner) else (named[0], WHOLE)]
        yield from found

    def _uses(self, name: str, module: Module, statement: Statement) -> Iterator[Named]:
        if statement in self._used[name]:
            return
        self._used[name].add(statement)
        for chain in statement.uses:
            if chain[0] in _IN_DOUBT and not self._binds(module, chain[0]):
                yield name, WHOLE
            self._note(name, chain, statement)
            yield from self._of_chain(name, module, chain, statement.aliases)
        used = {chain[0] for chain in statement.uses}
        for alias in statement.aliases:
            if alias.bound not in used or alias.name is not None:
                yield from self._targets(alias, ())

    def _note(self, name: str, chain: Chain, statement: Statement) -> None:
        inside = next((alias for alias in statement.aliases if alias.bound == chain[0]), None)
        self._reads.setdefault((name, chain, inside), statement.line)

    def _binds(self, module: Module, name: str) -> bool:
        return any(name in each.binds for each in module.statements) or any(a.bound == name for a in module.aliases)

    def _of_chain(self, name: str, module: Module, chain: Chain, inside: tuple[Alias, ...]) -> Iterator[Named]:
        for statement in module.statements:
            if chain[0] in statement.binds:
                yield from self._uses(name, module, statement)
        for alias in inside:
            if alias.bound == chain[0]:
                yield from self._targets(alias, chain[1:])
        for alias in module.aliases:
            if alias.bound == chain[0]:
                yield from self._through(name, alias, chain[1:])

    def _through(self, name: str, alias: Alias, attributes: Chain) -> Iterator[Named]:
        self._aliases[name].add(alias)
        yield from self._targets(alias, attributes)

    def _targets(self, alias: Alias, attributes: Chain) -> Iterator[Named]:
        if alias.name is None:
            if alias.is_first_part:
                yield alias.module, _EXECUTED if attributes else WHOLE
            yield self._taken(alias.bound if alias.is_first_part else alias.module, attributes)
            return
        inner = f"{alias.module}.{alias.name}"
        yield self._taken(inner, attributes) if self.sources.file(inner) else (alias.module, alias.name)

    def _taken(self, module: str, attributes: Chain) -> Named:
        """The part of a module that attributes take: a name of it, of a module inside, or all of it."""
        while attributes and self.sources.file(f"{module}.{attributes[0]}"):
            module, attributes = f"{module}.{attributes[0]}", attributes[1:]
        return module, attributes[0] if attributes else WHOLE


def module_at(parsed: dict[str, Module], name: str, path: Path) -> Module:
    """A module, which is read once for several searches."""
    if name not in parsed:
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        parsed[name] = parsed_module(path.read_bytes(), package)
    return parsed[name]
