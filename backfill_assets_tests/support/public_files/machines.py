"""Machines: logs, dumps of databases, timetables, and files that programs exchange."""

from __future__ import annotations

import csv
import json
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd

from backfill_assets_tests.support.public_files.shape import (
    RECORDS,
    Shape,
    as_it_is,
    comma,
    days_from,
    joined,
    made,
    read_by_pandas,
    times_from,
)


def _edge_log() -> bytes:
    draw = made("edge_log")
    rows = [
        (at.date(), f"{at:%H:%M:%S}", "FRA2", draw.randrange(9999), "GET")
        for at in times_from(datetime(2023, 1, 2, 10), minutes=60)
    ]
    return ("#Version: 1.0\n#Fields: date time x-edge-location sc-bytes cs-method\n" + joined(rows, by="\t")).encode()


def _server_log() -> bytes:
    draw = made("server_log")
    rows = [
        (at.date(), f"{at:%H:%M:%S}", "GET", draw.choice(("/", "/a?b=1")), draw.choice((200, 404)))
        for at in times_from(datetime(2023, 1, 2, 10), minutes=60)
    ]
    head = "#Software: Internet Information Services\n#Fields: date time cs-method cs-uri sc-status\n"
    return (head + joined(rows, by=" ")).encode()


def _access_log() -> bytes:
    draw = made("access_log")
    lines = [
        f'192.0.2.1 - - [{at:%d/%b/%Y:%H:%M:%S} +0000] "GET /{draw.randrange(9)} HTTP/1.1" 200 {number} "-" "A (B)"'
        for number, at in enumerate(times_from(datetime(2023, 1, 2, 10), minutes=60))
    ]
    return ("\n".join(lines) + "\n").encode()


def _text_of_hive() -> bytes:
    draw = made("text_of_hive")
    rows = [(n, at, draw.choice((r"\N", "x"))) for n, at in enumerate(times_from(datetime(2023, 1, 2, 10), minutes=60))]
    return joined(rows, by="\x01").encode()


def _outfile() -> bytes:
    draw = made("outfile")
    lines = [
        f'"{number}","{at}",{draw.choice((chr(92) + "N", chr(34) + "a" + chr(92) + chr(34) + "b" + chr(34)))}'
        for number, at in enumerate(times_from(datetime(2023, 1, 2, 10), minutes=60))
    ]
    return ("\n".join(lines) + "\n").encode()


def _table_of_orders() -> bytes:
    draw = made("table_of_orders")
    rows = [
        (number, draw.randrange(99), "O", f"{draw.uniform(1, 999):.2f}", day, "a, comment", "")
        for number, day in enumerate(days_from(date(1996, 1, 2)), 1)
    ]
    return joined(rows, by="|").encode()


def _timetable() -> bytes:
    rows = [(service, f"{day:%Y%m%d}", 1) for day in days_from(date(2024, 1, 1), count=20) for service in ("wk", "we")]
    return joined([("service_id", "date", "exception_type"), *rows], by=",", end="\r\n").encode()


def _submissions() -> bytes:
    rows = [
        (f"0000320193-20-{number:06}", 320_193 + number, 'A "B" INC', "20191231", f"{day:%Y%m%d}", f"{day} 16:32:00.0")
        for number, day in enumerate(days_from(date(2020, 1, 2)))
    ]
    return joined([("adsh", "cik", "name", "period", "filed", "accepted"), *rows], by="\t").encode()


def _index_of_filings() -> bytes:
    rows = [
        (1_000_045 + number, "NICHOLAS", "10-Q", day, f"edgar/data/{number}.txt")
        for number, day in enumerate(days_from(date(2020, 1, 2)))
    ]
    head = "Description:  Master Index\nLast Data Received:  March 31, 2020\nComments:  webmaster\n \n \n"
    return (head + "CIK|Company Name|Form Type|Date Filed|Filename\n" + "-" * 80 + "\n" + joined(rows, by="|")).encode()


def _titles_with_a_quote() -> bytes:
    rows = [
        (f"tt{number:07}", {4: '"Giliap" (1975)', 30: '"Open'}.get(number, "Plain"), 2000 + number % 20)
        for number in range(1, RECORDS + 1)
    ]
    return joined([("tconst", "primaryTitle", "startYear"), *rows], by="\t").encode()


def _put_together() -> bytes:
    draw = made("put_together")
    rows = [(number, day, draw.randrange(9)) for number, day in enumerate(days_from(date(2024, 1, 1)))]
    return ("id,day,x\n" + comma(rows, end="\r\n")).encode()


def _first_ratings() -> bytes:
    draw = made("first_ratings")
    rows = [
        (1 + n // 8, 1100 + n % 8, draw.randrange(1, 6), 874_724_710 + draw.randrange(10**7)) for n in range(RECORDS)
    ]
    return joined(rows, by="\t").encode()


def _old_taxis() -> bytes:
    draw = made("old_taxis")
    rows = [
        ("CMT", at, at + timedelta(minutes=9), draw.randrange(1, 5), f"{draw.uniform(3, 40):.2f}")
        for at in times_from(datetime(2014, 1, 9, 20, 45, 25), minutes=7)
    ]
    head = "vendor_id, pickup_datetime, dropoff_datetime, passenger_count, total_amount\r\n\r\n"
    return (head + joined(rows, by=",", end="\r\n")).encode()


def _green_taxis() -> bytes:
    draw = made("green_taxis")
    rows = [
        (2, at, at + timedelta(minutes=9), draw.randrange(1, 5), f"{draw.uniform(3, 40):.2f}", "", "", "")
        for at in times_from(datetime(2013, 8, 1, 8, 14, 37), minutes=7)
    ]
    head = "VendorID,lpep_pickup_datetime,Lpep_dropoff_datetime,Passenger_count,Total_amount,Trip_type \r\n"
    return (head + joined(rows, by=",", end="\r\n")).encode()


def _catalogue() -> bytes:
    rows = [
        {"_id": number, "Datum": f"{day}T00:00:00", "Anzahl": str(number)}
        for number, day in enumerate(days_from(date(2023, 1, 2)), 1)
    ]
    fields = [{"type": "int", "id": "_id"}, {"type": "timestamp", "id": "Datum"}, {"type": "text", "id": "Anzahl"}]
    return json.dumps(
        {"help": "", "success": True, "result": {"fields": fields, "records": rows, "total": RECORDS}}
    ).encode()


def _layer() -> bytes:
    features = [
        {
            "attributes": {"OBJECTID": number, "seen_at": 1_609_459_200_000 + number * 1000},
            "geometry": {"x": 1.5, "y": 2.5},
        }
        for number in range(RECORDS)
    ]
    fields = [{"name": "OBJECTID", "type": "esriFieldTypeOID"}, {"name": "seen_at", "type": "esriFieldTypeDate"}]
    return json.dumps({"objectIdFieldName": "OBJECTID", "fields": fields, "features": features}).encode()


def _documents() -> bytes:
    rows = [
        {"_id": {"$oid": f"{number:024x}"}, "at": {"$date": f"{at:%Y-%m-%dT%H:%M:%SZ}"}, "n": number}
        for number, at in enumerate(times_from(datetime(2023, 1, 2, 10), minutes=60))
    ]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _views() -> bytes:
    draw = made("views")
    rows = [
        {"article": "A", "timestamp": f"{day:%Y%m%d}00", "views": draw.randrange(999)}
        for day in days_from(date(2015, 10, 1))
    ]
    return json.dumps({"items": rows}).encode()


def _read_json(path: Path, place: str, unit: Any = "", **formats: str) -> pd.DataFrame:
    records: Any = json.loads(path.read_text())
    for each in place.split("."):
        records = records[each]
    frame = pd.json_normalize(records)
    for name, form in formats.items():
        frame[name] = pd.to_datetime(frame[name], format=form)
    return (
        frame
        if not unit
        else frame.assign(**{"attributes.seen_at": pd.to_datetime(frame["attributes.seen_at"], unit=unit)})
    )


def _read_documents(path: Path) -> pd.DataFrame:
    frame = pd.json_normalize([json.loads(line) for line in path.read_text().splitlines()])
    return frame.assign(**{"at.$date": pd.to_datetime(frame["at.$date"], format="%Y-%m-%dT%H:%M:%SZ")})


_TOGETHER = {"date_time": ((0, 1), "%Y-%m-%d %H:%M:%S")}
_TSV: dict[str, Any] = {"sep": "\t", "quoting": csv.QUOTE_NONE}

SHAPES = (
    Shape(
        name="edge_log", file="E2K.2023-01-02-10.txt", like="CloudFront: logs, named in a comment", write=_edge_log,
        pandas=read_by_pandas(together=_TOGETHER, sep="\t", comment="#", header=None),
        key=("date_time",), event_time="date_time", zone=True,
        declared=(
            r'reads=Csv(delimiter="\t", comment="#", header=False)',
            'columns={(0, 1): "date_time", 2: "x-edge-location", 3: "sc-bytes", 4: "cs-method"}',
        ),
    ),
    Shape(
        name="server_log", file="u_ex230102.log", like="IIS: W3C logs, with blanks between values", write=_server_log,
        pandas=read_by_pandas(together=_TOGETHER, sep=" ", comment="#", header=None),
        key=("date_time",), event_time="date_time", zone=True,
        declared=(
            'reads=Csv(delimiter=" ", comment="#", header=False)',
            'columns={(0, 1): "date_time", 2: "cs-method", 3: "cs-uri", 4: "sc-status"}',
        ),
    ),
    Shape(
        name="access_log", file="access.log", like="Apache and nginx: combined logs", write=_access_log,
        pandas=read_by_pandas(
            together={"column_3_column_4": ((3, 4), "[%d/%b/%Y:%H:%M:%S +0000]")}, sep=" ", header=None
        ),
        key=("column_3_column_4",), event_time="column_3_column_4",
        declared=('reads=Csv(delimiter=" ", header=False)', "columns={", "formats={"),
    ),
    Shape(
        name="text_of_hive", file="000000_0", like="Hive: text files, with control characters between values",
        write=_text_of_hive,
        pandas=read_by_pandas({1: "%Y-%m-%d %H:%M:%S"}, sep="\x01", header=None, **as_it_is(keep=("", r"\N"))),
        key=("column_0",), event_time="column_1", zone=True,
        declared=(r'reads=Csv(delimiter="\x01", null=("\\N",), header=False)', "columns={"),
    ),
    Shape(
        name="outfile", file="orders.csv", like="MySQL: SELECT INTO OUTFILE", write=_outfile,
        pandas=read_by_pandas(
            {1: "%Y-%m-%d %H:%M:%S"}, header=None, escapechar="\\", **as_it_is(keep=("", "N"))
        ),
        key=("column_0",), event_time="column_1", zone=True, declared=("reads=Csv(", "columns={"),
    ),
    Shape(
        name="table_of_orders", file="orders.tbl", like="TPC: tables, with a bar behind each row",
        write=_table_of_orders, pandas=read_by_pandas({4: "%Y-%m-%d"}, sep="|", header=None),
        key=("column_0",), event_time="column_4", declared=('reads=Csv(delimiter="|", header=False)', "columns={"),
    ),
    Shape(
        name="timetable", file="calendar_dates.txt", like="GTFS: calendar_dates.txt", write=_timetable,
        pandas=read_by_pandas({"date": "%Y%m%d"}), key=("service_id", "date"), event_time="date",
        declared=("reads=Csv()", 'formats={"date": "yyyyMMdd"}'),
    ),
    Shape(
        name="submissions", file="sub.txt", like="SEC: financial statements, submissions", write=_submissions,
        pandas=read_by_pandas(
            {"period": "%Y%m%d", "filed": "%Y%m%d", "accepted": "%Y-%m-%d %H:%M:%S.%f"}, **_TSV
        ),
        key=("adsh",), event_time="filed", zone=True,
        declared=(r'reads=Csv(delimiter="\t")', 'formats={"period": "yyyyMMdd", "filed": "yyyyMMdd"}'),
    ),
    Shape(
        name="index_of_filings", file="master.idx", like="SEC: index of EDGAR, with a line below the header",
        write=_index_of_filings,
        pandas=read_by_pandas({"Date Filed": "%Y-%m-%d"}, sep="|", skiprows=[0, 1, 2, 3, 4, 6]),
        key=("CIK",), event_time="date_filed", rejected=1,
        declared=('reads=Csv(delimiter="|", skip=5)', "columns={"),
    ),
    Shape(
        name="titles_with_a_quote", file="title.tsv", like="IMDb: a quote that is never closed",
        write=_titles_with_a_quote, pandas=read_by_pandas({"startYear": "%Y"}, **_TSV),
        key=("tconst",), event_time="startYear",
        declared=(r'reads=Csv(delimiter="\t", quote="")', 'formats={"startYear": "yyyy"}'),
    ),
    Shape(
        name="put_together", file="all.csv", like="a header of one program with the rows of another: LF, then CR LF",
        write=_put_together, pandas=read_by_pandas({"day": "%Y-%m-%d"}), key=("id",), event_time="day",
        declared=("reads=Csv()",),
    ),
    Shape(
        name="first_ratings", file="u.data", like="MovieLens: u.data of 100K", write=_first_ratings,
        pandas=read_by_pandas(units={3: "s"}, sep="\t", header=None), event_time="column_3",
        declared=("reads=Csv(", "columns={", 'formats={"column_3": Epoch("s")}'),
    ),
    Shape(
        name="old_taxis", file="yellow_tripdata_2014-01.csv",
        like="NYC TLC: CSV of 2014, a blank line below its header",
        write=_old_taxis,
        pandas=read_by_pandas(
            dict.fromkeys(("pickup_datetime", "dropoff_datetime"), "%Y-%m-%d %H:%M:%S"), skipinitialspace=True
        ),
        key=("vendor_id", "pickup_datetime"), event_time="pickup_datetime", zone=True,
        declared=("reads=Csv(trim=True)",),
    ),
    Shape(
        name="green_taxis", file="green_tripdata_2013-08.csv", like="NYC TLC: CSV of 2013, rows longer than the header",
        write=_green_taxis,
        pandas=read_by_pandas({1: "%Y-%m-%d %H:%M:%S", 2: "%Y-%m-%d %H:%M:%S"}, header=None, skiprows=1),
        key=("VendorID", "lpep_pickup_datetime"), event_time="lpep_pickup_datetime", zone=True,
        declared=("reads=Csv(skip=1, header=False)", "columns={"),
    ),
    Shape(
        name="catalogue", file="datastore_search.json", like="CKAN: an answer, with the names of its columns beside it",
        write=_catalogue, pandas=lambda path: _read_json(path, "result.records", Datum="%Y-%m-%dT%H:%M:%S"),
        key=("id",), event_time="Datum", zone=True,
        declared=('reads=Json(records="result.records")', 'columns={"_id": "id"}'),
    ),
    Shape(
        name="layer", file="query.json", like="ArcGIS: an answer of a feature server", write=_layer,
        pandas=lambda path: _read_json(path, "features", unit="ms"), key=("OBJECTID",), event_time="seen_at",
        declared=('reads=Json(records="features")', "columns={", 'formats={"seen_at": Epoch("ms")}'),
    ),
    Shape(
        name="documents", file="orders.json", like="MongoDB: mongoexport", write=_documents, pandas=_read_documents,
        key=("id",), event_time="at", declared=('columns={"_id.$oid": "id", "at.$date": "at"}',),
    ),
    Shape(
        name="views", file="daily.json", like="Wikimedia: views of a page by day", write=_views,
        pandas=lambda path: _read_json(path, "items", timestamp="%Y%m%d%H"),
        key=("timestamp",), event_time="timestamp", zone=True,
        declared=('reads=Json(records="items")', 'formats={"timestamp": "yyyyMMddHH"}'),
    ),
)  # fmt: skip
