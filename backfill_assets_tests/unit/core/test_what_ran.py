"""Evidence of what ran: read of any checkout, and never in the way of a run."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest

from backfill_assets.core.settings import Settings
from backfill_assets.core.what_ran import installed_distributions, what_ran


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
    done = subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "finance").mkdir(parents=True)
    (folder / "finance" / "__init__.py").write_text("", encoding="utf-8")
    git(folder, "init")
    git(folder, "add", ".")
    git(folder, "commit", "-m", "first")
    return folder


def test_the_commit_of_the_checkout_and_whether_its_tree_was_dirty_are_found(checkout: Path) -> None:
    modules = checkout / "finance"
    expected = git(checkout, "rev-parse", "HEAD")
    assert (what_ran(modules, image="")["commit"], what_ran(modules, image="")["tree"]) == (expected, "clean")
    (modules / "fees.py").write_text("FEE = 1\n", encoding="utf-8")
    assert what_ran(modules, image="")["tree"] == "dirty"
    git(checkout, "add", ".")
    git(checkout, "commit", "-m", "second")
    for arguments in (["pack-refs", "--all"], ["checkout", "--detach"]):
        git(checkout, *arguments)
        assert what_ran(modules, image="")["commit"] == git(checkout, "rev-parse", "HEAD") != expected


def test_of_a_worktree_its_own_commit_is_found(checkout: Path) -> None:
    git(checkout, "worktree", "add", "-b", "other", "../other")
    other = checkout.parent / "other"
    (other / "finance" / "fees.py").write_text("FEE = 1\n", encoding="utf-8")
    git(other, "add", ".")
    git(other, "commit", "-m", "of the worktree")
    found = what_ran(other / "finance", image="")
    assert (found["commit"], found["tree"]) == (git(other, "rev-parse", "HEAD"), "clean")
    assert what_ran(checkout / "finance", image="")["commit"] != found["commit"]


@pytest.mark.parametrize("damage", ["no repository", "no commit", "not git's", "installed"])
def test_where_there_is_no_commit_none_is_named(checkout: Path, damage: str) -> None:
    modules = checkout / "finance"
    match damage:
        case "no repository":
            (checkout / ".git").rename(checkout / "kept")
        case "no commit":
            (checkout / ".git" / "refs" / "heads" / "main").unlink()
            (checkout / ".git" / "packed-refs").write_text("", encoding="utf-8")
        case "not git's":
            (checkout / ".git").rename(checkout / "kept")
            (checkout / ".git").write_bytes(b"\xff\xfe")
        case _:
            modules = checkout / ".venv" / "site-packages" / "finance"
            modules.mkdir(parents=True)
    assert {"commit", "tree"}.isdisjoint(what_ran(modules, image=""))


def test_distributions_are_those_that_python_finds_and_the_image_is_what_is_named() -> None:
    found = installed_distributions(tuple(sys.path))
    known = {re.sub(r"[-_.]+", "-", d.metadata["Name"]).lower(): d.version for d in importlib.metadata.distributions()}
    assert found == known
    assert what_ran(Path("/"), image="sha256:4f1c")["image"] == "sha256:4f1c"
    settings = Settings.from_environment
    assert settings({"BACKFILL_IMAGE_DIGEST": "sha256:1", "DAGSTER_CURRENT_IMAGE": "a/b:2"}).image == "sha256:1"
    assert settings({"DAGSTER_CURRENT_IMAGE": "a/b:2"}).image == "a/b:2"
    assert settings({"DAGSTER_CURRENT_IMAGE": "a\nb"}).image == ""
