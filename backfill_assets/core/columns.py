"""Columns: how two lists of them differ, and what a schema may become without a rule of its author.

Columns may be added that can be null, types may get wider, and columns may become nullable: then every row of the old
schema is a row of the new one, and every reader of the files can tell how. Anything else needs a rule.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql import types as T

LINEAGE = "lineage.runs"
"""The table with what the rows of each run have in common."""

RUN_ID = "_run_id"
"""The column of every row that names the run which computed it; a run that keeps accepted rows leaves it as it is."""

LINEAGE_OF_RUN = (
    "_kind",
    "_mode",
    "_transform",
    "_transform_version",
    "_input_version",
    "_reference_versions",
    "_restatement_reason",
)
"""Columns in which all rows of a run are equal, besides their run. A table declares whether its rows carry it, and may
declare that otherwise later: files with and without these columns are files of one table."""

PUBLISHED_AT = "_published_at"
EVIDENCE_OF_RUN = ("_input_range", PUBLISHED_AT, "_commit", "_distributions", "_image")
"""Columns that only the row of a run in `lineage.runs` has: null where it is not known, and in rows of earlier
releases."""


def in_sql(name: str) -> str:
    """The name of a column as Spark's SQL has it."""
    return "`" + name.replace("`", "``") + "`"


_WHOLE: tuple[type[T.DataType], ...] = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_DIGITS_OF_LONG, _DIGITS_OF_OTHERS = 20, 10
"""The digits before the point with which Parquet readers take a whole number for a decimal."""


def widens(old: T.DataType, new: T.DataType) -> bool:
    """True if every value of a type is a value of another one, and readers of Parquet files convert it themselves."""
    if _is_same(old, new):
        return True
    if isinstance(old, _WHOLE) and isinstance(new, _WHOLE):
        return _WHOLE.index(type(old)) < _WHOLE.index(type(new))
    if isinstance(old, T.FloatType):
        return isinstance(new, T.DoubleType)
    if not isinstance(new, T.DecimalType):
        return False
    whole_digits = new.precision - new.scale
    if isinstance(old, T.DecimalType):
        return new.scale >= old.scale and whole_digits >= old.precision - old.scale
    if isinstance(old, _WHOLE):
        return whole_digits >= (_DIGITS_OF_LONG if isinstance(old, T.LongType) else _DIGITS_OF_OTHERS)
    return False


def _is_same(old: T.DataType, new: T.DataType) -> bool:
    """True if two types are the same, apart from parts that may be null now; comments on parts do not count."""
    if isinstance(old, T.ArrayType) and isinstance(new, T.ArrayType):
        return (new.containsNull or not old.containsNull) and _is_same(old.elementType, new.elementType)
    if isinstance(old, T.StructType) and isinstance(new, T.StructType):
        return old.names == new.names and all(
            (after.nullable or not before.nullable) and _is_same(before.dataType, after.dataType)
            for before, after in zip(old.fields, new.fields, strict=True)
        )
    return old == new


def needs_rule(old: T.StructType, new: T.StructType, *, ruled: Collection[str] = ()) -> tuple[str, ...]:
    """The changes that are not a widening, as parts of a sentence that name the column; empty if there are none."""
    before = {field.name: field for field in old.fields}
    after = {field.name: field for field in new.fields}
    gone = [f"{name} is no longer there" for name in before if name not in after and name not in ruled]
    kept = [each for field in new.fields for each in _of_column(before.get(field.name), field, ruled)]
    return (*gone, *kept)


def _of_column(old: T.StructField | None, new: T.StructField, ruled: Collection[str]) -> tuple[str, ...]:
    if new.name in ruled:
        return ()
    if old is None:
        return () if new.nullable else (f"{new.name} is new and cannot be null",)
    if not widens(old.dataType, new.dataType):
        said = old.dataType.simpleString(), new.dataType.simpleString()
        narrower = ", which holds less" if widens(new.dataType, old.dataType) else ""
        return (f"{new.name} was {said[0]} and is {said[1]}{narrower}",)
    if old.nullable and not new.nullable:
        return (f"{new.name} could be null and no longer can",)
    return ()


def widened(found: T.StructType, wanted: T.StructType, *, former: Collection[str] = ()) -> T.StructType:
    """The schema of a table that holds files of both schemas: columns in the order found, then the new ones.

    Columns of `found` alone are kept for files that have them, so they can be null, like those that `found` lacks.

    Args:
        wanted: What new files have.
        former: Columns that may be missing in `wanted`.

    Raises:
        KeyError: `wanted` lacks a column that is not a former one.
    """
    declared = {field.name: field for field in wanted.fields}
    present = set(found.fieldNames())
    kept = []
    for field in found.fields:
        if field.name not in declared and field.name not in former:
            raise KeyError(field.name)
        new = declared.get(field.name)
        kept.append(
            T.StructField(
                field.name,
                field.dataType if new is None else new.dataType,
                nullable=new is None or new.nullable or field.nullable,
                metadata=field.metadata,
            )
        )
    added = [T.StructField(f.name, f.dataType, nullable=True) for f in wanted.fields if f.name not in present]
    return T.StructType([*kept, *added])


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnChange:
    """A change of one column for readers of a table with a publication."""

    column: str  #: Its name.
    was: str | None  #: Its type until then; null where it is added.
    becomes: str | None  #: Its type in the new rows; null where they do not have it.
    loosens: bool = False  #: True if null is allowed in it, or inside of it, where it was not.


def column_changes(
    found: T.StructType, wanted: T.StructType, *, held: Collection[str] | None = None
) -> tuple[ColumnChange, ...]:
    """The changes of a table's columns for readers when rows of other columns are published; lineage is not named.

    Args:
        found: What the table has. It goes on allowing null where it did.
        wanted: What the new rows have.
        held: What the rows before them have, as a table keeps columns of earlier contracts; None for all of `found`.
    """
    after = widened(found, wanted, former=found.fieldNames())
    had = {field.name: field for field in found.fields if held is None or field.name in {*held, *wanted.fieldNames()}}
    has = {field.name: field for field in after.fields if field.name in wanted.fieldNames()}
    named = (name for name in dict.fromkeys([*has, *had]) if not name.startswith("_"))
    return tuple(each for name in named for each in _change(name, had.get(name), has.get(name)))


def _change(column: str, old: T.StructField | None, new: T.StructField | None) -> Iterator[ColumnChange]:
    was, becomes = (None if each is None else each.dataType.simpleString() for each in (old, new))
    loosens = False
    if old is not None and new is not None:
        is_stricter = was == becomes and not _is_same(new.dataType, old.dataType)
        loosens = is_stricter or (new.nullable and not old.nullable)
    if loosens or was != becomes:
        yield ColumnChange(column=column, was=was, becomes=becomes, loosens=loosens)


def differing_columns(found: Sequence[tuple[str, str]], declared: Sequence[tuple[str, str]]) -> str | None:
    """The columns that differ, by name, as a part of a sentence; None when there are none."""
    types, wanted = dict(found), dict(declared)
    parts = [f"{name} is missing" for name in wanted if name not in types]
    parts += [f"{name} is not declared" for name in types if name not in wanted]
    parts += [
        f"{name} is {types[name]} where {kind} is declared"
        for name, kind in wanted.items()
        if types.get(name, kind) != kind
    ]
    if not parts and [name for name, _ in found] != list(wanted):
        misplaced = next(
            (have, want) for (have, _), want in zip(found, [*wanted, "nothing"], strict=False) if have != want
        )
        parts.append(f"{misplaced[0]} stands where {misplaced[1]} is declared")
    return ", ".join(parts) or None
