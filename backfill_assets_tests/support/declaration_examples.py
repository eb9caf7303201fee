"""An example of every parameter of every declaration: arguments, as an author writes them beside those that are right.

They are in the reference of declarations (`declarations_page`), and a test declares each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backfill_assets import domain as declarations
from backfill_assets_tests.support.declarations_tried import DECLARED

_SCHEMA = 'StructType([StructField("event_id", StringType(), nullable=False), StructField("at", TimestampType())])'
_KAFKA = {
    "servers": 'servers="broker-1:9092,broker-2:9092"',
    "answers_within": "answers_within=timedelta(minutes=1)",
    "settings": 'settings={"security.protocol": "SASL_SSL"}',
    "secrets": 'secrets={"sasl.password": "KAFKA_PASSWORD"}',
}
_KINESIS = {
    "region": 'region="eu-west-1"',
    "endpoint": 'endpoint="https://kinesis.eu-west-1.amazonaws.com"',
    "answers_within": "answers_within=timedelta(minutes=1)",
    "secrets": 'secrets={"aws_access_key_id": "KINESIS_KEY_ID", "aws_secret_access_key": "KINESIS_KEY"}',
}
_BLOCKING = {"blocking": "blocking=False"}

EXAMPLES: Mapping[str, Mapping[str, str]] = {
    "SourceTable": {
        "name": 'name="bronze.events"',
        "key": 'key=("event_id",)',
        "event_time": 'event_time="at"',
        "partition": 'partition=daily("event_date")',
        "schema": f"schema={_SCHEMA}",
        "json_columns": 'json_columns=("payload",)',
        "rounds": "rounds=True",
        "timezone": 'timezone="Europe/Amsterdam"',
        "reads": 'reads=Json(records="features")',
        "columns": 'columns={"ID": "event_id", "properties.time": "at", ("amount", 2): "amount"}',
        "earlier_columns": (
            f'earlier_columns={{1: {{"Id": "event_id"}}}}, columns={{"ID": "event_id"}}, earlier={{1: {_SCHEMA}}}, '
            'lift={1: lifts(defaults={"channel": "shop"})}, schema=WITH_CHANNEL'
        ),
        "formats": """formats={"at": ("M/d/yyyy HH:mm 'UTC'", Epoch("ms"))}""",
        "ahead": "ahead=seconds(60)",
        "planned": "planned=True",
        "repeated_hour": 'repeated_hour="first", timezone="Europe/Amsterdam"',
        "bounds": 'bounds={"valid_until": {"infinity": "9999-12-31"}}',
        "row_number": 'row_number=True, key=("file_name", "row_number")',
        "plausible_gap_days": "plausible_gap_days=7",
        "lateness": "lateness=days(3)",
        "order": 'order=("lsn",)',
        "ties": 'ties="arrival", order=("lsn",)',
        "unknown": 'unknown="keep"',
        "operation": 'operation=Operations(column="op", create="c", update="u", delete="d"), order=("lsn",)',
        "most_withdrawn_percent": "most_withdrawn_percent=5",
        "capture": 'capture=KafkaTopic(servers="broker:9092", topic="events")',
        "drop": (
            'drop=SftpFolder(host="sftp.example.org", user="events", folder="/out", '
            'secrets={"key": "EVENTS_KEY"}, '
            'host_key="ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHMwCHH0TBaOfJSd4sdQ5gwsm7j/UwAXxaJnI06ctNuO")'
        ),
        "upstream": 'upstream=("raw", "events")',
        "envelope": (
            'envelope=Debezium(table="public.events"), order=ORDER, '
            "operation=DEBEZIUM_OPERATIONS, schema=StructType([*COLUMNS, *DEBEZIUM_COLUMNS])"
        ),
        "replay": 'replay=KafkaReplay(servers="broker:9092")',
        "description": 'description="What was done, as the cash desks report it."',
        "policy": 'policy=Policy(backfill="approve", approvers=("finance",))',
        "gates": 'gates=(not_null("amount"),)',
        "earlier": f'earlier={{1: {_SCHEMA}}}, lift={{1: lifts(defaults={{"channel": "shop"}})}}, schema=WITH_CHANNEL',
        "lift": f'lift={{1: lifts(defaults={{"channel": "shop"}})}}, earlier={{1: {_SCHEMA}}}, schema=WITH_CHANNEL',
    },
    "derived_table": {
        "name": 'name="silver.daily"',
        "inputs": 'inputs={"events": reads(events, days_back=1)}',
        "key": 'key=("day", "state")',
        "partition": 'partition=daily("day")',
        "schema": 'schema=StructType([StructField("day", DateType()), StructField("state", StringType())])',
        "version": 'version="1.1.0"',
        "transform": 'transform="daily-sums"',
        "window": "window=Window(days_back=6)",
        "references": 'references=("calendar",)',
        "reference_window": 'reference_window=Window(days_back=31), references=("calendar",)',
        "gates": 'gates=(not_null("state"), row_count(at_least=1))',
        "policy": 'policy=Policy(approvers=("finance",))',
        "breakdown": 'breakdown=Breakdown(by=("state",), measures={"open": "state = \'OPEN\'"})',
        "publish": "publish=append()",
        "lineage": 'lineage="full"',
        "replay": 'replay=KafkaReplay(servers="broker:9092")',
        "phases": "phases=phases(hold_hours=24)",
        "tolerance": 'tolerance=tolerance("rows", percent="0.5%", owner="finance"), breakdown=Breakdown()',
        "undetermined": 'undetermined={"first as state": "all events of a case have one state"}',
        "earlier": 'earlier={"0.9.0": earlier_function}',
        "notes": 'notes="Weeks begin on Monday, as the contract says."',
    },
    "Domain": {
        "name": 'name="my_shop"',
        "package": 'package="backfill_assets_tests"',
        "sources": "sources=(events,), derived=()",
        "derived": "derived=()",
        "references": 'references=(Reference(name="calendar", parse=parsed),)',
    },
    "Reference": {
        "name": 'name="calendar"',
        "parse": "parse=parsed",
        "changed_days": "changed_days=lambda before, now: None",
    },
    "Policy": {
        "live": 'live="approve"',
        "backfill": 'backfill="auto"',
        "follow": 'follow="approve"',
        "approvers": 'approvers=("finance",)',
    },
    "Window": {"days_back": "days_back=6", "days_ahead": "days_ahead=1"},
    "Months": {"back": "back=2", "ahead": "ahead=1"},
    "RetentionRule": {"days": "days=90", "then": 'then="quarter"'},
    "phases": {"count": "count=4", "hold_hours": "hold_hours=24", "each": "each=True"},
    "tolerance": {
        "measure": 'measure="rows"',
        "by": 'by=("state",)',
        "percent": 'percent="0.5%"',
        "at_least": "at_least=10",
        "owner": 'owner="finance"',
    },
    "Breakdown": {
        "by": 'by=("state",)',
        "measures": 'measures={"open": "state = \'OPEN\'", "count": "count"}',
        "rank_rows_by": 'rank_rows_by="count", measures={"count": "count"}',
    },
    "unique_key": {**_BLOCKING, "name": 'name="one_row_a_day"'},
    "not_null": {"column": 'column="state"', **_BLOCKING, "name": 'name="state_is_known"'},
    "accepted": {
        "column": 'column="state"',
        "values": 'values=("OPEN", "CLOSED")',
        **_BLOCKING,
        "name": 'name="known_states"',
    },
    "expression": {"name": 'name="never_negative"', "condition": 'condition="count >= 0"', **_BLOCKING},
    "row_count": {
        "at_least": "at_least=1",
        "at_most": "at_most=100_000",
        **_BLOCKING,
        "name": 'name="some_rows"',
    },
    "compared": {
        "max_removed_percent": "max_removed_percent=1",
        "max_changed_percent": "max_changed_percent=20",
        **_BLOCKING,
        "name": 'name="few_changes"',
    },
    "moved": {
        "measure": 'measure="rows"',
        "by": 'by=("state",)',
        "percent": "percent=5",
        "at_least": "at_least=100",
        "name": 'name="rows_moved"',
    },
    "references": {
        "column": 'column="event_id"',
        "to": "to=reads(events, days_back=30)",
        "key": 'key="event_id"',
        "nulls": "nulls=False",
        "optional": "optional=True",
        **_BLOCKING,
        "name": 'name="events_are_known"',
    },
    "complete": {
        "of": 'of="events"',
        "key": 'key=("event_id",)',
        "where": "where=\"event_id <> 'test'\"",
        "on": 'on="to_date(at)"',
        "references": "references=()",
        "undetermined": "undetermined={}",
        **_BLOCKING,
        "name": 'name="none_lost"',
    },
    "usual": {
        "measure": "measure=rows()",
        "by": 'by=("state",)',
        "against": "against=days(56)",
        "same": "same=None",
        "most": "most=6.0",
        "then": 'then="block"',
        "at_least": "at_least=100",
        "fewest": "fewest=8",
        "name": 'name="rows_as_usual"',
    },
    "rows": {},
    "weeks": {"count": "count=6"},
    "months": {"count": "count=6"},
    "joins_once": {
        "of": 'of="events"',
        "on": 'on=("event_id",)',
        "where": "where=\"event_id <> 'test'\"",
        **_BLOCKING,
        "name": 'name="once"',
    },
    "reconciles": {
        "total": 'total="count"',
        "of": 'of="events"',
        "with_": 'with_="1"',
        "by": 'by=("event_id",)',
        "where": "where=\"event_id <> 'test'\"",
        "on": 'on="to_date(at)"',
        "within": "within=2",
        **_BLOCKING,
        "name": 'name="as_counted"',
    },
    "monotonic": {
        "column": 'column="count"',
        "over": 'over="day"',
        "by": 'by=("state",)',
        "around": "around=Window(days_back=7, days_ahead=1)",
        **_BLOCKING,
        "name": 'name="never_falls"',
    },
    "golden": {
        "reference": 'reference="known_rows"',
        **_BLOCKING,
        "name": 'name="as_known"',
    },
    "totals": {
        "reference": 'reference="control_totals"',
        "by": 'by=("day",)',
        "sums": 'sums=("count",)',
        "within": 'within="0.01"',
        "every_partition": "every_partition=False",
        **_BLOCKING,
        "name": 'name="as_delivered"',
    },
    "failing": {
        "name": 'name="none_negative"',
        "rows": 'rows=lambda candidate: candidate.where("count < 0")',
        "sql": 'sql="SELECT * FROM candidate WHERE count < 0"',
        "reads": "reads={'events_before': reads(events, days_back=1)}, "
        'sql="SELECT * FROM candidate LEFT ANTI JOIN events_before USING (day)"',
        "optional": "optional=('events_before',), reads={'events_before': reads(events, days_back=1)}, "
        'sql="SELECT * FROM candidate LEFT ANTI JOIN events_before USING (day)"',
        "around": 'around=Window(days_back=1), sql="SELECT * FROM candidate LEFT ANTI JOIN around USING (state)"',
        "references": 'references=("calendar",)',
        "undetermined": 'undetermined={"first as found": "all orders of a day are of one country"}',
        **_BLOCKING,
        "demands": 'demands="no count is negative"',
    },
    "warm_up_proof": {"partitions": "partitions=10", "extra_days": "extra_days=14", **_BLOCKING},
    "reads": {
        "table": "table=events",
        "window": "window=Window(days_back=6)",
        "days_back": "days_back=6",
        "days_ahead": "days_ahead=1",
        "changes": "changes=True, table=changes",
    },
    "reads_self": {
        "since": "since=date(2024, 10, 1)",
        "every": "every=7, since=date(2024, 10, 1)",
        "keep": 'keep=RetentionRule(days=90, then="month")',
    },
    "daily": {"column": 'column="day"'},
    "monthly": {"column": 'column="day"'},
    "days": {"count": "count=3"},
    "seconds": {"count": "count=60"},
    "Epoch": {"unit": 'unit="ms"'},
    "lifts": {
        "function": 'function=lambda record: {"more": record["event_id"].cast("bigint")}',
        "renamed": "renamed={}",
        "defaults": 'defaults={"more": 0}',
        "dropped": "dropped=()",
        "keeps_values": 'keeps_values=True, function=lambda record: {"more": record["event_id"].cast("bigint")}',
    },
    "merge": {
        "on": 'on=("name",)',
        "deletes": 'deletes="is_gone"',
        "version": 'version="number"',
        "older": 'older="ignore", version="number"',
        "keeps_withdrawn": "keeps_withdrawn=True",
    },
    "versioned": {
        "of": 'of="silver.daily"',
        "differs": 'differs=("count",)',
        "explained": "explained=\"state = 'LATE'\"",
        "clean_days": "clean_days=7",
    },
    "Operations": {
        "column": 'column="op"',
        "create": 'create="c"',
        "update": 'update="u"',
        "delete": 'delete="d"',
        "snapshot": 'snapshot="r"',
        "truncate": 'truncate="t"',
        "at": 'at="at"',
    },
    "Debezium": {
        "table": 'table="public.events"',
        "tables": 'tables="public.events_*", table=""',
        "connector": 'connector="postgresql"',
        "unavailable": 'unavailable="__not_sent"',
    },
    "KafkaTopic": {
        **_KAFKA,
        "topic": 'topic="events"',
        "lateness": "lateness=timedelta(hours=2)",
        "chunk": "chunk=500_000",
        "key_format": 'key_format="json"',
        "values": 'values=SchemaRegistry(url="https://registry:8081")',
        "topic_id": 'topic_id="bq3gX0p0Q1mVQ3nV4Jq0Ww"',
    },
    "KafkaReplay": {
        **_KAFKA,
        "partitions": "partitions=12",
        "key_format": 'key_format="text"',
        "live_topics": 'live_topics=("events-corrected",)',
    },
    "KinesisStream": {
        **_KINESIS,
        "stream": 'stream="events"',
        "lateness": "lateness=timedelta(hours=2)",
        "chunk": "chunk=timedelta(minutes=30)",
        "creation": 'creation="2026-01-31T10:00:00+00:00"',
    },
    "KinesisReplay": {
        **_KINESIS,
        "shards": "shards=4",
        "key_format": 'key_format="text"',
        "retention": "retention=timedelta(days=1)",
    },
    "LakeTable": {
        "url": 'url="s3://lake/raw/events"',
        "version": "version=41",
        "chunk": "chunk=250_000",
        "options": 'options={"AWS_REGION": "eu-west-1"}',
        "secrets": 'secrets={"AWS_SECRET_ACCESS_KEY": "LAKE_KEY"}',
    },
    "SftpFolder": {
        "host": 'host="sftp.example.org"',
        "user": 'user="events"',
        "folder": 'folder="/out/events"',
        "host_key": 'host_key="ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHMwCHH0TBaOfJSd4sdQ5gwsm7j/UwAXxaJnI06ctNuO"',
        "secrets": 'secrets={"key": "EVENTS_SFTP_KEY", "key_password": "EVENTS_SFTP_KEY_PASSWORD"}',
        "pattern": 'pattern="events_*.csv.gz"',
        "port": "port=2222",
    },
    "IcebergTable": {
        "table": 'table="sales.events", catalog={"type": "rest", "uri": "https://catalog:8181"}',
        "catalog": 'catalog={"type": "rest", "uri": "https://catalog:8181"}, table="sales.events"',
        "snapshot": "snapshot=5937117119577207000",
        "chunk": "chunk=250_000",
        "secrets": 'secrets={"token": "CATALOG_TOKEN"}',
    },
    "PostgresTable": {
        "table": 'table="public.events"',
        "database": 'database="shop"',
        "host": 'host="db.internal"',
        "user": 'user="capture"',
        "slot": 'slot="backfill_events"',
        "port": "port=6432",
        "publication": 'publication="for_backfill"',
        "chunk": "chunk=16 << 20",
        "answers_within": "answers_within=timedelta(minutes=1)",
        "settings": 'settings={"sslmode": "verify-full"}',
        "secrets": 'secrets={"password": "SHOP_PASSWORD"}',
    },
    "HttpApi": {
        "url": 'url="https://shop.example.org/v1/events"',
        "records": 'records="result.items"',
        "pages": 'pages=PageNumber(parameter="page")',
        "window": 'window=TimeWindow(start="from", end="until", of="at")',
        "parameters": 'parameters={"per_page": "500"}',
        "headers": 'headers={"Accept-Language": "en"}',
        "method": 'method="POST"',
        "body": 'body={"query": {"kind": "sale"}}, method="POST"',
        "empty": "empty=(404, 204)",
        "errors": 'errors=("result.failure",)',
        "secret_parameters": 'secret_parameters={"key": "SHOP_KEY"}',
        "secret_headers": 'secret_headers={"Authorization": "SHOP_TOKEN"}',
        "basic": 'basic=Basic(user="reader", secrets={"password": "SHOP_PASSWORD"})',
        "token": 'token=Token(url="https://shop.example.org/token", secrets={"client_secret": "SHOP_SECRET"})',
        "requests_per_minute": "requests_per_minute=60",
        "attempts": "attempts=3",
        "answers_within": "answers_within=timedelta(minutes=2)",
        "waits_at_most": "waits_at_most=timedelta(minutes=15)",
    },
    "Cursor": {
        "parameter": 'parameter="cursor"',
        "next": 'next=InHeader("X-Next-Cursor")',
        "more": 'more="meta.has_more"',
        "end": 'end=("0",)',
        "ends_empty": "ends_empty=True",
        "first": 'first="*"',
    },
    "PageNumber": {
        "parameter": 'parameter="page"',
        "first": "first=0",
        "total": 'total="meta.total_pages"',
        "more": 'more="meta.has_more"',
    },
    "Offset": {
        "parameter": 'parameter="offset"',
        "limit": 'limit="limit", size=100',
        "size": 'size=100, limit="limit"',
        "first": "first=1",
        "total": 'total=InHeader("X-Total-Count")',
        "more": 'more="meta.has_more"',
    },
    "IdRange": {
        "after": 'after="after"',
        "member": 'member="id"',
        "first": 'first="0"',
        "tie": 'tie="number", tie_after="after_number"',
        "tie_after": 'tie_after="after_number", tie="number"',
        "inclusive": "inclusive=True",
    },
    "NextUrl": {"next": 'next="@odata.nextLink"', "origins": 'origins=("https://eu.example.org",)'},
    "LinkHeader": {"rel": 'rel="next"', "origins": 'origins=("https://eu.example.org",)'},
    "InBody": {"path": 'path="variables.after"'},
    "InHeader": {"name": 'name="X-Page"'},
    "TimeWindow": {
        "start": 'start="from"',
        "end": 'end="until"',
        "of": 'of="at"',
        "step": "step=timedelta(hours=1)",
        "form": 'form="day"',
        "settles_after": "settles_after=timedelta(hours=2)",
        "overlap": "overlap=timedelta(minutes=5)",
        "both": 'both="at ge {start} and at lt {end}", start="$filter", end=""',
    },
    "Basic": {"secrets": 'secrets={"user": "SHOP_KEY"}, user=""', "user": 'user="reader"'},
    "Token": {
        "url": 'url="https://shop.example.org/token"',
        "secrets": 'secrets={"client_secret": "SHOP_SECRET"}',
        "form": 'form={"grant_type": "client_credentials", "scope": "sales.read"}',
        "member": 'member="data.token"',
        "expires": 'expires="data.expires_in"',
        "client_in_header": 'client_in_header=True, secrets={"client_id": "SHOP_ID", "client_secret": "SHOP_SECRET"}',
        "as_json": "as_json=True",
        "header": 'header="X-Session-Token"',
        "scheme": 'scheme="Token"',
    },
    "SchemaRegistry": {
        "url": 'url="https://registry:8081"',
        "secrets": 'secrets={"token": "REGISTRY_TOKEN"}',
        "answers_within": "answers_within=timedelta(minutes=1)",
        "versions": "versions={}",
    },
    "SchemaFolder": {"path": 'path=Path("/etc/schemas")', "versions": "versions={}"},
}
"""By declaration and parameter."""


def named() -> dict[str, Any]:
    """The names that examples use: what an author imports, and a source, its columns and functions."""
    from datetime import date, timedelta
    from pathlib import Path

    from pyspark.sql import types

    from backfill_assets.capture.debezium import ORDERS, POSTGRESQL
    from backfill_assets_tests.support.declarations_tried import EVENT_COLUMNS, parsed
    from backfill_assets_tests.support.declared import FEED, same_arguments, source

    of_spark = {name: getattr(types, name) for name in types.__all__}
    of_domain = {name: getattr(declarations, name) for name in declarations.__all__}
    operations = declarations.Operations(column="op", create="c")
    with_channel = types.StructType(
        [
            types.StructField("event_id", types.StringType(), nullable=False),
            types.StructField("at", types.TimestampType()),
            types.StructField("channel", types.StringType()),
        ]
    )
    return {
        **of_spark,
        **of_domain,
        **{"date": date, "timedelta": timedelta, "Path": Path, "parsed": parsed, "earlier_function": same_arguments},
        **{"events": source(), "COLUMNS": EVENT_COLUMNS, "ORDER": ORDERS[POSTGRESQL], "WITH_CHANNEL": with_channel},
        "changes": source(schema=FEED, order=("lsn",), operation=operations),
    }


def declare(name: str, parameter: str) -> object:
    """Declares what an example says, with right arguments besides, in a domain.

    Raises:
        InvalidDeclaration: The example is wrong.
    """
    given = eval(f"dict({EXAMPLES[name][parameter]})", named())
    return DECLARED[name][0](**given)
