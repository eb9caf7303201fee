"""Where does a real PostgreSQL for the tests come from?

From the machine: Debian's `postgresql` package or Homebrew's. A server of our own in a temporary folder, reached by a
unix socket in the same folder, so no port can be taken and nothing else on the machine is touched.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SERVICE_USERS = ("postgres", "nobody")
"""PostgreSQL refuses to run as root; tests in a container often do."""

SETTINGS = {"listen_addresses": "", "fsync": "off", "max_connections": "200"}


class NoPostgres(Exception):
    """There is no PostgreSQL on this machine, or it cannot be started; the message says which."""


def programs() -> Path:
    """The folder of initdb and pg_ctl, of the newest version there is."""
    on_path = shutil.which("initdb")
    if on_path:
        return Path(on_path).resolve().parent
    roots = ("/usr/lib/postgresql", "/opt/homebrew/opt", "/usr/local/opt")
    found = [path for root in roots for path in Path(root).glob("*/bin/initdb")]
    if not found:
        raise NoPostgres(
            "no PostgreSQL on this machine (Debian: apt-get install postgresql; macOS: brew install postgresql)"
        )
    return max(
        found, key=lambda path: [int(part) for part in path.parts[-3].split("@")[-1].split(".") if part.isdigit()]
    ).parent


@contextmanager
def running_server(*, settings: Mapping[str, str] | None = None, host_auth: str = "trust") -> Iterator[str]:
    """A running server; gives the URL of its database `postgres`, and is gone afterwards.

    Args:
        settings: Of the server, besides the usual ones.
        host_auth: How whoever comes over the network shows who they are.

    Raises:
        NoPostgres: There is none, or it does not start.
    """
    binaries = programs()
    folder = Path(tempfile.mkdtemp(prefix="backfill-pg-")).resolve()
    run_as = _run_as(folder)
    cluster = folder / "cluster"
    chosen = {**SETTINGS, "unix_socket_directories": str(folder), **(settings or {})}
    options = " ".join(f"-c {name}='{value}'" for name, value in chosen.items())
    try:
        _run(
            [
                binaries / "initdb",
                "-D",
                cluster,
                "-U",
                "backfill",
                "--auth-local=trust",
                f"--auth-host={host_auth}",
                "--no-sync",
                "-E",
                "UTF8",
                "--locale=C",
            ],
            folder,
            run_as,
        )
        _run([binaries / "pg_ctl", "-D", cluster, "-w", "-l", folder / "log", "-o", options, "start"], folder, run_as)
        try:
            yield f"postgresql://backfill@/postgres?host={folder}"
        finally:
            if (cluster / "postmaster.pid").exists():  # a test may have killed it
                _run([binaries / "pg_ctl", "-D", cluster, "-w", "-m", "immediate", "stop"], folder, run_as)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run_as(folder: Path) -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    for name in SERVICE_USERS:
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        os.chown(folder, user.pw_uid, user.pw_gid)
        return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    raise NoPostgres(f"PostgreSQL does not run as root, and there is no user {' or '.join(SERVICE_USERS)}")


def _run(command: list[object], folder: Path, run_as: dict[str, Any]) -> None:
    log = folder / "output"
    # A file and not a pipe: the server inherits it, and a pipe would stay open for as long as the server runs.
    with log.open("w") as output:
        done = subprocess.run(
            [str(part) for part in command], cwd=folder, stdout=output, stderr=subprocess.STDOUT, check=False, **run_as
        )
    if done.returncode:
        raise NoPostgres(f"{command[0]} failed: {log.read_text().strip()}")
