"""Differences between two lists of columns, worded the same in every message."""

from __future__ import annotations

from collections.abc import Sequence


def differing_columns(found: Sequence[tuple[str, str]], declared: Sequence[tuple[str, str]]) -> str | None:
    """The columns that differ, by name, as a part of a sentence; None when there are none.

    Args:
        found: Names and types, in order.
        declared: What they should be.
    """
    types, wanted = dict(found), dict(declared)
    parts = [f"{name} is missing" for name in wanted if name not in types]
    parts += [f"{name} is not declared" for name in types if name not in wanted]
    parts += [
        f"{name} is {types[name]} where {kind} is declared"
        for name, kind in wanted.items()
        if types.get(name, kind) != kind
    ]
    if not parts and [name for name, _ in found] != list(wanted):
        misplaced = next(
            (have, want) for (have, _), want in zip(found, [*wanted, "nothing"], strict=False) if have != want
        )
        parts.append(f"{misplaced[0]} stands where {misplaced[1]} is declared")
    return ", ".join(parts) or None
