"""Every part of the product that tests replace, or that the model of the protocol names, is there under that name."""

from __future__ import annotations

from pkgutil import resolve_name

import pytest

from backfill_assets_tests.faults.guards import GUARDS, without
from backfill_assets_tests.protocol.state import Guard
from backfill_assets_tests.support.seams import Seam


@pytest.mark.parametrize("seam", Seam)
def test_what_tests_replace_is_there(seam: Seam) -> None:
    assert callable(seam.present)


@pytest.mark.parametrize("guard", Guard, ids=lambda guard: guard.name)
def test_what_the_model_calls_a_guard_is_in_the_code(guard: Guard) -> None:
    for place in guard.places:
        assert resolve_name(place) is not None


@pytest.mark.parametrize("name", GUARDS)
def test_a_guard_is_removed_for_a_while_and_then_there_again(name: str) -> None:
    seams = GUARDS[name].removed
    before = [seam.present for seam in seams]
    with without(name):
        assert all(seam.present is not there for seam, there in zip(seams, before, strict=True))
    assert [seam.present for seam in seams] == before
