"""A process that slept past every timeout wakes up, and cannot undo what was done meanwhile: SIGSTOP, SIGCONT."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from backfill_assets.application.recover import recover
from backfill_assets.core.errors import IllegalTransition, MissingInput
from backfill_assets.core.settings import PROJECT_ROOT
from backfill_assets.lake.tables import live_paths
from backfill_assets.ledger.states import PublicationState, RunState
from backfill_assets.report.follow import RecoveredWork
from backfill_assets.requests.publish import publish_run, rollback_run
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.faults.prepared import Prepared
from backfill_assets_tests.faults.scene import EQUAL_SET_ID, SET_ID, Scene
from backfill_assets_tests.faults.sleeper import BEFORE_COMMIT
from backfill_assets_tests.support.advice import refused
from backfill_assets_tests.support.hand_made import SILVER
from backfill_assets_tests.support.shop import shop_environment


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prepared]:
    made = Prepared.make(tmp_path_factory.mktemp("fencing"))
    yield made
    made.close()


@pytest.fixture
def scene(prepared: Prepared) -> Scene:
    return prepared.copy()


class Sleeper:
    """The sleeping process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process, self.pid = process, process.pid

    def woken(self) -> Mapping[str, Any]:
        """Lets it go on, and gives what it said in the end."""
        os.kill(self._process.pid, signal.SIGCONT)
        printed, complaints = self._process.communicate(timeout=120)
        assert printed, complaints
        said: Mapping[str, Any] = json.loads(printed)
        return said


@contextmanager
def asleep(scene: Scene, action: str, where: str) -> Iterator[Sleeper]:
    """A process that acts in the scene's home and has stopped at a point."""
    home = scene.ws.settings.home
    horizons = {"BACKFILL_ROLLBACK_DAYS": "30", "BACKFILL_REPRODUCTION_DAYS": "30"}
    process = subprocess.Popen(
        [sys.executable, "-m", "backfill_assets_tests.faults.sleeper", action, where],
        env={**os.environ, **shop_environment(home), **horizons},
        cwd=PROJECT_ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), process.communicate()
        yield Sleeper(process)
    finally:
        if process.returncode is None:
            process.kill()
        process.communicate()


def open_publication(scene: Scene) -> str:
    with scene.ws.ledger.read() as reader:
        (found,) = reader.publications.headers(states=[PublicationState.PUBLISHING])
    return found.publication_id


def taken_over(scene: Scene) -> RecoveredWork:
    """What becomes of a publication whose process a person knows to be gone, although it is not."""
    (found,) = recover(scene.ws, by="ops", only=open_publication(scene), now=True)
    return found


@pytest.mark.parametrize("action", ["publish backfill", pytest.param("rollback second", marks=pytest.mark.long)])
def test_a_recovery_leaves_a_living_publisher_alone_and_says_who_it_is(scene: Scene, action: str) -> None:
    with asleep(scene, action, BEFORE_COMMIT) as sleeper:
        (found,) = recover(scene.ws, by="ops")
        assert re.match(rf"is left alone: ben \(.*:{sleeper.pid}\) has been working on it since ", found.outcome)
        assert sleeper.woken() == {"done": action}
    assert recover(scene.ws, by="ops") == ()
    assert audit(scene.ws).problems == ()


@pytest.mark.long
@pytest.mark.parametrize(
    ("action", "where"),
    [
        (f"publish {SET_ID}", "SET_TABLE_PUBLISHED"),
        (f"rollback {EQUAL_SET_ID}", "SET_TABLE_BROUGHT_BACK"),
        ("rollback december with dependents", "SWAP_ACKNOWLEDGED"),
    ],
)
def test_a_recovery_leaves_a_process_alone_between_two_tables_until_it_is_gone(
    scene: Scene, action: str, where: str
) -> None:
    with asleep(scene, action, where) as sleeper:
        (found,) = recover(scene.ws, by="ops")
        assert re.match(rf"is left alone: ben \(.*:{sleeper.pid}\) has been working on it since ", found.outcome)
        assert found.id == action.split()[1]
        assert sleeper.woken() == {"done": action}
    assert recover(scene.ws, by="ops") == ()
    assert audit(scene.ws).problems == ()


@pytest.mark.long
def test_a_recovery_completes_a_set_whose_process_is_gone_or_is_said_to_be(scene: Scene) -> None:
    with asleep(scene, f"publish {SET_ID}", "SET_TABLE_PUBLISHED") as sleeper:
        (found,) = recover(scene.ws, by="ops", only=SET_ID, now=True)
        assert "left alone" not in found.outcome
        assert sleeper.woken() == {"done": f"publish {SET_ID}"}
    with asleep(scene, f"rollback {SET_ID}", "SET_TABLE_BROUGHT_BACK"):
        pass
    (found,) = recover(scene.ws, by="ops")
    assert "left alone" not in found.outcome
    assert recover(scene.ws, by="ops") == ()
    assert audit(scene.ws).problems == ()


@pytest.mark.long
def test_a_recovery_ends_what_a_publisher_that_was_killed_has_left(scene: Scene) -> None:
    with asleep(scene, "publish backfill", BEFORE_COMMIT):
        pass
    (found,) = recover(scene.ws, by="ops")
    assert "had not landed; closed" in found.outcome


def state_of(scene: Scene, run_id: str) -> RunState:
    with scene.ws.ledger.read() as reader:
        return reader.runs.get(run_id).state


@pytest.mark.parametrize("where", ["SWAP_INTENDED", BEFORE_COMMIT])
def test_a_publisher_that_slept_cannot_publish_over_newer_work_and_says_why(scene: Scene, where: str) -> None:
    with asleep(scene, "publish backfill", where) as sleeper:
        with refused(IllegalTransition, match="if its process is gone: backfill recover"):
            publish_run(scene.ws, "live", by="ben")
        assert "had not landed; closed" in taken_over(scene).outcome
        publish_run(scene.ws, "live", by="ben")
        newer = live_paths(scene.ws.lake, SILVER)
        said = sleeper.woken()
    assert said["error"] == "Refused"
    assert "was abandoned by a recovery while it was in progress" in said["message"]
    assert said["next_step"] == "backfill publish backfill --by NAME"
    assert live_paths(scene.ws.lake, SILVER) == newer
    assert (state_of(scene, "live"), state_of(scene, "backfill")) == (RunState.PUBLISHED, RunState.PASSED)
    assert audit(scene.ws).problems == ()
    scene.gate("backfill")
    publish_run(scene.ws, "backfill", by="ben")
    assert audit(scene.ws).problems == ()


@pytest.mark.long
def test_a_rollback_that_slept_cannot_take_newer_work_away(scene: Scene) -> None:
    with asleep(scene, "rollback second", BEFORE_COMMIT) as sleeper:
        taken_over(scene)
        publish_run(scene.ws, "backfill", by="ben")
        newer = live_paths(scene.ws.lake, SILVER)
        said = sleeper.woken()
    assert "was abandoned by a recovery" in said["message"]
    assert live_paths(scene.ws.lake, SILVER) == newer
    assert state_of(scene, "backfill") is RunState.PUBLISHED
    assert audit(scene.ws).problems == ()


@pytest.mark.long
def test_a_publisher_that_slept_after_its_commit_finds_that_all_is_done(scene: Scene) -> None:
    with asleep(scene, "publish backfill", "SWAP_COMMITTED") as sleeper:
        assert "had landed" in taken_over(scene).outcome
        scene.gate("live")
        publish_run(scene.ws, "live", by="ben")
        said = sleeper.woken()
    assert said == {"done": "publish backfill"}
    assert audit(scene.ws).problems == ()


@pytest.mark.long
def test_a_recovery_that_slept_does_not_close_what_another_one_has_closed(scene: Scene) -> None:
    with asleep(scene, "publish backfill", "SWAP_INTENDED") as publisher:
        again = f"recover {open_publication(scene)}"
        with asleep(scene, again, "RECOVER_FENCED") as recovery:
            assert "closed" in taken_over(scene).outcome
            publish_run(scene.ws, "live", by="ben")
            assert recovery.woken() == {"done": again}
        assert publisher.woken()["error"] == "Refused"
    with scene.ws.ledger.read() as reader:
        states = [record.state for record in reader.publications.records(run_id="backfill")]
    assert states == [PublicationState.ABANDONED]
    assert audit(scene.ws).problems == ()


@pytest.mark.long
def test_while_a_vacuum_sleeps_what_it_is_about_to_remove_is_not_rolled_back(scene: Scene) -> None:
    with asleep(scene, "vacuum", "VACUUM_MARKED") as vacuum:
        with pytest.raises(MissingInput, match="was removed by retention"):
            rollback_run(scene.ws, "second", by="ben", reason="was wrong")
        publish_run(scene.ws, "backfill", by="ben")
        assert vacuum.woken() == {"done": "vacuum"}
    assert audit(scene.ws).problems == ()
