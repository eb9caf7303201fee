"""How many rows does each reader find in a Delta table? Run by the readers' own Python; JSON from and to the shell.

    echo '{"uri": "...", "options": {}, "versions": [3]}' | python count_rows.py

DuckDB's extension for Delta is not a package of Python, so DuckDB reads the files that the log of a version names.
"""

import json
import sys

import duckdb
import polars
from deltalake import DeltaTable


def main() -> None:
    """Reads the order from standard input and prints the counts by reader and version."""
    order = json.load(sys.stdin)
    json.dump({str(each): counted(order["uri"], order["options"], each) for each in order["versions"]}, sys.stdout)


def counted(uri: str, options: dict[str, str], version: int) -> dict[str, int]:
    """The rows of one version, by reader."""
    table = DeltaTable(uri, version=version, storage_options=options)
    scanned = polars.scan_delta(uri, version=version, storage_options=options)
    ((rows,),) = duckdb.from_arrow(table.to_pyarrow_dataset()).aggregate("count(*)").fetchall()
    return {
        "deltalake": table.to_pyarrow_dataset().count_rows(),
        "duckdb": rows,
        "polars": scanned.select(polars.len()).collect().item(),
    }


if __name__ == "__main__":
    main()
