"""Next steps as commands to type.

For the command line and for Dagster's pages, which show the same commands. What can be done next is decided elsewhere
and arrives as a value of `core.next_steps`.
"""

from __future__ import annotations

from backfill_assets.core.errors import BackfillError
from backfill_assets.core.next_steps import Advice, Invocation, NextStep, Option
from backfill_assets.core.wording import word_of_a_shell

_PROGRAM = "backfill"

_NAMES = {"first": "from", "last": "to", "named": "as"}
"""Options whose name on the command line differs from their name in code."""


def words_of(advice: Advice) -> str:
    """A next step as a command to type."""
    return "".join(map(_worded, advice.parts if isinstance(advice, NextStep) else (advice,)))


def explained(error: BackfillError) -> str:
    """The error and the next step as one text."""
    following = error.next_step
    return f"{error.message} Next: {words_of(following)}" if following else error.message


def _worded(part: str | Invocation | Option) -> str:
    match part:
        case Invocation():
            options = [_worded(Option(name, value)) for name, value in part.options]
            return " ".join([_PROGRAM, part.command, *map(word_of_a_shell, part.of), *options])
        case Option(name, value):
            flag = f"--{_NAMES.get(name, name).replace('_', '-')}"
            return flag if isinstance(value, bool) else f"{flag} {word_of_a_shell(value)}"
        case str():
            return part
