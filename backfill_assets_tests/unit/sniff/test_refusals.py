"""What is said of a file that lands in no source table, and of records that do not."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from backfill_assets.capture.errors import BadFile
from backfill_assets.report.command_line import words_of
from backfill_assets.report.errors import CannotUse
from backfill_assets.report.sniffed import comments_of, next_of, python_of, spoken_of
from backfill_assets.sniff.propose import propose

AS_OF = datetime(2026, 11, 30, tzinfo=UTC)
DAYS = [f"2023-01-{number:02}" for number in range(1, 31)]


def written(folder: Path, text: str | bytes, name: str = "a.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("a.csv", "id,day,x\n", "it has no records"),
        (
            "a.csv",
            "Land,2001,2002,2003\n" + "A,1,2,3\n" * 9,
            "its dates are names of 3 columns: '2001', '2002', '2003'",
        ),
        ("a.csv", "Land,1/22/20,1/23/20,1/24/20\n" + "A,1,2,3\n" * 9, "its dates are names of 3 columns: '1/22/20'"),
        ("a.txt", "1990   1    1990.0417   353.66\n" * 9, "nothing between their values that is known, such as '1990"),
        ("a.csv", "id,clock\n" + "1,07:15\n" * 9, "none of its columns is a date or a time"),
        ("a.csv", "id,clock\n" + "1,07:15\n" * 9, "id '1', clock '07:15'"),
        (
            "a.json",
            json.dumps({"prices": [[1, 2.5]] * 9}),
            "it has lists of values where records would be, at 'prices'",
        ),
        ("a.json", json.dumps({"Daily": {day: {"open": 1} for day in DAYS}}), "names of 30 columns: '2023-01-01'"),
    ],
)
def test_a_file_without_times_is_refused_with_what_it_has(name: str, text: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(CannotUse) as refused:
        python_of(propose([written(tmp_path, text, name)], as_of=AS_OF))
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "is an Excel or Office file"),
        ("a.pdf", b"%PDF-1.4\n" + bytes(range(256)), "is PDF"),
        ("a.db", b"SQLite format 3\x00" + bytes(600), "is a SQLite database"),
        ("a.csv", b"<!DOCTYPE html><html></html>", "is an HTML page"),
        ("a.json", json.dumps([{"page": 1}, [{"day": day} for day in DAYS]]).encode(), "another one of 30 objects"),
    ],
)
def test_a_file_of_another_kind_is_called_by_its_name(name: str, content: bytes, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=sentence):
        propose([written(tmp_path, content, name)], as_of=AS_OF)


def test_names_in_angle_brackets_are_no_page(tmp_path: Path) -> None:
    text = "<DATE>\t<OPEN>\n" + "".join(f"{day}\t1.5\n" for day in DAYS)
    assert propose([written(tmp_path, text)], as_of=AS_OF).event_time == "date"


@pytest.mark.parametrize(("count", "others"), [(10, ["TBD"]), (40, ["1998", "TBD"])])
def test_a_few_texts_among_dates_are_counted_as_rejected_and_type_no_other_column(
    count: int, others: list[str], tmp_path: Path
) -> None:
    days = [f"{number % 28 + 1}/1{number % 3}/2020" for number in range(count - len(others))]
    rows = [f"{day},{number}\n" for number, day in enumerate(days)]
    text = "released,sold\n" + "".join([*rows[:5], *(f"{each},unknown\n" for each in others), *rows[5:]])
    found = propose([written(tmp_path, text)], as_of=AS_OF)
    (rejected,) = [doubt for doubt in found.doubts if doubt.rejects]
    assert (rejected.records, rejected.values, rejected.first) == (len(others), tuple(others), 6)
    assert {each.name: each.kind for each in found.columns} == {"released": "DATE", "sold": "LONG"}


def test_more_of_them_are_no_time(tmp_path: Path) -> None:
    text = "day,sold\n" + "".join(f"{'TBD' if number % 4 else day},1\n" for number, day in enumerate(DAYS))
    with pytest.raises(CannotUse, match="none of its columns"):
        python_of(propose([written(tmp_path, text)], as_of=AS_OF))


def test_a_text_that_is_no_value_in_another_column_is_pointed_at(tmp_path: Path) -> None:
    rows = "".join(f"{number},{day},{'NA' if number % 3 else 1.5},{'NA' if number % 5 == 0 else 'ana'}\n"
                   for number, day in enumerate(DAYS))  # fmt: skip
    found = propose([written(tmp_path, f"id,day,rain,name\n{rows}")], as_of=AS_OF)
    (said,) = [line for line in comments_of(found) if "'NA'" in line]
    assert said.startswith("not sure: name has 'NA' in 6 records, which null= makes no value")


def test_a_record_without_a_time_is_said_to_have_none(tmp_path: Path) -> None:
    records = [{"id": number, "at": None if number == 5 else f"{day}T00:00:00Z"} for number, day in enumerate(DAYS)]
    found = propose([written(tmp_path, json.dumps(records), "a.json")], as_of=AS_OF)
    assert "rejected: 1 record whose at has no value; the first is number 6." in comments_of(found)


@pytest.mark.parametrize("is_shown", [True, False])
def test_what_is_next_depends_on_where_the_module_is(is_shown: bool, tmp_path: Path) -> None:
    found = propose([written(tmp_path, "id,day\n" + "".join(f"{day[-2:]},{day}\n" for day in DAYS))], as_of=AS_OF)
    lines = [words_of(each) for each in next_of(found, ["a.csv"], "a.csv", is_shown=is_shown)]
    assert ("backfill sniff a.csv --as bronze.a > a.py" in lines) == is_shown
    assert lines[-1] == "backfill land a --by NAME a.csv"
    assert spoken_of(found)[1] == "1 thing to decide, 0 records to be rejected: see the comments"


@pytest.mark.parametrize(
    ("event", "envelope"),
    [
        (
            {"before": None, "after": {"id": 1}, "op": "c", "ts_ms": 1_709_251_200_000,
             "source": {"connector": "postgresql", "db": "shop", "schema": "public", "table": "orders"}},
            "envelope=Debezium(table='public.orders', connector='postgresql')",
        ),
        (
            {"schema": {}, "payload": {"before": None, "after": {"id": 1}, "op": "c", "ts_ms": 1_709_251_200_000,
             "source": {"connector": "mysql", "db": "shop", "table": "orders"}}},
            "envelope=Debezium(table='shop.orders', connector='mysql')",
        ),
        (
            {"database": "shop", "table": "orders", "type": "insert", "ts": 1_709_251_200, "xid": 1, "data": {"id": 1}},
            "reads=Maxwell()",
        ),
    ],
)  # fmt: skip
def test_change_events_are_named_with_their_table_and_connector(
    event: dict[str, object], envelope: str, tmp_path: Path
) -> None:
    found = propose([written(tmp_path, f"{json.dumps(event)}\n" * 3, "a.json")], as_of=AS_OF)
    assert envelope in " ".join(" ".join(comments_of(found)).split())
