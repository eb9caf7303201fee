"""Gates by a reference: rows, and totals, that are known from elsewhere. Each is a `Failing` of this project.

Their files are references as others are: versioned, archived when they are used, and parsed by `known_rows` or
`control_totals`. A change of what a gate finds is a new release of it, which manifests pin.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, InvalidOperation
from functools import cached_property, partial, reduce
from operator import and_
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NumericType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from backfill_assets.calendar.partitions import Grain, partition_of
from backfill_assets.core.columns import in_sql
from backfill_assets.core.declaring import declared
from backfill_assets.core.errors import InvalidDeclaration
from backfill_assets.core.identity import document_digest
from backfill_assets.domain.context import GateContext
from backfill_assets.domain.failing_rows import CANDIDATE, CONTEXT, EXPECTED, FOUND, Failing, Needs, Over
from backfill_assets.domain.gates import each_once, name_for

# Amounts: numbers that are added up and compared in decimals, without losing one of their digits.

_SCALE, _MOST_DIGITS = 9, 38
"""Digits after the point of an amount that is compared, unless its column has more; and of all of it."""

_WHOLE: dict[type[DataType], int] = {ByteType: 3, ShortType: 5, IntegerType: 10, LongType: 19}
"""The digits of whole numbers."""

_FURTHEST = 100
"""Digits of an amount on one side of its point: one with more is a mistake."""

_EXACTLY = Context(prec=1_000)


def amount_of(value: int | str | Decimal | None) -> Decimal | None:
    """A finite amount; None for anything else."""
    try:
        found = Decimal(str(value))
    except InvalidOperation:
        return None
    exponent = found.as_tuple().exponent
    is_amount = isinstance(exponent, int) and exponent >= -_FURTHEST and found.adjusted() <= _FURTHEST
    return found if is_amount else None


def plainly(amount: Decimal) -> str:
    """An amount as a text with all of its digits, without zeros at its end."""
    text = format(amount, "f")
    return (text.rstrip("0").rstrip(".") if "." in text else text) if amount else "0"


def added_up_as(*kinds: DataType) -> DecimalType:
    """The decimal in which values of these types are added up: one that has room for the digits of all of them."""
    decimals = [kind for kind in kinds if isinstance(kind, DecimalType)]
    before = [kind.precision - kind.scale for kind in decimals] + [_WHOLE.get(type(kind), 0) for kind in kinds]
    scale = max((kind.scale for kind in decimals), default=0)
    is_exact = all(isinstance(kind, DecimalType) or type(kind) in _WHOLE for kind in kinds)
    least = min(_SCALE, scale) if is_exact else _SCALE
    return DecimalType(_MOST_DIGITS, max(least, min(max(_SCALE, scale), _MOST_DIGITS - max(before, default=0))))


def bounds(amount: Decimal, within: Decimal, kind: DecimalType) -> tuple[str, str]:
    """The least and the largest value of a type that differ from an amount by no more; the larger one first for none.

    An amount can have more digits than the type has.
    """
    unit = Decimal(1).scaleb(-kind.scale)
    most = Decimal(10**kind.precision - 1).scaleb(-kind.scale, _EXACTLY)
    least = most.copy_negate()
    low = _EXACTLY.subtract(amount, within).quantize(unit, ROUND_CEILING, _EXACTLY)
    high = _EXACTLY.add(amount, within).quantize(unit, ROUND_FLOOR, _EXACTLY)
    if low > most or high < least:
        return plainly(most), plainly(least)
    return plainly(max(low, least)), plainly(min(high, most))


def without_amount(value: Column, kind: DecimalType) -> Column:
    """True if a value is there but not an amount, as NaN and infinite ones are: a sum of decimals leaves it out."""
    return value.isNotNull() & value.try_cast(kind).isNull()


def plain(amount: Column) -> Column:
    """An amount as a text, without zeros at its end."""
    text = amount.cast("string")
    return F.when(text.contains("."), F.regexp_replace(text, r"\.?0+$", "")).otherwise(text)


def with_others(total: Column, others: Column) -> Column:
    """A total as a text, and how many values are no part of it because they are no amounts."""
    more = F.concat(total, F.lit(", and values that are not numbers: "), others.cast("string"))
    return F.when(F.coalesce(others, F.lit(0)) > 0, more).otherwise(total)


# Known values: texts of a reference as values of the columns that they are about.

_BOOLEANS = dict.fromkeys(("true", "t", "yes", "y", "1"), "true") | dict.fromkeys(
    ("false", "f", "no", "n", "0"), "false"
)
_BITS: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
_BEYOND_MICROSECONDS = re.compile(r"[.,]\d{6}\d*[1-9]")


class Truth(str):
    """The text of a value that YAML has read as true or false, which it may have been written otherwise: as `NO`."""

    __slots__ = ()


def value_of(text: str, kind: DataType) -> str | None:
    """The text by which Spark casts exactly this value to a type; None for what is no value of it, or would be rounded.

    Two texts of one value are the same here.
    """
    match kind:
        case StringType():
            return None if isinstance(text, Truth) else text
        case BinaryType():
            return text
        case BooleanType():
            return _BOOLEANS.get(text.strip().lower())
        case DateType():
            return _read(text, lambda given: date.fromisoformat(given).isoformat())
        case TimestampType() | TimestampNTZType():
            return _read(text, lambda given: _time(given, is_local=isinstance(kind, TimestampNTZType)))
        case FloatType() | DoubleType():
            return repr(float(text)) if is_number(text) else None
        case NumericType():
            return _exactly(text, kind)
        case _:
            return None


def is_number(text: str | None) -> bool:
    """True if a text is a value of a column of numbers: null, NaN and infinite ones are."""
    try:
        return text is None or not Decimal(text).is_snan()
    except InvalidOperation:
        return False


def to_write(kind: DataType) -> str:
    """The literal to write for a value of a type."""
    match kind:
        case StringType():
            return "put the text in quotes, because YAML reads NO without them as false"
        case BooleanType():
            return "write true or false"
        case DateType():
            return "write a day such as 2026-01-31"
        case TimestampType():
            return "write a time such as 2026-01-31T12:30:00Z"
        case TimestampNTZType():
            return "write a time without a zone such as 2026-01-31T12:30:00"
        case NumericType():
            return "write a number such as 12" if type(kind) in _BITS else 'write a number such as 12 or "12.50"'
        case _:
            return f"leave it out: no {kind.simpleString()} is compared"


def _read(text: str, read: Callable[[str], str | None]) -> str | None:
    try:
        return read(text.strip())
    except ValueError:
        return None


def _time(text: str, *, is_local: bool) -> str | None:
    found = datetime.fromisoformat(text)
    if _BEYOND_MICROSECONDS.search(text) or (is_local and found.tzinfo):
        return None
    # The time of a session is UTC.
    found = found if is_local else (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    return found.isoformat(sep=" ")


def _exactly(text: str, kind: NumericType) -> str | None:
    amount = amount_of(text)
    if amount is None:
        return None
    plain = plainly(amount)
    whole, _, part = plain.lstrip("-").partition(".")
    if isinstance(kind, DecimalType):
        is_exact = len(part) <= kind.scale and len(whole.lstrip("0")) <= kind.precision - kind.scale
    else:
        most = 1 << (_BITS[type(kind)] - 1)
        is_exact = not part and -most <= int(plain) < most
    return plain if is_exact else None


ROWS = "rows"
"""The number of rows of a total, among the names of its columns."""

_DIGITS = 16


@dataclass(frozen=True, kw_only=True)
class KnownRows:
    """Rows of a reference: known rows of a table, or totals of its groups."""

    version: str  #: The version of the file.
    rows: tuple[Mapping[str, str | None], ...]  #: Each by column, as a text or null.
    entries: str = ""  #: The name of their list in the file; empty where no file is known.

    @cached_property
    def digests(self) -> tuple[str, ...]:
        """The identity of each row, in order: the beginning of the sha256 of its columns with their values."""
        return tuple(sorted({_digest(row) for row in self.rows}))

    def having(self, digests: Collection[str]) -> Mapping[str, Mapping[str, str | None]]:
        """The rows that have one of these digests, by it."""
        return {digest: row for row in self.rows if (digest := _digest(row)) in digests} if digests else {}

    def days(self, partition: str, grain: Grain) -> frozenset[date]:
        """The partitions that the rows are about."""
        return frozenset(day for row in self.rows if (day := _day(grain, row.get(partition))))


def _digest(row: Mapping[str, str | None]) -> str:
    return document_digest(dict(row))[:_DIGITS]


def known_rows(document: Any) -> KnownRows:
    """Parses the file of a gate `golden`: `version`, and under `rows` the columns of each that are known.

    Raises:
        ValueError: What is wrong with it.
    """
    return _parsed(document, "rows")


def control_totals(document: Any) -> KnownRows:
    """Parses the file of a gate `totals`: `version`, and under `totals` one entry a group, with `rows` and sums.

    Raises:
        ValueError: What is wrong with it.
    """
    return _parsed(document, "totals")


def _parsed(document: Any, entries: str) -> KnownRows:
    if not isinstance(document, dict) or set(document) != {"version", entries}:
        raise ValueError(f"it has to say `version` and `{entries}`, and nothing else")
    version, rows = document["version"], document[entries]
    if not isinstance(version, str) or not version.strip():
        raise ValueError('`version` has to be a text, such as "2026-01"')
    if not isinstance(rows, list) or not all(isinstance(row, dict) and row for row in rows):
        raise ValueError(f"`{entries}` has to be a list of columns with their values")
    return KnownRows(
        version=version.strip(),
        rows=tuple(_row(row, f"entry {n} of `{entries}`") for n, row in enumerate(rows, 1)),
        entries=entries,
    )


def _row(row: Mapping[Any, Any], what: str) -> Mapping[str, str | None]:
    found: dict[str, str | None] = {}
    for name, value in row.items():
        if not isinstance(name, str):
            raise ValueError(f"{what} has a column {name!r}, which is not a name")
        found[name] = _text(value, f"{what}: {name}")
    return found


def _text(value: Any, what: str) -> str | None:
    if isinstance(value, bool):
        return Truth(str(value).lower())
    if isinstance(value, float):
        return repr(value)
    if value is None or isinstance(value, str | int | date | datetime):
        return value if value is None or isinstance(value, str) else str(value)
    raise ValueError(f"{what} is {value!r:.60}, and has to be a text, a number, a date, true, false or null")


@declared
def golden(reference: str, *, blocking: bool = True, name: str = "") -> Failing:
    """Rows that are known to be right are there, with the values that are known.

    An entry of the reference has the partition, the other columns of the key, and any more columns of the table. Each
    value that differs is a row that fails, and so is a row that is not there. What the reference does not name passes.

    Args:
        reference: The reference, which the domain declares with `parse=known_rows`.
        blocking: Whether a run that does not pass cannot be published.
        name: The name of the gate; by default `golden_` and the reference.
    """

    def rows(ctx: GateContext, candidate: DataFrame) -> DataFrame:
        key = tuple(dict.fromkeys((ctx.partition, *ctx.key)))
        known = list(_entries(ctx, reference))
        names = sorted({name for row in known for name in row} - {*key})
        kinds = {name: candidate.schema[name].dataType for name in (*key, *names)}
        given = ctx.frame(
            [
                (
                    *(_value(row.get(name), kind) for name, kind in kinds.items()),
                    *(row.get(name) for name in names),
                    *(name in row for name in names),
                )
                for row in known
            ],
            ", ".join(
                [
                    *(f"_v{n} string" for n in range(len(kinds))),
                    *(
                        f"{each}{n} {kind}"
                        for each, kind in (("_s", "string"), ("_g", "boolean"))
                        for n, _ in enumerate(names)
                    ),
                ]
            ),
        )
        values = {name: F.col(f"_v{n}").try_cast(kind) for n, (name, kind) in enumerate(kinds.items())}
        asked = given.select("*", *(values[name].alias(f"_k{n}") for n, name in enumerate(key)))
        there = candidate.select(
            F.lit(True).alias("_there"),
            *(_column(name).alias(f"_c{n}") for n, name in enumerate(key)),
            *(_column(name).alias(f"_f{n}") for n, name in enumerate(names)),
        )
        # Null is the same as null: a key can have one.
        same = reduce(and_, (F.col(f"_k{n}").eqNullSafe(F.col(f"_c{n}")) for n, _ in enumerate(key)))
        both = asked.join(there, same, "left")
        is_there = F.col("_there").isNotNull()
        differences = [_difference(~is_there, F.lit("a row"), F.lit("no row"))]
        for n, name in enumerate(names):
            said, found = F.col(f"_s{n}"), F.col(f"_f{n}")
            # What is exactly no value of the column is none of its values, nor null.
            is_same = values[name].eqNullSafe(found) & (said.isNull() == found.isNull())
            differs = is_there & F.col(f"_g{n}") & ~is_same
            differences.append(_difference(differs, _said(name, said), _said(name, found)))
        return _differing(both, differences, {name: f"_k{n}" for n, name in enumerate(key)})

    return Failing(
        name=name or name_for("golden", reference),
        demands=f"the rows of {reference} are there, with the values that it has",
        rows=rows,
        takes=(CONTEXT, CANDIDATE),
        references=(reference,),
        release="golden 4",
        entries="rows",
        keeps=True,
        mistake=_mistake_in_rows,
        blocking=blocking,
    )


@declared
def totals(
    reference: str,
    *,
    by: Iterable[str] = (),
    sums: Iterable[str] = (),
    within: int | str | Decimal = 0,
    every_partition: bool = True,
    blocking: bool = True,
    name: str = "",
) -> Failing:
    """Rows, and sums of columns, are those that the owner of a source has delivered with the data.

    An entry of the reference has the partition, the columns of `by`, and of `rows` and the columns of `sums` those that
    were delivered. A total that differs is a row that fails; so are rows of a group without an entry, in a partition
    that has entries.

    Args:
        reference: The reference, which the domain declares with `parse=control_totals`.
        by: The columns of a group; none for whole partitions.
        sums: The columns that are summed, in exact decimals.
        within: How far a total may be off, the amount included.
        every_partition: Whether a partition without any entry fails as well.
        blocking: Whether a run that does not pass cannot be published.
        name: The name of the gate; by default `totals_` and the reference.

    Raises:
        InvalidDeclaration: It allows a difference that is no amount, or groups by what it adds up.
    """
    groups, summed = each_once("totals", by), each_once("totals", sums)
    allowed = amount_of(within)
    if allowed is None or allowed < 0:
        raise InvalidDeclaration(f"totals({reference!r}) allows {within!r:.60}, which is not an amount.")
    if twice := {*groups} & {*summed, ROWS}:
        raise InvalidDeclaration(f"totals({reference!r}) groups by {', '.join(sorted(twice))}, which it adds up.")
    if ROWS in summed:
        raise InvalidDeclaration(f"totals({reference!r}) adds up {ROWS!r}, by which entries name the number of rows.")

    def rows(ctx: GateContext, candidate: DataFrame) -> DataFrame:
        by_columns = tuple(name for name in groups if name != ctx.partition)
        key, measures = (ctx.partition, *by_columns), (ROWS, *summed)
        known = list(_entries(ctx, reference))
        groupings = [candidate.schema[name].dataType for name in key]
        kinds = [added_up_as() if name == ROWS else added_up_as(candidate.schema[name].dataType) for name in measures]
        sides = ("_e", "_low", "_high")
        delivered = ctx.frame(
            [
                (
                    *(_value(row[name], kind) for name, kind in zip(key, groupings, strict=True)),
                    *(
                        text
                        for name, kind in zip(measures, kinds, strict=True)
                        for text in _asked(amount_of(row.get(name)), allowed, kind)
                    ),
                )
                for row in known
            ],
            ", ".join(
                [
                    *(f"_v{n} string" for n, _ in enumerate(key)),
                    *(f"{side}{n} string" for n, _ in enumerate(kinds) for side in sides),
                ]
            ),
        ).select(
            *(F.col(f"_v{n}").try_cast(kind).alias(f"_k{n}") for n, kind in enumerate(groupings)),
            *(f"{side}{n}" for side in sides for n, _ in enumerate(kinds)),
            *(F.lit(None).cast(kind).alias(f"_f{n}") for n, kind in enumerate(kinds)),
            *(F.lit(None).cast("bigint").alias(f"_w{n}") for n, _ in enumerate(kinds)),
            F.lit(True).alias("_known"),
        )
        one = [F.lit(1) if name == ROWS else _column(name) for name in measures]
        found = (
            candidate.select(
                *(_column(name).alias(f"_k{n}") for n, name in enumerate(key)),
                *(each.alias(f"_m{n}") for n, each in enumerate(one)),
            )
            .groupBy(*(f"_k{n}" for n in range(len(key))))
            .agg(
                *(F.sum(F.col(f"_m{n}").try_cast(kind)).cast(kind).alias(f"_f{n}") for n, kind in enumerate(kinds)),
                *(F.count_if(without_amount(F.col(f"_m{n}"), kind)).alias(f"_w{n}") for n, kind in enumerate(kinds)),
            )
        )
        measured = found.select(
            *(f"_k{n}" for n in range(len(key))),
            *(F.lit(None).cast("string").alias(f"{side}{n}") for side in sides for n, _ in enumerate(kinds)),
            *(f"{side}{n}" for side in ("_f", "_w") for n in range(len(kinds))),
            F.lit(None).cast("boolean").alias("_known"),
        )
        both = (
            delivered.unionAll(measured)
            .groupBy(*(f"_k{n}" for n in range(len(key))))
            .agg(
                *(
                    F.max(f"{side}{n}").alias(f"{side}{n}")
                    for side in (*sides, "_f", "_w")
                    for n, _ in enumerate(kinds)
                ),
                F.max("_known").alias("_known"),
            )
        )
        having = sorted({day for day in (_day(ctx.grain, row[ctx.partition]) for row in known) if day})
        is_known = F.col("_known").isNotNull()
        unknown = ~is_known & F.col("_k0").isin(having) if having else F.lit(False)
        differences = [_difference(unknown, F.lit("no rows"), _said(ROWS, plain(F.col("_f0"))))]
        for n, (measure, kind) in enumerate(zip(measures, kinds, strict=True)):
            total = F.coalesce(F.col(f"_f{n}"), F.lit(0).cast(kind))
            low, high = (F.col(f"{side}{n}").cast(kind) for side in ("_low", "_high"))
            lacks = F.col(f"_e{n}").isNotNull() & (F.col(f"_w{n}") > 0)
            differs = is_known & (
                F.coalesce((total < low) | (total > high), F.lit(False)) | F.coalesce(lacks, F.lit(False))
            )
            sum_found = with_others(plain(total), F.col(f"_w{n}"))
            differences.append(_difference(differs, _said(measure, F.col(f"_e{n}")), _said(measure, sum_found)))
        differing = _differing(both, differences, {name: f"_k{n}" for n, name in enumerate(key)})
        lacking = [day for day in ctx.output_partitions if day not in having] if every_partition else []
        without = ctx.frame([(day,) for day in lacking], "day date").select(
            F.col("day").alias(ctx.partition),
            *(F.lit(None).cast(kind).alias(name) for name, kind in zip(by_columns, groupings[1:], strict=True)),
            F.lit(f"an entry in {reference}").alias(EXPECTED),
            F.lit("none").alias(FOUND),
        )
        return differing.unionAll(without) if lacking else differing

    grouped = f" by {' and '.join(groups)}" if groups else ""
    off = f", within {allowed}" if allowed else ""
    some = "" if every_partition else ", where there are any"
    return Failing(
        name=name or name_for("totals", reference),
        demands=f"{' and '.join((ROWS, *summed))}{grouped} are the totals of {reference}{off}{some}",
        rows=rows,
        takes=(CONTEXT, CANDIDATE),
        references=(reference,),
        over=(
            *(Over(frame=CANDIDATE, sql=in_sql(column)) for column in groups),
            *(Over(frame=CANDIDATE, sql=in_sql(column), needs=Needs.AMOUNT) for column in summed),
        ),
        release="totals 4",
        entries="totals",
        mistake=partial(_mistake_in_totals, groups=groups, measures=(ROWS, *summed)),
        blocking=blocking,
    )


def _entries(ctx: GateContext, reference: str) -> Iterator[Mapping[str, str | None]]:
    """The entries of a reference whose partitions are measured. They have no mistakes: these are found before."""
    for entry in ctx.references[reference].rows:
        day = _day(ctx.grain, entry[ctx.partition])
        if day is not None and day in ctx.output_partitions:
            yield {**entry, ctx.partition: day.isoformat()}


def _day(grain: Grain, text: str | None) -> date | None:
    """The partition that an entry is about; None if it names no day."""
    try:
        return partition_of(grain, date.fromisoformat(text or ""))
    except ValueError:
        return None


def _asked(amount: Decimal | None, within: Decimal, kind: DecimalType) -> tuple[str | None, str | None, str | None]:
    """The delivered total as a text, with the least and the largest total that are about the same."""
    return (None, None, None) if amount is None else (plainly(amount), *bounds(amount, within, kind))


def _value(text: str | None, kind: DataType) -> str | None:
    return None if text is None else value_of(text, kind)


def _mistake_in_rows(
    entries: Sequence[Mapping[str, str | None]], *, partition: str, grain: Grain, key: Sequence[str], schema: StructType
) -> tuple[int, str] | None:
    """The first entry of known rows that says nothing clear of a table, by its number, and what is wrong with it."""
    about = tuple(dict.fromkeys((partition, *key)))

    def is_wrong(name: str, text: str | None) -> str | None:
        kind = schema[name].dataType
        # A number that the column would round is none of its values, and not unclear, unless it has to name a row.
        is_clear = is_number(text) if isinstance(kind, NumericType) and name not in about else _is_value(text, kind)
        return None if is_clear else to_write(kind)

    return _mistake(entries, partition, grain, about, schema, schema.fieldNames(), is_wrong)


def _mistake_in_totals(
    entries: Sequence[Mapping[str, str | None]],
    *,
    partition: str,
    grain: Grain,
    groups: Sequence[str],
    measures: Sequence[str],
    schema: StructType,
    **_of_table: object,
) -> tuple[int, str] | None:
    """The mistake in control totals, each of which is an amount."""
    about = tuple(dict.fromkeys((partition, *groups)))

    def is_wrong(name: str, text: str | None) -> str | None:
        if name in measures:
            return to_write(DecimalType()) if amount_of(text) is None else None
        return None if _is_value(text, schema[name].dataType) else to_write(schema[name].dataType)

    return _mistake(entries, partition, grain, about, schema, (*about, *measures), is_wrong)


def _is_value(text: str | None, kind: DataType) -> bool:
    return text is None or value_of(text, kind) is not None


def _mistake(
    entries: Sequence[Mapping[str, str | None]],
    partition: str,
    grain: Grain,
    about: Sequence[str],
    schema: StructType,
    known: Sequence[str],
    is_wrong: Callable[[str, str | None], str | None],
) -> tuple[int, str] | None:
    seen: dict[tuple[str | None, ...], int] = {}
    for number, entry in enumerate(entries, 1):
        if lacking := [name for name in about if name not in entry]:
            return number, f"lacks {', '.join(lacking)}; give it {', '.join(about)}, which say what it is about"
        if unknown := [name for name in entry if name not in known]:
            return number, f"has {', '.join(unknown)}; an entry can have {', '.join(known)}"
        if (day := _day(grain, entry[partition])) is None:
            return number, f"has {entry[partition]!r:.60} as {partition}; write a day such as 2026-01-31"
        for name, text in entry.items():
            if name != partition and (instead := is_wrong(name, text)):
                return number, f"has {'null' if text is None else repr(text):.60} as {name}; {instead}"
        others = (_value(entry[name], schema[name].dataType) for name in about if name != partition)
        named = (day.isoformat(), *others)
        if named in seen:
            return number, f"is about the same as entry {seen[named]}; keep one of the two"
        seen[named] = number
    return None


def _column(name: str) -> Column:
    return F.col(in_sql(name))


def _said(name: str, value: Column) -> Column:
    return F.concat(F.lit(f"{name} = "), F.coalesce(value.cast("string"), F.lit("null")))


def _difference(holds: Column, expected: Column, found: Column) -> Column:
    """The expected and the found value where a condition holds; else null."""
    return F.when(holds, F.struct(expected.alias(EXPECTED), found.alias(FOUND)))


def _differing(rows: DataFrame, differences: Iterable[Column], key: Mapping[str, str]) -> DataFrame:
    """One row for each difference."""
    found = rows.select(
        *(F.col(column).alias(name) for name, column in key.items()),
        F.explode(F.array_compact(F.array(*differences))).alias("_differs"),
    )
    return found.select(*(in_sql(name) for name in key), f"_differs.{EXPECTED}", f"_differs.{FOUND}")
