"""A new project: the folder that an author begins with, written from the templates of the package."""

from __future__ import annotations

import keyword
import os
import secrets
import shutil
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

from backfill_assets import __version__
from backfill_assets.core.errors import is_full_disk
from backfill_assets.domain.declarations import SHORT_NAME
from backfill_assets.report.errors import CannotUse
from backfill_assets.report.new_project import Example, NewProject

_COMMON = "common"
NAME_IN_TEMPLATES = "my_project"
_SUFFIX = ".template"
_DAGSTER = "dagster.yaml"
_OF_DAGSTER = """\
# Dagster's settings, read from the folder that DAGSTER_HOME names. For commands without DAGSTER_HOME it is the folder
# `dagster` of BACKFILL_HOME, where `backfill` writes a copy. Both see the same runs.
"""


def new_project(name: str, example: Example = "orders", *, into: Path) -> NewProject:
    """Writes a project that lands its sample data, computes its table, corrects it, and is tested.

    Nothing is there under its name before all of it is written.

    Args:
        name: The name of its folder, its package and its domain.
        example: What it shows.
        into: The folder in which its folder is made.

    Raises:
        Refused: The name cannot be that of a package, there is something of this name, or nothing can be written.
    """
    folder = into / name
    _require_name(name, folder)
    written = _written(name, example)
    partial = into / f".{name}.{secrets.token_hex(4)}"
    try:
        for path, text in written.items():
            (partial / path).parent.mkdir(parents=True, exist_ok=True)
            (partial / path).write_text(text, encoding="utf-8")
        # Refused by the system where there is a file of this name, or a folder with anything in it.
        os.rename(partial, folder)  # noqa: PTH104 - it is one step for the system, also over an empty folder
    except (FileExistsError, NotADirectoryError) as error:
        raise _taken(folder) from error
    except OSError as error:
        if folder.exists():
            raise _taken(folder) from error
        if is_full_disk(error):
            raise
        why = f"nothing can be written there: {error.strerror}"
        raise CannotUse(what=f"the folder {into}", why=why, instead="a folder of your own") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return NewProject(folder=str(folder), package=name, files=tuple(sorted(written)))


def _require_name(name: str, folder: Path) -> None:
    why = ""
    if not SHORT_NAME.fullmatch(name):
        why = "a package and a domain are named with lower-case letters, digits and _, a letter first"
    elif keyword.iskeyword(name):
        why = "it is a word of Python"
    elif folder.is_dir() and any(folder.iterdir()):
        raise _taken(folder)
    elif _is_module(name, folder):
        why = "Python has a module of this name already"
    if why:
        raise CannotUse(what=f"the name {name!r}", why=why, instead="another one, such as my_shop")


def _is_module(name: str, folder: Path) -> bool:
    """Whether Python imports something of this name; an empty folder on its path is a package of none."""
    found = find_spec(name)
    return found is not None and list(found.submodule_search_locations or ()) != [str(folder)]


def _taken(folder: Path) -> CannotUse:
    return CannotUse(what=f"the folder {folder}", why="it is there, and not empty", instead="another name")


def _written(name: str, example: Example) -> dict[str, str]:
    """The text of every file, by its path in the project."""
    found: dict[str, str] = {}
    projects = files("backfill_assets.examples").joinpath("projects")
    for folder in (_COMMON, example):
        for path, template in _templates(projects.joinpath(folder), PurePosixPath()):
            text = template.read_text(encoding="utf-8").replace(NAME_IN_TEMPLATES, name).replace("VERSION", __version__)
            text = text.replace(NAME_IN_TEMPLATES.replace("_", "-"), name.replace("_", "-"))
            found[str(path).replace(NAME_IN_TEMPLATES, name)] = text
    usual = files("backfill_assets.orchestration").joinpath(_DAGSTER).read_text(encoding="utf-8")
    return {**found, _DAGSTER: _OF_DAGSTER + usual[usual.index("\n\n") + 1 :]}


def _templates(folder: Traversable, place: PurePosixPath) -> Iterator[tuple[PurePosixPath, Traversable]]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _templates(each, place / each.name)
        elif each.name.endswith(_SUFFIX):
            yield place / each.name.removesuffix(_SUFFIX).replace("dot_", "."), each
