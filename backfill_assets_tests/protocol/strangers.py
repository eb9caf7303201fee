"""Who writes to the table without a publication, and who changes a run or its approval in one step?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from backfill_assets_tests.protocol.state import Guard, Process, State

Has = Callable[[Guard], bool]
Step = tuple[Process, State, str]


def steps(me: Process, state: State, has: Has) -> Iterator[Step]:
    """What a foreign writer, an approver, or a process that stages a run again in one step can do now."""
    done = replace(me, at="end")
    if me.at == "end":
        return
    table = list(state.table)
    match me.kind:
        case "append":
            table[1] = table[1] | {"stranger"}
            files = state.files | {"stranger"}
        case "restore":
            old = (frozenset({"o-0"}), frozenset({"o-1"}))
            if not old[0] | old[1] <= state.files:
                yield done, state, "cannot restore"
                return
            table, files = [*old, table[2]], state.files
        case "withdraw":
            run = state.runs[me.run]
            if run.state == "PASSED":
                runs = {**state.runs, me.run: replace(run, approved=False)}
                yield done, replace(state, runs=runs), "withdraws the approval"
            return
        case "agree":
            run = state.runs[me.run]
            if not run.approved:
                runs = {**state.runs, me.run: replace(run, approved=True)}
                yield done, replace(state, runs=runs), "agrees again"
            return
        case "stage again":
            yield from _stage_again(me, state, has)
            return
        case _:
            raise AssertionError(me.kind)
    touched = frozenset(p for p in range(len(table)) if table[p] != state.table[p])
    after = replace(state, table=tuple(table), files=files, version=state.version + 1, foreign=state.foreign | touched)
    yield done, after, f"{me.kind}s"


def _stage_again(me: Process, state: State, has: Has) -> Iterator[Step]:
    """Other files take the place of the gated ones; they are gated later."""
    run = state.runs[me.run]
    if run.state == "PASSED" or (run.state == "PUBLISHING" and not has(Guard.RUN_HELD)):
        other = {p: frozenset({f"a2-{p}"}) for p in run.files}
        staged = replace(run, files=other, state="PASSED" if not has(Guard.RUN_HELD) else run.state)
        files = state.files | frozenset().union(*other.values())
        runs = {**state.runs, me.run: staged}
        yield replace(me, at="end"), replace(state, runs=runs, files=files), "stages it again"
