"""Patterns: forms of dates and times, such as `M/d/yyyy HH:mm`, taken apart into what they name.

A pattern reads the texts that it writes, and no others: `M/d/yyyy` is `1/2/2020`, and `MM/dd/yyyy` is `01/02/2020`. The
letters are those of Spark and Java as far as they name a part of a day or a time; those of ISO weeks and names of days,
which Spark does not read, are added. A pattern that leaves the day or the time open is refused when it is declared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import lru_cache

MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
SHORT = 3
"""Letters of a short name of a month or a day; they tell it from the others."""

MOST_VARIANTS = 16
_UTC = re.compile(r"\b(Z|UTC|GMT)\b")
_OFFSET = re.compile(r"[+-][0-9]{1,2}(:?[0-9]{2})?$")
_TOKENS = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|(.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Field:
    """Letters of a pattern: the part of a time that they name, how it is written, and what a text of it is."""

    of: str
    regex: str
    write: Callable[[datetime], str]
    read: Callable[[str], int] = int
    width: int = 0  #: How many digits it has; 0 where that is open.
    century: str = ""  #: What a year of two digits begins with.

    @property
    def is_number(self) -> bool:
        return self.of != "offset" and not self.is_name

    @property
    def is_name(self) -> bool:
        return self.regex.startswith("(?i:")

    @property
    def is_of_any_width(self) -> bool:
        return "]?" in self.regex


def _named(of: str, names: Sequence[str], place: Callable[[datetime], int], *, first: int) -> Field:
    """A part that is written by its name, in letters of either case."""
    known = {name.lower(): number for number, name in enumerate(names, first)}
    return Field(of, f"(?i:{'|'.join(names)})", lambda at: names[place(at) - first], lambda text: known[text.lower()])


def _short(names: Sequence[str]) -> list[str]:
    return [name[:SHORT] for name in names]


def _minutes(text: str) -> int:
    """An offset in minutes; that of UTC is zero, by whatever name."""
    digits = text.replace(":", "")
    if digits[0] not in "+-":
        return 0
    return (int(digits[1:3]) * 60 + int(digits[3:5] or 0)) * (-1 if digits[0] == "-" else 1)


def _offset(regex: str, utc: str) -> Field:
    return Field("offset", regex, lambda _: utc, _minutes)


def _number(of: str, value: Callable[[datetime], int], *, width: int = 1, regex: str = "") -> Field:
    regex = regex or ("[1-9][0-9]?" if width == 1 else f"[0-9]{{{width}}}")
    return Field(of, regex, lambda at: f"{value(at):0{width}}", width=width)


def _hour_of_12(at: datetime) -> int:
    return (at.hour + 11) % 12 + 1


def _fraction(digits: int) -> Field:
    return _number("fraction", lambda at: at.microsecond * 1_000 // 10 ** (9 - digits), width=digits)


_ANY_HOUR = "0|[1-9][0-9]?"
FIELDS: Mapping[str, Field] = {
    "yyyy": Field("year", "(?!0000)[0-9]{4}", lambda at: f"{at.year:04}"),
    "yy": Field("year", "[0-9]{2}", lambda at: f"{at.year % 100:02}", lambda text: 2000 + int(text), century="20"),
    "M": _number("month", lambda at: at.month),
    "MM": _number("month", lambda at: at.month, width=2),
    "MMM": _named("month", _short(MONTHS), lambda at: at.month, first=1),
    "MMMM": _named("month", MONTHS, lambda at: at.month, first=1),
    "d": _number("day", lambda at: at.day),
    "dd": _number("day", lambda at: at.day, width=2),
    "D": _number("day of year", lambda at: at.timetuple().tm_yday, regex="[1-9][0-9]?[0-9]?"),
    "DDD": _number("day of year", lambda at: at.timetuple().tm_yday, width=3),
    "q": _number("quarter", lambda at: (at.month + 2) // 3, regex="[1-4]"),
    "YYYY": Field("week year", "(?!0000)[0-9]{4}", lambda at: f"{at.isocalendar().year:04}"),
    "w": _number("week", lambda at: at.isocalendar().week),
    "ww": _number("week", lambda at: at.isocalendar().week, width=2),
    "e": _number("day of week", lambda at: at.isoweekday(), regex="[1-7]"),
    "EEE": _named("name of day", _short(DAYS), lambda at: at.isoweekday(), first=1),
    "EEEE": _named("name of day", DAYS, lambda at: at.isoweekday(), first=1),
    "H": _number("hour", lambda at: at.hour, regex=_ANY_HOUR),
    "HH": _number("hour", lambda at: at.hour, width=2),
    "h": _number("hour of 12", _hour_of_12),
    "hh": _number("hour of 12", _hour_of_12, width=2),
    "a": _named("half", ("AM", "PM"), lambda at: at.hour // 12, first=0),
    "m": _number("minute", lambda at: at.minute, regex=_ANY_HOUR),
    "mm": _number("minute", lambda at: at.minute, width=2),
    "s": _number("second", lambda at: at.second, regex=_ANY_HOUR),
    "ss": _number("second", lambda at: at.second, width=2),
    **{"S" * digits: _fraction(digits) for digits in range(1, 10)},
    "X": _offset("Z|[+-][0-9]{2}(?:[0-9]{2})?", "Z"),
    "XX": _offset("Z|[+-][0-9]{4}", "Z"),
    "XXX": _offset("Z|[+-][0-9]{2}:[0-9]{2}", "Z"),
    "x": _offset("[+-][0-9]{2}(?:[0-9]{2})?", "+00"),
    "xx": _offset("[+-][0-9]{4}", "+0000"),
    "xxx": _offset("[+-][0-9]{2}:[0-9]{2}", "+00:00"),
    "z": _offset("(?i:UTC|GMT|Z)", "UTC"),
}
"""By their letters in a pattern."""
_SAME = {
    "uuuu": "yyyy",
    **{"L" * n: "M" * n for n in range(1, 5)},
    **dict.fromkeys(("E", "EE"), "EEE"),
    "Q": "q",
    **dict.fromkeys(("Z", "ZZ", "ZZZ"), "xx"),
    "ZZZZZ": "XXX",
}
"""Other letters for the same."""
_HINTS = {
    "y": "the year is yyyy, or yy in two digits",
    "u": "the year is yyyy",
    "Y": "the year is yyyy; YYYY is that of an ISO week",
    "D": "the day of the month is d or dd; the day of the year is D or DDD",
    "V": "an offset is XXX or xx; the names of zones are not read: declare timezone",
    "O": "an offset is XXX or xx",
    "z": "UTC is z; the names of other zones are not read: declare timezone",
    "k": "the hour is H or HH",
    "K": "the hour is H or HH, or h or hh with a",
}


class NoPattern(ValueError):
    """A text is no pattern: what is wrong with it, and what to write."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A form of dates or times without parts that can be missing."""

    text: str  #: As it is declared.
    parts: tuple[Field | str, ...]  #: What it is made of, in order: fields, and texts between them.

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(part for part in self.parts if isinstance(part, Field))

    @property
    def regex(self) -> str:
        """The regular expression for Python and Java, with a group for each field, from the first character to the
        last."""
        return "".join(re.escape(part) if isinstance(part, str) else f"({part.regex})" for part in self.parts)

    def place(self, of: str) -> int:
        """The number of the group of a part of a time; 0 when the pattern lacks it."""
        return next((place for place, field in enumerate(self.fields, 1) if field.of == of), 0)

    def has(self, *of: str) -> bool:
        return all(self.place(each) for each in of)

    @property
    def has_time(self) -> bool:
        return self.has("hour") or self.has("hour of 12")

    @property
    def is_utc(self) -> bool:
        """True if a text of it states UTC: `'Z'` and `'UTC'` are part of what a source writes."""
        return self.has_time and any(isinstance(part, str) and _UTC.search(part) is not None for part in self.parts)

    @property
    def has_offset(self) -> bool:
        return self.has("offset") or self.is_utc

    def write(self, at: datetime) -> str:
        return "".join(part if isinstance(part, str) else part.write(at) for part in self.parts)

    def read(self, text: str) -> tuple[datetime, int | None] | None:
        """The time of a text, with its offset in minutes; None when it is no text of this pattern."""
        found = re.fullmatch(self.regex, text)
        if found is None:
            return None
        values = {field.of: field.read(group) for field, group in zip(self.fields, found.groups(), strict=True)}
        digits = found[self.place("fraction")] if self.has("fraction") else ""
        try:
            day, hour = _day(values), _hour(values)
            clock = time(hour, values.get("minute", 0), values.get("second", 0), int(digits.ljust(6, "0")[:6] or 0))
        except (ValueError, OverflowError):
            return None
        return datetime.combine(day, clock), values.get("offset", 0 if self.is_utc else None)


def _day(values: Mapping[str, int]) -> date:
    if "week" in values:
        found = date.fromisocalendar(values["week year"], values["week"], values.get("day of week", 1))
    elif "day of year" in values:
        found = date(values["year"], 1, 1) + timedelta(days=values["day of year"] - 1)
        if not values["day of year"] or found.year != values["year"]:
            raise ValueError("of no day")
    else:
        found = date(values["year"], values.get("month", 3 * values.get("quarter", 1) - 2), values.get("day", 1))
    if values.get("name of day", found.isoweekday()) != found.isoweekday():
        raise ValueError("of another day of the week")
    return found


def _hour(values: Mapping[str, int]) -> int:
    if "hour of 12" not in values:
        return values.get("hour", 0)
    if not 1 <= values["hour of 12"] <= 12:
        raise ValueError("of no hour")
    return values["hour of 12"] % 12 + 12 * values["half"]


@lru_cache(maxsize=1024)
def patterns_of(text: str) -> tuple[Pattern, ...]:
    """The patterns that a text declares: one, or with and without each part in brackets.

    Raises:
        NoPattern: It is none.
    """
    if "%" in text:
        raise NoPattern("it is one of Python's: letters stand for parts, as in yyyy-MM-dd HH:mm:ss")
    found = [_complete(Pattern(text, parts)) for parts in _variants(list(_tokens(text)), text)]
    return tuple(found)


def _tokens(text: str) -> Iterator[Field | str | tuple[str]]:
    """Fields and texts; a bracket is alone in a tuple."""
    if text.replace("''", "").count("'") % 2:
        raise NoPattern("it has a quote that is never closed")
    for found in _TOKENS.finditer(text):
        letters = found[0]
        if found[1] is not None:
            yield found[1].replace("''", "'") or "'"
        elif found[3] is not None:
            yield (letters,) if letters in "[]" else letters
        elif letters in _SAME or letters in FIELDS:
            yield FIELDS[_SAME.get(letters, letters)]
        else:
            hint = _HINTS.get(letters[0], f"text is written in quotes, as '{letters}'")
            raise NoPattern(f"{letters} names nothing of a date or a time: {hint}")


def _variants(tokens: Sequence[Field | str | tuple[str]], text: str) -> list[tuple[Field | str, ...]]:
    """Tokens without brackets: first with what is in them, then without."""
    if ("[",) not in tokens and ("]",) not in tokens:
        return [_joined(tokens)]
    depth = 0
    begin = next((place for place, token in enumerate(tokens) if token == ("[",)), len(tokens))
    for place in range(begin, len(tokens)):
        depth += (tokens[place] == ("[",)) - (tokens[place] == ("]",))
        if depth == 0:
            kept = _variants([*tokens[:begin], *tokens[begin + 1 : place], *tokens[place + 1 :]], text)
            found = kept + _variants([*tokens[:begin], *tokens[place + 1 :]], text)
            if len(found) > MOST_VARIANTS:
                raise NoPattern(f"its brackets make more than {MOST_VARIANTS} patterns: declare several")
            return found
    raise NoPattern("it has a bracket without the other: what can be missing is in [ and ]")


def _joined(tokens: Sequence[Field | str | tuple[str]]) -> tuple[Field | str, ...]:
    parts: list[Field | str] = []
    for token in tokens:
        assert not isinstance(token, tuple), "brackets are gone"
        if isinstance(token, str) and parts and isinstance(parts[-1], str):
            parts[-1] += token
        else:
            parts.append(token)
    return tuple(parts)


_NEEDS = (
    ("week year", ("week",), "YYYY is the year of an ISO week: the year is yyyy"),
    ("month", ("year",), "its month is of no year (yyyy)"),
    ("quarter", ("year",), "its quarter is of no year (yyyy)"),
    ("day of year", ("year",), "its day is of no year (yyyy)"),
    ("day", ("year", "month"), "its day is of no month (MM is the month, mm are minutes)"),
    ("week", ("week year",), "its week is of no year of weeks (YYYY)"),
    ("day of week", ("week",), "its day e is of no week (ww)"),
    ("hour of 12", ("half",), "whether h is before noon is open: add a, or write H or HH"),
    ("half", ("hour of 12",), "AM or PM is of no hour of 12 (h or hh)"),
    ("second", ("minute",), "its seconds are of no minute (mm)"),
    ("fraction", ("second",), "its fraction is of no second (ss)"),
)
"""What a part of a time is of, and what to say where that is missing."""
_DAYS_BY = (("month", "day"), ("day of year",), ("quarter",), ("week",))
"""Ways to name a day, of which a pattern has one."""


def _complete(found: Pattern) -> Pattern:
    """The pattern, if each of its texts is one day or one time.

    Raises:
        NoPattern: It leaves that open.
    """
    named = [field.of for field in found.fields]
    if twice := next((of for of in named if named.count(of) > 1), ""):
        raise NoPattern(f"it has the {twice} twice (MM is the month, mm are minutes)")
    for of, others, mistake in _NEEDS:
        if of in named and not {*others} <= {*named}:
            raise NoPattern(mistake)
    if not {"year", "week year"} & {*named}:
        raise NoPattern("it has no year (yyyy)")
    ways = [way for way in _DAYS_BY if {*way} & {*named}]
    if len(ways) > 1 or {"year", "week year"} <= {*named} or {"hour", "hour of 12"} <= {*named}:
        raise NoPattern("it names the same part in two ways")
    if "minute" in named and not found.has_time:
        raise NoPattern("its minutes are of no hour (HH; MM is the month)")
    if "name of day" in named and not ({"day", "day of year"} & {*named}):
        raise NoPattern("its name of a day is of no day (d or dd)")
    if "offset" in named and not found.has_time:
        raise NoPattern("its offset is of no time of day (HH:mm)")
    _require_one_reading(found)
    return found


def _require_one_reading(found: Pattern) -> None:
    """Refuses numbers of any width side by side, and an offset that is a text between fields.

    Raises:
        NoPattern: They are.
    """
    run = 0
    for part in found.parts:
        is_digits = part.isdigit() if isinstance(part, str) else part.is_number
        run = (run + (isinstance(part, Field) and part.is_of_any_width)) if is_digits else 0
        if run > 1:
            raise NoPattern("two of its numbers of any width have nothing between them: write both digits, as in MMdd")
    if found.has_time and any(isinstance(part, str) and _OFFSET.search(part) for part in found.parts):
        raise NoPattern("it has an offset as a text: write XXX, xx or X where the offset is")
