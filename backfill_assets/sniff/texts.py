"""Texts: which of them stand for no value, for true and false, how numbers are written in a file, and in which form
dates and times.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import cache
from itertools import pairwise

from backfill_assets.calendar.patterns import Pattern, patterns_of

# Texts: which of them stand for no value, for true and false, and how numbers are written in a file.

NULLS = (
    r"\N", "NULL", "null", "NA", "N/A", "n/a", "na", "#N/A", "NaN", "nan", "None", "none",
    "?", "-", "--", "---", ".", "..", "(null)", "<NA>", "missing", "M", "*",
)  # fmt: skip
"""Texts that stand for no value where the others of a column are numbers, times or true and false."""

_ALWAYS = frozenset({r"\N", "NULL", "(null)", "<NA>"})
"""The texts that stand for no value in columns of texts as well."""

NEVER_TEXTS = _ALWAYS | {"null", "N/A", "n/a", "#N/A", "NaN", "nan"}
"""The texts that stand for no value in a column that has no other text."""

_PAIRS = (("true", "false"), ("True", "False"), ("TRUE", "FALSE"), ("t", "f"))
_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")
_LEADING_ZERO = re.compile(r"[+-]?0[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]{1,3})?")
MONEY = re.compile(r"[+-]?[$€£¥]\s?[0-9.,]+|[0-9.,]+\s?[€%]")
SEPARATORS = ((".", ""), (".", ","), (",", ""), (",", "."), (",", " "), (",", "\u00a0"), (".", "'"), (".", " "))
"""What is before the fraction of a number, and between groups of three digits, the most usual first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The form in which numbers are written."""

    decimal: str = "."
    thousands: str = ""

    def plain(self, text: str) -> str | None:
        """A number as programs write it; None of a text that is none."""
        if (self.decimal, self.thousands) == (".", ""):
            return text if _NUMBER.fullmatch(text) else None
        whole, is_fraction, fraction = text.partition(self.decimal)
        if _LEADING_ZERO.fullmatch(whole):
            return None  # a code with a comma behind it
        if self.thousands and self.thousands in whole:
            if not re.fullmatch(rf"[+-]?[0-9]{{1,3}}({re.escape(self.thousands)}[0-9]{{3}})+", whole):
                return None
            whole = whole.replace(self.thousands, "")
            if _LEADING_ZERO.fullmatch(whole):
                return None
        elif self.decimal != "." and "." in text:
            return None
        found = f"{whole}.{fraction}" if is_fraction else whole
        return found if _NUMBER.fullmatch(found) else None


PLAIN = Numbers()


def numbers_of(columns: Sequence[Sequence[str]], delimiter: str = ",") -> tuple[Numbers, Numbers | None]:
    """The form of numbers with which most columns of a file are numbers, and others with which all of them could be.

    Args:
        delimiter: Where it is a comma, one within a number is rather between groups of digits than a decimal one.
    """
    separators = sorted(SEPARATORS[1:], key=lambda each: delimiter != "," and each[1] == ",")
    best, most = PLAIN, _number_columns(columns, PLAIN)
    for decimal, thousands in separators:
        candidate = Numbers(decimal=decimal, thousands=thousands)
        found = _number_columns(columns, candidate)
        if found > most:
            best, most = candidate, found
    comma, groups = Numbers(decimal=","), Numbers(thousands=",")
    other = {comma: groups, groups: comma}.get(best)
    return best, other if other is not None and _number_columns(columns, other) == most else None


def _number_columns(columns: Sequence[Sequence[str]], how: Numbers) -> set[int] | _More:
    return _More(
        {
            place
            for place, texts in enumerate(columns)
            if (values := [text for text in texts if text and text not in NULLS])
            # Codes, which are no numbers however numbers are written.
            and not has_leading_zeros(values)
            and all(how.plain(text) is not None for text in values[:2_000])
        }
    )


class _More(set[int]):
    """Columns that are numbers: more of them than of another set, without losing one."""

    def __gt__(self, other: object) -> bool:
        return isinstance(other, set) and len(self) > len(other) and set(self) >= set(other)


def null_texts(texts: Sequence[str]) -> frozenset[str]:
    """The texts of a column that may stand for no value."""
    return frozenset(texts) & frozenset(NULLS)


def always_null(columns: Iterable[Sequence[str]]) -> frozenset[str]:
    r"""Those that stand for no value in columns of texts too: `\N` where a file has it, because it then is what the
    file writes, and `NULL` may be the title of a film."""
    found = frozenset(text for texts in columns for text in _ALWAYS.intersection(texts))
    return found & {r"\N"} or found


def truths_of(texts: Sequence[str]) -> tuple[str, str] | None:
    """The two texts of a column that stand for true and false."""
    found = set(texts)
    return next((pair for pair in _PAIRS if found and found <= set(pair)), None)


def is_whole(text: str) -> bool:
    """True if a number is a whole one of 64 bits, written without zeros before it."""
    return _WHOLE.fullmatch(text) is not None and not _LEADING_ZERO.fullmatch(text) and -(2**63) <= int(text) < 2**63


def has_leading_zeros(texts: Sequence[str]) -> bool:
    """True if digits begin with zeros, which a number would lose."""
    return any(_LEADING_ZERO.fullmatch(text) for text in texts)


def kind_of_numbers(texts: Sequence[str], how: Numbers) -> tuple[str, int]:
    """`LONG` or `DOUBLE` for numbers, and how many texts are some; empty for texts that are none."""
    if has_leading_zeros(texts):
        return "", 0
    plain = [number for text in texts if (number := how.plain(text)) is not None]
    least = len(texts) if len(texts) < 20 else len(texts) - len(texts) // 20
    if not plain or len(plain) < least:
        return "", len(plain)
    if all(map(is_whole, plain)):
        return "LONG", len(plain)
    if all(re.fullmatch(r"[+-]?[0-9]+", text) for text in plain):
        return ("DECIMAL(38,0)", len(plain)) if max(map(len, plain)) <= 38 else ("", 0)
    return "DOUBLE", len(plain)


def sentinels(texts: Sequence[str]) -> tuple[str, ...]:
    """Numbers such as -999.99 that are repeated and far below all others."""
    counts: Mapping[str, int] = Counter(texts)
    found = [text for text in counts if re.fullmatch(r"-(9+(\.9+)?|200(\.0*)?)", text) and counts[text] > 1]
    others = [float(text) for text in counts if _NUMBER.fullmatch(text) and text not in found]
    return tuple(found) if found and others and min(others) > max(map(float, found)) else ()


# Times: in which form the texts of a column are dates or times, and which forms are possible beside it.
#
# A form fits a text when the text is exactly what it would write: `M/d/yyyy` fits `1/22/2020` and not
# `01/22/2020`.

_ISO_LOCAL = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?")
_ISO_TIME = re.compile(_ISO_LOCAL.pattern + r"(?P<offset>Z|[+-]\d\d(:?\d\d)?)?")

_DATES = (
    "yyyy-MM-dd", "yyyy-M-d", "yyyy/MM/dd", "yyyy/M/d", "yyyy.MM.dd", "yyyyMMdd",
    "M/d/yyyy", "MM/dd/yyyy", "d/M/yyyy", "dd/MM/yyyy",
    "d.M.yyyy", "dd.MM.yyyy", "d-M-yyyy", "dd-MM-yyyy", "M-d-yyyy", "MM-dd-yyyy",
    "M/d/yy", "MM/dd/yy", "d/M/yy", "dd/MM/yy", "d.M.yy", "dd.MM.yy", "d-M-yy", "dd-MM-yy", "M-d-yy", "MM-dd-yy",
    "yy-MM-dd", "yy/MM/dd", "yy.MM.dd",
    "MMM d yyyy", "MMM dd yyyy", "MMM d, yyyy", "MMM dd, yyyy", "MMMM d, yyyy", "MMMM dd, yyyy", "MMMM d yyyy",
    "d MMM yyyy", "dd MMM yyyy", "d MMMM yyyy", "dd MMMM yyyy", "d-MMM-yyyy", "dd-MMM-yyyy", "d-MMM-yy", "dd-MMM-yy",
    "dd/MMM/yyyy", "yyyy-MMM-dd", "yyyy MMM d", "yyyy MMM dd", "yyyy M d", "yyyy MM dd", "d M yyyy", "dd MM yyyy",
    "dd/MMM/yy", "d/MMM/yy", "yyyy'年'M'月'd'日'", "yyyy'年'MM'月'dd'日'", "yyyy. M. d.", "yyyy. MM. dd.",
    "EEE, d MMM yyyy", "EEE, dd MMM yyyy", "EEE MMM dd yyyy", "EEEE, MMMM d, yyyy",
)  # fmt: skip
_MONTHS_ALONE = (
    "yyyy-MM", "yyyy/MM", "yyyy/M", "MM/yyyy", "M/yyyy", "MM-yyyy", "MMM-yyyy", "MMM yyyy", "MMMM yyyy", "MMM-yy",
    "yy-MMM", "yyyy MMM", "yyyy MMMM", "yyyy M", "yyyy MM", "yyyy'M'MM", "yyyy 'M'MM", "yyyy-MMM", "MMM.yyyy",
    "yyyy-'Q'Q", "yyyy'Q'Q", "yyyy 'Q'Q", "yyyy'K'Q", "YYYY'-W'ww", "YYYY'W'ww",
)  # fmt: skip
_CLOCKS = (
    "HH:mm:ss", "H:mm:ss", "HH:mm", "H:mm", "hh:mm:ss a", "h:mm:ss a", "hh:mm a", "h:mm a", "HH.mm.ss", "HH.mm",
    "HH:mm:ss.SSS", "HH:mm:ss.SSSSSS", "hh:mm a", "h:mma", "HHmm", "HHmmss", "HH", "H",
)  # fmt: skip
_BETWEEN = (" ", "'T'", ", ", "-", ":", "  ")
_OFFSETS = ("", "XXX", " XXX", "xx", " xx", "x", " 'UTC'", " 'GMT'", "'Z'")
YEARS = "yyyy"
_MOST_PATTERNS = 5
MONTHS_FIRST = "MMddyyyy"
_COMPACT = ("yyyyMMddHHmmss", "yyyyMMddHHmm", "yyyyMMddHH", "yyyyMMdd'T'HHmmss'Z'", MONTHS_FIRST)
_TRIED_TEXTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeForm:
    """The form of the times in a column."""

    patterns: tuple[str, ...] = ()  #: The forms, tried in order; empty where they are those that need no declaration.
    is_date: bool  #: True if it has days and no clock.
    is_local: bool  #: True if its times have no offset.
    fitting: int  #: How many of the texts they fit.
    others: tuple[str, ...] = ()  #: Forms that fit as many texts and give other times.

    def read(self, text: str) -> datetime | None:
        """The time of a text, in UTC where it has an offset; None where it has none."""
        if not self.patterns:
            return read_iso(text)
        return next((found for each in self.patterns if (found := read_as(text, each)) is not None), None)


def read_iso(text: str) -> datetime | None:
    """The time of a text in a form that needs no declaration."""
    try:
        if len(text) == len("2026-01-31"):
            return datetime.combine(date.fromisoformat(text), datetime.min.time()) if text[4] == "-" else None
        if (found := _ISO_TIME.fullmatch(text)) is None:
            return None
        at = datetime.fromisoformat(_ISO_LOCAL.match(text)[0][:26])  # type: ignore[index]
    except ValueError:
        return None
    offset = (found["offset"] or "Z").replace(":", "")
    if offset == "Z":
        return at
    minutes = int(offset[1:3]) * 60 + int(offset[3:] or 0)
    return at - timedelta(minutes=minutes if offset[0] == "+" else -minutes)


@cache
def _pattern(text: str) -> tuple[Pattern, re.Pattern[str]]:
    (found,) = patterns_of(text)
    return found, re.compile(found.regex)


def read_as(text: str, pattern: str) -> datetime | None:
    """The time of a text that a form writes exactly so, in UTC where it has an offset; None of another text."""
    form, compiled = _pattern(pattern)
    if compiled.fullmatch(text) is None or (found := form.read(text)) is None:
        return None
    at, minutes = found
    return at - timedelta(minutes=minutes or 0)


def has_clock(pattern: str) -> bool:
    """True if a form has hours."""
    return _pattern(pattern)[0].has_time


def has_offset(pattern: str) -> bool:
    """True if a form tells the instant of a time."""
    return _pattern(pattern)[0].has_offset


def time_form(texts: Sequence[str], *, numbers: bool = False, years: bool = False) -> TimeForm | None:
    """The form in which texts are dates or times; None where fewer than most of them are.

    Args:
        texts: The values of a column.
        numbers: Whether digits alone, such as 20260131, may be dates.
        years: Whether four digits alone may be years.
    """
    if not texts:
        return None
    iso = sum(_ISO_TIME.fullmatch(text) is not None or read_iso(text) is not None for text in texts)
    if iso >= _least(len(texts)):
        return _iso(texts)
    patterns, others = _patterns(list(dict.fromkeys(texts))[:2_000], _forms(numbers=numbers, years=years))
    found = TimeForm(
        patterns=patterns,
        is_date=not any(map(has_clock, patterns)),
        is_local=any(has_clock(each) and not has_offset(each) for each in patterns),
        fitting=0,
        others=others,
    )
    fitting = sum(found.read(text) is not None for text in texts) if patterns else 0
    return replace(found, fitting=fitting) if patterns and fitting >= _least(len(texts)) else None


def _patterns(texts: Sequence[str], allowed: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Forms that together fit the most of some texts, in order, and others that fit as many as the first."""
    chosen: list[str] = []
    others: tuple[str, ...] = ()
    left = texts
    while left and len(chosen) < _MOST_PATTERNS:
        found = _fitting(left, allowed)
        fitting = {
            each: count for each, count in found.items() if not chosen or has_clock(each) == has_clock(chosen[0])
        }
        if not fitting:
            break
        best = _best(fitting, left)
        if not chosen:
            others = tuple(each for each in fitting if fitting[each] == fitting[best] and _differ(each, best, left))
        chosen.append(best)
        left = [text for text in left if read_as(text, best) is None]
    return tuple(chosen), others


def _least(count: int) -> int:
    """The least number of texts that has to fit: nearly all of many, all but one of some, all of a few."""
    return count - (count // 20 if count >= 20 else count >= 8)


def _iso(texts: Sequence[str]) -> TimeForm | None:
    dates = sum(len(text) == 10 for text in texts)
    if 0 < dates < len(texts) and dates < _least(len(texts)):
        return None
    is_date = dates >= _least(len(texts))
    times = [match for text in texts if (match := _ISO_TIME.fullmatch(text)) and read_iso(text)]
    without = [match for match in times if not match["offset"]]
    if is_date:
        fitting = sum(len(text) == 10 and read_iso(text) is not None for text in texts)
        return TimeForm(is_date=True, is_local=False, fitting=fitting)
    return TimeForm(is_date=False, is_local=bool(without), fitting=len(times))


@cache
def _forms(*, numbers: bool, years: bool) -> tuple[str, ...]:
    dates = [each for each in _DATES if numbers or each != "yyyyMMdd"]
    found = [*dates, *_MONTHS_ALONE]
    if numbers:
        found += [*_COMPACT, "yyyyMM"]
    if years:
        found.append(YEARS)
    return tuple(found)


def _with_clocks(day: str, first: str) -> Iterator[str]:
    """Forms of a day with a time behind it, as far as a text can have them."""
    begun = _pattern(day)[1].match(first)
    if begun is None:
        return
    rest = first[begun.end() :]
    for between in _BETWEEN:
        if rest.startswith(between.strip("'")):
            for offset in _OFFSETS:
                if "X" in offset or "x" in offset or rest.endswith(offset.replace("'", "")):
                    yield from (f"{day}{between}{clock}{offset}" for clock in _CLOCKS)


def _fitting(texts: Sequence[str], allowed: Sequence[str]) -> dict[str, int]:
    """Forms that fit one of the first of some texts, with the number of texts that each fits."""
    forms = next((found for text in texts[:_TRIED_TEXTS] if (found := _forms_of(text, allowed))), [])
    return {each: sum(read_as(text, each) is not None for text in texts) for each in dict.fromkeys(forms)}


def _forms_of(text: str, allowed: Sequence[str]) -> list[str]:
    forms = [each for each in allowed if read_as(text, each) is not None]
    if not forms and any(character in text for character in " T:,-"):
        days = [each for each in allowed if not has_clock(each)]
        forms = [each for day in days for each in _with_clocks(day, text) if read_as(text, each) is not None]
        forms += [each for each in _clock_first() if read_as(text, each) is not None]
    return forms


@cache
def _clock_first() -> tuple[str, ...]:
    """The form of old web servers and of social networks."""
    return (
        "EEE MMM dd HH:mm:ss xx yyyy",
        "EEE MMM d HH:mm:ss yyyy",
        "dd/MMM/yyyy:HH:mm:ss xx",
        "HH:mm dd/MM/yyyy",
        "'['dd/MMM/yyyy:HH:mm:ss xx']'",
    )


def _best(fitting: dict[str, int], texts: Sequence[str]) -> str:
    """The form that fits most; of several the one whose times are in order, or which is written in one style."""
    most = max(fitting.values())
    among = [each for each in fitting if fitting[each] == most]
    distances = {each: _distance(texts, each) for each in among}
    least = min(distances.values())
    return min((each for each in among if distances[each] <= 2 * least), key=_rank)


def _distance(texts: Sequence[str], pattern: str) -> float:
    """The seconds from each time to the next: few where a file is sorted by time, and the form is the right one."""
    times = [at for text in texts[:1_000] if (at := read_as(text, pattern)) is not None]
    return sum(abs((after - before).total_seconds()) for before, after in pairwise(times))


def _rank(pattern: str) -> tuple[int, int, int]:
    """The more usual one of two forms that cannot be told apart comes first."""
    tokens = re.findall(r"([A-Za-z])(\1*)", pattern)
    singles = sum(letter in "MdHh" and not more for letter, more in tokens)
    doubles = sum(letter in "MdHh" and len(more) == 1 for letter, more in tokens)
    is_day_first = pattern.startswith("d") and "/" in pattern
    is_year_first = re.match(r"yy[^y]", pattern) is not None
    return (2 if is_year_first else int(is_day_first), min(singles, doubles), singles)


def _differ(one: str, other: str, texts: Sequence[str]) -> bool:
    return one != other and any(read_as(text, one) != read_as(text, other) for text in texts)
