"""JSON: arrays, feeds, answers of APIs, and streams that end no lines."""

from __future__ import annotations

import gzip
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd

from backfill_assets_tests.support.public_files.shape import RECORDS, Shape, made, times_from


def _flights() -> bytes:
    draw = made("flights")
    rows = [
        {
            "date": f"{at:%Y/%m/%d %H:%M}",
            "delay": draw.randrange(-20, 90),
            "distance": draw.randrange(100, 3000),
            "origin": draw.choice(("SNA", "ABQ")),
        }
        for at in times_from(datetime(2001, 1, 10, 18, 20), minutes=11)
    ]
    rows[4] = rows[3]
    return json.dumps(rows, separators=(",", ":")).encode()


def _movies() -> bytes:
    draw = made("movies")
    rows: list[dict[str, Any]] = []
    for number in range(RECORDS):
        rows.append(
            {
                "Title": 300 if number == 12 else f"Film {number // 2}",
                "US_Gross": draw.choice((None, 146083, 10876)),
                "MPAA Rating": draw.choice((None, "R", "PG-13")),
                "Release_Date": f"{draw.choice(('Jun', 'Aug'))} {draw.randrange(1, 29):02} {2000 + number % 9}",
                "IMDB_Rating": draw.choice((6.1, None, 6.9)),
            }
        )
    rows[3] = rows[2]
    return json.dumps(rows, indent=1).encode()


def _feed() -> bytes:
    draw = made("feed")
    features = [
        {
            "type": "Feature",
            "properties": {
                "mag": round(draw.uniform(0, 6), 2),
                "place": "12 km W of Nowhere",
                "time": 1_602_629_755_622 + 60_000 * number,
                "felt": draw.choice((None, 3)),
                "tsunami": 0,
            },
            "geometry": {"type": "Point", "coordinates": [round(draw.uniform(-180, 180), 4), 38.8, 1.5]},
            "id": f"zz{number:08}",
        }
        for number in range(RECORDS)
    ]
    document = {
        "type": "FeatureCollection",
        "metadata": {"generated": 1_602_633_360_000, "count": RECORDS},
        "features": features,
        "bbox": [-179.1, 0.5],
    }
    return json.dumps(document).encode()


def _events() -> bytes:
    draw = made("events")
    rows = [
        {
            "id": f"{10_000_000_000 + number}",
            "type": draw.choice(("PushEvent", "WatchEvent")),
            "actor": {"id": draw.randrange(99), "login": "ana"},
            "payload": draw.choice(({"size": 1}, {"action": "started"})),
            "public": True,
            "created_at": f"{at:%Y-%m-%dT%H:%M:%SZ}",
        }
        for number, at in enumerate(times_from(datetime(2015, 1, 1, 15), minutes=1))
    ]
    return gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode(), mtime=0)


def _delivery() -> bytes:
    draw = made("delivery")
    rows = [
        {"event_id": f"e{number}", "at": f"{at:%Y-%m-%dT%H:%M:%S}.000Z", "clicks": draw.randrange(9)}
        for number, at in enumerate(times_from(datetime(2024, 5, 1), minutes=1))
    ]
    return "".join(json.dumps(row) for row in rows).encode()


def _answer() -> bytes:
    draw = made("answer")
    rows = [
        {
            "report_id": number,
            "received": f"{at:%Y%m%d}",
            "serious": draw.choice(("1", "2")),
            "patient": {"sex": draw.choice(("1", "2")), "age": draw.choice((None, 70))},
            "drugs": [{"name": "A"}],
        }
        for number, at in enumerate(times_from(datetime(2019, 3, 2), minutes=1440), 5_801_206)
    ]
    document = {"meta": {"disclaimer": "Not for use.", "results": {"skip": 0, "total": 999}}, "results": rows}
    return json.dumps(document, indent=2).encode()


def _of(records: list[Any], **formats: str) -> pd.DataFrame:
    frame = pd.json_normalize(records)
    for column, form in formats.items():
        frame[column] = pd.to_datetime(frame[column], format=form)
    return frame


def _read_movies(path: Path) -> pd.DataFrame:
    frame = pd.DataFrame(json.loads(path.read_text()))
    frame["Title"] = frame["Title"].astype(str)
    frame["Release_Date"] = pd.to_datetime(frame["Release_Date"], format="%b %d %Y")
    return frame


def _read_feed(path: Path) -> pd.DataFrame:
    frame = pd.json_normalize(json.loads(path.read_text())["features"])
    frame["properties.time"] = pd.to_datetime(frame["properties.time"], unit="ms")
    frame["geometry.coordinates"] = [json.dumps(each, separators=(",", ":")) for each in frame["geometry.coordinates"]]
    return frame


def _read_events(path: Path) -> pd.DataFrame:
    rows = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    payloads = [json.dumps(row.pop("payload"), separators=(",", ":")) for row in rows]
    return _of(rows, created_at="%Y-%m-%dT%H:%M:%SZ").assign(payload=payloads)


def _read_delivery(path: Path) -> pd.DataFrame:
    rows = json.loads("[" + path.read_text().replace("}{", "},{") + "]")
    return _of(rows, at="%Y-%m-%dT%H:%M:%S.000Z")


def _read_answer(path: Path) -> pd.DataFrame:
    rows = json.loads(path.read_text())["results"]
    drugs = [json.dumps(row.pop("drugs"), separators=(",", ":")) for row in rows]
    return _of(rows, received="%Y%m%d").assign(drugs=drugs)


SHAPES = (
    Shape(
        name="flights", file="flights-2k.json", like="vega-datasets: flights-2k.json", write=_flights,
        pandas=lambda path: _of(json.loads(path.read_text()), date="%Y/%m/%d %H:%M"),
        event_time="date", zone=True,
        declared=("reads=Json(array=True)", 'formats={"date": "yyyy/MM/dd HH:mm"}'),
    ),
    Shape(
        name="movies", file="movies.json", like="vega-datasets: movies.json", write=_movies, pandas=_read_movies,
        event_time="Release_Date",
        declared=(
            "reads=Json(array=True)",
            'columns={"MPAA Rating": "mpaa_rating"}',
            'formats={"Release_Date": "MMM dd yyyy"}',
        ),
    ),
    Shape(
        name="feed", file="all_day.geojson", like="USGS: earthquakes of a day as GeoJSON", write=_feed,
        pandas=_read_feed, key=("id",), event_time="time",
        declared=('reads=Json(records="features")', "columns={", 'formats={"time": Epoch("ms")}'),
    ),
    Shape(
        name="events", file="2015-01-01-15.json.gz", like="GH Archive: events of an hour", write=_events,
        pandas=_read_events, key=("id",), event_time="created_at", declared=("columns={",),
    ),
    Shape(
        name="delivery", file="stream-2024-05-01.json", like="Firehose: objects without line ends", write=_delivery,
        pandas=_read_delivery, key=("event_id",), event_time="at", declared=("reads=Json()",),
    ),
    Shape(
        name="answer", file="answer.json", like="openFDA: an answer, saved", write=_answer, pandas=_read_answer,
        key=("report_id",), event_time="received",
        declared=('reads=Json(records="results")', "columns={", 'formats={"received": "yyyyMMdd"}'),
    ),
)  # fmt: skip
