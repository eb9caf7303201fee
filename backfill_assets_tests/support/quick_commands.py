"""How does a test that types commands avoid that the whole command line is made anew for each?

Typer reads the signatures of all commands whenever a test types one, which takes a tenth of a second. What it makes of
a program does not change.
"""

from __future__ import annotations

from functools import cache

from typer import testing


def remember_commands() -> None:
    """From now on, in this process: what a program's commands and options are."""
    vars(testing)["_get_command"] = cache(vars(testing)["_get_command"])
