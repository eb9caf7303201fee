"""Watching: the status again and again, until Ctrl-C."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from backfill_assets.application import look
from backfill_assets.cli.terminal import view
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.wording import visible
from backfill_assets.report.command_line import explained
from backfill_assets.report.page import page
from backfill_assets.report.pages import page_of
from backfill_assets.report.status import at_work, work_section
from backfill_assets.workspace import Workspace

EVERY_S = 2.0


def watch_status(
    ws: Workspace, name: str | None, console: Console, *, wait: Callable[[float], None] = time.sleep
) -> None:
    """Shows the status of everything, of a run or of a set until the process is interrupted.

    On a terminal each picture takes the place of the one before; elsewhere one is printed whenever it has changed.

    Args:
        wait: Waits between two pictures.
    """
    picture = _picture(ws, name)  # A name that does not exist ends the command, and is not shown every two seconds.
    with suppress(KeyboardInterrupt), _display(console) as show:
        show(picture)
        while True:
            wait(EVERY_S)
            try:
                picture = _picture(ws, name)
            except BackfillError as error:  # such as a database that is away for a moment
                picture = Text(visible(explained(error)), style="red")
            show(picture)


def _picture(ws: Workspace, name: str | None) -> RenderableType:
    work = page("At work", work_section(at_work(ws)))
    return Group(view(work), "", view(page_of(look.status(ws, name))))


@contextmanager
def _display(console: Console) -> Iterator[Callable[[RenderableType], None]]:
    """The command that shows a picture."""
    if console.is_terminal:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            yield lambda picture: live.update(picture, refresh=True)
        return
    before = ""

    def print_changed(picture: RenderableType) -> None:
        nonlocal before
        with console.capture() as captured:
            console.print(picture)
        if captured.get() != before:
            before = captured.get()
            console.print(picture)
            console.file.flush()

    yield print_changed
