"""Reached definitions: what of the author's modules a function uses, directly and indirectly.

Names are followed from definition to definition, through imports and packages that pass a name on; nothing is executed.
Of a module that is reached, every line counts but the definitions, and the imported names, that nothing reached uses.
What a table declares as its inputs is not followed: their rows are pinned. A module that is imported by a computed name
could be any, so that the whole package counts. Where names do not say what is used, such as with `import *`,
`globals()` or a module that is handed on as a value, all of the module counts.
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import backfill_assets
from backfill_assets.core.errors import InvalidDeclaration
from backfill_assets.domain import Domain

_THIS_PROJECT = backfill_assets.__name__
_INSTALLED = {"site-packages", "dist-packages"}
_BY_NAME = {"import_module", "__import__"}
"""Functions that import a module by its name."""

WHOLE = "*"
"""In place of a name: all of the module."""

_EXECUTED = ""
"""In place of a name: only what the module does when it is imported."""

_DECLARES = "derived_table"
_IN_DOUBT = {"globals", "locals", "vars", "exec", "eval"}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)

Named = tuple[str, str]
"""A module, and a name in it."""

Chain = tuple[str, ...]
"""A name with the attributes that are taken of it: `rules.ONE`."""


@dataclass(frozen=True, kw_only=True)
class Sources:
    """The source files that an author can change: the domain's package, and modules beside it on the same path.

    Attributes:
        package: The domain's package, or its only module.
        root: The folder of the package, or the one that holds its only module.
        holder: The folder on the path that the package is imported from.
    """

    package: str
    root: Path
    holder: Path
    is_package: bool

    @staticmethod
    def of(domain: Domain) -> Sources:
        """The sources of a domain.

        Raises:
            InvalidDeclaration: It names a package that has no source files.
        """
        spec = importlib.util.find_spec(domain.package)
        if spec is None or spec.origin is None:
            raise InvalidDeclaration(f"domain {domain.name} names the package {domain.package!r}, which has no source.")
        root, is_package = Path(spec.origin).parent, bool(spec.submodule_search_locations)
        above = domain.package.count(".") + (1 if is_package else 0)
        holder = root if above == 0 else root.parents[above - 1]
        return Sources(package=domain.package, root=root, holder=holder, is_package=is_package)

    def package_files(self) -> list[Path]:
        if not self.is_package:
            return [self.holder.joinpath(*self.package.split(".")).with_suffix(".py")]
        return sorted(self.root.rglob("*.py"))

    def file(self, module: str) -> Path | None:
        """The source of one of the author's modules; None for any other."""
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
        """Whether a top-level name is this project's, or lies beside an installed package."""
        beside_installed = bool(_INSTALLED & set(self.holder.parts)) and top != self.package.partition(".")[0]
        return top == _THIS_PROJECT or beside_installed

    def on_the_way(self, module: str) -> Iterator[str]:
        """The packages that are executed on the way to a module; the domain's own only declares the tables."""
        parts = module.split(".")
        above = (".".join(parts[:count]) for count in range(1, len(parts)))
        return (package for package in above if not f"{self.package}.".startswith(f"{package}."))


@dataclass(frozen=True, slots=True)
class _Alias:
    """A name that an import binds: to a module, to a name in it, or, as `import a.b` does, to the first part of it."""

    bound: str
    module: str
    name: str | None
    is_first_part: bool = False

    @property
    def text(self) -> str:
        what = f"from {self.module} import {self.name}" if self.name else f"import {self.module}"
        return f"{what} as {self.bound}"


@dataclass(frozen=True, slots=True)
class _Statement:
    """A statement of a module, with the names that it binds and uses, and the imports inside."""

    lines: range
    binds: frozenset[str]
    is_always: bool
    uses: frozenset[Chain]
    aliases: tuple[_Alias, ...]


@dataclass(frozen=True, slots=True)
class Module:
    """A parsed module."""

    source: bytes
    statements: tuple[_Statement, ...]
    aliases: tuple[_Alias, ...]
    import_lines: frozenset[int]
    only_inputs: frozenset[str]
    has_star: bool
    by_name: bool

    def content(self, used: set[_Statement], aliases: set[_Alias]) -> bytes:
        """The lines of the module without unused definitions and blank ones, and the imports that are used."""
        covered = {line for each in self.statements for line in each.lines} | self.import_lines
        kept = {line for each in used for line in each.lines}
        lines = [
            text
            for number, text in enumerate(self.source.splitlines(), start=1)
            if number in kept or (number not in covered and text.strip())
        ]
        return b"\n".join([*lines, *sorted(each.text.encode() for each in aliases)])


@dataclass(kw_only=True)
class Reaching:
    """What some functions reach.

    Attributes:
        sources: The author's files.
        parsed: The modules that were read, which several searches share.
    """

    sources: Sources
    parsed: dict[str, Module]
    _seen: set[Named] = field(default_factory=set)
    _used: dict[str, set[_Statement]] = field(default_factory=dict)
    _aliases: dict[str, set[_Alias]] = field(default_factory=dict)

    def content(self, roots: Iterable[Named]) -> Mapping[str, bytes] | None:
        """What counts of every module that is reached, by its name.

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
            module = self._module(named[0], path)
            if module.by_name:
                return None
            waiting += self._first(named[0], module)
            waiting += self._whole(named[0], module) if named[1] == WHOLE else self._named(named, module)
        return {name: self._content(name) for name in sorted(self._used)} or None

    def _content(self, name: str) -> bytes:
        module = self.parsed[name]
        if (name, WHOLE) in self._seen:
            return module.source
        return module.content(self._used[name], self._aliases[name])

    def _module(self, name: str, path: Path) -> Module:
        if name not in self.parsed:
            package = name if path.name == "__init__.py" else name.rpartition(".")[0]
            self.parsed[name] = _parsed(path.read_bytes(), package)
        return self.parsed[name]

    def _first(self, name: str, module: Module) -> Iterator[Named]:
        """What a module does whenever it is imported, and the packages that are executed on the way to it."""
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
        found = list(self._of_chain(named[0], module, (name,), ()))
        if not found and not self._binds(module, name):
            inner = f"{named[0]}.{name}"
            found = [(inner, WHOLE) if self.sources.file(inner) else (named[0], WHOLE)]
        yield from found

    def _uses(self, name: str, module: Module, statement: _Statement) -> Iterator[Named]:
        if statement in self._used[name]:
            return
        self._used[name].add(statement)
        for chain in statement.uses:
            if chain[0] in _IN_DOUBT and not self._binds(module, chain[0]):
                yield name, WHOLE
            yield from self._of_chain(name, module, chain, statement.aliases)
        used = {chain[0] for chain in statement.uses}
        for alias in statement.aliases:
            if alias.bound not in used or alias.name is not None:
                yield from self._targets(alias, ())

    def _binds(self, module: Module, name: str) -> bool:
        return any(name in each.binds for each in module.statements) or any(a.bound == name for a in module.aliases)

    def _of_chain(self, name: str, module: Module, chain: Chain, inside: tuple[_Alias, ...]) -> Iterator[Named]:
        for statement in module.statements:
            if chain[0] in statement.binds:
                yield from self._uses(name, module, statement)
        for alias in inside:
            if alias.bound == chain[0]:
                yield from self._targets(alias, chain[1:])
        for alias in module.aliases:
            if alias.bound == chain[0]:
                yield from self._through(name, alias, chain[1:])

    def _through(self, name: str, alias: _Alias, attributes: Chain) -> Iterator[Named]:
        self._aliases[name].add(alias)
        yield from self._targets(alias, attributes)

    def _targets(self, alias: _Alias, attributes: Chain) -> Iterator[Named]:
        if alias.name is None:
            if alias.is_first_part:
                yield alias.module, _EXECUTED if attributes else WHOLE
            yield self._taken(alias.bound if alias.is_first_part else alias.module, attributes)
            return
        inner = f"{alias.module}.{alias.name}"
        yield self._taken(inner, attributes) if self.sources.file(inner) else (alias.module, alias.name)

    def _taken(self, module: str, attributes: Chain) -> Named:
        """What is taken of a module by attributes: a name of it, of a module inside, or all of it."""
        while attributes and self.sources.file(f"{module}.{attributes[0]}"):
            module, attributes = f"{module}.{attributes[0]}", attributes[1:]
        return module, attributes[0] if attributes else WHOLE


# ------------------------------------------------------------------------------------------------ one module


@lru_cache(maxsize=512)
def _parsed(source: bytes, package: str) -> Module:
    """A module by its bytes: a process that stays opens many workspaces, and parses what has not changed once."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return Module(source, (), (), frozenset(), frozenset(), has_star=False, by_name=True)
    statements: list[_Statement] = []
    aliases: list[_Alias] = []
    import_lines: set[int] = set()
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            aliases += _aliases(node, package)
            import_lines.update(_lines(node))
            continue
        inside = tuple(_imports_inside(node, package))
        binds = _binds(node)
        if binds is None and not isinstance(node, ast.Expr):
            # Imports below an `if` or a `try` bind names of the module.
            aliases += inside
            inside = ()
        statements.append(
            _Statement(
                lines=_lines(node),
                binds=_stored(node) if binds is None else binds,
                is_always=binds is None,
                uses=frozenset(_uses(node, frozenset())),
                aliases=inside,
            )
        )
    used = {chain[0] for each in statements for chain in each.uses}
    has_star = any(alias.name == WHOLE for alias in aliases)
    return Module(
        source=source,
        statements=tuple(statements),
        aliases=tuple(aliases),
        import_lines=frozenset(import_lines),
        only_inputs=frozenset(_inputs(tree)) - used,
        has_star=has_star,
        by_name=any(_imported_by_call(node) == "" for node in ast.walk(tree)),
    )


def _lines(node: ast.stmt) -> range:
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(each.lineno for each in decorators)])
    return range(first, (node.end_lineno or node.lineno) + 1)


def _binds(node: ast.stmt) -> frozenset[str] | None:
    """The names that a definition binds; None for a statement that does something else as well."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return frozenset({node.name})
        case ast.Assign(targets=targets) if all(map(_is_plain, targets)):
            return _stored(node)
        case ast.AnnAssign(target=ast.Name()) | ast.AugAssign(target=ast.Name()):
            return _stored(node)
        case ast.Expr(value=ast.Constant()):
            return frozenset()
    return None


def _is_plain(target: ast.expr) -> bool:
    if isinstance(target, ast.Tuple | ast.List):
        return all(map(_is_plain, target.elts))
    return isinstance(target, ast.Name)


def _stored(node: ast.AST, *, itself: bool = False) -> frozenset[str]:
    """The names that a statement binds in its own scope; without those of its imports."""
    found: set[str] = set()
    waiting = [node] if itself else list(ast.iter_child_nodes(node))
    while waiting:
        each = waiting.pop()
        if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load):
            found.add(each.id)
        elif isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(each.name)
            continue
        elif isinstance(each, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and each.name:
            found.add(each.name)
        if not isinstance(each, ast.Lambda):
            waiting += ast.iter_child_nodes(each)
    return frozenset(found)


def _uses(node: ast.AST, local: frozenset[str]) -> Iterator[Chain]:
    """The names of the module that a part of it uses, with their attributes; no inputs of a table."""
    if chain := _chain(node):
        if chain[0] not in local:
            yield chain
        return
    if isinstance(node, _FUNCTIONS):
        body: list[ast.AST] = [*node.body] if isinstance(node.body, list) else [node.body]
        arguments = {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
        own = arguments.union(*(_stored(each, itself=True) for each in body))
        inner = (local | own) - {name for each in ast.walk(node) if isinstance(each, ast.Global) for name in each.names}
        for child in ast.iter_child_nodes(node):
            yield from _uses(child, inner if child in body else local)
        return
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.keyword) and child.arg == "inputs" and _is_declaration(node)):
            yield from _uses(child, local)


def _chain(node: ast.AST) -> Chain | None:
    match node:
        case ast.Name(id=name, ctx=ast.Load()):
            return (name,)
        case ast.Attribute(value=value, attr=attribute):
            before = _chain(value)
            return (*before, attribute) if before else None
    return None


def _is_declaration(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and (_chain(node.func) or ("",))[-1] == _DECLARES


def _inputs(tree: ast.Module) -> Iterator[str]:
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and _is_declaration(call):
            for keyword in call.keywords:
                if keyword.arg == "inputs":
                    yield from (each.id for each in ast.walk(keyword.value) if isinstance(each, ast.Name))


def _imports_inside(node: ast.stmt, package: str) -> Iterator[_Alias]:
    for each in ast.walk(node):
        if isinstance(each, ast.Import | ast.ImportFrom):
            yield from _aliases(each, package)
        elif (name := _imported_by_call(each)) is not None:
            yield _Alias("", module=name, name=None)


def _aliases(node: ast.Import | ast.ImportFrom, package: str) -> Iterator[_Alias]:
    if isinstance(node, ast.Import):
        for each in node.names:
            first = each.name.partition(".")[0]
            yield _Alias(each.asname or first, module=each.name, name=None, is_first_part=each.asname is None)
        return
    parts = package.split(".")
    above = parts[: len(parts) - node.level + 1] if node.level else []
    base = ".".join([*above, *([node.module] if node.module else [])])
    for each in node.names:
        yield _Alias(each.asname or each.name, module=base, name=each.name)


def _imported_by_call(node: ast.AST) -> str | None:
    """The module that a call imports by a constant name; empty for a computed one, None for any other part."""
    if not isinstance(node, ast.Call) or (_chain(node.func) or ("",))[-1] not in _BY_NAME:
        return None
    match node.args:
        case [ast.Constant(value=str(name))] if not name.startswith("."):
            return name
    return ""
