"""Is every value of a landed file the value that was written, or its record rejected for it?

`python -m backfill_assets_tests.faults.fuzz_values --records 100000 [--seed N]` lands files of every format and
every type, and compares each value of the conformed records and of bronze with `landing_oracle`. Prints how many
values of a format and a type were compared, and what differed; exit code 1 when something did.
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import re
import struct
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DateType, StructField, StructType

from backfill_assets.core.errors import InvalidDeclaration, Refused
from backfill_assets.core.settings import Settings
from backfill_assets.domain import SourceTable, daily
from backfill_assets.landing.bronze import bronze_rows
from backfill_assets.landing.conformed import conformed_folder
from backfill_assets.landing.imports import imports_for_days
from backfill_assets_tests.faults.fuzzed import fuzzed
from backfill_assets_tests.faults.landing_clocks import Times
from backfill_assets_tests.faults.landing_oracle import FileRefused, Record, Wrong, expected, plain
from backfill_assets_tests.faults.landing_values import AT, FORMATS, ID, Generated, contract, file_of
from backfill_assets_tests.support.landing_examples import LANDED_AT, LandingRoom, landing_room

DAY = date(2024, 5, 1)
COUNTED = ("compared", "accepted", "rejected", "different")
EXAMPLES = 3


@dataclass
class Findings:
    """What was compared, by format and type, and the first examples of each kind of difference."""

    counts: dict[tuple[str, str], Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    differences: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    files: int = 0
    refused: int = 0
    records: int = 0

    def differs(self, where: tuple[str, str], what: str, example: str) -> None:
        """Notes a difference; those of a format and a type that read alike are one kind."""
        self.counts[where]["different"] += 1
        self.differences[f"{where[0]}, {where[1]}: {what}"].append(example[:1_500])


def source_of(schema: StructType, *, rounds: bool) -> SourceTable:
    """A source with this contract."""
    more: dict[str, Any] = {}
    if any(each.name == "rounds" for each in dataclasses.fields(SourceTable)):
        more["rounds"] = rounds
    return SourceTable(
        name="bronze.values", key=(ID,), event_time=AT, partition=daily("event_date"), schema=schema, **more
    )


def identical(one: Any, other: Any) -> bool:
    """Whether values are the same to the last bit; a text and its bytes are."""
    one, other = (each.encode() if isinstance(each, str) else each for each in (one, other))
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return struct.pack("d", one) == struct.pack("d", other)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(identical, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(identical(one[name], other[name]) for name in one)
    return bool(one == other)


Known = Mapping[str, list[Record] | FileRefused]
"""By the name of a file, what its records have to be, or why it has to be refused."""


class Comparison:
    """The files of one room, and what they have to be."""

    def __init__(
        self, room: LandingRoom, findings: Findings, *, times: Times | None = None, known: Known | None = None
    ) -> None:
        self._room, self._times, self._known = room, times, known
        self._findings = findings
        self._accepted: dict[str, tuple[str, Record]] = {}
        self._rounds = bool(getattr(room.source, "rounds", False))

    def offer(self, file: Generated) -> None:
        """Lands a file and compares its conformed records."""
        whole = (file.kind, "files")
        schema = self._room.source.schema
        self._findings.files += 1
        records: list[Record] | None = None
        refusal = ""
        try:
            if self._known is not None:
                found = self._known[file.name]
                if isinstance(found, FileRefused):
                    raise found
                records = found
            else:
                records = expected(file.content, file.name, schema, rounds=self._rounds, times=self._times)
            self._findings.records += len(records)
        except FileRefused as refused:
            refusal = str(refused)
        try:
            landed = self._room.land(file.content, file.name)
        except Refused as error:
            self._findings.refused += 1
            if records is not None or not any(each in error.message for each in refusal.split("|")):
                self._findings.differs(whole, f"refused, and {refusal or 'has not to be'}", f"{file.name}: {error}")
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, a person would have seen it
            said = f"{type(error).__name__}: {error}"
            self._findings.differs(whole, f"crashes: {re.sub('[0-9]+', '#', said)[:100]}", f"{file.name}: {said}")
            return
        if records is None:
            self._findings.differs(whole, "landed, and has to be refused", f"{file.name}: {refusal}")
            return
        folder = self._room.settings.landing / conformed_folder(self._room.source, landed.record.import_id)
        found = pq.read_table(folder).sort_by("_row")
        if found.num_rows != len(records):
            example = f"{file.name}: expected {len(records)}, found {found.num_rows}"
            self._findings.differs(whole, "another number of records", example)
            return
        reasons = [reason and reason.decode(errors="backslashreplace") for reason in plain(found["_reason"])]
        for record, reason, values in zip(records, reasons, self._rows(found), strict=True):
            self._compare(file.kind, record, reason, values)

    def _rows(self, table: pa.Table) -> list[dict[str, Any]]:
        names = self._room.source.schema.fieldNames()
        names += [self._times.partition] if self._times else []
        return [dict(zip(names, row, strict=True)) for row in zip(*(plain(table[name]) for name in names), strict=True)]

    def _compare(self, kind: str, record: Record, reason: str | None, values: Mapping[str, Any]) -> None:
        culprits = record.culprits
        if record.broken is not None:
            if reason is None or record.broken not in reason:
                self._findings.differs((kind, "records"), "a broken record", f"{record.written}: {reason}")
            self._findings.counts[kind, "records"].update(("compared", "rejected"))
        elif reason is None:
            for name in culprits:
                self._differs(kind, name, "accepted, and has to be rejected", record, found=values[name])
            if not culprits:
                if self._times is None:
                    self._accepted[record.values[ID]] = (kind, record)
                for name in values:
                    self._findings.counts[kind, self._type(name)].update(("compared", "accepted"))
                self._compare_values(kind, record, values)
        else:
            blamed = [name for name in culprits if re.match(rf"{name}(?![\w])", reason)]
            if not culprits:
                named = next(
                    (name for name in record.values if re.match(rf"{name}(?![\w])", reason)), next(iter(values))
                )
                self._differs(kind, named, "rejected, and has to be accepted", record, found=reason)
            elif not blamed:
                self._differs(kind, culprits[0], "another column is blamed", record, found=reason)
            for name in blamed:
                self._findings.counts[kind, self._type(name)].update(("compared", "rejected"))
                self._compare_reason(kind, name, record, reason)

    def _compare_reason(self, kind: str, name: str, record: Record, reason: str) -> None:
        """Of a value that is no array and no struct, a reason has the value, and the type if it has no room for it."""
        if not record.values[name].quoted:
            return
        type_of, written = self._room.source.schema[name].dataType, record.written.get(name)
        if isinstance(type_of, ArrayType | StructType):
            return
        begins = "does not fit " + type_of.simpleString() if record.values[name].misfit else ""
        quoted = isinstance(written, str) and re.fullmatch("[!#-&(-~]{1,100}", written) is not None
        if not reason.startswith(f"{name} {begins}") or (quoted and not reason.endswith(f": '{written}'")):
            self._differs(kind, name, f"another reason is given than '{begins}'", record, found=reason)

    def _compare_values(self, kind: str, record: Record, values: Mapping[str, Any], place: str = "") -> None:
        for name, value in record.values.items():
            if not identical(value, values[name]):
                self._differs(kind, name, f"another value{place}", record, found=values[name])

    def _column(self, name: str) -> StructField:
        is_partition = self._times is not None and name == self._times.partition
        return StructField(name, DateType()) if is_partition else self._room.source.schema[name]

    def _type(self, name: str) -> str:
        return self._column(name).dataType.typeName()

    def _differs(self, kind: str, name: str, what: str, record: Record, *, found: Any) -> None:
        column = self._column(name)
        value = record.values[name]
        should = ("no value that fits" if value.misfit else "no value") if isinstance(value, Wrong) else repr(value)
        self._findings.differs(
            (kind, self._type(name)),
            what,
            f"{column.dataType.simpleString()}{'' if column.nullable else ' not null'}"
            f"{', rounds' * self._rounds}: written {record.written.get(name)!r}{self._stored_as(record, name)}, "
            f"expected {should}, found {found!r}",
        )

    def _stored_as(self, record: Record, name: str) -> str:
        return f" as {record.types[name]}" if name in record.types else ""

    def close(self) -> None:
        """Compares the bronze rows of all files."""
        room, whole = self._room, ("bronze", "rows")
        try:
            with room.ledger.read() as reader:
                imports = imports_for_days(reader, room.source, [DAY])
            table = bronze_rows(room.spark, room.settings, room.source, imports=imports, days=[DAY]).toArrow()
        except Exception as error:  # noqa: BLE001 - as above
            self._findings.differs(whole, f"crashes: {type(error).__name__}", str(error))
            return
        rows = {row[ID].decode(): row for row in self._rows(table)}
        if len(rows) != table.num_rows or not self._accepted.keys() <= rows.keys():
            self._findings.differs(whole, "other rows", f"expected {len(self._accepted)}, found {table.num_rows}")
        for key, (kind, record) in self._accepted.items():
            if key in rows:
                self._compare_values(kind, record, rows[key], " in bronze")


def fuzz_values(
    spark: SparkSession,
    folder: Path,
    *,
    seed: int,
    records: int,
    records_in_a_file: int,
    columns: int = 12,
    depth: int = 3,
    files_of_a_format: int = 2,
) -> Findings:
    """Lands files until so many records were landed; a contract that rounds and one that does not take turns.

    Args:
        spark: The session.
        folder: Where to.
        seed: Which files.
        records: How many records to land at least.
        records_in_a_file: How many records a file has.
        columns: How many columns a contract has, besides key and event time.
        depth: How deep its types are nested.
        files_of_a_format: How many files of each format a contract gets.
    """
    findings = Findings()
    number = -1
    while findings.records < records:
        number += 1
        chance = random.Random(f"{seed}/{number}")
        schema = contract(chance, columns=columns, depth=depth)
        try:
            source = source_of(schema, rounds=number % 2 == 1)
        except InvalidDeclaration as error:
            findings.records += 1
            findings.differs(("contract", "files"), "cannot be declared", f"{schema.simpleString()}: {error}")
            continue
        settings = Settings.from_environment({"BACKFILL_HOME": str(folder / f"room{number}")})
        with landing_room(spark, settings, lambda: LANDED_AT, source) as room:
            comparison = Comparison(room, findings)
            for n, kind in enumerate(FORMATS * files_of_a_format):
                comparison.offer(
                    file_of(chance, source.schema, kind, count=records_in_a_file, prefix=f"r{number}-f{n}")
                )
            comparison.close()
    return findings


def table(findings: Findings) -> str:
    """What was compared, by format and type, and examples of each kind of difference."""
    lines = [f"{'format':12}{'type':16}" + "".join(f"{head:>12}" for head in COUNTED)]
    total: Counter[str] = Counter()
    for (kind, name), counts in sorted(findings.counts.items()):
        lines.append(f"{kind:12}{name:16}" + "".join(f"{counts[each]:>12,}" for each in COUNTED))
        total.update(counts)
    lines.append(f"{'all':28}" + "".join(f"{total[each]:>12,}" for each in COUNTED))
    lines.append(f"{findings.files:,} files, {findings.refused:,} of them refused, {findings.records:,} records")
    for what, examples in sorted(findings.differences.items()):
        lines += [f"{len(examples):,} x {what}", *(f"    {example}" for example in examples[:EXAMPLES])]
    return "\n".join(lines)


def main() -> int:
    """Fuzzes and prints the table; 1 when a value differed."""

    def act(spark: SparkSession, folder: Path, given: argparse.Namespace) -> tuple[str, bool]:
        size = given.records_in_a_file
        findings = fuzz_values(
            spark, folder, seed=given.seed, records=given.records, records_in_a_file=size, depth=given.depth
        )
        return table(findings), bool(findings.differences)

    return fuzzed(__doc__, act, options={"--depth": {"type": int, "default": 3, "help": "how deep types are nested"}})


if __name__ == "__main__":
    sys.exit(main())
