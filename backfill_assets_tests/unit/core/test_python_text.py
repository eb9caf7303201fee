"""What a declaration is written as is that declaration, whatever texts are in it."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets import domain
from backfill_assets.core.wording import WIDTH, call_lines, import_lines, literal, names_in
from backfill_assets.domain import Basic, Csv, Cursor, Epoch, HttpApi, InBody, InHeader, Json, Offset, Token, Xlsx
from backfill_assets_tests.faults.landing_dialects import dialect_of

KNOWN = {name: getattr(domain, name) for name in domain.__all__}
VALUES = st.recursive(
    st.text() | st.integers() | st.booleans() | st.none(),
    lambda inner: st.tuples(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def read(text: str) -> Any:
    return eval(text, dict(KNOWN))


@given(VALUES)
def test_a_value_is_written_as_what_it_is(value: object) -> None:
    text = literal(value)
    assert read(text) == value
    assert "\n" not in text


@pytest.mark.parametrize("seed", range(40))
def test_a_dialect_is_written_as_what_it_is(seed: int) -> None:
    dialect = dialect_of(random.Random(seed))
    assert read(literal(dialect)) == dialect


@pytest.mark.parametrize(
    ("declared", "text", "names"),
    [
        (Csv(delimiter="\t", null=("NA",)), r'Csv(delimiter="\t", null=("NA",))', ["Csv"]),
        (Json(records='a"b'), "Json(records='a\"b')", ["Json"]),
        (Xlsx(sheet="it's"), 'Xlsx(sheet="it\'s")', ["Xlsx"]),
        (("M/d/yyyy", Epoch("ms")), '("M/d/yyyy", Epoch("ms"))', ["Epoch"]),
        (
            Cursor(parameter=InBody("after"), next=InHeader("X-Next")),
            'Cursor(parameter=InBody("after"), next=InHeader("X-Next"))',
            ["Cursor", "InBody", "InHeader"],
        ),
        (Offset(parameter="o", first=1), 'Offset(parameter="o", first=1)', ["Offset"]),
        (
            HttpApi(url="u", basic=Basic(secrets={"user": "A"}), token=Token(url="t", secrets={})),
            'HttpApi(url="u", basic=Basic(secrets={"user": "A"}), token=Token(url="t", secrets={}))',
            ["HttpApi", "Basic", "Token"],
        ),
    ],
)
def test_a_declaration_has_what_differs_from_its_defaults(declared: object, text: str, names: list[str]) -> None:
    assert literal(declared) == text
    assert read(text) == declared
    assert list(names_in(declared)) == names


def test_lines_are_as_long_as_the_formatter_takes_them() -> None:
    names = [f"column_{number}" for number in range(20)]
    lines = call_lines("key=(", list(map(literal, names)), ")", indent=4)
    assert (lines[0], len(lines)) == ("    key=(", 22)
    assert call_lines("key=(", ['"id"'], ")", indent=4, single_comma=True) == ['    key=("id",),']
    assert import_lines("backfill_assets.domain", names)[0] == "from backfill_assets.domain import ("
    assert len(import_lines("backfill_assets.domain", names[:5])[0]) <= WIDTH
