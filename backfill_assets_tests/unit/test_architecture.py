"""What docs/architecture.md names is there."""

from __future__ import annotations

import re

import pytest

from backfill_assets.core.settings import PROJECT_ROOT
from backfill_assets_tests.unit.test_fences import FLOORS

TEXT = (PROJECT_ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_every_file_that_it_names_exists() -> None:
    named = set(re.findall(r"`([a-z_]+/[a-z_/]*\.py|[a-z_]+\.py)`", TEXT))
    assert len(named) > 10
    package = PROJECT_ROOT / "backfill_assets"
    assert [name for name in sorted(named) if not ((package / name).exists() or (PROJECT_ROOT / name).exists())] == []


def test_the_picture_shows_every_room_on_its_floor() -> None:
    picture = TEXT.split("```")[1]
    floors = {
        int(number): text for number, text in re.findall(r"^ {1,2}(\d+) (.*(?:\n(?! {1,2}\d).*)*)", picture, re.M)
    }
    assert set(floors) == set(range(1, len(FLOORS) + 1))
    for number, rooms in enumerate(FLOORS[1:], start=2):
        assert [room for room in rooms if not re.search(rf"\b{room}\b", floors[number])] == [], number


@pytest.mark.parametrize("kind", ["unit", "integration"])
def test_tests_are_in_folders_with_the_names_of_rooms(kind: str) -> None:
    tests = PROJECT_ROOT / "backfill_assets_tests" / kind
    rooms = {path.name for path in (PROJECT_ROOT / "backfill_assets").iterdir()}
    assert [str(each) for each in tests.glob("*/**/test_*.py") if each.relative_to(tests).parts[0] not in rooms] == []
