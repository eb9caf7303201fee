"""docs/cli.md says what the classes of the documents say, field by field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pytest

from backfill_assets.report.documents import INLINE
from backfill_assets_tests.support.cli_page import PAGE, attributes_of, filled, in_words


def test_the_page_is_what_would_be_generated() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert filled(page) == page, "write it with `make docs`"


def test_a_table_that_is_out_of_date_is_written_anew() -> None:
    name = "backfill_assets.core.errors.Problem"
    page = f"# Title\n<!-- fields: {name} -->\n| old |\n<!-- end of fields -->\nBelow.\n"
    written = filled(page)
    assert "| `table` | text |" in written and "| old |" not in written
    assert written.startswith("# Title\n") and written.endswith("<!-- end of fields -->\nBelow.\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part."""

    from_: date  #: Where it begins, which takes two lines.


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A whole."""

    part: Part = field(metadata=INLINE)  #: Stands in its place.
    parts: tuple[Part, ...]  #: Its parts.
    counts: Mapping[str, int]  #: By name.
    free: Mapping[str, Any] | None  #: Whatever it is.


def test_a_field_is_its_path_its_type_in_words_and_its_sentence() -> None:
    written = filled(f"<!-- fields: {__name__}.Whole -->\n<!-- end of fields -->")
    assert written.splitlines()[3:-1] == [
        "| `from` | day | Where it begins, which takes two lines. |",
        "| `parts[]` | list of object | Its parts. |",
        "| `parts[].from` | day | Where it begins, which takes two lines. |",
        "| `counts` | object: integer by name | By name. |",
        "| `free` | object, or null | Whatever it is. |",
    ]


def test_a_document_with_a_table_of_its_own_is_linked() -> None:
    part = f"# A part\n<!-- fields: {__name__}.Part -->\n<!-- end of fields -->\n"
    written = filled(f"{part}<!-- fields: {__name__}.Whole -->\n<!-- end of fields -->")
    assert "|  | the fields of [A part](#a-part) | Stands in its place. |" in written
    assert "| `parts[]` | list of [A part](#a-part) | Its parts. |" in written


def test_a_field_that_the_docstring_leaves_out_is_refused() -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Undescribed:
        """Nothing is said of its field."""

        name: str

    with pytest.raises(KeyError, match="differ in"):
        attributes_of(Undescribed)


def test_a_type_without_words_is_refused() -> None:
    with pytest.raises(TypeError, match="has no words"):
        in_words(bytes, {})
