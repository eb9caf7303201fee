"""Pages on what was set up: the Spark server that stays, also as `status` shows it, and a new project."""

from __future__ import annotations

from pathlib import PurePath

from backfill_assets.core.next_steps import Act, do, step
from backfill_assets.core.spark_server import Unfit
from backfill_assets.report.new_project import NewProject
from backfill_assets.report.page import Items, Note, Page, Tone, next_steps, page, words
from backfill_assets.report.server import UNFIT, ServerDocument, ServerDown, ServerUp


def up_page(up: ServerUp) -> Page:
    """The page that commands of the home compute there from now on."""
    how = "running already: commands of this home use it until "
    if up.is_new:
        how = f"started in {up.start_s:,.0f} s and warmed up in {up.warm_up_s:,.0f} s: commands of this home that "
        how += f"compute use it, and each saves about {up.start_s:,.0f} s, until "
    said = words(how, do(Act.DOWN), "; it keeps its memory and does not end by itself")
    return page("Spark server", Note(text=server_line(up.server), tone=Tone.GOOD), Note(text=said, tone=Tone.SOFT))


def down_page(down: ServerDown) -> Page:
    """The page that the server has ended, or why nothing was ended."""
    return page("Spark server", Note(text=_down_words(down.server)))


def _down_words(server: ServerDocument | None) -> str:
    if server is None:
        return "no server was running; nothing was stopped"
    if server.unfit is None:
        return f"{server_line(server)} is ended"
    if server.unfit is Unfit.ENDED:
        return f"{_where(server)}had died before; nothing was ended"
    return f"{server_line(server)}; nothing was ended"


def server_line(server: ServerDocument) -> str:
    """Where it is, since when, and of which version; or why commands do not use it."""
    if server.unfit is not None:
        return f"{_where(server)}is not used: {UNFIT[server.unfit]}"
    versions = ", ".join(f"{name} {version}" for name, version in (server.versions or {}).items())
    since = f"{server.since_at:%Y-%m-%d %H:%M} UTC" if server.since_at else "?"
    return f"{_where(server)}since {since}, {versions}"


def _where(server: ServerDocument) -> str:
    return f"{server.address} (process {server.process}) " if server.address else ""


def new_project_page(made: NewProject) -> Page:
    """The files of a project, and the first commands in it."""
    settings = f"cd {PurePath(made.folder).name} && set -a && . ./.env && set +a"
    return page(
        f"Project {made.package}",
        Note(text=f"{made.folder} is written", tone=Tone.GOOD),
        Items(items=made.files),
        next_steps(
            step(settings), step("README.md of the project has the commands that publish its table and correct it")
        ),
    )
