"""B8 and B10: how long people wait for commands.

B8 is the time from the start of `backfill run` to the first task of Spark, by Spark's own log of events, with a Spark
of its own and with the server of `backfill up`. B10 is what one corrected event costs until the third table has it:
land it and build its day, plan what depends on it, compute, agree, publish, follow, and ask for the audit and the
report. Cold is a process for every command, served the same with the server, warm is all of them in one process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import cycle
from pathlib import Path
from typing import Any

from figures import Figure, Watch
from small_world import SILVER, World, output
from typer.testing import CliRunner

from backfill_assets.main import app
from backfill_assets.planning.request import PlanRequest
from backfill_assets_tests.support import operations

BACKFILL = Path(sys.executable).with_name("backfill")
SOURCE = "case_events"
COLD, WARM, CONNECTED = 35, 10, 3
"""The goals, in seconds: a small restatement cold and warm, and the first task on a server that stays up."""

LAST_OPENED = "2025-06-26"
"""The case of the demo that is corrected was opened before, so that days of another month are not touched."""

OF_SERVER = {"BACKFILL_SPARK_MEMORY": "3g"}
"""Settings of the server that other commands do not have: these start a Spark of their own."""

Run = Callable[..., str]
"""Runs a command of the command line, and returns what it printed."""


def first_tasks(world: World, *, rounds: int, warm_ups: int) -> Sequence[Figure]:
    """B8, with a Spark of its own and with a server; on the server the first runs, which warm it up, are left out."""
    watch = Watch()
    alone, server = "B8: first task, with a Spark of its own", "B8: first task, with a server that stays up"
    with world.home("commands", days=3, items=lambda _: 100) as ws, _log_of_spark(world.folder / "events") as events:
        home = {
            "BACKFILL_HOME": str(ws.settings.home),
            "BACKFILL_DOMAIN": "bench_domain",
            "BACKFILL_FIRST_DAY": ws.settings.first_day.isoformat(),
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]),
        }

        def run(what: str, more: Mapping[str, str]) -> None:
            request = PlanRequest(table=SILVER, days=output(3), reason="benchmark", by="ana")
            run_id = operations.plan(ws, request).manifest.run_id
            began = time.time()
            _printed(["run", run_id, "--by", "ana"], {**home, **more})
            took = min(at for at in _launched(events) if at > began) - began
            watch.seconds.setdefault(what, []).append(took)
            print(f"{took:8.2f} s  {what}", flush=True)

        # Spark's defaults are not read by the server, so that it is given its log as a setting. Without that setting a
        # command is of other settings than the server, and starts a Spark of its own.
        log = f"spark.eventLog.enabled=true;spark.eventLog.dir=file://{events};spark.eventLog.compress=false"
        of_server = {"BACKFILL_SPARK_CONF": log}
        with _server({**home, **of_server}):
            for _ in range(warm_ups):
                run("warm-up", of_server)
            for _ in range(rounds):
                run(alone, {})
                run(server, of_server)
    return [
        Figure(name="B8", what="the first task, with a Spark of its own", measured=watch.seconds[alone]),
        Figure(
            name="B8",
            what="the first task, with a server that stays up",
            measured=watch.seconds[server],
            goal=CONNECTED,
        ),
    ]


def small_restatements(folder: Path, *, cases: int, rounds: int, warm_ups: int) -> Sequence[Figure]:
    """B10, in a home that the demo leaves behind."""
    environment = {"BACKFILL_HOME": str(folder / "demo")}
    _printed(["demo", "--cases", str(cases)], environment)
    watch = Watch()

    def cold(*words: str) -> str:
        return _printed(words, environment)

    def served(*words: str) -> str:
        return _printed(words, {**environment, **OF_SERVER})

    def warm(*words: str) -> str:
        done = CliRunner().invoke(app, list(words), env=environment, catch_exceptions=False)
        if done.exit_code:
            raise RuntimeError(f"backfill {' '.join(words)}: {done.output}")
        return done.stdout

    corrected = _corrected(folder)
    with _server({**environment, **OF_SERVER}):
        for number in range(-warm_ups, rounds):
            # The first warm one pays for the start of Spark, the first on the server warms that up.
            kinds: Mapping[str, Run] = {"warm": warm, "served": served, "cold": cold}
            first: Mapping[str, Run] = {"started": warm, "started on the server": served}
            for kind, run in (kinds if number >= 0 else first).items():
                with watch.on(f"{kind}: everything"):
                    _restate(run, watch, kind, *next(corrected))
    parts = [name for name in watch.seconds if not name.startswith("started")]
    goals = {"cold: everything": COLD, "served: everything": WARM, "warm: everything": WARM}
    return [
        Figure(name="B10", what=f"one corrected event, {name}", measured=watch.seconds[name], goal=goals.get(name))
        for name in parts
    ]


def _restate(run: Run, watch: Watch, kind: str, corrected: Path, days: str) -> None:
    """Lands a corrected event and brings it through the tables."""

    def step(name: str, *words: str) -> Any:
        with watch.on(f"{kind}: {name}"):
            return json.loads(run(*words, "--json"))

    step("land", "land", SOURCE, str(corrected), "--by", "ana")
    name = step("plan", "plan", "because", f"bronze.{SOURCE}:{days}", "--reason", "a correction", "--by", "ana")[
        "set_id"
    ]
    step("run", "run", name, "--by", "ana")
    step("approve", "approve", name, "--by", "ben")
    step("publish", "publish", name, "--by", "ben")
    step("follow", "follow", "--by", "ben")
    step("audit", "audit")
    step("report", "report", name)


def _corrected(folder: Path) -> Iterator[tuple[Path, str]]:
    """Files with one event of the demo, a case that was opened on the day after or not, and the days that each touches.

    Deadlines are counted in days, so that another minute of the same day would change nothing.
    """
    (exported,) = (folder / "demo").glob("demo_files/*_2025-06.jsonl")
    records = (json.loads(line) for line in exported.read_text(encoding="utf-8").splitlines() if line.startswith("{"))
    opened = [each for each in records if each.get("event_type") == "CASE_OPENED" and each.get("event_time")]
    event = max((each for each in opened if each["event_time"] < LAST_OPENED), key=lambda each: each["event_time"])
    own = datetime.fromisoformat(event["event_time"])
    after = own + timedelta(days=1)
    for number, at in enumerate(cycle((after, own))):
        path = folder / f"corrected-{number}.jsonl"
        # Every file has a content of its own: one that has landed before is ignored.
        now = {**event, "event_time": (at + timedelta(seconds=number)).isoformat()}
        path.write_text(json.dumps(now) + "\n", encoding="utf-8")
        yield path, f"{own.date()}..{after.date()}"


@contextmanager
def _server(environment: Mapping[str, str]) -> Iterator[None]:
    """A server that stays, of the home and the settings of an environment."""
    _printed(["up"], environment)
    try:
        yield
    finally:
        _printed(["down"], environment)


@contextmanager
def _log_of_spark(folder: Path) -> Iterator[Path]:
    """Every Spark that starts meanwhile, a server as well, writes its events into files of a folder."""
    folder.mkdir()
    conf = folder.with_name("conf")
    conf.mkdir()
    settings = ("spark.eventLog.enabled true", f"spark.eventLog.dir file://{folder}", "spark.eventLog.compress false")
    (conf / "spark-defaults.conf").write_text("\n".join(settings) + "\n", encoding="utf-8")
    before = os.environ.get("SPARK_CONF_DIR")
    os.environ["SPARK_CONF_DIR"] = str(conf)
    try:
        yield folder
    finally:
        if before is None:
            del os.environ["SPARK_CONF_DIR"]
        else:
            os.environ["SPARK_CONF_DIR"] = before


def _launched(events: Path) -> Iterator[float]:
    """When tasks were launched, in seconds since 1970."""
    for path in events.rglob("*"):
        if path.is_file():
            for line in path.read_text(encoding="utf-8").splitlines():
                if line.startswith('{"Event":"SparkListenerTaskStart"'):
                    yield json.loads(line)["Task Info"]["Launch Time"] / 1000


def _printed(words: Sequence[str], environment: Mapping[str, str]) -> str:
    done = subprocess.run(
        [BACKFILL, *words], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"backfill {' '.join(words)}: {done.stdout}{done.stderr}")
    return done.stdout
