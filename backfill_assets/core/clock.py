"""Clock: the present instant, read by the CLI and orchestration and passed down; no other room reads a clock."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]


def system_clock() -> datetime:
    """The present instant, aware UTC."""
    return datetime.now(tz=UTC)
