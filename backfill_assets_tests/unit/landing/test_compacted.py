"""From where the versions of earlier imports are read, and when they are compacted."""

from __future__ import annotations

import random

import pytest

from backfill_assets.landing import conformed
from backfill_assets.landing.conformed import Choice, Segment, choose, to_merge


def segment(name: str, *imports: int, files: str = "a", rows: int = 10) -> Segment:
    return Segment(path=name, imports={f"imp-{n}": files for n in imports}, files=(), rows=rows)


def wanted(*imports: int, files: str = "a") -> dict[str, str]:
    return {f"imp-{n}": files for n in imports}


def read(choice: Choice) -> list[tuple[str, list[str]]]:
    return [(str(found.path), sorted(imports)) for found, imports in choice.segments]


def test_every_import_is_read_once_and_from_the_largest_segment() -> None:
    found = choose([segment("s", 1, 2), segment("m", 1, 2, 3), segment("t", 4)], wanted(1, 2, 3, 4, 5))
    assert read(found) == [("m", ["imp-1", "imp-2", "imp-3"]), ("t", ["imp-4"])]
    assert found.folders == ("imp-5",)


def test_an_import_that_was_landed_again_or_taken_back_is_not_read_from_a_segment() -> None:
    found = choose([segment("s", 1, 2, 3)], {**wanted(1), **wanted(2, files="b")})
    assert read(found) == [("s", ["imp-1"])]
    assert found.folders == ("imp-2",)


def test_nothing_is_compacted_while_few_imports_are_new() -> None:
    many = conformed.MOST_FOLDERS
    few = Choice(segments=(), folders=tuple(wanted(*range(many - 1))))
    rows = {f"imp-{n}": 1 for n in range(many + 1)}
    assert not to_merge(few, rows, frozenset(rows))
    enough = Choice(segments=(), folders=tuple(wanted(*range(many))))
    assert to_merge(enough, rows, frozenset(rows)) == set(enough.folders)
    assert not to_merge(enough, rows, frozenset(list(rows)[:-2])), "what a function lifts is not compacted"


@pytest.mark.parametrize("seed", range(3))
def test_segments_stay_few_and_a_record_is_written_again_a_few_times(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    segments: list[Segment] = []
    rows: dict[str, int] = {}
    written = 0
    monkeypatch.setattr(conformed, "MOST_FOLDERS", 4)
    for number in range(400):
        rows[f"imp-{number}"] = chance.choice([0, 1, 150, 150, 150, 10_000])
        choice = choose(segments, dict.fromkeys(rows, "a"))
        if merged := to_merge(choice, rows, frozenset(rows)):
            many = sum(rows[each] for each in merged)
            written += many
            segments = [each for each in segments if not merged >= each.imports.keys()]
            segments.append(segment(str(number), *(int(each[4:]) for each in merged), rows=many))
            choice = choose(segments, dict.fromkeys(rows, "a"))
            assert len(choice.segments) == len(segments)
        assert sorted([*choice.folders, *(each for _, some in choice.segments for each in some)]) == sorted(rows)
    assert len(segments) <= 14
    assert written <= 10 * sum(rows.values())
