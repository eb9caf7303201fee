"""Whatever is written for a parameter of a declaration is right, or is refused in one sentence before anything runs.

Every parameter of every declaration is given values of each kind; which kinds it takes is read from its annotation.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from backfill_assets import domain
from backfill_assets.core.declaring import meant
from backfill_assets.core.errors import InvalidDeclaration
from backfill_assets.domain import (
    Breakdown,
    HttpApi,
    Reference,
    TimeWindow,
    accepted,
    compared,
    complete,
    days,
    expression,
    failing,
    moved,
    not_null,
    phases,
    row_count,
    rows,
    unique_key,
    usual,
)
from backfill_assets.domain.domain import load_domain
from backfill_assets.domain.gates import name_for
from backfill_assets_tests.support.advice import advised
from backfill_assets_tests.support.declarations_tried import API, DECLARED, captured, of_domain, parsed, use_table
from backfill_assets_tests.support.declared import DAILY, derived, same_arguments, source

KINDS: Mapping[str, tuple[object, ...]] = {
    "int": (3,),
    "float": (2.5,),
    "bool": (True,),
    "str": ("some text",),
    "None": (None,),
    "tuple": ((object(),), ("a", 3)),
    "list": (["a"],),
    "Mapping": ({"a": "b"}, {3: 4}),
    "bytes": (b"some",),
    "object": (object(), int),
}
TAKES = {
    "int": {"int", "float", "Decimal"},
    "list": {"Iterable"},
    "str": {"Literal", "Rule", "Lineage", "Start", "KeyFormat", "Form"},
    "object": {"Any"},
}
ALIASES = {
    **{"DeclaredWindow": "AnyWindow Callable", "References": "Mapping", "Compute": "Callable"},
    **{"Transform": "Callable", "Table": "SourceTable", "Start": "Literal", "Column": "str"},
}
UNCHECKED = {("Domain", "tables"), ("SourceTable", "place"), ("reads", "table")}
"""Not given by authors; and what is read, which the table that reads it refuses."""


def _cases() -> Iterator[Any]:
    for name, (use, made) in DECLARED.items():
        for parameter in inspect.signature(made).parameters.values():
            annotation = str(parameter.annotation)
            tokens = set(re.findall(r"\w+", annotation))
            tokens |= {each for alias in tokens & ALIASES.keys() for each in ALIASES[alias].split()}
            for kind, values in KINDS.items():
                if (name, parameter.name) in UNCHECKED or ({kind} | TAKES.get(kind, set())) & tokens:
                    continue
                for value in values:
                    if callable(value) and "Callable" in tokens:
                        continue
                    yield pytest.param(use, parameter.name, value, id=f"{name}-{parameter.name}-{kind}")


@pytest.mark.parametrize(("use", "parameter", "value"), tuple(_cases()))
def test_a_value_of_another_kind_is_refused_in_one_sentence(
    use: Callable[..., object], parameter: str, value: object
) -> None:
    with pytest.raises(InvalidDeclaration) as refused:
        use(**{parameter: value})
    said = refused.value.message
    assert "\n" not in said and len(said) < 400, said


A_DAY = TimeWindow(start="a", end="b", of="at", **{"step": days(1)})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("declare", "said"),
    [
        (lambda: row_count(at_least=5, at_most=1), "gate row_count asks for at least 5 and at most 1 rows"),
        (lambda: row_count(at_least=-1), "asks for at least -1 rows, which cannot be"),
        (lambda: compared(max_removed_percent=101), "limits that cannot be: 101 % removed"),
        (lambda: compared(max_changed_percent=-1), "limits that cannot be"),
        (lambda: accepted("state", "OPEN"), r"values must be a tuple, such as \('OPEN',\), not 'OPEN\'"),
        (lambda: accepted("state", ()), "gate accepted_state lists no values"),
        (lambda: moved("rows", by="state", percent=1), r"by must be a tuple, such as \('state',\), not 'state\'"),
        (lambda: use_table(gates=(expression("one", "sum(count) > 0"),)), r"over one row, and 'SUM\(count\)' is over"),
        (
            lambda: use_table(gates=(expression("one", "count > (select 1)"),)),
            r"over one row, and .*SELECT 1.* is",
        ),
        (lambda: use_table(gates=(expression("one", "count > 0; count < 9"),)), "is not one expression of SQL"),
        (
            lambda: use_table(gates=(expression("one", "count + 1"),)),
            r"gate one is 'count . 1', and has to be a cond",
        ),
        (lambda: use_table(gates=(expression("one", "(count)"),)), "has to be a condition, which is true or false"),
        (lambda: use_table(gates=(expression("one", "'yes'"),)), "has to be a condition"),
        (lambda: use_table(breakdown=Breakdown(measures={"m": "state"})), "measure m is 'state', and has to be a cond"),
        (lambda: use_table(gates=(expression("one", ""),)), "the condition of gate one is not"),
        (lambda: use_table(references="calendar"), r"references must be a tuple of names.*, not 'calendar'"),
        (lambda: use_table(references=("calender",)), "'calender', which the domain does not declare.*'calendar'"),
        (lambda: use_table(gates=(not_null("State"),)), "'State' is not a column .* 'state': upper and lower case"),
        (lambda: use_table(gates=(not_null("staet"),)), "'staet' is not a column of its schema; did you mean 'state'"),
        (lambda: use_table(gates=(not_null("state"), not_null("state"))), "two gates are named 'not_null_state'"),
        (
            lambda: Reference(name="calendar", parse="calendar"),  # type: ignore[arg-type]
            r"Reference\(...\): parse must be a function",
        ),
        (lambda: Reference(name="a calendar.yaml", parse=parsed), "named like its file, without .yaml"),
        (lambda: of_domain(sources=source()), r"Domain\(...\): sources must be a tuple, such as \(SourceTable"),
        (lambda: of_domain(derived=(same_arguments,)), r"derived must be a tuple of a DerivedTable"),
        (lambda: of_domain(package="not.there"), "'not.there', which has no source"),
        (lambda: phases(1), "1 phases, held for 0 hours: at least 2"),
        (
            lambda: captured(HttpApi(url=API, window=A_DAY)),
            r"step .*be a timedelta",
        ),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_declared(declare: Callable[[], object], said: str) -> None:
    with pytest.raises(InvalidDeclaration, match=said):
        declare()


COLUMNS = ("customerId", "customer_id", "customer-id", "Customer-Id2", "größe", "大きさ", "1st", "state", "_x"[1:])


def test_the_name_of_a_gate_is_derived_of_any_column_and_is_the_same_in_every_process() -> None:
    schema = StructType([*DAILY.fields, *(StructField(each, StringType()) for each in COLUMNS if each != "state")])
    gates = (*map(not_null, COLUMNS), *(accepted(each, ("a",)) for each in COLUMNS))
    made = derived(source(), schema=schema, gates=gates)
    names = [gate.name for gate in made.gates]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", name) for name in names)
    assert not_null("state").name == "not_null_state"
    assert not_null("customerId").name == "not_null_customerid_4e561bb1"
    assert name_for("moved", "rows", "by", "Land").startswith("moved_rows_by_land_")


def test_two_gates_on_one_column_have_names_of_their_own() -> None:
    gates = (
        accepted("state", ("a", "b")),
        accepted("state", ("a",), blocking=False, name="usual_state"),
        *(unique_key(name="one_row"), row_count(at_least=1, name="some_rows"), row_count(at_least=2, blocking=False)),
        *(compared(max_removed_percent=5, name="few_removed"), not_null("state", name="has_state")),
        *(moved("rows", percent=1), moved("rows", percent=9, name="moved_far")),
    )
    made = derived(source(), gates=gates, breakdown=Breakdown())
    assert {gate.name for gate in gates} < {gate.name for gate in made.gates} | {"one_row"}


MISTAKES = {
    "gates=(row_count(at_least=5, at_most=1),)": "gates=(row_count(at_least=5, at_most=1),)",
    'references=("calender",)': "@derived_table(",
    'references="calendar"': "@derived_table(",
    'inputs={"events": other}': "@derived_table(",
    'gates=(expression("one", "nobody > 0"),)': 'gates=(expression("one", "nobody > 0"),)',
    'gates=(expression("one", "count >"),)': 'gates=(expression("one", "count >"),)',
    'gates=(not_null("Day"),)': 'gates=(not_null("Day"),)',
    'policy=Policy(backfill="ask")': "@derived_table(",
}
MODULE = """
from pyspark.sql.types import DateType, StringType, StructField, StructType, TimestampType
from backfill_assets.domain import *

columns = {"event_id": StringType(), "at": TimestampType()}
schema = StructType([StructField(name, kind, nullable=False) for name, kind in columns.items()])
events = SourceTable(name="bronze.events", key=("event_id",), event_time="at", partition=daily("on"), schema=schema)
other = SourceTable(name="bronze.other", key=("event_id",), event_time="at", partition=daily("on"), schema=schema)
calendar = Reference(name="calendar", parse=dict)


@derived_table(
    name="silver.days",
    inputs={"events": events},
    key=("day",),
    partition=daily("day"),
    schema=StructType([StructField("day", DateType(), nullable=False)]),
    version="1.0.0",
)
def per_day(events, ctx):
    return events


DOMAIN = Domain(name="mistaken", package=__name__, sources=(events,), derived=(per_day,), references=(calendar,))
"""


def _written(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> tuple[str, Path]:
    path = folder / f"mistaken_{abs(hash(text))}.py"
    path.write_text(text)
    monkeypatch.syspath_prepend(str(folder))
    return path.stem, path


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_shown_at_the_line_of_the_table_or_the_gate_that_has_it(
    mistake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = MODULE.replace('    inputs={"events": events},\n', "") if mistake.startswith("inputs") else MODULE
    text = kept.replace('    version="1.0.0",\n', f'    version="1.0.0",\n    {mistake},\n')
    name, path = _written(tmp_path, monkeypatch, text)
    line = 1 + next(n for n, each in enumerate(text.splitlines()) if MISTAKES[mistake] in each)
    with pytest.raises(InvalidDeclaration) as refused:
        load_domain(name)
    assert refused.value.place == f"{path}, line {line}"
    assert f"{path}, line {line}" in advised(refused.value)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ("DOMAIN = Domain", "defines no DOMAIN"),
        ("DOMAIN", "SHOP is a Domain there, and is not named DOMAIN"),
        ("DOMAIN = ", "its DOMAIN is 3"),
    ],
)
def test_a_module_without_a_domain_says_what_it_has(
    changed: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    become = {"DOMAIN = Domain": "dict", "DOMAIN": "SHOP", "DOMAIN = ": "DOMAIN = 3\nSHOP = "}[changed]
    name, path = _written(tmp_path, monkeypatch, MODULE.replace(changed, become))
    with pytest.raises(InvalidDeclaration, match=said) as refused:
        load_domain(name)
    assert refused.value.place == str(path)


@pytest.mark.parametrize("condition", ["count > 0", "state = 'a' or count is null", "not (count < 0)", "isnan(count)"])
def test_a_condition_over_one_row_is_a_condition(condition: str) -> None:
    use_table(gates=(expression("one", condition),))
    use_table(breakdown=Breakdown(measures={"m": condition, "n": "count", "o": "count * 2", "p": "coalesce(count, 0)"}))


declaring: Any = domain
"""Declarations that are given what their annotations do not allow."""

SAID: Mapping[str, tuple[Callable[[], Any], str]] = {
    "a function that is called": (
        lambda: declaring.usual(rows),
        "usual(...): measure must be a text, not the function rows, which is called: rows().",
    ),
    "another function": (lambda: declaring.not_null(use_table), "column must be a text, not the function use_table."),
    "a past": (
        lambda: declaring.usual(rows(), against=8),
        "against must be weeks(...) or months(...) or days(...), not 8.",
    ),
    "None is one of them": (lambda: declaring.usual(rows(), same="day"), "same must be 'weekday' or None, not 'day'."),
    "a float": (
        lambda: declaring.totals("fees", within=0.1),
        'within must be a whole number or a text or a Decimal, such as Decimal("0.1"), not 0.1.',
    ),
    "by place": (
        lambda: declaring.complete("events"),
        "complete(...): too many positional arguments; it takes of=..., key=...,",
    ),
    "left out": (
        lambda: declaring.complete(of="events"),
        "complete(...): missing a required argument: 'key'; it takes of=...,",
    ),
    "a decorator": (
        lambda: use_table(gates=(not_null("state"), failing("lost"))),
        "such as (unique_key(),), not a tuple with the function failing('lost') without rows= or sql=.",
    ),
    "an input": (
        lambda: use_table(gates=(complete(of="event", key="event_id"),)),
        "which is not an input of the table, and can be given candidate, accepted, events; did you mean 'events'?",
    ),
    "an argument": (
        lambda: use_table(gates=(failing("lost", rows=lambda candidate, event: candidate),)),
        "its function takes event, and can be given candidate, accepted, events, ctx; did you mean 'events'?",
    ),
    "most": (
        lambda: use_table(gates=(usual(rows(), most=0),), breakdown=Breakdown()),
        "gate usual_rows has most=0, and can have more than 0 and at most 1,000.",
    ),
    "percent": (
        lambda: use_table(gates=(moved("rows", percent=-1),), breakdown=Breakdown()),
        "gate moved_rows has percent=-1, and can have 0 to 1,000,000.",
    ),
    "at least": (
        lambda: use_table(gates=(moved("rows", percent=1, at_least=-1),), breakdown=Breakdown()),
        "gate moved_rows has at_least=-1, and can have 0 or more.",
    ),
}


@pytest.mark.parametrize("mistake", SAID)
def test_a_mistake_in_an_argument_says_what_to_write(mistake: str) -> None:
    make, said = SAID[mistake]
    with pytest.raises(InvalidDeclaration) as refused:
        make()
    assert said in refused.value.message
    assert " at 0x" not in refused.value.message


def test_a_name_that_is_only_a_little_alike_is_not_taken_for_another() -> None:
    assert meant("country", ["amount", "day"]) == ""
    assert meant("staet", ["state", "day"]) == "; did you mean 'state'?"
