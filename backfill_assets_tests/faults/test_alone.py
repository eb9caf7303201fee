"""One person in no group changes nothing that was agreed to; `make test-faults` tells a hundred stories of that."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from backfill_assets.application import live
from backfill_assets.ledger.versions import VersionReads
from backfill_assets.planning.proposals import SourceDay
from backfill_assets.publication import proposals, publish
from backfill_assets.restatements import undo
from backfill_assets.staleness import find
from backfill_assets.staleness.landed_news import News
from backfill_assets_tests.faults.alone import tell_all

STEPS = 20
MOST = 40
"""In so many short stories of a few acts a guard that was removed is missed."""


def test_one_person_changes_what_policies_grant_and_nothing_else() -> None:
    found = [story.text for story in tell_all(range(1000, 1004), STEPS) if story.violations]
    assert not found, found[0]


def _within_lateness(news: News, lateness: Mapping[str, int]) -> frozenset[SourceDay]:
    return frozenset(day for day, some in news.items() if some and all(e.days_late <= lateness[day[0]] for e in some))


def _no_rollback_is_refused(patch: pytest.MonkeyPatch) -> None:
    for module in (publish, undo):
        patch.setattr(module, "rollback_grounds", lambda *_: None)


def _live_publishes_what_was_undone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(VersionReads, "newest", lambda *_: None)
    patch.setattr(VersionReads, "undone_last", lambda *_: frozenset())


def _whatever_comes_in_time_follows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(proposals, "days_of_late_events", _within_lateness)


def _live_does_not_mind_moved_keys(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(live, "days_held_by_moves", lambda *_: {})


def _a_release_comes_with_a_late_event(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(find, "changed_otherwise", lambda _found: frozenset())


def _what_was_undone_follows_with_the_next_late_event(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(proposals, "_only_a_person", lambda *_: {})


@pytest.mark.long
@pytest.mark.parametrize(
    ("without", "acts"),
    [
        (_no_rollback_is_refused, {"rolls_back": 1}),
        (_live_publishes_what_was_undone, {"waits": 1, "live": 2, "taken_back": 2}),
        (_whatever_comes_in_time_follows, {"corrects": 1, "withdraws": 1, "follow": 2}),
        (_live_does_not_mind_moved_keys, {"moves": 2, "waits": 1, "live": 1}),
        (_a_release_comes_with_a_late_event, {"lands": 2, "follow": 2, "release": 1}),
        (_what_was_undone_follows_with_the_next_late_event, {"lands": 3, "follow": 3, "taken_back": 2}),
    ],
)
def test_without_any_one_guard_one_person_alone_changes_more(
    without: Callable[[pytest.MonkeyPatch], None], acts: Mapping[str, int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        without(patch)
        assert any(story.violations for story in tell_all(range(MOST), STEPS, weights=acts, days_back=(1, 2, 3)))
