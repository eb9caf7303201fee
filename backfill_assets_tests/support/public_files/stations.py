"""Stations: what weather services, agencies for air and water, and satellites write."""

from __future__ import annotations

import csv
from datetime import datetime, timedelta

from backfill_assets_tests.support.public_files.shape import (
    Shape,
    comma,
    joined,
    made,
    read_by_pandas,
    times_from,
)


def _surface_hours() -> bytes:
    draw = made("surface_hours")
    header = ("STATION", "DATE", "SOURCE", "NAME", "REPORT_TYPE", "TMP", "WND")
    rows = [
        (
            "72505394728",
            f"{at:%Y-%m-%dT%H:%M:%S}",
            "7",
            "A CITY, NY US",
            "FM-15",
            f"+{draw.randrange(300):04},1",
            "999,9,C",
        )
        for at in times_from(datetime(2023, 1, 1, 0, 51), minutes=60)
    ]
    return comma([header, *rows], quoting=csv.QUOTE_ALL).encode()


def _storm_events() -> bytes:
    draw = made("storm_events")
    header = ("BEGIN_YEARMONTH", "BEGIN_DAY", "EPISODE_ID", "EVENT_ID", "STATE", "YEAR", "BEGIN_DATE_TIME", "DAMAGE")
    rows = [
        (
            f"{at:%Y%m}", at.day, 180_000 + number // 3, 1_100_000 + number, "TEXAS", at.year,
            f"{at:%d-%b-%y %H:%M:%S}".upper(), draw.choice(("", "0.00K", "1.50M")),
        )
        for number, at in enumerate(times_from(datetime(2023, 4, 2, 14, 45), minutes=900))
    ]  # fmt: skip
    return comma([header, *rows]).encode()


def _hours_of_a_station() -> bytes:
    draw = made("hours_of_a_station")
    lines = [
        f"         44;{at:%Y%m%d%H};    3;{draw.uniform(0, 20):6.1f};{draw.randrange(100):6}.0;eor"
        for at in times_from(datetime(2007, 4, 1), minutes=60)
    ]
    return ("\r\n".join(["STATIONS_ID;MESS_DATUM;QN_9;TT_TU;RF_TU;eor", *lines]) + "\r\n").encode()


def _hours_of_days() -> bytes:
    draw = made("hours_of_days")
    lines = ["# SOURCE: AN INSTITUTE", "# YYYYMMDD = date", "# ", "# STN,YYYYMMDD,   HH,   DD,    T"]
    for number in range(48):
        day = datetime(2023, 1, 1) + timedelta(days=number // 24)
        values = (number % 24 + 1, draw.randrange(360), draw.randrange(300))
        lines.append(f"  260,{day:%Y%m%d}," + ",".join(f"{each:5}" for each in values))
    return ("\n".join(lines) + "\n").encode()


def _fires() -> bytes:
    draw = made("fires")
    rows = [
        (f"{draw.uniform(-60, 60):.5f}", f"{draw.uniform(300, 350):.1f}", at.date(), f"{at:%H%M}", "Terra", "6.1NRT")
        for at in times_from(datetime(2023, 8, 1, 0, 30), minutes=37)
    ]
    return comma([("latitude", "brightness", "acq_date", "acq_time", "satellite", "version"), *rows]).encode()


def _river() -> bytes:
    draw = made("river")
    head = [
        ("agency_cd", "site_no", "datetime", "tz_cd", "69928_00060", "69928_00060_cd"),
        ("5s", "15s", "20d", "6s", "14n", "10s"),
    ]
    rows = [
        ("USGS", "01646500", f"{at:%Y-%m-%d %H:%M}", "EST", draw.randrange(9999), "P")
        for at in times_from(datetime(2023, 1, 1), minutes=15)
    ]
    return ("# ------ WARNING ------\n# Some of the data\n#\n" + joined([*head, *rows], by="\t")).encode()


def _air() -> bytes:
    draw = made("air")
    rows = [
        (2178, 3917, "Del Norte", f"{at:%Y-%m-%dT%H:%M:%S}-07:00", "co", "ppm", f"{draw.uniform(0, 1):.2f}")
        for at in times_from(datetime(2023, 1, 1, 1), minutes=60)
    ]
    header = ("location_id", "sensors_id", "location", "datetime", "parameter", "units", "value")
    return comma([header, *rows], quoting=csv.QUOTE_ALL).encode()


def _demand() -> bytes:
    draw = made("demand")
    head = [("\\\\Hourly Demand Report", "", "", ""), ("\\\\Created at 2023-02-01", "", "", "")]
    rows = [
        (f"2023-01-{20 + number // 24}", number % 24 + 1, draw.randrange(9999), draw.randrange(9999))
        for number in range(48)
    ]
    return comma([*head, ("Date", "Hour", "Market Demand", "Demand"), *rows]).encode()


def _tides() -> bytes:
    draw = made("tides")
    rows = [
        (f"{at:%Y-%m-%d %H:%M}", f"{draw.uniform(0, 2):.3f}", draw.choice(("0.007", "0.01")))
        for at in times_from(datetime(2023, 1, 1), minutes=6)
    ]
    return joined([("Date Time", " Water Level", " Sigma"), *rows], by=",").encode()


SHAPES = (
    Shape(
        name="surface_hours", file="72505394728.csv", like="NOAA: Integrated Surface Database as CSV",
        write=_surface_hours, pandas=read_by_pandas({"DATE": "%Y-%m-%dT%H:%M:%S"}),
        key=("STATION", "DATE"), event_time="DATE", zone=True,
    ),
    Shape(
        name="storm_events", file="StormEvents_details_d2023.csv", like="NOAA: storm events, details",
        write=_storm_events,
        pandas=read_by_pandas({"BEGIN_YEARMONTH": "%Y%m", "BEGIN_DATE_TIME": "%d-%b-%y %H:%M:%S"}),
        key=("EVENT_ID",), event_time="BEGIN_DATE_TIME", zone=True, declared=("formats={",),
    ),
    Shape(
        name="hours_of_a_station", file="produkt_tu_stunde_00044.txt", like="DWD: hourly values of a station",
        write=_hours_of_a_station,
        pandas=read_by_pandas({"MESS_DATUM": "%Y%m%d%H"}, sep=";", skipinitialspace=True),
        key=("STATIONS_ID", "MESS_DATUM"), event_time="MESS_DATUM", zone=True,
        declared=('reads=Csv(delimiter=";", trim=True)', 'formats={"MESS_DATUM": "yyyyMMddHH"}'),
    ),
    Shape(
        name="hours_of_days", file="uurgeg_260.txt", like="KNMI: hourly values, named in a comment",
        write=_hours_of_days, pandas=read_by_pandas({1: "%Y%m%d"}, comment="#", header=None, skipinitialspace=True),
        key=("STN", "HH", "YYYYMMDD"), event_time="YYYYMMDD",
        declared=(
            'reads=Csv(comment="#", trim=True, header=False)',
            'columns={0: "STN", 1: "YYYYMMDD", 2: "HH", 3: "DD", 4: "T"}',
            'formats={"YYYYMMDD": "yyyyMMdd"}',
        ),
    ),
    Shape(
        name="fires", file="MODIS_C6_1_Global_24h.csv", like="NASA FIRMS: active fires", write=_fires,
        pandas=read_by_pandas(
            together={"acq_date_acq_time": (("acq_date", "acq_time"), "%Y-%m-%d %H%M")}, dtype={"acq_time": str}
        ),
        key=("acq_date_acq_time",), event_time="acq_date_acq_time", zone=True,
        declared=(
            'columns={("acq_date", "acq_time"): "acq_date_acq_time"}',
            'formats={"acq_date_acq_time": "yyyy-MM-dd HHmm"}',
        ),
    ),
    Shape(
        name="river", file="dv.txt", like="USGS: water data as RDB, with types below the header", write=_river,
        pandas=lambda path: read_by_pandas({"datetime": "%Y-%m-%d %H:%M"}, sep="\t", comment="#", skiprows=[4],
                                           dtype={"site_no": str})(path),
        key=("site_no", "datetime"), event_time="datetime", zone=True, rejected=1,
        declared=(r'reads=Csv(delimiter="\t", comment="#")',),
    ),
    Shape(
        name="air", file="location-2178.csv", like="OpenAQ: measurements of a location", write=_air,
        pandas=lambda path: read_by_pandas()(path).assign(
            datetime=lambda frame: frame["datetime"].map(datetime.fromisoformat).map(lambda at: at + timedelta(hours=7))
        ),
        key=("location_id", "sensors_id", "datetime"), event_time="datetime",
    ),
    Shape(
        name="demand", file="PUB_Demand.csv", like="IESO: titles with the delimiters of the rows", write=_demand,
        pandas=read_by_pandas({"Date": "%Y-%m-%d"}, skiprows=2),
        key=("Hour", "Date"), event_time="Date",
        declared=("reads=Csv(skip=2)", 'columns={"Market Demand": "market_demand"}'),
    ),
    Shape(
        name="tides", file="CO-OPS_8454000.csv", like="NOAA: tides, with blanks before names", write=_tides,
        pandas=read_by_pandas({"Date Time": "%Y-%m-%d %H:%M"}, skipinitialspace=True),
        key=("date_time",), event_time="date_time", zone=True,
        declared=("reads=Csv(trim=True)", 'columns={"Date Time": "date_time", "Water Level": "water_level"}'),
    ),
)  # fmt: skip
