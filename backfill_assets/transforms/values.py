"""Values and meanings of an author's names: what a function finds in its modules when it is called, as bytes that are
digested.
"""

from __future__ import annotations

import builtins
import copyreg
import datetime as dt
import functools
import importlib
import inspect
import logging
import os
import random
import re
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePath
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

from pyspark.sql.types import DataType

from backfill_assets.domain import DerivedTable, SourceTable
from backfill_assets.transforms.statements import Alias, Chain, Module, Named, Sources, module_at, written_as
from backfill_assets.transforms.undetermined import ENVIRONMENT, full_name

# Values of an author's names: what a function finds in its modules when it is called, as bytes that are digested.
#
# Two values have the same bytes only if they are equal, of the same types and in the same order; the bytes are
# the same in every process. Nothing but their digest is kept, so that a secret in a module is in no manifest.
# Functions and classes that a value holds are code of whatever uses it: they are returned, to be followed like
# names.

MISSING: Final = object()
"""In place of a value that no module of this process has."""

Read = tuple[str, Chain, Alias | None]
"""A name that a module uses, with its attributes, and the import inside a function that binds it there."""

_NO_CODE = (MemberDescriptorType, GetSetDescriptorType, MethodDescriptorType, WrapperDescriptorType)
_TYPES_OF_TYPES = {"typing", "types", "typing_extensions"}
_OF_EVERY_CLASS = {
    *("_abc_impl", "_is_protocol", "_is_runtime_protocol"),
    # What Python says of the place of its definition, and of what it was made from.
    *("__doc__", "__firstlineno__", "__module__", "__qualname__", "__slots__", "__static_attributes__"),
    # What an enumeration keeps of its members, which are attributes.
    *("_member_map_", "_value2member_map_", "_unhashable_values_", "_hashable_values_", "_member_names_"),
}


class NotPinned(Exception):
    """A value that is not the same thing in every process, such as an open file or a client."""

    def __init__(self, value: object, attribute: str = "", *, kind: str = "") -> None:
        super().__init__()
        self.kind = kind or _name_of(type(value))
        self.attribute = attribute


def found_by(read: Read) -> tuple[str, object]:
    """The module that holds what a name means, with its name there, and the value; `MISSING` where there is none.

    Modules that a function imports when it is called are imported here.
    """
    module, chain, alias = read
    rest = chain[1:]
    if alias is None:
        holder = sys.modules.get(module)
        if holder is None:
            return module, MISSING
        found = _taken(holder, chain[0])
        name = f"{module}.{chain[0]}"
    else:
        found = _imported(alias.module)
        name = alias.module
        if alias.name is not None:
            taken = _taken(found, alias.name)
            name = f"{alias.module}.{alias.name}"
            found = _imported(name) if taken is MISSING else taken
        elif alias.is_first_part and found is not MISSING:
            name = alias.bound
            found = sys.modules.get(alias.bound, MISSING)
    while isinstance(found, ModuleType) and rest:
        name = f"{found.__name__}.{rest[0]}"
        found, rest = _taken(found, rest[0]), rest[1:]
    return name, found


def _taken(holder: object, name: str) -> object:
    try:
        return getattr(holder, name, MISSING)
    except Exception:  # noqa: BLE001 - of the author's `__getattr__`, which fails again when the function is called
        return MISSING


def _imported(module: str) -> object:
    try:
        return importlib.import_module(module)
    except Exception:  # noqa: BLE001 - of the author's module, which fails again when the function is called
        return MISSING


@dataclass(kw_only=True)
class Encoding:
    """The bytes of values."""

    sources: Sources  #: Which modules are the author's.
    parsed: dict[str, Module] = field(default_factory=dict)  #: Those that were read, which several searches share.
    found: set[Named] = field(default_factory=set)  #: The author's functions and classes that values hold.
    made: set[Named] = field(default_factory=set)  #: The author's classes of which values are objects.
    #: All of these classes, whose attributes have values as well: see `of_class`.
    classes: dict[type, None] = field(default_factory=dict)
    lambdas: set[tuple[str, int]] = field(default_factory=set)  #: Their functions without a name, by module and line.
    foreign: set[str] = field(default_factory=set)  #: The functions of others that they hold, by full names.
    _under_way: dict[int, int] = field(default_factory=dict)

    def of(self, value: object, *, is_foreign: bool = False) -> bytes:
        """The bytes of a value.

        Args:
            is_foreign: Whether a library holds it: there only the author's functions count.

        Raises:
            NotPinned: The value, or a part of it, means something in this process only.
        """
        if id(value) in self._under_way:
            return _tagged("again", str(self._under_way[id(value)]).encode())
        self._under_way[id(value)] = len(self._under_way)
        try:
            return self._of(value)
        except NotPinned:
            if is_foreign:
                return _tagged("foreign", _name_of(type(value)).encode())
            raise
        except RecursionError:
            raise NotPinned(value) from None
        finally:
            del self._under_way[id(value)]

    def _of(self, value: Any) -> bytes:
        if (below := self._below_the_code(value)) is not None:
            return _tagged(f"place of the code {_name_of(type(value))}", below.encode("utf-8", "surrogateescape"))
        if (plain := _plain(value)) is not None:
            return plain
        match value:
            case Enum():
                self._code(type(value), is_made=True)
                added = {name: held for name, held in vars(value).items() if not name.startswith("_")}
                return self._parts(f"enum {_name_of(type(value))}", [value.name, value.value, *added.items()])
            case DerivedTable() | SourceTable():
                return self._table(value)
            case tuple() | list():
                # What it holds, also where its class cannot be iterated.
                parts = tuple.__iter__(value) if isinstance(value, tuple) else list.__iter__(value)
                return self._parts(_name_of(type(value)), [*parts, *self._state(value)])
            case set() | frozenset():
                return _tagged(_name_of(type(value)), *sorted(map(self.of, value)), *map(self.of, self._state(value)))
            case dict() | MappingProxyType():
                made = [value.default_factory] if hasattr(value, "default_factory") else []
                pairs = [each for pair in value.items() for each in pair]
                return self._parts(_name_of(type(value)), [*made, *pairs, *self._state(value)])
            case ModuleType():
                return _tagged("module", value.__name__.encode())
            case type():
                self._code(value)
                return _tagged("class", _name_of(value).encode())
            case CodeType():
                held = [value.co_code, value.co_names, value.co_varnames, value.co_freevars, value.co_consts]
                return self._parts("code", held)
            case logging.Logger():
                # What it writes is no row.
                return _tagged("logger", value.name.encode())
        if hasattr(value, "evalType") and hasattr(value, "func"):
            kind, deterministic = value.evalType, getattr(value, "deterministic", True)
            return self._parts("udf", [value.func, str(value.returnType), kind, deterministic])
        if callable(value) and (code := self._callable(value)) is not None:
            return code
        return self._object(value)

    def _below_the_code(self, value: object) -> str | None:
        """Where a path leads from the folder of the author's code, which is another one in each checkout."""
        holder = str(self.sources.holder)
        if isinstance(value, PurePath) or type(value) is str:
            text = str(value)
            if text == holder or text.startswith(f"{holder}{os.sep}"):
                return text[len(holder) :]
        return None

    def _parts(self, tag: str, values: Iterable[object], *, is_foreign: bool = False) -> bytes:
        return _tagged(tag, *(self.of(each, is_foreign=is_foreign) for each in values))

    def _table(self, table: DerivedTable | SourceTable) -> bytes:
        """A table without its inputs, whose rows are pinned."""
        given = {
            name: value for name, value in vars(table).items() if name not in ("inputs", "place", "policy", "gates")
        }
        return self._parts(f"table {table.name}", [each for pair in given.items() for each in pair])

    def _callable(self, value: Any) -> bytes | None:
        match value:
            case functools.partial() | functools.partialmethod():
                return self._parts("partial", [value.func, list(value.args), dict(value.keywords)])
            case MethodType():
                return self._parts("method", [value.__func__, value.__self__])
            case FunctionType():
                return self._function(value)
            case BuiltinFunctionType():
                own = value.__self__
                held = [] if own is None or isinstance(own, ModuleType) else [own]
                self.foreign.add(full_name(value.__module__, value.__qualname__))
                return self._parts(f"built-in {value.__module__}.{value.__qualname__}", held)
        wrapped = inspect.getattr_static(value, "__wrapped__", None)
        if wrapped is not None and not self._is_own(type(value)):
            return self._parts(f"wraps {_name_of(type(value))}", [wrapped])
        return None

    def _function(self, function: FunctionType, *, is_of_class: bool = False) -> bytes:
        """A function by its text, with what it holds: what it uses is followed by its name.

        Args:
            is_of_class: Whether it is followed with its class, such as a constructor, which may be called at import.
        """
        is_foreign = not (self._is_own(function) if is_of_class else self._code(function))
        if is_foreign:
            self.foreign.add(full_name(function.__module__, function.__qualname__))
        attributes = {name: held for name, held in vars(function).items() if name != "__wrapped__"}
        held: list[object] = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).items()]
        held += [*attributes.items(), *([] if is_foreign else self._written(function))]
        for cell in function.__closure__ or ():
            try:
                held.append(cell.cell_contents)
            except ValueError:  # not filled yet
                continue
        wrapped = getattr(function, "__wrapped__", None)
        parts = self._parts("holds", held, is_foreign=is_foreign)
        inner = self._parts("wraps", [] if wrapped is None else [wrapped])
        return _tagged("function", _name_of(function).encode(), parts, inner)

    def _written(self, function: FunctionType) -> list[object]:
        """The source text of an author's function; its compiled code where it is not written in its module."""
        module, code = _module_of(function), function.__code__
        path = self.sources.file(module)
        text = written_as(code, module_at(self.parsed, module, path).source) if path else None
        if text is not None:
            return [text]
        # What libraries make for a class of the author follows from the class.
        is_made = code.co_name.startswith("__") and not Path(code.co_filename).exists()
        return [] if is_made else [code]

    def of_class(self, kind: type) -> bytes:
        """The values of the attributes of a class of the author."""
        parts = [self.of(base) for base in kind.__bases__]
        for attribute, held in vars(kind).items():
            if attribute in _OF_EVERY_CLASS or isinstance(held, _NO_CODE):
                continue
            if attribute.startswith("__") and isinstance(held, FunctionType):
                is_of_class = held.__qualname__ == f"{kind.__qualname__}.{attribute}"
                parts += [attribute.encode(), self._function(held, is_of_class=is_of_class)]
                continue
            if attribute.startswith("__") and not is_constant(held):
                continue
            is_foreign = hasattr(type(held), "__get__") and not isinstance(held, FunctionType)
            try:
                parts += [attribute.encode(), self.of(_behind(held), is_foreign=is_foreign)]
            except NotPinned as error:
                raise NotPinned(held, attribute, kind=error.kind) from None
        return _tagged("attributes", *parts)

    def _object(self, value: Any) -> bytes:
        """An object by its class and its state, as `pickle` has them."""
        kind = type(value)
        self._code(kind, is_made=True)
        is_of_spark = kind.__module__.partition(".")[0] in ("pyspark", "py4j")
        if is_of_spark or hasattr(value, "__next__") or value is os.environ:
            raise NotPinned(value)
        try:
            registered = copyreg.dispatch_table.get(kind)
            reduced = registered(value) if registered else value.__reduce_ex__(4)
        except Exception as error:  # of any kind: it says that the object has no state of its own
            if kind.__module__ in _TYPES_OF_TYPES and " at 0x" not in repr(value):
                return _tagged("type", repr(value).encode())
            raise NotPinned(value) from error
        if isinstance(reduced, str):
            return _tagged("named", f"{getattr(value, '__module__', '')}.{reduced}".encode())
        function, arguments, *more = reduced
        state, items, pairs = (*more, None, None, None)[:3]
        return _tagged(
            f"object {_name_of(kind)}",
            _name_of(function).encode(),
            self._parts("made of", [each for each in arguments if each is not kind]),
            self._parts("state", [_lasting(kind, state)]),
            self._parts("items", items or ()),
            self._parts("pairs", (each for pair in pairs or () for each in pair)),
        )

    def _state(self, value: object) -> list[object]:
        """The attributes of an object that is a collection as well."""
        if type(value).__module__ == "builtins":
            return []
        self._code(type(value), is_made=True)
        return [vars(value)] if getattr(value, "__dict__", None) else []

    def _code(self, definition: Any, *, is_made: bool = False) -> bool:
        """Notes a function or class of the author; false for one of a library.

        Args:
            is_made: Whether it is the class of an object, which was made before.
        """
        if not self._is_own(definition):
            return False
        qualified = definition.__code__.co_qualname if isinstance(definition, FunctionType) else definition.__qualname__
        (self.made if is_made else self.found).update(names_of(_module_of(definition), qualified))
        if qualified.endswith("<lambda>"):
            self.lambdas.add((_module_of(definition), definition.__code__.co_firstlineno))
        if isinstance(definition, type):
            self.classes.setdefault(definition)
        return True

    def _is_own(self, definition: Any) -> bool:
        return self.sources.file(_module_of(definition)) is not None


def _module_of(definition: Any) -> str:
    # A decorator of a library gives its function the module of the one that it wraps.
    held = definition.__globals__.get("__name__") if isinstance(definition, FunctionType) else definition.__module__
    return str(held)


def names_of(module: str, qualified: str) -> Iterator[Named]:
    """The definition of a module in which something is written, and the table inside that it may be."""
    outermost = qualified.partition(".")[0]
    if not outermost.isidentifier():
        # A lambda can be in any.
        outermost = "*"
    yield module, outermost
    if "." in (inner := qualified.replace(".<locals>", "")) and "<" not in inner:
        yield module, inner


def _behind(held: Any) -> Any:
    """The function that a descriptor of a class calls."""
    if isinstance(held, property):
        return (held.fget, held.fset)
    if isinstance(held, (staticmethod, classmethod)):
        return held.__func__
    return held.func if isinstance(held, functools.cached_property) else held


def _lasting(kind: type, state: Any) -> Any:
    """The state of an object without what it computed of it and keeps."""
    if not isinstance(state, dict):
        return state
    kept = {name for base in kind.__mro__ for name, of in vars(base).items() if _keeps(of)}
    return {name: value for name, value in state.items() if name not in kept}


def _keeps(attribute: object) -> bool:
    return isinstance(attribute, functools.cached_property)


def _name_of(definition: Any) -> str:
    module = getattr(definition, "__module__", "") or ""
    name = getattr(definition, "__qualname__", None) or getattr(definition, "__name__", type(definition).__qualname__)
    return f"{module}.{name}".removeprefix("builtins.")


_PLAIN: Mapping[type, Callable[[Any], str]] = {
    type(None): repr,
    type(...): repr,
    type(NotImplemented): repr,
    bool: repr,
    int: repr,
    float: float.hex,
    complex: lambda value: f"{value.real.hex()} {value.imag.hex()}",
    str: str,
    Decimal: lambda value: repr(value.as_tuple()),
    dt.date: dt.date.isoformat,
    dt.timedelta: repr,
    range: repr,
    UUID: str,
    ZoneInfo: str,
    struct.Struct: lambda value: value.format,
}
"""Types whose values are one text; of others with these as a base the state counts as well."""


def _plain(value: object) -> bytes | None:
    kind = type(value)
    if (text := _PLAIN.get(kind)) is not None:
        return _tagged(kind.__qualname__, text(value).encode("utf-8", "surrogatepass"))
    if kind in (bytes, bytearray):
        assert isinstance(value, bytes | bytearray)
        return _tagged(kind.__qualname__, bytes(value))
    if isinstance(value, re.Pattern):
        pattern = value.pattern
        text_of = pattern if isinstance(pattern, bytes) else pattern.encode("utf-8", "surrogatepass")
        return _tagged(f"pattern {value.flags}", text_of)
    if isinstance(value, PurePath):
        return _tagged("path", str(value).encode("utf-8", "surrogateescape"))
    if isinstance(value, DataType):
        return _tagged("type of a column", value.json().encode())
    return None


def is_constant(value: object, *, within: frozenset[int] = frozenset()) -> bool:
    """True if a value is nothing but plain values, in collections or not; one that holds itself is not."""
    if id(value) in within:
        return False
    inside = within | {id(value)}
    if type(value) in (tuple, list, set, frozenset):
        return all(is_constant(each, within=inside) for each in value)  # type: ignore[attr-defined]
    if type(value) is dict:
        return all(is_constant(each, within=inside) for pair in value.items() for each in pair)
    return _plain(value) is not None


def _tagged(tag: str, *parts: bytes) -> bytes:
    named = tag.encode("utf-8", "surrogatepass")
    return b"%d:%s%d" % (len(named), named, len(parts)) + b"".join(b"|%d:%s" % (len(part), part) for part in parts)


def is_of_a_library(value: object, sources: Sources) -> bool:
    """True if a value is a function or a class that is not the author's, and holds nothing that is."""
    if isinstance(value, type):
        return sources.file(value.__module__) is None
    if isinstance(value, FunctionType) and not hasattr(value, "__wrapped__"):
        return sources.file(_module_of(value)) is None
    return isinstance(value, BuiltinFunctionType) and isinstance(value.__self__, ModuleType)


# Meanings of names: the full names of what a name in an author's module means, and where it is defined.
#
# A name is looked up in this process, where its module was imported before; an import inside a function that has
# not been called means what `sys.modules` has.


@dataclass(frozen=True, kw_only=True)
class Names:
    """The names of the author's modules."""

    sources: Sources  #: Which modules are the author's.
    parsed: dict[str, Module]  #: Those that were read, which several searches share.

    def module(self, name: str) -> Module | None:
        path = self.sources.file(name)
        return module_at(self.parsed, name, path) if path else None

    def bound(self, name: str, chain: Chain, alias: Alias | None, most: int = 20) -> Iterator[Named]:
        """The modules and names in which a name is bound, through imports."""
        module = self.module(name)
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
                    yield from self.bound(each.module, (each.name,), None, most - 1)
                    continue
                target = inner
            while attributes and self.sources.file(f"{target}.{attributes[0]}"):
                target, attributes = f"{target}.{attributes[0]}", attributes[1:]
            if attributes:
                yield from self.bound(target, attributes, None, most - 1)

    def meanings(self, name: str, chain: Chain, alias: Alias | None) -> Iterator[tuple[str, object]]:
        """The names that a chain has where it is defined, attribute by attribute, and what they mean."""
        if alias is not None:
            text = alias.module if alias.name is None or alias.is_first_part else f"{alias.module}.{alias.name}"
            text = alias.bound if alias.is_first_part else text
            is_own = self.sources.file(alias.module) is not None
            found = found_by((name, chain[:1], alias))[1] if is_own else _already(alias)
        else:
            found = getattr(sys.modules.get(name), chain[0], getattr(builtins, chain[0], MISSING))
            module = self.module(name)
            imported = (
                [each for each in module.aliases if each.bound == chain[0]] if module and found is MISSING else []
            )
            text = _text_of(imported[0]) if imported else chain[0]
        yield from names_of_value(found, text)
        for attribute in chain[1:]:
            kind = found if isinstance(found, type) else type(found)
            holders = [found] if isinstance(found, ModuleType) else [] if found is MISSING else list(kind.__mro__)
            names = [f"{named(holder)}.{attribute}" for holder in holders] or [f"{text}.{attribute}"]
            text = names[0]
            is_open = isinstance(found, ModuleType | type)
            found = getattr(found, attribute, MISSING) if is_open else MISSING
            yield from ((each, found) for each in names)
            yield from names_of_value(found, text)


def _text_of(alias: Alias) -> str:
    return f"{alias.module}.{alias.name}" if alias.name else alias.bound if alias.is_first_part else alias.module


def _already(alias: Alias) -> object:
    """The binding of an import inside a function, where its module was imported before."""
    module = sys.modules.get(alias.bound if alias.is_first_part else alias.module, MISSING)
    if alias.name is None or module is MISSING:
        return module
    return getattr(module, alias.name, sys.modules.get(f"{alias.module}.{alias.name}", MISSING))


def named(value: object) -> str:
    """The full name under which a module, function or class was defined."""
    if isinstance(value, ModuleType):
        return value.__name__
    return full_name(getattr(value, "__module__", None), getattr(value, "__qualname__", None))


def names_of_value(value: object, text: str) -> Iterator[tuple[str, object]]:
    """The full names that a value has, besides the one by which it was found."""
    yield text, value
    if isinstance(value, random.Random) or type(value).__module__.startswith("numpy.random"):
        yield "random.Random()", value
    own = getattr(value, "__self__", None)
    if isinstance(own, type):
        yield from ((f"{named(base)}.{value.__name__}", value) for base in own.__mro__)  # type: ignore[attr-defined]
    elif isinstance(own, random.Random):
        yield f"random.{value.__name__}", value  # type: ignore[attr-defined]
    elif isinstance(value, type(ENVIRONMENT)):
        yield "os.environ", value
    elif callable(value):
        yield named(value), value
