"""Documents become JSON field by field, with nothing added, left out or guessed."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field, fields
from datetime import UTC, date, datetime
from enum import StrEnum
from functools import reduce
from typing import get_type_hints

import pytest

from backfill_assets.calendar.partitions import DayRange, Grain, Partitions, TablePartitions
from backfill_assets.core.next_steps import Command, NextStep, do, step
from backfill_assets.planning.sets import ChangedByFile
from backfill_assets.report.documents import INLINE, SHOWN, as_json, name_of


class Colour(StrEnum):
    RED = "RED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    from_: date
    colour: Colour


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    inner: Inner = field(metadata=INLINE)
    at: datetime | None
    many: tuple[Inner, ...] = ()
    counts: dict[str, int]
    next_step: NextStep | None = None


INNER = Inner(from_=date(2026, 1, 3), colour=Colour.RED)
INNER_JSON = {"from": "2026-01-03", "colour": "RED"}


def test_a_document_is_its_fields_and_an_inlined_one_stands_in_their_place() -> None:
    noon = datetime(2026, 1, 3, 12, tzinfo=UTC)
    document = Outer(
        inner=INNER, at=noon, many=(INNER,), counts={"a": 1}, next_step=step("see ", do(Command.STATUS, "bf-1"))
    )
    found = as_json(document)
    assert found == {
        **INNER_JSON,
        "at": "2026-01-03T12:00:00+00:00",
        "many": [INNER_JSON],
        "counts": {"a": 1},
        "next_step": "see backfill status bf-1",
    }
    assert list(found)[:2] == ["from", "colour"], "in the order of the fields"
    assert type(found["colour"]) is str


def test_partitions_are_their_ranges_and_how_many_there_are() -> None:
    days = Partitions.of(Grain.DAILY, [date(2026, 1, 3), date(2026, 1, 1), date(2026, 1, 2), date(2026, 1, 7)])
    assert as_json(days) == {"ranges": ["2026-01-01..2026-01-03", "2026-01-07"], "count": 4}
    months = Partitions.of(Grain.MONTHLY, [date(2026, 2, 1)])
    assert as_json([months, Partitions.of(Grain.DAILY, ())]) == [
        {"ranges": ["2026-02"], "count": 1},
        {"ranges": [], "count": 0},
    ]


def test_the_days_of_a_record_with_a_grain_are_its_partitions_and_those_of_another_are_days() -> None:
    months = TablePartitions(table="gold.last", grain=Grain.MONTHLY, partitions=(date(2026, 1, 1), date(2026, 2, 1)))
    assert as_json(months) == {
        "table": "gold.last",
        "grain": "monthly",
        "partitions": {"ranges": ["2026-01..2026-02"], "count": 2},
    }
    file = ChangedByFile(import_id="imp-1", days=(date(2026, 1, 3),), rows=1, moved_away=0, taken_back=0, restored=0)
    assert as_json(file)["days"] == ["2026-01-03"]
    assert as_json(DayRange.inclusive(date(2026, 1, 1), date(2026, 1, 3))) == "2026-01-01..2026-01-03"


def test_nothing_becomes_null_and_an_empty_tuple_an_empty_list() -> None:
    found = as_json(Outer(inner=INNER, at=None, counts={}))
    assert (found["at"], found["many"], found["counts"], found["next_step"]) == (None, [], {}, None)


@pytest.mark.parametrize("value", [object(), {1, 2}, Inner, b"bytes"])
def test_what_has_no_json_is_refused_rather_than_guessed(value: object) -> None:
    with pytest.raises(TypeError, match="is not a document"):
        as_json({"part": value})


@pytest.mark.parametrize("name", SHOWN)
def test_what_json_has_of_a_class_names_one_with_these_attributes(name: str) -> None:
    module, _, called = name.rpartition(".")
    kind = getattr(importlib.import_module(f"backfill_assets.{module}"), called)
    assert name_of(kind) == name
    for path in SHOWN[name]:
        *inner, last = path.split(".")
        of = reduce(lambda outer, attribute: get_type_hints(outer)[attribute], inner, kind)
        assert last in {each.name for each in fields(of)} | {each for each in dir(of) if not each.startswith("_")}
