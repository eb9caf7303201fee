"""Declared values: what the declarations of all streams demand of numbers, times and secrets.

The `mistakes` of a declaration are what is wrong with it, for a sentence that names its table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta

_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")


def is_number(value: object, *, at_least: int = 1) -> bool:
    """Whether a value is a whole number of at least that."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= at_least


def wrong_time(name: str, value: object, *, of: str, positive: bool = False) -> Iterator[str]:
    """What is wrong with a length of time, of a capture for example; a positive one may not be nothing."""
    if not isinstance(value, timedelta) or value < timedelta(0) or (positive and not value):
        least = "more than" if positive else "at least"
        yield f"{name} of its {of} is {value!r:.60}, and has to be a timedelta of {least} nothing"


def unnamed_secrets(secrets: Mapping[str, object], *, of: str, such_as: str) -> Iterator[str]:
    """The secrets that are no names of environment variables: whatever was written there may be the secret itself."""
    for setting, name in secrets.items():
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
            yield f"the secret {setting} of its {of} is named by an environment variable, such as {such_as}"
