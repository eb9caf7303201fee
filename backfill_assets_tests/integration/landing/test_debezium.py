"""Change events of Debezium in files: bronze is the table that they are of, as it was recorded beside them."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import DecimalType, StringType, StructField, StructType

from backfill_assets.capture.errors import BadFile
from backfill_assets.core.settings import Settings
from backfill_assets.domain import DEBEZIUM_COLUMNS
from backfill_assets_tests.support.debezium import (
    COLUMNS,
    DAYS,
    ORDERS,
    RECORDED,
    as_landed,
    held,
    orders,
    recording,
    states,
)
from backfill_assets_tests.support.debezium.record import NoDebezium, record
from backfill_assets_tests.support.landing_examples import LandingRoom, landing_room, reasons
from backfill_assets_tests.support.postgres_server import NoPostgres
from backfill_assets_tests.support.shop import ticking_clock

AFTERWARDS = datetime(2027, 1, 15, 12, tzinfo=UTC)
LEFT = "update of 3 that leaves its long note"
DECIMAL = "org.apache.kafka.connect.data.Decimal"
LEFT_OUT: Sequence[Any] = (
    ["__debezium_unavailable_value"],
    ["X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="],
    list(b"__debezium_unavailable_value"),
    ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"],
    {"__debezium_unavailable_value": "__debezium_unavailable_value"},
    "5f5f646562657a69756d5f756e617661696c61626c655f76616c7565",
)
"""What stands for an array of texts, of bytes, of numbers and of UUIDs, for an hstore, and for bytes as digits."""


@pytest.fixture
def room(spark: SparkSession, settings: Settings) -> Iterator[LandingRoom]:
    with landing_room(spark, settings, ticking_clock(AFTERWARDS), orders) as room:
        yield room


def events(name: str, start: int = 0, end: int | None = None, folder: Path = RECORDED) -> bytes:
    """Events of a recording as the lines of a file, which has no tombstones."""
    return b"".join(f"{value}\n".encode() for _, value in recording(name, folder)[start:end] if value is not None)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What Debezium writes now, of a PostgreSQL that runs meanwhile, and what its table holds."""
    folder = tmp_path_factory.mktemp("debezium") / "live"
    try:
        record(folder)
    except (NoDebezium, NoPostgres) as reason:
        pytest.skip(f"A LIVE RUN OF DEBEZIUM IS NOT TESTED: {reason}")
    return folder


@pytest.mark.long
@pytest.mark.parametrize(
    ("form", "columns"),
    [
        pytest.param("plain", COLUMNS, id="plain"),
        pytest.param("wrapped", ("order_id", "ordered_at", "amount", "placed", "weight", "note"), id="wrapped"),
    ],
)
def test_current_rows_are_those_of_the_table(room: LandingRoom, form: str, columns: Sequence[str]) -> None:
    require_current_rows(room, form, RECORDED, columns)


@pytest.mark.long
@pytest.mark.parametrize("form", ["plain", "wrapped"])
def test_current_rows_are_those_of_the_table_of_an_engine_that_runs(room: LandingRoom, live: Path, form: str) -> None:
    require_current_rows(room, form, live, COLUMNS)


def require_current_rows(room: LandingRoom, form: str, folder: Path, columns: Sequence[str]) -> None:
    """Lands the events of a folder in three files, and compares columns of the table."""
    room = narrow(room, *columns)

    def events_of(start: int, end: int | None = None) -> bytes:
        return events(form, start, end, folder)

    def found() -> dict[int, Any]:
        return dict(held(room.bronze(DAYS), columns))

    at = {state.after: state for state in states(folder)}
    before_it, added, end = at["two transactions that overlap"], at["a column is added"], list(at.values())[-1]
    landed = room.land(events_of(0, before_it.records), "1.jsonl").record
    assert landed.counts.rejected == 0  # with the NaN of a row that was changed again later
    assert found() == as_landed(before_it.rows, columns)

    landed = room.land(events_of(before_it.records, added.records), "2.jsonl").record
    # The connector was not told what the note is: such a row would have another one.
    assert [each["reason"] for each in room.quarantined[landed.import_id]] == [
        "note was left as it was, and the event does not have its value"
    ]
    there, expected = found(), as_landed(added.rows, columns)
    assert there.pop(3)["amount"] != expected.pop(3)["amount"]
    assert there == expected

    landed = room.land(events_of(added.records), "3.jsonl").record
    assert landed.counts.rejected == 0
    # What a connector that was restarted sends once more changes nothing.
    again = room.land(events_of(0, before_it.records) + b"\n", "4.jsonl").record
    assert (again.counts.accepted, found()) == (0, as_landed(end.rows, columns))


def changed(**changes: Any) -> Mapping[str, Any]:
    """The first event of the feed, with other members."""
    found: dict[str, Any] = json.loads(recording("plain")[3][1] or "")
    found["after"]["ordered_at"] = "2025-07-05T08:00:00.123456Z"
    return {**found, **changes}


def with_its_schema(name: str, kind: str, scale: str | None, written: Any, *, is_array: bool = False) -> bytes:
    """The line of an event that has key, event time and one more column, whose schema it says, or that of its items."""
    event = changed()
    row = {**{each: event["after"][each] for each in ("order_id", "ordered_at")}, name: written}
    said = {"name": kind, "parameters": {"scale": scale} if scale else None}
    column = {"field": name, **({"type": "array", "items": said} if is_array else said)}
    line = {"schema": {"fields": [{"field": "after", "fields": [column]}]}, "payload": {**event, "after": row}}
    return f"{json.dumps(line)}\n".encode()


def narrow(room: LandingRoom, *columns: str) -> LandingRoom:
    """The room with a contract of these columns of the table, which is read in a fraction of the time."""
    return room.of(*columns, *(each.name for each in DEBEZIUM_COLUMNS))


@pytest.mark.long
def test_a_line_that_is_no_change_of_the_table_is_rejected_with_the_reason(room: LandingRoom) -> None:
    event = changed()
    lines: list[Any] = [
        event,
        None,
        {"order_id": 1},
        {"schema": None, "payload": None},
        changed(op="m"),
        changed(source={**event["source"], "table": "customers"}),
        changed(source={**event["source"], "connector": "mysql"}),
        changed(source={**event["source"], "sequence": "no array", "lsn": None}),
        changed(after={**event["after"], "photo": "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="}),
        *(changed(after={**event["after"], "photo": left}) for left in LEFT_OUT),
        changed(after={**event["after"], "amount": "fQ=="}),
        {**event, "kafka_tombstone": True, "op": None},
    ]
    content = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
    judged = narrow(room, "amount", "photo").judge(content, "events.jsonl")
    no_event = "the record is not a Debezium change event"
    assert reasons(judged) == [
        None,
        "the line is not a JSON object",
        no_event,
        no_event,
        "debezium_operation is not one of c, u, r, d, t: 'm'",
        "the event is of the table public.customers",
        "the event is of the connector for mysql, whose positions are not known",
        "debezium_commit is missing",
        *["photo was left as it was, and the event does not have its value"] * (1 + len(LEFT_OUT)),
        "amount is not a number: 'fQ=='",
        "the record has no value, and no event after it says where in the feed it is",
    ]


@pytest.mark.long
def test_values_are_read_by_the_schema_of_their_event(room: LandingRoom) -> None:
    values: list[tuple[str, str | None, Any, str]] = [
        (DECIMAL, "2", "fQ==", "1.25"),
        (DECIMAL, "2", "gA==", "-1.28"),
        (DECIMAL, "2", "AA==", "0.00"),
        (DECIMAL, "0", "/w==", "-1"),
        (DECIMAL, "5", "AQ==", "0.00001"),
        (DECIMAL, "-3", "AQ==", "1000"),
        (DECIMAL, "0", "SztMqFqGxHoJiiJAAAAAAA==", "the bytes SztMqFqGxHoJiiJAAAAAAA=="),
        (DECIMAL, "0", "BAAAAAAAAAAAAAAAAAAAAAA=", "the bytes BAAAAAAAAAAAAAAAAAAAAAA="),
        (DECIMAL, "0", "SztMqFqGxHoJiiI//////w==", "99999999999999999999999999999999999999"),
        (DECIMAL, "0", "tMSzV6V5O4X2dd3AAAAAAQ==", "-99999999999999999999999999999999999999"),
        ("io.debezium.data.VariableScaleDecimal", None, {"scale": 3, "value": "fQ=="}, "0.125"),
        ("io.debezium.time.Date", None, 20_301, "2025-08-01"),
        ("io.debezium.time.Date", None, -719_163, "-719163"),
        ("io.debezium.time.MicroTimestamp", None, 1_782_894_600_123_456, "2026-07-01T08:30:00.123456"),
        ("io.debezium.time.MicroTimestamp", None, -1, "1969-12-31T23:59:59.999999"),
        ("io.debezium.time.Timestamp", None, 1_782_894_600_123, "2026-07-01T08:30:00.123000"),
        ("io.debezium.time.Timestamp", None, 9_223_372_036_854_775_807, "9223372036854775807"),
        ("io.debezium.time.ZonedTimestamp", None, "2026-07-01T08:00:00.123456Z", "2026-07-01T08:00:00.123456Z"),
        ("io.debezium.data.Json", None, '{"a": 2.50}', '{"a": 2.50}'),
        ("", None, 0.10, "0.1"),
    ]
    lines = [with_its_schema("note", kind, scale, written) for kind, scale, written, _ in values]
    arrays: list[tuple[str, str | None, list[Any], str]] = [
        (DECIMAL, "2", ["1234", None, "fQ=="], '["-26588.24",null,"1.25"]'),
        ("io.debezium.data.VariableScaleDecimal", None, [{"scale": 3, "value": "fQ=="}], '["0.125"]'),
        ("io.debezium.time.Date", None, [20_301, None], '["2025-08-01",null]'),
        ("io.debezium.time.MicroTimestamp", None, [-1], '["1969-12-31T23:59:59.999999"]'),
        ("", None, [1.50, "a"], '[1.5,"a"]'),
        (DECIMAL, "2", [], "[]"),
    ]
    lines += [with_its_schema("note", kind, scale, written, is_array=True) for kind, scale, written, _ in arrays]
    values += arrays
    judged = narrow(room, "note").judge(b"".join(lines), "events.jsonl")
    assert [each["note"] for each in judged] == [expected for _, _, _, expected in values]


@pytest.mark.long
def test_a_column_that_the_contract_gets_later_is_read_from_events_that_have_it(
    spark: SparkSession, settings: Settings
) -> None:
    channel = StructField("channel", StringType())
    later = replace(
        orders,
        schema=StructType([*ORDERS, channel, *DEBEZIUM_COLUMNS]),
        earlier={1: orders.schema},
    )
    at = {state.after: state.records for state in states()}
    with landing_room(spark, settings, ticking_clock(AFTERWARDS), later) as room:
        room.land(events("plain", 0, at[LEFT]), "1.jsonl")
        room.land(events("plain", at[LEFT], at["a column is added"]), "2.jsonl")
        rows = {row["order_id"]: row["channel"] for row in room.bronze(DAYS) if row["_ended_by"] is None}
    assert (rows[1], rows[6]) == (None, "web")


def test_other_files_than_json_lines_are_refused(room: LandingRoom) -> None:
    with pytest.raises(BadFile, match=r"is CSV; bronze\.orders has change events of Debezium"):
        room.land(b"order_id\n1\n", "orders.csv")


@pytest.mark.long
def test_a_decimal_of_any_precision_is_exact(spark: SparkSession, settings: Settings) -> None:
    """Every length of the bytes of a decimal, at its ends."""
    numbers = [sign * (1 << bits) + more for bits in range(0, 126, 7) for sign in (1, -1) for more in (-1, 0, 1)]
    lines = []
    for number in numbers:
        size = (number if number >= 0 else ~number).bit_length() // 8 + 1
        written = b64encode(number.to_bytes(size, "big", signed=True)).decode()
        lines.append(with_its_schema("amount", DECIMAL, "0", written))
    wide = [StructField("amount", DecimalType(38, 0)) if each.name == "amount" else each for each in ORDERS]
    source = replace(orders, schema=StructType([*wide, *DEBEZIUM_COLUMNS]))
    with landing_room(spark, settings, ticking_clock(AFTERWARDS), source) as room:
        judged = narrow(room, "amount").judge(b"".join(lines), "events.jsonl")
    assert [int(each["amount"]) for each in judged] == numbers
