"""Columns of random types that Spark does not read are written anew with the values that PyArrow reads."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backfill_assets.landing.parquet import decode_parquet, is_foreign
from backfill_assets_tests.support.any_parquet import drawn, said

TYPES, ROWS = 600, 40


@pytest.mark.long
def test_values_of_any_type_stay_what_they_were_over_row_groups_and_nulls(tmp_path: Path) -> None:
    copy, into = tmp_path / "landed", tmp_path / "decoded"
    foreign, wrong = 0, []
    for seed in range(TYPES):
        chance = random.Random(seed)
        kind, draw = drawn(chance)
        if "timestamp" in str(kind):  # PyArrow gives these other forms
            continue
        values = [draw(chance) for _ in range(ROWS)]
        pq.write_table(pa.table({"x": pa.array(values, kind)}), copy, row_group_size=17)
        if not is_foreign(copy):
            continue
        foreign += 1
        decode_parquet(copy, name="a.parquet", into=into)
        read, found = pq.read_table(copy).column("x"), pq.read_table(into).column("x")
        wrong += [
            (seed, str(kind), one, other)
            for one, other in zip(read.to_pylist(), found.to_pylist(), strict=True)
            if text(one, read.type) != text(other, found.type)
        ]
    assert foreign > 100
    assert wrong == []


def text(value: object, kind: pa.DataType) -> str:
    """What JSON has of a value; a decimal may be a text or a number."""
    return re.sub(r'"(-?[0-9.]+)"', r"\1", json.dumps(said(value, kind)))
