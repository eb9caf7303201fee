"""Dagster's pages paint every partition of every table as the ledger has it, whatever people and processes do."""

from __future__ import annotations

from pathlib import Path

import pytest

from backfill_assets_tests.faults.painted import paint

SEEDS = {"short": (7, 15), "long": (8, 30), "longer": (9, 30)}
"""By name: the seed of a story, and its steps."""


@pytest.mark.parametrize("name", SEEDS)
def test_after_every_step_every_partition_is_green_where_it_is_accepted_and_none_is_red(
    tmp_path: Path, name: str
) -> None:
    story, looks = paint(*SEEDS[name], tmp_path)
    assert not story.violations, story.text
    shown = {(look.table, look.green) for look in looks}
    assert len(shown) > len({look.table for look in looks}), "the story never changed a colour"
