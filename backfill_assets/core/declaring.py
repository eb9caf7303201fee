"""Declaring: arguments of declarations, held against their annotations when an author writes them.

`declared` checks every argument of a function or a class, and says which one is wrong, what it must be and what it is.
What follows from the values is checked by the declaration itself. Where a declaration is written is known as well.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from difflib import get_close_matches
from typing import Any, Literal, TypeVar

from backfill_assets.core.errors import InvalidDeclaration

F = TypeVar("F", bound=Callable[..., Any])

_THIS_PROJECT = __name__.partition(".")[0]
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_WRITTEN = re.compile(r"Written with (?P<calls>`\w+\(\.*\)`(?: or `\w+\(\.*\)`)*)\.")
"""In the docstring of a class, by which functions an author makes one."""
_ALIKE = 0.65
"""The likeness from which on a name is taken for another one with a typing mistake."""

_WORDS = {
    str: "a text",
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    Decimal: 'a Decimal, such as Decimal("0.1")',
    date: "a date, such as date(2026, 1, 31)",
    timedelta: "a timedelta, such as timedelta(hours=1)",
    Callable: "a function",
}


def declared(made: F) -> F:
    """A function, or a class, that refuses arguments of other types than it is annotated with.

    Raises:
        InvalidDeclaration: By the function: which argument is wrong, what it must be, and what it is.
    """
    called: Any = vars(made)["__init__"] if isinstance(made, type) else made
    signature = inspect.signature(called)

    @functools.wraps(called)
    def checked(*args: Any, **named: Any) -> Any:
        try:
            bound = signature.bind(*args, **named)
        except TypeError as error:
            named_only = inspect.Parameter.KEYWORD_ONLY
            takes = ", ".join(
                f"{name}=..." if each.kind is named_only else name
                for name, each in signature.parameters.items()
                if name != "self"
            )
            raise InvalidDeclaration(f"{made.__name__}(...): {error}; it takes {takes}.") from error
        _require_types(made, bound.arguments)
        return called(*args, **named)

    if isinstance(made, type):
        made.__init__ = checked  # type: ignore[misc]
        return made
    return typing.cast("F", checked)


def _require_types(made: Any, given: Mapping[str, object]) -> None:
    for name, value in given.items():
        hint = _hints(made).get(name, Any)
        if not _fits(value, hint):
            raise InvalidDeclaration(f"{made.__name__}(...): {name} must be {_words(hint, value)}, not {shown(value)}.")


def require_parts(value: Any, *, of: str) -> None:
    """Refuses values of other types than the attributes of a declaration have, and of the declarations in it.

    Args:
        value: A dataclass.
        of: Names it in the refusal, such as `bronze.orders: capture`.

    Raises:
        InvalidDeclaration: Names the first one.
    """
    for each in dataclasses.fields(value):
        held, hint = getattr(value, each.name), _hints(typing.cast("Hashable", type(value))).get(each.name, Any)
        if not _fits(held, hint):
            raise InvalidDeclaration(f"{of}.{each.name} must be {_words(hint, held)}, not {shown(held)}.")
        if dataclasses.is_dataclass(held) and not isinstance(held, type):
            require_parts(held, of=f"{of}.{each.name}")


def shown(value: object) -> str:
    """A value in a refusal: its beginning, and its type where that does not show."""
    if isinstance(value, types.FunctionType | types.BuiltinFunctionType):
        is_called = (
            f"{value.__module__}".startswith(f"{_THIS_PROJECT}.domain.") and not inspect.signature(value).parameters
        )
        return f"the function {value.__name__}" + (f", which is called: {value.__name__}()" if is_called else "")
    text = _ADDRESS.sub("", repr(value))
    text = text if len(text) <= 60 else f"{text[:57]}..."
    is_plain = value is None or isinstance(value, str | bool | int | float | list | dict | tuple | set)
    return text if is_plain else f"{text} ({type(value).__name__})"


def meant(name: object, known: Iterable[str]) -> str:
    """The name that was probably meant, as the end of a sentence; empty when there is no similar one."""
    names, text = list(known), f"{name}"
    if same := [each for each in names if each.casefold() == text.casefold()]:
        return f", which has {same[0]!r}: upper and lower case make a difference"
    near = get_close_matches(text, names, n=1, cutoff=_ALIKE)
    return f"; did you mean {near[0]!r}?" if near else ""


def place_of_declaration() -> str:
    """The file and the line of the author that is executed now; empty where there is none."""
    frame = sys._getframe(1)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        is_ours = name.partition(".")[0] in (_THIS_PROJECT, *sys.stdlib_module_names) and ".examples" not in name
        if not is_ours and not frame.f_code.co_filename.startswith("<"):
            return f"{frame.f_code.co_filename}, line {frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return ""


@functools.cache
def _hints(made: Hashable) -> Mapping[str, Any]:
    return typing.get_type_hints(typing.cast("Any", made))


def _fits(value: object, hint: Any) -> bool:
    """True if a value is of the type of an annotation; an unspecific annotation accepts any value."""
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or isinstance(hint, TypeVar | str):
        return True
    if origin in (types.UnionType, typing.Union):
        return any(_fits(value, each) for each in inside)
    if origin is Literal:
        return any(type(value) is type(each) and value == each for each in inside)
    if origin is tuple and len(inside) == 2 and inside[1] is Ellipsis:
        return isinstance(value, tuple) and all(_fits(each, inside[0]) for each in value)
    if origin is tuple:
        return isinstance(value, tuple) and len(value) == len(inside) and all(map(_fits, value, inside))
    if origin is Mapping or origin is dict:
        keys, values = inside
        return isinstance(value, Mapping) and all(_fits(k, keys) and _fits(v, values) for k, v in value.items())
    if origin is Callable:
        return callable(value)
    if origin is Iterable:
        # A text is a collection of its letters, which nobody means.
        if not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping):
            return False
        return isinstance(value, Iterator) or all(_fits(each, inside[0]) for each in value)
    kind = origin or hint
    if kind in (int, float, Decimal):
        return isinstance(value, (int, kind)) and not isinstance(value, bool)
    if kind is date:
        return isinstance(value, date) and not isinstance(value, datetime)
    return isinstance(value, kind) if isinstance(kind, type) else True


def _words(hint: Any, value: object) -> str:
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if (written := _WRITTEN.search(getattr(hint, "__doc__", None) or "")) and isinstance(hint, type):
        return written["calls"].replace("`", "")
    if hint is type(None):
        return "None"
    if origin in (types.UnionType, typing.Union):
        # None is one of several values where the others are listed.
        named = [each for each in inside if each is not type(None) or any(map(_is_literal, inside))]
        return " or ".join(dict.fromkeys(_words(each, value) for each in named))
    if origin is Literal:
        return " or ".join(map(repr, inside))
    if origin is tuple or origin is Iterable:
        alone = _fits(value, inside[0])
        return f"a tuple{f', such as ({shown(value)},)' if alone else f' of {_several(inside[0])}'}"
    if origin is Mapping or origin is dict:
        return f"a mapping from {_several(inside[0])} to {_several(inside[1])}"
    kind: Any = origin or hint
    return _WORDS.get(kind, f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}")


def _is_literal(hint: Any) -> bool:
    return typing.get_origin(hint) is Literal


def _several(hint: Any) -> str:
    plain = {str: "texts", int: "whole numbers"}
    return plain.get(hint) or _words(hint, object())
