"""Syntax of an author's functions: texts that are put together, and local names that are other names of something."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping

from backfill_assets.transforms.statements import Chain, chain_of


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
