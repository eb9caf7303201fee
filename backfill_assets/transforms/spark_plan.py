"""Spark's plan of the rows that a function describes: does it ask a clock, for chance, a user or a task?

What the author's source does not show by names is in the plan that Spark has analysed, before a row is computed. The
plan is asked for in SQL, which is the same for a session of this process and one over Spark Connect. Expressions that
ask the clock or the user are constants in the optimised plan: so they are told from texts that only look like them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession

from backfill_assets.domain.errors import CodeBroken
from backfill_assets.transforms.undetermined import FILES, TASKS, WORDS, why_not_in_sql

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


def require_determined_plan(rows: DataFrame, named: str) -> bool:
    """Refuses rows that Spark would compute otherwise another time; returns whether it calls functions of Python.

    Raises:
        CodeBroken: Names the expression.
    """
    session = rows.sparkSession
    with _whole_plans(session):
        plan: str = session.sql("EXPLAIN EXTENDED SELECT * FROM {rows}", rows=rows).collect()[0][0]
    analysed, _, rest = plan.partition("== Analyzed Logical Plan ==")[2].partition("== Optimized Logical Plan ==")
    optimised, _, physical = rest.partition("== Physical Plan ==")
    for name, why in _undetermined(analysed, optimised):
        problem = f"describes rows by {name}: {why}, so that the same inputs can give other rows"
        raise CodeBroken(code=named, problem=problem)
    return bool(_PYTHON.search(physical))


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
