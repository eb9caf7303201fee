"""Decoded: workbooks and Avro files, whose records landing decodes, as the texts that it gives."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from backfill_assets.domain import Xlsx
from backfill_assets.landing.decoding.avro_files import avro_records
from backfill_assets.landing.decoding.workbooks import cell_text, workbook_rows

_MOST_RECORDS = 20_000
_A_FIFTH = 0.2
"""Of the rows of a sheet, so many end in the last column: others end in cells without values."""


def rows_of_workbook(path: Path, sheet: str) -> tuple[str, list[int], bool]:
    """The first rows of a sheet as CSV, one in each line, their numbers in the sheet, and whether these are all.

    Raises:
        UnreadableFile: It is damaged or encrypted, or has formulas that were never computed.
    """
    found: list[list[str]] = []
    numbers: list[int] = []
    for cells in islice(workbook_rows(path, Xlsx(sheet=sheet), name=path.name), _MOST_RECORDS):
        row = [" ".join(cell_text(cell).splitlines()) for cell in cells]
        while row and not row[-1]:
            row.pop()
        found.append(row)
        numbers.append(next(cell.row for cell in cells if cell.value not in (None, "")))
    widths = Counter(map(len, found))
    usual = max((width for width in widths if widths[width] > len(found) * _A_FIFTH), default=0)
    header = next((place for place, row in enumerate(found) if len(row) >= usual), 0)
    text = io.StringIO()
    write = csv.writer(text, lineterminator="\n")
    for place, row in enumerate(found):
        write.writerow([*row, *[""] * (len(found[header]) - len(row))] if place >= header else row)
    return text.getvalue(), numbers, len(numbers) < _MOST_RECORDS


_KINDS = {
    "date": "DATE",
    "boolean": "BOOLEAN",
    "int": "LONG",
    "long": "LONG",
    "float": "DOUBLE",
    "double": "DOUBLE",
    **{f"timestamp-{unit}": "TIMESTAMP" for unit in ("millis", "micros", "nanos")},
}
_MOST_DIGITS = 38


def kinds_of_avro(path: Path) -> dict[str, str]:
    """The types of a contract that the schema of an Avro file says, by the paths of members."""
    import fastavro

    with path.open("rb") as file:
        schema = json.loads(fastavro.reader(file).metadata["avro.schema"])
    return dict(_kinds(schema, ""))


def _kinds(schema: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(schema, list):
        kinds = [each for each in schema if each != "null"]
        if len(kinds) == 1:
            yield from _kinds(kinds[0], path)
        return
    if isinstance(schema, str):
        schema = {"type": schema}
    if isinstance(schema["type"], dict | list):
        yield from _kinds(schema["type"], path)
    for field in schema.get("fields", ()):
        yield from _kinds(field["type"], f"{path}.{field['name']}" if path else field["name"])
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if schema.get("logicalType") == "decimal" and isinstance(precision, int) and precision <= _MOST_DIGITS:
        yield path, f"DECIMAL({precision},{scale})"
    elif isinstance(schema["type"], str) and (kind := _KINDS.get(schema.get("logicalType", schema["type"]))):
        yield path, kind


def lines_of_avro(path: Path) -> tuple[str, bool]:
    """The first records of an Avro file as JSON lines, and whether these are all of them.

    Raises:
        UnreadableFile: It is cut or damaged, or packed by what is not read.
    """
    with path.open("rb") as file:
        lines = list(islice(avro_records(file, name=path.name), _MOST_RECORDS))
    return b"\n".join(lines).decode("utf-8", "replace"), len(lines) < _MOST_RECORDS
