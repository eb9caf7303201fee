"""Meanings of names: the full names of what a name in an author's module means, and where it is defined.

A name is looked up in this process, where its module was imported before; an import inside a function that has not been
called means what `sys.modules` has.
"""

from __future__ import annotations

import builtins
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType

from backfill_assets.transforms.definitions import Sources, module_at
from backfill_assets.transforms.statements import Alias, Chain, Module, Named
from backfill_assets.transforms.undetermined import ENVIRONMENT, full_name
from backfill_assets.transforms.values import MISSING, found_by


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
        yield from names_of(found, text)
        for attribute in chain[1:]:
            kind = found if isinstance(found, type) else type(found)
            holders = [found] if isinstance(found, ModuleType) else [] if found is MISSING else list(kind.__mro__)
            names = [f"{named(holder)}.{attribute}" for holder in holders] or [f"{text}.{attribute}"]
            text = names[0]
            is_open = isinstance(found, ModuleType | type)
            found = getattr(found, attribute, MISSING) if is_open else MISSING
            yield from ((each, found) for each in names)
            yield from names_of(found, text)


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


def names_of(value: object, text: str) -> Iterator[tuple[str, object]]:
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
