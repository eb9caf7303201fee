"""Reads what a class says of each field: the comment that begins with `#:` on the field's line, or on the lines above.

    rows: int  #: How many rows it has.
    #: A longer description has lines of its own, before the field.
    days: Partitions

A field that a class inherits is described by the class that declares it.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from collections.abc import Mapping, Sequence

MARK = "#: "


def comments_of(kind: type) -> Mapping[str, str]:
    """The description of each field of a class, those of its base classes first."""
    found: dict[str, str] = {}
    for each in reversed(inspect.getmro(kind)):
        module = sys.modules.get(each.__module__)
        if (path := getattr(module, "__file__", None)) and path.endswith(".py"):
            for name, meaning in _of_file(path).get(each.__qualname__, {}).items():
                found[name] = meaning
    return found


@functools.cache
def _of_file(path: str) -> Mapping[str, Mapping[str, str]]:
    """The comments in a file: of each class by its qualified name, of each field."""
    with open(path, encoding="utf-8") as file:  # noqa: PTH123 - the name is what the module was loaded from
        text = file.read()
    lines = text.splitlines()
    found: dict[str, Mapping[str, str]] = {}
    _add(ast.parse(text).body, "", lines, found)
    return found


def _add(body: Sequence[ast.stmt], prefix: str, lines: Sequence[str], found: dict[str, Mapping[str, str]]) -> None:
    for node in body:
        if isinstance(node, ast.ClassDef):
            name = prefix + node.name
            said = (
                (ast.unparse(each.target), _said(each, lines)) for each in node.body if isinstance(each, ast.AnnAssign)
            )
            found[name] = {field: text for field, text in said if text}
            _add(node.body, f"{name}.", lines, found)


def _said(node: ast.AnnAssign, lines: Sequence[str]) -> str:
    """The comment behind a field, or in the lines directly above it; empty where it has none."""
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    behind = lines[node.end_lineno - 1].encode()[node.end_col_offset :].decode().strip()
    if behind.startswith(MARK):
        return behind.removeprefix(MARK)
    above: list[str] = []
    for line in reversed(lines[: node.lineno - 1]):
        if not line.strip().startswith(MARK):
            break
        above.insert(0, line.strip().removeprefix(MARK))
    return " ".join(above)
