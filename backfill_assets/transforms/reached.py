"""Reached modules: the author's modules that a module imports, directly and indirectly.

Imports are read from the source and nothing is executed: absolute and relative ones, at the top and inside functions,
of modules of the domain's package and of modules beside it in the same folder of the path. A module that is imported by
a computed name could be any.
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import backfill_assets
from backfill_assets.domain import Domain
from backfill_assets.errors import InvalidDeclaration

_THIS_PROJECT = backfill_assets.__name__
_INSTALLED = {"site-packages", "dist-packages"}
BY_NAME = {"import_module", "__import__"}
"""Functions that import a module by its name."""


@dataclass(frozen=True, kw_only=True)
class Sources:
    """The source files that an author can change: the domain's package, and modules beside it on the same path.

    Attributes:
        package: The domain's package, or its only module.
        root: The folder of the package, or the one that holds its only module.
        holder: The folder on the path that the package is imported from.
        is_package: Whether it is a package.
    """

    package: str
    root: Path
    holder: Path
    is_package: bool
    _imports: dict[tuple[str, bool], frozenset[str] | None] = field(init=False, default_factory=dict)

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
        """Every source file of the package."""
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

    def reached(self, roots: Iterable[str]) -> Mapping[str, Path] | None:
        """The modules that these reach, by name.

        Args:
            roots: The modules of a function. What they name as inputs of a table only is not followed.

        Returns:
            None if it cannot be determined from the source, or none of the roots is one of the author's modules.
        """
        found: dict[str, Path] = {}
        whole: set[str] = set()
        waiting = [(module, True) for module in sorted(roots)]
        while waiting:
            module, is_root = waiting.pop()
            path = self.file(module)
            if path is None or module in whole or (is_root and module in found):
                continue
            found[module] = path
            if not is_root:
                whole.add(module)
            imported = self._imported(module, path, without_inputs=is_root)
            if imported is None:
                return None
            waiting += [(each, False) for each in (*imported, *self.on_the_way(module))]
        return dict(sorted(found.items())) if found else None

    def on_the_way(self, module: str) -> Iterator[str]:
        """The packages that are executed on the way to a module; the domain's own only declares the tables."""
        parts = module.split(".")
        above = (".".join(parts[:count]) for count in range(1, len(parts)))
        return (package for package in above if not f"{self.package}.".startswith(f"{package}."))

    def _imported(self, module: str, path: Path, *, without_inputs: bool) -> frozenset[str] | None:
        key = module, without_inputs
        if key not in self._imports:
            package = module if path.name == "__init__.py" else module.rpartition(".")[0]
            reading = _Imports(package, lambda name: self.file(name) is not None, without_inputs=without_inputs)
            try:
                reading.visit(ast.parse(path.read_bytes(), filename=str(path)))
            except SyntaxError:
                reading.by_name = True
            self._imports[key] = None if reading.by_name else frozenset(reading.found)
        return self._imports[key]


class _Imports(ast.NodeVisitor):
    """What one module imports.

    A table that is only named as an input (`inputs={"clocks": case_sla_daily}`) is not part of the code of the table
    that reads it: its rows are pinned.

    Attributes:
        found: The imported modules.
        by_name: Whether one of the author's modules may be imported by a computed name.
    """

    def __init__(self, package: str, is_module: Callable[[str], bool], *, without_inputs: bool) -> None:
        self.found: set[str] = set()
        self.by_name = False
        self._package = package
        self._is_module = is_module
        self._without_inputs = without_inputs
        self._inputs_only: frozenset[str] = frozenset()

    def visit_Module(self, node: ast.Module) -> None:
        if self._without_inputs:
            as_input = {id(name) for name in _named_as_inputs(node)}
            names = list(_names(node, frozenset()))
            elsewhere = {name.id for name in names if id(name) not in as_input}
            self._inputs_only = frozenset(name.id for name in names if id(name) in as_input) - elsewhere
        self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        self.found |= {alias.name for alias in node.names if (alias.asname or alias.name) not in self._inputs_only}

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = self._base(node)
        taken = [alias.name for alias in node.names if (alias.asname or alias.name) not in self._inputs_only]
        for name in taken:
            inner = f"{base}.{name}"
            self.found |= {inner} if self._is_module(inner) else {base}

    def _base(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = self._package.split(".")
        above = parts[: len(parts) - node.level + 1]
        return ".".join([*above, *([node.module] if node.module else [])])

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func
        called = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
        if called in BY_NAME:
            name = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
            if isinstance(name, str) and not name.startswith(".") and len(node.args) == 1:
                self.found |= {name}
            else:
                self.by_name = True
        self.generic_visit(node)


def _named_as_inputs(tree: ast.Module) -> Iterator[ast.Name]:
    for call in ast.walk(tree):
        if isinstance(call, ast.Call):
            for keyword in call.keywords:
                if keyword.arg == "inputs":
                    yield from (each for each in ast.walk(keyword.value) if isinstance(each, ast.Name))


def _names(node: ast.AST, arguments: frozenset[str]) -> Iterator[ast.Name]:
    """The names in a part of a module that refer to the module's names, and not to arguments of a function."""
    if isinstance(node, ast.Name) and node.id not in arguments:
        yield node
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        for child in ast.iter_child_nodes(node):
            yield from _names(child, arguments)
        return
    own = {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
    inside = {id(each) for each in (node.body if isinstance(node.body, list) else [node.body])}
    for child in ast.iter_child_nodes(node):
        yield from _names(child, arguments | own if id(child) in inside else arguments)
