"""Written functions: the text of a function where it is defined, by which functions of one name are told apart.

A module can define a function twice, such as below an `if` and its `else`, or two without a name in one line. Which of
them a process uses is no line of the module.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import lru_cache
from types import CodeType

from backfill_assets.transforms.statements import is_declaration

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
