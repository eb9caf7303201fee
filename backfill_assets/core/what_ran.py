"""The evidence of what ran: the checkout, the installed distributions and the image that computed something.

None of it is part of what makes code changed: a commit alone makes no row stale. It is recorded beside the versions of
this project, PySpark and Python, with the same names everywhere.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from backfill_assets.core.identity import document_digest

COMMIT, TREE, DISTRIBUTIONS, IMAGE = "commit", "tree", "distributions", "image"
"""The names under which it is recorded: the commit of the checkout with the author's modules, whether its tree was
`clean`, `dirty` or `unknown`, the sha256 over the installed distributions, and the digest of the container's image."""

_DISTRIBUTION = re.compile(r"(.+?)-([^-]+)(?:-py[\d.]+)?\.(?:dist|egg)-info")
_COMMIT_ID = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_MOST_SECONDS = 5.0
"""A tree that takes longer to look at is `unknown`."""


def what_ran(modules: Path, *, image: str) -> Mapping[str, str]:
    """The evidence of this process; what there is none of is left out.

    Args:
        modules: The folder of the author's modules.
        image: The digest of the image, as the environment names it.
    """
    checkout = _checkout_of(modules)
    commit = _head_of(checkout) if checkout else None
    found = {
        COMMIT: commit,
        TREE: _tree_of(checkout) if checkout and commit else None,
        DISTRIBUTIONS: _distributions(tuple(sys.path)),
        IMAGE: image,
    }
    return {name: value for name, value in found.items() if value}


def installed_distributions(path: tuple[str, ...]) -> Mapping[str, str]:
    """The version of each distribution on an import path, by its normalized name.

    Read from the names of their folders: to open the metadata of hundreds takes half a second.
    """
    found: dict[str, str] = {}
    for folder in path:
        try:
            names = [each.name for each in os.scandir(folder or ".")]
        except OSError:  # an archive, or a folder that does not exist
            continue
        for name in sorted(names):
            if matched := _DISTRIBUTION.fullmatch(name):
                found.setdefault(re.sub(r"[-_.]+", "-", matched[1]).lower(), matched[2])
    return found


@lru_cache(maxsize=4)
def _distributions(path: tuple[str, ...]) -> str:
    return document_digest(sorted(f"{name}=={version}" for name, version in installed_distributions(path).items()))


def _checkout_of(modules: Path) -> Path | None:
    """The work tree that holds the modules; None for an installed package, which no checkout above it describes."""
    if {"site-packages", "dist-packages"} & set(modules.parts):
        return None
    return next((each for each in (modules, *modules.parents) if (each / ".git").exists()), None)


def _head_of(checkout: Path) -> str | None:
    """The commit that is checked out, read from the files of the repository; None before the first one."""
    try:
        own = _git_folder(checkout)
        head = (own / "HEAD").read_text(encoding="utf-8").strip()
        if not head.startswith("ref: "):
            return head if _COMMIT_ID.fullmatch(head) else None
        name = head.removeprefix("ref: ")
        shared = own / "commondir"
        common = (own / shared.read_text(encoding="utf-8").strip()).resolve() if shared.is_file() else own
        for folder in (own, common):
            if (folder / name).is_file():
                found = (folder / name).read_text(encoding="utf-8").strip()
                return found if _COMMIT_ID.fullmatch(found) else None
        packed = (common / "packed-refs").read_text(encoding="utf-8").splitlines()
        return next((line.partition(" ")[0] for line in packed if line.partition(" ")[2] == name), None)
    except (OSError, UnicodeDecodeError):
        return None


def _git_folder(checkout: Path) -> Path:
    """The folder of the repository: of a worktree or a submodule, `.git` is a file that names it."""
    place = checkout / ".git"
    if place.is_dir():
        return place
    return (checkout / place.read_text(encoding="utf-8").strip().removeprefix("gitdir: ")).resolve()


def _tree_of(checkout: Path) -> str:
    """The state of the work tree: clean or not. Git alone knows what it ignores."""
    # Of what a repository may configure to be run, only its filters of contents are.
    asked = ["git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "status", "-s"]
    try:
        answer = subprocess.run(  # noqa: S603 - a fixed command
            asked,
            cwd=checkout,
            # A hook of another repository names that one in the environment.
            env={name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
            | {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_MOST_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    if answer.returncode:
        return "unknown"
    return "dirty" if answer.stdout.strip() else "clean"
