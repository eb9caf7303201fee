"""How does a test avoid asking Java for the same class and method thousands of times?

Every `functions.col(...)` asks Java which class has that name, and Java looks for it in three hundred archives. What a
name stands for does not change, so that it is asked for once.
"""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaClass, JavaMember, JavaPackage, JVMView

_REMEMBERED = ((JVMView, (JavaClass, JavaPackage)), (JavaPackage, (JavaClass, JavaPackage)), (JavaClass, (JavaMember,)))
"""Who looks names up, and what it remembers of what it found."""


def remember_java_names() -> None:
    """From now on, in this process: of classes, packages and static methods, and not of fields, which have values."""
    for owner, kinds in _REMEMBERED:
        owner.__getattr__ = _remembering(owner.__getattr__, kinds)


def _remembering(look_up: Any, kinds: tuple[type, ...]) -> Any:
    def looked_up(self: Any, name: str) -> Any:
        found = look_up(self, name)
        if isinstance(found, kinds):
            self.__dict__[name] = found
        return found

    return looked_up
