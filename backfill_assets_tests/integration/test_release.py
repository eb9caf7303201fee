"""A release: the sdist, the wheel and their checksums, from a clean checkout of its tag and from nothing else."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest

from backfill_assets import __version__
from backfill_assets.core.settings import PROJECT_ROOT

RELEASED = ("backfill_assets", "docs", "tools", "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", ".gitignore")


def git(checkout: Path, *words: str) -> None:
    who = ("-c", "user.name=ana", "-c", "user.email=ana@example.org")
    subprocess.run(["git", "-C", str(checkout), *who, *words], check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A committed checkout without a tag."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    for name in RELEASED:
        path = PROJECT_ROOT / name
        if path.is_dir():
            shutil.copytree(path, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(path, folder / name)
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "what is released")
    return folder


def released(checkout: Path) -> subprocess.CompletedProcess[str]:
    script = str(checkout / "tools" / "release.sh")
    environment = {"PATH": "/usr/bin:/bin", "PYTHON": sys.executable, "HOME": str(checkout.parent)}
    return subprocess.run([script], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.long
def test_a_release_is_an_sdist_a_wheel_and_their_checksums_and_has_the_same_bytes_again(checkout: Path) -> None:
    git(checkout, "tag", f"v{__version__}")
    first = released(checkout)
    assert first.returncode == 0, first.stderr
    made = {path.name: path for path in (checkout / "dist").iterdir()}
    sdist, wheel = f"backfill_assets-{__version__}.tar.gz", f"backfill_assets-{__version__}-py3-none-any.whl"
    assert set(made) == {sdist, wheel, "SHA256SUMS"}
    sums = dict(line.split()[::-1] for line in made["SHA256SUMS"].read_text().splitlines())
    assert sums == {name: hashlib.sha256(made[name].read_bytes()).hexdigest() for name in (sdist, wheel)}
    assert "backfill_assets/py.typed" in ZipFile(made[wheel]).namelist()
    with tarfile.open(made[sdist]) as archive:
        assert f"backfill_assets-{__version__}/LICENSE" in archive.getnames()
    assert released(checkout).stdout == first.stdout, "an earlier dist/ is no change of the checkout"


def test_what_is_not_the_tagged_version_is_not_released(checkout: Path) -> None:
    untagged = released(checkout)
    assert untagged.returncode == 1
    assert f"the commit has no tag v{__version__}, which is the version of the package." in untagged.stderr
    git(checkout, "tag", f"v{__version__}")
    (checkout / "README.md").write_text("edited")
    edited = released(checkout)
    assert (edited.returncode, "changes that are not committed" in edited.stderr) == (1, True)
    git(checkout, "checkout", "--quiet", "README.md")
    (checkout / "news").mkdir()
    (checkout / "news" / "faster.changed.md").write_text("It is faster.")
    git(checkout, "add", ".")
    git(checkout, "commit", "--quiet", "-m", "news")
    git(checkout, "tag", "--force", f"v{__version__}")
    assert "CHANGELOG.md lacks ./news/faster.changed.md" in released(checkout).stderr
    git(checkout, "rm", "--quiet", "news/faster.changed.md")
    changes = checkout / "CHANGELOG.md"
    changes.write_text(changes.read_text().replace(f"## {__version__}", "## 9.9.9"))
    git(checkout, "commit", "--quiet", "-a", "-m", "another")
    git(checkout, "tag", "--force", f"v{__version__}")
    silent = released(checkout)
    assert f"CHANGELOG.md has no section {__version__}." in silent.stderr
    assert not (checkout / "dist").exists()
