"""Names of people as they are given, and names that are reserved for the system.

A given name is not authenticated (docs/guarantees.md, Not promised). These checks prevent that one person counts as two
by another spelling, and that a person uses a name of the system.
"""

from __future__ import annotations

import unicodedata

from backfill_assets.errors import BackfillError, Refused
from backfill_assets.next_steps import NAME, Option, step
from backfill_assets.sensors import Sensor

# Letters without a visible form.
_BLANK_LETTERS = frozenset("\u115f\u1160\u3164\uffa0")

POLICY = "policy:"
"""The prefix of the name of an approver that is a policy."""

PUBLISHER = str(Sensor.PUBLISH)
"""The part of the system that publishes what a person has approved."""

LIVE = str(Sensor.LIVE)
"""The part of the system that takes the newest days to readers, where the policies of their tables say so."""

SYSTEM_NAMES = frozenset(
    {"backfill", "sensor", "follow", "propose", "recover", "vacuum", "reproduce", "unspecified", PUBLISHER, LIVE}
)
"""Parts of the system that act automatically, and the name that earlier releases recorded when none was given."""

PLACEHOLDERS = frozenset({"anotherperson", "name", "who"})
"""Placeholders for names in printed commands, which must not be recorded when a command is pasted unchanged."""

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
    """A name in the form in which it is compared: letters and digits without case, accents and similar-looking letters.

    Two people whose names differ only in these count as one person, and one of them has to use a longer name.
    """
    before, seen = "", name
    while seen != before:
        # Repeated, because the result of folding can be foldable again.
        drawn = unicodedata.normalize("NFKD", seen).translate(_LOOK_ALIKE).casefold().translate(_LOOK_ALIKE)
        before, seen = seen, "".join(c for c in drawn if c.isalnum() and c not in _BLANK_LETTERS)
    return seen


def same_person(one: str, other: str) -> bool:
    """Whether two names are the same name."""
    return folded(one) == folded(other)


def is_policy(name: str) -> bool:
    """Whether a name is that of a policy, which approves without a person."""
    begins, colon, _ = unicodedata.normalize("NFKC", name).partition(":")
    return bool(colon) and folded(begins) == POLICY.rstrip(":")


def require_person(what: str, name: str, refuse: type[BackfillError] = Refused) -> None:
    """Refuses a name that is not a person's.

    Args:
        what: Whose name it is, such as `the requester`.
        name: The name as given.
        refuse: The error to raise.

    Raises:
        Refused: It has no letters, or is reserved for the system.
    """
    plain = folded(name)
    if not plain:
        raise refuse(f"{what} has no name.", next_step=step("give the name of a person: ", Option("by", NAME)))
    if plain in PLACEHOLDERS:
        raise refuse(
            f"{what} cannot be {name!r}: that word is a placeholder for a name in printed commands.",
            next_step=step("give the name of a person instead: ", Option("by", "ana")),
        )
    if is_policy(name) or plain in SYSTEM_NAMES:
        raise refuse(
            f"{what} cannot be {name!r}: that name is reserved for the system.",
            next_step=step("give the name of a person: ", Option("by", NAME)),
        )
