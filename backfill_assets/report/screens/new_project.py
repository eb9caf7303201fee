"""A new project: what was written, and how it is begun with."""

from __future__ import annotations

from pathlib import PurePath

from backfill_assets.report.new_project import NewProject
from backfill_assets.report.page import Items, Note, Page, Tone, next_steps, page
from backfill_assets.report.requests import step


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
