"""Two of Dagster's daemons on one home, which Dagster warns of: every sensor ticks twice, and workers are killed too.

Real daemons, real processes of their runs. What is approved is published once, what a stopped process left is ended
once, and a dropped file lands once.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from backfill_assets.application.sensor_work import stopped
from backfill_assets.core.crash_points import Point
from backfill_assets.core.settings import PROJECT_ROOT
from backfill_assets.ledger.states import PublicationState, RunState, SetState
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.faults.scenario import Stopped, stopping_at
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.by_hand import JANUARY, MONTH, Hand, open_by_hand
from backfill_assets_tests.support.hand_made import SILVER
from backfill_assets_tests.support.shop import SALES, sale, shop_environment

SENSORS = ("publish", "recover", "drop")
ENDS_WITHIN_S = 480
ALIVE_S = (1.0, 3.0, 6.0)
"""How long a worker has been at work when it is killed, one after the other."""


@contextmanager
def daemons(home: Path, environment: Mapping[str, str]) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Two daemons on a home, each with its processes in a group of its own, and the sensors switched on."""
    folder = home / "dagster_home"
    folder.mkdir()
    settings = (PROJECT_ROOT / "dagster.yaml").read_text(encoding="utf-8")
    (folder / "dagster.yaml").write_text(
        settings.replace("run_monitoring:\n", "run_monitoring:\n  poll_interval_seconds: 5\n"), encoding="utf-8"
    )
    own = {**os.environ, **environment, "DAGSTER_HOME": str(folder)}
    programs = Path(sys.executable).parent
    for sensor in SENSORS:
        subprocess.run(
            [programs / "dagster", "sensor", "start", f"backfill_{sensor}", "-w", "workspace.yaml"],
            cwd=PROJECT_ROOT,
            env=own,
            check=True,
            capture_output=True,
        )
    with ExitStack() as ended:
        started = []
        for number in range(2):
            output = ended.enter_context((folder / f"daemon-{number}.log").open("wb"))
            daemon = subprocess.Popen(
                [programs / "dagster-daemon", "run", "-w", "workspace.yaml"],
                cwd=PROJECT_ROOT,
                env=own,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            ended.callback(_end, daemon)
            started.append(daemon)
        yield started


def _end(daemon: subprocess.Popen[bytes]) -> None:
    daemon.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        daemon.wait(timeout=30)
    with suppress(ProcessLookupError):
        os.killpg(daemon.pid, signal.SIGKILL)
    daemon.wait(timeout=30)


def workers(daemon: subprocess.Popen[bytes]) -> list[int]:
    """The processes of a daemon's group that execute a run of Dagster's."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            words = (entry / "cmdline").read_bytes()
            if os.getpgid(int(entry.name)) == daemon.pid and b"multiprocessing.spawn" in words:
                found.append(int(entry.name))
    return found


@pytest.mark.long
@pytest.mark.timeout(ENDS_WITHIN_S + 240)
def test_two_daemons_publish_end_and_land_everything_once(tmp_path: Path) -> None:
    home, drop = tmp_path / "home", tmp_path / "drop"
    (drop / "sales").mkdir(parents=True)
    hand = open_by_hand(home)
    runs = [hand.silver({JANUARY.start + timedelta(days=n): 20 + n}) for n in range(4)]
    set_id = hand.set_of({date(2026, 1, 20): 7})
    operations.approve(hand.ws, set_id, by="ben")
    left = hand.silver({date(2026, 1, 25): 50})
    with suppress(Stopped):
        operations.publish(stopping_at(hand.ws, Point.SWAP_COMMITTED), left, by="ben")
    for number in range(2):
        day = date(2026, 1, 1 + number)
        path = drop / "sales" / f"file-{number}.jsonl"
        path.write_text(json.dumps(sale(day)) + "\n", encoding="utf-8")
    environment = {
        **shop_environment(home),
        "BACKFILL_DROP": str(drop),
        "BACKFILL_USER": "olga",
        "BACKFILL_SENSORS": ",".join(SENSORS),
    }
    seen: dict[int, float] = {}
    alive_s = list(ALIVE_S)
    with daemons(home, environment) as both:
        until = time.monotonic() + ENDS_WITHIN_S
        while not (is_done(hand, [*runs, left], set_id) and has_landed(hand, 2)):
            assert time.monotonic() < until, (states(hand, [*runs, left]), logs(home))
            assert all(daemon.poll() is None for daemon in both), logs(home)
            for pid in (pid for daemon in both for pid in workers(daemon)):
                if alive_s and time.monotonic() - seen.setdefault(pid, time.monotonic()) > alive_s[0]:
                    os.kill(pid, signal.SIGKILL)
                    del alive_s[0]
            time.sleep(0.2)
    assert alive_s == []
    assert once(hand, [*runs, left]) == dict.fromkeys([*runs, left], 1)
    late = replace(hand.ws, clock=lambda: hand.ws.clock() + timedelta(days=400))
    assert (operations.recover(late, by="ops"), stopped(late)) == ((), ())
    with hand.ws.ledger.read() as tx:
        imports = [record.original_path for record in tx.imports.records(SALES)]
        members = [member.run_id for member in tx.sets.get(set_id).manifest.members]
    assert sorted(Path(path).name for path in imports) == ["file-0.jsonl", "file-1.jsonl"]
    assert once(hand, members) == dict.fromkeys(members, 1)
    rows = hand.ws.lake.open(SILVER).to_pyarrow_table(columns=["day", "amount"]).to_pylist()
    wanted = dict.fromkeys(JANUARY, 10) | {JANUARY.start + timedelta(days=n): 20 + n for n in range(4)}
    assert {row["day"]: row["amount"] for row in rows} == wanted | {date(2026, 1, 20): 7, date(2026, 1, 25): 50}
    assert len(rows) == 31
    assert (hand.total(), MONTH) == (7, JANUARY.start)
    assert audit(hand.ws).problems == ()
    hand.ws.close()


def states(hand: Hand, runs: list[str]) -> list[RunState]:
    return [operations.state_of(hand.ws, run_id) for run_id in runs]


def is_done(hand: Hand, runs: list[str], set_id: str) -> bool:
    with hand.ws.ledger.read() as tx:
        of_set = tx.sets.get(set_id).state
    return set(states(hand, runs)) == {RunState.PUBLISHED} and of_set is SetState.PUBLISHED


def has_landed(hand: Hand, files: int) -> bool:
    with hand.ws.ledger.read() as tx:
        records = tx.imports.records(SALES)
    return len([each for each in records if str(each.state) == "LOADED"]) >= files


def once(hand: Hand, runs: list[str]) -> Mapping[str, int]:
    """How often each run was published."""
    with hand.ws.ledger.read() as tx:
        found = [r for run_id in runs for r in tx.publications.records(run_id=run_id)]
    return Counter(each.run_id for each in found if each.state is PublicationState.PUBLISHED)


def logs(home: Path) -> str:
    return "\n".join(
        path.read_text(errors="replace")[-3_000:] for path in sorted((home / "dagster_home").glob("*.log"))
    )
