"""Files of an SFTP server come as they are there, from the server that is declared and from no other one."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import asyncssh
import pytest

from backfill_assets.capture.errors import Fault, FileRefused, NoFile
from backfill_assets.capture.files.drop_places import FolderEntry
from backfill_assets.capture.sftp import client
from backfill_assets.capture.sftp.client import sftp_files
from backfill_assets.core.errors import BackfillError, DiskFull
from backfill_assets_tests.support.sftp_server import (
    PASSWORD,
    NoServer,
    Server,
    host_key,
    running_openssh,
    running_sftp,
)

SECRET = {"password": PASSWORD}
LARGE = random.Random(7).randbytes(9_000_001)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with running_sftp(tmp_path / "out") as found:
        yield found


def listed(server: Server) -> dict[str, FolderEntry]:
    with sftp_files(server.declared(), SECRET) as files:
        return {each.name: each for each in files.listed()}


def refusal(server: Server, **changed: object) -> str:
    secret = changed.pop("secret", SECRET)
    with (
        pytest.raises(BackfillError) as refused,
        sftp_files(server.declared(**changed), secret) as files,  # type: ignore[arg-type]
    ):
        files.listed()
    return str(refused.value)


def test_files_of_openssh_come_byte_by_byte_whatever_they_are_called(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    odd = ("a b.csv", "Größe 2026.csv", "'quoted' \"twice\".csv", "semi;colon&.csv", "-r.csv", "new\nline.csv", "*.csv")
    contents = {name: name.encode() * 1000 for name in odd} | {"large.bin": LARGE, "empty.csv": b""}
    for name, content in contents.items():
        (out / name).write_bytes(content)
    (Path(os.fsencode(out).decode()) / "latin-\udce9.csv").write_bytes(b"1")
    (out / "below").mkdir()
    try:
        with running_openssh(tmp_path) as declared:
            login = (tmp_path / "login").read_text()
            with sftp_files(declared, {"key": login}) as files:
                found = {each.name: each for each in files.listed()}
                assert found.keys() == {*contents, "below", "latin-\udce9.csv"}
                assert found["below"].is_folder and not found["empty.csv"].is_folder
                for name, content in contents.items():
                    files.fetch(found[name], tmp_path / "copy")
                    assert (tmp_path / "copy").read_bytes() == content, name
    except NoServer as reason:
        pytest.skip(f"SFTP IS TRIED WITH ASYNCSSH'S SERVER ALONE: {reason}")


def test_another_host_key_is_refused_before_anybody_logs_in(server: Server) -> None:
    other, of_another_kind = (asyncssh.generate_private_key(kind) for kind in ("ssh-ed25519", "ecdsa-sha2-nistp256"))
    for key in (other, of_another_kind):
        said = refusal(server, host_key=host_key(key))
        assert said.startswith(f"sftp://127.0.0.1:{server.port} shows another host key than its declaration has, ")
        assert said.endswith(": nothing was sent to it.")
    assert server.logins == 0
    # While a key is replaced, both of them are declared.
    pinned = tuple(map(host_key, (of_another_kind, other, server.key)))
    with sftp_files(server.declared(host_key=pinned), SECRET) as files:
        assert files.listed() == []


def test_a_wrong_login_is_refused_without_its_secret(server: Server) -> None:
    for said in (refusal(server, secret={"password": "wrong one"}), refusal(server, user="nobody")):
        assert "does not accept the credentials: the user " in said
        assert "wrong one" not in said
    server.allowed = asyncssh.generate_private_key("ssh-ed25519")
    assert "or the server does not accept a password" in refusal(server)
    assert "its key is not a private key" in refusal(server, secret={"key": "no key"})


@pytest.mark.long
def test_a_key_logs_in_also_one_that_is_encrypted(server: Server) -> None:
    server.allowed = asyncssh.generate_private_key("ecdsa-sha2-nistp256")
    plain = server.allowed.export_private_key().decode()
    locked = server.allowed.export_private_key(passphrase="of the key", rounds=50).decode()
    for secret in ({"key": plain}, {"key": locked, "key_password": "of the key"}):
        with sftp_files(server.declared(), secret) as files:
            assert files.listed() == []
    for wrong in ({"key": locked}, {"key": locked, "key_password": "another"}):
        assert "or key_password is missing or another one" in refusal(server, secret=wrong)


@pytest.mark.long
def test_a_connection_that_breaks_or_stalls_is_named_and_works_again(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (server.root / "large.bin").write_bytes(LARGE)
    entry = listed(server)["large.bin"]

    def breaks(_path: str, at: int) -> None:
        if at > 0:
            server.hangs_up()
            server.on_read = lambda _path, _at: time.sleep(0.1)

    server.on_read = breaks
    broken = pytest.raises(BackfillError, match="stopped: the connection broke off")
    with broken, sftp_files(server.declared(), SECRET) as files:
        files.fetch(entry, tmp_path / "copy")
    stalled = threading.Event()
    server.on_read = lambda _path, _at: stalled.wait(20)
    monkeypatch.setattr(client, "SECONDS", 1.0)
    silent = pytest.raises(BackfillError, match="did not answer within 1 s")
    with silent, sftp_files(server.declared(), SECRET) as files:
        files.fetch(entry, tmp_path / "copy")
    stalled.set()
    server.on_read = lambda _path, _at: None
    with sftp_files(server.declared(), SECRET) as files:
        files.fetch(entry, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == LARGE


def test_a_disk_without_space_is_no_broken_connection(server: Server) -> None:
    (server.root / "large.bin").write_bytes(LARGE)
    entry = listed(server)["large.bin"]
    with sftp_files(server.declared(), SECRET) as files, pytest.raises(DiskFull, match="no space is left"):
        files.fetch(entry, Path("/dev/full"))


@pytest.mark.parametrize("change", ["grows", "shrinks", "is touched", "is gone"])
def test_a_file_that_changes_while_it_is_fetched_is_refused(server: Server, tmp_path: Path, change: str) -> None:
    path = server.root / "a.csv"
    path.write_bytes(LARGE)
    entry = listed(server)["a.csv"]

    def changes(_path: str, _at: int) -> None:
        server.on_read = lambda _path, _at: None
        match change:
            case "grows":
                path.write_bytes(LARGE + b"1")
                os.utime(path, (entry.changed_s or 0, entry.changed_s or 0))
            case "shrinks":
                path.write_bytes(LARGE[:-1])
                os.utime(path, (entry.changed_s or 0, entry.changed_s or 0))
            case "is touched":
                os.utime(path, (0, 0))
            case "is gone":
                path.unlink()

    server.on_read = changes
    with (
        sftp_files(server.declared(), SECRET) as files,
        pytest.raises(NoFile if change == "is gone" else FileRefused) as refused,
    ):
        files.fetch(entry, tmp_path / "copy")
    if change != "is gone":
        assert isinstance(refused.value, FileRefused) and refused.value.fault is Fault.CHANGING


def test_what_is_not_there_or_not_allowed_is_named(server: Server) -> None:
    assert refusal(server, folder="/missing").endswith("/missing cannot be captured: there is no such folder.")
    assert "(no host no-such-host.invalid is known)" in refusal(server, host="no-such-host.invalid")
    with running_sftp(server.root) as other:
        free = other.port
    assert f"sftp://127.0.0.1:{free} stopped: it did not answer within 30 s" in refusal(server, port=free)


def test_thousands_of_names_are_listed(server: Server) -> None:
    for number in range(5_000):
        (server.root / f"orders_{number}.csv").touch()
    assert len(listed(server)) == 5_000
