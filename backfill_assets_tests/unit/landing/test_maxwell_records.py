"""The events that Maxwell's records are, without a session."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from io import BytesIO
from typing import Any

import pytest

from backfill_assets.capture.debezium import PART
from backfill_assets.capture.errors import BadFile
from backfill_assets.core.errors import InvalidDeclaration
from backfill_assets.domain import HttpApi, Maxwell
from backfill_assets.landing.decoding.row_changes import maxwell_events
from backfill_assets_tests.support.debezium.connectors import MYSQL, ORACLE, source_of

SOURCE = replace(source_of(MYSQL), reads=Maxwell())
PLACE = {"connector": "mysql", "db": "shop", "table": "orders", "ts_ms": 1_751_358_600_000, "file": "b.000003"}


def record(kind: str = "insert", **changes: Any) -> dict[str, Any]:
    return {
        "database": "shop",
        "table": "orders",
        "type": kind,
        "ts": 1_751_358_600,
        "xid": 4,
        "xoffset": 2,
        "position": "b.000003:154",
        "data": {"order_id": 1, "note": "x"},
        **changes,
    }


def events(*lines: Mapping[str, Any] | str) -> list[Any]:
    text = "\n".join(each if isinstance(each, str) else json.dumps(each) for each in lines)
    found = maxwell_events(BytesIO(text.encode(errors="surrogatepass")), SOURCE, name="a.jsonl")
    return [json.loads(each) for each in found]


def test_a_record_is_the_event_that_it_says() -> None:
    row, place = {"order_id": 1, "note": "x"}, {**PLACE, "pos": "154", "row": 2}
    assert events(record(), record("update", old={"note": "y"}), record("delete"), record("bootstrap-insert")) == [
        {"op": "c", "before": None, "after": row, "source": place},
        {"op": "u", "before": None, "after": row, "source": place},
        {"op": "d", "before": row, "after": None, "source": place},
        {"op": "r", "before": None, "after": row, "source": place},
    ]


def test_a_key_that_is_changed_ends_and_the_new_one_begins() -> None:
    ended, begun = events(record("update", old={"order_id": 7}))
    assert (ended["op"], ended["before"]["order_id"]) == ("d", 7)
    assert (begun["op"], begun["after"]["order_id"]) == ("c", 1)
    assert ended["source"] == begun["source"]
    assert (ended.get(PART), begun[PART]) == (None, 1)


def test_what_a_topic_says_of_a_record_each_of_its_events_says() -> None:
    found = events({"kafka_offset": 7, **record("update", old={"order_id": 7})})
    assert [each["kafka_offset"] for each in found] == [7, 7]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"type": "insert", "database": "shop"}, "a record without its row of Maxwell in line 2"),
        (record("merge"), "a record of the type 'merge' of Maxwell in line 2"),
    ],
)
def test_a_record_that_is_not_known_refuses_its_file(line: Mapping[str, Any], said: str) -> None:
    with pytest.raises(BadFile, match=said):
        events(record(), line)


def test_what_has_no_row_is_passed_over_and_other_lines_stay_as_they_are() -> None:
    others = ['{"a": 1}', "no json", '{"type": 1}', "[]", '{"type": "insert"}']
    found = maxwell_events(BytesIO("\n".join(others).encode()), SOURCE, name="a.jsonl")
    assert [*found] == [each.encode() for each in others]
    assert events(
        record("bootstrap-start"), {"type": "table-alter", "database": "shop", "sql": "ALTER TABLE orders"}
    ) == [
        {"aggregate_type": "bootstrap-start", "additional_data": {"order_id": 1, "note": "x"}},
        {"ddl": "ALTER TABLE orders"},
    ]


def test_digits_and_escapes_stay_as_they_were_written() -> None:
    (line,) = maxwell_events(
        BytesIO(json.dumps(record()).replace('"x"', '1.50, "half": "\\ud800"').encode()), SOURCE, name="a.jsonl"
    )
    assert b'"note": 1.50, "half": "\\ud800"' in line


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"envelope": None}, "declare envelope=Debezium"),
        ({"envelope": source_of(ORACLE).envelope}, "declare envelope=Debezium"),
        ({"capture": HttpApi(url="https://api.example.org/orders")}, "they are in topics and files"),
    ],
)
def test_what_could_not_be_read_is_refused_when_it_is_declared(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidDeclaration, match=said):
        replace(SOURCE, **changes)
