"""Row changes: messages of Maxwell and Canal become change events, as the readers take those of Debezium for MySQL.

A message can be several events: of several rows, or of a row whose key changed, where the old key ends and the new one
begins. Those behind its first say that they are parts, so that an account of messages adds up. A line that is no
object with a type and a database stays as it is, so that it is rejected with a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any

from backfill_assets.capture.debezium_messages import PART
from backfill_assets.capture.errors import BadFile, Fault
from backfill_assets.capture.json_members import as_written, json_of
from backfill_assets.domain import SourceTable
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
    """What rows call the columns of the key."""
    return [str(part) for column in source.key for part in source.places[column]]


def not_taken(what: str, number: int, name: str) -> BadFile:
    """The refusal of a file with a message that is no change of a row, and that cannot be passed over."""
    return BadFile(path=name, fault=Fault.EVENTS, why=f"has {what} in line {number:,}")


def _line(event: Event) -> bytes:
    # Half of a surrogate pair stays the escape that it was; landing rejects it.
    return json_of(event).encode(errors="backslashreplace")
