"""The words of a next step on a command line: the command to type.

For the command line itself and for Dagster's pages, whose readers type the same commands. What can be done next is
decided elsewhere and arrives as a value of `next_steps`.
"""

from __future__ import annotations

import shlex

from backfill_assets.errors import BackfillError
from backfill_assets.next_steps import Advice, Invocation, step

_PROGRAM = "backfill"

_NAMES = {"first": "from", "last": "to"}
"""Options that a person types under another name than the code has for them."""


def words_of(advice: Advice) -> str:
    """A next step as a person types it."""
    return "".join(_command(part) if isinstance(part, Invocation) else part for part in step(advice).parts)


def explained(error: BackfillError) -> str:
    """What went wrong and what to do next, as one text."""
    return f"{error.message} Next: {words_of(error.next_step)}" if error.next_step else error.message


def _command(asked: Invocation) -> str:
    words = [_PROGRAM, asked.act, *map(shlex.quote, asked.of)]
    for name, value in asked.options:
        words.append(f"--{_NAMES.get(name, name).replace('_', '-')}")
        words += [] if isinstance(value, bool) else [shlex.quote(value)]
    return " ".join([*words, "..."] if asked.is_outline else words)
