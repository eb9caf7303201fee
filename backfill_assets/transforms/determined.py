"""Determined code: what an author's function reaches that gives other rows tomorrow, elsewhere, or in other tasks.

Read from the source, as far as names say what is used, and from the values that they have in this process. Clocks and
randomness are refused wherever they are reached; the environment where a function asks for it when it is called. What
a module read of the environment when it was imported is a value of a name, and is pinned (`code`). What is found by no
name, such as a function of Spark by a computed name, shows in Spark's plan before a row is computed (`spark_plan`).
"""

from __future__ import annotations

import ast
import builtins
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from types import ModuleType
from typing import Any

from backfill_assets.domain import DerivedTable, Domain, RowExpression, SourceTable, Table
from backfill_assets.transforms.definitions import Sources, module_at
from backfill_assets.transforms.errors import NotDetermined, NotPinnable
from backfill_assets.transforms.statements import (
    Alias,
    Chain,
    Module,
    Named,
    Statement,
    chain_of,
    imported_by_call,
    is_declaration,
    names_bound,
)
from backfill_assets.transforms.syntax import formatted, given_to, line_in, made_by, other_names, over_a_call, parts_of
from backfill_assets.transforms.undetermined import (
    ATTRIBUTES,
    CLOCK,
    ENVIRONMENT,
    FILES,
    GIVEN,
    HANDED_ON,
    MACHINE,
    METHODS,
    OUTSIDE,
    SINKS,
    WITHOUT_ARGUMENTS,
    WORDS,
    full_name,
    in_spark_sql,
    is_word_of_the_clock,
    read_by_session,
    why_not,
    why_not_in_sql,
)
from backfill_assets.transforms.values import MISSING, Encoding, NotPinned, found_by, is_constant, is_of_a_library

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_CONSTRUCTORS = {"__init__", "__new__", "__post_init__", "__init_subclass__", "__set_name__"}
_UNHEARD = {"debug", "info", "warning", "warn", "error", "exception", "critical", "log", "print"}
"""Calls whose texts are for people."""


def require_determined(domain: Domain, sources: Sources, table: Table, version: str) -> None:
    """Refuses a table whose rows, gates or windows do not follow from what a manifest pins.

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
            search.found.append(_Found(*_place_of(search, table, text), found, why_not_in_sql(found)))
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


def _functions_of(domain: Domain, table: Table, version: str) -> Iterator[Callable[..., Any]]:
    """The author's functions that decide about the rows of a release of a table."""
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
    for source in sources:
        if isinstance(source, SourceTable):
            lifts = (source.lift_from(each).function for each in source.earlier)
            yield from (function for function in lifts if function is not None)


def _conditions_of(table: Table) -> Iterator[str]:
    yield from (gate.condition for gate in table.gates if isinstance(gate, RowExpression))
    if isinstance(table, DerivedTable):
        yield from table.breakdown.measures.values() if table.breakdown else ()
        yield table.publish.explained


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


class When(IntEnum):
    """When a statement is carried out: while modules are imported, also by methods of what was made then, or later."""

    IMPORTED = 0
    MADE = 1
    CALLED = 2


@dataclass(frozen=True, slots=True, order=True)
class _Found:
    """What is not determined, or not pinned: where, by which name, and why."""

    file: str
    line: int
    name: str
    why: str


@dataclass(kw_only=True)
class _Search:
    """What some functions reach by names, and by values that hold functions.

    Attributes:
        found: What is not determined.
        loose: Names whose values cannot be pinned.
    """

    sources: Sources
    parsed: dict[str, Module] = field(default_factory=dict)
    found: list[_Found] = field(default_factory=list)
    loose: list[_Found] = field(default_factory=list)
    _encoding: Encoding = field(init=False)
    _seen: set[tuple[str, Statement, When]] = field(default_factory=set)
    _waiting: list[tuple[str, Statement, When]] = field(default_factory=list)
    _values: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._encoding = Encoding(sources=self.sources, parsed=self.parsed)

    def visit(self, value: object, name: str = "") -> None:
        """Looks at everything that a value holds; what others made is called when the function is."""
        known = set(self._encoding.foreign)
        try:
            self._encoding.of(value)
        except NotPinned as error:
            self._is_loose(name or _named(value), error)
        for each in sorted(self._encoding.foreign - known):
            if why := why_not(each):
                path, line = self._bound_at(name or _named(value))
                self.found.append(_Found(path, line, each, why))

    def go(self) -> None:
        """Looks at everything that is reached."""
        roots, made, lambdas, classes = set[Named](), set[Named](), set[tuple[str, int]](), 0
        while True:
            for named in self._encoding.made - made:
                self._begin(named, When.MADE)
            made |= self._encoding.made
            for named in self._encoding.found - roots:
                self._begin(named, When.CALLED)
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
        self.loose.append(_Found(*self._bound_at(name), name, error.kind))

    def _bound_at(self, name: str) -> tuple[str, int]:
        """The file and line where a name is bound."""
        module, bound = name, ""
        while module and self.sources.file(module) is None:
            module, _, bound = module.rpartition(".")
        path = self.sources.file(module)
        statements = module_at(self.parsed, module, path).binding(bound) if path else ()
        return str(path or name), min((each.line for each in statements), default=0)

    def _module(self, name: str) -> Module | None:
        path = self.sources.file(name)
        return module_at(self.parsed, name, path) if path else None

    def _begin(self, named: Named, when: When) -> None:
        if module := self._module(named[0]):
            for statement in module.binding(named[1]):
                self._add(named[0], statement, when=when)

    def _begin_at(self, name: str, line: int) -> None:
        """A lambda, which has no name, by its line."""
        if module := self._module(name):
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
        walk = _Walk(search=self, module=name, file=str(path), statement=statement, when=when)
        for node in statement.nodes:
            walk.visit(node, _Scope(local=statement.around))

    # ------------------------------------------------------------------------------------------------------- names

    def follow(self, name: str, chain: Chain, alias: Alias | None, *, when: When) -> None:
        """Looks at what a name means next."""
        for module, bound in self._bound(name, chain, alias):
            if module_of := self._module(module):
                for statement in module_of.binding(bound):
                    is_definition = isinstance(
                        statement.nodes[0], ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
                    )
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

    def _bound(self, name: str, chain: Chain, alias: Alias | None, most: int = 20) -> Iterator[Named]:
        """The modules and names in which a name is bound, through imports."""
        module = self._module(name)
        if module is None or not most:
            return
        aliases = [alias] if alias else [each for each in module.aliases if each.bound == chain[0]]
        if not aliases:
            yield name, chain[0]
        for each in aliases:
            attributes = chain[1:]
            target = each.bound if each.is_first_part else each.module
            if each.name is not None:
                inner = f"{each.module}.{each.name}"
                if self.sources.file(inner) is None:
                    yield from self._bound(each.module, (each.name,), None, most - 1)
                    continue
                target = inner
            while attributes and self.sources.file(f"{target}.{attributes[0]}"):
                target, attributes = f"{target}.{attributes[0]}", attributes[1:]
            if attributes:
                yield from self._bound(target, attributes, None, most - 1)

    def meanings(self, name: str, chain: Chain, alias: Alias | None) -> Iterator[tuple[str, object]]:
        """The names that a chain has where it is defined, attribute by attribute, and what they mean."""
        if alias is not None:
            text = alias.module if alias.name is None or alias.is_first_part else f"{alias.module}.{alias.name}"
            text = alias.bound if alias.is_first_part else text
            is_own = self.sources.file(alias.module) is not None
            found = found_by((name, chain[:1], alias))[1] if is_own else _already(alias)
        else:
            found = getattr(sys.modules.get(name), chain[0], getattr(builtins, chain[0], MISSING))
            module = self._module(name)
            imported = (
                [each for each in module.aliases if each.bound == chain[0]] if module and found is MISSING else []
            )
            text = _text_of(imported[0]) if imported else chain[0]
        yield from names_of(found, text)
        for attribute in chain[1:]:
            kind = found if isinstance(found, type) else type(found)
            holders = [found] if isinstance(found, ModuleType) else [] if found is MISSING else list(kind.__mro__)
            names = [f"{_named(holder)}.{attribute}" for holder in holders] or [f"{text}.{attribute}"]
            text = names[0]
            is_open = isinstance(found, ModuleType | type)
            found = getattr(found, attribute, MISSING) if is_open else MISSING
            yield from ((each, found) for each in names)
            yield from names_of(found, text)


def _text_of(alias: Alias) -> str:
    return f"{alias.module}.{alias.name}" if alias.name else alias.bound if alias.is_first_part else alias.module


def _already(alias: Alias) -> object:
    """What an import inside a function binds, where its module was imported before."""
    module = sys.modules.get(alias.bound if alias.is_first_part else alias.module, MISSING)
    if alias.name is None or module is MISSING:
        return module
    return getattr(module, alias.name, sys.modules.get(f"{alias.module}.{alias.name}", MISSING))


def _named(value: object) -> str:
    if isinstance(value, ModuleType):
        return value.__name__
    return full_name(getattr(value, "__module__", None), getattr(value, "__qualname__", None))


def names_of(value: object, text: str) -> Iterator[tuple[str, object]]:
    """The full names that a value has, besides the one by which it was found."""
    yield text, value
    if isinstance(value, random.Random) or type(value).__module__.startswith("numpy.random"):
        yield "random.Random()", value
    own = getattr(value, "__self__", None)
    if isinstance(own, type):
        yield from ((f"{_named(base)}.{value.__name__}", value) for base in own.__mro__)  # type: ignore[attr-defined]
    elif isinstance(own, random.Random):
        yield f"random.{value.__name__}", value  # type: ignore[attr-defined]
    elif isinstance(value, type(ENVIRONMENT)):
        yield "os.environ", value
    elif callable(value):
        yield _named(value), value


# ------------------------------------------------------------------------------------------------ one statement


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scope:
    """Where in a statement a part of it is.

    Attributes:
        local: Names that are local there.
        renamed: Local names that are other names of something.
        made: Local names of what a call of something gives.
        is_in_body: Whether it is carried out when a function is called, and not when its module is imported.
        is_heard: Whether its texts may be SQL.
        method: The name of the function.
    """

    local: frozenset[str]
    renamed: Mapping[str, Chain] = field(default_factory=dict)
    made: Mapping[str, Chain] = field(default_factory=dict)
    is_in_body: bool = False
    is_heard: bool = True
    method: str = ""


@dataclass(kw_only=True)
class _Walk:
    """A walk over the syntax of one statement."""

    search: _Search
    module: str
    file: str
    statement: Statement
    when: When

    def visit(self, node: ast.AST, scope: _Scope) -> None:
        """Looks at a part of the statement, and at everything inside."""
        if node in self.statement.apart:
            return
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                self._function(node, scope)
            case ast.Expr(value=ast.Constant()):
                pass  # a docstring, or a remark
            case ast.AnnAssign(value=value):
                if value is not None:
                    self.visit(value, scope)
            case ast.Raise() | ast.Assert():
                self._inside(node, replace(scope, is_heard=False))
            case ast.Constant(value=str(text)):
                self._text(text, node, scope)
            case ast.JoinedStr() | ast.BinOp(op=ast.Add() | ast.Mod()):
                self._put_together(node, scope)
            case _ if chain := chain_of(node):
                self._name(chain, node, scope)
            case ast.Call():
                self._call(node, scope)
            case ast.Attribute():
                self._attribute(node, scope)
            case _:
                self._inside(node, scope)

    def _inside(self, node: ast.AST, scope: _Scope) -> None:
        for child in ast.iter_child_nodes(node):
            self.visit(child, scope)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, scope: _Scope) -> None:
        for each in (*getattr(node, "decorator_list", ()), *node.args.defaults, *node.args.kw_defaults):
            if each is not None:
                self.visit(each, scope)
        body: list[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else [*node.body]
        local = names_bound(node)
        inner = replace(
            scope,
            local=scope.local | local,
            renamed={**{k: v for k, v in scope.renamed.items() if k not in local}, **other_names(body, local)},
            made={**{k: v for k, v in scope.made.items() if k not in local}, **made_by(body, local)},
            is_in_body=True,
            method=getattr(node, "name", ""),
        )
        for each in body:
            self.visit(each, inner)

    def _call(self, node: ast.Call, scope: _Scope) -> None:
        chain = chain_of(node.func)
        called = chain[-1] if chain else getattr(node.func, "attr", "")
        is_known = (chain is not None and self._meant(chain, scope) is not None) or self._is_of_own_class(node, scope)
        arguments: list[ast.AST] = [*node.args, *(each for each in node.keywords if not _is_of_others(node, each))]
        if called in SINKS:
            for argument in arguments:
                self._sql(argument, scope)
        if called == "format" and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Constant):
            self._text(formatted(node, str(node.func.value.value)), node, scope)
        if called in ("call_function", "call_udf") and node.args and isinstance(node.args[0], ast.Constant):
            self._text(f"{node.args[0].value!s}()", node.args[0], scope, is_sql=True)
        if not is_known:
            why = METHODS.get(called) or (None if given_to(node) else WITHOUT_ARGUMENTS.get(called))
            if isinstance(node.func, ast.Attribute) and why and (why != OUTSIDE or self._is_called(scope)):
                self._add(f".{called}()", node.func, why)
        if is_word_of_the_clock(node):
            self._add(ast.unparse(node), node, WORDS)
        if not (chain and self._is_given(chain, node, scope)):
            self.visit(node.func, scope)
        heard = replace(scope, is_heard=scope.is_heard and called not in _UNHEARD)
        for argument in arguments:
            self.visit(argument, heard)

    def _is_given(self, chain: Chain, node: ast.Call, scope: _Scope) -> bool:
        """Whether a function that asks a clock only where it is given nothing is called with something."""
        meant = self._meant(chain, scope)
        if meant is None:
            return False
        for name, _ in self.search.meanings(self.module, *meant):
            needed = GIVEN.get(name) or (1 if name.endswith(".unix_timestamp") and "pyspark" in name else None)
            if needed is not None:
                if given_to(node) < needed:
                    self._add(f"{'.'.join(chain)}()", node.func, why_not(name) or CLOCK)
                return True
        return False

    def _is_of_own_class(self, node: ast.Call, scope: _Scope) -> bool:
        """Whether what is called is a method of an object of a class of the author, which is followed by its name."""
        over, chain = over_a_call(node.func), chain_of(node.func)
        maker = chain_of(over[0].func) if over else scope.made.get(chain[0]) if chain else None
        if maker is None or (meant := self._meant(maker, scope)) is None:
            return maker is not None and len(maker) == 1
        made = [*self.search.meanings(self.module, *meant)][-1][1]
        return isinstance(made, type) and self.search.sources.file(made.__module__) is not None

    def _is_called(self, scope: _Scope) -> bool:
        return scope.is_in_body and self.when > (When.MADE if scope.method in _CONSTRUCTORS else When.IMPORTED)

    def _meant(self, chain: Chain, scope: _Scope) -> tuple[Chain, Alias | None] | None:
        """What a name means in the module; None for what is local."""
        inside = next((alias for alias in self.statement.aliases if alias.bound == chain[0]), None)
        if inside is not None:
            return chain, inside
        if chain[0] in scope.renamed:
            others = {name: other for name, other in scope.renamed.items() if name != chain[0]}
            return self._meant((*scope.renamed[chain[0]], *chain[1:]), replace(scope, renamed=others))
        return None if chain[0] in scope.local else (chain, None)

    def _name(self, chain: Chain, node: ast.AST, scope: _Scope) -> None:
        if "_metadata" in chain[1:]:
            self._add("._metadata", node, FILES)
        for attribute in chain[1:]:
            self._is_told_by_attribute(attribute, node, scope)
        full = (*scope.renamed.get(chain[0], chain[:1]), *chain[1:])
        if (read := read_by_session(full)) and self._is_called(scope):
            self._add(read, node, OUTSIDE)
        if chain[0] in scope.made and len(chain) > 1:
            self._of_what_is_made((*scope.made[chain[0]], *chain[1:]), None, node, scope)
        meant = self._meant(chain, scope)
        if meant is None:
            return
        is_called = self._is_called(scope)
        for name, _ in self.search.meanings(self.module, *meant):
            why = why_not(name, is_called=is_called)
            if why and not (name in ("builtins.hash", "builtins.id") and scope.method == "__hash__"):
                self._add(".".join(chain), node, why)
                break
        else:
            self._handed_on(chain, meant, node, is_called=is_called)
        self.search.follow(self.module, *meant, when=When.CALLED if is_called else When.IMPORTED)

    def _handed_on(self, chain: Chain, meant: tuple[Chain, Alias | None], node: ast.AST, *, is_called: bool) -> None:
        """A module of clocks, chance or the machine that is no part of a longer name."""
        value = [*self.search.meanings(self.module, *meant)][-1][1]
        why = HANDED_ON.get(value.__name__) if isinstance(value, ModuleType) else None
        if why and (is_called or why != MACHINE):
            self._add(".".join(chain), node, why)

    def _attribute(self, node: ast.Attribute, scope: _Scope) -> None:
        """An attribute of what is no name."""
        self._is_told_by_attribute(node.attr, node, scope)
        if found := over_a_call(node):
            call, attributes = found
            if module := imported_by_call(call):
                self._of_what_is_made((module, *attributes), Alias(module, module=module, name=None), node, scope)
            elif chain := chain_of(call.func):
                self._of_what_is_made((*chain, *attributes), None, node, scope)
        self._inside(node, scope)

    def _is_told_by_attribute(self, attribute: str, node: ast.AST, scope: _Scope) -> None:
        if (why := ATTRIBUTES.get(attribute)) and self._is_called(scope):
            self._add(f".{attribute}", node, why)

    def _of_what_is_made(self, chain: Chain, alias: Alias | None, node: ast.AST, scope: _Scope) -> None:
        """An attribute of an object, by the name of its class, or of a module that a call imports."""
        meant = (chain, alias) if alias else self._meant(chain, scope)
        for name, _ in self.search.meanings(self.module, *meant) if meant else ():
            if why := why_not(name, is_called=self._is_called(scope)):
                self._add(name, node, why)
                return

    def _put_together(self, node: ast.AST, scope: _Scope, *, is_sql: bool = False) -> None:
        """A text of several parts; what is put in is a name for those who read it as SQL."""
        parts = list(parts_of(node))
        if any(isinstance(part, str) for part in parts):
            text = "".join(part if isinstance(part, str) else "x" for part in parts)
            self._text(text, node, scope, is_sql=is_sql)
        for part in parts:
            if isinstance(part, ast.AST):
                self.visit(part, scope)

    def _sql(self, node: ast.AST, scope: _Scope) -> None:
        """An argument that Spark reads as SQL."""
        match node:
            case ast.Constant(value=str(constant)):
                self._text(constant, node, scope, is_sql=True)
            case ast.JoinedStr() | ast.BinOp(op=ast.Add() | ast.Mod()):
                self._put_together(node, scope, is_sql=True)
            case ast.keyword(value=value) | ast.Starred(value=value):
                self._sql(value, scope)
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                for part in parts:
                    self._sql(part, scope)
            case _ if chain := chain_of(node):
                meant = self._meant(chain, scope)
                held = [*self.search.meanings(self.module, *meant)][-1][1] if meant else MISSING
                for text in held if isinstance(held, list | tuple) else [held]:
                    if isinstance(text, str):
                        self._text(text, node, scope, is_sql=True)

    def _text(self, text: str, node: ast.AST, scope: _Scope, *, is_sql: bool = False) -> None:
        if not (scope.is_heard or is_sql):
            return
        if text == "_metadata" or text.startswith("_metadata."):
            self._add(text, node, FILES)
        elif found := in_spark_sql(text, is_sql=is_sql):
            line = line_in(node, found)
            self.search.found.append(_Found(self.file, line, found, why_not_in_sql(found)))

    def _add(self, name: str, node: ast.AST, why: str) -> None:
        self.search.found.append(_Found(self.file, getattr(node, "lineno", self.statement.line), name, why))


def _is_of_others(call: ast.Call, given: ast.keyword) -> bool:
    """Whether an argument of a declaration is about other tables, or other releases."""
    return is_declaration(call) and given.arg in ("inputs", "earlier")
