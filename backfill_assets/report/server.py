"""What was set up: the Spark server that stays, and a new project."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePath
from typing import Literal

from backfill_assets.core.next_steps import Command, do, step
from backfill_assets.core.spark_server import Found, Unfit
from backfill_assets.report.page import Items, Note, Page, Tone, next_steps, page, words

# The Spark server that stays, as commands show it.

UNFIT: Mapping[Unfit, str] = {
    Unfit.ENDED: "its process has ended",
    Unfit.SILENT: "its process does not listen on its port",
    Unfit.OTHER_HOME: "it was started for another home",
    Unfit.OTHER_VERSIONS: "it was started by another version of this project, PySpark or Python",
    Unfit.OTHER_SETTINGS: "it was started with other settings of Spark",
    Unfit.UNREADABLE: "its file in the home cannot be read",
}
"""Why a command does not use it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerDocument:
    """The Spark server of a home. Its token is not shown."""

    address: str | None  #: Where it listens, on loopback; null when its state cannot be read.
    process: str | None  #: Its process, `host:pid`; null likewise.
    since_at: datetime | None  #: When it was started; null likewise.
    versions: Mapping[str, str] | None  #: Of the project, PySpark and Python that started it; null likewise.
    unfit: Unfit | None  #: Why commands do not use it; null when they do.


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerUp:
    """A Spark server that commands use from now on."""

    server: ServerDocument  #: The server.
    is_new: bool  #: True if it was started now; false for one that ran.
    start_s: float  #: How long it took until it listened, in seconds; about what a command without a server waits.
    warm_up_s: float  #: How long it took to warm it up with a small computation, in seconds.


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerDown:
    """Reports that no Spark server runs."""

    #: The one that was ended, or of which nothing was ended, with the reason; null when none was started.
    server: ServerDocument | None


def server_document(found: Found | None) -> ServerDocument | None:
    """The recorded server of a home; None without one."""
    if found is None:
        return None
    server = found.server
    return ServerDocument(
        address=server.address if server else None,
        process=server.machine if server else None,
        since_at=server.since_at if server else None,
        versions=server.versions if server else None,
        unfit=found.unfit,
    )


# A new project, as the command shows it.

Example = Literal["orders", "permits", "change-feed"]
"""What a project can begin as: a folder of templates each, beside those that all have in common."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewProject:
    """A project that was written."""

    folder: str  #: Its folder.
    package: str  #: Its package, which is the value of BACKFILL_DOMAIN.
    files: tuple[str, ...]  #: Its files, by their paths in the folder.


# Pages on what was set up: the Spark server that stays, also as `status` shows it, and a new project.


def up_page(up: ServerUp) -> Page:
    """The page that commands of the home compute there from now on."""
    how = "running already: commands of this home use it until "
    if up.is_new:
        how = f"started in {up.start_s:,.0f} s and warmed up in {up.warm_up_s:,.0f} s: commands of this home that "
        how += f"compute use it, and each saves about {up.start_s:,.0f} s, until "
    said = words(how, do(Command.DOWN), "; it keeps its memory and does not end by itself")
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
