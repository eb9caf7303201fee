"""The page of every document, on a terminal and as HTML, and its JSON, as recorded (`support/recorded.py`)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from difflib import SequenceMatcher
from enum import Enum
from importlib import import_module
from io import StringIO
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from backfill_assets.cli.console import terminal
from backfill_assets.cli.terminal import show
from backfill_assets.ledger.states import RunState, SetState
from backfill_assets.report.documents import SHOWN, as_json
from backfill_assets.report.html import Html
from backfill_assets.report.pages import PAGES, page_of
from backfill_assets.report.report import Level, SetReport
from backfill_assets_tests.support.recorded import left_over
from backfill_assets_tests.support.report_examples import report, restatement, summary
from backfill_assets_tests.support.samples import full, hints_of, samples_of

JSON = tuple(dict.fromkeys((*PAGES, *SHOWN)))

MADE: Mapping[str, tuple[object, ...]] = {
    "report.report.RunReport": (report(), *(replace(report(), run=summary(state)) for state in RunState)),
    "report.report.SetReport": tuple(
        SetReport(set=restatement(state), level=Level.GOOD, tables=(), reports=(report(), report()))
        for state in SetState
    ),
    "report.runs.RunSummary": tuple(summary(state) for state in RunState),
    "report.runs.SetDocument": tuple(restatement(state) for state in SetState),
}
"""Documents whose parts agree with one another, in each state: the first, and what is different in others."""


@pytest.mark.parametrize("document", PAGES)
def test_a_document_is_shown_as_recorded(document: str, recorded: SnapshotAssertion) -> None:
    """The fullest one."""
    sample = full(class_of(document))
    assert on_a_terminal(sample) == recorded(name=file_of(document, "txt"))
    assert in_a_browser(sample) == recorded(name=file_of(document, "html"))


@pytest.mark.parametrize("document", PAGES)
def test_each_field_of_a_document_changes_what_is_recorded(document: str, recorded: SnapshotAssertion) -> None:
    kind = class_of(document)
    base = full(kind)
    others = (
        (label(name, getattr(base, name), value), replace(base, **{name: value}))
        for name, hint in hints_of(kind).items()
        for value in samples_of(hint, name)[1:]
        if value in (None, (), {}) or isinstance(value, bool | Enum) or is_dataclass(value)
    )
    assert differences(base, others) == recorded(name=file_of(document, "fields.txt"))


@pytest.mark.parametrize("document", MADE)
def test_a_document_in_each_state_is_shown_as_recorded(document: str, recorded: SnapshotAssertion) -> None:
    first, *others = MADE[document]
    shown = on_a_terminal(first) + differences(first, ((label("", first, other), other) for other in others))
    assert shown == recorded(name=file_of(document, "states.txt"))


@pytest.mark.parametrize("document", JSON)
def test_the_json_of_a_document_is_as_recorded(document: str, recorded: SnapshotAssertion) -> None:
    found = each_shape(as_json(full(class_of(document))))
    assert f"{json.dumps(found, indent=2)}\n" == recorded(name=file_of(document, "json"))


def test_no_page_is_recorded_that_nothing_shows(pytestconfig: pytest.Config) -> None:
    names = {file_of(document, form) for document in PAGES for form in ("txt", "html", "fields.txt")}
    names |= {file_of(document, "states.txt") for document in MADE} | {file_of(document, "json") for document in JSON}
    assert left_over("pages", names, remove=pytestconfig.option.update_snapshots) == []


def class_of(document: str) -> Any:
    module, _, name = document.rpartition(".")
    return getattr(import_module(f"backfill_assets.{module}"), name)


def file_of(document: str, form: str) -> str:
    return f"pages/{document.rpartition('.')[2]}.{form}"


def on_a_terminal(document: object) -> str:
    stream = StringIO()
    show(terminal(stream), page_of(document))
    return "".join(f"{line.rstrip()}\n" for line in stream.getvalue().splitlines())


def in_a_browser(document: object) -> str:
    """Without its charts, whose widths depend on the fonts of the machine; `test_charts` has them."""
    html, page = Html(), page_of(document)
    return re.sub(r"<svg.*?</svg>", "<svg/>", f"{html.heading(page)}\n{html.blocks(page.blocks)}\n", flags=re.DOTALL)


def differences(base: object, others: Iterable[tuple[str, object]]) -> str:
    """The lines that others have instead of those of a document; alike ones once."""
    before = on_a_terminal(base).splitlines()
    found: dict[str, list[str]] = {}
    for name, other in others:
        try:
            after = on_a_terminal(other).splitlines()
        except Exception as error:  # noqa: BLE001 - these values do not occur together
            found.setdefault(f"{type(error).__name__}\n", []).append(name)
            continue
        shown = "".join(changes(before, after))
        found.setdefault(shown, []).append(name)
    return "".join(f"\n## {', '.join(names)}\n{lines}" for lines, names in found.items() if lines)


def changes(before: list[str], after: list[str]) -> Iterator[str]:
    """What lines are added, and of those that are gone the first in a row."""
    for how, start, end, other_start, other_end in SequenceMatcher(a=before, b=after, autojunk=False).get_opcodes():
        if how == "equal":
            continue
        more = end - start - 1
        yield from [f"- {before[start]}\n"] if end > start else []
        yield from [f"- ... {more} more\n"] if more > 0 else []
        yield from (f"+ {line}\n" for line in after[other_start:other_end])


def label(name: str, base: object, value: object) -> str:
    """What is different in a value, such as `run.record.state=PASSED`."""
    if is_dataclass(value) and type(base) is type(value):
        pairs = ((each.name, getattr(base, each.name), getattr(value, each.name)) for each in fields(value))
        found = [label(f"{name}.{each}".lstrip("."), was, now) for each, was, now in pairs if was != now]
        return " ".join(found) if found else name
    return f"{name}={type(value).__name__ if is_dataclass(value) else value}"


def each_shape(value: Any) -> Any:
    """Of a list only the first object with each set of names: others hold the same fields with other values."""
    if isinstance(value, dict):
        return {name: each_shape(part) for name, part in value.items()}
    if not isinstance(value, list):
        return value
    shapes = {tuple(part) if isinstance(part, dict) else json.dumps(part): part for part in reversed(value)}
    return [each_shape(part) for part in reversed(shapes.values())]
