"""Delimited text with quirks: an index, names twice, headers inside, banners, padding, escapes, times of all kinds."""

from __future__ import annotations

import csv
import io
from datetime import date, datetime
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


def _read_passengers(path: Path) -> pd.DataFrame:
    frame = pd.read_csv(path)
    frame["year_month"] = pd.to_datetime(frame["year"].astype(str) + " " + frame["month"], format="%Y %B")
    return frame


def _read_header_again(path: Path) -> pd.DataFrame:
    frame = pd.read_csv(path)
    frame = frame[frame["id"] != "id"].astype({"id": int, "value": float})
    return dates(frame, measured_at="%Y-%m-%dT%H:%M:%SZ")


def _read_candles_by_hour(path: Path) -> pd.DataFrame:
    frame = pd.read_csv(path, header=None)
    for column in (0, 3):
        frame[column] = pd.to_datetime(frame[column], unit="ms")
    return frame


def _read_population(path: Path) -> pd.DataFrame:
    return dates(pd.read_csv(path, thousands=",", dtype={"Budget": str}), Day="%m/%d/%y")


def _read_padded(path: Path) -> pd.DataFrame:
    return dates(pd.read_csv(path, skipinitialspace=True), Month="%b-%Y")


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
    return dates(frame, at="%Y-%m-%d %H:%M:%S+00")


SHAPES = (
    Shape(
        name="crimes", file="Crimes_-_2016.csv", like="Chicago data portal: crimes", write=_crimes,
        pandas=lambda path: dates(pd.read_csv(path, dtype={"IUCR": str}), Date="%m/%d/%Y %I:%M:%S %p"),
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
        pandas=lambda path: dates(pd.read_csv(path), Year="%Y"),
        key=("Entity", "Year"), event_time="Year", declared=('formats={"Year": "yyyy"}',),
    ),
    Shape(
        name="with_index", file="frame.csv", like="pandas: DataFrame.to_csv with its index", write=_with_index,
        pandas=lambda path: dates(pd.read_csv(path, dtype={"zip": str}), day="%Y-%m-%d"),
        key=("column_0",), event_time="day",
        declared=("reads=Csv(", 'columns={0: "column_0"}'),
    ),
    Shape(
        name="names_twice", file="bookings.csv", like="a join that was exported", write=_names_twice,
        pandas=lambda path: dates(pd.read_csv(path), booked_on="%Y-%m-%d"),
        key=("id",), event_time="booked_on", declared=("columns={",),
    ),
    Shape(
        name="header_again", file="measured.csv", like="files with headers, one behind the other", write=_header_again,
        pandas=_read_header_again, key=("id",), event_time="measured_at", declared=("reads=Csv()",),
    ),
    Shape(
        name="elo", file="nbaallelo.csv", like="fivethirtyeight: nbaallelo.csv", write=_elo,
        pandas=lambda path: dates(pd.read_csv(path), date_game="%m/%d/%Y"),
        key=("game_id", "iscopy"), event_time="date_game",
        declared=('columns={"_iscopy": "iscopy"}', 'formats={"date_game": "M/d/yyyy"}'),
    ),
    Shape(
        name="candles_by_day", file="finance-charts-apple.csv", like="plotly/datasets: finance-charts-apple.csv",
        write=_candles_by_day, pandas=lambda path: dates(pd.read_csv(path), Date="%Y-%m-%d"),
        key=("Date",), event_time="Date", declared=("columns={",),
    ),
    Shape(
        name="candles_by_hour", file="BTCUSDT-1h-2021-01.csv", like="Binance: klines", write=_candles_by_hour,
        pandas=_read_candles_by_hour, key=("column_0",), event_time="column_0",
        declared=("reads=Csv(header=False)", "columns={", "formats={"),
    ),
    Shape(
        name="spreadsheet", file="prijzen.csv", like="Excel in Europe: sep=; and CR LF", write=_spreadsheet,
        pandas=lambda path: dates(
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
        pandas=lambda path: as_dates(
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
        pandas=lambda path: dates(pd.read_csv(path, sep="|"), requested_at="%Y-%m-%d %H:%M:%S UTC"),
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
        pandas=lambda path: dates(pd.read_csv(path, encoding="cp1252", quotechar="'"), tag="%d-%b-%Y"),
        event_time="tag", declared=("reads=Csv(", 'formats={"tag": "dd-MMM-yyyy"}'),
    ),
    Shape(
        name="spark_escapes", file="said.csv", like="Spark's own CSV, and dumps with \\N", write=_spark_escapes,
        pandas=_read_spark_escapes, key=("id",), event_time="at",
        declared=("reads=Csv(",),
    ),
)  # fmt: skip
