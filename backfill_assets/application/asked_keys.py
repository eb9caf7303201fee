"""Asked keys: a file of keys, or a reference with keys, whose rows the report of a run is to show."""

from __future__ import annotations

import csv
import io
import secrets
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backfill_assets.calendar.partitions import days_named, partitions_over
from backfill_assets.core.errors import BackfillError, InvalidRange
from backfill_assets.domain import Table
from backfill_assets.planning.manifest_parts import MOST_KEYS, AskedKeys
from backfill_assets.report.errors import CannotUse
from backfill_assets.transforms.schemas import business_schema
from backfill_assets.workspace import Workspace

if TYPE_CHECKING:
    import pyarrow as pa

Line = tuple[str, Sequence[str]]
"""Where a key stands, and its values."""


def asked_keys(ws: Workspace, table: Table, given: str) -> AskedKeys:
    """The keys of a table in a CSV file whose first line names their columns, or of a reference of the domain whose
    document has them as its `keys`: a list of columns with their values.

    Args:
        table: Its key is the key's columns; that of the partition may be left out.
        given: The path of the file, or the name of the reference.

    Raises:
        Refused: The file cannot be read, names other columns, has a value of another type, a key twice, too many keys
            or none; with the line.
    """
    # Imported where keys are given: Arrow takes long to import, and most plans have none.
    from pyspark.sql.pandas.types import to_arrow_schema

    columns, lines = _given(ws, given)
    column, wanted = table.partition.column, _key_of(table)
    if not _is_key(table, columns):
        why = f"its columns are {', '.join(columns) or 'none'}, and a key of {table.name} is {', '.join(wanted)}"
        may = f", where {column} may be left out" if len(wanted) > 1 else ""
        raise CannotUse(what=given, why=f"{why}{may}", instead="a file whose first line names the columns of the key")
    schema = to_arrow_schema(business_schema(table), timezone="UTC")
    keys: list[tuple[str, ...]] = []
    places: dict[tuple[object, ...], str] = {}
    for place, values in lines:
        typed = tuple(_checked(table, schema, place, columns, values))
        # Several texts can stand for one value, such as 1.1 and 1.10 of a decimal.
        if (first := places.setdefault(typed, place)) != place:
            raise _unusable(place, f"it names the key of {first} again")
        if len(keys) == MOST_KEYS:
            raise _unusable(place, f"it is more than the {MOST_KEYS:,} keys that a report shows")
        keys.append(tuple(str(t) if n == column else v for n, v, t in zip(columns, values, typed, strict=True)))
    if not keys:
        raise CannotUse(what=given, why="it has no keys", instead="a file with a line for each key below the columns")
    return AskedKeys(columns=tuple(columns), keys=tuple(keys), salt=secrets.token_hex(32))


def keys_by_table(ws: Workspace, given: str, tables: Sequence[str]) -> Mapping[str, AskedKeys]:
    """The keys of a file, or of a reference, by those of several tables whose key its columns are.

    Raises:
        Refused: As `asked_keys`, or they are the key of none of the tables.
    """
    columns, _ = _given(ws, given)
    fitting = [table for table in map(ws.domain.derived_table, tables) if _is_key(table, columns)]
    if not fitting:
        keys = "; ".join(f"of {name} {', '.join(_key_of(ws.domain.derived_table(name)))}" for name in tables)
        why = f"its columns are {', '.join(columns) or 'none'}, and no table of the set has this key: {keys}"
        raise CannotUse(what=given, why=why, instead="a file whose first line names the columns of the key of one")
    return {table.name: asked_keys(ws, table, given) for table in fitting}


def _given(ws: Workspace, given: str) -> tuple[Sequence[str], Iterator[Line]]:
    """The columns of a file or a reference, and its keys."""
    is_reference = given in {reference.name for reference in ws.domain.references}
    return _of_reference(ws, given) if is_reference else _of_file(Path(given))


def _key_of(table: Table) -> Sequence[str]:
    return list(dict.fromkeys((table.partition.column, *table.row_key)))


def _is_key(table: Table, columns: Sequence[str]) -> bool:
    """True if columns are the key of a table, with the column of the partition or without."""
    wanted = _key_of(table)
    return sorted(columns) in (sorted(wanted), sorted(wanted[1:]))


def _unusable(place: str, why: str) -> CannotUse:
    return CannotUse(what=place, why=why, instead="a file in which every line is one key of the table")


def _of_file(path: Path) -> tuple[Sequence[str], Iterator[Line]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else str(error.strerror)
        raise CannotUse(what=str(path), why=why, instead="a CSV file, or the name of a reference") from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)

    def lines() -> Iterator[Line]:
        while True:
            try:
                values = next(reader, None)
            except csv.Error as error:
                raise _unusable(f"{path}, line {reader.line_num}", f"it is not CSV: {error}") from None
            if values is None:
                return
            if values:
                yield f"{path}, line {reader.line_num}", values

    found = lines()
    _, columns = next(found, ("", []))
    return [name.strip() for name in columns], found


def _of_reference(ws: Workspace, name: str) -> tuple[Sequence[str], Iterator[Line]]:
    from backfill_assets.transforms.strict_yaml import parse_yaml

    document: Any = parse_yaml(ws.references[name].content)
    keys = document.get("keys") if isinstance(document, Mapping) else None
    if not isinstance(keys, list) or not all(isinstance(key, Mapping) for key in keys):
        why = "its document has no list of keys, each with columns and values"
        raise CannotUse(what=f"the reference {name}", why=why, instead="a reference with `keys`, or a CSV file")
    columns = [str(column) for column in keys[0]] if keys else []

    def lines() -> Iterator[Line]:
        for place, key in enumerate(keys, 1):
            named = f"key {place} of the reference {name}"
            if set(map(str, key)) != set(columns):
                raise _unusable(named, f"it has other columns than the first key, which are {', '.join(columns)}")
            by_name = {str(column): value for column, value in key.items()}
            yield named, ["" if by_name[column] is None else str(by_name[column]) for column in columns]

    return columns, lines()


def _checked(
    table: Table, schema: pa.Schema, place: str, columns: Sequence[str], values: Sequence[str]
) -> Iterator[object]:
    """The values of a key, each of the type of its column; the first day for what names a partition."""
    from backfill_assets.lake.row_values import typed_keys

    if len(values) != len(columns):
        raise _unusable(place, f"it has {len(values)} values for {len(columns)} columns")
    for name, value in zip(columns, values, strict=True):
        try:
            if name == table.partition.column:
                (partition,) = partitions_over(table.partition.grain, days_named(value.strip()))
                yield partition
                continue
            yield typed_keys([name], [[value]], schema).column(0)[0].as_py()
        except (InvalidRange, ValueError) as error:
            why = (
                error.message.removesuffix(".") if isinstance(error, BackfillError) else f"{value!r} names several days"
            )
            raise _unusable(place, why) from None
