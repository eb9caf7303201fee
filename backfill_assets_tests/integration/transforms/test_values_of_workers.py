"""What the functions of an author find in the Python processes of Spark has to be what was approved."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from backfill_assets.domain.errors import CodeBroken
from backfill_assets.testing import DomainKit
from backfill_assets_tests.domains import by_worker

DAYS = "2026-01-02..2026-01-05"


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[DomainKit]:
    opened = DomainKit.open(by_worker.__name__, tmp_path / "home", first_day=date(2026, 1, 1))
    opened.land("sales", [{"sale_id": str(n), "sold_at": f"2026-01-0{2 + n % 4}T10:00:00Z"} for n in range(12)])
    yield opened
    opened.close()


@pytest.mark.long
def test_no_row_is_computed_by_another_value_than_the_planned_one_in_processes_of_spark(
    kit: DomainKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(by_worker, "TIMES", 3)
    run_id = kit.planned("days", DAYS)
    kit.approve(run_id)
    with pytest.raises(CodeBroken, match="in a Python process of Spark"):
        kit.stage(run_id)
    with kit.ws.ledger.read() as tx:
        assert not tx.candidates.of_run(run_id)
    monkeypatch.setattr(by_worker, "TIMES", 1)
    kit.published("days", DAYS)
    assert {row["n"] for row in kit.rows("days")} == {3}
