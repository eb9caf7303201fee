"""What a function asks for while it is called, by names that no source shows, is refused; what follows is not."""

# ruff: noqa: DTZ007, PTH - functions that authors should not write.
from __future__ import annotations

import collections
import concurrent.futures
import cProfile
import dataclasses
import datetime
import email.utils
import functools
import json
import logging
import operator
import os
import random
import sys
import time
import uuid
import zoneinfo
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.domain.errors import CodeBroken
from backfill_assets.transforms.apply import nothing_asked
from backfill_assets.transforms.statements import Sources

_HOLDER = Path(__file__).parents[3]
SOURCES = Sources(
    package="backfill_assets_tests", root=_HOLDER / "backfill_assets_tests", holder=_HOLDER, is_package=True
)


def _module() -> Any:
    return time


def _read(opens: Any) -> object:
    with opens(__file__) as file:
        return file.read()


def _caught() -> None:
    try:
        getattr(time, "ti" + "me")()
        raise ValueError
    except ValueError:
        pass


CLOCKS: Any = datetime

ASKS: dict[str, tuple[Callable[[], object], str]] = {
    "a computed name": (lambda: getattr(time, "ti" + "me")(), "time.time"),
    "a text that is evaluated": (lambda: eval("__import__('time').monotonic()"), "time.monotonic"),
    "a module by name": (lambda: sys.modules["time"].time_ns(), "time.time_ns"),
    "an attribute by name": (lambda: operator.attrgetter("time")(time)(), "time.time"),
    "an element": (lambda: [each.today() for each in (datetime.date,)], "datetime.date.today"),
    "a chain": (lambda: functools.reduce(getattr, ["datetime", "now"], CLOCKS)(), "datetime.datetime.now"),
    "what a function returns": (lambda: _module().perf_counter(), "time.perf_counter"),
    "a choice": (lambda: (time if json else None).time(), "time.time"),  # type: ignore[union-attr]
    "inside of Python": (email.utils.formatdate, "time.time"),
    "chance": (lambda: vars(random)["ran" + "dom"](), "random.random"),
    "chance inside": (lambda: getattr(random, "cho" + "ice")([1, 2, 3]), "random.getrandbits"),
    "an id": (lambda: getattr(uuid, "uuid" + "4")(), "os.urandom"),
    "the environment": (lambda: getattr(os, "get" + "env")("HOME"), "os.environ"),
    "a variable that may be there": (lambda: "HOME" in getattr(os, "envi" + "ron"), "os.environ"),
    "the process": (lambda: getattr(os, "get" + "pid")(), "os.getpid"),
    "a file": (lambda: _read(open), "io.open"),
    "a path": (lambda: getattr(Path(__file__), "read_" + "text")(), "io.open"),
    "whether a file is there": (lambda: getattr(os.path, "exi" + "sts")(__file__), "os.stat"),
    "a folder": (lambda: getattr(os, "list" + "dir")("/"), "os.listdir"),
    "an error that is caught": (_caught, "time.time"),
}


@pytest.mark.parametrize("way", ASKS)
def test_what_a_function_asks_for_while_it_is_called_is_refused_with_its_place(way: str) -> None:
    function, name = ASKS[way]
    before = sys.getprofile()
    with pytest.raises(CodeBroken) as refused, nothing_asked("the transform", SOURCES):
        function()
    assert f"describes rows by {name}" in refused.value.message
    assert sys.getprofile() is before
    if function is not email.utils.formatdate:
        assert f"in {__file__}, line" in refused.value.message


@dataclasses.dataclass
class Made:
    x: int = 1


def _imports() -> object:
    import colorsys

    return colorsys


FOLLOWS: dict[str, Callable[[], object]] = {
    "a seed": lambda: (random.Random(1).random(), random.Random(1).choice([1, 2])),
    "an id of a name": lambda: uuid.uuid5(uuid.NAMESPACE_DNS, "x"),
    "parsing": lambda: datetime.datetime.strptime("2026-01-01", "%Y-%m-%d").isoformat(),
    "an instant": lambda: (time.gmtime(0), time.strftime("%Y", time.gmtime(0)), datetime.date(2026, 1, 1).weekday()),
    "a zone": lambda: datetime.datetime(2026, 1, 1, tzinfo=zoneinfo.ZoneInfo("Europe/Amsterdam")).utcoffset(),
    "a log": lambda: logging.getLogger(__name__).warning("x"),
    "an import": _imports,
    "a class": lambda: (collections.namedtuple("P", "a"), dataclasses.make_dataclass("D", ["x"])(1), Made()),
    "texts": lambda: json.loads(json.dumps({"a": [1]})),
    "threads": lambda: list(concurrent.futures.ThreadPoolExecutor().map(str, [1, 2])),
    "paths": lambda: (Path("a") / "b", Path("a").name),
}


@pytest.mark.parametrize("way", FOLLOWS)
def test_what_follows_from_what_is_given_is_allowed(way: str) -> None:
    with nothing_asked("the transform", SOURCES):
        FOLLOWS[way]()


def test_the_error_of_a_function_stays_its_own() -> None:
    with pytest.raises(ZeroDivisionError), nothing_asked("the transform", SOURCES):
        time.time()
        raise ZeroDivisionError


@pytest.mark.parametrize(
    "place", ["/opt/spark/python/pyspark/sql/of.py", "/opt/spark/python/lib/pyspark.zip/pyspark/sql/of.py"]
)
def test_what_a_library_asks_for_itself_is_allowed_wherever_it_is_installed(place: str) -> None:
    asks = "import os, time, uuid\ndef ask():\n    return os.environ.get('HOME'), time.time(), uuid.uuid4()\n"
    library = {"__name__": "pyspark.sql.of"}
    exec(compile(asks, place, "exec"), library)
    with nothing_asked("the transform", SOURCES):
        library["ask"]()  # type: ignore[operator]


def test_who_measures_the_time_of_functions_goes_on_doing_so() -> None:
    measured = cProfile.Profile()
    measured.enable()
    try:
        with pytest.raises(CodeBroken), nothing_asked("the transform", SOURCES):
            getattr(time, "ti" + "me")()
        json.dumps(1)
    finally:
        measured.disable()
    assert any(each.code.co_name == "dumps" for each in measured.getstats() if not isinstance(each.code, str))
