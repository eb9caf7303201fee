"""Messages: every text of the package that a person can read, with its place, as its source has it.

A text is a string with spaces that is no docstring, the sentence of an error class, or the help of a command. Values
are written as `{...}`. Texts that only a machine reads, such as SQL, are among them: they have no sign of prose.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import backfill_assets

PACKAGE = Path(backfill_assets.__file__).parent
_NOT_FOR_PEOPLE = ("ledger/migrations/",)
_LEAST = 8
"""Shorter strings are names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A text that a person can read."""

    place: str  #: Its module and line.
    text: str


@cache
def messages() -> tuple[Message, ...]:
    """Every message of the package, module by module."""
    found: list[Message] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith(_NOT_FOR_PEOPLE):
            found += messages_in(ast.parse(path.read_text(encoding="utf-8")), name)
    return tuple(found)


def messages_in(module: ast.Module, name: str) -> Iterator[Message]:
    """The messages of a module."""
    documents = set[int]()
    for node in ast.walk(module):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            documents |= {id(each.value) for each in node.body if isinstance(each, ast.Expr)}
            if _is_shown(node, name) and (shown := ast.get_docstring(node)):
                yield Message(place=f"{name}:{node.body[0].lineno}", text=" ".join(shown.split()))
    parts = {id(part) for node in ast.walk(module) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(module):
        if isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in documents | parts:
            text = _text(node)
            if " " in text.strip() and len(text) >= _LEAST:
                yield Message(place=f"{name}:{node.lineno}", text=" ".join(text.split()))


def _is_shown(node: ast.AST, name: str) -> bool:
    """Whether the docstring of a class or a function is shown: the sentence of an error, the help of a command."""
    match node:
        case ast.ClassDef():
            return any(ast.unparse(each) == "sentence" for each in node.decorator_list)
        case ast.FunctionDef():
            return name.startswith("cli/") and any("command" in ast.unparse(each) for each in node.decorator_list)
    return False


def _text(node: ast.Constant | ast.JoinedStr) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    return "".join(part.value if isinstance(part, ast.Constant) else "{...}" for part in node.values)  # type: ignore[misc]
