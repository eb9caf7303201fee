"""Is every value the one that was written where a source declares how its files are written?

`python -m backfill_assets_tests.faults.fuzz_written --records 100000 [--seed N]` lands CSV in any dialect, lines and
documents of JSON, Avro, workbooks, Parquet, Maxwell's records and Canal's messages, of sources with names of files,
earlier names, forms of times, zones, numbers since 1970, other marks of numbers, words for true and false and texts of
no value, and compares each record with `landing_written`.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count as numbers
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import types as T

from backfill_assets.capture.debezium import POSITION
from backfill_assets.core.errors import InvalidDeclaration
from backfill_assets.core.settings import Settings
from backfill_assets.domain import (
    DEBEZIUM_OPERATIONS,
    DEBEZIUM_POSITION_COLUMNS,
    Avro,
    Canal,
    Debezium,
    Epoch,
    Json,
    Maxwell,
    SourceTable,
    Xlsx,
    daily,
)
from backfill_assets.domain.source_files import Dialect
from backfill_assets_tests.faults.fuzz_times import ZONES, change_of_clocks
from backfill_assets_tests.faults.fuzz_values import Comparison, Findings, table
from backfill_assets_tests.faults.fuzzed import fuzzed
from backfill_assets_tests.faults.landing_clocks import Times
from backfill_assets_tests.faults.landing_dialects import dialect_of
from backfill_assets_tests.faults.landing_oracle import FileRefused, Record
from backfill_assets_tests.faults.landing_values import AT, ID, Generated
from backfill_assets_tests.faults.landing_written import Texts
from backfill_assets_tests.faults.written_files import KINDS, Layout, layout_of, written
from backfill_assets_tests.support.landing_examples import LANDED_AT, landing_room
from backfill_assets_tests.support.written_times import DATES, INSTANTS, LOCAL, Written, a_number, a_text, a_time

WHEN = "2024-05-01T10:00:00Z"
TIMES: Sequence[tuple[T.DataType, Mapping[str, Written]]] = (
    (T.DateType(), DATES),
    (T.TimestampNTZType(), LOCAL),
    (T.TimestampType(), INSTANTS),
    (T.TimestampType(), LOCAL),
)
NUMBERS: Sequence[T.DataType] = (T.LongType(), T.IntegerType(), T.DecimalType(12, 2), T.DoubleType())
MARKS = ((".", ""), (",", "."), (",", " "), (",", ""), (".", ","), (".", "'"))
WORDS = ((("true",), ("false",)), (("Y", "yes"), ("N", "no")), (("1",), ("0",)))
NULLS = ((), ("NA",), ("NA", r"\N", "-"))
UNITS = ("s", "ms", "us", "ns")
OF_EVENTS = [column.name for column in DEBEZIUM_POSITION_COLUMNS]


def dialect(chance: random.Random, kind: str, texts: Texts) -> Dialect | None:
    """What files of a kind are declared to be written in."""
    match kind:
        case "CSV":
            (decimal, thousands), (true, false) = texts.marks, texts.words
            marks = {"decimal": decimal, "thousands": thousands, "true": true, "false": false, "null": texts.nulls}
            return replace(dialect_of(chance), **marks)  # type: ignore[arg-type]
        case "JSON documents":
            return chance.choice([Json(), Json(array=True), Json(records="features"), Json(records="result.items")])
        case "Avro":
            return Avro()
        case "XLSX":
            return Xlsx(sheet=chance.choice(["", "March 2024"]), skip=chance.choice([0, 0, 3]))
        case "Maxwell":
            return Maxwell()
        case "Canal":
            return Canal(by=chance.choice(["gtid", "commitTs", "es"]))
    return None


def declared(chance: random.Random, kind: str, number: int) -> tuple[SourceTable, Texts, Mapping[int, Layout]]:
    """A source that declares some of what can be declared of texts; the same for the oracle, and names by version."""
    while True:
        try:
            return _declared(chance, kind, number)
        except InvalidDeclaration as error:  # of two forms, one reads texts of the other as other times
            if "another time" not in error.message:
                raise


def _declared(chance: random.Random, kind: str, number: int) -> tuple[SourceTable, Texts, Mapping[int, Layout]]:
    columns = [T.StructField(ID, T.StringType(), False), T.StructField(AT, T.TimestampType(), False)]
    zone = chance.choice(["", "UTC", *ZONES])
    forms: dict[str, tuple[str, ...]] = {}
    for place in range(4):
        of, known = chance.choice(TIMES if zone else TIMES[:3])
        columns.append(T.StructField(f"time_{place}", of))
        forms[f"time_{place}"] = tuple(chance.sample([*known], chance.choice([1, 1, 2])))
    for place in range(2):
        of = chance.choice([T.TimestampType(), T.TimestampType(), T.DateType()])
        columns.append(T.StructField(f"count_{place}", of))
        forms[f"count_{place}"] = (":" + chance.choice([*UNITS, "d"] if isinstance(of, T.DateType) else UNITS),)
    columns += [T.StructField(f"number_{place}", chance.choice(NUMBERS)) for place in range(2)]
    columns += [T.StructField("day", T.DateType()), T.StructField("clock", T.TimestampNTZType())]
    columns += [T.StructField("word", T.BooleanType()), T.StructField("text", T.StringType())]
    of_events = kind in ("Maxwell", "Canal")
    in_csv = kind == "CSV"
    rule = chance.choice(["", "first", "second", "reject"]) if zone else ""
    texts = Texts(
        forms=forms,
        marks=chance.choice(MARKS) if in_csv else (".", ""),
        words=chance.choice(WORDS) if in_csv else WORDS[0],
        nulls=chance.choice(NULLS) if in_csv else (),
        times=Times(
            event=AT, partition="", key=(ID,), landed_at=LANDED_AT, first_day=LANDED_AT.date(), zone=zone, repeated=rule
        ),
    )
    reads = dialect(chance, kind, texts)
    bare = in_csv and not getattr(reads, "header", True)
    names = [column.name for column in columns]
    joined = [name for name, some in forms.items() if any(" " in form for form in some)]
    layouts = {1: layout_of(chance, kind, names, joined=joined, bare=bare)}
    earlier: dict[str, Any] = {}
    if not bare and not of_events and chance.random() < 0.3:
        before = [name for name in names if name != "text"]
        layouts = {
            1: layout_of(chance, kind, before, joined=joined, old=True),
            2: layout_of(chance, kind, names, joined=joined, numbered=False),
        }
        earlier = {
            "earlier": {1: T.StructType([column for column in columns if column.name != "text"])},
            "earlier_columns": {1: layouts[1].names},
        }
    epochs: dict[str, Any] = {
        name: tuple(Epoch(form[1:]) if form.startswith(":") else form for form in some)  # type: ignore[arg-type]
        for name, some in forms.items()
    }
    events: dict[str, Any] = {}
    if of_events:
        columns += DEBEZIUM_POSITION_COLUMNS
        envelope = Debezium(table="shop.written", connector="mysql")
        events = {"envelope": envelope, "order": envelope.order, "operation": DEBEZIUM_OPERATIONS}
    source = SourceTable(
        name="bronze.written",
        key=(ID,),
        event_time=AT,
        partition=daily("event_date"),
        schema=T.StructType(columns),
        formats={name: some if len(some) > 1 else some[0] for name, some in epochs.items()},
        timezone=zone,
        repeated_hour=rule,
        rounds=number % 2 == 1,
        reads=reads,
        columns=layouts[max(layouts)].names,
        **earlier,
        **events,
    )
    return source, texts, layouts


def text_of(chance: random.Random, column: T.StructField, texts: Texts, odd: float) -> str:
    """The text of a value; some of no value and some of another form."""
    if texts.nulls and chance.random() < 0.1:
        return chance.choice(texts.nulls)
    if column.name in texts.forms:
        form = chance.choice(texts.forms[column.name])
        zone = texts.times.zone if texts.times else ""
        at = change_of_clocks(chance, zone) if zone and chance.random() < 0.3 else a_time(chance)
        return an_epoch(chance, form[1:], odd) if form.startswith(":") else a_text(chance, ALL[form], odd, at)
    match column.dataType:
        case T.BooleanType():
            strange = ["true", "maybe", "NA", "Y "] if chance.random() < odd else [""]
            return chance.choice([*texts.words[0], *texts.words[1], *strange])
        case T.StringType():
            return chance.choice(["some", "text; with", 'a "quote"', "NA ", "N\\A", "ü", "1,5"])
        case T.DateType():
            return (
                chance.choice(["", "2024-02-30", "5/1/2024"])
                if chance.random() < odd
                else f"{a_time(chance):%Y-%m-%d}".zfill(10)
            )
        case T.TimestampNTZType():
            return chance.choice(["", "soon", "24:00"]) if chance.random() < odd else a_time(chance).isoformat()
    return a_number(chance, MARKS if chance.random() < odd else [texts.marks], odd)


ALL: Mapping[str, Written] = {**DATES, **LOCAL, **INSTANTS}


def an_epoch(chance: random.Random, unit: str, odd: float) -> str:
    """A number since 1970, or, as often as is said, one of another form or of no year."""
    days = chance.randrange(-30_000, 30_000)
    seconds = chance.choice([0, -1, 86_400 * days, chance.randrange(-(10**10), 10**10)])
    text = str(seconds // 86_400 if unit == "d" else seconds * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit])
    if chance.random() < 0.3 and unit in ("s", "ms"):
        text += "." + chance.choice(["0", "5", "25", "123"])
    whole = text.partition(".")[0]
    strange = [f"{whole}.1234567", f"{whole}.000000001", f"{text}e3", str(10**18 * chance.randrange(1, 9)), f"{text}1"]
    return chance.choice(strange) if chance.random() < odd else text


def rows_of(
    chance: random.Random, source: SourceTable, texts: Texts, *, count: int, name: str
) -> Iterator[dict[str, str]]:
    """Records as texts by column."""
    columns = [column for column in source.schema if column.name not in (ID, AT, *OF_EVENTS)]
    for number in range(count):
        strange = chance.choice(columns).name if chance.random() < 0.5 else ""
        row = {ID: f"{name}-{number}", AT: WHEN}
        for each in columns:
            if chance.random() < 0.9:
                row[each.name] = text_of(chance, each, texts, 0.8 if each.name == strange else 0.01)
        yield row


def file_of(
    chance: random.Random,
    source: SourceTable,
    texts: Texts,
    layouts: Mapping[int, Layout],
    kind: str,
    *,
    count: int,
    name: str,
) -> tuple[Generated, list[Record] | FileRefused]:
    """A file of a kind, and its records as the oracle judges them."""
    version = chance.choice([*layouts])
    rows = [*rows_of(chance, source, texts, count=count, name=name)]
    content, found, suffix = written(chance, source, layouts[version], kind, rows)
    made = Generated(kind=kind, name=f"{name}{suffix}", content=content)
    if isinstance(found, FileRefused):
        return made, found
    return made, [
        texts.judged(each, source.schema, rounds=source.rounds, without=[POSITION])
        if each is not None
        else Record(written={}, broken="")
        for each in found
    ]


def fuzz_written(spark: SparkSession, folder: Path, *, seed: int, records: int, records_in_a_file: int) -> Findings:
    """Lands files of one source after the other until so many records were landed."""
    findings = Findings()
    for number in numbers():
        if findings.records >= records:
            break
        chance = random.Random(f"{seed}/{number}")
        kind = KINDS[number % len(KINDS)]
        source, texts, layouts = declared(chance, kind, number // len(KINDS))
        settings = Settings.from_environment({"BACKFILL_HOME": str(folder / f"room{number}")})
        with landing_room(spark, settings, lambda: LANDED_AT, source) as room:
            known: dict[str, list[Record] | FileRefused] = {}
            comparison = Comparison(room, findings, known=known)
            made, known[made.name] = file_of(
                chance, source, texts, layouts, kind, count=records_in_a_file, name=f"r{number}"
            )
            comparison.offer(made)
    return findings


def main() -> int:
    """Fuzzes and prints the table; 1 when a value differed."""

    def act(spark: SparkSession, folder: Path, given: argparse.Namespace) -> tuple[str, bool]:
        size = given.records_in_a_file
        findings = fuzz_written(spark, folder, seed=given.seed, records=given.records, records_in_a_file=size)
        return table(findings), bool(findings.differences)

    return fuzzed(__doc__, act, records_in_a_file=2_000)


if __name__ == "__main__":
    sys.exit(main())
