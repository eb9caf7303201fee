"""Change events as the connectors for MySQL, SQL Server, Oracle and MongoDB write them, written by hand after their
documentation: a feed of the same story for each, whose last state is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from backfill_assets.domain import DEBEZIUM_OPERATIONS, DEBEZIUM_POSITION_COLUMNS, Debezium, SourceTable, daily

AT = 1_751_358_600_000
"""2025-07-01T08:30:00Z in milliseconds."""


@dataclass(frozen=True, kw_only=True)
class Feed:
    """The events of a connector."""

    connector: str  #: Which one.
    table: str  #: What they are of.
    key: str  #: The column of the key.
    #: Positions that follow each other as the changes did, the one of a snapshot first.
    positions: Sequence[Mapping[str, Any]]
    names: Mapping[str, Any]  #: What `source` has beside the position.

    def event(self, place: int, op: str, key: int | str, **row: Any) -> dict[str, Any]:
        """An event at one of the positions."""
        source = {
            "version": "3.1.0.Final",
            "connector": self.connector,
            "name": "shop",
            "ts_ms": AT,
            **self.names,
            **self.positions[place],
        }
        return {**self.sides(op, key, row), "source": source, "op": op, "ts_ms": AT + place, "transaction": None}

    def sides(self, op: str, key: int | str, row: Mapping[str, Any]) -> dict[str, Any]:
        """The row before and after the change."""
        there = {self.key: key, "ordered_at": "2025-07-01T08:00:00Z", **row}
        return {"before": there if op == "d" else None, "after": None if op == "d" else there}


@dataclass(frozen=True, kw_only=True)
class Documents(Feed):
    """The events of MongoDB, whose documents are texts, and whose deletes have no document."""

    def sides(self, op: str, key: int | str, row: Mapping[str, Any]) -> dict[str, Any]:
        more = "".join(f', "{name}": "{value}"' for name, value in row.items())
        date = '{"$date": 1751356800000}'
        document = f'{{"_id": {{"$numberLong": "{key}"}}, "ordered_at": {date}{more}}}'
        return {"before": None, "after": None if op == "d" else document, "updateDescription": None}


def _binlog(file: int, pos: int, row: int = 0) -> dict[str, Any]:
    return {
        "server_id": 223344,
        "gtid": None,
        "file": f"mysql-bin.{file:06}",
        "pos": pos,
        "row": row,
        "snapshot": "false",
    }


MYSQL = Feed(
    connector="mysql",
    table="shop.orders",
    key="order_id",
    # The number of a file gets a seventh digit, and positions begin anew in each file.
    positions=[
        {**_binlog(999_998, 154), "server_id": 0, "snapshot": "true"},
        _binlog(999_998, 900),
        _binlog(999_999, 154),
        _binlog(999_999, 154, 1),
        _binlog(999_999, 1_154),
        _binlog(1_000_000, 4),
        _binlog(1_000_000, 20),
    ],
    names={"db": "shop", "table": "orders"},
)


def _lsn(commit: str, change: str | None, serial: int | None) -> dict[str, Any]:
    return {"commit_lsn": commit, "change_lsn": change, "event_serial_no": serial, "snapshot": "false"}


SQL_SERVER = Feed(
    connector="sqlserver",
    table="dbo.orders",
    key="order_id",
    positions=[
        _lsn("0000002b:000001b8:0003", None, None),
        _lsn("0000002b:000001c0:0001", "0000002b:000001bf:0002", 1),
        _lsn("0000002b:000001c0:000A", "0000002b:000001c0:0002", 1),
        _lsn("0000002b:000001c0:000A", "0000002b:000001c0:0002", 2),
        _lsn("0000002b:000001c0:000A", "0000002b:000001c0:0003", 1),
        _lsn("000000FF:00000001:0001", "000000FE:00000001:0001", 1),
        _lsn("00000100:00000001:0001", "00000100:00000000:0001", 1),
    ],
    names={"db": "shop", "schema": "dbo", "table": "orders"},
)


def _scn(scn: str, commit: str | None, record_set: str | None = None, ssn: int | None = 0) -> dict[str, Any]:
    said = {"scn": scn, "commit_scn": commit, "rs_id": record_set, "ssn": ssn, "redo_thread": 1}
    return {**said, "lcr_position": None, "snapshot": "false"}


ORACLE = Feed(
    connector="oracle",
    table="SHOP.ORDERS",
    key="order_id",
    positions=[
        _scn("999", None, None, None),
        _scn("1002", "1003", " 0x000488.00002d1f.0010 "),
        # Changes are in the order of commits, also where they were made before.
        _scn("1000", "10000", " 0x000487.00000001.0010 ", 0),
        _scn("1000", "10000", " 0x000487.00000001.0010 ", 1),
        _scn("9000", "10000", " 0x001000.00000001.0010 "),
        _scn("9999", "10001", " 0x1000000.00000001.0010 "),
        _scn("10002", "10002", " 0x1000000.00000002.0010 "),
    ],
    names={"db": "ORCLPDB1", "schema": "SHOP", "table": "ORDERS"},
)


def _ord(second: int, number: int) -> dict[str, Any]:
    return {"ts_ms": AT + 1000 * second, "ord": number, "lsid": None, "txnNumber": None, "snapshot": "false"}


MONGODB = Documents(
    connector="mongodb",
    table="shop.orders",
    key="order_id",
    positions=[_ord(0, 1), _ord(0, 2), _ord(0, 10), _ord(1, 1), _ord(1, 2), _ord(2, 1), _ord(3, 1)],
    names={"db": "shop", "collection": "orders"},
)

FEEDS: Sequence[Feed] = (MYSQL, SQL_SERVER, ORACLE, MONGODB)


def source_of(feed: Feed, **changes: Any) -> SourceTable:
    """A source of the events of a connector, whose declaration has these changes."""
    columns = [
        StructField(feed.key, LongType(), nullable=False),
        StructField("ordered_at", TimestampType(), nullable=False),
        StructField("note", StringType()),
    ]
    return SourceTable(
        name="bronze.orders",
        key=(feed.key,),
        event_time="ordered_at",
        partition=daily("ordered_on"),
        schema=StructType([*columns, *DEBEZIUM_POSITION_COLUMNS]),
        order=("debezium_position",),
        operation=DEBEZIUM_OPERATIONS,
        columns={"_id": "order_id"} if feed is MONGODB else {},
        envelope=Debezium(**{"table": feed.table, "connector": feed.connector, **changes}),
    )
