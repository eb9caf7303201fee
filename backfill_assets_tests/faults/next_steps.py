"""Do the next steps that commands print lead on? Each is typed, literally, into a copy of the home.

A story of commands is told by chance, with the real command line in this process and without Spark. After
every refusal, and every command that failed, each alternative that its next step offers is followed in a copy of the
home: the commands that it names, an option that is to be added or left out, and what `status` and `report` say next in
turn. That has to succeed, to change the ledger, or to be refused for another reason; a refusal that comes back while
nothing has changed is a circle, and so is a step that says that it is done and leaves the same refusal.

    python -m backfill_assets_tests.faults.next_steps --count 30
    python -m backfill_assets_tests.faults.next_steps --seed 7
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shlex
import shutil
import sys
import tempfile
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from backfill_assets.application.recorder import Unrecorded
from backfill_assets.application.requests import request_of
from backfill_assets.cli import answers, app
from backfill_assets.cli.session import Surroundings
from backfill_assets.core.errors import BackfillError, Unexpected
from backfill_assets.core.next_steps import ANOTHER_PERSON, NAME, WHY, Command, Invocation, NextStep, Option
from backfill_assets.core.settings import Settings
from backfill_assets.ledger.states import RunState
from backfill_assets.report.command_line import words_of
from backfill_assets.report.runs import run_document
from backfill_assets.workspace import Workspace
from backfill_assets_tests.faults.spark_free_compute import SparkFreeCompute, without_spark
from backfill_assets_tests.faults.stories import begun
from backfill_assets_tests.faults.story_generator import (
    DAYS,
    SILVER,
    Death,
    Died,
    NothingThere,
    StoryGenerator,
    Time,
    open_home,
)

STEPS = 20
DEEPEST = 5
"""So many refusals in a row are followed; a circle that is longer is not found."""

LOOKS = frozenset({Command.STATUS, Command.REPORT, Command.HISTORY, Command.STALE})
TABLES = ("bronze.orders", *SILVER, "gold.palette")
Argv = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """What became of a command."""

    argv: Argv
    code: int
    error: BackfillError | None  #: Why it was refused, or what it failed with.
    output: str

    @property
    def failed(self) -> bool:
        return self.code == 1 and self.error is None

    @property
    def said(self) -> str:
        return self.error.message if self.error else f"exit code {self.code}"


@dataclass(kw_only=True)
class Terminal:
    """A home that commands are typed for."""

    home: Path
    time: Time
    compute: SparkFreeCompute
    shared: Mapping[str, object]

    def type(self, *argv: str, death: Death | None = None) -> Typed:
        """Types a command, as a process of its own would get it."""
        errors: list[BackfillError] = []

        def opened(settings: Settings, **_: object) -> Workspace:
            ws = open_home(settings.home, self.time)
            ws = replace(ws, reached=death.reached) if death else ws
            ws.__dict__.update(self.shared)
            return ws

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Workspace, "open", staticmethod(opened))
            patch.setattr(answers, "_explain", lambda error, as_json: errors.append(error))
            patch.setitem(app.info.context_settings or {}, "obj", _SURROUNDINGS)
            patch.setenv("BACKFILL_HOME", str(self.home))
            patch.setenv("BACKFILL_DOMAIN", "backfill_assets_tests.domains.story")
            result = CliRunner().invoke(app, list(argv), catch_exceptions=False)
        return Typed(argv=argv, code=result.exit_code, error=errors[-1] if errors else None, output=result.output)

    @contextmanager
    def copied(self, folder: Path) -> Iterator[Terminal]:
        """The same home and clock once more, to try something."""
        home = folder / f"copy-{random.getrandbits(48)}"
        shutil.copytree(self.home, home)
        try:
            yield replace(self, home=home, time=Time(at=self.time.at))
        finally:
            shutil.rmtree(home)

    @contextmanager
    def opened(self) -> Iterator[Workspace]:
        """The home as the product sees it."""
        ws = open_home(self.home, self.time)
        ws.__dict__.update(self.shared)
        try:
            yield ws
        finally:
            ws.ledger.compact_log()
            ws.close()

    def head(self) -> str:
        """How much has been recorded."""
        with self.opened() as ws, ws.ledger.read() as tx:
            return tx.events.head()


_SURROUNDINGS = Surroundings(
    recording=lambda _settings: nullcontext(Unrecorded()),
    serving=lambda *_: None,
    meanwhile=lambda: None,
)


@dataclass(kw_only=True)
class Walker:
    """Follows next steps, and counts them."""

    folder: Path
    followed: int = 0  #: How many commands were typed because a next step named them.
    #: The same by what was refused, and how many alternatives name no command.
    kinds: dict[str, int] = field(default_factory=dict)
    circles: list[str] = field(default_factory=list)  #: What did not lead on.

    def after(self, terminal: Terminal, typed: Typed) -> None:
        """Follows every alternative of what a refused or failed command says to do next."""
        self._after(terminal, typed, seen=())

    def _after(self, terminal: Terminal, typed: Typed, seen: tuple[str, ...]) -> None:
        if isinstance(typed.error, Unexpected) or typed.code not in (0, 1):
            self.circles.append(f"{shlex.join(typed.argv)} ended with {typed.code}: {typed.said} {typed.output[-400:]}")
            return
        following = self._said_next(terminal, typed)
        if following is None:
            if typed.error is not None:
                self.circles.append(f"it was not said what to do: {typed.said}")
            return
        kind = type(typed.error).__name__ if typed.error else f"{typed.argv[0]} that failed"
        for alternative in alternatives(following):
            commands = list(typed_from(alternative, typed.argv))
            if not commands:
                # To be done elsewhere, such as in a file or in the declaration of a table: counted, and not followed.
                self.kinds[f"no command: {kind}"] = self.kinds.get(f"no command: {kind}", 0) + 1
                continue
            self.kinds[kind] = self.kinds.get(kind, 0) + len(commands)
            with terminal.copied(self.folder) as tried:
                self._follow(tried, typed, commands, (*seen, typed.said), words_of(NextStep(tuple(alternative))))

    def _follow(
        self, tried: Terminal, origin: Typed, commands: Sequence[Argv], seen: tuple[str, ...], said: str
    ) -> None:
        before = tried.head()
        for argv in commands:
            self.followed += 1
            found = tried.type(*argv)
            is_moved = tried.head() != before
            if found.error is not None and found.said in seen and not is_moved:
                self.circles.append(
                    self._told(
                        origin, said, f"{shlex.join(argv)} is refused for a reason of before: {found.said}", seen
                    )
                )
                return
            if found.code != 0:
                if origin.error is None and not is_moved and found.error is not None:
                    self.circles.append(self._told(origin, said, f"which is refused: {found.said}", seen))
                if len(seen) < DEEPEST:
                    self._after(tried, found, seen if not is_moved else ())
                return
            if argv[0] in (Command.STATUS, Command.REPORT) and not is_moved and len(commands) == 1 and argv[1:]:
                shown = Typed(argv=argv, code=1, error=None, output="")
                if len(seen) < DEEPEST and self._said_next(tried, shown) is not None:
                    self._after(tried, shown, (*seen, f"see {argv[1]}"))
                return
        if origin.error is None or tried.head() != before or any(argv[0] in LOOKS for argv in commands):
            return
        again = tried.type(*origin.argv)
        if again.error is not None and again.said == origin.said:
            self.circles.append(
                self._told(origin, said, "which ended well, changed nothing, and it is refused again", seen)
            )

    def _told(self, origin: Typed, said: str, what: str, seen: tuple[str, ...]) -> str:
        return f"{shlex.join(origin.argv)}: {origin.said}\n      Next: {said}\n      {what}\n      after {seen}"

    def _said_next(self, terminal: Terminal, typed: Typed) -> NextStep | None:
        """What an error, or the document of what a command is about, says to do next."""
        if typed.error is not None:
            return typed.error.next_step
        if len(typed.argv) < 2:
            return None
        with terminal.opened() as ws:
            try:
                document: Any = request_of(ws, typed.argv[1]).document()
            except BackfillError:
                return None
            return getattr(document, "next_step", None) or getattr(getattr(document, "run", None), "next_step", None)


_OR = re.compile(r"\bor\b")
_ADD, _LEAVE = re.compile(r"\badd $"), re.compile(r"\bleave $")


def alternatives(following: NextStep) -> Iterator[Sequence[str | Invocation | Option]]:
    """The parts of a next step between its `or`s: in each, one does what it names in order."""
    some: list[str | Invocation | Option] = []
    for part in following.parts:
        if isinstance(part, str) and _OR.search(part):
            before, _, after = part.partition(_OR.search(part).group())  # type: ignore[union-attr]
            yield [*some, before]
            some = [after]
        else:
            some.append(part)
    yield some


def typed_from(parts: Sequence[str | Invocation | Option], refused: Argv) -> Iterator[Argv]:
    """The commands of an alternative: those that it names, or the refused one with an option added or left out."""
    text = ""
    for part in parts:
        match part:
            case str():
                text = part
                continue
            case Invocation() if part.command in (
                Command.UP,
                Command.DOWN,
                Command.DOCTOR,
                Command.AUDIT,
                Command.DESK,
            ):
                pass  # About the machine: they say what they find, and change nothing of what is told here.
            case Invocation():
                yield tuple(_filled(word) for word in shlex.split(words_of(part))[1:])
            case Option(_, value):
                flag, *_ = shlex.split(words_of(part))
                if _LEAVE.search(text) and flag in refused:
                    at = refused.index(flag)
                    takes = at + 1 < len(refused) and not refused[at + 1].startswith("--")
                    yield (*refused[:at], *refused[at + (2 if takes else 1) :])
                elif _ADD.search(text) and flag not in refused and str(value).isalnum():
                    yield (*refused, *shlex.split(words_of(part)))
        text = ""


def _filled(word: str) -> str:
    return {NAME: "ana", ANOTHER_PERSON: "ben", WHY: "it was wrong"}.get(word, word)


# ------------------------------------------------------------------------------------------------------------ stories


@dataclass(kw_only=True)
class CommandStoryGenerator:
    """Types commands by chance: most of them in an order that makes no sense."""

    terminal: Terminal
    chance: random.Random
    corrector: StoryGenerator

    def step(self) -> Typed:
        """Types one command; its process may die."""
        act = self.chance.choices(list(ACTS), weights=list(ACTS.values()))[0]
        argv = getattr(self, act)()
        death = Death(after=self.chance.randrange(8)) if self.chance.random() < 0.1 else None
        if self.chance.random() < 0.15:
            self.terminal.time.at += timedelta(hours=2)
        try:
            return self.terminal.type(*argv, death=death)
        except Died:
            return Typed(argv=(*argv, "# died"), code=0, error=None, output="")

    def corrects(self) -> Argv:
        days = self.chance.sample(DAYS, self.chance.choice((1, 1, 2)))
        with self.terminal.opened() as ws:
            self.terminal.compute.land(ws, {day: self.corrector._corrected(day) for day in days}, by="ana")
        return self.loads()

    def loads(self) -> Argv:
        first, last = self._days()
        return ("load", "orders", "--from", first, "--to", last, "--by", "ana")

    def plans(self) -> Argv:
        table, (first, last) = self.chance.choice(TABLES), self._days()
        kind, *more = self.chance.choice(_OPTIONS)
        if kind == "expire":
            return ("plan", kind, table, "--reason", "wrong", "--by", "ana")
        return ("plan", kind, table, "--from", first, "--to", last, "--reason", "wrong", "--by", "ana", *more)

    def plans_a_set(self) -> Argv:
        first, last = self._days()
        which = self.chance.choice(
            (("stale",), ("stale", "--changed-code"), ("because", f"bronze.orders:{first}..{last}"))
        )
        partial = ("--partial",) if self.chance.random() < 0.5 else ()
        return ("plan", *which, "--reason", "wrong", "--by", "ana", *partial)

    def runs(self) -> Argv:
        return ("run", self._name(), "--by", "ana")

    def approves(self) -> Argv:
        return ("approve", self._name(), "--by", self.chance.choice(("ben", "ben", "ana")))

    def publishes(self) -> Argv:
        return ("publish", self._name(), "--by", "ana")

    def rolls_back(self) -> Argv:
        more = ("--with-dependents",) if self.chance.random() < 0.3 else ()
        return ("rollback", self._name(), "--by", "ben", "--reason", "second thoughts", *more)

    def cancels(self) -> Argv:
        return ("cancel", self._name(), "--by", "ana", "--reason", "not wanted")

    def goes_on(self) -> Argv:
        """What the status of an open run says to do next, so that stories get somewhere."""
        with self.terminal.opened() as ws, ws.ledger.read() as tx:
            states = (RunState.PLANNED, RunState.STAGED, RunState.PASSED, RunState.FAILED, RunState.BLOCKED)
            open_runs = [run.run_id for run in tx.runs.records(states=states, limit=6)]
        with self.terminal.opened() as ws:
            for run_id in open_runs[: self.chance.choice((1, 3))][-1:]:
                following = run_document(ws, run_id).next_step
                for alternative in alternatives(following) if following else ():
                    if commands := list(typed_from(alternative, ())):
                        return commands[-1]
        return self.plans()

    def follows(self) -> Argv:
        return ("follow",)

    def proposes(self) -> Argv:
        return ("propose", "--by", "ana")

    def recovers(self) -> Argv:
        named = self.chance.random() < 0.5
        return ("recover", *([self._name(), "--now"] if named else []), "--by", "ops")

    def freezes(self) -> Argv:
        first, last = self._days()
        until = (self.terminal.time.at + timedelta(hours=self.chance.choice((-1, 3)))).strftime("%Y-%m-%dT%H:%M")
        table = self.chance.choice(TABLES)
        return ("freeze", table, "--from", first, "--to", last, "--until", until, "--reason", "audit", "--by", "ana")

    def erases(self) -> Argv:
        return ("erase", self._name(), "--by", "ana", "--reason", "private")

    def clears(self) -> Argv:
        return ("clear", self._name(), "--by", "ana")

    def looks(self) -> Argv:
        name, table, (first, _) = self._name(), self.chance.choice(TABLES), self._days()
        return self.chance.choice(
            (
                ("status", name),
                ("report", name),
                ("stale", table),
                ("history", table, "--partition", first),
            )
        )

    def _days(self) -> tuple[str, str]:
        first = self.chance.randrange(-1, len(DAYS) + 1)
        days = [DAYS[0] + timedelta(days=first), DAYS[0] + timedelta(days=first + self.chance.choice((0, 1, 2, -1)))]
        return days[0].isoformat(), days[1].isoformat()

    def _name(self) -> str:
        with self.terminal.opened() as ws, ws.ledger.read() as tx:
            runs = tx.runs.records(limit=12)
            names = [run.run_id for run in runs] + [run.request_id for run in runs if not run.is_alone]
        return self.chance.choice([*names, *names, "turnover-20260210-00000000"])


_OPTIONS: Sequence[Argv] = (
    *(("table",),) * 6,
    ("table", "--partial"),
    ("table", "--phases", "2"),
    ("table", "--phases", "9"),
    ("table", "--where", "amuont=3"),
    ("with-dependents",),
    ("table", "--mode", "dry-run"),
    ("table", "--max-cost", "1"),
    ("table", "--kind", "repair"),
    ("table", "--transform-version", "0.1.0"),
    ("table", "--references", "as-recorded"),
    ("expire",),
)

ACTS: Mapping[str, int] = {
    **{
        "goes_on": 14,
        "corrects": 4,
        "loads": 1,
        "plans": 6,
        "plans_a_set": 3,
        "runs": 6,
        "approves": 5,
        "publishes": 6,
    },
    **{"rolls_back": 4, "cancels": 2, "follows": 2, "proposes": 2, "recovers": 1, "freezes": 1, "erases": 1},
    **{"clears": 1, "looks": 2},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """A seed's commands, how many steps were followed, and what did not lead on."""

    seed: int
    commands: tuple[str, ...]
    followed: int
    kinds: Mapping[str, int]
    circles: tuple[str, ...]

    @property
    def text(self) -> str:
        told = "\n".join(f"  {number:>3} {each}" for number, each in enumerate(self.commands, 1))
        return f"seed {self.seed}\n{told}\n" + "\n".join(f"  ! {each}" for each in self.circles)


def walk(seed: int, start: Path, compute: SparkFreeCompute, folder: Path, steps: int = STEPS) -> Walk:
    """The story of a seed, with every next step of it followed."""
    home = folder / f"home-{seed}"
    shutil.copytree(start, home)
    corrector = StoryGenerator(
        home=home, chance=random.Random(seed), compute=SparkFreeCompute(files=dict(compute.files))
    )
    shared = {name: getattr(corrector.ws, name) for name in ("references", "graph", "code")}
    corrector.ws.close()
    terminal = Terminal(home=home, time=corrector.time, compute=corrector.compute, shared=shared)
    generator = CommandStoryGenerator(terminal=terminal, chance=corrector.chance, corrector=corrector)
    walker, told = Walker(folder=folder), list[str]()
    try:
        with without_spark(terminal.compute):
            for _ in range(steps):
                try:
                    typed = generator.step()
                except NothingThere:
                    continue
                told.append(f"{shlex.join(typed.argv)}: {typed.said}")
                if typed.code:
                    walker.after(terminal, typed)
                if walker.circles:
                    break
    except Exception as error:  # noqa: BLE001 - a violation of this seed
        walker.circles.append("".join(traceback.format_exception(error)[-4:]))
    finally:
        shutil.rmtree(home)
    return Walk(
        seed=seed,
        commands=tuple(told),
        followed=walker.followed,
        kinds=walker.kinds,
        circles=tuple(dict.fromkeys(walker.circles)),
    )


def walk_all(seeds: Iterable[int], steps: int = STEPS, *, progress: bool = False) -> list[Walk]:
    """The stories of some seeds, in memory if the machine has a folder there."""
    memory = Path("/dev/shm")
    place = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="backfill-steps-", dir=place) as name:
        folder = Path(name)
        with begun(folder) as (start, compute):
            walks: list[Walk] = []
            for seed in seeds:
                walks.append(walk(seed, start, compute, folder, steps))
                if progress and walks[-1].circles:
                    sys.stderr.write(f"{walks[-1].text}\n")
            return walks


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; its exit code is 1 when a next step does not lead on."""
    parser = argparse.ArgumentParser(prog="python -m backfill_assets_tests.faults.next_steps")
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--seed", type=int, help="only this one, and tell it")
    given = parser.parse_args(arguments)
    if given.seed is not None:
        (only,) = walk_all([given.seed])
        sys.stdout.write(f"{only.text}\n")
        return bool(only.circles)
    walks = walk_all(range(given.first_seed, given.first_seed + given.count), progress=True)
    kinds: dict[str, int] = {}
    for each in walks:
        for kind, many in each.kinds.items():
            kinds[kind] = kinds.get(kind, 0) + many
    sys.stdout.write("".join(f"{kind:<44}{many:>8,}\n" for kind, many in sorted(kinds.items())))
    bad = sum(bool(each.circles) for each in walks)
    followed = sum(each.followed for each in walks)
    sys.stdout.write(f"{len(walks):,} stories, {followed:,} next steps followed, {bad} stories with a circle\n")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
