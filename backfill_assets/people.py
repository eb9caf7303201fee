"""Whose name is this? Names of people as they are typed, and the names that no person has.

A typed name proves nothing (docs/guarantees.md, Not promised). What is done here keeps one person from passing for two
by another spelling, and a person from passing for what acts by itself.
"""

from __future__ import annotations

import unicodedata

from backfill_assets.errors import BackfillError, Refused

# Letters that are drawn as nothing.
_BLANK_LETTERS = frozenset("\u115f\u1160\u3164\uffa0")

POLICY = "policy:"
"""How the name of an approver begins who is not a person."""

SYSTEM_NAMES = frozenset({"backfill", "sensor", "follow", "recover", "vacuum", "reproduce", "unspecified"})
"""What acts by itself, and the name under which earlier releases wrote down whoever had given none."""

PLACEHOLDERS = frozenset({"anotherperson", "name", "who"})
"""Where printed commands leave room for a name; pasted as they are, they would put a word into the record."""

# Letters of other alphabets, and the Latin ones that they are drawn like: capitals of Greek and Cyrillic, then small
# ones of Latin, Greek and Cyrillic.
_LOOK_ALIKE = {
    **str.maketrans(
        "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7", "ABEZHIKMNOPTYX"
    ),
    **str.maketrans(
        "\u0410\u0412\u0415\u0405\u0406\u0408\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425", "ABESIJKMHOPCTYX"
    ),
    **str.maketrans("\u0251\u0131\u0261\u0269", "aigi"),
    **str.maketrans("\u03b1\u03b5\u03b7\u03b9\u03ba\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7", "aenikvoptux"),
    **str.maketrans(
        "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0455\u0456\u0458\u0501\u051b\u051d\u04cf\u04bb\u043a",
        "aeopcyxsijdqwlhk",
    ),
}


def folded(name: str) -> str:
    """A name as it is compared: its letters and digits, without case, accents, and which alphabet drew them.

    Two people whose names differ in nothing else pass for one, and have to write one of them longer.
    """
    before, seen = "", name
    while seen != before:
        # Once more, because folding can produce what folds again.
        drawn = unicodedata.normalize("NFKD", seen).translate(_LOOK_ALIKE).casefold().translate(_LOOK_ALIKE)
        before, seen = seen, "".join(c for c in drawn if c.isalnum() and c not in _BLANK_LETTERS)
    return seen


def same_person(one: str, other: str) -> bool:
    """Whether two names are one name."""
    return folded(one) == folded(other)


def is_policy(name: str) -> bool:
    """Whether a name is that of a policy, which agrees without a person."""
    begins, colon, _ = unicodedata.normalize("NFKC", name).partition(":")
    return bool(colon) and folded(begins) == POLICY.rstrip(":")


def require_person(what: str, name: str, refuse: type[BackfillError] = Refused) -> None:
    """Refuses a name that is not a person's.

    Args:
        what: Whose name it is, such as `the requester`.
        name: As it was typed.
        refuse: The error to raise.

    Raises:
        Refused: It has no letters, or is kept for what acts by itself.
    """
    plain = folded(name)
    if not plain:
        raise refuse(f"{what} has no name.", next_step="give the name of a person: --by NAME")
    if plain in PLACEHOLDERS:
        raise refuse(
            f"{what} cannot be {name!r}: that word stands in printed commands where a name belongs.",
            next_step="give the name of a person instead: --by ana",
        )
    if is_policy(name) or plain in SYSTEM_NAMES:
        raise refuse(
            f"{what} cannot be {name!r}: that name is kept for what acts without a person.",
            next_step="give the name of a person: --by NAME",
        )
