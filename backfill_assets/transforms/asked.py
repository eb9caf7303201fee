"""Asked while called: clocks, chance, the environment and files that an author's function asks for by no name.

The source says by names what is asked (`determined`). A computed name, such as `getattr(time, chosen)`, or a module of
Python that asks inside, shows when the function is called, before Spark computes a row: Python tells of every function
that is called in the thread. What Spark, this project and other packages ask for themselves is not the author's.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from backfill_assets.core.wording import visible
from backfill_assets.domain.errors import CodeBroken
from backfill_assets.transforms.definitions import Sources
from backfill_assets.transforms.meanings import names_of
from backfill_assets.transforms.undetermined import ENDINGS, MACHINE, why_not

_TRUSTED = frozenset(
    {
        *(
            "_frozen_importlib",
            "_frozen_importlib_external",
            "importlib",
            "_strptime",
            "calendar",
            "locale",
            "zoneinfo",
        ),
        *("logging", "warnings", "traceback", "linecache", "inspect", "threading", "weakref", "gc"),
        *("concurrent", "queue"),
    }
)
"""Modules of Python that ask for what is no row: imports, logs, names of months, the rules of zones, threads."""

_IN_PYTHON: Mapping[CodeType, str] = {
    getattr(type(os.environ), method).__code__: "os.environ" for method in ("__getitem__", "__iter__", "__len__")
}
"""What is asked for by a function that is written in Python."""

_NAMES = {code.co_name for code in _IN_PYTHON}

_OF_ALL = getattr(random.random, "__self__", None)
"""The numbers of the module, which any code draws from."""


@contextmanager
def nothing_asked(named: str, sources: Sources) -> Iterator[None]:
    """Refuses a function that asks for what is not pinned while it is called, also if it catches every error.

    Args:
        named: The function, as its error names it.
        sources: Which modules are the author's.

    Raises:
        CodeBroken: Names what it asked for, with file and line.
    """
    found: dict[str, tuple[str, str]] = {}

    def look(frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call":
            if called.__name__ not in ENDINGS or _is_seeded(called):
                return
            asked = next(((name, why) for name, _ in names_of(called, "") if (why := why_not(name))), None)
        elif event == "call":
            # The name first: to hash a code takes longer than to call most functions.
            if (code := frame.f_code).co_name not in _NAMES or code not in _IN_PYTHON or frame.f_back is None:
                return
            asked, frame = (_IN_PYTHON[code], MACHINE), frame.f_back
        else:
            return
        if asked is not None and (asker := _asker(frame, sources)) is not None:
            found.setdefault(asked[0], (asked[1], visible(f", in {asker.f_code.co_filename}, line {asker.f_lineno}")))

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        yield
    finally:
        _give_back(before)
    for name, (why, place) in found.items():
        problem = f"describes rows by {name}: {why}, so that the same inputs can give other rows"
        raise CodeBroken(code=named, problem=f"{problem}{place}")


def _give_back(before: Any) -> None:
    """Goes on with whoever was told of calls before."""
    is_function = before is None or callable(before)
    sys.setprofile(before if is_function else None)
    if not is_function:  # `cProfile` before Python 3.12
        before.enable()


def _is_seeded(called: Any) -> bool:
    """True if it draws from numbers that follow from a seed, and not from those of the module."""
    own = getattr(called, "__self__", None)
    return isinstance(own, random.Random) and own is not _OF_ALL


def _asker(frame: FrameType | None, sources: Sources) -> FrameType | None:
    """The author's frame that asks, directly or by modules of Python; None where something else asks in between."""
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        top, _, rest = name.partition(".")
        is_here = top == "backfill_assets" and not rest.startswith("examples.")
        if top in _TRUSTED or is_here:
            return None
        is_written = not frame.f_code.co_filename.startswith("<")
        if top not in sys.stdlib_module_names and is_written:
            return frame if sources.file(name) else None
        frame = frame.f_back
    return None
