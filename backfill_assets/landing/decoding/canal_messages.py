"""Canal's flat messages: the change events that their rows are, as the readers take those of Debezium for MySQL.

They do not say where in the binary log they are. What orders them is declared: how many transactions the set of their
GTIDs has, the commit of TiCDC's extension, or the second in which their statement began. Changes of a key with the same
are tied, because nothing in a message decides between them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import IO, Any

from backfill_assets.capture.errors import BadFile, Fault
from backfill_assets.core.wording import visible
from backfill_assets.domain import Canal, SourceTable
from backfill_assets.landing.decoding.row_changes import Event, changes, decoded_events, key_members, not_taken

_OPERATIONS = {"INSERT": "c", "UPDATE": "u", "DELETE": "d"}
_TRUNCATE = "TRUNCATE"
_NUMBER = r"[0-9]{1,19}"
_OF_MYSQL, _OF_MARIADB = re.compile(r":([0-9]{1,18})(?:-([0-9]{1,18}))?"), re.compile(r"[0-9]+-[0-9]+-([0-9]{1,18})")
_INSTEAD = {
    "gtid": "set canal.instance.gtidon=true, or declare reads=Canal(by=...) with what orders them instead",
    "commitTs": "set enable-tidb-extension=true",
    "es": "they are not as Canal writes them",
}


def canal_events(stream: IO[bytes], source: SourceTable, *, name: str) -> Iterator[bytes]:
    """The events of a file, each on one line without its end.

    Args:
        source: Its key says which columns are of the key, and `reads` what orders its messages.
        name: What messages call the file.

    Raises:
        BadFile: A line is longer than a record can be, or a message is none that can be taken, or put in order.
    """
    assert source.envelope is not None
    assert isinstance(source.reads, Canal)
    by, keys, connector = source.reads.by, key_members(source), source.envelope.connector
    latest: dict[str, int] = {}

    def position(found: Mapping[str, Any], number: int) -> int:
        place = position_of(found, by)
        if place is None:
            why = f"has a message without {by} in line {number:,}, which orders changes: {_INSTEAD[by]}"
            raise BadFile(path=name, fault=Fault.EVENTS, why=why)
        partition = str(found.get("kafka_partition"))
        if by == "es" and place < latest.get(partition, 0):
            why = f"has a message in line {number:,} whose es is before that of an earlier one"
            raise BadFile(path=name, fault=Fault.EVENTS, why=f"{why}: order them by gtid, reads=Canal()")
        latest[partition] = place
        return place

    def events_of(found: Mapping[str, Any], number: int) -> Iterator[Event]:
        kind = found["type"]
        if (passed_over := _beside(found)) is not None:
            yield passed_over
            return
        if kind not in _OPERATIONS and kind != _TRUNCATE:
            raise not_taken(f"a message of the type {visible(kind[:60])!r} of Canal", number, name)
        place = {
            "connector": connector,
            "db": found.get("database"),
            "table": found.get("table"),
            "ts_ms": found.get("es"),
            "file": f"{by}.0",
            "pos": position(found, number),
            "row": 0,
        }
        if kind == _TRUNCATE:
            yield {"op": "t", "before": None, "after": None, "source": place}
            return
        rows, old = _rows(found.get("data")), _rows(found.get("old"))
        if not rows:
            raise not_taken("a change of Canal without its rows (binlog_format=ROW gives them)", number, name)
        if kind == "UPDATE" and len(old) != len(rows):
            raise not_taken("an update of Canal that does not say what its rows were", number, name)
        for row, was in zip_longest(rows, old[: len(rows)]):
            yield from changes(_OPERATIONS[kind], row, was, place, keys)

    return decoded_events(stream, events_of, name=name)


def _beside(found: Mapping[str, Any]) -> Event | None:
    """What a message is that has no row, as a message of Debezium that is passed over; None of a change.

    A statement may be beside the rows that it changed, as a remark. One that empties a table is a change.
    """
    match found["type"], found.get("isDdl"):
        case "TIDB_WATERMARK", _:
            return {"ts_ms": found.get("es")}
        case "QUERY", is_ddl if is_ddl is not True:
            return {"op": "m", "message": found.get("sql")}
        case kind, True if kind != _TRUNCATE:
            return {"ddl": found.get("sql")}
    return None


def _rows(found: object) -> list[Event]:
    """The rows in a list of rows; none where it is something else."""
    return found if isinstance(found, list) and all(isinstance(each, dict) for each in found) else []


def position_of(found: Mapping[str, Any], by: str) -> int | None:
    """The number that orders a message; None where it has none.

    A set of GTIDs is counted: with each transaction it has one more, also where several servers or tags are in it.
    """
    extension = found.get("_tidb")
    text = str(extension.get(by) if by == "commitTs" and isinstance(extension, dict) else found.get(by))
    if by != "gtid":
        return int(text) if re.fullmatch(_NUMBER, text) else None
    counts = [int(end or begin) - int(begin) + 1 for begin, end in _OF_MYSQL.findall(text)]
    return sum(counts or map(int, _OF_MARIADB.findall(text))) or None
