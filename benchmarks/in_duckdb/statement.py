"""The deadlines of cases in one statement of DuckDB; reads what it is asked from standard input, as JSON.

It runs in an environment of its own, which has DuckDB and nothing of the project. The rules are those of
`sla_clocks.py`, whose comments say what they mean.
"""

import json
import sys
import time
from pathlib import Path

import duckdb

STATEMENT = Path(__file__).with_name("statement.sql").read_text(encoding="utf-8")


def main() -> None:
    """Writes the rows, or compares what two folders hold."""
    asked = json.load(sys.stdin)
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    answer = compared(connection, asked["compared"]) if "compared" in asked else written(connection, asked)
    json.dump(answer, sys.stdout)


def written(connection, asked):
    """Writes the rows of the output, and says how long it took."""
    began = time.perf_counter()
    given = {
        "zones": "jurisdiction VARCHAR, timezone VARCHAR",
        "roles": "jurisdiction VARCHAR, event_type VARCHAR, clock VARCHAR, day_kind VARCHAR, limit_days INT, "
        "tracked_days INT, starts BOOL, stops BOOL, pauses BOOL",
        "days": "jurisdiction VARCHAR, day_kind VARCHAR, day DATE, is_countable BOOL, days_counted INT",
    }
    for name, columns in given.items():
        connection.execute(f"CREATE TABLE {name} ({columns})")
        values = ", ".join("(" + ", ".join(map(literal, row)) + ")" for row in asked[name])
        connection.execute(f"INSERT INTO {name} VALUES {values}")
    first, last = asked["output"]
    connection.execute("CREATE VIEW landed AS SELECT * FROM read_parquet(" + str(asked["events"]) + ")")
    rows = STATEMENT.replace(":first", f"DATE '{first}'").replace(":last", f"DATE '{last}'")
    to = f"'{asked['folder']}' (FORMAT parquet, COMPRESSION zstd, PARTITION_BY (business_date))"
    connection.execute(f"COPY ({rows}) TO {to}")
    return {"seconds": time.perf_counter() - began}


def literal(value):
    """A value as it is written in a statement; all of them come from references."""
    if value is None or isinstance(value, bool):
        return str(value if value is not None else "NULL")
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


def compared(connection, folders):
    """How many rows one folder has, and how many only one of the two."""
    one, other = (
        f"SELECT COLUMNS(*)::VARCHAR FROM read_parquet('{folder}/*/*.parquet', hive_partitioning = true)"
        for folder in folders
    )
    names = [each[0] for each in connection.execute(f"DESCRIBE {one}").fetchall()]
    listed = ", ".join(sorted(names))
    one, other = (f"SELECT {listed} FROM ({rows})" for rows in (one, other))
    counts = [
        connection.execute(f"SELECT count(*) FROM ({asked})").fetchone()[0]
        for asked in (one, f"{one} EXCEPT ALL {other}", f"{other} EXCEPT ALL {one}")
    ]
    return {"rows": counts[0], "left_over": counts[1] + counts[2]}


main()
