"""Keys: how many of each partition are added, removed, changed and unchanged.

Rows are grouped by a 64-bit hash of their key, which costs a fraction of grouping by its values. Where several rows of
one side share a hash, or two rows of a hash have another 32-bit hash of their keys, the partition is counted again by
the values of the keys: whether a key is unique is never decided by a hash. Two rows count as unchanged only if a 64-bit
hash of the row, which covers its key, and 32-bit hashes of the key and of every column agree, so a collision of one
kind alone hides no change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from backfill_assets.domain import Table
from backfill_assets.gates.moves import Coded, StateMove, coded_columns
from backfill_assets.lake.checksums import canonical, row_hash

_ONE_ACCEPTED = 1 << 32
"""The weight of an accepted row; that of a staged one is 1. Their sum counts the rows of either side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ByKey:
    """The keys of one partition.

    Attributes:
        accepted_rows: Rows of the accepted side.
        surplus: Staged rows beyond the first of their key.
        shared: Keys that several rows of one side have, and hashes that belong to several keys.
        added, removed, changed, unchanged: Keys that only the staged rows have, only the accepted rows have, both have
            with different values, both have with the same.
        changed_columns: Keys whose value in a column differs, by column; only columns that differ somewhere.
        state_moves: From which listed value to which the keys that differ have moved.
    """

    accepted_rows: int
    surplus: int
    shared: int
    added: int
    removed: int
    changed: int
    unchanged: int
    changed_columns: Mapping[str, int]
    state_moves: tuple[StateMove, ...]


def compare_keys(
    staged: DataFrame, accepted: DataFrame | None, table: Table, *, schema: StructType
) -> Mapping[date, ByKey]:
    """Compares the keys of two sides, by partition.

    Args:
        staged: The candidate's rows.
        accepted: The accepted rows; None when there are none to compare with, and then no values are hashed.
        table: The declaration, for its key.
        schema: The business columns, the partition column included.
    """
    keys = _Keys.of(table, schema)
    found = keys.compared(staged, accepted)
    shared = sorted(partition for partition, each in found.items() if each.shared)
    if not shared:
        return found
    # Rare, because keys collide rarely, and a partition whose rows share them fails the gate on unique keys: only then
    # are rows grouped by the values of their keys, and those of a key made one row first.
    of_shared = F.col(keys.column).isin(shared)
    some = None if accepted is None else accepted.where(of_shared)
    return {**found, **keys.compared(staged.where(of_shared), some, exactly=True)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Keys:
    """How rows are grouped by key: rows of both sides are put together, so that one shuffle brings them to one group.

    A group has the exclusive or of the hashes of its rows, which is zero for one row of each side that are equal. The
    aggregates are numbers of fixed size, so Spark needs no sort for them and spills when memory is short.

    Attributes:
        column: The partition column, which is the first of the key.
        key: The columns of a key.
        values: The other columns, which are compared.
        coded: Those of them with few values, which are told apart.
    """

    column: str
    key: tuple[str, ...]
    values: tuple[str, ...]
    coded: tuple[Coded, ...]
    schema: StructType

    @staticmethod
    def of(table: Table, schema: StructType) -> _Keys:
        column = table.partition.column
        # The same column may be partition and key.
        key = (column, *(name for name in table.row_key if name != column))
        values = tuple(name for name in schema.fieldNames() if name not in key)
        return _Keys(column=column, key=key, values=values, coded=coded_columns(table, values), schema=schema)

    def compared(self, staged: DataFrame, accepted: DataFrame | None, *, exactly: bool = False) -> Mapping[date, ByKey]:
        """Counts keys by partition.

        Args:
            staged: The candidate's rows.
            accepted: The accepted rows; None when there are none to compare with, and then no values are hashed.
            exactly: Whether rows are grouped by the values of their keys, and several rows of one side that share their
                key are one row, which equals another such row when the smallest and the largest hash are equal.
        """
        hashed = () if accepted is None else self._hashes()
        coded = () if accepted is None else self.coded
        sides = [self._side(staged, 1, hashed, coded, exactly=exactly)]
        if accepted is not None:
            sides.append(self._side(accepted, _ONE_ACCEPTED, hashed, coded, exactly=exactly))
        names = _names_of(hashed)
        sums = (F.sum(name).alias(name) for name in (_WEIGHT, *(each.name for each in coded)))
        by = self.key if exactly else (self.column, _KEY)
        # Rows are brought together before they are grouped: few of one task share a key, so grouping them there first
        # would make nothing smaller.
        together = reduce(DataFrame.unionAll, sides).repartition(*by)
        groups = together.groupBy(*by).agg(*sums, *(F.bit_xor(name).alias(name) for name in names))
        # Most groups differ in the same way as many others, so that few rows are left to be counted.
        ways = groups.select(self.column, *self._way(names), *(each.name for each in coded))
        counted = ways.groupBy(*ways.columns).agg(F.count(F.lit(1)).alias(_KEYS)).groupBy(self.column)
        return {
            row[self.column]: self._by_key(row.asDict()) for row in counted.agg(*self._counts(names, coded)).collect()
        }

    def _side(
        self, frame: DataFrame, weight: int, hashed: Sequence[Column], coded: Sequence[Coded], *, exactly: bool
    ) -> DataFrame:
        states = (each.number(is_accepted=weight == _ONE_ACCEPTED) for each in coded)
        weighed = (F.lit(weight).cast("bigint").alias(_WEIGHT), *states, *hashed)
        if not exactly:
            return frame.select(self.column, key_hash(self._key_fields).alias(_KEY), *weighed)
        rows = frame.select(*self.key, *weighed)
        names = _names_of(hashed)
        extremes = (F.xxhash64(F.min(name), F.max(name)) if name == _ROW else F.min(name) for name in names)
        collapse = (value.alias(name) for name, value in zip(names, extremes, strict=True))
        numbers = (F.max(each.name).alias(each.name) for each in coded)
        return rows.groupBy(*self.key).agg(F.sum(_WEIGHT).alias(_WEIGHT), *numbers, *collapse)

    @property
    def _key_fields(self) -> Sequence[StructField]:
        return [self.schema[name] for name in self.key]

    def _hashes(self) -> tuple[Column, ...]:
        """The hash of a row, and those of its key and its other columns, two of 32 bits in every number."""
        halves = [key_hash32(self._key_fields), *(_hash32(self.schema[name]) for name in self.values)]
        pairs = [halves[place : place + 2] for place in range(0, len(halves), 2)]
        packed = (
            reduce(Column.bitwiseOR, (F.shiftleft(each, 32 * half) for half, each in enumerate(pair))) for pair in pairs
        )
        return (
            row_hash(self.schema.fields).alias(_ROW),
            *(value.alias(f"{_PAIR}{place}") for place, value in enumerate(packed)),
        )

    def _way(self, names: Sequence[str]) -> Iterator[Column]:
        """How a group differs: how many rows each side has, and a bit for each hash in which they differ."""
        yield F.col(_WEIGHT).bitwiseAND(F.lit(_ONE_ACCEPTED - 1)).alias(_STAGED)
        yield F.shiftrightunsigned(_WEIGHT, 32).alias(_ACCEPTED)
        if names:
            differ = [_half(0), *(_half(place) for place, _ in enumerate(self.values, start=1)), F.col(_ROW)]
            for place in range(0, len(differ), _BITS):
                bits = (
                    F.shiftleft((each != 0).cast("bigint"), n) for n, each in enumerate(differ[place : place + _BITS])
                )
                yield reduce(Column.bitwiseOR, bits).alias(f"{_BITS_OF}{place // _BITS}")

    def _counts(self, names: Sequence[str], coded: Sequence[Coded]) -> Sequence[Column]:
        staged, accepted, keys = F.col(_STAGED), F.col(_ACCEPTED), F.col(_KEYS)
        both = (staged > 0) & (accepted > 0)
        # Without accepted rows there are no hashes, and no column is known to differ.
        differ = [_bit(place) for place in range(len(self.values) + 2)] if names else []
        differs = reduce(Column.__or__, differ, F.lit(False))
        counts = {
            "added": accepted == 0,
            "removed": staged == 0,
            "changed": both & differs,
            "unchanged": both & ~differs,
            "shared": (staged > 1) | (accepted > 1) | (both & differ[0] if differ else F.lit(False)),
            **{f"moved_{n}": both & differ[place] for place, n in enumerate(self.values, start=1) if differ},
            **{name: pair for each in coded for name, pair in each.pairs(differs)},
        }
        return [
            F.sum(accepted * keys).alias("accepted_rows"),
            F.sum(F.greatest(staged - 1, F.lit(0)) * keys).alias("surplus"),
            *(F.sum(F.when(counted, keys).otherwise(0)).alias(name) for name, counted in counts.items()),
        ]

    def _by_key(self, row: Mapping[str, int]) -> ByKey:
        moved = {name: row.get(f"moved_{name}", 0) for name in self.values}
        plain = (each.name for each in fields(ByKey) if each.name not in ("changed_columns", "state_moves"))
        return ByKey(
            changed_columns={n: count for n, count in moved.items() if count},
            state_moves=tuple(move for each in self.coded for move in each.found(row)),
            **{n: row[n] for n in plain},
        )


_WEIGHT, _KEY, _ROW, _PAIR = "_weight", "_key_hash", "_row_hash", "_pair_"
_STAGED, _ACCEPTED, _KEYS, _BITS_OF = "_staged", "_accepted", "_keys", "_bits_"
_LOW_32_BITS = 0xFFFFFFFF

_BITS = 62
"""How many bits are kept in one number."""


def _names_of(hashed: Sequence[Column]) -> tuple[str, ...]:
    """The names of the columns that `_Keys._hashes` makes."""
    return tuple(_ROW if not place else f"{_PAIR}{place - 1}" for place in range(len(hashed)))


def _half(place: int) -> Column:
    """What the two sides' hashes of a column differ in, or those of the key, which has the first place."""
    pair = F.col(f"{_PAIR}{place // 2}")
    return F.shiftrightunsigned(pair, 32) if place % 2 else pair.bitwiseAND(F.lit(_LOW_32_BITS))


def _bit(place: int) -> Column:
    """Whether the two sides differ in the hash of this place."""
    return F.getbit(f"{_BITS_OF}{place // _BITS}", F.lit(place % _BITS)) == 1


def key_hash(fields: Sequence[StructField]) -> Column:
    """The 64-bit hash of a key: equal keys have equal ones."""
    return row_hash(fields)


def key_hash32(fields: Sequence[StructField]) -> Column:
    """A hash of a key by another function, as a number without a sign."""
    return _unsigned(F.hash(*canonical(fields)))


def _hash32(field: StructField) -> Column:
    """A hash of one column as a number without a sign."""
    return _unsigned(F.hash(*canonical([field])))


def _unsigned(value: Column) -> Column:
    return value.cast("bigint").bitwiseAND(F.lit(_LOW_32_BITS))
