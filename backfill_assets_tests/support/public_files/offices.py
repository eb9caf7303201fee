"""Offices: what statistical offices, health services and agencies publish."""

from __future__ import annotations

import csv
from datetime import date, datetime

import pandas as pd

from backfill_assets_tests.support.public_files.shape import (
    RECORDS,
    Shape,
    as_it_is,
    comma,
    days_from,
    joined,
    made,
    months_from,
    read_by_pandas,
    times_from,
)


def _covid_counties() -> bytes:
    draw = made("covid_counties")
    header = ("FIPS", "Admin2", "Province_State", "Country_Region", "Last_Update", "Lat", "Confirmed", "Combined_Key")
    rows = [
        (draw.choice(("", 45001 + number)), "A", draw.choice(("", "Ohio")), "US", "2020-03-23 23:19:34",
         f"{draw.uniform(-50, 50):.6f}", draw.randrange(99), f"A {number}, US")
        for number in range(RECORDS)
    ]  # fmt: skip
    return b"\xef\xbb\xbf" + comma([header, *rows]).encode()


def _cases_by_day() -> bytes:
    draw = made("cases_by_day")
    rows = [
        (f"{day:%d/%m/%Y}", day.day, day.month, day.year, draw.randrange(99), land, code, draw.choice(("", 2494524)))
        for land, code in (("Namibia", "NA"), ("Kenya", "KE"))
        for day in reversed(days_from(date(2020, 10, 25), count=20))
    ]
    header = ("dateRep", "day", "month", "year", "cases", "countriesAndTerritories", "geoId", "popData2019")
    return comma([header, *rows], end="\r\n").encode()


def _sentinels_of_flu() -> bytes:
    draw = made("sentinels_of_flu")
    rows = [
        ("National", 2022, week, f"{draw.uniform(0, 5):.4f}", draw.randrange(9999)) for week in range(1, RECORDS + 1)
    ]
    title = "PERCENTAGE OF VISITS FOR INFLUENZA-LIKE-ILLNESS REPORTED BY SENTINEL PROVIDERS\n"
    return (title + comma([("REGION TYPE", "YEAR", "WEEK", "% WEIGHTED ILI", "TOTAL PATIENTS"), *rows])).encode()


def _hospitals() -> bytes:
    draw = made("hospitals")
    rows = [
        (f'"{part}"', f'"{day}"', draw.randrange(99), draw.randrange(99))
        for day in days_from(date(2020, 3, 18), count=20)
        for part in ("01", "2A")
    ]
    return joined([("dep", "jour", "hosp", "rea"), *rows], by=";").encode()


def _indicators() -> bytes:
    draw = made("indicators")
    rows = [
        ("ESTAT:TIPS(1.0)", "15/03/23 23:00:00", "A", land, year, f"{draw.uniform(0, 9):.1f}", draw.choice(("", "b")))
        for land in ("AT", "BE")
        for year in range(2000, 2020)
    ]
    header = ("DATAFLOW", "LAST UPDATE", "freq", "geo", "TIME_PERIOD", "OBS_VALUE", "OBS_FLAG")
    return comma([header, *rows], end="\r\n").encode()


def _quarters() -> bytes:
    draw = made("quarters")
    rows = [
        ("0 Hele landet", f"{year}K{quarter}", f"{draw.uniform(90, 120):.1f}".replace(".", ","))
        for year in range(2010, 2020)
        for quarter in (1, 2, 3, 4)
    ]
    text = joined([[f'"{each}"' for each in row] for row in (("region", "kvartal", "Indeks"), *rows)], by=";")
    return ('"05963: Prisindeks"\n\n' + text).encode()


def _prices_of_consumers() -> bytes:
    draw = made("prices_of_consumers")
    rows = [
        (f"{month:%Y-%m}", land, f"2016A00001112{number}", f"v4169097{number}", f"{draw.uniform(90, 150):.1f}", "")
        for number, land in enumerate(("Canada", "Quebec"))
        for month in months_from(2015, count=20)
    ]
    header = ("REF_DATE", "GEO", "DGUID", "VECTOR", "VALUE", "STATUS")
    return b"\xef\xbb\xbf" + comma([header, *rows], quoting=csv.QUOTE_ALL).encode()


def _unemployed() -> bytes:
    draw = made("unemployed")
    rows = [(month, draw.choice((f"{draw.uniform(3, 9):.1f}", "."))) for month in months_from(2010)]
    return comma([("observation_date", "UNRATE"), *rows]).encode()


def _harvests() -> bytes:
    draw = made("harvests")
    rows = [
        (code, "Côte d'Or", 15, "Wheat", year, year, "t", draw.randrange(9999), "A")
        for code in (4, 7)
        for year in range(2000, 2020)
    ]
    header = ("Area Code", "Area", "Item Code", "Item", "Year Code", "Year", "Unit", "Value", "Flag")
    return comma([header, *rows], quoting=csv.QUOTE_ALL).encode("latin-1")


def _flights_on_time() -> bytes:
    draw = made("flights_on_time")
    header = ("Year", "Month", "FlightDate", "Reporting_Airline", "Flight_Number", "CRSDepTime", "DepDelay", "")
    rows = [
        (2023, 1, day, "AA", draw.choice(("1", "2")), f"{draw.randrange(24):02}30", draw.choice(("", "-5.00")), "")
        for day in days_from(date(2023, 1, 1), count=20)
        for _ in range(2)
    ]
    rows[3] = rows[2]
    return comma([header, *rows]).encode()


def _service_requests() -> bytes:
    draw = made("service_requests")
    rows = [
        (50_000_000 + number, f"{at:%Y %b %d %I:%M:%S %p}", "NYPD", draw.choice(("10001", "00083")))
        for number, at in enumerate(times_from(datetime(2023, 1, 1, 0, 3), minutes=60))
    ]
    return comma([("Unique Key", "Created Date", "Agency", "Incident Zip"), *rows]).encode()


def _sold_houses() -> bytes:
    draw = made("sold_houses")
    rows = [
        (f"{{{number:08X}-0001}}", draw.randrange(10**6), f"{day} 00:00", "AB1 2CD", "T", "HIGH STREET", "", "A")
        for number, day in enumerate(days_from(date(2023, 1, 3)))
    ]
    return comma(rows, quoting=csv.QUOTE_ALL).encode()


def _japanese_towns() -> bytes:
    draw = made("japanese_towns")
    rows = [
        (f"{day.year}年{day.month}月{day.day}日", "東京都", draw.randrange(99)) for day in days_from(date(2023, 1, 1))
    ]
    return comma([("日付", "都道府県", "件数"), *rows], end="\r\n").encode("cp932")


def _chinese_towns() -> bytes:
    draw = made("chinese_towns")
    rows = [(day, draw.choice(("北京", "上海", "广州")), draw.randrange(99)) for day in days_from(date(2023, 1, 1))]
    return comma([("日期", "城市", "数量"), *rows], end="\r\n").encode("gbk")


def _reactions() -> bytes:
    draw = made("reactions")
    rows = [
        (
            900_000 + number,
            f"{day:%m/%d/%Y}",
            draw.choice(("", "33.0")),
            'He said "ow", then\r\nleft',
            draw.choice("YN"),
        )
        for number, day in enumerate(days_from(date(2021, 1, 1)))
    ]
    return comma([("VAERS_ID", "RECVDATE", "AGE_YRS", "SYMPTOM_TEXT", "DIED"), *rows], end="\r\n").encode("latin-1")


def _films_to_come() -> bytes:
    draw = made("films_to_come")
    days = [f"{day:%b %d %Y}" for day in days_from(date(1999, 3, 5), step=30)]
    days[7], days[20] = "1998", "TBD"
    return comma(
        [
            ("Title", "Release Date", "Gross"),
            *((f"Film {n // 2}", day, draw.randrange(99)) for n, day in enumerate(days)),
        ]
    ).encode()


def _with_total() -> bytes:
    draw = made("with_total")
    rows = [
        (f"{day.month}/{day.day}/{day:%y}", f"{draw.randrange(1, 9)},{draw.randrange(1000):03}")
        for day in days_from(date(2023, 1, 1))
    ]
    head = "# ----------\n# All Web Site Data\n# 20230101-20230209\n# ----------\n\n"
    return (head + comma([("Day Index", "Sessions"), *rows, ("", "99,999")])).encode()


def _annual_averages() -> bytes:
    draw = made("annual_averages")
    rows = [
        (
            "CES0000000001                 ",
            2015 + number // 13,
            f"M{number % 13 + 1:02}",
            f"{draw.randrange(99999):>12}",
            "",
        )
        for number in range(39)
    ]
    header = ("series_id                     ", "year", "period", "       value", "footnote_codes")
    return joined([header, *rows], by="\t", end="\r\n").encode()


SHAPES = (
    Shape(
        name="covid_counties", file="03-23-2020.csv", like="Johns Hopkins: COVID-19 daily reports since March 2020",
        write=_covid_counties, pandas=read_by_pandas({"Last_Update": "%Y-%m-%d %H:%M:%S"}),
        key=("Combined_Key",), event_time="Last_Update", zone=True,
    ),
    Shape(
        name="cases_by_day", file="casedistribution.csv", like="ECDC: cases by day, with Namibia (NA)",
        write=_cases_by_day, pandas=read_by_pandas({"dateRep": "%d/%m/%Y"}, **as_it_is()),
        key=("geoId", "dateRep"), event_time="dateRep", declared=('formats={"dateRep": "dd/MM/yyyy"}',),
    ),
    Shape(
        name="sentinels_of_flu", file="ILINet.csv", like="CDC: FluView, under a title", write=_sentinels_of_flu,
        pandas=read_by_pandas({"YEAR": "%Y"}, skiprows=1),
        event_time="YEAR", declared=("reads=Csv(skip=1)", "columns={", 'formats={"YEAR": "yyyy"}'),
    ),
    Shape(
        name="hospitals", file="donnees-hospitalieres.csv", like="data.gouv.fr: hospitals by day", write=_hospitals,
        pandas=read_by_pandas({"jour": "%Y-%m-%d"}, sep=";", dtype={"dep": str}),
        key=("dep", "jour"), event_time="jour", declared=('reads=Csv(delimiter=";")',),
    ),
    Shape(
        name="indicators", file="estat_tips_linear.csv", like="Eurostat: SDMX-CSV by year", write=_indicators,
        pandas=read_by_pandas({"LAST UPDATE": "%d/%m/%y %H:%M:%S", "TIME_PERIOD": "%Y"}),
        key=("geo", "TIME_PERIOD"), event_time="TIME_PERIOD", zone=True,
        declared=('columns={"LAST UPDATE": "last_update"}', "formats={"),
    ),
    Shape(
        name="quarters", file="05963_20240101.csv", like="Statistics Norway: quarters with K under a title",
        write=_quarters,
        pandas=lambda path: read_by_pandas(sep=";", decimal=",", skiprows=1)(path).assign(
            kvartal=lambda frame: frame["kvartal"].map(lambda text: datetime(int(text[:4]), 3 * int(text[5]) - 2, 1))
        ),
        key=("kvartal",), event_time="kvartal",
        declared=('reads=Csv(delimiter=";", decimal=",", skip=2)', """formats={"kvartal": "yyyy'K'Q"}"""),
    ),
    Shape(
        name="prices_of_consumers", file="18100004.csv", like="Statistics Canada: tables", write=_prices_of_consumers,
        pandas=read_by_pandas({"REF_DATE": "%Y-%m"}), key=("DGUID", "REF_DATE"), event_time="REF_DATE",
        declared=('formats={"REF_DATE": "yyyy-MM"}',),
    ),
    Shape(
        name="unemployed", file="UNRATE.csv", like="FRED: a series with points for no value", write=_unemployed,
        pandas=read_by_pandas({"observation_date": "%Y-%m-%d"}, na_values=["."]),
        key=("observation_date",), event_time="observation_date", declared=('reads=Csv(null=(".",))',),
    ),
    Shape(
        name="harvests", file="Production_Crops.csv", like="FAOSTAT: bulk downloads in Latin-1", write=_harvests,
        pandas=read_by_pandas({"Year Code": "%Y"}, encoding="latin-1"),
        key=("item_code", "area_code", "year_code"), event_time="year_code",
        declared=('reads=Csv(encoding="latin-1")', "columns={", 'formats={"year_code": "yyyy"}'),
    ),
    Shape(
        name="flights_on_time", file="On_Time_2023_1.csv", like="BTS: on-time performance, a comma behind each row",
        write=_flights_on_time, pandas=read_by_pandas({"FlightDate": "%Y-%m-%d"}, dtype={"CRSDepTime": str}),
        event_time="FlightDate",
    ),
    Shape(
        name="service_requests", file="311.csv", like="Socrata: exports of 2023 and later", write=_service_requests,
        pandas=read_by_pandas({"Created Date": "%Y %b %d %I:%M:%S %p"}, dtype={"Incident Zip": str}),
        key=("unique_key",), event_time="created_date", zone=True,
        declared=("columns={", 'formats={"created_date": "yyyy MMM dd hh:mm:ss a"}'),
    ),
    Shape(
        name="sold_houses", file="pp-2023.csv", like="HM Land Registry: price paid data without a header",
        write=_sold_houses, pandas=read_by_pandas({2: "%Y-%m-%d %H:%M"}, header=None),
        key=("column_0",), event_time="column_2", zone=True, declared=("reads=Csv(header=False)", "columns={"),
    ),
    Shape(
        name="japanese_towns", file="towns.csv", like="open data of Japanese towns: Shift JIS", write=_japanese_towns,
        pandas=read_by_pandas({"日付": "%Y年%m月%d日"}, encoding="cp932"),
        key=("日付",), event_time="日付",
        declared=('reads=Csv(encoding="cp932")', """formats={"日付": "yyyy'年'M'月'd'日'"}"""),
    ),
    Shape(
        name="chinese_towns", file="chengshi.csv", like="open data of Chinese towns: GB 18030", write=_chinese_towns,
        pandas=read_by_pandas({"日期": "%Y-%m-%d"}, encoding="gb18030"),
        key=("日期",), event_time="日期", declared=('reads=Csv(encoding="gb18030")',),
    ),
    Shape(
        name="reactions", file="2021VAERSDATA.csv", like="VAERS: texts with quotes and line breaks", write=_reactions,
        pandas=read_by_pandas({"RECVDATE": "%m/%d/%Y"}), key=("VAERS_ID",), event_time="RECVDATE",
        declared=('formats={"RECVDATE": "MM/dd/yyyy"}',),
    ),
    Shape(
        name="films_to_come", file="films.csv", like="lists of films, with a year or TBD among their dates",
        write=_films_to_come,
        pandas=lambda path: read_by_pandas()(path).drop(index=[7, 20]).assign(
            **{"Release Date": lambda frame: pd.to_datetime(frame["Release Date"], format="%b %d %Y")}
        ),
        event_time="release_date", rejected=2,
        declared=('columns={"Release Date": "release_date"}', 'formats={"release_date": "MMM dd yyyy"}'),
    ),
    Shape(
        name="with_total", file="analytics.csv", like="Google Analytics: comments, and a row of totals",
        write=_with_total,
        pandas=lambda path: read_by_pandas({"Day Index": "%m/%d/%y"}, comment="#", thousands=",", skipfooter=1,
                                           engine="python")(path),
        key=("day_index",), event_time="day_index", rejected=1,
        declared=('reads=Csv(thousands=",", comment="#")', "columns={", 'formats={"day_index": "M/d/yy"}'),
    ),
    Shape(
        name="annual_averages", file="ce.data.txt", like="BLS: series with annual averages as a month 13",
        write=_annual_averages,
        pandas=lambda path: read_by_pandas({"year": "%Y"}, sep="\t")(path).assign(
            series_id=lambda frame: frame["series_id"].str.strip()
        ),
        key=("series_id", "period", "year"), event_time="year",
        declared=(r'reads=Csv(delimiter="\t", trim=True)', 'formats={"year": "yyyy"}'),
    ),
)  # fmt: skip
