"""Written times: forms of dates and times with what Python's own parser makes of their texts, and texts of them.

Shares no code with the product: each form is translated by hand, and what `strptime` takes too freely is found by
writing the time again.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta


@dataclass(frozen=True)
class Written:
    """A form: the format of `strptime` that reads more than it, and how a time is written in it."""

    reads: str
    writes: Callable[[datetime], str]
    offset: re.Pattern[str] | None = None
    in_spark: bool = True


def _12(at: datetime) -> int:
    return at.hour % 12 or 12


DATES: Mapping[str, Written] = {
    "M/d/yyyy": Written("%m/%d/%Y", lambda at: f"{at.month}/{at.day}/{at.year:04}"),
    "MM/dd/yyyy": Written("%m/%d/%Y", lambda at: f"{at:%m/%d}/{at.year:04}"),
    "d.M.yyyy": Written("%d.%m.%Y", lambda at: f"{at.day}.{at.month}.{at.year:04}"),
    "yyyy/MM/dd": Written("%Y/%m/%d", lambda at: f"{at.year:04}{at:/%m/%d}"),
    "yyyyMMdd": Written("%Y%m%d", lambda at: f"{at.year:04}{at:%m%d}"),
    "M/d/yy": Written("%m/%d/%y", lambda at: f"{at.month}/{at.day}/{at:%y}"),
    "dd-MMM-yyyy": Written("%d-%b-%Y", lambda at: f"{at:%d-%b}-{at.year:04}"),
    "MMM d yyyy": Written("%b %d %Y", lambda at: f"{at:%b} {at.day} {at.year:04}"),
    "MMMM d, yyyy": Written("%B %d, %Y", lambda at: f"{at:%B} {at.day}, {at.year:04}"),
    "EEEE, d MMMM yyyy": Written("%A, %d %B %Y", lambda at: f"{at:%A}, {at.day} {at:%B} {at.year:04}"),
    "yyyy-MM": Written("%Y-%m", lambda at: f"{at.year:04}{at:-%m}"),
    "yyyy": Written("%Y", lambda at: f"{at.year:04}"),
    "yyyy-DDD": Written("%Y-%j", lambda at: f"{at.year:04}{at:-%j}"),
    "D.yyyy": Written("%j.%Y", lambda at: f"{at.timetuple().tm_yday}.{at.year:04}"),
    "yyyy'年'M'月'd'日'": Written("%Y年%m月%d日", lambda at: f"{at.year:04}年{at.month}月{at.day}日"),
    "YYYY-'W'ww": Written("%G-W%V-%u", lambda at: f"{at.isocalendar()[0]:04}{at:-W%V}", in_spark=False),
    "YYYY-'W'ww-e": Written("%G-W%V-%u", lambda at: f"{at.isocalendar()[0]:04}{at:-W%V-%u}", in_spark=False),
    "yyyy-'Q'q": Written("", lambda at: f"{at.year:04}-Q{(at.month + 2) // 3}"),
    "dd/MM/yyyy HH:mm": Written("%d/%m/%Y %H:%M", lambda at: f"{at:%d/%m}/{at.year:04}{at: %H:%M}"),
}
"""Of DATE columns; the last one has a time of day, which is midnight or none of a date."""

LOCAL: Mapping[str, Written] = {
    "M/d/yyyy HH:mm": Written("%m/%d/%Y %H:%M", lambda at: f"{at.month}/{at.day}/{at.year:04}{at: %H:%M}"),
    "M/d/yyyy H:mm": Written("%m/%d/%Y %H:%M", lambda at: f"{at.month}/{at.day}/{at.year:04} {at.hour}:{at:%M}"),
    "MM/dd/yyyy hh:mm a": Written("%m/%d/%Y %I:%M %p", lambda at: f"{at:%m/%d}/{at.year:04}{at: %I:%M %p}"),
    "M/d/yyyy h:mm:ss a": Written(
        "%m/%d/%Y %I:%M:%S %p", lambda at: f"{at.month}/{at.day}/{at.year:04} {_12(at)}{at::%M:%S %p}"
    ),
    "yyyy/MM/dd HH:mm:ss": Written("%Y/%m/%d %H:%M:%S", lambda at: f"{at.year:04}{at:/%m/%d %H:%M:%S}"),
    "yyyyMMddHHmmss": Written("%Y%m%d%H%M%S", lambda at: f"{at.year:04}{at:%m%d%H%M%S}"),
    "yyyyMMdd HHmm": Written("%Y%m%d %H%M", lambda at: f"{at.year:04}{at:%m%d %H%M}"),
    "yyyy-MM-dd HH": Written("%Y-%m-%d %H", lambda at: f"{at.year:04}{at:-%m-%d %H}"),
    "dd.MM.yyyy HH:mm:ss,SSS": Written(
        "%d.%m.%Y %H:%M:%S,%f", lambda at: f"{at:%d.%m}.{at.year:04}{at: %H:%M:%S},{at.microsecond // 1000:03}"
    ),
    "yyyy-MM-dd'T'HH:mm:ss.SSSSSS": Written("%Y-%m-%dT%H:%M:%S.%f", lambda at: f"{at.year:04}{at:-%m-%dT%H:%M:%S.%f}"),
    "MMM d yyyy h:mma": Written("%b %d %Y %I:%M%p", lambda at: f"{at:%b} {at.day} {at.year:04} {_12(at)}{at::%M%p}"),
}
"""Of TIMESTAMP_NTZ columns."""

_COLON = re.compile("Z|[+-][0-9]{2}:[0-9]{2}")
_PLAIN = re.compile("[+-][0-9]{4}")
_NAMED = re.compile("UTC|GMT|Z", re.IGNORECASE)

INSTANTS: Mapping[str, Written] = {
    "yyyy-MM-dd HH:mm:ss 'UTC'": Written("%Y-%m-%d %H:%M:%S UTC", lambda at: f"{at.year:04}{at:-%m-%d %H:%M:%S} UTC"),
    "yyyy-MM-dd'T'HH:mm:ss'Z'": Written("%Y-%m-%dT%H:%M:%SZ", lambda at: f"{at.year:04}{at:-%m-%dT%H:%M:%S}Z"),
    "dd/MMM/yyyy:HH:mm:ss xx": Written(
        "%d/%b/%Y:%H:%M:%S ", lambda at: f"{at:%d/%b}/{at.year:04}{at::%H:%M:%S} ", offset=_PLAIN
    ),
    "EEE, dd MMM yyyy HH:mm:ss z": Written(
        "%a, %d %b %Y %H:%M:%S ", lambda at: f"{at:%a, %d %b} {at.year:04}{at: %H:%M:%S} ", offset=_NAMED
    ),
    "d.M.yyyy H:mm 'UTC'": Written(
        "%d.%m.%Y %H:%M UTC", lambda at: f"{at.day}.{at.month}.{at.year:04} {at.hour}{at::%M} UTC"
    ),
    "yyyy-MM-dd HHxx": Written("%Y-%m-%d %H", lambda at: f"{at.year:04}{at:-%m-%d %H}", offset=_PLAIN),
    "MM/dd/yyyy hh:mm aXXX": Written(
        "%m/%d/%Y %I:%M %p", lambda at: f"{at:%m/%d}/{at.year:04}{at: %I:%M %p}", offset=_COLON
    ),
    "yyyy/MM/dd HH:mm:ssXXX": Written(
        "%Y/%m/%d %H:%M:%S", lambda at: f"{at.year:04}{at:/%m/%d %H:%M:%S}", offset=_COLON
    ),
}
"""Of TIMESTAMP columns of a source without a time zone."""


def expected(form: str, text: str) -> datetime | None:
    """The local time of a text, or its instant in UTC without a zone; None when it has none."""
    written = {**DATES, **LOCAL, **INSTANTS}[form]
    ahead = timedelta(0)
    if written.offset is not None:
        found = re.fullmatch(f"(.*?)({written.offset.pattern})", text, written.offset.flags)
        if found is None:
            return None
        text = found[1]
        if found[2][0] in "+-":
            hours, minutes = int(found[2][1:3]), int(found[2][-2:])
            if minutes > 59 or 60 * hours + minutes > 18 * 60:
                return None
            ahead = timedelta(hours=hours, minutes=minutes) * (-1 if found[2][0] == "-" else 1)
    at = _strptime(written, text)
    has_names = re.search("%[aAbBp]", written.reads) is not None
    if at is None or (written.writes(at) != text and not (has_names and written.writes(at).lower() == text.lower())):
        return None
    try:
        return at - ahead
    except OverflowError:
        return None


def _strptime(written: Written, text: str) -> datetime | None:
    if not written.reads:
        found = re.fullmatch("([0-9]{4})-Q([1-4])", text)
        return datetime(int(found[1]), 3 * int(found[2]) - 2, 1) if found and int(found[1]) else None  # noqa: DTZ001
    is_week = written.reads.endswith("%u") and not re.fullmatch(".*-[1-7]", text)
    try:
        at = datetime.strptime(text + "-1" * is_week, written.reads)  # noqa: DTZ007
    except ValueError:
        return None
    return at.replace(year=at.year + 100) if "%y" in written.reads and at.year < 2000 else at


def a_time(chance: random.Random) -> datetime:
    """A time of any year, often a day or an hour at an edge."""
    year = chance.choice(
        [1, 999, 1582, 1900, 1969, 1970, 1999, 2000, 2020, 2023, 2024, 9999, chance.randrange(1, 10_000)]
    )
    month = chance.choice([1, 2, 2, 3, 9, 10, 12, chance.randrange(1, 13)])
    day = chance.choice([1, 9, 10, 11, 12, 28, chance.randrange(1, 29)])
    hour, minute, second = (
        chance.choice([0, 1, 11, 12, 13, 23]),
        chance.choice([0, 7, 30, 59]),
        chance.choice([0, 9, 59]),
    )
    micros = chance.choice([0, 1, 500_000, 999_999, 120_000])
    return datetime(year, month, day, hour, minute, second, micros, UTC).replace(tzinfo=None)


def a_text(chance: random.Random, written: Written, odd: float = 0.6, at: datetime | None = None) -> str:
    """A text of a form, of a time or of any, or, as often as is said, one that is almost of it."""
    at = a_time(chance) if at is None else at
    if chance.random() < 0.3:
        at = at.replace(hour=0, minute=0, second=0, microsecond=0)
    text = written.writes(at)
    if written.offset is not None:
        is_odd = chance.random() < odd
        known = {_NAMED: ["GMT", "utc", "Z"], _PLAIN: ["+0000", "-0530", "+1800"], _COLON: ["Z", "-05:30", "+18:00"]}
        strange = ["EST", "Z", "+01:00", "-0100", "+1900", "-19:00", "+05:99"]
        text += chance.choice(strange if is_odd else known[written.offset])
    if chance.random() >= odd:
        return text
    match chance.randrange(8):
        case 0:
            return re.sub("[0-9]+", lambda found: str(int(found[0]) + 1), text)
        case 1:
            return re.sub(r"\b0([0-9])", r"\1", text)
        case 2:
            return re.sub(r"\b([0-9])\b", r"0\1", text)
        case 3:
            return chance.choice([text.upper(), text.lower(), text.swapcase()])
        case 4:
            return chance.choice([f" {text}", f"{text} ", f"{text}\n", f"{text}0", text[:-1], text + "Z"])
        case 5:
            place = chance.randrange(len(text))
            return text[:place] + chance.choice("0123456789/-: .T") + text[place + 1 :]
        case 6:
            part = chance.choice(["30", "31", "13", "24", "60", "00", "366", "53"])
            return re.sub("[0-9]{1,2}(?![0-9])", part, text, count=2)
        case 7:
            return chance.choice(["", "   ", "0000-00-00", "null", "٢٠٢٠", "2020-02-30", "1/1/0000", "Sept 1 2000"])
    return text


def spelled(at: date | None) -> str | None:
    """A date or a time as Spark casts it to a text."""
    if at is None:
        return None
    day = f"{at.year:04}-{at.month:02}-{at.day:02}"
    if not isinstance(at, datetime):
        return day
    return f"{day} {at:%H:%M:%S}" + f".{at.microsecond:06}".rstrip("0").rstrip(".")


def a_number(chance: random.Random, marks: Sequence[tuple[str, str]], odd: float = 0.3) -> str:
    """A number with some marks, whose groups are right as often as not."""
    decimal, thousands = chance.choice(marks)
    whole = str(chance.choice([0, 7, 12, 999, 1000, 12345, chance.randrange(10**9)]))
    if thousands and chance.random() < 0.6:
        whole = f"{int(whole):,}".replace(",", thousands)
    text = chance.choice(["", "", "", "-", "+"]) + whole
    if chance.random() < 0.5:
        text += decimal + "".join(chance.choice("0125") for _ in range(chance.randrange(4)))
    match chance.randrange(3) if chance.random() < odd else None:
        case 0:
            place = chance.randrange(len(text) + 1)
            return text[:place] + chance.choice([".", ",", " ", "'", "0", "e2", "E+1"]) + text[place:]
        case 1:
            place = chance.randrange(len(text))
            return text[:place] + text[place + 1 :]
        case 2:
            return chance.choice(
                ["1.2.3", "0.125", "1,00,000", "NaN", "Infinity", ",", "-,5", "1e5", "", " ", "1 000 "]
            )
    return text
