"""Row changes: messages of Maxwell and Canal become change events, as the readers take those of Debezium for MySQL.

A message can be several events: of several rows, or of a row whose key changed, where the old key ends and the new one
begins. Those behind its first say that they are parts, so that an account of messages adds up. A line that is no
object with a type and a database stays as it is, so that it is rejected with a reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import IO, Any

from backfill_assets.capture.debezium import PART
from backfill_assets.capture.errors import BadFile, Fault
from backfill_assets.capture.json_members import as_written, json_of
from backfill_assets.core.wording import visible
from backfill_assets.domain import Canal, SourceTable
from backfill_assets.landing.probe import MOST_RECORD_BYTES

_BOM = b"\xef\xbb\xbf"
_OF_KAFKA = "kafka_"

Event = Mapping[str, Any]
EventsOf = Callable[[Mapping[str, Any], int], Iterator[Event]]
"""The events of a message, and the number of its line for what is refused of it."""


def decoded_events(stream: IO[bytes], events_of: EventsOf, *, name: str) -> Iterator[bytes]:
    """The events of a file, each on one line without its end.

    Args:
        name: What messages call the file.

    Raises:
        BadFile: A line is longer than a record can be, or a message is none that can be taken.
    """
    number = 0
    while line := stream.readline(MOST_RECORD_BYTES + 1):
        number += 1
        if len(line) > MOST_RECORD_BYTES:
            why = f"has a line of more than {MOST_RECORD_BYTES >> 20} MiB (line {number:,}), which is not a record"
            raise BadFile(path=name, fault=Fault.LONG_LINE, why=why)
        line = (line.removeprefix(_BOM) if number == 1 else line).strip(b" \t\r\n")
        if not line:
            continue
        try:
            found = as_written(line)
        except ValueError:
            found = None
        if not isinstance(found, dict) or type(found.get("type")) is not str or "database" not in found:
            yield line
            continue
        of_kafka = {member: value for member, value in found.items() if member.startswith(_OF_KAFKA)}
        try:
            events = [
                _line({**({PART: place} if place else {}), **of_kafka, **event})
                for place, event in enumerate(events_of(found, number))
            ]
        except RecursionError:  # deeper than it can be written
            events = [line]
        yield from events


def changes(operation: str, row: Event, old: object, place: Event, keys: Sequence[str]) -> Iterator[Event]:
    """The events of a change of one row.

    Args:
        row: As it is after it; of a delete, as it was.
        old: What its changed columns were, of an update.
        place: Where in the log it is.
        keys: The columns of the key.
    """
    before = {**row, **old} if operation == "u" and isinstance(old, dict) else row
    if any(before.get(each) != row.get(each) for each in keys):
        yield {"op": "d", "before": before, "after": None, "source": place}
        operation = "c"
    sides = {"before": row, "after": None} if operation == "d" else {"before": None, "after": row}
    yield {"op": operation, **sides, "source": place}


def key_members(source: SourceTable) -> Sequence[str]:
    """The names by which rows call the columns of the key."""
    return [str(part) for column in source.key for part in source.places[column]]


def not_taken(what: str, number: int, name: str) -> BadFile:
    """The refusal of a file with a message that is no change of a row, and that cannot be passed over."""
    return BadFile(path=name, fault=Fault.EVENTS, why=f"has {what} in line {number:,}")


def _line(event: Event) -> bytes:
    # Half of a surrogate pair stays the escape that it was; landing rejects it.
    return json_of(event).encode(errors="backslashreplace")


# Canal's flat messages: the change events that their rows are, as the readers take those of Debezium for MySQL.
#
# They do not say where in the binary log they are. What orders them is declared: how many transactions the set of
# their GTIDs has, the commit of TiCDC's extension, or the second in which their statement began. Changes of a key
# with the same are tied, because nothing in a message decides between them.

_OPERATIONS_OF_CANAL = {"INSERT": "c", "UPDATE": "u", "DELETE": "d"}
_TRUNCATE = "TRUNCATE"
_NUMBER_OF_CANAL = r"[0-9]{1,19}"
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
        if kind not in _OPERATIONS_OF_CANAL and kind != _TRUNCATE:
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
            yield from changes(_OPERATIONS_OF_CANAL[kind], row, was, place, keys)

    return decoded_events(stream, events_of, name=name)


def _beside(found: Mapping[str, Any]) -> Event | None:
    """The kind of a message without a row, as of a Debezium message that is passed over; None for a change.

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
        return int(text) if re.fullmatch(_NUMBER_OF_CANAL, text) else None
    counts = [int(end or begin) - int(begin) + 1 for begin, end in _OF_MYSQL.findall(text)]
    return sum(counts or map(int, _OF_MARIADB.findall(text))) or None


# Maxwell's records: the change events that they are, as the readers take those of Debezium's connector for MySQL.

_OPERATIONS_OF_MAXWELL = {"insert": "c", "update": "u", "delete": "d", "bootstrap-insert": "r"}
_BOOTSTRAPS = ("bootstrap-start", "bootstrap-complete")
_NUMBER_OF_MAXWELL = r"[0-9]{1,15}"


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
        elif (operation := _OPERATIONS_OF_MAXWELL.get(kind)) is not None and isinstance(row := found.get("data"), dict):
            yield from changes(operation, row, found.get("old"), _place(found, connector), keys)
        else:
            what = (
                "a record without its row"
                if kind in _OPERATIONS_OF_MAXWELL
                else f"a record of the type {visible(kind[:60])!r}"
            )
            raise not_taken(f"{what} of Maxwell", number, name)

    return decoded_events(stream, events_of, name=name)


def _place(found: Mapping[str, Any], connector: str) -> Event:
    """The position of a change in the binary log, as Debezium writes it."""
    position = re.fullmatch(rf"(.+):({_NUMBER_OF_MAXWELL})", str(found.get("position")))
    seconds = str(found.get("ts"))
    return {
        "connector": connector,
        "db": found.get("database"),
        "table": found.get("table"),
        "ts_ms": int(seconds) * 1000 if re.fullmatch(_NUMBER_OF_MAXWELL, seconds) else None,
        "file": position[1] if position else None,
        "pos": position[2] if position else None,
        "row": found.get("xoffset", 0),
    }
