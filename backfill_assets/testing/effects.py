"""Effects: what an author's function does outside Spark while it is called, found by Python's audit events.

Python cannot forget an audit hook, so there is one for the process, which looks only while `watched` lasts. What
PySpark does for the function, such as handing rows to Java, is not the function's. What user-defined functions do
later, in Spark's worker processes, is not seen.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from types import FrameType
from typing import Any

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_OUTSIDE = frozenset(
    {
        *("socket.connect", "socket.sendto", "socket.sendmsg"),
        *("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork"),
        *("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate"),
        *("shutil.copyfile", "shutil.move", "shutil.rmtree", "sqlite3.connect"),
    }
)
_OF_SPARK = ("pyspark", "py4j")
_OF_IMPORTS = "importlib"


@dataclass
class _Watch:
    modules: frozenset[str]
    found: list[str] = field(default_factory=list)


_watches: list[_Watch] = []


@contextmanager
def watched(*modules: str) -> Iterator[list[str]]:
    """Records what code of modules and packages does outside this process while the block lasts."""
    _install()
    watch = _Watch(frozenset(modules))
    _watches.append(watch)
    try:
        yield watch.found
    finally:
        _watches.remove(watch)


@cache
def _install() -> None:
    sys.addaudithook(_hook)


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if not _watches:
        return
    done = _effect(event, args)
    if done is None:
        return
    for watch in _watches:
        if _is_called_by(watch.modules, sys._getframe(1)):
            watch.found.append(done)


def _effect(event: str, args: tuple[Any, ...]) -> str | None:
    if event == "open":
        path, _, flags = args
        return f"opens {path} for writing" if not isinstance(path, int) and (flags or 0) & _WRITES else None
    if event not in _OUTSIDE:
        return None
    # The first argument of an event about a socket is the socket.
    shown = args[1:] if event.startswith("socket.") else args[:1]
    return f"{event} {' '.join(map(str, shown))}".strip()


def _is_called_by(modules: frozenset[str], frame: FrameType | None) -> bool:
    """True if the nearest code that is of Spark, of Python's imports or of the modules is of the modules."""
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.partition(".")[0] in _OF_SPARK or name.startswith((_OF_IMPORTS, "_frozen_importlib")):
            return False
        if any(name == module or name.startswith(f"{module}.") for module in modules):
            return True
        frame = frame.f_back
    return False
