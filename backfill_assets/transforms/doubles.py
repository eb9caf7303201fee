"""Sums of floating-point numbers, whose last digits depend on the order in which rows are added.

Additions of decimals and whole numbers are exact in any order. A plan writes no types: those of its results come from
the rows, others from the types that it casts to.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from pyspark.sql.types import DoubleType, FloatType, StructType

from backfill_assets.transforms.dependencies import groups_of
from backfill_assets.transforms.plan_tree import Called, Node, calls, columns, lists, numbers_in, tree_of

SUMS = {"sum", "try_sum", "avg", "mean", "try_avg", "product"}
MOMENTS = {
    *("stddev", "stddev_samp", "stddev_pop", "std", "variance", "var_samp", "var_pop", "skewness", "kurtosis"),
    *("corr", "covar_samp", "covar_pop", "regr_slope", "regr_intercept", "regr_r2", "regr_sxx", "regr_sxy", "regr_syy"),
}
DECIMAL = "decimal(38,6)"


@dataclass(frozen=True, slots=True, order=True)
class AddedDoubles:
    """A sum, mean or moment of floating-point numbers."""

    name: str  #: The function, such as `sum`.
    column: str  #: The column that it gives.


def double_columns(schema: StructType) -> list[str]:
    """The columns that hold floating-point numbers."""
    return [each.name for each in schema.fields if isinstance(each.dataType, DoubleType | FloatType)]


@dataclass(slots=True)
class _Types:
    """The floating-point columns of a plan, as far as they are known."""

    known: dict[str, bool]

    def is_double(self, text: str) -> bool:
        """True if an expression gives a floating-point number."""
        text = _without_conditions(text)
        if cast := re.match(r"^(?:try_)?cast\(.* as ([\w,() ]+)\)$", text, re.DOTALL):
            return cast.group(1).startswith(("double", "float"))
        exact = [each for each in calls(text) if each.name.lower() in _EXACT or _casts_exactly(each)]
        rest = _without(text, exact)
        if any(_casts_to_double(each) for each in calls(rest)):
            return True
        return any(self.known.get(number, False) for number in numbers_in(rest))


_EXACT = {"count", "floor", "ceil", "length", "hash", "xxhash64", "isnull", "isnotnull", "size", "datediff", "day"}


def _casts_to_double(each: Called) -> bool:
    return each.name in ("cast", "try_cast") and each.argument(0).endswith((" as double", " as float"))


def _casts_exactly(each: Called) -> bool:
    given = ",".join(each.arguments)
    return each.name in ("cast", "try_cast") and bool(
        re.search(r" as (?:decimal|bigint|int|smallint|tinyint)\b", given)
    )


def _without_conditions(text: str) -> str:
    return re.sub(r"\bWHEN .*? THEN ", "", re.sub(r"\bif \(.*?\) ", "", text))


def _without(text: str, spans: list[Called]) -> str:
    for each in reversed(spans):
        text = text[: each.start] + " " + text[each.end + 1 :] if each.end < len(text) else text[: each.start]
    return text


def added_doubles(plan: str, schema: StructType, given: Collection[str] = ()) -> tuple[AddedDoubles, ...]:
    """The additions of floating-point numbers in an analysed plan.

    Args:
        plan: The plan, without the line of its columns.
        schema: The columns of the rows.
        given: The columns of inputs that hold them.
    """
    root = tree_of(plan)
    if root is None:
        return ()
    shown = columns(lists(root.said)[0]) if lists(root.said) else []
    types = [isinstance(each.dataType, DoubleType | FloatType) for each in schema.fields]
    result = {each.number: is_double for each, is_double in zip(shown, types, strict=False)}
    return tuple(sorted(set(_added(root, _Types({}), result, given))))


def _added(node: Node, types: _Types, result: Mapping[str, bool], given: Collection[str]) -> Iterator[AddedDoubles]:
    for each in (*node.children, *node.inside):
        yield from _added(each, types, result, given)
    if not node.children:
        for found in lists(node.said)[:1]:
            for each_given in columns(found):
                types.known.setdefault(each_given.number, each_given.name in given)
        return
    if node.name not in ("Project", "Aggregate", "Window"):
        return
    if node.name == "Window":
        text = next(iter(lists(node.said)), "")
    else:
        text = groups_of(node)[2] if node.name == "Aggregate" else node.said[1:-1]
    for made in columns(text):
        if made.passed == made.number:
            continue
        is_double = result.get(made.number, types.is_double(made.text))
        types.known[made.number] = is_double
        if node.name == "Project":
            continue
        for called in calls(made.text):
            if called.name in MOMENTS or (
                called.name in SUMS and _adds_doubles(called, made.text, types, result.get(made.number))
            ):
                yield AddedDoubles(called.name, made.name)


def _adds_doubles(called: Called, text: str, types: _Types, of_result: bool | None) -> bool:
    is_alone = (called.start, called.end) == (0, len(text) - 1)
    if called.name.endswith("sum") and is_alone and of_result is not None:
        return of_result
    return types.is_double(called.argument(0).removeprefix("distinct "))
