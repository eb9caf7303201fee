"""Store files: the port over a bucket of a store that speaks the protocol of S3, through the library below delta-rs.

A put with a condition decides who wins; what a store that ignores the condition would do is found out by `admission`.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from obstore import open_writer
from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import AzureStore, GCSStore, S3Store

from backfill_assets.core.places import FIRST_PAUSE, LONGEST_PAUSE, MOST_RETRIES, PATIENCE, StoreAccess, StoreUrl
from backfill_assets.files.port import FileState, NoAnswer, StoreUnusable

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import RetryConfig

_CHUNK_BYTES = 8 * 1024 * 1024
_BUFFER_BYTES = 256 * 1024
_KEYS_OF_A_REQUEST = 1000
_CODE = re.compile(r"<Code>(\w+)</Code>")
_REFUSALS = {
    "NoSuchBucket": "there is no such bucket",
    "AccessDenied": "the credentials do not allow this",
    "ExpiredToken": "the credentials have expired",
    **dict.fromkeys(
        ("InvalidAccessKeyId", "InvalidToken", "SignatureDoesNotMatch", "XAdminUserNotFound"),
        "the store does not know these credentials",
    ),
}
"""What the codes of the protocol mean."""


class FileTooLarge(Exception):
    """A file is larger than it may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFiles:
    """The files below a prefix of a bucket."""

    place: StoreUrl
    _store: S3Store | GCSStore | AzureStore = field(repr=False, compare=False)

    @property
    def at_once(self) -> int:
        """The number of threads that keeps a store busy whose answers take some hundredths of a second."""
        return 32

    @staticmethod
    def at(place: StoreUrl, access: StoreAccess, *, patience: timedelta = PATIENCE) -> StoreFiles:
        """The files of a prefix; nothing is asked of the store yet."""
        options = {name.lower(): value for name, value in access.for_delta().items() if name not in access.further}
        allow_http = bool(options.pop("aws_allow_http", ""))
        store = S3Store(
            place.bucket,
            prefix=place.prefix or None,
            config=options,  # type: ignore[arg-type] # its names may have the prefix aws_
            client_options={"allow_http": allow_http, "timeout": timedelta(seconds=300)},
            retry_config=_retrying(patience),
        )
        return StoreFiles(place=place, _store=store)

    @staticmethod
    def of_others(place: StoreUrl, access: StoreAccess) -> StoreFiles:
        """The files of a bucket that is only read; credentials of Google's and Azure's stores are those that their own
        programs find in the environment."""
        store: GCSStore | AzureStore
        match place.scheme:
            case "gs":
                store = GCSStore(place.bucket, prefix=place.prefix or None, retry_config=_retrying(PATIENCE))
            case "az":
                store = AzureStore(place.bucket, prefix=place.prefix or None, retry_config=_retrying(PATIENCE))
            case _:
                return StoreFiles.at(place, access)
        return StoreFiles(place=place, _store=store)

    def listed(self, folder: str = "") -> Iterator[FileState]:
        """Every file below a folder, sorted by path.

        Hadoop leaves an object without bytes for each folder, whose key ends in a slash; the library leaves the slash
        out. They are no files, and there is nothing at their path.
        """
        with self._answering():
            found = [_state(meta) for metas in self._store.list(prefix=folder or None) for meta in metas]
        folders = {parent for each in found for parent in _parents(each.path)}
        for each in sorted(found, key=lambda each: each.path):
            if each.size_bytes or (each.path not in folders and self.stat(each.path)):
                yield each

    def within(self, folder: str = "") -> tuple[list[FileState], list[str]]:
        """The files directly in a folder, and the names of the folders in it; what is in these is not listed."""
        with self._answering():
            found = self._store.list_with_delimiter(folder or None)
        files = [_state(meta) for meta in found["objects"] if meta["size"] or self.stat(meta["path"])]
        return files, [each.rstrip("/").rpartition("/")[2] for each in found["common_prefixes"]]

    def move(self, path: str, target: str) -> None:
        """Gives a file another path, at which there is none; while it is moved it has both."""
        with self._answering():
            self._store.copy(path, target)
            self._store.delete(path)

    def stat(self, path: str) -> FileState | None:
        with self._answering():
            try:
                return _state(self._store.head(path))
            except (FileNotFoundError, PermissionDeniedError, UnauthenticatedError) as error:
                # The answer to HEAD has no body: that there is no such bucket, or that the credentials are wrong, looks
                # like a file that is not there. A listing says what it is.
                self._store.list_with_delimiter(path)
                if not isinstance(error, FileNotFoundError):
                    raise
                return None

    def open(self, path: str) -> BinaryIO:
        """The bytes of a file, of which only ranges that are read are fetched."""
        found = self.stat(path)
        if found is None:
            raise FileNotFoundError(path)
        return io.BufferedReader(
            _Ranges(found.size_bytes, lambda start, end: self._range(path, start, end)), _BUFFER_BYTES
        )

    def _range(self, path: str, start: int, end: int) -> bytes:
        with self._answering():
            return bytes(self._store.get_range(path, start=start, end=end))

    def read(self, path: str) -> bytes:
        with self._answering():
            return bytes(self._store.get(path).bytes())

    def download(self, path: str, write: Callable[[bytes], int], *, most_bytes: int) -> int:
        """Writes the bytes of a file, all of the one that is there when it begins, and returns how many they are.

        Raises:
            FileNotFoundError: There is no such file.
            FileTooLarge: It has more bytes than it may; nothing was written.
        """
        found = self.stat(path)
        if found is None:
            raise FileNotFoundError(path)
        if found.size_bytes > most_bytes:
            raise FileTooLarge(found.size_bytes)
        with self._answering():
            # Of a file that was replaced in between, this asks for the one that was there, and is refused.
            held = self._store.get(path, options={"if_match": f'"{found.stamp}"'} if found.stamp else {})
            return sum(write(bytes(chunk)) for chunk in held.stream(min_chunk_size=_CHUNK_BYTES))

    def digest(self, path: str) -> str:
        """The sha256 of a file's bytes, which are all read."""
        digest = hashlib.sha256()
        with self._answering():
            for chunk in self._store.get(path).stream(min_chunk_size=_CHUNK_BYTES):
                digest.update(chunk)
        return digest.hexdigest()

    def put_if_absent(self, path: str, content: bytes | Path) -> bool:
        """Puts the file with the condition that there is none."""
        with self._answering():
            try:
                self._store.put(path, content, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
        return True

    def put(self, path: str, content: Path) -> None:
        with self._answering():
            self._store.put(path, content)

    @contextmanager
    def create(self, path: str) -> Iterator[BinaryIO]:
        """A new object, which is there when all of it was written."""
        with self._answering(), open_writer(self._store, path) as writer:
            yield cast(BinaryIO, _Written(writer.write))

    def remove(self, paths: Iterable[str], *, within: str = "") -> None:  # noqa: ARG002 - a store has no folders
        chosen = list(paths)
        with self._answering():
            for first in range(0, len(chosen), _KEYS_OF_A_REQUEST):
                self._store.delete(chosen[first : first + _KEYS_OF_A_REQUEST])

    def remove_folder(self, folder: str) -> None:
        self.remove([each.path for each in self.listed(folder)])

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Converts what the library reports of the store, and not of a file, into sentences."""
        try:
            yield
        except (BaseError, FileNotFoundError) as error:
            text = str(error)
            found = _CODE.search(text)
            code = found[1] if found else ""
            if code not in _REFUSALS and isinstance(error, (PermissionDeniedError, UnauthenticatedError)):
                code = "AccessDenied"
            if code in _REFUSALS:
                raise StoreUnusable(place=str(self.place), code=code, why=_REFUSALS[code]) from error
            if isinstance(error, FileNotFoundError):
                raise
            raise NoAnswer(place=str(self.place), why=_reason(text)) from error


def _retrying(patience: timedelta) -> RetryConfig:
    return {
        "max_retries": MOST_RETRIES,
        "retry_timeout": patience,
        "backoff": {"init_backoff": FIRST_PAUSE, "max_backoff": LONGEST_PAUSE, "base": 2},
    }


class _Ranges(io.RawIOBase):
    """The bytes of an object as a file that can be read at any position."""

    def __init__(self, size: int, fetch: Callable[[int, int], bytes]) -> None:
        self._size = size
        self._fetch = fetch
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def readinto(self, buffer: object) -> int:
        wanted = memoryview(cast(bytearray, buffer))
        end = min(self._size, self._position + len(wanted))
        if end <= self._position:
            return 0
        found = self._fetch(self._position, end)
        wanted[: len(found)] = found
        self._position += len(found)
        return len(found)


class _Written(io.RawIOBase):
    """An object that is being written, as a file."""

    def __init__(self, write: Callable[[bytes], int]) -> None:
        self._write = write

    def writable(self) -> bool:
        return True

    def write(self, content: object) -> int:
        return self._write(bytes(cast(bytes, content)))


def _parents(path: str) -> Iterator[str]:
    """The folders above a path, the place itself included."""
    yield ""
    parts = path.split("/")[:-1]
    for number in range(1, len(parts) + 1):
        yield "/".join(parts[:number])


def _state(meta: ObjectMeta) -> FileState:
    stamp = (meta["e_tag"] or "").strip('"')
    return FileState(path=meta["path"], size_bytes=meta["size"], stamp=stamp, changed_at=meta["last_modified"])


def _reason(text: str) -> str:
    """The beginning of a library's message, whose remaining lines describe the request."""
    first = text.partition("<?xml")[0].strip().partition("\n")[0]
    return first[:200].rstrip(".: ") or "it gives no reason"
