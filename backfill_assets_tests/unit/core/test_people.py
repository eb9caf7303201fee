"""A name is compared as a person reads it, and what acts by itself has names that no person can use."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from random import Random

import pytest
from confusable_homoglyphs import confusables
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.core.errors import Refused
from backfill_assets.core.grouped import grouped
from backfill_assets.core.next_steps import WHY
from backfill_assets.core.people import SYSTEM_NAMES, Sensor, is_policy, require_person, same_name, spellings
from backfill_assets.ledger.recorded_text import one_line


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
def test_another_spelling_of_a_name_is_the_same_name(other: str) -> None:
    assert same_name("ana", other)


def test_other_people_are_others() -> None:
    assert not same_name("ana", "anna")
    assert not same_name("ana", "ana b")
    assert not same_name("Ilia", "Lila")
    assert not same_name("Ali", "All")
    assert not same_name("\u041e\u043b\u044c\u0433\u0430", "\u041e\u043b\u0435\u0433")
    assert not same_name("", "")


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("eve", "e\u0475e"),  # a Cyrillic izhitsa
        ("cara", "\u03f2ara"),  # Greek lunate sigma
        ("jan", "\u03f3an"),  # Greek yot
        ("yuri", "\u04afuri"),  # Cyrillic straight u
        ("eve", "\u04bdve"),  # Abkhazian che
        ("wim", "\u0461im"),  # Cyrillic omega
        ("yves", "\u03b3ves"),  # Greek gamma
        ("capa", "\u0441\u0430\u0440\u0430"),  # a name in Cyrillic letters alone
        ("ANNA", "\u0391\u039d\u039d\u0391"),  # capitals of Greek, whose small ones look like other letters
        ("kapa", "\u043a\u0430\u0440\u0430"),  # a Cyrillic letter whose capital looks like a Latin one
        ("Ivan", "lvan"),
        ("IVAN", "ivan"),
        ("\u039d\u03af\u03ba\u03bf\u03c2", "\u039d\u0399\u039a\u039f\u03a3"),
        ("ben0", "beno"),
        ("\u0130pek", "ipek"),
        ("Gro\u00df", "GROSS"),
    ],
)
def test_a_name_that_looks_like_another_one_is_the_same_name(name: str, other: str) -> None:
    assert same_name(name, other)
    assert same_name(other, name)


CALLED_AFTER = re.compile(r"\bLETTER (?:[A-Z]+ )*?([A-Z])(?= |$)")


@cache
def look_alikes() -> Mapping[str, Sequence[str]]:
    """By letter: every character of Unicode that is called after it, decomposes to it, or is listed as confusable."""
    pairs = []
    for character in map(chr, range(0x80, sys.maxunicode + 1)):
        called, plain = unicodedata.name(character, ""), unicodedata.normalize("NFKD", character)
        after = CALLED_AFTER.search(called)
        if after and "WITH SMALL LETTER" not in called and unicodedata.category(character) != "Cf":
            pairs.append((after[1].lower(), character))
        if plain.isascii() and plain.isalpha() and len(plain) == 1:
            pairs.append((plain.lower(), character))
    for one, others in confusables.confusables_data.items():
        found = [other["c"].strip("\u200e") for other in others]
        pairs += [(one.lower(), c) for c in found if len(one) == len(c) == 1 and one.isascii() and one.isalpha()]
    return grouped((one, c) for one, c in pairs if not c.isascii())


def is_refused(known: str, other: str) -> bool:
    """Whether the approval of one under the other name would be refused."""
    try:
        require_person("the approver", other)
    except Refused:
        return True
    return same_name(known, other)


def test_no_character_that_stands_for_a_letter_makes_another_person_of_a_known_one() -> None:
    assert sum(map(len, look_alikes().values())) > 4_000
    passed = [
        (one, c, unicodedata.name(c))
        for one, others in look_alikes().items()
        for c in others
        for known in (f"{one}zq", f"z{one}q", f"zq{one}")
        if not is_refused(known, known.replace(one, c))
    ]
    assert passed == []


@given(st.text("abcdefghjkmnopqrstuvwxyz", min_size=2, max_size=8), st.randoms(use_true_random=False))
def test_no_spelling_of_a_name_in_characters_that_look_alike_is_another_person(known: str, chance: Random) -> None:
    other = "".join(chance.choice([letter, *look_alikes()[letter]]) for letter in known)
    assert is_refused(known, other)


@pytest.mark.parametrize(
    "other", ["\u1d00\u0274\u1d00", "a\u0274a", "\u00e2n\u1d00", "4na", "\U0001f170na", "\u24d0n\u00aa"]
)
def test_what_no_table_of_confusable_letters_lists_is_the_same_name_all_the_same(other: str) -> None:
    assert same_name("ana", other)
    assert same_name("ben", "\u0185en")
    assert same_name("will", "vvill")


@pytest.mark.parametrize(
    ("one", "other"), [("user5", "users"), ("jan3", "jane"), ("marc4", "marca"), ("a.b (8)", "abb")]
)
def test_a_number_at_the_end_of_a_name_tells_people_apart(one: str, other: str) -> None:
    assert not same_name(one, other)
    assert same_name(one, one.upper())


@given(st.text("abcdefghjkmnpqrstuvwxyz", min_size=1, max_size=8), st.integers(2, 99_999), st.integers(2, 99_999))
def test_people_with_other_numbers_are_other_people(name: str, number: int, other: int) -> None:
    assert same_name(f"{name}{number}", f"{name}{other}") == (number == other)


@given(st.text(), st.sampled_from([str.lower, str.upper, str.casefold, str.title]))
def test_case_makes_no_difference(name: str, cased: Callable[[str], str]) -> None:
    # A name without a letter that counts is nobody's name, and is refused.
    assert same_name(name, cased(name)) or not spellings(cased(name))


@pytest.mark.parametrize(
    "name",
    [
        *("\u00c7a\u011fr\u0131", "\u041e\u043b\u044c\u0433\u0430", "\u674e\u96f7", "O'Neil", "Mar\u00eda Jos\u00e9"),
        *(
            "J\u00fcrgen",
            "Jean-Luc (finance) 2",
            "\u0391\u03bb\u03ad\u03be\u03b7\u03c2",
            "\u05d3\u05d5\u05d3",
            "\u0645\u062d\u0645\u062f",
        ),
        *(
            "\u0928\u0930\u0947\u0928\u094d\u0926\u094d\u0930",
            "\u9ad8\u6a4b\u306f\u308b\u30ca",
            "\uae40\ucca0\uc218",
            "\u02bbAolani",
            "Ivan",
            "Ali",
        ),
        *("deploy-bot@example.org", "\uff41\uff4e\uff41", "\U0001d41a\U0001d427\U0001d41a"),
    ],
)
def test_names_of_people_are_names(name: str) -> None:
    require_person("the requester", name)


@pytest.mark.parametrize(
    ("name", "scripts"),
    [
        ("e\u0475e", "Cyrillic and Latin"),
        ("\u03f2ara", "Greek and Latin"),
        ("li\u0432", "Cyrillic and Latin"),
        ("\u0430\u03bda", "Cyrillic and Greek and Latin"),
        ("\u674e Lei", "Han and Latin"),
    ],
)
def test_a_name_that_mixes_scripts_is_no_name(name: str, scripts: str) -> None:
    with pytest.raises(Refused, match=f"the requester cannot be '{name}': the name mixes letters of {scripts}"):
        require_person("the requester", name)


@pytest.mark.parametrize(
    "name",
    [
        *("policy:backfill", "POLICY: x", "\uff50olicy\uff1ax", "pol\u200bicy:x", "policy : x", "policy:live runs"),
        *("policy\ua789x", "po\u217cicy:x", "p\u03bflicy:x"),
    ],
)
def test_no_name_of_a_person_is_that_of_a_policy(name: str) -> None:
    assert is_policy(name)
    with pytest.raises(Refused, match="reserved for the system"):
        require_person("the approver", name)


@pytest.mark.parametrize("name", sorted({*SYSTEM_NAMES, *map(str, Sensor)}))
def test_no_person_has_a_name_of_the_system(name: str) -> None:
    for spelling in (name, name.upper(), name.title(), f" {name}\u200b", name.replace("v", "\u0475")):
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
