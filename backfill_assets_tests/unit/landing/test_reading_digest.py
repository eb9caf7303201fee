"""By which declaration was a landed file read, and would its bytes become other records now?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql.types import (
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from backfill_assets.capture.landed_files import GIVEN_FILE
from backfill_assets.domain import Csv, SourceTable, daily, lifts
from backfill_assets.landing import imports as digests
from backfill_assets.landing.imports import reading_digest, reads_otherwise
from backfill_assets.ledger.imports import ImportRecord
from backfill_assets.ledger.states import ImportState
from backfill_assets_tests.support.declared import source

FIRST = StructType(
    [
        StructField("id", StringType(), nullable=False),
        StructField("at", TimestampType(), nullable=False),
        StructField("until", DateType()),
        StructField("amount", IntegerType()),
    ]
)
SOURCE = SourceTable(
    name="bronze.sales",
    key=("id",),
    event_time="at",
    partition=daily("sold_on"),
    schema=FIRST,
    reads=Csv(),
    formats={"until": "dd/MM/yyyy"},
    timezone="Europe/Amsterdam",
)
AT = datetime(2026, 1, 1, tzinfo=UTC)

KNEW_NO_COLUMNS = "c8d6d8fc65eab211bcb225fd6060956234593f911305ebd76286d2cfb4b2e467"
"""What was recorded of a file of this source, before what is recorded had its columns."""


def landed(source: SourceTable, **more: Any) -> ImportRecord:
    """A file as it was landed when its source was declared so."""
    known: Mapping[str, Any] = {
        "import_id": "imp-000001",
        "state": ImportState.LOADED,
        "arrival": 1,
        "first_seen_at": AT,
        "landed_at": AT,
        "landed_by": "ana",
        "on_duplicate": "ignore",
        "judged_at": AT,
        "source": source.name,
        "family": GIVEN_FILE,
        "range_from": "0",
        "range_to": "1",
        "sha256": "0" * 64,
        "original_path": "a.csv",
        "stored_path": "a.csv",
        "size_bytes": 1,
        "format": "csv",
        "compression": "",
        "contract": source.contract_version,
        "reading": reading_digest(source),
    }
    return ImportRecord(**{**known, **more})


def column(name: str, /, **becomes: Any) -> StructType:
    """The columns with another one in the place of one."""
    fields = [StructField(**{**_named(f), **becomes}) if f.name == name else f for f in FIRST.fields]
    return StructType(fields)


def _named(field: StructField) -> dict[str, Any]:
    return {"name": field.name, "dataType": field.dataType, "nullable": field.nullable}


CORRECTIONS: Mapping[str, Mapping[str, Any]] = {
    "type": {"schema": column("amount", dataType=DoubleType())},
    "wider type": {"schema": column("amount", dataType=LongType())},
    "name": {"schema": column("amount", name="net")},
    "null": {"schema": column("amount", nullable=False)},
    "names of the file": {"columns": {"Amount": "amount"}},
    "form": {"formats": {"until": "MM/dd/yyyy"}},
    "zone": {"timezone": "Europe/London"},
    "dialect": {"reads": Csv(decimal=",")},
    "key": {"key": ("id", "amount")},
    "order": {"order": ("amount",)},
    "event time": {"event_time": "until", "formats": {}},
    "ahead": {"planned": True},
    "bounds": {"bounds": {"until": {"infinity": "9999-12-31"}}},
}


@pytest.mark.parametrize("name", CORRECTIONS)
def test_every_correction_that_gives_a_file_other_records_is_noticed(name: str) -> None:
    assert not reads_otherwise(SOURCE)(landed(SOURCE))
    assert reads_otherwise(replace(SOURCE, **CORRECTIONS[name]))(landed(SOURCE))


@pytest.mark.parametrize("more", [{"description": "sales"}, {"unknown": "keep"}, {"plausible_gap_days": 3}])
def test_what_changes_no_record_is_no_correction(more: Mapping[str, Any]) -> None:
    assert not reads_otherwise(replace(SOURCE, **more))(landed(SOURCE))


LATER: Mapping[str, Mapping[str, Any]] = {
    "a column more": {"schema": StructType([*FIRST.fields, StructField("channel", StringType())])},
    "a wider type": {"schema": column("amount", dataType=LongType())},
    "another name": {"schema": column("amount", name="net"), "lift": {1: lifts(renamed={"amount": "net"})}},
    "a column less": {
        "schema": StructType([f for f in FIRST.fields if f.name != "until"]),
        "lift": {1: lifts(dropped=("until",))},
        "formats": {},
    },
}


@pytest.mark.parametrize("name", LATER)
def test_another_version_of_the_contract_says_nothing_about_files_that_landed_before(name: str) -> None:
    later = replace(SOURCE, earlier={1: FIRST}, **LATER[name])
    assert not reads_otherwise(later)(landed(SOURCE))
    assert reads_otherwise(replace(later, timezone="Europe/London"))(landed(SOURCE))


def test_a_file_that_has_the_columns_of_a_later_version_would_be_read_as_that() -> None:
    later = replace(SOURCE, earlier={1: FIRST}, **LATER["a column more"])
    assert reads_otherwise(later)(landed(SOURCE, ignored_columns=("channel",)))
    assert not reads_otherwise(later)(landed(SOURCE, ignored_columns=("colour",)))


def test_a_corrected_earlier_version_is_noticed_in_files_that_were_read_as_it() -> None:
    later = replace(SOURCE, earlier={1: FIRST}, **LATER["a column more"])
    other = replace(later, earlier={1: column("amount", nullable=False)})
    assert reads_otherwise(other)(landed(SOURCE)) and reads_otherwise(other)(landed(later))


def test_files_whose_digest_knew_no_columns_are_judged_by_what_it_knew() -> None:
    old = landed(SOURCE, reading=KNEW_NO_COLUMNS)
    assert not reads_otherwise(SOURCE)(old)
    assert not reads_otherwise(replace(SOURCE, **CORRECTIONS["type"]))(old)
    assert reads_otherwise(replace(SOURCE, **CORRECTIONS["form"]))(old)
    assert not reads_otherwise(replace(SOURCE, **CORRECTIONS["form"]))(landed(SOURCE, reading=None))


def test_the_text_fits_into_the_ledger() -> None:
    assert len(reading_digest(SOURCE)) <= 64


@pytest.mark.parametrize(("version", "is_plain"), [("PLAIN_VERSION", True), ("DECODER_VERSION", False)])
def test_a_decoder_that_reads_otherwise_is_another_reading_of_its_files_alone(
    monkeypatch: pytest.MonkeyPatch, version: str, is_plain: bool
) -> None:
    plain, dialect = source(), source(reads=Csv(delimiter=";"))
    before = [reading_digest(plain), reading_digest(dialect)]
    monkeypatch.setattr(digests, version, 99)
    after = [reading_digest(plain), reading_digest(dialect)]
    assert [one != other for one, other in zip(before, after, strict=True)] == [is_plain, not is_plain]


def test_a_dialect_is_what_its_author_has_chosen_of_it() -> None:
    assert reading_digest(source(reads=Csv(delimiter=";"))) == reading_digest(
        source(reads=Csv(delimiter=";", quote='"'))
    )
    assert reading_digest(source(reads=Csv(delimiter=";"))) != reading_digest(source(reads=Csv(delimiter="|")))
