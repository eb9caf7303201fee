"""Watching: the status again and again, until Ctrl-C."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from backfill_assets.application import look
from backfill_assets.cli.show import listing
from backfill_assets.cli.show_status import status_view
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.wording import visible
from backfill_assets.report.at_work import WorkInProgress
from backfill_assets.report.command_line import explained
from backfill_assets.report.status import StatusDocument
from backfill_assets.workspace import Workspace

EVERY_S = 2.0


def watch_status(
    ws: Workspace, name: str | None, console: Console, *, wait: Callable[[float], None] = time.sleep
) -> None:
    """Shows the status of everything, of a run or of a set until the process is interrupted.

    On a terminal each picture takes the place of the one before; elsewhere one is printed whenever it has changed.

    Args:
        ws: The workspace.
        name: Only this run or set.
        console: Where it is shown.
        wait: Waits between two pictures.

    Raises:
        UnknownName: There is no such run or set.
    """
    view = _picture(ws, name)  # A name that does not exist ends the command, and is not shown every two seconds.
    with suppress(KeyboardInterrupt), _display(console) as show:
        show(view)
        while True:
            wait(EVERY_S)
            try:
                view = _picture(ws, name)
            except BackfillError as error:  # such as a database that is away for a moment
                view = Text(visible(explained(error)), style="red")
            show(view)


def _picture(ws: Workspace, name: str | None) -> RenderableType:
    document = look.status(ws, name)
    if isinstance(document, StatusDocument):
        view = status_view(document)
    else:
        from backfill_assets.cli.views import view_of

        view = view_of(document)
    return Group(_at_work(look.at_work(ws)), "", view)


def _at_work(found: Sequence[WorkInProgress]) -> RenderableType:
    if not found:
        return Text("no process is at work", style="dim")
    rows = [
        [
            each.work,
            each.table,
            each.state,
            None if each.chunks_done is None else f"{each.chunks_done} staged, {each.chunks_begun} begun",
            each.rows,
            each.holder,
            f"{each.since:%H:%M:%S} UTC",
            "alive" if not each.overdue_seconds else f"no sign of life for {each.overdue_seconds:.0f} s",
        ]
        for each in found
    ]
    heads = ["work", "table", "state", "chunks", "rows", "by", "since", "process"]
    return listing("at work", heads, rows, numbers=["rows"])


@contextmanager
def _display(console: Console) -> Iterator[Callable[[RenderableType], None]]:
    """What shows a picture."""
    if console.is_terminal:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            yield lambda view: live.update(view, refresh=True)
        return
    before = ""

    def print_changed(view: RenderableType) -> None:
        nonlocal before
        with console.capture() as captured:
            console.print(view)
        if captured.get() != before:
            before = captured.get()
            console.print(view)
            console.file.flush()

    yield print_changed
