"""Console: progress of long commands, and the redirection of Spark's output to a log."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from backfill_assets.core.next_steps import Command, do
from backfill_assets.core.progress import Listener, Progress, hearing_waits
from backfill_assets.core.wording import visible
from backfill_assets.report.command_line import words_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from backfill_assets.core.settings import Settings

WIDTH_OF_A_FILE = 160
"""Columns for output that goes to a file or a pipe, whose reader can scroll."""


LONGEST_SILENCE_S = 10.0

NARROWEST = 60
"""On a narrower terminal lines go on in the next one, which is ugly; cut columns would be wrong."""


class PlainConsole(Console):
    """A console on which no text, wherever it came from, steers the terminal: only styles do."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments, with every control character in a text as an escape."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(visible(segment.text, keep_line_breaks=True), segment.style)


def terminal(stream: TextIO, *, quiet: bool = False) -> Console:
    """A console for a stream: as wide as the terminal but never so narrow that tables lose columns."""
    if not stream.isatty() and "COLUMNS" not in os.environ:
        return PlainConsole(file=stream, quiet=quiet, width=WIDTH_OF_A_FILE)
    return PlainConsole(file=stream, quiet=quiet, width=max(NARROWEST, shutil.get_terminal_size().columns))


def print_aside(console: Console, line: str) -> None:
    """A line beside the answer of a command, which is never cut: a terminal goes on with it in the next one."""
    console.print(visible(line), style="dim", highlight=False, markup=False, soft_wrap=True)


_FEW = 10
"""So many lines at most, after the first, tell how far many files are."""


@contextmanager
def progress_listener(what: str, *, quiet: bool, silence_s: float = LONGEST_SILENCE_S) -> Iterator[Listener]:
    """Shows progress on standard error while the work lasts: a bar; where that is no terminal, one line per sentence.

    Of many files that land, a line is shown for the first one and for each tenth of them.

    Args:
        what: What is being worked on.
        quiet: Show nothing, for machines.
        silence_s: After so long without a line one says that the work goes on.
    """
    console = terminal(sys.stderr, quiet=quiet)
    if quiet or not console.is_terminal:
        with _lines(console, silence_s) as print_line:
            yield print_line
        return
    # On the console of the bar, which is drawn again below it.
    with hearing_waits(partial(print_aside, console)), _bar(console) as bar:
        # Shown while a step lasts: what is printed between two steps must not run into it.
        bar.stop()
        task: TaskID | None = None

        def move(progress: Progress) -> None:
            nonlocal task
            if task is None:
                task = bar.add_task(what, sentence="")
            bar.update(
                task,
                total=progress.total,
                completed=progress.done,
                sentence=visible(progress.line),
                description=visible(_doing(progress) if progress.table else f"{progress.step} {what}"),
            )
            if progress.done < progress.total:
                bar.start()
            else:
                bar.stop()

        yield move


@contextmanager
def _lines(console: Console, silence_s: float) -> Iterator[Listener]:
    """Prints sentences, each once, and between them, after every silence, that the work after the last one goes on."""
    last: Progress | None = None
    shown: Progress | None = None
    tenth: int | None = None

    def print_line(progress: Progress) -> None:
        nonlocal last, shown, tenth
        last, sentence = progress, progress.line
        if progress.step == "land" and progress.total > _FEW:
            before, tenth = tenth, progress.done * _FEW // progress.total
            if tenth == before:
                return
            sentence += f", {progress.done:,} of {progress.total:,}"
        if shown is None or not _says_the_same(shown, progress):
            _print_line(console, progress, sentence)
            spoken.set()
        shown = progress

    def go_on(seconds: float) -> None:
        if last is None:
            return
        work = f": {last.line}" if last is not shown else ""
        if last.done >= last.total:
            work = ": recording what was done"
        _print_line(console, last, f"still running after {seconds:,.0f} s{work}")

    with _broken_silence(silence_s, go_on) as spoken:
        yield print_line


@contextmanager
def _broken_silence(silence_s: float, say: Callable[[float], None]) -> Iterator[Event]:
    """Has something said after every silence, with how long it has lasted; it begins anew when the event is set."""
    spoken, ended = Event(), Event()

    def break_silence() -> None:
        silences = 0
        while not ended.is_set():
            if spoken.wait(silence_s):
                spoken.clear()
                silences = 0
            elif not ended.is_set():
                silences += 1
                say(silences * silence_s)

    breaker = Thread(target=break_silence, daemon=True, name="silence")
    breaker.start()
    try:
        yield spoken
    finally:
        ended.set()
        spoken.set()
        breaker.join(timeout=1)


def _says_the_same(shown: Progress, progress: Progress) -> bool:
    """True if a line of progress repeats the last one: chunks of one size are measured in the same words."""
    return (shown.step, shown.table, shown.line) == (progress.step, progress.table, progress.line)


def _print_line(console: Console, progress: Progress, sentence: str) -> None:
    print_aside(console, f"{_doing(progress)}: {sentence}")


def _doing(progress: Progress) -> str:
    return f"{progress.step} {progress.table}".rstrip()


def _bar(console: Console) -> Bar:
    # Imported for a bar on a terminal alone: most commands show none.
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[sentence]}", style="dim", markup=False),
        console=console,
        transient=True,
    )


def quiet_spark(
    settings: Settings,
    *,
    quiet: bool,
    meanwhile: Callable[[], None] = lambda: None,
    silence_s: float = LONGEST_SILENCE_S,
) -> Callable[[], SparkSession]:
    """Opens Spark with its log going to `<home>/logs/spark.log`; the terminal belongs to the command.

    Args:
        meanwhile: Done in those seconds, in which this process only waits.
        silence_s: After so long a line says what is still waited for.
    """

    def opened() -> SparkSession:
        from pyspark.sql import SparkSession

        from backfill_assets.core.spark import open_spark, session_on_server

        active = SparkSession.getActiveSession()
        if active is not None:
            return active
        console = terminal(sys.stderr, quiet=quiet)
        logging.getLogger().addFilter(is_not_of_py4j)
        mute_query_contexts()
        with _still("waiting for the Spark server", quiet=quiet, silence_s=silence_s):
            session = session_on_server(settings)
        if session is not None:
            return session
        _say_why_none(settings, console)
        began = time.monotonic()
        with (
            _still("starting Spark", quiet=quiet, silence_s=silence_s),
            stderr_to(settings.home / "logs" / "spark.log"),
            ThreadPoolExecutor(max_workers=1) as beside,
        ):
            beside.submit(meanwhile)
            session = open_spark(settings)
        if not settings.spark_remote:
            took = f"Spark took {time.monotonic() - began:,.0f} s to start"
            said = f"{took}: {words_of(do(Command.UP))} keeps it running for the next commands"
            print_aside(console, said)
        return session

    return opened


def mute_query_contexts() -> None:
    """PySpark writes thousands of characters of JSON about an expression that failed, which the error says as well; so
    does its client of a server, whose log is off until Dagster turns on every logger."""
    from pyspark.logger import PySparkLogger

    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger", "pyspark.sql.connect.logging"):
        # A filter and not `disabled`, which Dagster takes back for every logger when it sets up its own.
        PySparkLogger.getLogger(name).addFilter(_nothing)


def _nothing(_record: logging.LogRecord) -> bool:
    return False


def _say_why_none(settings: Settings, console: Console) -> None:
    """A note that Spark starts, and why a server that was started is not used."""
    from backfill_assets.core.spark import found_server
    from backfill_assets.report.server import UNFIT

    found = found_server(settings)
    if found is not None and found.unfit is not None:
        said = f"the Spark server of this home is not used: {UNFIT[found.unfit]}"
        print_aside(console, said)
    print_aside(console, "starting Spark")


@contextmanager
def _still(doing: str, *, quiet: bool, silence_s: float) -> Iterator[None]:
    """Says again and again what goes on, where a person reads it, whatever standard error is by then."""
    if quiet:
        yield
        return
    with os.fdopen(os.dup(2), "w") as stream:
        console = terminal(stream)

        def go_on(seconds: float) -> None:
            print_aside(console, f"{doing}: still running after {seconds:,.0f} s")
            stream.flush()

        with _broken_silence(silence_s, go_on):
            yield


def is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Py4J logs the traceback of an interrupted call, as the root logger; the error itself is shown as a sentence."""
    return record.module != "java_gateway"


@contextmanager
def stderr_to(path: Path) -> Iterator[None]:
    """Processes started inside inherit a file as their standard error; this process gets its own back."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    kept = os.dup(2)
    with path.open("ab") as log:
        os.dup2(log.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
