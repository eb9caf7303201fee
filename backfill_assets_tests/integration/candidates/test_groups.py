"""What is compared in groups beside each other is what one comparison of everything finds."""

from __future__ import annotations

import pytest

from backfill_assets.candidates import compare
from backfill_assets.candidates.compare import ComparedFiles, compare_partitions
from backfill_assets_tests.support.shop import OUTPUT, RECENT, Shop


@pytest.mark.long
def test_days_that_are_compared_one_by_one_differ_as_they_do_together(
    published_shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = published_shop.staged(published_shop.planned(reason="groups"))
    with published_shop.ws.ledger.read() as tx:
        staged = {day: each.files for day, each in tx.candidates.of_run(run_id).items()}
        accepted = {day: each.files for day, each in tx.versions.accepted(RECENT, OUTPUT).items()}
    sides = ComparedFiles(
        ws=published_shop.ws, table=published_shop.ws.domain.table(RECENT), staged=staged, accepted=accepted
    )
    together = compare_partitions(sides)
    assert {each.changed for each in together.values()} == {1}
    monkeypatch.setattr(compare, "GROUP_ROWS", 1)
    assert len(list(compare.groups_of(OUTPUT, staged, accepted))) == len(OUTPUT)
    assert compare_partitions(sides) == together
