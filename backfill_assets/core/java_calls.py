"""Java calls: fewer of them between Python and a Spark of this process.

PySpark asks Java which class has a name and which function a class has whenever one is applied to a column, hands lists
over by a call for each element, and reads settings one by one. A call takes a tenth of a millisecond or more, and a
restatement of a few rows took sixteen thousand. Over Spark Connect there are none.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from py4j.java_collections import ListConverter
from py4j.java_gateway import JavaClass
from py4j.protocol import register_input_converter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ASKED_FOR = ("org.apache.spark.sql.functions", "functions", "PythonUtils")
"""What PySpark looks up with every function and every list of columns."""

_AT_ONCE = 10
"""Elements that Java's `List.of` takes without an array."""

_FEW = 3
"""So many elements take no more calls one by one."""


class _Remembered(JavaClass):  # type: ignore[misc]
    """A class of Java that is asked for each of its functions once."""

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        self.__dict__[name] = found
        return found


class _Lists(ListConverter):  # type: ignore[misc]
    """Makes a list Java's by a call for every ten elements; lists with null are left to the usual converter."""

    def can_convert(self, given: Any) -> bool:
        return type(given) in (list, tuple) and len(given) > _FEW and all(each is not None for each in given)

    def convert(self, given: Any, client: Any) -> Any:
        found, some = _class_of("java.util.ArrayList", client)(), _class_of("java.util.List", client)
        for start in range(0, len(given), _AT_ONCE):
            found.addAll(some.of(*given[start : start + _AT_ONCE]))
        return found


@cache
def _class_of(name: str, client: Any) -> _Remembered:
    return _Remembered(name, client)


@cache
def _register_lists() -> None:
    register_input_converter(_Lists(), prepend=True)


def ask_less(session: SparkSession) -> None:
    """From now on Python remembers what it has asked the Java of a session for, and hands lists over in few calls."""
    _register_lists()
    java = session.sparkContext._jvm
    for name in _ASKED_FOR:
        if name not in vars(java):
            found = getattr(java, name)
            setattr(java, name, _Remembered(found._fqn, found._gateway_client))


class _Read(NamedTuple):
    """Settings as Java has them, and as Python does."""

    of_java: Any
    settings: Mapping[str, str]


_last: list[_Read] = []
"""The settings that were read last."""


def settings_of(session: SparkSession) -> Mapping[str, str]:
    """Every setting of a session; they are read again when they are not equal to those that were read last."""
    conf: Any = session.conf
    if not hasattr(conf, "_jconf"):
        return session.conf.getAll
    found = conf._jconf.getAllAsJava()
    for last in _last:
        if found.equals(last.of_java):
            return last.settings
    read = _Read(of_java=found, settings=dict(found))
    _last[:] = [read]
    return read.settings
