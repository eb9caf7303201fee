"""The tables of fields in docs/cli.md, generated from the classes that become the JSON.

Between `<!-- fields: MODULE.CLASS -->` and `<!-- end of fields -->` stands what the class says of itself: its fields,
their types in words, and the comments on their lines. The rest of the page is written by hand. `make docs` writes
the tables.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import types
import typing
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path

from backfill_assets.calendar.partitions import DayRange, Partitions
from backfill_assets.calendar.windows import AnyWindow
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.next_steps import Invocation, NextStep
from backfill_assets.core.settings import PROJECT_ROOT
from backfill_assets.report.documents import IN_PLACE, SHOWN, name_of, names_in_json
from backfill_assets_tests.support.field_comments import comments_of

PAGE = PROJECT_ROOT / "docs" / "cli.md"

_BLOCK = re.compile(r"<!-- fields: (?P<name>[\w.]+) -->\n.*?<!-- end of fields -->", re.DOTALL)
_SIMPLE = {
    str: "text",
    bool: "true or false",
    int: "integer",
    float: "number",
    Decimal: "number",
    date: "day",
    datetime: "instant",
    NextStep: "text",
    Invocation: "text",
    Partitions: "partitions: `ranges`, `count`",
    DayRange: "`FIRST..LAST`",
    AnyWindow: "object: `days_back` and `days_ahead`, or `months_back` and `months_ahead`",
    BackfillError: "an error: `type`, `message`, `next_step`, `ids`",
    types.NoneType: "null",
    typing.Any: "any value",
}


def filled(page: str) -> str:
    """The page with every table as its class says it now."""
    sections = _sections(page)
    return _BLOCK.sub(lambda found: _block(found["name"], sections), page)


def _sections(page: str) -> Mapping[object, str]:
    """Which classes have a table of their own, each with a link to its heading."""
    found: dict[object, str] = {}
    heading = ""
    for line in page.splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        if marker := re.fullmatch(r"<!-- fields: ([\w.]+) -->", line):
            found.setdefault(_named(marker[1]), f"[{heading}](#{_anchor(heading)})")
    return found


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _named(path: str) -> object:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def _block(name: str, sections: Mapping[object, str]) -> str:
    of = _named(name)
    tables = [_titled(each, sections) for each in typing.get_args(of)] if _is_union(of) else [_table(of, sections)]
    return "\n".join([f"<!-- fields: {name} -->", "\n\n".join(tables), "<!-- end of fields -->"])


def _titled(of: object, sections: Mapping[object, str]) -> str:
    """One of several kinds of documents, by the sentence that describes it."""
    return f"{_sentence_of(of)}\n\n{_table(of, sections)}"


def _table(of: object, sections: Mapping[object, str]) -> str:
    rows = [f"| {field} | {kind} | {meaning} |" for field, kind, meaning in _rows(of, "", sections)]
    return "\n".join(["| field | type | meaning |", "|---|---|---|", *rows])


def _rows(of: object, prefix: str, sections: Mapping[object, str]) -> Iterator[tuple[str, str, str]]:
    hints, meanings = typing.get_type_hints(of), attributes_of(of)
    has_grain = hasattr(of, "grain") or "grain" in hints
    for name, shown_as in names_in_json(of).items():
        hint, meaning = _hint_and_meaning(of, name, hints, meanings)
        inner = _document_in(hint)
        if shown_as == IN_PLACE and inner in sections:
            yield "", f"the fields of {sections[inner]}", meaning
        elif shown_as == IN_PLACE:
            yield from _rows(inner, prefix, sections)
        else:
            # The days of an object with a grain are its partitions, as in `as_json`.
            shown = Partitions if has_grain and hint == tuple[date, ...] else hint
            path = f"{prefix}{shown_as}{'[]' if _is_list(shown) else ''}"
            yield f"`{path}`", in_words(shown, sections), re.sub(r"\bNone\b", "null", meaning)
            if inner is not None and inner not in sections:
                yield from _rows(inner, f"{path}.", sections)


def _hint_and_meaning(
    of: object, name: str, hints: Mapping[str, object], meanings: Mapping[str, str]
) -> tuple[object, str]:
    """The type and the sentence of a field, or of a property, or of one of an attribute."""
    name, _, rest = name.partition(".")
    if rest:
        inner = hints[name]
        return _hint_and_meaning(inner, rest, typing.get_type_hints(inner), comments_of(typing.cast(type, inner)))
    if name in hints:
        return hints[name], meanings.get(name, "")  # What stands in place needs no sentence of its own.
    held = inspect.getattr_static(of, name)
    read = held.fget if isinstance(held, property) else held.func
    return typing.get_type_hints(read)["return"], _sentence_of(read)


def attributes_of(of: object) -> Mapping[str, str]:
    """What a class says of each field that its JSON has.

    Raises:
        KeyError: It leaves one out, or names one that is not there.
    """
    found = comments_of(typing.cast(type, of))
    names = {field.name for field in dataclasses.fields(typing.cast(typing.Any, of))}
    shown_of = SHOWN.get(name_of(typing.cast(type, of)))
    if shown_of is not None:
        names &= shown_of.keys()
        found = {name: meaning for name, meaning in found.items() if name in names}
    if names != found.keys():
        raise KeyError(f"{of}: the comments and the fields differ in {sorted(names ^ found.keys())}")
    return found


def _sentence_of(of: object) -> str:
    return inspect.cleandoc(getattr(of, "__doc__", None) or "").splitlines()[0]


def in_words(hint: object, sections: Mapping[object, str]) -> str:
    """A type as a reader of JSON knows it."""
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    if hint in sections:
        return sections[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if _is_union(hint):
        parts = dict.fromkeys(in_words(each, sections) for each in arguments)
        return ", or ".join(parts)
    if origin is typing.Literal:
        return " or ".join(f"`{each}`" for each in arguments)
    if origin is tuple:
        return _tuple_in_words(arguments, sections)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        values = in_words(arguments[1], sections)
        return "object" if arguments[1] is typing.Any else f"object: {values} by name"
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _enum_in_words(hint)
    if dataclasses.is_dataclass(hint):
        return "object"
    raise TypeError(f"{hint!r} has no words")


def _tuple_in_words(arguments: tuple[object, ...], sections: Mapping[object, str]) -> str:
    if arguments[-1] is Ellipsis:
        return f"list of {in_words(arguments[0], sections)}"
    return f"[{', '.join(in_words(each, sections) for each in arguments)}]"


def _enum_in_words(enum: type[Enum]) -> str:
    values = [str(each.value) for each in enum]
    return "text" if any(" " in value for value in values) else ", ".join(f"`{value}`" for value in values)


def _is_union(hint: object) -> bool:
    return typing.get_origin(hint) in (typing.Union, types.UnionType)


def _is_list(hint: object) -> bool:
    kinds = typing.get_args(hint) if _is_union(hint) else (hint,)
    return any(typing.get_origin(each) is tuple for each in kinds)


def _document_in(hint: object) -> type | None:
    """The class of the documents that a field holds: one, none or several."""
    if isinstance(hint, type) and dataclasses.is_dataclass(hint) and hint not in _SIMPLE:
        return hint
    if typing.get_origin(hint) is tuple or (_is_union(hint) and types.NoneType in typing.get_args(hint)):
        found = [inner for inner in map(_document_in, typing.get_args(hint)) if inner is not None]
        return found[0] if len(found) == 1 else None
    return None


def main(page: Path = PAGE) -> None:
    """Writes the page."""
    page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
