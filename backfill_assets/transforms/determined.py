"""Determined code: what an author's function reaches that gives other rows tomorrow, elsewhere, or in other tasks.

Read from the source, as far as names say what is used (`asked_by_name`), and from the values that they have in this
process. Clocks and randomness are refused wherever they are reached; the environment where a function asks for it when
it is called. What a module read of the environment when it was imported is a value of a name, and is pinned (`code`).
What no name shows is found while the function is called (`asked`) and in Spark's plan (`spark_plan`).
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from backfill_assets.domain import DerivedTable, Domain, Failing, RowExpression, SourceTable, Table
from backfill_assets.planning.manifest_parts import InexactSum
from backfill_assets.transforms.asked_by_name import Found, Scope, Summed, Walk, When
from backfill_assets.transforms.definitions import Sources, functions_of_gates, module_at
from backfill_assets.transforms.doubles import MOMENTS, double_columns
from backfill_assets.transforms.errors import NotDetermined, NotPinnable
from backfill_assets.transforms.meanings import Names, named
from backfill_assets.transforms.statements import Alias, Chain, Module, Named, Statement
from backfill_assets.transforms.undetermined import in_spark_sql, why_not, why_not_in_sql
from backfill_assets.transforms.values import MISSING, Encoding, NotPinned, found_by, is_constant, is_of_a_library

_DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def require_determined(domain: Domain, sources: Sources, table: Table, version: str) -> tuple[InexactSum, ...]:
    """Refuses a table whose rows, gates or windows do not follow from what a manifest pins.

    Returns:
        The additions of floating-point numbers that names in its code show.

    Raises:
        NotDetermined: It reaches a clock, randomness, the environment, or what differs by task or by file.
        NotPinnable: It reaches a value that is not the same thing in every process.
    """
    search = _Search(sources=sources)
    for function in _functions_of(domain, table, version):
        search.visit(function)
    search.go()
    for text in _conditions_of(table):
        if found := in_spark_sql(text, is_sql=True):
            search.found.append(Found(*_place_of(search, table, text), found, why_not_in_sql(found)))
    if search.found:
        first, *others = sorted(set(search.found))
        more = tuple(f"{each.name} in line {each.line} of {each.file}" for each in others)
        raise NotDetermined(
            table=table.name, name=first.name, why=first.why, file=first.file, line=first.line, others=more
        )
    if search.loose:
        first_loose = min(search.loose)
        raise NotPinnable(
            table=table.name,
            name=first_loose.name,
            kind=first_loose.why,
            file=first_loose.file,
            line=first_loose.line,
        )
    return tuple(sorted(set(_inexact(table, search.summed, sources))))


def _inexact(table: Table, summed: Iterable[Summed], sources: Sources) -> Iterator[InexactSum]:
    if not isinstance(table, DerivedTable):
        return
    schemas = [table.schema, *(each.schema for each in table.inputs.values())]
    doubles = {name for schema in schemas for name in double_columns(schema)}
    known = {name for schema in schemas for name in schema.fieldNames()}
    for each in summed:
        names = tuple(name for name in each.names if name in (known if each.function in MOMENTS else doubles))
        path = Path(each.file)
        file = path.relative_to(sources.holder).as_posix() if path.is_relative_to(sources.holder) else path.name
        if names:
            yield InexactSum(file=file, line=each.line, function=each.function, columns=names)


def _functions_of(domain: Domain, table: Table, version: str) -> Iterator[Callable[..., Any]]:
    """The author's functions that decide about the rows of a release of a table."""
    yield from functions_of_gates(table).values()
    sources: list[Table] = [table]
    if isinstance(table, DerivedTable):
        yield table.release(version).function
        sources += table.inputs.values()
        yield from filter(callable, (table.window, *table.windows.values(), table.reference_window))
        for reference in domain.references:
            if reference.name in table.references:
                yield reference.parse
                if reference.changed_days is not None:
                    yield reference.changed_days
    of_gates = {name for gate in table.gates if isinstance(gate, Failing) for name in gate.references}
    yield from (reference.parse for reference in domain.references if reference.name in of_gates)
    for source in sources:
        if isinstance(source, SourceTable):
            lifts = (source.lift_from(each).function for each in source.earlier)
            yield from (function for function in lifts if function is not None)


def _conditions_of(table: Table) -> Iterator[str]:
    yield from (gate.condition for gate in table.gates if isinstance(gate, RowExpression))
    for gate in table.gates:
        if isinstance(gate, Failing):
            yield from (gate.sql, *(each.sql for each in gate.over))
    if isinstance(table, DerivedTable):
        yield from table.breakdown.measures.values() if table.breakdown else ()
        yield table.declared_version.explained if table.declared_version else ""


def _place_of(search: _Search, table: Table, text: str) -> tuple[str, int]:
    """Where a condition is written; of one that is put together, where its table is."""
    names = {table.releases[0].function.__module__} if isinstance(table, DerivedTable) else set()
    package = search.sources.package
    names |= {name for name in sys.modules if f"{name}.".startswith(f"{package}.")}
    for name in sorted(names):
        if path := search.sources.file(name):
            for statement in module_at(search.parsed, name, path).statements:
                for node in (part for each in statement.nodes for part in ast.walk(each)):
                    if isinstance(node, ast.Constant) and node.value == text:
                        return str(path), node.lineno
    if isinstance(table, DerivedTable):
        code = getattr(table.releases[0].function, "__code__", None)
        return getattr(code, "co_filename", ""), getattr(code, "co_firstlineno", 0)
    return search.sources.package, 0


@dataclass(kw_only=True)
class _Search:
    """The objects that some functions reach by names, and by values that hold functions."""

    sources: Sources
    parsed: dict[str, Module] = field(default_factory=dict)
    found: list[Found] = field(default_factory=list)  #: What is not determined.
    loose: list[Found] = field(default_factory=list)  #: Names whose values cannot be pinned.
    summed: list[Summed] = field(default_factory=list)  #: What is added up.
    _names: Names = field(init=False)
    _encoding: Encoding = field(init=False)
    _seen: set[tuple[str, Statement, When]] = field(default_factory=set)
    _waiting: list[tuple[str, Statement, When]] = field(default_factory=list)
    _values: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._names = Names(sources=self.sources, parsed=self.parsed)
        self._encoding = Encoding(sources=self.sources, parsed=self.parsed)

    def visit(self, value: object, name: str = "") -> None:
        """Looks at everything that a value holds; what others made is called when the function is."""
        known = set(self._encoding.foreign)
        try:
            self._encoding.of(value)
        except NotPinned as error:
            self._is_loose(name or named(value), error)
        for each in sorted(self._encoding.foreign - known):
            if why := why_not(each):
                path, line = self._bound_at(name or named(value))
                self.found.append(Found(path, line, each, why))

    def go(self) -> None:
        """Looks at everything that is reached."""
        roots, made, lambdas, classes = set[Named](), set[Named](), set[tuple[str, int]](), 0
        while True:
            for each in self._encoding.made - made:
                self._begin(each, When.MADE)
            made |= self._encoding.made
            for each in self._encoding.found - roots:
                self._begin(each, When.CALLED)
            roots |= self._encoding.found
            for module, line in self._encoding.lambdas - lambdas:
                self._begin_at(module, line)
            lambdas |= self._encoding.lambdas
            for kind in list(self._encoding.classes)[classes:]:
                classes += 1
                try:
                    self._encoding.of_class(kind)
                except NotPinned as error:
                    self._is_loose(f"{kind.__module__}.{kind.__qualname__}.{error.attribute}", error)
            if not self._waiting:
                known = roots, made, classes
                if known == (self._encoding.found, self._encoding.made, len(self._encoding.classes)):
                    return
                continue
            self._look(*self._waiting.pop())

    def _is_loose(self, name: str, error: NotPinned) -> None:
        self.loose.append(Found(*self._bound_at(name), name, error.kind))

    def _bound_at(self, name: str) -> tuple[str, int]:
        """The file and line where a name is bound."""
        module, bound = name, ""
        while module and self.sources.file(module) is None:
            module, _, bound = module.rpartition(".")
        path = self.sources.file(module)
        statements = module_at(self.parsed, module, path).binding(bound) if path else ()
        return str(path or name), min((each.line for each in statements), default=0)

    def _begin(self, definition: Named, when: When) -> None:
        if module := self._names.module(definition[0]):
            for statement in module.binding(definition[1]):
                self._add(definition[0], statement, when=when)

    def _begin_at(self, name: str, line: int) -> None:
        """A lambda, which has no name, by its line."""
        if module := self._names.module(name):
            for statement in module.statements:
                if any(
                    isinstance(part, ast.Lambda) and part.lineno == line
                    for node in statement.nodes
                    for part in ast.walk(node)
                ):
                    self._add(name, statement, when=When.CALLED)

    def _add(self, module: str, statement: Statement, *, when: When) -> None:
        key = module, statement, when
        if all((module, statement, each) not in self._seen for each in When if each >= when):
            self._seen.add(key)
            self._waiting.append(key)

    def _look(self, name: str, statement: Statement, when: When) -> None:
        path = self.sources.file(name)
        assert path is not None
        walk = Walk(
            names=self._names,
            module=name,
            file=str(path),
            statement=statement,
            when=when,
            found=self.found,
            follow=self._follow,
            summed=self.summed,
        )
        for node in statement.nodes:
            walk.visit(node, Scope(local=statement.around))

    def _follow(self, name: str, chain: Chain, alias: Alias | None, *, when: When) -> None:
        """Looks at what a name means next."""
        for module, bound in self._names.bound(name, chain, alias):
            if module_of := self._names.module(module):
                for statement in module_of.binding(bound):
                    is_definition = isinstance(statement.nodes[0], _DEFINITIONS)
                    self._add(module, statement, when=when if is_definition else When.IMPORTED)
        if when is When.IMPORTED:
            return
        key, value = found_by((name, chain, alias))
        if value is MISSING or isinstance(value, ModuleType) or key in self._values:
            return
        self._values.add(key)
        is_own = self.sources.file(key.rpartition(".")[0]) is not None
        if is_own and not is_of_a_library(value, self.sources) and not is_constant(value):
            self.visit(value, key)
