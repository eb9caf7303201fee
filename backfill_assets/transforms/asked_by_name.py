"""Asked by name: a walk over the syntax of a statement, which finds names, methods and texts that are not determined.

Names are looked up in the module of the statement (`meanings`); of what is local the name of a method decides.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import islice
from types import ModuleType
from typing import Protocol

from backfill_assets.transforms.added import ADDS, is_cast_exactly, sums_in_sql, texts_in
from backfill_assets.transforms.meanings import Names
from backfill_assets.transforms.statements import (
    Alias,
    Chain,
    Statement,
    chain_of,
    imported_by_call,
    is_declaration,
    names_bound,
)
from backfill_assets.transforms.syntax import (
    formatted,
    given_to,
    line_in,
    made_by,
    of_its_class,
    other_names,
    over_a_call,
    parts_of,
)
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
from backfill_assets.transforms.values import MISSING

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
    #: Whether it is carried out when a function is called, and not when its module is imported.
    is_in_body: bool = False
    is_heard: bool = True  #: Whether its texts may be SQL.
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
