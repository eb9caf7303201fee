"""What of a run is sent: rows that are there, or a refusal before anything is created."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from backfill_assets.deliver.errors import RowsRemoved
from backfill_assets.deliver.replay_parts import parts_of_run
from backfill_assets.domain import DerivedTable
from backfill_assets.ledger.records import PartKind
from backfill_assets.ledger.store import Ledger
from backfill_assets_tests.support.advice import advised
from backfill_assets_tests.support.ledger_examples import DAYS, TABLE, make_publishable, publish


def test_a_run_is_not_sent_whose_rows_or_those_that_it_replaced_are_gone(ledger: Ledger) -> None:
    table = cast(DerivedTable, SimpleNamespace(name=TABLE))
    for at, run_id in enumerate(("bf-1", "bf-2"), 1):
        make_publishable(ledger, run_id)
        publish(ledger, run_id, at=at)
    with ledger.read() as reader:
        sent = parts_of_run(reader, table, "bf-2", None)
        assert [each.kind for each in sent] == [PartKind.PARTITION] * len(DAYS) + [PartKind.GONE]
    with ledger.write() as writer:
        writer.versions.mark_removed([(TABLE, DAYS[0], 1)])
        writer.events.record(actor="ann", entity="retention", entity_id=TABLE, action="vacuumed")
    for run_id in ("bf-1", "bf-2"):
        with (
            ledger.read() as reader,
            pytest.raises(RowsRemoved, match=f"{run_id} .* by retention, for {DAYS[0]}") as gone,
        ):
            parts_of_run(reader, table, run_id, None)
        assert advised(gone.value) == f"replay {TABLE}, whose rows are sent as readers see them"
