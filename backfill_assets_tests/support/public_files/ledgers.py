"""Ledgers: what exchanges, banks, shops and programs for accounts write."""

from __future__ import annotations

import csv
from datetime import date, datetime
from pathlib import Path

import pandas as pd

from backfill_assets_tests.support.public_files.shape import (
    Shape,
    as_it_is,
    comma,
    days_from,
    joined,
    made,
    read_by_pandas,
    times_from,
)


def _reference_rates() -> bytes:
    draw = made("reference_rates")
    rows = [(day, f"{draw.uniform(1, 2):.4f}", "N/A", "") for day in reversed(days_from(date(2023, 1, 2)))]
    return joined([("Date", "USD", "CYP", ""), *rows], by=",").encode()


def _share_prices() -> bytes:
    draw = made("share_prices")
    rows = [
        (day, *(["null"] * 3 if number == 9 else [f"{draw.uniform(90, 99):.6f}", "1.5", draw.randrange(10**7)]))
        for number, day in enumerate(days_from(date(2023, 1, 2)))
    ]
    return comma([("Date", "Open", "Adj Close", "Volume"), *rows]).encode()


def _bars_of_minutes() -> bytes:
    draw = made("bars_of_minutes")
    header = ("<TICKER>", "<PER>", "<DATE>", "<TIME>", "<OPEN>", "<VOL>")
    rows = [
        ("AAA.US", "5", f"{at:%Y%m%d}", f"{at:%H%M%S}", f"{draw.uniform(1, 9):.2f}", draw.randrange(10**6))
        for at in times_from(datetime(2020, 1, 2, 9, 30), minutes=5)
    ]
    return joined([header, *rows], by=",", end="\r\n").encode()


def _quotes() -> bytes:
    draw = made("quotes")
    rows = [
        (f"{at:%Y%m%d %H%M%S}", f"{draw.uniform(1, 2):.6f}", f"{draw.uniform(1, 2):.6f}", 0)
        for at in times_from(datetime(2020, 1, 2, 9, 30), minutes=1)
    ]
    return joined(rows, by=";").encode()


def _coins() -> bytes:
    draw = made("coins")
    rows = [
        (1_609_459_200 + 3600 * number, at, "BTC/USD", f"{draw.uniform(1, 2):.2f}")
        for number, at in enumerate(times_from(datetime(2021, 1, 1), minutes=60))
    ]
    return ("https://www.example.com\n" + comma([("unix", "date", "symbol", "open"), *rows])).encode()


def _account() -> bytes:
    draw = made("account")
    head = [
        '"Kontonummer:";"DE12 3456 / Girokonto";', "", '"Von:";"01.01.2023";', '"Bis:";"31.12.2023";',
        '"Kontostand vom 31.12.2023:";"1.234,56 EUR";', "",
        '"Buchungstag";"Wertstellung";"Auftraggeber";"Betrag (EUR)";"Kundenreferenz";',
    ]  # fmt: skip
    rows = [
        f'"{day:%d.%m.%Y}";"{day:%d.%m.%Y}";"Müller";"-1.{draw.randrange(1000):03},50";"";'
        for day in days_from(date(2023, 1, 2))
    ]
    return ("\n".join([*head, *rows]) + "\n").encode("latin-1")


def _card() -> bytes:
    draw = made("card")
    rows = [
        ("DE12", f"{day:%d.%m.%y}", "KARTENZAHLUNG", "Bäcker; Köln", f"-{draw.randrange(99)},{draw.randrange(100):02}")
        for day in reversed(days_from(date(2023, 11, 20), count=20))
        for _ in (1, 2)
    ]
    rows[3] = rows[2]
    header = ("Auftragskonto", "Buchungstag", "Buchungstext", "Verwendungszweck", "Betrag")
    text = "".join(";".join(f'"{each}"' for each in row) + "\r\n" for row in (header, *rows))
    return text.encode("latin-1")


def _shop_orders() -> bytes:
    draw = made("shop_orders")
    rows = [
        (f"#{1000 + number}", f"{at:%Y-%m-%d %H:%M:%S} -0500" if number % 3 else "", f"{at:%Y-%m-%d %H:%M:%S} -0500",
         draw.choice(("10.00", "12.50")))
        for number, at in enumerate(times_from(datetime(2023, 1, 20, 10), minutes=90))
    ]  # fmt: skip
    return comma([("Name", "Paid at", "Created at", "Total"), *rows]).encode()


def _loans() -> bytes:
    draw = made("loans")
    rows = [
        (draw.randrange(9999), " 36 months", " 10.65%", f"{date(2011 + number // 12, number % 12 + 1, 1):%b-%Y}")
        for number in range(40)
    ]
    text = comma([("loan_amnt", "term", "int_rate", "issue_d"), *rows], quoting=csv.QUOTE_ALL)
    return (
        "Notes offered by Prospectus (https://www.example.com)\n" + text + "\n\nTotal amount funded: 460296150\n"
    ).encode()


def _calendar_of_rooms() -> bytes:
    draw = made("calendar_of_rooms")
    rows = [
        (2000 + room, day, draw.choice("tf"), f"${draw.randrange(50, 2000):,}.00")
        for room in (1, 2)
        for day in days_from(date(2024, 1, 1), count=20)
    ]
    return comma([("listing_id", "date", "available", "price"), *rows]).encode()


def _matches() -> bytes:
    draw = made("matches")
    rows = [
        ("E0", f"{day:%d/%m/%Y}", "12:30", f"Team {number}", f"Team {number + 7}", draw.randrange(5), "", "")
        for day in days_from(date(2020, 9, 12), count=20)
        for number in (1, 2)
    ]
    header = ("Div", "Date", "Time", "HomeTeam", "AwayTeam", "FTHG", "", "")
    return b"\xef\xbb\xbf" + joined([header, *rows], by=",", end="\r\n").encode()


def _tickets() -> bytes:
    rows = [
        ("S", f"P-{number}", 10_000 + number, f"{at:%d/%b/%y} {at.hour % 12 or 12}:{at:%M} {at:%p}", "S1", "")
        for number, at in enumerate(times_from(datetime(2023, 1, 20, 10), minutes=90))
    ]
    return comma([("Summary", "Issue key", "Issue id", "Created", "Sprint", "Sprint"), *rows]).encode()


def _read_loans(path: Path) -> pd.DataFrame:
    frame = pd.read_csv(path, skiprows=1, skipfooter=1, engine="python")
    return frame.assign(issue_d=pd.to_datetime(frame["issue_d"], format="%b-%Y"))


SHAPES = (
    Shape(
        name="reference_rates", file="eurofxref-hist.csv", like="ECB: reference rates, with a comma behind each row",
        write=_reference_rates, pandas=read_by_pandas({"Date": "%Y-%m-%d"}),
        key=("Date",), event_time="Date", declared=('reads=Csv(null=("N/A",))',),
    ),
    Shape(
        name="share_prices", file="AAA.csv", like="Yahoo Finance: a day without trade is null", write=_share_prices,
        pandas=read_by_pandas({"Date": "%Y-%m-%d"}), key=("Date",), event_time="Date",
        declared=('reads=Csv(null=("null",))', 'columns={"Adj Close": "adj_close"}'),
    ),
    Shape(
        name="bars_of_minutes", file="aaa.us.txt", like="Stooq: names in angle brackets, dates and times in digits",
        write=_bars_of_minutes,
        pandas=read_by_pandas(together={"date_time": (("<DATE>", "<TIME>"), "%Y%m%d %H%M%S")}, dtype={"<TIME>": str}),
        key=("ticker", "date_time"), event_time="date_time", zone=True,
        declared=("reads=Csv()", "columns={", 'formats={"date_time": "yyyyMMdd HHmmss"}'),
    ),
    Shape(
        name="quotes", file="DAT_ASCII_EURUSD_M1_2020.csv", like="HistData: bars without a header", write=_quotes,
        pandas=read_by_pandas({0: "%Y%m%d %H%M%S"}, sep=";", header=None),
        key=("column_0",), event_time="column_0", zone=True,
        declared=("reads=Csv(", "columns={", 'formats={"column_0": "yyyyMMdd HHmmss"}'),
    ),
    Shape(
        name="coins", file="Bitstamp_BTCUSD_1h.csv", like="CryptoDataDownload: an address before the header",
        write=_coins, pandas=read_by_pandas({"date": "%Y-%m-%d %H:%M:%S"}, units={"unix": "s"}, skiprows=1),
        key=("symbol", "unix"), event_time="unix", zone=True,
        declared=("reads=Csv(skip=1)", 'formats={"unix": Epoch("s")}'),
    ),
    Shape(
        name="account", file="1234567890.csv", like="German banks: an account under its banner", write=_account,
        pandas=read_by_pandas(
            {"Buchungstag": "%d.%m.%Y", "Wertstellung": "%d.%m.%Y"}, sep=";", decimal=",", thousands=".", skiprows=6,
            encoding="latin-1", dtype={"Buchungstag": str, "Wertstellung": str},
        ),
        key=("Buchungstag",), event_time="Buchungstag",
        declared=("reads=Csv(", 'columns={"Betrag (EUR)": "betrag_eur"}', "formats={"),
    ),
    Shape(
        name="card", file="umsaetze.csv", like="German banks: CAMT as CSV", write=_card,
        pandas=read_by_pandas({"Buchungstag": "%d.%m.%y"}, sep=";", decimal=",", encoding="latin-1"),
        event_time="Buchungstag",
        declared=('reads=Csv(delimiter=";", encoding="latin-1", decimal=",")', 'formats={"Buchungstag": "dd.MM.yy"}'),
    ),
    Shape(
        name="shop_orders", file="orders_export.csv", like="Shopify: orders with offsets behind blanks",
        write=_shop_orders,
        pandas=lambda path: read_by_pandas()(path).assign(
            **{
                name: lambda frame, name=name: pd.to_datetime(frame[name], format="%Y-%m-%d %H:%M:%S %z", utc=True)
                for name in ("Paid at", "Created at")
            }
        ),
        key=("Name",), event_time="created_at", declared=("columns={", "formats={"),
    ),
    Shape(
        name="loans", file="LoanStats3a.csv", like="LendingClub: a line before, a sum behind, months", write=_loans,
        pandas=_read_loans, key=("issue_d",), event_time="issue_d", rejected=1,
        declared=("reads=Csv(skip=1)", 'formats={"issue_d": "MMM-yyyy"}'),
    ),
    Shape(
        name="calendar_of_rooms", file="calendar.csv", like="Inside Airbnb: t, f, and dollars",
        write=_calendar_of_rooms,
        pandas=lambda path: read_by_pandas({"date": "%Y-%m-%d"})(path).assign(
            available=lambda frame: frame["available"] == "t"
        ),
        key=("listing_id", "date"), event_time="date", declared=('reads=Csv(true=("t",), false=("f",))',),
    ),
    Shape(
        name="matches", file="E0.csv", like="football-data.co.uk: empty columns at the end", write=_matches,
        pandas=read_by_pandas(together={"date_time": (("Date", "Time"), "%d/%m/%Y %H:%M")}),
        key=("HomeTeam", "date_time"), event_time="date_time", zone=True,
        declared=('columns={("Date", "Time"): "date_time"}', 'formats={"date_time": "dd/MM/yyyy HH:mm"}'),
    ),
    Shape(
        name="tickets", file="jira.csv", like="Jira: dates with slashes and names of months, a column twice",
        write=_tickets, pandas=read_by_pandas({"Created": "%d/%b/%y %I:%M %p"}, **as_it_is()),
        key=("issue_key",), event_time="Created", zone=True, declared=("columns={", "formats={"),
    ),
)  # fmt: skip
