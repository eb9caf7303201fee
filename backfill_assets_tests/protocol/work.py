"""Who stages and gates a run, under which lease, and what takes the run away from them.

Steps of `candidates/stage.py`, `candidates/evaluate.py`, `candidates/run_lease.py` and `publication/cancel.py`. A
process that works renews its lease, unless it was paused; when time passes, leases end that were not renewed. One that
lost its run may still be there and acts at its next step, as one that was paused and wakes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from backfill_assets_tests.protocol.state import Guard, Process, Run, State, Wrong

Has = Callable[[Guard], bool]
Step = tuple[Process, State, str]

AT_WORK = ("STAGING", "GATING")
STAGEABLE = ("PLANNED", "STAGING", "STAGED", "GATING", "PASSED", "FAILED", "ROLLED_BACK")
GATEABLE = ("STAGED", "GATING", "PASSED")
CANCELLABLE = ("PLANNED", "STAGING", "STAGED", "GATING", "PASSED", "FAILED", "ROLLED_BACK")
CAN_BE_PUBLISHED = ("PLANNED", "STAGING", "STAGED", "GATING", "PASSED", "FAILED", "PUBLISHING")


def steps(me: Process, state: State, has: Has) -> Iterator[Step]:
    """What a process that works, waits, cancels or takes over can do now."""
    if me.at == "end":
        return
    done = replace(me, at="end")
    run = state.runs.get(me.run)
    match me.kind:
        case "work":
            assert run is not None
            yield from _work(me, run, replace(state, paused=state.paused - {me.name}), has)
        case "cancel":
            assert run is not None
            if run.state in CANCELLABLE or (run.state == "PUBLISHING" and not has(Guard.CANCEL_UNSEEN)):
                cancelled = replace(run, state="CANCELLED", attempt="", lease="", cancelled=True)
                yield done, _with(state, me.run, cancelled), f"cancels {me.run}"
            else:
                yield done, state, "may not cancel it"
        case "take over":
            assert run is not None
            if run.state in AT_WORK:
                state = replace(state, excused=state.excused | {run.attempt})
                yield done, _with(state, me.run, given_up(run)), f"takes {me.run} from {run.attempt}"
        case "pause":
            yield done, replace(state, paused=state.paused | {me.run}), f"stops {me.run} for a while"
        case "time":
            yield done, time_passes(state, has), "lets the time of a lease pass"


def time_passes(state: State, has: Has) -> State:
    """Leases end that are not renewed; a paused process is excused."""
    runs = dict(state.runs)
    excused = state.excused
    for name, run in state.runs.items():
        is_paused = run.attempt in state.paused
        if run.lease == "alive" and (is_paused or not has(Guard.LEASE_RENEWED)):
            runs[name] = replace(run, lease="ended")
            excused |= {run.attempt} if is_paused else frozenset()
    return replace(state, runs=runs, excused=excused)


def given_up(run: Run) -> Run:
    """A run whose process is gone, so that it can be run again."""
    return replace(run, state="FAILED", attempt="", lease="")


def may_be_given_up(run: Run, has: Has) -> bool:
    """Whether `recover` ends the work on a run."""
    is_free = run.lease != "alive" or not has(Guard.LEASE_LEFT_ALONE)
    return run.state in AT_WORK and is_free and has(Guard.LEASE_GIVEN_UP)


def _with(state: State, name: str, run: Run) -> State:
    return replace(state, runs={**state.runs, name: run})


def _work(me: Process, run: Run, state: State, has: Has) -> Iterator[Step]:
    match me.at:
        case "begin":
            yield from _taken(me, run, state, has, "STAGING", STAGEABLE)
        case "write":
            written = frozenset(f for files in _mine(me, run).values() for f in files)
            yield replace(me, at="record"), replace(state, files=state.files | written), "writes files"
        case "record":
            if (lost := _lost(me, run, state, has, "STAGING")) is not None:
                yield lost
                return
            staged = replace(run, state="STAGED", files=_mine(me, run), worker=me.name, attempt="", lease="")
            yield replace(me, at="take again"), _with(state, me.run, staged), "has staged it"
        case "take again":
            yield from _taken(me, run, state, has, "GATING", GATEABLE)
        case "gate":
            if (lost := _lost(me, run, state, has, "GATING")) is not None:
                yield lost
                return
            gated = {p: files for p, files, _ in me.measured}
            compared = {p: accepted for p, _, accepted in me.measured}
            passed = replace(run, state="PASSED", gated=gated, compared=compared, attempt="", lease="")
            after = replace(me, kind="publish", at="begin", measured=())
            yield after, _with(state, me.run, passed), "has gated it, and will publish it"


def _mine(me: Process, run: Run) -> dict[int, frozenset[str]]:
    return {p: frozenset({f"{me.run}.{me.name}-{p}"}) for p in run.compared}


def _taken(me: Process, run: Run, state: State, has: Has, to: str, possible: tuple[str, ...]) -> Iterator[Step]:
    """`RunWrites.take`: refused while another process's lease lasts."""
    is_possible = (
        run.state in possible
        or (run.state == "CANCELLED" and not has(Guard.CANCELLED_IS_FINAL))
        or (run.state == "PUBLISHING" and not has(Guard.RUN_HELD))
    )
    if not is_possible or (run.lease == "alive" and has(Guard.LEASE_LEFT_ALONE)):
        yield replace(me, at="end"), state, f"may not begin {to}"
        return
    taken = replace(run, state=to, attempt=me.name, lease="alive")
    if to == "STAGING":
        yield replace(me, at="write"), _with(state, me.run, replace(taken, files={}, gated={})), "begins to stage"
        return
    measured = tuple((p, files, state.accepted[p][1]) for p, files in run.files.items())
    yield replace(me, at="gate", measured=measured), _with(state, me.run, taken), "begins to gate"


def _lost(me: Process, run: Run, state: State, has: Has, present: str) -> Step | None:
    """`RunReads.require_holder` and the transitions; only who slept or was cancelled may have lost the run."""
    if (run.attempt == me.name or not has(Guard.HOLDER)) and run.state == present:
        return None
    if not run.cancelled and me.name not in state.excused:
        raise Wrong(f"{me.name} was working and alive, and lost {me.run}")
    return replace(me, at="end"), state, "finds that it lost the run"
