"""Determined code: what an author's function reaches that gives other rows tomorrow, elsewhere, or in other tasks.

Read from the source, as far as names say what is used (`asked_by_name`), and from the values that they have in this
process. Clocks and randomness are refused wherever they are reached; the environment where a function asks for it when
it is called. What a module read of the environment when it was imported is a value of a name, and is pinned (`code`).
What no name shows is found while the function is called (`asked`) and in Spark's plan (`spark_plan`).
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from backfill_assets.core.errors import ContractBroken
from backfill_assets.domain import DerivedTable, Domain, Failing, RowExpression, SourceTable, Table
from backfill_assets.planning.manifest_parts import InexactSum
from backfill_assets.transforms.errors import NotDetermined
from backfill_assets.transforms.statements import (
    Alias,
    Chain,
    Module,
    Named,
    Sources,
    Statement,
    chain_of,
    formatted,
    functions_of_gates,
    given_to,
    imported_by_call,
    is_declaration,
    line_in,
    made_by,
    module_at,
    names_bound,
    of_its_class,
    other_names,
    over_a_call,
    parts_of,
)
from backfill_assets.transforms.ties import MOMENTS, SUMS, double_columns
from backfill_assets.transforms.undetermined import (
    ATTRIBUTES,
    CLOCK,
    FILES,
    GIVEN,
    HANDED_ON,
    IN_MEMORY,
    MACHINE,
    METHODS,
    OUTSIDE,
    SINKS,
    WITHOUT_ARGUMENTS,
    WORDS,
    in_spark_sql,
    is_word_of_the_clock,
    read_by_session,
    why_not,
    why_not_in_sql,
)
from backfill_assets.transforms.values import (
    MISSING,
    Encoding,
    Names,
    NotPinned,
    found_by,
    is_constant,
    is_of_a_library,
    named,
)

# Added: what aggregates of Spark add up, as far as names in the source show it.

ADDS = frozenset(SUMS | MOMENTS)

_EXACT = re.compile(r"(?:decimal|numeric|bigint|long|int|integer|smallint|tinyint)\b", re.IGNORECASE)
_EXACT_TYPES = {"DecimalType", "LongType", "IntegerType"}
_ROUNDS = {"floor", "ceil", "ceiling"}
_IN_SQL = re.compile(rf"\b({'|'.join(sorted(ADDS))})\s*\(((?:[^()]|\([^()]*\))*)\)", re.IGNORECASE)
_WORD = re.compile(r"(?<![\w'])[a-z_]\w*", re.IGNORECASE)


def texts_in(nodes: Sequence[ast.AST]) -> tuple[str, ...]:
    """The texts in some expressions, and attributes of what they name: any of them may be a column."""
    found: dict[str, None] = {}
    for node in nodes:
        for part in ast.walk(node):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                found[part.value] = None
            elif isinstance(part, ast.Attribute):
                found[part.attr] = None
    return tuple(found)


def is_cast_exactly(node: ast.AST) -> bool:
    """True if something inside is cast to decimals or whole numbers, or rounded to these."""
    for part in ast.walk(node):
        called = getattr(part.func, "attr", getattr(part.func, "id", "")) if isinstance(part, ast.Call) else ""
        if called in _ROUNDS:
            return True
        if not isinstance(part, ast.Call) or called not in ("cast", "try_cast", "astype"):
            continue
        for given in part.args:
            named = getattr(given, "func", given)
            if getattr(named, "id", getattr(named, "attr", "")) in _EXACT_TYPES:
                return True
            if isinstance(given, ast.Constant) and _EXACT.match(str(given.value)):
                return True
    return False


def sums_in_sql(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The aggregates of a text of SQL that add, with the words in them."""
    for found in _IN_SQL.finditer(text):
        if not re.search(rf"\bas\s+{_EXACT.pattern}|\b(?:{'|'.join(_ROUNDS)})\s*\(", found.group(2), re.IGNORECASE):
            yield found.group(1).lower(), tuple(dict.fromkeys(_WORD.findall(found.group(2))))


# Asked by name: a walk over the syntax of a statement, which finds names, methods and texts that are not
# determined.
#
# Names are looked up in the module of the statement (`meanings`); of what is local the name of a method decides.

_CONSTRUCTORS = {"__init__", "__new__", "__post_init__", "__init_subclass__", "__set_name__"}
_UNHEARD = {"debug", "info", "warning", "warn", "error", "exception", "critical", "log", "print"}
"""Calls whose texts are for people."""


class When(IntEnum):
    """When a statement is carried out: while modules are imported, also by methods of what was made then, or later."""

    IMPORTED = 0
    MADE = 1
    CALLED = 2


@dataclass(frozen=True, slots=True, order=True)
class Found:
    """A finding of something that is not determined, or not pinned: where, by which name, and why."""

    file: str
    line: int
    name: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Where in a statement a part of it is."""

    local: frozenset[str]  #: Names that are local there.
    renamed: Mapping[str, Chain] = field(default_factory=dict)  #: Local names that are other names of something.
    made: Mapping[str, Chain] = field(default_factory=dict)  #: Local names of what a call of something gives.
    #: True if it is carried out when a function is called, and not when its module is imported.
    is_in_body: bool = False
    is_heard: bool = True  #: True if its texts may be SQL.
    method: str = ""  #: The name of the function.
    owner: str = ""  #: The name of the class of the module of which it is the body; empty elsewhere.


@dataclass(frozen=True, slots=True, order=True)
class Summed:
    """An aggregate of Spark that adds up columns by name: where, its function, and the names of the columns in it."""

    file: str
    line: int
    function: str
    names: tuple[str, ...]


class Follow(Protocol):
    """Looks at what a name of a module means next."""

    def __call__(self, name: str, chain: Chain, alias: Alias | None, *, when: When) -> None: ...


@dataclass(kw_only=True)
class Walk:
    """A walk over the syntax of one statement."""

    names: Names
    module: str
    file: str
    statement: Statement
    when: When
    found: list[Found]  #: What is not determined, to which the walk adds.
    follow: Follow  #: Called with every name that is no local one.
    summed: list[Summed] = field(default_factory=list)  #: What is added up, to which the walk adds.

    def visit(self, node: ast.AST, scope: Scope) -> None:
        """Looks at a part of the statement, and at everything inside."""
        if node in self.statement.apart:
            return
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                self._function(node, scope)
            case ast.ClassDef(name=name):
                self._inside(node, replace(scope, owner="" if scope.is_in_body else name))
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

    def _inside(self, node: ast.AST, scope: Scope) -> None:
        for child in ast.iter_child_nodes(node):
            self.visit(child, scope)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, scope: Scope) -> None:
        for each in (*getattr(node, "decorator_list", ()), *node.args.defaults, *node.args.kw_defaults):
            if each is not None:
                self.visit(each, scope)
        body: list[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else [*node.body]
        local = names_bound(node)
        made = {k: v for k, v in scope.made.items() if k not in local}
        inner = replace(
            scope,
            local=scope.local | local,
            renamed={**{k: v for k, v in scope.renamed.items() if k not in local}, **other_names(body, local)},
            made={**made, **of_its_class(node, scope.owner), **made_by(body, local)},
            is_in_body=True,
            method=getattr(node, "name", ""),
            owner="",
        )
        for each in body:
            self.visit(each, inner)

    def _call(self, node: ast.Call, scope: Scope) -> None:
        chain = chain_of(node.func)
        called = chain[-1] if chain else getattr(node.func, "attr", "")
        is_known = (chain is not None and self._meant(chain, scope) is not None) or self._is_of_known_class(node, scope)
        arguments: list[ast.AST] = [*node.args, *(each for each in node.keywords if not _is_of_others(node, each))]
        self._sums(called, chain, node, scope)
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
        if not (chain and (self._is_given(chain, node, scope) or self._is_in_memory(chain, node, scope))):
            self.visit(node.func, scope)
        heard = replace(scope, is_heard=scope.is_heard and called not in _UNHEARD)
        for argument in arguments:
            self.visit(argument, heard)

    def _sums(self, called: str, chain: Chain | None, node: ast.Call, scope: Scope) -> None:
        """An aggregate that adds, by the columns that are named in it; none of what was cast to exact numbers."""
        for given in (each for each in node.args if called == "agg" and isinstance(each, ast.Dict)):
            for column, function in zip(given.keys, given.values, strict=True):
                if isinstance(function, ast.Constant) and function.value in ADDS and column is not None:
                    self._add_sum(str(function.value), column, texts_in([column]))
        if called not in ADDS or not (isinstance(node.func, ast.Attribute) or (chain and chain[0] not in scope.local)):
            return
        meant = self._meant(chain, scope) if chain else None
        names = [name for name, _ in self.names.meanings(self.module, *meant)] if meant else []
        if names and not any(name.startswith("pyspark.") for name in names):
            return
        if not is_cast_exactly(node):
            self._add_sum(called, node, texts_in(node.args))

    def _add_sum(self, function: str, node: ast.AST, names: tuple[str, ...]) -> None:
        self.summed.append(Summed(self.file, getattr(node, "lineno", self.statement.line), function, names))

    def _is_given(self, chain: Chain, node: ast.Call, scope: Scope) -> bool:
        """True if a function that asks a clock only when called without arguments is called with one."""
        meant = self._meant(chain, scope)
        if meant is None:
            return False
        for name, _ in self.names.meanings(self.module, *meant):
            needed = GIVEN.get(name) or (1 if name.endswith(".unix_timestamp") and "pyspark" in name else None)
            if needed is not None:
                if given_to(node) < needed:
                    self._add(f"{'.'.join(chain)}()", node.func, why_not(name) or CLOCK)
                return True
        return False

    def _is_in_memory(self, chain: Chain, node: ast.Call, scope: Scope) -> bool:
        """True if a function of a library that reads files is given one in memory."""
        meant, maker = self._meant(chain, scope), self._maker(node.args[0], scope) if node.args else None
        if meant is None or maker is None or not any(name in IN_MEMORY for name, _ in self._names_of(maker, scope)):
            return False
        return any(why_not(name) == OUTSIDE for name, _ in self.names.meanings(self.module, *meant))

    def _is_of_known_class(self, node: ast.Call, scope: Scope) -> bool:
        """True if the called object is a method of a known class: one of the author, which is followed by its name,
        or numbers that follow from a seed."""
        if not isinstance(node.func, ast.Attribute) or (maker := self._maker(node.func.value, scope)) is None:
            return False
        if not (names := self._names_of(maker, scope)):
            return len(maker) == 1
        made = names[-1][1]
        if not isinstance(made, type):
            return False
        is_seeded = any(name in GIVEN for name, _ in names) and node.func.attr not in WITHOUT_ARGUMENTS
        return is_seeded or self.names.sources.file(made.__module__) is not None

    def _maker(self, node: ast.AST, scope: Scope) -> Chain | None:
        """The name of what was called for an object, or of its class."""
        if isinstance(node, ast.Call):
            return chain_of(node.func)
        return scope.made.get(node.id) if isinstance(node, ast.Name) else None

    def _names_of(self, chain: Chain, scope: Scope) -> Sequence[tuple[str, object]]:
        meant = self._meant(chain, scope)
        return [*self.names.meanings(self.module, *meant)] if meant else []

    def _is_called(self, scope: Scope) -> bool:
        return scope.is_in_body and self.when > (When.MADE if scope.method in _CONSTRUCTORS else When.IMPORTED)

    def _meant(self, chain: Chain, scope: Scope) -> tuple[Chain, Alias | None] | None:
        """The meaning of a name in the module; None for a local one."""
        inside = next((alias for alias in self.statement.aliases if alias.bound == chain[0]), None)
        if inside is not None:
            return chain, inside
        if chain[0] in scope.renamed:
            others = {name: other for name, other in scope.renamed.items() if name != chain[0]}
            return self._meant((*scope.renamed[chain[0]], *chain[1:]), replace(scope, renamed=others))
        return None if chain[0] in scope.local else (chain, None)

    def _name(self, chain: Chain, node: ast.AST, scope: Scope) -> None:
        if "_metadata" in chain[1:]:
            self._add("._metadata", node, FILES)
        for attribute in chain[1:]:
            self._is_told_by_attribute(attribute, node, scope)
        full = (*scope.renamed.get(chain[0], chain[:1]), *chain[1:])
        if (read := read_by_session(full)) and self._is_called(scope):
            self._add(read, node, OUTSIDE)
        if chain[0] in scope.made and len(chain) > 1:
            self._of_what_is_made(scope.made[chain[0]], chain[1:], None, node, scope)
        meant = self._meant(chain, scope)
        if meant is None:
            return
        is_called = self._is_called(scope)
        for name, _ in self.names.meanings(self.module, *meant):
            why = why_not(name, is_called=is_called)
            if why and not (name in ("builtins.hash", "builtins.id") and scope.method == "__hash__"):
                self._add(".".join(chain), node, why)
                break
        else:
            self._handed_on(chain, meant, node, is_called=is_called)
        self.follow(self.module, *meant, when=When.CALLED if is_called else When.IMPORTED)

    def _handed_on(self, chain: Chain, meant: tuple[Chain, Alias | None], node: ast.AST, *, is_called: bool) -> None:
        """A module of clocks, chance or the machine that is no part of a longer name."""
        value = [*self.names.meanings(self.module, *meant)][-1][1]
        why = HANDED_ON.get(value.__name__) if isinstance(value, ModuleType) else None
        if why and (is_called or why != MACHINE):
            self._add(".".join(chain), node, why)

    def _attribute(self, node: ast.Attribute, scope: Scope) -> None:
        """An attribute of what is no name."""
        self._is_told_by_attribute(node.attr, node, scope)
        if found := over_a_call(node):
            call, attributes = found
            if module := imported_by_call(call):
                self._of_what_is_made((module,), attributes, Alias(module, module=module, name=None), node, scope)
            elif chain := chain_of(call.func):
                self._of_what_is_made(chain, attributes, None, node, scope)
        self._inside(node, scope)

    def _is_told_by_attribute(self, attribute: str, node: ast.AST, scope: Scope) -> None:
        if (why := ATTRIBUTES.get(attribute)) and self._is_called(scope):
            self._add(f".{attribute}", node, why)

    def _of_what_is_made(
        self, maker: Chain, attributes: Chain, alias: Alias | None, node: ast.AST, scope: Scope
    ) -> None:
        """Attributes of an object, by the name of its class, or of a module that a call imports."""
        meant = (maker, alias) if alias else self._meant(maker, scope)
        if meant is None:
            return
        of_maker = [name for name, _ in self.names.meanings(self.module, *meant)]
        if any(name in GIVEN for name in of_maker):
            return  # it follows from what it was given, or was refused where it was made
        names = self.names.meanings(self.module, (*meant[0], *attributes), meant[1])
        for name, _ in islice(names, len(of_maker), None):
            if why := why_not(name, is_called=self._is_called(scope)):
                self._add(name, node, why)
                return

    def _put_together(self, node: ast.AST, scope: Scope, *, is_sql: bool = False) -> None:
        """A text of several parts; what is put in is a name for those who read it as SQL."""
        parts = list(parts_of(node))
        if any(isinstance(part, str) for part in parts):
            text = "".join(part if isinstance(part, str) else "x" for part in parts)
            self._text(text, node, scope, is_sql=is_sql)
        for part in parts:
            if isinstance(part, ast.AST):
                self.visit(part, scope)

    def _sql(self, node: ast.AST, scope: Scope) -> None:
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
                held = [*self.names.meanings(self.module, *meant)][-1][1] if meant else MISSING
                for text in held if isinstance(held, list | tuple) else [held]:
                    if isinstance(text, str):
                        self._text(text, node, scope, is_sql=True)

    def _text(self, text: str, node: ast.AST, scope: Scope, *, is_sql: bool = False) -> None:
        if not (scope.is_heard or is_sql):
            return
        if is_sql:
            for function, names in sums_in_sql(text):
                self._add_sum(function, node, names)
        if text == "_metadata" or text.startswith("_metadata."):
            self._add(text, node, FILES)
        elif found := in_spark_sql(text, is_sql=is_sql):
            line = line_in(node, found)
            self.found.append(Found(self.file, line, found, why_not_in_sql(found)))

    def _add(self, name: str, node: ast.AST, why: str) -> None:
        self.found.append(Found(self.file, getattr(node, "lineno", self.statement.line), name, why))


def _is_of_others(call: ast.Call, given: ast.keyword) -> bool:
    """True if an argument of a declaration is about other tables, or other releases."""
    return is_declaration(call) and given.arg in ("inputs", "earlier")


_DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def require_determined(domain: Domain, sources: Sources, table: Table, version: str) -> tuple[InexactSum, ...]:
    """Refuses a table whose rows, gates or windows do not follow from what a manifest pins.

    Returns:
        The additions of floating-point numbers that names in its code show.

    Raises:
        NotDetermined: It reaches a clock, randomness, the environment, or what differs by task or by file.
        ContractBroken: It reaches a value that is not the same thing in every process.
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
        raise ContractBroken.coded(
            "not_pinnable",
            "{table} uses {name}, bound in {file}, line {line}: its value, a {kind}, cannot be pinned in a manifest.",
            then="bind a constant, such as a number, a text, a tuple or a StructType, or make it inside of the "
            "function; then plan again",
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
