"""A home stays in order over long stories of what people do to it; `make test-faults` tells two hundred of them."""

from __future__ import annotations

import pytest

from backfill_assets_tests.faults.stories import tell_all

SEEDS = range(1000, 1002)
STEPS = 15


@pytest.mark.long
def test_after_every_step_documents_answer_and_readers_see_what_the_ledger_says_and_nothing_is_stuck() -> None:
    found_violations = [story.text for story in tell_all(SEEDS, STEPS) if story.violations]
    assert not found_violations, "\n".join(found_violations[:2])
