"""SFTP servers on loopback: one of this process whose connections a test can break, and OpenSSH's where it is there."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import asyncssh

from backfill_assets.capture.sftp.declaration import SftpFolder

PASSWORD = "a password of a test"
CACHED = Path(os.environ.get("BACKFILL_CACHE", Path.home() / ".cache" / "backfill_assets")) / "sshd"


class NoServer(Exception):
    """OpenSSH's server is not there."""


@dataclass(kw_only=True)
class Server:
    """A server of a folder, whose user is `producer`."""

    root: Path  #: The folder, which the server calls `/`.
    #: What it shows.
    key: asyncssh.SSHKey = field(default_factory=lambda: asyncssh.generate_private_key("ssh-ed25519"))
    allowed: asyncssh.SSHKey | None = None  #: The key of its user; None where a password is asked for.
    #: Called before a part of a file is given: with its path and where the part begins.
    on_read: Callable[[str, int], object] = lambda _path, _at: None
    logins: int = 0  #: How often somebody has begun to log in.
    port: int = 0
    connections: list[asyncssh.SSHServerConnection] = field(default_factory=list)

    def declared(self, folder: str = "/", **changed: object) -> SftpFolder:
        """The folder as a source would declare it."""
        made = SftpFolder(
            host="127.0.0.1",
            port=self.port,
            user="producer",
            folder=folder,
            host_key=host_key(self.key),
            secrets={"password": "SHOP_SFTP_PASSWORD"},
        )
        return replace(made, **changed)  # type: ignore[arg-type]

    def hangs_up(self) -> None:
        """Breaks every connection."""
        for each in self.connections:
            if found := each.get_extra_info("socket"):
                found.shutdown(socket.SHUT_RDWR)


def host_key(key: asyncssh.SSHKey) -> str:
    """The public part of a key, as a source declares it."""
    return " ".join(key.export_public_key().decode().split()[:2])


@contextmanager
def running_sftp(root: Path) -> Iterator[Server]:
    """A server of a folder while the block lasts."""
    root.mkdir(parents=True, exist_ok=True)
    server = Server(root=root)

    class Login(asyncssh.SSHServer):
        def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
            server.connections.append(conn)

        def begin_auth(self, username: str) -> bool:  # noqa: ARG002 - as it is called
            server.logins += 1
            return True

        def password_auth_supported(self) -> bool:
            return server.allowed is None

        def validate_password(self, username: str, password: str) -> bool:
            return (username, password) == ("producer", PASSWORD)

        def public_key_auth_supported(self) -> bool:
            return server.allowed is not None

        def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
            allowed = server.allowed
            return username == "producer" and allowed is not None and key.public_data == allowed.public_data

    class Folder(asyncssh.SFTPServer):
        def __init__(self, channel: asyncssh.SSHServerChannel[bytes]) -> None:
            super().__init__(channel, chroot=os.fsencode(root))

        async def read(self, file_obj: object, offset: int, size: int) -> bytes:
            await asyncio.to_thread(server.on_read, os.fsdecode(file_obj.name), offset)  # type: ignore[attr-defined]
            return super().read(file_obj, offset, size)  # type: ignore[return-value]

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def run(work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    async def listen() -> asyncssh.SSHAcceptor:
        keys = [server.key]
        return await asyncssh.listen("127.0.0.1", 0, server_factory=Login, server_host_keys=keys, sftp_factory=Folder)

    listening = run(listen())
    server.port = listening.get_port()
    try:
        yield server
    finally:

        async def end() -> None:
            listening.close()
            for each in server.connections:
                each.abort()
            await listening.wait_closed()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            await asyncio.gather(*others, return_exceptions=True)

        run(end())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def running_openssh(folder: Path) -> Iterator[SftpFolder]:
    """OpenSSH's server for the user of this process, who logs in by the key `folder/login`.

    Raises:
        NoServer: It is not there.
    """
    programs = CACHED / "usr"
    wrapper = next(programs.glob("lib/*/libnss_wrapper.so"), None)
    if wrapper is None or not (programs / "sbin/sshd").exists():
        raise NoServer("OpenSSH's server was not found; run tools/setup.sh sftp")
    keys = {name: asyncssh.generate_private_key("ssh-ed25519") for name in ("host", "login")}
    for name, key in keys.items():
        (folder / name).touch(mode=0o600)
        key.write_private_key(folder / name)
    keys["login"].write_public_key(folder / "authorized")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    # The users of the server are those of a file of the test.
    people = f"producer:x:{os.getuid()}:{os.getgid()}::{folder}:/bin/sh\nsshd:x:65534:65534::/run/sshd:/bin/false\n"
    (folder / "people").write_text(people)
    (folder / "groups").write_text(f"producer:x:{os.getgid()}:\n")
    environment = {
        "LD_LIBRARY_PATH": str(wrapper.parent),
        "LD_PRELOAD": str(wrapper),
        "NSS_WRAPPER_PASSWD": str(folder / "people"),
        "NSS_WRAPPER_GROUP": str(folder / "groups"),
    }
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    lines = (
        *("ListenAddress 127.0.0.1", f"Port {port}", f"HostKey {folder / 'host'}", "PidFile none", "StrictModes no"),
        *(
            f"AuthorizedKeysFile {folder / 'authorized'}",
            "PasswordAuthentication no",
            f"Subsystem sftp {programs / 'lib/openssh/sftp-server'}",
        ),
    )
    (folder / "config").write_text("\n".join(lines) + "\n")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [programs / "sbin/sshd", "-D", "-e", "-f", folder / "config"], stderr=log, env=environment
        )
    try:
        for _ in range(100):
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.05)
        else:
            raise AssertionError((folder / "log").read_text())
        yield SftpFolder(
            host="127.0.0.1",
            port=port,
            user="producer",
            folder=str(folder / "out"),
            host_key=host_key(keys["host"]),
            secrets={"key": "SHOP_SFTP_KEY"},
        )
    finally:
        process.terminate()
        process.wait()
