"""Drop places: where files are dropped, a folder or a prefix of an object store, by the same rules.

In a store nothing is moved in one step: a landed object is copied to its new key and its old one removed. One that is
written between these two is lost, so that producers give each object a key of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.capture.deliveries import in_deliveries
from backfill_assets.capture.drop_folder import LANDED, DroppedFile, dropped_files, is_finished, put_aside
from backfill_assets.capture.errors import NoFile
from backfill_assets.capture.expected_files import Expected, read_manifest
from backfill_assets.capture.fetched_files import MOST_BYTES, fetching
from backfill_assets.capture.file_capture import FileCapture
from backfill_assets.core.places import StoreUrl
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


def drop_place(settings: Settings) -> DropFolder | DropPrefix | None:
    """Where files are dropped; None for nowhere."""
    match settings.drop:
        case Path():
            return DropFolder(settings.drop)
        case StoreUrl():
            from backfill_assets.files.store import StoreFiles  # its library takes 15 MB

            files = StoreFiles.at(settings.drop, settings.access)
            return DropPrefix(settings.drop, files, settings.home)
    return None


def dropped(settings: Settings, sources: Iterable[str], at: datetime) -> tuple[DroppedFile, ...]:
    """What is dropped and need not wait for the rest of its delivery, the oldest first."""
    place = drop_place(settings)
    if place is None:
        return ()

    def said(manifest: DroppedFile) -> Sequence[Expected]:
        with place.taken(manifest) as taken:
            return [replace(each, said_by=manifest.path.name) for each in read_manifest(taken.path)]

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
