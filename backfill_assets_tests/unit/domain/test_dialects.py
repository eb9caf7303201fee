"""Dialects that no file can have are refused when they are declared, with what is wrong."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql.types import ArrayType, DateType, StringType, StructField, StructType, TimestampType

from backfill_assets.core.errors import InvalidDeclaration
from backfill_assets.domain import Csv, Epoch, Json, SourceTable, Xlsx, daily, seconds

LATER = StructField("later", TimestampType())
SCHEMA = StructType(
    [StructField("id", StringType()), StructField("at", TimestampType()), StructField("until", DateType())]
)


NESTED = StructType([*SCHEMA.fields, StructField("visits", ArrayType(TimestampType())), LATER])


def declared(**written: Any) -> SourceTable:
    """A source of which files are written in a certain way."""
    given: dict[str, Any] = {"key": ("id",), "event_time": "at", "schema": SCHEMA, **written}
    return SourceTable(name="bronze.odd", partition=daily("day"), **given)


@pytest.mark.parametrize(
    ("written", "refusal"),
    [
        ({"reads": Csv(delimiter="")}, "the delimiter of its Csv is empty"),
        ({"reads": Csv(quote="''")}, "quote of its Csv is"),
        ({"reads": Csv(escape="\\\\")}, "escape of its Csv is"),
        ({"reads": Csv(delimiter="\\", quote="", escape="\\")}, "a sign that values are not made of"),
        ({"reads": Csv(quote="", escape="n")}, "a sign that values are not made of"),
        ({"reads": Csv(letters=True)}, "has letters behind an escape, and names none"),
        ({"reads": Csv(decimal="")}, "before the fraction of a number"),
        ({"reads": Csv(decimal="0")}, "before the fraction of a number"),
        ({"reads": Csv(thousands=".")}, "which a number has otherwise"),
        ({"reads": Csv(thousands="-")}, "which a number has otherwise"),
        ({"reads": Csv(delimiter='a"')}, "has the quote in it"),
        ({"reads": Csv(delimiter="\n")}, "has a line break for something else"),
        ({"reads": Csv(skip=-1)}, "has to be a number of lines"),
        ({"reads": Csv(null=("true",))}, "'true' stands for two things"),
        ({"reads": Csv(true=("x",), false=("x",))}, "'x' stands for two things"),
        ({"reads": Csv(encoding="latin-77")}, "which Python does not know"),
        ({"reads": Csv(encoding="base64")}, "which Python does not know"),
        ({"reads": Csv(null=["NA"])}, "reads.null must be a tuple of texts"),  # type: ignore[arg-type]
        ({"reads": Json(records="rows", array=True)}, "says that a document is the list of them"),
        ({"reads": Xlsx(skip=-1)}, "has to be a number of rows"),
        ({"reads": "csv"}, "reads must be Csv"),
        ({"formats": {"id": "yyyy"}}, "neither a date nor a timestamp"),
        ({"formats": {"unti": "yyyy"}}, "'unti', which is not a column of its schema; did you mean"),
        ({"formats": {"at": ()}}, "formats must be forms by column"),
        ({"ahead": 60}, "ahead must be a time such as seconds"),
        ({"ahead": timedelta.max}, "ahead must be a time such as seconds"),
        ({"ahead": seconds(60), "planned": True}, "leave ahead out"),
        ({"repeated_hour": "first"}, "declare its timezone"),
        ({"formats": {"visits": "yyyy"}, "schema": NESTED}, "times inside of 'visits' are read as in ISO 8601 alone"),
        ({"formats": {"visits.at": "yyyy"}, "schema": NESTED}, "times inside of 'visits' are read as in ISO 8601"),
        (
            {"repeated_hour": "both", "timezone": "Europe/Berlin", "key": ("at", "later"), "schema": NESTED},
            "its key has at and later: of two times the order does not tell which comes twice",
        ),
        ({"columns": {"a.b.c.d.e.f.g": "id"}}, "has 'a.b.c.d.e.f.g' for 'id', a path of more than 6 names"),
        ({"repeated_hour": "twice", "timezone": "Europe/Berlin"}, "'first', 'second', 'reject' or 'both'"),
    ],
)
def test_what_no_file_can_be_is_refused_when_it_is_declared(written: dict[str, Any], refusal: str) -> None:
    with pytest.raises(InvalidDeclaration) as refused:
        declared(**written)
    assert refusal in str(refused.value)
    assert str(refused.value).startswith("bronze.odd: ")


def test_what_files_can_be_is_declared() -> None:
    assert declared(reads=Csv(delimiter=",", decimal=","), formats={"at": Epoch("ms"), "until": ("yyyy", "M/d/yyyy")})
    assert declared(columns={"a.b.c.d.e.f": "id"})
    assert declared(ahead=seconds(1.5)).ahead == timedelta(milliseconds=1500)


@pytest.mark.parametrize("count", [-1, True, "60", float("nan"), float("inf")])
def test_seconds_are_a_number(count: Any) -> None:
    with pytest.raises(InvalidDeclaration, match="write a number of seconds"):
        seconds(count)
