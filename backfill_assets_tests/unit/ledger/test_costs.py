"""What a transaction of the ledger offers says what it costs."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import cast, get_type_hints

from sqlalchemy import Connection

from backfill_assets.core.clock import LedgerClock, system_clock
from backfill_assets.ledger.queries import Queries
from backfill_assets.ledger.transactions import ReadTransaction, WriteTransaction

# No aggregate asks anything of a database by itself.
READS = ReadTransaction(cast("Connection", None), LedgerClock(system_clock))
AGGREGATES = {*map(type, vars(READS).values()), *get_type_hints(WriteTransaction).values()}
AGGREGATES -= {LedgerClock}


def offered() -> Iterator[tuple[str, str]]:
    """The public methods of the aggregates, each with its own docstring."""
    for aggregate in sorted(AGGREGATES, key=lambda each: each.__name__):
        for owner in aggregate.__mro__:
            if owner not in (Queries, object):
                yield from (
                    (f"{aggregate.__name__}.{name}", inspect.getdoc(method) or "")
                    for name, method in vars(owner).items()
                    if inspect.isfunction(method) and not name.startswith("_")
                )


def test_every_method_says_what_it_costs() -> None:
    found = dict(offered())
    assert {"RunReads.get", "RunWrites.take", "RequestWrites.approve", "EventReads.violations"} <= found.keys()
    assert len(found) > 80
    assert [name for name, docstring in found.items() if "Cost: " not in docstring] == []
