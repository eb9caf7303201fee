"""A short version of the comparison of declared texts, with a fixed seed, and the options that its generators know."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any, get_args

import pytest
from pyspark.sql import SparkSession

from backfill_assets.domain import Csv, Epoch, SourceTable
from backfill_assets.domain.source_files import REPEATED_HOURS, UNITS, WRITTEN, Dialect, forms_of
from backfill_assets_tests.faults import fuzz_times
from backfill_assets_tests.faults.fuzz_values import table
from backfill_assets_tests.faults.fuzz_written import declared, file_of, fuzz_written
from backfill_assets_tests.faults.landing_oracle import FileRefused
from backfill_assets_tests.faults.written_files import KINDS

OF_TIMES = ("timezone", "rounds")
"""What a source declares of its values, besides how they are written."""


@pytest.mark.long
def test_every_declared_text_is_the_value_that_was_written(spark: SparkSession, tmp_path: Path) -> None:
    findings = fuzz_written(spark, tmp_path, seed=1, records=6_000, records_in_a_file=600)
    assert not findings.differences, table(findings)
    compared = {name for _, name in findings.counts}
    assert {"timestamp", "timestamp_ntz", "date", "boolean", "string"} <= compared
    assert {kind for kind, _ in findings.counts} >= {*KINDS}


def sources() -> Iterator[SourceTable]:
    """Those of the fuzzers that declare how files are written."""
    for seed in range(60):
        yield fuzz_times.source_of(random.Random(seed))
        for place, kind in enumerate(KINDS):
            yield declared(random.Random(f"{seed}/{place}"), kind, seed)[0]


def usual(option: Field[Any]) -> Any:
    return option.default_factory() if option.default_factory is not MISSING else option.default


@pytest.mark.long
def test_every_option_of_how_files_are_written_is_known_to_a_generator() -> None:
    """An option that is added to a dialect or a source has to be fuzzed as well."""
    some = [*sources()]
    seen: dict[tuple[type, str], list[Any]] = defaultdict(list)
    for source in some:
        declarations: list[Any] = [source, *filter(None, [source.reads])]
        for of in declarations:
            for option in fields(of):
                if (value := getattr(of, option.name)) != usual(option):
                    seen[type(of), option.name].append(value)
    wanted = {(kind, option.name) for kind in get_args(Dialect) for option in fields(kind)}
    wanted |= {(SourceTable, name) for name in (*WRITTEN, *OF_TIMES)}
    assert wanted <= seen.keys(), wanted - seen.keys()
    assert {type(source.reads) for source in some} == {*get_args(Dialect), type(None)}
    assert {*seen[SourceTable, "repeated_hour"], ""} == {*REPEATED_HOURS}
    forms = [form for source in some for declared in source.formats.values() for form in forms_of(declared)]
    assert {form.unit for form in forms if isinstance(form, Epoch)} == {*UNITS}
    assert any(len(forms_of(each)) > 1 for source in some for each in source.formats.values())
    names = {type(name) for source in some for name in source.columns}
    assert names == {str, int, tuple}
    assert {len(each) for each in seen[Csv, "delimiter"]} == {1, 2}


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_every_kind_have_records_that_are_accepted_and_others_that_are_not(kind: str) -> None:
    fates = {"accepted": 0, "rejected": 0}
    for seed in range(20):
        chance = random.Random(seed)
        source, texts, layouts = declared(chance, kind, seed)
        _, records = file_of(chance, source, texts, layouts, kind, count=20, name="f")
        for record in () if isinstance(records, FileRefused) else records:
            fates["rejected" if record.culprits or record.broken is not None else "accepted"] += 1
    assert min(fates.values()) > 50, fates
