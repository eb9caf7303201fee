"""A new project: the folder that an author begins with, written from the templates of the package."""

from __future__ import annotations

import keyword
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

from backfill_assets import __version__
from backfill_assets.application.sniff import sniffed
from backfill_assets.core.clock import Clock
from backfill_assets.core.errors import is_full_disk
from backfill_assets.domain.declarations import SHORT_NAME
from backfill_assets.report.errors import CannotUse
from backfill_assets.report.server import Example, NewProject
from backfill_assets.report.sniffed import FileProject

_COMMON, _OF_A_FILE = "common", "file"
NAME_IN_TEMPLATES = "my_project"
_SUFFIX = ".template"
_MOST_COPIED_BYTES = 64 << 20
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
    _require_name(name, into / name)
    return _made(name, _written(name, (_COMMON, example)), {}, into)


def project_of_file(name: str, file: Path, *, into: Path, clock: Clock) -> NewProject:
    """Writes a project that lands a file of its author, counts its records by day, and is tested.

    Args:
        name: The name of its folder, its package and its domain.
        file: The file; a copy of it is among the sample data, unless it is large.
        into: The folder in which its folder is made.

    Raises:
        Refused: As for `new_project`; or the file has no times.
        MissingInput: There is no such file.
        UnreadableFile: It is not a file of which records could be read.
    """
    _require_name(name, into / name)
    proposal = sniffed([file], clock=clock)
    is_copied = file.stat().st_size <= _MOST_COPIED_BYTES
    data = f"sample_data/{file.name}" if is_copied else str(file.resolve())
    project = FileProject(package=name, proposal=proposal, data=data)
    written = {f"{name}/__init__.py": project.module(), **_written(name, (_COMMON, _OF_A_FILE))}
    for path, text in written.items():
        text = project.chosen(text)
        for mark, words in project.words.items():
            text = text.replace(mark, words)
        written[path] = text
    return _made(name, written, {data: file} if is_copied else {}, into)


def _made(name: str, written: Mapping[str, str], copies: Mapping[str, Path], into: Path) -> NewProject:
    folder = into / name
    partial = into / f".{name}.{secrets.token_hex(4)}"
    try:
        for path in (*written, *copies):
            (partial / path).parent.mkdir(parents=True, exist_ok=True)
        for path, text in written.items():
            (partial / path).write_text(text, encoding="utf-8")
        for path, file in copies.items():
            shutil.copyfile(file, partial / path)
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
    return NewProject(folder=str(folder), package=name, files=tuple(sorted((*written, *copies))))


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
    """True if Python imports something of this name; an empty folder on its path is a package of none."""
    found = find_spec(name)
    return found is not None and list(found.submodule_search_locations or ()) != [str(folder)]


def _taken(folder: Path) -> CannotUse:
    return CannotUse(what=f"the folder {folder}", why="it is there, and not empty", instead="another name")


def _written(name: str, folders: Iterable[str]) -> dict[str, str]:
    """The text of every file, by its path in the project."""
    found: dict[str, str] = {}
    projects = files("backfill_assets.examples").joinpath("projects")
    for folder in folders:
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
