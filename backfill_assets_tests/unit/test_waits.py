"""Whatever waits says for whom: every call that can block stands in `waiting`, or here with a reason."""

from __future__ import annotations

import ast
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from backfill_assets.core import progress
from backfill_assets.core.progress import hearing_waits, waiting
from backfill_assets.core.settings import PROJECT_ROOT

PACKAGE = PROJECT_ROOT / "backfill_assets"

BLOCKS = {"sleep", "flock", "wait", "consume", "poll", "join", "acquire"}
"""Names of calls that may wait for something else than this process's own work."""

LOCKS = ("pg_advisory", "BEGIN IMMEDIATE")

SAID_OTHERWISE = {
    "capture/kafka/stream.py::_messages": "`waiting` begins with the first silence, and ends with the next record",
    "capture/kinesis/client.py::_asked": "called within `waiting`",
    "capture/kinesis/client.py::records": "less than a second between two requests",
    "capture/files/fetched_files.py::_from_web": "called within `waiting`",
    "capture/files/fetched_files.py::_is_free": "the lock is had at once or not",
    "capture/files/fetched_files.py::_new_folder": "the lock is on a new file",
    "capture/sftp/client.py::__exit__": "of a thread whose loop was told to end",
    "candidates/stage.py::_keep_pace": "its progress says so before",
    "cli/console.py::break_silence": "this is what speaks",
    "cli/console.py::_broken_silence": "a second at most",
    "examples/demo_topic.py": "the demo of a topic prints what it does",
    "cli/watch.py::watch_status": "it is there to look again and again",
    "core/lease.py::beat": "a thread of its own, for which nothing waits",
    "core/lease.py::renewed": "a second at most",
    "core/progress.py::say": "this is what speaks",
    "core/spark_server.py::_started": "of a process that was told to end",
    "application/output_files.py::_is_left": "the lock is had at once or not",
    "application/output_files.py::replacing": "the lock is on a new file",
    "examples/kafka_broker.py::stop": "of a process that was told to end",
    "capture/kafka/replay.py::_produce": "a tenth of a second for the buffer, again and again as records leave it",
    "capture/kafka/replay.py::_fatal": "a second at most",
    "capture/kinesis/replay.py::_put": "records go on: its progress says how many",
    "capture/kinesis/replay.py::_request": "asks how long, and waits for nothing",
    "desk/pages.py": "a page answers after its patience, and says that it goes on",
    "files/admission.py": "threads of this process, which begin together",
    "ledger/store.py::upgrade": "`waiting` ends as soon as the lock is held",
    "ledger/connection.py": "the constant of a transaction, which `Ledger.write` wraps",
    "orchestration/event_log.py::claim_concurrency_slot": "Dagster's log of the run names the pool and its runs",
}


def _unsaid(path: Path) -> Iterator[str]:
    """The calls of a module that may block and do not stand in `with waiting(...)`."""
    place = path.relative_to(PACKAGE).as_posix()

    def looked(node: ast.AST, function: str, is_said: bool) -> Iterator[str]:
        if isinstance(node, ast.FunctionDef):
            function = node.name
        if isinstance(node, ast.With):
            is_said = is_said or any("waiting(" in ast.unparse(item.context_expr) for item in node.items)
        if isinstance(node, ast.Call) and not is_said:
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            # Of texts and of tables something is joined; of a thread nothing.
            if name in BLOCKS and not (name == "join" and node.args):
                yield f"{place}::{function}"
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and any(lock in node.value for lock in LOCKS):
            is_prose = node.value.count(" ") > 8
            if not is_said and not is_prose:
                yield f"{place}::{function}"
        for child in ast.iter_child_nodes(node):
            yield from looked(child, function, is_said)

    yield from looked(ast.parse(path.read_text(encoding="utf-8")), "", False)


@pytest.mark.long
def test_whatever_can_wait_says_for_whom_or_has_a_reason() -> None:
    found = {each for path in PACKAGE.rglob("*.py") for each in _unsaid(path)}
    unsaid = {each for each in found if each not in SAID_OTHERWISE and each.partition("::")[0] not in SAID_OTHERWISE}
    assert not sorted(unsaid)
    named = found | {each.partition("::")[0] for each in found}
    assert not SAID_OTHERWISE.keys() - named, "reasons for what is no longer there"


def test_what_waits_long_enough_says_for_whom_again_and_again_and_what_does_not_says_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(progress, "SAID_AFTER_S", 0.05)
    monkeypatch.setattr(progress, "AGAIN_AFTER_S", 0.05)
    heard: list[str] = []
    holders = iter(["ada", "ben", *["ben"] * 1000])
    with hearing_waits(heard.append):
        with waiting(lambda: "too short"):
            pass
        with waiting(lambda: f"for {next(holders)}"):
            until = time.monotonic() + 10
            while len(heard) < 2 and time.monotonic() < until:
                time.sleep(0.01)
        with waiting(lambda: str(1 // 0)):
            time.sleep(0.1)
    assert heard[:2] == ["for ada", "for ben"]
    assert "too short" not in heard
