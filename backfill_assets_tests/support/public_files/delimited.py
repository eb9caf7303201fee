"""Delimited text: CSV and its relatives, as statistical offices, sensors, spreadsheets and exports write them."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd

from backfill_assets_tests.support.public_files.shape import (
    RECORDS,
    Shape,
    comma,
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


def _crimes() -> bytes:
    draw = made("crimes")
    rows = [
        (
            10_000_000 + number,
            f"HZ{number:06}",
            f"{at:%m/%d/%Y %I:%M:%S %p}",
            f"{number:03}XX W EXAMPLE ST",
            draw.choice(("0486", "0870")),
            draw.choice(("true", "false")),
            draw.choice(("", "12")),
            "(41.864073157, -87.706818608)",
        )
        for number, at in enumerate(times_from(datetime(2016, 5, 3, 9, 40), minutes=100))
    ]
    return comma([("ID", "Case Number", "Date", "Block", "IUCR", "Arrest", "Ward", "Location"), *rows]).encode()


def _passengers() -> bytes:
    draw = made("passengers")
    rows = [(month.year, f"{month:%B}", draw.randrange(100, 600)) for month in months_from(1949)]
    return comma([("year", "month", "passengers"), *rows]).encode()


def _disasters() -> bytes:
    draw = made("disasters")
    rows = [
        (kind, year, draw.randrange(0, 4_000_000))
        for kind in ("All natural disasters", "Drought")
        for year in range(1900, 1920)
    ]
    return comma([("Entity", "Year", "Deaths"), *rows]).encode()


def _with_index() -> bytes:
    draw = made("with_index")
    rows = [
        (number, day, draw.choice(("True", "False")), draw.choice(("", "1.5")), draw.choice(("00501", "90210")))
        for number, day in enumerate(days_from(date(2022, 3, 1)))
    ]
    return comma([("", "day", "is_open", "rain", "zip"), *rows]).encode()


def _names_twice() -> bytes:
    draw = made("names_twice")
    rows = [
        (number, day, draw.randrange(100), draw.choice(("EUR", "USD")), draw.randrange(100), "EUR")
        for number, day in enumerate(days_from(date(2022, 3, 1)), 1)
    ]
    return comma([("id", "booked_on", "amount", "currency", "amount", "currency"), *rows]).encode()


def _header_again() -> bytes:
    draw = made("header_again")
    header = ("id", "measured_at", "value")
    rows: list[tuple[object, ...]] = [
        (number, f"{at:%Y-%m-%dT%H:%M:%SZ}", f"{draw.uniform(0, 9):.3f}")
        for number, at in enumerate(times_from(datetime(2024, 2, 28, 23), minutes=30))
    ]
    return comma([header, *rows[:20], header, *rows[20:]]).encode()


def _elo() -> bytes:
    draw = made("elo")
    rows = [
        (
            number // 2 + 1,
            f"19990{number // 2 + 101}0TRH",
            number % 2,
            f"11/{number // 2 + 1}/1999",
            f"{draw.uniform(1200, 1600):.4f}",
            draw.choice(("W", "L")),
        )
        for number in range(RECORDS)
    ]
    return comma([("gameorder", "game_id", "_iscopy", "date_game", "elo_i", "game_result"), *rows]).encode()


def _candles_by_day() -> bytes:
    draw = made("candles_by_day")
    rows = [
        (
            day.isoformat(),
            f"{draw.uniform(90, 130):.6f}",
            draw.randrange(10_000_000, 90_000_000),
            draw.choice(("Increasing", "Decreasing")),
        )
        for day in days_from(date(2015, 2, 17))
    ]
    return b"\xef\xbb\xbf" + comma([("Date", "AAPL.Open", "AAPL.Volume", "direction"), *rows]).encode()


def _candles_by_hour() -> bytes:
    draw = made("candles_by_hour")
    rows = []
    for number in range(RECORDS):
        opened = 1_609_459_200_000 + 3_600_000 * number
        rows.append(
            (
                opened,
                f"{draw.uniform(28000, 29000):.8f}",
                f"{draw.uniform(1, 99):.8f}",
                opened + 3_599_999,
                draw.randrange(99),
                0,
            )
        )
    return comma(rows).encode()


def _spreadsheet() -> bytes:
    draw = made("spreadsheet")
    rows = [
        (number, f"{day:%d/%m/%Y}", f"{draw.uniform(0, 9):.2f}".replace(".", ","), draw.choice(("a;b", "c")))
        for number, day in enumerate(days_from(date(2024, 1, 5)), 1)
    ]
    text = io.StringIO()
    csv.writer(text, delimiter=";", lineterminator="\r\n").writerows([("nr", "day", "price", "note"), *rows])
    return b"\xef\xbb\xbfsep=;\r\n" + text.getvalue().encode()


def _population() -> bytes:
    draw = made("population")
    rows = [
        (
            f"{day.month}/{day.day}/{day:%y}",
            draw.choice(("North", "South")),
            f"{draw.randrange(1, 900)},{draw.randrange(1000):03}",
            f"${draw.randrange(1, 9)},{draw.randrange(1000):03}.00",
        )
        for day in days_from(date(2011, 12, 20))
    ]
    return comma([("Day", "Part", "Inhabitants", "Budget"), *rows]).encode()


def _banner() -> bytes:
    draw = made("banner")
    lines = [
        "Station Name,Sampleton",
        '"Province, or State",Nowhere',
        "Latitude,49.2",
        "",
        "All times are specified in Local Standard Time",
    ]
    rows = [
        (f"{at:%Y-%m-%d %H:%M}", f"{draw.uniform(-20, 20):.1f}", draw.choice(("", "M")))
        for at in times_from(datetime(2020, 1, 1), minutes=60)
    ]
    return ("\r".join(lines) + "\r" + comma([("Date/Time", "Temp (°C)", "Temp Flag"), *rows], end="\r")).encode()


def _padded() -> bytes:
    draw = made("padded")
    lines = ['"Month", "Passengers", "Delayed"'] + [
        f'"{month:%b-%Y}", {draw.randrange(300, 700):>5}, {draw.randrange(9):>3}' for month in months_from(2003)
    ]
    return ("\n".join(lines) + "\n").encode()


def _spark_escapes() -> bytes:
    draw = made("spark_escapes")
    lines = ["id,at,said,paid"]
    for number, at in enumerate(times_from(datetime(2024, 6, 1, 8), minutes=45), 1):
        said = draw.choice((r'"say \"hi\", ok"', r"\N", "plain"))
        lines.append(f"{number},{at:%Y-%m-%d %H:%M:%S}+00,{said},{draw.choice(('t', 'f'))}")
    return ("\n".join(lines) + "\n").encode()


def _old_ratings() -> bytes:
    draw = made("old_ratings")
    rows = [
        (1 + number // 8, 1193 + number % 8, draw.randrange(1, 6), 978_300_760 + draw.randrange(9_000_000))
        for number in range(RECORDS)
    ]
    return joined(rows, by="::").encode()


def _visits() -> bytes:
    draw = made("visits")
    rows = [
        (number, f"{at:%Y-%m-%d %H:%M:%S} UTC", draw.choice(("/a?b=1", "/")), draw.choice((200, 404)))
        for number, at in enumerate(irregular(draw, datetime(2020, 9, 11, 9, 18, 26)))
    ]
    return joined([("request_id", "requested_at", "path", "status"), *rows], by="|").encode()


def _meetings() -> bytes:
    draw = made("meetings")
    rows = [
        (f"m-{number}", f"{at:%Y-%m-%dT%H:%M:%S}+01:00", draw.choice(("Zürich", "online")))
        for number, at in enumerate(times_from(datetime(2029, 12, 1, 9), minutes=2880))
    ]
    return comma([("meeting_id", "starts_at", "place"), *rows]).encode()


def _two_forms() -> bytes:
    draw = made("two_forms")
    rows = [
        (number, day.isoformat() if number % 3 else f"{day:%b} {day.day} {day.year}", draw.randrange(9))
        for number, day in enumerate(days_from(date(2019, 12, 20)))
    ]
    return comma([("id", "Release Date", "votes"), *rows]).encode()


def _prices() -> bytes:
    draw = made("prices")
    rows = [
        (f"{day:%d-%b-%Y}", f"'{draw.choice(('Crème, 1 l', 'Brot'))}'", f"{draw.uniform(1, 9):.2f}", "€")
        for day in days_from(date(2021, 2, 20), count=20)
        for _ in range(2)
    ]
    return joined([("tag", "ware", "preis", "geld"), *rows], by=",", end="\r\n").encode("cp1252")


def _dates(frame: pd.DataFrame, **formats: str) -> pd.DataFrame:
    """Columns of days and local times, read by these formats."""
    for column, form in formats.items():
        frame[column] = pd.to_datetime(frame[column].astype(str), format=form)
    return frame


def _as_dates(frame: pd.DataFrame, formats: Mapping[Any, str]) -> pd.DataFrame:
    """The same for names that Python has no words for."""
    for column, form in formats.items():
        frame[column] = pd.to_datetime(frame[column].astype(str), format=form)
    return frame


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
    return _dates(frame.astype({"startYear": int}), startYear="%Y")


def _read_household_power(path: Path) -> pd.DataFrame:
    frame = pd.read_csv(path, sep=";", na_values=["?"])
    frame["date_time"] = pd.to_datetime(frame["Date"] + " " + frame["Time"], format="%d/%m/%Y %H:%M:%S")
    return frame


def _read_air_quality(path: Path) -> pd.DataFrame:
    frame = pd.read_csv(path, sep=";", decimal=",").dropna(how="all")
    frame["date_time"] = pd.to_datetime(frame["Date"] + " " + frame["Time"], format="%d/%m/%Y %H.%M.%S")
    return frame


def _read_passengers(path: Path) -> pd.DataFrame:
    frame = pd.read_csv(path)
    frame["year_month"] = pd.to_datetime(frame["year"].astype(str) + " " + frame["month"], format="%Y %B")
    return frame


def _read_header_again(path: Path) -> pd.DataFrame:
    frame = pd.read_csv(path)
    frame = frame[frame["id"] != "id"].astype({"id": int, "value": float})
    return _dates(frame, measured_at="%Y-%m-%dT%H:%M:%SZ")


def _read_ratings(path: Path) -> pd.DataFrame:
    frame = pd.read_csv(path)
    frame["timestamp"] = pd.to_datetime(frame["timestamp"], unit="s")
    return frame


def _read_candles_by_hour(path: Path) -> pd.DataFrame:
    frame = pd.read_csv(path, header=None)
    for column in (0, 3):
        frame[column] = pd.to_datetime(frame[column], unit="ms")
    return frame


def _read_zipped_trips(path: Path) -> pd.DataFrame:
    with zipfile.ZipFile(path) as archive, archive.open("202307-trips.csv") as file:
        return _dates(pd.read_csv(file), starttime="%Y-%m-%d %H:%M:%S", stoptime="%Y-%m-%d %H:%M:%S")


def _read_population(path: Path) -> pd.DataFrame:
    return _dates(pd.read_csv(path, thousands=",", dtype={"Budget": str}), Day="%m/%d/%y")


def _read_padded(path: Path) -> pd.DataFrame:
    return _dates(pd.read_csv(path, skipinitialspace=True), Month="%b-%Y")


def _read_old_ratings(path: Path) -> pd.DataFrame:
    frame = pd.read_csv(path, sep="::", header=None, engine="python")
    frame[3] = pd.to_datetime(frame[3], unit="s")
    return frame


def _read_meetings(path: Path) -> pd.DataFrame:
    frame = pd.read_csv(path)
    frame["starts_at"] = pd.to_datetime(frame["starts_at"], utc=True)
    return frame


def _read_two_forms(path: Path) -> pd.DataFrame:
    frame = pd.read_csv(path)
    frame["Release Date"] = pd.to_datetime(frame["Release Date"], format="mixed")
    return frame


def _read_spark_escapes(path: Path) -> pd.DataFrame:
    frame = pd.read_csv(path, escapechar="\\", na_values=["\\N", "N"], keep_default_na=False)
    frame["paid"] = frame["paid"] == "t"
    return _dates(frame, at="%Y-%m-%d %H:%M:%S+00")


SHAPES = (
    Shape(
        name="weather", file="seattle-weather.csv", like="vega-datasets: seattle-weather.csv", write=_weather,
        pandas=lambda path: _dates(pd.read_csv(path), date="%Y-%m-%d"),
        key=("date",), event_time="date",
    ),
    Shape(
        name="hourly_temperatures", file="seattle-temps.csv", like="vega-datasets: seattle-temps.csv",
        write=_hourly_temperatures, pandas=lambda path: _dates(pd.read_csv(path), date="%Y/%m/%d %H:%M"),
        key=("date",), event_time="date", zone=True,
        declared=('formats={"date": "yyyy/MM/dd HH:mm"}',),
    ),
    Shape(
        name="stocks", file="stocks.csv", like="vega-datasets: stocks.csv", write=_stocks,
        pandas=lambda path: _dates(pd.read_csv(path), date="%b %d %Y"),
        key=("symbol", "date"), event_time="date",
        declared=('formats={"date": "MMM d yyyy"}',),
    ),
    Shape(
        name="bird_strikes", file="birdstrikes.csv", like="vega-datasets: birdstrikes.csv", write=_bird_strikes,
        pandas=lambda path: _as_dates(
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
        pandas=lambda path: _dates(pd.read_csv(path), month="%Y-%m-%d"),
        key=("month",), event_time="month",
    ),
    Shape(
        name="taxis", file="taxis.csv", like="seaborn-data: taxis.csv", write=_taxis,
        pandas=lambda path: _dates(pd.read_csv(path), pickup="%Y-%m-%d %H:%M:%S", dropoff="%Y-%m-%d %H:%M:%S"),
        event_time="pickup", zone=True,
    ),
    Shape(
        name="earthquakes", file="all_day.csv", like="USGS: earthquakes of a day as CSV", write=_earthquakes,
        pandas=lambda path: _dates(pd.read_csv(path), time="%Y-%m-%dT%H:%M:%S.%fZ"),
        key=("id",), event_time="time",
    ),
    Shape(
        name="covid_daily", file="01-22-2020.csv", like="Johns Hopkins: COVID-19 daily reports", write=_covid_daily,
        pandas=lambda path: _as_dates(pd.read_csv(path), {"Last Update": "%m/%d/%Y %H:%M"}),
        event_time="last_update", zone=True,
        declared=("columns={", 'formats={"last_update": "M/d/yyyy H:mm"}'),
    ),
    Shape(
        name="pandemic", file="owid-covid-data.csv", like="Our World in Data: owid-covid-data.csv", write=_pandemic,
        pandas=lambda path: _dates(pd.read_csv(path, keep_default_na=False, na_values=[""]), date="%Y-%m-%d"),
        key=("iso_code", "date"), event_time="date",
    ),
    Shape(
        name="station_days", file="2023.csv", like="NOAA: GHCN daily by year", write=_station_days,
        pandas=lambda path: _as_dates(pd.read_csv(path, header=None, dtype={7: str}), {1: "%Y%m%d"}),
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
        pandas=lambda path: _dates(
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
        pandas=lambda path: _as_dates(pd.read_csv(path, sep="\t", encoding="utf-16"), {"Order Date": "%m/%d/%Y"}),
        key=("order_id",), event_time="order_date",
        declared=("reads=Csv(", "columns={", 'formats={"order_date": "M/d/yyyy"}'),
    ),
    Shape(
        name="search_trends", file="multiTimeline.csv", like="Google Trends: multiTimeline.csv", write=_search_trends,
        pandas=lambda path: _dates(pd.read_csv(path, skiprows=1), Month="%Y-%m"),
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
        pandas=lambda path: _dates(pd.read_csv(path), starttime="%Y-%m-%d %H:%M:%S", stoptime="%Y-%m-%d %H:%M:%S"),
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
        pandas=lambda path: _dates(pd.read_csv(path, encoding="latin-1"), InvoiceDate="%m/%d/%Y %H:%M"),
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
    Shape(
        name="crimes", file="Crimes_-_2016.csv", like="Chicago data portal: crimes", write=_crimes,
        pandas=lambda path: _dates(pd.read_csv(path, dtype={"IUCR": str}), Date="%m/%d/%Y %I:%M:%S %p"),
        key=("ID",), event_time="Date", zone=True,
        declared=("columns={", 'formats={"Date": "MM/dd/yyyy hh:mm:ss a"}'),
    ),
    Shape(
        name="passengers", file="flights.csv", like="seaborn-data: flights.csv", write=_passengers,
        pandas=_read_passengers, key=("year_month",), event_time="year_month",
        declared=("columns={", 'formats={"year_month": "yyyy MMMM"}'),
    ),
    Shape(
        name="disasters", file="disasters.csv", like="vega-datasets: disasters.csv", write=_disasters,
        pandas=lambda path: _dates(pd.read_csv(path), Year="%Y"),
        key=("Entity", "Year"), event_time="Year", declared=('formats={"Year": "yyyy"}',),
    ),
    Shape(
        name="with_index", file="frame.csv", like="pandas: DataFrame.to_csv with its index", write=_with_index,
        pandas=lambda path: _dates(pd.read_csv(path, dtype={"zip": str}), day="%Y-%m-%d"),
        key=("column_0",), event_time="day",
        declared=("reads=Csv(", 'columns={0: "column_0"}'),
    ),
    Shape(
        name="names_twice", file="bookings.csv", like="a join that was exported", write=_names_twice,
        pandas=lambda path: _dates(pd.read_csv(path), booked_on="%Y-%m-%d"),
        key=("id",), event_time="booked_on", declared=("columns={",),
    ),
    Shape(
        name="header_again", file="measured.csv", like="files with headers, one behind the other", write=_header_again,
        pandas=_read_header_again, key=("id",), event_time="measured_at", declared=("reads=Csv()",),
    ),
    Shape(
        name="elo", file="nbaallelo.csv", like="fivethirtyeight: nbaallelo.csv", write=_elo,
        pandas=lambda path: _dates(pd.read_csv(path), date_game="%m/%d/%Y"),
        key=("game_id", "iscopy"), event_time="date_game",
        declared=('columns={"_iscopy": "iscopy"}', 'formats={"date_game": "M/d/yyyy"}'),
    ),
    Shape(
        name="candles_by_day", file="finance-charts-apple.csv", like="plotly/datasets: finance-charts-apple.csv",
        write=_candles_by_day, pandas=lambda path: _dates(pd.read_csv(path), Date="%Y-%m-%d"),
        key=("Date",), event_time="Date", declared=("columns={",),
    ),
    Shape(
        name="candles_by_hour", file="BTCUSDT-1h-2021-01.csv", like="Binance: klines", write=_candles_by_hour,
        pandas=_read_candles_by_hour, key=("column_0",), event_time="column_0",
        declared=("reads=Csv(header=False)", "columns={", "formats={"),
    ),
    Shape(
        name="spreadsheet", file="prijzen.csv", like="Excel in Europe: sep=; and CR LF", write=_spreadsheet,
        pandas=lambda path: _dates(
            pd.read_csv(path, sep=";", decimal=",", skiprows=1, encoding="utf-8-sig"), day="%d/%m/%Y"
        ),
        key=("nr",), event_time="day",
        declared=("reads=Csv(", 'formats={"day": "dd/MM/yyyy"}'),
    ),
    Shape(
        name="population", file="population.csv", like="exports with thousands separated by commas", write=_population,
        pandas=_read_population, key=("Day",), event_time="Day",
        declared=('reads=Csv(thousands=",")', 'formats={"Day": "M/d/yy"}'),
    ),
    Shape(
        name="banner", file="hourly.csv", like="Environment Canada: rows before the header, CR line ends",
        write=_banner,
        pandas=lambda path: _as_dates(
            pd.read_csv(path, skiprows=5, lineterminator="\r", skip_blank_lines=False), {"Date/Time": "%Y-%m-%d %H:%M"}
        ),
        key=("date_time",), event_time="date_time", zone=True,
        declared=("reads=Csv(skip=5)", "columns={"),
    ),
    Shape(
        name="padded", file="airtravel.csv", like="FSU: sample CSV with blanks behind commas", write=_padded,
        pandas=_read_padded, key=("Month",), event_time="Month",
        declared=("reads=Csv(trim=True)", 'formats={"Month": "MMM-yyyy"}'),
    ),
    Shape(
        name="old_ratings", file="ratings.dat", like="MovieLens: ratings.dat of 1M", write=_old_ratings,
        pandas=_read_old_ratings, event_time="column_3",
        declared=("reads=Csv(", "columns={", 'formats={"column_3": Epoch("s")}'),
    ),
    Shape(
        name="visits", file="visits.txt", like="BigQuery and web logs: bars, and UTC behind times", write=_visits,
        pandas=lambda path: _dates(pd.read_csv(path, sep="|"), requested_at="%Y-%m-%d %H:%M:%S UTC"),
        key=("request_id",), event_time="requested_at",
        declared=('reads=Csv(delimiter="|")', """formats={"requested_at": "yyyy-MM-dd HH:mm:ss 'UTC'"}"""),
    ),
    Shape(
        name="meetings", file="meetings.csv", like="schedules, whose times are still to come", write=_meetings,
        pandas=_read_meetings, key=("meeting_id",), event_time="starts_at",
    ),
    Shape(
        name="two_forms", file="releases.csv", like="sheets that several people wrote: two forms of dates",
        write=_two_forms, pandas=_read_two_forms, key=("id",), event_time="release_date",
        declared=('columns={"Release Date": "release_date"}', 'formats={"release_date": ('),
    ),
    Shape(
        name="prices", file="preise.csv", like="Windows: code page 1252 and single quotes", write=_prices,
        pandas=lambda path: _dates(pd.read_csv(path, encoding="cp1252", quotechar="'"), tag="%d-%b-%Y"),
        event_time="tag", declared=("reads=Csv(", 'formats={"tag": "dd-MMM-yyyy"}'),
    ),
    Shape(
        name="spark_escapes", file="said.csv", like="Spark's own CSV, and dumps with \\N", write=_spark_escapes,
        pandas=_read_spark_escapes, key=("id",), event_time="at",
        declared=("reads=Csv(",),
    ),
)  # fmt: skip
