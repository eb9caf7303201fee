"""One person in no group changes nothing that was agreed to; `make test-faults` tells a hundred stories of that."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from pathlib import Path

import pytest

from backfill_assets.application import live as live_path
from backfill_assets.application.follow import follow
from backfill_assets.application.live import live
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.application.requests import Restatement
from backfill_assets.ledger.agreements import AgreementReads
from backfill_assets.ledger.states import RunState
from backfill_assets.ledger.versions import VersionReads
from backfill_assets.planning.proposals import SourceDay
from backfill_assets.planning.safeguards import Agreed
from backfill_assets.requests import proposals, publish, rollout
from backfill_assets.staleness import find
from backfill_assets.staleness.landed_news import News
from backfill_assets_tests.faults.keyed_spark_free_compute import ORDERS, Order
from backfill_assets_tests.faults.single_actor_attack import TURNOVER, SingleActorAttack, begun, tell_all
from backfill_assets_tests.faults.spark_free_compute import without_spark

STEPS = 20
MOST = 40
"""In so many short stories of a few acts a guard that was removed is missed."""


def test_one_person_changes_what_policies_grant_and_nothing_else() -> None:
    found = [story.text for story in tell_all(range(1000, 1002), STEPS) if story.violations]
    assert not found, found[0]


def _rolls_back_a_load_behind_output(folder: Path) -> list[str]:
    """Eve rolls back the load of a correction that output was computed from; a late event has landed besides."""
    with begun(folder) as (home, compute):
        generator = SingleActorAttack(home=home, chance=random.Random(0), compute=compute)
        ws, eve, last = generator.ws, Acting(by="eve", recorder=Unrecorded()), date(2026, 2, 1)
        with without_spark(compute):
            compute.take_in(ws, [Order(key=f"1-{last}", day=last, row=(89, 5))], by="eve")
            generator.load(ws)
            generator.time.at += timedelta(days=1)
            live(ws, eve)
            assert list(generator.look()) == []
            with ws.ledger.read() as tx:
                (load, *_) = tx.runs.records(table=ORDERS, states=[RunState.PUBLISHED])
                assert last - timedelta(days=1) in tx.versions.claims(TURNOVER)
            compute.take_in(ws, [Order(key="late", day=last, row=(7, 7))], by="eve")
            Restatement(ws, load.run_id).rollback(eve, reason="mine", with_dependents=False)
            follow(ws, eve)
            found = list(generator.look())
        ws.close()
    return found


@pytest.mark.long
def test_the_rollback_of_a_load_does_not_follow_because_a_late_event_landed_besides(tmp_path: Path) -> None:
    assert _rolls_back_a_load_behind_output(tmp_path) == []
    (tmp_path / "without").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proposals, "days_that_lost_files", lambda *_: frozenset())
        assert "has changed approved keys" in str(_rolls_back_a_load_behind_output(tmp_path / "without"))


def _within_lateness(news: News, lateness: Mapping[str, int]) -> frozenset[SourceDay]:
    return frozenset(day for day, some in news.items() if some and all(e.days_late <= lateness[day[0]] for e in some))


def _no_rollback_is_refused(patch: pytest.MonkeyPatch) -> None:
    for module in (publish, rollout):
        patch.setattr(module, "rollback_grounds", lambda *_: None)


def _nothing_was_agreed_to(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AgreementReads, "of", lambda *_: Agreed())


def _live_publishes_what_was_undone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(VersionReads, "newest", lambda *_: None)
    patch.setattr(VersionReads, "undone_last", lambda *_: frozenset())


def _whatever_comes_in_time_follows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(proposals, "days_of_late_events", _within_lateness)


def _live_does_not_mind_moved_keys(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(live_path, "days_held_by_moves", lambda *_: {})


def _a_release_comes_with_a_late_event(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(find, "changed_otherwise", lambda _found: frozenset())


def _what_was_undone_follows_with_the_next_late_event(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(proposals, "_only_a_person", lambda *_: {})


@pytest.mark.long
@pytest.mark.parametrize(
    ("without", "acts"),
    [
        (_no_rollback_is_refused, {"rolls_back": 1}),
        (_nothing_was_agreed_to, {"corrects": 2, "loosens": 1, "plan": 3, "run": 4, "publishes": 4}),
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
