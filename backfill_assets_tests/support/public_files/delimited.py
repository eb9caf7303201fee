"""Delimited text: CSV and its relatives, as statistical offices, sensors and archives publish them."""

from __future__ import annotations

import csv
import io
import zipfile
from datetime import date, datetime, timedelta
from pathlib import Path

import pandas as pd

from backfill_assets_tests.support.public_files.shape import (
    RECORDS,
    Shape,
    as_dates,
    comma,
    dates,
    days_from,
    irregular,
    joined,
    made,
    months_from,
    times_from,
)


def _weather() -> bytes:
    draw = made("weather")
    rows = [
        (
            day.isoformat(),
            draw.choice(("0.0", "10.9", "0.3")),
            f"{draw.uniform(-2, 30):.1f}",
            draw.choice(("rain", "sun")),
        )
        for day in days_from(date(2012, 1, 1))
    ]
    return comma([("date", "precipitation", "temp_max", "weather"), *rows]).encode()


def _hourly_temperatures() -> bytes:
    draw = made("hourly_temperatures")
    rows = [
        (f"{at:%Y/%m/%d %H:%M}", f"{draw.uniform(30, 60):.1f}") for at in times_from(datetime(2010, 1, 1), minutes=60)
    ]
    return comma([("date", "temp"), *rows]).encode()


def _stocks() -> bytes:
    draw = made("stocks")
    days = months_from(2000, count=20)
    rows = [
        (symbol, f"{day:%b} {day.day} {day.year}", f"{draw.uniform(10, 600):.2f}")
        for symbol in ("AAA", "BBB")
        for day in days
    ]
    return comma([("symbol", "date", "price"), *rows]).encode()


def _bird_strikes() -> bytes:
    draw = made("bird_strikes")
    header = (
        "Airport Name",
        "Aircraft Make Model",
        "Effect Amount of damage",
        "Flight Date",
        "Cost Total $",
        "Speed IAS in knots",
    )
    rows = []
    for number in range(RECORDS):
        day = date(1999, 1, 8) + timedelta(days=number // 2)
        rows.append(
            (
                draw.choice(("EXAMPLE INTL", "O'SAMPLE FIELD, NORTH")),
                draw.choice(("B-737-300", "Airbus 320")),
                draw.choice(("None", "Minor")),
                f"{day.month}/{day.day}/{day.year} 0:00",
                draw.choice((0, 0, 1500)),
                draw.choice(("", 140, 300)),
            )
        )
    rows[7] = rows[6]
    return comma([header, *rows], end="\r\n").encode()


def _employment() -> bytes:
    draw = made("employment")
    rows = [
        (month.isoformat(), draw.randrange(100_000, 140_000), draw.randrange(-900, 400), f"{draw.uniform(-1, 1):.3f}")
        for month in months_from(2006)
    ]
    return comma([("month", "nonfarm", "nonfarm_change", "share"), *rows]).encode()


def _taxis() -> bytes:
    draw = made("taxis")
    rows = []
    for at in times_from(datetime(2019, 3, 23, 20, 21, 9), minutes=7):
        fare = f"{draw.uniform(3, 40):.1f}"
        rows.append(
            (
                at,
                at + timedelta(minutes=11),
                draw.randrange(1, 5),
                fare,
                draw.choice(("yellow", "green")),
                draw.choice(("", "Alphabet City")),
            )
        )
    rows[9] = rows[8]
    return comma([("pickup", "dropoff", "passengers", "fare", "color", "pickup_zone"), *rows]).encode()


def _earthquakes() -> bytes:
    draw = made("earthquakes")
    rows = [
        (
            f"{at:%Y-%m-%dT%H:%M:%S}.{draw.randrange(1000):03}Z",
            f"{draw.uniform(-90, 90):.4f}",
            f"{draw.uniform(0, 6):.2f}",
            f"zz{number:06}",
            "7km NW of Somewhere, CA",
        )
        for number, at in enumerate(times_from(datetime(2018, 2, 14, 12, 21), minutes=-13))
    ]
    return comma([("time", "latitude", "mag", "id", "place"), *rows]).encode()


def _covid_daily() -> bytes:
    draw = made("covid_daily")
    header = ("Province/State", "Country/Region", "Last Update", "Confirmed", "Deaths")
    rows = [
        (
            "" if number % 4 == 3 else f"Province {number}",
            f"Land {number // 7}",
            f"1/{22 + number % 8}/2020 {draw.choice((17, 12))}:00",
            draw.choice((1, 444, "")),
            draw.choice(("", 17)),
        )
        for number in range(RECORDS)
    ]
    return comma([header, *rows], end="\r\n").encode()


def _pandemic() -> bytes:
    draw = made("pandemic")
    header = ("iso_code", "continent", "date", "new_cases", "new_cases_smoothed", "stringency_index")
    rows = []
    for code, continent in (("AFG", "Asia"), ("NAM", "NA")):
        for day in days_from(date(2020, 2, 24), count=20):
            rows.append(
                (
                    code,
                    continent,
                    day,
                    f"{draw.randrange(0, 200)}.0",
                    draw.choice(("", "0.714")),
                    draw.choice(("", "8.33")),
                )
            )
    return comma([header, *rows]).encode()


def _station_days() -> bytes:
    draw = made("station_days")
    rows = [
        (
            station,
            f"{day:%Y%m%d}",
            element,
            draw.randrange(-150, 300),
            "",
            draw.choice(("", "L")),
            "W",
            draw.choice(("", "0700")),
        )
        for day in days_from(date(2023, 1, 1), count=10)
        for station in ("US000010001", "AU000010002")
        for element in ("TMAX", "PRCP")
    ]
    return comma(rows).encode()


def _carbon_dioxide() -> bytes:
    draw = made("carbon_dioxide")
    banner = "# --------------------\n# USE OF THIS FILE, and of values in it\n#\n# year, month, day\n"
    rows = [
        (
            day.year,
            day.month,
            day.day,
            f"{day.year + day.timetuple().tm_yday / 366:.4f}",
            f"{draw.uniform(330, 420):.2f}",
            draw.choice(("-999.99", "410.10")),
        )
        for day in days_from(date(2015, 5, 17), step=7)
    ]
    return (banner + comma([("year", "month", "day", "decimal", "average", "1 year ago"), *rows])).encode()


def _turnover() -> bytes:
    draw = made("turnover")
    rows = [
        (
            f"{day:%d.%m.%Y}",
            city,
            f"{draw.randrange(1, 9)}.{draw.randrange(1000):03},{draw.randrange(100):02}",
            f"{draw.uniform(-9, 9):.1f}".replace(".", ","),
        )
        for day in days_from(date(2023, 1, 20), count=20)
        for city in ("München", "Köln")
    ]
    return joined([("Datum", "Stadt", "Umsatz", "Änderung in %"), *rows], by=";", end="\r\n").encode("latin-1")


def _titles() -> bytes:
    draw = made("titles")
    rows = [
        (
            f"tt{number:07}",
            draw.choice(("movie", "short")),
            draw.choice(('The "Best" of It', '"Half a quote', "Plain")),
            draw.choice((0, 1)),
            r"\N" if number % 23 == 9 else 2000 + number % 20,
            draw.choice((r"\N", 95)),
            draw.choice((r"\N", "Comedy,Drama")),
        )
        for number in range(1, RECORDS + 1)
    ]
    header = ("tconst", "titleType", "primaryTitle", "isAdult", "startYear", "runtimeMinutes", "genres")
    return joined([header, *rows], by="\t").encode()


def _unicode_export() -> bytes:
    draw = made("unicode_export")
    rows = [
        (number, f"{day.month}/{day.day}/{day.year}", draw.choice(("Zoë", "Łukasz")), f"{draw.uniform(1, 99):.2f}")
        for number, day in enumerate(days_from(date(2021, 9, 25)), 1001)
    ]
    return joined([("Order ID", "Order Date", "Sold by", "Total"), *rows], by="\t", end="\r\n").encode("utf-16")


def _search_trends() -> bytes:
    draw = made("search_trends")
    rows = [(f"{month:%Y-%m}", draw.randrange(100), draw.choice(("<1", "2", "45"))) for month in months_from(2004)]
    return (
        "Category: All categories\n\n" + comma([("Month", "python: (Worldwide)", "spark: (Worldwide)"), *rows])
    ).encode()


def _labour_series() -> bytes:
    draw = made("labour_series")
    lines = ["series_id        \tyear\tperiod\t       value\tfootnote_codes"]
    for series in ("LNS10300000", "LNS10300001"):
        for month in months_from(2019, count=20):
            lines.append(f"{series}      \t{month.year}\tM{month.month:02}\t{draw.uniform(50, 60):12.1f}\t")
    return ("\r\n".join(lines) + "\r\n").encode()


def _bicycle_trips() -> bytes:
    draw = made("bicycle_trips")
    rows = [
        (
            draw.randrange(61, 4000),
            at,
            at + timedelta(seconds=634),
            draw.randrange(72, 520),
            draw.choice(("W 1 St & 2 Ave", "Broadway")),
            draw.choice(("Subscriber", "Customer")),
            draw.choice(("", "1983")),
        )
        for at in irregular(draw, datetime(2023, 7, 1, 0, 0, 1))
    ]
    header = (
        "tripduration",
        "starttime",
        "stoptime",
        "start station id",
        "start station name",
        "usertype",
        "birth year",
    )
    return comma([header, *rows], quoting=csv.QUOTE_ALL).encode()


def _zipped_trips() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("202307-trips.csv", _bicycle_trips())
        archive.writestr("__MACOSX/._202307-trips.csv", b"\x00\x05\x16\x07\x00\x02\x00\x00Mac OS X")
    return packed.getvalue()


def _online_retail() -> bytes:
    draw = made("online_retail")
    header = ("InvoiceNo", "StockCode", "Description", "Quantity", "InvoiceDate", "UnitPrice", "CustomerID")
    rows = []
    for number in range(RECORDS):
        at = datetime(2010, 12, 1, 8, 26) + timedelta(minutes=97 * (number // 4))
        rows.append(
            (
                f"{'C' if number % 9 == 8 else ''}{536365 + number // 4}",
                draw.choice(("85123A", "71053", "POST")),
                draw.choice(("WHITE HANGER", "CAFÉ £ SIGN", "")),
                draw.randrange(-3, 12),
                f"{at.month}/{at.day}/{at.year} {at.hour}:{at:%M}",
                f"{draw.uniform(0, 9):.2f}",
                draw.choice(("", "17850")),
            )
        )
    rows[5] = rows[4]
    return comma([header, *rows], end="\r\n").encode("latin-1")


def _ratings() -> bytes:
    draw = made("ratings")
    rows = [
        (1 + number // 10, 296 + number % 10, draw.choice((0.5, 3.0, 5.0)), 1147880044 + draw.randrange(10_000_000))
        for number in range(RECORDS)
    ]
    return comma([("userId", "movieId", "rating", "timestamp"), *rows]).encode()


def _household_power() -> bytes:
    draw = made("household_power")
    rows = []
    for number, at in enumerate(times_from(datetime(2006, 12, 16, 17, 24), minutes=13 * 60)):
        power = ("?", "?") if number % 11 == 7 else (f"{draw.uniform(0, 6):.3f}", f"{draw.uniform(230, 245):.2f}")
        rows.append((f"{at.day}/{at.month}/{at.year}", f"{at:%H:%M:%S}", *power))
    return joined([("Date", "Time", "Global_active_power", "Voltage"), *rows], by=";").encode()


def _air_quality() -> bytes:
    draw = made("air_quality")
    rows = [
        (
            f"{at:%d/%m/%Y}",
            f"{at:%H.%M.%S}",
            f"{draw.uniform(0, 6):.1f}".replace(".", ","),
            draw.choice((1360, -200)),
            f"{draw.uniform(0, 2):.4f}".replace(".", ","),
            "",
            "",
        )
        for at in times_from(datetime(2004, 3, 10, 18), minutes=60)
    ]
    header = ("Date", "Time", "CO(GT)", "PT08.S1(CO)", "AH", "", "")
    return joined([header, *rows, *[[""] * len(header)] * 3], by=";", end="\r\n").encode()


def _read_carbon_dioxide(path: Path) -> pd.DataFrame:
    frame = pd.read_csv(path, comment="#")
    frame["year_month_day"] = pd.to_datetime(frame[["year", "month", "day"]])
    return frame


def _read_labour_series(path: Path) -> pd.DataFrame:
    frame = pd.read_csv(path, sep="\t", dtype={"footnote_codes": str})
    frame.columns = frame.columns.str.strip()
    frame["series_id"] = frame["series_id"].str.strip()
    frame["footnote_codes"] = None
    frame["year_period"] = pd.to_datetime(frame["year"].astype(str) + frame["period"], format="%YM%m")
    return frame


def _read_titles(path: Path) -> pd.DataFrame:
    frame = pd.read_csv(path, sep="\t", na_values=["\\N"], quoting=csv.QUOTE_NONE).dropna(subset=["startYear"])
    return dates(frame.astype({"startYear": int}), startYear="%Y")


def _read_household_power(path: Path) -> pd.DataFrame:
    frame = pd.read_csv(path, sep=";", na_values=["?"])
    frame["date_time"] = pd.to_datetime(frame["Date"] + " " + frame["Time"], format="%d/%m/%Y %H:%M:%S")
    return frame


def _read_air_quality(path: Path) -> pd.DataFrame:
    frame = pd.read_csv(path, sep=";", decimal=",").dropna(how="all")
    frame["date_time"] = pd.to_datetime(frame["Date"] + " " + frame["Time"], format="%d/%m/%Y %H.%M.%S")
    return frame


def _read_ratings(path: Path) -> pd.DataFrame:
    frame = pd.read_csv(path)
    frame["timestamp"] = pd.to_datetime(frame["timestamp"], unit="s")
    return frame


def _read_zipped_trips(path: Path) -> pd.DataFrame:
    with zipfile.ZipFile(path) as archive, archive.open("202307-trips.csv") as file:
        return dates(pd.read_csv(file), starttime="%Y-%m-%d %H:%M:%S", stoptime="%Y-%m-%d %H:%M:%S")


SHAPES = (
    Shape(
        name="weather", file="seattle-weather.csv", like="vega-datasets: seattle-weather.csv", write=_weather,
        pandas=lambda path: dates(pd.read_csv(path), date="%Y-%m-%d"),
        key=("date",), event_time="date",
    ),
    Shape(
        name="hourly_temperatures", file="seattle-temps.csv", like="vega-datasets: seattle-temps.csv",
        write=_hourly_temperatures, pandas=lambda path: dates(pd.read_csv(path), date="%Y/%m/%d %H:%M"),
        key=("date",), event_time="date", zone=True,
        declared=('formats={"date": "yyyy/MM/dd HH:mm"}',),
    ),
    Shape(
        name="stocks", file="stocks.csv", like="vega-datasets: stocks.csv", write=_stocks,
        pandas=lambda path: dates(pd.read_csv(path), date="%b %d %Y"),
        key=("symbol", "date"), event_time="date",
        declared=('formats={"date": "MMM d yyyy"}',),
    ),
    Shape(
        name="bird_strikes", file="birdstrikes.csv", like="vega-datasets: birdstrikes.csv", write=_bird_strikes,
        pandas=lambda path: as_dates(
            pd.read_csv(path, keep_default_na=False, na_values=[""]), {"Flight Date": "%m/%d/%Y %H:%M"}
        ),
        event_time="flight_date", zone=True,
        declared=(
            'columns={',
            'formats={"flight_date": "M/d/yyyy H:mm"}',
        ),
    ),
    Shape(
        name="employment", file="us-employment.csv", like="vega-datasets: us-employment.csv", write=_employment,
        pandas=lambda path: dates(pd.read_csv(path), month="%Y-%m-%d"),
        key=("month",), event_time="month",
    ),
    Shape(
        name="taxis", file="taxis.csv", like="seaborn-data: taxis.csv", write=_taxis,
        pandas=lambda path: dates(pd.read_csv(path), pickup="%Y-%m-%d %H:%M:%S", dropoff="%Y-%m-%d %H:%M:%S"),
        event_time="pickup", zone=True,
    ),
    Shape(
        name="earthquakes", file="all_day.csv", like="USGS: earthquakes of a day as CSV", write=_earthquakes,
        pandas=lambda path: dates(pd.read_csv(path), time="%Y-%m-%dT%H:%M:%S.%fZ"),
        key=("id",), event_time="time",
    ),
    Shape(
        name="covid_daily", file="01-22-2020.csv", like="Johns Hopkins: COVID-19 daily reports", write=_covid_daily,
        pandas=lambda path: as_dates(pd.read_csv(path), {"Last Update": "%m/%d/%Y %H:%M"}),
        event_time="last_update", zone=True,
        declared=("columns={", 'formats={"last_update": "M/d/yyyy H:mm"}'),
    ),
    Shape(
        name="pandemic", file="owid-covid-data.csv", like="Our World in Data: owid-covid-data.csv", write=_pandemic,
        pandas=lambda path: dates(pd.read_csv(path, keep_default_na=False, na_values=[""]), date="%Y-%m-%d"),
        key=("iso_code", "date"), event_time="date",
    ),
    Shape(
        name="station_days", file="2023.csv", like="NOAA: GHCN daily by year", write=_station_days,
        pandas=lambda path: as_dates(pd.read_csv(path, header=None, dtype={7: str}), {1: "%Y%m%d"}),
        key=("column_0", "column_2", "column_1"), event_time="column_1",
        declared=("reads=Csv(header=False)", "columns={", 'formats={"column_1": "yyyyMMdd"}'),
    ),
    Shape(
        name="carbon_dioxide", file="co2_weekly_mlo.csv", like="NOAA: weekly CO2 of Mauna Loa", write=_carbon_dioxide,
        pandas=_read_carbon_dioxide, key=("year_month_day",), event_time="year_month_day",
        declared=('reads=Csv(comment="#")', "columns={", 'formats={"year_month_day": "yyyy M d"}'),
    ),
    Shape(
        name="turnover", file="umsatz.csv", like="open data of German towns: semicolons, Latin-1, decimal commas",
        write=_turnover,
        pandas=lambda path: dates(
            pd.read_csv(path, sep=";", decimal=",", thousands=".", encoding="latin-1", dtype={"Datum": str}),
            Datum="%d.%m.%Y",
        ),
        key=("Stadt", "Datum"), event_time="Datum",
        declared=("reads=Csv(", "columns={", 'formats={"Datum": "dd.MM.yyyy"}'),
    ),
    Shape(
        name="titles", file="title.basics.tsv", like="IMDb: title.basics.tsv", write=_titles,
        pandas=_read_titles, key=("tconst",), event_time="startYear", rejected=2,
        declared=("reads=Csv(", 'formats={"startYear": "yyyy"}'),
    ),
    Shape(
        name="unicode_export", file="orders.txt", like="Excel: Unicode Text", write=_unicode_export,
        pandas=lambda path: as_dates(pd.read_csv(path, sep="\t", encoding="utf-16"), {"Order Date": "%m/%d/%Y"}),
        key=("order_id",), event_time="order_date",
        declared=("reads=Csv(", "columns={", 'formats={"order_date": "M/d/yyyy"}'),
    ),
    Shape(
        name="search_trends", file="multiTimeline.csv", like="Google Trends: multiTimeline.csv", write=_search_trends,
        pandas=lambda path: dates(pd.read_csv(path, skiprows=1), Month="%Y-%m"),
        key=("Month",), event_time="Month",
        declared=("reads=Csv(skip=2)", "columns={", 'formats={"Month": "yyyy-MM"}'),
    ),
    Shape(
        name="labour_series", file="ln.data.txt", like="BLS: flat files of time series", write=_labour_series,
        pandas=_read_labour_series, key=("series_id", "year_period"), event_time="year_period",
        declared=("reads=Csv(", "columns={", """formats={"year_period": "yyyy 'M'MM"}"""),
    ),
    Shape(
        name="bicycle_trips", file="202307-trips.csv", like="Citi Bike: trips of a month", write=_bicycle_trips,
        pandas=lambda path: dates(pd.read_csv(path), starttime="%Y-%m-%d %H:%M:%S", stoptime="%Y-%m-%d %H:%M:%S"),
        event_time="starttime", zone=True, declared=("columns={",),
    ),
    Shape(
        name="zipped_trips", file="202307-trips.csv.zip", like="Citi Bike: trips of a month, zipped by a Mac",
        write=_zipped_trips,
        pandas=_read_zipped_trips,
        event_time="starttime", zone=True, declared=("columns={",),
    ),
    Shape(
        name="online_retail", file="online_retail.csv", like="UCI: Online Retail as CSV", write=_online_retail,
        pandas=lambda path: dates(pd.read_csv(path, encoding="latin-1"), InvoiceDate="%m/%d/%Y %H:%M"),
        event_time="InvoiceDate", zone=True,
        declared=('reads=Csv(encoding="latin-1")', 'formats={"InvoiceDate": "M/d/yyyy H:mm"}'),
    ),
    Shape(
        name="ratings", file="ratings.csv", like="MovieLens: ratings.csv", write=_ratings, pandas=_read_ratings,
        key=("userId", "movieId"), event_time="timestamp", declared=('formats={"timestamp": Epoch("s")}',),
    ),
    Shape(
        name="household_power", file="household_power_consumption.txt", like="UCI: household power consumption",
        write=_household_power, pandas=_read_household_power, key=("date_time",), event_time="date_time", zone=True,
        declared=("reads=Csv(", "columns={", 'formats={"date_time": "d/M/yyyy HH:mm:ss"}'),
    ),
    Shape(
        name="air_quality", file="AirQualityUCI.csv", like="UCI: Air Quality", write=_air_quality,
        pandas=_read_air_quality, key=("date_time",), event_time="date_time", zone=True, rejected=3,
        declared=("reads=Csv(", "columns={", 'formats={"date_time": "dd/MM/yyyy HH.mm.ss"}'),
    ),
)  # fmt: skip
