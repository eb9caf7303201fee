"""docs/reference/ says what the code says: a parameter has its meaning and an example, an error its next step."""

from __future__ import annotations

import inspect
import re
from collections import Counter

import pytest

from backfill_assets import domain
from backfill_assets_tests.support import declarations_page, messages_page
from backfill_assets_tests.support.declaration_examples import EXAMPLES, declare
from backfill_assets_tests.support.declarations_tried import DECLARED
from backfill_assets_tests.support.public_files import page as public_files_page

TAKES_NOTHING = {"replace", "append"}
PARSES = {"control_totals", "known_rows"}
"""What a `Reference` is given to parse its file."""

PARAMETERS = [(name, each) for name, (_, made) in DECLARED.items() for each in inspect.signature(made).parameters]


@pytest.mark.parametrize(
    "page", [declarations_page, messages_page, public_files_page], ids=["declarations", "messages", "public files"]
)
def test_a_page_is_what_make_docs_writes(page: object) -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.page(), "run make docs"  # type: ignore[attr-defined]


def test_whatever_an_author_calls_is_in_the_reference() -> None:
    functions = {name for name in domain.__all__ if inspect.isfunction(getattr(domain, name))}
    assert functions - TAKES_NOTHING - PARSES <= DECLARED.keys()
    listed = [name for names in declarations_page.GROUPS.values() for name in names]
    assert Counter(listed) == Counter(DECLARED.keys())


@pytest.mark.parametrize(("name", "parameter"), PARAMETERS, ids=[f"{n}-{p}" for n, p in PARAMETERS])
def test_a_parameter_is_documented_and_its_example_is_a_declaration(name: str, parameter: str) -> None:
    meaning = declarations_page.documented(DECLARED[name][1]).get(parameter, "")
    assert meaning.endswith("."), f"{parameter} has no meaning in the docstring of {name}"
    assert re.match(rf"{parameter}=", EXAMPLES[name][parameter])
    declare(name, parameter)


@pytest.mark.parametrize("name", DECLARED)
def test_what_examples_are_tried_beside_is_right(name: str) -> None:
    DECLARED[name][0]()
    assert EXAMPLES[name].keys() == inspect.signature(DECLARED[name][1]).parameters.keys()
    assert declarations_page.summary(DECLARED[name][1]).endswith(".")


def test_every_message_has_an_anchor_of_its_own_and_most_have_a_next_step() -> None:
    names = [
        *(messages_page.title_of(kind) for kind in messages_page.errors()),
        *(each.code for each in messages_page.coded()),
    ]
    assert len(names) > 200 and len({name.lower() for name in names}) == len(names)
    with_steps = [kind for kind in messages_page.errors() if messages_page.next_steps_of(kind)]
    assert len(with_steps) + sum(any(each.steps) for each in messages_page.coded()) > 0.9 * len(names)
    (gates,) = (kind for kind in messages_page.errors() if kind.__name__ == "GatesNotPassed")
    assert any(step.startswith("backfill report RUN_ID") for step in messages_page.next_steps_of(gates))
