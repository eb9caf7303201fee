"""Reading: the statements of a source by which the values of all its files are read, and how a value is quoted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.domain import Csv, SourceTable
from backfill_assets.domain.source_files import Reader, readers_of
from backfill_assets.lake.row_values import first_characters

ROW, FILE = "_row", "_file"
"""The number of a record in its file and, where several files are read at once, the name of that."""

QUOTED_CHARACTERS = 100
FIRST, SECOND, BOTH, REJECT = "first", "second", "both", "reject"
NESTED = (T.StructType, T.MapType, T.ArrayType)

JSON_OF_PARQUET = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""How nested values of a Parquet file become text: Spark's own format leaves out nulls and cuts to milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The declarations of a source that hold for all its files."""

    #: Digits that a type does not keep are rounded or cut off; otherwise they make a value no value.
    rounds: bool = False
    #: The zone of times without an offset that the contract has as instants; empty where there are none.
    timezone: str = ""
    #: Which of two a time is that clocks of the zone show twice: the `first`, the `second`, or none of them (`reject`).
    repeated: str = FIRST
    finite: bool = False  #: Numbers are written as JSON, which has no others than finite ones.
    #: How the dates or times of the column are written, in the order in which that is tried; without any they are
    #: written as in ISO 8601.
    forms: tuple[Reader, ...] = ()
    decimal: str = "."  #: What is before the fraction of a number that is a text.
    thousands: str = ""  #: What is between groups of three digits of such a number; empty where nothing is.
    true: tuple[str, ...] = ("true",)  #: Texts that stand for true.
    false: tuple[str, ...] = ("false",)  #: Texts that stand for false.
    #: What the files are written in, where they are CSV: what of it may be declared otherwise is said of a value that
    #: cannot be read.
    csv: Csv | None = None

    @property
    def of_json(self) -> Reading:
        """The reading of values inside arrays and structs, which are JSON also in a CSV."""
        return Reading(rounds=self.rounds, timezone=self.timezone, repeated=self.repeated, finite=self.finite)


EXACTLY = Reading()


def reading_of(source: SourceTable, name: str) -> Reading:
    """The reading of a column's values: as declared for all files of the source, except that no key is rounded to
    another."""
    rule = repeated_hour_of(source, name)
    # A rejected record is known by the first of the two; of a time inside a value there is no other sentence.
    is_inside = isinstance(source.schema[name].dataType, NESTED)
    repeated = rule if rule in (FIRST, SECOND) else REJECT if is_inside else FIRST
    how = Reading(
        rounds=source.rounds and name not in source.key,
        timezone=source.timezone,
        repeated=repeated,
        forms=readers_of(source.formats[name]) if name in source.formats else (),
    )
    if not isinstance(source.reads, Csv):
        return how
    csv = source.reads
    return replace(how, decimal=csv.decimal, thousands=csv.thousands, true=csv.true, false=csv.false, csv=csv)


def repeated_hour_of(source: SourceTable, name: str) -> str:
    """The treatment of times of a column that clocks show twice. One that tells records apart is not taken for the
    first unless that is declared, and of `both` the order of the records of a key decides."""
    tells_apart = name in (*source.key, *source.order)
    match source.repeated_hour:
        case "":
            return REJECT if tells_apart else FIRST
        case "both":
            return BOTH if name in source.key else REJECT
        case declared:
            return declared


def nulls_of(source: SourceTable, name: str) -> tuple[str, ...]:
    """The texts that stand for no value of a column, which is of any type; of a joined one that of each part."""
    nulls = source.reads.null if isinstance(source.reads, Csv) else ()
    return tuple(map(" ".join, product(nulls, repeat=len(source.places[name]))))


def raw(name: str) -> str:
    """The column with the values of a column as its file has them."""
    return f"_raw_{name}"


def quoting(sentence: Column, text: Column) -> Column:
    """A sentence that ends with the beginning of a value."""
    return F.concat(sentence, F.lit(": '"), first_characters(text, QUOTED_CHARACTERS), F.lit("'"))


def shown(value: Column, found: T.DataType) -> Column:
    """A raw value as the text that a sentence quotes."""
    return F.to_json(value, JSON_OF_PARQUET) if isinstance(found, NESTED) else value.cast("string")
