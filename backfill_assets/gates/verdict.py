"""Verdict: the result of a gate for a partition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a gate passed, one sentence, and the numbers behind it."""

    passed: bool
    sentence: str
    observed: Mapping[str, Any]
