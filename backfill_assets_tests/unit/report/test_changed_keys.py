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
        ({"fees": {"late": "10", "lost": 40}}, [("fees.late", "10", "10")]),
    ],
)
def test_what_differs_is_named_by_its_place(
    after: dict[str, Any], expected: list[tuple[str, str | None, str | None]]
) -> None:
    found = changed_keys(BEFORE, {**BEFORE, **after})
    assert [(each.key, each.before, each.after) for each in found] == expected
