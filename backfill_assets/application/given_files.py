"""Given files: the files that a person names, on this machine and as described, before any of them lands.

What is named by an address is fetched into a folder of the home, which is removed afterwards; what a killed process
left there is removed by the next one.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from backfill_assets.capture.errors import Fault, FileRefused, NoFile
from backfill_assets.capture.families import families
from backfill_assets.capture.files.drop_places import FolderEntry, Server, open_server
from backfill_assets.capture.files.fetched_files import ADDRESS, Address, fetching
from backfill_assets.capture.files.file_capture import NOTHING, Expected, FileCapture, matched, read_manifest, sha256_of
from backfill_assets.core.settings import Settings
from backfill_assets.core.wording import visible
from backfill_assets.domain.external import ServerDeclaration


@contextmanager
def given_files(
    settings: Settings,
    texts: Sequence[str],
    *,
    sha256: Sequence[str] = (),
    manifest: str = "",
    drop: ServerDeclaration | None = None,
) -> Iterator[list[FileCapture]]:
    """Files to land, in the order in which a person has named them.

    Args:
        texts: Paths, and addresses of files.
        sha256: Their digests, in the same order; none, or one for each.
        manifest: Path or address of what their producer says of them; empty for none.
        drop: The folder of a server that their source declares, of which they may be files.

    Raises:
        Refused: A file is not what is said of it, is missing, or is more than is said.
    """
    digests = [sha256_of(each) for each in sha256]
    if digests and len(digests) != len(texts):
        why = f"{len(texts)} files are named, and {len(digests)} digests: give one for each, in their order"
        raise FileRefused(fault=Fault.DIGEST, why=why)
    with fetching(settings.home) as new_folder, _Server(settings, drop) as server:
        fetch = partial(_fetched, settings, server, new_folder=new_folder)
        names = [_name_of(text) for text in texts]
        known: Mapping[str, Expected] = {}
        if manifest:
            path = fetch(manifest).path
            known = matched(path.name, read_manifest(path), names)
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


def _is_of_server(text: str) -> bool:
    """True if a text is an address on a server of a kind that sources declare; the web and stores are fetched."""
    scheme = text.partition("://")[0]
    return scheme != text and any(scheme in each.schemes for each in families())


def _name_of(text: str) -> str:
    if _is_of_server(text):
        return text.rpartition("/")[2]
    return Address.of(text).name if ADDRESS.match(text) else Path(text).name


def _fetched(settings: Settings, server: _Server, text: str, new_folder: Callable[[], Path]) -> FileCapture:
    """A file by its path, or fetched by its address into a new folder."""
    if _is_of_server(text):
        return server.fetched(text, new_folder)
    if not ADDRESS.match(text):
        return FileCapture(Path(text))
    address = Address.of(text)
    copy = new_folder() / address.name
    address.fetch(copy, settings.access)
    return FileCapture(copy, original=address.recorded)


class _Server(ExitStack):
    """The server that a source declares, to which a connection is made when a file of it is named."""

    def __init__(self, settings: Settings, drop: ServerDeclaration | None) -> None:
        super().__init__()
        self._home, self._drop = settings.home, drop
        self._files: Server | None = None
        self._entries: Mapping[str, FolderEntry] = {}

    def fetched(self, text: str, new_folder: Callable[[], Path]) -> FileCapture:
        drop, (folder, _, name) = self._drop, text.rpartition("/")
        if drop is None or folder != drop.address:
            declared = "declares none" if drop is None else f"declares {drop.address}"
            # The address may have a password in it, so it is not repeated.
            folder = "is not in the folder of a server that the source declares"
            why = f"the address of {visible(name)} {folder}: it {declared}"
            raise FileRefused(fault=Fault.ADDRESS, path=visible(name), why=why)
        if self._files is None:
            self._files = self.enter_context(open_server(drop, home=self._home))
            self._entries = {each.name: each for each in self._files.listed()}
        entry = self._entries.get(name)
        if entry is None or not stat.S_ISREG(entry.mode):
            raise NoFile(path=visible(name), why=f"there is no file {visible(text)}")
        copy = new_folder() / name
        self._files.fetch(entry, copy)
        return FileCapture(copy, original=visible(text))
