"""Secrets: a declaration names them, and their values are in the environment or in a file outside of the home."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from backfill_assets.capture.errors import NoSecret, SecretInHome


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
        raise SecretInHome(name=name, path=str(path), home=str(home))
    try:
        return path.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror or "").lower() if isinstance(error, OSError) else "it is no text"
        raise NoSecret(name=name, why=f"its file {path} cannot be read: {reason}") from None
