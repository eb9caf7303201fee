"""Nothing slow happens at the writer's turn: while it is open, its thread touches neither the lake nor Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import pytest

from backfill_assets.lake.tables import Lake
from backfill_assets.ledger.store import Ledger
from backfill_assets.ledger.transactions import WriteTransaction
from backfill_assets.workspace import Workspace

SLOW = ((Lake, ("place", "exists", "open", "ensure")), (Workspace, ("spark",)))
"""Whatever reads or writes files of a table comes by one of these."""

_turn = threading.local()


@contextmanager
def nothing_slow_at_the_writers_turn() -> Iterator[None]:
    """Inside, a table that is touched while the thread holds the writer's turn fails the test, whatever is done."""
    write = Ledger.write

    @contextmanager
    def watched(self: Ledger) -> Iterator[WriteTransaction]:
        with write(self) as writer:
            _turn.is_held = True
            try:
                yield writer
            finally:
                _turn.is_held = False

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ledger, "write", watched)
        for owner, names in SLOW:
            for name in names:
                patch.setattr(owner, name, _refused_at_the_turn(getattr(owner, name)))
        yield


def _refused_at_the_turn(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def called(*given: Any, **named: Any) -> Any:
        if getattr(_turn, "is_held", False):
            pytest.fail(f"{method.__qualname__} at the writer's turn: everybody else who writes waits for it")
        return method(*given, **named)

    return called
