"""Is every value the one that was written where a source declares how dates, times, numbers and words are written?

`python -m backfill_assets_tests.faults.fuzz_written --records 100000 [--seed N]` lands CSV, JSON lines and Parquet of
sources with forms of times, numbers since 1970, decimal commas, groups of thousands, words for true and false and texts
of no value, and compares each record with `landing_written`.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import random
import secrets
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from backfill_assets.core.settings import Settings
from backfill_assets.core.spark import open_spark
from backfill_assets.domain import Csv, Epoch, SourceTable, daily
from backfill_assets_tests.faults.fuzz_values import Comparison, Findings, table
from backfill_assets_tests.faults.landing_oracle import Digits, Field, Record
from backfill_assets_tests.faults.landing_values import AT, ID, Generated
from backfill_assets_tests.faults.landing_written import Texts
from backfill_assets_tests.support.landing_examples import LANDED_AT, landing_room
from backfill_assets_tests.support.written_times import DATES, INSTANTS, LOCAL, Written, a_number, a_text

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


def declared(chance: random.Random, kind: str, number: int) -> tuple[SourceTable, Texts]:
    """A source that declares some of what can be declared of texts; the same for the oracle."""
    columns = [T.StructField(ID, T.StringType(), False), T.StructField(AT, T.TimestampType(), False)]
    forms: dict[str, tuple[str, ...]] = {}
    for place in range(4):
        of, known = chance.choice(TIMES)
        columns.append(T.StructField(f"time_{place}", of))
        forms[f"time_{place}"] = (chance.choice([*known]),)
    for place in range(2):
        of = chance.choice([T.TimestampType(), T.TimestampType(), T.DateType()])
        columns.append(T.StructField(f"count_{place}", of))
        forms[f"count_{place}"] = (":" + chance.choice([*UNITS, "d"] if isinstance(of, T.DateType) else UNITS),)
    columns += [T.StructField(f"number_{place}", chance.choice(NUMBERS)) for place in range(2)]
    columns += [T.StructField("word", T.BooleanType()), T.StructField("text", T.StringType())]
    in_csv = kind == "CSV"
    texts = Texts(
        forms=forms,
        marks=chance.choice(MARKS) if in_csv else (".", ""),
        words=chance.choice(WORDS) if in_csv else WORDS[0],
        nulls=chance.choice(NULLS) if in_csv else (),
    )
    dialect = Csv(
        delimiter=";",
        decimal=texts.marks[0],
        thousands=texts.marks[1],
        null=texts.nulls,
        true=texts.words[0],
        false=texts.words[1],
    )
    epochs: dict[str, Any] = {
        name: Epoch(form[1:]) if form.startswith(":") else form  # type: ignore[arg-type]
        for name, (form,) in forms.items()
    }
    source = SourceTable(
        name="bronze.written",
        key=(ID,),
        event_time=AT,
        partition=daily("event_date"),
        schema=T.StructType(columns),
        formats=epochs,
        timezone="UTC",
        rounds=number % 2 == 1,
        reads=dialect if in_csv else None,
    )
    return source, texts


def text_of(chance: random.Random, column: T.StructField, texts: Texts, odd: float) -> str:
    """The text of a value; some of no value and some of another form."""
    if texts.nulls and chance.random() < 0.1:
        return chance.choice(texts.nulls)
    if column.name in texts.forms:
        (form,) = texts.forms[column.name]
        return an_epoch(chance, form[1:], odd) if form.startswith(":") else a_text(chance, ALL[form], odd)
    match column.dataType:
        case T.BooleanType():
            strange = ["true", "maybe", "NA", "Y "] if chance.random() < odd else [""]
            return chance.choice([*texts.words[0], *texts.words[1], *strange])
        case T.StringType():
            return chance.choice(["some", "text; with", 'a "quote"', "NA ", "N\\A", "ü", "1,5"])
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


def file_of(chance: random.Random, source: SourceTable, texts: Texts, kind: str, *, count: int, name: str) -> Any:
    """A file of a format, and its records as the oracle judges them."""
    columns = source.schema.fields[2:]
    rows: list[dict[str, Any]] = [{} for _ in range(count)]
    for number, row in enumerate(rows):
        strange = chance.choice(columns).name if chance.random() < 0.5 else ""
        row |= {ID: f"{name}-{number}", AT: WHEN}
        for each in columns:
            if chance.random() < 0.9:
                row[each.name] = text_of(chance, each, texts, 0.8 if each.name == strange else 0.01)
    writer = {"CSV": _csv, "JSON lines": _json, "Parquet": _parquet}[kind]
    content, written, suffix = writer(chance, source, rows)
    records = [texts.judged(each, source.schema, rounds=source.rounds) for each in written]
    return Generated(kind=kind, name=f"{name}.{suffix}", content=content), records


Made = tuple[bytes, Sequence[Mapping[str, Any]], str]


def _csv(_: random.Random, source: SourceTable, rows: Sequence[Mapping[str, Any]]) -> Made:
    out = io.StringIO()
    names = source.schema.fieldNames()
    writer = csv.DictWriter(out, names, restval="", delimiter=";", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    written = [{name: Field(text) for name, text in row.items() if text} for row in rows]
    return out.getvalue().encode(), written, "csv"


def _json(chance: random.Random, source: SourceTable, rows: Sequence[Mapping[str, Any]]) -> Made:
    lines, written = [], []
    for row in rows:
        members: dict[str, Any] = {}
        for name, text in row.items():
            is_number = name not in (ID, AT, "text") and _is_json_number(text) and chance.random() < 0.7
            members[name] = Digits(text) if is_number else text
        inside = (f"{json.dumps(n)}: {v if isinstance(v, Digits) else json.dumps(v)}" for n, v in members.items())
        lines.append("{" + ", ".join(inside) + "}\n")
        written.append(members)
    return "".join(lines).encode(), written, "jsonl"


def _is_json_number(text: str) -> bool:
    try:
        return isinstance(json.loads(text), int | float) and text.strip() == text and text[:1] not in "NI-tf"
    except ValueError:
        return False


def _parquet(chance: random.Random, source: SourceTable, rows: Sequence[Mapping[str, Any]]) -> Made:
    """A file with texts, but for epochs, which are texts or numbers of any type."""
    arrays: dict[str, pa.Array] = {}
    written: list[dict[str, Any]] = [{} for _ in rows]
    for name in source.schema.fieldNames():
        kind: pa.DataType = pa.string()
        if name.startswith("count"):
            kind = chance.choice([pa.string(), pa.int64(), pa.float64(), pa.decimal128(38, 9)])
        values = [_stored(row.get(name), kind) for row in rows]
        arrays[name] = pa.array(values, kind)
        for record, value in zip(written, values, strict=True):
            record[name] = Field(value) if isinstance(value, str) else value
    out = io.BytesIO()
    pq.write_table(pa.table(arrays), out)
    return out.getvalue(), written, "parquet"


def _stored(text: str | None, kind: pa.DataType) -> Any:
    if text is None or pa.types.is_string(kind):
        return text
    number = Decimal(text)
    if pa.types.is_floating(kind):
        return float(number)
    return max(-(2**63), min(int(number), 2**63 - 1)) if pa.types.is_integer(kind) else number


def fuzz_written(spark: SparkSession, folder: Path, *, seed: int, records: int, records_in_a_file: int) -> Findings:
    """Lands files of one source after the other until so many records were landed."""
    findings, number = Findings(), -1
    while findings.records < records:
        number += 1
        chance = random.Random(f"{seed}/{number}")
        kind = ("CSV", "JSON lines", "Parquet")[number % 3]
        source, texts = declared(chance, kind, number // 3)
        settings = Settings.from_environment({"BACKFILL_HOME": str(folder / f"room{number}")})
        with landing_room(spark, settings, lambda: LANDED_AT, source) as room:
            known: dict[str, list[Record]] = {}
            comparison = Comparison(room, findings, known=known)
            made, known[made.name] = file_of(chance, source, texts, kind, count=records_in_a_file, name=f"r{number}")
            comparison.offer(made)
    return findings


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzzes and prints the table; 1 when a value differed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--records-in-a-file", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=None, help="by default another one each time")
    given = parser.parse_args(arguments)
    seed = secrets.randbelow(2**32) if given.seed is None else given.seed
    sys.stderr.write(f"seed {seed}\n")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fuzz-written-") as name:
        folder = Path(name)
        environment = {
            "BACKFILL_HOME": str(folder / "spark"),
            "BACKFILL_SPARK_MASTER": "local[2]",
            "BACKFILL_SPARK_MEMORY": "2g",
            "BACKFILL_SPARK_SHUFFLE_PARTITIONS": "2",
        }
        spark = open_spark(Settings.from_environment(environment))
        findings = fuzz_written(
            spark, folder, seed=seed, records=given.records, records_in_a_file=given.records_in_a_file
        )
        spark.stop()
    sys.stdout.write(f"{table(findings)}\nseed {seed}: {time.monotonic() - began:.0f} s\n")
    return int(bool(findings.differences))


if __name__ == "__main__":
    sys.exit(main())
