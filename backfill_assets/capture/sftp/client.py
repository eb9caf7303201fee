"""SFTP client: lists and fetches the files of a folder. The only module that speaks to an SFTP server.

A server has to show the key that is declared of it before a password or key is sent to it. Nothing is written there.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from backfill_assets.capture.declared import secrets_named
from backfill_assets.capture.errors import (
    CannotBeCaptured,
    Fault,
    FileRefused,
    NoFile,
    StreamDenied,
    StreamFailed,
    no_answer_within,
)
from backfill_assets.capture.files.drop_places import FolderEntry
from backfill_assets.capture.sftp.declaration import SftpFolder
from backfill_assets.core.errors import DiskFull, PackageMissing, Refused, is_full_disk
from backfill_assets.core.progress import waiting

if TYPE_CHECKING:
    from asyncssh import SFTPClient, SFTPName, SSHKey

SECONDS = 30.0
"""How long a server may say nothing."""
_PART_BYTES = 4 << 20
"""So much of a file is asked for at once."""

Result = TypeVar("Result")


class SftpFiles:
    """The folder of a server to which a connection is open."""

    def __init__(self, declared: SftpFolder, client: SFTPClient, run: _Loop) -> None:
        self._declared = declared
        self._client = client
        self._run = run

    def listed(self) -> list[FolderEntry]:
        """Everything in the folder.

        Raises:
            Refused: There is no such folder, or it may not be read.
            Retryable: The connection broke off.
        """
        declared, library = self._declared, _asyncssh()
        with _working(declared), waiting(lambda: f"listing {declared.address}"):
            try:
                found = self._run.of(self._entries())
            except (library.SFTPNoSuchFile, library.SFTPNoSuchPath) as error:
                raise CannotBeCaptured(name=declared.address, why="there is no such folder") from error
            except library.SFTPPermissionDenied as error:
                why = f"{declared.user} may not read the folder"
                raise CannotBeCaptured(name=declared.address, why=why) from error
        return [each for each in found if each.name not in (".", "..")]

    async def _entries(self) -> list[FolderEntry]:
        entries = aiter(self._client.scandir(os.fsencode(self._declared.folder)))
        found: list[FolderEntry] = []
        while True:
            async with asyncio.timeout(SECONDS):
                try:
                    found.append(_entry(await anext(entries)))
                except StopAsyncIteration:
                    return found

    def fetch(self, entry: FolderEntry, copy: Path) -> None:
        """Writes a whole file as it was listed.

        Args:
            copy: A new file.

        Raises:
            MissingInput: It is gone.
            Refused: It may not be read, or is no longer what was listed.
            Retryable: The connection broke off, or there is no space for the copy.
        """
        declared, library = self._declared, _asyncssh()
        at = f"{declared.address}/{entry.name}"
        with _working(declared), waiting(lambda: f"fetching {at}"):
            try:
                size, now = self._run.of(self._fetched(entry, copy))
            except (library.SFTPNoSuchFile, library.SFTPNoSuchPath) as error:
                raise NoFile(path=at, why=f"there is no longer a file {at}") from error
            except library.SFTPPermissionDenied as error:
                why = f"{at} may not be read by {declared.user}"
                raise FileRefused(fault=Fault.RIGHTS, path=at, why=why) from error
            except OSError as error:
                if is_full_disk(error):
                    raise DiskFull(holds=str(copy.parent)) from error
                raise
        if (size, now.size, now.mtime) != (entry.size_bytes, entry.size_bytes, entry.changed_s):
            why = f"{at} changed while it was fetched, so that what is in it is not known"
            raise FileRefused(fault=Fault.CHANGING, path=at, why=why)

    async def _fetched(self, entry: FolderEntry, copy: Path) -> tuple[int, Any]:
        path = os.fsencode(f"{self._declared.folder.rstrip('/')}/{entry.name}")
        size, expected = 0, entry.size_bytes or 0
        async with asyncio.timeout(SECONDS):
            file: Any = await self._client.open(path, "rb")
        try:
            with copy.open("wb") as written:
                while size < expected:
                    async with asyncio.timeout(SECONDS):
                        part = await file.read(min(_PART_BYTES, expected - size), size)
                    if not part:
                        break
                    size += written.write(part)
            async with asyncio.timeout(SECONDS):
                return size, await self._client.stat(path)
        finally:
            async with asyncio.timeout(SECONDS):
                await file.close()


@contextmanager
def sftp_files(declared: SftpFolder, secret: Mapping[str, str]) -> Iterator[SftpFiles]:
    """Opens a folder while the block lasts.

    Args:
        secret: The values of the declared secrets, by what they are for.

    Raises:
        PackageMissing: Its client is not installed.
        Refused: The server shows another key, or does not accept the login.
        Retryable: It does not answer.
    """
    library = _asyncssh()
    key = _private_key(declared, secret) if "key" in secret else None
    with _Loop() as loop:
        connection = loop.of(_connected(declared, key, secret))
        try:
            with _working(declared):
                try:
                    client = loop.of(connection.start_sftp_client(path_encoding=None))
                except library.ChannelOpenError as error:
                    why = "the server opens no session of SFTP"
                    raise CannotBeCaptured(name=declared.address, why=why) from error
            yield SftpFiles(declared, client, loop)
        finally:
            connection.abort()
            loop.of(connection.wait_closed())


async def _connected(declared: SftpFolder, key: SSHKey | None, secret: Mapping[str, str]) -> Any:
    """A connection to a server that has shown a declared key, and has let the user in."""
    library = _asyncssh()
    shown: list[str] = []

    class Pinned(library.SSHClient):  # type: ignore[misc, name-defined]
        def validate_host_public_key(self, _host: str, _address: str, _port: int, key: SSHKey) -> bool:
            kind, shown_key = key.export_public_key().decode().split()[:2]
            shown[:] = [f"{kind} {key.get_fingerprint()}"]
            return (kind, shown_key) in declared.host_keys

    kinds = [way for kind, _ in declared.host_keys for way in (_RSA if kind == "ssh-rsa" else (kind,))]
    try:
        return await library.connect(
            declared.host,
            declared.port,
            username=declared.user,
            client_factory=Pinned,
            known_hosts=b"",
            server_host_key_algs=kinds,
            client_keys=[key] if key else None,
            password=secret.get("password"),
            preferred_auth="publickey" if key else "password,keyboard-interactive",
            agent_path=None,
            config=None,
            connect_timeout=SECONDS,
            login_timeout=SECONDS,
        )
    except library.PermissionDenied as error:
        way = "key" if key else "password"
        why = f"the user {declared.user} or the {way} is another one, or the server does not accept a {way}"
        raise StreamDenied(name=declared.address, why=why) from error
    except (library.HostKeyNotVerifiable, library.KeyExchangeFailed) as error:
        none = f"none of the kind {' or '.join(kind for kind, _ in declared.host_keys)}"
        raise Refused.coded(
            "other_host_key",
            "{name} shows another host key than its declaration has, {found}: nothing was sent to it.",
            then="ask who runs the server whether its key was replaced; if so, declare the new one as host_key, else "
            "another machine may answer in its place",
            name=declared.address,
            found=none if isinstance(error, library.KeyExchangeFailed) else shown[0],
        ) from error
    except socket.gaierror as error:
        why = no_answer_within(SECONDS, f"no host {declared.host} is known")
        raise StreamFailed(name=declared.address, why=why) from error
    except (library.Error, OSError, EOFError) as error:
        raise StreamFailed(name=declared.address, why=no_answer_within(SECONDS)) from error


_RSA = ("rsa-sha2-512", "rsa-sha2-256")
"""How a server signs with a key of RSA."""


def _private_key(declared: SftpFolder, secret: Mapping[str, str]) -> SSHKey:
    library = _asyncssh()
    try:
        return library.import_private_key(secret["key"] + "\n", secret.get("key_password"))  # type: ignore[no-any-return]
    except (library.KeyImportError, library.KeyEncryptionError, ValueError) as error:
        why = "its key is not a private key, or key_password is missing or another one"
        raise StreamDenied(name=declared.address, why=why) from error


@contextmanager
def _working(declared: SftpFolder) -> Iterator[None]:
    """Names what ends a connection while it is used."""
    library = _asyncssh()
    try:
        yield
    except TimeoutError as error:
        raise StreamFailed(name=declared.address, why=no_answer_within(SECONDS)) from error
    except (library.Error, library.SFTPError, EOFError, OSError) as error:
        raise StreamFailed(name=declared.address, why="the connection broke off") from error


class _Loop:
    """An event loop in a thread of its own, because one may be running in this thread, as in a notebook."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="sftp", daemon=True)

    def __enter__(self) -> _Loop:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def of(self, work: Awaitable[Result]) -> Result:
        """Runs some work and returns its result."""

        async def awaited() -> Result:
            return await work

        return asyncio.run_coroutine_threadsafe(awaited(), self._loop).result()


def _entry(found: SFTPName) -> FolderEntry:
    given, attributes = found.filename, found.attrs
    return FolderEntry(
        name=os.fsdecode(given),
        mode=attributes.permissions or 0,
        size_bytes=attributes.size,
        changed_s=attributes.mtime,
    )


def _asyncssh() -> Any:
    try:
        import asyncssh
    except ImportError:
        raise PackageMissing(what="a drop folder on an SFTP server", package="asyncssh", extra="sftp") from None
    # What goes wrong is said in a sentence.
    logging.getLogger("asyncssh").setLevel(logging.CRITICAL)
    return asyncssh


def open_server(declared: SftpFolder, *, home: Path) -> AbstractContextManager[SftpFiles]:
    """The folder that a source declares, as any family opens one."""
    return sftp_files(declared, secrets_named(declared.secrets, home=home))
