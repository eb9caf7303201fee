"""Which states of the protocol can be reached, and is one of them wrong?"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace

from backfill_assets_tests.protocol import work
from backfill_assets_tests.protocol.model import Model
from backfill_assets_tests.protocol.state import Process, State, Wrong


def require_right(state: State) -> None:
    """What must be true in every state.

    Raises:
        Wrong: Something is not.
    """
    for name, publication in state.publications.items():
        if publication.state == "ABANDONED" and name in state.landed:
            raise Wrong(f"{name} landed, and is abandoned")
        if publication.state == "PUBLISHED" and publication.new and name not in state.landed:
            raise Wrong(f"{name} is published, and did not land")
        if state.told.get(name) == "GIVEN_UP" and name in state.landed:
            raise Wrong(f"{name} landed, and the table says that it was given up")
    for process in state.processes:
        if process.at == "second half":
            raise Wrong(f"readers see {process.name} in one partition and not in the other")
    shown = frozenset().union(*state.table)
    if not shown <= state.files:
        raise Wrong(f"readers miss {sorted(shown - state.files)}")
    for name, run in state.runs.items():
        needed = frozenset().union(*run.files.values())
        if run.state in work.CAN_BE_PUBLISHED and needed & state.marked - state.files:
            raise Wrong(f"vacuum took the candidate of {name}")
        _require_one_worker(state, name)


def _require_one_worker(state: State, name: str) -> None:
    """Of those who work on a run one has it, and what one of them staged is what was gated; none works for nothing."""
    run = state.runs[name]
    if (run.state in work.AT_WORK) != bool(run.attempt):
        raise Wrong(f"{name} is {run.state}, and its process is {run.attempt!r}")
    if run.worker and run.state == "PASSED" and dict(run.files) != dict(run.gated):
        raise Wrong(f"{name} has passed, with files that the gates have not seen")
    of_run = {key: p for key, p in state.publications.items() if p.run == name and p.undoes is None}
    standing = [key for key, p in of_run.items() if p.state in ("OPEN", "PUBLISHED")]
    if run.cancelled and (run.state != "CANCELLED" or standing):
        raise Wrong(f"{name} was cancelled, is {run.state}, and has the publications {standing}")


def stopped(model: Model, state: State) -> State:
    """The state when every process has stopped for good, every lease has ended, and `recover` is about to run."""
    recovery = Process(name="the last recovery", kind="recover")
    alone = replace(state, processes=(recovery,), paused=frozenset(run.attempt for run in state.runs.values()))
    return work.time_passes(alone, model.has)


def require_settled(model: Model, present: State) -> None:
    """What must be true when `recover` has run to its end in a state that has stopped.

    Raises:
        Wrong: Something is still open, or ledger and table do not agree.
    """
    for _ in range(40):
        steps = list(model.steps(present))
        if not steps:
            break
        present = steps[0][1]
        require_right(present)
    if still := [name for name, p in present.publications.items() if p.state == "OPEN"]:
        raise Wrong(f"{still} cannot be ended")
    if working := [name for name, run in present.runs.items() if run.state in work.AT_WORK]:
        raise Wrong(f"no process works on {working}, and nothing ends it")
    for p, (_, files) in enumerate(present.accepted):
        if p not in present.foreign and present.table[p] != files:
            raise Wrong(f"the ledger accepts {sorted(files)} in {p}, and readers see {sorted(present.table[p])}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a search came to: how many states there are, and the way to the first wrong one."""

    states: int
    wrong: str | None
    way: tuple[str, ...]


def search(model: Model, first: State) -> Found:
    """Visits every reachable state."""
    queue: deque[State] = deque([first])
    came: dict[State, tuple[State, str] | None] = {first: None}
    settled: set[State] = set()
    """States that differ only in what processes were about to do stop alike."""
    while queue:
        state = queue.popleft()
        try:
            require_right(state)
            if (present := stopped(model, state)) not in settled:
                require_settled(model, present)
                settled.add(present)
            following = list(model.steps(state))
        except Wrong as wrong:
            return Found(states=len(came), wrong=str(wrong), way=_way(came, state))
        for what, after in following:
            if after not in came:
                came[after] = (state, what)
                queue.append(after)
    return Found(states=len(came), wrong=None, way=())


def _way(came: Mapping[State, tuple[State, str] | None], state: State) -> tuple[str, ...]:
    steps: list[str] = []
    while (before := came[state]) is not None:
        state, what = before
        steps.append(what)
    return tuple(reversed(steps))
