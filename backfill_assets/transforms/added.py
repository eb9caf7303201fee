"""Added: what aggregates of Spark add up, as far as names in the source show it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from backfill_assets.transforms.doubles import MOMENTS, SUMS

ADDS = frozenset(SUMS | MOMENTS)

_EXACT = re.compile(r"(?:decimal|numeric|bigint|long|int|integer|smallint|tinyint)\b", re.IGNORECASE)
_EXACT_TYPES = {"DecimalType", "LongType", "IntegerType"}
_ROUNDS = {"floor", "ceil", "ceiling"}
_IN_SQL = re.compile(rf"\b({'|'.join(sorted(ADDS))})\s*\(((?:[^()]|\([^()]*\))*)\)", re.IGNORECASE)
_WORD = re.compile(r"(?<![\w'])[a-z_]\w*", re.IGNORECASE)


def texts_in(nodes: Sequence[ast.AST]) -> tuple[str, ...]:
    """The texts in some expressions, and attributes of what they name: any of them may be a column."""
    found: dict[str, None] = {}
    for node in nodes:
        for part in ast.walk(node):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                found[part.value] = None
            elif isinstance(part, ast.Attribute):
                found[part.attr] = None
    return tuple(found)


def is_cast_exactly(node: ast.AST) -> bool:
    """True if something inside is cast to decimals or whole numbers, or rounded to these."""
    for part in ast.walk(node):
        called = getattr(part.func, "attr", getattr(part.func, "id", "")) if isinstance(part, ast.Call) else ""
        if called in _ROUNDS:
            return True
        if not isinstance(part, ast.Call) or called not in ("cast", "try_cast", "astype"):
            continue
        for given in part.args:
            named = getattr(given, "func", given)
            if getattr(named, "id", getattr(named, "attr", "")) in _EXACT_TYPES:
                return True
            if isinstance(given, ast.Constant) and _EXACT.match(str(given.value)):
                return True
    return False


def sums_in_sql(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The aggregates of a text of SQL that add, with the words in them."""
    for found in _IN_SQL.finditer(text):
        if not re.search(rf"\bas\s+{_EXACT.pattern}|\b(?:{'|'.join(_ROUNDS)})\s*\(", found.group(2), re.IGNORECASE):
            yield found.group(1).lower(), tuple(dict.fromkeys(_WORD.findall(found.group(2))))
