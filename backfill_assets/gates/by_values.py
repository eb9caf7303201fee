"""Differences by value: how the rows of two sides differ, computed by DuckDB over Arrow data.

Two values are equal as Spark's `<=>` says: null equals null, NaN equals NaN, zeros of either sign are equal, at any
depth of a nested value. Nothing here imports another module of the project: Spark sends this module to its workers,
which need pyarrow and DuckDB. DuckDB writes to a scratch folder what exceeds its memory.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    import duckdb

MEMORY = "1GiB"
"""The memory in which DuckDB joins two sides."""

SIDE = "_is_staged"
"""The column that tells the sides apart where the rows of both come as one sequence."""

AMOUNT = "_amount"
"""The column of a side with what a row adds to the measure by which sampled rows are ranked."""

CHOSEN = "_chosen"
"""The column of a side that says whether its row is asked for."""

CHOSEN_ROWS = f"SELECT count_if({CHOSEN}) FROM (SELECT {CHOSEN} FROM staged UNION ALL SELECT {CHOSEN} FROM accepted)"
"""How many rows of both sides are asked for."""

ADDED, REMOVED, CHANGED, EQUAL = KINDS = ("added", "removed", "changed", "equal")
"""How a key differs: it is on one side only, its rows have other values, or they are the same."""

DIFFERENT = (ADDED, REMOVED, CHANGED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The shape in which rows are compared."""

    key: tuple[str, ...]  #: The columns that identify a row, the partition column first.
    values: tuple[str, ...] = ()  #: The other columns.
    #: Columns among them whose moves are counted, with their values as text.
    listed: tuple[tuple[str, tuple[str, ...]], ...] = ()
    telling: tuple[str, ...] = ()  #: Columns among them whose difference makes a row one of another state.
    is_ranked: bool = False  #: True if both sides have the column `AMOUNT`.
    #: True if both sides have the column `CHOSEN`; then only rows for which it holds on a side are given.
    is_chosen: bool = False


@contextmanager
def opened(threads: int | None = None, memory: str = MEMORY) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to a DuckDB of this process alone, which keeps nothing of it afterwards."""
    with _database(threads, memory).cursor() as connection:
        yield connection


@cache
def _database(threads: int | None, memory: str) -> duckdb.DuckDBPyConnection:
    """One for all connections with these settings, which share its memory: to make one takes as long as to compare
    40,000 rows."""
    # Imported when rows are compared: before, a run waits for it.
    import duckdb

    # A worker of Spark ends without `atexit`; what is in its local folders Spark removes.
    local = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    folder = tempfile.mkdtemp(prefix="backfill-compare-", dir=local or None)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    tuned: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": memory,
        "temp_directory": folder,
        "preserve_insertion_order": False,
    }
    return duckdb.connect(config=tuned | ({"threads": threads} if threads else {}))


def differences(connection: duckdb.DuckDBPyConnection, shape: Shape) -> pa.Table:
    """Counts the keys of the views `staged` and `accepted` by partition and by how their rows differ.

    Several rows of one side that share a key count as one key, which equals that of the other side if both have the
    same rows, however often.

    Returns:
        Per `partition` and way: whether both sides have the key (`on_staged`, `on_accepted`) and its rows differ
        (`differs`); the place of the value of each listed column (`before_N`, `after_N`: one more than the last for a
        value that is not listed, null for a side that a key is not on); how many `keys`, `surplus` rows of the staged
        side and `accepted_rows` that is, and for how many keys each column of `values` differs (`moved_N`).
    """
    rows = [_rows(connection, view, shape) for view in ("staged", "accepted")]
    most = sum(sum(side.values()) for side in rows)
    # Rows that share a key on both sides meet each other, so that there may be many more pairs than rows.
    found = _counted(connection, shape, f"SELECT * FROM ({_pairs(shape, (), exactly=False)}) LIMIT {most + 1}")
    connection.register("found", found)
    pairs: Mapping[date, int] = dict(connection.sql("SELECT partition, sum(keys) FROM found GROUP BY ALL").fetchall())
    if sum(pairs.values()) <= most:
        # Where each side has as many rows as there are pairs, rows left alone included, no row shares its key.
        shared = _shared(connection, shape, {p for p in pairs if any(side.get(p) != pairs[p] for side in rows)})
        found = found.filter(~pc.field("partition").isin(shared))
    else:
        shared = _shared(connection, shape)
        found = _counted(connection, shape, _pairs(shape, shared, exactly=False))
    if not shared:
        return found
    exact = _counted(connection, shape, _by_key(shape, _pairs(shape, shared, exactly=True)))
    return pa.concat_tables([found, exact])


def keys_alone(connection: duckdb.DuckDBPyConnection, shape: Shape) -> pa.Table:
    """Counts the keys of the view `staged` by partition, as `differences` does; no other column is read."""
    key = _listed(shape.key)
    counted = f"SELECT {_named(shape.key[0])} AS partition, count(*) AS n FROM staged GROUP BY {key}"
    return connection.sql(
        "SELECT partition, true AS on_staged, false AS on_accepted, true AS differs, count(*) AS keys, "
        "sum(n - 1)::BIGINT AS surplus, 0::BIGINT AS accepted_rows "
        f"FROM ({counted}) GROUP BY partition"
    ).to_arrow_table()


def most_different(connection: duckdb.DuckDBPyConnection, shape: Shape, most: int) -> pa.Table:
    """The rows that differ most, at most so many of each kind, in an order that depends on nothing but the rows.

    Returns:
        `kind`, what ranks a row (`missing`, `moved`, `differing`, `tie`), the key as `k_N`, whether each side has the
        row, and its values as `after_N` and `before_N`.
    """
    shared = _shared(connection, shape)
    # A row that shares its key is paired with the row of the same place on the other side.
    pairs = _pairs(shape, (), exactly=bool(shared), with_values=True)
    kind = _any(f"d_{shape.values.index(name)}" for name in shape.telling)
    differing = " + ".join([f"d_{n}::INT" for n, _ in enumerate(shape.values)] or ["0"])
    types = connection.sql(f"SELECT {_listed(shape.key)} FROM staged LIMIT 0").types
    # An instant as its microseconds: its text would depend on the zone of the session.
    parts = (f"epoch_us(k_{n})" if str(kind).startswith("TIMESTAMP") else f"k_{n}" for n, kind in enumerate(types))
    tie = ", ".join(f"coalesce({part}::VARCHAR, '')" for part in parts)
    order = "missing, moved DESC, differing DESC, tie, " + ", ".join(f"k_{n}" for n, _ in enumerate(shape.key))
    ranked = (
        "SELECT CASE WHEN NOT on_accepted THEN 'ADDED' WHEN NOT on_staged THEN 'REMOVED' "
        f"WHEN {kind} THEN 'STATE' ELSE 'CHANGED' END AS kind, "
        "NOT (on_staged AND on_accepted) AS missing, "
        f"{differing} AS differing, md5(concat_ws(chr(31), {tie})) AS tie, * FROM ({pairs}) WHERE differs"
    )
    return connection.sql(
        f"SELECT * FROM ({ranked}) QUALIFY row_number() OVER (PARTITION BY kind ORDER BY {order}) <= {most} "
        f"ORDER BY {order}"
    ).to_arrow_table()


def rows_of_keys(connection: duckdb.DuckDBPyConnection, shape: Shape, kinds: Collection[str]) -> str:
    """A query for the rows of the views `staged` and `accepted` whose keys differ in one of these ways.

    Several rows of one side that share a key are paired by their values; of a key that differs, pairs that are equal
    are left out.

    Returns:
        SQL that gives `kind`, of the key; `is_first`, in one row of every key; `differ`, the columns of `values` that
        differ in a row that is on both sides; the key as `k_N`, and its place among the rows of this key; whether each
        side has the row (`on_staged`, `on_accepted`), and its values as `after_N` and `before_N`.
    """
    shared = _shared(connection, shape)
    numbers = range(len(shape.values))
    names = ", ".join(f"CASE WHEN d_{n} THEN {_text(name)} END" for n, name in enumerate(shape.values))
    differ = f"CASE WHEN on_staged AND on_accepted THEN list_filter([{names}]::VARCHAR[], lambda x: x IS NOT NULL) END"
    key = ", ".join(f"k_{n}" for n, _ in enumerate(shape.key))
    sides = [f"{side}_{n}" for side in ("before", "after") for n in numbers]
    columns = ", ".join([f"coalesce({differ}, []) AS differ", key, "place", "on_staged", "on_accepted", *sides])
    wanted = f"kind IN ({', '.join(map(_text, sorted(kinds)))})" + (f" AND {CHOSEN}" if shape.is_chosen else "")
    pairs = _pairs(shape, shared, exactly=False, with_values=True)
    kind = _kind("on_staged", "on_accepted", "differs")
    alone = f"SELECT kind, true AS is_first, {columns} FROM (SELECT *, {kind} AS kind FROM ({pairs})) WHERE {wanted}"
    if not shared:
        return alone
    pairs = _pairs(shape, shared, exactly=True, with_values=True)
    kind = _kind(*(f"bool_or({name}) OVER of_key" for name in ("on_staged", "on_accepted", "differs")))
    together = f"SELECT *, {kind} AS kind FROM ({pairs}) WINDOW of_key AS (PARTITION BY {key})"
    is_shown = f"{wanted} AND (differs OR kind = {_text(EQUAL)})"
    is_first = f"row_number() OVER (PARTITION BY {key} ORDER BY place) = 1 AS is_first"
    return f"{alone} UNION ALL SELECT kind, {is_first}, {columns} FROM ({together}) WHERE {is_shown}"


def in_order(shape: Shape) -> str:
    """The sort order of `rows_of_keys`: by key, and for rows that share one by the place in it."""
    return "ORDER BY " + ", ".join([*(f"k_{n}" for n, _ in enumerate(shape.key)), "place"])


def _kind(staged: str, accepted: str, differs: str) -> str:
    return (
        f"CASE WHEN NOT {accepted} THEN {_text(ADDED)} WHEN NOT {staged} THEN {_text(REMOVED)} "
        f"WHEN {differs} THEN {_text(CHANGED)} ELSE {_text(EQUAL)} END"
    )


def choosing(connection: duckdb.DuckDBPyConnection, condition: str) -> None:
    """Makes the views `staged` and `accepted` of `all_staged` and `all_accepted`, with the column `CHOSEN`.

    Args:
        condition: In the SQL of DuckDB, about the columns of a row.
    """
    for view in ("staged", "accepted"):
        chosen = f"coalesce(({condition}), false) AS {CHOSEN}"
        connection.execute(f"CREATE TEMP VIEW {view} AS SELECT *, {chosen} FROM all_{view}")


def with_keys(connection: duckdb.DuckDBPyConnection, columns: Sequence[str]) -> None:
    """Makes the views `staged` and `accepted` of those rows of `all_staged` and `all_accepted` that have a key of
    `keys`.

    Args:
        columns: Those of `keys`.
    """
    same = " AND ".join(f"r.{_named(name)} IS NOT DISTINCT FROM k.{_named(name)}" for name in columns)
    for view in ("staged", "accepted"):
        connection.execute(f"CREATE TEMP VIEW {view} AS SELECT r.* FROM all_{view} r SEMI JOIN keys k ON {same}")


def of_both(
    compare: Callable[[duckdb.DuckDBPyConnection], pa.Table],
    connection: duckdb.DuckDBPyConnection,
    columns: Sequence[str],
) -> pa.Table:
    """Compares the rows of both sides that are in `both_sides`, told apart by `SIDE`.

    Args:
        compare: One of the functions above.
        columns: The columns of a side.
    """
    for view, condition in (("staged", SIDE), ("accepted", f"NOT {SIDE}")):
        connection.execute(f"CREATE TEMP VIEW {view} AS SELECT {_listed(columns)} FROM both_sides WHERE {condition}")
    return compare(connection)


def of_batches(
    compare: Callable[[duckdb.DuckDBPyConnection], pa.Table], columns: Sequence[str]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for Spark's `mapInArrow`: compares the rows of both sides that one task has, told apart by `SIDE`.

    Args:
        compare: One of the functions above.
        columns: The columns of a side.

    Returns:
        A function that yields the result as the bytes of an Arrow stream, in the only row and column.
    """

    def compared(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        first = next(batches, None)
        if first is None:
            return

        def every() -> Iterator[pa.RecordBatch]:
            yield first
            yield from batches

        # A task has one core.
        with opened(threads=1) as connection:
            connection.register("arriving", pa.RecordBatchReader.from_batches(first.schema, every()))
            connection.execute("CREATE TEMP TABLE both_sides AS SELECT * FROM arriving")
            found = of_both(compare, connection, columns)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, found.schema) as stream:
            stream.write_table(found)
        yield pa.RecordBatch.from_pydict({"found": [sink.getvalue().to_pybytes()]})

    return compared


def as_bytes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For Spark's `mapInArrow`: each batch as the bytes of an Arrow stream, in the only row and column."""
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        yield pa.RecordBatch.from_pydict({"found": [sink.getvalue().to_pybytes()]})


def _counted(connection: duckdb.DuckDBPyConnection, shape: Shape, pairs: str) -> pa.Table:
    """Keys by partition and by how their rows differ, as `differences` returns them."""
    codes = [f"{side}_{n}" for n, _ in enumerate(shape.listed) for side in ("before", "after")]
    moved = [f"count_if(d_{n} AND on_staged AND on_accepted)::BIGINT AS moved_{n}" for n, _ in enumerate(shape.values)]
    sums = [
        "count(*) AS keys",
        "sum(greatest(staged_rows - 1, 0))::BIGINT AS surplus",
        "sum(accepted_rows)::BIGINT AS accepted_rows",
        *moved,
    ]
    ways = ", ".join(["k_0 AS partition", "on_staged", "on_accepted", "differs", *codes])
    return connection.sql(f"SELECT {ways}, {', '.join(sums)} FROM ({pairs}) GROUP BY ALL").to_arrow_table()


def _rows(connection: duckdb.DuckDBPyConnection, view: str, shape: Shape) -> Mapping[date, int]:
    """The rows of a side by partition."""
    found = connection.sql(f"SELECT {_named(shape.key[0])}, count(*) FROM {view} GROUP BY ALL").fetchall()
    return dict(found)


def _shared(
    connection: duckdb.DuckDBPyConnection, shape: Shape, among: Collection[date] | None = None
) -> Sequence[date]:
    """The partitions with a key that several rows of one side have, of all or among some."""
    if among is not None and not among:
        return ()
    partition, key = _named(shape.key[0]), _listed(shape.key)
    where = "" if among is None else f"WHERE {partition} IN ({_days(among)}) "
    found = " UNION ".join(
        f"SELECT {partition} AS p FROM {side} {where}GROUP BY {key} HAVING count(*) > 1"
        for side in ("staged", "accepted")
    )
    return [row[0] for row in connection.sql(f"SELECT p FROM ({found}) ORDER BY p").fetchall()]


def _side(view: str, shape: Shape, shared: Sequence[date], *, exactly: bool, is_ranked: bool) -> str:
    """The rows of a side, with the place `_n` of each among those of its key, and how many equal ones it stands for."""
    partition, columns = _named(shape.key[0]), _listed([*shape.key, *shape.values])
    amount = (f", {AMOUNT}" if is_ranked else "") + (f", {CHOSEN}" if shape.is_chosen else "")
    days = _days(shared)
    if not exactly:
        where = f" WHERE {partition} NOT IN ({days})" if shared else ""
        return f"SELECT {columns}{amount}, 1 AS _n, 1 AS _rows FROM {view}{where}"
    where = f" WHERE {partition} IN ({days})" if shared else ""
    amount = f", any_value({AMOUNT}) AS {AMOUNT}" if is_ranked else ""
    amount += f", bool_or({CHOSEN}) AS {CHOSEN}" if shape.is_chosen else ""
    unlike = f"SELECT {columns}{amount}, count(*) AS _rows FROM {view}{where} GROUP BY {columns}"
    order = f" ORDER BY {_listed(shape.values)}" if shape.values else ""
    return f"SELECT *, row_number() OVER (PARTITION BY {_listed(shape.key)}{order}) AS _n FROM ({unlike})"


def _pairs(shape: Shape, shared: Sequence[date], *, exactly: bool, with_values: bool = False) -> str:
    """A row for every key, or for every row of a key where several share it: what of both sides differs."""
    is_ranked = shape.is_ranked and with_values
    sides = (_side(view, shape, shared, exactly=exactly, is_ranked=is_ranked) for view in ("staged", "accepted"))
    new, old = (f"(SELECT *, true AS _here FROM ({side}))" for side in sides)
    on = [f"s.{_named(name)} IS NOT DISTINCT FROM a.{_named(name)}" for name in shape.key]
    keys = [f"coalesce(s.{_named(name)}, a.{_named(name)}) AS k_{n}" for n, name in enumerate(shape.key)]
    differ = [f"s.{_named(name)} IS DISTINCT FROM a.{_named(name)} AS d_{n}" for n, name in enumerate(shape.values)]
    codes = [
        f"{_code(side, name, values)} AS {when}_{n}"
        for n, (name, values) in enumerate(shape.listed)
        for side, when in (("s", "after"), ("a", "before"))
    ]
    if with_values:
        codes = [
            f"{side}.{_named(name)} AS {when}_{n}"
            for n, name in enumerate(shape.values)
            for side, when in (("s", "after"), ("a", "before"))
        ]
        moved = f"abs(coalesce(s.{AMOUNT}, 0) - coalesce(a.{AMOUNT}, 0))" if is_ranked else "0::DOUBLE"
        codes += [f"{moved} AS moved", "coalesce(s._n, a._n) AS place"]
        if shape.is_chosen:
            codes.append(f"(coalesce(s.{CHOSEN}, false) OR coalesce(a.{CHOSEN}, false)) AS {CHOSEN}")
    rows = [
        "s._here IS NOT NULL AS on_staged",
        "a._here IS NOT NULL AS on_accepted",
        "coalesce(s._rows, 0) AS staged_rows",
        "coalesce(a._rows, 0) AS accepted_rows",
    ]
    if exactly:
        on.append("s._n = a._n")
    joined = f"SELECT {', '.join([*keys, *rows, *differ, *codes])} FROM {new} s FULL JOIN {old} a ON {' AND '.join(on)}"
    differs = _any(["on_staged <> on_accepted", *(f"d_{n}" for n, _ in enumerate(shape.values))])
    return f"SELECT *, {differs} AS differs FROM ({joined})"


def _by_key(shape: Shape, pairs: str) -> str:
    """The pairs of rows that share a key as one row."""
    codes = [f"max({side}_{n}) AS {side}_{n}" for n, _ in enumerate(shape.listed) for side in ("before", "after")]
    either = ["on_staged", "on_accepted", "differs", *(f"d_{n}" for n, _ in enumerate(shape.values))]
    sums = [f"sum({name}) AS {name}" for name in ("staged_rows", "accepted_rows")]
    columns = [*(f"bool_or({name}) AS {name}" for name in either), *sums, *codes]
    key = ", ".join(f"k_{n}" for n, _ in enumerate(shape.key))
    return f"SELECT {key}, {', '.join(columns)} FROM ({pairs}) GROUP BY {key}"


def _code(side: str, name: str, values: Sequence[str]) -> str:
    """The place of a value among those that are listed, from 0; null where this side does not have the row."""
    whens = " ".join(f"WHEN {side}.{_named(name)} = {_text(value)} THEN {n}" for n, value in enumerate(values))
    return f"CASE WHEN {side}._here IS NULL THEN NULL {whens} ELSE {len(values)} END"


def _any(conditions: Iterator[str] | Sequence[str]) -> str:
    return f"({' OR '.join(conditions) or 'false'})"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(_named, names))


def _named(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _days(partitions: Iterable[date]) -> str:
    return ", ".join(f"DATE '{each}'" for each in sorted(partitions))


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
