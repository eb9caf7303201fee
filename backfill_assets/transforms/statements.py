"""Statements of an author's modules: what each binds and uses, and what of them a function uses, also indirectly.

Names are followed from definition to definition, through imports and packages that pass a name on; nothing is executed.
Of a module that is reached, every line counts but the definitions, and the imported names, that nothing reached uses.
What a table declares as its inputs is not followed: their rows are pinned. A module that is imported by a computed name
could be any, so that the whole package counts. Where names do not say what is used, such as with `import *`,
`globals()` or a module that is handed on as a value, all of the module counts.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from types import CodeType

import backfill_assets
from backfill_assets.domain import Domain, Failing, Table
from backfill_assets.domain.failing_rows import FailingFunction

# Statements of an author's module: what each of them binds and uses, read from the source.
#
# Definitions below an `if`, a loop, a `try`, a `with` or a `match` are definitions like others, with the lines
# around them that decide about them; so are tables that a class or a function declares, which are no part of it.

_BY_NAME = {"import_module", "__import__"}
"""Functions that import a module by its name."""

WHOLE = "*"
"""In place of a name: all of the module."""

_DECLARES = "derived_table"
_APART = {_DECLARES: frozenset({"inputs", "gates"}), "failing": frozenset({"reads"})}
"""Arguments of declarations that say nothing of how rows are computed: inputs, whose rows are pinned, and gates."""

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)

Named = tuple[str, str]
"""A module, and a name in it."""

Chain = tuple[str, ...]
"""A name with the attributes that are taken of it: `rules.ONE`."""


@dataclass(frozen=True, slots=True)
class Alias:
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
class Statement:
    """A statement of a module, with the names that it binds and uses, and the imports inside."""

    line: int  #: Where it begins.
    lines: frozenset[int]  #: Its own, and those of the statements around it that are no definitions.
    binds: frozenset[str]
    is_always: bool  #: True if it does something else than to bind names when the module is imported.
    uses: frozenset[Chain]
    aliases: tuple[Alias, ...]
    around: frozenset[str] = field(compare=False)  #: What encloses its nodes: the names that are local there.
    nodes: tuple[ast.AST, ...] = field(compare=False)  #: The syntax, for those who look for more than names.
    apart: frozenset[ast.AST] = field(compare=False)  #: What lies inside and is a statement of its own.


@dataclass(frozen=True, slots=True)
class Module:
    """A parsed module."""

    source: bytes
    statements: tuple[Statement, ...]
    aliases: tuple[Alias, ...]
    import_lines: frozenset[int]
    gate_lines: frozenset[int]
    only_inputs: frozenset[str]
    has_star: bool
    by_name: bool

    def content(self, used: set[Statement], aliases: set[Alias]) -> bytes:
        """The lines of the module without unused definitions and blank ones, and the imports that are used."""
        covered = {line for each in self.statements for line in each.lines} | self.import_lines | self.gate_lines
        kept = {line for each in used for line in each.lines} - self.gate_lines
        lines = [
            text
            for number, text in enumerate(self.source.splitlines(), start=1)
            if number in kept or (number not in covered and text.strip())
        ]
        return b"\n".join([*lines, *sorted(each.text.encode() for each in aliases)])

    def binding(self, name: str) -> Iterator[Statement]:
        """The statements that bind a name."""
        return (each for each in self.statements if name in each.binds)


@lru_cache(maxsize=512)
def parsed_module(source: bytes, package: str) -> Module:
    """A module by its bytes: a process that stays opens many workspaces, and parses what has not changed once."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return Module(source, (), (), frozenset(), frozenset(), frozenset(), has_star=False, by_name=True)
    reader = _Reader(package=package, tree=tree)
    used = {chain[0] for each in reader.statements for chain in each.uses}
    return Module(
        source=source,
        statements=tuple(reader.statements),
        aliases=tuple(reader.aliases),
        import_lines=frozenset(reader.import_lines),
        gate_lines=frozenset(_lines_of_gates(tree)),
        only_inputs=frozenset(_inputs(tree)) - used,
        has_star=any(alias.name == WHOLE for alias in reader.aliases),
        by_name=any(imported_by_call(node) == "" for node in ast.walk(tree)),
    )


class _Reader:
    """Takes a module apart into statements that bind names, statements that do something, and imports."""

    def __init__(self, *, package: str, tree: ast.Module) -> None:
        self.statements: list[Statement] = []
        self.aliases: list[Alias] = []
        self.import_lines: set[int] = set()
        self._package = package
        self._imported: set[str] = set()
        self._bound: set[str] = set()
        self._declaring = {
            node.name
            for node in tree.body
            if isinstance(node, ast.FunctionDef) and any(map(is_declaration, ast.walk(node)))
        }
        leaves = list(_leaves(tree.body, ()))
        for node, _ in leaves:
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._imported |= {alias.bound for alias in _aliases(node, package)}
            else:
                self._bound |= _stored(node, itself=True)
        for node, heads in leaves:
            self._read(node, heads)
        for head in dict.fromkeys(head for _, heads in leaves for head in heads):
            parts = _head_parts(head)
            if bound := frozenset(name for part in parts for name in _stored(part, itself=True)):
                self._add(head.lineno, _head_lines(head), bound, parts)

    def _read(self, node: ast.stmt, heads: tuple[ast.stmt, ...]) -> None:
        around = [part for head in heads for part in _head_parts(head)]
        lines = frozenset(_lines(node)).union(*map(_head_lines, heads))
        if isinstance(node, ast.Import | ast.ImportFrom):
            found = list(_aliases(node, self._package))
            self.aliases += found
            self.import_lines.update(_lines(node))
            if heads:
                # Which of several imports counts is decided around them.
                self._add(node.lineno, lines, frozenset(alias.bound for alias in found), around)
            return
        binds = self._binds(node)
        tables = [] if isinstance(node, ast.Expr) else list(_tables_inside(node))
        apart = frozenset(inner for inner, _, _ in tables)
        own = lines - {line for inner in apart for line in _lines(inner)}
        bound = _stored(node, itself=True) if binds is None else binds
        self._add(node.lineno, own, bound, [node, *around], apart=apart, is_always=binds is None)
        for inner, names, local in tables:
            self._add(inner.lineno, frozenset(_lines(inner)), names, [inner], around=local)

    def _add(
        self,
        line: int,
        lines: frozenset[int],
        binds: frozenset[str],
        nodes: Sequence[ast.AST],
        *,
        around: frozenset[str] = frozenset(),
        apart: frozenset[ast.AST] = frozenset(),
        is_always: bool = False,
    ) -> None:
        self.statements.append(
            Statement(
                line=line,
                lines=lines,
                binds=binds,
                is_always=is_always,
                uses=frozenset(chain for node in nodes for chain, _ in names_used(node, around, apart)),
                aliases=tuple(alias for node in nodes for alias in _imports_inside(node, self._package, apart)),
                around=around,
                nodes=tuple(nodes),
                apart=apart,
            )
        )

    def _binds(self, node: ast.stmt) -> frozenset[str] | None:
        """The names that a statement binds, or whose values it changes; None for one that does something else."""
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return frozenset({node.name})
            case ast.Assign(targets=targets) if all(map(self._is_own, targets)):
                return frozenset(name for target in targets for name in _roots(target))
            case ast.AnnAssign(target=target) | ast.AugAssign(target=target) if self._is_own(target):
                return frozenset(_roots(target))
            case ast.Expr(value=ast.Constant()) | ast.Pass() | ast.Break() | ast.Continue():
                return frozenset()
            case ast.Expr(value=ast.Call(func=ast.Attribute() as method)) if self._is_own(method.value):
                # Its values are pinned where they are used: a registry counts for those who look into it.
                return frozenset(_roots(method.value))
            case ast.Expr(value=ast.Call(func=ast.Name(id=name))) if name in self._declaring:
                return frozenset()
            case ast.Delete(targets=targets) if all(map(self._is_own, targets)):
                return frozenset(name for target in targets for name in _roots(target))
        return None

    def _is_own(self, target: ast.expr) -> bool:
        """True if what is bound or changed belongs to names of this module, and is not an imported module."""
        if isinstance(target, ast.Name):
            return True
        roots = list(_roots(target))
        return bool(roots) and all(root in self._bound and root not in self._imported for root in roots)


def _roots(target: ast.expr) -> Iterator[str]:
    """The names that hold what a target is a part of."""
    match target:
        case ast.Name(id=name):
            yield name
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            for part in parts:
                yield from _roots(part)
        case ast.Starred(value=value) | ast.Attribute(value=value) | ast.Subscript(value=value):
            yield from _roots(value)


def _leaves(body: Iterable[ast.stmt], heads: tuple[ast.stmt, ...]) -> Iterator[tuple[ast.stmt, tuple[ast.stmt, ...]]]:
    """The statements of a block that have no block, or a scope of their own, with those around them."""
    for node in body:
        if isinstance(node, _SCOPES) or not (inner := list(_blocks(node))):
            yield node, heads
        else:
            yield from _leaves(inner, (*heads, node))


def _blocks(node: ast.AST) -> Iterator[ast.stmt]:
    """The statements directly below a statement that is no definition."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        elif isinstance(child, ast.ExceptHandler | ast.match_case):
            yield from child.body


def _head_parts(node: ast.stmt) -> list[ast.AST]:
    """The expressions and names that a statement with blocks evaluates and binds itself."""
    parts: list[ast.AST] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ExceptHandler):
            parts += [part for part in [child.type] if part]
        elif isinstance(child, ast.match_case):
            parts += [part for part in [child.pattern, child.guard] if part]
        elif not isinstance(child, ast.stmt):
            parts.append(child)
    return parts


@lru_cache(maxsize=1024)
def _head_lines(node: ast.stmt) -> frozenset[int]:
    """The lines of a statement without those of its blocks."""
    return frozenset(_lines(node)).difference(*(_lines(inner) for inner in _blocks(node)))


def _tables_inside(node: ast.AST) -> Iterator[tuple[ast.stmt, frozenset[str], frozenset[str]]]:
    """The tables that a class or a function declares, with their names and the names that are local around them."""
    if not isinstance(node, _SCOPES):
        return
    of_the_module = {name for each in ast.walk(node) if isinstance(each, ast.Global) for name in each.names}
    waiting = [(child, node.name, names_bound(node)) for child in ast.iter_child_nodes(node)]
    while waiting:
        each, outer, local = waiting.pop()
        if isinstance(each, ast.FunctionDef) and any(map(is_declaration, each.decorator_list)):
            yield each, frozenset({f"{outer}.{each.name}", *({each.name} & of_the_module)}), local
            continue
        if isinstance(each, _SCOPES):
            outer, local = f"{outer}.{each.name}", local | names_bound(each)
        waiting += [(child, outer, local) for child in ast.iter_child_nodes(each)]


def _lines(node: ast.stmt) -> range:
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(each.lineno for each in decorators)])
    return range(first, (node.end_lineno or node.lineno) + 1)


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


def names_bound(node: ast.AST) -> frozenset[str]:
    """The names that are local in the body of a function; those of a class are seen by nothing inside."""
    if not isinstance(node, _FUNCTIONS):
        return frozenset()
    body: list[ast.AST] = [*node.body] if isinstance(node.body, list) else [node.body]
    arguments = {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
    of_the_module = {name for each in ast.walk(node) if isinstance(each, ast.Global) for name in each.names}
    return frozenset(arguments.union(*(_stored(each, itself=True) for each in body)) - of_the_module)


def names_used(
    node: ast.AST, local: frozenset[str], apart: frozenset[ast.AST] = frozenset()
) -> Iterator[tuple[Chain, ast.AST]]:
    """The names of the module that a part of it uses, with their attributes, and where; no inputs of a table."""
    if node in apart:
        return
    if chain := chain_of(node):
        if chain[0] not in local:
            yield chain, node
        return
    if isinstance(node, _FUNCTIONS):
        body = [*node.body] if isinstance(node.body, list) else [node.body]
        of_the_module = {name for each in ast.walk(node) if isinstance(each, ast.Global) for name in each.names}
        inner = (local | names_bound(node)) - of_the_module
        for child in ast.iter_child_nodes(node):
            yield from names_used(child, inner if child in body else local, apart)
        return
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.keyword) and child.arg in _apart(node)):
            yield from names_used(child, local, apart)


def chain_of(node: ast.AST) -> Chain | None:
    """The chain that an expression is, also written as `getattr(module, "name")`; None for any other."""
    match node:
        case ast.Name(id=name, ctx=ast.Load()):
            return (name,)
        case (
            ast.Attribute(value=value, attr=attribute)
            | ast.Call(func=ast.Name(id="getattr"), args=[value, ast.Constant(value=str(attribute)), *_])
            | ast.Subscript(
                value=ast.Attribute(value=value, attr="__dict__") | ast.Call(func=ast.Name(id="vars"), args=[value]),
                slice=ast.Constant(value=str(attribute)),
            )
        ):
            before = chain_of(value)
            return (*before, attribute) if before else None
    return None


def is_declaration(node: ast.AST) -> bool:
    """True if a part of a module declares a derived table."""
    return isinstance(node, ast.Call) and (chain_of(node.func) or ("",))[-1] == _DECLARES


def _apart(node: ast.AST) -> frozenset[str]:
    """The arguments of a call that are not followed; none of a call that declares nothing."""
    name = (chain_of(node.func) or ("",))[-1] if isinstance(node, ast.Call) else ""
    return _APART.get(name, frozenset())


def _inputs(tree: ast.Module) -> Iterator[str]:
    """The names that only declare what is read, and what is measured."""
    for call in ast.walk(tree):
        for keyword in call.keywords if isinstance(call, ast.Call) else ():
            if keyword.arg in _apart(call):
                yield from (each.id for each in ast.walk(keyword.value) if isinstance(each, ast.Name))


def _lines_of_gates(node: ast.AST) -> Iterator[int]:
    """The lines of a declaration that say what is measured, and nothing else."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and is_declaration(call):
            others: list[ast.expr | ast.keyword] = [*call.args, *(k for k in call.keywords if k.arg != "gates")]
            shared = {call.func.lineno, *(line for each in others for line in _lines_between(each))}
            for keyword in call.keywords:
                if keyword.arg == "gates":
                    yield from (line for line in _lines_between(keyword) if line not in shared)


def _lines_between(node: ast.expr | ast.keyword) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _imports_inside(node: ast.AST, package: str, apart: frozenset[ast.AST]) -> Iterator[Alias]:
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if each in apart:
            continue
        waiting += ast.iter_child_nodes(each)
        if isinstance(each, ast.Import | ast.ImportFrom):
            yield from _aliases(each, package)
        elif (name := imported_by_call(each)) is not None:
            yield Alias("", module=name, name=None)


def _aliases(node: ast.Import | ast.ImportFrom, package: str) -> Iterator[Alias]:
    if isinstance(node, ast.Import):
        for each in node.names:
            first = each.name.partition(".")[0]
            yield Alias(each.asname or first, module=each.name, name=None, is_first_part=each.asname is None)
        return
    parts = package.split(".")
    above = parts[: len(parts) - node.level + 1] if node.level else []
    base = ".".join([*above, *([node.module] if node.module else [])])
    for each in node.names:
        yield Alias(each.asname or each.name, module=base, name=each.name)


def imported_by_call(node: ast.AST) -> str | None:
    """The module that a call imports by a constant name; empty for a computed one, None for any other part."""
    if not isinstance(node, ast.Call) or (chain_of(node.func) or ("",))[-1] not in _BY_NAME:
        return None
    match node.args:
        case [ast.Constant(value=str(name))] if not name.startswith("."):
            return name
    return ""


# Written functions: the text of a function where it is defined, by which functions of one name are told apart.
#
# A module can define a function twice, such as below an `if` and its `else`, or two without a name in one line.
# Which of them a process uses is no line of the module.

_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def written_as(code: CodeType, source: bytes) -> str | None:
    """The text of a function in the module that defines it; None where it is not written there.

    One that declares tables inside has no text of its own: each of these is code of its own.
    """
    named = [(line, node) for line, node in _functions(source) if _name_of(node) == code.co_name]
    found = [node for line, node in named if line == code.co_firstlineno]
    if not found and len(named) == 1:
        # The file was edited after it was imported.
        found = [node for _, node in named]
    elif len(found) > 1:
        found = sorted((node for node in found if _holds(node, code)), key=_length)
    if not found:
        return None
    body = found[0].body
    inside = body if isinstance(body, list) else [body]
    if any(is_declaration(part) for each in inside for part in ast.walk(each)):
        return ""
    return ast.get_source_segment(source.decode("utf-8", "replace"), found[0]) or ""


@lru_cache(maxsize=256)
def _functions(source: bytes) -> Sequence[tuple[int, _Function]]:
    """All functions of a module, each after the line that Python takes for its first one."""
    found = list[tuple[int, _Function]]()
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return found
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            decorated = (each.lineno for each in getattr(node, "decorator_list", ()))
            found.append((min(decorated, default=node.lineno), node))
    return found


def _name_of(node: _Function) -> str:
    return "<lambda>" if isinstance(node, ast.Lambda) else node.name


def _holds(node: _Function, code: CodeType) -> bool:
    """True if all places of a function's instructions lie in a definition of several in its line."""
    begins, ends = (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)
    places = [
        ((line, column), (last, end))
        for line, last, column, end in code.co_positions()
        if line is not None and last is not None and column is not None and end is not None and end > column
    ]
    return all(begins <= first and last <= ends for first, last in places)


def _length(node: _Function) -> tuple[int, int]:
    return (node.end_lineno or 0) - node.lineno, (node.end_col_offset or 0) - node.col_offset


# Syntax of an author's functions: texts that are put together, and local names that are other names of something.


def line_in(node: ast.AST, found: str) -> int:
    """The line of what was found in a text over several lines."""
    line = int(getattr(node, "lineno", 0))
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and (node.end_lineno or line) > line:
        before = node.value.lower().partition(found.split("(")[0].lower())[0]
        return min(line + before.count("\n"), node.end_lineno or line)
    return line


def formatted(call: ast.Call, text: str) -> str:
    """A text with the constants that are put in, and a name for everything else."""
    given = [each.value if isinstance(each, ast.Constant) else "x" for each in call.args]
    named = {
        each.arg: each.value.value if isinstance(each.value, ast.Constant) else "x"
        for each in call.keywords
        if each.arg
    }
    try:
        return text.format(*given, **named)
    except (LookupError, ValueError, AttributeError, TypeError):
        return text


def parts_of(node: ast.AST) -> Iterator[str | ast.AST]:
    """The texts of which one is put together, and what is put in between."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=parts):
            for part in parts:
                yield from parts_of(part)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            yield from parts_of(left)
            yield from parts_of(right)
        case ast.BinOp(left=ast.Constant(value=str(text)), op=ast.Mod(), right=right):
            yield text.replace("%s", "x").replace("%d", "0")
            yield right
        case ast.FormattedValue(value=value):
            yield value
        case ast.BinOp(left=before, right=after):
            yield before
            yield after
        case _:
            yield node


def other_names(body: Iterable[ast.AST], local: frozenset[str]) -> Mapping[str, Chain]:
    """Local names that are bound once, to another name."""
    once = _bound_once(body, local)
    return {name: chain for name, value in once.items() if (chain := chain_of(value)) and chain[0] != name}


def made_by(body: Iterable[ast.AST], local: frozenset[str]) -> Mapping[str, Chain]:
    """Local names that are bound once, to what a call of a name gives: an object, where that is a class."""
    once = _bound_once(body, local)
    return {
        name: chain
        for name, value in once.items()
        if isinstance(value, ast.Call) and (chain := chain_of(value.func)) and chain[0] != name
    }


def of_its_class(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, owner: str) -> Mapping[str, Chain]:
    """The first argument of a method, which is an object of its class, or the class itself."""
    decorated = {chain_of(each) for each in getattr(node, "decorator_list", ())}
    first = [*node.args.posonlyargs, *node.args.args][:1]
    return {} if not owner or ("staticmethod",) in decorated else {each.arg: (owner,) for each in first}


def _bound_once(body: Iterable[ast.AST], local: frozenset[str]) -> Mapping[str, ast.AST]:
    bound: dict[str, list[ast.AST | None]] = {}
    for node in (part for each in body for part in ast.walk(each)):
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.NamedExpr(target=ast.Name(id=name), value=value)
            ):
                bound.setdefault(name, []).append(value)
            case ast.Name(id=name, ctx=ast.Store()):
                bound.setdefault(name, []).append(None)
    return {
        name: value
        for name, values in bound.items()
        # Each assignment stores its name as well.
        if name in local and len(values) == 2
        for value in values
        if value is not None
    }


def over_a_call(node: ast.AST) -> tuple[ast.Call, Chain] | None:
    """The call of whose result attributes are taken, with these; None for any other part."""
    match node:
        case ast.Attribute(value=ast.Call() as call, attr=attribute):
            return call, (attribute,)
        case ast.Attribute(value=value, attr=attribute) if found := over_a_call(value):
            return found[0], (*found[1], attribute)
    return None


def given_to(call: ast.Call) -> int:
    """The number of arguments of a call, without those that are None."""
    values = [*call.args, *(each.value for each in call.keywords)]
    return sum(not (isinstance(each, ast.Constant) and each.value is None) for each in values)


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
