"""Cost is processor time: the same work costs about the same beside others who keep the machine busy."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from backfill_assets.core import tariff
from backfill_assets.core.tariff import ProcessorClock, processor_seconds

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system says no processor times")

WORK = "total = 0\nfor number in range(6_000_000):\n    total += number * number"
BUSY = "import time\nend = time.monotonic() + 60\nwhile time.monotonic() < end: pass"


@contextmanager
def busy_machine() -> Iterator[None]:
    """Three processes for each core that have nothing to do with this one, nor with any below it."""
    begun = []
    for _ in range(3 * (os.cpu_count() or 1)):
        # Its parent ends at once, so that it is no child of anybody here.
        command = ["sh", "-c", '"$0" -c "$1" >/dev/null 2>&1 & echo $!', sys.executable, BUSY]
        begun.append(int(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    try:
        yield
    finally:
        for pid in begun:
            os.kill(pid, signal.SIGKILL)


def worked(clock: ProcessorClock) -> tuple[float, float]:
    """The cost of work that a child does, and how long it took."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", WORK], check=True)
    return clock.core_seconds(), time.monotonic() - began


def clock_of_this() -> ProcessorClock:
    return ProcessorClock(roots=(os.getpid(),), cores=8)


@pytest.mark.long
def test_the_same_work_costs_about_the_same_beside_busy_processes_of_others() -> None:
    # A process of another test that ends meanwhile takes its time with it, so that one measure may be too low.
    alone = max(worked(clock_of_this())[0] for _ in range(3))
    with busy_machine():
        beside, waited = max(worked(clock_of_this()) for _ in range(2))
    # Processors that are shared are a little slower; the wall's time for the same is a multiple.
    assert alone * 0.5 <= beside <= alone * 1.8
    assert beside < waited


def test_a_process_that_ended_and_one_that_runs_are_both_counted() -> None:
    clock = clock_of_this()
    worked(clock)
    ended = clock.core_seconds()
    running = subprocess.Popen([sys.executable, "-c", BUSY])
    try:
        time.sleep(1.0)
        assert clock.core_seconds() > ended > 0
    finally:
        running.kill()
        running.wait()


@pytest.mark.parametrize("roots", [(), (os.getpid(),)])
def test_where_it_is_not_known_the_cores_that_are_set_aside_are_paid_for(
    roots: tuple[int, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tariff, "_PROCESSES", tmp_path / "none")
    assert processor_seconds(roots) is None
    clock = ProcessorClock(roots=roots, cores=4)
    time.sleep(0.2)
    assert 0.8 <= clock.core_seconds() < 40
