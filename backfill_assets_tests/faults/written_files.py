"""How do files of every form have the same texts, under the names that a source declares of their columns?

CSV in any dialect, lines and documents of JSON, Avro, workbooks, Parquet, Maxwell's records and Canal's messages, some
of them packed.

Each writer gives the bytes and what they have of every record, by column of the contract; of a CSV that is read back by
the oracle of dialects, character by character.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from openpyxl import Workbook
from pyspark.sql import types as T

from backfill_assets.domain import Csv, Json, SourceTable, Xlsx
from backfill_assets.domain.source_files import FileName
from backfill_assets_tests.faults.landing_dialects import file_with, rows_of
from backfill_assets_tests.faults.landing_oracle import Digits, Field, FileRefused
from backfill_assets_tests.faults.landing_values import AT, ID

Row = Mapping[str, str]
"""The texts of a record, by column of the contract; those of no value are left out."""

Written = Mapping[str, Any] | None
"""What a file has of a record, by column of the contract; None where its row cannot be read."""

Made = tuple[bytes, list[Written] | FileRefused, str]
"""The bytes of a file, what it has of every record or why it has to be refused, and the suffix of its name."""

Way = tuple[str, ...]
"""The name of a column of a file, or the names that lead to a member."""

OWN, NAMED, CASE, POSITION, TWICE, JOINED, PATH, DOTTED, ELEMENT = range(9)
"""How a file calls a column: as the contract does, by another name or another case, by its position, as one of two
columns of a name, by two columns that are joined, by the path of a member, by a name with dots, by the path of an
element."""

STYLES: Mapping[str, Sequence[int]] = {
    "CSV": (OWN, NAMED, CASE, POSITION, TWICE, JOINED),
    "XLSX": (OWN, NAMED, CASE, POSITION, TWICE, JOINED),
    "Parquet": (OWN, NAMED, CASE, POSITION, JOINED, PATH),
    "JSON lines": (OWN, NAMED, CASE, JOINED, PATH, DOTTED, ELEMENT),
    "JSON documents": (OWN, NAMED, CASE, JOINED, PATH, DOTTED, ELEMENT),
    "Avro": (OWN, CASE, JOINED, PATH),
    "Maxwell": (OWN, NAMED, CASE),
    "Canal": (OWN, NAMED, CASE),
}
KINDS = tuple(STYLES)
SERVER = "726757ad-4455-11e8-ae04-0242ac110002"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What files call the columns of a contract."""

    header: tuple[Way, ...]  #: What a file has, in order: names of columns, or ways to members.
    places: Mapping[str, tuple[int, ...]]  #: By column of the contract, which of these it is, or which are joined.
    names: Mapping[FileName, str]  #: What is declared of it.

    def cells(self, row: Row) -> list[str | None]:
        """What a record has, in the order of the header; another text where no column is read from."""
        found: list[str | None] = ["beside"] * len(self.header)
        for column, places in self.places.items():
            text = row.get(column)
            if len(places) == 1:
                found[places[0]] = text
            else:
                first, _, rest = (text or "").partition(" ")
                found[places[0]], found[places[1]] = first or None, rest or None
        return found

    def read(self, cells: Sequence[Any], nulls: Sequence[str] = ()) -> dict[str, Any]:
        """What a record has by column of the contract."""
        found: dict[str, Any] = {}
        for column, places in self.places.items():
            some = [cells[place] for place in places]
            if len(some) == 1:
                found[column] = some[0]
            elif all(each is not None and str(each).strip(" ") for each in some):
                found[column] = None if all(each in nulls for each in some) else Field(" ".join(some))
        return {column: value for column, value in found.items() if value is not None}


def layout_of(
    chance: random.Random,
    kind: str,
    columns: Sequence[str],
    *,
    joined: Sequence[str],
    old: bool = False,
    numbered: bool = True,
    bare: bool = False,
) -> Layout:
    """Any names of columns.

    Args:
        joined: Columns whose texts have a blank, so that two of a file can be joined to them.
        old: Whether the names are those of an earlier version, which no later one has.
        numbered: Whether columns may be known by their position.
        bare: Whether files have no header.
    """
    entries: list[tuple[str, int, Way]] = []
    styles: dict[str, int] = {}
    known = [each for each in STYLES[kind] if numbered or each != POSITION]
    known = [each for each in known if not old or each not in (OWN, POSITION, TWICE)]
    for column in columns:
        own = f"old_{column}" if old else column
        style = chance.choice([each for each in known if each != JOINED or column in joined])
        if bare:
            style = JOINED if column in joined else POSITION
        styles[column] = style
        if style == JOINED:
            entries += [(column, part, (f"{own}_{part}",)) for part in (0, 1)]
        elif style == TWICE:
            place = chance.randrange(2)
            entries += [(column if each == place else "", 0, (f"two {own}",)) for each in (0, 1)]
        else:
            entries.append((column, 0, _way(style, own, kind)))
    entries += [("", 0, (f"more_{number}",)) for number in range(chance.randrange(3))]
    twice = [each for each in entries if each[2][0].startswith("two ")]
    chance.shuffle(entries)
    order = iter(twice)  # those of one name keep their order
    entries = [next(order) if each in twice else each for each in entries]
    header = tuple(way for _, _, way in entries)
    places = {
        column: tuple(
            place for _, place in sorted((part, at) for at, (of, part, _) in enumerate(entries) if of == column)
        )
        for column in columns
    }
    named = {_name(POSITION if bare else styles[column], header, places[column]): column for column in columns}
    return Layout(
        header=header, places=places, names={name: column for name, column in named.items() if name != column}
    )


def _way(style: int, own: str, kind: str) -> Way:
    """What a file has for a column: its name, or the names on the way to it."""
    ways: Mapping[int, Way] = {
        NAMED: (f"The {own} / of it",),
        CASE: (own.upper(),),
        PATH: ("properties", f"{own}_in" if kind == "Avro" else f"{own} in"),
        DOTTED: (f"a.{own}",),
        ELEMENT: (f"list of {own}", "1"),
    }
    return ways.get(style, (own,))


def _name(style: int, header: Sequence[Way], places: Sequence[int]) -> FileName:
    """What is declared of a column."""
    if style == POSITION:
        numbers = tuple(_position(header, place) for place in places)
        return numbers if len(numbers) > 1 else numbers[0]
    if style == JOINED:
        return tuple(header[place][0] for place in places)
    (place,) = places
    if style == TWICE:
        return (header[place][0], header[:place].count(header[place]) + 1)
    return ".".join(header[place])


def _position(header: Sequence[Way], place: int) -> int:
    """The number of a column of a file; members of one object are one column."""
    return len({way[0] if len(way) > 1 else at for at, way in enumerate(header[:place])})


def written(chance: random.Random, source: SourceTable, layout: Layout, kind: str, rows: Sequence[Row]) -> Made:
    """A file of a kind with these records."""
    content, found, suffix = _WRITERS[kind](chance, source, layout, rows)
    packed = chance.choice(["", "", ".gz", ".zst", ".zip"]) if kind not in ("Parquet", "XLSX", "Avro") else ""
    return _packed(content, suffix, packed), found, suffix + packed


def _packed(content: bytes, suffix: str, packed: str) -> bytes:
    match packed:
        case ".gz":
            return gzip.compress(content)
        case ".zst":
            return pa.compress(content, codec="zstd", asbytes=True)  # type: ignore[no-any-return]
        case ".zip":
            out = io.BytesIO()
            with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr(f"inside{suffix}", content)
                archive.writestr("README.md", "for people")
            return out.getvalue()
    return content


def _csv(chance: random.Random, source: SourceTable, layout: Layout, rows: Sequence[Row]) -> Made:
    dialect = source.reads if isinstance(source.reads, Csv) else Csv()
    cells = [[_encodable(each or "", dialect.encoding) for each in layout.cells(row)] for row in rows]
    content = file_with(chance, dialect, [way[0] for way in layout.header], cells)
    found: list[Written] = []
    try:
        records = rows_of(content, dialect)[1:]
    except FileRefused as refused:
        return content, refused, ".csv"
    for row in records:
        read = None if row.values is None else [Field(each) if each else None for each in row.values]
        found.append(None if read is None else layout.read(read, dialect.null))
    return content, found, ".csv"


def _encodable(text: str, encoding: str) -> str:
    return text.encode(encoding, "ignore").decode(encoding)


def _lines(chance: random.Random, source: SourceTable, layout: Layout, rows: Sequence[Row]) -> Made:
    objects, found = _objects(chance, source, layout, rows)
    return b"".join(f"{_json(each)}\n".encode() for each in objects), found, ".jsonl"


def _documents(chance: random.Random, source: SourceTable, layout: Layout, rows: Sequence[Row]) -> Made:
    objects, found = _objects(chance, source, layout, rows)
    reads = source.reads if isinstance(source.reads, Json) else Json()
    some = [_json(each, indent=chance.choice([0, 0, 2])) for each in objects]
    mark = chance.choice(["", "", "\ufeff"])
    if not (reads.array or reads.records):
        content = mark + chance.choice(["", " ", "\n", "\r\n", ",", "\x1e"]).join(some)
        return content.encode(), found, chance.choice([".json", ""])
    half = chance.randrange(1, len(some))
    documents = [some[:half], some[half:]] if chance.random() < 0.3 else [some]
    content = mark
    for each in documents:
        text = "[" + chance.choice([",", ",\n", " , "]).join(each) + "]"
        for name in reversed(reads.records.split(".") if reads.records else []):
            text = f'{{"before": [{{"{name}": []}}], "{name}": {text}, "after": null}}'
        content += text + chance.choice(["", "\n"])
    return content.encode(), found, ".json"


def _maxwell(chance: random.Random, source: SourceTable, layout: Layout, rows: Sequence[Row]) -> Made:
    objects, found = _objects(chance, source, layout, rows)
    lines = []
    for number, each in enumerate(objects):
        kind = chance.choice(["insert", "update", "bootstrap-insert"])
        seconds = chance.randrange(10**9, 17 * 10**8)
        said = {"database": "shop", "table": "written", "type": kind, "ts": Digits(str(seconds)), "xid": Digits("7")}
        place = {"position": f"b.{number // 100:06}:{number}", "data": each}
        lines.append(_json({**said, **place}))
        more = {
            "debezium_operation": "r" if kind == "bootstrap-insert" else kind[0].replace("i", "c"),
            "debezium_at": datetime.fromtimestamp(seconds, UTC).isoformat(),
        }
        found[number] = {**_without_zone(source, found[number] or {}), **more}
        if chance.random() < 0.02:
            lines.append(_json({**said, "type": "bootstrap-complete", "data": {}}))
    return "".join(f"{line}\n" for line in lines).encode(), found, ".jsonl"


def _canal(chance: random.Random, source: SourceTable, layout: Layout, rows: Sequence[Row]) -> Made:
    objects, found = _objects(chance, source, layout, rows)
    lines, begun = [], chance.randrange(10**9, 17 * 10**8)
    for number, each in enumerate(objects):
        kind, seconds = chance.choice(["INSERT", "UPDATE"]), begun + number
        said = {"database": "shop", "table": "written", "pkNames": ["id"], "es": Digits(f"{seconds}000")}
        order = {"gtid": f"{SERVER}:1-{number + 1}", "_tidb": {"commitTs": Digits(str(number + 1))}}
        row = {"type": kind, "isDdl": False, "data": [each], "old": [{}] if kind == "UPDATE" else None}
        lines.append(_json({**said, **order, **row}))
        more = {
            "debezium_operation": kind[0].lower().replace("i", "c"),
            "debezium_at": datetime.fromtimestamp(seconds, UTC).isoformat(),
        }
        found[number] = {**_without_zone(source, found[number] or {}), **more}
        if chance.random() < 0.02:
            lines.append(_json({**said, **order, "type": "ALTER", "isDdl": True, "sql": "ALTER", "data": None}))
    return "".join(f"{line}\n" for line in lines).encode(), found, ".jsonl"


def _without_zone(source: SourceTable, row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A row of a change event, whose dates and local times may be written as instants of UTC."""
    local = [each.name for each in source.schema if isinstance(each.dataType, T.DateType | T.TimestampNTZType)]
    return {
        name: value.removesuffix("Z") if name in local and type(value) is str else value for name, value in row.items()
    }


def _objects(
    chance: random.Random, source: SourceTable, layout: Layout, rows: Sequence[Row]
) -> tuple[list[dict[str, Any]], list[Written]]:
    """The records as objects whose numbers are digits, or texts."""
    objects: list[dict[str, Any]] = []
    found: list[Written] = []
    columns = {place: column for column, places in layout.places.items() for place in places if len(places) == 1}
    for row in rows:
        cells: list[Any] = []
        for place, text in enumerate(layout.cells(row)):
            is_number = columns.get(place, "") not in (ID, AT, "text", "") and text is not None and _is_number(text)
            cells.append(Digits(text) if is_number and chance.random() < 0.7 else text)
        members: dict[str, Any] = {}
        for way, cell in zip(layout.header, cells, strict=True):
            if cell is None and chance.random() < 0.5:
                continue
            if len(way) == 1:
                members[way[0]] = cell
            elif way[1] == "1":
                members[way[0]] = ["before", cell]
            else:
                members.setdefault(way[0], {})[way[1]] = cell
        objects.append(members)
        found.append(layout.read(cells))
    return objects, found


def _is_number(text: str) -> bool:
    try:
        return isinstance(json.loads(text), int | float) and text.strip() == text and text[:1] not in "NI-tf"
    except ValueError:
        return False


def _json(value: Any, *, indent: int = 0) -> str:
    """JSON in which digits stay as they are."""
    ends, blank = ("\n" + " " * indent, " ") if indent else ("", "")
    match value:
        case Digits():
            return str(value)
        case dict():
            inside = f",{ends}".join(
                f"{json.dumps(name)}{blank}: {_json(each, indent=indent)}" for name, each in value.items()
            )
            return f"{{{ends}{inside}{ends}}}"
        case list():
            return f"[{ends}" + f", {ends}".join(_json(each, indent=indent) for each in value) + f"{ends}]"
    return json.dumps(value)


def _avro(chance: random.Random, source: SourceTable, layout: Layout, rows: Sequence[Row]) -> Made:
    columns = {place: column for column, places in layout.places.items() for place in places if len(places) == 1}
    kinds = ["string"] * len(layout.header)
    for place, column in columns.items():
        if column.startswith(("count", "number")):
            kinds[place] = chance.choice(["string", "long", "double"])
        elif column == "word":
            kinds[place] = chance.choice(["string", "boolean"])
    fields: list[dict[str, Any]] = []
    inner: list[dict[str, Any]] = []
    for way, kind in zip(layout.header, kinds, strict=True):
        types = ["null", "string"] if kind == "string" else ["null", "string", kind]
        (fields if len(way) == 1 else inner).append({"name": way[-1], "type": types, "default": None})
    if inner:
        fields.append({"name": "properties", "type": {"type": "record", "name": "inner", "fields": inner}})
    records: list[dict[str, Any]] = []
    found: list[Written] = []
    for row in rows:
        cells = [_as_avro(text, kind) for text, kind in zip(layout.cells(row), kinds, strict=True)]
        record: dict[str, Any] = {"properties": {}} if inner else {}
        for way, cell in zip(layout.header, cells, strict=True):
            (record if len(way) == 1 else record["properties"])[way[-1]] = cell
        records.append(record)
        found.append(layout.read([Digits(repr(each)) if type(each) in (int, float) else each for each in cells]))
    out = io.BytesIO()
    schema = fastavro.parse_schema({"type": "record", "name": "outer", "fields": fields})
    fastavro.writer(out, schema, records, codec=chance.choice(["null", "deflate", "bzip2", "xz"]), sync_interval=5_000)
    return out.getvalue(), found, ".avro"


def _as_avro(text: str | None, kind: str) -> Any:
    number = _number(text)
    if kind == "boolean" and text in ("true", "false"):
        return text == "true"
    if kind == "long" and number is not None and number == int(number) and abs(number) < 2**63:
        return int(number)
    return float(number) if kind == "double" and number is not None else text


def _number(text: str | None) -> Decimal | None:
    try:
        found = Decimal(text or "")
    except InvalidOperation:
        return None
    return found if found.is_finite() and abs(found.adjusted()) < 30 else None  # others may have no float


_MOST_EXACT = 2**53


def _xlsx(chance: random.Random, source: SourceTable, layout: Layout, rows: Sequence[Row]) -> Made:
    reads = source.reads if isinstance(source.reads, Xlsx) else Xlsx()
    columns = {place: column for column, places in layout.places.items() for place in places if len(places) == 1}
    book = Workbook(write_only=True)
    if reads.sheet:
        book.create_sheet("another").append(["no", "records"])
    sheet = book.create_sheet(reads.sheet or "only")
    for _ in range(reads.skip):
        sheet.append(["Report", None, 5])
    sheet.append([way[0] for way in layout.header])
    found: list[Written] = []
    for row in rows:
        cells = [_as_cell(chance, text, columns.get(place, "")) for place, text in enumerate(layout.cells(row))]
        sheet.append(cells)
        found.append(layout.read([_cell_text(each) for each in cells]))
        if chance.random() < 0.02:
            sheet.append([])
    out = io.BytesIO()
    book.save(out)
    return out.getvalue(), found, ".xlsx"


def _as_cell(chance: random.Random, text: str | None, column: str) -> Any:
    if not text or chance.random() < 0.5:
        return text or None
    if column in ("day", "clock") and _is_of_excel(text):
        return date.fromisoformat(text) if column == "day" else datetime.fromisoformat(text)
    if column == "word" and text in ("true", "false"):
        return text == "true"
    number = _number(text) if column.startswith(("count", "number")) else None
    if number is None or abs(number) >= _MOST_EXACT:
        return text
    return int(number) if number == int(number) else float(f"{float(number):.16g}")  # as many as its writer writes


def _is_of_excel(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).year > 1900 and "." not in text
    except ValueError:
        return False


def _cell_text(cell: Any) -> Any:
    match cell:
        case None:
            return None
        case bool():
            return Field("true" if cell else "false")
        case datetime():
            return Field(cell.isoformat())
        case date():
            return Field(cell.isoformat())
        case float():
            return Field(str(int(cell)) if cell.is_integer() and abs(cell) < _MOST_EXACT else repr(cell))
    return Field(str(cell))


def _parquet(chance: random.Random, source: SourceTable, layout: Layout, rows: Sequence[Row]) -> Made:
    """A file with texts, but for epochs, which are texts or numbers of any type."""
    columns = {place: column for column, places in layout.places.items() for place in places if len(places) == 1}
    cells = [layout.cells(row) for row in rows]
    arrays: list[pa.Array] = []
    values: list[list[Any]] = []
    for place in range(len(layout.header)):
        kind: pa.DataType = pa.string()
        if columns.get(place, "").startswith("count"):
            kind = chance.choice([pa.string(), pa.int64(), pa.float64(), pa.decimal128(38, 9)])
        values.append([_stored(row[place], kind) for row in cells])
        arrays.append(pa.array(values[-1], kind))
    names, some = [], []
    inner = [place for place, way in enumerate(layout.header) if len(way) > 1]
    for place, way in enumerate(layout.header):
        if len(way) == 1:
            names.append(way[0])
            some.append(arrays[place])
        elif place == inner[0]:
            names.append(way[0])
            some.append(
                pa.StructArray.from_arrays([arrays[each] for each in inner], [layout.header[each][1] for each in inner])
            )
    out = io.BytesIO()
    pq.write_table(pa.Table.from_arrays(some, names), out)
    found: list[Written] = [
        layout.read([Field(each) if isinstance(each, str) else each for each in row])
        for row in zip(*values, strict=True)
    ]
    return out.getvalue(), found, ".parquet"


def _stored(text: str | None, kind: pa.DataType) -> Any:
    if text is None or pa.types.is_string(kind):
        return text
    number = Decimal(text)
    if pa.types.is_floating(kind):
        return float(number)
    return max(-(2**63), min(int(number), 2**63 - 1)) if pa.types.is_integer(kind) else number


_WRITERS: Mapping[str, Callable[[random.Random, SourceTable, Layout, Sequence[Row]], Made]] = {
    "CSV": _csv,
    "XLSX": _xlsx,
    "Parquet": _parquet,
    "JSON lines": _lines,
    "JSON documents": _documents,
    "Avro": _avro,
    "Maxwell": _maxwell,
    "Canal": _canal,
}
