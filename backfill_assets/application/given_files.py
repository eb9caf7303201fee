"""Given files: what a person names, as files of this machine that are what was said of them, before any of them lands.

What is named by an address is fetched into a folder of the home, which is removed afterwards; what a killed process
left there is removed by the next one.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from backfill_assets.capture.errors import Fault, FileRefused
from backfill_assets.capture.expected_files import NOTHING, Expected, matched, read_manifest, sha256_of
from backfill_assets.capture.fetched_files import ADDRESS, Address
from backfill_assets.capture.file_capture import FileCapture
from backfill_assets.core.settings import Settings

_FOLDER = ".fetched"
_LOCK = ".lock"


@contextmanager
def given_files(
    settings: Settings, texts: Sequence[str], *, sha256: Sequence[str] = (), manifest: str = ""
) -> Iterator[list[FileCapture]]:
    """Files to land, in the order in which a person has named them.

    Args:
        texts: Paths, and addresses of files.
        sha256: Their digests, in the same order; none, or one for each.
        manifest: Path or address of what their producer says of them; empty for none.

    Raises:
        Refused: A file is not what is said of it, is missing, or is more than is said.
    """
    digests = [sha256_of(each) for each in sha256]
    if digests and len(digests) != len(texts):
        why = f"{len(texts)} files are named, and {len(digests)} digests: give one for each, in their order"
        raise FileRefused(fault=Fault.DIGEST, why=why)
    with _fetching(settings) as fetch:
        said = read_manifest(fetch(manifest).path) if manifest else ()
        names = [Address.of(text).name if ADDRESS.match(text) else Path(text).name for text in texts]
        known = matched(Path(manifest).name, said, names) if manifest else {}
        found: list[FileCapture] = []
        for place, text in enumerate(texts):
            expected = known.get(names[place], NOTHING)
            if digests:
                _require_same(expected, digests[place])
                by = expected.said_by or "the digest that was given"
                expected = replace(expected, name=names[place], sha256=digests[place], said_by=by)
            each = replace(fetch(text), expected=expected)
            each.require_expected()
            found.append(each)
        yield found


def _require_same(expected: Expected, sha256: str) -> None:
    if expected.sha256 not in ("", sha256):
        why = f"{expected.said_by} says another sha256 for {expected.name} than the digest that was given"
        raise FileRefused(fault=Fault.DIGEST, path=expected.name, why=why)


class _Fetch:
    """Gives a file by its path, or fetches it by its address into a folder."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self.folder = settings, Path()

    def __call__(self, text: str) -> FileCapture:
        if not ADDRESS.match(text):
            return FileCapture(Path(text))
        address = Address.of(text)
        if not self.folder.name:
            self.folder = _new_folder(self._settings.home / "landing_in_progress" / _FOLDER)
        own = Path(tempfile.mkdtemp(dir=self.folder))
        address.fetch(own / address.name, self._settings.access)
        return FileCapture(own / address.name, original=address.recorded)


@contextmanager
def _fetching(settings: Settings) -> Iterator[_Fetch]:
    fetch = _Fetch(settings)
    try:
        yield fetch
    finally:
        if fetch.folder.name:
            shutil.rmtree(fetch.folder, ignore_errors=True)


def _new_folder(parent: Path) -> Path:
    """A folder that is locked while this process lives, with those of processes that are gone removed."""
    parent.mkdir(parents=True, exist_ok=True)
    for left in parent.iterdir():
        if _is_free(left / _LOCK):
            shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(dir=parent))
    # Never closed: the lock ends with the process.
    fcntl.flock(os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR), fcntl.LOCK_EX)
    return folder


def _is_free(lock: Path) -> bool:
    try:
        held = os.open(lock, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(held)
    return True
