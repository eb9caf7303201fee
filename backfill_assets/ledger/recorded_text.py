"""Recorded texts: checks of names, reasons and notes before they are written to the ledger."""

from __future__ import annotations

from collections.abc import Iterable

from backfill_assets.core.wording import WHY, fault_of
from backfill_assets.ledger.errors import BadText


def storable_text(what: str, text: str) -> str:
    """A text that both databases can keep, empty or not.

    Args:
        what: What it is, as a refusal names it.

    Returns:
        The text as it is.

    Raises:
        Refused: It holds NUL or half a character.
    """
    if "\x00" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise BadText(what=what, why=f"holds characters that are not text: {text[:200]!r}")
    return text


def required_text(what: str, text: str, refuse: type[BadText] = BadText) -> str:
    """A text that must be given.

    Args:
        what: What it is, as a refusal names it.
        refuse: Which error an empty text is.

    Returns:
        The text without the spaces around it.

    Raises:
        Refused: It is empty, or holds characters that a database cannot keep.
    """
    stripped = storable_text(what, text).strip()
    if not stripped:
        raise refuse(what=what, why="is empty", is_missing=True)
    return stripped


def one_line(what: str, text: str, refuse: type[BadText] = BadText) -> str:
    """A text that a person must type: one line, which cannot pass for another line of a log or a report.

    Args:
        refuse: Which error a faulty text is.

    Returns:
        The text without the spaces around it.

    Raises:
        Refused: It is empty, too long, the placeholder of printed commands, or holds control characters or marks that
            turn the direction of writing.
    """
    stripped = required_text(what, text, refuse)
    fault = fault_of(stripped)
    if fault:
        raise refuse(what=what, why=fault)
    if stripped == WHY:
        raise refuse(what=what, why=f"is {WHY}, which stands for a reason in printed commands", is_missing=True)
    return stripped


def first_few(items: Iterable[object]) -> str:
    """The first three of many, in words."""
    listed = [str(item) for item in items]
    rest = f" and {len(listed) - 3} more" if len(listed) > 3 else ""
    return ", ".join(listed[:3]) + rest
