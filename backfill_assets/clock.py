"""What time is it? Asked at the edges (CLI, orchestration) and passed down; nothing below reads a clock itself."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]


def system_clock() -> datetime:
    """The present instant, aware UTC."""
    return datetime.now(tz=UTC)
