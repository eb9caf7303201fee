"""Of several ways to read a file, the one that loses least is proposed, and the others are told."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import fastavro
import pytest
from pyspark.sql.types import DateType, DecimalType, DoubleType, LongType, StringType, TimestampType

from backfill_assets.domain import Csv, Epoch, SourceTable
from backfill_assets.report.sniffed import python_of
from backfill_assets.sniff.propose import propose
from backfill_assets_tests.support.proposed import declared

AS_OF = datetime(2026, 11, 30, tzinfo=UTC)
DAYS = [date(2024, 1, 5) + timedelta(days=number) for number in range(60)]


def proposed(path: Path) -> tuple[SourceTable, str]:
    found = propose([path], as_of=AS_OF)
    return declared(found), " ".join(python_of(found).replace("\n#", " ").split())


def of_text(folder: Path, text: str, name: str = "some.csv") -> tuple[SourceTable, str]:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return proposed(path)


@pytest.mark.parametrize("empty", [0, 40])
def test_a_date_is_not_joined_with_a_time_that_many_records_lack(tmp_path: Path, empty: int) -> None:
    rows = [
        f"{n},{1 + n % 12}/{1 + n % 28}/2024,{'' if n * 100 < empty * 60 else f'{n % 24:02}:15'}" for n in range(60)
    ]
    source, text = of_text(tmp_path, "\n".join(["ID,INCIDENT_DATE,TIME", *rows]))
    if empty:
        assert source.event_time == "INCIDENT_DATE"
        assert "with TIME it would be a time, and 24 records that have none would be rejected" in text
    else:
        assert source.event_time == "incident_date_time"


def test_years_before_months_in_two_digits_are_found(tmp_path: Path) -> None:
    source, text = of_text(tmp_path, "\n".join(["id,day,x", *(f"{n},{day:%y-%m-%d},1" for n, day in enumerate(DAYS))]))
    assert source.formats["day"] == "yy-MM-dd"
    assert "planned" not in text


def test_of_forms_that_fit_alike_the_one_without_times_to_come_is_taken(tmp_path: Path) -> None:
    days = [date(2026, 3, 12), date(2026, 4, 12)]
    source, text = of_text(tmp_path, "\n".join(["id,day,x", *(f"{n},{day:%d/%m/%Y},1" for n, day in enumerate(days))]))
    assert source.formats["day"] == "dd/MM/yyyy"
    assert not source.planned
    assert "every text could be MM/dd/yyyy as well" in text


def test_another_column_that_can_be_read_in_two_ways_is_told(tmp_path: Path) -> None:
    rows = [f"{n},{day},{day:%m/%d/2023}" for n, day in enumerate([date(2024, 2, 3), date(2024, 5, 1)] * 5)]
    _, text = of_text(tmp_path, "\n".join(["id,day,paid_date", *rows]))
    assert "paid_date is read as MM/dd/yyyy; every text could be dd/MM/yyyy as well" in text


@pytest.mark.parametrize("header", ["CMTE|KIND|TRANSACTION_DT|NAME\n", ""])
def test_months_before_days_and_years_in_digits_alone_are_dates(tmp_path: Path, header: str) -> None:
    rows = [f"C{n:05}|A|{day:%m%d%Y}|some name" for n, day in enumerate(DAYS)]
    source, _ = of_text(tmp_path, header + "\n".join(rows), "itcont.txt")
    assert source.formats[source.event_time] == "MMddyyyy"
    assert source.schema[source.event_time].dataType == DateType()


def test_numbers_that_count_up_are_no_dates(tmp_path: Path) -> None:
    rows = [f"{day},{10012000 + n},{10012000 + n}" for n, day in enumerate(DAYS)]
    source, _ = of_text(tmp_path, "\n".join(["day,order_id,count", *rows]))
    assert source.schema["order_id"].dataType == source.schema["count"].dataType == LongType()


def test_avro_has_the_types_of_its_schema(tmp_path: Path) -> None:
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
    fields = {
        "id": "long",
        "at": {"type": "long", "logicalType": "timestamp-micros"},
        "day": {"type": "int", "logicalType": "date"},
        "code": {"type": "string", "logicalType": "uuid"},
        "price": ["null", decimal],
        "fee": {"type": "record", "name": "Fee", "fields": [{"name": "amount", "type": decimal}]},
        "no_day": ["null", {"type": "int", "logicalType": "date"}],
        "no_at": ["null", {"type": "long", "logicalType": "timestamp-millis"}],
        "no_number": ["null", "double"],
    }
    schema = {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}
    records = [
        {
            "id": n,
            "at": datetime(2026, 3, 1, tzinfo=UTC) + timedelta(hours=n),
            "day": DAYS[n],
            "code": f"00000000-0000-0000-0000-0000000000{n:02}",
            "price": Decimal(n),
            "fee": {"amount": Decimal("1.50")},
            "no_day": None,
            "no_at": None,
            "no_number": None,
        }
        for n in range(20)
    ]
    with (tmp_path / "some.avro").open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema(schema), records)
    source, _ = proposed(tmp_path / "some.avro")
    assert {each.name: each.dataType for each in source.schema} == {
        "id": LongType(),
        "at": TimestampType(),
        "day": DateType(),
        "code": StringType(),
        "price": DecimalType(10, 2),
        "fee_amount": DecimalType(10, 2),
        "no_day": DateType(),
        "no_at": TimestampType(),
        "no_number": DoubleType(),
    }


@pytest.mark.parametrize("quoted", [1, 5, 20])
def test_a_letter_that_could_be_a_quote_loses_no_header(tmp_path: Path, quoted: int) -> None:
    words = ["'it|s'" if n < quoted else "word" for n in range(20)]
    rows = [f"{n}|2024-01-{n + 1:02}|{word}" for n, word in enumerate(words)]
    source, _ = of_text(tmp_path, "\n".join(["id|day|txt", *rows]), "some.txt")
    assert {"id", "day", "txt"} <= {*source.schema.names}


@pytest.mark.parametrize("name", ["slack.jsonl", "slack.csv"])
def test_seconds_with_fractions_are_times(tmp_path: Path, name: str) -> None:
    times = [f"{1711929600 + n * 977}.{n * 100 + 19:06}" for n in range(30)]
    lines = ["user,ts,text", *(f"u,{at},hi" for at in times)]
    if name.endswith("l"):
        lines = [f'{{"user": "u", "ts": "{at}", "text": "hi"}}' for at in times]
    source, _ = of_text(tmp_path, "\n".join(lines), name)
    assert (source.event_time, source.formats["ts"]) == ("ts", Epoch("s"))


def test_measures_with_fractions_are_no_times(tmp_path: Path) -> None:
    rows = [f"2024-03-{n:02},{1711929600 + n}.5,{1711929600 + n}.0000001" for n in range(1, 20)]
    source, _ = of_text(tmp_path, "\n".join(["day,amount,time", *rows]))
    assert source.schema["amount"].dataType == source.schema["time"].dataType == DoubleType()


@pytest.mark.parametrize("meters", [0, 3])
@pytest.mark.parametrize(
    ("first", "zone"), [("2024-10-26T22:00Z", "Europe/Berlin"), ("2024-11-02T20:00Z", "America/New_York")]
)
def test_an_hour_that_clocks_show_twice_keeps_the_time_in_the_key(
    tmp_path: Path, first: str, zone: str, meters: int
) -> None:
    begin = datetime.fromisoformat(first)
    slots = [(begin + timedelta(minutes=15 * n)).astimezone(ZoneInfo(zone)) for n in range(200)]
    rows = [f"{n},{at:%Y-%m-%d %H:%M},1.5" for n in range(meters or 1) for at in slots]
    rows = ["meter_id,slot,kwh", *rows] if meters else ["slot,kwh", *(row[2:] for row in rows)]
    source, text = of_text(tmp_path, "\n".join(rows))
    assert source.key == (("meter_id", "slot") if meters else ("slot",))
    assert (source.timezone, source.repeated_hour) == (zone, "both")
    assert "name the zone of the clocks" in text


def test_times_that_are_there_twice_at_other_hours_are_in_no_key(tmp_path: Path) -> None:
    at = datetime(2024, 10, 27)  # noqa: DTZ001 - files have times without a zone
    slots = [at + timedelta(minutes=15 * (n - n % 2)) for n in range(100)]
    source, _ = of_text(tmp_path, "\n".join(["slot,kwh", *(f"{slot:%Y-%m-%d %H:%M},1.5" for slot in slots)]))
    assert (source.row_number, source.timezone, source.repeated_hour) == (True, "UTC", "")


@pytest.mark.parametrize(
    ("delimiter", "code", "number", "reads"),
    [
        (";", "01067", "12,5", Csv(delimiter=";", decimal=",")),
        (";", "00004700", "1.681,32", Csv(delimiter=";", decimal=",", thousands=".")),
        (",", "00410", '"1,100.10"', Csv(thousands=",")),
    ],
)
def test_codes_with_zeros_before_them_do_not_hide_how_numbers_are_written(
    tmp_path: Path, delimiter: str, code: str, number: str, reads: Csv
) -> None:
    rows = [delimiter.join([str(n), str(day), code, number]) for n, day in enumerate(DAYS)]
    source, _ = of_text(tmp_path, "\n".join([delimiter.join(["id", "day", "code", "price"]), *rows]))
    assert source.reads == reads
    assert [source.schema[name].dataType for name in ("code", "price")] == [StringType(), DoubleType()]


@pytest.mark.parametrize("mark", ["", r"\N"])
def test_a_title_that_reads_null_is_one_where_a_file_has_another_mark_for_no_value(tmp_path: Path, mark: str) -> None:
    rows = [f"{n}\t{day}\t{'NULL' if n == 7 else f'Film {n}'}\t{mark or n}" for n, day in enumerate(DAYS)]
    source, text = of_text(tmp_path, "\n".join(["id\tday\ttitle\tyear", *rows]), "films.tsv")
    assert isinstance(source.reads, Csv)
    assert source.reads.null == ((mark,) if mark else ("NULL",))
    assert ("title has 'NULL' in 1 record as text; null= would make it no value" in text) is bool(mark)
