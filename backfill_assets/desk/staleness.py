"""Staleness for pages: found out in the background, because of a long history it takes longer than a page may."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import TYPE_CHECKING

from backfill_assets.application import look
from backfill_assets.core.errors import BackfillError, Retryable
from backfill_assets.workspace import Workspace

if TYPE_CHECKING:
    from backfill_assets.staleness.decide import Staleness

_Basis = tuple[str, date, tuple[str, ...]]
"""What staleness depends on, besides the code of this process: the ledger, the day, and the reference files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownStaleness:
    """The staleness that is known."""

    tables: tuple[Staleness, ...] = ()  #: Table by table; empty while nothing is known.
    as_of: datetime | None = None  #: When it was found out; None while nothing is known.
    is_current: bool = False  #: Whether nothing that it depends on has changed since.
    problem: str | None = None  #: Why it could not be found out; None when it could.


@dataclass(slots=True)
class StalenessInBackground:
    """The last known staleness, found out again when something has changed."""

    ws: Workspace
    patience_s: float  #: How long a page waits for it.
    _worker: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="staleness"))
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _known: tuple[_Basis | None, KnownStaleness] = (None, KnownStaleness())
    _asked: tuple[_Basis | None, Future[None] | None] = (None, None)

    def begin(self) -> None:
        """Has it found out before a page asks for it."""
        self._ask(self._basis())

    def _ask(self, basis: _Basis) -> Future[None] | None:
        with self._lock:
            if self._known[0] != basis and self._asked[0] != basis:
                self._asked = (basis, self._worker.submit(self._find, basis))
            return self._asked[1]

    def latest(self) -> KnownStaleness:
        basis = self._basis()
        being_found = self._ask(basis)
        if self._known[0] != basis and being_found is not None:
            wait([being_found], timeout=self.patience_s)
        found_for, found = self._known
        return replace(found, is_current=found_for == basis)

    def close(self) -> None:
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _find(self, basis: _Basis) -> None:
        as_of = self.ws.clock()
        try:
            tables = look.staleness(self.ws.with_present_references())
            self._known = (basis, KnownStaleness(tables=tables, as_of=as_of))
        except BackfillError as error:  # such as a reference that is not there: the calendar shows the rest
            passes = issubclass(error.category, Retryable)
            self._known = (None if passes else basis, KnownStaleness(as_of=as_of, problem=error.message))
        finally:
            with self._lock:
                if self._asked[0] == basis:
                    self._asked = (None, None)  # what could not be found out is asked again by the next page

    def _basis(self) -> _Basis:
        with self.ws.ledger.read() as tx:
            head = tx.events.head()
        stamps = tuple(map(self.ws.stamp_of, self.ws.domain.references))
        return head, self.ws.clock().date(), stamps
