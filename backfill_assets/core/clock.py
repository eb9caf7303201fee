"""Clock: the present instant, read by the CLI and orchestration and passed down; no other room reads a clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

Clock = Callable[[], datetime]


def system_clock() -> datetime:
    """The present instant, aware UTC."""
    return datetime.now(tz=UTC)


class LedgerClock:
    """The present of a ledger, which is never before what it has recorded.

    A clock that is behind that counts for nothing until it has caught up: time goes on from the recorded instant, as
    this process measures it.
    """

    def __init__(self, clock: Clock, elapsed: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._elapsed = elapsed
        self._since: tuple[datetime, float] | None = None
        self.behind = timedelta()
        """The most by which the clock was found to be behind."""

    def present(self, recorded: datetime | None) -> tuple[datetime, datetime]:
        """The present instant, and what the clock shows.

        Args:
            recorded: The last instant that the ledger has; None where it has none.
        """
        shown, counted = self._clock(), self._counted()
        if recorded is not None and recorded > max(shown, counted or shown):
            counted, self._since = recorded, (recorded, self._elapsed())
        if counted is None or counted <= shown:
            self._since = None
            return shown, shown
        self.behind = max(self.behind, counted - shown)
        return counted, shown

    def _counted(self) -> datetime | None:
        if self._since is None:
            return None
        at, measured = self._since
        return at + timedelta(seconds=self._elapsed() - measured)
