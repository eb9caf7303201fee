"""A name is compared as a person reads it, and what acts by itself has names that no person can use."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.errors import Refused
from backfill_assets.ledger.recorded_text import one_line
from backfill_assets.next_steps import WHY
from backfill_assets.people import SYSTEM_NAMES, folded, is_policy, require_person, same_person


@pytest.mark.parametrize(
    "other",
    [
        " Ana ",
        "ANA",
        "\uff41\uff4e\uff41",  # full-width letters
        "a\u200bna",  # a zero-width space
        "ana\u2060",  # a word joiner
        "\u00adana",  # a soft hyphen
        "an\ufe0fa",  # a variation selector
        "ana\u3164",  # a Hangul filler, which is drawn as a space
        "\u2003ana\u00a0",
        "a n a",
        "@ana.",
        "\u00e1na",  # an accent
        "a\u0301na",  # the same, as a mark of its own
        "\u0430na",  # a Cyrillic letter
        "\u0410\u039dA",  # capitals of Cyrillic, Greek and Latin
        "\u03b1\u03b7\u03b1",  # Greek letters
        "\u0251na",  # another Latin letter
    ],
)
def test_another_spelling_of_a_name_is_the_same_person(other: str) -> None:
    assert same_person("ana", other)


def test_other_people_are_others() -> None:
    assert not same_person("ana", "anna")
    assert not same_person("ana", "ana b")


@given(st.text())
def test_comparing_twice_makes_no_difference(name: str) -> None:
    assert folded(folded(name)) == folded(name)


@pytest.mark.parametrize("name", ["policy:backfill", "POLICY: x", "\uff50olicy\uff1ax", "pol\u200bicy:x", "policy : x"])
def test_no_name_of_a_person_is_that_of_a_policy(name: str) -> None:
    assert is_policy(name)
    with pytest.raises(Refused, match="reserved for the system"):
        require_person("the approver", name)


@pytest.mark.parametrize("name", sorted(SYSTEM_NAMES))
def test_no_person_has_a_name_of_the_system(name: str) -> None:
    for spelling in (name, name.upper(), f" {name}\u200b"):
        with pytest.raises(Refused, match="reserved for the system"):
            require_person("the requester", spelling)


@pytest.mark.parametrize("name", ["ANOTHER_PERSON", "WHO", "who", "NAME"])
def test_the_word_that_a_printed_command_has_for_a_name_is_no_name(name: str) -> None:
    with pytest.raises(Refused, match="is a placeholder for a name in printed commands"):
        require_person("the approver", name)


@pytest.mark.parametrize("name", ["", "  ", "\u200b", "\u3164", "--", "\u2800"])
def test_a_name_has_letters(name: str) -> None:
    with pytest.raises(Refused, match="the requester has no name"):
        require_person("the requester", name)


def test_the_placeholder_of_a_reason_is_not_recorded_as_one() -> None:
    with pytest.raises(Refused, match="the reason is WHY, which stands for a reason in printed commands"):
        one_line("the reason", f" {WHY} ")
