"""Maxwell's records: the change events that they are, as the readers take those of Debezium's connector for MySQL."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import IO, Any

from backfill_assets.core.wording import visible
from backfill_assets.domain import SourceTable
from backfill_assets.landing.decoding.row_changes import Event, changes, decoded_events, key_members, not_taken

_OPERATIONS = {"insert": "c", "update": "u", "delete": "d", "bootstrap-insert": "r"}
_BOOTSTRAPS = ("bootstrap-start", "bootstrap-complete")
_NUMBER = r"[0-9]{1,15}"


def maxwell_events(stream: IO[bytes], source: SourceTable, *, name: str) -> Iterator[bytes]:
    """The events of a file, each on one line without its end.

    Args:
        source: Its key says which columns are of the key.
        name: What messages call the file.

    Raises:
        BadFile: A line is longer than a record can be, or a record is of a type that is not known.
    """
    assert source.envelope is not None
    keys, connector = key_members(source), source.envelope.connector

    def events_of(found: Mapping[str, Any], number: int) -> Iterator[Event]:
        kind = found["type"]
        if kind in _BOOTSTRAPS:
            yield {"aggregate_type": kind, "additional_data": found.get("data")}
        elif isinstance(found.get("sql"), str) and "data" not in found:
            yield {"ddl": found["sql"]}
        elif (operation := _OPERATIONS.get(kind)) is not None and isinstance(row := found.get("data"), dict):
            yield from changes(operation, row, found.get("old"), _place(found, connector), keys)
        else:
            what = "a record without its row" if kind in _OPERATIONS else f"a record of the type {visible(kind[:60])!r}"
            raise not_taken(f"{what} of Maxwell", number, name)

    return decoded_events(stream, events_of, name=name)


def _place(found: Mapping[str, Any], connector: str) -> Event:
    """Where in the binary log a change is, as Debezium says it."""
    position = re.fullmatch(rf"(.+):({_NUMBER})", str(found.get("position")))
    seconds = str(found.get("ts"))
    return {
        "connector": connector,
        "db": found.get("database"),
        "table": found.get("table"),
        "ts_ms": int(seconds) * 1000 if re.fullmatch(_NUMBER, seconds) else None,
        "file": position[1] if position else None,
        "pos": position[2] if position else None,
        "row": found.get("xoffset", 0),
    }
