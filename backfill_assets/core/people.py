"""Names of people as they are given, and names of the parts of the system that act by themselves.

A given name is not authenticated (docs/guarantees.md, Not promised). These checks prevent that one person counts as two
by another spelling, and that a person uses a name of the system.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cache, lru_cache
from itertools import product

from backfill_assets.core.errors import NotApproved, Refused, sentence


class Sensor(StrEnum):
    """A part of the system that acts by itself."""

    FOLLOW = "follow"
    PROPOSE = "propose"
    FRESH = "fresh"
    PUBLISH = "publish"
    RECOVER = "recover"
    DROP = "drop"
    LIVE = "live"


# Letters of Unicode that are called otherwise than the letter that they look like, which no table of it says either.
_CALLED_OTHERWISE = {
    **{"ALPHA": "a", "BETA": "b", "CHI": "x", "DELTA": "d", "EPSILON": "e", "IOTA": "i", "OMEGA": "w", "UPSILON": "u"},
    **{"ENG": "n", "ESH": "s", "ETH": "d", "EZH": "z", "KRA": "k", "SCHWA": "e", "THORN": "p", "WYNN": "p"},
    **{"YOGH": "z", "TONE TWO": "s", "TONE FIVE": "s", "TONE SIX": "b"},
}

# Digits that are written for letters, besides those in the table of Unicode.
_DIGITS = str.maketrans("34578", "eastb")

# A number at the end of a name tells people apart: jan3 is not jane.
_NUMBER = re.compile(r"\d[\W\d]*$")

_MOST_TRIED = 6
"""The number of letters of a name that are tried as two letters each."""

# Letters without a visible form.
_BLANK_LETTERS = frozenset("\u115f\u1160\u3164\uffa0")

# A mark around letters that are written from right to left, in the library.
_DIRECTION = "\u200e"

POLICY = "policy:"
"""The prefix of the name of an approver that is a policy."""

PUBLISHER = str(Sensor.PUBLISH)
"""The part of the system that publishes what a person has approved."""

LIVE = str(Sensor.LIVE)
"""The part of the system that takes the newest days to readers, where the policies of their tables say so."""

FOLLOWER = "sensor"
"""The sensor that launches follow-ups."""

SYSTEM_NAMES = frozenset({"backfill", FOLLOWER, "vacuum", "reproduce", "unspecified", *map(str, Sensor)})
"""Parts of the system that act automatically, and a word that names no person."""

PLACEHOLDERS = frozenset({"anotherperson", "name", "who"})
"""Placeholders for names in printed commands, which must not be recorded when a command is pasted unchanged."""

# Scripts that one language writes in one word: Japanese, Korean and the Chinese of Taiwan.
_WRITTEN_TOGETHER = (
    frozenset({"HAN", "HIRAGANA", "KATAKANA"}),
    frozenset({"HAN", "HANGUL"}),
    frozenset({"HAN", "BOPOMOFO"}),
)

# Of no script, or of that of the letter before.
_ANY_SCRIPT = frozenset({"COMMON", "INHERITED"})


@cache
def _look_alikes() -> Mapping[int, str]:
    """The letters that Unicode calls confusable, with the one letter, or the few, that each is compared as.

    The library has each pair in both directions: a letter has one partner, and what it is compared as has many.
    """
    # Not needed to look, and it reads the tables of Unicode.
    from confusable_homoglyphs import confusables

    pairs = {
        one.strip(_DIRECTION): [other["c"].strip(_DIRECTION) for other in others]
        for one, others in confusables.confusables_data.items()
    }
    return {
        ord(one): others[0] if len(others[0]) > 1 or len(pairs[others[0]]) > 1 else min(one, others[0])
        for one, others in pairs.items()
        if len(one) == len(others) == 1
    }


@lru_cache(maxsize=1024)
def spellings(name: str) -> frozenset[str]:
    """The forms in which a name is compared: letters and digits, without accents, by what they look like.

    Letters look alike as they are written (`I` like `l`), as small ones and as capitals. Each is also compared as the
    letter that it is called after, so that no letter of Unicode makes a second person of a known one.
    """
    found = (
        form
        for each in (name, *_called(name))
        for form in (_drawn(each).casefold(), _drawn(each.casefold()).casefold(), _drawn(each.upper()))
    )
    return frozenset(filter(None, found))


def _called(name: str) -> Iterator[str]:
    """A name in the letters that its letters are called after: `b` for LATIN SMALL LETTER B WITH TOPBAR.

    Some letters are called after one letter and look like another one, such as GAMMA: they are tried as both.
    """
    tried = [_letters(character) for character in unicodedata.normalize("NFD", name)]
    two_fold = [place for place, letters in enumerate(tried) if len(letters) > 1]
    for place in two_fold[_MOST_TRIED:]:
        tried[place] = tried[place][:1]
    for letters in product(*tried):
        written = "".join(letters).casefold()
        ends = number.start() if (number := _NUMBER.search(written)) else len(written)
        yield written[:ends].translate(_DIGITS).replace("vv", "w") + written[ends:]


@lru_cache(maxsize=4096)
def _letters(character: str) -> tuple[str, ...]:
    """The letters that a character is tried as: those that it is called after, decomposes to and looks like."""
    if character.isascii():
        return (character,)
    tried = (_letter(character), unicodedata.normalize("NFKD", character), _drawn(character))
    found = dict.fromkeys(each.casefold() for each in tried if each.isascii() and each.isalnum())
    return tuple(found) or (_drawn(character),)


def _letter(character: str) -> str:
    # What is not visible stands for no letter.
    if character.isascii() or unicodedata.category(character) == "Cf":
        return character
    _, is_letter, called = unicodedata.name(character, "").partition("LETTER ")
    called = called.partition(" WITH ")[0]
    words = called.split() if is_letter else ()
    base = next((word for word in reversed(words) if len(word) == 1), None)
    return base or next((letter for name, letter in _CALLED_OTHERWISE.items() if called.endswith(name)), character)


def _drawn(name: str) -> str:
    # Unicode compares canonical forms; what stands for other letters, such as a circled number, is compared as these.
    once = unicodedata.normalize("NFD", name).translate(_look_alikes())
    drawn = unicodedata.normalize("NFKD", once).translate(_look_alikes())
    return "".join(c for c in drawn if c.isalnum() and c not in _BLANK_LETTERS)


def same_name(one: str, other: str) -> bool:
    """True if two names are the same person or group, however they are written.

    Two people whose names differ only in case, accents and letters that look alike count as one person, and one of them
    has to use a longer name.
    """
    return not spellings(one).isdisjoint(spellings(other))


def mixed_scripts(name: str) -> tuple[str, ...]:
    """The scripts of a name that is written in several; empty for one, or for those of one language."""
    from confusable_homoglyphs import categories

    letters = (c for c in unicodedata.normalize("NFKD", name) if c.isalnum())
    found = categories.unique_aliases(letters) - _ANY_SCRIPT
    if len(found) < 2 or any(found <= together for together in _WRITTEN_TOGETHER):
        return ()
    return tuple(sorted(script.replace("_", " ").title() for script in found))


def is_policy(name: str) -> bool:
    """True if a name is that of a policy, which approves without a person."""
    plain = unicodedata.normalize("NFKC", name)
    begins, colon, _ = "".join(":" if c.translate(_look_alikes()) == ":" else c for c in plain).partition(":")
    return bool(colon) and same_name(begins, POLICY)


@sentence
class NotAPerson(Refused):
    """{whose} {why}."""

    whose: str
    why: str
    is_mixed: bool = False

    @property
    def advice(self) -> str:
        if self.is_mixed:
            return "write the name in one script"
        # In Dagster a name is typed as well, and there are no options.
        return "give the name of a person, such as ana"


@sentence
class ApproverNotAPerson(NotApproved, NotAPerson):
    """{whose} {why}."""


def require_person(what: str, name: str, refuse: type[NotAPerson] = NotAPerson) -> None:
    """Refuses a name that is not a person's.

    Args:
        what: Whose name it is, such as `the requester`.

    Raises:
        Refused: It has no letters, mixes scripts, or is reserved for the system.
    """
    if not spellings(name):
        raise refuse(whose=what, why="has no name")
    if any(same_name(name, word) for word in PLACEHOLDERS):
        why = f"cannot be {name!r}: that word is a placeholder for a name in printed commands"
        raise refuse(whose=what, why=why)
    if is_policy(name) or any(same_name(name, reserved) for reserved in SYSTEM_NAMES):
        raise refuse(whose=what, why=f"cannot be {name!r}: that name is reserved for the system")
    if scripts := mixed_scripts(name):
        why = f"cannot be {name!r}: the name mixes letters of {' and '.join(scripts)}"
        raise refuse(whose=what, why=why, is_mixed=True)
