from __future__ import annotations

import pytest

from backfill_assets.core.columns import differing_columns

DECLARED = [("day", "date"), ("amount", "bigint"), ("shop", "string")]


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (DECLARED, None),
        (DECLARED[:2], "shop is missing"),
        ([*DECLARED, ("till", "int")], "till is not declared"),
        ([("day", "date"), ("amount", "int"), ("shop", "int")], "amount is int where bigint is declared, shop is int"),
        ([DECLARED[1], DECLARED[0], DECLARED[2]], "amount stands where day is declared"),
        ([("day", "string"), ("till", "int"), ("shop", "string")], "amount is missing, till is not declared, day is"),
    ],
)
def test_every_column_that_differs_is_named(found: list[tuple[str, str]], said: str | None) -> None:
    sentence = differing_columns(found, DECLARED)
    assert sentence is None if said is None else sentence is not None and sentence.startswith(said)
