"""Two versions of a reference, side by side: only what differs, by its place in the document."""

from __future__ import annotations

from typing import Any

import pytest

from backfill_assets.report.code import changed_keys

BEFORE: dict[str, Any] = {
    "version": "1",
    "fees": {"late": 10, "lost": 40},
    "holidays": ["2024-01-01", "2024-12-25"],
    "rates": [{"from": "2024-01-01", "percent": 7}],
}


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ({}, []),
        ({"fees": {"late": 12, "lost": 40}}, [("fees.late", "10", "12")]),
        ({"fees": {"late": 10}}, [("fees.lost", "40", None)]),
        ({"holidays": ["2024-01-01", "2024-05-01", "2024-12-25"]}, [("holidays", None, "2024-05-01")]),
        ({"holidays": ["2024-01-02", "2024-12-25"]}, [("holidays[0]", "2024-01-01", "2024-01-02")]),
        ({"rates": [{"from": "2024-01-01", "percent": 8}]}, [("rates[0].percent", "7", "8")]),
        ({"rates": []}, [("rates", '{"from":"2024-01-01","percent":"7"}', None)]),
        ({"fees": {"late": True, "lost": 40}}, [("fees.late", "10", "True")]),
        ({"fees": {"late": "10", "lost": 40}}, [("fees.late", "10 (int)", "10 (str)")]),
        ({"fees": {"late": 10, "lost": 40, "none": None}}, [("fees.none", None, "null")]),
        ({"holidays": [*BEFORE["holidays"], "2024-12-25"]}, [("holidays", None, "2024-12-25")]),
        ({"holidays": "2024-01-01"}, [("holidays", '["2024-01-01","2024-12-25"]', "2024-01-01")]),
        ({"version": "1" * 200 + "2"}, [("version", "1", "1" * 117 + "...")]),
    ],
)
def test_what_differs_is_named_by_its_place(
    after: dict[str, Any], expected: list[tuple[str, str | None, str | None]]
) -> None:
    found = changed_keys(BEFORE, {**BEFORE, **after})
    assert [(each.key, each.before, each.after) for each in found] == expected


def test_values_of_two_types_that_are_equal_in_python_differ() -> None:
    (found,) = changed_keys({"rates": [1, 2]}, {"rates": [True, 2]})
    assert (found.key, found.before, found.after) == ("rates[0]", "1", "True")


def test_long_values_that_differ_at_their_end_are_shown_there() -> None:
    (found,) = changed_keys({"note": "x" * 200 + "a"}, {"note": "x" * 200 + "b"})
    assert found.before and found.after and (found.before[-1], found.after[-1]) == ("a", "b")
