"""Who acts on the tables, and by which of the real functions?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from functools import partial
from itertools import combinations
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from backfill_assets.application.recover import recover
from backfill_assets.core.crash_points import Point
from backfill_assets.lake.swap import SwapOrder
from backfill_assets.ledger.states import PublicationState
from backfill_assets.requests.publish import publish_run, rollback_run
from backfill_assets.requests.rollout import rollback_set, rollback_with_dependents
from backfill_assets.transforms.schemas import RUN_LINEAGE
from backfill_assets.upkeep.vacuum import vacuum_lake
from backfill_assets_tests.faults.scene import DAYS, EQUAL_SET_ID, OPENED, SET_ID, Scene
from backfill_assets_tests.faults.turn_scheduler import Actor, stop
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.hand_made import SILVER
from backfill_assets_tests.support.lakes import folder_of
from backfill_assets_tests.support.operations import publish_set
from backfill_assets_tests.support.seams import Seam

COMPARED = "swap: has compared, will commit"
REPORTED = "swap: has committed, and has not heard of it"
WAITS = "swap: lost a race, waits"

PUBLISHERS = ("backfill", "live", "other", "equal", "newer")
"""Actors that publish the run of their name."""


def _append(scene: Scene, day: date) -> None:
    row = {"day": pa.array([day], pa.date32()), "shop": ["foreign"], "amount": pa.array([9], pa.int64())}
    lineage = {name: pa.nulls(1, pa.string()) for name in RUN_LINEAGE.fieldNames()}
    write_deltalake(folder_of(scene.ws.lake, SILVER), pa.table({**row, **lineage}), mode="append")


def _handle(scene: Scene) -> DeltaTable:
    return DeltaTable(folder_of(scene.ws.lake, SILVER))


def _withdraw(scene: Scene) -> None:
    with scene.ws.ledger.write() as writer:
        writer.requests.withdraw_approval("backfill", by="ben", reason="second thoughts")


def _cancel_follow_ups(scene: Scene) -> None:
    """Gold is not to follow what has corrected December."""
    with scene.ws.ledger.read() as reader:
        (corrected,) = reader.publications.records(run_id="corrected", states=[PublicationState.PUBLISHED])
    operations.dismiss_follow_ups(scene.ws, corrected.publication_id, by="cleo", reason="not wanted")


def _again(scene: Scene) -> None:
    """A published set is rolled back, agreed to once more, and published once more."""
    rollback_set(scene.ws, EQUAL_SET_ID, by="ben", reason="second thoughts")
    with scene.ws.ledger.write() as writer:
        writer.requests.approve(EQUAL_SET_ID, by="ben")
    publish_set(scene.ws, EQUAL_SET_ID, by="ben")


ACTS: Mapping[str, Callable[[Scene], object]] = {
    **{name: lambda scene, name=name: publish_run(scene.ws, name, by="ben") for name in PUBLISHERS},  # type: ignore[misc]
    "rollback": lambda scene: rollback_run(scene.ws, "second", by="ben", reason="was wrong"),
    "undo": lambda scene: rollback_run(scene.ws, "backfill", by="ben", reason="was wrong"),
    "recover": lambda scene: recover(scene.ws, by="ops"),
    "vacuum": lambda scene: vacuum_lake(scene.later, by="vic"),
    "regate": lambda scene: scene.gate("backfill"),
    "restage": lambda scene: scene.gate("backfill", restage=True),
    "withdraw": _withdraw,
    "cancel": lambda scene: operations.cancel(scene.ws, "backfill", by="cleo", reason="not wanted"),
    "cancel set": lambda scene: operations.cancel(scene.ws, SET_ID, by="cleo", reason="not wanted"),
    "set": lambda scene: publish_set(scene.ws, SET_ID, by="ben"),
    "set back": lambda scene: rollback_set(scene.ws, SET_ID, by="ben", reason="was wrong"),
    "equal set back": lambda scene: rollback_set(scene.ws, EQUAL_SET_ID, by="ben", reason="was wrong"),
    "equal set again": _again,
    "one of a set": lambda scene: publish_run(scene.ws, "month", by="ben"),
    "follower": lambda scene: scene.follow(),
    "another follower": lambda scene: scene.follow(),
    "correction back": lambda scene: rollback_run(scene.ws, "corrected", by="ben", reason="was right before"),
    "days back": lambda scene: rollback_run(scene.ws, "december", by="ben", reason="never right"),
    "with dependents": lambda scene: rollback_with_dependents(scene.ws, "december", by="ben", reason="never right"),
    "cancel follow-ups": _cancel_follow_ups,
    "foreign append": lambda scene: _append(scene, DAYS[1]),
    "foreign append to an empty day": lambda scene: _append(scene, DAYS[4]),
    "foreign append elsewhere": lambda scene: _append(scene, DAYS[0]),
    "foreign optimize": lambda scene: _handle(scene).optimize.compact(),
    "foreign restore": lambda scene: _handle(scene).restore(1),
    "foreign delete": lambda scene: _handle(scene).delete(f"day = '{DAYS[2]}'"),
}

FOREIGN = tuple(name for name in ACTS if name.startswith("foreign"))
SETS = ("set", "set back", "equal set back", "equal set again", "one of a set", "cancel set")
FOLLOWING = (
    *("follower", "another follower", "cancel follow-ups"),
    *("correction back", "days back", "with dependents", "newer"),
)
"""Actors around what gold follows."""
CHANGING = (*PUBLISHERS, "rollback", "undo", "recover", "vacuum", *SETS, *FOLLOWING)
"""Actors of ours that change what readers see, or what is there to be seen."""
BUSY = (
    *(*PUBLISHERS, "rollback", "recover", "vacuum", "set", "set back", "equal set again"),
    *("follower", "another follower", "correction back", "with dependents"),
)
"""Those who take many steps."""

PHASES = frozenset(
    {point.value for point in Point}
    - {Point.SWAP_ACKNOWLEDGED.value, Point.SWAP_ABANDONED.value, Point.RECOVER_CLOSED.value}
    | {COMPARED}
)
"""Where actors stop when all orders are tried; the random orders stop everywhere."""


def the_pairs() -> list[tuple[str, str]]:
    """Every two actors of whom one at least changes what readers see."""
    return [pair for pair in combinations(ACTS, 2) if set(pair) & set(CHANGING)]


def ordered_pairs() -> list[tuple[str, str]]:
    """The pairs of which all orders are tried: what changes one table. A set takes so many steps that it is left to
    chance, and so do followers."""
    return [pair for pair in the_pairs() if not set(pair) & {*SETS, *FOLLOWING}]


def actor(name: str, scene: Scene, *, everywhere: bool) -> Actor:
    """An actor who stops at the phases, or everywhere."""

    def at_phases(where: str) -> bool:
        return where in PHASES or (name == "recover" and where == OPENED)

    def almost_everywhere(where: str) -> bool:
        # Vacuum looks at a table's log once more right before it removes files. These two cannot be one step: a
        # stranger who restores a table in between loses files, as with Delta's own vacuum. It is not promised.
        return not (name == "vacuum" and where == OPENED)

    stops_at = almost_everywhere if everywhere else at_phases
    return Actor(name=name, act=partial(ACTS[name], scene), stops_at=stops_at)


@contextmanager
def stops_inside_swaps() -> Iterator[None]:
    """Adds the stops that the code has no name for: between compare and commit, and between commit and its report."""
    commit = Seam.COMMIT.present

    def paced_commit(handle: Any, order: SwapOrder) -> None:
        stop(COMPARED, fails_with=OSError("the store does not answer"))
        commit(handle, order)
        stop(REPORTED, fails_with=OSError("the connection was reset"))

    def wait(_seconds: float) -> None:
        stop(WAITS)

    with pytest.MonkeyPatch.context() as patch:
        Seam.COMMIT.put(patch, paced_commit)
        Seam.SWAP_OF_PUBLICATIONS.put(patch, partial(Seam.SWAP_OF_PUBLICATIONS.present, wait=wait))
        Seam.FENCE_OF_RECOVERY.put(patch, partial(Seam.FENCE_OF_RECOVERY.present, wait=wait))
        yield
