"""Which states can publication reach, if everybody may stop anywhere, and is one of them wrong?

No Delta, no SQL: two partitions of one table, a ledger, files, and processes whose steps are those of
`requests/publish.py`, `recover.py`, `vacuum.py` and `lake/swap.py`. Every step is atomic, as a transaction of the
ledger or a commit to the log is; between any two steps every other process may act. A process that is never chosen
again is a dead one, and one that is chosen late was paused, so the search needs no steps for either; only leases have
to know who is asleep when time passes (`work`). A transaction that fails before it begins is a process that stopped
there. A commit may land and be reported lost.

`search` visits every reachable state of an instance, breadth first, so what it reports is a shortest way to what is
wrong. In every state these hold:

- readers see, in every partition, whole file sets that were gated, over exactly what they had been compared with; no
  commit replaces what it did not expect (no lost update), and no partition holds files of two runs;
- a publication is visible in all of its partitions or in none;
- none is abandoned and landed, none is published and not landed;
- a rollback leaves exactly the files from before what it undoes;
- the files that readers see are there, and those of runs that can still be published;
- what was cancelled is never published, and stays cancelled;
- a run is taken only from a process that slept past its lease, or by a person; who lost it changes nothing any more, so
  what has passed the gates is what one process staged and what the gates saw;
- whatever else is stopped for good, `recover` alone ends everything that is open, and then ledger and table agree, but
  for partitions that another writer changed.

Every guard can be taken away by name; `test_protocol_model` does so one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from backfill_assets_tests.protocol import strangers, work
from backfill_assets_tests.protocol.state import (
    NOTHING,
    Files,
    Guard,
    Process,
    Publication,
    Run,
    State,
    Steps,
    Table,
    Wrong,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """The protocol, without some of its guards."""

    without: frozenset[Guard] = frozenset()

    def has(self, guard: Guard) -> bool:
        """Whether a guard is in its place."""
        return guard not in self.without

    def steps(self, state: State) -> Steps:
        """Every step that a process can take now."""
        for number, process in enumerate(state.processes):
            for process_after, after, what in self._of(process, state):
                processes = (*state.processes[:number], process_after, *state.processes[number + 1 :])
                yield f"{process.name}: {what}", replace(after, processes=processes)

    def _of(self, process: Process, state: State) -> Iterator[tuple[Process, State, str]]:
        match process.kind:
            case "publish" | "rollback":
                return self._swap(process, state)
            case "recover":
                return self._recover(process, state)
            case "vacuum":
                return self._vacuum(process, state)
            case "work" | "cancel" | "take over" | "pause" | "time":
                return work.steps(process, state, self.has)
            case _:
                return strangers.steps(process, state, self.has)

    def _swap(self, me: Process, state: State) -> Iterator[tuple[Process, State, str]]:
        mine = state.publications.get(me.name)
        match me.at:
            case "begin":
                if (made := self._intent(me, state)) is None:
                    yield replace(me, at="end"), state, "is refused by the ledger"
                elif self.has(Guard.INTENT_FIRST):
                    yield replace(me, at="look"), self._begun(me, state, made), "writes its intent down"
                else:
                    hidden = replace(made, state="HIDDEN")
                    known = {**state.publications, me.name: hidden}
                    yield replace(me, at="look"), replace(state, publications=known), "writes nothing down"
            case "look":
                assert mine is not None
                yield from self._look(me, mine, state)
            case "commit":
                assert mine is not None
                yield from self._commit(me, mine, state)
            case "second half":
                assert mine is not None
                table = _exchanged(state.table, mine, [max(mine.new)])
                yield replace(me, at="acknowledge"), replace(state, table=table), "commits the rest"
            case "acknowledge":
                assert mine is not None
                yield replace(me, at="end"), self._finished(me.name, mine, state), "acknowledges"
            case "abandon":
                assert mine is not None
                if mine.state == "OPEN" or not self.has(Guard.CONDITIONAL_STEP):
                    yield replace(me, at="end"), self._abandoned(me.name, mine, state), "abandons"
                else:
                    yield replace(me, at="end"), state, "finds that it was closed"

    def _intent(self, me: Process, state: State) -> Publication | None:
        """The transaction that checks and writes the intent."""
        if self.has(Guard.ONE_OPEN) and any(p.state == "OPEN" for p in state.publications.values()):
            return None
        run = state.runs[me.run]
        if me.kind == "rollback":
            return self._intent_back(me, run, state)
        is_final = run.state == "CANCELLED" and self.has(Guard.CANCELLED_IS_FINAL)
        if is_final or run.state not in ("PASSED", "ROLLED_BACK", "CANCELLED"):
            return None
        if self.has(Guard.APPROVAL) and not run.approved:
            return None
        if self.has(Guard.GATED_FILES) and run.files != run.gated:
            return None
        if self.has(Guard.SAME_TARGET) and any(state.accepted[p][1] != held for p, held in run.compared.items()):
            return None
        if not run.approved:
            raise Wrong("a run is being published without an approval")
        if run.is_equal:
            present = {p: state.accepted[p][1] for p in run.files}
            return Publication(owner=me.name, run=me.run, state="OPEN", expected={}, versions={}, new={}, equal=present)
        return Publication(
            owner=me.name,
            run=me.run,
            state="OPEN",
            expected={p: state.accepted[p][1] for p in run.files},
            versions={p: state.accepted[p][0] for p in run.files},
            new=run.files,
        )

    def _intent_back(self, me: Process, run: Run, state: State) -> Publication | None:
        if run.state != "PUBLISHED":
            return None
        undone = next(
            (key for key, p in state.publications.items() if p.run == me.run and p.state == "PUBLISHED"), None
        )
        if undone is None:
            return None
        before = state.publications[undone]
        if self.has(Guard.SAME_TARGET) and any(state.accepted[p][1] != held for p, held in before.new.items()):
            return None
        restored = frozenset().union(*before.expected.values())
        if self.has(Guard.NOT_REMOVED) and restored & state.marked:
            return None
        return Publication(
            owner=me.name,
            run=me.run,
            state="OPEN",
            # Without the comparison, what is there now is taken away.
            expected={p: state.accepted[p][1] for p in before.new},
            versions={p: state.accepted[p][0] for p in before.new},
            new=before.expected,
            undoes=undone,
        )

    def _begun(self, me: Process, state: State, made: Publication) -> State:
        runs = dict(state.runs)
        if made.undoes is None:
            runs[me.run] = replace(runs[me.run], state="PUBLISHING")
        return replace(state, publications={**state.publications, me.name: made}, runs=runs)

    def _look(self, me: Process, mine: Publication, state: State) -> Iterator[tuple[Process, State, str]]:
        """Opens a handle; what was given up or is another than expected is refused."""
        told = state.told.get(me.name)
        if told == "LANDED":
            yield replace(me, at="acknowledge"), state, "finds that it has landed"
            return
        if told == "GIVEN_UP" and self.has(Guard.ASK_BEFORE_COMMIT):
            yield replace(me, at="abandon"), state, "finds that it was given up"
            return
        wanted = frozenset().union(*mine.new.values())
        differs = any(state.table[p] != held for p, held in {**mine.equal, **mine.expected}.items())
        if (self.has(Guard.REQUIRE_FILES) and not wanted <= state.files) or (self.has(Guard.COMPARE) and differs):
            yield replace(me, at="abandon"), state, "is refused by the table"
            return
        if not mine.new:
            yield replace(me, at="acknowledge"), state, "has compared, and has nothing to commit"
            return
        yield replace(me, at="commit", seen_version=state.version), state, "has compared"

    def _commit(self, me: Process, mine: Publication, state: State) -> Iterator[tuple[Process, State, str]]:
        yield replace(me, at=self._when_unknown), state, "loses the connection before it commits"
        if state.version != me.seen_version and self.has(Guard.ONE_HANDLE):
            yield replace(me, at="look"), state, "lost the race"
            return
        _require_right(mine, state)
        parts = list(mine.new) if self.has(Guard.ONE_COMMIT) else [min(mine.new)]
        told = dict(state.told)
        if self.has(Guard.APPLICATION_TRANSACTION):
            told[me.name] = "LANDED"
        after = replace(
            state,
            table=_exchanged(state.table, mine, parts),
            version=state.version + 1,
            told=told,
            landed={**state.landed, me.name: state.table},
        )
        if parts != list(mine.new):
            yield replace(me, at="second half"), after, "commits the first half"
            return
        yield replace(me, at="acknowledge"), after, "commits"
        yield replace(me, at=self._when_unknown), after, "commits, and loses the connection"

    @property
    def _when_unknown(self) -> str:
        return "end" if self.has(Guard.UNKNOWN_STAYS_OPEN) else "abandon"

    def _finished(self, name: str, mine: Publication, state: State) -> State:
        """The transaction of the acknowledgement."""
        if mine.state == "PUBLISHED" and self.has(Guard.FINISH_TWICE):
            return state
        if mine.state == "ABANDONED" and not mine.new:
            return state  # A recovery was faster; nothing had landed.
        if mine.state == "ABANDONED" and self.has(Guard.CONDITIONAL_STEP):
            raise Wrong(f"{name} landed, and is abandoned")
        accepted, highest = list(state.accepted), list(state.highest)
        for p, version in mine.versions.items():
            if accepted[p][0] != version:
                raise Wrong(f"{name} landed over version {version} of {p}, and {accepted[p][0]} is the accepted one")
            if mine.undoes is None:
                highest[p] += 1
                accepted[p] = (highest[p], mine.new[p])
            else:
                accepted[p] = (state.publications[mine.undoes].versions[p], mine.new[p])
        publications = {**state.publications, name: replace(mine, state="PUBLISHED")}
        runs = dict(state.runs)
        if mine.undoes is not None:
            publications[mine.undoes] = replace(publications[mine.undoes], state="ROLLED_BACK")
            runs[mine.run] = replace(runs[mine.run], state="ROLLED_BACK", approved=False)
        else:
            if runs[mine.run].state != "PUBLISHING" and self.has(Guard.INTENT_FIRST):
                raise Wrong(f"{name} landed, and its run is {runs[mine.run].state}")
            runs[mine.run] = replace(runs[mine.run], state="PUBLISHED")
        return replace(state, publications=publications, runs=runs, accepted=tuple(accepted), highest=tuple(highest))

    def _abandoned(self, name: str, mine: Publication, state: State) -> State:
        runs = dict(state.runs)
        if mine.undoes is None:
            runs[mine.run] = replace(runs[mine.run], state="PASSED")
        return replace(state, publications={**state.publications, name: replace(mine, state="ABANDONED")}, runs=runs)

    def _recover(self, me: Process, state: State) -> Iterator[tuple[Process, State, str]]:
        if me.at == "begin":
            for name, publication in state.publications.items():
                if publication.state == "OPEN":
                    yield replace(me, at="look", held=name), state, f"finds {name}"
            for name, run in state.runs.items():
                if work.may_be_given_up(run, self.has):
                    runs = {**state.runs, name: work.given_up(run)}
                    yield me, replace(state, runs=runs), f"gives {name} up"
            return
        held = state.publications[me.held]
        told = state.told.get(me.held)
        match me.at:
            case "look" if told == "LANDED":
                yield replace(me, at="acknowledge"), state, "finds that it landed"
            case "look" if told == "GIVEN_UP" or not self.has(Guard.FENCE):
                yield replace(me, at="abandon"), state, "finds that it did not land"
            case "look":
                yield replace(me, at="fence", seen_version=state.version), state, "has looked"
            case "fence" if state.version != me.seen_version and self.has(Guard.FENCE_ONE_HANDLE):
                yield replace(me, at="look"), state, "lost the race"
            case "fence":
                given_up = {**state.told, me.held: "GIVEN_UP"}
                after = replace(state, told=given_up, version=state.version + 1)
                yield replace(me, at="abandon"), after, "gives it up in the table"
            case "acknowledge":
                yield replace(me, at="begin", held=""), self._finished(me.held, held, state), "acknowledges"
            case "abandon" if held.state == "OPEN" or not self.has(Guard.CONDITIONAL_STEP):
                yield replace(me, at="begin", held=""), self._abandoned(me.held, held, state), "abandons"
            case "abandon":
                yield replace(me, at="begin", held=""), state, "finds that it was closed"

    def _vacuum(self, me: Process, state: State) -> Iterator[tuple[Process, State, str]]:
        """Every horizon has passed: only what is needed now is kept."""
        match me.at:
            case "begin":
                yield replace(me, at="judge", listed=state.files), state, "lists"
            case "judge":
                going = self._going(me.listed if self.has(Guard.VACUUM_LISTS_FIRST) else None, state)
                if seen := going & frozenset().union(*state.table):
                    raise Wrong(f"vacuum takes {sorted(seen)} for superfluous, which readers see")
                yield replace(me, at="mark", going=going, rests_on=_states(state)), state, "judges"
            case "mark" if self.has(Guard.VACUUM_MOVED) and me.rests_on != _states(state):
                yield replace(me, at="begin", going=NOTHING), state, "finds that something has begun or ended"
            case "mark":
                needed = {file for _, files in state.accepted for file in files}
                needed.update(
                    f for p in state.publications.values() if p.state == "OPEN" for each in p.new.values() for f in each
                )
                if lost := me.going & needed:
                    raise Wrong(f"vacuum marks {sorted(lost)} as removed, which readers see or are about to")
                yield replace(me, at="remove"), replace(state, marked=state.marked | me.going), "marks"
            case "remove":
                shown = frozenset().union(*state.table) if self.has(Guard.VACUUM_LOOKS_AGAIN) else NOTHING
                after = replace(state, files=state.files - (me.going - shown))
                yield replace(me, at="end"), after, "removes"

    def _going(self, listed: Files | None, state: State) -> Files:
        if self.has(Guard.VACUUM_OPEN) and any(p.state == "OPEN" for p in state.publications.values()):
            return NOTHING
        kept = {file for _, files in state.accepted for file in files}
        if self.has(Guard.VACUUM_LIVE):
            kept.update(file for files in state.table for file in files)
        if self.has(Guard.VACUUM_CANDIDATES):
            possible = [run for run in state.runs.values() if run.state in work.CAN_BE_PUBLISHED]
            kept.update(file for run in possible for files in run.files.values() for file in files)
        if self.has(Guard.VACUUM_BEING_WRITTEN):
            written = tuple(f"{name}." for name, run in state.runs.items() if run.state in work.AT_WORK)
            kept.update(file for file in state.files if file.startswith(written))
        # A file that came in after the listing is not judged; without the order, whatever is staged by now is.
        return (listed if listed is not None else state.files | {"a2-0", "a2-1"}) - kept


def _states(state: State) -> tuple[tuple[str, str], ...]:
    """The facts of vacuum's judgement: the states of publications and runs."""
    named = {**{name: p.state for name, p in state.publications.items()}, **{n: r.state for n, r in state.runs.items()}}
    return tuple(sorted(named.items()))


def _exchanged(table: Table, mine: Publication, parts: list[int]) -> Table:
    """What a commit leaves: the expected files go, the new ones come; what else is there stays."""
    return tuple((held - mine.expected[p]) | mine.new[p] if p in parts else held for p, held in enumerate(table))


def _require_right(mine: Publication, state: State) -> None:
    """What must be true of a commit at the instant when it lands."""
    if mine.owner in state.landed:
        raise Wrong(f"{mine.owner} lands a second time")
    for p, expected in mine.expected.items():
        if state.table[p] != expected:
            raise Wrong(
                f"{mine.owner} replaces what it did not expect in {p}: an update is lost, or there is a mixture"
            )
    if mine.undoes is None:
        run = state.runs[mine.run]
        for p, held in run.compared.items():
            if state.table[p] != held:
                raise Wrong(f"{mine.owner} publishes {mine.run} over what it was not compared with")
        if dict(mine.new) != dict(run.gated):
            raise Wrong(f"{mine.owner} publishes files that were not gated")
    elif mine.undoes in state.landed:
        before = state.landed[mine.undoes]
        if any(before[p] != new for p, new in mine.new.items()):
            raise Wrong(f"{mine.owner} does not bring back what {mine.undoes} replaced")
