"""Reading: what a source states of all its files, by which their values are read, and how a value is quoted."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.domain import SourceTable
from backfill_assets.lake.row_values import first_characters

QUOTED_CHARACTERS = 100
NESTED = (T.StructType, T.MapType, T.ArrayType)

JSON_OF_PARQUET = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""How nested values of a Parquet file become text: Spark's own format leaves out nulls and cuts to milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a source states of all its files.

    Attributes:
        rounds: Digits that a type does not keep are rounded or cut off; otherwise they make a value no value.
        timezone: The zone of times without an offset that the contract has as instants; empty where there are none.
        finite: Numbers are written as JSON, which has no others than finite ones.
    """

    rounds: bool = False
    timezone: str = ""
    finite: bool = False


EXACTLY = Reading()


def reading_of(source: SourceTable, name: str) -> Reading:
    """How values of a column are read: what a source states of all its files, but that no key is rounded to another."""
    return Reading(rounds=source.rounds and name not in source.key, timezone=source.timezone)


def quoting(sentence: Column, text: Column) -> Column:
    """A sentence that ends with the beginning of a value."""
    return F.concat(sentence, F.lit(": '"), first_characters(text, QUOTED_CHARACTERS), F.lit("'"))


def shown(value: Column, found: T.DataType) -> Column:
    """A raw value as the text that a sentence quotes."""
    return F.to_json(value, JSON_OF_PARQUET) if isinstance(found, NESTED) else value.cast("string")
