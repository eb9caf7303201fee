"""Declared values: what the declarations of all streams demand of numbers, times and secrets, and where secrets are.

The `mistakes` of a declaration are what is wrong with it, for a sentence that names its table.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path

from backfill_assets.capture.errors import NoSecret
from backfill_assets.core.errors import Refused

_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")


def is_number(value: object, *, at_least: int = 1) -> bool:
    """True if a value is a whole number of at least the given minimum."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= at_least


def wrong_time(name: str, value: object, *, of: str, positive: bool = False) -> Iterator[str]:
    """The mistakes in a duration, for example of a capture; a positive one may not be zero."""
    if not isinstance(value, timedelta) or value < timedelta(0) or (positive and not value):
        least = "more than" if positive else "at least"
        wanted = f"a timedelta of {least} nothing, such as timedelta(hours=1)"
        yield f"{name} of its {of} is {value!r:.60}, and has to be {wanted}"


def unnamed_secrets(secrets: Mapping[str, object], *, of: str, such_as: str) -> Iterator[str]:
    """The secrets that are no names of environment variables: whatever was written there may be the secret itself."""
    for setting, name in secrets.items():
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
            yield f"the secret {setting} of its {of} is named by an environment variable, such as {such_as}"


def secrets_named(
    names: Mapping[str, str], *, home: Path, environment: Mapping[str, str] | None = None
) -> Mapping[str, str]:
    """The values of secrets.

    Args:
        names: By what they are for, their names.
        home: The folder that the project writes, which is backed up, shown and copied: no secret is read from it.
        environment: The process environment by default.

    Raises:
        MissingInput: There is no such variable or file.
        Refused: The file is in the home.
    """
    given = os.environ if environment is None else environment
    return {setting: _value(name, given, home) for setting, name in names.items()}


def _value(name: str, given: Mapping[str, str], home: Path) -> str:
    if given.get(name):
        return given[name]
    if not given.get(f"{name}_FILE"):
        raise NoSecret(name=name, why="neither the environment variable nor one that names its file is set")
    path = Path(given[f"{name}_FILE"]).expanduser()
    if path.resolve().is_relative_to(home.resolve()):
        raise Refused.coded(
            "secret_in_home",
            "the secret {name} is in {path}, and no secret is read from the home {home}.",
            then="keep it in a file outside of the home",
            name=name,
            path=str(path),
            home=str(home),
        )
    try:
        return path.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror or "").lower() if isinstance(error, OSError) else "it is not UTF-8 text"
        raise NoSecret(name=name, why=f"its file {path} cannot be read: {reason}") from None
