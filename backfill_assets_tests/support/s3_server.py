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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from backfill_assets.examples.kafka_broker import cache

ACCESS_KEY = "tests-key-id"
SECRET_KEY = "tests-secret-that-nothing-may-show"
REGION = "us-east-1"
_START_S = 20.0


class NoStore(Exception):
    """There is no store on this machine, or it cannot be started; the message says which."""


@dataclass(slots=True, kw_only=True)
class Store:
    """A store on a port of its own."""

    port: int  #: Of loopback.
    folder: Path  #: Buckets are folders in it, objects files.
    command: Sequence[str]  #: What starts it.
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it, and waits until it answers.

        Raises:
            NoStore: It does not start.
        """
        keys = {"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY}
        log = self.folder.parent / "log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                self.command, stdout=output, stderr=subprocess.STDOUT, cwd=log.parent, env={**os.environ, **keys}
            )
        _await(self.port, self._process, log)

    def stop(self) -> None:
        """Kills it; what it holds stays."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    @property
    def endpoint(self) -> str:
        """Its URL."""
        return f"http://127.0.0.1:{self.port}"

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
def running_store(*options: str, folder: str | None = None) -> Iterator[Store]:
    """A running store, gone afterwards with everything in it.

    Args:
        options: Of the program, such as `--nometa`.
        folder: Where its objects are; by default where temporary files are.

    Raises:
        NoStore: There is none, or it does not start.
    """
    found = program()
    own = Path(tempfile.mkdtemp(prefix="backfill-s3-", dir=folder))
    buckets = own / "buckets"
    buckets.mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = ("--port", f"127.0.0.1:{port}", "--region", REGION, "--quiet")
    store = Store(port=port, folder=buckets, command=(str(found), *address, "posix", *options, str(buckets)))
    try:
        store.start()
        yield store
    finally:
        store.stop()
        shutil.rmtree(own, ignore_errors=True)


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
