"""A broker of Kafka on this machine, for `demo --source kafka` and for tests: fetched once, without replicas.

    python -m backfill_assets.examples.kafka_broker     fetches it

It listens on free ports of loopback, keeps its data in a temporary folder, and ends with the block that started it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from backfill_assets.core.errors import BackfillError, PackageMissing, sentence
from backfill_assets.core.progress import waiting
from backfill_assets.core.spark_server import free_port
from backfill_assets.report.errors import CannotUse

MODULES = Path(__file__).with_name("kafka_broker.pom.xml")
"""The modules that Maven fetches."""

STARTS_WITHIN_S = 180
CLUSTER_ID = "q1Sh-9_ISia_zwGINzRvyQ"

_META = f"version=1\nnode.id=1\ncluster.id={CLUSTER_ID}\ndirectory.id=IQSGdrylXp9hIDo4K1E9jQ\n"
_ONE = (
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
    "share.coordinator.state.topic.replication.factor",
    "offsets.topic.num.partitions",
    "transaction.state.log.num.partitions",
)
_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURED:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "auto.create.topics.enable": "false",
    **dict.fromkeys(_ONE, "1"),
}


@sentence
class NoBroker(BackfillError):
    """a broker of Kafka cannot be started: {why}."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningBroker:
    """A broker on loopback."""

    port: int  #: Where anybody may read and write.
    process: subprocess.Popen[bytes]  #: What was started.

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def stop(self) -> None:
        """Kills it."""
        self.process.kill()
        self.process.wait()


def cache() -> Path:
    """The folder of this user for files that are fetched once."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "backfill_assets"


def fetched(say: Callable[[str], None]) -> Path:
    """The folder of the broker's jars, which Maven fetches into the cache of this user if they are not there.

    Args:
        say: Told before something is fetched.

    Raises:
        CannotUse: Maven is not there.
        NoBroker: Maven could not fetch them.
    """
    jars = cache() / "kafka"
    mark, wanted = jars / "modules.sha256", hashlib.sha256(MODULES.read_bytes()).hexdigest()
    if mark.is_file() and mark.read_text(encoding="utf-8") == wanted:
        return jars
    maven = shutil.which("mvn")
    if maven is None:
        raise CannotUse(what="a broker of Kafka", why="mvn, which fetches it, is not there", instead="install Maven")
    say(f"Fetching a broker of Kafka with Maven into {jars}: 44 MB, once.")
    jars.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=jars.parent, prefix="kafka-") as folder:
        new = Path(folder, "kafka")
        asked = ("dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={new}")
        done = subprocess.run(  # noqa: S603 - a program of this machine, and paths of our own
            [maven, "-q", "-B", "-f", str(MODULES), *asked], capture_output=True, text=True, check=False
        )
        if done.returncode:
            said = (done.stdout + done.stderr).strip().splitlines()
            raise NoBroker(why=f"Maven could not fetch it: {said[0] if said else 'it says nothing'}".rstrip("."))
        (new / mark.name).write_text(wanted, encoding="utf-8")
        shutil.rmtree(jars, ignore_errors=True)
        new.rename(jars)
    return jars


@contextmanager
def running_broker(
    jars: Path, *, port: int = 0, listeners: Sequence[str] = (), settings: Mapping[str, str] | None = None
) -> Iterator[RunningBroker]:
    """A broker over a folder of its own while the block lasts.

    Args:
        jars: What `fetched` returns.
        port: Where it listens; 0 for any free one.
        listeners: Further ones, such as `SECURED://127.0.0.1:9093`.
        settings: Further settings.

    Raises:
        NoBroker: It does not start.
    """
    with tempfile.TemporaryDirectory(prefix="kafka-") as folder:
        port, controller = port or free_port(), free_port()
        held = Path(folder, "log")
        held.mkdir()
        (held / "meta.properties").write_text(_META, encoding="utf-8")
        where = [f"PLAINTEXT://127.0.0.1:{port}", f"CONTROLLER://127.0.0.1:{controller}", *listeners]
        own = {
            "listeners": ",".join(where),
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "log.dirs": str(held),
        }
        lines = (f"{name}={value}\n" for name, value in {**_SETTINGS, **own, **(settings or {})}.items())
        Path(folder, "server.properties").write_text("".join(lines), encoding="utf-8")
        java = ("java", "-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*")
        with Path(folder, "output").open("wb") as output:
            process = subprocess.Popen(  # noqa: S603 - the same
                [*java, "kafka.Kafka", str(Path(folder, "server.properties"))],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                start_new_session=True,
            )
        broker = RunningBroker(port=port, process=process)
        try:
            _await(broker, Path(folder, "output"))
            yield broker
        finally:
            broker.stop()


def _await(broker: RunningBroker, output: Path) -> None:
    try:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient
    except ModuleNotFoundError as error:
        raise PackageMissing(what="Kafka", package="confluent-kafka", extra="kafka") from error
    until = time.monotonic() + STARTS_WITHIN_S
    admin = AdminClient({"bootstrap.servers": broker.servers, "log_level": 0})
    with waiting(lambda: f"waiting until the Kafka broker, process {broker.process.pid}, answers"):
        while True:
            said = output.read_text(encoding="utf-8", errors="replace")[-2000:]
            if broker.process.poll() is not None:
                raise NoBroker(why=f"it ended: {said}")
            try:
                admin.list_topics(timeout=2)
            except KafkaException:
                if time.monotonic() > until:
                    raise NoBroker(why=f"it did not answer within {STARTS_WITHIN_S} s: {said}") from None
            else:
                return


if __name__ == "__main__":
    try:
        fetched(partial(print, file=sys.stderr))
    except BackfillError as error:
        sys.exit(error.message)
