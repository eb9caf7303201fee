"""Row values: the one exit through which values of rows leave the lake, as texts.

Samples, failing keys and breakdowns that the ledger keeps, rejected records and their reasons, errors that name a
record, and rows that a person is shown: each of their values is made a text here, so that there is one place to decide
what of it is shown.

The rows that a person waits for are those of an exact list of files, chosen by key and read by Arrow, without Spark.
What is computed, measured and compared is read by Spark (`snapshot`).
"""

from __future__ import annotations

import re
import tempfile
from base64 import b64encode
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import reduce
from json import JSONEncoder
from math import isfinite
from operator import and_, or_
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.sql import Column, Row
from pyspark.sql import functions as F
from pyspark.sql.types import StructType, TimestampType

from backfill_assets.core.identity import FileSet
from backfill_assets.lake.errors import NoValueOfKey, RowsUnreadable
from backfill_assets.lake.snapshot import checked_parquet
from backfill_assets.lake.tables import Lake, missing_files

if TYPE_CHECKING:
    # Imported where rows are read: Arrow's datasets bring pandas along, and most commands read none.
    import pyarrow as pa
    import pyarrow.dataset as ds

    from backfill_assets.files.port import Files

_IMPORT_ID = "_import_id"
_FILE = "__filename"
"""Arrow's own name of the file that a row is from."""
_COUNT = "__count"

_HAS_OFFSET = re.compile(r"(Z|:\d{2}(\.\d+)?[+-]\d{2}:?\d{2})\Z")

Texts: TypeAlias = Mapping[str, str | None]
"""Values of a row by column, as text or null."""

Among: TypeAlias = Mapping[str, Sequence[str | None]]
"""Values by column, null included, of which rows have one."""


def texts(
    row: Row | Mapping[str, Any], columns: Iterable[str], instants: Collection[str] = ()
) -> dict[str, str | None]:
    """Values of a row as text; of an instant in UTC, which it says.

    Args:
        instants: The columns whose times are in UTC without a zone, as Spark gives instants.
    """
    return {name: _text(row[name], is_instant=name in instants) for name in columns}


def _text(value: object, *, is_instant: bool) -> str | None:
    match value:
        case None:
            return None
        case datetime(tzinfo=None):
            return f"{value} UTC" if is_instant else str(value)
        case datetime():
            return f"{value.astimezone(UTC).replace(tzinfo=None)} UTC"
        case _:
            return str(value)


def instants_in(schema: StructType) -> frozenset[str]:
    """The columns of a schema that hold instants, and not times without a zone."""
    return frozenset(field.name for field in schema.fields if isinstance(field.dataType, TimestampType))


def first_characters(value: Column, most: int) -> Column:
    """The beginning of a value's text, in a table or a sentence that people read."""
    return F.substring(F.make_valid_utf8(value.cast("string")), 1, most)


def rows_with_key(lake: Lake, table: str, files: FileSet, key: Mapping[str, str], *, most: int) -> Sequence[Texts]:
    """The rows of these files that have this key.

    Args:
        key: By column, the value as text; columns that are not in the files, as the partition's, are left out.
    """
    with lake.reading(table):
        found = _dataset(lake, table, files)
        if found is None:
            return []
        return _texts_of(found.head(most, filter=_is_key(found.schema, key)))


def count_rows(lake: Lake, table: str, files: FileSet, values: Mapping[str, str]) -> int:
    """The number of rows of these files that have these values, given as text; none of a file that lacks one of the
    columns. Errors as of `rows_with_key`."""
    with lake.reading(table):
        found = _dataset(lake, table, files)
        return sum(
            each.count_rows(filter=_is_key(each.physical_schema, values))
            for each in (found.get_fragments() if found else ())
            if values.keys() <= {*each.physical_schema.names}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRows:
    """Rows with some keys."""

    count: int
    #: The first of them, each with the path of its file, relative to the folder of the table.
    rows: tuple[tuple[str, Texts], ...]


def rows_with_keys(
    lake: Lake, table: str, files: FileSet, keys: Sequence[Mapping[str, str]], *, most: int, among: Among | None = None
) -> FoundRows:
    """The rows of these files that have one of these keys; arguments and errors as of `rows_with_key`.

    Args:
        keys: By column, the value as text; columns that are not in the files are left out.
        most: The maximum number of rows that are returned; all are counted.
        among: By column, the values of which a row has one.
    """
    with lake.reading(table):
        found = _dataset(lake, table, files)
        if found is None:
            return FoundRows(count=0, rows=())
        chosen = _are_keys(found.schema, keys, among)
        read = _texts_of(found.head(most, columns=[*found.schema.names, _FILE], filter=chosen))
        return FoundRows(count=found.count_rows(filter=chosen), rows=_with_paths(files, read))


def changed_rows(
    lake: Lake,
    table: str,
    files: FileSet,
    before: FileSet,
    keys: Sequence[Mapping[str, str]],
    *,
    most: int,
    among: Among | None = None,
) -> FoundRows:
    """The rows of a version of a partition with one of these keys that an earlier version of it did not have.

    Rows are compared by the values of the columns that both versions have with the same type, without lineage; other
    arguments and errors as of `rows_with_keys`.
    """
    import duckdb

    with lake.reading(table):
        new, old = _dataset(lake, table, files), _dataset(lake, table, before)
        if new is None or old is None:
            return rows_with_keys(lake, table, files, keys, most=most, among=among)
        types = {each.name: each.type for each in old.schema}
        shared = [each.name for each in new.schema if each.name[0] != "_" and types.get(each.name) == each.type]
        read = {"new": (new, [*new.schema.names, _FILE]), "old": (old, shared)}
        readers = {
            name: each.scanner(columns=columns, filter=_are_keys(each.schema, keys, among)).to_reader()
            for name, (each, columns) in read.items()
        }
        named = [f'"{name.replace(chr(34), chr(34) * 2)}"' for name in shared]
        same = " AND ".join(f"new.{name} IS NOT DISTINCT FROM old.{name}" for name in named) or "true"
        order = ", ".join([_FILE, *named])
        try:
            with (
                tempfile.TemporaryDirectory(prefix="backfill-changed-") as folder,
                duckdb.connect(config={"temp_directory": folder}) as connection,
            ):
                connection.execute("SET TimeZone = 'UTC'")
                for name, reader in readers.items():
                    connection.register(name, reader)
                changed = connection.sql(f"FROM new ANTI JOIN old ON {same}")
                found = changed.project(f"*, count(*) OVER () AS {_COUNT}").order(order).limit(most).to_arrow_table()
        except duckdb.Error as error:
            raise RowsUnreadable(table=table, why=str(error).partition("\n")[0]) from error
        count = found.column(_COUNT)[0].as_py() if found.num_rows else 0
        return FoundRows(count=count, rows=_with_paths(files, _texts_of(found.drop_columns([_COUNT]))))


def records_with_keys(
    files: Files, paths: Iterable[str], keys: Sequence[Mapping[str, str]], columns: Sequence[str]
) -> Iterator[Texts]:
    """The records of Parquet files outside of the lake that have one of these keys, as texts; batch by batch."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for path in sorted(paths):
        with files.open(path) as opened, pq.ParquetFile(opened) as found:
            inside = [name for name in columns if name in found.schema_arrow.names]
            chosen = _are_keys(found.schema_arrow, keys, None)
            for batch in found.iter_batches(columns=inside):
                yield from _texts_of(pa.Table.from_batches([batch]).filter(chosen))


def _are_keys(schema: pa.Schema, keys: Sequence[Mapping[str, str]], among: Among | None) -> ds.Expression:
    import pyarrow as pa
    import pyarrow.compute as pc

    are_keys = reduce(or_, (_is_key(schema, key) for key in keys))
    allowed = (pc.field(name).isin(pa.array(values, schema.field(name).type)) for name, values in (among or {}).items())
    return reduce(and_, allowed, are_keys)


def _with_paths(files: FileSet, rows: Sequence[Texts]) -> tuple[tuple[str, Texts], ...]:
    """Rows that were read with Arrow's names of their files: each with the path of its file in the table's folder."""
    paths = {path: next(each for each in files.paths if path.endswith(each)) for path in {str(r[_FILE]) for r in rows}}
    return tuple(
        (paths[str(row[_FILE])], {name: value for name, value in row.items() if name != _FILE}) for row in rows
    )


def _is_key(schema: pa.Schema, key: Mapping[str, str]) -> ds.Expression:
    import pyarrow.compute as pc

    wanted = (
        pc.field(name) == _value(name, text, schema.field(name).type)
        for name, text in key.items()
        if name in schema.names
    )
    return reduce(and_, wanted, pc.scalar(True))


def some_keys(lake: Lake, table: str, files: FileSet, columns: Sequence[str], *, most: int) -> Sequence[Texts]:
    """The keys of some rows of these files, without the columns that are not in them."""
    with lake.reading(table):
        found = _dataset(lake, table, files)
        if found is None:
            return []
        inside = [name for name in columns if name in found.schema.names]
        return _texts_of(found.head(most, columns=inside)) if inside else []


def few_by_reason(
    lake: Lake, table: str, columns: tuple[str, str], *, where: tuple[str, str]
) -> tuple[Sequence[Texts], Mapping[str, int]]:
    """Three rows of a table at most, the first of each reason before others, and how many have each reason.

    Args:
        columns: Their number, and the reason, which quotes values: what is not in quotes counts.
    """
    import pyarrow.compute as pc

    if not lake.exists(table):
        return [], {}
    column, value = where
    found = lake.open(table).to_pyarrow_table(columns=list(columns), filters=[(column, "=", value)])
    found = found.sort_by(columns[0])
    kinds = _values(pc.replace_substring_regex(found.column(columns[1]), "(?s): '.*'$", ""))
    first = {kind: place for place, kind in reversed([*enumerate(kinds)])}
    places = list(dict.fromkeys((*sorted(first.values()), *range(len(kinds)))))[:3]
    counts = Counter(kinds)
    return _texts_of(found.take(sorted(places))), {kind: counts[kind] for kind in sorted(first, key=first.__getitem__)}


def rows_of_arrow(found: pa.Table) -> Sequence[Mapping[str, Any]]:
    """Rows of Arrow as values of Python, as Spark gives them: an instant in UTC and without a zone."""
    columns = {name: _plain(found.column(name)) for name in found.column_names}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _plain(values: pa.ChunkedArray | pa.Array) -> Sequence[Any]:
    import pyarrow as pa

    return _values(values.cast(pa.timestamp("us")) if pa.types.is_timestamp(values.type) else values)


def _values(values: pa.ChunkedArray | pa.Array) -> Sequence[Any]:
    """Values of Arrow as those of Python, or as texts where there are years that Python does not have."""
    import pyarrow as pa

    if pa.types.is_string(values.type):
        # Spark takes any bytes for a text.
        held = values.cast(pa.binary()).to_pylist()
        return [None if each is None else each.decode("utf-8", errors="replace") for each in held]
    try:
        return list(values.to_pylist())
    except OverflowError:
        return list(values.cast(pa.string()).to_pylist())


def _texts_of(found: pa.Table) -> Sequence[Texts]:
    columns = {name: _values(found.column(name)) for name in found.column_names}
    return [texts(dict(zip(columns, row, strict=True)), columns) for row in zip(*columns.values(), strict=True)]


def text_rows_of(found: pa.Table | pa.RecordBatch) -> Sequence[Texts]:
    """Rows of Arrow as texts."""
    return _texts_of(found)


def typed_keys(columns: Sequence[str], keys: Sequence[Sequence[str]], schema: pa.Schema) -> pa.Table:
    """Keys that a person typed, with the types that their columns have in a schema.

    Raises:
        NoValueOfKey: A value is not of its column's type.
    """
    import pyarrow as pa

    kinds = [schema.field(name).type for name in columns]
    values = [
        pa.array([_value(name, key[place], kind).as_py() for key in keys], kind)
        for place, (name, kind) in enumerate(zip(columns, kinds, strict=True))
    ]
    return pa.table(values, names=list(columns))


def typed_rows_of(found: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows of Arrow with the types of a schema, in the order of its columns.

    Args:
        schema: Columns of the rows.
    """
    import pyarrow as pa

    columns = [_typed(found.column(field.name), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _typed(values: pa.Array, kind: pa.DataType) -> pa.Array:
    import pyarrow as pa

    if pa.types.is_string(values.type):
        try:
            # Only here Arrow looks whether the bytes are a text.
            return values.cast(pa.binary()).cast(kind)
        except pa.ArrowInvalid:
            return pa.array(_values(values), kind)
    return values.cast(kind)


def json_rows_of(batch: pa.RecordBatch) -> Iterator[Mapping[str, str]]:
    """Rows of Arrow: by column, the value as JSON."""
    columns = {name: _json_column(batch.column(name)) for name in batch.schema.names}
    for row in zip(*columns.values(), strict=True):
        yield dict(zip(columns, row, strict=True))


def cells_of(batch: pa.RecordBatch) -> Iterator[tuple[str, ...]]:
    """Rows of Arrow as cells of CSV: a text as it is, nothing for null, other values as JSON without quotes."""
    import pyarrow as pa

    def cells(values: pa.Array) -> Iterator[str]:
        if pa.types.is_string(values.type):
            return ("" if each is None else each for each in _values(values))
        found = _json_column(values)
        return ("" if each == "null" else each[1:-1] if each[0] == '"' else each for each in found)

    return zip(*(cells(batch.column(name)) for name in batch.schema.names), strict=True)


def _json_column(values: pa.Array) -> Iterator[str]:
    import pyarrow as pa

    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_integer(kind):
        write = _quoted if pa.types.is_string(kind) else str
        return ("null" if each is None else write(each) for each in _values(values))
    if not pa.types.is_timestamp(kind):
        return map(json_of, _plain(values))
    if values.type.unit != "ns":
        return map(json_of, values.to_pylist())
    zone = "Z" if values.type.tz else ""
    return (_of_nanoseconds(each, zone) for each in values.cast(pa.int64()).to_pylist())


def _of_nanoseconds(since_1970: int | None, zone: str) -> str:
    """A time of nine digits as JSON, which no time of Python has."""
    if since_1970 is None:
        return "null"
    microseconds, below = divmod(since_1970, 1_000)
    text = (datetime(1970, 1, 1) + timedelta(microseconds=microseconds)).isoformat()  # noqa: DTZ001 - the text names the zone
    if below:
        text = f"{text if '.' in text else f'{text}.000000'}{below:03}"
    return f'"{text}{zone}"'


def json_of(value: object) -> str:
    """A value as JSON: numbers with all their digits, instants in UTC, local times as they are, bytes as Base64."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return repr(value) if isfinite(value) else f'"{value}"'
        case Decimal():
            return format(value, "f")
        case datetime():
            if value.tzinfo is None:
                return f'"{value.isoformat()}"'
            return f'"{value.astimezone(UTC).replace(tzinfo=None).isoformat()}Z"'
        case date():
            return f'"{value.isoformat()}"'
        case bytes():
            return f'"{b64encode(value).decode()}"'
        case dict():
            return f"{{{', '.join(f'{_quoted(str(name))}: {json_of(each)}' for name, each in value.items())}}}"
        case list() | tuple():
            return f"[{', '.join(map(json_of, value))}]"
        case _:
            return _quoted(str(value))


_quoted = JSONEncoder(ensure_ascii=False).encode


def rows_by_import(lake: Lake, table: str, files: FileSet) -> Mapping[str, int]:
    """The number of rows of these files of a source table, by the import whose records they are."""
    import pyarrow.compute as pc

    with lake.reading(table):
        found = _dataset(lake, table, files)
        if found is None:
            return {}
        of_import = found.to_table(columns=[_IMPORT_ID]).column(_IMPORT_ID)
        return {each["values"]: each["counts"] for each in pc.value_counts(of_import).to_pylist()}


def _dataset(lake: Lake, table: str, files: FileSet) -> ds.Dataset | None:
    """The files as one dataset, in the order of their partitions; None for a partition without rows."""
    if problems := missing_files(lake, table, [files]):
        raise RowsUnreadable(table=table, why=problems[0])
    if not files.paths:
        return None
    import pyarrow.dataset as ds

    # The folder of a partition is the last one of a path, below that of the run.
    paths = sorted(files.paths, key=lambda path: (path.split("/")[-2:-1], path))
    return ds.dataset(paths, format=checked_parquet(), filesystem=lake.arrow_files(table))


def _value(name: str, text: str, kind: pa.DataType) -> pa.Scalar:
    import pyarrow as pa
    import pyarrow.compute as pc

    read = text
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        # As `texts` writes it, or as a person types it: Arrow takes no name of a zone, and asks for an offset.
        plain = text.removesuffix("UTC").rstrip()
        read = plain if _HAS_OFFSET.search(plain) else f"{plain}Z"
    try:
        return pc.cast(pa.scalar(read), kind)
    except pa.ArrowInvalid as error:
        raise NoValueOfKey(value=text[:100], column=name, type_=str(kind)) from error
