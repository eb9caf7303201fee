"""Positions of change events whose connector has no number for them, as texts that are ordered as the changes were.

Each part of a position has as many digits as it can have, and parts follow each other from the most significant one on.
The last one tells a change from the end of its key directly before it, which a compacted topic leaves.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from backfill_assets.capture.debezium import ENDED_BEFORE, POSTGRESQL, Debezium
from backfill_assets.landing.json_text import let, members, plain

_FILE = r"\A.*\.([0-9]{1,10})\z"
_NUMBER = r"\A[0-9]{1,20}\z"
_LSN = r"\A[0-9a-fA-F]{8}:[0-9a-fA-F]{8}:[0-9a-fA-F]{4}\z"
_NO_LSN = "00000000:00000000:0000"
_RECORD_SET = r"\A(?:0x)?([0-9a-fA-F]{1,12})\.([0-9a-fA-F]{1,8})\.([0-9a-fA-F]{1,4})\z"
_NEEDS = {
    "mysql": "file and pos of the binary log",
    "mariadb": "file and pos of the binary log",
    "sqlserver": "commit_lsn, and change_lsn and event_serial_no of a change",
    "oracle": "scn, and commit_scn of a change, as LogMiner has them",
    "mongodb": "ts_ms and ord",
}
_MOST, _FEW = 20, 10
"""So many digits has a number of the log, and one that counts within a position of it."""


def position(source: Column, event: Column, connector: str) -> Column:
    """The position of an event as a text; null where the event does not say it.

    Args:
        source: The members of its `source`.
        event: Its own members.
        connector: Which one wrote it.
    """
    match connector:
        case "mysql" | "mariadb":
            file = plain(source["file"])
            found = [_padded(_part(file, _FILE), _FEW), _number(source, "pos"), _count(source, "row")]
        case "sqlserver":
            # A read of a snapshot has the position up to which it read, and none of a change.
            found = [_lsn(source, "commit_lsn"), F.coalesce(_lsn(source, "change_lsn"), _if_read(event, _NO_LSN))]
            found.append(F.coalesce(_padded(plain(source["event_serial_no"]), _MOST), _if_read(event, "0" * _MOST)))
        case "oracle":
            committed = F.coalesce(_number(source, "commit_scn"), F.when(_is_read(event), _number(source, "scn")))
            change = F.when(_is_read(event), "0" * _MOST).otherwise(_number(source, "scn"))
            found = [committed, F.coalesce(_record_set(source), F.lit("")), _count(source, "ssn"), change]
        case "mongodb":
            # One transaction is one time of the cluster: what follows what in it, its metadata say.
            second = F.left(_number(source, "ts_ms"), F.lit(_MOST - 3))
            order = F.coalesce(_number(members(plain(event["transaction"])), "total_order"), F.lit("0" * _MOST))
            found = [second, _padded(plain(source["ord"]), _FEW), order]
        case _:
            raise ValueError(f"{connector} has numbers for positions")
    last = F.when(plain(source[ENDED_BEFORE]) == "true", "0").otherwise("1")
    return F.concat(*(piece for each in found for piece in (each, F.lit("/"))), last)


def without_position(source: Column, event: Column, events: Debezium) -> Column:
    """Why the order of an event is not known; null where it is, and for what has numbers."""
    if events.connector == POSTGRESQL:
        return F.lit(None).cast("string")
    says = f"the event does not say where in the log it is: it needs {_NEEDS[events.connector]}"
    return F.when(position(source, event, events.connector).isNull(), says)


def _number(source: Column, name: str) -> Column:
    return _padded(plain(source[name]), _MOST)


def _count(source: Column, name: str) -> Column:
    """A number within a position, which is the first one where nothing counts."""
    return F.coalesce(_padded(plain(source[name]), _FEW), F.when(plain(source[name]).isNull(), F.lit("0" * _FEW)))


def _padded(text: Column, digits: int) -> Column:
    return F.when(text.rlike(_NUMBER) & (F.length(text) <= digits), F.lpad(text, digits, "0"))


def _part(text: Column, pattern: str, number: int = 1) -> Column:
    return F.when(text.rlike(pattern), F.regexp_extract(text, pattern, number))


def _lsn(source: Column, name: str) -> Column:
    text = plain(source[name])
    return F.when(text.rlike(_LSN), F.lower(text))


def _record_set(source: Column) -> Column:
    """Where in the redo log a change is, which says what follows what in a transaction."""

    def parts(text: Column) -> Column:
        found = (_part(text, _RECORD_SET, number) for number in (1, 2, 3))
        return F.concat(*(F.lpad(F.lower(each), width, "0") for each, width in zip(found, (12, 8, 4), strict=True)))

    return let(F.trim(plain(source["rs_id"])), parts)


def _is_read(event: Column) -> Column:
    return F.coalesce(plain(event["op"]) == "r", F.lit(False))


def _if_read(event: Column, text: str) -> Column:
    return F.when(_is_read(event), F.lit(text))
