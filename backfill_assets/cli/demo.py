"""The command `demo`: the story of the example, whose commands are carried out as if they were typed.

A story is a page of the example's package (`demo.md`, or `demo_kafka.md`): headings, sentences, and the commands, which
are indented. Those that begin with `topic` are of the demo alone: what others do with it meanwhile
(`examples/demo_topic.py`).
"""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, redirect_stdout
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from backfill_assets.cli.answers import Json, answering, app, number, print_json
from backfill_assets.cli.session import opened
from backfill_assets.core.next_steps import Command, do
from backfill_assets.core.places import InvalidSetting
from backfill_assets.core.settings import EXAMPLE, EXAMPLE_REFERENCE, IS_CHECKOUT, default_home
from backfill_assets.core.wording import word_of_a_shell
from backfill_assets.files.local import LocalFiles
from backfill_assets.report.command_line import words_of

if TYPE_CHECKING:
    from rich.console import Console

    from backfill_assets.workspace import Workspace


class Source(StrEnum):
    """Where the events of the story come from."""

    FILES = "files"
    KAFKA = "kafka"

    @property
    def domain(self) -> str:
        """The module of the domain."""
        return EXAMPLE if self is Source.FILES else f"{EXAMPLE}.from_topic"

    @property
    def story(self) -> str:
        """The page of the example's package that tells it."""
        return "demo.md" if self is Source.FILES else "demo_kafka.md"


ASKS = "ana"
MARKER = "DEMO"
DISPUTED = "disputed_cases.csv"
"""The file of the example's package with keys that a reviewer wants to see."""

_MADE_BY_A_DEMO = (
    *("lake", "landing", "landing_in_progress", "dagster", "demo_files", "reference_archive", "logs", "reports"),
    *("ledger.db", "ledger.db-shm", "ledger.db-wal", "last_audit.json", MARKER, DISPUTED),
)
_COMMAND = "    "
_OF_THE_TOPIC = "topic"
_TOPICS = f"{EXAMPLE.rpartition('.')[0]}.demo_topic"
"""The module of the topic of `demo --source kafka`, which needs a broker and its client."""
_ENDS_WITH_1 = ("    # refused", "    # blocked")


class Topic(Protocol):
    """The topic of a story."""

    def carried_out(self, words: Sequence[str]) -> Mapping[str, Any]:
        """The output of a command of the story that begins with `topic`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoStep:
    """A command of the demo, and its answer."""

    command: str  #: The command, as it can be typed.
    exit_code: int  #: How it ended; 1 where the demo shows what is refused.
    answer: Mapping[str, Any]  #: The document of the command.


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoReport:
    """The result of the demo."""

    home: str  #: The folder that holds everything.
    steps: tuple[DemoStep, ...]  #: Its commands, in order.
    elapsed_s: float  #: How long it took, in seconds.


@app.command()
def demo(
    cases: Annotated[int | None, number("cases", least=50, help="How many cases to generate.")] = None,
    fresh: Annotated[bool, typer.Option(help="Start over even if this home holds files that you landed.")] = False,
    source: Annotated[
        Source, typer.Option(help="Where events come from: files, or a topic of a broker that Maven downloads.")
    ] = Source.FILES,
    as_json: Json = False,
) -> None:
    """Correct a wrong history: land, publish, find the defect, restate, roll back, publish again."""
    began = time.monotonic()

    with answering(as_json) as answer:
        console = answer.console
        if (named := os.environ.setdefault("BACKFILL_DOMAIN", source.domain)) != source.domain:
            why = f"is {named}, which is another domain than the demo's"
            raise InvalidSetting(setting="BACKFILL_DOMAIN", why=why, wanted=source.domain)
        os.environ.setdefault("BACKFILL_HOME", str(default_home() if IS_CHECKOUT else Path.cwd() / "backfill_demo"))
        if topics := import_module(_TOPICS) if source is Source.KAFKA else None:
            topics.choose_port()
        with opened(begins=True) as session:
            prepare_home(session.ws, fresh=fresh)
        with opened() as session, ExitStack() as running:
            home, topic = session.ws.settings.home, None
            if topics:
                topic = running.enter_context(topics.demo_topic(partial(print, file=sys.stderr), cases=cases))
            else:
                generator = import_module(f"{EXAMPLE}.generator")
                generator.write_demo_files(home / "demo_files", cases=cases or generator.DEFAULT_CASES)
            steps = tuple(_told(session.ws, source, None if as_json else console, topic))
        elapsed_s = round(time.monotonic() - began, 1)
        if as_json:
            print_json(DemoReport(home=str(home), steps=steps, elapsed_s=elapsed_s))
        else:
            console.print(
                f"\nThe demo took {elapsed_s:.0f} s, and everything is in {home}. To look around:", markup=False
            )
            console.print(*_typed(home, source), sep="\n", highlight=False, soft_wrap=True, markup=False)


def prepare_home(ws: Workspace, *, fresh: bool) -> None:
    """Empties a home, and puts the reference files there. Only what an earlier demo made is ever removed.

    Args:
        fresh: Remove what others landed after an earlier demo as well.

    Raises:
        Refused: The home holds work that no demo made, or an earlier demo may have written to places outside it.
    """
    settings, home = ws.settings, ws.settings.home
    with ws.ledger.read() as tx:
        imports = tx.imports.records()
        is_used = bool(imports or tx.runs.records(limit=1))
    if is_used and not (home / MARKER).exists():
        raise InvalidSetting(
            setting="BACKFILL_HOME", why=f"is {home}, which holds work that no demo made", wanted="an empty folder"
        )
    foreign = next((record for record in imports if record.landed_by != ASKS), None)
    if foreign and not fresh:
        raise InvalidSetting(
            setting="BACKFILL_HOME",
            why=f"is {home}, and {foreign.landed_by} landed {foreign.original_path} there after an earlier demo",
            wanted="an empty folder, or add --fresh, which removes it",
        )
    places = {
        "BACKFILL_LEDGER_URL": Path(settings.ledger_url.removeprefix("sqlite:///")),
        "BACKFILL_LAKE": settings.lake,
        "BACKFILL_LANDING": settings.landing,
    }
    outside = [n for n, place in places.items() if not (isinstance(place, Path) and place.is_relative_to(home))]
    if outside and (is_used or any(ws.lake.exists(table) for table in ws.domain.tables)):
        raise InvalidSetting(
            setting=" and ".join(outside),
            why=f"may hold an earlier demo, and a demo removes nothing outside {home}",
            wanted="places without anything, and BACKFILL_HOME to an empty folder",
        )
    ws.close()
    for path in (home / name for name in _MADE_BY_A_DEMO):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    home.mkdir(parents=True, exist_ok=True)
    made = f"Everything here was made by `{words_of(do(Command.DEMO))}`, and the next one starts anew.\n"
    (home / MARKER).write_text(made, encoding="utf-8")
    (home / DISPUTED).write_bytes((_folder() / DISPUTED).read_bytes())
    # Copied: of a home that somebody takes elsewhere nothing stays behind, and an edit in it changes no package.
    is_of_package = settings.reference == EXAMPLE_REFERENCE
    files = LocalFiles(home / "reference") if is_of_package else ws.reference_files
    if next(files.listed(), None) is None:
        for path in EXAMPLE_REFERENCE.iterdir():
            files.put_if_absent(path.name, path.read_bytes())


def _folder() -> Path:
    return Path(str(import_module(EXAMPLE).__file__)).parent


def story(source: Source = Source.FILES) -> Iterator[str]:
    """The blocks of a story: each a heading, a command, or sentences in one line."""
    for block in (_folder() / source.story).read_text(encoding="utf-8").split("\n\n"):
        yield from block.splitlines() if block.startswith(_COMMAND) else [" ".join(block.split("\n"))]


def _told(ws: Workspace, source: Source, console: Console | None, topic: Topic | None) -> Iterator[DemoStep]:
    """Tells a story.

    Raises:
        Exit: A command ended otherwise than in the story, and has said why.
    """
    from rich.rule import Rule
    from rich.text import Text

    names = {name: str(ws.settings.home / name) for name in ("demo_files", DISPUTED)}
    for block in story(source):
        if not block.startswith(_COMMAND):
            if console and block.startswith("#"):
                console.print("", Rule(Text(block.lstrip("# "), style="bold"), align="left"))
            elif console:
                console.print(block, highlight=False, markup=False)
            continue
        typed = re.sub("|".join(names), lambda found: word_of_a_shell(names[found[0]]), block)
        words: list[str] = []
        for word in shlex.split(typed, comments=True):
            words += sorted(map(str, Path(word).parent.iterdir())) if word.endswith("/*") else [word]
        if console:
            console.print(f"\n{typed}", style="bold", highlight=False, soft_wrap=True, markup=False)
        if words[0] == _OF_THE_TOPIC and topic is not None:
            found = topic.carried_out(words[1:])
            if console:
                console.print(", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in found.items()))
            else:
                yield DemoStep(command=typed.strip(), exit_code=0, answer=found)
            continue
        code, answer = _carried_out(words[1:], as_json=console is None)
        if code != (1 if any(each in block for each in _ENDS_WITH_1) else 0):
            sys.stderr.write(answer)
            raise typer.Exit(code or 1)
        with ws.ledger.read() as tx:
            names["FOLLOW_UP"] = next((run.run_id for run in tx.runs.records(limit=1)), "")
        if words[1] == "plan":
            names["RUN"] = names["FOLLOW_UP"]
        if console is None:
            yield DemoStep(command=typed.strip(), exit_code=code, answer=json.loads(answer))


def _carried_out(words: Sequence[str], *, as_json: bool) -> tuple[int, str]:
    """The exit code of a command, and its document if it is asked for one; otherwise the command prints its answer."""
    command, out = typer.main.get_command(app), io.StringIO()
    if not as_json:
        return command.main(words, "backfill", standalone_mode=False) or 0, ""
    with redirect_stdout(out):
        code = command.main([*words, "--json"], "backfill", standalone_mode=False) or 0
    return code, out.getvalue()


def _typed(home: Path, source: Source) -> Iterator[str]:
    """The commands to type for looking around: the variable that names this home to a shell, and some others."""
    named = {"BACKFILL_HOME": word_of_a_shell(str(home)), "BACKFILL_DOMAIN": source.domain}
    if not shutil.which("backfill"):
        named["PATH"] = f'{word_of_a_shell(str(Path(sys.argv[0]).parent.absolute()))}:"$PATH"'
    yield f"  export {' '.join(f'{name}={value}' for name, value in named.items())}"
    yield f"  {words_of(do(Command.STATUS))}"
    yield f"  {words_of(do(Command.DESK))}    shows tables, runs and publications in a browser"
    if IS_CHECKOUT and home == default_home():
        yield "  make dev    shows the same in Dagster"
    if source is Source.FILES:
        may = date(2025, 5, 1), date(2025, 5, 31)
        why = "deadlines were computed in UTC"
        first = do(Command.PLAN_TABLE, "silver.case_sla_daily", first=may[0], last=may[1], reason=why, by=ASKS)
        yield f"Your first restatement, of a month that was left as it was:\n  {words_of(first)}"
    yield f"A project of your own, which runs at once:\n  {words_of(do(Command.INIT, 'my_shop'))}"
