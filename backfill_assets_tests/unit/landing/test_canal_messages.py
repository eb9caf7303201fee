"""The events that Canal's messages are, and what is not taken of them, without a session."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from io import BytesIO
from typing import Any

import pytest

from backfill_assets.capture.debezium import PART, Messages
from backfill_assets.capture.errors import BadFile
from backfill_assets.core.errors import InvalidDeclaration
from backfill_assets.domain import Canal
from backfill_assets.domain.operations import Ties
from backfill_assets.landing.decoding.row_changes import canal_events, position_of
from backfill_assets_tests.support.debezium.connectors import MYSQL, source_of

SERVER = "726757ad-4455-11e8-ae04-0242ac110002"
SOURCE = replace(source_of(MYSQL), reads=Canal())


def message(kind: str = "INSERT", *keys: int, transactions: int = 154, **changes: Any) -> dict[str, Any]:
    return {
        "id": 3,
        "database": "shop",
        "table": "orders",
        "pkNames": ["order_id"],
        "isDdl": False,
        "type": kind,
        "es": 1_751_358_600_000,
        "ts": 1_751_358_600_731,
        "sql": "",
        "mysqlType": {"order_id": "bigint"},
        "data": [{"order_id": str(key), "note": "x"} for key in keys or (1,)],
        "old": [{"note": "y"} for _ in keys or (1,)] if kind == "UPDATE" else None,
        "gtid": f"{SERVER}:1-{transactions}",
        **changes,
    }


def lines(*messages: Mapping[str, Any] | str, by: Any = "gtid") -> list[bytes]:
    text = "\n".join(each if isinstance(each, str) else json.dumps(each) for each in messages)
    return [*canal_events(BytesIO(text.encode()), replace(SOURCE, reads=Canal(by=by)), name="a.jsonl")]


def events(*messages: Mapping[str, Any] | str, by: Any = "gtid") -> list[Any]:
    return [json.loads(each) for each in lines(*messages, by=by)]


def test_each_row_of_a_message_is_an_event() -> None:
    found = events(message("INSERT", 1, 2), message("UPDATE", 1), message("DELETE", 2), message("TRUNCATE", isDdl=True))
    assert [(each["op"], each.get(PART)) for each in found] == [
        ("c", None),
        ("c", 1),
        ("u", None),
        ("d", None),
        ("t", None),
    ]
    assert found[1]["after"] == {"order_id": "2", "note": "x"}
    assert found[3]["before"] == {"order_id": "2", "note": "x"}
    place = {"connector": "mysql", "db": "shop", "table": "orders", "ts_ms": 1_751_358_600_000, "row": 0}
    assert found[0]["source"] == {**place, "file": "gtid.0", "pos": 154}


def test_a_key_that_is_changed_ends_and_the_account_says_so() -> None:
    made = lines(message("UPDATE", 1, 2, old=[{"order_id": "7"}, {"note": "y"}]), message())
    assert [(each["op"], (each["before"] or each["after"])["order_id"]) for each in map(json.loads, made)] == [
        ("d", "7"),
        ("c", "1"),
        ("u", "2"),
        ("c", "1"),
    ]
    counted = Messages("mysql")
    counted.look(b"\n".join(made))
    assert (counted.several, counted.parts, counted.beside) == (1, 2, {})


def test_what_is_no_change_of_a_row_is_passed_over_by_its_kind() -> None:
    made = lines(
        message("ALTER", isDdl=True, sql="ALTER TABLE orders", data=None),
        message("QUERY", sql="INSERT INTO orders VALUES (1)", data=None, gtid=""),
        message("TIDB_WATERMARK", data=None),
    )
    counted = Messages("mysql")
    counted.look(b"\n".join(made))
    assert counted.beside == {"schema change": 1, "logical message": 1, "heartbeat": 1}


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (message("INSERT", data=None, sql="INSERT INTO orders"), "a change of Canal without its rows"),
        (message("INSERT", data=["x"]), "a change of Canal without its rows"),
        (message("UPDATE", old=None), "an update of Canal that does not say what its rows were"),
        (message("XACOMMIT"), "a message of the type 'XACOMMIT' of Canal"),
        (message(gtid=""), r"a message without gtid in line 2, .*: set canal.instance.gtidon=true, or declare"),
    ],
)
def test_a_message_that_cannot_be_taken_refuses_its_file(sent: Mapping[str, Any], said: str) -> None:
    with pytest.raises(BadFile, match=said):
        lines(message(), sent)


@pytest.mark.parametrize(
    ("said", "by", "number"),
    [
        ({"gtid": f"{SERVER}:1-154"}, "gtid", 154),
        ({"gtid": f"{SERVER}:1-154:160"}, "gtid", 155),
        ({"gtid": f"{SERVER}:1-154,826757ad-4455-11e8-ae04-0242ac110002:5"}, "gtid", 155),
        ({"gtid": f"{SERVER}:1-154:nightly:1-2"}, "gtid", 156),
        ({"gtid": "0-1-100,1-2-50"}, "gtid", 150),
        ({"gtid": ""}, "gtid", None),
        ({"_tidb": {"commitTs": 429918007904436226}}, "commitTs", 429918007904436226),
        ({}, "commitTs", None),
        ({"es": 1_751_358_600_000}, "es", 1_751_358_600_000),
    ],
)
def test_what_orders_a_message_is_a_number(said: Mapping[str, Any], by: str, number: int | None) -> None:
    assert position_of(said, by) == number


def test_seconds_that_go_back_are_no_order() -> None:
    early = message(es=1_751_358_599_000)
    assert len(lines(message(), {"kafka_partition": 2, **early}, message(), by="es")) == 3
    with pytest.raises(BadFile, match="in line 2 whose es is before that of an earlier one"):
        lines(message(), early, by="es")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"envelope": None}, "it reads Canal, whose records land as change events: declare envelope=Debezium"),
        ({"reads": Canal(by="ts")}, "by of its Canal is 'ts'"),  # type: ignore[arg-type]
        ({"reads": None, "ties": Ties.ARRIVAL}, "without ties"),
    ],
)
def test_what_could_not_be_read_is_refused_when_it_is_declared(changes: dict[str, Any], said: str) -> None:
    assert replace(SOURCE, ties=Ties.ARRIVAL).ties is Ties.ARRIVAL
    with pytest.raises(InvalidDeclaration, match=said):
        replace(SOURCE, **changes)
