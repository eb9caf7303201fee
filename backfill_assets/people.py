"""Whose name is this? Names of people as they are typed, and the names that no person has.

A typed name proves nothing (docs/guarantees.md, Not promised). What is done here keeps one person from passing for two
by another spelling, and a person from passing for what acts by itself.
"""

from __future__ import annotations

import unicodedata

from backfill_assets.errors import BackfillError, Refused

POLICY = "policy:"
"""How the name of an approver begins who is not a person."""

SYSTEM_NAMES = frozenset({"backfill", "sensor", "follow", "recover", "vacuum", "reproduce", "unspecified"})
"""What acts by itself, and the name under which earlier releases wrote down whoever had given none."""

# Letters that are drawn as nothing. Format characters (category Cf) are another kind that is found by its category.
_BLANK_LETTERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")


def folded(name: str) -> str:
    """A name as it is compared: upper case, spaces, look-alike forms and invisible characters make no difference."""
    seen = "".join(c for c in unicodedata.normalize("NFKC", name) if not _is_invisible(c))
    return " ".join(unicodedata.normalize("NFKC", seen.casefold()).split())


def _is_invisible(character: str) -> bool:
    is_variation = "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"
    return unicodedata.category(character) == "Cf" or character in _BLANK_LETTERS or is_variation


def same_person(one: str, other: str) -> bool:
    """Whether two names are one name."""
    return folded(one) == folded(other)


def is_policy(name: str) -> bool:
    """Whether a name is that of a policy, which agrees without a person."""
    begins, colon, _ = folded(name).partition(":")
    return bool(colon) and begins.strip() == POLICY.rstrip(":")


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
    if not any(character.isalnum() for character in plain):
        raise refuse(f"{what} has no name.", next_step="give the name of a person: --by NAME")
    if is_policy(name) or plain in SYSTEM_NAMES:
        raise refuse(
            f"{what} cannot be {name!r}: that name is kept for what acts without a person.",
            next_step="give the name of a person: --by NAME",
        )
