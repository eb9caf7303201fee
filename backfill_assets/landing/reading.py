"""Reading: what a source states of all its files, by which their values are read, and how a value is quoted."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.domain import Csv, SourceTable
from backfill_assets.domain.forms import Reader, readers_of
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
        forms: How the dates or times of the column are written, in the order in which that is tried; without any they
            are written as in ISO 8601.
        decimal: What is before the fraction of a number that is a text.
        thousands: What is between groups of three digits of such a number; empty where nothing is.
        true: Texts that stand for true.
        false: Texts that stand for false.
    """

    rounds: bool = False
    timezone: str = ""
    finite: bool = False
    forms: tuple[Reader, ...] = ()
    decimal: str = "."
    thousands: str = ""
    true: tuple[str, ...] = ("true",)
    false: tuple[str, ...] = ("false",)

    @property
    def of_json(self) -> Reading:
        """How what is inside arrays and structs is read, which are JSON also in a CSV."""
        return Reading(rounds=self.rounds, timezone=self.timezone, finite=self.finite)


EXACTLY = Reading()


def reading_of(source: SourceTable, name: str) -> Reading:
    """How values of a column are read: what a source states of all its files, but that no key is rounded to another."""
    how = Reading(
        rounds=source.rounds and name not in source.key,
        timezone=source.timezone,
        forms=readers_of(source.formats[name]) if name in source.formats else (),
    )
    if not isinstance(source.reads, Csv):
        return how
    csv = source.reads
    return replace(how, decimal=csv.decimal, thousands=csv.thousands, true=csv.true, false=csv.false)


def nulls_of(source: SourceTable) -> tuple[str, ...]:
    """The texts that stand for no value, in columns of every type."""
    return source.reads.null if isinstance(source.reads, Csv) else ()


def quoting(sentence: Column, text: Column) -> Column:
    """A sentence that ends with the beginning of a value."""
    return F.concat(sentence, F.lit(": '"), first_characters(text, QUOTED_CHARACTERS), F.lit("'"))


def shown(value: Column, found: T.DataType) -> Column:
    """A raw value as the text that a sentence quotes."""
    return F.to_json(value, JSON_OF_PARQUET) if isinstance(found, NESTED) else value.cast("string")
