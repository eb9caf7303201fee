"""Drop places: where files are dropped, a folder, a prefix of an object store or a folder of a server, by the same
rules.

In a store nothing is moved in one step: a landed object is copied to its new key and its old one removed. One that is
written between these two is lost, so that producers give each object a key of its own. On a server nothing is
moved: the ledger knows what was fetched, by name, size and time.
"""

from __future__ import annotations

import re
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from backfill_assets.capture.errors import NoFile
from backfill_assets.capture.families import family
from backfill_assets.capture.files.drop_folder import (
    LANDED,
    SETTLED_AFTER,
    DroppedFile,
    dropped_files,
    in_deliveries,
    is_finished,
    is_manifest,
    put_aside,
)
from backfill_assets.capture.files.fetched_files import MOST_BYTES, fetching
from backfill_assets.capture.files.file_capture import Expected, FileCapture, read_manifest
from backfill_assets.core.places import StoreUrl
from backfill_assets.core.progress import waiting
from backfill_assets.core.settings import Settings
from backfill_assets.core.wording import visible

if TYPE_CHECKING:
    from backfill_assets.files.port import FileState
    from backfill_assets.files.store import StoreFiles


@dataclass(frozen=True, slots=True)
class DropFolder:
    """A folder of this machine."""

    place: Path

    def listed(self, sources: Iterable[str]) -> tuple[DroppedFile, ...]:
        return dropped_files(self.place, sources)

    @contextmanager
    def taken(self, dropped: DroppedFile) -> Iterator[FileCapture]:
        yield FileCapture(dropped.path, expected=dropped.expected)

    def put_aside(self, dropped: DroppedFile, import_id: str) -> None:
        put_aside(dropped, drop=self.place, import_id=import_id)


@dataclass(frozen=True, slots=True)
class DropPrefix:
    """A prefix of a bucket. What is below a folder of a source is not looked at, but for that it is there."""

    place: StoreUrl
    files: StoreFiles
    home: Path

    def listed(self, sources: Iterable[str]) -> tuple[DroppedFile, ...]:
        known, found = set(sources), list[DroppedFile]()
        stray, folders = self.files.within()
        no_source = f"it is not in the folder of a source: {', '.join(sorted(known))}"
        found += [_dropped("", each, no_source) for each in stray if is_finished(_name(each))]
        for folder in folders:
            if folder in known:
                within, deeper = self.files.within(folder)
                found += [_dropped(folder, each) for each in within if is_finished(_name(each))]
                below = [f"{folder}/{each}" for each in deeper if each != LANDED and is_finished(each)]
                why = "it is a folder: put the files in it directly into the folder of their source"
                found += [_folder(each, why) for each in below]
            elif is_finished(folder):
                found.append(_folder(folder, no_source))
        return tuple(sorted(found, key=lambda each: (each.changed_at, each.subject)))

    @contextmanager
    def taken(self, dropped: DroppedFile) -> Iterator[FileCapture]:
        key = dropped.path.as_posix()
        with fetching(self.home) as new_folder:
            copy = new_folder() / dropped.path.name
            try:
                with copy.open("wb") as written:
                    self.files.download(key, written.write, most_bytes=MOST_BYTES)
            except FileNotFoundError as error:
                why = f"there is no longer a file {dropped.subject}"
                raise NoFile(path=dropped.subject, why=why) from error
            yield FileCapture(copy, original=visible(f"{self.place}/{key}"), expected=dropped.expected)

    def put_aside(self, dropped: DroppedFile, import_id: str) -> None:
        key = dropped.path.as_posix()
        held = self.files.stat(key)
        if held is None or _mark(held) != dropped.mark:
            return
        for number in count(1):
            again = f"-{number}" if number > 1 else ""
            target = f"{dropped.source}/{LANDED}/{import_id}{again}-{dropped.path.name}"
            if self.files.stat(target) is None:
                self.files.move(key, target)
                return


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderEntry:
    """An entry of a folder of a server."""

    name: str  #: Its name; bytes of it that are not UTF-8 are as `os.fsdecode` has them.
    mode: int  #: What it is, as `stat` has it; 0 where the server does not say.
    size_bytes: int | None  #: How large it is; None where the server does not say.
    changed_s: int | None  #: When it was changed last, in seconds since 1970; None where the server does not say.

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)


class Server(Protocol):
    """A folder of a server to which a connection is open."""

    def listed(self) -> Sequence[FolderEntry]:
        """Everything in the folder.

        Raises:
            Refused: There is no such folder, or it may not be read.
            Retryable: The connection broke off.
        """

    def fetch(self, entry: FolderEntry, copy: Path) -> None:
        """Writes a whole file as it was listed.

        Args:
            copy: A new file.

        Raises:
            MissingInput: It is gone.
            Refused: It may not be read, or is no longer what was listed.
            Retryable: The connection broke off, or there is no space for the copy.
        """


class DeclaredServer(Protocol):
    """The declaration of a folder of a server."""

    @property
    def family(self) -> str: ...
    @property
    def address(self) -> str: ...
    def is_meant(self, name: str) -> bool: ...


class OpensServers(Protocol):
    """The module `client` of a family that has servers."""

    def open_server(self, declared: Any, *, home: Path) -> AbstractContextManager[Server]:
        """The folder of a declaration of this family; see `open_server`."""


def open_server(declared: DeclaredServer, *, home: Path) -> AbstractContextManager[Server]:
    """A folder of a server, while the block lasts.

    Args:
        declared: The folder as its source declares it.
        home: The folder in which no secret may be.

    Raises:
        Refused: Its client is not installed, a secret is not there, or the server is another one.
        Retryable: The server does not answer.
    """
    servers: OpensServers = family(declared.family).module("client")
    return servers.open_server(declared, home=home)


def is_on_server(subject: str) -> bool:
    """True if a dropped file lies on a server, by its name for people, which begins with an address then."""
    return re.match(r"[a-z][a-z0-9+.-]*://", subject) is not None


class ServerPlace:
    """A folder of a server, into which files of one source are dropped.

    Args:
        source: The name of the source.
        home: Where files are fetched to, and no secret may be.
        at: The present.
        fetched: What was fetched before and is passed over, by subject and mark.
    """

    def __init__(
        self,
        declared: DeclaredServer,
        source: str,
        *,
        home: Path,
        at: datetime,
        fetched: AbstractSet[tuple[str, str]] = frozenset(),
    ) -> None:
        self._at = at
        self._declared = declared
        self._source = source
        self._home = home
        self._fetched = fetched
        self._open = ExitStack()
        self._files: Server | None = None
        self._entries: Mapping[str, FolderEntry] = {}

    def listed(self, _sources: Iterable[str] = ()) -> tuple[DroppedFile, ...]:
        entries = [each for each in self._connected().listed() if self._is_meant(each)]
        found = {self._subject(each): each for each in entries}
        self._entries = found
        dropped = (self._dropped(subject, each) for subject, each in found.items())
        new = (each for each in dropped if (each.subject, each.mark) not in self._fetched)
        return tuple(sorted(new, key=lambda each: (each.changed_at, each.subject)))

    def unchanged(self, files: Sequence[DroppedFile]) -> list[DroppedFile]:
        """The files that do not change for a while: the clock of the server may differ, and copies keep times."""
        if not files:
            return []
        with waiting(lambda: f"looking whether {len(files)} files of {self._declared.address} are still written"):
            time.sleep(SETTLED_AFTER.total_seconds())
        marks = {each.subject: each.mark for each in self.listed()}
        return [each for each in files if marks.get(each.subject) == each.mark]

    @contextmanager
    def taken(self, dropped: DroppedFile) -> Iterator[FileCapture]:
        with fetching(self._home) as new_folder:
            copy = new_folder() / dropped.path.name
            self._connected().fetch(self._entries[dropped.subject], copy)
            yield FileCapture(copy, original=dropped.subject, expected=dropped.expected)

    def is_named(self, expected: Expected) -> bool:
        """True if a file that a manifest names belongs to the source."""
        return self._declared.is_meant(expected.name)

    def close(self) -> None:
        self._open.close()

    def _connected(self) -> Server:
        if self._files is None:
            self._files = self._open.enter_context(open_server(self._declared, home=self._home))
        return self._files

    def _is_meant(self, entry: FolderEntry) -> bool:
        is_ours = is_manifest(entry.name) or self._declared.is_meant(entry.name)
        return is_ours and is_finished(entry.name) and not entry.is_folder

    def _subject(self, entry: FolderEntry) -> str:
        return f"{self._declared.address}/{visible(entry.name)}"

    def _dropped(self, subject: str, entry: FolderEntry) -> DroppedFile:
        changed_at = datetime.fromtimestamp(max(0, min(entry.changed_s or 0, _LATEST_S)), UTC)
        return DroppedFile(
            source=self._source,
            path=Path(entry.name),
            subject=subject,
            mark=f"{entry.size_bytes}:{entry.changed_s}",
            # By a clock that is ahead, or set otherwise, nothing is told: whether it is the same in a while decides.
            changed_at=changed_at if changed_at <= self._at else self._at - SETTLED_AFTER,
            unfit=_unfit(entry),
        )


_LATEST_S = 1 << 36


def _unfit(entry: FolderEntry) -> str:
    if stat.S_ISLNK(entry.mode):
        return "it is a link, and a link can name what its owner could not read: put the file itself there"
    if stat.S_IFMT(entry.mode) and not stat.S_ISREG(entry.mode):
        return "it is a pipe, a socket or a device, which has no content that could be landed again"
    if entry.size_bytes is None or entry.changed_s is None:
        return "the server does not say how large it is, and when it was changed"
    return ""


DropPlace = DropFolder | DropPrefix | ServerPlace


def drop_place(settings: Settings) -> DropFolder | DropPrefix | None:
    """The place into which files of all sources are dropped; None without one."""
    match settings.drop:
        case Path():
            return DropFolder(settings.drop)
        case StoreUrl():
            from backfill_assets.files.store import StoreFiles  # its library takes 15 MB

            files = StoreFiles.at(settings.drop, settings.access)
            return DropPrefix(settings.drop, files, settings.home)
    return None


def dropped(place: DropPlace, sources: Iterable[str], at: datetime) -> tuple[DroppedFile, ...]:
    """The dropped files that need not wait for the rest of their delivery, oldest first."""

    def said(manifest: DroppedFile) -> Sequence[Expected]:
        with place.taken(manifest) as taken:
            found = [replace(each, said_by=manifest.path.name) for each in read_manifest(taken.path)]
        return [each for each in found if not isinstance(place, ServerPlace) or place.is_named(each)]

    return in_deliveries(place.listed(sources), said, at)


def _name(file: FileState) -> str:
    return file.path.rpartition("/")[2]


def _dropped(source: str, file: FileState, unfit: str = "") -> DroppedFile:
    assert file.changed_at is not None, "a store says when an object was written"
    return DroppedFile(
        source=source,
        path=Path(file.path),
        subject=visible(file.path),
        mark=_mark(file),
        changed_at=file.changed_at,
        unfit=unfit,
    )


def _folder(path: str, unfit: str) -> DroppedFile:
    source = path.partition("/")[0] if "/" in path else ""
    first = datetime.min.replace(tzinfo=UTC)
    return DroppedFile(source=source, path=Path(path), subject=visible(path), mark="", changed_at=first, unfit=unfit)


def _mark(file: FileState) -> str:
    return f"{file.size_bytes}:{file.stamp}:{file.changed_at}"
