"""The commands of the program by their names; a member of a group has both words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import typer.main

from backfill_assets.main import app


def commands() -> Mapping[str, Any]:
    """Every command that can be typed, such as `status` and `plan table`."""
    found: dict[str, Any] = {}
    for name, command in vars(typer.main.get_command(app))["commands"].items():
        members = vars(command).get("commands")
        found |= {name: command} if members is None else {f"{name} {each}": of for each, of in members.items()}
    return found


def command_of(words: list[str]) -> tuple[str, list[str]]:
    """The command that words begin with, and the words after it."""
    known = commands()
    return (" ".join(words[:2]), words[2:]) if " ".join(words[:2]) in known else (words[0], words[1:])


def explained_in(row: str) -> Sequence[str]:
    """The commands that the first column of a row is about."""
    named = [command_of(words.split())[0] for words in re.findall(r"`([a-z]+[^`]*)`", row)]
    return named if named[0].startswith("plan ") else named[:1]
