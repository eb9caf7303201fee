"""Names: the places of the columns of a contract in the files of its source.

A source declares what its files call a column: the name in a header, the path of a member, a position, or several of
these. They are looked up here and nowhere else: in the header of a CSV, in the columns of a Parquet file, and in the
members of a line of JSON. A name that is there as it is comes before a path with it, and the canonical forms of one
text (`é` as one character or as two) are one name.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.capture.errors import BadFile, Fault
from backfill_assets.capture.json_members import member_at
from backfill_assets.core.wording import visible
from backfill_assets.domain import SourceTable
from backfill_assets.domain.source_files import Part, called
from backfill_assets.landing.json_text import elements, members, plain
from backfill_assets.landing.record_rules import required_of_a_file

_MOST_COLUMNS, _MOST_CHARACTERS = 12, 60
"""The names of a header that a refusal quotes at most."""

_MOST_LINES = 100
"""So many lines of JSON are looked at for a member that every record needs."""

_JOINED = (
    *(T.StringType, T.DateType, T.TimestampType, T.TimestampNTZType),
    *(T.ByteType, T.ShortType, T.IntegerType, T.LongType),
)
"""The types of Parquet of which texts are joined; a timestamp is the date whose midnight it is."""

_INNER = "_inner"
"""What the columns begin with that hold the members, or the elements, of a member that paths lead through."""

Types = Mapping[str, T.DataType]
"""The types of the columns of a Parquet file that are known; a CSV has none."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A place in a file: the position of a column, and of a nested one the members that lead to the value."""

    position: int
    path: tuple[str, ...] = ()


# ------------------------------------------------------------------------------------------------ headers and columns


def spots(source: SourceTable, header: Sequence[str], types: Types | None = None) -> Mapping[str, tuple[Spot, ...]]:
    """Where a file has the columns of a contract; those are left out that it has not, or only in part."""
    found = {column: [_spot(part, header, types or {}) for part in parts] for column, parts in source.places.items()}
    return {column: tuple(filter(None, some)) for column, some in found.items() if all(some)}


def _spot(part: Part, header: Sequence[str], types: Types) -> Spot | None:
    match part:
        case int():
            return Spot(part) if part < len(header) else None
        case (name, number):
            some = _positions(name, header)
            return Spot(some[number - 1]) if number <= len(some) else None
        case str() if some := _positions(part, header):
            return Spot(some[0])
        case str():
            return next(_paths(part, header, types), None)


def _positions(name: str, header: Sequence[str]) -> Sequence[int]:
    """The places of a name in a header, from left to right."""
    wanted = name.strip()  # as names in a CSV are; those of Parquet keep their blanks
    for exact in dict.fromkeys((name, wanted)):
        if exactly := [place for place, each in enumerate(header) if each == exact]:
            return exactly
    return [place for place, each in enumerate(header) if _same(each) == _same(wanted)]


def _same(name: str) -> str:
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def _paths(name: str, header: Sequence[str], types: Types) -> Iterator[Spot]:
    """The nested column that a path leads to, where its beginning is a column of the file."""
    for first, rest in _split(name):
        some = _positions(first, header)
        if len(some) == 1 and (kind := types.get(header[some[0]])) is not None:
            yield from (Spot(some[0], path) for path in _inside(rest, kind))


def _split(path: str) -> Iterator[tuple[str, str]]:
    """A path at each of its dots, the last one first: a name that has dots itself comes before members of members."""
    names = path.split(".")
    for many in range(len(names) - 1, 0, -1):
        yield ".".join(names[:many]), ".".join(names[many:])


def _inside(path: str, kind: T.DataType) -> Iterator[tuple[str, ...]]:
    if _member_type(kind, path) is not None:
        yield (path,)
    for first, rest in _split(path):
        inner = _member_type(kind, first)
        if inner is not None:
            yield from ((first, *more) for more in _inside(rest, inner))


def _member_type(kind: T.DataType, name: str) -> T.DataType | None:
    match kind:
        case T.StructType():
            return kind[name].dataType if name in kind.names else None
        case T.ArrayType():
            return kind.elementType if name.isdecimal() else None
        case T.MapType():
            return kind.valueType if isinstance(kind.keyType, T.StringType) else None
    return None


def spot_name(header: Sequence[str], spot: Spot) -> str:
    """The name of a place in a file."""
    return ".".join((header[spot.position], *spot.path))


def type_of(some: Sequence[Spot], header: Sequence[str], types: Types) -> T.DataType | None:
    """The type of the values at these places of a Parquet file, of which several are joined; None where it cannot be
    read."""
    return T.StringType() if len(some) > 1 else _type_at(some[0], header, types)


def require_texts(source: SourceTable, header: Sequence[str], types: Types, *, name: str) -> None:
    """Refuses a Parquet file in which columns that are joined are no texts, dates or whole numbers."""
    for column, some in spots(source, header, types).items():
        for spot in some if len(some) > 1 else ():
            kind = _type_at(spot, header, types)
            if not isinstance(kind, _JOINED):
                place = spot_name(header, spot)
                says = "of a type that cannot be read" if kind is None else kind.simpleString()
                why = f"joins {column} of {visible(place)}, which is {says} and no text, date, time or whole number"
                raise BadFile(path=name, fault=Fault.TYPE, why=why, column=column, type_="string")


def _type_at(spot: Spot, header: Sequence[str], types: Types) -> T.DataType | None:
    kind = types.get(header[spot.position])
    return None if kind is None else kind_inside(kind, spot.path)


def kind_inside(kind: T.DataType, path: Sequence[str]) -> T.DataType:
    """The type of what a path leads to that is there."""
    for name in path:
        inner = _member_type(kind, name)
        assert inner is not None, "only a path that is there has been found"
        kind = inner
    return kind


def nested(value: Column, kind: T.DataType, path: Sequence[str]) -> Column:
    """The value that a path leads to; null where a member or an element on the way is."""
    for name in path:
        match kind:
            case T.StructType():
                value = value.getField(name)
            case T.ArrayType():
                value = F.get(value, F.lit(int(name)))
            case _:
                value = F.try_element_at(value, F.lit(name))
        kind = kind_inside(kind, [name])
    return value


def joined(parts: Sequence[Column]) -> Column:
    """The texts of the columns of a file that are one of the contract, with a blank between; null when one is missing
    or blank."""
    if len(parts) == 1:
        return parts[0]
    texts = [part.cast(T.StringType()) for part in parts]
    is_whole = reduce(lambda left, right: left & right, (F.trim(text) != "" for text in texts))
    return F.when(is_whole, F.concat_ws(" ", *texts))


def require_names(source: SourceTable, header: Sequence[str], types: Types | None = None, *, name: str) -> None:
    """Refuses a file that lacks a required column, or one that is declared, or that has the name of one twice.

    Args:
        header: The names of its columns, in order.
        types: Of a Parquet file, their types as far as they are known.
        name: What messages call it.
    """
    found, required = spots(source, header, types), required_of_a_file(source)
    what = f"its {'header is' if types is None else 'columns are'}: {shown(header)}"
    used = {header[spot.position] for some in found.values() for spot in some}
    for column, parts in source.places.items():
        for part in parts:
            if isinstance(part, str) and len(_positions(part, header)) > 1:
                why = f"names the column {visible(part)} twice; {what}"
                raise BadFile(path=name, fault=Fault.COLUMNS, why=why, column=column, near=part)
    for column, parts in source.places.items():
        is_declared = parts != (column,) and source.operation is None
        if column in found or not (is_declared or column in required):
            continue
        part = next(each for each in parts if _spot(each, header, types or {}) is None)
        raise _no_column(source, column, part, header, used, what, name)


def _no_column(
    source: SourceTable,
    column: str,
    part: Part,
    header: Sequence[str],
    used: Collection[str],
    what: str,
    name: str,
) -> BadFile:
    if part == column:
        why = f"has no column {column}, which {source.name} requires; {what}"
    else:
        why = f"has no column at {called(part)}, from which {source.name} takes {column}; {what}"
    near = None
    if isinstance(part, str) and len(source.places[column]) == 1:
        # What the contract knows under its own name is not meant.
        near = _nearest(part, column, [each for each in header if each not in used])
    return BadFile(path=name, fault=Fault.NO_COLUMN, why=why, column=column, near=near)


def _nearest(wanted: str, column: str, names: Iterable[str]) -> str | None:
    """The name that may be meant by a name that is not there, or by the column that it is read into."""
    simple = {_simply(each): each for each in names if _simply(each)}
    for text in (wanted, column):
        if found := get_close_matches(_simply(text), simple, n=1):
            return simple[found[0]]
    return None


def meant_by(source: SourceTable, ignored: Iterable[str]) -> Mapping[str, str]:
    """Columns of a contract that files have under their own name, by a name of a file that is left out and is written
    almost so: in another case, with blanks or with other signs between its words."""
    simple = {_simply(column): column for column, parts in source.places.items() if parts == (column,)}
    return {name: simple[_simply(name)] for name in ignored if _simply(name) in simple}


def _simply(name: str) -> str:
    """A name without what differs between ways to write it: case, accents, and what is between its words."""
    apart = unicodedata.normalize("NFKD", name.casefold())
    return "".join(each for each in apart if each.isalnum())


def names_in_header(source: SourceTable) -> Collection[str]:
    """The names by which the header of a file of this source is known."""
    required = required_of_a_file(source)
    return {
        part for column, parts in source.places.items() if column in required for part in parts if isinstance(part, str)
    }


def shown(columns: Sequence[str]) -> str:
    """The columns in words; a file can have thousands, with names of any length."""
    named = ", ".join(visible(column[:_MOST_CHARACTERS]) or "''" for column in columns[:_MOST_COLUMNS])
    more = len(columns) - _MOST_COLUMNS
    return named + (f" and {more:,} more" if more > 0 else "")


def ignored(source: SourceTable, header: Sequence[str], types: Types | None = None) -> tuple[str, ...]:
    """The columns of a file that no column of the contract is read from, sorted."""
    used = {spot.position for some in spots(source, header, types).values() for spot in some}
    return tuple(sorted({each or f"column {place}" for place, each in enumerate(header) if place not in used}))


def missing(source: SourceTable, header: Sequence[str], types: Types | None = None) -> tuple[str, ...]:
    """The columns of the contract that a file does not have, sorted: they are null."""
    return tuple(sorted(set(source.file_columns) - set(spots(source, header, types))))


# ------------------------------------------------------------------------------------------------------ members


def top_members(source: SourceTable) -> frozenset[str]:
    """The names of the members of a line that a record can be known by: of a path its beginnings."""
    return frozenset(way[0] for part in members_named(source) for way in ways(part))


def require_members_have_names(source: SourceTable, *, name: str) -> None:
    """Refuses JSON lines where columns are declared by their position or number: members have names alone."""
    for column, parts in source.places.items():
        if (other := next((part for part in parts if not isinstance(part, str)), None)) is not None:
            why = f"is JSON lines, whose members have no position: {source.name} takes {column} from {called(other)}"
            raise BadFile(path=name, fault=Fault.MEMBERS, why=why, column=column)


def required_members(source: SourceTable) -> Sequence[tuple[str, str]]:
    """The columns from which every record needs a value and that are declared to be members, each with its member."""
    required = required_of_a_file(source)
    return [
        (column, part)
        for column, parts in source.places.items()
        if column in required and parts != (column,)
        for part in parts
        if isinstance(part, str)
    ]


def require_members(source: SourceTable, lines: Iterable[bytes], *, name: str, is_captured: bool) -> None:
    """Refuses JSON lines of which none has a member from which every record needs a value, where it is declared.

    Args:
        lines: The first whole lines of the file.
        is_captured: They were captured. A stream may go on after records that are of another kind, which are rejected:
            its lines are refused only where they have a member of nearly that name, which is then what was meant.
    """
    wanted = required_members(source)
    documents = list(_documents(lines)) if wanted else []
    for column, part in wanted:
        if documents and not any(_has(document, part) for document in documents):
            names = list(dict.fromkeys(each for document in documents for each in _names(document)))
            if not is_captured or _nearest(part, part, names):
                raise _no_column(source, column, part, names, (), f"its members are: {shown(names)}", name)


def _documents(lines: Iterable[bytes]) -> Iterator[Mapping[str, object]]:
    for line, _ in zip(lines, range(_MOST_LINES), strict=False):
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            yield found


_ABSENT = object()


def _has(document: Mapping[str, object], path: str) -> bool:
    return member_at(document, path, _ABSENT) is not _ABSENT


def _names(document: Mapping[str, object]) -> Iterator[str]:
    """The names of the members of an object, and the paths of members of these."""
    for name, value in document.items():
        yield name
        if isinstance(value, dict):
            yield from (f"{name}.{each}" for each in value)


def ways(path: str) -> Iterator[tuple[str, ...]]:
    """The names of members that a path can mean: that of one member, before those of members in members."""
    yield (path,)
    for first, rest in _split(path):
        yield from ((first, *more) for more in ways(rest))


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Lines of JSON whose members are looked up."""

    base: Column  #: The column with the members of a line, as texts by name.
    own: Callable[[Column], Column]  #: From such a text to the text of the member.
    #: By the names that lead to a member, the column with its members and that with its elements.
    inner: Mapping[tuple[str, ...], tuple[Column, Column]]

    def value(self, part: str) -> Column:
        """The text of a member, or of what a path leads to; null where it is not there."""
        every = [self._at(way) for way in ways(part)]
        if len(every) == 1:
            return every[0][1]
        nothing = F.lit(None).cast(T.StringType())
        return reduce(lambda rest, case: F.when(case[0], case[1]).otherwise(rest), reversed(every), nothing)

    def paths(self, parts: Iterable[str]) -> Column:
        """Those of these paths that lead to something in a line through other members."""
        found = [
            F.when(reduce(lambda left, right: left | right, others), F.lit(part))
            for part in sorted(parts)
            if (others := [self._at(way)[0] for way in ways(part) if len(way) > 1])
        ]
        return F.array_compact(F.array(*found)) if found else F.array().cast("array<string>")

    def _at(self, way: tuple[str, ...]) -> tuple[Column, Column]:
        """A condition that a member is there, and its text."""
        *before, name = way
        if not before:
            return self._is_in(self.base, name), self.own(self.base[name])
        texts, items = self.inner[tuple(before)]
        is_there, value = self._is_in(texts, name), plain(texts[name])
        if name.isdecimal():
            at = F.lit(int(name))
            is_element = F.coalesce(F.size(items) > at, F.lit(False))
            value = F.when(is_element, plain(F.get(items, at))).otherwise(value)
            is_there = is_there | is_element
        return is_there, value

    def _is_in(self, texts: Column, name: str) -> Column:
        return F.coalesce(F.map_contains_key(texts, F.lit(name)), F.lit(False))

    @property
    def names_twice(self) -> Column:
        """True if an object that a path leads through names a member twice."""
        found = F.lit(False)
        for texts, _ in self.inner.values():
            names = F.map_keys(texts)
            found = found | F.coalesce(F.size(names) > F.size(F.array_distinct(names)), F.lit(False))
        return found


def members_named(source: SourceTable) -> Sequence[str]:
    """The members, and the paths of members, from which the columns of a contract are read."""
    return [part for some in source.places.values() for part in some if isinstance(part, str)]


def looked_up(
    lines: DataFrame, parts: Iterable[str], *, base: Column, own: Callable[[Column], Column]
) -> tuple[DataFrame, Line]:
    """Lines in which the members are found that paths lead through; `base` and `own` as in `Line`."""
    through = {way[:many] for part in parts for way in ways(part) for many in range(1, len(way))}
    inner: dict[tuple[str, ...], tuple[Column, Column]] = {}
    for way in sorted(through, key=lambda each: (len(each), each)):
        _, text = Line(base=base, own=own, inner=inner)._at(way)
        texts, items = f"{_INNER}_{len(inner)}", f"{_INNER}_{len(inner)}_elements"
        lines = lines.withColumns({texts: members(text), items: elements(text)})
        inner[way] = (F.col(texts), F.col(items))
    return lines, Line(base=base, own=own, inner=inner)


def unknown_members(line: Line, names: Column, source: SourceTable) -> Column:
    """The names of the members of a line that no column of the contract is read from, and of those beside the members
    that paths lead to, sorted."""
    used = {way[:many] for part in members_named(source) for way in ways(part) for many in range(1, len(way) + 1)}
    found = F.array_except(names, _texts(way[0] for way in used if len(way) == 1))
    for before, (texts, _) in line.inner.items():
        others = F.array_except(F.map_keys(texts), _texts(way[-1] for way in used if way[:-1] == before))
        with_path = F.transform(others, _behind(f"{'.'.join(before)}."))
        found = F.concat(found, F.coalesce(with_path, F.array().cast("array<string>")))
    return F.transform(F.array_sort(found), plain)


def _behind(path: str) -> Callable[[Column], Column]:
    return lambda name: F.concat(F.lit(path), name)


def _texts(names: Iterable[str]) -> Column:
    return F.array(*(F.lit(each) for each in sorted(names)))
