"""Call of an author's function or gate: the frames it is given, what it asks for while called, and the rows that it
returns.
"""

from __future__ import annotations

import functools
import os
import random
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from traceback import walk_tb
from types import CodeType, FrameType
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, StructType

import backfill_assets
from backfill_assets.calendar.partitions import Grain, partitions_over
from backfill_assets.core.columns import differing_columns, in_sql
from backfill_assets.core.declaring import place_of_declaration
from backfill_assets.core.errors import BackfillError, ContractBroken, is_full_disk
from backfill_assets.core.session_settings import ChangedSession
from backfill_assets.core.spark import require_meaning
from backfill_assets.core.spark_causes import one_line, recorded_reason, spark_reason, worker_error
from backfill_assets.core.wording import visible
from backfill_assets.domain import DerivedTable, Failing, GateContext, Release, SourceTable, Table, TransformContext
from backfill_assets.domain.errors import CodeBroken
from backfill_assets.domain.failing_rows import ACCEPTED, AROUND, CANDIDATE, CONTEXT, EXPECTED, FOUND, Frames, query_of
from backfill_assets.planning.manifest import Manifest, lineage
from backfill_assets.transforms.dependencies import Keys
from backfill_assets.transforms.schemas import stored_schema
from backfill_assets.transforms.spark_plan import Places, Plan, require_determined_plan, with_key, written_places
from backfill_assets.transforms.statements import Sources
from backfill_assets.transforms.ties import double_columns
from backfill_assets.transforms.undetermined import ENDINGS, MACHINE, why_not
from backfill_assets.transforms.values import names_of_value

# Asked while called: clocks, chance, the environment and files that an author's function asks for by no name.
#
# The source says by names what is asked (`determined`). A computed name, such as `getattr(time, chosen)`, or a
# module of Python that asks inside, shows when the function is called, before Spark computes a row: Python tells
# of every function that is called in the thread. What Spark, this project and other packages ask for themselves
# is not the author's.

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
            asked = next(((name, why) for name, _ in names_of_value(called, "") if (why := why_not(name))), None)
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


# Call of an author's function, and processing of the rows that it returns.
#
# The function sees only its inputs and its context. The result must have exactly the declared columns; then rows
# outside the output partitions are dropped (so that warm-up is never published) and the lineage columns are
# added.
#
# Spark jobs inside a transform are refused: it may only describe rows, which its caller computes. The methods of
# DataFrames that start a job are wrapped, and the wrapper refuses only in a thread that is calling a transform,
# so that the rest of the process is not affected. It uses no internals of Spark, and works the same for Spark
# Connect.

_OF_THE_MACHINE = re.compile(
    r"[\w.]*?(?:MemoryError|ImportError|ModuleNotFoundError|Connection\w*Error|BrokenPipeError|KeyboardInterrupt"
    r"|OSError: \[Errno 28\])(?:$|\W)"
)
"""Errors in a worker that are no mistake in a function, which was imported before the worker began."""

_OF_WHAT_WAS_RETURNED = re.compile(r"(?:pyspark\.errors\.[\w.]+: \[(?!PYTHON_VERSION)|pyarrow\.lib\.Arrow)")
"""Errors of PySpark itself, in a worker, about what a function returned."""


_MOST_RUNS = 1000
CHECK = "check"
_NO_RUNS = {CHECK, "a-test"}
"""What stands for a run where a function is only tried."""


def apply_transform(
    table: DerivedTable, release: Release, inputs: Mapping[str, DataFrame], ctx: TransformContext, sources: Sources
) -> DataFrame:
    """The result of a release of a transform for the output partitions of its context: the declared columns in order.

    A row without a partition stays, and is refused when it is staged: to drop it would be to lose it.
    """
    frame = called_transform(table, release, inputs, ctx, sources)
    column = F.col(table.partition.column)
    return frame.where(_within(column, table.partition.grain, ctx) | column.isNull())


def with_lineage(rows: DataFrame, table: Table, manifest: Manifest) -> DataFrame:
    """Rows that a run has computed, as they will be staged: with its lineage columns after their own."""
    return rows.select("*", *(F.lit(value).alias(name) for name, value in _lineage_columns(table, manifest).items()))


def called_transform(
    table: DerivedTable, release: Release, inputs: Mapping[str, DataFrame], ctx: TransformContext, sources: Sources
) -> DataFrame:
    """The result of a release of a transform for these inputs: the declared columns in order.

    Args:
        sources: Which modules are the author's.

    Raises:
        ContractBroken: The function failed, changed a setting that determines the meaning of rows, returned other
            columns than declared, or rows that Spark computes from a clock, by chance, or by how they are divided into
            tasks.
    """
    named = _named(table, release)
    keyed = {argument: with_key(rows, argument) for argument, rows in inputs.items()}
    frame, found, places = called(named, release.function, {**keyed, "ctx": ctx}, ctx.spark, sources)
    if problem := columns_differ(found, table.returned):
        raise CodeBroken(code=named, problem=f"returned other columns than it declares: {problem}")
    key = ctx.run_id, named
    if key not in _plans or ctx.run_id in _NO_RUNS:
        # Of the first call of a run: to ask for a plan takes as long as Spark's planning of the rows.
        _plans[key] = require_determined_plan(
            frame,
            named,
            keys=input_keys(table),
            doubles=[name for rows in inputs.values() for name in double_columns(rows.schema)],
            declared=table.undetermined,
            is_present=release.version == table.version and not table.version_of,
            placed=lambda tie: places.of(tie) or _place_of(release.function),
        )
        while len(_plans) > _MOST_RUNS:
            del _plans[next(iter(_plans))]
    return frame


def called(
    named: str,
    function: Callable[..., Any],
    given: Mapping[str, Any],
    spark: SparkSession,
    sources: Sources,
    declared: str = "",
) -> tuple[DataFrame, StructType, Places]:
    """The result of an author's function of DataFrames, with its columns, and the lines that called functions of Spark.

    Args:
        named: The function, as its error names it.
        given: Its arguments, by name.
        spark: The session of its DataFrames.
        sources: Which modules are the author's.
        declared: Where the author has declared it, which an error names if no line of the function is known.

    Raises:
        ContractBroken: It failed, ran an action, asked for what is not pinned, returned no DataFrame, or changed a
            setting that determines the meaning of rows.
    """
    frame_type = next((type(each) for each in given.values() if isinstance(each, DataFrame)), DataFrame)
    try:
        with (
            without_actions(named, frame_type),
            nothing_asked(named, sources),
            written_places(sources) as places,
        ):
            frame = function(**given)
        if not isinstance(frame, DataFrame):
            problem = f"returned {type(frame).__name__} where a DataFrame is declared{declared}"
            raise CodeBroken(code=named, problem=problem)
        found = frame.schema
    except PySparkException as error:
        place = _place_in(function, error) or declared
        broken = CodeBroken(code=named, problem=f"failed: {spark_reason(error).removesuffix('.')}{place}")
        raise broken.record_as(f"{named} failed: {recorded_reason(error)}{place}") from error
    except (BackfillError, Py4JError, ConnectionError, MemoryError):
        raise
    except Exception as error:  # of any kind: it is the author's code that raised it
        if is_full_disk(error):
            raise
        # No row has been read when a transform fails, so that the ledger may keep the message.
        said = one_line(f"{type(error).__name__}: {error}")
        place = _place_in(function, error) or declared
        raise CodeBroken(code=named, problem=f"failed: {said}{place}") from error
    # A function can open another session, and Spark computes a frame by the settings of that session.
    for session in dict.fromkeys((spark, frame.sparkSession)):
        try:
            require_meaning(session)
        except ChangedSession as error:
            changed = f"left a Spark session that gives rows another meaning: {error.why}"
            raise CodeBroken(code=named, problem=changed) from error
    return frame, found, places


_plans: dict[tuple[str, str], Plan] = {}
"""By run and function, what Spark's plan shows of the rows."""


def plan_of(table: DerivedTable, release: Release, run_id: str) -> Plan | None:
    """The plan of the rows that a release has returned for a run; None where none was looked at."""
    return _plans.get((run_id, _named(table, release)))


def calls_python(table: DerivedTable, release: Release, run_id: str) -> bool:
    """True if Spark calls functions of Python for the rows that a release has returned for a run."""
    plan = plan_of(table, release, run_id)
    return plan is not None and plan.calls_python


def input_keys(table: DerivedTable) -> Mapping[str, Sequence[str]]:
    """The columns by which the rows of inputs are unique, by the names under which plans hold them."""
    keys = {argument: key_of(source, changes=argument in table.changes) for argument, source in table.inputs.items()}
    if table.state is not None:
        # It is one snapshot.
        keys[table.state] = tuple(name for name in table.key if name != table.partition.column)
    return {f"input {argument}": key for argument, key in keys.items()}


def key_of(table: Table, *, changes: bool = False) -> tuple[str, ...]:
    """The columns by which rows of several partitions are unique.

    Args:
        changes: Whether the rows are those of the changelog, and not the current ones.
    """
    if changes or isinstance(table, SourceTable):
        return table.row_key if changes else table.key
    return (*table.key, table.partition.column)


def _place_in(function: Callable[..., Any], error: Exception) -> str:
    """The last line of the package of an author's function that an error passed; empty for one of this project."""
    package = _package(function)
    if package == backfill_assets.__name__ and ".examples" not in function.__module__:
        return ""
    place = ""
    for frame, line in walk_tb(error.__traceback__):
        if frame.f_globals.get("__name__", "").partition(".")[0] == package:
            place = _place(frame.f_code.co_filename, line)
    return place


def broken_in_worker(error: Exception, table: Table, version: str) -> CodeBroken | None:
    """The error of a table's function that Spark called with rows, such as a UDF; None where something else stopped it.

    Its message may quote a value of a row, so that the ledger keeps its class and its place.
    """
    if not isinstance(table, DerivedTable):
        return None
    release = table.release(version)
    return failed_in_worker(error, _named(table, release), release.function)


def failed_in_worker(error: Exception, named: str, function: Callable[..., Any]) -> CodeBroken | None:
    """The error of a function that Spark called with rows; see `broken_in_worker`.

    Args:
        named: What has called it, as its error names it.
        function: A function of the author, by whose package the author's own files are known.
    """
    found = worker_error(error)
    if found is None or _OF_THE_MACHINE.match(found.said):
        return None
    package = re.escape(_package(function))
    foreign = re.compile(
        rf"/pyspark\.zip/|/python/pyspark/|/lib(?:64)?/python3[.\d]*/(?!(?:site|dist)-packages/{package}[/.])"
    )
    own = [(file, line) for file, line in found.places if not foreign.search(file)]
    if any("/backfill_assets/gates/" in file for file, _ in own):
        return None
    if not own and not _OF_WHAT_WAS_RETURNED.match(found.said):
        return None
    place = _place(*own[-1]) if own else ""
    broken = CodeBroken(code=named, problem=f"failed: {found.said}{place}")
    return broken.record_as(f"{named} failed: {recorded_reason(error)}{place}")


def _named(table: DerivedTable, release: Release) -> str:
    return f"the transform {table.transform} {release.version} of {table.name}"


def _package(function: Callable[..., Any]) -> str:
    return function.__module__.partition(".")[0]


def _place_of(function: Callable[..., Any]) -> str:
    """Where a function is defined."""
    code = getattr(function, "__code__", None)
    return _place(code.co_filename, code.co_firstlineno) if code is not None else ""


def _place(file: str, line: int) -> str:
    return visible(f", in {file}, line {line}")


def _within(column: Column, grain: Grain, ctx: TransformContext) -> Column:
    """True for rows of the output partitions.

    A monthly row belongs to its month, so that a value that is not the first of a month is kept, found when the files
    are listed, and refused; dropping it here would lose it silently.
    """
    inside = (column >= F.lit(ctx.output.start)) & (column < F.lit(ctx.output.end))
    if partitions_over(grain, ctx.output) == ctx.output_partitions:
        return inside
    named = column if grain is Grain.DAILY else F.trunc(column, "month")
    return inside & named.isin(list(ctx.output_partitions))


def columns_differ(found: StructType, declared: StructType) -> str | None:
    """The differences in names, order or types, by column, as a part of a sentence; None when there are none."""
    return differing_columns(
        *([(f.name, f.dataType.simpleString()) for f in each.fields] for each in (found, declared))
    )


def constant_columns(table: Table, manifest: Manifest) -> Mapping[str, str]:
    """The last columns of a run's rows as they are staged, which have one value for all of them."""
    return manifest.change.constant_columns(_lineage_columns(table, manifest))


def _lineage_columns(table: Table, manifest: Manifest) -> Mapping[str, str]:
    return {name: value for name, value in lineage(manifest).items() if name in stored_schema(table).fieldNames()}


METHODS = (
    *("collect", "count", "show", "take", "head", "first", "tail", "isEmpty", "toLocalIterator", "toPandas", "toArrow"),
    *("foreach", "foreachPartition", "checkpoint", "localCheckpoint", "writeTo", "toJSON"),
    *("approxQuantile", "corr", "cov", "crosstab", "freqItems", "transpose", "mergeInto"),
    # These start no job, but leave something in the session that outlives the transform.
    *("cache", "persist", "unpersist"),
)
PROPERTIES = ("write", "writeStream", "rdd")

_found: ContextVar[list[tuple[str, str]] | None] = ContextVar("actions_of_the_transform", default=None)
_watched: set[type] = set()


class _Stopped(ContractBroken):
    """The error of an action inside a transform; the displayed message names the transform."""


@contextmanager
def without_actions(named: str, frame_type: type[DataFrame]) -> Iterator[None]:
    """Refuses actions on DataFrames while a transform is called, even if the transform catches every error.

    Args:
        frame_type: The class of the DataFrames that are passed to it.

    Raises:
        ContractBroken: It ran an action, which the message names.
    """
    _watch(frame_type)
    actions: list[tuple[str, str]] = []
    token = _found.set(actions)
    try:
        yield
    except Exception:  # of any kind: a transform may have made its own error of the refused action
        if not actions:
            raise
    finally:
        _found.reset(token)
    if actions:
        action, place = actions[0]
        problem = f"runs the action {action} on a DataFrame: it only describes rows, without actions{place}"
        raise CodeBroken(code=named, problem=problem)


def _watch(frame_type: type[DataFrame]) -> None:
    if frame_type in _watched:
        return
    _watched.add(frame_type)
    for name in METHODS:
        if (method := getattr(frame_type, name, None)) is not None:
            setattr(frame_type, name, _asking(name, method))
    for name in PROPERTIES:
        found = getattr(frame_type, name, None)
        if isinstance(found, property) and found.fget is not None:
            setattr(frame_type, name, property(_asking(name, found.fget), doc=found.__doc__))


def _asking(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def asking(*args: Any, **kwargs: Any) -> Any:
        actions = _found.get()
        if actions is not None:
            place = place_of_declaration()
            actions.append((name, visible(f", in {place}") if place else ""))
            raise _Stopped(f"a transform has no actions, and this one runs {name}.")
        return method(*args, **kwargs)

    return asking


# Call of a gate on rows that fail: what an author's function, or query, returns of the frames that it is given.
#
# It only describes rows, as a transform does, and by the same rules; nothing is counted here.


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingFrame:
    """The rows that fail a gate, as its function described them."""

    gate: Failing
    rows: DataFrame  #: The rows; nothing of them is computed yet.
    key: tuple[str, ...]  #: The columns that name a row, the partition first.
    calls_python: bool  #: True if Spark calls functions of Python for them.
    place: str  #: Where the gate is declared, as the end of a sentence.


def called_gate(gate: Failing, table: Table, frames: Frames, ctx: GateContext, sources: Sources) -> FailingFrame:
    """The result of a gate for these frames.

    Args:
        frames: At least what it names, without its context.
        sources: Which modules are the author's.

    Raises:
        ContractBroken: It failed, as a transform fails; it returned rows without the partition column, or a column
            twice; or what is read of them depends on an order that nothing decides.
    """
    named = gate_of(gate, table)
    given: dict[str, Any] = {name: ctx if name == CONTEXT else with_key(frames[name], name) for name in gate.named}
    function = partial(_selected, gate.sql, ctx.spark) if gate.rows is None else gate.rows
    taken = given if gate.then is None else {name: given[name] for name in gate.takes}
    declared = visible(f", in {gate.place}") if gate.place else ""
    rows, found, places = called(named, function, taken, ctx.spark, sources, declared)
    if gate.then is not None:
        then, both = partial(gate.then, returned=rows), {"ctx": ctx, "candidate": given[CANDIDATE]}
        rows, found, _ = called(named, then, both, ctx.spark, sources, declared)
    if problem := _wrong_shape(found, table):
        raise CodeBroken(code=named, problem=f"returned rows {problem}{declared}")
    key = _key_of(found, table, is_whole=not gate.release and gate.then is None)
    said = [name for name in (EXPECTED, FOUND) if name in found.fieldNames() and name not in key]
    plan = require_determined_plan(
        rows.select(*(in_sql(name) for name in (*key, *said))),  # what is counted and shown of them
        named,
        # A gate of this project is released without ties, whatever expressions it is given.
        keys=None if gate.release else _keys_of_frames(gate, table),
        declared=gate.undetermined,
        # Of a query no line of the author calls Spark.
        placed=lambda tie: ("" if gate.sql else places.of(tie)) or declared,
    )
    return FailingFrame(gate=gate, rows=rows, key=key, calls_python=plan.calls_python, place=declared)


def gate_of(gate: Failing, table: Table) -> str:
    """A gate, as its errors name it."""
    return f"the gate {gate.name} of {table.name}"


def _keys_of_frames(gate: Failing, table: Table) -> Keys:
    """The columns by which the rows of each frame are unique, by the names under which plans hold them."""
    keys = dict(input_keys(table)) if isinstance(table, DerivedTable) else {}
    keys |= {f"input {name}": key_of(table) for name in (CANDIDATE, ACCEPTED, AROUND)}
    return keys | {f"input {each.argument}": key_of(each.table, changes=each.changes) for each in gate.reads}


def _selected(sql: str, spark: SparkSession, **frames: Any) -> DataFrame:
    return spark.sql(query_of(sql, frames), **frames)


def _wrong_shape(found: StructType, table: Table) -> str | None:
    """Why rows cannot be counted by partition, as the end of a sentence; None if they can."""
    names, column = found.fieldNames(), table.partition.column
    if column not in names:
        return f"without the partition column {column!r}, by which they are counted: it has {', '.join(names)}"
    if twice := sorted({name for name in names if names.count(name) > 1}):
        return f"with {', '.join(twice)} twice"
    if not isinstance(kind := found[column].dataType, DateType):
        return f"whose partition column {column!r} is {kind.simpleString()}, and has to be date"
    return None


def _key_of(found: StructType, table: Table, *, is_whole: bool) -> tuple[str, ...]:
    """The columns that name a row: those of the key of the table, or without any all that say nothing else.

    Args:
        is_whole: Whether it can have columns besides those that name it, as the rows of an author's function have.
    """
    names, partition = found.fieldNames(), table.partition.column
    others = [name for name in table.row_key if is_whole and name in names and name != partition]
    if not others:
        others = [name for name in names if name not in (partition, EXPECTED, FOUND)]
    return (partition, *others)


Called = Mapping[str, FailingFrame]
"""What gates returned, by their names."""
