"""Where does a real object store for the tests come from?

From `tools/setup.sh s3`, which builds versitygw through Go and fetches Spark's jars through Maven, both into a cache of
this user. A server of our own on a free port of loopback, over a temporary folder in which objects are plain files.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ACCESS_KEY = "tests-key-id"
SECRET_KEY = "tests-secret-that-nothing-may-show"
REGION = "us-east-1"
_START_S = 20.0


class NoStore(Exception):
    """There is no store on this machine, or it cannot be started; the message says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """A running store.

    Attributes:
        endpoint: Its URL.
        folder: Buckets are folders in it, objects files.
        process: It runs as this one.
    """

    endpoint: str
    folder: Path
    process: subprocess.Popen[bytes]

    @property
    def environment(self) -> Mapping[str, str]:
        """What tells a process how to reach it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_ALLOW_HTTP": "true",
        }

    def make_bucket(self, name: str) -> str:
        """A new bucket."""
        (self.folder / name).mkdir()
        return name


def cache() -> Path:
    """Where `tools/setup.sh s3` puts what it fetches."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "backfill_assets"


def program() -> Path:
    """The store's program.

    Raises:
        NoStore: It is not there.
    """
    found = cache() / "versitygw" / "versitygw"
    if not found.exists():
        raise NoStore("versitygw is not there; `tools/setup.sh s3` builds it, for which it needs Go")
    return found


def spark_jars() -> Path:
    """The folder of the jars by which Spark reads the store.

    Raises:
        NoStore: They are not there.
    """
    found = cache() / "spark-s3"
    if not list(found.glob("hadoop-aws-*.jar")):
        raise NoStore("Spark's jars for S3 are not there; `tools/setup.sh s3` fetches them, for which it needs Maven")
    return found


def jars_setting() -> tuple[str, ...]:
    """The setting by which Spark reads the store, where its jars are there."""
    try:
        return (f"spark.jars={','.join(str(jar) for jar in sorted(spark_jars().glob('*.jar')))}",)
    except NoStore:
        return ()


@contextmanager
def running_store(*options: str) -> Iterator[Store]:
    """A running store, gone afterwards with everything in it.

    Args:
        options: Of the program, such as `--nometa`.

    Raises:
        NoStore: There is none, or it does not start.
    """
    found = program()
    folder = Path(tempfile.mkdtemp(prefix="backfill-s3-"))
    buckets = folder / "buckets"
    buckets.mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    keys = {"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY}
    command = [
        str(found),
        "--port",
        f"127.0.0.1:{port}",
        "--region",
        REGION,
        "--quiet",
        "posix",
        *options,
        str(buckets),
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, cwd=folder, env={**os.environ, **keys}
        )
    try:
        _await(port, process, folder / "log")
        yield Store(endpoint=f"http://127.0.0.1:{port}", folder=buckets, process=process)
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _await(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + _START_S
    while time.monotonic() < until:
        if process.poll() is not None:
            break
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise NoStore(f"versitygw did not start: {log.read_text(errors='replace')[-500:].strip()}")
