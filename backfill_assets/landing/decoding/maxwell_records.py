"""Maxwell's records: the change events that they are, as the readers take those of Debezium's connector for MySQL.

A record that changes its key says so with what the key was, and is two events: the old key ends, and the new one
begins. A line that is none of Maxwell's records stays as it is, so that it is rejected with a reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import IO, Any

from backfill_assets.capture.errors import BadFile, Fault
from backfill_assets.capture.json_members import as_written, json_of
from backfill_assets.domain import SourceTable
from backfill_assets.landing.probe import MOST_RECORD_BYTES

_OPERATIONS = {"insert": "c", "update": "u", "delete": "d", "bootstrap-insert": "r"}
_BOOTSTRAPS = ("bootstrap-start", "bootstrap-complete")
_BOM = b"\xef\xbb\xbf"
_NUMBER = r"[0-9]{1,15}"


def maxwell_events(stream: IO[bytes], source: SourceTable, *, name: str) -> Iterator[bytes]:
    """The events of a file, each on one line without its end.

    Args:
        source: Its key says which columns are of the key.
        name: What messages call the file.

    Raises:
        BadFile: A line is longer than a record can be.
    """
    members_of_key = [str(part) for column in source.key for part in source.places[column]]
    number = 0
    while line := stream.readline(MOST_RECORD_BYTES + 1):
        number += 1
        if len(line) > MOST_RECORD_BYTES:
            why = f"has a line of more than {MOST_RECORD_BYTES >> 20} MiB (line {number:,}), which is not a record"
            raise BadFile(path=name, fault=Fault.LONG_LINE, why=why)
        line = (line.removeprefix(_BOM) if number == 1 else line).strip(b" \t\r\n")
        if line:
            try:
                events = [*_events(line, members_of_key)]
            except RecursionError:  # deeper than it can be written
                events = [line]
            yield from events


def _events(line: bytes, members_of_key: list[str]) -> Iterator[bytes]:
    try:
        found = as_written(line)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not isinstance(kind := found.get("type"), str):
        yield line
    elif kind in _BOOTSTRAPS:
        yield _line({"aggregate_type": kind, "additional_data": found.get("data")})
    elif isinstance(found.get("sql"), str) and "data" not in found:
        yield _line({"ddl": found["sql"]})
    elif (operation := _OPERATIONS.get(kind)) is None or not isinstance(row := found.get("data"), dict):
        yield line
    else:
        place, old = _place(found), found.get("old")
        before = {**row, **old} if operation == "u" and isinstance(old, dict) else row
        if any(before.get(each) != row.get(each) for each in members_of_key):
            yield _line({"op": "d", "before": before, "after": None, "source": place})
            operation = "c"
        sides = {"before": row, "after": None} if operation == "d" else {"before": None, "after": row}
        yield _line({"op": operation, **sides, "source": place})


def _place(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """Where in the binary log a change is, as Debezium says it."""
    position = re.fullmatch(rf"(.+):({_NUMBER})", str(found.get("position")))
    seconds = str(found.get("ts"))
    return {
        "connector": "mysql",
        "db": found.get("database"),
        "table": found.get("table"),
        "ts_ms": int(seconds) * 1000 if re.fullmatch(_NUMBER, seconds) else None,
        "file": position[1] if position else None,
        "pos": position[2] if position else None,
        "row": found.get("xoffset", 0),
    }


def _line(event: Mapping[str, Any]) -> bytes:
    # Half of a surrogate pair stays the escape that it was; landing rejects it.
    return json_of(event).encode(errors="backslashreplace")
