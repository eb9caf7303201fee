"""Likely marks: which mark of a CSV a value has that is none of its column's type, for the sentence about it.

A decimal comma, groups of three digits, words for true and false, and texts that stand for no value are declared of the
files of a source. Nothing is read by what is found here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.domain import Csv
from backfill_assets.landing.csv_headers import declaration

_NULLS = (
    *(r"\N", "NULL", "null", "(null)", "<NA>", "NA", "N/A", "n/a", "na", "#N/A", "NaN", "nan", "None", "none"),
    *("?", "-", "--", "---", ".", "..", "*", "missing"),
)
_TRUE_AND_FALSE = (("true", "false"), ("yes", "no"), ("y", "n"), ("t", "f"), ("1", "0"), ("on", "off"))
_PLACE = "{text}"

_GROUPS = r"\A[+-]?[1-9][0-9]{0,2}"
_FRACTION = r"\A[+-]?[0-9]*,[0-9]+\z"
"""A number with a comma, which may also be between groups of three digits."""


def mark_to_declare(text: Column, target: T.DataType, csv: Csv | None) -> Column:
    """What a source declares whose files have a text in a column of a type, as what follows a sentence; empty where
    nothing would make it a value.

    Args:
        csv: What its files are written in; None where they are no CSV, so that no mark is declared of them.
    """
    if csv is None:
        return F.lit("")
    before, after = declaration(replace(csv, null=(*csv.null, _PLACE))).split(_PLACE)
    in_python = F.replace(text, F.lit("\\"), F.lit("\\\\"))
    null = F.concat(F.lit(f"; if it stands for no value, declare {before}"), in_python, F.lit(after))
    found = F.when(F.trim(text).isin(*_NULLS), null)
    for is_one, changed in _of_type(text, target, csv):
        found = found.when(is_one, F.lit("; " + " or ".join(f"declare {declaration(each)}" for each in changed)))
    return found.otherwise("")


def _of_type(text: Column, target: T.DataType, csv: Csv) -> Iterator[tuple[Column, list[Csv]]]:
    """Conditions of a text, and the dialects in one of which it is a value."""
    if isinstance(target, T.BooleanType):
        for pair in _TRUE_AND_FALSE:
            for true, false in dict.fromkeys((pair, tuple(map(str.capitalize, pair)), tuple(map(str.upper, pair)))):
                if true not in csv.true:
                    both = replace(csv, true=(*csv.true, true), false=(*csv.false, false))
                    yield text.isin(true, false), [both]
    if not isinstance(target, T.NumericType) or (csv.decimal, csv.thousands) != (".", ""):
        return
    is_whole = isinstance(target, T.IntegralType)
    by_comma, with_comma = replace(csv, thousands=","), replace(csv, decimal=",")
    yield text.rlike(rf"{_GROUPS}(,[0-9]{{3}})+\z"), [by_comma] if is_whole else [with_comma, by_comma]
    for between in (".", " ", "\u00a0", "'"):
        groups = rf"{_GROUPS}([{between}][0-9]{{3}})+"
        if between != ".":
            yield text.rlike(rf"{groups}([.][0-9]+)?\z"), [replace(csv, thousands=between)]
        elif is_whole:
            yield text.rlike(rf"{groups}\z"), [replace(csv, decimal=",", thousands=between)]
        yield text.rlike(rf"{groups},[0-9]+\z"), [replace(csv, decimal=",", thousands=between)]
    yield text.rlike(rf"{_GROUPS}(,[0-9]{{3}})+[.][0-9]+\z"), [by_comma]
    if not is_whole:
        yield text.rlike(_FRACTION), [with_comma]
