"""How does a test avoid asking Java the same thing thousands of times?

Every `functions.col(...)` asks Java which class has that name, and Java looks for it in three hundred archives. What a
name stands for does not change, so that it is asked for once.

Every check of a session's settings asks for a hundred values one by one. They are asked for when their hash differs; a
text of them all is longer than what a socket sends at once, and its end comes 40 ms later.

Every list becomes one of Java's by a call per element. Java makes a list of ten in one call.
"""

from __future__ import annotations

from typing import Any

from py4j.java_collections import ListConverter
from py4j.java_gateway import JavaClass, JavaMember, JavaPackage, JVMView
from pyspark.sql.conf import RuntimeConfig

_REMEMBERED = ((JVMView, (JavaClass, JavaPackage)), (JavaPackage, (JavaClass, JavaPackage)), (JavaClass, (JavaMember,)))
"""Who looks names up, and what it remembers of what it found."""

_AT_ONCE = 10
"""Elements that `List.of` takes without an array."""


def remember_java_names() -> None:
    """From now on, in this process: of classes, packages and static methods, and not of fields, which have values."""
    for owner, kinds in _REMEMBERED:
        owner.__getattr__ = _remembering(owner.__getattr__, kinds)


def remember_settings() -> None:
    """From now on, in this process: what the hash of all settings stands for."""
    read: dict[int, dict[str, str]] = {}

    def all_settings(self: Any) -> dict[str, str]:
        found = self._jconf.getAllAsJava()
        known = found.hashCode()
        if known not in read:
            read[known] = dict(found)
        return dict(read[known])

    RuntimeConfig.getAll = property(all_settings)  # type: ignore[assignment, method-assign]


def convert_lists_at_once() -> None:
    """From now on, in this process: lists without null become Java's by a call for every ten elements."""
    one_by_one = ListConverter.convert

    def converted(self: Any, elements: Any, client: Any) -> Any:
        given = list(elements)
        if any(each is None for each in given):
            return one_by_one(self, given, client)
        found = JavaClass("java.util.ArrayList", client)()
        for start in range(0, len(given), _AT_ONCE):
            found.addAll(JavaClass("java.util.List", client).of(*given[start : start + _AT_ONCE]))
        return found

    ListConverter.convert = converted


def _remembering(look_up: Any, kinds: tuple[type, ...]) -> Any:
    def looked_up(self: Any, name: str) -> Any:
        found = look_up(self, name)
        if isinstance(found, kinds):
            self.__dict__[name] = found
        return found

    return looked_up
