"""Places: the lines of the author's modules that called a function of Spark while a function described its rows.

Spark's plan says what is computed, and no line of Python. So Python tells of the calls of the functions that can leave
ties, in this thread, and of those that take SQL as a text.
"""

from __future__ import annotations

import linecache
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from backfill_assets.core.wording import visible
from backfill_assets.transforms.definitions import Sources
from backfill_assets.transforms.doubles import MOMENTS, SUMS
from backfill_assets.transforms.ties import PLACED, TIED, Tie

_METHODS = {
    *("dropDuplicates", "drop_duplicates", "limit", "offset", "zipWithIndex", "mapInPandas", "mapInArrow"),
    *("applyInPandas", "applyInArrow"),
}
_OF_UDFS = {"pandas_udf", "arrow_udf"}
_TAKE_SQL = {"expr", "sql", "selectExpr", "filter", "where", "call_function", "agg"}
_NAMES = frozenset(TIED | PLACED | SUMS | MOMENTS | _METHODS | _TAKE_SQL)
_OTHER_NAMES = {
    **{"dropDuplicates": ("dropDuplicates", "drop_duplicates"), "collect_list": ("collect_list", "array_agg")},
    **{
        "avg": ("avg", "mean"),
        "stddev": ("stddev", "std", "stddev_samp"),
        "cogroup": ("applyInPandas", "applyInArrow"),
    },
}


@dataclass(frozen=True, slots=True, order=True)
class _Place:
    file: str
    line: int


@dataclass(slots=True)
class Places:
    """Where functions of Spark were called, by their names, and with which texts of SQL."""

    called: list[tuple[str, _Place]] = field(default_factory=list)
    texts: list[tuple[str, _Place]] = field(default_factory=list)

    def of(self, tie: Tie) -> str:
        """Where what leaves a tie was written, as a part of a sentence; empty where nothing tells."""
        return self.named(tie.name, tie.column)

    def named(self, name: str, column: str) -> str:
        """Where a function that gives a column was called."""
        names = _OTHER_NAMES.get(name, (name,))
        if name in _OF_UDFS:
            return ""
        written = re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\b", re.IGNORECASE)
        found = [place for called, place in self.called if called in names]
        found += [place for text, place in self.texts if written.search(text)]
        found = list(dict.fromkeys(found))
        # Of several calls, those in whose lines the column is named.
        word = re.compile(rf"\b{re.escape(column)}\b")
        near = [each for each in found if any(word.search(line) for line in _lines(each))]
        chosen = sorted(near or found)
        if not chosen:
            return ""
        first, lines = chosen[0], [each.line for each in chosen if each.file == chosen[0].file]
        return visible(f", in {first.file}, line {' or '.join(map(str, lines))}")


def _lines(place: _Place) -> Iterator[str]:
    return (linecache.getline(place.file, place.line + more) for more in (0, 1))


@contextmanager
def written_places(sources: Sources) -> Iterator[Places]:
    """Notes where the author calls what can leave ties.

    Args:
        sources: Which modules are the author's.
    """
    places = Places()
    before = sys.getprofile()

    def look(frame: FrameType, event: Any, called: Any) -> None:
        if event == "call" and frame.f_code.co_name in _NAMES:
            _note(places, frame, sources)
        if before is not None:
            before(frame, event, called)

    sys.setprofile(look)
    try:
        yield places
    finally:
        sys.setprofile(before)


def _note(places: Places, frame: FrameType, sources: Sources) -> None:
    if not str(frame.f_globals.get("__name__", "")).startswith("pyspark."):
        return
    caller: FrameType | None = frame.f_back
    while caller is not None and sources.file(str(caller.f_globals.get("__name__", ""))) is None:
        caller = caller.f_back
    if caller is None:
        return
    place = _Place(caller.f_code.co_filename, caller.f_lineno)
    name = frame.f_code.co_name
    if name not in _TAKE_SQL:
        places.called.append((name, place))
        return
    for value in frame.f_locals.values():
        texts = value if isinstance(value, tuple | list) else value.values() if isinstance(value, dict) else [value]
        places.texts += [(text, place) for text in texts if isinstance(text, str)]
