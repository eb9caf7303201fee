"""A dropped file, by ticks of sensors alone: it lands, its days are built, and what policy lets follow is published."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from backfill_assets.ledger.states import RunState, SetState
from backfill_assets.planning.manifest_parts import CauseKind
from backfill_assets.report.status import status
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.integration.staleness.test_propose import TENTH, with_lateness
from backfill_assets_tests.support.dagster_record import open_record
from backfill_assets_tests.support.month import CARNIVAL, REACHED, TOTALS, total
from backfill_assets_tests.support.shop import RECENT, Shop, sale
from backfill_assets_tests.support.ticks import Ticks

BEFORE = 28 * 40
"""February in gold, before anything came late."""


@pytest.fixture
def watched(month: Shop, tmp_path: Path) -> Iterator[tuple[Shop, Ticks]]:
    """The month with a drop folder, today; what is as late as CARNIVAL is restated by policy, and nothing older."""
    (tmp_path / "drop" / "sales").mkdir(parents=True)
    late = with_lateness(month, (datetime.now(UTC).date() - CARNIVAL).days + 1)
    ws = replace(
        late.ws,
        settings=replace(late.ws.settings, drop=tmp_path / "drop", user="olga"),
        clock=lambda: datetime.now(UTC) + timedelta(minutes=5),
    )
    ticks = Ticks(ws)
    with open_record(ws.settings) as instance, ticks.open(instance):
        yield replace(late, ws=ws), ticks


def dropped(shop: Shop, ticks: Ticks, name: str, day: date) -> None:
    assert isinstance(shop.ws.settings.drop, Path)
    path = shop.ws.settings.drop / "sales" / name
    path.write_text(json.dumps(sale(day, amount=5, sale_id=name)) + "\n", encoding="utf-8")
    assert ticks.asked("drop") == ()
    (request,) = ticks.asked("drop")
    assert ticks.launched(request).success


def followed(ticks: Ticks) -> int:
    """Launches what the sensor asks for until it asks for nothing; how many runs these were."""
    launched = 0
    while requests := ticks.asked("follow"):
        for request in requests:
            assert ticks.launched(request).success
            launched += 1
    return launched


@pytest.mark.long
def test_a_dropped_file_is_published_by_lateness_and_an_older_one_waits_for_a_person(
    watched: tuple[Shop, Ticks],
) -> None:
    shop, ticks = watched
    dropped(shop, ticks, "late.jsonl", CARNIVAL)
    assert ticks.asked("propose") == ()
    assert followed(ticks) == 2
    with shop.ws.ledger.read() as tx:
        assert tx.sets.records() == ()
        runs = [tx.runs.records(table=table, limit=1)[0] for table in (RECENT, TOTALS)]
    assert [(run.state, run.manifest.cause.kind) for run in runs] == [(RunState.PUBLISHED, CauseKind.FOLLOW_UP)] * 2
    assert runs[0].manifest.partitions == tuple(REACHED)
    assert total(shop) == BEFORE + 4 * 5
    # Every sensor finds nothing more to do.
    assert [ticks.asked(name) for name in ("drop", "follow", "propose", "publish", "recover")] == [()] * 5
    # A week older: a person is asked, and nothing follows meanwhile.
    dropped(shop, ticks, "older.jsonl", TENTH)
    assert (ticks.asked("propose"), followed(ticks), total(shop)) == ((), 0, BEFORE + 4 * 5)
    with shop.ws.ledger.read() as tx:
        (proposed,) = tx.sets.records()
    assert (proposed.state, proposed.manifest.proposed is not None) == (SetState.PENDING, True)
    assert ticks.asked("publish") == ()
    assert (status(shop.ws).stuck, audit(shop.ws).problems) == ((), ())
