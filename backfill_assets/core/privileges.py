"""Privileges that a database refused: which one, on what, and the statement that grants it."""

from __future__ import annotations

import re

NO_PRIVILEGE = "42501"
"""PostgreSQL's SQLSTATE where a role may not do what it asks."""
NO_SCHEMA = "3F000"
"""Its SQLSTATE where no schema of the path is there for a role: it has none, or may not use it."""

_DENIED = re.compile(
    r"permission denied for (?P<kind>table|view|sequence|schema|database|function) (?P<name>.+?)(?=\s+LINE \d+:|\n|$)"
)
_PRIVILEGES = {"sequence": "USAGE", "schema": "USAGE", "database": "CONNECT", "function": "EXECUTE"}
_MAKES = {"schema": "CREATE", "database": "CREATE"}


def missing_grant(said: str, role: str, statement: str = "SELECT") -> str:
    """The statement that grants what a database refused, as the end of a sentence; empty where its message names no
    object.

    Args:
        said: The message of PostgreSQL.
        role: Who asked.
        statement: What was asked.
    """
    found = _DENIED.search(said)
    if found is None:
        return ""
    kind, words = found["kind"], statement.upper().split()
    named = _quoted(found["name"].strip().strip('"'))
    begins = words[0] if words else "SELECT"
    if kind in ("table", "view"):
        asked = set(words) if begins == "WITH" else {begins}
        privileges = asked & {"SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE"} or {"SELECT"}
        # A row that is locked, or that takes the place of one that is there, is updated; a condition is read.
        privileges |= {"UPDATE"} if ("FOR" in words and "UPDATE" in words) or "CONFLICT" in words else set()
        privileges |= {"SELECT"} if "WHERE" in words or "RETURNING" in words else set()
        granted = f"{', '.join(sorted(privileges))} ON {named}"
    else:
        privilege = _MAKES.get(kind, _PRIVILEGES[kind]) if begins in ("CREATE", "ALTER") else _PRIVILEGES[kind]
        granted = f"{privilege} ON {kind.upper()} {named}"
    return f"; its owner can GRANT {granted} TO {_quoted(role)}"


def _quoted(name: str) -> str:
    """A name as PostgreSQL takes it whatever its letters are, also a word of SQL."""
    return '"' + name.replace('"', '""') + '"'
