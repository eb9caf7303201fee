"""How does a test avoid that DuckDB makes its functions anew for every comparison?

A database takes a twentieth of a second to be made, and comparisons of a few rows a hundredth. What a comparison makes
is temporary, and belongs to its connection; so that a process of tests makes one database for equal settings, and every
comparison is a connection to it.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from typing import Any

import duckdb


def remember_databases() -> None:
    """From now on, in this process: those in memory that spill to a folder of their own."""
    connect = duckdb.connect
    made: dict[str, Any] = {}

    def connected(*given: Any, **named: Any) -> Any:
        config: dict[str, Any] = named.get("config", {})
        if given or len(named) > 1 or "temp_directory" not in config:
            return connect(*given, **named)
        settings = {name: value for name, value in config.items() if name != "temp_directory"}
        known = repr(sorted(settings.items()))
        if known not in made:
            folder = tempfile.mkdtemp(prefix="backfill-compare-")
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            made[known] = connect(config={**settings, "temp_directory": folder})
        return made[known].cursor()

    vars(duckdb)["connect"] = connected
