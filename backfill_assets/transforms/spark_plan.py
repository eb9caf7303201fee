"""Spark's plan of the rows that a function describes: does it ask a clock, for chance, a user or a task, or leave ties?

What the author's source does not show by names is in the plan that Spark has analysed, before a row is computed. The
plan is asked for in SQL, which is the same for a session of this process and one over Spark Connect. Expressions that
ask the clock or the user are constants in the optimised plan: so they are told from texts that only look like them.
"""

from __future__ import annotations

import linecache
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from backfill_assets.core.wording import visible
from backfill_assets.domain.errors import CodeBroken
from backfill_assets.transforms.dependencies import Keys
from backfill_assets.transforms.statements import Sources
from backfill_assets.transforms.ties import (
    MOMENTS,
    PLACED,
    SUMS,
    TIED,
    AddedDoubles,
    Tie,
    added_doubles,
    batched_by,
    ties_in,
)
from backfill_assets.transforms.undetermined import FILES, TASKS, WORDS, why_not_in_sql

# Places: the lines of the author's modules that called a function of Spark while a function described its rows.
#
# Spark's plan says what is computed, and no line of Python. So Python tells of the calls of the functions that
# can leave ties, in this thread, and of those that take SQL as a text.

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


_WHOLE = {"spark.sql.debug.maxToStringFields": "1000000", "spark.sql.maxPlanStringLength": "100000000"}
"""Settings by which a plan is written in full, of which Spark otherwise leaves out fields after the first 25."""

_REPLACED = re.compile(
    r"(?<![\w.])((?:current_timestamp|now|current_user|session_user|user|current_catalog|current_schema|current_database"
    r"|current_timezone|current_path|version)\(\)|(?:current_date|localtimestamp)\(Some\(|current_time\(\d)(?![#:])"
)
"""What Spark replaces by a constant when it optimises."""

_KEPT = re.compile(
    r"(?<![\w.])(?:(rand|randn|random)\(-?\d+\)|(uuid)\(Some\(|(shuffle)\([^\n]*, Some\(-?\d+\)\)"
    r"|(randstr|uniform)\([^\n]*, -?\d+, (?:true|false)|(monotonically_increasing_id|SPARK_PARTITION_ID"
    r"|input_file_name|input_file_block_start|input_file_block_length)\(\)(?![#:])|(reflect|java_method|try_reflect)\()"
)
_WORDS = re.compile(r"cast\((?:now|today|tomorrow|yesterday) as (?:date|timestamp)", re.IGNORECASE)
_SAMPLE = re.compile(r"^[\s:+|-]*Sample \d", re.MULTILINE)
_METADATA = re.compile(r"(?<![\w.])_metadata#")


_PYTHON = re.compile(r"EvalPython|InPandas|InArrow|PythonUD")
"""What Spark computes in processes of Python."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The facts that a plan shows about determined rows."""

    calls_python: bool  #: True if Spark calls functions of Python for them.
    added_doubles: tuple[AddedDoubles, ...]  #: Additions whose last digits depend on the order in which rows are added.


Placed = Callable[[Tie], str]
"""Says where the author wrote what leaves a tie, as a part of a sentence."""


def require_determined_plan(
    rows: DataFrame,
    named: str,
    *,
    keys: Keys | None = None,
    doubles: Collection[str] = (),
    declared: Mapping[str, str] | None = None,
    is_present: bool = True,
    placed: Placed = lambda _: "",
) -> Plan:
    """Refuses rows that Spark would compute otherwise another time, whatever function describes them.

    Args:
        rows: The rows.
        named: The function, for a refusal.
        keys: The columns by which rows of inputs are unique, by the alias that each input was given (`with_key`). Ties
            are not looked for where it is None.
        doubles: The columns of inputs that hold floating-point numbers.
        declared: The ties that the author declares as harmless, with reasons; None where none can be declared.
        is_present: Whether it is the function that the declaration is about, which has to need all of it.
        placed: Where a tie was written.

    Raises:
        CodeBroken: Names the expression, or a declared tie that there is not.
    """
    session = rows.sparkSession
    with _whole_plans(session):
        plan: str = session.sql("EXPLAIN EXTENDED SELECT * FROM {rows}", rows=rows).collect()[0][0]
    analysed, _, rest = plan.partition("== Analyzed Logical Plan ==")[2].partition("== Optimized Logical Plan ==")
    optimised, _, physical = rest.partition("== Physical Plan ==")
    for name, why in _undetermined(analysed, optimised):
        problem = f"describes rows by {name}: {why}, so that the same inputs can give other rows"
        raise CodeBroken(code=named, problem=problem)
    tree = analysed.lstrip("\n").partition("\n")[2]
    ties = [*ties_in(tree, keys), *dict.fromkeys(_batched(physical))] if keys is not None else []
    for tie in ties:
        if tie.what not in (declared or ()):
            hint = f", or declare undetermined={{{tie.what!r}: '<why it does not matter>'}}"
            raise CodeBroken(code=named, problem=f"{_said(tie, placed(tie))}{'' if declared is None else hint}")
    unneeded = [each for each in declared or () if each not in {tie.what for tie in ties}]
    if is_present and unneeded:
        problem = f"declares undetermined={{{unneeded[0]!r}: ...}}, and nothing in its rows is: take it out"
        raise CodeBroken(code=named, problem=problem)
    return Plan(calls_python=bool(_PYTHON.search(physical)), added_doubles=added_doubles(tree, rows.schema, doubles))


def with_key(rows: DataFrame, argument: str) -> DataFrame:
    """Rows of an input under a name by which a plan tells that they are its rows."""
    return rows.alias(f"input {argument}")


def _said(tie: Tie, place: str) -> str:
    why = f"describes rows by {tie.what}: {tie.why}, so that the same inputs can give other rows{place}"
    return f"{why}; {tie.instead}"


_IN_BATCHES = re.compile(
    r"^[\s:+|!*()\d-]*\w*(?:EvalPython|AggregatePython|WindowPython|InPandas|EvalPythonUDTF) .*, (\d+)$"
)
_FUNCTION = re.compile(r"(<lambda>|\w+)\([^()]*\)#\d+")
_ONE_ROW = {"100", "101"}
"""Numbers of Spark for functions that are handed one row at a time."""


def _batched(physical: str) -> Iterator[Tie]:
    for line in physical.splitlines():
        found = _IN_BATCHES.match(line)
        if found and found.group(1) not in _ONE_ROW:
            # One object of a udtf sees all rows of a task, in whatever order.
            method = "udtf" if "UDTF" in line else "arrow_udf" if found.group(1) >= "250" else "pandas_udf"
            yield from (batched_by(method, name) for name in dict.fromkeys(_FUNCTION.findall(line)))


def _undetermined(analysed: str, optimised: str) -> Iterator[tuple[str, str]]:
    for found in dict.fromkeys(each.group(1) for each in _REPLACED.finditer(analysed)):
        if analysed.count(found) > optimised.count(found):
            name = found.partition("(")[0]
            yield f"{name}()", why_not_in_sql(name)
    for each in _KEPT.finditer(analysed):
        kept = str(next(filter(None, each.groups()))).lower()
        yield f"{kept}()", why_not_in_sql(kept)
    if _SAMPLE.search(analysed):
        yield "a sample", TASKS
    if _METADATA.search(analysed):
        yield "_metadata", FILES
    if word := _WORDS.search(analysed):
        yield f"{word.group()})", WORDS


@contextmanager
def _whole_plans(session: SparkSession) -> Iterator[None]:
    before = {name: session.conf.get(name) for name in _WHOLE}
    for name, value in _WHOLE.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, earlier in before.items():
            session.conf.set(name, earlier or _WHOLE[name])
