"""Given files: what a person names, as files of this machine that are what was said of them, before any of them lands.

What is named by an address is fetched into a folder of the home, which is removed afterwards; what a killed process
left there is removed by the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from backfill_assets.capture.errors import Fault, FileRefused
from backfill_assets.capture.expected_files import NOTHING, Expected, matched, read_manifest, sha256_of
from backfill_assets.capture.fetched_files import ADDRESS, Address, fetching
from backfill_assets.capture.file_capture import FileCapture
from backfill_assets.core.settings import Settings


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
    with fetching(settings.home) as new_folder:
        fetch = partial(_fetched, settings, new_folder=new_folder)
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


def _fetched(settings: Settings, text: str, new_folder: Callable[[], Path]) -> FileCapture:
    """A file by its path, or fetched by its address into a new folder."""
    if not ADDRESS.match(text):
        return FileCapture(Path(text))
    address = Address.of(text)
    copy = new_folder() / address.name
    address.fetch(copy, settings.access)
    return FileCapture(copy, original=address.recorded)
