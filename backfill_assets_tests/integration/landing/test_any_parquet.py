"""Tables of random types land value by value as PyArrow reads them, or are refused in a sentence before anything is
recorded."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from backfill_assets.core.clock import Clock
from backfill_assets.core.settings import Settings
from backfill_assets_tests.integration.landing.test_parquet_of_arrow import parquet, source
from backfill_assets_tests.support.any_parquet import drawn, said
from backfill_assets_tests.support.landing_examples import LandingRoom, landing_room, reasons

FILES, COLUMNS, ROWS = 6, 16, 7
OPTIONS: Sequence[Mapping[str, Any]] = (
    {},
    {"compression": "brotli"},
    {"compression": "lz4", "data_page_version": "2.0"},
    {"store_schema": False, "row_group_size": 3},
    {"version": "1.0", "write_page_checksum": True},
    {"use_dictionary": False, "compression": "none", "use_compliant_nested_type": False},
)


@pytest.fixture
def room(spark: SparkSession, settings: Settings, clock: Clock) -> Iterator[LandingRoom]:
    with landing_room(spark, settings, clock, source({})) as room:
        yield room


@pytest.mark.long
@pytest.mark.parametrize("number", range(FILES))
def test_values_of_any_type_are_those_that_pyarrow_reads(room: LandingRoom, number: int) -> None:
    chance = random.Random(number)
    kinds, values = {}, {}
    for place in range(COLUMNS):
        kind, draw = drawn(chance)
        kinds[f"c{place}"] = kind
        values[f"c{place}"] = [draw(chance) for _ in range(ROWS)]
    columns = {
        name: pa.array([{"v": each} for each in values[name]], pa.struct([("v", kinds[name])])) for name in kinds
    }
    own = source(dict.fromkeys(kinds, T.StringType()), json_columns=tuple(kinds))
    rows = replace(room, source=own).judge(parquet(columns, **OPTIONS[number % len(OPTIONS)]), "a.parquet")
    rows.sort(key=lambda row: row["_row"])
    wrong = []
    for name, kind in kinds.items():
        expected = [said({"v": each}, pa.struct([("v", kind)])) for each in values[name]]
        got = [json.loads(row[name], parse_float=Written, parse_int=Written) for row in rows]
        wrong += [(str(kind), one, other) for one, other in zip(got, expected, strict=True) if not same(one, other)]
    assert reasons(rows) == [None] * ROWS
    assert wrong == [], "\n".join(map(str, wrong))


class Written(str):
    """A number of JSON, as it was written."""


def same(got: Any, expected: Any) -> bool:
    """Whether a value is the expected one: floats by their bits of 32 or of 64, decimals by their digits."""
    if isinstance(expected, dict):
        return isinstance(got, dict) and got.keys() == expected.keys() and all(same(got[n], expected[n]) for n in got)
    if isinstance(expected, list):
        return isinstance(got, list) and len(got) == len(expected) and all(map(same, got, expected))
    if isinstance(expected, float):
        return isinstance(got, Written) and (float(got) == expected or np.float32(got) == np.float32(expected))
    if isinstance(expected, int) and not isinstance(expected, bool):
        return isinstance(got, Written) and str(got) == str(expected)
    if isinstance(got, Written):
        return Decimal(got) == Decimal(expected)
    return bool(got == expected)
