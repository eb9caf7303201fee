"""Change events: what declares that records are those of Debezium or Maxwell, by what an event says of itself."""

from __future__ import annotations

from collections.abc import Mapping

_WITH_DATABASE = ("mysql", "mariadb", "mongodb", "sqlserver")


def envelope_of(record: object) -> tuple[str, ...] | None:
    """The envelope of an event, and the dialect that it needs besides, as Python; None of other records."""
    if not isinstance(record, Mapping):
        return None
    payload = record.get("payload")
    event = payload if isinstance(payload, Mapping) else record
    source = event.get("source")
    if isinstance(source, Mapping) and "op" in event and {"before", "after"} & {*event}:
        connector = str(source.get("connector", ""))
        parts = [
            source.get("db") if connector in _WITH_DATABASE else None,
            source.get("schema"),
            source.get("table", source.get("collection")),
        ]
        return (_envelope(".".join(str(each) for each in parts if each), connector),)
    if {"database", "table", "type", "data", "ts"} <= {*record} and {"xid", "position"} & {*record}:
        return (_envelope(f"{record['database']}.{record['table']}", "mysql"), "reads=Maxwell()")
    return None


def _envelope(table: str, connector: str) -> str:
    return f"envelope=Debezium(table={table!r}, connector={connector!r})"
