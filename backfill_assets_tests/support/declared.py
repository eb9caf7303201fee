"""Declarations that are right, each of which a test changes in one place, and what such a mistake has to say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    DateType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from backfill_assets.core.errors import InvalidDeclaration
from backfill_assets.domain import (
    DerivedTable,
    Domain,
    Operations,
    SourceTable,
    TransformContext,
    daily,
    derived_table,
)

Mistakes = Mapping[str, tuple[Callable[[], object], str]]
"""By a name: a declaration with a mistake, and the sentence that names it."""

EVENTS = StructType(
    [StructField("event_id", StringType(), nullable=False), StructField("at", TimestampType(), nullable=False)]
)
DAILY = StructType(
    [
        StructField("day", DateType(), nullable=False),
        StructField("state", StringType()),
        StructField("count", IntegerType()),
    ]
)


def source(**changed: Any) -> SourceTable:
    declared: dict[str, Any] = {
        "name": "bronze.events",
        "key": ("event_id",),
        "event_time": "at",
        "partition": daily("event_date"),
        "schema": EVENTS,
    }
    return SourceTable(**{**declared, **changed})


FEED = StructType(
    [
        *EVENTS.fields,
        StructField("lsn", LongType(), nullable=False),
        StructField("op", StringType(), nullable=False),
        StructField("tags", ArrayType(StringType())),
    ]
)


def feed(**operations: Any) -> SourceTable:
    """A source whose operations are declared in a way of their own."""
    return source(schema=FEED, order=("lsn",), operation=Operations(**{"column": "op", "create": "c", **operations}))


def derived(events: SourceTable, **changed: Any) -> DerivedTable:
    declared: dict[str, Any] = {
        "name": "silver.daily",
        "inputs": {"events": events},
        "key": ("day",),
        "partition": daily("day"),
        "schema": DAILY,
        "version": "1.0.0",
    }

    def function(events: DataFrame, ctx: TransformContext) -> DataFrame:
        return events

    return derived_table(**{**declared, **changed})(function)


def domain(*tables: DerivedTable, sources: tuple[SourceTable, ...]) -> Domain:
    return Domain(name="example", package="backfill_assets_tests", sources=sources, derived=tables)


def other_arguments(rows: DataFrame, ctx: TransformContext) -> DataFrame:
    return rows


def same_arguments(events: DataFrame, ctx: TransformContext) -> DataFrame:
    return events


def check_named(mistake: tuple[Callable[[], object], str]) -> None:
    """Fails unless the declaration is refused with its sentence."""
    declare, sentence = mistake
    with pytest.raises(InvalidDeclaration) as refusal:
        declare()
    assert sentence in refusal.value.message
