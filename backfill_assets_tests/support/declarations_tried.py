"""Every declaration of a domain, in a domain that is right: what tests change one argument of, and the examples of the
reference of declarations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType, TimestampType

from backfill_assets.capture.debezium import ORDERS, POSTGRESQL
from backfill_assets.capture.postgres.declaration import ORDER as ORDER_OF_A_TABLE
from backfill_assets.domain import (
    DEBEZIUM_COLUMNS,
    DEBEZIUM_OPERATIONS,
    POSTGRES_COLUMNS,
    POSTGRES_OPERATIONS,
    Basic,
    Breakdown,
    Cursor,
    Debezium,
    DerivedTable,
    Domain,
    Epoch,
    Failing,
    HttpApi,
    IcebergTable,
    IdRange,
    InBody,
    InHeader,
    KafkaReplay,
    KafkaTopic,
    KinesisReplay,
    KinesisStream,
    LakeTable,
    LinkHeader,
    Months,
    NextUrl,
    Offset,
    Operations,
    PageNumber,
    Policy,
    PostgresTable,
    Reference,
    RetentionRule,
    SchemaFolder,
    SchemaRegistry,
    SftpFolder,
    SourceTable,
    TimeWindow,
    Token,
    Window,
    accepted,
    compared,
    complete,
    daily,
    days,
    derived_table,
    expression,
    failing,
    golden,
    joins_once,
    known_rows,
    lifts,
    merge,
    monotonic,
    monthly,
    months,
    moved,
    not_null,
    phases,
    reads,
    reads_self,
    reconciles,
    references,
    row_count,
    rows,
    seconds,
    tolerance,
    totals,
    unique_key,
    usual,
    versioned,
    warm_up_proof,
    weeks,
)
from backfill_assets.domain.domain import check_expressions
from backfill_assets_tests.support.declared import DAILY, EVENTS, derived, domain, same_arguments, source

EVENT_COLUMNS = (
    StructField("event_id", StringType(), nullable=False),
    StructField("at", TimestampType(), nullable=False),
    StructField("payload", StringType()),
    StructField("valid_until", DateType()),
    StructField("amount", LongType()),
)
"""The columns of a source that has some of every kind."""

_OF_A_FEED = (
    StructField("file_name", StringType(), nullable=False),
    StructField("row_number", LongType(), nullable=False),
    StructField("lsn", LongType(), nullable=False),
    StructField("op", StringType(), nullable=False),
)


def use_source(**changed: Any) -> object:
    return domain(sources=(source(**{"schema": StructType([*EVENT_COLUMNS, *_OF_A_FEED]), **changed}),))


def use_table(**changed: Any) -> object:
    events = _read_by(changed)
    given = {"breakdown": Breakdown(by=("state",)), **changed}
    table = derived(events, **given)
    whole = whole_of(table, events)
    check_expressions(whole)
    return whole


def parsed(document: object) -> Any:
    return document


CALENDAR = Reference(name="calendar", parse=parsed)


def whole_of(table: DerivedTable, events: SourceTable) -> Domain:
    return replace(domain(sources=(events,)), derived=(table,), references=(CALENDAR,))


def lifted(given: object) -> object:
    wider = StructType([*EVENTS.fields, StructField("more", LongType())])
    return use_source(schema=wider, earlier={1: EVENTS}, lift={1: given})


def merged(mode: Any) -> object:
    return use_table(schema=MERGED, key=("name",), publish=mode, breakdown=None)


MERGED = StructType(
    [
        StructField("day", DateType(), nullable=False),
        StructField("name", StringType(), nullable=False),
        StructField("number", LongType(), nullable=False),
    ]
)


def version_of(mode: Any) -> object:
    events = source()
    other = replace(derived(events), name="silver.other", publish=mode)
    return domain(derived(events), other, sources=(events,))


def captured(capture: object) -> object:
    return use_source(capture=capture)


API = "https://example.org/events"
HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHMwCHH0TBaOfJSd4sdQ5gwsm7j/UwAXxaJnI06ctNuO"


def paged(pages: Any) -> object:
    return captured(HttpApi(url=API, pages=pages))


def operated(given: Any) -> object:
    schema = StructType([*EVENTS.fields, StructField("lsn", LongType(), False), StructField("op", StringType(), False)])
    return use_source(schema=schema, order=("lsn",), operation=given)


def _read_by(changed: Mapping[str, Any]) -> SourceTable:
    """What the inputs of a table name, if these name one source."""
    read = next(iter(changed["inputs"].values()), None) if isinstance(changed.get("inputs"), Mapping) else None
    found = getattr(read, "table", read)
    return found if isinstance(found, SourceTable) else source()


def derived_by(**changed: Any) -> object:
    events = _read_by(changed)
    named = {"name": "silver.daily", "inputs": {"events": events}, "key": ("day",), "partition": daily("day")}
    table = derived_table(**{**named, "schema": DAILY, "version": "1.0.0", **changed})(same_arguments)
    return whole_of(table, events)


def within(use: Callable[[Any], object], make: Callable[..., Any], **usual: Any) -> tuple[Callable[..., object], Any]:
    return (lambda **changed: use(make(**{**usual, **changed}))), make


def gate(make: Callable[..., Any], **usual: Any) -> tuple[Callable[..., object], Any]:
    return within(lambda gate: use_table(gates=(gate,)), make, **usual)


def over_events(gate: Any) -> object:
    schema = StructType([*DAILY.fields, StructField("event_id", StringType())])
    return use_table(
        schema=schema, gates=(gate,), **({"inputs": {"events": gate.reads[0].table}} if gate.reads else {})
    )


def by_reference(gate: Any) -> object:
    events = source()
    references = tuple(Reference(name=name, parse=known_rows) for name in ("known_rows", "control_totals"))
    found = replace(domain(sources=(events,)), derived=(derived(events, gates=(gate,)),), references=references)
    check_expressions(found)
    return found


def failing_by(**changed: Any) -> object:
    made = failing(**{"name": "some", **changed})
    gate = made if isinstance(made, Failing) else made(no_rows)
    return use_table(gates=(gate,), **({"inputs": {"events": gate.reads[0].table}} if gate.reads else {}))


def no_rows(candidate: Any, ctx: Any) -> Any:
    return candidate.limit(0)


def of_domain(**changed: Any) -> object:
    events = source()
    usual = {"name": "example", "package": "backfill_assets_tests", "sources": (events,), "derived": (derived(events),)}
    made = Domain(**{**usual, **changed})
    check_expressions(made)
    return made


DECLARED: Mapping[str, tuple[Callable[..., object], Any]] = {
    "SourceTable": (use_source, SourceTable),
    "derived_table": (derived_by, derived_table),
    "Domain": (of_domain, Domain),
    "Reference": within(lambda each: of_domain(references=(each,)), Reference, name="calendar", parse=parsed),
    "Policy": within(lambda each: use_table(policy=each), Policy),
    "Window": within(lambda each: use_table(window=each), Window),
    "Months": within(lambda each: use_table(window=each, partition=monthly("day")), Months),
    "RetentionRule": within(lambda each: reads_self(keep=each), RetentionRule, days=30),
    "phases": within(lambda each: use_table(phases=each), phases),
    "tolerance": within(lambda each: use_table(tolerance=each), tolerance, measure="rows", percent=1, owner="finance"),
    "Breakdown": within(lambda each: use_table(breakdown=each), Breakdown),
    "unique_key": gate(unique_key),
    "not_null": gate(not_null, column="state"),
    "accepted": gate(accepted, column="state", values=("OPEN",)),
    "expression": gate(expression, name="some", condition="count > 0"),
    "row_count": gate(row_count),
    "compared": gate(compared),
    "moved": gate(moved, measure="rows", percent=1),
    "warm_up_proof": gate(warm_up_proof),
    "references": within(over_events, references, column="event_id", to=source()),
    "complete": within(over_events, complete, of="events", key="event_id"),
    "usual": gate(usual, measure="rows"),
    "rows": (lambda **_: use_table(gates=(usual(rows()),)), rows),
    "weeks": within(lambda each: use_table(gates=(usual("rows", against=each),)), weeks, count=8),
    "months": within(lambda each: use_table(gates=(usual("rows", against=each),)), months, count=12),
    "joins_once": within(over_events, joins_once, of="events", on="event_id"),
    "reconciles": within(over_events, reconciles, total="count", of="events", with_="1"),
    "monotonic": gate(monotonic, column="count"),
    "golden": within(by_reference, golden, reference="known_rows"),
    "totals": within(by_reference, totals, reference="control_totals"),
    "failing": (failing_by, failing),
    "reads": within(lambda each: use_table(inputs={"events": each}), reads, table=source()),
    "reads_self": within(
        lambda each: derived_table(
            name="silver.daily",
            inputs={"state": each, "events": source()},
            key=("day",),
            partition=daily("day"),
            schema=DAILY,
            version="1.0.0",
        )(lambda state, events, ctx: state),
        reads_self,
    ),
    "daily": within(lambda each: use_table(partition=each), daily, column="day"),
    "monthly": within(lambda each: use_table(partition=each), monthly, column="day"),
    "days": within(lambda each: use_source(lateness=each), days, count=3),
    "Epoch": within(lambda each: use_source(formats={"at": each}), Epoch, unit="ms"),
    "seconds": within(lambda each: use_source(ahead=each), seconds, count=60),
    "lifts": within(lifted, lifts),
    "merge": within(merged, merge, on=("name",)),
    "versioned": within(version_of, versioned, of="silver.daily"),
    "Operations": within(operated, Operations, column="op", create="c"),
    "Debezium": within(
        lambda each: use_source(
            envelope=each,
            schema=StructType([*EVENT_COLUMNS, *DEBEZIUM_COLUMNS]),
            order=ORDERS[POSTGRESQL],
            operation=DEBEZIUM_OPERATIONS,
        ),
        Debezium,
        table="public.events",
    ),
    "KafkaTopic": within(captured, KafkaTopic, servers="broker:9092", topic="events"),
    "KinesisStream": within(captured, KinesisStream, stream="events", region="eu-west-1"),
    "LakeTable": within(captured, LakeTable, url="/lake/events"),
    "IcebergTable": within(captured, IcebergTable, table="/lake/events/metadata/v1.metadata.json"),
    "PostgresTable": within(
        lambda each: use_source(
            capture=each,
            schema=StructType([*EVENT_COLUMNS, *POSTGRES_COLUMNS]),
            order=ORDER_OF_A_TABLE,
            operation=POSTGRES_OPERATIONS,
        ),
        PostgresTable,
        **{"table": "public.events", "database": "shop", "host": "db", "user": "capture", "slot": "slot"},
    ),
    "SftpFolder": within(
        lambda each: use_source(drop=each),
        SftpFolder,
        **{"host": "sftp.example.org", "user": "events", "folder": "/out", "host_key": HOST_KEY},
        secrets={"password": "EVENTS_SFTP_PASSWORD"},
    ),
    "HttpApi": within(captured, HttpApi, url=API),
    "Cursor": within(paged, Cursor, parameter="cursor", next="next"),
    "PageNumber": within(paged, PageNumber, parameter="page"),
    "Offset": within(paged, Offset, parameter="offset"),
    "IdRange": within(paged, IdRange, after="after", member="id"),
    "NextUrl": within(paged, NextUrl, next="links.next"),
    "LinkHeader": within(paged, LinkHeader),
    "InBody": within(
        lambda each: captured(HttpApi(url=API, method="POST", pages=PageNumber(parameter=each))), InBody, path="page"
    ),
    "InHeader": within(lambda each: paged(PageNumber(parameter=each)), InHeader, name="X-Page"),
    "TimeWindow": within(
        lambda each: captured(HttpApi(url=API, window=each)), TimeWindow, start="from", end="until", of="at"
    ),
    "Basic": within(
        lambda each: captured(HttpApi(url=API, basic=each)), Basic, user="reader", secrets={"password": "API_PASSWORD"}
    ),
    "Token": within(
        lambda each: captured(HttpApi(url=API, token=each)), Token, url=API, secrets={"client_secret": "API_SECRET"}
    ),
    "SchemaRegistry": within(
        lambda each: captured(KafkaTopic(servers="b:9092", topic="events", values=each)), SchemaRegistry, url=API
    ),
    "SchemaFolder": within(
        lambda each: captured(KafkaTopic(servers="b:9092", topic="events", values=each)),
        SchemaFolder,
        path=Path("/etc/schemas"),
    ),
    "KafkaReplay": within(lambda each: use_source(replay=each), KafkaReplay, servers="broker:9092"),
    "KinesisReplay": within(lambda each: use_source(replay=each), KinesisReplay, region="eu-west-1"),
}
